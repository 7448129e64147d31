"""A stream that still runs, while the inspector shows it: how far it has got, and whether its end is followed."""

import contextlib

from recorder.clock import Clock
from viewer import closeup
from viewer.inspecting import Known
from viewer.model import silence
from viewer.model.opening import Opened
from viewer.model.silence import Silence, Stopwatch
from viewer.playback import Playback
from viewer.tui.screens.driving import Driver
from viewer.tui.widgets.transport import Standing


class Live:
    """Knows of one exchange whether it runs, whether its recorder has `died`, and whether somebody is `following`."""

    def __init__(self, clock: Clock) -> None:
        self.following = False
        self.died = False
        self._clock = clock
        self._opened: Opened | None = None
        self._watch: Stopwatch | None = None

    @property
    def runs(self) -> bool:
        """Whether it goes on, as far as was seen."""
        return self._opened is not None and self._opened.live and not self.died

    @property
    def end_ns(self) -> int:
        """When it ended, or how far it has got by now, in ns since T0; 0 as long as nothing is known."""
        if self._opened is None:
            return 0
        ticks = self.runs and self._watch is not None
        return self._watch.passed_ns(self._opened.end_ns) if ticks and self._watch else self._opened.end_ns

    @property
    def silence(self) -> Silence | None:
        """For how long nothing has come, if it runs and that is worth telling."""
        opened = self._opened
        if opened is None or not self.runs or self._watch is None:
            return None
        last = opened.reads_at[-1] if len(opened.reads_at) else None
        return silence.silence(self.end_ns, last, opened.limits.stall_ns)

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
        self.died = closeup.is_dead(known, self._clock.wall())
        self.following = self.following and not self.died
        if self._watch is None:
            with contextlib.suppress(ValueError, TypeError):  # no instant: nothing can be counted from it
                self._watch = Stopwatch(known.row["started_at"], self._clock)

    def open(self, opened: Opened, playback: Playback) -> None:
        """Take what has come by now: if it is followed, or new here, the playhead goes to its end."""
        is_first, self._opened = self._opened is None, opened
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
