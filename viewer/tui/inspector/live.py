"""A stream that still runs, while the inspector shows it: how far it has got, and whether its end is followed."""

from recorder.clock import Clock
from viewer.model.exchange import pages
from viewer.model.exchange.opened import Opened
from viewer.model.exchange.pulse import Pulse
from viewer.tape.exchange import Known
from viewer.timing.playback import Playback
from viewer.tui.playing.transport import Standing


class Live:
    """Knows of one exchange how it stands, by its `Pulse`, and whether somebody is `following`."""

    def __init__(self, clock: Clock) -> None:
        self.following = False
        self._clock = clock
        self._opened: Opened | None = None
        self._pulse = Pulse(clock)

    @property
    def died(self) -> bool:
        """Whether its recorder is gone while it ran."""
        return self._pulse.died

    @property
    def runs(self) -> bool:
        """Whether it goes on, as far as was seen."""
        return self._pulse.runs

    @property
    def end_ns(self) -> int:
        """When it ended, or how far it has got by now, in ns since T0; 0 as long as nothing is known."""
        return self._pulse.end_ns

    def standing(self, playback: Playback, lag_ms: float | None) -> Standing:
        """Say how it all stands, for the line that tells."""
        return Standing(
            playback.playing,
            playback.position,
            len(self._opened.transcript) if self._opened else None,
            playback.media_ns,
            playback.end_ns,
            playback.speed,
            playback.cap_ns,
            self.runs,
            self.following,
            lag_ms,
            self._pulse.silence(playback.media_ns),
            self._pulse.longest_silence,
        )

    def know(self, known: Known) -> None:
        """Take what is known at once; what has died or ended is followed no longer."""
        self._pulse.know(known.row["started_at"], died=pages.is_dead(known, self._clock.wall_ns()))
        self.following = self.following and not self.died

    def open(self, opened: Opened, playback: Playback) -> None:
        """Take what has come by now: if it is followed, or new here, the playhead goes to its end."""
        is_first, self._opened = self._opened is None, opened
        self._pulse.take(opened)
        was_following = self.following
        self.following = self.runs and (is_first or was_following)
        playback.grow(opened.transcript.at, self.end_ns)
        if is_first or was_following:
            playback.seek_to(playback.end_ns)

    def toggle(self, playback: Playback) -> None:
        """Play or pause; while its end is followed freeze, and at the end of a stream that still runs follow it."""
        if self.following:
            self.following = False
        elif self.runs and not playback.playing and playback.at_end:
            self.following = True
        else:
            playback.toggle()

    def catch_up(self, playback: Playback) -> None:
        """Follow the end of a stream that still runs once playing has reached it."""
        if self.runs and not playback.playing and playback.at_end:
            self.following = True

    def pass_on(self, playback: Playback) -> bool:
        """Extend a stream that still runs to now, and move a following playhead with it. Return True if it moved."""
        if self._opened is None or self.end_ns == playback.end_ns:
            return False
        playback.grow(self._opened.transcript.at, self.end_ns)
        if self.following:
            playback.seek_to(playback.end_ns)
        return True
