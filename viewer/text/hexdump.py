"""Pure: bytes in rows: as hex with the borders of the reads that brought them, or as text around one event."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

MOST_ROWS: Final = 20_000
"""The most rows of text."""

NEAR: Final = 1024
"""Number of foreign bytes shown on each side of the event and of each read."""

UNKNOWN: Final = -1
"""Stands for the read of bytes that no read on the tape brought."""

_LINE: Final = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_LONGEST_CHARACTER: Final = 4
"""Bytes of a character in UTF-8, at most."""


@dataclass(frozen=True, slots=True)
class HexRow:
    """The bytes from `start` to `end`, of the event or beside it; or `left_out`; or, if `read` is set, its border.

    A `read` that is UNKNOWN is the border of bytes that no read on the tape brought.
    """

    start: int
    end: int
    is_of_event: bool = False
    read: int | None = None
    left_out: bool = False


class HexDump:
    """The bytes from `start` to `end` in rows of `size` bytes; each read begins with its border and a row of its own.

    `borders` are where reads begin, ascending; `reads` are their numbers. Rows are made one at a time.
    """

    def __init__(self, start: int, end: int, size: int, borders: Sequence[int], reads: Sequence[int]) -> None:
        self._size = size
        self._parts: list[tuple[int, int, int | None]] = []
        self._tops = [0]
        at = bisect_right(borders, start)
        read = reads[at - 1] if at else None
        while start < end:
            stop = min(borders[at], end) if at < len(borders) else end
            if stop > start:
                self._parts.append((start, stop, read))
                self._tops.append(self._tops[-1] + (read is not None) - (-(stop - start) // size))
            start, read = max(stop, start), reads[at] if at < len(reads) else None
            at += 1

    def __len__(self) -> int:
        return self._tops[-1]

    def row(self, number: int) -> HexRow:
        """Return a row: the border of a read, or bytes of it."""
        part = bisect_right(self._tops, number) - 1
        start, stop, read = self._parts[part]
        line = number - self._tops[part] - (read is not None)
        if line < 0:
            return HexRow(start, start, read=read)
        return HexRow(start + line * self._size, min(start + (line + 1) * self._size, stop))

    def row_of(self, offset: int) -> int:
        if not self._parts:
            return 0
        part = max(bisect_right(self._parts, offset, key=lambda part: part[0]) - 1, 0)
        start, stop, read = self._parts[part]
        return self._tops[part] + (read is not None) + (min(offset, stop - 1) - start) // self._size


def printable(data: bytes) -> str:
    """Return one character a byte: a control picture for a control, `.` for what else is not printable ASCII."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else chr(0x2400 + byte) if byte < 0x20 else "." for byte in data)


class TextDump:
    """The event from `start` to `end` of `data` as text that hides no byte, with its reads and those beside them.

    A row holds at most `width` bytes of one read, all of the event or none of it. `borders` and `reads` are as in
    `HexDump`; without any, only the event is shown.
    """

    def __init__(
        self, data: bytes, start: int, end: int, width: int, borders: Sequence[int], reads: Sequence[int]
    ) -> None:
        self._data, self._start, self._end, self._width = data, start, end, max(width, _LONGEST_CHARACTER)
        self._borders, self._reads = borders, reads
        rows = list(islice(self._all(), MOST_ROWS + 1))
        self.rows: list[HexRow] = rows[:MOST_ROWS]
        self.is_whole = len(rows) <= MOST_ROWS

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def known_reads(self) -> tuple[int, int] | None:
        """The first and the last known read that is shown; None if none is."""
        numbers = [row.read for row in self.rows if row.read is not None and row.read != UNKNOWN]
        return (numbers[0], numbers[-1]) if numbers else None

    def row_of(self, offset: int) -> int:
        """Return the number of the row that shows a byte, or of the row before it if none does."""
        return max(bisect_right(self.rows, offset, key=lambda row: row.start) - 1, 0)

    def _all(self) -> Iterator[HexRow]:
        if not self._borders:
            yield from self._text(self._start, self._end, is_of_event=True)
            return
        first_read = max(bisect_right(self._borders, self._start) - 1, 0)
        last_read = max(bisect_left(self._borders, self._end) - 1, first_read)
        for number in range(max(first_read - 1, 0), min(last_read + 2, len(self._borders))):
            yield from self._read(number)

    def _read(self, number: int) -> Iterator[HexRow]:
        start = self._borders[number]
        end = self._borders[number + 1] if number + 1 < len(self._borders) else len(self._data)
        if self._reads[number] == UNKNOWN and start == end:
            return
        yield HexRow(start, start, read=self._reads[number])
        own_start, own_end = (min(max(place, start), end) for place in (self._start, self._end))
        yield from self._beside(start, own_start)
        yield from self._text(own_start, own_end, is_of_event=True)
        yield from self._beside(own_end, end)

    def _beside(self, start: int, end: int) -> Iterator[HexRow]:
        """Yield the rows of bytes that are not the event's: the last ones before it, the first ones after it."""
        near = max(start, end - NEAR) if end <= self._start else start
        far = min(end, start + NEAR) if start >= self._end else end
        if near > start:
            yield HexRow(start, near, left_out=True)
        yield from self._text(near, far, is_of_event=False)
        if far < end:
            yield HexRow(far, end, left_out=True)

    def _text(self, start: int, end: int, *, is_of_event: bool) -> Iterator[HexRow]:
        while start < end:
            stop = self._row_end(start, end)
            yield HexRow(start, stop, is_of_event)
            start = stop

    def _row_end(self, start: int, end: int) -> int:
        """Return the end of the row from `start`: the end of its line, or the first character that does not fit."""
        room = min(start + self._width, end)
        line = _LINE.match(self._data, start, room)
        stop = line.end() if line is not None else room
        if stop < room or room == end:
            return stop
        cut = stop
        while cut > max(start, stop - _LONGEST_CHARACTER) and self._data[cut] & 0xC0 == 0x80:
            cut -= 1
        return cut if cut > start and self._data[cut] & 0xC0 == 0xC0 else stop
