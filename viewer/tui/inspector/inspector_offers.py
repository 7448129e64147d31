"""What the inspector has to copy and to export: texts as they came, and commands that give the same."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final

from viewer import formatting
from viewer.model.exchange.opened import Opened
from viewer.model.text import curl
from viewer.rows import Row
from viewer.tape.exchange import Known
from viewer.tui.dialogs import offers
from viewer.tui.dialogs.offers import Copy, Later

_NAME: Final = 24
_MOST_CALLS: Final = 20
_LONG: Final = 100_000
_SHOWN: Final = 200


def copies(tape: Path, known: Known, opened: Opened | None, position: int) -> list[Copy]:
    """Give what can be copied, as (label, text): the id, the commands that show the same, the texts, the event."""
    row = known.row
    found: list[Copy] = [("id", row["id"]), ("command", offers.command(tape, "show", row["id"]))]
    texts = [("text", row["content"]), ("reasoning", row["reasoning"]), ("request body", known.request["body"])]
    texts += [
        (f"arguments of {formatting.cut(formatting.line(call['name']), _NAME)}", call["arguments"])
        for call in _calls(row)
    ]
    found += [(label, _whole(text, offers.given(tape, row["id"], label))) for label, text in texts if text]
    curled = offers.given(tape, row["id"], "curl")
    found.append(
        ("curl", _later("its request, as a command", lambda: curl.of(known.request, known.request_body), curled))
    )
    if opened is not None:
        data, raw = opened.transcript.data, offers.given(tape, row["id"], "SSE")
        found.append(("SSE", _later("the answer, as it came", lambda: data.decode("utf-8", "replace"), raw)))
    if opened is not None and 0 < position <= len(opened.transcript):
        event = opened.transcript.bytes(position - 1).decode("utf-8", "replace")
        found.append((f"event #{position - 1}", _whole(event, raw)))
        found.append(("place", offers.command(tape, "view", row["id"], "--at", f"#{position - 1}")))
    return found


def _calls(row: Row) -> list[Row]:
    return (row["tool_calls"] or [])[:_MOST_CALLS]


def _later(said: str, make: Callable[[], str], instead: str) -> Later:
    """Make a text that may be long beside the loop, once it is chosen."""
    return Later(said, functools.partial(asyncio.to_thread, make), instead)


def _whole(text: str, instead: str) -> str | Later:
    """Offer a text; one that may be too long for a clipboard with the command that gives it."""
    return text if len(text) <= _LONG else _later(text[:_SHOWN], lambda: text, instead)


def exports(tape: Path, id: str) -> list[tuple[str, list[str]]]:
    """Give what can be exported of an exchange, as (label, arguments)."""
    one = offers.arguments(tape, "export", id)
    tables = [(f"its {table}", [*one, "--table", table]) for table in ("chunks", "reads", "texts")]
    formats = [("bytes (SSE)", "sse"), ("HAR", "har"), ("asciicast", "asciicast")]
    return [("its row", one), *tables, *((name, [*one, "--format", of]) for name, of in formats)]
