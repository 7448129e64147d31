"""The ways in which exchanges failed, in a line with a cursor: the one under it can be opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from viewer.tui import paint

_BETWEEN: Final = " │ "


class FailureLine(Widget, can_focus=True):
    """Draws texts side by side; it scrolls sideways with its cursor."""

    DEFAULT_CSS = """
    FailureLine { width: 1fr; height: 2; }
    FailureLine > .failures--head { color: $text-accent; text-style: bold; }
    FailureLine > .failures--rule { color: $text-muted; }
    FailureLine > .failures--item { color: $text-error; }
    FailureLine > .failures--cursor { text-style: reverse bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"failures--{name}" for name in ("head", "rule", "item", "cursor")}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "leave(-1)", "up", show=False, id="stats.up"),
        Binding("down,j", "leave(1)", "down", show=False, id="stats.down"),
        Binding("left,h", "move(-1)", "earlier", show=False, id="stats.earlier"),
        Binding("right,l", "move(1)", "later", show=False, id="stats.later"),
        Binding("enter", "open", "drill down", key_display="enter", id="stats.open"),
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

    def action_leave(self, by: int) -> None:
        """Move the focus on."""
        if by < 0:
            self.screen.focus_previous()

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = max(0, min(self.cursor + by, len(self._texts) - 1))
        self.refresh()
        self.post_message(self.Moved(self.cursor))

    def action_open(self) -> None:
        """Open the text under the cursor."""
        if self._texts:
            self.post_message(self.Opened(self.cursor))

    def on_focus(self) -> None:
        """Show the cursor, and say where it is."""
        self.action_move(0)

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the heading, or the texts."""
        width = self.size.width
        if y == 0:
            parts: list[paint.Part] = [("─ failures ", self._style("head")), ("─" * width, self._style("rule"))]
            return paint.strip(parts, width, self.rich_style)
        if not self._texts:
            return paint.strip([("none", self._style("rule"))], width, self.rich_style)
        parts, start, end = [], 0, 0
        for at, text in enumerate(self._texts):
            if at:
                parts.append((_BETWEEN, self._style("rule")))
            chosen = at == self.cursor and self.has_focus
            parts.append((text, self._style("item") + (self._style("cursor") if chosen else Style())))
            if at < self.cursor:
                start += cell_len(text) + len(_BETWEEN)
            end = start + cell_len(self._texts[self.cursor])
        line = paint.strip(parts, None, self.rich_style)
        left = max(min(start, end - width), 0) if end > width else 0
        return line.crop_extend(left, left + width, self.rich_style)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"failures--{name}")
