"""Pure: two exchanges side by side, and the differences between two groups of them with their confidence.

Each row of a comparison of groups has an interval for the difference, new − base. The intervals of one comparison hold
together: a joint bootstrap gives the level that each of them needs, so that of 100 comparisons of equals about 5 find
any difference at all. Gaps within one exchange are correlated, so they are compared by each exchange's own figures,
never pooled.

A percentile has a standard error from the values around it (McKean and Schrader, Communications in Statistics B 13,
1984), and an interval extends a multiple of it to both sides. Shares are compared by Newcombe's interval (Statistics in
Medicine 17, 1998, method 10), which is built on Wilson's and holds for small groups and for shares of 0. A joint
bootstrap (max-t, with Gaussian multipliers: Chernozhukov, Chetverikov and Kato, Annals of Statistics 41, 2013) sets the
width of simultaneous intervals: for correlated metrics they are hardly wider than for a single one. Everything random
has a seed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wiretape.viewer.record.rows import DetailRow, TableRow, value
from wiretape.viewer.stats.metrics import QUANTITIES
from wiretape.viewer.stats.summary import AttemptCounts, Sample, Values, field_name, percentiles, without_nan

LEAST: Final = 20
"""Fewest values of a side for a verdict; a percentile also needs 5 values beyond it."""

FIELDS: Final = {
    "metric": "name of the compared metric, which ends in its unit",
    "base_n": "values of the base group",
    "new_n": "values of the new group",
    "base": "the metric of the base group",
    "new": "the metric of the new group",
    "difference": "new − base",
    "change_pct": "the difference in percent of the base",
    "low": "lower end of the interval of the difference, in the unit of the metric",
    "high": "upper end of the interval",
    "verdict": "better, worse, or not clearly different: the new group compared with the base",
}
"""The fields of a comparison of groups, with their meanings."""

IMPORTANT: Final = ("metric", "verdict", "difference", "base", "new", "low", "high", "new_n", "base_n", "change_pct")
"""The fields of a comparison of groups, the most important first."""

PAIR_FIELDS: Final = {
    "metric": "name of the compared value, which ends in its unit",
    "a": "of the first exchange",
    "b": "of the second exchange",
    "difference": "b − a",
    "change_pct": "the difference in percent of a",
}
"""The fields of a comparison of two exchanges, with their meanings."""

PAIR_IMPORTANT: Final = ("metric", "difference", "a", "b", "change_pct")
"""The fields of a comparison of two exchanges, the most important first."""

BETTER: Final = "new is better"
WORSE: Final = "new is worse"
UNCLEAR: Final = "no clear difference"
TOO_FEW: Final = "too few"

_PERCENTS: Final = (50, 95)
PAIRED: Final = (
    "started_at", "model", "upstream", "status", "outcome", "outcome_detail", "error_code", "finish_reason", "ttfb_ms",
    "ttfc_ms", "ttft_ms", "ttfo_ms", "thinking_ms", "ttst_ms", "latency_ms", "duration_ms", "tpot_ms", "tps_user",
    "icl_mean_ms", "icl_p50_ms", "icl_p90_ms", "icl_p99_ms", "icl_max_ms", "max_gap_ms", "max_silence_ms",
    "server_queue_ms", "server_prefill_ms", "server_decode_ms", "server_total_ms", "network_ms",
    "coalesced_fraction", "input_tokens", "output_tokens", "reasoning_tokens", "tokens_per_chunk", "reads", "events",
    "output_chunks", "bytes", "flags",
)  # fmt: skip
_ALONE: Final = 1.96
"""Distance in standard errors of a percentile's rank at which its standard error is estimated: 95 %."""
# With so many draws, the share beyond the 95 % quantile has a standard error of 0.15 percentage points.
_JOINT_DRAWS: Final = 20_000

Interval = tuple[float, float]
Matrix = NDArray[np.float64]


def pair(a: DetailRow, b: DetailRow) -> list[TableRow]:
    """Compare two exchanges, field by field: numbers also by their difference, b − a."""
    nothing: TableRow = {"difference": None, "change_pct": None}
    sides = ((name, value(a, name), value(b, name)) for name in PAIRED)
    return [
        {"metric": name, "a": a_value, "b": b_value, **(nothing if name == "status" else change(a_value, b_value))}
        for name, a_value, b_value in sides
    ]


