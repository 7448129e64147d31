"""Pure: the values of a JSON text and the bytes that each of them takes, and where bytes cease to be JSON."""

import json
import re
from dataclasses import dataclass
from typing import Final

from wiretape.recorder.sanitize import safe

MOST_VALUES: Final = 2000
DEEPEST: Final = 40

_SHORT: Final = 200
_TOKEN: Final = re.compile(rb'[ \t\r\n]*+(?:([{}\[\],:])|("(?:[^"\\]++|\\.)*+"|[^\s{}\[\],:"]++))', re.DOTALL)


_LARGEST: Final = 1 << 20


@dataclass(slots=True)
class JsonNode:
    """A value: its key or index, its bytes, how deep it is nested, and how it reads in one line."""

    label: str
    start: int
    end: int
    depth: int
    text: str


@dataclass(frozen=True, slots=True)
class JsonFault:
    """The reason why bytes are not JSON: in short, the offset of the fault, and optional details."""

    short: str
    at: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.short}: {self.reason}" if self.reason else self.short


def fault(data: bytes) -> JsonFault | None:
    """Return the reason why bytes are not JSON; None if they are."""
    text = data.decode("utf-8", "surrogateescape")  # a recorder replaces invalid UTF-8: it is no fault of the JSON
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8", "surrogateescape"))
        return JsonFault(f"no JSON from byte {at:,}", at, f"{error.msg[:1].lower()}{error.msg[1:]}")
    except (ValueError, RecursionError):
        return JsonFault("no JSON that can be read", 0, "nested too deeply, or a number too long")
    return None


def payload(block: bytes) -> bytes:
    """Return the data of an event: its `data:` lines joined, or all of it if it has none."""
    fields = [line[5:].removeprefix(b" ") for line in block.splitlines() if line.startswith(b"data:")]
    return b"\n".join(fields) if fields else block


@dataclass(slots=True)
class _Container:
    node: JsonNode
    is_object: bool = False
    count: int = 0
    key: str | None = None


def scan(data: bytes, start: int = 0, end: int | None = None) -> list[JsonNode]:
    """Return the values from `start` to `end` in the order of their bytes, each before those within it.

    This scans tokens and does not validate: bytes that are no JSON give what could be read of them. Bounded by
    `MOST_VALUES` and `DEEPEST`.
    """
    end = len(data) if end is None else end
    nodes: list[JsonNode] = []
    containers = [_Container(JsonNode("", start, end, -1, ""), is_object=True, key="")]
    while len(nodes) < MOST_VALUES and (match := _TOKEN.match(data, start, end)):
        start, sign, inner = match.end(), match[1], containers[-1]
        if sign is None and inner.key is None and inner.is_object:
            inner.key = _text(match[2]).strip('"')
        elif sign is None or sign in b"{[":
            text = _text(match[2]) if sign is None else "object" if sign == b"{" else "array"
            label = (inner.key or "") if inner.is_object else f"[{inner.count}]"
            nodes.append(JsonNode(label, match.start(match.lastindex or 0), start, len(containers) - 1, text))
        elif sign == b"," and len(containers) > 1:
            inner.count, inner.key = inner.count + 1, None
        if sign is not None and sign in b"{[":
            containers.append(_Container(nodes[-1], is_object=sign == b"{"))
        elif sign is not None and sign in b"}]" and len(containers) > 1:
            containers.pop().node.end = start
        if sign is not None and not 1 < len(containers) <= DEEPEST + 1:
            break
    for container in containers:
        container.node.end = start
    return nodes


def _text(token: bytes) -> str:
    """Return a token as it reads: escapes of text undone, quotes kept."""
    text = token[:_SHORT].decode("utf-8", "replace")
    if len(token) > _SHORT:
        return f"{text}…"
    try:
        return f'"{json.loads(text)}"' if token.startswith(b'"') else text
    except ValueError:
        return text


def pretty(payload: bytes, data: bytes) -> str:
    """Return the JSON of an event, indented; its own lines, `data`, if it is not JSON or too large."""
    text = safe(data[:_LARGEST].decode("utf-8", "replace"), multiline=True)
    if len(payload) > _LARGEST:
        return f"(the first {_LARGEST:,} bytes, not put in order)\n{text}"
    try:
        return safe(json.dumps(json.loads(payload), indent=2, ensure_ascii=False), multiline=True)
    except (ValueError, RecursionError):
        return f"({fault(payload) or 'no JSON that can be read'})\n{text}"
