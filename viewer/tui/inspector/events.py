"""The events of an exchange, one a line, with the time since the one before and the read that it came in."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.cache import LRUCache
from textual.events import Click, Resize
from textual.message import Message
from textual.strip import Strip

from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.transcript import KINDS, UNKNOWN, Transcript
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.tui.base.paint import Part
from wiretape.viewer.tui.widgets.pane import Pane

_WIDE: Final = 70
_MIDDLING: Final = 46
_TONES: Final[dict[str, Tone]] = {
    "content": "plain", "reasoning": "reasoning", "tool": "accent", "error": "error", "malformed": "error",
    "finish": "success", "done": "success", "refusal": "warning",
}  # fmt: skip
_KIND: Final = max(map(len, KINDS))


class EventsPane(Pane):
    """Lists events; the selected one is the last that has come."""

    @dataclass
    class Selected(Message):
        """An event was clicked."""

        event: int
        twice: bool

    class WidthChanged(Message):
        """There is room for other columns."""

    def __init__(self) -> None:
        super().__init__(id="events")
        self.filter_text = ""
        self.matches: Sequence[int] | None = None
        """The events that the filter selects; None without one."""
        self._transcript: Transcript | None = None
        self._visible_events: Sequence[int] = range(0)
        self._selected = UNKNOWN
        self._strips: LRUCache[tuple[int, int, bool], Strip] = LRUCache(512)
        self._limit_ns = 0
        self._times = Times()
        self._is_still = True
        self._widths = 1, 5, 2, 4
        self._note = ""

    @property
    def row_count(self) -> int:
        return len(self._visible_events)

    def show(
        self,
        transcript: Transcript,
        position: int,
        limit_ns: int,
        times: Times,
        note: str,
    ) -> None:
        """List the events of a transcript, or those that match; a gap above `limit_ns` is a stall.

        `note` is shown where there are no events.
        """
        self._transcript, self._limit_ns, self._times, self._note = transcript, limit_ns, times, note
        self._visible_events = range(len(transcript)) if self.matches is None else self.matches
        self._selected = position - 1
        self._widths = events.widths(transcript, times)
        self._strips.clear()
        self._lay_out()
        self.redraw()

    def move(self, position: int) -> None:
        previous, self._selected = self._row(self._selected), position - 1
        row = self._row(self._selected)
        self.redraw((min(previous, row), max(previous, row)))
        self.reveal(row, 2, ahead=previous < row)

    def beside(self, rows: int) -> int | None:
        """Return the event a number of rows below the selected one, or above it."""
        if not len(self._visible_events):
            return None
        row = self._row(self._selected) + rows - (self._selected < 0 < rows)
        return self._visible_events[max(0, min(row, len(self._visible_events) - 1))]

    def on_resize(self, event: Resize) -> None:
        self._strips.clear()
        self._lay_out()
        self.post_message(self.WidthChanged())

    def _lay_out(self) -> None:
        self.set_lines(max(len(self._visible_events), 1))
        self.reveal(self._row(self._selected), 2)

    def on_click(self, event: Click) -> None:
        row = self.scroll_offset.y + event.y
        if row < len(self._visible_events):
            self.post_message(self.Selected(self._visible_events[row], event.chain == 2))

    def titles(self) -> str:
        number, at, size, read = self._widths
        arrow = "  " if self._transcript is not None and self._transcript.framing == "websocket" else ""
        titles = f"{'#':>{number + 1}} {self._times.title:>{at}} {'Δ ms':>7}   {arrow}{'kind':<{_KIND}} "
        titles += f"{'B':>{size}} " if self.size.width >= _WIDE else ""
        return titles + (f"{'read':>{read}} " if self.size.width >= _MIDDLING else "") + "data"

    def set_still(self, is_still: bool) -> None:
        """Set off the selected event and show those after it, or, while it is played, only point at it."""
        if is_still != self._is_still:
            self._is_still = is_still
            self._strips.clear()
            self.redraw()

    def behind(self, number: int) -> Style:
        if self._is_still and number < len(self._visible_events) and self._visible_events[number] == self._selected:
            return self.look("cursor" if self.active else "selected")
        return self.look("ground")

    def render_line(self, y: int) -> Strip:
        """Draw the line that is `y` below the top of the view, unless it was drawn before."""
        number = self.scroll_offset.y + y
        if number >= len(self._visible_events):
            return super().render_line(y)
        event = self._visible_events[number]
        # All that the look depends on, besides settings that clear the cache.
        key = (event, (event > self._selected) - (event == self._selected), self.active)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = super().render_line(y)
        return strip

    def forget(self) -> None:
        self._strips.clear()
        self.refresh()

    def line(self, number: int) -> Iterable[Part]:
        """Draw an event: its number, its time, the gap before it, its kind, size and read, and its data."""
        if self._transcript is None or not len(self._visible_events):
            return [("  ", None), (self._note, self.look("muted"))]
        event, transcript = self._visible_events[number], self._transcript
        to_come = event > self._selected
        if to_come and not self._is_still:
            return []
        kind = transcript.kind(event)
        tone, muted = self.look(_TONES.get(kind, "muted")), self.look("muted")
        gap, glyph, gap_tone = events.gap(transcript, event)
        at = self._times.of(transcript, event)
        number_width, at_width, size_width, read_width = self._widths
        parts: list[Part] = [
            (">" if event == self._selected else " ", self.look("accent")),
            (f"{event:>{number_width}} ", muted),
            (f"{at:>{at_width}} ", self.look("ghost" if to_come else "plain")),
            (f"{gap:>7} {glyph:<1} ", self.look(gap_tone)),
            (f"{kind:<{_KIND}} ", tone),
        ]
        if arrow := transcript.arrow(event):
            parts.insert(-1, (f"{arrow} ", self.look("accent" if arrow == "→" else "muted")))
        if self.size.width >= _WIDE:
            parts.append((f"{transcript.ends[event] - transcript.starts[event]:>{size_width}} ", muted))
        if self.size.width >= _MIDDLING:
            read = transcript.reads[event]
            parts.append((f"{formatting.UNKNOWN if read == UNKNOWN else read:>{read_width}} ", muted))
        # What the client sent late is no stall of the stream.
        is_awaited = event not in transcript.sent and not transcript.is_idle(event)
        if is_awaited and (transcript.gap_ns(event) or 0) > self._limit_ns > 0:
            parts.append(("STALL ", self.look("error")))
        return [*parts, (events.summary(transcript, event), self.look("ghost") if to_come else tone)]

    def _row(self, event: int) -> int:
        if isinstance(self._visible_events, range):  # without a filter, an event's row is its number
            return max(event, 0)
        return max(bisect_right(self._visible_events, event) - 1, 0)
