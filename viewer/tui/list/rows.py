"""The list of exchanges: only the lines that can be seen are drawn, however many there are.

It is given a `Catalog` and draws what rows that has; it asks for the others with `RowsWanted`, and draws them after
`redraw`. The cursor stays on its exchange while others arrive. The text of a line is made in
`wiretape.viewer.exchange.states`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.binding import BindingType
from textual.cache import FIFOCache
from textual.events import Click, Resize
from textual.message import Message
from textual.strip import Strip

from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import layout
from wiretape.viewer.listing.catalog import Catalog
from wiretape.viewer.listing.layout import Slot
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.text import cells, formatting
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.widgets.cursor import CLASSES, CURSOR, MARGIN, CursorList, Toned, css
from wiretape.viewer.tui.widgets.pane import Lines


class StreamRows(Lines, CursorList, can_focus=True, inherit_bindings=False):
    """A list of exchanges with a cursor and marks; `selected` is the number of the one under the cursor."""

    DEFAULT_CSS = css("StreamRows")
    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    BINDINGS: ClassVar[list[BindingType]] = CursorList.BINDINGS

    @dataclass
    class RowsWanted(Message):
        """Rows are missing: those of these exchanges, page by page."""

        pages: list[list[int]]

    class LaidOut(Message):
        """The columns are others, or stand elsewhere."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.catalog = Catalog()
        self.look = Look()
        self.selected: int | None = None
        self.marks: Collection[int] = ()
        self.hidden: Collection[str] = ()
        self.order: tuple[str, bool] | None = None
        self.slots: tuple[Slot, ...] = ()
        self.between = 1
        self.own_scales = False
        # Room for the page in sight, and for one more each way, which are drawn ahead.
        self._strips: FIFOCache[tuple[int, bool, bool], tuple[ListRow, Look, Strip]] = FIFOCache(512)
        self._tones: dict[str, Style] = {}
        self._on_cursor: dict[str, Style] = {}
        self._requested: list[list[int]] = []
        self._name_cells = 0

    @property
    def count(self) -> int:
        return len(self.catalog)

    @property
    def cursor(self) -> int:
        """The place of the cursor."""
        return 0 if self.selected is None or not self.count else self.catalog.nearest(self.selected)

    @cursor.setter
    def cursor(self, place: int) -> None:
        self.selected = self.catalog.number(place)

    def on_mount(self) -> None:
        self.lay_out()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self.lay_out))

    def on_unmount(self) -> None:
        """Unsubscribe: a signal keeps its subscribers alive."""
        self.app.theme_changed_signal.unsubscribe(self)

    def on_resize(self, event: Resize) -> None:
        """Choose the columns for the new width; the cursor stays in sight."""
        self.lay_out()
        self.reveal(self.cursor)
        self._request()

    def show(self, catalog: Catalog, order: tuple[str, bool] | None = None) -> None:
        """Show another list; the cursor stays on its exchange if that is in it, else it goes to the top."""
        self.catalog, self._name_cells = catalog, 0
        if order != self.order:
            self.order = order
            self.lay_out()
        is_listed = self.selected is not None and catalog.place(self.selected) is not None
        if not is_listed:
            self.selected = catalog.number(0) if self.count else None
        self.set_lines(self.count)
        self.scroll_to_line(self.cursor - self.size.height // 2 if is_listed else 0)
        self.reveal(self.cursor)
        self.redraw()
        self.post_message(self.Moved(self, by_hand=False))

    def grown(self, above: int, *, follow: bool) -> None:
        """Show exchanges that came or went in the catalog, `above` of them in its front.

        The view stays on its exchanges; at the top, new ones come into sight. To `follow` is to stay on the newest.
        """
        top = self.scroll_offset.y
        self.set_lines(self.count)
        if follow or self.selected is None or self.catalog.place(self.selected) is None:
            place = 0 if follow else self.cursor
            number = self.catalog.number(place) if self.count else None
            if number != self.selected:
                self.selected = number
                self.post_message(self.Moved(self, by_hand=False))
        self.scroll_to_line(0 if follow else top + above if top else 0)
        self.reveal(self.cursor)
        self.redraw()

    def redraw(self) -> None:
        self.refresh()
        self._requested = []
        self._request()

    def repaint(self) -> None:
        for place in self._places():
            if self._cached(place) is None:
                self.refresh_line(place)

    def filled(self) -> None:
        self.refresh()
        self._request()

    def set_look(self, look: Look) -> None:
        """Set the look of lines besides their rows, for later drawing."""
        self.look = replace(look, axis=self.look.axis)
        self._scale()

    def set_columns(self, hidden: Collection[str]) -> None:
        self.hidden = hidden
        self.lay_out()

    def scale_each(self, own_scales: bool) -> None:
        """Draw each timeline on its own axis, or all on the one for the rows in sight."""
        self.own_scales = own_scales
        self._scale()

    def in_sight(self) -> list[int]:
        return [self.catalog.number(place) for place in self._places()]

    def go_to(self, item: int) -> None:
        """Move the cursor to a place, or to the nearest that there is."""
        if not self.count:
            return
        previous, place = self.cursor, max(0, min(item, self.count - 1))
        if self.catalog.number(place) != self.selected:
            self.cursor = place
            self.refresh_line(previous)  # only these two lines are drawn again
            self.refresh_line(place)
            self.reveal(place)
            self.post_message(self.Moved(self, by_hand=True))

    def item_at(self, x: int, y: int) -> int | None:
        place = self.scroll_offset.y + y
        return place if place < self.count else None

    def render_line(self, y: int) -> Strip:
        """Draw the line that is `y` below the top of the view."""
        place = self.scroll_offset.y + y
        return self._line(place) if place < self.count else self.draw([])

    def _line(self, place: int) -> Strip:
        if (cached := self._cached(place)) is not None:
            return cached
        key, row = self._key(place), self.catalog.row(place)
        strip = self._draw(place, *key[1:])
        if row is not None:
            self._strips[key] = row, self._look_of(row), strip
        return strip

    def _cached(self, place: int) -> Strip | None:
        """Return a line that was drawn before, unless its row or its look is another now."""
        row, cached = self.catalog.row(place), self._strips.get(self._key(place))
        return cached[2] if row is not None and cached is not None and cached[:2] == (row, self._look_of(row)) else None

    def _key(self, place: int) -> tuple[int, bool, bool]:
        number = self.catalog.number(place)
        return number, number == self.selected, number in self.marks

    def _look_of(self, row: ListRow) -> Look:
        """Return the look that a row has been drawn with: without the time, if it does not change with that."""
        is_timed = self.look.times == "ago" or (row.outcome == "open" and self.look.recording)
        return self.look if is_timed else replace(self.look, wall_ns=0)

    def _draw(self, place: int, selected: bool, marked: bool) -> Strip:
        row = self.catalog.row(place)
        parts: list[Part] = [(CURSOR if selected else " ", "accent"), ("*" if marked else " ", "accent")]
        parts += layout.line(row, self.slots, self.look, self.between) if row else [("…", "muted")]
        tones = self._on_cursor if selected else self._tones
        strip = paint.strip((text, tones[tone]) for text, tone in cells.joined(parts))
        return strip.adjust_cell_length(self.size.width, tones["plain"])

    def action_page(self, pages: int) -> None:
        lines = pages * max(self.size.height - 1, 1)
        self.scroll_to_line(self.scroll_offset.y + lines)
        self.go_to(self.cursor + lines)

    def action_top(self) -> None:
        super().action_top()
        self.scroll_to_line(0)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._request()

    def on_focus(self) -> None:
        self.call_after_refresh(self.lay_out)

    def on_blur(self) -> None:
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Choose the columns for the width, and draw everything anew."""
        width = max(self.size.width, 1)
        self.slots = layout.fitted(
            width, self.hidden, start_cells=self.look.start_cells, name_cells=self._name_cells, order=self.order
        )
        self.between = layout.gap_between(width)
        self._tones = theme.styles(self, self.rich_style)
        self._on_cursor = theme.styles(self, theme.style(self, "list--cursor"))
        self._strips.clear()
        self.post_message(self.LaidOut())
        self.set_look(self.look)
        self.redraw()

    def _places(self, more: int = 0) -> range:
        """Return the places in sight, with `more` above and below them."""
        top = self.scroll_offset.y
        return range(max(top - more, 0), min(top + self.size.height + more, self.count))

    def _scale(self) -> None:
        rows = [row for place in self._places() if (row := self.catalog.row(place)) is not None]
        name_cells = max((cell_len(formatting.line(row.model)) for row in rows), default=0)
        if name_cells > self._name_cells:  # it never shrinks in one list: no column moves while somebody scrolls back
            self._name_cells = name_cells
            return self.lay_out()
        axis = None if self.own_scales else layout.axis(rows, self.look)
        if axis != self.look.axis:
            self.look = replace(self.look, axis=axis)
            self.repaint()
            self.post_message(self.LaidOut())

    def _request(self) -> None:
        """Ask for the rows in sight that are missing; where none are, look ahead after the next refresh."""
        self._scale()
        if not self._request_missing(self._places()):
            self.call_after_refresh(self._look_ahead)

    def _request_missing(self, places: range) -> bool:
        pages = self.catalog.missing(places.start, places.stop)
        if any(page not in self._requested for page in pages):  # scrolling by a line asks for the same pages again
            self._requested = pages
            self.post_message(self.RowsWanted(pages))
        return bool(pages)

    def _look_ahead(self) -> None:
        """Ask for the rows of a page more each way, and draw those that have ended: the next key will need them."""
        places = self._places(self.size.height)
        self._request_missing(places)
        for place in places:  # a running one would be another row by then
            if (row := self.catalog.row(place)) is not None and row.outcome != "open":
                self._line(place)


class Titles(Toned):
    """The titles of the columns of the list below; a click orders by a column."""

    DEFAULT_CSS = "Titles { height: 1; background: $surface; }"

    @dataclass
    class TitleClicked(Message):
        """A column's title was clicked."""

        field: str

    def __init__(self, rows: StreamRows) -> None:
        super().__init__()
        self._rows = rows

    def render_line(self, y: int) -> Strip:
        titles = layout.titles(self._rows.slots, self._rows.look, self._rows.between, self._rows.order)
        return self.draw([(MARGIN, "plain"), *titles])

    def on_click(self, event: Click) -> None:
        column = layout.column_at(self._rows.slots, self._rows.between, event.x)
        if column is not None and column.field is not None:
            self.post_message(self.TitleClicked(column.field))
