"""Claude's Managed Agents, and the APIs in their shape (Qoder's, context.ai's): the events of a session.

A turn lasts from `session.status_running` to `session.status_idle`, of any reason; on a sub-agent's own stream, the
events of its thread are the turn's. The stream of the session repeats some of them with the thread's id: these are none
of the root's. Deltas come only where a stream asks for them, and `agent.message` has the whole. Usage of a session is
cumulative: tokens are those of the requests to the model.
"""

from functools import partial
from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.agent_turns import thread_at
from wiretape.recorder.decode.dialects import agent_sessions
from wiretape.recorder.decode.effects import Effect, Effects, EventRow, EventTable, SessionEvent, plain, row
from wiretape.recorder.decode.turns import TurnOutcome
from wiretape.recorder.decode.values import JsonObject, compact, index, object_at, text, usage_in

API: Final = "anthropic.sessions"

tokens: Final = usage_fields.reader(API)

_MARKS: Final = ("session.status_", "event_start", "span.model_request_")
"""Beginnings of types that occur on no other wire."""
_OUTCOMES: Final[dict[str, TurnOutcome]] = {"retries_exhausted": "error", "cancelled": "cancelled"}
"""The outcomes of turns by the reasons of their ends, others than `complete`; `cancelled` is Qoder's."""


def _idle(payload: JsonObject) -> Effects:
    reason = text(object_at(payload, "stop_reason").get("type")) or text(payload.get("stop_reason"))
    return (Effect(name="end", reason=reason or None, outcome=_OUTCOMES.get(reason, "complete")),)


def _error(payload: JsonObject) -> Effects:
    error = object_at(payload, "error")
    code, message = text(error.get("type")) or None, text(error.get("message")) or None
    is_retried = object_at(error, "retry_status").get("type") == "retrying"
    return (Effect(name="error", code=code, message=message, is_retried=is_retried),)


def _ask(kind: str) -> EventRow:
    def read(payload: JsonObject) -> Effects:
        is_queued = "processed_at" in payload and payload["processed_at"] is None
        return (Effect(name="ask", key=text(payload.get("id")), ask=kind, waits=is_queued),)

    return EventRow("ask", read)


def _delta(payload: JsonObject) -> Effects:
    delta = object_at(payload, "delta")
    key, addition = text(payload.get("event_id")), text(object_at(delta, "content").get("text"))
    return (Effect(name="text", key=key, part=index(delta.get("index")) or 0, text=addition),)


def _message(payload: JsonObject) -> Effects:
    contents, key = payload.get("content"), text(payload.get("id"))
    return tuple(
        Effect(name="text", key=key, part=part, text=whole, is_whole=True)
        for part, content in enumerate(contents if isinstance(contents, list) else ())
        if isinstance(content, dict) and (whole := text(content.get("text")))
    )


def _call(payload: JsonObject, *, is_provider: bool) -> Effects:
    # A call that needs a confirmation runs in a later turn.
    runs = is_provider and payload.get("evaluated_permission") != "ask"
    key, tool, arguments = text(payload.get("id")), text(payload.get("name")), payload.get("input")
    whole = "" if arguments is None else compact(arguments)
    return (Effect(name="call", key=key, tool=tool, text=whole, is_whole=True, runs=runs),)


def _result(key: str) -> EventRow:
    return EventRow("result", lambda payload: (Effect(name="result", key=text(payload.get(key)), runs=True),))


def _request_end(payload: JsonObject) -> Effects:
    usage = usage_in(payload, "model_usage")  # Qoder counts credits in it, which are no tokens
    key = text(payload.get("model_request_start_id"))
    return (Effect(name="tokens", key=key, usage=usage, tokens=tokens(usage or {}).of_turn),)


_PROVIDER_CALL: Final = EventRow("call", partial(_call, is_provider=True))

TABLE: Final = EventTable(
    source="anthropic 2.14.0, types of beta.sessions; docs.qoder.com/cloud-agents",
    date="2026-11-28",
    rows={
        "session.status_running": row("begin"),
        "session.status_idle": EventRow("end", _idle),
        "session.status_terminated": row("close"),
        "session.deleted": EventRow("close", lambda _: (Effect(name="close", outcome="cancelled"),)),
        "session.error": EventRow("error", _error),
        "user.message": _ask("text"),
        "user.custom_tool_result": _ask("tool_result"),
        "user.tool_result": _ask("tool_result"),
        "user.tool_confirmation": _ask("confirmation"),
        "user.define_outcome": _ask("outcome"),
        "user.interrupt": row("interrupt"),
        "event_delta": EventRow("text", _delta),
        "agent.message": EventRow("text", _message),
        "agent.tool_use": _PROVIDER_CALL,
        "agent.mcp_tool_use": _PROVIDER_CALL,
        "agent.custom_tool_use": EventRow("call", partial(_call, is_provider=False)),
        "agent.tool_result": _result("tool_use_id"),
        "agent.mcp_tool_result": _result("mcp_tool_use_id"),
        "span.model_request_end": EventRow("tokens", _request_end),
        "session.thread_status_running": row("begin"),
        "session.thread_status_idle": EventRow("end", _idle),
        "session.thread_status_terminated": row("close"),
        "agent.thread_message_received": EventRow("begin", lambda _: (Effect(name="begin", ask="agent"),)),
        "error": EventRow("error", _error),
        **plain("progress", "", "event_start agent.thinking span.model_request_start session.status_rescheduled"),
        **plain(None, "", "system.message ping"),
        **plain(None, "session.", "usage updated thread_created thread_status_rescheduled"),
        **plain(None, "agent.", "artifact_delivered thread_message_sent thread_context_compacted"),
        **plain(None, "span.", "outcome_evaluation_start outcome_evaluation_ongoing outcome_evaluation_end"),
        **plain(
            None, "workflow_run.", "created status_running status_idle status_ended phase_started phase_ended error"
        ),
    },
)


def session_event(kind: str, payload: JsonObject, path: str = "") -> SessionEvent:
    """Read one event of a session, on the stream at a path: that of a thread, or of the session."""
    meaning, thread = TABLE.rows.get(kind), thread_at(path)
    # The stream of the session reports the state of its sub-agents' threads, too.
    is_foreign = text(payload.get("session_thread_id")) not in ("", thread) or (
        not thread and kind.startswith(("session.thread_", "agent.thread_message_"))
    )
    return SessionEvent(
        type=kind,
        effects=() if meaning is None or is_foreign else meaning.read(payload),
        id=text(payload.get("id")),
        thread=thread,
        is_known=meaning is not None,
    )


DIALECT: Final = agent_sessions.dialect(API, TABLE, _MARKS, session_event)
