"""Pure: counts, failures, TTFT and longest gaps of a run, in equal intervals of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wiretape.viewer.stats.summary import percentiles, without_nan

# From a second to a week, as clocks and calendars divide them: the borders of intervals are round times.
_STEPS_S: Final = (
    1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 28800, 43200,
    86400, 172800, 259200, 604800,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StartedExchanges:
    """Exchanges in columns: starts in s since the epoch, True for failed ones, and values in ms, NaN where unknown."""

    start_s: NDArray[np.int64]
    failed: NDArray[np.bool_]
    ttft_ms: NDArray[np.float64]
    max_gap_ms: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trend:
    """One value of each interval; the first begins at `start_s`, in s since the epoch, and each lasts `step_s`.

    Times are in ms, None in an interval without values.
    """

    start_s: int
    step_s: int
    n: Sequence[int]
    failed: Sequence[int]
    ttft_p50: Sequence[float | None]
    ttft_p95: Sequence[float | None]
    longest_gap: Sequence[float | None]


def trend(exchanges: StartedExchanges, room: int) -> Trend | None:
    """Return the trend of exchanges in at most `room` intervals; None if there are no exchanges."""
    if not len(exchanges.start_s):
        return None
    start, step_s, count = intervals(int(exchanges.start_s.min()), int(exchanges.start_s.max()), room)
    places = (exchanges.start_s - start) // step_s
    ttfts = [
        percentiles(values, (50, 95)) if len(values) else (None, None)
        for values in _by_place(exchanges.ttft_ms, places, count)
    ]
    return Trend(
        start,
        step_s,
        np.bincount(places, minlength=count).tolist(),
        np.bincount(places[exchanges.failed], minlength=count).tolist(),
        [median for median, _ in ttfts],
        [high for _, high in ttfts],
        [float(values.max()) if len(values) else None for values in _by_place(exchanges.max_gap_ms, places, count)],
    )


def _by_place(values: NDArray[np.float64], places: NDArray[np.int64], count: int) -> list[NDArray[np.float64]]:
    """Return the known values of each interval."""
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(1, count))
    return [without_nan(part) for part in np.split(values[order], ends)]


def intervals(first_s: int, last_s: int, room: int) -> tuple[int, int, int]:
    """Return the start of the first interval and an interval's length (s), and their number: at most `room`."""
    for step_s in (*_STEPS_S, *(_STEPS_S[-1] << doubled for doubled in range(1, 40))):
        local, utc = (datetime.fromtimestamp(first_s, zone).replace(tzinfo=None) for zone in (None, UTC))
        local_s = first_s + (local - utc) // timedelta(seconds=1)
        start = local_s // step_s * step_s - local_s + first_s
        if (count := (last_s - start) // step_s + 1) <= max(room, 1):
            return start, step_s, count
    return first_s, last_s - first_s + 1, 1
