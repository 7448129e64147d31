"""Playing: events come at their deadlines, and are shown where there is room for drawing."""

import asyncio
from array import array

import pytest

from wiretape.recorder.clock import Clock
from wiretape.viewer.timing.playback import Playback
from wiretape.viewer.tui.playing.driver import Driver

MS = 1_000_000


class Ticking:
    """A clock that goes on by 10 µs whenever it is looked at, and at once by as long as somebody sleeps."""

    def __init__(self) -> None:
        self.ns = 0

    def now(self) -> int:
        self.ns += 10_000
        return self.ns


def played(gap_ms: int, count: int) -> tuple[list[int], list[int]]:
    """Play events at the given distance; return their count at each drawing, and their lateness."""
    ticking, frames_shown = Ticking(), []
    late: list[int] = []

    class Timed(Playback):
        def advance(self, at_most: int | None = None) -> int:
            deadline = self.deadline()
            advance = super().advance(at_most)
            if advance and deadline is not None:
                late.append(ticking.ns - deadline)
            return advance

    playback = Timed(array("q", range(gap_ms * MS, (count + 1) * gap_ms * MS, gap_ms * MS)), 0, ticking.now)

    class Sleepless(Driver):
        async def sleep(self, ns: int | None) -> None:
            ticking.ns += ns or 0

    driver = Sleepless(playback, Clock(now=ticking.now), lambda: frames_shown.append(playback.position), lambda: None)

    async def play() -> None:
        playback.play()
        task = asyncio.create_task(driver.run())
        while playback.playing:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(play())
    return frames_shown, late


def test_events_with_room_between_them_are_each_shown() -> None:
    frames_shown, late = played(40, 5)
    assert frames_shown == [1, 2, 3, 4, 5]
    assert len(late) == 5


@pytest.mark.parametrize("gap_ms", [2, 4, 8])
def test_events_without_room_share_frames_that_show_the_last(
    gap_ms: int,
) -> None:
    frames_shown, late = played(gap_ms, 40)
    steps = [following - previous for previous, following in zip([0, *frames_shown], frames_shown, strict=False)]
    assert frames_shown[-1] == 40
    assert len(frames_shown) < 40
    assert all(step * gap_ms <= 33 + 2 * gap_ms for step in steps)
    assert all(lateness < MS // 2 for lateness in late)
