"""Pure: a histogram with exponential buckets, as OpenTelemetry's data model defines it.

A bucket `i` holds values above `base ** i` and not above `base ** (i + 1)`, where base is `2 ** (2 ** -scale)`. The
scale is the finest at which all values fit into `MOST_BUCKETS`; a finer one is merged into the next, exactly.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import fsum
from typing import Final

MOST_BUCKETS: Final = 160
FINEST: Final = 20
"""The scale of a histogram of values that are all alike."""


@dataclass(slots=True)
class ExponentialHistogram:
    """Values of 0 and above, counted; `min` and `max` are None as long as there are none.

    `counts` has the number of values by bucket, without empty ones.
    """

    scale: int = FINEST
    count: int = 0
    zeros: int = 0
    sum: float = 0.0
    min: float | None = None
    max: float | None = None
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, values: Iterable[float]) -> None:
        """Count values; one below 0, which no time and no number of tokens is, counts as 0."""
        known = [max(value, 0) for value in values]
        if not known:
            return
        self.count += len(known)
        self.sum += fsum(known)
        self.min = min(known) if self.min is None else min(self.min, *known)
        self.max = max(known) if self.max is None else max(self.max, *known)
        places = Counter(self._place(value) for value in known if value > 0)
        self.zeros += len(known) - places.total()
        self.counts = dict(Counter(self.counts) + places)
        self._fit()

    @property
    def offset(self) -> int:
        """The number of the first bucket in `buckets`."""
        return min(self.counts, default=0)

    @property
    def buckets(self) -> list[int]:
        """The number of values in each bucket, from the first to the last that has any."""
        return [self.counts.get(place, 0) for place in range(self.offset, max(self.counts, default=-1) + 1)]

    def _place(self, value: float) -> int:
        return math.ceil(math.ldexp(math.log2(value), self.scale)) - 1

    def _fit(self) -> None:
        if not self.counts:
            return
        first, last, shift = min(self.counts), max(self.counts), 0
        while (last >> shift) - (first >> shift) >= MOST_BUCKETS:
            shift += 1
        if shift:
            self.scale -= shift
            merged = Counter[int]()
            for place, count in self.counts.items():
                merged[place >> shift] += count
            self.counts = dict(merged)
