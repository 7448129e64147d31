"""The figures of two exchanges, one below the other, with their difference."""

from collections.abc import Sequence
from typing import ClassVar

from textual.strip import Strip
from textual.widget import Widget

from viewer.model.listing import ranking
from viewer.model.listing.ranking import Score
from viewer.tui.base import paint, theme
from viewer.tui.base.paint import Part

_SIDES = ("", "A", "B", "B − A")
_MARGIN = 8


class ScoreTable(Widget):
    """Draws as many figures as fit; the better side is coloured, and ends in `<`."""

    DEFAULT_CSS = """
    ScoreTable { width: 1fr; height: 4; }
    """ + theme.table_css("ScoreTable")
    COMPONENT_CLASSES: ClassVar[set[str]] = theme.TABLE_CLASSES

    def __init__(self) -> None:
        super().__init__(id="scores")
        self._scores: Sequence[Score] = ()

    def show(self, scores: Sequence[Score]) -> None:
        """Show these figures."""
        self._scores = scores
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the names, A, B or the difference."""
        ground = self.rich_style if y else theme.style(self, "table--titles")
        tones, width = theme.styles(self, ground), self.size.width
        drawn: list[Part] = [(f" {_SIDES[y]:<{_MARGIN - 1}}", tones["strong"])]
        for one in ranking.fitting(self._scores, width - _MARGIN) if self._scores else ():
            text = (one.label, one.a, one.b, one.difference)[y]
            tone = "muted" if y == 0 else "success" if one.better == y - 1 else "plain"
            drawn.append((f"{text:>{one.width}} ", tones[tone]))
        return paint.strip(drawn, width, ground)
