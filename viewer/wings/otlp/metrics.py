"""Pure: the counts of a series as OTLP metrics: the metrics of OpenTelemetry's GenAI conventions, and counters.

All are cumulative from the start of their series on: a message replaces those before it. A
`CumulativeSeries` holds them, also as JSON between two processes; its times and sizes are counted in exponential
histograms.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Final

import msgspec
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    ExponentialHistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram as OtlpHistogram,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from wiretape.viewer.stats.conventions import VERSIONS, Conventions, Labels, MetricFamily
from wiretape.viewer.stats.dashboard import OWN, TIME, DashboardCounts
from wiretape.viewer.wings.otlp.attributes import TelemetryOrigin, of_labels, pairs

MOST_BUCKETS: Final = 160
FINEST_SCALE: Final = 20
"""The scale of a histogram of values that are all alike."""


@dataclass(slots=True)
class ValueHistogram:
    """Values of 0 and above, counted; `min` and `max` are None as long as there are none.

    `counts` has the number of values by bucket, without empty ones.
    """

    scale: int = FINEST_SCALE
    count: int = 0
    zeros: int = 0
    sum: float = 0.0
    min: float | None = None
    max: float | None = None
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, values: Iterable[float]) -> None:
        """Count values; one below 0, which no time and no number of tokens is, counts as 0."""
        samples = [max(value, 0) for value in values]
        if not samples:
            return
        self.count += len(samples)
        self.sum += fsum(samples)
        self.min = min(samples) if self.min is None else min(self.min, *samples)
        self.max = max(samples) if self.max is None else max(self.max, *samples)
        buckets = Counter(math.ceil(math.ldexp(math.log2(value), self.scale)) - 1 for value in samples if value > 0)
        self.zeros += len(samples) - buckets.total()
        self.counts = dict(Counter(self.counts) + buckets)
        if not self.counts:
            return
        # Where there are too many buckets, each step of the scale joins two of them.
        lowest, highest, steps = min(self.counts), max(self.counts), 0
        while (highest >> steps) - (lowest >> steps) >= MOST_BUCKETS:
            steps += 1
        if steps:
            self.scale -= steps
            merged = Counter[int]()
            for bucket, count in self.counts.items():
                merged[bucket >> steps] += count
            self.counts = dict(merged)

    @property
    def offset(self) -> int:
        """The number of the first bucket in `buckets`."""
        return min(self.counts, default=0)

    @property
    def buckets(self) -> list[int]:
        """The number of values in each bucket, from the first to the last that has any."""
        return [self.counts.get(bucket, 0) for bucket in range(self.offset, max(self.counts, default=-1) + 1)]


_VERSIONS: Final = {conventions.version: conventions for conventions in VERSIONS}


@dataclass(slots=True)
class CumulativeSeries:
    """Counts from `started_ns` on, in ns since the epoch, and their origin, which includes `instance`."""

    instance: str
    origin: TelemetryOrigin
    started_ns: int
    figures: DashboardCounts[ValueHistogram]


def new_series(instance: str, origin: TelemetryOrigin, started_ns: int) -> CumulativeSeries:
    return CumulativeSeries(instance, origin, started_ns, new_figures(origin.conventions))


def new_figures(conventions: Conventions) -> DashboardCounts[ValueHistogram]:
    """Return figures to which exchanges are to be added."""
    return DashboardCounts(lambda _: ValueHistogram(), conventions)


def encode_series(series: Sequence[CumulativeSeries]) -> bytes:
    return msgspec.json.encode([_StoredSeries.of(each) for each in series])


def decode_series(data: bytes) -> list[CumulativeSeries]:
    """Return the series of JSON, without those of another version of wiretape that this one cannot read."""
    try:
        stored = msgspec.json.decode(data, type=list[_StoredSeries] | None) or []
    except msgspec.ValidationError:
        return []
    return [series.restored() for series in stored if series.semconv in _VERSIONS]


_Values = tuple[str, ...]


class _StoredSeries(msgspec.Struct):
    """A series as JSON has it: metrics by their names, samples as pairs of labels and a value."""

    instance: str
    semconv: str
    resource: bytes
    scope: bytes
    started_ns: int
    outcomes: list[tuple[_Values, int]]
    flags: dict[str, int]
    folded: int
    known: list[tuple[_Values, str]]
    histograms: dict[str, list[tuple[_Values, ValueHistogram]]]
    counters: dict[str, list[tuple[_Values, int]]]
    times: list[tuple[_Values, int]] = []

    @classmethod
    def of(cls, series: CumulativeSeries) -> "_StoredSeries":
        """Return a series as JSON has it."""
        counted, origin = series.figures, series.origin
        return cls(
            instance=series.instance,
            semconv=origin.conventions.version,
            resource=origin.resource.SerializeToString(deterministic=True),
            scope=origin.scope.SerializeToString(deterministic=True),
            started_ns=series.started_ns,
            outcomes=list(counted.outcomes.items()),
            flags=counted.flags,
            folded=counted.folded,
            known=list(counted.label_sets),
            histograms={family.name: list(values.items()) for family, values in counted.histograms.items()},
            counters={family.name: list(counts.items()) for family, counts in counted.counters.items()},
            times=list(counted.times.items()),
        )

    def restored(self) -> CumulativeSeries:
        """Return the series, to be counted on."""
        conventions = _VERSIONS[self.semconv]
        resource, scope = Resource.FromString(self.resource), InstrumentationScope.FromString(self.scope)
        counted = new_figures(conventions)
        counted.outcomes, counted.flags = Counter(dict(self.outcomes)), Counter(self.flags)
        counted.folded, counted.times = self.folded, Counter(dict(self.times))
        counted.label_sets = {(Labels(*labels), error) for labels, error in self.known}
        for family in conventions.families:
            if family.bounds:
                counted.histograms[family] = dict(self.histograms.get(family.name, ()))
            else:
                counted.counters[family] = Counter(dict(self.counters.get(family.name, ())))
        return CumulativeSeries(self.instance, TelemetryOrigin(resource, scope, conventions), self.started_ns, counted)


def request(series: CumulativeSeries, now_ns: int) -> ExportMetricsServiceRequest:
    """Return the counts until `now_ns`, in ns since the epoch, as one message."""
    counted, origin, times = series.figures, series.origin, (series.started_ns, now_ns)
    flags: dict[tuple[str, ...], int] = {(flag,): count for flag, count in counted.flags.items()}
    seconds = {labels: took_ns / 1e9 for labels, took_ns in counted.times.items()}
    metrics = [
        *(_histogram(family, histograms, *times) for family, histograms in counted.histograms.items()),
        *(
            _counter(family.name, family.meaning, "{token}", counts, family.labels, *times)
            for family, counts in counted.counters.items()
        ),
        _wiretape_counter("wiretape_exchanges_total", counted.outcomes, (*Labels._fields, "wiretape_outcome"), *times),
        _counter("wiretape.exchange.time", OWN[TIME], "s", seconds, (*Labels._fields, "wiretape_part"), *times),
        _wiretape_counter("wiretape_flagged_exchanges_total", flags, ("wiretape_flag",), *times),
        _wiretape_counter("wiretape_folded_exchanges_total", {(): counted.folded}, (), *times),
    ]
    full = [metric for metric in metrics if metric.exponential_histogram.data_points or metric.sum.data_points]
    of_scope = ScopeMetrics(scope=origin.scope, metrics=full, schema_url=origin.conventions.url)
    message = ResourceMetrics(
        resource=origin.resource, scope_metrics=[of_scope], schema_url=origin.conventions.core_url
    )
    return ExportMetricsServiceRequest(resource_metrics=[message])


def _histogram(
    family: MetricFamily, histograms: Mapping[tuple[str, ...], ValueHistogram], started_ns: int, now_ns: int
) -> Metric:
    points = [
        ExponentialHistogramDataPoint(
            attributes=pairs(of_labels(family.labels, labels)),
            start_time_unix_nano=started_ns,
            time_unix_nano=now_ns,
            count=values.count,
            sum=values.sum,
            scale=values.scale,
            zero_count=values.zeros,
            positive=ExponentialHistogramDataPoint.Buckets(offset=values.offset, bucket_counts=values.buckets),
            min=values.min,
            max=values.max,
        )
        for labels, values in histograms.items()
    ]
    unit = {"seconds": "s", "": "{token}"}[family.unit]  # as UCUM has it, by its word in Prometheus
    data = OtlpHistogram(data_points=points, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE)
    return Metric(name=family.name, description=family.meaning, unit=unit, exponential_histogram=data)


def _wiretape_counter(
    name: str, counts: Mapping[tuple[str, ...], int], labels: Sequence[str], started_ns: int, now_ns: int
) -> Metric:
    """Return a counter of wiretape's own: Prometheus' `wiretape_exchanges_total` is OTLP's `wiretape.exchanges`."""
    otlp_name = name.removesuffix("_total").replace("_", ".", 1)
    return _counter(otlp_name, OWN[name], "{exchange}", counts, labels, started_ns, now_ns)


def _counter(
    name: str,
    meaning: str,
    unit: str,
    counts: Mapping[tuple[str, ...], float],
    labels: Sequence[str],
    started_ns: int,
    now_ns: int,
) -> Metric:
    points = list[NumberDataPoint]()
    for values, count in counts.items():
        attributes = pairs(of_labels(labels, values))
        point = NumberDataPoint(attributes=attributes, start_time_unix_nano=started_ns, time_unix_nano=now_ns)
        if isinstance(count, int):
            point.as_int = count
        else:
            point.as_double = count
        points.append(point)
    data = Sum(data_points=points, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE, is_monotonic=True)
    return Metric(name=name, description=meaning, unit=unit, sum=data)
