"""The rule of OpenTelemetry's GenAI conventions for one exchange, by which metrics are exported, too.

It follows the metrics of `semantic-conventions-genai` (9ba9b775; semconv v1.41.1).
"""

from itertools import pairwise
from typing import Final

from wiretape.viewer.stats.tools.request import ClientLeft, MeasuredRequest, Numbers, ToolError

OTEL_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
OTEL_TOKENS: Final = tuple(4.0**power for power in range(14))
"""The bounds of the buckets that OpenTelemetry's histograms have."""


def otel(request: MeasuredRequest) -> Numbers:
    """Measure as OpenTelemetry's client metrics: any chunk is a chunk; failed operations have a duration, too."""
    if request.client_left:
        raise ClientLeft
    at = request.chunk_times(output=False)
    duration_s = request.judged.duration_ns / 1e9 if request.judged.duration_ns is not None else None
    numbers: Numbers = {
        "time_to_first_chunk_s": at[0] / 1e9 if at else None,
        "time_per_output_chunk_s": [(later - earlier) / 1e9 for earlier, later in pairwise(at)],
        "operation_duration_s": duration_s,
        "output_tokens": request.reported_tokens(),
    }
    if request.judged.outcome != "complete":
        failed: Numbers = {"operation_duration_s": None, "failed_operation_duration_s": duration_s}
        raise ToolError(f"error.type {error_type(request)}", numbers=numbers | failed)
    return numbers


def error_type(request: MeasuredRequest) -> str:
    """Return the `error.type` of an operation that failed: a status, the upstream's own code, or the outcome."""
    if request.judged.outcome == "http_error":
        return str(request.exchange.status)
    return (request.judged.outcome == "error_event" and request.judged.error_code) or request.judged.outcome
