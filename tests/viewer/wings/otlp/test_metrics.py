"""The metrics that a receiver decodes are those of `stats --as otel`."""

from dataclasses import replace

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric, ResourceMetrics

from tests.support.exchanges import MS, ONE
from wiretape.viewer.stats.conventions import LATEST, RELEASED
from wiretape.viewer.stats.tools.request import Judged
from wiretape.viewer.wings.otlp import attributes, metrics


def decoded(*exchanges, **environment: str) -> ResourceMetrics:
    """Return the metrics of exchanges as a receiver decodes them."""
    origin = attributes.origin(environment, {}, version="1", host="h", instance="s")
    counted = metrics.new_series("s", origin, 5)
    for exchange in exchanges:
        counted.figures.add(exchange)
    sent = metrics.request(counted, 9).SerializeToString()
    (of_resource,) = ExportMetricsServiceRequest.FromString(sent).resource_metrics
    return of_resource


def received(*exchanges, **environment: str) -> dict[str, Metric]:
    """Return the metrics of exchanges by their names, as a receiver decodes them."""
    return {metric.name: metric for metric in decoded(*exchanges, **environment).scope_metrics[0].metrics}


def test_histograms_are_exponential_cumulative_and_in_conventional_units():
    series = received(ONE, ONE)
    histogram = series["gen_ai.client.operation.time_per_output_chunk"]
    assert histogram.unit == "s"
    assert histogram.exponential_histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = histogram.exponential_histogram.data_points
    assert (point.count, round(point.sum, 9), point.min, point.max) == (4, 0.08, 0.02, 0.02)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)
    assert list(point.positive.bucket_counts) == [4]
    (tokens,) = series["gen_ai.client.token.usage"].exponential_histogram.data_points
    assert series["gen_ai.client.token.usage"].unit == "{token}"
    assert (tokens.count, tokens.sum) == (2, 14)
    assert "gen_ai.token.type" in {pair.key for pair in tokens.attributes}


def test_errors_and_outcomes_are_attributes_without_unknown_ones():
    series = received(ONE, replace(ONE, judged=Judged("error_event", "overloaded", 500 * MS), request_model=None))
    durations = series["gen_ai.client.operation.duration"].exponential_histogram.data_points
    by_error = {
        next((pair.value.string_value for pair in point.attributes if pair.key == "error.type"), None): point
        for point in durations
    }
    assert {error: point.sum for error, point in by_error.items()} == {None: 0.5, "overloaded": 0.5}
    assert "gen_ai.request.model" not in {pair.key for pair in by_error["overloaded"].attributes}
    counter = series["wiretape.exchanges"]
    assert counter.sum.is_monotonic
    outcomes = [pair.value.string_value for point in counter.sum.data_points for pair in point.attributes
                if pair.key == "wiretape.outcome"]  # fmt: skip
    assert sorted(outcomes) == ["complete", "error_event"]


def test_exchange_time_is_summed_in_seconds_by_part():
    timed = replace(ONE, own_time={"waiting": 100_000_001, "closing": 0})
    series = received(timed, timed)["wiretape.exchange.time"]
    assert (series.unit, series.sum.is_monotonic) == ("s", True)
    seconds = {pair.value.string_value: point.as_double for point in series.sum.data_points for pair in point.attributes
               if pair.key == "wiretape.part"}  # fmt: skip
    assert seconds == {"waiting": 0.200000002, "closing": 0.0}


def test_what_has_no_value_is_not_sent():
    assert set(received()) == {"wiretape.folded_exchanges"}


OPTED_IN = {"OTEL_SEMCONV_STABILITY_OPT_IN": "http/dup, gen_ai_latest_experimental"}
USED = replace(ONE, output_tokens=9, cache_read_input_tokens=5, cache_write_input_tokens=1, reasoning_tokens=4)


def keys(point) -> dict[str, object]:
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in point.attributes}


def test_opting_in_gives_the_latest_conventions():
    series = received(USED, USED, **OPTED_IN)
    inference = "gen_ai.client.inference"
    kinds = {name: (metric.WhichOneof("data"), metric.unit) for name, metric in series.items() if "gen_ai" in name}
    assert kinds == {
        f"{inference}.duration": ("exponential_histogram", "s"),
        f"{inference}.time_to_first_chunk": ("exponential_histogram", "s"),
        f"{inference}.time_per_output_chunk": ("exponential_histogram", "s"),
        f"{inference}.operation.input_tokens": ("exponential_histogram", "{token}"),
        f"{inference}.operation.output_tokens": ("exponential_histogram", "{token}"),
        f"{inference}.usage.input_tokens": ("sum", "{token}"),
        f"{inference}.usage.output_tokens": ("sum", "{token}"),
        f"{inference}.usage.cache_read.input_tokens": ("sum", "{token}"),
        f"{inference}.usage.cache_write.input_tokens": ("sum", "{token}"),
        f"{inference}.usage.reasoning.output_tokens": ("sum", "{token}"),
    }
    usage = {name: metric.sum for name, metric in series.items() if ".usage." in name}
    assert [metric.data_points[0].as_int for metric in usage.values()] == [14, 10, 2, 18, 8]
    assert all(metric.is_monotonic for metric in usage.values())
    assert all(keys(metric.data_points[0])["gen_ai.token.modality"] == "unknown" for metric in usage.values())
    (tokens,) = series[f"{inference}.operation.input_tokens"].exponential_histogram.data_points
    assert (tokens.count, tokens.sum, {"gen_ai.token.type", "gen_ai.token.modality"} & set(keys(tokens))) == (
        2,
        14,
        set(),
    )


def test_of_embeddings_the_latest_conventions_measure_the_duration_only():
    series = received(replace(USED, operation="embeddings"), **OPTED_IN)
    assert {name for name in series if "gen_ai" in name} == {"gen_ai.client.operation.duration"}


def test_unknown_tokens_are_no_sample_of_a_counter():
    series = received(replace(ONE, input_tokens=None), **OPTED_IN)
    assert not [name for name in series if "tokens" in name]


def test_each_conventions_version_is_named_by_its_schema():
    for conventions, environment in ((RELEASED, {}), (LATEST, OPTED_IN)):
        of_resource = decoded(ONE, **environment)
        of_scope = of_resource.scope_metrics[0]
        assert (of_resource.schema_url, of_scope.schema_url) == (conventions.core_url, conventions.url)
        assert keys(of_scope.scope) == {"wiretape.semconv": conventions.version}
    assert not set(received(ONE, OTEL_SEMCONV_STABILITY_OPT_IN="gen_ai_latest_experimental/dup")) - set(received(ONE))


def test_a_stored_series_outlives_its_process():
    origin = attributes.origin(OPTED_IN, {"run": "a"}, version="1", host="h", instance="s")
    uncounted, counted = metrics.new_series("s", origin, 5), metrics.new_series("s", origin, 5)
    exchanges = [
        replace(USED, own_time={"waiting": 5, "stalled": 3 * 10**18}),
        replace(USED, judged=Judged("error_event", "overloaded", 300 * MS)),
        replace(ONE, request_model="n"),
    ]
    for exchange in exchanges:
        uncounted.figures.add(exchange)
        counted.figures.add(exchange)
        (counted,) = metrics.decode_series(metrics.encode_series([counted]))
    assert metrics.request(counted, 9) == metrics.request(uncounted, 9)
    assert counted.figures.label_sets == uncounted.figures.label_sets
