"""The numbers of many exchanges as one row, each tool's own way: percentiles, standard deviation, weights.

Five ways are in use. `numpy`: linear percentiles, population deviation (vLLM, SGLang, AIPerf, genai-perf). `pandas`:
the same with the sample's deviation (llmperf). `inverse_cdf`: nearest rank over weighted values, no interpolation
(guidellm). `loadgen`: `sorted[int(n·p)]`, whole means, no deviation (MLPerf). `buckets`: only a histogram is kept, and
percentiles are estimated within its buckets, as Prometheus' `histogram_quantile` does (OpenTelemetry; `token_buckets`
has those for tokens).
A tool that prints 0 for no values gets None here: unknown is never 0.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_PERCENTS: Final = (50, 90, 95, 99)
_BUCKETS_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_BUCKETS_TOKENS: Final = tuple(4.0**power for power in range(14))

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Summary:
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
    """The values of one metric as they come: eight bytes each, twice that with weights."""

    values: "array[float]" = field(default_factory=lambda: array("d"))
    weights: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, value: float, weight: float | None = None) -> None:
        """Take one value; a series has weights for all of its values, or for none."""
        self.values.append(value)
        if weight is not None:
            self.weights.append(weight)


def summarise(way: str, metric: str, unit: str, series: Series, factor: float = 1.0) -> Summary:
    """Summarise a series in one of the `WAYS`; `factor` turns its values into the unit."""
    values = np.frombuffer(series.values, dtype=np.float64) * factor
    weights = np.frombuffer(series.weights, dtype=np.float64) if series.weights else None
    if not len(values) or (weights is not None and weights.sum() <= 0):
        return Summary(metric, unit, 0)
    return Summary(metric, unit, **WAYS[way](values, weights))


def _numpy(values: Values, _: Values | None, ddof: int = 0) -> dict[str, Any]:
    return {
        "n": len(values),
        "mean": float(values.mean()),
        "std": float(values.std(ddof=ddof)) if len(values) > ddof else None,
        **_extremes(values),
        # There can be tens of millions: they are sorted where they are.
        **_named(np.percentile(values, _PERCENTS, overwrite_input=True)),
    }


def _pandas(values: Values, weights: Values | None) -> dict[str, Any]:
    return _numpy(values, weights, ddof=1)


def _inverse_cdf(values: Values, weights: Values | None) -> dict[str, Any]:
    weights = np.ones(len(values)) if weights is None else weights
    order = np.argsort(values, kind="stable")
    order = order[weights[order] > 0]
    ordered, shares = values[order], weights[order] / weights.sum()
    mean = float(np.sum(ordered * shares))
    places = np.searchsorted(np.cumsum(shares), [percent / 100 for percent in _PERCENTS], side="left")
    return {
        "n": round(float(weights.sum())),
        "mean": mean,
        "std": float(np.sqrt(np.sum((ordered - mean) ** 2 * shares))),
        **_extremes(ordered),
        # Rounding can leave the last share of the sum just below 1.
        **_named(ordered[np.minimum(places, len(ordered) - 1)]),
    }


def _loadgen(values: Values, _: Values | None) -> dict[str, Any]:
    ordered = np.sort(values)
    count = len(ordered)
    return {
        "n": count,
        "mean": float(ordered.sum() // count),
        **_extremes(ordered),
        **_named(ordered[[int(count * (percent / 100)) for percent in _PERCENTS]]),
    }


def _seconds(values: Values, _: Values | None) -> dict[str, Any]:
    return _buckets(values, _BUCKETS_S)


def _tokens(values: Values, _: Values | None) -> dict[str, Any]:
    return _buckets(values, _BUCKETS_TOKENS)


def _buckets(values: Values, bounds: Sequence[float]) -> dict[str, Any]:
    # A value on a bound belongs to the bucket below it.
    counts = np.bincount(np.searchsorted(bounds, values, side="left"), minlength=len(bounds) + 1)
    return {
        "n": len(values),
        "mean": float(values.mean()),
        **_extremes(values),
        **_named([_quantile(counts.tolist(), bounds, percent / 100) for percent in _PERCENTS]),
    }


def _quantile(counts: Sequence[int], bounds: Sequence[float], share: float) -> float:
    rank, before = share * sum(counts), 0
    for place, count in enumerate(counts[:-1]):
        if count and before + count >= rank:
            lower = bounds[place - 1] if place else 0.0
            return lower + (bounds[place] - lower) * (rank - before) / count
        before += count
    return bounds[-1]


def _extremes(values: Values) -> dict[str, Any]:
    return {"min": float(values.min()), "max": float(values.max())}


def _named(percentiles: Any) -> dict[str, Any]:
    return {f"p{percent}": float(value) for percent, value in zip(_PERCENTS, percentiles, strict=True)}


WAYS: Final[dict[str, Callable[[Values, Values | None], dict[str, Any]]]] = {
    "numpy": _numpy,
    "pandas": _pandas,
    "inverse_cdf": _inverse_cdf,
    "loadgen": _loadgen,
    "buckets": _seconds,
    "token_buckets": _tokens,
}
"""How tools summarise: values and weights in, the fields of `Summary` out."""
