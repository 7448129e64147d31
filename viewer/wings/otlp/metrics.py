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

from wiretape.viewer.stats.conventions import VERSIONS, Conventions, Family, Labels
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
        known = [max(value, 0) for value in values]
        if not known:
            return
        self.count += len(known)
        self.sum += fsum(known)
        self.min = min(known) if self.min is None else min(self.min, *known)
        self.max = max(known) if self.max is None else max(self.max, *known)
        places = Counter(self._place(value) for value in known if value > 0)
        self.zeros += len(known) - places.total()
        self.counts = dict(Counter(self.counts) + places)
        self._fit()

    @property
    def offset(self) -> int:
        """The number of the first bucket in `buckets`."""
        return min(self.counts, default=0)

    @property
    def buckets(self) -> list[int]:
        """The number of values in each bucket, from the first to the last that has any."""
        return [self.counts.get(place, 0) for place in range(self.offset, max(self.counts, default=-1) + 1)]

    def _place(self, value: float) -> int:
        return math.ceil(math.ldexp(math.log2(value), self.scale)) - 1

    def _fit(self) -> None:
        if not self.counts:
            return
        first, last, shift = min(self.counts), max(self.counts), 0
        while (last >> shift) - (first >> shift) >= MOST_BUCKETS:
            shift += 1
        if shift:
            self.scale -= shift
            merged = Counter[int]()
            for place, count in self.counts.items():
                merged[place >> shift] += count
            self.counts = dict(merged)


_VERSIONS: Final = {conventions.version: conventions for conventions in VERSIONS}


@dataclass(slots=True)
class CumulativeSeries:
    """Counts from `started_ns` on, in ns since the epoch, and their origin, which includes `instance`."""

    instance: str
    origin: TelemetryOrigin
    started_ns: int
    figures: DashboardCounts[ValueHistogram]


def new_series(instance: str, origin: TelemetryOrigin, started_ns: int) -> CumulativeSeries:
    """Return a series that has counted nothing."""
    return CumulativeSeries(instance, origin, started_ns, new_figures(origin.conventions))


def new_figures(conventions: Conventions) -> DashboardCounts[ValueHistogram]:
    """Return figures to which exchanges are to be added."""
    return DashboardCounts(lambda _: ValueHistogram(), conventions)


def encode_series(series: Sequence[CumulativeSeries]) -> bytes:
    return msgspec.json.encode([_stored(one) for one in series])


def decode_series(data: bytes) -> list[CumulativeSeries]:
    """Return the series of JSON, without those of another version of wiretape that this one cannot read."""
    try:
        stored = msgspec.json.decode(data, type=list[_Series] | None) or []
    except msgspec.ValidationError:
        return []
    return [_read(one) for one in stored if one.semconv in _VERSIONS]


_Values = tuple[str, ...]


class _Series(msgspec.Struct):
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


def _stored(one: CumulativeSeries) -> _Series:
    counted, origin = one.figures, one.origin
    return _Series(
        instance=one.instance,
        semconv=origin.conventions.version,
        resource=origin.resource.SerializeToString(deterministic=True),
        scope=origin.scope.SerializeToString(deterministic=True),
        started_ns=one.started_ns,
        outcomes=list(counted.outcomes.items()),
        flags=counted.flags,
        folded=counted.folded,
        known=list(counted.known),
        histograms={family.name: list(known.items()) for family, known in counted.histograms.items()},
        counters={family.name: list(known.items()) for family, known in counted.counters.items()},
        times=list(counted.times.items()),
    )


def _read(stored: _Series) -> CumulativeSeries:
    conventions = _VERSIONS[stored.semconv]
    resource, scope = Resource.FromString(stored.resource), InstrumentationScope.FromString(stored.scope)
    counted = new_figures(conventions)
    counted.outcomes, counted.flags, counted.folded = (
        Counter(dict(stored.outcomes)),
        Counter(stored.flags),
        stored.folded,
    )
    counted.times = Counter(dict(stored.times))
    counted.known = {(Labels(*labels), error) for labels, error in stored.known}
    for family in conventions.families:
        if family.bounds:
            counted.histograms[family] = dict(stored.histograms.get(family.name, ()))
        else:
            counted.counters[family] = Counter(dict(stored.counters.get(family.name, ())))
    return CumulativeSeries(stored.instance, TelemetryOrigin(resource, scope, conventions), stored.started_ns, counted)


_UNITS: Final = {"seconds": "s", "": "{token}"}
"""Units as UCUM has them, by their words in Prometheus."""


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
        _own("wiretape_exchanges_total", counted.outcomes, (*Labels._fields, "wiretape_outcome"), *times),
        _counter("wiretape.exchange.time", OWN[TIME], "s", seconds, (*Labels._fields, "wiretape_part"), *times),
        _own("wiretape_flagged_exchanges_total", flags, ("wiretape_flag",), *times),
        _own("wiretape_folded_exchanges_total", {(): counted.folded}, (), *times),
    ]
    full = [metric for metric in metrics if metric.exponential_histogram.data_points or metric.sum.data_points]
    of_scope = ScopeMetrics(scope=origin.scope, metrics=full, schema_url=origin.conventions.url)
    message = ResourceMetrics(
        resource=origin.resource, scope_metrics=[of_scope], schema_url=origin.conventions.core_url
    )
    return ExportMetricsServiceRequest(resource_metrics=[message])


def _histogram(
    family: Family, histograms: Mapping[tuple[str, ...], ValueHistogram], started_ns: int, now_ns: int
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
    data = OtlpHistogram(data_points=points, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE)
    return Metric(name=family.name, description=family.meaning, unit=_UNITS[family.unit], exponential_histogram=data)


def _own(
    name: str, counts: Mapping[tuple[str, ...], int], labels: Sequence[str], started_ns: int, now_ns: int
) -> Metric:
    """Return a counter of wiretape's own: Prometheus' `wiretape_exchanges_total` is OTLP's `wiretape.exchanges`."""
    own = name.removesuffix("_total").replace("_", ".", 1)
    return _counter(own, OWN[name], "{exchange}", counts, labels, started_ns, now_ns)


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
