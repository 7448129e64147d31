"""Copies and exports of the list: texts of the exchange under the cursor, and commands for all of it."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.viewer.rows import ListRow
from wiretape.viewer.source.base import Place
from wiretape.viewer.text import curl
from wiretape.viewer.tui.base.host import Host, TapeReader
from wiretape.viewer.tui.dialogs.offers import Copy, Later, arguments, command, part_command
from wiretape.viewer.tui.list.listing import Query

if TYPE_CHECKING:
    from sqlalchemy import Connection

PARTS: Final = {
    "curl": "its request, as a command",
    "text": "the content, assembled",
    "body": "the answer, as it came",
    "tool arguments": "of its calls, assembled",
}
"""The parts of an exchange that can be copied, with descriptions."""

MOST_COPIED: Final = 8 << 20
"""No longer answer, in bytes, goes to a clipboard."""


def copies(host: Host, query: Query, row: ListRow | None, marked: Sequence[str]) -> list[Copy]:
    """Return the texts to copy: (label, text). `row` is the one under the cursor, `marked` are ids."""
    place = host.listed.place
    offered: list[Copy] = [("this list", command(place, "ls", *_filter(query), *_order(query)))]
    if row is not None and not place.supports("bodies"):
        pulls = command(place, "pull", row.id, "-o", f"{row.id[:8]}.db")
        offered = [("id", row.id), ("view", command(place, "view", row.id)), *offered, ("pull", pulls)]
    elif row is not None:
        id = row.id
        verbs: list[Copy] = [(verb, command(place, verb, id)) for verb in ("show", "view")]
        parts = [part for part in PARTS if part != "tool arguments" or row.finish_reason == "tool_calls"]
        offered = [("id", id), *verbs, *offered, *((part, _later(host.tape, row.no, id, part)) for part in parts)]
    if marked:
        offered.append(("marked ids", "\n".join(marked)))
    return offered


def exports(
    place: Place, query: Query, row: ListRow | None, marked: Sequence[str], fitting: int
) -> list[tuple[str, list[str]]]:
    """Return the exports: (label, arguments); `fitting` is the number of exchanges in the list."""
    listed, has_bodies = arguments(place, "export", *_filter(query)), place.supports("bodies")
    offered = [(counted(fitting, "exchange"), listed)]
    if has_bodies:
        offered.append((f"their texts, {fitting:,}", [*listed, "--table", "texts"]))
    if marked:
        offered.append((f"marked, {len(marked)}", arguments(place, "export", *marked)))
    if row is not None and has_bodies:
        one, short = arguments(place, "export", row.id), row.id[:8]
        offered.append((f"bytes of {short}", [*one, "--format", "sse"]))
        offered.append((f"chunks of {short}", [*one, "--table", "chunks"]))
    return offered


def text_of(connection: "Connection", number: int, id: str, part: str) -> str:
    """Return a part of an exchange as one text, empty where it has none.

    Raises `NotFound` where the number is another exchange's by now, `WiretapeError` where the part is too long.
    """
    from wiretape.viewer.source.tape import queries

    if not any(row["id"] == id for row in queries.numbered(connection, ("id",), [number])):
        raise NotFound(f"{id[:8]} is not on this tape any more")
    if part == "curl":
        return curl.of(queries.request(connection, number))
    if part == "body":
        return _answer(connection, number, id)
    detail = queries.detail(connection, number)
    if part == "text":
        return detail.content or ""
    return "\n".join(call["arguments"] or "" for call in detail.tool_calls or ())


def _answer(connection: "Connection", number: int, id: str) -> str:
    """Return an answer as it came, its content coding undone."""
    from wiretape.recorder.decode import encoding
    from wiretape.recorder.tape import reading

    with connection.begin():
        facts = reading.exchange_of(reading.row_of(connection, number))
        body = reading.stored_body(connection, number)
    data = encoding.plain(facts.content_encoding, body, [len(body)]).data
    if len(data) > MOST_COPIED:
        raise WiretapeError(f"{len(data):,} bytes are too many to copy: use wiretape show {id[:8]} --part raw")
    return data.decode("utf-8", "replace")


def _later(reader: TapeReader, number: int, id: str, part: str) -> Later:
    question = partial(text_of, number=number, id=id, part=part)
    return Later(PARTS[part], partial(reader.ask, question, "copy"), part_command(reader.place, id, part))


def _filter(query: Query) -> list[str]:
    return [] if query.filter is None else ["-f", query.text]


def _order(query: Query) -> list[str]:
    if query.order is None:
        return []
    field, largest_first = query.order
    return ["-s", f"{'-' if largest_first else ''}{field}"]
