"""OpenTelemetry on exchanges that fail, and on those without tokens."""

import pytest

from tests.support.cases import each_case
from tests.support.tools import CHUNK, request
from wiretape.recorder.decode.exchange import Exchange
from wiretape.viewer.stats.tools.otel import otel
from wiretape.viewer.stats.tools.request import Judged, MeasuredRequest, ToolError

DONE = b"data: [DONE]\n\n"
ROLE = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'


@each_case(
    ("outcome", "status", "code", "kind"),
    [
        ("http_error", 429, "rate_limit_exceeded", "429"),
        ("error_event", 200, "overloaded", "overloaded"),
        ("error_event", 200, None, "error_event"),
        ("connect_error", None, None, "connect_error"),
        ("truncated", 200, None, "truncated"),
    ],
)
def test_an_errors_type_is_its_status_code_or_outcome(outcome, status, code, kind):
    with pytest.raises(ToolError) as failure:
        otel(MeasuredRequest(Exchange(status=status, ended_by="end"), Judged(outcome, code, 5_000_000_000)))
    assert str(failure.value) == f"error.type {kind}"
    assert failure.value.numbers["failed_operation_duration_s"] == 5
    assert failure.value.numbers["operation_duration_s"] is None


def test_any_chunk_is_a_chunk_of_opentelemetry():
    assert otel(request(ROLE, CHUNK, DONE)) == {
        "time_to_first_chunk_s": 1e-8,
        "time_per_output_chunk_s": [1e-8],
        "operation_duration_s": 3e-8,
        "output_tokens": None,
    }
