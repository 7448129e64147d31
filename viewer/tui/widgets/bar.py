"""One line of pieces in their tones; a click says which piece."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from recorder.sanitize import safe
from viewer.model.states import Tone
from viewer.tui.base import paint
from viewer.tui.base.theme import theme_styles
from viewer.tui.widgets.pane import fitted


class Bar(Widget):
    """Draws a line."""

    DEFAULT_CSS = "Bar { height: 1; }"

    @dataclass
    class Clicked(Message):
        """A piece was clicked: its number."""

        bar: "Bar"
        piece: int

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._pieces: Sequence[tuple[str, Tone]] = ()

    def show(self, pieces: Sequence[tuple[str, Tone]]) -> None:
        """Show another line."""
        if list(pieces) != list(self._pieces):
            self._pieces = list(pieces)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        look = theme_styles(self)
        drawn: list[paint.Part] = [(text, look[tone]) for text, tone in self._pieces]
        return paint.strip(
            fitted(drawn, self.size.width), self.size.width, look["surface" if self.id == "head" else "ground"]
        )

    def on_click(self, event: Click) -> None:
        """Say which piece was clicked."""
        at = 0
        for number, (text, _) in enumerate(self._pieces):
            at += cell_len(safe(text))
            if event.x < at:
                self.post_message(self.Clicked(self, number))
                return
