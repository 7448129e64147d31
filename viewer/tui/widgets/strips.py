"""The race drawn over time: a line of gaps for each lane, on one axis, with the playhead across both."""

from typing import ClassVar

from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from viewer import sparks
from viewer.tui import paint
from viewer.tui.paint import Part

_MARGIN = 3
_PLAYHEAD = "▲"


class RaceStrips(Widget):
    """Draws two lines of gaps; what has not come yet is dim."""

    DEFAULT_CSS = """
    RaceStrips { width: 1fr; height: 4; }
    RaceStrips > .race--head { color: $text-accent; text-style: bold; }
    RaceStrips > .race--gaps { color: $text-primary; }
    RaceStrips > .race--slow { color: $text-warning; }
    RaceStrips > .race--stalled { color: $text-error; text-style: bold; }
    RaceStrips > .race--to-come { color: $text-disabled; }
    RaceStrips > .race--playhead { text-style: reverse; }
    RaceStrips > .race--axis { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"race--{name}" for name in ("head", "gaps", "slow", "stalled", "to-come", "playhead", "axis")
    }

    def __init__(self) -> None:
        super().__init__(id="race")
        self._head = "race"
        self._strips = "", ""
        self._places = 0, 0
        self._axis_ns = 0

    @property
    def cells(self) -> int:
        """How many cells a line of gaps has."""
        return max(self.size.width - _MARGIN, 1)

    def show(self, head: str, strips: tuple[str, str], places: tuple[int, int], axis_ns: int) -> None:
        """Show both lines, `cells` long for `axis_ns`, each with its playhead in its cell of `places`."""
        if (head, strips, places, axis_ns) != (self._head, self._strips, self._places, self._axis_ns):
            self._head, self._strips, self._places, self._axis_ns = head, strips, places, axis_ns
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the heading, a lane, or the axis."""
        width = self.size.width
        if y == 0:
            head: list[Part] = [(f"─ {self._head} ", self._style("head")), ("─" * width, self._style("axis"))]
            return paint.strip(head, width, self.rich_style)
        if y == 3:
            return self._axis(width)
        drawn: list[Part] = [(f"{'AB'[y - 1]}  ", self._style("head"))]
        line = self._strips[y - 1].ljust(self.cells)
        place = self._places[y - 1]
        for at, sign in enumerate(line):
            style = self._style(_state(sign, at > place))
            drawn.append((sign, style + self._style("playhead") if at == place else style))
        return paint.strip(drawn, width, self.rich_style)

    def _axis(self, width: int) -> Strip:
        axis = sparks.axis(self._axis_ns, self.cells).ljust(self.cells)
        at = self._places[0]
        drawn = [
            (" " * _MARGIN + axis[:at], self._style("axis")),
            (_PLAYHEAD, self._style("head")),
            (axis[at + 1 :], self._style("axis")),
        ]
        return paint.strip(drawn, width, self.rich_style)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"race--{name}")


def _state(sign: str, to_come: bool) -> str:
    if to_come:
        return "to-come"
    return "stalled" if sign in sparks.STALLED else "slow" if sign in sparks.SLOW else "gaps"
