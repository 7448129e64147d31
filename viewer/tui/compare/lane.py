"""One lane of a race, with the last lines of its text, and the figures of both lanes below."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.reactive import reactive
from textual.strip import Strip

from wiretape.viewer.exchange.race import LanePart
from wiretape.viewer.listing import ranking
from wiretape.viewer.listing.ranking import Score
from wiretape.viewer.text import cells, diff, wrap
from wiretape.viewer.text.diff import Divergence, Piece
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.widgets.cursor import Toned

_MARGIN: Final = " "
_SIDES: Final = ("", "A", "B", "B − A")
_SIDE: Final = 8


class LanePane(Toned):
    """Draws one lane; its lines are wrapped when the text or the size has changed, and not for each repaint."""

    DEFAULT_CSS = """
    LanePane { width: 1fr; height: 1fr; }
    LanePane > .lane--content { color: $foreground; }
    LanePane > .lane--reasoning { color: $text-muted; text-style: italic; }
    LanePane > .lane--refusal { color: $text-warning; }
    LanePane > .lane--tool { color: $text-secondary; }
    LanePane > .lane--instead { color: $text-muted; }
    LanePane > .lane--caret { color: $text-accent; text-style: bold; }
    LanePane > .lane--parting { color: $text-error; text-style: bold underline; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"lane--{name}" for name in ("content", "reasoning", "refusal", "tool", "instead", "caret", "parting")
    }

    def __init__(self, name: str) -> None:
        super().__init__(id=f"lane-{name.lower()}")
        self._head = name
        self._status: Sequence[cells.Part] = ()
        self._parts: Sequence[LanePart] = ()
        self._moving = False
        self._parting: tuple[str, str] | None = None
        self._lines: list[list[Piece]] | None = None

    @property
    def room(self) -> int:
        return max(self.size.width - len(_MARGIN), 1)

    def rows_of(self, parts: Sequence[LanePart], most: int) -> int:
        """Return the number of lines that texts take, at most `most`."""
        return len(wrap.tail(((part.kind, part.text, part.length) for part in parts), max(self.room - 1, 1), most))

    def show(self, head: str, status: Sequence[cells.Part], parts: Sequence[LanePart], is_running: bool) -> None:
        """Show a lane: its head, its status and its texts; `is_running`: it has not ended."""
        has_grown = self._parting is not None or (parts, is_running) != (self._parts, self._moving)
        has_changed = has_grown or (head, status) != (self._head, self._status)
        self._head, self._status, self._parts, self._moving, self._parting = head, status, parts, is_running, None
        if has_grown:
            self._lines = None
        if has_changed:
            self.refresh()

    def show_parting(self, head: str, status: Sequence[cells.Part], divergence: Divergence, remainder: str) -> None:
        """Show the first difference of the texts instead: the end of the common part, and the rest of this text."""
        self._head, self._status = head, status
        self._parting = (f"{'…' if divergence.is_cut else ''}{divergence.shared}", remainder)
        self._lines = None
        self.refresh()

    def on_resize(self) -> None:
        self._lines = None

    def render_line(self, y: int) -> Strip:
        """Draw a line: the heading, text, or the status."""
        width, height = self.size
        if y == 0:
            return theme.rule(self, self._head, width)
        if y == height - 1:
            return self.draw(cells.laid_out([(_MARGIN, "plain"), *self._status], width, right=False))
        if self._lines is None:
            self._lines = self._wrapped(max(self.room - 1, 1), height - 2)
        parts: list[paint.Part] = [(_MARGIN, None)]
        for kind, text in self._lines[y - 1] if y - 1 < len(self._lines) else ():
            parts.append((text, theme.style(self, f"lane--{kind}")))
        return paint.strip(parts, width, self.rich_style)

    def _wrapped(self, width: int, height: int) -> list[list[Piece]]:
        if self._parting is not None:
            return diff.parted(*self._parting, width, height)
        lines = wrap.tail(((part.kind, part.text, part.length) for part in self._parts), width, height)
        pieces: list[list[Piece]] = [[line] for line in lines] or [[]]
        if self._moving:
            pieces[-1].append(("caret", "▏"))
        return pieces


class ScoreTable(Toned):
    """Figures of two exchanges and their difference, by the room; the better side is coloured, and ends in `<`."""

    DEFAULT_CSS = """
    ScoreTable { width: 1fr; height: 4; }
    ScoreTable > .scores--titles { background: $surface; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"scores--titles"}
    scores = reactive[Sequence[Score]](())

    def render_line(self, y: int) -> Strip:
        """Draw the names, A, B or the difference."""
        parts: list[cells.Part] = [(f" {_SIDES[y]:<{_SIDE - 1}}", "strong")]
        for score in ranking.fitting_scores(self.scores, self.size.width - _SIDE) if self.scores else ():
            text = (score.label, score.a, score.b, score.difference)[y]
            parts.append(
                (f"{text:>{score.width}} ", "muted" if y == 0 else "success" if score.better == y - 1 else "plain")
            )
        return self.draw(parts, None if y else theme.style(self, "scores--titles"))
