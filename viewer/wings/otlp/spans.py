"""Pure: a generation as an OTLP span, which joins the trace that its request named.

It lasts from T0 to the event that ends the stream, as `gen_ai.client.operation.duration` does; without such an event,
and of a WebSocket, to the end. It holds no text of a request, except its stop sequences, or of an answer. Its trace and
its parent are those of the `traceparent` that its request carried, else its trace is derived from the exchange.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from wiretape.recorder.decode.reported import trace_parent
from wiretape.recorder.facts import PROTOCOLS
from wiretape.viewer.record.rows import ending
from wiretape.viewer.stats.conventions import MEASURED, Conventions
from wiretape.viewer.stats.dashboard import FinishedExchange, Traced, label, labels_of, measured
from wiretape.viewer.wings.otlp.attributes import TelemetryOrigin, Value, of_labels, pairs, user_labels

MOST_STALLS: Final = 32
"""Maximum number of a stream's stalls that are events of its span; the number of the others is in it."""
_SAMPLED: Final = 0x01
_REMOTE: Final = 0x300
"""Bits of a span's flags: it is known whether the parent is of another process, and it is."""


@dataclass(frozen=True, slots=True)
class Context:
    """The place of a span: without a `parent`, it begins a trace. `is_sampled`: the trace's beginner keeps it."""

    trace: bytes
    span: bytes
    parent: bytes = b""
    state: str = ""
    flags: int = _SAMPLED
    is_sampled: bool = True


def span_context(exchange_id: str, headers: Sequence[Sequence[str]]) -> Context:
    """Return the place of the span of an exchange, the same on every call.

    The span has the exchange's own id. Where the request has no valid `traceparent`, a trace begins.
    """
    is_span_id = re.fullmatch(r"(?!0{16})[0-9a-f]{16}", exchange_id)
    span = bytes.fromhex(exchange_id) if is_span_id else _derived("span", exchange_id)[:8]
    parent = trace_parent(headers)
    if parent is None:
        return Context(_derived("trace", exchange_id), span)
    trace, caller, flags = parent[2], parent[3], int(parent[4], 16)
    state = ",".join(value.strip(" \t") for name, value in headers if name == "tracestate")
    return Context(
        bytes.fromhex(trace),
        span,
        bytes.fromhex(caller),
        state if re.fullmatch(r"[\x20-\x7e\t]{1,512}", state) else "",
        flags | _REMOTE,
        bool(flags & _SAMPLED),
    )


def _derived(kind: str, exchange_id: str) -> bytes:
    return hashlib.sha256(f"wiretape {kind} {exchange_id}".encode("utf-8", "replace")).digest()[:16]


def span(exchange: Traced, conventions: Conventions) -> Span | None:
    """Return the span of an exchange; None if it is no generation, or if its caller's trace is not sampled."""
    place = span_context(exchange.id, exchange.request_headers)
    if exchange.counted.operation not in MEASURED or exchange.started_ns is None or not place.is_sampled:
        return None
    numbers, error = measured(exchange.counted)
    first_s = numbers["time_to_first_chunk_s"] if numbers is not None else None
    stalled = exchange.stalls or ()
    events = list(_events(exchange.started_ns, first_s, stalled))
    labels = labels_of(exchange.counted)
    model = labels.gen_ai_request_model or labels.gen_ai_response_model
    failure = ending(exchange.counted.judged.outcome, exchange.outcome_detail)
    return Span(
        trace_id=place.trace,
        span_id=place.span,
        parent_span_id=place.parent,
        trace_state=place.state,
        flags=place.flags,
        name=f"{exchange.counted.operation} {model}".rstrip(),
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=_unix_ns(exchange.started_ns),
        end_time_unix_nano=_unix_ns(exchange.started_ns, _lasted_ns(exchange.counted)),
        attributes=pairs(
            {
                **of_labels(labels._fields, labels),
                **_genai_attributes(exchange, conventions, first_s, error),
                **_wiretape_attributes(exchange, stalled),
                **user_labels(exchange.labels),
            }
        ),
        events=events,
        dropped_events_count=max(len(stalled) - MOST_STALLS, 0),
        status=Status(code=Status.STATUS_CODE_ERROR, message=label(failure)) if error else Status(),
    )


