"""Pure: the values of a JSON text and the bytes that each of them takes, so that a value can be pointed at in a dump.

`scan` is a scanner of tokens, no judge: what is no JSON gives what could be read of it. Bounded in values and in depth.
Whether a text is JSON at all, and where it ceases to be, `fault` says.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

MOST: Final = 2000
DEEPEST: Final = 40

_SHORT: Final = 200
_TOKEN: Final = re.compile(rb'[ \t\r\n]*+(?:([{}\[\],:])|("(?:[^"\\]++|\\.)*+")|([^\s{}\[\],:"]++))', re.DOTALL)


@dataclass(slots=True)
class Node:
    """A value: its key or place, its bytes, how deep it lies, and in one line what it is."""

    label: str
    start: int
    end: int
    depth: int
    shown: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Why bytes are no JSON object: what they are in short, the byte from which on, and the reason if there is one."""

    short: str
    at: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.short}: {self.reason}" if self.reason else self.short


def fault(data: bytes) -> Fault | None:
    """Say why bytes are no JSON object; None if they are one."""
    text = data.decode("utf-8", "surrogateescape")  # what is no UTF-8 is replaced by a recorder, and no fault of JSON
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8", "surrogateescape"))
        return Fault(f"no JSON from byte {at:,}", at, f"{error.msg[:1].lower()}{error.msg[1:]}")
    except (ValueError, RecursionError):
        return Fault("no JSON that can be read", 0, "nested too deeply, or a number too long")
    return None if isinstance(found, dict) else Fault("JSON, but no object")


def payload(block: bytes) -> bytes:
    """Give the data of an event: its `data:` lines joined; all of it, if it has none."""
    fields = [line[5:].removeprefix(b" ") for line in block.splitlines() if line.startswith(b"data:")]
    return b"\n".join(fields) if fields else block


@dataclass(slots=True)
class _Open:
    node: Node
    is_object: bool
    count: int = 0
    key: str | None = None


def scan(data: bytes, start: int = 0, end: int | None = None) -> list[Node]:
    """Give the values from `start` to `end` in the order of their bytes, each before those within it."""
    return _Scanner(data, start, len(data) if end is None else end).run()


class _Scanner:
    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data, self._at, self._end = data, start, end
        self._nodes: list[Node] = []
        self._open: list[_Open] = []

    def run(self) -> list[Node]:
        while len(self._nodes) < MOST and (match := _TOKEN.match(self._data, self._at, self._end)):
            self._at = match.end()
            if match[1] is None:
                self._value(match)
            elif not self._sign(match[1], match.start(1)):
                break
        for one in self._open:
            one.node.end = self._at
        return self._nodes

    def _sign(self, sign: bytes, at: int) -> bool:
        if sign in b"{[":
            self._add(at, at + 1, "object" if sign == b"{" else "array")
            self._open.append(_Open(self._nodes[-1], sign == b"{"))
        elif sign in b"}]" and self._open:
            self._open.pop().node.end = at + 1
        elif sign == b"," and self._open:
            self._open[-1].count += 1
            self._open[-1].key = None
        return len(self._open) <= DEEPEST and bool(self._open)

    def _value(self, match: re.Match[bytes]) -> None:
        start = match.start(2) if match[2] is not None else match.start(3)
        inner = self._open[-1] if self._open else None
        if inner is not None and inner.is_object and inner.key is None:
            inner.key = _text(self._data[start : match.end()]).strip('"')
            return
        self._add(start, match.end(), _text(self._data[start : match.end()]))

    def _add(self, start: int, end: int, shown: str) -> None:
        inner = self._open[-1] if self._open else None
        label = "" if inner is None else (inner.key or "") if inner.is_object else f"[{inner.count}]"
        self._nodes.append(Node(label, start, end, len(self._open), shown))


def _text(token: bytes) -> str:
    """Give a token as it reads: escapes of text undone, quotes kept."""
    short = token[:_SHORT]
    text = short.decode("utf-8", "replace")
    if token.startswith(b'"') and len(token) <= _SHORT:
        try:
            return f'"{json.loads(text)}"'
        except ValueError:
            return text
    return text if len(token) <= _SHORT else f"{text}…"
