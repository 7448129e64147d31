"""A pane of lines that are drawn only when they can be seen, and the rule with its title above it.

A pane of its own kind says how many lines it has and what stands in each; which of them are to be drawn anew, too.
Keys are the screen's, so that they mean the same in every pane.
"""

from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from recorder.sanitize import safe
from viewer.model import states
from viewer.tui.base import paint
from viewer.tui.base.paint import Part
from viewer.tui.base.theme import CachedLines, theme_styles
from viewer.tui.widgets.lines import Lines

LARGEST: Final = 10_000_000
"""More lines than this cannot be scrolled to."""


class Heading(Widget):
    """A rule with a title; its text is brighter where keys go."""

    DEFAULT_CSS = "Heading { height: 1; }"

    def __init__(self, text: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = text
        self._active = False

    def show(self, text: str, *, active: bool = False) -> None:
        """Show another title."""
        if (text, active) != (self._text, self._active):
            self._text, self._active = text, active
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the rule."""
        look = theme_styles(self)
        title, rule = look["accent" if self._active else "plain"], look["muted"]
        text = states.cut(safe(self._text), self.size.width - 3)
        drawn: list[Part] = [("─ ", rule), (text, title), (" ", None), ("─" * self.size.width, rule)]
        return paint.strip(drawn, self.size.width, look["ground"])


def fitted(parts: Iterable[Part], width: int) -> list[Part]:
    """Cut the parts of a line where there is no room, `…` standing for the rest."""
    kept: list[Part] = []
    room = width
    for text, style in parts:
        shown = safe(text)
        size = cell_len(shown)
        if size > room:
            return [*kept, (states.cut(shown, room), style)] if room else _ended(kept)
        kept.append((shown, style))
        room -= size
    return kept


def _ended(parts: list[Part]) -> list[Part]:
    """Let the last of these parts end with `…`."""
    if not parts:
        return parts
    text, style = parts[-1]
    return [*parts[:-1], (states.cut(f"{text} ", cell_len(text)), style)]


class Pane(Lines, CachedLines, can_focus=False, inherit_bindings=False):
    """Lines that scroll; a kind of pane gives `line`. Keys are handed on by whoever has the focus: `active` tells."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._count = 0
        self.active = False

    def line(self, number: int) -> Iterable[Part]:
        """Say what stands in a line."""
        raise NotImplementedError

    def behind(self, number: int) -> Style:
        """Say what is behind the text of a line."""
        return self.look("ground")

    def activate(self, active: bool) -> None:
        """Show that keys come to this pane, or that they do not."""
        if active != self.active:
            self.active = active
            self.refresh()

    def set_count(self, count: int) -> None:
        """Have so many lines."""
        self._count = min(count, LARGEST)
        self.set_lines(self._count)

    def look(self, name: str) -> Style:
        """Give the look of a tone, or another by its name."""
        return theme_styles(self)[name]

    def redraw(self, *rows: tuple[int, int]) -> None:
        """Draw these rows anew, as first and last; all, if none are given."""
        if not rows:
            self.refresh()
            return
        top, height, width = self.scroll_offset.y, self.size.height, self.size.width
        for first, last in rows:
            start, end = max(first - top, 0), min(last - top, height - 1)
            if start <= end:
                self.refresh(Region(0, start, width, end - start + 1))

    def render_line(self, y: int) -> Strip:
        """Draw the line that is `y` below the top of the view."""
        number = self.scroll_offset.y + y
        if number >= self._count:
            return Strip.blank(self.size.width, self.look("ground"))
        room = self.size.width - self.styles.scrollbar_size_vertical  # which covers what is drawn there
        return paint.strip(fitted(self.line(number), room), self.size.width, self.behind(number))
