"""Pure: the events of one exchange: a summary line of each, a table of them, and the filter that users type."""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import sub
from typing import Final

from wiretape.recorder.decode import payloads
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.dialect import Chunk
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.encoding import is_utf8
from wiretape.recorder.decode.framings import length_prefixed
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange import strips, turns
from wiretape.viewer.exchange.clocks import SAME, Times, milliseconds
from wiretape.viewer.exchange.transcript import KINDS, OUTPUT, UNKNOWN, Transcript
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.text import formatting, hexdump, json_spans, sparkline
from wiretape.viewer.text.cells import Tone

FILTER_HELP: Final = "kind:tool · gap>100ms · words"
"""The syntax of a filter for events."""

_LONGEST: Final = 200
_LARGEST: Final = 16_384
"""Bytes of an event's data that its line is made of: an event may have megabytes."""
_KIND_WIDTH: Final = max(map(len, KINDS))
_GAP: Final = re.compile(r"(?:Δ|gap)([<>])([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s)?")
_ROLE: Final = re.compile(r'"role"\s*:\s*"(\w{1,40})"')

Test = Callable[[Transcript, int], bool]


def summary(transcript: Transcript, event: int) -> str:
    """Summarize an event in one line: its addition, in quotes; the end's reason, the tokens, or its data."""
    kind = transcript.kind(event)
    if kind in OUTPUT and (text := transcript.text(event)):
        return f"'{without_nul(text[:_LONGEST])}'"
    if kind == "malformed":
        return _malformed(transcript.payload(event))[:_LONGEST]
    if binary_summary := _no_text(transcript, event):
        return binary_summary
    if part := transcript.audio.get(event):
        lasts = f"{units.ms(part.duration_ns):,.0f} ms of audio, " if part.duration_ns is not None else "audio, "
        return f"({lasts}{counted(part.size, 'byte')})"
    if ended_turn := transcript.turn_ended(event):
        return turns.ending(ended_turn)[:_LONGEST]
    type, data = transcript.fields(event, _LARGEST)
    if meaning_text := _chunk_summary(kind, payloads.read(data, type), data):
        return meaning_text[:_LONGEST]
    if transcript.is_call:
        data = ", ".join(data.splitlines())
    return (data if type == "message" or type in data else f"{type} {data}")[:_LONGEST]


def _no_text(transcript: Transcript, event: int) -> str:
    """Return the summary of a message that is no text; "" if it is text."""
    if transcript.is_call:
        message = transcript.bytes(event)
        start = length_prefixed.PREFIX.size
        if len(message) == start:
            return "(0 bytes)"
        if length_prefixed.text(message, transcript.message_coding) is not None:
            return ""
        compressed = ", compressed" if message[0] & length_prefixed.COMPRESSED else ""
        excerpts = hexdump.printable(message[start : start + 64]), message[start : start + 16].hex(" ")
        return f"({counted(len(message) - start, 'byte')}{compressed}) {' · '.join(excerpts)}"
    if transcript.framing == "websocket" and not is_utf8(transcript.bytes(event)):
        return f"({counted(transcript.ends[event] - transcript.starts[event], 'byte')}, no text)"
    return ""


def meaning(transcript: Transcript, event: int) -> str:
    type, data = transcript.fields(event, _LARGEST)
    return _chunk_summary(transcript.kind(event), payloads.read(data, type), data)[:_LONGEST]


def without_nul(text: str) -> str:
    """Return a text with U+FFFD for NUL, as in the tape's own texts."""
    return text.replace("\0", "\ufffd")


def _malformed(payload: bytes) -> str:
    data = payload[:_LONGEST].decode("utf-8", "replace").strip()
    if len(payload) > _LARGEST:
        return f"no JSON: {data}"
    fault = json_spans.fault(payload)
    return f"{fault.short if fault else 'broken'}: {data}"


def _chunk_summary(kind: str, chunk: Chunk, data: str) -> str:
    """Return the summary of an event that adds nothing to the answer, or "" for its data."""
    match kind:
        case "finish":
            return ", ".join(piece.finish_reason for piece in chunk.pieces if piece.finish_reason)
        case "usage":
            tokens = registry.tokens(chunk)
            counts = {"in": tokens.input, "out": tokens.output}
            return ", ".join(f"{count} {name}" for name, count in counts.items() if count is not None)
        case "error":
            return (chunk.fault.message or chunk.fault.code or "") if chunk.fault else ""
        case "role":
            role = _ROLE.search(data)
            return role[1] if role else ""
    return ""


