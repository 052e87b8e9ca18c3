"""What is fuzzed of the readers: what the kernel takes of documents, the others take likewise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from core.series_strategies import same_bits
from metricsbridge.series import _kernel
from metricsbridge.series._reference_decode import (
    decode_all_number_arrays_reference,
    decode_labelled_lists_reference,
    decode_number_arrays_reference,
    decode_rows_reference,
    decode_sample_lists_reference,
)
from metricsbridge.series.decode import ManyArrays, NumberArrays, decode_all_number_arrays, decode_number_arrays
from metricsbridge.series.matrices import LabelledLists, decode_labelled_lists
from metricsbridge.series.samples import Rows, SampleLists, decode_rows, decode_sample_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONG: Final = 0x80
"""Of an input's first byte: white space stands before the document, which is then read without the GIL."""

_WHITE: Final = b" " * 5000


@attrs.frozen
class Reader:
    """A target: what an input's first byte selects of the schemas reads what follows it.

    Attributes:
        decode: What is tested.
        twin: The slow twin, which says what is right.
        schemas: At most 128.
    """

    decode: Callable[[bytes, Any], Any]
    twin: Callable[[bytes, Any], Any]
    schemas: Sequence[Any]

    def input_of(self, index: int, body: bytes, *, long: bool = False) -> bytes:
        """Give the input that stands for a document and a schema."""
        return bytes([index | (_LONG if long else 0)]) + body

    def split(self, data: bytes) -> tuple[bytes, Any]:
        """Give document and schema of an input."""
        first = data[0] if data else 0
        body = data[1:]
        return (_WHITE + body if first & _LONG else body), self.schemas[first % _LONG % len(self.schemas)]

    def __call__(self, data: bytes) -> bool:
        """Tell whether the kernel takes a document.

        Raises:
            AssertionError: It does, and not as the slow twin or the decoder without the kernel.
            DecodeError: It does, and they do not.
        """
        body, schema = self.split(data)
        if _kernel.read(body, schema) is None:
            return False
        found = self.decode(body, schema)
        for name, other in (("the slow twin", self.twin), ("the decoder without the kernel", self._without_kernel)):
            wanted = other(body, schema)
            assert same(found, wanted), f"{schema}\n{body.removeprefix(_WHITE)!r}\nkernel: {found}\n{name}: {wanted}"
        return True

    def _without_kernel(self, body: bytes, schema: Any) -> Any:
        kept, _kernel.COMPILED = _kernel.COMPILED, None
        try:
            return self.decode(body, schema)
        finally:
            _kernel.COMPILED = kept


def same(left: Any, right: Any) -> bool:
    """Tell whether two results are the same in all their members: numbers bit for bit, any NaN being like another."""
    return all(
        _same_member(getattr(left, field.name), getattr(right, field.name)) for field in attrs.fields(type(right))
    )


def _same_member(left: Any, right: Any) -> bool:
    if isinstance(right, np.ndarray | float):
        return left is not None and same_bits(np.asarray(left), np.asarray(right))
    return type(left) is type(right) and bool(left == right)


def _many(body: bytes, schema: NumberArrays) -> ManyArrays:
    return decode_all_number_arrays([body, body], schema, empty=schema.missing is None)


def _many_reference(body: bytes, schema: NumberArrays) -> ManyArrays:
    return decode_all_number_arrays_reference([body, body], schema, empty=schema.missing is None)


READERS: Final = {
    "number-arrays": Reader(
        decode_number_arrays,
        decode_number_arrays_reference,
        (
            NumberArrays(series="metrics", name="metric", values="value", missing=-1.0),
            NumberArrays(series="metrics", name="metric", values="value", text=True, doubtful="0", interval="interval"),
            NumberArrays(series="metrics", missing=-1.0, text=True, doubtful="0", interval="interval"),
            NumberArrays(missing=-1.0, text=True, doubtful="NaN", interval="interval"),
            NumberArrays(series="metrics", missing=0.0),
            NumberArrays(),
            NumberArrays(series="metrics", name="metric", values="value", interval="interval"),
            NumberArrays(series="é", name="名", values="\U0001f600", text=True, doubtful=""),
        ),
    ),
    "many-arrays": Reader(
        _many,
        _many_reference,
        (
            NumberArrays(series="metrics", name="metric", values="value", missing=-1.0),
            NumberArrays(series="metrics", name="metric", values="value", missing=0.0),
            NumberArrays(series="metrics", name="metric", values="value"),
            NumberArrays(series="é", name="名", values="\U0001f600", missing=1.5),
        ),
    ),
    "sample-lists": Reader(
        decode_sample_lists,
        decode_sample_lists_reference,
        (
            SampleLists(series="PodMetrics", name="PodId", samples="Metrics", time="Time", value="Value"),
            SampleLists(series="s", name="n", samples="m", time="t", value="v"),
            SampleLists(series="é", name="名", samples="m", time="時", value="\U0001f600"),
        ),
    ),
    "labelled-lists": Reader(
        decode_labelled_lists,
        decode_labelled_lists_reference,
        (
            LabelledLists(
                holder="data", series="result", labels="metric", samples="values", warnings="warnings", blank_from=1e300
            ),
            LabelledLists(
                holder="data", series="result", labels="metric", samples="value", single=True, warnings="warnings"
            ),
            LabelledLists(holder="h", series="s", labels="l", samples="v", blank_from=0.0),
            LabelledLists(holder="é", series="名", labels="l", samples="v", warnings="w"),
        ),
    ),
    "rows": Reader(
        decode_rows,
        decode_rows_reference,
        (
            Rows(time="timestamp", values=("Value", "Average", "Maximum"), numbered=frozenset({"gpu", "index"})),
            Rows(time="t", values=("v",)),
            Rows(time="時", values=("é", "v"), numbered=frozenset({"g", "名"})),
            Rows(time="t", values=()),
        ),
    ),
}
