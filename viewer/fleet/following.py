"""When a process that follows a tape ends: at a signal, or with the recorder that started it."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from recorder.errors import TapeGone
from recorder.tape import lock

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class End:
    """Whether it is over, and how to wait for that; `wait` also notices that the tape is gone."""

    is_over: Callable[[], bool]
    wait: Callable[[float], None]


@contextlib.contextmanager
def until_end(tape: Path, *, with_parent: bool) -> Iterator[End]:
    """Yield when to end: at the first signal, a second one interrupts; `with_parent`, at the end of standard input."""
    over = threading.Event()
    there = lock.identity(tape)

    def wait(seconds: float) -> None:
        over.wait(seconds)
        if lock.identity(tape) != there:
            raise TapeGone(f"{tape} was removed or replaced while it was shipped: ship it again")

    def stop(*_: object) -> None:
        if over.is_set():
            raise KeyboardInterrupt
        over.set()

    if with_parent:  # its terminal's signals are the recorder's to answer
        threading.Thread(target=_read_to_end, args=(over,), daemon=True).start()
    before = {number: signal.signal(number, signal.SIG_IGN if with_parent else stop) for number in _SIGNALS}
    try:
        yield End(over.is_set, wait)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read_to_end(over: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 1):
            pass
    over.set()
