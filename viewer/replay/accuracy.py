"""Pure: how late writes were: of one answer, and of all of a server's, in bounded memory."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil

_STEP_NS = 10_000
_MOST_STEPS = 100_000
"""What is later than a second counts as one."""


@dataclass(slots=True)
class Lateness:
    """Counts of how late writes were, to 10 µs; `most_ns` is exact."""

    counts: Counter[int] = field(default_factory=Counter)
    most_ns: int = 0

    def add(self, late_ns: Iterable[int]) -> None:
        """Count writes."""
        for late in late_ns:
            self.counts[min(-(-late // _STEP_NS), _MOST_STEPS)] += 1
            self.most_ns = max(self.most_ns, late)

    def percentile(self, percent: float) -> int:
        """Return how late so many percent of the writes were at most, ns."""
        steps = sorted(self.counts)
        reached = list(accumulate(self.counts[step] for step in steps))
        if not reached:
            return 0
        place = bisect_left(reached, ceil(reached[-1] * percent / 100))
        return min(steps[place] * _STEP_NS, self.most_ns)

    def __str__(self) -> str:
        found = [f"p{percent} {self.percentile(percent) / 1e6:.2f}" for percent in (50, 99)]
        return f"late {', '.join(found)}, at most {self.most_ns / 1e6:.2f} ms"


def of(late_ns: Iterable[int]) -> Lateness:
    """Return how late the writes of one answer were."""
    lateness = Lateness()
    lateness.add(late_ns)
    return lateness