def lines(transcript: Transcript, times: Times, only: Sequence[int] | None = None) -> Iterator[str]:
    """Yield a heading and a line for each event, or for `only` some, safe for a terminal."""
    number, at = len(str(len(transcript))), times.width(transcript)
    arrow_room = "  " if transcript.framing == "websocket" else ""
    heads = f"{'#':>{number}} {times.title:>{at}} {'Δ ms':>9} {arrow_room}{'kind':<{_KIND_WIDTH}}"
    yield f"{heads} {'bytes':>9} {'read':>6} data"
    for event in range(len(transcript)) if only is None else only:
        size = transcript.ends[event] - transcript.starts[event]
        gap = SAME if transcript.shares_read(event) else formatting.ms(units.ms(transcript.gap_ns(event)))
        read_number = formatting.UNKNOWN if transcript.reads[event] == UNKNOWN else transcript.reads[event]
        start = f"{event:>{number}} {times.of(transcript, event):>{at}} {gap:>9}"
        arrow = transcript.arrow(event)
        kind = f"{arrow and arrow + ' '}{transcript.kind(event):<{_KIND_WIDTH}}"
        yield f"{start} {kind} {size:>9} {read_number:>6} {safe(summary(transcript, event))}"


def table(transcript: Transcript, decoded: Decoded) -> Iterator[TableRow]:
    """Yield a row of `rows.EVENT_FIELDS` for each event; the transcript is made of `decoded`.

    `gap_ms` is the time since the event before, None for the first; `delta` its addition to the answer.
    """
    for event, item in enumerate(decoded.items()):
        yield {
            "seq": item.seq,
            "kind": transcript.kind(event),
            "at_ms": units.ms(item.at_ns),
            "gap_ms": units.ms(transcript.gap_ns(event)),
            "read": item.read,
            "type": item.type,
            "id": item.id,
            "data": item.data,
            "start": item.start,
            "end": item.end,
            "delta": transcript.text(event) or None,
            "sender": item.sender,
        }


def parse_filter(text: str) -> list[Test]:
    """Return the tests that an event must pass to fit a filter. Raises `ValueError` with the reason if it is none."""
    return [_test(term) for term in text.split()]


def filter_error(text: str) -> str | None:
    try:
        parse_filter(text)
    except ValueError as error:
        return str(error)
    return None


def matching(transcript: Transcript, tests: Sequence[Test]) -> "array[int]":
    return array("q", (event for event in range(len(transcript)) if all(test(transcript, event) for test in tests)))


def _test(term: str) -> Test:
    if term.startswith("kind:"):
        aliases = {"reason": ("reasoning",), "ping": ("ping", "comment"), "bad": ("malformed",)}
        names = {kind for name in term.removeprefix("kind:").split(",") for kind in aliases.get(name, (name,))}
        if unknown := names - set(KINDS):
            raise ValueError(f"{min(unknown)} is no kind: there are {', '.join(KINDS)}")
        return lambda transcript, event: transcript.kind(event) in names
    if match := _GAP.fullmatch(term):
        is_above = match[1] == ">"
        limit_ns = round(float(match[2]) * (1_000_000_000 if match[3] == "s" else 1_000_000))

        def test(transcript: Transcript, event: int) -> bool:
            gap = transcript.gap_ns(event)
            if gap is None or transcript.shares_read(event):
                return False
            return gap > limit_ns if is_above else gap < limit_ns

        return test
    if re.match(r"(?:Δ|gap)[<>=]", term):
        raise ValueError(f"{term}: write a duration, as in gap>100ms")
    words = re.compile(re.escape(term.encode("utf-8", "replace")), re.IGNORECASE)
    return lambda transcript, event: (
        words.search(transcript.data, transcript.starts[event], transcript.ends[event]) is not None
    )


def widths(transcript: Transcript, times: Times) -> tuple[int, int, int, int]:
    """Return the widths of the columns for the number, the time, the bytes and the read."""
    if not len(transcript):
        return 1, 5, 2, 4
    largest = max(map(sub, transcript.ends, transcript.starts))
    read_width = max(len(str(max(transcript.reads))), 4)
    return len(str(len(transcript))), times.width(transcript), max(len(str(largest)), 2), read_width


def gap(transcript: Transcript, event: int) -> tuple[str, str, Tone]:
    """Return the time since the event before, its glyph, and its tone."""
    if transcript.shares_read(event):
        return SAME, "", "muted"
    gap = transcript.gap_ns(event)
    if gap is None:
        return formatting.UNKNOWN, "", "muted"
    glyph = sparkline.bars([sparkline.height(gap, 1, transcript.gap_unit_ns)], 1)[0]
    return milliseconds(gap), glyph, "muted" if transcript.is_idle(event) else strips.gap_tone(gap)
