"""Pure: for how long nothing has come at a position of a stream, and how far one that still runs has got, by the clock
of this machine.

Its reads have their instants from the tape; what has passed since the last one only a clock can tell. A tape that is
written to cannot be read from another machine, so that this clock is its recorder's. No instant here is before the last
read's, whatever becomes of the wall clock.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from operator import sub
from typing import Final

from recorder.clock import Clock

TOLD_NS: Final = 500_000_000
"""A shorter silence is not worth telling: a recorder commits, and a screen looks, only so often."""


@dataclass(frozen=True, slots=True)
class Silence:
    """How long nothing has come; before the `first` byte, that is how long one has waited for it."""

    lasted_ns: int
    first: bool = False
    stalled: bool = False

    def __str__(self) -> str:
        return f"{'waiting' if self.first else 'silent'} for {self.lasted_ns / 1e9:.1f} s"


class Stopwatch:
    """Counts from T0 of an exchange that began at `started_at`, a wall time as on the tape. Raises `ValueError`."""

    def __init__(self, started_at: str, clock: Clock) -> None:
        self._clock = clock
        started_ns = round(datetime.fromisoformat(started_at).timestamp() * 1_000_000) * 1000
        self._began_ns = clock.now() - (clock.wall_ns() - started_ns)

    def passed_ns(self, last_ns: int) -> int:
        """Give the time since T0; `last_ns` is the instant of what came last."""
        return max(self._clock.now() - self._began_ns, last_ns)


def at(reads_at: Sequence[int], at_ns: int, stall_ns: int) -> Silence | None:
    """Return the silence that a timestamp lies in: since the last of the ascending `reads_at` before it."""
    before = bisect_right(reads_at, at_ns)
    return silence(at_ns, reads_at[before - 1] if before else None, stall_ns)


def longest_ns(reads_at: Sequence[int], end_ns: int) -> int:
    """Return the longest time in which nothing came: before the first read, between two reads, or before the end."""
    if not len(reads_at):
        return end_ns
    between = max(map(sub, islice(reads_at, 1, None), reads_at), default=0)
    return max(reads_at[0], between, end_ns - reads_at[-1])


def silence(passed_ns: int, last_ns: int | None, stall_ns: int) -> Silence | None:
    """Return the silence since the last read, None if it is not worth telling; from `stall_ns` on it is a stall."""
    lasted = passed_ns - (last_ns or 0)
    return Silence(lasted, last_ns is None, lasted >= stall_ns) if lasted >= TOLD_NS else None
