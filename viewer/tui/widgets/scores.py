"""The figures of two exchanges, one below the other, with their difference."""

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from viewer.model import scoreboard
from viewer.model.scoreboard import Score
from viewer.tui import paint
from viewer.tui.paint import Part

_SIDES = ("", "A", "B", "B − A")
_MARGIN = 7


class ScoreTable(Widget):
    """Draws as many figures as fit; the better side is coloured, and ends in `<`."""

    DEFAULT_CSS = """
    ScoreTable { width: 1fr; height: 5; }
    ScoreTable > .scores--head { color: $text-accent; text-style: bold; }
    ScoreTable > .scores--label { color: $text-muted; }
    ScoreTable > .scores--better { color: $text-success; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"scores--head", "scores--label", "scores--better"}

    def __init__(self) -> None:
        super().__init__(id="scores")
        self._scores: Sequence[Score] = ()

    def show(self, scores: Sequence[Score]) -> None:
        """Show these figures."""
        self._scores = scores
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the rule, the names, A, B or the difference."""
        width = self.size.width
        if y == 0:
            return paint.strip([("─" * width, self._style("label"))], width, self.rich_style)
        drawn: list[Part] = [(f"{_SIDES[y - 1]:<{_MARGIN}}", self._style("head"))]
        shown = scoreboard.fitting(self._scores, width - _MARGIN) if self._scores else ()
        for one in shown:
            text = (one.label, one.a, one.b, one.difference)[y - 1]
            drawn.append((f"{text:>{one.width}} ", self._of(one, y)))
        return paint.strip(drawn, width, self.rich_style)

    def _of(self, one: Score, y: int) -> Style | None:
        if y == 1:
            return self._style("label")
        return self._style("better") if one.better == y - 2 else None

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"scores--{name}")
