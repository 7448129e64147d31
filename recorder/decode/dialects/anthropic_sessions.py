"""Claude's Managed Agents, and the APIs in their shape (Qoder's, context.ai's): the events of a session.

A turn lasts from `session.status_running` to `session.status_idle`, of any reason; on a sub-agent's own stream, the
events of its thread are the turn's. The stream of the session repeats some of them with the thread's id: these are none
of the root's. Deltas come only where a stream asks for them, and `agent.message` has the whole. Usage of a session is
cumulative: tokens are those of the requests to the model.
"""

from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.agent_turns import thread_at
from wiretape.recorder.decode.dialect import Chunk, Dialect, Parse, ReportedError
from wiretape.recorder.decode.effects import NO_EFFECT, Effect, EventRow, EventTable, SessionEvent, row
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.operation import api_asked
from wiretape.recorder.decode.turns import TurnOutcome, TurnTokens
from wiretape.recorder.decode.values import JsonObject, compact, index, object_at, text, usage_in

API: Final = "anthropic.sessions"

tokens: Final = usage_fields.reader(API)

_MARKS: Final = ("session.status_", "event_start", "span.model_request_")
"""Beginnings of types that tell the wire, whatever the path: others have events of the other names, too."""
_OUTCOMES: Final[dict[str, TurnOutcome]] = {"retries_exhausted": "error", "cancelled": "cancelled"}
"""The outcomes of turns by the reasons of their ends, others than `complete`; `cancelled` is Qoder's."""


def _idle(payload: JsonObject) -> tuple[Effect, ...]:
    reason = text(object_at(payload, "stop_reason").get("type")) or text(payload.get("stop_reason"))
    return (Effect(name="end", reason=reason or None, outcome=_OUTCOMES.get(reason, "complete")),)


def _error(payload: JsonObject) -> tuple[Effect, ...]:
    error = object_at(payload, "error")
    return (
        Effect(
            name="error",
            code=text(error.get("type")) or None,
            message=text(error.get("message")) or None,
            is_retried=object_at(error, "retry_status").get("type") == "retrying",
        ),
    )


def _ask(kind: str) -> EventRow:
    def read(payload: JsonObject) -> tuple[Effect, ...]:
        is_queued = "processed_at" in payload and payload["processed_at"] is None
        return (Effect(name="ask", key=text(payload.get("id")), ask=kind, waits=is_queued),)

    return EventRow("ask", read)


def _delta(payload: JsonObject) -> tuple[Effect, ...]:
    delta = object_at(payload, "delta")
    content, key = object_at(delta, "content"), text(payload.get("event_id"))
    return (Effect(name="text", key=key, part=index(delta.get("index")) or 0, text=text(content.get("text"))),)


def _message(payload: JsonObject) -> tuple[Effect, ...]:
    contents, key = payload.get("content"), text(payload.get("id"))
    contents = [{"text": contents}] if isinstance(contents, str) else contents
    return tuple(
        Effect(name="text", key=key, part=number, text=text(content.get("text")), is_whole=True)
        for number, content in enumerate(contents if isinstance(contents, list) else [])
        if isinstance(content, dict) and text(content.get("text"))
    )


def _call(payload: JsonObject, *, is_provider: bool) -> tuple[Effect, ...]:
    arguments = payload.get("input")
    # A call that needs a confirmation runs in a later turn.
    runs = is_provider and payload.get("evaluated_permission") != "ask"
    call_text = "" if arguments is None else compact(arguments)
    tool = text(payload.get("name"))
    return (Effect(name="call", key=text(payload.get("id")), tool=tool, text=call_text, runs=runs),)


def _result(key: str) -> EventRow:
    return EventRow("result", lambda payload: (Effect(name="result", key=text(payload.get(key)), runs=True),))


def _request_end(payload: JsonObject) -> tuple[Effect, ...]:
    usage = usage_in(payload, "model_usage")
    counts = tokens(usage or {})
    # Qoder counts credits, which are no tokens.
    turn_tokens = TurnTokens(input=counts.input, input_cached=counts.cache_read, output=counts.output)
    key = text(payload.get("model_request_start_id"))
    return (Effect(name="tokens", key=key, usage=usage, tokens=turn_tokens),)


