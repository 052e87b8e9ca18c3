"""How fast one operation may be called: what was told of it, and what its answers teach. Pure: time is passed in.

A service is taken for a token bucket: tokens come in at its rate, a second's worth of them is kept, and each request
takes one. That makes three things sure, as long as the rate stays:

* what it accepted in any stretch of W seconds came in during W + 1 seconds at most: so the rate is at least that much;
* what it accepted from one refusal to the next, each of which finds the bucket empty, is the rate itself;
* whoever is refused may pause for a second and lose nothing: the tokens are kept meanwhile.

So the rate is known well after the first refusal and exactly after the second. From then on requests are spaced evenly,
a little faster than the service gives tokens, so that a refusal comes again after about ``_PROBE_S`` seconds or
``_PROBE_CALLS`` requests, whichever takes longer, and none would mean that the service has become faster. Nothing short
of a refusal tells that it has not, so there is no way with fewer.
"""

from __future__ import annotations

import math
from typing import Final

START_PER_S: Final = 20.0
"""Where an operation starts of which no limit is known."""

BURST_S: Final = 1.0
"""So many seconds' worth of requests a service is taken to let through at once."""

TIMER_S: Final = 0.001
"""Shorter waits are skipped: no timer is that exact. The slot stays taken, so the mean rate holds."""

_AT_ONCE: Final = 10
"""So many requests go at once to a service of which nothing is known (as many as RFC 6928 lets TCP begin with)."""

_ADMITTED: Final = 1.25
"""Each answer of such a service admits so many more."""

_ENOUGH: Final = 128
"""When so many are admitted that nobody sends, the service is taken to have no limit, until it refuses."""

_LATE_S: Final = 0.1
"""A sleeper that wakes late, but not later than this, does not put off those behind it."""

_LOWEST_PER_S: Final = 0.05
"""However much is refused, so often is asked."""

_LONGEST_HELD_S: Final = 3600.0
"""However long a pause a service asks for (years, where a clock or a proxy is wrong), then it is asked again."""

_PROBE_S, _PROBE_CALLS = 7.0, 66.0
"""So far apart are the refusals by which a learned rate is known to hold."""

_FIRST, _MORE = 0.6, 0.95
"""Of 1 / ``_PROBE_S``: how much faster than the learned rate it goes with a full bucket, and more with an empty one."""

_BRIM_S: Final = 1.25
"""So many seconds' worth beyond the learned rate, accepted, prove that it is too low."""

_SURGE: Final = 2.0
"""So many times the learned rate it goes while that is being proved too low."""

_UNTOUCHED: Final = 2
"""So many refusals without a reason in the rate make one hold it."""

_HELD_S: Final = 60.0
"""So long."""

_MORE_REFUSED: Final = 8
"""Unless so many more are refused then than let through."""

_WRONG: Final = 50
"""Where that was wrong, it takes so many more to hold one again."""

_STEPS: Final = 64
"""So many moments are remembered at most, from which what was accepted is counted."""


