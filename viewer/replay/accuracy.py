"""Pure: how late writes were: of one answer, and of all of a server's, in bounded memory."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil

_STEP_NS = 10_000
_MOST_STEPS = 100_000
"""Cap on counted lateness, one second: later writes count as one second late."""


@dataclass(slots=True)
class Lateness:
    """Counts of how late writes were, to 10 µs; `most_ns` is exact."""

    counts: Counter[int] = field(default_factory=Counter)
    most_ns: int = 0

    def add(self, other: "Lateness") -> None:
        """Count the writes that another has counted."""
        self.counts.update(other.counts)
        self.most_ns = max(self.most_ns, other.most_ns)

    def percentile(self, percent: float) -> int:
        """Return a percentile of the lateness of the writes, in ns."""
        steps = sorted(self.counts)
        reached = list(accumulate(self.counts[step] for step in steps))
        if not reached:
            return 0
        place = bisect_left(reached, ceil(reached[-1] * percent / 100))
        return min(steps[place] * _STEP_NS, self.most_ns)

    def __str__(self) -> str:
        found = [f"p{percent} {self.percentile(percent) / 1e6:.2f}" for percent in (50, 99)]
        return f"late {', '.join(found)}, at most {self.most_ns / 1e6:.2f} ms"


def of(late_ns: Sequence[int]) -> Lateness:
    """Return the lateness of one answer's writes; fast, because other answers wait for it."""
    most_ns = max(late_ns, default=0)
    steps = [-(-late // _STEP_NS) for late in late_ns]
    if most_ns > _STEP_NS * _MOST_STEPS:
        steps = [min(step, _MOST_STEPS) for step in steps]
    return Lateness(Counter(steps), most_ns)
