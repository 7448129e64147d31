"""The one line for a terminal that is too small for any screen."""

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from wiretape.viewer.tui.base import paint
from wiretape.viewer.tui.base.keys import hidden

LEAST: Final = (60, 16)
"""The columns and rows that a screen needs."""


class CrampedScreen(ModalScreen[None]):
    """Asks for more room; the application takes it away when there is enough."""

    CSS = """
    CrampedScreen { background: $background; align: left top; }
    CrampedScreen > Static { width: 1fr; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("escape", "stay", id="cramped.stay"),
        hidden("q", "app.leave", "quit", id="app.leave"),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the line."""
        yield Static(paint.content(f"wiretape needs {LEAST[0]}x{LEAST[1]}: enlarge me, or q quits"))

    def action_stay(self) -> None:
        """Leave the line where it is: the room has not grown."""
