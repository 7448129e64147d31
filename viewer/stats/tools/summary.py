"""A tape's figures by another tool's definitions: under its names, in its units, with its failures.

Exchanges that a tool would not have measured are left out and counted: running ones, answers that are not streamed, and
those whose client left before any failure by the tool's rule.

The numbers of many exchanges become one row, each tool's own way: percentiles, standard deviation, weights.
Three ways are in use. `numpy`: linear percentiles, population deviation (vLLM, SGLang, AIPerf). `inverse_cdf`: nearest
rank over weighted values, no interpolation (guidellm). `buckets`: only a histogram is kept, and percentiles are
estimated within its buckets, as Prometheus' `histogram_quantile` does (OpenTelemetry; `token_buckets` has those for
tokens, `litellm_buckets` LiteLLM's).
A tool that prints 0 for no values gets None here: unknown is never 0.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.exchange import Exchange, Outcome
from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.stats.tools.otel import OTEL_SECONDS, OTEL_TOKENS
from wiretape.viewer.stats.tools.request import (
    LEFT,
    ClientLeft,
    CountTokens,
    Judged,
    MeasuredRequest,
    Numbers,
    ToolError,
    request,
)
from wiretape.viewer.stats.tools.rule import MeasuringTool
from wiretape.viewer.stats.tools.tools import authority

_LITELLM_SECONDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 420.0, 600.0,
)  # fmt: skip
"""The bounds of the buckets that LiteLLM's histograms have."""
_PERCENTS: Final = (50, 90, 95, 99)

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """Statistics of one metric in that metric's unit; `n` counts values, or weights where a tool counts those.

    Of a metric that is one number for all requests, such as a throughput, there is the `value` instead, and `n` counts
    the requests.
    """

    metric: str
    unit: str
    n: int
    value: float | None = None
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


@dataclass(slots=True)
class Series:
    """The values of one metric in order of arrival: eight bytes each, twice that with weights."""

    values: "array[float]" = field(default_factory=lambda: array("d"))
    weights: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, value: float, weight: float | None = None) -> None:
        """Add one value; a series has weights for all of its values, or for none."""
        self.values.append(value)
        if weight is not None:
            self.weights.append(weight)


def summarise(method: str, metric: str, unit: str, series: Series, factor: float = 1.0) -> MetricSummary:
    """Summarise a series in one of the `SUMMARIES`; `factor` turns its values into the unit."""
    values = np.frombuffer(series.values, dtype=np.float64) * factor
    weights = np.frombuffer(series.weights, dtype=np.float64) if series.weights else None
    if not len(values) or (weights is not None and weights.sum() <= 0):
        return MetricSummary(metric, unit, 0)
    common = {"n": len(values), "mean": values.mean(), "min": values.min(), "max": values.max()}
    figures = SUMMARIES[method](values, weights)
    percentiles = zip(_PERCENTS, figures.pop("percentiles"), strict=True)
    statistics = {**common, **figures, **{f"p{percent}": value for percent, value in percentiles}}
    count = round(statistics.pop("n"))
    return MetricSummary(metric, unit, count, **{name: float(value) for name, value in statistics.items()})


def _numpy(values: Values, _: Values | None) -> JsonObject:
    deviation = values.std()
    # There can be tens of millions of values: they are sorted in place.
    return {"std": deviation, "percentiles": np.percentile(values, _PERCENTS, overwrite_input=True)}


def _inverse_cdf(values: Values, weights: Values | None) -> JsonObject:
    weights = np.ones(len(values)) if weights is None else weights
    order = np.argsort(values, kind="stable")
    order = order[weights[order] > 0]
    ordered, shares = values[order], weights[order] / weights.sum()
    mean = np.sum(ordered * shares)
    places = np.searchsorted(np.cumsum(shares), np.array(_PERCENTS) / 100, side="left")
    return {
        "n": weights.sum(),
        "mean": mean,
        "std": np.sqrt(np.sum((ordered - mean) ** 2 * shares)),
        "min": ordered[0],
        "max": ordered[-1],
        # Rounding can leave the last share of the sum just below 1.
        "percentiles": ordered[np.minimum(places, len(ordered) - 1)],
    }


