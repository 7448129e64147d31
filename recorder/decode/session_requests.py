"""The requests of clients to sessions of hosted agents, as turns begin with them. Pure.

OpenAI answers a request with nothing to link it by. Claude's API and its likes answer with the ids under which the
stream repeats the events. OpenAI's results of tools, and its approvals, begin no turn: one goes on that waits for them.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.sessions import creates_session

_BEGINNINGS: Final = {
    "agent.session.input.message": "text",
    "user.message": "text",
    "user.define_outcome": "outcome",
    "user.custom_tool_result": "tool_result",
    "user.tool_result": "tool_result",
    "user.tool_confirmation": "confirmation",
}
"""Words of `turns.BEGINNINGS` by the events that can begin a turn."""


class _Event(msgspec.Struct):
    type: str = ""


class _Posted(msgspec.Struct):
    events: list[_Event] = []
    initial_events: list[_Event] = []
    input: object = None


class _Stored(msgspec.Struct):
    id: str = ""


class _Answer(msgspec.Struct):
    data: list[_Stored] = []


@dataclass(slots=True, eq=False)
class SessionRequest:
    """A request to a session that was not refused: the id of its exchange, and its time.

    `begun_by` is a word of `turns.BEGINNINGS` if a turn can begin with it. `event_ids` are the server's names of its
    events. `has_result`: it brings a result to a waiting turn.
    """

    exchange_id: str
    at_ns: int
    begun_by: str | None
    event_ids: frozenset[str] = frozenset()
    has_result: bool = False


def session_request(
    exchange: Exchange, exchange_id: str, at_ns: int, body: bytes, answer: bytes
) -> SessionRequest | None:
    """Return a request to a session, from its body and its answer without content encoding; None if it is none."""
    if exchange.method != "POST" or exchange.status is None or exchange.status >= 400:
        return None
    posted: _Posted = _decoded(body, _Posted)
    types = [event.type for event in posted.events or posted.initial_events]
    begun_by = next((_BEGINNINGS[type] for type in types if type in _BEGINNINGS), None)
    if creates_session(exchange.path):
        begun_by = "create" if begun_by is not None or posted.input not in (None, "", []) else None
    stored: _Answer = _decoded(answer, _Answer)
    event_ids = frozenset(event.id for event in stored.data if event.id)
    has_result = any(type.endswith(("_result", "_confirmation")) for type in types)
    return SessionRequest(exchange_id, at_ns, begun_by, event_ids, has_result)


def _decoded(data: bytes, type: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return type()
