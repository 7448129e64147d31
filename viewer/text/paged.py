"""Pure: a page of lines as rows of a width, and a search in it."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from wiretape.recorder.sanitize import safe
from wiretape.viewer.text.cells import Part
from wiretape.viewer.text.wrap import WrappedText

MOST_ROWS: Final = 200_000
"""The most rows of a page; the lines behind them are left out."""


class _Line(NamedTuple):
    """The number of a line's first row, its text, and the offset in it at which each row begins."""

    row: int
    head: Sequence[Part]
    tail: str
    starts: Sequence[int]


class WrappedPage:
    """Lines of pieces; the last piece of a line is wrapped below itself. `rows` are the pieces of each row."""

    def __init__(self, lines: Iterable[Sequence[Part]] = (), width: int = 0) -> None:
        self.rows: list[Sequence[Part]] = []
        self._lines: list[_Line] = []
        for line in lines:
            self._add(line, width)
            if len(self.rows) > MOST_ROWS:
                break

    def _add(self, line: Sequence[Part], width: int) -> None:
        head, (text, tone) = (line[:-1], line[-1]) if line else ((), ("", "plain"))
        indent = sum(len(piece) for piece, _ in head)
        if text.isascii() and text.isprintable() and indent + len(text) <= width:
            self._lines.append(_Line(len(self.rows), head, text, (0,)))
            self.rows.append(line)  # nearly every line of a long page
            return
        wrapped = WrappedText(
            safe(text.expandtabs(4), multiline=True), max(width - indent, 20)
        )  # an indent may be wider than the page
        wrapped.more(MOST_ROWS)
        spans = [wrapped.span(number) for number in range(len(wrapped))]
        self._lines.append(_Line(len(self.rows), head, wrapped.text, [0, *(indent + start for start, _ in spans[1:])]))
        blank: Sequence[Part] = [(" " * indent, "plain")] if indent else ()
        for number, (start, end) in enumerate(spans):
            self.rows.append((*(blank if number else head), (wrapped.text[start:end], tone)))

    def matches(self, words: str) -> list[int]:
        """Return the rows in which some words begin, ascending; upper and lower case are the same."""
        pattern, match_rows = re.compile(re.escape(words), re.IGNORECASE), dict[int, None]()
        for line in self._lines:
            text = "".join(piece for piece, _ in line.head) + line.tail
            for match in pattern.finditer(text) if words else ():
                match_rows[line.row + bisect_right(line.starts, match.start()) - 1] = None
        return [*match_rows]
