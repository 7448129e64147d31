"""Pure: curves of growing counts over time, in braille: a cell has two columns of four dots."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

WIDE: Final = 2
"""Columns of dots in a cell."""

HIGH: Final = 4
"""Dots in a column of a cell."""

_DOTS: Final = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The dots of the left and of the right column of a cell, from the bottom."""

LOWER: Final = 0xE4
"""The dots of the lower half of a cell."""

ASCII: Final = {sign: "." if sign & LOWER else "'" for sign in range(0x2801, 0x2900)}
"""The cells for terminals that only have ASCII, for `str.translate`."""

Dots = Sequence[Sequence[int]]
"""The dots of each cell, in rows from the top."""


def sampled(count: Callable[[int], int], axis_ns: int, cells: int, end_ns: int) -> list[int]:
    """Return a count at the end of each column of dots, up to the column that `end_ns` is in.

    `count` returns how many things had come by a timestamp. One on the border of two columns is in the first.
    """
    columns = WIDE * cells
    started_columns = (column for column in range(columns) if column * axis_ns < end_ns * columns)
    return [count((column + 1) * axis_ns // columns) for column in started_columns]


def dots(counts: Sequence[int], most: int, cells: int, rows: int) -> list[list[int]]:
    """Draw counts, one for each column, as a line that is `rows` high where they are `most`; a count of 0 has no dot.

    Each column is joined to the one before it, so that a step is a vertical line.
    """
    grid = [[0] * cells for _ in range(rows)]
    previous = 0
    for column, count in enumerate(counts[: WIDE * cells]):
        level = -(-count * HIGH * rows // most) if most else 0
        for dot in range(min(previous + 1, level), level + 1) if level else ():
            row, place = divmod(dot - 1, HIGH)
            grid[rows - 1 - row][column // WIDE] |= _DOTS[column % WIDE][place]
        previous = level
    return grid


def signs(dots: Dots) -> Iterator[str]:
    for row in dots:
        yield "".join(chr(0x2800 + cell) if cell else " " for cell in row)
