"""An event loop in a thread of a program that has none, or one of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A thread whose loop runs from the beginning until `close`; other threads call its coroutines.

    It is a daemon: a program that forgets it can end.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name=name, daemon=True)
        self._thread.start()
        self.loop, self._stopped = started.result()

    def _run(self, started: "Future[Any]") -> None:
        factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
        with contextlib.suppress(ImportError):  # then on asyncio's own
            from uvloop import new_event_loop as factory
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(self._wait(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _wait(self, started: "Future[Any]") -> None:
        # asyncio's own loop looks names up in its executor, which has to be known as ours, too.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(thread_name_prefix=self._name))
        stopped = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stopped))
        await stopped.wait()

    def call(self, coroutine: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run a coroutine in the thread, and return its result; blocks for `seconds` at most, None: without limit."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def close(self, seconds: float) -> None:
        """End the loop, and wait `seconds` at most for the thread."""
        self.loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(seconds)
