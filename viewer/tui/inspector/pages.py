"""What each pane of the inspector shows, as a text for a pager or an editor: exact, and as long as it is."""

from collections.abc import Iterable, Sequence
from typing import Final

from viewer.model.exchange import events, pages
from viewer.model.exchange.answer import Answer
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.notes import Notes
from viewer.model.exchange.opened import Opened
from viewer.model.exchange.transcript import Transcript
from viewer.model.facts import Line
from viewer.tape.exchange import Known

_WIDTH: Final = 118


def page(
    pane: str | None,
    known: Known,
    opened: Opened | None,
    notes: Notes,
    times: Times,
    position: int,
    only: Sequence[int] | None = None,
) -> tuple[str, str]:
    """Give the name of a file and its text for a pane; of the events `only` some, if only they are listed."""
    match pane:
        case "replay" if opened is not None:
            return "text.txt", _said(opened.transcript)
        case "replay":
            return "text.txt", known.row["content"] or ""
        case "events":
            return "events.txt", "" if opened is None else _lines(events.lines(opened.transcript, times, only))
        case "tree" | "bytes":
            return "event.sse", _bytes(opened, position).decode("utf-8", "replace")
        case "request":
            return "request.txt", _text(pages.request(known))
        case "timing":
            return "timing.txt", _text(pages.timing(known, opened, _WIDTH, times))
    return "note.txt", notes.text


def _said(transcript: Transcript) -> str:
    """Give all that was said; headed where it is more than one text."""
    parts = Answer(transcript, _WIDTH).parts
    if len(parts) == 1 and parts[0].name is None:
        return parts[0].track.text
    heads = [f"{part.title} {part.name.text}" if part.name is not None else part.title for part in parts]
    return "\n\n".join(f"─ {head}\n{part.track.text}" for head, part in zip(heads, parts, strict=True)) + "\n"


def _bytes(opened: Opened | None, position: int) -> bytes:
    if opened is None:
        return b""
    transcript = opened.transcript
    return transcript.bytes(max(position - 1, 0)) if len(transcript) else transcript.data


def _text(lines: Iterable[Line]) -> str:
    return _lines("".join(text for text, _ in line) for line in lines)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)
