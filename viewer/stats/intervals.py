"""Pure: how sure a difference between two groups is.

A percentile has a standard error from the values around it (McKean and Schrader, Communications in Statistics B 13,
1984), and an interval is so many of them to both sides. Shares are compared by Newcombe's interval (Statistics in
Medicine 17, 1998, method 10), which is built on Wilson's and holds for small groups and for shares of 0. How wide
several intervals must be to hold together, a joint bootstrap says (max-t, with Gaussian multipliers: Chernozhukov,
Chetverikov and Kato, Annals of Statistics 41, 2013): metrics that go together need hardly more than one of them alone.
Everything random has a seed.
"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from viewer.stats.aggregates import Values, rank

_ALONE = 1.96
"""From how far around a percentile, in standard errors of its rank, its standard error is taken: 95 %."""
_JOINT_DRAWS = 20_000

Interval = tuple[float, float]
Matrix = NDArray[np.float64]


def difference(base: Values, new: Values, percent: int, level: float = 0.95) -> Interval:
    """Return the interval of the difference, new − base, of a percentile. Both groups need at least one value.

    It holds at least what the values around each percentile leave open at 95 %: where these are in two clusters with
    the percentile between them, a standard error says too little.
    """
    (before, low_0, high_0), (after, low_1, high_1) = (_estimate(np.sort(values), percent) for values in (base, new))
    z = NormalDist().inv_cdf((1 + level) / 2)
    reach = z / (2 * _ALONE) * float(np.hypot(high_0 - low_0, high_1 - low_1))
    below = max(reach, float(np.hypot(after - low_1, high_0 - before)))
    above = max(reach, float(np.hypot(high_1 - after, before - low_0)))
    return after - before - below, after - before + above


def _estimate(ordered: Values, percent: int) -> tuple[float, float, float]:
    """Return a percentile of ascending values, and the values `_ALONE` standard errors of its rank below and above."""
    n, share = len(ordered), percent / 100
    low, high, weight = rank(n, percent)
    estimate = float(ordered[low] + (ordered[high] - ordered[low]) * weight)
    around = _ALONE * float(np.sqrt(n * share * (1 - share)))
    below, above = (_between(ordered, n * share - 0.5 + side * around) for side in (-1, 1))
    below, above = _beyond_ties(ordered, below, above)
    return estimate, min(below, estimate), max(above, estimate)


def _between(ordered: Values, place: float) -> float:
    """Return the value at a place from 0 to the last, between two values where it is no whole number."""
    place = min(max(place, 0.0), len(ordered) - 1.0)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def _beyond_ties(ordered: Values, below: float, above: float) -> tuple[float, float]:
    """Widen a span whose ends are tied to the next other values: how far apart ties would be is not known."""
    first, last = np.searchsorted(ordered, below, "left"), np.searchsorted(ordered, above, "right")
    if first > 0 and np.searchsorted(ordered, below, "right") - first > 1:
        below = float(ordered[first - 1])
    if last < len(ordered) and last - np.searchsorted(ordered, above, "left") > 1:
        above = float(ordered[last])
    return below, above


def joint_level(correlations: Sequence[Matrix], level: float = 0.95, seed: int = 0) -> float:
    """Return the level that each of several intervals needs, so that at `level` all of them hold together.

    Each of `correlations` is that of some statistics, which do not go together with those of the others. A draw of the
    joint bootstrap gives every statistic its deviation from the truth in units of its own standard error; the largest
    of a draw is beyond the intervals in 1 − `level` of them.
    """
    if sum(map(len, correlations)) < 2:
        return level
    random = np.random.default_rng(seed)
    largest = np.zeros(_JOINT_DRAWS)
    for correlation in correlations:
        if len(correlation):
            variances, axes = np.linalg.eigh(correlation)
            root = axes * np.sqrt(np.maximum(variances, 0.0))
            drawn = np.abs(random.standard_normal((_JOINT_DRAWS, len(root))) @ root.T)
            largest = np.maximum(largest, drawn.max(axis=1))
    return 2 * NormalDist().cdf(float(np.quantile(largest, level))) - 1


def percentile_covariance(columns: Sequence[Values], percents: Sequence[int]) -> Matrix:
    """Return the covariance of the percentiles of columns of the same rows, each in units of its own density.

    NaN is a row that a column does not have. How a percentile deviates goes with the share of rows below it, and so do
    percentiles of different columns: what they have in common is the rows that are below both.
    """
    scores = np.zeros((len(columns), len(columns[0]) if columns else 0))
    for score, column, percent in zip(scores, columns, percents, strict=True):
        has = ~np.isnan(column)
        values = column[has]
        low, _, _ = rank(len(values), percent)
        below = (values <= np.partition(values, low)[low]).astype(np.float64)
        score[has] = (below - below.mean()) / len(values)
    covariance: Matrix = scores @ scores.T
    return covariance


def nested_correlation(trials: Sequence[tuple[int, int]]) -> Matrix:
    """Return the correlation of shares of failures; each is how many failed, and of how many.

    Each is of a part of another's trials, and all that the part leaves out have failed.
    """
    shares = np.array([(failed + 0.5) / (n + 1) for failed, n in trials])
    variances = np.array([n for _, n in trials]) * shares * (1 - shares)
    found: Matrix = np.sqrt(np.minimum.outer(variances, variances) / np.maximum.outer(variances, variances))
    return found


def correlation_of(covariance: Matrix) -> Matrix:
    """Return the correlation of a covariance, without the statistics that do not vary."""
    varies = np.diagonal(covariance) > 0
    kept = covariance[np.ix_(varies, varies)]
    deviations = np.sqrt(np.diagonal(kept))
    correlation: Matrix = kept / np.outer(deviations, deviations)
    return correlation


def wilson(count: int, n: int, level: float = 0.95) -> Interval:
    """Give Wilson's interval of a share, 0 to 1, of which `count` of `n` were seen; `n` is at least 1."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle = (count + z * z / 2) / (n + z * z)
    reach = z / (n + z * z) * float(np.sqrt(count * (n - count) / n + z * z / 4))
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def share_difference(base: tuple[int, int], new: tuple[int, int], level: float = 0.95) -> Interval:
    """Give Newcombe's interval of the difference of two shares, new − base; each is a count and of how many."""
    (low_0, high_0), (low_1, high_1) = wilson(*base, level), wilson(*new, level)
    share_0, share_1 = base[0] / base[1], new[0] / new[1]
    middle = share_1 - share_0
    low = middle - float(np.hypot(share_1 - low_1, high_0 - share_0))
    return low, middle + float(np.hypot(high_1 - share_1, share_0 - low_0))