def request(spans: Sequence[Span], origin: TelemetryOrigin) -> ExportTraceServiceRequest:
    of_scope = ScopeSpans(scope=origin.scope, spans=spans, schema_url=origin.conventions.url)
    message = ResourceSpans(resource=origin.resource, scope_spans=[of_scope], schema_url=origin.conventions.core_url)
    return ExportTraceServiceRequest(resource_spans=[message])


def _genai_attributes(exchange: Traced, conventions: Conventions, first_s: object, error: str) -> dict[str, Value]:
    """Return the attributes that OpenTelemetry defines, besides those that metrics have, too."""
    counted, parameters = exchange.counted, exchange.parameters
    return {
        "gen_ai.output.type": parameters.output_type,
        "gen_ai.request.max_tokens": parameters.max_tokens,
        "gen_ai.request.stop_sequences": parameters.stop_sequences,
        "gen_ai.request.temperature": parameters.temperature,
        "gen_ai.request.top_p": parameters.top_p,
        "gen_ai.request.stream": True if counted.body.stream else None,
        "gen_ai.response.id": exchange.response_id,
        "gen_ai.response.finish_reasons": exchange.finish_reasons,
        "gen_ai.response.time_to_first_chunk": first_s if isinstance(first_s, float) else None,
        "gen_ai.usage.input_tokens": counted.input_tokens,
        "gen_ai.usage.output_tokens": counted.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": counted.reasoning_tokens,
        "gen_ai.usage.cache_read.input_tokens": counted.cache_read_input_tokens,
        conventions.cache_write: counted.cache_write_input_tokens,
        "gen_ai.conversation.id": exchange.conversation,
        "http.response.status_code": counted.exchange.status,
        "network.protocol.version": PROTOCOLS.get(exchange.protocol or "", "").removeprefix("HTTP/"),
        "error.type": error,
    }


def _wiretape_attributes(exchange: Traced, stalled: Sequence[tuple[int, int]]) -> dict[str, Value]:
    counted = exchange.counted
    return {
        "wiretape.exchange.id": exchange.id,
        "wiretape.outcome": counted.judged.outcome,
        "wiretape.outcome.detail": exchange.outcome_detail,
        "wiretape.time_to_first_token": _seconds(exchange.ttft_ns),
        "wiretape.longest_gap": _seconds(exchange.max_gap_ns),
        "wiretape.stall.count": None if exchange.stalls is None else len(stalled),
        "wiretape.before.part": exchange.pause[0] if exchange.pause else None,
        "wiretape.before.duration": _seconds(exchange.pause[1]) if exchange.pause else None,
        "wiretape.flags": counted.flags,
        "wiretape.clock": exchange.clock,
    }


def _events(started_ns: int, first_s: object, stalled: Sequence[tuple[int, int]]) -> Iterator[Span.Event]:
    if isinstance(first_s, float):
        yield Span.Event(name="wiretape.first_chunk", time_unix_nano=_unix_ns(started_ns, round(first_s * 1e9)))
    for from_ns, to_ns in islice(stalled, MOST_STALLS):
        lasted = pairs({"wiretape.stall.duration": _seconds(to_ns - from_ns)})
        yield Span.Event(name="wiretape.stall", time_unix_nano=_unix_ns(started_ns, from_ns), attributes=lasted)


def _lasted_ns(counted: FinishedExchange) -> int:
    exchange, duration_ns = counted.exchange, counted.judged.duration_ns
    if duration_ns is not None and exchange.framing != "websocket":
        return duration_ns
    if exchange.end_ns is not None:
        return exchange.end_ns
    return max((at_ns for at_ns in counted.body.read_at_ns if at_ns is not None), default=0)


def _unix_ns(started_ns: int, at_ns: int = 0) -> int:
    """Return a time within the limits of a message, even from a damaged tape."""
    return min(max(started_ns + at_ns, 0), (1 << 64) - 1)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9
