"""The event loop of the commands that record or replay streams."""

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from wiretape.recorder.tape import faults


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a command's main coroutine on uvloop where there is one."""
    open_standard_streams()
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with contextlib.suppress(ImportError):  # then on asyncio's own
        from uvloop import new_event_loop as factory
    with _seldom_collecting(), asyncio.Runner(loop_factory=factory) as runner:
        runner.get_loop().set_exception_handler(faults.report_of_loop)
        return runner.run(main())


def open_standard_streams() -> None:
    """Open closed standard streams: else a file of ours gets their descriptor, and a library's output to it."""
    stderr = 2
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= stderr:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stderr = sys.stderr or os.fdopen(stderr, "w", closefd=False)


@contextlib.contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Keep the garbage collector away from imported modules: a pass through them would delay every stream."""
    thresholds = gc.get_threshold()
    gc.freeze()
    # The objects of 500 short exchanges at once, which have ended before most of them are looked at: 1 to 3 ms a pass.
    gc.set_threshold(30_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
