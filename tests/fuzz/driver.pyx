# cython: language_level=3
"""libFuzzer's loop around a Python callable; it is linked into the kernel that it drives."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.stdlib cimport abort

import sys
import traceback

cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>
    int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*once)(const uint8_t *, size_t));
    size_t __sanitizer_get_current_allocated_bytes(void);
    """
    int LLVMFuzzerRunDriver(int* count, char*** arguments, int (*once)(const uint8_t*, size_t) noexcept nogil)
    size_t __sanitizer_get_current_allocated_bytes()

cdef object _target = None


cdef int once(const uint8_t* data, size_t size) noexcept with gil:
    """Run the target on one input; what it raises is found, and ends all."""
    try:
        _target(PyBytes_FromStringAndSize(<const char*>data, size))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        abort()
    return 0


def drive(list arguments, target):
    """Run a target until libFuzzer's time is over; gives its exit code.

    Args:
        arguments: libFuzzer's, the first being the program's name.
        target: Takes ``bytes``.
    """
    global _target
    cdef char* given[64]
    cdef char** first = given
    cdef int count = len(arguments), i
    if count > 63:
        raise ValueError("more arguments than there is room for")
    for i in range(count):
        given[i] = arguments[i]
    given[count] = NULL
    _target = target
    return LLVMFuzzerRunDriver(&count, &first, <int (*)(const uint8_t*, size_t) noexcept nogil>once)


def allocated():
    """Give how many bytes are allocated."""
    return __sanitizer_get_current_allocated_bytes()
