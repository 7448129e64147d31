"""Pure: a sample of exchanges in, one row of statistics out; the names of its fields are a contract.

A row begins with the group's keys. Durations end in `_ms`, shares in `_pct` (0 to 100), counts in `n` or in no unit.
A value that no exchange has is None, never 0. Warnings, for figures that are true and yet mislead, are words in the row
and sentences in `WARNINGS`.

Percentiles interpolate linearly (type 7, numpy's default) unless another method is chosen: `inverse_cdf` is the nearest
rank, the smallest value up to which that share of the values lies; `mlperf` is the element that MLPerf's load generator
takes, of index int(n·p). The standard deviation is the population's.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.stats.histogram import Bucket, buckets
from wiretape.viewer.stats.metrics import QUANTITIES, STATISTICS, VALUES_NEEDED, Bound, Quantity, group_value
from wiretape.viewer.stats.prices import UNITS, Paid

Key = tuple[str | int | None, ...]
Values = NDArray[Any]
"""One-dimensional, float64 or int64."""

UNMEASURED: Final = "unmeasured"
TOKENS: Final = ("input_tokens", "output_tokens", "reasoning_tokens", "total_tokens")

COALESCED_PCT: Final = 10

WARNINGS: Final = {
    "few": f"p99 of fewer than {VALUES_NEEDED['p99']} values",
    "coalesced": f"more than {COALESCED_PCT} % of the output chunks share a read with an earlier one: icl says little, "
    "gap more",
    "usage_missing": "exchanges with output, or complete, without usage: tokens are not all counted, tpot and tps are "
    "not of all",
    "unmeasured": "ended exchanges without measures, left out of everything: if no recorder runs, derive them with "
    "'wiretape db rebuild'",
    "burst": "exchanges that came in a burst: the speed of generation is not known, so their tps is withheld",
    "backpressure": "exchanges that the client held up: reading from upstream was paused for it, so gaps and "
    "latency are partly the client's",
    "hidden_tokens": "exchanges whose usage counts tokens that did not come, such as hidden reasoning: their tpot and "
    "tps are withheld",
    "clock_suspect": "exchanges whose timestamps may be late by more than 1 ms: wiretape was busy when data came",
    "imported": "exchanges that were imported: their timestamps are those of other programs",
    "no_timing": "exchanges that were imported without timing: they count, but no time of their bodies is known",
    "objective_unknown": "complete exchanges whose objective is undecided, left out of the goodput",
    "tdigest": "percentiles of icl and gap are estimates by t-digest, in groups with more than 8 M gaps from a "
    "sample of the exchanges: ranking all gaps takes too long, or too much memory of the server; --exact ranks them",
}
"""Meanings of the warnings; `few` is followed by its quantities, six others by their counts."""
PERCENTILES: Final = (50, 90, 95, 99)
_DECIMALS: Final = 6
_BLOCK: Final = 1 << 18

_COUNTS: Final = {
    "burst": "withheld", "backpressure": "held_up", "hidden_tokens": "hidden", "clock_suspect": "suspect",
    "imported": "imported", "no_timing": "untimed",
}  # fmt: skip
FLAGS: Final = tuple(_COUNTS)
"""The warnings that are counted, and the counts of a `Sample` for them, are in this order in `Figures.flagged`."""

Method = Literal["linear", "inverse_cdf", "mlperf"]


@dataclass(slots=True)
class Sample:
    """The data of a group of exchanges.

    `columns` hold one value for each exchange, NaN where unknown: the quantities by name, durations in ms, and
    `TOKENS`. `answered` exchanges are complete, or have output. `measured` ones enter figures of latency; `gaps` are
    all gaps between their output chunks, in ns. `withheld` counts those without tokens per second, as they came in a
    burst, and `held_up` those of them with a burst that the client caused: reading from upstream was paused for it.
    `hidden` counts those without tokens per second and times per token, as usage counts tokens that did not come;
    `suspect` those with timestamps that may be late by more than 1 ms, `imported` those with another program's
    timestamps, and `untimed` those without any. `ends` are how its answers ended.
    """

    key: Key
    outcomes: Counter[str]
    after_2xx: Counter[str]
    complete: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    measured: NDArray[np.bool_]
    columns: dict[str, Values]
    gaps: NDArray[np.int64]
    first_at: str | None = None
    last_at: str | None = None
    withheld: int = 0
    held_up: int = 0
    hidden: int = 0
    suspect: int = 0
    imported: int = 0
    untimed: int = 0
    paid: Paid = field(default_factory=Paid)
    ends: "AnswerEnds" = field(default_factory=lambda: AnswerEnds())
    duplicates: "Duplicates" = field(default_factory=lambda: Duplicates())

    @property
    def size(self) -> int:
        return len(self.measured)

    @classmethod
    def together(cls, samples: Sequence["Sample"]) -> "Sample":
        """Join samples, at least one, into one. They give up their gaps, so that many millions are not held twice."""
        gaps, at = np.empty(sum(len(sample.gaps) for sample in samples), np.int64), 0
        for sample in samples:
            gaps[at : at + len(sample.gaps)] = sample.gaps
            at, sample.gaps = at + len(sample.gaps), gaps[:0]
        starts = [start for sample in samples for start in (sample.first_at, sample.last_at) if start is not None]
        together = cls(
            (),
            sum((sample.outcomes for sample in samples), Counter()),
            sum((sample.after_2xx for sample in samples), Counter()),
            np.concatenate([sample.complete for sample in samples]),
            np.concatenate([sample.answered for sample in samples]),
            np.concatenate([sample.measured for sample in samples]),
            {name: np.concatenate([sample.columns[name] for sample in samples]) for name in samples[0].columns},
            gaps,
            min(starts, default=None),
            max(starts, default=None),
            *(sum(getattr(sample, name) for sample in samples) for name in _COUNTS.values()),
        )
        together.paid = Paid.together([sample.paid for sample in samples])
        together.duplicates = functools.reduce(Duplicates.__add__, (sample.duplicates for sample in samples))
        together.ends = AnswerEnds(*map(sum, zip(*(sample.ends for sample in samples), strict=True)))
        return together


class Duplicates(NamedTuple):
    """Requests that were sent a second time: their count, and the tokens and the cost, in units, that are known."""

    requests: int = 0
    tokens: int | None = 0
    cost: int | None = 0

    def __add__(self, other: "Duplicates") -> "Duplicates":  # type: ignore[override]
        """Return the sums of both; unknown where neither has a duplicate with a known one."""
        if not (self.requests and other.requests):
            return self if self.requests else other
        tokens, cost = (
            None if a is None and b is None else (a or 0) + (b or 0) for a, b in zip(self[1:], other[1:], strict=True)
        )
        return Duplicates(self.requests + other.requests, tokens, cost)


class AnswerEnds(NamedTuple):
    """Counts of answers that have ended: all, those that stalled, that were given up, and that broke off in a stall."""

    answers: int = 0
    stalled: int = 0
    given_up: int = 0
    silent: int = 0


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """Counts of the finished, measured exchanges: all, cancelled by the client, and failed otherwise."""

    count: int
    cancelled: int
    failed: int

    @classmethod
    def of(cls, outcomes: Mapping[str, int]) -> "AttemptCounts":
        """Count them from the counts of outcomes."""
        count = sum(outcomes.values()) - outcomes.get("open", 0) - outcomes.get(UNMEASURED, 0)
        cancelled = outcomes.get("client_closed", 0)
        return cls(count, cancelled, count - cancelled - outcomes.get("complete", 0))

    @property
    def judged(self) -> int:
        """The attempts that were not cancelled, which the error rate is of."""
        return self.count - self.cancelled


def fields(by: Sequence[str]) -> tuple[str, ...]:
    return (*by, *schema())


_HEAD: Final = {
    "n": "exchanges",
    "first_at": "start of the first exchange, UTC",
    "last_at": "start of the last exchange, UTC",
    **{f"n_{outcome}": f"exchanges of the outcome {outcome}: {meaning}" for outcome, meaning in OUTCOMES.items()},
    f"n_{UNMEASURED}": "ended exchanges without measures",
    "error_rate_pct": "failed / (attempts − cancelled): open exchanges are not attempts, client_closed is cancelled, "
    "all but complete failed",
    "error_rate_all_pct": "failed / attempts",
    "stream_error_rate_pct": "error rate of the attempts with a 2xx status: failures that the status does not show",
    "cancel_rate_pct": "cancelled / attempts",
    **{name: f"sum of {name.replace('_', ' ')} over the exchanges that report it" for name in TOKENS},
    "usage_n": "exchanges that report completion tokens",
    "usage_missing_n": "exchanges with output, or complete, that report none",
    "goodput_pct": "attempts, less cancelled, that are complete and meet the objective (--slo)",
    "objective_unknown_n": "complete exchanges that lack a value that the objective bounds",
    "coalesced_pct": "output chunks that share a read with an earlier one",
    "measured_n": "exchanges in the figures below: the complete ones, or all with --include-failed; those of silences "
    "are of all",
}
_OF: Final = {
    "error_rate_n": "attempts − cancelled: the denominator of the error rate",
    "error_rate_all_n": "attempts: exchanges that have ended; those that are still open are not attempts",
    "stream_error_rate_n": "attempts with a 2xx status − cancelled",
    "cancel_rate_n": "attempts",
    "goodput_n": "attempts − cancelled − objective_unknown_n: the denominator of the goodput",
}
_STALLED: Final = {
    "stalled_pct": "answers that stalled / answers that have ended, whatever ended them; a WebSocket has one each turn",
    "stalled_n": "answers that have ended, failed and cancelled ones included: the denominator of stalled and given_up",
    "given_up_pct": "answers that the client left in a stall of upstream's / answers that have ended",
    "given_up_n": "answers that have ended",
    "silent_end_n": "streams that broke off in a stall",
}
_PAID: Final = {
    "cost": "sum of the known costs of exchanges, by the prices of the configuration (help prices)",
    "cost_mean": "mean of the known costs",
    "cost_n": "exchanges whose cost is known",
    "cost_unknown_n": "complete exchanges whose cost is not known",
    "currency": "the currency of the costs",
    "cache_hit_rate_pct": "tokens read from the provider's cache / all tokens of the requests, where both are known",
    "cache_hit_rate_n": "exchanges where both are known",
}

_DUPLICATE: Final = {
    "duplicate_n": "requests that were sent twice in a session within 5 s, both complete: the later ones",
    "duplicate_tokens": "sum of the known total tokens of these",
    "duplicate_cost": "sum of their known costs",
}


def schema() -> dict[str, str]:
    """Return the meaning of each field, without the group's keys."""
    figures = {
        field_name(quantity, statistic): f"{statistic} of {quantity.name}: {quantity.meaning}"
        for quantity in QUANTITIES.values()
        for statistic in STATISTICS
    }
    return {**_HEAD, **figures, "warnings": f"words: {', '.join(WARNINGS)}", **_OF, **_PAID, **_STALLED, **_DUPLICATE}


