"""Pure: bytes for people: as hex with the borders of the reads they came in, or as lines of text.

Rows are made one at a time, however many bytes there are.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
LONGEST: Final = 4096
"""A longer line of text is given in pieces of so many bytes."""

MOST: Final = 100_000
"""So many lines are given."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A row: bytes from `start` to `end`, or, if that is empty, the border where read `read` begins."""

    start: int
    end: int
    read: int | None = None


class Dump:
    """The bytes from `start` to `end` in rows of `size` bytes; a read begins a row, and has a row that says so.

    `borders` are where reads begin, ascending; `reads` which ones.
    """

    def __init__(self, start: int, end: int, size: int, borders: Sequence[int], reads: Sequence[int]) -> None:
        self._size = size
        self._parts: list[tuple[int, int, int | None]] = []
        self._tops = [0]
        at = bisect_right(borders, start)
        place = start
        read = reads[at - 1] if at else None
        while place < end:
            following = borders[at] if at < len(borders) else end
            stop = min(following, end)
            if stop > place:
                self._parts.append((place, stop, read))
                self._tops.append(self._tops[-1] + (read is not None) - (-(stop - place) // size))
            place, read = max(stop, place), reads[at] if at < len(reads) else None
            at += 1

    def __len__(self) -> int:
        """How many rows there are."""
        return self._tops[-1]

    def piece(self, row: int) -> Piece:
        """Give what a row shows."""
        number = bisect_right(self._tops, row) - 1
        start, stop, read = self._parts[number]
        line = row - self._tops[number] - (read is not None)
        if line < 0:
            return Piece(start, start, read)
        return Piece(start + line * self._size, min(start + (line + 1) * self._size, stop))

    def row_of(self, offset: int) -> int:
        """Give the row that shows a byte."""
        number = max(bisect_right(self._parts, offset, key=lambda part: part[0]) - 1, 0)
        if not self._parts:
            return 0
        start, stop, read = self._parts[number]
        return self._tops[number] + (read is not None) + (min(offset, stop - 1) - start) // self._size


def lines(data: bytes, start: int, end: int) -> list[Piece]:
    """Give the lines of text from `start` to `end`, with what ends them; a long one in pieces. `MOST` at most."""
    found, at = list[Piece](), start
    while at < end and len(found) < MOST:
        match = _LINE.match(data, at, end)
        stop = match.end() if match is not None else end
        found += [Piece(place, min(place + LONGEST, stop)) for place in range(at, stop, LONGEST)]
        at = max(stop, at + 1)
    return found


def hexadecimal(data: bytes) -> str:
    """Give bytes as pairs of hex digits."""
    return data.hex(" ")


def printable(data: bytes) -> str:
    """Give bytes as one character each; `.` for what is not printable ASCII, but control pictures for controls."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else chr(0x2400 + byte) if byte < 0x20 else "." for byte in data)
