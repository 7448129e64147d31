"""Lines that scroll, drawn when they can be seen: however many there are, everything else stays where it is.

Subclasses draw their lines in `render_line`.
"""

from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView


class Lines(ScrollView):
    """A `ScrollView` with a scrollbar that is always there, so that more lines need no new layout of the screen."""

    DEFAULT_CSS = """
    Lines {
        height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        scrollbar-background: $background; background: $background;
    }
    """

    # As `Widget` has it, each change of it would lay out the screen, which takes longer than drawing the lines.
    virtual_size: Reactive[Size] = Reactive(Size(0, 0))

    def watch_virtual_size(self, size: Size) -> None:
        """Tell the scrollbar of lines that came or went, and scroll back from where there are none any more."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = size.height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def set_lines(self, count: int) -> None:
        """Set the number of lines."""
        self.virtual_size = Size(self.size.width, count)

    def scroll_to_line(self, top: int) -> None:
        """Scroll until a line is the first in sight, as far as there are lines."""
        self.scroll_to(y=max(0, min(top, self.virtual_size.height - self.size.height)), animate=False, force=True)

    def scroll_lines(self, lines: int) -> None:
        """Scroll by so many lines."""
        self.scroll_to_line(self.scroll_offset.y + lines)

    def reveal(self, line: int, margin: int = 0, *, ahead: bool = False) -> None:
        """Scroll as little as it takes to see a line with so many lines around it.

        If what lies `ahead` will be needed next, scroll further at once: scrolling draws every line anew.
        """
        height, top = max(self.size.height, 1), self.scroll_offset.y
        margin = min(margin, (height - 1) // 2)
        if line < top + margin:
            self.scroll_to_line(line - margin)
        elif line > top + height - 1 - margin:
            self.scroll_to_line(line - margin if ahead else line + margin - height + 1)
