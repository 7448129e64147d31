"""Pure: an event taken apart: its lines, their fields, and the values of its JSON, each with the bytes it takes."""

import re
from typing import Final

from viewer import cells
from viewer.model import dump, json_spans
from viewer.model.json_spans import Node
from viewer.model.transcript import UNKNOWN, Transcript

_JSON: Final = re.compile(rb"\s*(?:\{|\[\s*(?:[\]\[{\"\d-]|true|false|null))")
MOST_LINES: Final = 200
_SHORT: Final = 120


def of(transcript: Transcript, event: int) -> list[Node]:
    """Give the parts of an event, each before those within it; the first is the whole event."""
    start, end = transcript.starts[event], transcript.ends[event]
    read = transcript.reads[event]
    came = "no read known" if read == UNKNOWN else f"read {read}"
    head = Node(f"event #{event + 1}", start, end, 0, f"({came}, bytes {start:,}–{end:,}, {transcript.kind(event)})")
    return [head, *_lines(transcript.data, start, end)]


def of_body(data: bytes) -> list[Node]:
    """Give the parts of a body without any event: its JSON, or its lines."""
    if not data:
        return [Node("no body came", 0, 0, 0, "")]
    head = Node("body", 0, len(data), 0, f"({len(data):,} bytes, no event in it)")
    found = json_spans.scan(data) if _JSON.match(data) else []
    nested = [Node(one.label, one.start, one.end, one.depth + 1, one.shown) for one in found]
    return [head, *(nested or _lines(data, 0, len(data)))]


def _lines(data: bytes, start: int, end: int) -> list[Node]:
    pieces = dump.lines(data, start, end)[:MOST_LINES]
    return [node for piece in pieces for node in _line(data, piece.start, piece.end)]


def _line(data: bytes, start: int, end: int) -> list[Node]:
    line = data[start:end].rstrip(b"\r\n")
    if not line:
        return []
    name, colon, value = line.partition(b":")
    skipped = len(name) + len(colon) + (value[:1] == b" ")
    if line[:1] in (b"{", b"["):
        name, skipped = b"(no field)", 0
    elif not name:
        name = b"comment"
    payload = start + skipped
    found = json_spans.scan(data, payload, start + len(line)) if _JSON.match(data, payload) else []
    if not found:
        text = line[skipped : skipped + _SHORT].decode("utf-8", "replace")
        return [
            Node(name.decode("utf-8", "replace")[:_SHORT], start, start + len(line), 1, cells.cut(text, _SHORT - 1))
        ]
    head = Node(name.decode("utf-8", "replace")[:_SHORT], start, start + len(line), 1, found[0].shown)
    return [head, *(Node(one.label, one.start, one.end, one.depth + 1, one.shown) for one in found[1:])]
