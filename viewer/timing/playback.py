"""Pure: a playhead over timestamps: playing, stepping and seeking, exact to the timestamp of each event.

Every deadline is absolute: it counts from the start of playing (or its last change), never from the previous event, so
that delays do not accumulate. Long silences may be cut short for the eye (`cap_ns`, as asciinema's `idle_time_limit`);
timestamps never change. The caller passes the clock, and waits for the deadlines.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

SPEEDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, float("inf"))
"""Playback speeds, in seconds of the stream per second; the last is as fast as the screen allows."""

CAPS: Final = (None, 2_000_000_000, 500_000_000)
"""Limits for a silence, in ns; None leaves it."""


Move = Callable[["Playback"], None]
"""A change of a playback."""


class Playback:
    """A playhead over the timestamps `at` (ns since T0, never falling) of a stream that lasts until `end_ns`.

    `position` is how many events have come: 0 to `len(at)`. Playing starts from `media_ns`, the playhead's timestamp,
    which may lie anywhere between two events. While `following`, it stays at the end when that moves on.
    """

    def __init__(self, at: Sequence[int], end_ns: int, now: Callable[[], int]) -> None:
        self._at = at
        self._now = now
        self.end_ns = max(end_ns, at[-1] if at else 0)
        self._capped: Sequence[int] = at
        self._capped_end = self.end_ns
        self.cap_ns: int | None = None
        self.speed = 1.0
        self.playing = self.following = False
        self._until_ns: int | None = None
        self.position = 0
        self._base_clock = 0
        self._base_shown = 0

    @property
    def shown_ns(self) -> int:
        """The playhead's position on the shown time line, on which silences may be cut short."""
        if not self.playing:
            return self._base_shown
        if self.speed == float("inf"):
            return self._capped[self.position - 1] if self.position else 0
        passed = int((self._now() - self._base_clock) * self.speed)
        return min(self._base_shown + passed, self._stop[1])

    @property
    def _stop(self) -> tuple[int, int]:
        """The position at which playing stops, and its place on the shown time line."""
        until_ns = self._until_ns
        if until_ns is None:
            return len(self._at), self._capped_end
        return bisect_right(self._at, until_ns), self._cut(until_ns)

    @property
    def media_ns(self) -> int:
        """The playhead's position, in ns since T0."""
        count = bisect_right(self._capped, self.shown_ns)
        real_ns, capped_ns = (self._at[count - 1], self._capped[count - 1]) if count else (0, 0)
        if self.shown_ns >= self._capped_end:
            return self.end_ns
        return real_ns + self.shown_ns - capped_ns

    @property
    def at_end(self) -> bool:
        return self.position >= len(self._at) and self.shown_ns >= self._capped_end

    def play(self) -> None:
        self._until_ns = None
        if self.at_end:
            self.seek_to(0)
        self._rebase(self.shown_ns)
        self.playing = True

    def play_span(self, from_ns: int, to_ns: int) -> None:
        self.seek_to(from_ns)
        self._until_ns = min(to_ns, self.end_ns)
        self.playing = True

    def pause(self) -> None:
        if self.speed != float("inf"):  # at that speed everything is due: it would jump to the end
            self.advance()
        playhead_ns = self.shown_ns
        self.playing, self._until_ns = False, None
        self._rebase(playhead_ns)

    def toggle(self, *, is_live: bool = False) -> None:
        """Play or pause; stop following the end, or follow it again from there if the stream `is_live`."""
        if self.following:
            self.following = False
        elif self.playing:
            self.pause()
        elif is_live and self.at_end:
            self.following = True
        else:
            self.play()

    def catch_up(self) -> None:
        """Follow the end of a stream that still runs once playing has reached it."""
        if not self.playing and self.at_end:
            self.following = True

    def seek(self, position: int) -> None:
        self._until_ns = None
        self.position = max(0, min(position, len(self._at)))
        self._rebase(self._capped[self.position - 1] if self.position else 0)

    def seek_to(self, at_ns: int) -> None:
        """Go to a timestamp, in ns since T0: all events up to it have come."""
        self._until_ns = None
        at_ns = max(0, min(at_ns, self.end_ns))
        self.position = bisect_right(self._at, at_ns)
        self._rebase(self._cut(at_ns))

    def playing_ns(self, at_ns: int) -> int:
        """Return the time from the start of playing to a timestamp, both in ns."""
        return int(self._cut(at_ns) / self.speed)

    def step(self, count: int) -> None:
        self.playing = False
        self.seek(self.position + count)

    def set_speed(self, speed: float) -> None:
        self._rebase(self.shown_ns)
        self.speed = speed

    def set_cap(self, cap_ns: int | None) -> None:
        media = self.media_ns
        self.cap_ns = cap_ns
        self._cap()
        self._rebase(self._cut(media))

    def grow(self, at: Sequence[int], end_ns: int) -> None:
        """Extend the stream: `at` are the timestamps of all its events, and it lasts until `end_ns`.

        The playhead keeps its place, so that playing goes on by the same clock, or follows the end.
        """
        media = self.media_ns
        self._at = at
        self.end_ns = max(end_ns, at[-1] if at else 0)
        self._cap()
        if not self.playing:
            self._rebase(self._cut(media))
        if self.following:
            self.seek_to(self.end_ns)

    def deadline(self) -> int | None:
        """Return the clock's time at which the next event, or the end, is due; None if nothing is."""
        limit, stop = self._stop
        if not self.playing or (self.position >= limit and self.shown_ns >= stop):
            return None
        if self.speed == float("inf"):
            return self._now()
        due = self._capped[self.position] if self.position < limit else stop
        return self._base_clock + int((due - self._base_shown) / self.speed)

    def advance(self, at_most: int | None = None) -> int:
        """Play the events that are due, up to `at_most`, and return their number; at the end playing stops."""
        if not self.playing:
            return 0
        start = self.position
        limit, stop = self._stop
        due = limit if self.speed == float("inf") else bisect_right(self._capped, self.shown_ns)
        self.position = max(start, due if at_most is None else min(due, start + at_most))
        if self.position >= limit and (self.speed == float("inf") or self.shown_ns >= stop):
            self.playing, self._until_ns = False, None
            self._rebase(stop)
        return self.position - start

    def _cap(self) -> None:
        """Lay out the shown time line, on which no silence is longer than the cap."""
        cap, tail = self.cap_ns, self.end_ns - (self._at[-1] if self._at else 0)
        if cap is None:
            self._capped = self._at
        else:
            self._capped, offset, previous = array("q"), 0, 0
            for at_ns in self._at:
                offset += max(at_ns - previous - cap, 0)
                self._capped.append(at_ns - offset)
                previous = at_ns
        self._capped_end = (self._capped[-1] if self._capped else 0) + (tail if cap is None else min(tail, cap))

    def _rebase(self, shown_ns: int) -> None:
        self._base_shown, self._base_clock = shown_ns, self._now()

    def _cut(self, at_ns: int) -> int:
        """Return the position of a timestamp on the shown time line."""
        count = bisect_right(self._at, at_ns)
        real_ns, capped_ns = (self._at[count - 1], self._capped[count - 1]) if count else (0, 0)
        following = self._capped[count] if count < len(self._at) else self._capped_end
        return min(capped_ns + at_ns - real_ns, following)


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a recording's playback: `speed` times as fast, no silence longer than `cap_ns`."""

    speed: float = 1.0
    cap_ns: int | None = None

    def playback(self, at: Sequence[int], end_ns: int, now: Callable[[], int]) -> Playback:
        """Return a playhead over timestamps in ns since T0, at this pace."""
        return self.applied(Playback(at, end_ns, now))

    def applied(self, playback: Playback) -> Playback:
        """Return a playhead after setting its speed and its limit for silences."""
        playback.set_cap(self.cap_ns)
        playback.set_speed(self.speed)
        return playback


RECORDED: Final = Pace()
"""The pace of the recording itself."""
