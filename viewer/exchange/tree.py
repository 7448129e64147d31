"""Pure: an event as a tree: its lines, their fields, and the values of its JSON, each with the bytes it takes.

An event that is not made of lines of text has its type and the values of its JSON. An invalid line is shown verbatim,
with the reason.
"""

import json
import re
from dataclasses import replace
from itertools import islice
from typing import Final

from wiretape.recorder.decode.framings import length_prefixed
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange.transcript import UNKNOWN, Transcript
from wiretape.viewer.text import json_spans
from wiretape.viewer.text.json_spans import JsonNode

MOST_LINES: Final = 200

# Without backtracking (`*+`): a line may have megabytes.
_LINE: Final = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_JSON: Final = re.compile(rb"\s*(?:\{|\[\s*(?:[\]\[{\"\d-]|true|false|null))")
_SHORT: Final = 120
_CHECKED: Final = 1 << 20
"""More bytes than this are not checked to be JSON to their end."""


def of(transcript: Transcript, event: int) -> list[JsonNode]:
    """Return the parts of an event, each before those within it; the first is the whole event."""
    data, start, end = transcript.data, transcript.starts[event], transcript.ends[event]
    read_number = transcript.reads[event]
    origin = "no read known" if read_number == UNKNOWN else f"read {read_number}"
    kind = transcript.kind(event)
    origin = {"→": "from the client", "←": f"from upstream, {origin}"}.get(transcript.arrow(event), origin)
    head = JsonNode(f"event #{event}", start, end, 0, f"({origin}, bytes {start:,}–{end:,}, {kind})")
    if transcript.framing == "aws-eventstream":
        return [head, *_message(transcript, event)]
    if transcript.is_call:
        return [head, *_framed(transcript, event)]
    if transcript.framing == "websocket":
        return [head, *_message(transcript, event)[1:]]
    if kind != "malformed":
        return [head, *_lines(data, start, end)]
    return [head, *_lines(data, start, end, is_sound=False), *_fault(transcript, event)]


def _framed(transcript: Transcript, event: int) -> list[JsonNode]:
    """Return the flags, the length and the payload of a message by gRPC or Connect; binary payloads are in hex."""
    start, end = transcript.starts[event], transcript.ends[event]
    payload = start + length_prefixed.PREFIX.size
    flags, length = length_prefixed.PREFIX.unpack_from(transcript.data, start)
    compressed = ", compressed" if flags & length_prefixed.COMPRESSED else ""
    nodes = [
        JsonNode("flags", start, start + 1, 1, f"0x{flags:02x}{compressed}"),
        JsonNode("length", start + 1, payload, 1, f"{length:,}"),
    ]
    if length_prefixed.text(transcript.bytes(event), transcript.message_coding) is not None:
        return nodes + _message(transcript, event)
    excerpt = transcript.data[payload : min(end, payload + _SHORT // 3)].hex(" ")
    return [*nodes, JsonNode("data", payload, end, 1, clipped(excerpt, _SHORT - 1))]


def _message(transcript: Transcript, event: int) -> list[JsonNode]:
    """Return the type and the data of an event that has them somewhere among bytes that are no text."""
    start, end = transcript.starts[event], transcript.ends[event]
    type, _ = transcript.fields(event, end - start)
    payload = transcript.payload(event)
    payload_start = transcript.data.find(payload, start, end)
    nodes = [_part("type", type.encode("utf-8", "replace"), transcript, event)]
    if transcript.kind(event) == "malformed":
        reason = "a checksum is wrong, or the headers cannot be read"
        return [*nodes, *(_fault(transcript, event) or [JsonNode("broken", start, end, 1, reason)])]
    if payload_start < 0 or not _is_json(transcript.data, payload_start, payload_start + len(payload)):
        return [*nodes, _part("data", payload, transcript, event)]
    values = json_spans.scan(transcript.data, payload_start, payload_start + len(payload))
    return [*nodes, JsonNode("data", payload_start, values[0].end, 1, values[0].text), *_nested(values[1:])]


def _part(label: str, part: bytes, transcript: Transcript, event: int) -> JsonNode:
    """Return a part of an event; where its bytes do not stand in one piece, it has the span of the whole event."""
    start, end = transcript.starts[event], transcript.ends[event]
    part_start = transcript.data.find(part, start, end)
    if part_start >= 0:
        start, end = part_start, part_start + len(part)
    return JsonNode(label, start, end, 1, clipped(part[:_SHORT].decode("utf-8", "replace"), _SHORT - 1))


def of_body(data: bytes, nothing: str = "no body came") -> list[JsonNode]:
    """Return the parts of a body without any event: its JSON, or its lines; or `nothing`, where there is none."""
    if not data:
        return [JsonNode(nothing, 0, 0, 0, "")]
    head = JsonNode("body", 0, len(data), 0, f"({counted(len(data), 'byte')}, no event in it)")
    values = json_spans.scan(data) if _is_json(data, 0, len(data)) else []
    return [head, *(_nested(values) or _lines(data, 0, len(data)))]


def _nested(nodes: list[JsonNode]) -> list[JsonNode]:
    return [replace(node, depth=node.depth + 1) for node in nodes]


def _fault(transcript: Transcript, event: int) -> list[JsonNode]:
    """Return the error in an event's data, with the offset of its beginning, if the data are in one piece."""
    start, end = transcript.starts[event], transcript.ends[event]
    if end - start > _CHECKED:
        return [JsonNode("no JSON", start, end, 1, "")]
    payload = transcript.payload(event)
    fault = json_spans.fault(payload)
    if fault is None:
        return []
    place = transcript.data.find(payload, start, end)
    at = min(place + fault.at, end - 1) if place >= 0 else start
    return [JsonNode(fault.short, at, at + 1 if place >= 0 else end, 1, fault.reason)]


def _lines(data: bytes, start: int, end: int, *, is_sound: bool = True) -> list[JsonNode]:
    nodes, done = list[JsonNode](), start
    for match in islice(_LINE.finditer(data, start, end), MOST_LINES):
        if match.start() >= done and (parts := _line(data, match.start(), match.end(), end, is_sound=is_sound)):
            nodes += parts
            done = parts[0].end  # which is beyond the line where a value is printed over several
    return nodes


def _line(data: bytes, start: int, stop: int, end: int, *, is_sound: bool) -> list[JsonNode]:
    """Return the parts of a line; of an event that ends at `end`, if its JSON goes on beyond the line."""
    line = data[start:stop].rstrip(b"\r\n")
    if not line:
        return []
    name, colon, value = line.partition(b":")
    skipped = len(name) + len(colon) + (value[:1] == b" ")
    if line[:1] in (b"{", b"["):
        name, skipped = b"(no field)", 0
    label = (name or b"comment").decode("utf-8", "replace")[:_SHORT]
    ends = (start + len(line), end) if is_sound else ()
    json_end = next((json_end for json_end in ends if _is_json(data, start + skipped, json_end)), None)
    if json_end is None:
        text = line[skipped : skipped + _SHORT].decode("utf-8", "replace")
        return [JsonNode(label, start, start + len(line), 1, clipped(text, _SHORT - 1))]
    values = json_spans.scan(data, start + skipped, json_end)
    return [JsonNode(label, start, values[0].end, 1, values[0].text), *_nested(values[1:])]


def _is_json(data: bytes, start: int, end: int) -> bool:
    """Return True if bytes are an object or an array; of many, only their beginning is checked."""
    if not _JSON.match(data, start, end):
        return False
    if end - start > _CHECKED:
        return True
    try:
        json.loads(data[start:end].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True