def _buckets(values: Values, _: Values | None, bounds: Sequence[float]) -> JsonObject:
    # A value on a bound belongs to the bucket below it.
    counts = np.bincount(np.searchsorted(bounds, values, side="left"), minlength=len(bounds) + 1).tolist()
    return {"percentiles": [_quantile(counts, bounds, percent / 100) for percent in _PERCENTS]}


def _quantile(counts: Sequence[int], bounds: Sequence[float], share: float) -> float:
    rank, rank_below = share * sum(counts), 0
    for place, count in enumerate(counts[:-1]):
        if count and rank_below + count >= rank:
            lower = bounds[place - 1] if place else 0.0
            return lower + (bounds[place] - lower) * (rank - rank_below) / count
        rank_below += count
    return bounds[-1]


SUMMARIES: Final[dict[str, Callable[[Values, Values | None], JsonObject]]] = {
    "numpy": _numpy,
    "inverse_cdf": _inverse_cdf,
    "buckets": partial(_buckets, bounds=OTEL_SECONDS),
    "token_buckets": partial(_buckets, bounds=OTEL_TOKENS),
    "litellm_buckets": partial(_buckets, bounds=_LITELLM_SECONDS),
}
"""Summaries of values and their weights, by a tool's way: percentiles, and the changed fields of `MetricSummary`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One exchange as a tool measures it: its numbers, or the reason of its failure or of its exclusion.

    `numbers` has those that a failed operation still records, too (OpenTelemetry's durations). `is_older`: its server
    seems older than the tool's releases.
    """

    numbers: Numbers = field(default_factory=dict)
    failed: str | None = None
    left_out: str | None = None
    is_older: bool = False


Addend = tuple[Measured, Outcome, int | None, int | None]
"""An exchange as a tool measures it, wiretape's outcome, and its start and end in ns since any fixed time."""


class Observed(NamedTuple):
    """One exchange as the tape has it: its facts, its body and its measures.

    `started_ns` is when it started, in ns since any fixed time; without it there is no throughput. `requested_tokens`
    is the longest answer that its request asked for.
    """

    exchange: Exchange
    body: Decoded
    judged: Judged
    started_ns: int | None = None
    requested_tokens: int | None = None


