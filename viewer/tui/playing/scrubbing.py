"""A widget that lies along time: pressing in it, and dragging from there, sends the playhead where the mouse points.

A drag that began in it goes on wherever the mouse is, and one that began elsewhere does nothing here: on the way over
a screen nobody loses their place.
"""

from dataclasses import dataclass

from textual.events import MouseDown, MouseMove, MouseUp
from textual.message import Message
from textual.widget import Widget

from viewer.model.exchange import strips


class Scrubbing(Widget):
    """Says where in time it is pressed; a kind of it gives `span`."""

    @dataclass
    class Scrubbed(Message):
        """Somebody points at an instant, in ns since T0."""

        at_ns: int

    _is_dragged = False

    def span(self) -> tuple[int, int, int]:
        """Say where time is drawn: its first column, how many there are (0: none by now), and how many ns they are."""
        raise NotImplementedError

    def on_mouse_down(self, event: MouseDown) -> None:
        """Go to what is pressed: in the columns of time, or just beside them, which is the start or the end."""
        first, cells, _ = self.span()
        if event.button == 1 and cells and first - 1 <= event.x <= first + cells:
            self._is_dragged = True
            self.capture_mouse()
            self._point(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        """Go along with the button held down; where it was let go of unseen, as outside of the terminal, stay."""
        if self._is_dragged and event.button == 1:
            self._point(event.x)
        else:
            self._let_go()

    def on_mouse_up(self, event: MouseUp) -> None:
        """Stay there."""
        self._let_go()

    def _let_go(self) -> None:
        if self._is_dragged:
            self._is_dragged = False
            self.release_mouse()

    def _point(self, x: int) -> None:
        first, cells, lasts_ns = self.span()
        if cells:
            cell = min(x - first, cells - 1)
            self.post_message(self.Scrubbed(strips.instant(cell, lasts_ns, cells) if cell >= 0 else 0))
