"""A table of groups with a cursor: the line under it can be opened."""

from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from viewer.model.listing.groups import Table
from viewer.tui.base import paint, theme

_EMPTY: Final = Table((), [], ())
_APART: Final = "  "
_MARGIN: Final = "  "


class GroupTable(Widget, can_focus=True):
    """Draws a table that it is given; it scrolls with its cursor, and hands the focus on at its ends."""

    MARGIN: ClassVar[int] = len(_MARGIN)
    """The cells before the first column."""

    DEFAULT_CSS = "GroupTable { width: 1fr; height: 4; }" + theme.table_css("GroupTable")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.TABLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False, id="stats.up"),
        Binding("down,j", "move(1)", "down", show=False, id="stats.down"),
        Binding("pageup", "move(-10)", "page up", show=False, id="stats.page_up"),
        Binding("pagedown", "move(10)", "page down", show=False, id="stats.page_down"),
    ]

    @dataclass
    class Moved(Message):
        """The cursor is on a line."""

        row: int

    @dataclass
    class Opened(Message):
        """A line is to be opened."""

        row: int

    def __init__(self) -> None:
        super().__init__(id="groups")
        self._table = _EMPTY
        self.cursor = 0

    def show(self, table: Table) -> None:
        """Show a table; the cursor stays on its line as far as there is one."""
        self._table = table
        self.cursor = max(min(self.cursor, len(table.lines) - 1), 0)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor; beyond the ends the focus moves on."""
        last = len(self._table.lines) - 1
        if self.cursor + by > last and self.cursor == max(last, 0):
            self.screen.focus_next()
            return
        self._go(max(0, min(self.cursor + by, last)))

    def open(self) -> None:
        """Open the line under the cursor."""
        if self._table.lines:
            self.post_message(self.Opened(self.cursor))

    def on_click(self, event: Click) -> None:
        """Go to a line; clicked twice, open it."""
        row = self._top() + event.y - 1
        if 1 <= event.y <= self._room and row < len(self._table.lines):
            self._go(row)
            if event.chain == 2:
                self.open()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Move down."""
        self._go(min(self.cursor + 1, max(len(self._table.lines) - 1, 0)))

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Move up."""
        self._go(max(self.cursor - 1, 0))

    def render_line(self, y: int) -> Strip:
        """Draw the headings, or a line."""
        if y == 0:
            titles = theme.style(self, "table--titles")
            return self._drawn(self._table.heads, theme.styles(self, titles)["muted"], titles)
        if y > self._room:
            return self._below(y - self._room - 1)
        row = self._top() + y - 1
        if row >= len(self._table.lines):
            return Strip.blank(self.size.width, self.rich_style)
        return self._drawn(self._table.lines[row], None, self._ground(row), is_cursor=row == self.cursor)

    def _ground(self, row: int) -> Style:
        return theme.style(self, "table--cursor") if row == self.cursor else self.rich_style

    def on_focus(self) -> None:
        """Show the cursor, and say where it is."""
        self._go(self.cursor)

    def on_blur(self) -> None:
        """Dim the cursor."""
        self.refresh()

    def _go(self, row: int) -> None:
        self.cursor = row
        self.refresh()
        self.post_message(self.Moved(row))

    @property
    def _room(self) -> int:
        """How many groups are shown at once; where not all are, a line says how many more there are."""
        room = max(self.size.height - 1 - (self._table.total is not None), 1)
        return room if len(self._table.lines) <= room else max(room - 1, 1)

    def _below(self, line: int) -> Strip:
        """Draw what stands below the groups: how many more there are, and all of them together."""
        room, count, width = self._room, len(self._table.lines), self.size.width
        tones = theme.styles(self, self.rich_style)
        if line == 0 and count > room:
            above, below = self._top(), count - room - self._top()
            told = " · ".join([f"↑ {above:,} more"] * bool(above) + [f"↓ {below:,} more"] * bool(below))
            return paint.strip([(f"{_MARGIN}{told}", tones["accent"])], width, self.rich_style)
        if self._table.total is None or line > (count > room):
            return Strip.blank(width, self.rich_style)
        return self._drawn(self._table.total, tones["strong"], self.rich_style)

    def _top(self) -> int:
        room = self._room
        return max(0, min(self.cursor - room // 2, len(self._table.lines) - room))

    def _drawn(self, texts: tuple[str, ...], style: Style | None, ground: Style, *, is_cursor: bool = False) -> Strip:
        """Draw texts in their columns, all in a style; without one, the first is a name and the others are figures."""
        tones = theme.styles(self, ground)
        parts: list[paint.Part] = [(theme.CURSOR.ljust(len(_MARGIN)) if is_cursor else _MARGIN, tones["accent"])]
        for at, (text, size) in enumerate(zip(texts, self._table.widths, strict=True)):
            shown = f"{text:<{size}}" if at == 0 else f"{_APART}{text:>{size}}"
            parts.append((shown, style or tones["strong" if at == 0 else "plain"]))
        return paint.strip(parts, self.size.width, ground)
