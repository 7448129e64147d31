"""Pure: the line below a timeline: the playhead's position and speed, a bar, and the silence around it."""

from dataclasses import dataclass
from typing import Final

from wiretape.viewer.exchange import markers, strips
from wiretape.viewer.exchange.clocks import SINCE_REQUEST, Times
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.timing.playback import Playback

TransportParts = tuple[list[Part], tuple[int, int]]
"""The parts of the line, and the first cell of its bar with the number of its cells."""

_LEAST_BAR: Final = 8


@dataclass(frozen=True, slots=True)
class PlaybackState:
    """The state of a playback.

    `events` is None until the exchange is decoded; `lag_ms` is the terminal's delay for a frame, if known.
    """

    playback: Playback
    pulse: Pulse
    events: int | None
    lag_ms: float | None = None
    times: Times = SINCE_REQUEST

    def parts(self, width: int, *, has_bar: bool = True) -> TransportParts:
        """Return the line; beside the bar its text has a constant width, so that the bar stays under the mouse."""
        playback, lag_ms = self.playback, self.lag_ms
        speed = "max" if playback.speed == float("inf") else f"{playback.speed:g}×"
        parts: list[Part] = [(f"  {speed}", "strong" if playback.speed != 1 else "plain")]
        if playback.cap_ns is not None:
            parts.append((f"  idle ≤ {playback.cap_ns / 1e9:g} s", "warning"))
        if lag_ms is not None and lag_ms > 50.0:
            parts.append(("  terminal is slow", "warning"))
        position, settings, silence = self._position_parts(), parts, self._silence()
        needed = sum(len(text.rstrip()) for text, _ in silence) + 4
        if sum(len(text) for text, _ in position) > width - needed:
            position = self._position_parts(is_short=True)
        room = width - sum(len(text) for text, _ in (*position, *settings, *silence)) - 3
        least = _LEAST_BAR if has_bar else 0
        if room < least and len(position) > 1:
            room += len(position.pop()[0])  # the bar shows the share, too
        while room < least and len(settings) > 1:
            room += len(settings.pop()[0])
        if room < _LEAST_BAR:  # there is no bar to be kept in its place
            silence = [(text.rstrip(), tone) for text, tone in silence]
        bar = self._bar(room) if has_bar else []
        return [*position, *bar, *settings, *silence], (sum(len(text) for text, _ in position) + 1, room if bar else 0)

    def _position_parts(self, *, is_short: bool = False) -> list[Part]:
        """Return the position; if it `is_short`, without the share, and the end only once if the playhead is there."""
        playback = self.playback
        if self.events is None:
            return [(" decoding …  ", "muted")]
        media_ns, end_ns = playback.media_ns, playback.end_ns
        start, media, end = (self.times.instant(at_ns, end_ns) for at_ns in (0, media_ns, end_ns))
        # As wide as its longest value, so that the bar behind it stays in its place.
        position = end if is_short and media_ns == end_ns else f"{media:>{max(len(start), len(end))}} / {end}"
        unit = formatting.unit(end)
        last_label = markers.label(self.events)
        state: Part = (" ▶ playing", "success") if playback.playing else (" ‖ paused ", "muted")
        return [
            (" ● following", "success") if playback.following else state,
            (f"  {markers.label(playback.position)}/{last_label}".ljust(len(last_label) * 2 + 3), "strong"),
            (f"  {position}{'+' if self.pulse.runs else ''}{unit}  ", "plain"),
            ("" if is_short else f"{100 * media_ns / end_ns if end_ns else 0:3.0f} %  ", "muted"),
        ]

    def _silence(self) -> list[Part]:
        """Return the silence at the playhead, as wide as the longest is."""
        silence, longest = self.pulse.silence(self.playback.media_ns), self.pulse.longest_silence
        if longest is None:
            return []
        text = "" if silence is None else str(silence)
        tone: Tone = "error" if silence is not None and silence.stalled else "warning"
        return [(f"  {text:<{len(str(longest))}}", tone)]

    def _bar(self, room: int) -> list[Part]:
        playback = self.playback
        if room < _LEAST_BAR or self.events is None:
            return []
        done = strips.cell(playback.media_ns, playback.end_ns, room)
        return [("[", "muted"), ("=" * done + ">", "accent"), ("-" * (room - done - 1) + "]", "muted")]
