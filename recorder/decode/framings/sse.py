"""Bytes in, server-sent events and comments out, each with the byte range it came from.

Follows the event stream format of the WHATWG HTML standard, section 9.2 (parsing and interpretation), to the letter:

- The bytes are UTF-8, whatever the content type says; invalid ones become U+FFFD and are never an error. One BOM at
  the start is skipped, a second is part of a field's name.
- A line ends at CRLF, LF or CR, and at no other character. A CR ends it at once, and an LF behind it belongs to it:
  so an event is not held back until the next byte.
- A line that begins with a colon is a comment. Else the name ends at the first colon, and one space behind that goes;
  without a colon all of it is the name. Names are literal, and unknown fields are ignored, `error` and bare JSON too.
- `data` lines are joined by LF; of `event` the last holds, for one block; `id` holds for all later events, and one
  with NUL is ignored; `retry` is digits only.
- A blank line dispatches the block, if it has data: `data` alone is an event with "", a block without any is none.
- A block that the end of the stream cuts off is no event; `EventCursor.finish` returns it for lenient callers.

No clock, no JSON and no dialect: `payloads` reads the data, `decoder` adds the timestamps.
"""

import re
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"([^\r\n]*+)(?:\n|\r(\n?))")
_BLANK_LINES = re.compile(rb"[\r\n]++")
# Nearly every event of nearly every API: one data line, with its type before it or not, then the blank line.
# Possessive, so that a miss costs one scan.
_TYPICAL = re.compile(rb"(?:event: ([^\r\n]*+)(?:\n|\r\n))?+data: ([^\r\n]*+)(?:\n\n|\r\n\r(\n?))")


@dataclass(frozen=True, slots=True)
class Event:
    """A dispatched event. Its range starts at the first line of its block and ends after its blank line."""

    type: str
    data: str
    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A line that begins with a colon, without the colon and one space. Keep-alives are comments."""

    text: str
    start: int
    end: int


def fields(block: bytes) -> tuple[str, str]:
    """Return the type and the data of the event that one block dispatches; "" where it holds no data."""
    cursor = EventCursor(block, bom=False)
    while cursor.at < len(block):
        item = cursor.step()
        if isinstance(item, Event):
            return item.type, item.data
    tail = cursor.finish()
    return (tail.type, tail.data) if tail else ("message", "")


class EventCursor:
    """Parses one event stream step by step; `at` is the offset of the next step and may be moved between blocks.

    `retry` is the last valid reconnection time in ms, `id` the last event id, `has_error` whether a line began with
    the unknown field `error`. With `bom`, a BOM at the start is skipped.
    """

    __slots__ = ("_block", "_data", "_lines", "_type", "at", "has_error", "id", "retry")

    def __init__(self, data: bytes, *, bom: bool = True) -> None:
        self.at = len(BOM) if bom and data.startswith(BOM) else 0
        self.id = ""
        self.retry: int | None = None
        self.has_error = False
        self._data = data
        self._block: int | None = None
        self._type = b""
        self._lines: list[bytes] = []

    @property
    def in_block(self) -> bool:
        """True if fields of an event have come, but not yet the blank line that dispatches it."""
        return self._block is not None

    def step(self) -> Event | Comment | None:
        """Parse one more line, or an event of one data line; return the item that this completes, if any.

        Blank lines between events are passed over together. An unfinished line at the end is left for `finish`.
        """
        data, start = self._data, self.at
        if self._block is None and (typical := _TYPICAL.match(data, start)):
            self.at = typical.end()
            # A line ends at its CR, not at the LF that may follow: else an event looks as late as the next read.
            type, payload, feed = typical.groups()
            name = type.decode("utf-8", "replace") if type else "message"
            return Event(name, payload.decode("utf-8", "replace"), self.id, start, self.at - len(feed or b""))
        if self._block is None and (blank := _BLANK_LINES.match(data, start)):
            self.at = blank.end()
            return None
        match = _LINE.match(data, start)
        if match is None:
            self._field(data[start:], start)
            self.at = len(data)
            return None
        line, self.at = match[1], match.end()
        end = self.at - len(match[2] or b"")
        if not line:
            return self._dispatch(end)
        if line.startswith(b":"):
            return Comment(line[1:].removeprefix(b" ").decode("utf-8", "replace"), start, end)
        self._field(line, start)
        return None

    def finish(self) -> Event | None:
        """Return the event that the end of the stream discards, as if its missing line ends had come; else None."""
        return self._dispatch(len(self._data))

    def _field(self, line: bytes, start: int) -> None:
        if line.startswith(b":"):  # a comment that the end cuts off
            return
        if self._block is None:
            self._block = start
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._lines.append(value)
        elif name == b"event":
            self._type = value
        elif name == b"id" and b"\0" not in value:
            self.id = value.decode("utf-8", "replace")
        elif name == b"error":
            self.has_error = True
        elif name == b"retry" and value.isdigit() and len(value) <= 18:  # in ms: 18 digits always fit 64 bits
            self.retry = int(value)

    def _dispatch(self, end: int) -> Event | None:
        event = None
        if self._lines and self._block is not None:
            data = b"\n".join(self._lines).decode("utf-8", "replace")
            event = Event(self._type.decode("utf-8", "replace") or "message", data, self.id, self._block, end)
        self._block, self._type, self._lines = None, b"", []
        return event
