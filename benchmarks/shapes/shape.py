"""What every shape of answer has: bodies, this library's decoder, the slow twin, and the peers' decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Decode = Callable[[bytes], Any]

SIX = 6
"""Series of every body."""


@attrs.frozen(eq=False)
class Columns:
    """What a contestant has made of a body: for each series its key and length, then all samples.

    Attributes:
        times: int64[N], ms since the epoch; None where the answer has none.
        values: float64[N], NaN where there is no value.
    """

    keys: tuple[Any, ...]
    lengths: tuple[int, ...]
    times: NDArray[np.int64] | None
    values: NDArray[np.float64]

    def check(self, expected: Columns, who: str) -> None:
        """Insist on the same keys, lengths and times, and on the same bits of every value.

        Raises:
            AssertionError: Something differs; says whose and what.
        """
        assert self.keys == expected.keys, f"{who}: keys"
        assert self.lengths == expected.lengths, f"{who}: lengths"
        assert (self.times is None) == (expected.times is None), f"{who}: times"
        if self.times is not None:
            assert self.times.dtype == np.int64, f"{who}: times"
            assert np.array_equal(self.times, expected.times), f"{who}: times"
        assert self.values.dtype == np.float64, f"{who}: values"
        assert np.array_equal(_bits(self.values), _bits(expected.values)), f"{who}: values"


def _bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Give the bits of each value; those of every NaN are the same, those of the two zeros are not."""
    return np.where(np.isnan(values), np.nan, values).view(np.int64)


@attrs.frozen
class More:
    """Something that does more than decoding.

    Attributes:
        run: Does it, from the bytes on.
        check: Compares what it has made with the slow twin's columns.
    """

    run: Decode
    check: Callable[[Any, Columns], None]


@attrs.frozen(kw_only=True)
class Shape:
    """One shape of answer, and who decodes it.

    Attributes:
        title: What it is.
        body: Makes the body of ``points`` samples a series, with ``digits`` decimals.
        ours: This library's decoder, as its providers call it.
        reference: The slow twin.
        columns: What ``ours`` and ``reference`` give, as columns.
        peers: Name to decoder, which gives the fields of ``Columns``, in a plain tuple.
        more: Name to what else this library does with a body; timed beside the rest.
        untraced: Peers that allocate where it can't be traced.
        digits: Decimals of the day-long bodies.
        gates: Peer to how many times faster ours must be, on the day-long bodies.
        small_gates: Likewise, on the small body.
    """

    title: str
    body: Callable[..., bytes]
    ours: Decode
    reference: Decode
    columns: Callable[[Any], Columns]
    peers: Mapping[str, Decode]
    more: Mapping[str, More] = attrs.field(factory=dict)
    untraced: frozenset[str] = frozenset()
    digits: tuple[int, ...] = (2,)
    gates: Mapping[str, float] = attrs.field(factory=dict)
    small_gates: Mapping[str, float] = attrs.field(factory=dict)

    def check(self, body: bytes, who: str) -> None:
        """Compare ours and every peer's columns with those of the slow twin.

        Raises:
            AssertionError: They are not the same; says whose.
        """
        expected = self.columns(self.reference(body))
        self.columns(self.ours(body)).check(expected, who)
        for more in self.more.values():
            more.check(more.run(body), expected)
        for peer, decode in self.peers.items():
            Columns(*decode(body)).check(expected, peer)
