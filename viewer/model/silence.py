"""Pure: for how long nothing has come of a stream."""

from dataclasses import dataclass
from typing import Final

from recorder.decode.stalls import Thresholds

SHORTEST_NS: Final = 500_000_000
"""A shorter silence is not shown: a recorder commits, and a screen looks, only so often."""


@dataclass(frozen=True, slots=True)
class Silence:
    """How long nothing has come; before the `first` byte, that is how long one has waited for it."""

    lasted_ns: int
    first: bool = False
    stalled: bool = False

    def __str__(self) -> str:
        return f"{'waiting' if self.first else 'silent'} for {self.lasted_ns / 1e9:.1f} s"


def silence(passed_ns: int, last_ns: int | None, limits: Thresholds) -> Silence | None:
    """Return the silence since the last read, None if it is too short."""
    lasted = passed_ns - (last_ns or 0)
    return Silence(lasted, last_ns is None, limits.is_stall(lasted)) if lasted >= SHORTEST_NS else None
