"""Pure: the panes, the events and the headers of an exchange as plain text, for a pager, an editor or a clipboard."""

from collections.abc import Iterable, Sequence
from typing import Final

from wiretape.recorder.facts import PROTOCOLS
from wiretape.viewer.exchange import conversation, events, pages
from wiretape.viewer.exchange.answer import AnswerLayout
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.conversation import Folding
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.record.rows import DetailRow, Headers

_WIDTH: Final = 118


def pane(
    name: str | None,
    record: Known,
    exchange: OpenedExchange | None,
    times: Times,
    position: int,
    only: Sequence[int] | None = None,
    turn: Turn | None = None,
) -> tuple[str, str]:
    """Return the contents of a pane as the name of a file and its text.

    `only` are the events that are listed, `turn` is the request where it is shown message by message.
    """
    match name:
        case "replay":
            return "text.txt", (record.row.content or "") if exchange is None else answer(exchange.transcript)
        case "events":
            return "events.txt", "" if exchange is None else _lines(events.lines(exchange.transcript, times, only))
        case "tree" | "bytes":
            is_sse = exchange is None or exchange.transcript.framing == "sse"
            text = "" if exchange is None else event(exchange.transcript, position)
            return "event.sse" if is_sse else "event.json", text
        case "request":
            request_lines = pages.request(record) if turn is None else conversation.lines(turn, Folding(), "3 shows it")
            return "request.txt", _joined(request_lines)
    return "timing.txt", _joined(pages.timing(record, exchange, _WIDTH, times))


def answer(transcript: Transcript) -> str:
    parts = AnswerLayout(transcript, _WIDTH).parts
    if len(parts) == 1 and parts[0].name is None:
        return parts[0].track.text
    heads = (f"{part.title} {part.name.text}" if part.name is not None else part.title for part in parts)
    return "\n\n".join(f"─ {head}\n{part.track.text}" for head, part in zip(heads, parts, strict=True)) + "\n"


def event(transcript: Transcript, position: int) -> str:
    """Return an event as it came; of one among bytes that are no text, its data."""
    if not len(transcript):
        return transcript.data.decode("utf-8", "replace")
    event = max(position - 1, 0)
    # Frames of an event stream and messages of a call are binary: only what they carry is a text.
    is_text = transcript.framing != "aws-eventstream" and not transcript.is_call
    return (transcript.bytes(event) if is_text else transcript.payload(event)).decode("utf-8", "replace")


def _joined(lines: Iterable[Line]) -> str:
    return _lines("".join(text for text, _ in line) for line in lines)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


def body(transcript: Transcript) -> str:
    return transcript.data.decode("utf-8", "replace")


def head(row: DetailRow, headers: Headers) -> str:
    """Return the head of a response as its protocol has it, with the status alone: the tape has no reason phrase."""
    protocol = PROTOCOLS.get(row.protocol or "", PROTOCOLS["http/1.1"])
    return f"{protocol} {row.status} \r\n{fields(headers)}\r\n"


def fields(headers: Headers) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers)
