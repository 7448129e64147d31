"""Pure: how values are distributed, drawn with logarithmic buckets: 1, 2, 5, 10 and so on.

Latencies spread over orders of magnitude, and two humps (a cold and a warm start, one token and a whole read) that no
mean shows are seen at once. Zero has no logarithm and gets a line of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from viewer.stats.summary import Values

_STEPS: Final = (1, 2, 5)
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many values are at least `low` and below `high`; both 0: the values that are 0."""

    low: float
    high: float
    count: int


def buckets(values: Values) -> list[Bucket]:
    """Count non-negative values in buckets, ascending, from the first to the last that is not empty."""
    above = values[values > 0]
    zeros = len(values) - len(above)
    found = [Bucket(0, 0, zeros)] if zeros else []
    if not len(above):
        return found
    edges = _edges(float(above.min()), float(above.max()))
    counts = np.bincount(np.searchsorted(edges, above, "right") - 1, minlength=len(edges) - 1)
    return found + [Bucket(edges[at], edges[at + 1], int(count)) for at, count in enumerate(counts)]


def bar(count: int, most: int, width: int) -> str:
    """Draw a bar, `width` cells long for `most`, to an eighth of a cell; what is not 0 is never invisible."""
    eighths = max(round(8 * width * count / most), 1) if count else 0
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip(" ")


def lines(values: Values, unit: str, width: int) -> Iterator[str]:
    """Draw values of a unit, one line for each bucket, at most `width` cells long where that is possible."""
    found = buckets(values)
    if not found:
        return
    labels = [_label(bucket) for bucket in found]
    most = max(bucket.count for bucket in found)
    room = max(width - max(map(len, labels)) - len(unit) - len(f"{most:,}") - 3, 8)
    for label, bucket in zip(labels, found, strict=True):
        count = f"{bucket.count:,}"
        yield f"{label:>{max(map(len, labels))}} {unit} {count:>{len(f'{most:,}')}} {bar(bucket.count, most, room)}"


def _edges(least: float, most: float) -> list[float]:
    decades = range(int(np.floor(np.log10(least))) - 1, int(np.floor(np.log10(most))) + 2)
    edges = [float(f"{step}e{decade}") for decade in decades for step in _STEPS]
    first = max(at for at, edge in enumerate(edges) if edge <= least)
    last = min(at for at, edge in enumerate(edges) if edge > most)
    return edges[first : last + 1]


def _label(bucket: Bucket) -> str:
    return f"{bucket.low:,g} – {bucket.high:,g}" if bucket.high else "0"
