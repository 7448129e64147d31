"""Lines around a screen's content: its header, a bar of pieces to click, a notice instead, and warnings below."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from wiretape.recorder.sanitize import safe
from wiretape.viewer.listing.notices import Lines
from wiretape.viewer.text import cells
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.widgets.cursor import Toned
from wiretape.viewer.tui.widgets.pane import fitted


def content(parts: Iterable[Part]) -> Content:
    return Content("").join(paint.content(text, theme.markup(tone)) for text, tone in parts)


class HeaderLine(Toned):
    """The first line: facts about the tape at its left, about the recorder at its right; the right gives way."""

    DEFAULT_CSS = """
    HeaderLine {
        height: 1; background: $panel;
        & > .header--brand { background: $primary; color: $text; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"header--brand"}

    def __init__(self) -> None:
        super().__init__()
        self._sides: tuple[Sequence[Part], Sequence[Part]] = (), ()

    def show(self, left: Iterable[Part], right: Iterable[Part] = ()) -> None:
        sides = [(safe(text), tone) for text, tone in left], [(safe(text), tone) for text, tone in right]
        if sides != self._sides:
            self._sides = sides
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the brand, then both sides: what does not fit is cut from the right one first."""
        brand, (left, right) = " wiretape ", self._sides
        room = self.size.width - len(brand) - 2
        free = room - sum(cell_len(text) for text, _ in left) - 2
        parts = list(cells.laid_out(left, room, right=False))
        if free > 0:
            parts = [*parts[:-1], ("  ", "plain"), *cells.laid_out(right, free, right=True)]
        tones = theme.styles(self, self.rich_style)
        line: list[paint.Part] = [(brand, theme.style(self, "header--brand")), (" ", None)]
        line += [(text, tones[tone]) for text, tone in parts]
        return paint.strip(line, self.size.width, Style(bgcolor=self.rich_style.bgcolor))


class Bar(Widget):
    """One line of `pieces` in their tones; a click says which piece."""

    DEFAULT_CSS = "Bar { height: 1; }"
    pieces = reactive[Sequence[Part]](())

    @dataclass
    class PieceClicked(Message):
        """A piece was clicked: its number."""

        bar: "Bar"
        piece: int

    def render_line(self, y: int) -> Strip:
        styles = theme.theme_styles(self)
        parts: list[paint.Part] = [(text, styles[tone]) for text, tone in self.pieces]
        ground = styles["surface" if self.id == "head" else "ground"]
        return paint.strip(fitted(parts, self.size.width), self.size.width, ground)

    def on_click(self, event: Click) -> None:
        ends = accumulate(cell_len(safe(text)) for text, _ in self.pieces)
        piece = next((number for number, end in enumerate(ends) if event.x < end), None)
        if piece is not None:
            self.post_message(self.PieceClicked(self, piece))


class Notice(Static):
    """Lines of parts, in a block in the middle."""

    DEFAULT_CSS = "Notice { width: auto; max-width: 100%; height: auto; padding: 1 2; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines: Lines = []

    def show(self, lines: Lines) -> None:
        if lines != self._lines:
            self._lines = lines
            self.update(Content("\n").join(map(content, lines)))
