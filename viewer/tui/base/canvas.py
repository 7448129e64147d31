"""Drawing only what looks otherwise than it did: of what is drawn, the cells that differ from what the terminal has.

Textual draws every line of what a widget asks for from the widget's left border on; where a word comes fifty times a
second, nearly all of that stands there already. A `Canvas` takes in what is drawn for the terminal, cell by cell, and
gives the difference whenever the terminal can take one: what came between is never drawn. A frame of every cell is
drawn whole, so that a terminal in which something else has written is put right.
"""

import functools
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from rich.cells import cell_len

_NEAR: Final = 5
"""Over so few cells, if they look alike, it is shorter to draw what stands there than to move."""

_SIGNS_KEPT: Final = 4096

_TOKEN: Final = re.compile(
    r"\x1b\[(?P<sgr>[\d;:]*)m|\x1b\[(?P<place>[\d;]*)H|(?P<text>[^\x00-\x1f\x7f]+)|(?P<line>[\r\n])"
    r"|(?P<sync>\x1b\[\?2026[hl])|(?P<other>\x1b\[[<-?]?[\d;:]*[ -/]*[@-~]|\x1b[]PX^_].*?(?:\x07|\x1b\\)|.)",
    re.DOTALL,
)
_PART: Final = re.compile(r"[34]8;2;\d+;\d+;\d+|[34]8;5;\d+|\d+")
_INTENSITIES: Final = frozenset({"1", "2"})
"""Bold and dim: 22 ends both."""

_WEIGHTS: Final = _INTENSITIES | {"3"}
"""Bold, dim, italic: they change signs, and no blank."""

_ON_BLANKS: Final = frozenset({"4", "9", "21", "53"})
"""Lines under, through and over a cell."""

_SYNC: Final = "\x1b[?2026h", "\x1b[?2026l"

Cell: TypeAlias = "tuple[str, str]"
"""What stands in a cell, and its look, as parameters of SGR; behind a character of two cells stands an empty one."""

_UNKNOWN: Final[Cell] = ("\0", "unknown")


