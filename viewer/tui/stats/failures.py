"""The ways in which exchanges failed, side by side in lines, with a cursor: the one under it can be opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from viewer.tui.base import paint, theme

_BETWEEN: Final = " │ "
_MARGIN: Final = "  "


class FailureLine(Widget, can_focus=True):
    """Draws texts side by side, in as many lines as it has; with more of them it scrolls with its cursor."""

    DEFAULT_CSS = """
    FailureLine { width: 1fr; height: 2; }
    """ + theme.table_css("FailureLine")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.TABLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "leave(-1)", "up", show=False, id="stats.up"),
        Binding("down,j", "leave(1)", "down", show=False, id="stats.down"),
        Binding("left,h", "move(-1)", "earlier", show=False, id="stats.earlier"),
        Binding("right,l", "move(1)", "later", show=False, id="stats.later"),
    ]

    @dataclass
    class Moved(Message):
        """The cursor is on a text."""

        at: int

    @dataclass
    class Opened(Message):
        """A text is to be opened."""

        at: int

    def __init__(self) -> None:
        super().__init__(id="failures")
        self._texts: Sequence[str] = ()
        self.cursor = 0

    def show(self, texts: Sequence[str]) -> None:
        """Show texts side by side."""
        self._texts = texts
        self.cursor = max(min(self.cursor, len(texts) - 1), 0)
        self.refresh()

    def lines(self, width: int) -> list[list[int]]:
        """Give which texts stand in which line of such a width; a longer one has a line of its own."""
        found: list[list[int]] = []
        room = 0
        for at, text in enumerate(self._texts):
            size = cell_len(text) + len(_BETWEEN)
            if not found or size > room:
                found.append([])
                room = width + len(_BETWEEN)
            found[-1].append(at)
            room -= size
        return found

    def action_leave(self, by: int) -> None:
        """Go to the line above or below; above the first the focus moves on."""
        lines = self.lines(self._width)
        line = self._line(lines)
        if 0 <= line + by < len(lines):
            self._go(lines[line + by][0])
        elif by < 0:
            self.screen.focus_previous()

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._go(max(0, min(self.cursor + by, len(self._texts) - 1)))

    def open(self) -> None:
        """Open the text under the cursor."""
        if self._texts:
            self.post_message(self.Opened(self.cursor))

    def on_click(self, event: Click) -> None:
        """Go to a text; clicked twice, open it."""
        lines = self.lines(self._width)
        line, x = self._top(lines) + event.y - 1, event.x - len(_MARGIN)
        for at in lines[line] if event.y and line < len(lines) else ():
            if 0 <= x < cell_len(self._texts[at]):
                self._go(at)
                if event.chain == 2:
                    self.open()
                return
            x -= cell_len(self._texts[at]) + len(_BETWEEN)

    def on_focus(self) -> None:
        """Show the cursor, and say where it is."""
        self.action_move(0)

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the heading, or a line of texts."""
        width = self.size.width
        lines = self.lines(self._width)
        if y == 0:
            return theme.rule(self, self._heading(lines), width)
        line, tones = self._top(lines) + y - 1, theme.styles(self, self.rich_style)
        item = Style(color=tones["error"].color, bgcolor=self.rich_style.bgcolor)
        cursor = Style(color=item.color, bgcolor=theme.style(self, "table--cursor").bgcolor, bold=True)
        if not lines:
            return paint.strip([(f"{_MARGIN}none" if y == 1 else "", tones["muted"])], width, self.rich_style)
        parts: list[paint.Part] = [(_MARGIN, None)]
        for at in lines[line] if line < len(lines) else ():
            if len(parts) > 1:
                parts.append((_BETWEEN, tones["muted"]))
            text = self._texts[at]
            shown = text if cell_len(text) <= self._width else f"{set_cell_size(text, self._width - 1)}…"
            parts.append((shown, cursor if at == self.cursor and self.has_focus else item))
        return paint.strip(parts, width, self.rich_style)

    def _heading(self, lines: list[list[int]]) -> str:
        shown = lines[self._top(lines) :][: self._room]
        left_out = len(self._texts) - sum(map(len, shown))
        return f"failures · {left_out} more" if left_out else "failures"

    @property
    def _width(self) -> int:
        return max(self.size.width - len(_MARGIN), 1)

    @property
    def _room(self) -> int:
        return max(self.size.height - 1, 1)

    def _line(self, lines: list[list[int]]) -> int:
        return next((line for line, texts in enumerate(lines) if self.cursor in texts), 0)

    def _top(self, lines: list[list[int]]) -> int:
        return max(0, min(self._line(lines) - self._room + 1, len(lines) - self._room))

    def _go(self, at: int) -> None:
        self.cursor = at
        self.refresh()
        self.post_message(self.Moved(at))
