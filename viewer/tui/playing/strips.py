"""The race drawn over time: a line of gaps for each lane, on one axis, with the playhead across both."""

from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from rich.style import Style
from textual.strip import Strip

from viewer import sparkline
from viewer.model.exchange import strips
from viewer.model.exchange.race import Drawing
from viewer.tui.base import paint, theme
from viewer.tui.base.paint import Part
from viewer.tui.playing.scrubbing import Scrubbing

_MARGIN = 3
_PLAYHEAD = "▲"


class RaceStrips(Scrubbing):
    """Draws two lines of gaps; what has not come yet is dim."""

    DEFAULT_CSS = """
    RaceStrips { width: 1fr; height: 4; }
    RaceStrips > .race--head { color: $foreground; text-style: bold; }
    RaceStrips > .race--gaps { color: $text-primary; }
    RaceStrips > .race--first { background: $panel; }
    RaceStrips > .race--slow { color: $text-warning; background: $warning-muted; }
    RaceStrips > .race--stalled { color: $text-error; background: $error-muted; text-style: bold; }
    RaceStrips > .race--to-come { color: $foreground 66%; }
    RaceStrips > .race--playhead { background: $primary-muted; }
    RaceStrips > .race--axis { color: $text-muted; }
    """ + theme.css("RaceStrips")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"race--{name}" for name in ("head", "gaps", "first", "slow", "stalled", "to-come", "playhead", "axis")
    } | theme.CLASSES

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
            return theme.rule(self, self._head, width)
        if y == 3:
            return self._axis(width)
        drawn: list[Part] = [(f" {'AB'[y - 1]} ", self._style("head"))]
        line, at = self._drawing.strips[y - 1].ljust(self.cells), self._places[y - 1]
        waited = strips.wait_kinds(self._drawing.waits[y - 1], self.cells)
        looks = (
            (_state(sign, kind, place > at), kind, place == at, sign)
            for place, (sign, kind) in enumerate(zip(line, waited, strict=False))
        )
        for (state, kind, is_playhead), alike in groupby(looks, itemgetter(0, 1, 2)):
            style = self._style(state) + (self._behind(kind) if kind else Style())
            style += self._behind("playhead") if is_playhead else Style()
            drawn.append(("".join(sign for *_, sign in alike), style))
        return paint.strip(drawn, width, self.rich_style)

    def _axis(self, width: int) -> Strip:
        axis = sparkline.axis(self._drawing.axis_ns, self.cells, self._drawing.zero_ns).ljust(self.cells)
        at = self._places[0]
        clear = sparkline.without_label(axis, at)
        drawn = [
            (" " * _MARGIN, None),
            (clear[:at], self._style("axis")),
            (_PLAYHEAD, self._style("head")),
            (clear[at + 1 :], self._style("axis")),
        ]
        return paint.strip(drawn, width, self.rich_style)

    def _behind(self, name: str) -> Style:
        return Style(bgcolor=self.get_component_rich_style(f"race--{name}").bgcolor)

    def _style(self, name: str) -> Style:
        style = self.get_component_rich_style(f"race--{name}")
        return Style(color=style.color, bold=style.bold)


def _state(sign: str, kind: strips.WaitKind | None, to_come: bool) -> str:
    if kind is not None:
        return {"first": "axis", "slow": "slow", "stalled": "stalled"}[kind]
    if to_come:
        return "to-come"
    return "stalled" if sign in sparkline.STALLED else "slow" if sign in sparkline.SLOW else "gaps"
