"""The line that says where the playhead is, how fast it goes, and what silence it is in: its bar can be pulled.

What stands beside the bar is as wide from the start to the end, so that the bar does not slip away under the mouse.
"""

from dataclasses import dataclass
from typing import Final

from textual.strip import Strip

from viewer.model.exchange import markers, strips
from viewer.model.exchange.clocks import Times
from viewer.model.silence import Silence
from viewer.model.states import Tone
from viewer.tui.base import paint
from viewer.tui.base.theme import theme_styles
from viewer.tui.playing.scrubbing import Scrubbing
from viewer.tui.widgets.pane import fitted

_SLOW_MS: Final = 50.0
_LEAST_BAR: Final = 8
_LEAST_ROOM: Final = 4
"""That is for the speed."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a playback stands.

    `events` is None until it has been decoded, `idle_ns` what silences are cut to, None if they are not; `following`:
    the end of a live stream is followed; `lag_ms` is how long the terminal takes for a frame, if that is known,
    `silence` for how long nothing has come at the playhead, `longest` how long that is at most.
    """

    playing: bool = False
    position: int = 0
    events: int | None = None
    media_ns: int = 0
    end_ns: int = 0
    speed: float = 1.0
    idle_ns: int | None = None
    live: bool = False
    following: bool = False
    lag_ms: float | None = None
    silence: Silence | None = None
    longest: Silence | None = None


class TransportLine(Scrubbing):
    """Draws a `Standing`."""

    DEFAULT_CSS = "TransportLine { height: 1; }"

    def __init__(self) -> None:
        super().__init__(id="transport")
        self._standing = Standing()
        self._times = Times()
        self._drawn: list[tuple[str, Tone]] = []
        self._bar_at = 0, 0

    def span(self) -> tuple[int, int, int]:
        """Say where the bar is: between its brackets."""
        return *self._bar_at, self._standing.end_ns

    def show(self, standing: Standing) -> None:
        """Show how playback stands."""
        self._standing = standing
        drawn = self._parts()
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def set_times(self, times: Times) -> None:
        """Display the playhead's time, and the end, as other times are."""
        if times != self._times:
            self._times = times
            self.show(self._standing)

    def on_resize(self) -> None:
        """Draw for the new width."""
        self._drawn = self._parts()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        look = theme_styles(self)
        drawn = fitted([(text, look[tone]) for text, tone in self._drawn], self.size.width)
        return paint.strip(drawn, self.size.width, look["surface"])

    def _parts(self) -> list[tuple[str, Tone]]:
        left, right, silence = self._left(), self._settings(), self._silence()
        needed = sum(len(text.rstrip()) for text, _ in silence) + _LEAST_ROOM
        if sum(len(text) for text, _ in left) > self.size.width - needed:
            left = self._left(short=True)
        room = self.size.width - sum(len(text) for text, _ in (*left, *right, *silence)) - 3
        if room < _LEAST_BAR and len(left) > 1:
            room += len(left.pop()[0])  # the bar shows the share, too
        while room < _LEAST_BAR and len(right) > 1:
            room += len(right.pop()[0])
        if room < _LEAST_BAR:  # there is no bar to be kept in its place
            silence = [(text.rstrip(), tone) for text, tone in silence]
        bar = self._bar(room)
        self._bar_at = sum(len(text) for text, _ in left) + 1, room if bar else 0
        return [*left, *bar, *right, *silence]

    def _left(self, *, short: bool = False) -> list[tuple[str, Tone]]:
        """Say where it stands; the share of the whole, and the end if it stands there, only where there is room."""
        now = self._standing
        if now.events is None:
            return [(" decoding …  ", "muted")]
        start, media, end = (self._times.instant(at_ns) for at_ns in (0, now.media_ns, now.end_ns))
        unit = "" if self._times.format == "wall" else " s"
        shown = f"{media:>{max(len(start), len(end))}} / {end}"
        if short and now.media_ns == now.end_ns:
            shown = end
        share = 100 * now.media_ns / now.end_ns if now.end_ns else 0
        last = markers.label(now.events)
        return [
            *self._state(),
            (f"  {markers.label(now.position)}/{last}".ljust(len(last) * 2 + 3), "strong"),
            (f"  {shown}{'+' if now.live else ''}{unit}  ", "plain"),
            ("" if short else f"{share:3.0f} %  ", "muted"),
        ]

    def _state(self) -> list[tuple[str, Tone]]:
        if self._standing.following:
            return [(" ● following", "success")]
        return [(" ▶ playing", "success")] if self._standing.playing else [(" ‖ paused ", "muted")]

    def _silence(self) -> list[tuple[str, Tone]]:
        """Return the silence at the playhead; it has as much room throughout as the longest needs."""
        found, longest = self._standing.silence, self._standing.longest
        if longest is None:
            return []
        text = "" if found is None else str(found)
        return [(f"  {text:<{len(str(longest))}}", "error" if found is not None and found.stalled else "warning")]

    def _settings(self) -> list[tuple[str, Tone]]:
        now = self._standing
        speed = "max" if now.speed == float("inf") else f"{now.speed:g}×"
        found: list[tuple[str, Tone]] = [(f"  {speed}", "strong" if now.speed != 1 else "plain")]
        if now.idle_ns is not None:
            found.append((f"  idle ≤ {now.idle_ns / 1e9:g} s", "warning"))
        if now.lag_ms is not None and now.lag_ms > _SLOW_MS:
            found.append(("  terminal is slow", "warning"))
        return found

    def _bar(self, room: int) -> list[tuple[str, Tone]]:
        if room < _LEAST_BAR or self._standing.events is None:
            return []
        done = strips.cell(self._standing.media_ns, self._standing.end_ns, room)
        return [("[", "muted"), ("=" * done + ">", "accent"), ("-" * (room - done - 1) + "]", "muted")]