class Canvas:
    """What a terminal should show, and what it shows as far as it has been told."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._wanted: list[list[Cell]] = []
        self._shown: list[list[Cell]] = []
        self._changed: set[int] = set()
        self._cursor = self._cursor_shown = (0, 0)
        self._is_in_step = False

    @property
    def is_behind(self) -> bool:
        """Whether the terminal may have to be told something."""
        return bool(self._changed) or self._cursor != self._cursor_shown

    def resize(self, columns: int, rows: int) -> None:
        """Begin anew with so many cells, if there were others."""
        if self._size != (columns, rows):
            self._size = columns, rows
            self._wanted = [[_UNKNOWN] * columns for _ in range(rows)]
            self.forget()

    def forget(self) -> None:
        """Know nothing any more of what the terminal shows: all of it is to be drawn again."""
        columns, rows = self._size
        self._shown = [[_UNKNOWN] * columns for _ in range(rows)]
        self._changed = set(range(rows))

    def take(self, data: str) -> str:
        """Take in what is drawn; give what is none of it, which is to be passed on as it is."""
        others, sgr, put = [], "", 0
        y, x = self._cursor
        for token in _TOKEN.finditer(data):
            kind, text = token.lastgroup, token[0]
            if kind == "text":
                width = self._put(y, x, text, sgr)
                x, put = x + width, put + width
            elif kind == "sgr":
                sgr = token["sgr"].removeprefix("0;") if token["sgr"] != "0" else ""
            elif kind == "place":
                row, _, column = token["place"].partition(";")
                y, x = int(row or 1) - 1, int(column or 1) - 1
            elif kind == "sync":
                self._is_in_step = True
            elif kind == "other":
                others.append(text)
        self._cursor = y, x
        if put and put >= self._size[0] * self._size[1]:
            self.forget()
        return "".join(others)

    def _put(self, y: int, x: int, text: str, sgr: str) -> int:
        """Put a text in its cells, as far as there are any; give how many it takes."""
        alike = _alike(sgr)
        cells = [alike[sign] for sign in text] if text.isascii() else _cells(text, alike)
        if y >= len(self._wanted):
            return len(cells)
        row = self._wanted[y]
        end = min(x + len(cells), len(row))
        if end > x:
            for place in _halves(row, x, end):
                row[place] = " ", _of_blank(row[place][1])
            row[x:end] = cells[: end - x]
            self._changed.add(y)
        return len(cells)

    def changes(self) -> str:
        """Give what is to be written so that the terminal shows what it should; from now on it does."""
        drawn = "".join(self._drawn())
        if not drawn and self._cursor == self._cursor_shown:
            return ""
        self._cursor_shown = self._cursor
        y, x = self._cursor
        drawn += f"\x1b[{y + 1};{x + 1}H"
        return drawn.join(_SYNC) if self._is_in_step else drawn

    def _drawn(self) -> Iterator[str]:
        pen = ""
        for y in sorted(self._changed):
            wanted, shown = self._wanted[y], self._shown[y]
            at_row = False
            for start, end in _spans(shown, wanted):
                yield f"\x1b[{start + 1}G" if at_row else f"\x1b[{y + 1};{start + 1}H"
                at_row = True
                for sign, sgr in wanted[start:end]:
                    look = _for_blank(pen, sgr) if sign == " " else sgr
                    if look != pen and sign:
                        yield _turned(pen, look)
                        pen = look
                    yield sign
            shown[:] = wanted
        self._changed.clear()
        if pen:
            yield "\x1b[0m"


class _Alike(dict[str, Cell]):
    """The cells of one look by their signs: one for all of them, as thousands made anew for each frame cost time."""

    def __init__(self, sgr: str) -> None:
        super().__init__()
        self._sgr = sgr

    def __missing__(self, sign: str) -> Cell:
        if len(self) > _SIGNS_KEPT:
            self.clear()
        found = self[sign] = (sign, _of_blank(self._sgr) if sign == " " else self._sgr)
        return found


@functools.lru_cache(256)
def _alike(sgr: str) -> _Alike:
    return _Alike(sgr)


def _cells(text: str, alike: _Alike) -> list[Cell]:
    """Give a text cell by cell; one whose signs stand for one another, as in some emoji, is not taken apart."""
    width, sizes = cell_len(text), [cell_len(sign) for sign in text]
    if sum(sizes) != width or not sizes[0]:
        return [alike[text], *[alike[""]] * (width - 1)] if width else []
    found: list[Cell] = []
    for sign, size in zip(text, sizes, strict=True):
        if size:
            found += [alike[sign], *[alike[""]] * (size - 1)]
        else:  # it belongs to the one before it, which may take two cells
            head = next(place for place in range(len(found) - 1, -1, -1) if found[place][0])
            found[head] = alike[found[head][0] + sign]
    return found


def _halves(row: list[Cell], start: int, end: int) -> Iterator[int]:
    """Give the cells outside of a span that hold the rest of what is cut in two by its ends."""
    place = start
    while place > 0 and not row[place][0]:
        place -= 1
        yield place
    while end < len(row) and not row[end][0]:
        yield end
        end += 1


def _spans(shown: list[Cell], wanted: list[Cell]) -> Iterator[tuple[int, int]]:
    """Give from where to where a row is to be drawn."""
    span = None
    for place, (old, new) in enumerate(zip(shown, wanted, strict=True)):
        if old == new or (span is not None and place < span[1]):
            continue
        start, end = _whole(wanted, place)
        if span is not None and (start <= span[1] or _is_near(wanted, span[1], start)):
            start = span[0]
        elif span is not None:
            yield span
        span = start, end
    if span is not None:
        yield span


def _is_near(wanted: list[Cell], end: int, place: int) -> bool:
    if place - end > _NEAR:
        return False
    look = wanted[end - 1][1]
    return all(sign and sgr == (_of_blank(look) if sign == " " else look) for sign, sgr in wanted[end:place])


def _whole(row: list[Cell], place: int) -> tuple[int, int]:
    """Give from where to where the character goes that has this cell."""
    start, end = place, place + 1
    while start and not row[start][0]:
        start -= 1
    while end < len(row) and not row[end][0]:
        end += 1
    return start, end


@functools.lru_cache(4096)
def _turned(pen: str, sgr: str) -> str:
    """Give the shortest way from one look to another: only what is new, if nothing of the old one has to go."""
    old, new = _PART.findall(pen), _PART.findall(sgr)
    whole = f"\x1b[0;{sgr}m" if pen and sgr else f"\x1b[{sgr}m"
    gone = {_kind(part) for part in old} - {_kind(part) for part in new}
    if not gone <= _INTENSITIES:
        return whole
    fresh = [part for part in new if part not in old or (gone and part in _INTENSITIES)]
    if gone:
        fresh.insert(0, "22")
    return min(f"\x1b[{';'.join(fresh)}m", whole, key=len)


@functools.lru_cache(4096)
def _of_blank(sgr: str) -> str:
    """Return the part of a look that shows where nothing is written: neither weight nor colour of signs."""
    parts = _PART.findall(sgr)
    if "7" in parts:
        return sgr
    return ";".join(part for part in parts if part in _ON_BLANKS or _kind(part) == "ground")


@functools.lru_cache(4096)
def _for_blank(pen: str, sgr: str) -> str:
    """Return the look nearest to the pen's in which a blank looks as it should."""
    signs = [part for part in _PART.findall(pen) if part in _WEIGHTS or _kind(part) == "sign"]
    look = ";".join([*signs, sgr] if sgr else signs)
    return look if _of_blank(look) == sgr else sgr


def _kind(part: str) -> str:
    """Say what a part of a look decides: the colour of a sign, that of its ground, or itself."""
    number = int(part.partition(";")[0])
    for name, first in (("sign", 30), ("ground", 40), ("sign", 90), ("ground", 100)):
        if first <= number < first + 10:
            return name
    return part
