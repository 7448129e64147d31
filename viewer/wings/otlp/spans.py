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

from wiretape.recorder.facts import PROTOCOLS
from wiretape.viewer.record.rows import ending
from wiretape.viewer.stats.conventions import MEASURED, Conventions
from wiretape.viewer.stats.dashboard import Ended, Traced, label, labels_of, measured
from wiretape.viewer.wings.otlp.attributes import TelemetryOrigin, Value, of_labels, pairs, user_labels

MOST_STALLS: Final = 32
"""Maximum number of a stream's stalls that are events of its span; the number of the others is in it."""
_LAST_NS: Final = (1 << 64) - 1
_SAMPLED: Final = 0x01
_REMOTE: Final = 0x300
"""Bits of a span's flags: it is known whether the parent is of another process, and it is."""

_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")
_STATE = re.compile(r"[\x20-\x7e\t]{1,512}")


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
    known = _ID.fullmatch(exchange_id)
    span = bytes.fromhex(exchange_id) if known else _derived("span", exchange_id)[:8]
    parent = _parent(_header_values(headers, "traceparent"))
    if parent is None:
        return Context(_derived("trace", exchange_id), span)
    trace, caller, flags = parent
    state = ",".join(_header_values(headers, "tracestate"))
    return Context(
        bytes.fromhex(trace),
        span,
        bytes.fromhex(caller),
        state if _STATE.fullmatch(state) else "",
        flags | _REMOTE,
        bool(flags & _SAMPLED),
    )


def _header_values(headers: Sequence[Sequence[str]], name: str) -> list[str]:
    return [value.strip(" \t") for key, value in headers if key.lower() == name]


def _parent(values: Sequence[str]) -> tuple[str, str, int] | None:
    """Return the ids and flags of a `traceparent`; None unless there is one, of a version that can be read."""
    match = _PARENT.fullmatch(values[0]) if len(values) == 1 else None
    if match is None or (match[1] == "00" and match[5] is not None):
        return None
    return match[2], match[3], int(match[4], 16)


def _derived(kind: str, exchange_id: str) -> bytes:
    return hashlib.sha256(f"wiretape {kind} {exchange_id}".encode("utf-8", "replace")).digest()[:16]


def span(one: Traced, conventions: Conventions) -> Span | None:
    """Return the span of an exchange; None if it is no generation, or if its caller's trace is not sampled."""
    place = span_context(one.id, one.request_headers)
    if one.counted.operation not in MEASURED or one.started_ns is None or not place.is_sampled:
        return None
    numbers, error = measured(one.counted)
    first_s = numbers["time_to_first_chunk_s"] if numbers is not None else None
    stalled = one.stalls or ()
    events = list(_events(one.started_ns, first_s, stalled))
    labels = labels_of(one.counted)
    model = labels.gen_ai_request_model or labels.gen_ai_response_model
    return Span(
        trace_id=place.trace,
        span_id=place.span,
        parent_span_id=place.parent,
        trace_state=place.state,
        flags=place.flags,
        name=f"{one.counted.operation} {model}".rstrip(),
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=_unix_ns(one.started_ns),
        end_time_unix_nano=_unix_ns(one.started_ns, _lasted_ns(one.counted)),
        attributes=pairs(
            {
                **of_labels(labels._fields, labels),
                **_generation(one, conventions, first_s, error),
                **_own(one, stalled),
                **user_labels(one.labels),
            }
        ),
        events=events,
        dropped_events_count=max(len(stalled) - MOST_STALLS, 0),
        status=Status(code=Status.STATUS_CODE_ERROR, message=label(_failure(one))) if error else Status(),
    )


def request(spans: Sequence[Span], origin: TelemetryOrigin) -> ExportTraceServiceRequest:
    of_scope = ScopeSpans(scope=origin.scope, spans=spans, schema_url=origin.conventions.url)
    message = ResourceSpans(resource=origin.resource, scope_spans=[of_scope], schema_url=origin.conventions.core_url)
    return ExportTraceServiceRequest(resource_spans=[message])


def _generation(one: Traced, conventions: Conventions, first_s: object, error: str) -> dict[str, Value]:
    """Return the attributes that OpenTelemetry defines, besides those that metrics have, too."""
    counted, asked = one.counted, one.parameters
    return {
        "gen_ai.output.type": asked.output_type,
        "gen_ai.request.max_tokens": asked.max_tokens,
        "gen_ai.request.stop_sequences": asked.stop_sequences,
        "gen_ai.request.temperature": asked.temperature,
        "gen_ai.request.top_p": asked.top_p,
        "gen_ai.request.stream": True if counted.body.stream else None,
        "gen_ai.response.id": one.response_id,
        "gen_ai.response.finish_reasons": one.finish_reasons,
        "gen_ai.response.time_to_first_chunk": first_s if isinstance(first_s, float) else None,
        "gen_ai.usage.input_tokens": counted.input_tokens,
        "gen_ai.usage.output_tokens": counted.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": counted.reasoning_tokens,
        "gen_ai.usage.cache_read.input_tokens": counted.cache_read_input_tokens,
        conventions.cache_write: counted.cache_write_input_tokens,
        "gen_ai.conversation.id": one.conversation,
        "http.response.status_code": counted.exchange.status,
        "network.protocol.version": PROTOCOLS.get(one.protocol or "", "").removeprefix("HTTP/"),
        "error.type": error,
    }


def _own(one: Traced, stalled: Sequence[tuple[int, int]]) -> dict[str, Value]:
    counted = one.counted
    return {
        "wiretape.exchange.id": one.id,
        "wiretape.outcome": counted.judged.outcome,
        "wiretape.outcome.detail": one.outcome_detail,
        "wiretape.time_to_first_token": _seconds(one.ttft_ns),
        "wiretape.longest_gap": _seconds(one.max_gap_ns),
        "wiretape.stall.count": None if one.stalls is None else len(stalled),
        "wiretape.before.part": one.before[0] if one.before else None,
        "wiretape.before.duration": _seconds(one.before[1]) if one.before else None,
        "wiretape.flags": counted.flags,
        "wiretape.clock": one.clock,
    }


def _events(started_ns: int, first_s: object, stalled: Sequence[tuple[int, int]]) -> Iterator[Span.Event]:
    if isinstance(first_s, float):
        yield Span.Event(name="wiretape.first_chunk", time_unix_nano=_unix_ns(started_ns, round(first_s * 1e9)))
    for from_ns, to_ns in islice(stalled, MOST_STALLS):
        lasted = pairs({"wiretape.stall.duration": _seconds(to_ns - from_ns)})
        yield Span.Event(name="wiretape.stall", time_unix_nano=_unix_ns(started_ns, from_ns), attributes=lasted)


def _lasted_ns(counted: Ended) -> int:
    exchange, duration_ns = counted.exchange, counted.judged.duration_ns
    if duration_ns is not None and exchange.framing != "websocket":
        return duration_ns
    if exchange.end_ns is not None:
        return exchange.end_ns
    return max((at_ns for at_ns in counted.body.read_at_ns if at_ns is not None), default=0)


def _unix_ns(started_ns: int, at_ns: int = 0) -> int:
    """Return a time within the limits of a message, even from a damaged tape."""
    return min(max(started_ns + at_ns, 0), _LAST_NS)


def _failure(one: Traced) -> str:
    """Return the failure of an exchange, in wiretape's words."""
    return ending(one.counted.judged.outcome or "open", one.outcome_detail)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9
