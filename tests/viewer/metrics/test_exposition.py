"""What Prometheus reads of the metrics: each bound of a bucket is the number that was counted by."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from recorder.commands.metrics import Setup
from tests.cases import each_case
from tests.viewer.ended import ONE
from viewer.metrics.exposition import Exposition
from viewer.metrics.serve import accepts_gzip
from viewer.stats.tools.clients import OTEL_SECONDS, OTEL_TOKENS


def test_every_bound_is_read_as_the_number_it_was_written_from():
    exposition = Exposition(Setup(Path("tape.db"), "s", "1", frozenset()))
    exposition.figures.add(ONE)
    read = {
        family.name: [sample.labels["le"] for sample in family.samples if "le" in sample.labels]
        for family in text_string_to_metric_families(exposition.text().decode())
    }
    tokens, seconds = read["gen_ai_client_token_usage"], read["gen_ai_client_operation_duration_seconds"]
    assert [float(bound) for bound in tokens] == [*OTEL_TOKENS, float("inf")]
    assert [float(bound) for bound in seconds] == [*OTEL_SECONDS, float("inf")]
    assert tokens[-5:] == ["1.048576e+06", "4.194304e+06", "1.6777216e+07", "6.7108864e+07", "+Inf"]


@each_case(
    "value, accepts",
    [
        (b"gzip", True),
        (b"deflate, GZIP;q=0.5", True),
        (b"gzip; q=1.000", True),
        (b"*", True),
        (b"br;q=1, *;q=0.1", True),
        (b"gzip;q=0", False),
        (b"gzip; q = 0.000, *", False),
        (b"identity", False),
        (b"x-gzip", False),
        (b"", False),
    ],
)
def test_gzip_is_for_whoever_accepts_it(value, accepts):
    assert accepts_gzip([(b"host", b"gzip"), (b"Accept-Encoding", value)]) == accepts
    assert not accepts_gzip([(b"host", b"gzip")])
