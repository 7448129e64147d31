"""Pure: two exchanges side by side, and whether two groups of them differ.

Each row of a comparison of groups has an interval for the difference, new − base. The intervals of one comparison hold
together: a joint bootstrap gives the level that each of them needs, so that of 100 comparisons of equals about 5 find
any difference at all. Gaps of one exchange are alike, so they are compared by each exchange's own figures, never
pooled.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from viewer.rows import Row
from viewer.stats import intervals, summary
from viewer.stats.aggregates import known, percentile
from viewer.stats.metrics import QUANTITIES, Quantity
from viewer.stats.samples import Sample

LEAST: Final = 20
"""With fewer values on a side than this, nothing is said; a percentile also needs 5 values beyond it."""

FIELDS: Final = {
    "metric": "what is compared; its name ends in its unit",
    "base_n": "values of the base group",
    "new_n": "values of the new group",
    "base": "the metric of the base group",
    "new": "the metric of the new group",
    "difference": "new − base",
    "change_pct": "the difference in percent of the base",
    "low": "lower end of the interval of the difference, in the unit of the metric",
    "high": "upper end of the interval",
    "verdict": "whether new is better, worse, or not clearly different",
}
"""The fields of a comparison of groups, and what each means."""

IMPORTANT: Final = ("metric", "verdict", "difference", "base", "new", "low", "high", "new_n", "base_n", "change_pct")
"""The fields of a comparison of groups, those that matter most first."""

PAIR_FIELDS: Final = {
    "metric": "what is compared; its name ends in its unit",
    "a": "of the first exchange",
    "b": "of the second exchange",
    "difference": "b − a",
    "change_pct": "the difference in percent of a",
}
"""The fields of a comparison of two exchanges, and what each means."""

PAIR_IMPORTANT: Final = ("metric", "difference", "a", "b", "change_pct")
"""The same, those that matter most first."""

BETTER: Final = "new is better"
WORSE: Final = "new is worse"
UNCLEAR: Final = "no clear difference"
TOO_FEW: Final = "too few"

_PERCENTS: Final = (50, 95)
_LEVEL: Final = 0.95
_BEYOND: Final = 5
_PAIRED: Final = (
    "started_at", "model", "upstream", "status", "outcome", "finish_reason", "ttfb_ms", "ttfc_ms", "ttft_ms", "ttfo_ms",
    "thinking_ms", "ttst_ms", "latency_ms", "duration_ms", "tpot_ms", "tps_user", "icl_mean_ms", "icl_p50_ms",
    "icl_p90_ms", "icl_p99_ms", "icl_max_ms", "max_stall_ms", "max_silence_ms", "coalesced_fraction", "prompt_tokens",
    "completion_tokens", "reasoning_tokens", "tokens_per_chunk", "reads", "events", "output_chunks", "bytes", "flags",
)  # fmt: skip


def pair(a: Row, b: Row) -> list[Row]:
    """Compare two exchanges, field by field: numbers also by their difference, b − a."""
    nothing = {"difference": None, "change_pct": None}
    changes = {name: nothing if name == "status" else _change(a[name], b[name]) for name in _PAIRED}
    return [{"metric": name, "a": a[name], "b": b[name], **changes[name]} for name in _PAIRED]


def groups(base: Sample, new: Sample, seed: int = 0) -> list[Row]:
    """Compare two groups: medians and 95th percentiles of every quantity, and the error rates."""
    percentiles, rates = list(_percentiles(base, new)), list(_rates(base, new))
    level = _joint_level(percentiles, rates, seed)
    judged: list[_Percentile | _Rate] = [*percentiles, *rates]
    return [one.row(level) for one in judged]


def exit_code(compared: Iterable[Row]) -> int:
    """Give 3 if anything got worse beyond doubt, else 4 if all values are too few to tell, else 0."""
    verdicts = {row["verdict"] for row in compared}
    return 3 if WORSE in verdicts else 4 if verdicts <= {TOO_FEW} else 0


def _joint_level(percentiles: "Sequence[_Percentile]", rates: "Sequence[_Rate]", seed: int) -> float:
    """Return the level at which the intervals of one comparison hold together at `_LEVEL`.

    Percentiles are those of complete exchanges, and rates count the others: the two do not go together.
    """
    judged = [one for one in percentiles if not one.too_few]
    percents = [one.percent for one in judged]
    sides = [intervals.percentile_covariance([one.columns[side] for one in judged], percents) for side in (0, 1)]
    of_rates = intervals.nested_correlation([one.trials for one in rates if not one.too_few])
    return intervals.joint_level([intervals.correlation_of(sides[0] + sides[1]), of_rates], _LEVEL, seed)


class _Percentile:
    """The comparison of one percentile of one quantity; `columns` have NaN where an exchange has no value."""

    def __init__(self, quantity: Quantity, percent: int, base: Any, new: Any) -> None:
        self._quantity, self.percent, self.columns = quantity, percent, (base, new)
        self._base, self._new = known(base), known(new)
        base, new = self._base, self._new
        self.too_few = min(len(base), len(new)) < max(LEAST, 100 * _BEYOND / (100 - percent))

    def row(self, level: float) -> Row:
        """Judge the difference at a level."""
        base, new = (percentile(values, self.percent) for values in (self._base, self._new))
        interval = None
        if not self.too_few:
            interval = intervals.difference(self._base, self._new, self.percent, level)
        name = summary.field_name(self._quantity, f"p{self.percent}")
        sizes = len(self._base), len(self._new)
        return _row(name, sizes, base, new, interval, self._quantity.low_is_good)


class _Rate:
    """The comparison of one error rate, in percent."""

    def __init__(self, name: str, base: tuple[int, int], new: tuple[int, int]) -> None:
        self._name, self._base, self._new = name, base, new
        self.trials = base[0] + new[0], base[1] + new[1]
        self.too_few = min(base[1], new[1]) < LEAST

    def row(self, level: float) -> Row:
        """Judge the difference at a level."""
        before, after = (100 * failed / n if n else None for failed, n in (self._base, self._new))
        interval = None
        if not self.too_few:
            low, high = intervals.share_difference(self._base, self._new, level)
            interval = 100 * low, 100 * high
        return _row(f"{self._name}_pct", (self._base[1], self._new[1]), before, after, interval, True)


def _percentiles(base: Sample, new: Sample) -> Iterator[_Percentile]:
    for quantity in QUANTITIES.values():
        if quantity.column is not None:
            values = [one.columns[quantity.name][one.measured] for one in (base, new)]
            yield from (_Percentile(quantity, percent, *values) for percent in _PERCENTS)


def _rates(base: Sample, new: Sample) -> Iterator[_Rate]:
    after = summary.trials(new)
    for name, before in summary.trials(base).items():
        yield _Rate(name, before, after[name])


def _row(
    name: str,
    sizes: Sequence[int],
    base: float | None,
    new: float | None,
    interval: intervals.Interval | None,
    low_is_good: bool,
) -> Row:
    low, high = interval or (None, None)
    found: Row = {"metric": name, "base_n": sizes[0], "new_n": sizes[1], "base": base, "new": new}
    found |= {**_change(base, new), "low": low, "high": high, "verdict": _verdict(interval, low_is_good)}
    return {field: round(value, 6) if isinstance(value, float) else value for field, value in found.items()}


def _verdict(interval: intervals.Interval | None, low_is_good: bool) -> str:
    if interval is None:
        return TOO_FEW
    low, high = interval
    if low <= 0 <= high:
        return UNCLEAR
    return BETTER if (high < 0) == low_is_good else WORSE


def _change(before: Any, after: Any) -> Row:
    numbers = all(isinstance(value, int | float) for value in (before, after))
    difference = after - before if numbers else None
    change = 100 * difference / before if difference is not None and before else None
    return {"difference": difference, "change_pct": change}
