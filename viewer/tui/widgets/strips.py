"""The race drawn over time: a line of gaps for each lane, on one axis, with the playhead across both."""

from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from rich.style import Style
from textual.strip import Strip

from viewer import sparks
from viewer.model.race import Drawing
from viewer.tui import paint
from viewer.tui.paint import Part
from viewer.tui.widgets.scrubbing import Scrubbing

_MARGIN = 3
_PLAYHEAD = "▲"


class RaceStrips(Scrubbing):
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
        self._drawing = Drawing()
        self._places = 0, 0

    @property
    def cells(self) -> int:
        """How many cells a line of gaps has."""
        return max(self.size.width - _MARGIN, 1)

    def span(self) -> tuple[int, int, int]:
        """Say where time is drawn."""
        return _MARGIN, self.cells, self._drawing.axis_ns

    def show(self, head: str, drawing: Drawing, places: tuple[int, int]) -> None:
        """Show both lines, `cells` long, each with its playhead in its cell of `places`."""
        if (head, drawing, places) != (self._head, self._drawing, self._places):
            self._head, self._drawing, self._places = head, drawing, places
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
        line = self._drawing.strips[y - 1].ljust(self.cells)
        place = self._places[y - 1]
        looks = ((_state(sign, at > place), at == place, sign) for at, sign in enumerate(line))
        for (state, is_playhead), alike in groupby(looks, itemgetter(0, 1)):
            style = self._style(state)
            drawn.append(
                ("".join(sign for *_, sign in alike), style + self._style("playhead") if is_playhead else style)
            )
        return paint.strip(drawn, width, self.rich_style)

    def _axis(self, width: int) -> Strip:
        axis = sparks.axis(self._drawing.axis_ns, self.cells, self._drawing.zero_ns).ljust(self.cells)
        at = self._places[0]
        drawn = [
            (" " * _MARGIN, None),
            (_clear(axis, at)[:at], self._style("axis")),
            (_PLAYHEAD, self._style("head")),
            (_clear(axis, at)[at + 1 :], self._style("axis")),
        ]
        return paint.strip(drawn, width, self.rich_style)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"race--{name}")


def _clear(axis: str, at: int) -> str:
    """Take away the label that the playhead would stand in the midst of: it would tell another time."""
    tick = axis.rfind(sparks.TICK, 0, at)
    end = axis.find(sparks.TICK, at)
    label = axis[tick + 1 : end if end >= 0 else None].rstrip()
    within = tick >= 0 and at <= tick + len(label)
    return f"{axis[: tick + 1]}{' ' * len(label)}{axis[tick + 1 + len(label) :]}" if within else axis


def _state(sign: str, to_come: bool) -> str:
    if to_come:
        return "to-come"
    return "stalled" if sign in sparks.STALLED else "slow" if sign in sparks.SLOW else "gaps"
