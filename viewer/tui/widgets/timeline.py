"""The whole stream along one axis of time, with the playhead in it: a click goes there.

It is given rows that were drawn for its width (`viewer.strips`), and draws nothing but them.
"""

from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.events import Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from viewer import sparks
from viewer.model import strips
from viewer.model.clocks import Times
from viewer.model.streams import Tone
from viewer.model.strips import Strips
from viewer.tui import paint
from viewer.tui.widgets.look import Remembering, looks
from viewer.tui.widgets.scrubbing import Scrubbing

LABEL: Final = 9
PLAYHEAD: Final = "▲"

_WHILE_NS: Final = 300_000_000
"""What grows is not drawn anew more often."""

_ROWS: Final = ("bytes/s", "kind", "gap", "markers", "")
_KINDS: Final[dict[str, Tone]] = {
    "c": "success",
    "r": "muted",
    "t": "accent",
    "e": "error",
    "!": "error",
    "x": "warning",
}
_MARKS: Final[dict[str, Tone]] = {"S": "error", "E": "error", "D": "success"}


class Timeline(Remembering, Scrubbing):
    """Rows of cells over time."""

    DEFAULT_CSS = "Timeline { height: 5; } Timeline.-short { height: 4; }"

    @dataclass
    class Resized(Message):
        """There is room for another number of cells."""

        cells: int

    def __init__(self) -> None:
        super().__init__(id="timeline")
        self._strips = Strips("", "", "", "", 0)
        self._times = Times()
        self._cell = 0
        self._still: dict[str, list[paint.Part]] = {}

    @property
    def cells(self) -> int:
        """How many cells there are for the time."""
        return max(self.size.width - LABEL - 1, 1)

    @property
    def axis_ns(self) -> int:
        """How long the time is that is drawn."""
        return self._strips.axis_ns

    def lags(self, end_ns: int) -> bool:
        """Say whether a stream has got further than what is drawn, by a cell or more."""
        return (end_ns - self.axis_ns) * self.cells > self.axis_ns and end_ns - self.axis_ns >= _WHILE_NS

    def show(self, drawn: Strips, at_ns: int) -> None:
        """Show these rows, and the playhead at an instant."""
        self._strips = drawn
        self._cell = strips.cell(at_ns, drawn.axis_ns, self.cells)
        self.forget()

    def set_times(self, times: Times) -> None:
        """Let the axis count as other times do."""
        if times != self._times:
            self._times = times
            self.forget()

    def move(self, at_ns: int) -> None:
        """Put the playhead elsewhere."""
        cell = strips.cell(at_ns, self._strips.axis_ns, self.cells)
        if cell != self._cell:
            left, right = sorted((cell, self._cell))
            self._cell = cell
            self.refresh(Region(LABEL + left, self.size.height - 3, right - left + 1, 2))  # where it is seen

    def on_resize(self, event: Resize) -> None:
        """Ask for rows of the new width."""
        self._still.clear()
        self.post_message(self.Resized(self.cells))

    def span(self) -> tuple[int, int, int]:
        """Say where time is drawn: beside the names of the rows."""
        return LABEL, self.cells, self._strips.axis_ns

    def render_line(self, y: int) -> Strip:
        """Draw a row."""
        name = _ROWS[len(_ROWS) - self.size.height + y]
        look = looks(self)
        if name not in self._still:
            rows = {"bytes/s": self._strips.bytes, "kind": self._strips.kinds, "gap": self._strips.gaps}
            rows |= {"markers": self._strips.marks, "": self._times.axis(self._strips.axis_ns, self.cells)}
            flag = Style(reverse=True, bold=True) if name == "markers" else Style()
            drawn_on = [(sign, look[_tone(name, sign)]) for sign in rows[name].ljust(self.cells)]
            self._still[name] = [(sign, style + flag if sign != " " else style) for sign, style in drawn_on]
        drawn = [(f" {name:<{LABEL - 1}}", look["muted"]), *self._still[name]]
        place = self._cell + 1
        if place < len(drawn) and name in ("markers", "gap"):
            sign, style = drawn[place]
            is_free = name == "markers" and sign == " "
            at_marker = look["accent"] if name == "markers" else style or Style()
            drawn[place] = (PLAYHEAD, look["accent"]) if is_free else (sign, at_marker + Style(reverse=True))
        return paint.strip(drawn, self.size.width, look["ground"])

    def forget(self) -> None:
        """Draw everything anew."""
        self._still.clear()
        self.refresh()


def _tone(name: str, sign: str) -> Tone:
    if name == "kind":
        return _KINDS.get(sign, "muted")
    if name == "markers":
        return _MARKS.get(sign, "strong")
    if not name:
        return "muted"
    if name == "bytes/s":
        return "accent"
    return "error" if sign in sparks.STALLED else "warning" if sign in sparks.SLOW else "plain"
