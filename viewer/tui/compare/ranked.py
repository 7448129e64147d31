"""A table of exchanges with a cursor: the figures of each, and its gaps drawn on the axis of the first line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from viewer.model.listing import ranking
from viewer.model.listing.ranking import Entry
from viewer.model.states import Part
from viewer.tui.base import paint, theme

_MARGIN: Final = "  "
"""Where the cursor stands, as in the list."""


class RankedTable(Widget, can_focus=True):
    """Draws the exchanges that it is given; it scrolls with its cursor, which stays on its exchange."""

    DEFAULT_CSS = "RankedTable { width: 1fr; height: 1fr; }" + theme.table_css("RankedTable")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.TABLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False, id="table.up"),
        Binding("down,j", "move(1)", "down", show=False, id="table.down"),
        Binding("pageup", "move(-10)", "page up", show=False, id="table.page_up"),
        Binding("pagedown", "move(10)", "page down", show=False, id="table.page_down"),
        Binding("home,g", "move(-100)", "first", show=False, id="table.first"),
        Binding("end,G", "move(100)", "last", show=False, id="table.last"),
    ]

    class Moved(Message):
        """The cursor is on another exchange."""

    @dataclass
    class Opened(Message):
        """An exchange is to be opened."""

        number: int

    def __init__(self) -> None:
        super().__init__(id="ranked")
        self._entries: Sequence[Entry] = ()
        self._by: str | None = None
        self._reverse = False
        self._cursor = 0

    @property
    def selected(self) -> Entry | None:
        """The exchange under the cursor."""
        return self._entries[self._cursor] if self._entries else None

    def show(self, entries: Sequence[Entry], by: str | None, *, reverse: bool = False) -> None:
        """Show exchanges, which are in the order of a figure."""
        chosen = self.selected
        self._entries, self._by, self._reverse = entries, by, reverse
        places = [at for at, one in enumerate(entries) if chosen is not None and one.no == chosen.no]
        self._go(places[0] if places else self._cursor)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._go(self._cursor + by)

    def open(self) -> None:
        """Open the exchange under the cursor."""
        if self.selected is not None:
            self.post_message(self.Opened(self.selected.no))

    def on_click(self, event: Click) -> None:
        """Go to a line; clicked twice, open it."""
        if 1 <= event.y <= len(self._entries) - self._top():
            self._go(self._top() + event.y - 1)
            if event.chain == 2:
                self.open()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Move down."""
        self._go(self._cursor + 1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Move up."""
        self._go(self._cursor - 1)

    def render_line(self, y: int) -> Strip:
        """Draw the headings with the axis, or an exchange."""
        width, entries = self.size.width, self._entries
        laid, axis = ranking.layout(entries, width - len(_MARGIN)), ranking.axis_ns(entries)
        if y == 0:
            head = ranking.head(laid, self._by, axis, reverse=self._reverse)
            return self._drawn([(_MARGIN, "muted"), *head], theme.style(self, "table--titles"))
        at = self._top() + y - 1
        if at >= len(entries):
            return Strip.blank(width, self.rich_style)
        parts = ranking.line(entries[at], laid, ranking.best(entries), axis)
        if at == self._cursor:
            return self._drawn(
                [(theme.CURSOR.ljust(len(_MARGIN)), "accent"), *parts], theme.style(self, "table--cursor")
            )
        return self._drawn([(_MARGIN, "plain"), *parts], self.rich_style)

    def _drawn(self, parts: Sequence[Part], ground: Style) -> Strip:
        tones = theme.styles(self, ground)
        return paint.strip([(text, tones[tone]) for text, tone in parts], self.size.width, ground)

    def _top(self) -> int:
        room = max(self.size.height - 1, 1)
        return max(0, min(self._cursor - room // 2, len(self._entries) - room))

    def _go(self, row: int) -> None:
        self._cursor = max(0, min(row, len(self._entries) - 1))
        self.refresh()
        self.post_message(self.Moved())
