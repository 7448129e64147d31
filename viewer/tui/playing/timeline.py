"""The whole stream along one axis of time, with the playhead in it: a click goes there.

It is given rows that were drawn for its width (`viewer.strips`), and draws nothing but them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.events import Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from viewer import sparkline
from viewer.model.exchange import strips
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.strips import Strips
from viewer.model.states import Tone
from viewer.tui.base import paint
from viewer.tui.base.theme import CachedLines, theme_styles
from viewer.tui.playing.scrubbing import Scrubbing

LABEL: Final = 9
PLAYHEAD: Final = "▲"

_WHILE_NS: Final = 300_000_000
"""What grows is not drawn anew more often."""

_KINDS: Final[dict[str, Tone]] = {
    "c": "success",
    "r": "muted",
    "t": "accent",
    "e": "error",
    "!": "error",
    "x": "warning",
}
_FLAG: Final = Style(reverse=True, bold=True)
_MARKS: Final[dict[str, Tone]] = {"S": "error", "E": "error", "D": "success"}


_WAITS: Final[dict[strips.WaitKind, tuple[Tone, str]]] = {
    "first": ("muted", "waited"),
    "slow": ("warning", "slow"),
    "stalled": ("error", "stalled"),
}
"""The tone of what is written into a wait, and the look of what is behind it."""


class Timeline(CachedLines, Scrubbing):
    """Rows of cells over time; where the screen is high, bytes and gaps have several rows."""

    DEFAULT_CSS = "Timeline { height: 5; }"

    @dataclass
    class Resized(Message):
        """There is room for another number of cells."""

        cells: int

    def __init__(self) -> None:
        super().__init__(id="timeline")
        self._strips = Strips()
        self._times = Times()
        self._cell = 0
        self._rows = 1, 1
        self._still: list[list[paint.Part]] = []

    def set_rows(self, for_bytes: int, for_gaps: int) -> None:
        """Draw the bytes, and the gaps (1, 2, 4 or 8), in so many rows; 0 leaves the bytes out."""
        if (for_bytes, for_gaps) != self._rows:
            self._rows = for_bytes, for_gaps
            self.styles.height = for_bytes + for_gaps + 3
            self.forget()

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
            last = self.size.height - 1
            self.refresh(Region(LABEL + left, 0, right - left + 1, last), Region(0, last, self.size.width, 1))

    def on_resize(self, event: Resize) -> None:
        """Ask for rows of the new width."""
        self._still.clear()
        self.post_message(self.Resized(self.cells))

    def span(self) -> tuple[int, int, int]:
        """Say where time is drawn: beside the names of the rows."""
        return LABEL, self.cells, self._strips.axis_ns

    def render_line(self, y: int) -> Strip:
        """Draw a row; the playhead is behind what stands in its cell, and below all of them."""
        if not self._still:
            self._still = list(self._drawn())
        if y >= len(self._still):
            return Strip.blank(self.size.width, theme_styles(self)["ground"])
        look = theme_styles(self)
        row = self._axis(look) if y == len(self._still) - 1 else self._still[y]
        place = self._cell + 1
        if y < len(self._still) - 1 and place < len(row):
            sign, style = row[place]
            style = (
                look["plain"] if style == look["muted"] else style or Style()
            )  # it would be hard to read on the tint
            row = [*row[:place], (sign, style + look["playhead"]), *row[place + 1 :]]
        return paint.strip(row, self.size.width, look["ground"])

    def _drawn(self) -> Iterator[list[paint.Part]]:
        """Draw all rows from the top, but the axis without its playhead."""
        look, shown = theme_styles(self), self._strips
        for_bytes, for_gaps = self._rows
        for row, cells in enumerate(shown.bytes(for_bytes) if for_bytes else []):
            name = "bytes/s" if row == for_bytes - 1 else ""
            yield [self._label(name, look), *((sign, look["accent"]) for sign in cells.ljust(self.cells))]
        yield [self._label("kind", look), *((sign, look[_tone(sign)]) for sign in shown.kinds.ljust(self.cells))]
        yield from self._gaps(for_gaps, look)
        yield [self._label("markers", look), *(_mark(sign, look) for sign in shown.marks.ljust(self.cells))]
        yield []

    def _gaps(self, rows: int, look: Mapping[str, Style]) -> Iterator[list[paint.Part]]:
        """Draw the gaps, each bar in one tone, waits with their look behind them; above the lowest row, the scale."""
        longest = [*self._strips.longest, *[-1] * self.cells][: self.cells]
        bars = [look[_gap_tone(gap)] for gap in longest]
        waited = strips.wait_kinds(self._strips.waits, self.cells)
        for bound, cells in zip(sparkline.bounds(rows), self._strips.gaps(rows), strict=True):
            drawn: list[paint.Part] = [self._label(f"≥{bound}" if bound else "gap", look, right=bool(bound))]
            for sign, bar, kind in zip(cells.ljust(self.cells), bars, waited, strict=False):
                if kind is None:
                    drawn.append((sign, bar))
                else:
                    tone, behind = _WAITS[kind]
                    drawn.append((sign, look[tone] + look[behind]))
            yield drawn

    def _axis(self, look: Mapping[str, Style]) -> list[paint.Part]:
        axis = self._times.axis(self._strips.axis_ns, self.cells).ljust(self.cells)
        clear = sparkline.without_label(axis, self._cell)
        before, after = clear[: self._cell], clear[self._cell + 1 :]
        muted = look["muted"]
        return [self._label("", look), (before, muted), (PLAYHEAD, look["accent"]), (after, muted)]

    def _label(self, name: str, look: Mapping[str, Style], *, right: bool = False) -> paint.Part:
        return (f"{name:>{LABEL - 1}} " if right else f" {name:<{LABEL - 1}}", look["muted"])

    def forget(self) -> None:
        """Draw everything anew."""
        self._still = []
        self.refresh()


def _tone(sign: str) -> Tone:
    return _KINDS.get(sign, "muted")


def _mark(sign: str, look: Mapping[str, Style]) -> paint.Part:
    style = look[_MARKS.get(sign, "strong")]
    return (sign, style + _FLAG) if sign != " " else (sign, style)


def _gap_tone(gap_ns: int) -> Tone:
    return "error" if gap_ns >= strips.STALLED_NS else "warning" if gap_ns >= strips.LEAST_NS else "plain"
