"""The answers that list the history of a hosted session: events, items or turns, which streams may not have told. Pure.

Claude's API and its likes list the events, OpenAI's the items and the turns, the newest first unless asked otherwise.
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from wiretape.recorder.decode.dialects import anthropic_sessions, openai_agents
from wiretape.recorder.decode.effects import SessionEvent
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.values import JsonObject, text

_LIST: Final = re.compile(r"/(events|items|turns)(?:/[^/?]+)?/?(?:\?|$)")
_CURSOR: Final = re.compile(r"[?&](?:after|page)=")
"""The query of a further page."""


class _Page(msgspec.Struct):
    """A page of a list, or one turn."""

    data: list[JsonObject] = []
    id: str | None = None


def is_list(exchange: Exchange) -> bool:
    """Return True if an exchange of a session may have listed its history."""
    return exchange.method == "GET" and exchange.status == 200 and _LIST.search(exchange.path) is not None


def listed_events(pages: Iterable[tuple[str, bytes]]) -> list[list[SessionEvent]]:
    """Return the events of each list, oldest first.

    `pages` are the paths and the answers of their requests, in the order of these. A list of some types only is a list
    for each of its events: nothing tells which of them belong together.
    """
    lists, last_by_place = list[tuple[str, list[JsonObject]]](), dict[str, list[JsonObject]]()
    for path, answer in pages:
        place = path.partition("?")[0]
        if place not in last_by_place or not _CURSOR.search(path):
            last_by_place[place] = []
            lists.append((path, last_by_place[place]))
        last_by_place[place] += _entries(answer)
    listed = list[list[SessionEvent]]()
    for path, entries in lists:
        is_of_events = (match := _LIST.search(path)) is not None and match[1] == "events"
        is_newest_first = "order=desc" in path or not (is_of_events or "order=asc" in path)
        read = partial(_stored_event, path) if is_of_events else _stored_item
        events = [*map(read, reversed(entries) if is_newest_first else entries)]
        listed += [[event] for event in events] if "types" in path else [events]
    return listed


def _entries(answer: bytes) -> list[JsonObject]:
    try:
        page = msgspec.json.decode(answer, type=_Page)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []
    return page.data or ([] if page.id is None else [msgspec.json.decode(answer)])


def _stored_event(path: str, entry: JsonObject) -> SessionEvent:
    return anthropic_sessions.session_event(text(entry.get("type")), entry, path)


def _stored_item(entry: JsonObject) -> SessionEvent:
    field, kind = ("turn", "completed") if entry.get("object") == "agent.session.turn" else ("item", "item.done")
    return openai_agents.session_event(f"agent.session.turn.{kind}", {field: entry})
