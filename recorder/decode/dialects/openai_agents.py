"""OpenAI's Agents API: the events of a session, whose stream stays open over its turns.

A turn has an id, which its events name. Text comes in deltas, and whole in `done` of the text, of the part and of the
item. Function tools wait for the client within the turn; other tools run at the provider. A turn of a sub-agent names
it. Usage of a session is a running total, and no turn's.
"""

from typing import Any, Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Parse, ReportedError
from wiretape.recorder.decode.effects import NO_EFFECT, Effect, EventRow, EventTable, SessionEvent, row
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.operation import api_asked
from wiretape.recorder.decode.turns import TurnOutcome, TurnTokens
from wiretape.recorder.decode.values import JsonObject, compact, index, object_at, text, usage_in

API: Final = "openai.agents"
_PREFIX: Final = "agent.session."

tokens: Final = usage_fields.reader(API)


def _end(outcome: TurnOutcome, status: str) -> EventRow:
    def read(payload: JsonObject) -> tuple[Effect, ...]:
        turn = object_at(payload, "turn")
        usage = usage_in(payload) or usage_in(turn)
        counts = None if usage is None else tokens(usage)
        error = object_at(turn, "error")
        return (
            Effect(
                name="end",
                outcome=outcome,
                reason=text(turn.get("status")) or status,
                code=text(error.get("code")) or None,
                message=text(error.get("message")) or None,
                usage=usage,
                tokens=None
                if counts is None
                else TurnTokens(input=counts.input, input_cached=counts.cache_read, output=counts.output),
            ),
        )

    return EventRow("end", read)


def _failed(payload: JsonObject) -> tuple[Effect, ...]:
    error = object_at(payload, "session").get("error")
    return (Effect(name="close", outcome="error", message=text(error) or None),)


def _error(payload: JsonObject) -> tuple[Effect, ...]:
    error = object_at(payload, "error")
    code = text(error.get("code")) or text(error.get("type")) or None
    return (Effect(name="error", code=code, message=text(error.get("message")) or None),)


def _delta(payload: JsonObject) -> tuple[Effect, ...]:
    return _said("text", payload, payload.get("delta"), "content_index", is_whole=False)


def _text_done(payload: JsonObject) -> tuple[Effect, ...]:
    return _said("text", payload, payload.get("text"), "content_index")


def _part_done(payload: JsonObject) -> tuple[Effect, ...]:
    return _said("text", payload, object_at(payload, "part").get("text"), "content_index")


def _summary_delta(payload: JsonObject) -> tuple[Effect, ...]:
    return _said("reasoning", payload, payload.get("delta"), "summary_index", is_whole=False)


def _summary_done(payload: JsonObject) -> tuple[Effect, ...]:
    return _said("reasoning", payload, payload.get("text"), "summary_index")


def _summary_part_done(payload: JsonObject) -> tuple[Effect, ...]:
    return _said("reasoning", payload, object_at(payload, "part").get("text"), "summary_index")


def _said(name: Any, payload: JsonObject, value: object, place: str, *, is_whole: bool = True) -> tuple[Effect, ...]:
    key, part = text(payload.get("item_id")), index(payload.get(place)) or 0
    return (Effect(name=name, key=key, part=part, text=text(value), is_whole=is_whole),)


def _item(payload: JsonObject, *, is_done: bool) -> tuple[Effect, ...]:
    """Read an item: a message, reasoning, a call of a tool, or the client's result of one."""
    item = object_at(payload, "item")
    kind, id = text(item.get("type")), text(item.get("id"))
    if kind == "message" and item.get("role") == "user":
        return () if is_done else (Effect(name="ask", key=id, ask="text"),)
    if kind == "message":
        return _whole_texts("text", id, item.get("content")) if is_done else ()
    if kind == "reasoning":
        return _whole_texts("reasoning", id, item.get("summary")) if is_done else ()
    call_id = text(item.get("call_id")) or id
    if kind == "function_call_output":
        return () if is_done else (Effect(name="result", key=call_id),)
    if not kind.endswith("_call") and kind != "command_execution":
        return ()
    is_run = kind != "function_call"  # the client runs its functions while the turn waits
    name = text(item.get("name")) or kind
    call = Effect(name="call", key=call_id, tool=name, text=_arguments(kind, item), runs=is_run and not is_done)
    return (call, Effect(name="result", key=call_id, runs=True)) if is_run and is_done else (call,)


