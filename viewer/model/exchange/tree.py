"""Pure: an event taken apart: its lines, their fields, and the values of its JSON, each with the bytes it takes.

What is no JSON has no values: its line is given as it is, and why it cannot be read.
"""

import json
import re
from typing import Final

from recorder.plurals import counted
from viewer import formatting
from viewer.model.exchange.transcript import UNKNOWN, Transcript
from viewer.model.text import hexdump, json_spans
from viewer.model.text.json_spans import Node

_JSON: Final = re.compile(rb"\s*(?:\{|\[\s*(?:[\]\[{\"\d-]|true|false|null))")
MOST_LINES: Final = 200
_SHORT: Final = 120
_CHECKED: Final = 1 << 20
"""Of more bytes than this, it is not looked whether they are JSON to their end."""


def of(transcript: Transcript, event: int) -> list[Node]:
    """Give the parts of an event, each before those within it; the first is the whole event."""
    start, end = transcript.starts[event], transcript.ends[event]
    read = transcript.reads[event]
    came = "no read known" if read == UNKNOWN else f"read {read}"
    kind = transcript.kind(event)
    head = Node(f"event #{event}", start, end, 0, f"({came}, bytes {start:,}–{end:,}, {kind})")
    if kind != "malformed":
        return [head, *_lines(transcript.data, start, end)]
    return [head, *_lines(transcript.data, start, end, sound=False), *_fault(transcript.data, start, end)]


def of_body(data: bytes) -> list[Node]:
    """Give the parts of a body without any event: its JSON, or its lines."""
    if not data:
        return [Node("no body came", 0, 0, 0, "")]
    head = Node("body", 0, len(data), 0, f"({counted(len(data), 'byte')}, no event in it)")
    found = json_spans.scan(data) if _is_json(data, 0, len(data)) else []
    nested = [Node(one.label, one.start, one.end, one.depth + 1, one.shown) for one in found]
    return [head, *(nested or _lines(data, 0, len(data)))]


def _fault(data: bytes, start: int, end: int) -> list[Node]:
    """Say why an event's data cannot be read, and point at the byte at which that begins, if it is in one line."""
    if end - start > _CHECKED:
        return [Node("no JSON", start, end, 1, "")]
    payload = json_spans.payload(data[start:end].rstrip(b"\r\n"))
    fault = json_spans.fault(payload)
    if fault is None:
        return []
    place = data.find(payload, start, end)
    at = min(place + fault.at, end - 1) if place >= 0 else start
    return [Node(fault.short, at, at + 1 if place >= 0 else end, 1, fault.reason)]


def _lines(data: bytes, start: int, end: int, *, sound: bool = True) -> list[Node]:
    found, done = list[Node](), start
    for piece in hexdump.lines(data, start, end)[:MOST_LINES]:
        if piece.start >= done and (parts := _line(data, piece.start, piece.end, end, sound=sound)):
            found += parts
            done = parts[0].end  # which is beyond the line where a value is printed over several
    return found


def _line(data: bytes, start: int, stop: int, end: int, *, sound: bool) -> list[Node]:
    """Give the parts of a line; of an event that ends at `end`, if its JSON goes on beyond the line."""
    line = data[start:stop].rstrip(b"\r\n")
    if not line:
        return []
    name, colon, value = line.partition(b":")
    skipped = len(name) + len(colon) + (value[:1] == b" ")
    if line[:1] in (b"{", b"["):
        name, skipped = b"(no field)", 0
    elif not name:
        name = b"comment"
    label = name.decode("utf-8", "replace")[:_SHORT]
    payload = start + skipped
    ends = (start + len(line), end) if sound else ()
    last = next((last for last in ends if _is_json(data, payload, last)), None)
    if last is None:
        text = line[skipped : skipped + _SHORT].decode("utf-8", "replace")
        return [Node(label, start, start + len(line), 1, formatting.cut(text, _SHORT - 1))]
    found = json_spans.scan(data, payload, last)
    head = Node(label, start, found[0].end, 1, found[0].shown)
    return [head, *(Node(one.label, one.start, one.end, one.depth + 1, one.shown) for one in found[1:])]


def _is_json(data: bytes, start: int, end: int) -> bool:
    """Say whether bytes are an object or an array; of many, only whether they begin as one."""
    if not _JSON.match(data, start, end):
        return False
    if end - start > _CHECKED:
        return True
    try:
        json.loads(data[start:end].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True
