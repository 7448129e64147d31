"""Pure: the counts of a series as OTLP metrics: the metrics of OpenTelemetry's GenAI conventions, and counters.

All are cumulative from the start of their series on: a message replaces those before it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from wiretape.viewer.ship.otlp.attributes import of_labels, pairs
from wiretape.viewer.ship.otlp.histogram import ExponentialHistogram as Values
from wiretape.viewer.ship.otlp.series import Series
from wiretape.viewer.stats.conventions import Family, Labels
from wiretape.viewer.stats.dashboard import OWN

_UNITS: Final = {"seconds": "s", "": "{token}"}
"""Units as UCUM has them, by their words in Prometheus."""


def request(series: Series, now_ns: int) -> ExportMetricsServiceRequest:
    """Return the counts until `now_ns`, in ns since the epoch, as one message."""
    counted, origin, times = series.figures, series.origin, (series.started_ns, now_ns)
    flags: dict[tuple[str, ...], int] = {(flag,): count for flag, count in counted.flags.items()}
    metrics = [
        *(_histogram(family, histograms, *times) for family, histograms in counted.histograms.items()),
        *(
            _counter(family.name, family.meaning, "{token}", counts, family.labels, *times)
            for family, counts in counted.counters.items()
        ),
        _own("wiretape_exchanges_total", counted.outcomes, (*Labels._fields, "wiretape_outcome"), *times),
        _own("wiretape_flagged_exchanges_total", flags, ("wiretape_flag",), *times),
        _own("wiretape_folded_exchanges_total", {(): counted.folded}, (), *times),
    ]
    full = [metric for metric in metrics if metric.exponential_histogram.data_points or metric.sum.data_points]
    of_scope = ScopeMetrics(scope=origin.scope, metrics=full, schema_url=origin.conventions.url)
    message = ResourceMetrics(
        resource=origin.resource, scope_metrics=[of_scope], schema_url=origin.conventions.core_url
    )
    return ExportMetricsServiceRequest(resource_metrics=[message])


def _histogram(family: Family, histograms: Mapping[tuple[str, ...], Values], started_ns: int, now_ns: int) -> Metric:
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
    data = ExponentialHistogram(data_points=points, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE)
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
    counts: Mapping[tuple[str, ...], int],
    labels: Sequence[str],
    started_ns: int,
    now_ns: int,
) -> Metric:
    points = [
        NumberDataPoint(
            attributes=pairs(of_labels(labels, values)),
            start_time_unix_nano=started_ns,
            time_unix_nano=now_ns,
            as_int=count,
        )
        for values, count in counts.items()
    ]
    data = Sum(data_points=points, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE, is_monotonic=True)
    return Metric(name=name, description=meaning, unit=unit, sum=data)
