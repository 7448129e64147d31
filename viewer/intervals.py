"""Pure: how sure a difference between two groups is.

Percentiles and means are compared by the bootstrap: what difference would come of it if both groups were drawn again
from themselves? Shares are compared by Newcombe's interval (Statistics in Medicine 17, 1998, method 10), which is built
on Wilson's and holds for small groups and for shares of 0. Several intervals hold together at the level that a joint
bootstrap gives (max-t, with Gaussian multipliers: Chernozhukov, Chetverikov and Kato, Annals of Statistics 41, 2013):
metrics that go together need hardly more than one of them alone. Everything random has a seed.
"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from viewer.aggregates import Values, rank

RESAMPLES = 10_000
_BLOCK = 1 << 22

_JOINT_DRAWS = 20_000

Interval = tuple[float, float]
Matrix = NDArray[np.float64]


def difference(base: Values, new: Values, percent: int | None, level: float = 0.95, seed: int = 0) -> Interval:
    """Give the bootstrap interval of the difference, new − base, of a percentile, or of the mean if `percent` is None.

    `level` is the share of resamples within it. Both groups need at least one value.
    """
    random = np.random.default_rng(seed)
    drawn = resampled(new, percent, random) - resampled(base, percent, random)
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def resampled(values: Values, percent: int | None, random: Generator) -> NDArray[np.float64]:
    """Give the statistic of `RESAMPLES` groups of the same size, drawn from `values` with replacement."""
    return _means(values, random) if percent is None else _percentiles(np.sort(values), percent, random)


def _percentiles(ordered: Values, percent: int, random: Generator) -> NDArray[np.float64]:
    """Draw only the two values between which the percentile of a resample is, instead of all of them.

    A resample is `ordered[floor(n·u)]` for n uniform u, so its k-th value is that of the k-th u, which is distributed
    as Beta(k, n − k + 1); the next u lies above it as the least of the n − k that are left.
    """
    n = len(ordered)
    low, high, weight = rank(n, percent)
    first = random.beta(low + 1, n - low, RESAMPLES)
    second = first + (1 - first) * random.beta(1, n - low - 1, RESAMPLES) if high > low else first
    lower, higher = (ordered[np.minimum((u * n).astype(np.int64), n - 1)] for u in (first, second))
    drawn: NDArray[np.float64] = lower + (higher - lower) * weight
    return drawn


def _means(values: Values, random: Generator) -> NDArray[np.float64]:
    n = len(values)
    rows = max(_BLOCK // n, 1)
    blocks = [min(rows, RESAMPLES - at) for at in range(0, RESAMPLES, rows)]
    return np.concatenate([values[random.integers(0, n, (size, n))].mean(axis=1) for size in blocks])


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
