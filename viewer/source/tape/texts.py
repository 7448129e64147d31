"""Parts of an exchange as texts for a clipboard."""

from typing import Final

from wiretape.recorder.decode import encoding
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.tape import queries
from wiretape.viewer.text import curl

MOST_COPIED: Final = 8 << 20
"""Maximum size of an answer that goes to a clipboard, in bytes."""


def text_of(connection: Connection, number: int, id: str, part: str) -> str:
    """Return a part of an exchange as one text, empty where it has none.

    Raises `NotFound` where the number is another exchange's by now, `WiretapeError` where the part is too long.
    """
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


def _answer(connection: Connection, number: int, id: str) -> str:
    """Return an answer as it came, its content coding undone."""
    with connection.begin():
        facts = reading.exchange_of(reading.row_of(connection, number))
        body = reading.stored_body(connection, number)
    data = encoding.detect_and_decode(facts.coding, body, [len(body)])[0].data
    if len(data) > MOST_COPIED:
        raise WiretapeError(f"{len(data):,} bytes are too many to copy: use wiretape show {id[:8]} --part raw")
    return data.decode("utf-8", "replace")
