"""The difference between an application's drawing and its terminal's content, cell by cell.

Textual redraws the lines of a refreshed region in full; where a word arrives fifty times a second, nearly all of them
are on the terminal already. A `Canvas` collects the drawing and returns the changed cells when the terminal can take
them; states in between are never sent. A frame that covers every cell is sent in full, which repairs a terminal that
another program has written to.
"""

import functools
import re
from collections.abc import Iterator
from operator import ne
from typing import Final, TypeAlias

from rich.cells import cell_len

_COMPARED: Final = slice(4, 44)
"""Cells that are compared first: those behind a list's cursor and before its scrollbar."""

_TOKEN: Final = re.compile(
    r"\x1b\[(?P<sgr>[\d;:]*)m|\x1b\[(?P<place>[\d;]*)H|(?P<text>[^\x00-\x1f\x7f]+)|(?P<line>[\r\n])"
    r"|(?P<sync>\x1b\[\?2026[hl])|(?P<other>\x1b\[[<-?]?[\d;:]*[ -/]*[@-~]|\x1b[]PX^_].*?(?:\x07|\x1b\\)|.)",
    re.DOTALL,
)
_PARAMETER: Final = re.compile(r"[34]8;2;\d+;\d+;\d+|[34]8;5;\d+|\d+")
_SYNC: Final = "\x1b[?2026h", "\x1b[?2026l"

Cell: TypeAlias = "tuple[str, str]"
"""A character and its SGR parameters; the second cell of a wide character holds an empty string."""

_UNKNOWN: Final[Cell] = ("\0", "unknown")


class Canvas:
    """The cells that a terminal should show, and those that it was sent."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._target: list[list[Cell]] = []
        self._sent: list[list[Cell]] = []
        self._changed: set[int] = set()
        self._cursor = self._cursor_sent = (0, 0)
        self._is_synchronized = False

    @property
    def is_behind(self) -> bool:
        """True if something was drawn since the last `changes`."""
        return bool(self._changed) or self._cursor != self._cursor_sent

    def resize(self, columns: int, rows: int) -> None:
        if self._size != (columns, rows):
            self._size = columns, rows
            self._target = [[_UNKNOWN] * columns for _ in range(rows)]
            self.forget()

    def forget(self) -> None:
        """Forget the terminal's content: every cell is sent again."""
        columns, rows = self._size
        self._sent = [[_UNKNOWN] * columns for _ in range(rows)]
        self._changed = set(range(rows))

    def take(self, data: str) -> str:
        """Store what `data` draws; return the control sequences in it that draw nothing, to be passed on."""
        sequences, sgr, drawn_cells = [], "", 0
        y, x = self._cursor
        for token in _TOKEN.finditer(data):
            kind, text = token.lastgroup, token[0]
            if kind == "text":
                width = self._put(y, x, text, sgr)
                x, drawn_cells = x + width, drawn_cells + width
            elif kind == "sgr":
                sgr = token["sgr"].removeprefix("0;") if token["sgr"] != "0" else ""
            elif kind == "place":
                row, _, column = token["place"].partition(";")
                y, x = int(row or 1) - 1, int(column or 1) - 1
            elif kind == "sync":
                self._is_synchronized = True
            elif kind == "other":
                sequences.append(text)
        self._cursor = y, x
        if drawn_cells and drawn_cells >= self._size[0] * self._size[1]:
            self.forget()
        return "".join(sequences)

    def _put(self, y: int, x: int, text: str, sgr: str) -> int:
        cells = _cells(text, sgr)
        if y >= len(self._target):
            return len(cells)
        row = self._target[y]
        end = min(x + len(cells), len(row))
        if end > x:
            start, stop = _character(row, x)[0], _character(row, end - 1)[1]
            for place in (*range(start, x), *range(end, stop)):  # the other half of a character that is overwritten
                row[place] = " ", _on_blank(row[place][1])
            row[x:end] = cells[: end - x]
            self._changed.add(y)
        return len(cells)

    def changes(self) -> str:
        """Return the sequences that bring the terminal up to date, and assume that they are sent."""
        output = "".join(self._sequences())
        if not output and self._cursor == self._cursor_sent:
            return ""
        self._cursor_sent = self._cursor
        y, x = self._cursor
        output += f"\x1b[{y + 1};{x + 1}H"
        return output.join(_SYNC) if self._is_synchronized else output

    def _sequences(self) -> Iterator[str]:
        pen = ""
        yield self._scrolled()
        for y in sorted(self._changed):
            target, sent = self._target[y], self._sent[y]
            move = f"\x1b[{y + 1};%dH"
            for start, end in _spans(sent, target):
                yield move % (start + 1)
                move = "\x1b[%dG"
                for char, sgr in target[start:end]:
                    if char and sgr != pen and not (char == " " and sgr == _on_blank(pen)):
                        yield _turn(pen, sgr)
                        pen = sgr
                    yield char
            sent[:] = target
        self._changed.clear()
        if pen:
            yield "\x1b[0m"

    def _scrolled(self) -> str:
        """Return the sequence that moves rows to their places, if that leaves less than half of their cells to draw."""
        # Keys and wheels scroll by so few lines.
        for shift in (1, -1, 2, -2, 3, -3):
            places = [y for y in sorted(self._changed) if self._is_moved(y, shift)]
            if not places:
                continue
            top, end = places[0] + min(shift, 0), places[-1] + 1 + max(shift, 0)
            blank = [[_UNKNOWN] * self._size[0] for _ in range(abs(shift))]
            sent = self._sent[top:end]
            moved_rows = sent[shift:] + blank if shift > 0 else blank + sent[:shift]
            target = self._target[top:end]
            if 2 * _differing(moved_rows, target) < _differing(sent, target):
                self._sent[top:end] = moved_rows
                self._changed.update(range(top, end))
                return f"\x1b[{top + 1};{end}r\x1b[{top + 1};1H\x1b[{abs(shift)}{'M' if shift > 0 else 'L'}\x1b[r"
        return ""

    def _is_moved(self, y: int, shift: int) -> bool:
        target = self._target[y][_COMPARED]
        is_inside = 0 <= y + shift < len(self._sent)
        return is_inside and target == self._sent[y + shift][_COMPARED] and target != self._sent[y][_COMPARED]


