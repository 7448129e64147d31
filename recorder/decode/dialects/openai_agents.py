"""OpenAI's Agents API: the events of a session, whose stream stays open over its turns.

A turn has an id, which its events name. Text comes in deltas, and whole in `done` of the text, of the part and of the
item. Function tools wait for the client within the turn; other tools run at the provider. A turn of a sub-agent names
it. Usage of a session is a running total, and no turn's.
"""

from typing import Final, Literal

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialects import agent_sessions
from wiretape.recorder.decode.effects import Effect, Effects, EventRow, EventTable, SessionEvent, plain, row
from wiretape.recorder.decode.turns import TurnOutcome
from wiretape.recorder.decode.values import JsonObject, compact, index, object_at, text, usage_in

API: Final = "openai.agents"

tokens: Final = usage_fields.reader(API)


def _end(outcome: TurnOutcome) -> EventRow:
    def read(payload: JsonObject) -> Effects:
        turn = object_at(payload, "turn")
        usage = usage_in(payload) or usage_in(turn)
        error = object_at(turn, "error")
        status = text(turn.get("status")) or text(payload.get("type")).rpartition(".")[2]
        end = Effect(
            name="end",
            outcome=outcome,
            reason=status,
            code=text(error.get("code")) or None,
            message=text(error.get("message")) or None,
            usage=usage,
            tokens=None if usage is None else tokens(usage).of_turn,
        )
        return (end,)

    return EventRow("end", read)


def _failed(payload: JsonObject) -> Effects:
    error = object_at(payload, "session").get("error")
    return (Effect(name="close", outcome="error", message=text(error) or None),)


def _error(payload: JsonObject) -> Effects:
    error = object_at(payload, "error")
    code = text(error.get("code")) or text(error.get("type")) or None
    return (Effect(name="error", code=code, message=text(error.get("message")) or None),)


def _said(field: Literal["delta", "text", "part"], name: Literal["text", "reasoning"] = "text") -> EventRow:
    """Return the row of events with text in a field; `delta` is an addition, the others are whole texts."""
    place = "content_index" if name == "text" else "summary_index"

    def read(payload: JsonObject) -> Effects:
        value = object_at(payload, "part").get("text") if field == "part" else payload.get(field)
        key, part = text(payload.get("item_id")), index(payload.get(place)) or 0
        return (Effect(name=name, key=key, part=part, text=text(value), is_whole=field != "delta"),)

    return EventRow(name, read)


def _item(payload: JsonObject) -> Effects:
    """Read an item: a message, reasoning, a call of a tool, or the client's result of one."""
    item, is_done = object_at(payload, "item"), text(payload.get("type")).endswith(".done")
    kind, id = text(item.get("type")), text(item.get("id"))
    key = text(item.get("call_id")) or id
    if kind in ("message", "reasoning") and item.get("role") != "user":
        contents = item.get("content" if kind == "message" else "summary") if is_done else ()
        return tuple(
            Effect(name="text" if kind == "message" else "reasoning", key=id, part=part, text=whole, is_whole=True)
            for part, content in enumerate(contents if isinstance(contents, list) else ())
            if isinstance(content, dict) and (whole := text(content.get("text")))
        )
    if kind in ("message", "function_call_output"):
        is_message = kind == "message"
        effect = Effect(name="ask", key=id, ask="text") if is_message else Effect(name="result", key=key)
        return () if is_done else (effect,)
    if not kind.endswith("_call") and kind != "command_execution":
        return ()
    runs = kind != "function_call"  # the client runs its functions while the turn waits
    value = item.get("action") if kind == "web_search_call" else item.get("arguments")
    if kind == "command_execution" and item.get("command"):
        value = {"command": item["command"]}
    arguments = value if isinstance(value, str) else compact(value) if value else ""
    tool = text(item.get("name")) or kind
    call = Effect(name="call", key=key, tool=tool, text=arguments, is_whole=True, runs=runs and not is_done)
    return (Effect(name="result", key=key, runs=True), call) if runs and is_done else (call,)


TABLE: Final = EventTable(
    source="openai 3.57.0 and openai-node 7.59.0, types of beta.agent_session_*",
    date="2026-11-28",
    rows={
        "agent.session.turn.created": row("begin"),
        "agent.session.turn.in_progress": row("begin"),
        "agent.session.turn.completed": _end("complete"),
        "agent.session.turn.failed": _end("error"),
        "agent.session.turn.cancelled": _end("cancelled"),
        "agent.session.turn.item.added": EventRow("call, ask, result", _item),
        "agent.session.turn.item.done": EventRow("text, reasoning, call, result", _item),
        "agent.session.turn.content_part.done": _said("part"),
        "agent.session.turn.output_text.delta": _said("delta"),
        "agent.session.turn.output_text.done": _said("text"),
        "agent.session.turn.reasoning_summary_part.done": _said("part", "reasoning"),
        "agent.session.turn.reasoning_summary_text.delta": _said("delta", "reasoning"),
        "agent.session.turn.reasoning_summary_text.done": _said("text", "reasoning"),
        "agent.session.requires_action": row("wait"),
        "agent.session.in_progress": row("resume"),
        "agent.session.failed": EventRow("close", _failed),
        "error": EventRow("error", _error),
        **plain("progress", "agent.session.turn.", "content_part.added reasoning_summary_part.added"),
        **plain("progress", "agent.output.", "command_execution_output.delta"),
        **plain(
            None,
            "agent.session.",
            "created idle budget_reached subagent.created"
            " subagent.active subagent.closed environment.pending environment.ready environment.connected"
            " environment.disconnected environment.suspended environment.expired environment.reset environment.failed",
        ),
    },
)


def session_event(kind: str, payload: JsonObject, path: str = "") -> SessionEvent:
    """Read one event of a session."""
    meaning, turn = TABLE.rows.get(kind), object_at(payload, "turn")
    return SessionEvent(
        type=kind,
        effects=() if meaning is None else meaning.read(payload | {"type": kind}),
        id=text(payload.get("event_id")),
        turn=text(payload.get("turn_id")) or text(turn.get("id")) or text(object_at(payload, "item").get("turn_id")),
        thread=text(turn.get("subagent_id")),
        model=text(object_at(object_at(payload, "session"), "agent").get("model")),
        is_known=meaning is not None,
    )


DIALECT: Final = agent_sessions.dialect(API, TABLE, ("agent.session.",), session_event)
