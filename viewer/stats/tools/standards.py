"""How two specifications have one exchange measured: MLPerf's load generator and OpenTelemetry's GenAI conventions.

Follows MLPerf inference `loadgen/{loadgen,logging,results}.cc` (b66003e1) and the metrics of
`semantic-conventions-genai` (9ba9b775; semconv v1.41.1). MLPerf's clock starts when a query was scheduled, which only
the load generator knows: here it starts when the request is issued. Both count tokens as the system reports them.
"""

from itertools import pairwise

from viewer.stats.tools.request import ClientLeft, Numbers, Request, ToolError


def mlperf(request: Request) -> Numbers:
    """Measure as MLPerf: first to last output in whole ns; a query that has no whole answer is no sample."""
    if request.client_left:
        raise ClientLeft
    if request.outcome != "complete":
        raise ToolError(f"no QuerySamplesComplete ({request.outcome})")
    at = request.chunk_times(output=True)
    if not at:
        raise ToolError("no FirstTokenComplete")
    tokens = request.reported_tokens()
    return {
        "ttft_ns": at[0],
        "latency_ns": at[-1],
        "tpot_ns": (at[-1] - at[0]) // (tokens - 1) if tokens is not None and tokens > 1 else None,
        "output_tokens": tokens,
    }


def otel(request: Request) -> Numbers:
    """Measure as OpenTelemetry's client metrics: any chunk is a chunk; failed operations have a duration, too."""
    if request.client_left:
        raise ClientLeft
    at = request.chunk_times(output=False)
    duration_s = request.duration_ns / 1e9 if request.duration_ns is not None else None
    numbers: Numbers = {
        "time_to_first_chunk_s": at[0] / 1e9 if at else None,
        "time_per_output_chunk_s": [(later - earlier) / 1e9 for earlier, later in pairwise(at)],
        "operation_duration_s": duration_s,
        "output_tokens": request.reported_tokens(),
    }
    if request.outcome != "complete":
        failed: Numbers = {"operation_duration_s": None, "failed_operation_duration_s": duration_s}
        raise ToolError(f"error.type {_error_type(request)}", numbers=numbers | failed)
    return numbers


def _error_type(request: Request) -> str:
    if request.outcome == "http_error":
        return str(request.status)
    return (request.outcome == "error_event" and request.error_code) or request.outcome