def expanded(names: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a row that names stand for: a statistic, `n` excepted, stands for that of every quantity."""
    fields = list[str]()
    for name in names:
        is_statistic = name in STATISTICS and name != "n"
        fields += [field_name(quantity, name) for quantity in QUANTITIES.values()] if is_statistic else [name]
    return tuple(dict.fromkeys(fields))


def field_name(quantity: Quantity, statistic: str) -> str:
    return f"{quantity.name}_{statistic}{_suffix(quantity, statistic)}"


def _suffix(quantity: Quantity, statistic: str) -> str:
    return "" if statistic == "n" else quantity.suffix


_PERCENTILES: Final = {
    field_name(quantity, statistic): (field_name(quantity, "n"), statistic)
    for quantity in QUANTITIES.values()
    for statistic in VALUES_NEEDED
}
"""The percentiles among the fields: the field of their number of values, and which percentile it is."""


def supported(row: TableRow, field: str) -> Any:
    """Return a field of a row of statistics, or None if it is a percentile of fewer values than it needs."""
    if field in _PERCENTILES:
        count, statistic = _PERCENTILES[field]
        if row[count] < VALUES_NEEDED[statistic]:
            return None
    return row[field]


def withheld(row: TableRow, fields: Iterable[str]) -> str:
    """Return a sentence on those of the fields that `supported` withholds though they have values, or nothing."""
    statistics = {_PERCENTILES[field][1] for field in fields if row.get(field) != supported(row, field)}
    needs = [f"{statistic} needs {least}" for statistic, least in VALUES_NEEDED.items() if statistic in statistics]
    return f"too few values: {', '.join(needs)}" if needs else ""


ALIASES: Final = {
    f"{alias}_{statistic}{suffix}": field_name(quantity, statistic)
    for quantity in QUANTITIES.values()
    for alias in quantity.aliases
    for statistic in STATISTICS
    for suffix in {"", _suffix(quantity, statistic)}
} | dict.fromkeys(("longest_gap", "longest_gap_ms"), "gap_max_ms")
"""Fields of a row by the aliases of their quantities."""


class ObjectiveCounts(NamedTuple):
    """Counts of the complete exchanges that meet an objective, that miss it, and that lack a value it bounds."""

    met: int
    missed: int
    undecided: int


@dataclass(slots=True, kw_only=True)
class Figures:
    """The figures of a group, computed from a sample, or by the database that has the exchanges.

    `objective` is None without one.
    `gaps_of_0` are of `chunks` output chunks. `statistics` has the `STATISTICS` of each quantity by its name.
    `ends` are how answers ended, `duplicates` None where nobody knows sessions. `flagged` has the counts of a `Sample`
    that are the causes of warnings, in their order; `histogram` is that of one quantity, on request. `is_estimated` is
    True if percentiles of gaps are estimates.
    """

    key: Key
    size: int
    outcomes: Mapping[str, int]
    after_2xx: Mapping[str, int]
    first_at: str | None
    last_at: str | None
    measured: int
    tokens: Mapping[str, int | None]
    with_usage: int
    without_usage: int
    objective: ObjectiveCounts | None
    gaps_of_0: int
    chunks: int
    statistics: Mapping[str, Mapping[str, float | None]]
    flagged: Sequence[int]
    paid: Paid
    ends: AnswerEnds = field(default_factory=AnswerEnds)
    duplicates: Duplicates | None = None
    histogram: Sequence[Bucket] = ()
    is_estimated: bool = False


def measure(
    sample: Sample, method: Method = "linear", bounds: Sequence[Bound] = (), histogram_of: Quantity | None = None
) -> Figures:
    """Return the figures of a sample, with the histogram of a quantity. Its gaps are reordered in place."""
    reported = ~np.isnan(sample.columns["output_tokens"])
    tokens = {name: without_nan(sample.columns[name]) for name in TOKENS}
    objective = None
    if bounds:
        complete = sample.complete
        columns = [(sample.columns[bound.quantity.name][complete], bound.is_highest, bound.limit) for bound in bounds]
        objective = meeting(columns, int(complete.sum()))
    statistics: dict[str, dict[str, float | None]] = {}
    for name, quantity in QUANTITIES.items():
        if quantity.column is None:
            statistics[name] = figures(_pooled(sample, quantity), method, unit=1e6)
        elif quantity.is_whole:  # of whole nanoseconds, sums are exact
            statistics[name] = figures(np.rint(_values(sample, quantity) * 1e6), method, unit=1e6)
        else:
            statistics[name] = figures(_values(sample, quantity), method)
    histogram: Sequence[Bucket] = ()
    if histogram_of is not None:
        is_pooled = histogram_of.column is None
        histogram = buckets(_pooled(sample, histogram_of) / 1e6 if is_pooled else _values(sample, histogram_of))
    return Figures(
        key=sample.key,
        size=sample.size,
        outcomes=sample.outcomes,
        after_2xx=sample.after_2xx,
        first_at=sample.first_at,
        last_at=sample.last_at,
        measured=int(sample.measured.sum()),
        tokens={name: int(counts.sum()) if len(counts) else None for name, counts in tokens.items()},
        with_usage=int(reported.sum()),
        without_usage=int((sample.answered & ~reported).sum()),
        objective=objective,
        gaps_of_0=len(sample.gaps) - int(np.count_nonzero(sample.gaps)),
        # Each exchange with output has one chunk more than gaps.
        chunks=len(sample.gaps) + len(_values(sample, QUANTITIES["latency"])),
        statistics=statistics,
        flagged=[getattr(sample, name) for name in _COUNTS.values()],
        paid=sample.paid,
        ends=sample.ends,
        duplicates=sample.duplicates,
        histogram=histogram,
    )


def row(sample: Sample, by: Sequence[str], method: Method = "linear", bounds: Sequence[Bound] = ()) -> TableRow:
    """Return the statistics of a sample. Its gaps are reordered in place."""
    return row_of(measure(sample, method, bounds), by)


def _rounded(value: float) -> float:
    """Return a value rounded for output. The order of adding up does not change it, even halfway between two values."""
    return round(round(value, _DECIMALS + 3), _DECIMALS)


def row_of(figures: Figures, by: Sequence[str]) -> TableRow:
    """Return the statistics that figures are laid out as."""
    attempts, after_2xx = AttemptCounts.of(figures.outcomes), AttemptCounts.of(figures.after_2xx)
    objective = figures.objective
    goodput = undecided = None
    if objective is not None:
        # A complete exchange whose objective is undecided is neither good nor bad: it is left out.
        goodput = _percent(objective.met, objective.met + objective.missed + attempts.failed)
        undecided = objective.undecided
    counted_outcomes = (*OUTCOMES, UNMEASURED)
    values: TableRow = {
        **{key: group_value(key, value) for key, value in zip(by, figures.key, strict=True)},
        "n": figures.size,
        "first_at": figures.first_at,
        "last_at": figures.last_at,
        **{f"n_{outcome}": figures.outcomes.get(outcome, 0) for outcome in counted_outcomes},
        "error_rate_pct": _percent(attempts.failed, attempts.judged),
        "error_rate_all_pct": _percent(attempts.failed, attempts.count),
        "stream_error_rate_pct": _percent(after_2xx.failed, after_2xx.judged),
        "cancel_rate_pct": _percent(attempts.cancelled, attempts.count),
        **figures.tokens,
        "usage_n": figures.with_usage,
        "usage_missing_n": figures.without_usage,
        "goodput_pct": goodput,
        "objective_unknown_n": undecided,
        "coalesced_pct": _percent(figures.gaps_of_0, figures.chunks),
        "measured_n": figures.measured,
        **{
            field_name(quantity, name): value
            for quantity in QUANTITIES.values()
            for name, value in figures.statistics[quantity.name].items()
        },
    }
    values = {name: _rounded(value) if isinstance(value, float) else value for name, value in values.items()}
    return {
        **values,
        "warnings": _warnings(values, dict(zip(FLAGS, figures.flagged, strict=True)), figures.is_estimated),
        "error_rate_n": attempts.judged,
        "error_rate_all_n": attempts.count,
        "stream_error_rate_n": after_2xx.judged,
        "cancel_rate_n": attempts.count,
        "goodput_n": None if undecided is None else attempts.judged - undecided,
        **_paid(figures.paid),
        "stalled_pct": _share(figures.ends.stalled, figures.ends.answers),
        "stalled_n": figures.ends.answers,
        "given_up_pct": _share(figures.ends.given_up, figures.ends.answers),
        "given_up_n": figures.ends.answers,
        "silent_end_n": figures.ends.silent,
        **duplicates_row(figures.duplicates, figures.paid.currency),
    }


def _share(part: int, total: int) -> float | None:
    percent = _percent(part, total)
    return None if percent is None else _rounded(percent)


def figures(values: Values, method: Method = "linear", unit: float = 1.0) -> dict[str, float | None]:
    """Return the `STATISTICS` of values, divided by `unit`; `n` counts them. The array is reordered in place."""
    if not len(values):
        return statistics(0, 0, 0, 0, 0, [], unit)
    total = float(values.sum())
    mean = total / len(values)
    # Block by block, so that millions of values need no copy.
    blocks = (values[at : at + _BLOCK] - mean for at in range(0, len(values), _BLOCK))
    variance = sum(float(np.square(block).sum()) for block in blocks) / len(values)
    least, most = float(values.min()), float(values.max())
    return statistics(len(values), total, variance, least, most, percentiles(values, PERCENTILES, method), unit)


def statistics(
    n: int, total: float, variance: float, least: float, most: float, shares: Sequence[float], unit: float = 1.0
) -> dict[str, float | None]:
    """Return the `STATISTICS` of `n` values by name, divided by `unit`: `shares` are their `PERCENTILES`."""
    if not n:
        return {name: 0 if name == "n" else None for name in STATISTICS}
    names = [f"p{percent}" for percent in PERCENTILES]
    return {
        "n": n,
        "mean": total / n / unit,
        "std": float(np.sqrt(variance)) / unit,
        "min": least / unit,
        **{name: value / unit for name, value in zip(names, shares, strict=True)},
        "max": most / unit,
    }


def interpolated(n: int, percent: int, lower: float, higher: float) -> float:
    """Return the percentile between two neighbours of `n` values, by whole ranks."""
    return lower + (higher - lower) * ((n - 1) * percent % 100 / 100)


def percentiles(values: Values, percents: Sequence[int], method: Method = "linear") -> list[float]:
    """Return percentiles of at least one value. The array is reordered in place."""
    if method != "linear":
        ranks = [len(values) * percent for percent in percents]
        places = [rank // 100 if method == "mlperf" else (rank + 99) // 100 - 1 for rank in ranks]
        values.partition(places)
        return [float(value) for value in values[places]]
    # Between the two neighbours by whole ranks: numpy's own interpolation differs from the definition's last digit.
    lower = np.percentile(values, percents, method="lower", overwrite_input=True).astype(float)
    higher = np.percentile(values, percents, method="higher", overwrite_input=True).astype(float)
    sides = zip(percents, lower.tolist(), higher.tolist(), strict=True)
    return [interpolated(len(values), percent, low, high) for percent, low, high in sides]


def without_nan(values: Values) -> Values:
    return values[~np.isnan(values)]


def moving(gaps: Values) -> Values:
    """Return the gaps above 0, those between reads: chunks of one read are 0 apart. `gaps` is reordered in place."""
    zeros = len(gaps) - np.count_nonzero(gaps)
    if 0 < zeros < len(gaps):
        gaps.partition(zeros)
    return gaps[zeros:]


def meeting(bounds: Iterable[tuple[Values, bool, float]], size: int) -> ObjectiveCounts:
    """Count those of `size` exchanges that meet every bound, that break one, and that are undecided.

    A bound is one value for each exchange (NaN: unknown), True if the limit is an upper one, and the limit, which is
    itself not allowed. One value that breaks its bound decides, even if others are unknown.
    """
    broken, unknown = np.zeros(size, bool), np.zeros(size, bool)
    for values, is_highest, limit in bounds:
        unknown |= np.isnan(values)
        broken |= (values >= limit) if is_highest else (values <= limit)
    missed, undecided = int(broken.sum()), int((unknown & ~broken).sum())
    return ObjectiveCounts(size - missed - undecided, missed, undecided)


def _values(sample: Sample, quantity: Quantity) -> Values:
    values = sample.columns[quantity.name]
    return without_nan(values if quantity.of_every_outcome else values[sample.measured])


def _pooled(sample: Sample, quantity: Quantity) -> Values:
    return sample.gaps if quantity.name == "icl" else moving(sample.gaps)


def _percent(part: int, total: int) -> float | None:
    return 100 * part / total if total else None


def _paid(paid: Paid) -> TableRow:
    """Return the fields of costs; amounts are not rounded."""
    return {
        "cost": paid.cost / UNITS if paid.cost_n else None,
        "cost_mean": paid.cost / paid.cost_n / UNITS if paid.cost_n else None,
        "cost_n": paid.cost_n,
        "cost_unknown_n": paid.unknown_n,
        "currency": paid.currency,
        "cache_hit_rate_pct": _percent(paid.cached, paid.input),
        "cache_hit_rate_n": paid.cached_n,
    }


def duplicates_row(duplicates: Duplicates | None, currency: str | None) -> TableRow:
    """Return the fields of requests that were sent twice, with the currency of their cost."""
    count, tokens, cost = duplicates or (None, None, None)
    return {
        "duplicate_n": count,
        "duplicate_tokens": tokens,
        "duplicate_cost": None if cost is None or currency is None else cost / UNITS,
        "currency": currency,
    }


def _warnings(values: TableRow, counts: Mapping[str, int], is_estimated: bool) -> list[str]:
    few = [name for name in QUANTITIES if 0 < values[f"{name}_n"] < VALUES_NEEDED["p99"]]
    raised = {
        f"few:{','.join(few)}": bool(few),
        "coalesced": (values["coalesced_pct"] or 0) > COALESCED_PCT,
        "usage_missing": values["usage_missing_n"] > 0,
        "unmeasured": values[f"n_{UNMEASURED}"] > 0,
        **{f"{name}:{count}": count > 0 for name, count in counts.items()},
        "objective_unknown": (values["objective_unknown_n"] or 0) > 0,
        "tdigest": is_estimated,
    }
    return [warning for warning, is_raised in raised.items() if is_raised]
