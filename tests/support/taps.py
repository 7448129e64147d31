"""A tap in the tests' own process, with the writer that it starts."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from tests.support.frames import SESSION
from tests.support.relay import until
from wiretape.recorder.relay.tap import Tap

PURPOSE = "wiretape record (pid 1)"


def play(coroutine: Coroutine[Any, Any, None], loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    with asyncio.Runner(loop_factory=loop or uvloop.new_event_loop) as runner:
        runner.run(coroutine)


@asynccontextmanager
async def started(tape: Path, **options: Any) -> AsyncIterator[Tap]:
    relay_tap = Tap(tape, SESSION, PURPOSE, **options)
    await relay_tap.start()
    await relay_tap.ready()
    try:
        yield relay_tap
    finally:
        pid = relay_tap.pid
        await relay_tap.close(grace=20)
        await until(lambda: pid is None or not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kill(running: Tap) -> None:
    assert running.pid is not None
    os.kill(running.pid, signal.SIGKILL)
