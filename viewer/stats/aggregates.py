"""Pure: arrays of values in, the figures of a group out.

Percentiles are of type 7 (linear interpolation, numpy's default) unless another method is asked for: `inverse_cdf` is
the nearest rank, the smallest value up to which that share of the values lies; `mlperf` is the element that MLPerf's
load generator takes, of index int(n·p). The standard deviation is the population's. What has no values has no figures:
None, never 0.
How sure a difference is, is left to `intervals`; where the arrays come from, to `samples`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["linear", "inverse_cdf", "mlperf"]
Values = NDArray[Any]
"""One-dimensional, float64 or int64, without NaN."""

PERCENTILES: Final = (50, 90, 95, 99)
STATISTICS: Final = ("n", "mean", "std", "min", "p50", "p90", "p95", "p99", "max")
_BLOCK = 1 << 18


def figures(values: Values, method: Method = "linear") -> dict[str, float | None]:
    """Give the `STATISTICS` of values, in their unit; `n` counts them. The array is reordered in place."""
    n = len(values)
    if not n:
        return {name: 0 if name == "n" else None for name in STATISTICS}
    ranks = {percent: rank(n, percent, method) for percent in PERCENTILES}
    values.partition(sorted({0, n - 1, *(at for low, high, _ in ranks.values() for at in (low, high))}))
    mean = float(values.mean())
    shares = {f"p{percent}": _between(values, *place) for percent, place in ranks.items()}
    found = {"n": n, "mean": mean, "std": _deviation(values, mean), "min": float(values[0]), "max": float(values[-1])}
    return {name: (found | shares)[name] for name in STATISTICS}


def percentile(values: Values, percent: int, method: Method = "linear") -> float | None:
    """Give one percentile of values, in their unit; None if there are none."""
    if not len(values):
        return None
    low, high, weight = rank(len(values), percent, method)
    return _between(np.partition(values, sorted({low, high})), low, high, weight)


def rank(n: int, percent: int, method: Method = "linear") -> tuple[int, int, float]:
    """Say where a percentile of `n` ascending values is: between two indices, and how far from the first (0 to 1)."""
    match method:
        case "linear":
            low, rest = divmod((n - 1) * percent, 100)
            return low, min(low + 1, n - 1), rest / 100
        case "inverse_cdf":
            at = max(-(-n * percent // 100) - 1, 0)
        case "mlperf":
            at = min(n * percent // 100, n - 1)
    return at, at, 0.0


def _between(ordered: Values, low: int, high: int, weight: float) -> float:
    lower, higher = float(ordered[low]), float(ordered[high])
    return lower + (higher - lower) * weight


def _deviation(values: Values, mean: float) -> float:
    """Give the population's standard deviation; block by block, so that millions of values need no copy."""
    blocks = (values[at : at + _BLOCK] - mean for at in range(0, len(values), _BLOCK))
    return float(np.sqrt(sum(float(np.square(block).sum()) for block in blocks) / len(values)))


def moving(gaps: Values) -> Values:
    """Give the gaps above 0, those between reads: chunks of one read are 0 apart. `gaps` is reordered in place."""
    zeros = len(gaps) - np.count_nonzero(gaps)
    if 0 < zeros < len(gaps):
        gaps.partition(zeros)
    return gaps[zeros:]


def rates(outcomes: Mapping[str, int], after_2xx: Mapping[str, int]) -> dict[str, float | None]:
    """Give the rates of failure, in percent, from the count of each outcome, of all and of those with a 2xx status.

    An attempt is an exchange that has ended and is measured. It is cancelled if the client left before the stream was
    complete, and has failed if it neither is complete nor was cancelled. None where there was nothing to fail.
    """
    attempts, cancelled, failed = _counted(outcomes)
    attempts_2xx, cancelled_2xx, failed_2xx = _counted(after_2xx)
    return {
        "error_rate_pct": _percent(failed, attempts - cancelled),
        "error_rate_all_pct": _percent(failed, attempts),
        "stream_error_rate_pct": _percent(failed_2xx, attempts_2xx - cancelled_2xx),
        "cancel_rate_pct": _percent(cancelled, attempts),
    }


def trials(outcomes: Mapping[str, int]) -> tuple[int, int]:
    """Give how many attempts failed, and of how many that were not cancelled: the two sides of the error rate."""
    attempts, cancelled, failed = _counted(outcomes)
    return failed, attempts - cancelled


def _counted(outcomes: Mapping[str, int]) -> tuple[int, int, int]:
    attempts = sum(count for outcome, count in outcomes.items() if outcome != "open")
    cancelled = outcomes.get("client_closed", 0)
    return attempts, cancelled, attempts - cancelled - outcomes.get("complete", 0)


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def meeting(bounds: Iterable[tuple[Values, bool, float]], size: int) -> tuple[int, int, int]:
    """Count which of `size` exchanges meet every bound: how many do, how many do not, of how many it is not known.

    A bound is one value for each exchange (NaN: unknown), whether the limit is the highest allowed value or the lowest,
    and the limit, which is itself not allowed. One value that breaks its bound is enough, whatever is unknown besides.
    """
    broken, unknown = np.zeros(size, bool), np.zeros(size, bool)
    for values, is_highest, limit in bounds:
        unknown |= np.isnan(values)
        broken |= (values >= limit) if is_highest else (values <= limit)
    missed = int(broken.sum())
    doubtful = int((unknown & ~broken).sum())
    return size - missed - doubtful, missed, doubtful


def known(values: Values) -> Values:
    """Give the values that are known, as an array of its own."""
    return values[~np.isnan(values)]