def groups(base: Sample, new: Sample, seed: int = 0) -> list[TableRow]:
    """Compare two groups, metric by metric, with intervals that hold together at `_LEVEL`."""
    percentiles = [
        _Percentile(
            field_name(quantity, f"p{percent}"),
            quantity.low_is_good,
            percent,
            (base.columns[quantity.name][base.measured], new.columns[quantity.name][new.measured]),
        )
        for quantity in QUANTITIES.values()
        if quantity.column is not None
        for percent in _PERCENTS
    ]
    rates = []
    for name, outcomes in (("error_rate", "outcomes"), ("stream_error_rate", "after_2xx")):
        sides = [AttemptCounts.of(getattr(sample, outcomes)) for sample in (base, new)]
        rates.append(_Rate(f"{name}_pct", *((side.failed, side.judged) for side in sides)))
    judged = [percentile for percentile in percentiles if not percentile.too_few]
    percents = [percentile.percent for percentile in judged]
    base_covariance, new_covariance = (
        percentile_covariance([percentile.columns[side] for percentile in judged], percents) for side in (0, 1)
    )
    trials = [(rate.base[0] + rate.new[0], rate.base[1] + rate.new[1]) for rate in rates if not rate.too_few]
    # Percentiles are those of complete exchanges, and rates count the others, so that both are independent.
    level = joint_level([correlation_of(base_covariance + new_covariance), nested_correlation(trials)], 0.95, seed)
    return [*(percentile.row(level) for percentile in percentiles), *(rate.row(level) for rate in rates)]


def exit_code(compared: Iterable[TableRow]) -> int:
    """Return 3 if anything got worse beyond doubt, else 4 if all values are too few to tell, else 0."""
    verdicts = {row["verdict"] for row in compared}
    return 3 if WORSE in verdicts else 4 if verdicts <= {TOO_FEW} else 0


@dataclass(frozen=True, slots=True, eq=False)
class _Percentile:
    """The comparison of one percentile of one quantity; `columns` have NaN where an exchange has no value."""

    metric: str
    low_is_good: bool
    percent: int
    columns: tuple[Values, Values]

    @property
    def too_few(self) -> bool:
        return min(len(without_nan(column)) for column in self.columns) < _least(self.percent)

    def row(self, level: float) -> TableRow:
        base, new = map(without_nan, self.columns)
        interval = None if self.too_few else difference(base, new, self.percent, level)
        estimates = [percentiles(values, (self.percent,))[0] if len(values) else None for values in (base, new)]
        return _row(self.metric, (len(base), len(new)), estimates, interval, self.low_is_good)


@dataclass(frozen=True, slots=True)
class _Rate:
    """The comparison of one error rate, in percent; each side is the counts of failures and of attempts."""

    metric: str
    base: tuple[int, int]
    new: tuple[int, int]

    @property
    def too_few(self) -> bool:
        return min(self.base[1], self.new[1]) < LEAST

    def row(self, level: float) -> TableRow:
        rates = [100 * failed / n if n else None for failed, n in (self.base, self.new)]
        low, high = (0.0, 0.0) if self.too_few else share_difference(self.base, self.new, level)
        interval = None if self.too_few else (100 * low, 100 * high)
        return _row(self.metric, (self.base[1], self.new[1]), rates, interval, True)


def _row(
    name: str, sizes: tuple[int, int], values: Sequence[float | None], interval: Interval | None, low_is_good: bool
) -> TableRow:
    (base, new), (low, high) = values, interval or (None, None)
    row: TableRow = {"metric": name, "base_n": sizes[0], "new_n": sizes[1], "base": base, "new": new}
    if interval is None:
        verdict = TOO_FEW
    elif interval[0] <= 0 <= interval[1]:
        verdict = UNCLEAR
    else:
        verdict = BETTER if (interval[1] < 0) == low_is_good else WORSE
    row |= {**change(base, new), "low": low, "high": high, "verdict": verdict}
    return {field: round(value, 6) if isinstance(value, float) else value for field, value in row.items()}


def change(base: Any, new: Any) -> TableRow:
    """Return the difference of two numbers, and that in percent of the first; None where either is none."""
    numbers = all(isinstance(value, int | float) for value in (base, new))
    difference = new - base if numbers else None
    change = 100 * difference / base if difference is not None and base else None
    return {"difference": difference, "change_pct": change}


def difference(base: Values, new: Values, percent: int, level: float = 0.95) -> Interval:
    """Return the interval of the difference, new − base, of a percentile. Both groups need at least one value.

    It is at least as wide as the 95 % interval by ranks around each percentile: if the percentile lies between two
    clusters of values, a standard error is too small.
    """
    base_estimate, low_0, high_0 = _estimate(np.sort(base), percent)
    new_estimate, low_1, high_1 = _estimate(np.sort(new), percent)
    z = NormalDist().inv_cdf((1 + level) / 2)
    reach = z / (2 * _ALONE) * float(np.hypot(high_0 - low_0, high_1 - low_1))
    below = max(reach, float(np.hypot(new_estimate - low_1, high_0 - base_estimate)))
    above = max(reach, float(np.hypot(high_1 - new_estimate, base_estimate - low_0)))
    return new_estimate - base_estimate - below, new_estimate - base_estimate + above


def percentile_interval(values: Values, percent: int) -> Interval | None:
    """Return the interval of a single percentile at 95 %, or None if the values are too few."""
    if len(values) < _least(percent):
        return None
    _, low, high = _estimate(np.sort(values), percent)
    return low, high