def _arguments(kind: str, item: JsonObject) -> str:
    """Return the arguments of a call as JSON; "" as long as there are none."""
    if kind == "command_execution":
        return compact({"command": item.get("command")}) if item.get("command") else ""
    value = item.get("action") if kind == "web_search_call" else item.get("arguments")
    return value if isinstance(value, str) else compact(value) if value else ""


def _whole_texts(name: Any, id: str, contents: object) -> tuple[Effect, ...]:
    parts = enumerate(contents if isinstance(contents, list) else [])
    return tuple(
        Effect(name=name, key=id, part=number, text=text(content.get("text")), is_whole=True)
        for number, content in parts
        if isinstance(content, dict) and text(content.get("text"))
    )


TABLE: Final = EventTable(
    source="openai 3.57.0, types/beta/agent_session_*; openai-node 7.59.0",
    date="2026-11-28",
    rows={
        "agent.session.created": NO_EFFECT,
        "agent.session.in_progress": row("resume"),
        "agent.session.idle": NO_EFFECT,
        "agent.session.requires_action": row("wait"),
        "agent.session.failed": EventRow("close", _failed),
        "agent.session.budget_reached": NO_EFFECT,
        "agent.session.environment.pending": NO_EFFECT,
        "agent.session.environment.ready": NO_EFFECT,
        "agent.session.environment.connected": NO_EFFECT,
        "agent.session.environment.disconnected": NO_EFFECT,
        "agent.session.environment.suspended": NO_EFFECT,
        "agent.session.environment.expired": NO_EFFECT,
        "agent.session.environment.reset": NO_EFFECT,
        "agent.session.environment.failed": NO_EFFECT,
        "agent.session.turn.created": row("begin"),
        "agent.session.turn.in_progress": row("begin"),
        "agent.session.turn.completed": _end("complete", "completed"),
        "agent.session.turn.failed": _end("error", "failed"),
        "agent.session.turn.cancelled": _end("cancelled", "cancelled"),
        "agent.session.turn.item.added": EventRow("call, ask, result", lambda payload: _item(payload, is_done=False)),
        "agent.session.turn.item.done": EventRow(
            "text, reasoning, call, result", lambda payload: _item(payload, is_done=True)
        ),
        "agent.session.turn.content_part.added": NO_EFFECT,
        "agent.session.turn.content_part.done": EventRow("text", _part_done),
        "agent.session.turn.output_text.delta": EventRow("text", _delta),
        "agent.session.turn.output_text.done": EventRow("text", _text_done),
        "agent.session.turn.reasoning_summary_part.added": NO_EFFECT,
        "agent.session.turn.reasoning_summary_part.done": EventRow("reasoning", _summary_part_done),
        "agent.session.turn.reasoning_summary_text.delta": EventRow("reasoning", _summary_delta),
        "agent.session.turn.reasoning_summary_text.done": EventRow("reasoning", _summary_done),
        "agent.output.command_execution_output.delta": NO_EFFECT,
        "agent.session.subagent.created": NO_EFFECT,
        "agent.session.subagent.active": NO_EFFECT,
        "agent.session.subagent.closed": NO_EFFECT,
        "error": EventRow("error", _error),
    },
)


def session_event(kind: str, payload: JsonObject) -> SessionEvent:
    """Read one event of a session."""
    meaning, turn = TABLE.rows.get(kind), object_at(payload, "turn")
    return SessionEvent(
        type=kind,
        effects=() if meaning is None else meaning.read(payload),
        id=text(payload.get("event_id")),
        turn=text(payload.get("turn_id")) or text(turn.get("id")) or text(object_at(payload, "item").get("turn_id")),
        thread=text(turn.get("subagent_id")),
        model=text(object_at(object_at(payload, "session"), "agent").get("model")),
        is_known=meaning is not None,
    )


def _parser(exchange: Exchange) -> Parse:
    is_recognised = False

    def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
        nonlocal is_recognised
        kind = text(payload.get("type")) or event
        is_recognised = is_recognised or kind.startswith(_PREFIX)
        is_named = kind in TABLE.rows and api_asked(exchange) == API
        return Chunk(API, event=session_event(kind, payload)) if is_recognised or is_named else None

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
