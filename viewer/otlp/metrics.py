"""Pure: what was counted, as OTLP metrics: the histograms of OpenTelemetry's GenAI conventions, and counters.

All are cumulative, from the start of the session on: one that gets lost is made good by the next.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
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
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from viewer.otlp.attributes import SCHEMA_URL, of_labels, pairs
from viewer.otlp.histogram import ExponentialHistogram as Values
from viewer.stats.dashboard import FAMILIES, OWN, Family, Figures, Labels

_UNITS: Final = {"seconds": "s", "": "{token}"}
"""Units as UCUM has them, by their words in Prometheus."""


def figures() -> Figures[Values]:
    """Return figures to which exchanges are to be added."""
    return Figures(lambda _: Values())


def request(
    counted: Figures[Values], started_ns: int, now_ns: int, resource: Resource, scope: InstrumentationScope
) -> ExportMetricsServiceRequest:
    """Return what was counted from `started_ns` to `now_ns`, in ns since the epoch, as one message."""
    metrics = [_histogram(family, counted.histograms[family], started_ns, now_ns) for family in FAMILIES]
    counters: list[tuple[str, Mapping[tuple[str, ...], int], Sequence[str]]] = [
        ("wiretape_exchanges_total", counted.outcomes, (*Labels._fields, "wiretape_outcome")),
        ("wiretape_flagged_exchanges_total", {(flag,): n for flag, n in counted.flags.items()}, ("wiretape_flag",)),
        ("wiretape_folded_exchanges_total", {(): counted.folded}, ()),
    ]
    metrics += [_counter(name, counts, labels, started_ns, now_ns) for name, counts, labels in counters]
    full = [metric for metric in metrics if metric.exponential_histogram.data_points or metric.sum.data_points]
    of_scope = ScopeMetrics(scope=scope, metrics=full, schema_url=SCHEMA_URL)
    message = ResourceMetrics(resource=resource, scope_metrics=[of_scope], schema_url=SCHEMA_URL)
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


def _counter(
    name: str, counts: Mapping[tuple[str, ...], int], labels: Sequence[str], started_ns: int, now_ns: int
) -> Metric:
    """Return a counter, named as OpenTelemetry does: Prometheus' `wiretape_exchanges_total` is `wiretape.exchanges`."""
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
    own = name.removesuffix("_total").replace("_", ".", 1)
    return Metric(name=own, description=OWN[name], unit="{exchange}", sum=data)
