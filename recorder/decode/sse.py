"""Bytes in, server-sent events and comments out, each with the byte range it came from.

Follows the event stream format of the WHATWG HTML standard, section 9.2 (parsing and interpretation), to the letter:
any way of cutting the bytes into reads gives the same items with the same ranges. What the standard discards at the
end of the stream is not an event; `Decoder.finish` hands it over separately for whoever wants to be lenient.

It knows no clock, no JSON and no dialect: `chunks` reads the data, `derive` gives the items their instants.
"""

import re
from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"[\r\n]")
# Nearly every event of nearly every API: one data line, then the blank line. Possessive, so that a miss costs one scan.
_TYPICAL = re.compile(rb"data: ([^\r\n]*+)\n\n")
# A retry time is in milliseconds; 18 digits are 30 million years and always fit 64 bits.
_RETRY_DIGITS = 18


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


class Decoder:
    """Decodes one event stream, fed in pieces of any size; `retry` is the last valid reconnection time in ms."""

    __slots__ = ("_block", "_data", "_head", "_id", "_line", "_line_start", "_offset", "_skip_lf", "_type", "retry")

    def __init__(self) -> None:
        self.retry: int | None = None
        self._offset = 0
        self._head: bytes | None = b""
        self._skip_lf = False
        self._line: list[bytes] = []
        self._line_start = 0
        self._block: int | None = None
        self._type = b""
        self._id = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[Event | Comment]:
        """Return the items that these bytes complete, in order."""
        items: list[Event | Comment] = []
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return items
            self._head = None
            if data.startswith(_BOM):
                data = data[len(_BOM) :]
                self._offset = len(_BOM)
        self._scan(data, items)
        self._offset += len(data)
        return items

    def finish(self) -> Event | None:
        """Return the event that the end of the stream discards, as if its missing line ends had come; else None."""
        if self._head:
            self._line, self._offset, self._head = [self._head], len(self._head), None
        if self._line:
            line, self._line = b"".join(self._line), []
            if not line.startswith(b":"):
                self._field(line, self._line_start)
        return self._dispatch(self._offset)

    def _scan(self, data: bytes, items: list[Event | Comment]) -> None:
        position = 0
        if self._skip_lf and data:
            self._skip_lf = False
            position = int(data.startswith(b"\n"))
        while position < len(data):
            if self._block is None and not self._line:
                position = self._typical(data, position, items)
            found = _LINE_END.search(data, position)
            if found is None:
                self._hold(data, position)
                return
            position = self._end_line(data, position, found.start(), items)

    def _typical(self, data: bytes, position: int, items: list[Event | Comment]) -> int:
        base, event_id = self._offset, self._id
        while found := _TYPICAL.match(data, position):
            end = found.end()
            items.append(Event("message", found[1].decode("utf-8", "replace"), event_id, base + position, base + end))
            position = end
        return position

    def _hold(self, data: bytes, position: int) -> None:
        # Pieces are joined only when the line ends: a line of 8 MiB in reads of 1 KiB stays linear.
        if position < len(data):
            if not self._line:
                self._line_start = self._offset + position
            self._line.append(data[position:])

    def _end_line(self, data: bytes, position: int, stop: int, items: list[Event | Comment]) -> int:
        line, start = data[position:stop], self._offset + position
        if self._line:
            line, start = b"".join([*self._line, line]), self._line_start
            self._line = []
        end = self._offset + stop + 1
        if not line:
            event = self._dispatch(end)
            if event is not None:
                items.append(event)
        elif line.startswith(b":"):
            items.append(Comment(line[1:].removeprefix(b" ").decode("utf-8", "replace"), start, end))
        else:
            self._field(line, start)
        # A line ends at its CR, not at the LF that may follow: else an event looks as late as the next read.
        if data[stop] == 0x0D:
            if stop + 1 == len(data):
                self._skip_lf = True
            elif data[stop + 1] == 0x0A:
                stop += 1
        return stop + 1

    def _field(self, line: bytes, start: int) -> None:
        if self._block is None:
            self._block = start
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            self.retry = int(value)

    def _dispatch(self, end: int) -> Event | None:
        event = None
        if self._data and self._block is not None:
            data = b"\n".join(self._data).decode("utf-8", "replace")
            event = Event(self._type.decode("utf-8", "replace") or "message", data, self._id, self._block, end)
        self._block, self._type, self._data = None, b"", []
        return event