def _differing(sent: list[list[Cell]], target: list[list[Cell]]) -> int:
    return sum(sum(map(ne, *rows)) for rows in zip(sent, target, strict=True))


@functools.lru_cache(4096)
def _on_blank(sgr: str) -> str:
    """Return the part of an SGR that shows in an empty cell: background and lines, or all of it if it is reversed."""
    parts = _PARAMETER.findall(sgr)
    return sgr if "7" in parts else ";".join(part for part in parts if part[0] in "459" or part == "21")


@functools.lru_cache(2048)
def _cells(text: str, sgr: str) -> list[Cell]:
    blank = " ", _on_blank(sgr)
    if text.isascii():
        return [blank if char == " " else (char, sgr) for char in text]
    width, sizes = cell_len(text), [cell_len(char) for char in text]
    if sum(sizes) != width or not sizes[0]:
        return [(text, sgr), *[("", sgr)] * (width - 1)] if width else []
    cells: list[Cell] = []
    for char, size in zip(text, sizes, strict=True):
        if size:
            cells += [blank if char == " " else (char, sgr), *[("", sgr)] * (size - 1)]
        else:  # it combines with the character before it, which may be wide
            place = _character(cells, len(cells) - 1)[0]
            cells[place] = cells[place][0] + char, sgr
    return cells


def _character(row: list[Cell], place: int) -> tuple[int, int]:
    """Return the first cell of the character in a cell, and the cell after its last."""
    start, end = place, place + 1
    while start and not row[start][0]:
        start -= 1
    while end < len(row) and not row[end][0]:
        end += 1
    return start, end


def _spans(sent: list[Cell], target: list[Cell]) -> Iterator[tuple[int, int]]:
    """Yield the spans of a row to draw."""
    span = None
    for place, (old, new) in enumerate(zip(sent, target, strict=True)):
        if old == new or (span is not None and place < span[1]):
            continue
        start, end = _character(target, place)
        if span is not None and (start <= span[1] or _is_near(target, span[1], start)):
            start = span[0]
        elif span is not None:
            yield span
        span = start, end
    if span is not None:
        yield span


def _is_near(target: list[Cell], end: int, place: int) -> bool:
    """Return True if the cells between two changes are few, and look like the one before them."""
    looks = target[end - 1][1], _on_blank(target[end - 1][1])
    # Up to five unchanged cells are cheaper to draw again than to skip: moving the cursor takes as many bytes.
    return place - end <= 5 and all(char and sgr in looks for char, sgr in target[end:place])


@functools.lru_cache(4096)
def _turn(pen: str, sgr: str) -> str:
    """Return the sequence that changes from one SGR to another: only the additions, if no more than bold has to go."""
    old, new = ({part[:3]: part for part in _PARAMETER.findall(look)} for look in (pen, sgr))
    removed = old.keys() - new.keys()
    if not pen or not removed <= {"1"} or "2" in new:
        return f"\x1b[0;{sgr}m" if pen and sgr else f"\x1b[{sgr}m"
    return f"\x1b[{';'.join(['22'] * len(removed) + [part for kind, part in new.items() if old.get(kind) != part])}m"
