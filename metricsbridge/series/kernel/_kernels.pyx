# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: freethreading_compatible=True
"""The compiled kernel: bytes to columns and columns to a grid, each in one pass and without the GIL.

What it takes, it takes exactly as ``metricsbridge.series._reference_decode`` does. Whatever is malformed, not of the
schema's shape or very unusual it leaves alone (``read`` gives None): the slower decoder then finds what to say of it.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport INFINITY, NAN, isinf, rint
from libc.stdint cimport INT64_MIN, int64_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove, memset

import msgspec

ctypedef const unsigned char* Position

INTERFACE = 2
"""Counts the changes of what this module offers: a file that was built of older source is not used."""

include "machine.pxi"
include "numbers.pxi"
include "scan.pxi"
include "columns.pxi"
include "number_arrays.pxi"
include "observed.pxi"
include "sample_lists.pxi"
include "labelled_lists.pxi"
include "groups.pxi"
include "rows.pxi"
include "grid.pxi"
