"""Lines that scroll and are drawn only when they can be seen, and the rule with a title above them."""

from collections.abc import Iterable
from typing import Final

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import Reactive, reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from wiretape.recorder.sanitize import safe
from wiretape.viewer.text import cells
from wiretape.viewer.tui.base import paint
from wiretape.viewer.tui.base.paint import Part
from wiretape.viewer.tui.base.theme import CachedLines, theme_styles

LARGEST: Final = 10_000_000
"""The most lines that can be scrolled to."""


class Lines(ScrollView):
    """A `ScrollView` with a scrollbar that is always there, so that more lines need no new layout of the screen.

    Subclasses draw their lines in `render_line`.
    """

    DEFAULT_CSS = """
    Lines {
        height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        scrollbar-background: $background; background: $background;
    }
    """

    # `Widget` would lay out the screen at each change, which takes longer than drawing the lines.
    virtual_size: Reactive[Size] = Reactive(Size(0, 0))

    def watch_virtual_size(self, size: Size) -> None:
        """Update the scrollbar after a change of the number of lines, and scroll back from lines that are gone."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = size.height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def set_lines(self, count: int) -> None:
        self.virtual_size = Size(self.size.width, min(count, LARGEST))

    def scroll_to_line(self, top: int) -> None:
        """Scroll until a line is the first in sight, or to the last lines."""
        self.scroll_to(y=max(0, min(top, self.virtual_size.height - self.size.height)), animate=False, force=True)

    def scroll_lines(self, lines: int) -> None:
        self.scroll_to_line(self.scroll_offset.y + lines)

    def reveal(self, line: int, margin: int = 0, *, ahead: bool = False) -> None:
        """Scroll as little as it takes to see a line with `margin` lines around it.

        If the lines `ahead` will be needed next, scroll further at once: scrolling draws every line anew.
        """
        height, top = max(self.size.height, 1), self.scroll_offset.y
        margin = min(margin, (height - 1) // 2)
        if line < top + margin:
            self.scroll_to_line(line - margin)
        elif line > top + height - 1 - margin:
            self.scroll_to_line(line - margin if ahead else line + margin - height + 1)


class Pane(Lines, CachedLines, can_focus=False, inherit_bindings=False):
    """Lines that a subclass defines in `line`. Keys are the screen's; `active` says that they apply to this pane."""

    active = reactive(False)

    def line(self, number: int) -> Iterable[Part]:
        raise NotImplementedError

    def behind(self, number: int) -> Style:
        return self.look("ground")

    def look(self, name: str) -> Style:
        """Return a style of the theme: that of a tone, or another by its name."""
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
        if number >= self.virtual_size.height:
            return Strip.blank(self.size.width, self.look("ground"))
        room = self.size.width - self.styles.scrollbar_size_vertical  # which covers the drawing there
        return paint.strip(fitted(self.line(number), room), self.size.width, self.behind(number))


class Heading(Widget):
    """A rule with a title, `text`, which is brighter where keys go: if `active`."""

    DEFAULT_CSS = "Heading { height: 1; }"
    text = reactive("")
    active = reactive(False)

    def render_line(self, y: int) -> Strip:
        styles = theme_styles(self)
        title, rule = styles["accent" if self.active else "plain"], styles["muted"]
        text = cells.cut(safe(self.text), self.size.width - 3)
        parts: list[Part] = [("─ ", rule), (text, title), (" ", None), ("─" * self.size.width, rule)]
        return paint.strip(parts, self.size.width, styles["ground"])


def fitted(parts: Iterable[Part], width: int) -> list[Part]:
    """Cut the parts of a line where there is no room, `…` standing for the rest."""
    line: list[Part] = []
    room = width
    for text, style in parts:
        text = safe(text)
        size = cell_len(text)
        if size > room and room:
            return [*line, (cells.cut(text, room), style)]
        if size > room:  # the last one that fits ends with `…`
            if line:
                end_text, end_style = line.pop()
                line.append((cells.cut(f"{end_text} ", cell_len(end_text)), end_style))
            return line
        line.append((text, style))
        room -= size
    return line