class _Doubt:
    """Doubts that refusals have to do with how fast one goes; else a few at random would lower the rate to nothing.

    A service that is a bucket refuses nobody who goes at a rate that it proved to have, unless the rate has fallen, and
    that does not happen time and again. So after ``_UNTOUCHED`` refusals that have no such reason the rate from before
    them is held for ``_HELD_S``, as long as not more is refused than let through.

    Args:
        rate: At first.

    Attributes:
        until: So long the rate is held, whatever is refused.
    """

    __slots__ = ("_before", "_bound", "_found", "_refused", "until")

    def __init__(self, rate: float) -> None:
        self.until = -math.inf
        self._before = rate
        self._bound = 0.0
        self._found = 0
        self._refused = 0

    def calm(self, rate: float, /) -> None:
        """Take note of a rate at which nothing was refused for long."""
        self._before = rate
        self._found = min(0, self._found)

    def ignores(self, now: float, accepted: int, /) -> bool:
        """Tell whether a refusal is to change nothing.

        Args:
            now: When it came.
            accepted: How many were let through since a refusal changed something.
        """
        if now >= self.until:
            return False
        self._refused += 1
        if self._refused <= accepted + _MORE_REFUSED:
            return True
        self.until, self._found = -math.inf, -_WRONG
        return False

    def least(self, now: float, rate: float, accepted: int, proved: float, /) -> float:
        """Give the rate that a refusal is no reason to go below; 0 where it may be one for any.

        Args:
            now: When it came.
            rate: Per second, at which requests were let go.
            accepted: How many were let through since the refusal before.
            proved: The rate which that proves.
        """
        # At the pace of a probe a bucket would have lasted longer; that of a slow service is empty at the least haste.
        lasts = min(_PROBE_CALLS / 4, 16 * (rate * BURST_S - 2))
        if rate <= self._bound * 1.001 and accepted < lasts:
            self._found += 1
            self._bound = proved
        else:
            self._bound = max(self._bound, proved)
        if self._found < _UNTOUCHED:
            return 0.0
        self._found, self._refused, self._bound = 0, 0, 0.0
        self.until = now + _HELD_S
        return self._before