@dataclass(slots=True)
class ToolReport:
    """A population as a tool sees it: of each exchange it keeps only the numbers, eight bytes each.

    `failures` counts the tool's reasons; `forgiven` counts by outcome the exchanges that fail here and succeed there,
    `refused` those that are complete here and fail there. `left_out` counts reasons of exclusion, `unknown` by metric
    the requests without the value on the tape, `older` those to servers that seem older than the rule. `is_tokenized`
    is True with a tokenizer. `absent` are the names of metrics that the source has for no request.
    """

    tool: str
    rule: MeasuringTool
    is_tokenized: bool = False
    absent: Sequence[str] = ()
    attempts: int = 0
    failed: int = 0
    refused: int = 0
    older: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    forgiven: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    _sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _series: dict[str, Series] = field(default_factory=dict)
    _span: tuple[int, int] | None = None

    @property
    def error_rate(self) -> float | None:
        return 100 * self.failed / self.attempts if self.attempts else None

    @property
    def omitted(self) -> dict[str, int]:
        """The tool's metrics that the tape cannot provide, each with the count of requests that lack the value."""
        names = [*(metric.name for metric in self.rule.metrics), *(total.name for total in self.rule.totals)]
        return {name: self.unknown[name] for name in names if name in self.unknown}

    @property
    def rows(self) -> list[MetricSummary]:
        """The statistics of every metric, then the numbers for all requests, in the order of the tool."""
        summaries = [
            summarise(
                metric.summary or self.rule.summary,
                metric.name,
                metric.unit,
                self._series.get(metric.name, Series()),
                metric.factor,
            )
            for metric in self.rule.metrics
            if metric.name not in (*self.unknown, *self.absent)
        ]
        succeeded = self.attempts - self.failed
        seconds = (self._span[1] - self._span[0]) / 1e9 if self._span else 0.0
        for total in self.rule.totals:
            # AIPerf prints no sum of a value that no request has.
            if total.name not in self.unknown and not (total.key and succeeded and total.name not in self._sums):
                value: float | None = self._sums[total.name] if total.key else succeeded
                if value is not None and total.per_s is not None:
                    value = total.per_s * value / seconds if seconds else None
                summaries.append(MetricSummary(total.name, total.unit, succeeded, value=value if succeeded else None))
        return summaries

    def add(
        self, measured: Measured, outcome: Outcome, started_ns: int | None = None, end_ns: int | None = None
    ) -> None:
        """Add an exchange; `outcome` is wiretape's. It ran from `started_ns` to `end_ns`, if that is known."""
        if measured.left_out is not None:
            self.left_out[measured.left_out] += 1
            return
        self.attempts += 1
        self.older += measured.is_older
        if measured.failed is not None:
            self.failed += 1
            self.refused += outcome == "complete"
            # A reason can quote upstream: there may be as many reasons as exchanges.
            most_reasons = 20
            is_kept = measured.failed in self.failures or len(self.failures) < most_reasons
            self.failures[measured.failed if is_kept else "other"] += 1
        else:
            if outcome != "complete":
                self.forgiven[outcome] += 1
            for total in self.rule.totals:
                value = measured.numbers.get(total.key) if total.key else None
                if isinstance(value, int | float):
                    self._sums[total.name] += value
                elif total.key and not self._may_lack(total.key):
                    self.unknown[total.name] += 1
        self._add_span(measured, started_ns, end_ns)
        self._add_values(measured.numbers)

    def _may_lack(self, key: str) -> bool:
        """Return True if the tool itself omits a number that an exchange lacks, as AIPerf does without usage."""
        return any(metric.key == key and not metric.needs_tokens for metric in self.rule.metrics)

    def _add_span(self, measured: Measured, started_ns: int | None, end_ns: int | None) -> None:
        if self.rule.end_key is not None:
            last_ms = measured.numbers.get(self.rule.end_key) if measured.failed is None else None
            is_known = isinstance(last_ms, int | float) and started_ns is not None
            end_ns = started_ns + round(last_ms * 1e6) if is_known else None  # type: ignore[operator]
        if started_ns is not None and end_ns is not None:
            span_start_ns, span_end_ns = self._span or (started_ns, end_ns)
            self._span = min(span_start_ns, started_ns), max(span_end_ns, end_ns)

    def _add_values(self, numbers: Numbers) -> None:
        for metric in self.rule.metrics:
            name, value = metric.name, numbers.get(metric.key)
            if isinstance(value, list | array):
                self._series.setdefault(name, Series()).values.extend(value)
            elif value is not None:
                self._series.setdefault(name, Series()).add(value, metric.weight_of(numbers))
            elif metric.needs_tokens and metric.key in numbers and numbers.get("output_tokens") is None:
                self.unknown[name] += 1


def measure(
    tool: str,
    exchange: Exchange,
    body: Decoded,
    judged: Judged,
    *,
    requested_tokens: int | None = None,
    count_tokens: CountTokens | None = None,
) -> Measured:
    """Measure one exchange as a tool does; `judged` are its measures, or a row that has their outcome."""
    rule = authority(tool)
    seen = request(exchange, body, judged, rule.apis, has_whole=rule.has_whole)
    if not isinstance(seen, str):
        seen = replace(seen, requested_tokens=requested_tokens, count_tokens=count_tokens)
    return measure_seen(tool, seen)


def measure_seen(tool: str, seen: MeasuredRequest | str) -> Measured:
    """Measure one request by a tool's rule; a text is the reason of its exclusion."""
    if isinstance(seen, str):
        return Measured(left_out=seen)
    rule = authority(tool)
    is_older = rule.is_older is not None and rule.is_older(seen)
    try:
        return Measured(rule.measure(seen), is_older=is_older)
    except ClientLeft:
        return Measured(left_out=LEFT)
    except ToolError as error:
        return Measured(error.numbers or {}, str(error), is_older=is_older)


def measure_observed(tool: str, observed: Observed, count_tokens: CountTokens | None = None) -> Addend:
    """Measure one exchange as a tool does, and return the arguments of `ToolReport.add`."""
    exchange, body, judged, started_ns, requested = observed
    measured = measure(tool, exchange, body, judged, requested_tokens=requested, count_tokens=count_tokens)
    end_ns = None if started_ns is None or exchange.end_ns is None else started_ns + exchange.end_ns
    return measured, judged.outcome, started_ns, end_ns


def report_of(tool: str, measured: Iterable[Addend], *, is_tokenized: bool = False) -> ToolReport:
    report = ToolReport(tool, authority(tool), is_tokenized)
    for addend in measured:
        report.add(*addend)
    return report
