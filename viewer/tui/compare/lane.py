"""One lane of a race: a heading, the end of the text as far as it has come, and a line of how it stands."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.strip import Strip
from textual.widget import Widget

from viewer.model import states
from viewer.model.exchange.race import Part
from viewer.model.text import wrap
from viewer.model.text.diff import Divergence
from viewer.tui.base import paint, theme

CARET: Final = "▏"
_PARTING: Final = "▶"
_MARGIN: Final = " "

Piece = tuple[str, str]
"""A component class and a text."""


class LanePane(Widget):
    """Draws what it is given; its lines are wrapped when the text or the size has changed, and not for each repaint."""

    DEFAULT_CSS = """
    LanePane { width: 1fr; height: 1fr; }
    LanePane > .lane--content { color: $foreground; }
    LanePane > .lane--reasoning { color: $text-muted; text-style: italic; }
    LanePane > .lane--refusal { color: $text-warning; }
    LanePane > .lane--tool { color: $text-secondary; }
    LanePane > .lane--instead { color: $text-muted; }
    LanePane > .lane--caret { color: $text-accent; text-style: bold; }
    LanePane > .lane--parting { color: $text-error; text-style: bold underline; }
    """ + theme.css("LanePane")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"lane--{name}" for name in ("content", "reasoning", "refusal", "tool", "instead", "caret", "parting")
    } | theme.CLASSES

    def __init__(self, name: str) -> None:
        super().__init__(id=f"lane-{name.lower()}")
        self._head = name
        self._status: Sequence[states.Part] = ()
        self._parts: Sequence[Part] = ()
        self._moving = False
        self._parting: tuple[str, str] | None = None
        self._lines: list[list[Piece]] | None = None

    @property
    def room(self) -> int:
        """How many cells a line has."""
        return max(self.size.width - len(_MARGIN), 1)

    def show(self, head: str, status: Sequence[states.Part], parts: Sequence[Part], running: bool) -> None:
        """Show a lane: what it is, how it stands, its texts so far, and whether more will come."""
        grown = self._parting is not None or (parts, running) != (self._parts, self._moving)
        told = (head, status) != (self._head, self._status)
        self._head, self._status, self._parts, self._moving, self._parting = head, status, parts, running, None
        if grown:
            self._lines = None
        if grown or told:
            self.refresh()

    def part_ways(self, head: str, status: Sequence[states.Part], found: Divergence, own: str) -> None:
        """Show where the texts part, instead: the end of what is common, and how this one goes on."""
        self._head, self._status = head, status
        self._parting = (f"{'…' if found.is_cut else ''}{found.before}", own)
        self._lines = None
        self.refresh()

    def on_resize(self) -> None:
        """Wrap anew."""
        self._lines = None

    def render_line(self, y: int) -> Strip:
        """Draw a line: the heading, text, or the status."""
        width, height = self.size
        if y == 0:
            return theme.rule(self, self._head, width)
        if y == height - 1:
            tones = theme.styles(self, self.rich_style)
            told = states.laid_out([(_MARGIN, "plain"), *self._status], width, right=False)
            return paint.strip([(text, tones[tone]) for text, tone in told], width, self.rich_style)
        if self._lines is None:
            self._lines = self._wrapped(max(self.room - 1, 1), height - 2)
        return self._strip(self._lines[y - 1] if y - 1 < len(self._lines) else [], width)

    def _strip(self, pieces: Sequence[Piece], width: int) -> Strip:
        parts: list[paint.Part] = [(_MARGIN, None)]
        parts += [(text, self.get_component_rich_style(f"lane--{kind}")) for kind, text in pieces]
        return paint.strip(parts, width, self.rich_style)

    def _wrapped(self, width: int, height: int) -> list[list[Piece]]:
        if self._parting is not None:
            return _parted(*self._parting, width, height)
        lines = wrap.tail(((part.kind, part.text, part.length) for part in self._parts), width, height)
        drawn: list[list[Piece]] = [[line] for line in lines] or [[]]
        if self._moving:
            drawn[-1].append(("caret", CARET))
        return drawn


def _parted(before: str, own: str, width: int, height: int) -> list[list[Piece]]:
    """Wrap both as one text, with a sign where the second begins, in the middle of the pane."""
    count, lines, at = before.count(_PARTING), list[list[Piece]](), 0
    place = 0
    for line in wrap.wrapped(f"{before}{_PARTING}{own}", width):
        signs = line.count(_PARTING)
        if at <= count < at + signs:
            cut = _nth(line, count - at)
            lines.append([("content", line[:cut]), ("caret", _PARTING), ("parting", line[cut + 1 :])])
            place = len(lines)
        else:
            lines.append([("content" if at <= count else "parting", line)])
        at += signs
    start = max(min(place - height // 2, len(lines) - height), 0)
    return lines[start : start + height]


def _nth(line: str, count: int) -> int:
    at = line.find(_PARTING)
    for _ in range(count):
        at = line.find(_PARTING, at + 1)
    return at