class Throttle:
    """The rate of one operation, for everyone who calls it.

    Args:
        ceiling: Requests per second that are never exceeded; infinite for none; None where no limit is known, which
            begins carefully.

    Attributes:
        open: Whether nobody ever needs to wait, so that nothing needs to be asked.
        count: Requests that the service has let through.
    """

    __slots__ = (
        "_asked_until", "_at_once", "_ceiling", "_doubt", "_empty_at", "_empty_count", "_learned", "_least_s", "_marks",
        "_next", "_noticed", "_paused_until", "_searching", "_seen", "_slow", "_surging", "_used", "count", "open",
    )  # fmt: skip

    def __init__(self, ceiling: float | None) -> None:
        self.open = ceiling == math.inf
        self.count = 0
        self._ceiling = math.inf if ceiling is None else ceiling
        self._searching = ceiling is None
        self._at_once = float(_AT_ONCE if self._searching else 0)
        self._learned = START_PER_S if ceiling is None else ceiling
        self._next = -math.inf
        self._paused_until = -math.inf
        self._asked_until = -math.inf
        self._noticed: float | None = None
        self._empty_at = -math.inf
        self._empty_count = 0
        self._marks: list[tuple[float, int]] = []
        self._used = 0.0
        self._seen = 0.0
        self._surging = False
        self._doubt = _Doubt(min(self._learned, START_PER_S))
        self._least_s = math.inf
        self._slow = False

    @property
    def per_second(self) -> float:
        """The rate at which requests are let go now."""
        if self.open:
            return math.inf
        if self._searching or self._slow:
            return min(self._ceiling, self._learned)
        if self._surging:
            return min(self._ceiling, self._learned * _SURGE)
        probe_s = max(_PROBE_S, _PROBE_CALLS / self._learned)
        return min(self._ceiling, self._learned * (1 + (_FIRST + _MORE * self._used / self._learned) / probe_s))

    @property
    def sustained_per_second(self) -> float:
        """The rate that is known to hold: what was told or, where that is lower, learned; infinite where none is."""
        return math.inf if self.open or self._searching else min(self._ceiling, self._learned)

    def pause_s(self, now: float, /) -> float:
        """Give the seconds for which the service still asks nobody to send; 0 where it may be asked again before."""
        return self._asked_until - now if now < self._paused_until else 0.0

    def held_s(self, now: float, /) -> float:
        """Give the seconds for which nobody may send: fewer than the service asks for where it asks for very many."""
        return max(0.0, self._paused_until - now)

    def wait_s(self, now: float, /) -> float:
        """Give the seconds until the next request may be sent; no pause ends later."""
        return 0.0 if self.open or self._at_once >= 1 else max(0.0, self._next - now)

    def take(self, now: float, came: float, /) -> None:
        """Take the slot, whose time has come, for a request that has waited since ``came``."""
        if self.open:
            return
        if self._at_once >= 1:
            self._at_once -= 1
            due = now
        else:
            due = max(self._next, came, now - _LATE_S)
        self._next = due + 1 / self.per_second

    def lower(self, ceiling: float, /) -> None:
        """Take a lower ceiling; a higher one is not taken: whoever shares an account keeps to the strictest word."""
        if ceiling < self._ceiling:
            self._ceiling = ceiling
            self._learned = min(ceiling, math.inf if self.open or self._searching else self._learned)
            self.open = self._searching = False
            self._at_once = 0.0

    def mark(self, now: float, /) -> None:
        """Remember how much had been accepted by now."""
        self._marks.append((now, self.count - 1))
        if len(self._marks) > _STEPS:
            self._marks = self._marks[::2]

    def accepted(self, now: float, sent: float, /) -> None:
        """Learn from an answer, which came now, to a request that was sent then."""
        self.count += 1
        self.mark(now)
        self._slow = self._is_slow(now - sent)
        if self._searching:
            self._at_once += 1 if self._slow else _ADMITTED
            if self._at_once > _ENOUGH:
                self._searching, self.open = False, True
            return
        learned = self._learned
        self._used = max(0.0, self._used - (now - self._seen) * learned) + 1 if now > self._seen else self._used + 1
        self._seen = max(self._seen, now)
        if self.count - self._empty_count > _PROBE_CALLS:
            self._doubt.calm(learned)
        if now < self._doubt.until:
            return
        if self._used > learned * _BRIM_S:
            self._surging = not self._slow
            self._learned = min(self._ceiling, self._used / _BRIM_S)
            self._used = min(self._used, self._learned * _BRIM_S)
        elif self._used < learned * BURST_S / 2:
            self._surging = False

    def _is_slow(self, latency_s: float) -> bool:
        """Tell whether the service takes far longer than it did: more requests would not make it faster."""
        self._least_s = min(latency_s, self._least_s * 1.01 + 0.001)
        return latency_s > 4 * self._least_s + 0.25

    def refused(self, now: float, sent: float | None, hint_s: float | None, /) -> None:
        """Learn from a refusal; everyone pauses.

        Args:
            now: When it came.
            sent: When its request was sent; None where nobody looked, because nothing was held back then.
            hint_s: The wait that the service asks for, where it does.
        """
        if self._noticed is not None and (sent is None or sent <= self._noticed):  # of the same event
            self._pause(now, hint_s or 0.0)
            return
        since = self.count - self._empty_count
        if self._doubt.ignores(now, since):
            self._noticed = now
            if hint_s is not None and hint_s > BURST_S:
                self._pause(now, hint_s)
            return
        # Where nothing was known there is nothing to halve. A refusal may have another reason than the rate.
        least = START_PER_S if self.open or self._searching else max(self._learned / 2, _LOWEST_PER_S)
        learned = max(self._proved(now), least, self._doubt.least(now, self._learned, since, self._proved_since(now)))
        if self.open or self._searching:
            self._doubt.calm(learned)
        self._noticed = now
        self._empty_count = self.count
        self._marks.clear()
        self._learned = min(self._ceiling, learned)
        self._used = self._learned * BURST_S
        self.open = self._searching = self._surging = False
        self._at_once = 0.0
        self._pause(now, max(BURST_S, hint_s or 0.0))

    def _proved(self, now: float) -> float:
        """Give the highest rate that what was accepted proves."""
        rates = [(self.count - before) / (now - at + BURST_S) for at, before in self._marks]
        return max([*rates, self._proved_since(now)])

    def _proved_since(self, now: float) -> float:
        """Give the rate that what was accepted since the refusal before proves; 0 where there was none."""
        return (self.count - self._empty_count) / max(BURST_S, now - self._empty_at)

    def _pause(self, now: float, seconds: float) -> None:
        """Let nobody send for so long; the service's bucket is full then, where it was empty."""
        until = now + min(seconds, _LONGEST_HELD_S)
        if until > self._paused_until:
            self._paused_until, self._asked_until = until, now + seconds
            self._next = max(self._next, until)
            self._empty_at = self._seen = until - BURST_S
