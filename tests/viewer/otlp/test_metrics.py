"""What a receiver decodes of the metrics is what `stats --as otel` measures."""

from dataclasses import replace

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric

from tests.viewer.ended import MS, ONE
from viewer.otlp import attributes, metrics
from viewer.stats.tools.request import Judged


def received(*exchanges) -> dict[str, Metric]:
    """Give the metrics of exchanges by their names, as a receiver decodes them."""
    figures = metrics.figures()
    for one in exchanges:
        figures.add(one)
    resource = attributes.resource({}, {}, version="1", host="h", instance="s")
    sent = metrics.request(figures, 5, 9, resource, attributes.scope("1")).SerializeToString()
    (of_resource,) = ExportMetricsServiceRequest.FromString(sent).resource_metrics
    return {metric.name: metric for metric in of_resource.scope_metrics[0].metrics}


def test_histograms_are_exponential_and_cumulative_with_the_units_of_the_conventions():
    found = received(ONE, ONE)
    histogram = found["gen_ai.client.operation.time_per_output_chunk"]
    assert histogram.unit == "s"
    assert histogram.exponential_histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = histogram.exponential_histogram.data_points
    assert (point.count, round(point.sum, 9), point.min, point.max) == (4, 0.08, 0.02, 0.02)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)
    assert list(point.positive.bucket_counts) == [4]
    (tokens,) = found["gen_ai.client.token.usage"].exponential_histogram.data_points
    assert found["gen_ai.client.token.usage"].unit == "{token}"
    assert (tokens.count, tokens.sum) == (2, 14)
    assert "gen_ai.token.type" in {pair.key for pair in tokens.attributes}


def test_errors_and_outcomes_are_attributes_and_what_is_unknown_is_none():
    found = received(ONE, replace(ONE, judged=Judged("error_event", "overloaded", 500 * MS), request_model=None))
    durations = found["gen_ai.client.operation.duration"].exponential_histogram.data_points
    by_error = {
        next((pair.value.string_value for pair in point.attributes if pair.key == "error.type"), None): point
        for point in durations
    }
    assert {error: point.sum for error, point in by_error.items()} == {None: 0.5, "overloaded": 0.5}
    assert "gen_ai.request.model" not in {pair.key for pair in by_error["overloaded"].attributes}
    counter = found["wiretape.exchanges"]
    assert counter.sum.is_monotonic
    outcomes = [pair.value.string_value for point in counter.sum.data_points for pair in point.attributes
                if pair.key == "wiretape.outcome"]  # fmt: skip
    assert sorted(outcomes) == ["complete", "error_event"]


def test_what_has_no_value_is_not_sent():
    assert set(received()) == {"wiretape.folded_exchanges"}
