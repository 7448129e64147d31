"""Widgets along one axis of time, with the playhead in it: press or drag in them, and the playhead goes there."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final

from rich.style import Style
from textual.events import MouseDown, MouseMove, MouseUp, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from wiretape.recorder.clock import SYSTEM
from wiretape.viewer.exchange import strips
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.exchange.race_drawing import Drawing, RaceCell
from wiretape.viewer.exchange.strips import Strips
from wiretape.viewer.exchange.transport import PlaybackState, TransportParts
from wiretape.viewer.text import formatting, sparkline
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.timing.playback import Playback
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.base.host import in_thread
from wiretape.viewer.tui.base.paint import Part
from wiretape.viewer.tui.base.theme import CachedLines, theme_styles
from wiretape.viewer.tui.widgets.cursor import Toned
from wiretape.viewer.tui.widgets.pane import fitted

_LABEL: Final = 9
_PLAYHEAD: Final = "▲"
_KINDS: Final[dict[str, Tone]] = {
    "c": "success", "r": "reasoning", "t": "accent", "e": "error", "!": "error", "x": "warning",
}  # fmt: skip
_MARKS: Final[dict[str, Tone]] = {"S": "error", "E": "error", "D": "success"}
_WAITS: Final[dict[strips.WaitKind, tuple[Tone, str]]] = {
    "first": ("muted", "waited"), "slow": ("warning", "slow"), "stalled": ("error", "stalled"),
    "idle": ("muted", "muted"),
}  # fmt: skip
"""The tone of the text in a wait, and the style behind it."""

_RACE_MARGIN: Final = 3


class Scrubbing(Widget):
    """A widget that lies along time; its subclass defines `span`.

    A drag that began in it continues wherever the mouse is, and one that began elsewhere does nothing here.
    """

    @dataclass
    class Scrubbed(Message):
        """The pointer is at a timestamp, in ns since T0."""

        at_ns: int

    _is_dragged = False

    def span(self) -> tuple[int, int, int]:
        """Return the first column of the time axis, the number of its columns (0: none), and its length in ns."""
        raise NotImplementedError

    def on_mouse_down(self, event: MouseDown) -> None:
        """Go to the pressed place: in the columns of time, or just beside them, which is the start or the end."""
        left_edge, cells, _ = self.span()
        if event.button == 1 and cells and left_edge - 1 <= event.x <= left_edge + cells:
            self._is_dragged = True
            self.capture_mouse()
            self._point(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        """Follow the mouse while the button is held; it may have been released outside of the terminal."""
        if self._is_dragged and event.button == 1:
            self._point(event.x)
        else:
            self._release()

    def on_mouse_up(self, event: MouseUp) -> None:
        self._release()

    def _release(self) -> None:
        if self._is_dragged:
            self._is_dragged = False
            self.release_mouse()

    def _point(self, x: int) -> None:
        left_edge, cells, length_ns = self.span()
        if cells:
            cell = min(x - left_edge, cells - 1)
            self.post_message(self.Scrubbed(strips.instant(cell, length_ns, cells) if cell >= 0 else 0))


class StreamTimeline(CachedLines, Scrubbing):
    """Rows of cells over time: characters, bytes a second, kinds, gaps, markers, and the axis; or just the gaps."""

    DEFAULT_CSS = "StreamTimeline { height: 5; }"

    class CellsChanged(Message):
        """There is room for another number of cells."""

    def __init__(self) -> None:
        super().__init__(id="timeline")
        self.strips = Strips()
        self.legend = ""
        self._times = Times()
        self._cell = 0
        self._rows = 0, 1, 1
        self._lines: list[Strip] = []

    def set_rows(self, for_curve: int, for_bytes: int, for_gaps: int) -> None:
        """Set the rows for the characters and bytes, 0 leaves them out, and for the gaps: 1, 2, 4 or 8, or 0.

        With 0 there is one row of gaps and nothing else.
        """
        if (rows := (for_curve, for_bytes, for_gaps)) != self._rows:
            self._rows = rows
            self.styles.height = sum(rows) + 3 if for_gaps else 1
            self.forget()

    @property
    def _axis_row(self) -> int:
        return len(self._lines) - 1 if self._rows[2] else -1

    @property
    def cells(self) -> int:
        return max(self.size.width - _LABEL - 1, 1)

    @property
    def axis_ns(self) -> int:
        return self.strips.axis_ns

    def lags(self, end_ns: int) -> bool:
        """Return True if a stream has grown by more than a cell, and the redraw interval, since it was drawn."""
        is_a_cell = (end_ns - self.axis_ns) * self.cells > self.axis_ns
        return is_a_cell and end_ns - self.axis_ns >= 300_000_000  # at the start, a cell is a few milliseconds

    async def draw(self, facts: Known, exchange: OpenedExchange | None, playback: Playback) -> None:
        """Draw an exchange in a thread: all of it once it is decoded; silences that playing cuts short are marked.

        Of one whose bytes were not shipped, there is no more than the gaps that were measured.
        """
        cells, end_ns = self.cells, playback.end_ns
        if exchange is None or not exchange.facts.has_bytes:
            work = functools.partial(
                strips.draw_gaps, facts.row.first_output_ms, facts.gaps, facts.exchange.end_ns or 0, cells
            )
        else:
            reads, room = zip(exchange.reads_at, exchange.sizes, strict=True), (cells, playback.cap_ns)
            work = functools.partial(
                strips.draw,
                exchange.transcript,
                reads,
                exchange.markers,
                end_ns,
                *room,
                exchange.stall_spans,
                is_whole=not exchange.missing,
            )
        self.strips = await in_thread(work)
        self._cell = strips.cell(playback.media_ns, self.axis_ns, self.cells)
        self.forget()

    def set_times(self, times: Times) -> None:
        if times != self._times:
            self._times = times
            self.forget()

    def move(self, at_ns: int) -> None:
        """Put the playhead elsewhere."""
        cell = strips.cell(at_ns, self.axis_ns, self.cells)
        if cell != self._cell:  # only the columns between: a whole timeline for each step took 10 % more of a core
            left, right = sorted((cell, self._cell))
            self._cell = cell
            last_row = self.size.height - bool(self._rows[2])
            self.refresh(Region(_LABEL + left, 0, right - left + 1, last_row), Region(0, last_row, self.size.width, 1))

    def on_resize(self, event: Resize) -> None:
        self._lines.clear()
        self.post_message(self.CellsChanged())

    def span(self) -> tuple[int, int, int]:
        return _LABEL, self.cells, self.axis_ns

    def render_line(self, y: int) -> Strip:
        """Draw a row; the playhead is the background of its cell, and a sign on the axis."""
        look = theme_styles(self)
        width, ground = self.size.width, look["ground"]
        at = min(_LABEL + self._cell, width - 1)
        if not self._lines:
            self._lines = [paint.strip(row, width, ground).simplify() for row in self._all_rows(look)]
        if y >= len(self._lines):
            return Strip.blank(width, ground)
        line = self._lines[y]
        if y == self._axis_row:
            return paint.strip(self._axis(look), width, ground)
        sign, style, _ = next(iter(line.crop(at, at + 1)))
        # A blank cell without the playhead saves bytes; only the rows of kinds and of gaps show it there.
        if sign == " " and (y < sum(self._rows[:2]) or y == self._axis_row - 1):
            return line
        is_muted = style is not None and style.color == look["muted"].color
        readable = look["plain"] if is_muted else style or Style()  # on the playhead's background
        playhead = paint.strip([(sign, readable + look["playhead"])])
        return Strip.join([line.crop(0, at), playhead, line.crop(at + 1, width)])

    def _all_rows(self, look: Mapping[str, Style]) -> Iterator[list[Part]]:
        """Yield all rows from the top; the axis is empty, since it is drawn with the playhead in it."""
        picture, (for_curve, for_bytes, for_gaps) = self.strips, self._rows
        if not for_gaps:
            yield from self._gaps(1, look)
            return
        for row, cells in enumerate(picture.bytes(for_bytes) if for_bytes else []):
            label = "bytes/s" if row == for_bytes - 1 else ""
            yield [self._label(label, look), *((sign, look["accent"]) for sign in cells.ljust(self.cells))]
        yield from self._curve(for_curve, look)
        kinds = picture.kinds.ljust(self.cells)
        yield [self._label("kind", look), *((sign, look[_KINDS.get(sign, "muted")]) for sign in kinds)]
        yield from self._gaps(for_gaps, look)
        marks, flag = picture.marks.ljust(self.cells), Style(reverse=True, bold=True)
        explained = zip(marks, strips.explained(marks, self.cells), strict=True)
        flags = (
            (sign, look["muted"] if mark == " " else look[_MARKS.get(mark, "strong")] + flag)
            for mark, sign in explained
        )
        yield [self._label("markers", look), *flags]
        yield []

    def _curve(self, rows: int, look: Mapping[str, Style]) -> Iterator[list[Part]]:
        """Yield the rows of the characters in the tones of their kinds, a stall as an error; their number is on top."""
        picture = self.strips
        tones = [_KINDS.get(sign, "muted") for sign in picture.outputs.ljust(self.cells)]
        for wait in picture.waits:
            tones[wait.first_cell : wait.last_cell + 1] = [_WAITS[wait.kind][0]] * (
                wait.last_cell + 1 - wait.first_cell
            )
        for row, cells in enumerate(picture.curve(rows)):
            label = "chars" if row == rows - 1 else "" if row else formatting.short_count(picture.characters).rjust(7)
            signs = zip(cells.ljust(self.cells), tones, strict=False)
            yield [self._label(label, look), *((sign, look[tone]) for sign, tone in signs)]

    def _gaps(self, rows: int, look: Mapping[str, Style]) -> Iterator[list[Part]]:
        """Yield the rows of the gaps: bars in tones, waits on a background, the scale beside all but the last."""
        longest = [*self.strips.longest, *[-1] * self.cells][: self.cells]
        bars = [look[strips.gap_tone(gap)] for gap in longest]
        waited = [kind and _WAITS[kind] for kind in strips.wait_kinds(self.strips.waits, self.cells)]
        for bound, cells in zip(sparkline.bounds(rows), self.strips.gaps(rows), strict=True):
            signs = zip(cells.ljust(self.cells), bars, waited, strict=False)
            styled = ((sign, look[wait[0]] + look[wait[1]] if wait else bar) for sign, bar, wait in signs)
            yield [self._label(f"≥{bound}".rjust(_LABEL - 2) if bound else "gap", look), *styled]

    def _axis(self, look: Mapping[str, Style]) -> list[Part]:
        axis = self._times.axis(self.axis_ns, self.cells).ljust(self.cells)
        clear, muted = sparkline.without_label(axis, self._cell), look["muted"]
        left, right = clear[: self._cell], clear[self._cell + 1 :]
        return [self._label("", look), (left, muted), (_PLAYHEAD, look["accent"]), (right, muted)]

    def _label(self, name: str, look: Mapping[str, Style]) -> Part:
        return f" {name:<{_LABEL - 1}}", look["muted"]

    def forget(self) -> None:
        self._lines = []
        self.refresh()


class TransportLine(Scrubbing):
    """The playhead's position and speed, and the silence around it; its bar can be dragged.

    Below an axis with the playhead in it there is no bar: `has_bar` is False.
    The text beside the bar has a constant width, so that the bar does not slip away under the mouse.
    """

    DEFAULT_CSS = "TransportLine { height: 1; }"

    def __init__(self) -> None:
        super().__init__(id="transport")
        self._transport = PlaybackState(Playback((), 0, lambda: 0), Pulse(SYSTEM), None)
        self._parts: TransportParts = [], (0, 0)
        self.has_bar = True

    def span(self) -> tuple[int, int, int]:
        """Return the position of the bar: between its brackets."""
        return *self._parts[1], self._transport.playback.end_ns

    def show(self, transport: PlaybackState) -> None:
        self._transport = transport
        parts = transport.parts(self.size.width, has_bar=self.has_bar)
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    def on_resize(self) -> None:
        self.show(self._transport)

    def render_line(self, y: int) -> Strip:
        look = theme_styles(self)
        parts = fitted([(text, look[tone]) for text, tone in self._parts[0]], self.size.width)
        return paint.strip(parts, self.size.width, look["surface"])


class RaceStrips(Toned, Scrubbing):
    """The curves and the gaps of two lanes on one axis, with the playhead across all; the future is dim."""

    DEFAULT_CSS = """
    RaceStrips { width: 1fr; height: 4; }
    RaceStrips > .race--head { color: $foreground; text-style: bold; }
    RaceStrips > .race--a { color: $text-primary; }
    RaceStrips > .race--b { color: $text-accent; }
    RaceStrips > .race--both { color: $foreground; text-style: bold; }
    RaceStrips > .race--first { background: $panel; }
    RaceStrips > .race--slow { color: $text-warning; background: $warning-muted; }
    RaceStrips > .race--stalled { color: $text-error; background: $error-muted; text-style: bold; }
    RaceStrips > .race--to-come { color: $text-muted; }
    RaceStrips > .race--playhead { background: $primary-muted; }
    RaceStrips > .race--axis { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"race--{name}"
        for name in ("head", "a", "b", "both", "first", "slow", "stalled", "to-come", "playhead", "axis")
    }

    class StripsResized(Message):
        """The strips have another size."""

    def __init__(self) -> None:
        super().__init__(id="race")
        self._race: tuple[str, Drawing, tuple[int, int]] = "race", Drawing(), (0, 0)

    @property
    def cells(self) -> int:
        return max(self.size.width - _RACE_MARGIN, 1)

    def span(self) -> tuple[int, int, int]:
        return _RACE_MARGIN, self.cells, self._race[1].axis_ns

    def show(self, head: str, drawing: Drawing, places: tuple[int, int]) -> None:
        """Show a race, each lane with its playhead in its cell of `places`."""
        previous, self._race = self._race, (head, drawing, places)
        if drawing is not previous[1]:
            self.refresh()
        elif self._race != previous:
            left, right = min(*places, *previous[2]), max(*places, *previous[2])
            width, last_row = self.size.width, self.size.height - 1
            rows = Region(0, 0, width, 1), Region(0, last_row, width, 1)
            self.refresh(*rows, Region(_RACE_MARGIN + left, 0, right - left + 1, last_row))

    def on_resize(self) -> None:
        self.post_message(self.StripsResized())

    def render_line(self, y: int) -> Strip:
        """Draw the heading, a row of the curves, a lane, or the axis."""
        head, drawing, places = self._race
        lane = y - len(drawing.rows) + 1
        if y == 0:
            return theme.rule(self, head, self.size.width)
        if lane > 1:
            return self._axis()
        name: Part = (f" {'AB'[lane]} ", self._style("ab"[lane])) if lane >= 0 else (" " * _RACE_MARGIN, None)
        looks = groupby(enumerate(drawing.rows[y - 1]), lambda at: _race_look(at[0], at[1], places))
        parts = [name]
        for (look, wait, is_playhead), cells in looks:
            style = self._style(look) + (theme.background(self, f"race--{wait}") if wait else Style())
            style += theme.background(self, "race--playhead") if is_playhead else Style()
            parts.append(("".join(cell.sign for _, cell in cells), style))
        return paint.strip(parts, self.size.width, self.rich_style)

    def _axis(self) -> Strip:
        _, drawing, (at, _) = self._race
        axis = sparkline.axis(drawing.axis_ns, self.cells, drawing.zero_ns).ljust(self.cells)
        clear, muted = sparkline.without_label(axis, at), self._style("axis")
        parts = [(" " * _RACE_MARGIN, None), (clear[:at], muted), (_PLAYHEAD, self._style("head"))]
        return paint.strip([*parts, (clear[at + 1 :], muted)], self.size.width, self.rich_style)

    def _style(self, name: str) -> Style:
        style = theme.style(self, f"race--{name}")
        return Style(color=style.color, bold=style.bold)


def _race_look(place: int, cell: RaceCell, places: tuple[int, int]) -> tuple[str, strips.WaitKind | None, bool]:
    """Return the look of a cell, the wait behind it, and whether a playhead is there."""
    at = None if cell.lane is None else places[cell.lane]
    look = "to-come" if at is not None and place > at else cell.look
    if cell.wait is not None:
        look = cell.wait if cell.wait in ("slow", "stalled") else "axis"
    return look, cell.wait, place == at
