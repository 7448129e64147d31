"""The first line: which tape, how much is on it, and who records."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from recorder.sanitize import safe
from viewer.model import states
from viewer.model.states import Part
from viewer.tui.base import paint, theme


class HeaderLine(Widget):
    """What is known of the tape at its left, of the recorder at its right; the right gives way."""

    DEFAULT_CSS = """
    HeaderLine {
        height: 1; background: $panel;
        & > .header--brand { background: $primary; color: $text; text-style: bold; }
    }
    """ + theme.css("HeaderLine")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"header--brand", *theme.CLASSES}

    def __init__(self) -> None:
        super().__init__()
        self._left: Sequence[Part] = ()
        self._right: Sequence[Part] = ()

    def show(self, left: Sequence[Part], right: Sequence[Part]) -> None:
        """Show these parts."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        tones = theme.styles(self, self.rich_style)
        brand = " wiretape "
        room = self.size.width - len(brand) - 2
        left = list(states.laid_out([(safe(text), tone) for text, tone in self._left], room, right=False))
        used = sum(cell_len(safe(text)) for text, _ in self._left)
        right = states.laid_out([(safe(text), tone) for text, tone in self._right], max(room - used - 2, 0), right=True)
        shown = [*left[:-1], ("  ", "plain"), *right] if room - used > 2 else left
        parts: list[paint.Part] = [(brand, theme.style(self, "header--brand")), (" ", None)]
        parts += [(text, tones[tone]) for text, tone in shown]
        return paint.strip(parts, self.size.width, Style(bgcolor=self.rich_style.bgcolor))
