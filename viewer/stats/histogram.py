"""Pure: values counted in logarithmic buckets (1, 2, 5, 10 and so on).

Latencies spread over orders of magnitude. A histogram shows two peaks (a cold and a warm start, one token and a whole
read) that a mean hides. Zero has its own bucket.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_STEPS: Final = (1, 2, 5)
EDGES: Final = tuple(float(f"{step}e{decade}") for decade in range(-9, 16) for step in _STEPS)
"""The borders of the buckets; values beyond the first or the last are counted in the bucket next to them."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The count of values from `low` to below `high`; both are 0 for the values that are 0."""

    low: float
    high: float
    count: int


def buckets(values: NDArray[Any]) -> list[Bucket]:
    """Count non-negative values in buckets, ascending, from the first to the last that is not empty."""
    above = values[values > 0]
    places = np.clip(np.searchsorted(EDGES, above, "right") - 1, 0, len(EDGES) - 2)
    counts = np.bincount(places, minlength=len(EDGES) - 1)
    return filled(len(values) - len(above), counts.tolist())


def filled(zeros: int, counts: Sequence[int]) -> list[Bucket]:
    places = [place for place, count in enumerate(counts) if count]
    between = range(places[0], places[-1] + 1) if places else range(0)
    zero = [Bucket(0, 0, zeros)] if zeros else []
    return zero + [Bucket(EDGES[at], EDGES[at + 1], counts[at]) for at in between]
