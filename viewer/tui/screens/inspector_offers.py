"""What the inspector has to copy and to export: texts as they came, and commands that give the same."""

from pathlib import Path

from viewer.inspecting import Known
from viewer.model.opening import Opened
from viewer.tui.screens import offers


def copies(tape: Path, known: Known, opened: Opened | None, position: int) -> list[tuple[str, str]]:
    """Give what can be copied, as (label, text): the id, the commands that show the same, the texts, the event."""
    row = known.row
    found = [("id", row["id"]), ("command", offers.command(tape, "show", row["id"]))]
    texts = [("text", row["content"]), ("reasoning", row["reasoning"]), ("request body", known.request["body"])]
    found += [(label, text) for label, text in texts if text]
    if opened is not None and 0 < position <= len(opened.transcript):
        event = opened.transcript.bytes(position - 1).decode("utf-8", "replace")
        found.append((f"event #{position}", event))
        found.append(("place", offers.command(tape, "view", row["id"], "--at", f"#{position}")))
    return found


def exports(tape: Path, id: str) -> list[tuple[str, list[str]]]:
    """Give what can be exported of an exchange, as (label, arguments)."""
    one = offers.arguments(tape, "export", id)
    tables = [(f"its {table}", [*one, "--table", table]) for table in ("chunks", "reads", "texts")]
    formats = [("bytes (SSE)", "sse"), ("HAR", "har"), ("asciicast", "asciicast")]
    return [("its row", one), *tables, *((name, [*one, "--format", of]) for name, of in formats)]
