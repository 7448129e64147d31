"""Lines that scroll, drawn when they can be seen: however many there are, everything else stays where it is.

What the lines are is said by those who inherit from this, in `render_line`.
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
        """Let the scrollbar know of lines that came or went, and scroll back from where there are none any more."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = size.height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def set_lines(self, count: int) -> None:
        """Have so many lines."""
        self.virtual_size = Size(self.size.width, count)
