"""A stream that still runs, while the inspector shows it: how far it has got, and whether its end is followed."""

from recorder.clock import Clock
from viewer import closeup
from viewer.inspecting import Known
from viewer.model.opening import Opened
from viewer.model.pulse import Pulse
from viewer.model.silence import Silence
from viewer.playback import Playback
from viewer.tui.screens.driving import Driver
from viewer.tui.widgets.transport import Standing


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

    @property
    def silence(self) -> Silence | None:
        """For how long nothing has come, if it runs and that is worth telling."""
        return self._pulse.silence

    def standing(self, playback: Playback, driver: Driver | None, lag_ms: float | None) -> Standing:
        """Say how it all stands, for the line that tells."""
        return Standing(
            playback.playing,
            playback.position,
            len(self._opened.transcript) if self._opened else None,
            playback.media_ns,
            playback.end_ns,
            playback.speed,
            playback.cap_ns,
            driver.late_ms if driver is not None else None,
            self.runs,
            self.following,
            lag_ms,
            self.silence,
        )

    def know(self, known: Known) -> None:
        """Take what is known at once; what has died or ended is followed no longer."""
        self._pulse.know(known.row["started_at"], died=closeup.is_dead(known, self._clock.wall()))
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

    def pass_on(self, playback: Playback) -> bool:
        """Let the end be where it is by now, and who follows it there, too; say whether it has moved."""
        if self._opened is None or playback.playing or self.end_ns == playback.end_ns:
            return False
        playback.grow(self._opened.transcript.at, self.end_ns)
        if self.following:
            playback.seek_to(playback.end_ns)
        return True
