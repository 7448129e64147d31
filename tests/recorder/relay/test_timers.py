"""Timers whose deadlines move."""

import asyncio
import gc
import weakref

from tests.support.taps import play
from wiretape.recorder.relay.timers import LazyTimer

MS = 1_000_000


def test_a_timer_fires_once_and_can_be_reset() -> None:
    calls = list[str]()

    async def scenario() -> None:
        timer, fired = LazyTimer(asyncio.get_running_loop()), asyncio.Event()

        def call(name: str) -> None:
            calls.append(name)
            fired.set()

        timer.set(10 * MS, 60, lambda: call("late"))
        timer.set(1 * MS, 0, lambda: call("soon"))
        timer.set(1 * MS, 0, lambda: call("not needed"))
        await fired.wait()
        fired.clear()
        timer.set(2 * MS, 0, lambda: call("again"))
        await fired.wait()

    play(scenario())
    assert calls == ["soon", "again"]


def test_a_far_deadline_can_come_nearer_without_another_timer() -> None:
    async def scenario() -> None:
        timer = LazyTimer(asyncio.get_running_loop())
        calls, fired = list[str](), asyncio.Event()
        timer.set(600_000 * MS, 600, lambda: calls.append("on the way"))
        timer.set(300_000 * MS, 0, lambda: calls.append("not needed"))
        timer.set(10_000 * MS, 0, fired.set)
        await fired.wait()
        assert not calls

    play(scenario())


def test_a_cancelled_timers_owner_needs_no_garbage_collection() -> None:
    class Owner:
        def __init__(self) -> None:
            self.timer = LazyTimer(asyncio.get_running_loop())
            self.timer.set(1, 60, self.call)

        def call(self) -> None:
            pass

    async def scenario() -> None:
        owner = Owner()
        end = weakref.ref(owner)
        owner.timer.cancel()
        del owner
        await asyncio.sleep(0)
        assert end() is None

    gc.disable()
    try:
        play(scenario())
    finally:
        gc.enable()