def least(metric: str) -> int:
    """Return the fewest values of a side that a verdict on a metric needs."""
    percent = next((percent for percent in _PERCENTS if f"_p{percent}" in metric.removesuffix("_ms")[-4:]), 0)
    return math.ceil(_least(percent))


def _least(percent: int) -> float:
    least_beyond = 5
    return max(LEAST, 100 * least_beyond / (100 - percent))


def _estimate(ordered: Values, percent: int) -> tuple[float, float, float]:
    """Return a percentile of ascending values, and the values `_ALONE` standard errors of its rank below and above."""
    n, share = len(ordered), percent / 100
    (estimate,) = percentiles(ordered, (percent,))
    rank_error = _ALONE * float(np.sqrt(n * share * (1 - share)))
    places = n * share - 0.5 - rank_error, n * share - 0.5 + rank_error
    below, above = _beyond_ties(ordered, *map(float, np.interp(places, np.arange(n), ordered)))
    return estimate, min(below, estimate), max(above, estimate)


def _beyond_ties(ordered: Values, below: float, above: float) -> tuple[float, float]:
    """Widen a range with tied ends to the next different values: the true distance between ties is unknown."""
    start, stop = np.searchsorted(ordered, below, "left"), np.searchsorted(ordered, above, "right")
    if start > 0 and np.searchsorted(ordered, below, "right") - start > 1:
        below = float(ordered[start - 1])
    if stop < len(ordered) and stop - np.searchsorted(ordered, above, "left") > 1:
        above = float(ordered[stop])
    return below, above


def joint_level(correlations: Sequence[Matrix], level: float = 0.95, seed: int = 0) -> float:
    """Return the level that each of several intervals needs for all to hold together at `level`.

    Each of `correlations` is the correlation of one set of statistics, which is independent of the other sets. A draw
    of the joint bootstrap gives every statistic its deviation from the truth in units of its own standard error; the
    largest of a draw is beyond the intervals in 1 − `level` of them.
    """
    if sum(map(len, correlations)) < 2:
        return level
    random = np.random.default_rng(seed)
    largest = np.zeros(_JOINT_DRAWS)
    for correlation in correlations:
        if len(correlation):
            variances, axes = np.linalg.eigh(correlation)
            root = axes * np.sqrt(np.maximum(variances, 0.0))
            deviations = np.abs(random.standard_normal((_JOINT_DRAWS, len(root))) @ root.T)
            largest = np.maximum(largest, deviations.max(axis=1))
    return 2 * NormalDist().cdf(float(np.quantile(largest, level))) - 1


def percentile_covariance(columns: Sequence[Values], percents: Sequence[int]) -> Matrix:
    """Return the covariance of the percentiles of columns of the same rows, each in units of its own density.

    NaN is a row that a column does not have. A percentile deviates with the share of rows below it; percentiles of
    different columns covary by the rows that are below both.
    """
    scores = np.zeros((len(columns), len(columns[0]) if columns else 0))
    for score, column, percent in zip(scores, columns, percents, strict=True):
        has = ~np.isnan(column)
        values = column[has]
        below = (values <= np.percentile(values, percent, method="lower")).astype(np.float64)
        score[has] = (below - below.mean()) / len(values)
    covariance: Matrix = scores @ scores.T
    return covariance


def nested_correlation(trials: Sequence[tuple[int, int]]) -> Matrix:
    """Return the correlation of shares of failures; each is the counts of failures and of attempts.

    Each is of a part of another's trials, and all that the part leaves out have failed.
    """
    # Half a failure and one attempt more: without them, a share of 0 would not vary at all.
    shares = np.array([(failed + 0.5) / (n + 1) for failed, n in trials])
    variances = np.array([n for _, n in trials]) * shares * (1 - shares)
    correlation: Matrix = np.sqrt(np.minimum.outer(variances, variances) / np.maximum.outer(variances, variances))
    return correlation


def correlation_of(covariance: Matrix) -> Matrix:
    """Return the correlation of a covariance, without the statistics that do not vary."""
    varies = np.diagonal(covariance) > 0
    varying = covariance[np.ix_(varies, varies)]
    deviations = np.sqrt(np.diagonal(varying))
    correlation: Matrix = varying / np.outer(deviations, deviations)
    return correlation


def wilson(count: int, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's interval, 0 to 1, of the share `count` / `n`; `n` is at least 1."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle = (count + z * z / 2) / (n + z * z)
    reach = z / (n + z * z) * float(np.sqrt(count * (n - count) / n + z * z / 4))
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def share_difference(base: tuple[int, int], new: tuple[int, int], level: float = 0.95) -> Interval:
    """Return Newcombe's interval of the difference of two shares, new − base; each is a count and its total."""
    (low_0, high_0), (low_1, high_1) = wilson(*base, level), wilson(*new, level)
    share_0, share_1 = base[0] / base[1], new[0] / new[1]
    middle = share_1 - share_0
    low = middle - float(np.hypot(share_1 - low_1, high_0 - share_0))
    return low, middle + float(np.hypot(high_1 - share_1, share_0 - low_0))