TABLE: Final = EventTable(
    source="anthropic 2.14.0, types/beta/sessions; docs.qoder.com/cloud-agents",
    date="2026-11-28",
    rows={
        "session.status_running": row("begin"),
        "session.status_idle": EventRow("end", _idle),
        "session.status_rescheduled": NO_EFFECT,
        "session.status_terminated": EventRow("close", lambda _: (Effect(name="close"),)),
        "session.deleted": EventRow("close", lambda _: (Effect(name="close", outcome="cancelled"),)),
        "session.error": EventRow("error", _error),
        "session.usage": NO_EFFECT,
        "session.updated": NO_EFFECT,
        "system.message": NO_EFFECT,
        "user.message": _ask("text"),
        "user.custom_tool_result": _ask("tool_result"),
        "user.tool_result": _ask("tool_result"),
        "user.tool_confirmation": _ask("confirmation"),
        "user.define_outcome": _ask("outcome"),
        "user.interrupt": row("interrupt"),
        "event_start": NO_EFFECT,
        "event_delta": EventRow("text", _delta),
        "agent.message": EventRow("text", _message),
        "agent.thinking": NO_EFFECT,
        "agent.tool_use": EventRow("call", lambda payload: _call(payload, is_provider=True)),
        "agent.mcp_tool_use": EventRow("call", lambda payload: _call(payload, is_provider=True)),
        "agent.custom_tool_use": EventRow("call", lambda payload: _call(payload, is_provider=False)),
        "agent.tool_result": _result("tool_use_id"),
        "agent.mcp_tool_result": _result("mcp_tool_use_id"),
        "agent.artifact_delivered": NO_EFFECT,
        "span.model_request_start": NO_EFFECT,
        "span.model_request_end": EventRow("tokens", _request_end),
        "span.outcome_evaluation_start": NO_EFFECT,
        "span.outcome_evaluation_ongoing": NO_EFFECT,
        "span.outcome_evaluation_end": NO_EFFECT,
        "session.thread_created": NO_EFFECT,
        "session.thread_status_running": row("begin"),
        "session.thread_status_idle": EventRow("end", _idle),
        "session.thread_status_rescheduled": NO_EFFECT,
        "session.thread_status_terminated": EventRow("close", lambda _: (Effect(name="close"),)),
        "agent.thread_message_sent": NO_EFFECT,
        "agent.thread_message_received": EventRow("begin", lambda _: (Effect(name="begin", ask="agent"),)),
        "agent.thread_context_compacted": NO_EFFECT,
        "workflow_run.created": NO_EFFECT,
        "workflow_run.status_running": NO_EFFECT,
        "workflow_run.status_idle": NO_EFFECT,
        "workflow_run.status_ended": NO_EFFECT,
        "workflow_run.phase_started": NO_EFFECT,
        "workflow_run.phase_ended": NO_EFFECT,
        "workflow_run.error": NO_EFFECT,
        "error": EventRow("error", _error),
    },
)
_OF_THREADS: Final = ("session.thread_", "agent.thread_message_")
"""Beginnings of types that are those of turns on a sub-agent's own stream only."""


def session_event(kind: str, payload: JsonObject, thread: str = "") -> SessionEvent:
    """Read one event of a session, on the stream of a thread, or on that of the session."""
    meaning = TABLE.rows.get(kind)
    other_thread = text(payload.get("session_thread_id"))
    is_foreign = other_thread not in ("", thread) or (not thread and kind.startswith(_OF_THREADS))
    return SessionEvent(
        type=kind,
        effects=() if meaning is None or is_foreign else meaning.read(payload),
        id=text(payload.get("id")),
        thread=thread,
        is_known=meaning is not None,
    )


def _parser(exchange: Exchange) -> Parse:
    is_recognised = False

    def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
        nonlocal is_recognised
        kind = text(payload.get("type")) or event
        is_recognised = is_recognised or kind.startswith(_MARKS)
        is_named = kind in TABLE.rows and api_asked(exchange) == API
        if not (is_recognised or is_named):
            return None
        return Chunk(API, event=session_event(kind, payload, thread_at(exchange.path)), ping=kind == "ping")

    return parse


DIALECT: Final = Dialect(
    api=API,
    operation="agent_session",
    parse=lambda payload, event, fault: _parser(Exchange())(payload, event, fault),
    tokens=tokens,
    parser=_parser,
    repeats=False,
    silent=frozenset({"no_finish", "no_usage", "hidden_tokens", "multi_choice"}),
    has_turns=True,
)
