"""Pure: the bytes of an event as the socket gave them: its reads and those beside them, as text that hides no byte.

A row holds bytes of one read, all of the event or none of it, and never more than fit. Of what is not the event's, only
what is near it is given. Which instants the reads have, and how rows look, is left to the widget.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

MOST: Final = 20_000
"""So many rows are given."""

NEAR: Final = 1024
"""So many bytes are given of what is not the event's, on each side of it and of each read."""

UNKNOWN: Final = -1
"""Stands for the read of bytes that no read on the tape brought."""

_LINE: Final = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_CHARACTER: Final = 4


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes from `start` to `end`, `mine` if they are the event's; or the rule above a `read`; or bytes `left_out`.

    A read that is UNKNOWN stands for none: no read on the tape brought what is below its rule.
    """

    start: int
    end: int
    mine: bool = False
    read: int | None = None
    left_out: bool = False


class Wire:
    """The rows around the event from `start` to `end` of `data`, of `width` bytes at most.

    `borders` are where reads begin in the data, ascending; `reads` which ones, UNKNOWN from where no read has brought
    the bytes. Without any, only the event is given.
    """

    def __init__(
        self, data: bytes, start: int, end: int, width: int, borders: Sequence[int], reads: Sequence[int]
    ) -> None:
        self._data, self._start, self._end, self._width = data, start, end, max(width, _CHARACTER)
        self._borders, self._reads = borders, reads
        found = list(islice(self._all(), MOST + 1))
        self.rows: list[Row] = found[:MOST]
        self.whole = len(found) <= MOST

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def around(self) -> tuple[int, int] | None:
        """The first and the last known read that is given; None if none is."""
        known = [row.read for row in self.rows if row.read is not None and row.read != UNKNOWN]
        return (known[0], known[-1]) if known else None

    def row_of(self, offset: int) -> int:
        """Give the row that shows a byte; that of a byte not given, the one before it."""
        last = bisect_right(self.rows, offset, key=lambda row: row.start) - 1
        return max(last, 0)

    def _all(self) -> Iterator[Row]:
        if not self._borders:
            yield from self._texts(self._start, self._end, mine=True)
            return
        first = max(bisect_right(self._borders, self._start) - 1, 0)
        last = max(bisect_left(self._borders, self._end) - 1, first)
        for number in range(max(first - 1, 0), min(last + 2, len(self._borders))):
            yield from self._read(number)

    def _read(self, number: int) -> Iterator[Row]:
        start = self._borders[number]
        end = self._borders[number + 1] if number + 1 < len(self._borders) else len(self._data)
        if self._reads[number] == UNKNOWN and start == end:
            return
        yield Row(start, start, read=self._reads[number])
        first, last = (min(max(place, start), end) for place in (self._start, self._end))
        yield from self._other(start, first)
        yield from self._texts(first, last, mine=True)
        yield from self._other(last, end)

    def _other(self, start: int, end: int) -> Iterator[Row]:
        """Give what is not the event's: before it the last bytes, after it the first ones."""
        near = max(start, end - NEAR) if end <= self._start else start
        far = min(end, start + NEAR) if start >= self._end else end
        if near > start:
            yield Row(start, near, left_out=True)
        yield from self._texts(near, far, mine=False)
        if far < end:
            yield Row(far, end, left_out=True)

    def _texts(self, start: int, end: int, *, mine: bool) -> Iterator[Row]:
        while start < end:
            stop = self._fitting(start, end)
            yield Row(start, stop, mine)
            start = stop

    def _fitting(self, start: int, end: int) -> int:
        """Give where the row from `start` ends: with its line, or before the character that does not fit."""
        room = min(start + self._width, end)
        line = _LINE.match(self._data, start, room)
        stop = line.end() if line is not None else room
        if stop < room or room == end:
            return stop
        cut = stop
        while cut > max(start, stop - _CHARACTER) and self._data[cut] & 0xC0 == 0x80:
            cut -= 1
        return cut if cut > start and self._data[cut] & 0xC0 == 0xC0 else stop
