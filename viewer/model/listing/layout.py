"""Pure: which columns of the list there is room for, how wide each is, and a line of them with its titles above.

What stands in a column is left to `streams`, drawing to the widget.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from viewer import sparkline
from viewer.model.states import COLUMNS, Column, Look, Part, flags_beside_status, laid_out, state
from viewer.rows import Row

LEAD: Final = 4
"""The cells of the cursor, the mark and the sign, before the columns."""

_ROOMY: Final = {"model": 20, "flags": 13, "gaps": 12}
"""So wide are the columns whose texts and drawings are cut otherwise, before any lesser column comes."""

_LESSER: Final = 9
_SPACIOUS: Final = 130
_DATE: Final = 6
_TIME_TITLES: Final = {"clock": "START", "date": "START", "utc": "UTC", "ago": "AGO"}
_FLAGS_BESIDE_STATUS: Final = replace(next(one for one in COLUMNS if one.name == "flags"), shown=flags_beside_status)


@dataclass(frozen=True, slots=True)
class Slot:
    """A column in its place, as many cells wide."""

    column: Column
    width: int


def titles(slots: Sequence[Slot], look: Look, between: int, order: tuple[str, bool] | None) -> Iterator[Part]:
    """Give the parts of the line above: each column's title, with `▼` or `▲` on the one that the order goes by."""
    yield "  ", "muted"
    for slot in slots:
        column = slot.column
        title = _title(column, look, slot.width)
        ordered = column.field == (order[0] if order else "started_at")
        sign = ("▼" if order is None or order[1] else "▲") if ordered else ""
        title = title[: slot.width]
        # The sign stands in the blank after the title, so that no title is cut for it.
        shown = f"{title:>{slot.width}}{sign}" if column.right else f"{title}{sign}"
        yield shown, "accent" if ordered else "muted"
        yield " " * (slot.width + between - len(shown)), "plain"


def _title(column: Column, look: Look, width: int) -> str:
    """Return the title of a column, with its unit where there is room; that of the gaps says how long their axis is."""
    if column.name == "start":
        return _TIME_TITLES[look.times]
    titles = [column.full_title]
    if column.name == "gaps" and look.axis_ns:
        scale = f"0–{sparkline.scale(look.axis_ns)}"
        titles = [f"{column.title} {scale}", scale]
    return next((title for title in titles if len(title) <= width), column.title)


def column_at(slots: Sequence[Slot], between: int, cell: int) -> Column | None:
    """Give the column that stands at a cell of a line; None before the first and after the last."""
    end = LEAD
    for slot in slots:
        end += slot.width + between
        if LEAD <= cell < end:
            return slot.column
    return None


def fitted(width: int, hidden: Collection[str] = (), *, dated: bool = False) -> tuple[Slot, ...]:
    """Choose the columns for so many cells: by rank as many as fit, then wider as far as there is room.

    Where starts are `dated`, their column is as much wider.
    """
    between = gap_between(width)
    more = {"start": _DATE} if dated else {}
    widths: dict[str, int] = {}
    left = width - LEAD
    for column in sorted(COLUMNS, key=lambda one: one.rank):
        needed = column.least + more.get(column.name, 0) + between
        # The lesser columns come only after the greater ones have the room that they nearly always use.
        reserved = (
            sum(cells - widths.get(name, cells) for name, cells in _ROOMY.items()) if column.rank > _LESSER else 0
        )
        if column.name not in hidden and needed + reserved <= left:
            widths[column.name] = needed - between
            left -= needed
    grown = [column for column in COLUMNS if column.name in widths]
    most = {column.name: column.most + more.get(column.name, 0) for column in grown}
    for column in sorted(grown, key=lambda one: one.rank):
        left -= _grow(widths, column.name, _ROOMY.get(column.name, 0), left)
    for column in sorted(grown, key=lambda one: one.rank):
        if len(column.full_title) - widths[column.name] <= left:
            left -= _grow(widths, column.name, len(column.full_title), left)
    for column in sorted(grown, key=lambda one: (one.name not in _ROOMY, one.rank)):
        left -= _grow(widths, column.name, most[column.name], left)
    if "status" in widths:
        grown = [_FLAGS_BESIDE_STATUS if column.name == "flags" else column for column in grown]
    return tuple(Slot(column, widths[column.name]) for column in grown)


def _grow(widths: dict[str, int], name: str, most: int, left: int) -> int:
    grown = min(left, max(most - widths[name], 0))
    widths[name] += grown
    return grown


def line(row: Row, slots: Sequence[Slot], look: Look, between: int) -> Iterator[Part]:
    """Give the parts of a line: the sign of how the exchange stands, then each column as wide as its slot."""
    found = state(row, recording=look.recording)
    yield f"{found.sign} ", found.tone
    blank = " " * between
    for slot in slots:
        parts = slot.column.shown(row, look, slot.width)
        if len(parts) == 1 and (text := parts[0][0]).isascii() and len(text) <= slot.width:
            # Nearly all cells are so: in one part, with the blanks around it, they cost a third to draw.
            yield f"{text.rjust(slot.width) if slot.column.right else text.ljust(slot.width)}{blank}", parts[0][1]
        else:
            yield from laid_out(parts, slot.width, right=slot.column.right)
            yield blank, "plain"


def gap_between(width: int) -> int:
    """Give how many cells stand between the columns of a list so wide."""
    return 2 if width >= _SPACIOUS else 1
