"""What a filter may go on with, in lines below it: the first says what is wrong, the others can be chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from viewer.model import states
from viewer.model.states import Part, Tone, cut
from viewer.tui.base import paint, theme

_INDENT: Final = "   "
_WIDEST: Final = 40


class Completions(Widget):
    """Lists texts, each with a note, below a line that says something; nothing is chosen until somebody moves."""

    DEFAULT_CSS = """
    Completions {
        height: 7; background: $surface;
        & > .completions--chosen { background: $primary-muted; }
    }
    """ + theme.css("Completions")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"completions--chosen", *theme.CLASSES}

    @dataclass
    class Taken(Message):
        """A text was clicked."""

        at: int

    def __init__(self) -> None:
        super().__init__()
        self._listed: Sequence[tuple[str, str]] = ()
        self._said: Part = ("", "plain")
        self.chosen: int | None = None

    def show(self, listed: Sequence[tuple[str, str]]) -> None:
        """List texts with their notes."""
        self._listed, self.chosen = listed, None
        self.refresh()

    def say(self, text: str, tone: Tone = "muted") -> None:
        """Say something above the list."""
        self._said = text, tone
        self.refresh()

    def move(self, by: int) -> None:
        """Choose the next text, or the one before; before the first none is chosen."""
        at = (-1 if self.chosen is None else self.chosen) + by
        self.chosen = None if at < 0 or not self._listed else min(at, len(self._listed) - 1)
        self.refresh()

    def on_click(self, event: Click) -> None:
        """Take the text that was clicked."""
        at = self._top() + event.y - 1
        if event.y and at < len(self._listed):
            self.post_message(self.Taken(at))

    def render_line(self, y: int) -> Strip:
        """Draw what is said, or a text with its note."""
        at = self._top() + y - 1
        if y == 0:
            return self._drawn([self._said, *self._counted()], self.rich_style)
        if at >= len(self._listed):
            return Strip.blank(self.size.width, self.rich_style)
        wide = min(max(len(text) for text, _ in self._listed), _WIDEST)
        text, note = self._listed[at]
        ground = theme.style(self, "completions--chosen") if at == self.chosen else self.rich_style
        return self._drawn([(f"{cut(text, wide):<{wide}}", "accent"), (f"  {note}", "muted")], ground)

    def _counted(self) -> list[Part]:
        """Return which of the texts are in sight, if not all are."""
        room, first, count = self.size.height - 1, self._top(), len(self._listed)
        if count <= room:
            return []
        return [(f"{'  ' if self._said[0] else ''}{first + 1}–{first + room} of {count}", "muted")]

    def _drawn(self, parts: Sequence[Part], ground: Style) -> Strip:
        tones, width = theme.styles(self, ground), self.size.width
        drawn = states.laid_out([(_INDENT, "plain"), *parts], width, right=False)
        return paint.strip(((text, tones[tone]) for text, tone in drawn), width, tones["plain"])

    def _top(self) -> int:
        """Return which text stands first: as many are left out above as the chosen one needs."""
        return max(0, (self.chosen or 0) - max(self.size.height - 2, 0))
