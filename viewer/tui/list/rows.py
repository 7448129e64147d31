"""The list of exchanges: only the lines that can be seen are drawn, however many there are.

It is given a `Catalog` and draws what rows that has; for the others it asks with `Wanted`, and is told with `redraw`.
The cursor stays on its exchange, whatever arrives. What a line says is left to `viewer.streams`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.events import Click, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from viewer import sparkline
from viewer.model import states
from viewer.model.listing import layout
from viewer.model.listing.catalog import Catalog
from viewer.model.listing.layout import Slot
from viewer.model.states import Look, Part
from viewer.tui.base import paint, theme
from viewer.tui.widgets.lines import Lines

_STRIPS_KEPT = 512
_LOADING = "…"


class StreamRows(Lines, can_focus=True, inherit_bindings=False):
    """A list of exchanges with a cursor and marks."""

    DEFAULT_CSS = theme.table_css("StreamRows")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.TABLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False, id="list.up"),
        Binding("down,j", "move(1)", "down", show=False, id="list.down"),
        Binding("pageup,ctrl+b", "page(-1)", "a page up", show=False, id="list.page_up"),
        Binding("pagedown,ctrl+f", "page(1)", "a page down", show=False, id="list.page_down"),
        Binding("ctrl+u", "page(-0.5)", "half a page up", show=False, id="list.half_page_up"),
        Binding("ctrl+d", "page(0.5)", "half a page down", show=False, id="list.half_page_down"),
        Binding("home,g", "top", "to the top", show=False, id="list.top"),
        Binding("end,G", "bottom", "to the bottom", show=False, id="list.bottom"),
    ]

    @dataclass
    class Wanted(Message):
        """Rows are missing: those of these exchanges, page by page."""

        pages: list[list[int]]

    @dataclass
    class Moved(Message):
        """The cursor has come to an exchange; None where the list is empty."""

        number: int | None
        by_hand: bool

    @dataclass
    class Opened(Message):
        """An exchange is to be opened."""

        number: int

    class LaidOut(Message):
        """The columns are others, or stand elsewhere."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.catalog = Catalog()
        self.look = Look()
        self.selected: int | None = None
        self.marks: Collection[int] = ()
        self.hidden: Collection[str] = ()
        self._slots: tuple[Slot, ...] = ()
        self._between = 1
        self._strips: LRUCache[tuple[int, bool, bool], Strip] = LRUCache(_STRIPS_KEPT)
        self._tones: dict[str, Style] = {}
        self._on_cursor: dict[str, Style] = {}
        self._blank = Style()
        self._asked: list[list[int]] = []

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The columns that there is room for."""
        return self._slots

    @property
    def between(self) -> int:
        """The cells between two columns."""
        return self._between

    @property
    def cursor(self) -> int:
        """The place of the cursor."""
        return 0 if self.selected is None or not len(self.catalog) else self.catalog.nearest(self.selected)

    def on_mount(self) -> None:
        """Draw anew in another theme."""
        self._lay_out()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._lay_out))

    def on_unmount(self) -> None:
        """Be forgotten: what listens is kept."""
        self.app.theme_changed_signal.unsubscribe(self)

    def on_resize(self, event: Resize) -> None:
        """Choose the columns for the new width; the cursor stays in sight."""
        self._lay_out()
        self._keep_in_view()
        self._ask()

    def show(self, catalog: Catalog) -> None:
        """Show another list; the cursor stays on its exchange if that is in it, else it goes to the top."""
        self.catalog = catalog
        kept = self.selected is not None and catalog.place(self.selected) is not None
        if not kept:
            self.selected = catalog.number(0) if len(catalog) else None
        self._resized()
        self._scroll(self.cursor - self.size.height // 2 if kept else 0)
        self._keep_in_view()
        self.redraw()
        self.post_message(self.Moved(self.selected, False))

    def grown(self, above: int, *, follow: bool) -> None:
        """Take note of exchanges that came or went in the catalog, `above` of them in its front.

        The view stays on what it shows; at the top, what is new comes into sight. To `follow` is to stay on the newest.
        """
        before = self.scroll_offset.y
        self._resized()
        if follow or self.selected is None or self.catalog.place(self.selected) is None:
            place = 0 if follow else self.cursor
            moved = self.catalog.number(place) if len(self.catalog) else None
            if moved != self.selected:
                self.selected = moved
                self.post_message(self.Moved(moved, False))
        self._scroll(before + above if before and not follow else 0 if follow else before)
        self._keep_in_view()
        self.redraw()

    def redraw(self, look: Look | None = None) -> None:
        """Draw all lines anew, and ask for the rows that are missing."""
        if look is not None:
            self.set_look(look)
        self.repaint()
        self._asked = []
        self._ask()

    def repaint(self) -> None:
        """Draw all lines anew, without asking again for missing rows: that would begin their reading anew."""
        self._strips.clear()
        self.refresh()

    def filled(self) -> None:
        """Draw the lines whose rows have come."""
        self.refresh()
        self._ask()

    def set_look(self, look: Look) -> None:
        """Take what lines depend on besides their rows, for what is drawn from now on."""
        worded = not any(slot.column.name == "outcome" for slot in self._slots)
        self.look = replace(look, worded=worded, axis_ns=self.look.axis_ns)

    def set_columns(self, hidden: Collection[str]) -> None:
        """Leave out some columns."""
        self.hidden = hidden
        self._lay_out()

    def in_sight(self) -> list[int]:
        """Give the numbers of the exchanges in sight."""
        first = self.scroll_offset.y
        return [self.catalog.number(place) for place in range(first, min(first + self.size.height, len(self.catalog)))]

    def go_to(self, place: int, *, by_hand: bool = True) -> None:
        """Move the cursor to a place, or to the nearest that there is."""
        if not len(self.catalog):
            return
        place = max(0, min(place, len(self.catalog) - 1))
        before, number = self.cursor, self.catalog.number(place)
        if number == self.selected:
            return
        self.selected = number
        self.refresh_line(before)
        self.refresh_line(place)
        self._keep_in_view()
        self.post_message(self.Moved(number, by_hand))

    def render_line(self, y: int) -> Strip:
        """Draw the line that is `y` below the top of the view."""
        place = self.scroll_offset.y + y
        return self._line(place) if place < len(self.catalog) else Strip.blank(self.size.width, self._blank)

    def _line(self, place: int) -> Strip:
        number = self.catalog.number(place)
        key = (number, number == self.selected, number in self.marks)
        found = self._strips.get(key)
        if found is None:
            found = self._drawn(place, *key)
            if self.catalog.row(place) is not None:
                self._strips[key] = found
        return found

    def action_move(self, lines: int) -> None:
        """Move the cursor by some lines."""
        self.go_to(self.cursor + lines)

    def action_page(self, pages: float) -> None:
        """Move the cursor, and the view with it, by some pages."""
        lines = round(pages * max(self.size.height - 1, 1))
        self._scroll(self.scroll_offset.y + lines)
        self.go_to(self.cursor + lines)

    def action_top(self) -> None:
        """Move the cursor to the top."""
        self.go_to(0)
        self._scroll(0)

    def action_bottom(self) -> None:
        """Move the cursor to the bottom."""
        self.go_to(len(self.catalog) - 1)

    def open(self) -> None:
        """Open the exchange under the cursor."""
        if self.selected is not None and len(self.catalog):
            self.post_message(self.Opened(self.selected))

    def on_click(self, event: Click) -> None:
        """Move the cursor to the line that was clicked; a second click opens it."""
        place = self.scroll_offset.y + event.y
        if place < len(self.catalog):
            self.go_to(place)
            if event.chain == 2:
                self.open()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Ask for the rows that come into sight."""
        super().watch_scroll_y(old_value, new_value)
        self._ask()

    def _lay_out(self) -> None:
        width = max(self.size.width, 1)
        self._slots = layout.fitted(width, self.hidden, dated=self.look.is_dated)
        self._between = layout.gap_between(width)
        self._tones = theme.styles(self, self.rich_style)
        self._on_cursor = theme.styles(self, theme.style(self, "table--cursor"))
        self._blank = Style(bgcolor=self.rich_style.bgcolor)
        self.post_message(self.LaidOut())
        self.redraw(self.look)

    def _drawn(self, place: int, number: int, selected: bool, marked: bool) -> Strip:
        row = self.catalog.row(place)
        parts: list[Part] = [(theme.CURSOR if selected else " ", "accent"), ("*" if marked else " ", "accent")]
        parts += layout.line(row, self._slots, self.look, self._between) if row else [(_LOADING, "muted")]
        tones = self._on_cursor if selected else self._tones
        drawn = ((text, tones[tone]) for text, tone in states.joined(parts))
        return paint.strip(drawn).adjust_cell_length(self.size.width, tones["plain"])

    def _resized(self) -> None:
        self.set_lines(len(self.catalog))

    def _keep_in_view(self) -> None:
        height, top, place = max(self.size.height, 1), self.scroll_offset.y, self.cursor
        if place < top:
            self._scroll(place)
        elif place >= top + height:
            self._scroll(place - height + 1)

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=max(0, min(top, len(self.catalog) - self.size.height)), animate=False, force=True)

    def _scale(self) -> None:
        """Let the axis of the gaps be as long as the rows in sight need."""
        first, last = self.scroll_offset.y, min(self.scroll_offset.y + self.size.height, len(self.catalog))
        shown = [row for place in range(first, last) if (row := self.catalog.row(place)) is not None]
        axis_ns = sparkline.scale_ns(layout.longest_ns(shown)) if shown else 0
        if axis_ns != self.look.axis_ns:
            self.look = replace(self.look, axis_ns=axis_ns)
            self._strips.clear()
            self.refresh()
            self.post_message(self.LaidOut())

    def _ask(self) -> None:
        """Ask for the rows in sight that are missing; the next key's must not hold up what this one shows."""
        self._scale()
        first = self.scroll_offset.y
        if not self._ask_for(first, first + max(self.size.height, 1)):
            self.call_after_refresh(self._look_ahead)

    def _ask_for(self, first: int, end: int) -> bool:
        """Ask for the rows that are missing of these places, unless that is done already; say whether there are any."""
        pages = self.catalog.missing(first, end)
        if any(page not in self._asked for page in pages):
            self._asked = pages
            self.post_message(self.Wanted(pages))
        return bool(pages)

    def _look_ahead(self) -> None:
        """Ask for the rows of a page more each way, and draw those that are there: the next key will want them."""
        first, height = self.scroll_offset.y, max(self.size.height, 1)
        self._ask_for(first - height, first + 2 * height)
        for place in range(max(first - height, 0), min(first + 2 * height, len(self.catalog))):
            if self.catalog.row(place) is not None:
                self._line(place)

    def on_focus(self) -> None:
        """Show the cursor as the one that keys move."""
        self.call_after_refresh(self._lay_out)

    def on_blur(self) -> None:
        """Show the cursor as one that keys do not move."""
        self.call_after_refresh(self._lay_out)


class Titles(Widget):
    """The titles of the columns of the list below; a click orders by a column."""

    DEFAULT_CSS = "Titles { height: 1; background: $surface; }" + theme.css("Titles")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.CLASSES

    @dataclass
    class Clicked(Message):
        """A column's title was clicked."""

        field: str

    def __init__(self, rows: StreamRows) -> None:
        super().__init__()
        self._rows = rows
        self._order: tuple[str, bool] | None = None

    def show(self, order: tuple[str, bool] | None) -> None:
        """Show the order: a field, and whether the largest come first; None is by time."""
        self._order = order
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the titles."""
        tones = theme.styles(self, self.rich_style)
        parts = layout.titles(self._rows.slots, self._rows.look, self._rows.between, self._order)
        drawn = [(text, tones[tone]) for text, tone in (("  ", "plain"), *parts)]
        return paint.strip(drawn).adjust_cell_length(self.size.width, tones["plain"])

    def on_click(self, event: Click) -> None:
        """Order by the column that was clicked."""
        column = layout.column_at(self._rows.slots, self._rows.between, event.x)
        if column is not None and column.field is not None:
            self.post_message(self.Clicked(column.field))
