"""The metrics that Prometheus reads: each bound of a bucket is the exact number of the counters."""

from dataclasses import replace
from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.exchanges import ONE
from wiretape.recorder.commands.metrics import Setup
from wiretape.viewer.stats.conventions import LATEST, RELEASED, Conventions
from wiretape.viewer.stats.dashboard import FinishedExchange
from wiretape.viewer.stats.tools.otel import OTEL_SECONDS, OTEL_TOKENS
from wiretape.viewer.wings.prometheus.serve import Exposition


def families(exchange: FinishedExchange, conventions: Conventions = RELEASED) -> dict[str, Metric]:
    """Return the metrics of an exchange that Prometheus reads, by their names."""
    exposition = Exposition(Setup(Path("tape.db"), "s", "1", frozenset()), conventions)
    exposition.figures.add(exchange)
    return {family.name: family for family in text_string_to_metric_families(exposition.text().decode())}


def test_every_bound_reads_as_the_number_it_was():
    bounds = {
        name: [sample.labels["le"] for sample in family.samples if "le" in sample.labels]
        for name, family in families(ONE).items()
    }
    tokens, seconds = bounds["gen_ai_client_token_usage"], bounds["gen_ai_client_operation_duration_seconds"]
    assert [float(bound) for bound in tokens] == [*OTEL_TOKENS, float("inf")]
    assert [float(bound) for bound in seconds] == [*OTEL_SECONDS, float("inf")]
    assert tokens[-5:] == ["1.048576e+06", "4.194304e+06", "1.6777216e+07", "6.7108864e+07", "+Inf"]


def test_the_latest_conventions_have_their_names_and_token_counters():
    used = replace(ONE, output_tokens=9, cache_read_input_tokens=5, reasoning_tokens=4)
    metrics = families(used, LATEST)
    inference = "gen_ai_client_inference"
    kinds = {
        name.removeprefix(inference): family.type for name, family in metrics.items() if name.startswith(inference)
    }
    assert kinds == {
        "_duration_seconds": "histogram",
        "_time_to_first_chunk_seconds": "histogram",
        "_time_per_output_chunk_seconds": "histogram",
        "_operation_input_tokens": "histogram",
        "_operation_output_tokens": "histogram",
        "_usage_input_tokens": "counter",
        "_usage_output_tokens": "counter",
        "_usage_cache_read_input_tokens": "counter",
        "_usage_cache_write_input_tokens": "counter",
        "_usage_reasoning_output_tokens": "counter",
    }
    (sample,) = metrics[f"{inference}_usage_cache_read_input_tokens"].samples
    assert sample.name == f"{inference}_usage_cache_read_input_tokens_total"
    assert (sample.value, sample.labels["gen_ai_token_modality"]) == (5, "unknown")
    assert metrics[f"{inference}_usage_cache_write_input_tokens"].samples == []
    assert metrics["wiretape_info"].samples[0].labels["semconv"] == "gen-ai-dev/1.42.0-dev"
    assert families(used)["wiretape_info"].samples[0].labels["semconv"] == "1.41.1"


def test_exchange_time_is_counted_exactly_by_part():
    timed = replace(ONE, own_time={"waiting": 100_000_001, "streaming": 0})
    exposition = Exposition(Setup(Path("tape.db"), "s", "1", frozenset()))
    for _ in range(3):
        exposition.figures.add(timed)
    metrics = {family.name: family for family in text_string_to_metric_families(exposition.text().decode())}
    counter = metrics["wiretape_exchange_time_seconds"]
    assert counter.type == "counter"
    assert {sample.labels["part"]: sample.value for sample in counter.samples} == {
        "waiting": 0.300000003,
        "streaming": 0,
    }
    assert {sample.labels["gen_ai_request_model"] for sample in counter.samples} == {"m"}
