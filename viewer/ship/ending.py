"""When a process that follows a tape ends: at a signal, or with the recorder that started it."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wiretape.recorder.children import LEAVE
from wiretape.recorder.errors import TapeGone, WiretapeError
from wiretape.recorder.tape import lock

_OTHERS_SECONDS = 2.0
PATIENCE_SECONDS = 10.0
"""Time allowed for the current request after a stop signal, in seconds."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class End:
    """The end of shipping: its state, and waits for it; `wait` also notices that the tape is gone.

    `wait_for_recorder` returns when the recorder that asked to leave the tape has closed it.
    """

    is_over: Callable[[], bool]
    wait: Callable[[float], None]
    wait_for_recorder: Callable[[], object]
    has_recorder: bool = False

    def leave(self) -> None:
        """Signal to the recorder that its tape is left, and return when it has closed it; it may be gone already."""
        with contextlib.suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), LEAVE)
        self.wait_for_recorder()

    def wait_for_others(self, warn: Callable[[str], object]) -> Callable[[], bool]:
        """Return the wait, beside a recorder, for another recorder's process that ships the same tape."""
        is_told = False

        def wait() -> bool:
            nonlocal is_told
            if not self.has_recorder:
                return False
            if not is_told:
                warn("another process ships this tape, and with it what is recorded here")
                is_told = True
            self.wait(_OTHERS_SECONDS)
            return not self.is_over()

        return wait


@contextlib.contextmanager
def until_end(tape: Path, *, with_recorder: bool) -> Iterator[End]:
    """Yield when to end: at the first signal, a second one interrupts; or when the recorder asks to.

    Who waits for an answer when the signal comes does not do so for ever: `WiretapeError` ends that.
    """
    over, closed = threading.Event(), threading.Event()
    there = lock.identity(tape)

    def wait(seconds: float) -> None:
        over.wait(seconds)
        if lock.identity(tape) != there:
            raise TapeGone(f"{tape} was removed or replaced while it was shipped: ship it again")

    def stop(*_: object) -> None:
        if over.is_set():
            raise KeyboardInterrupt
        over.set()
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)

    def give_up(*_: object) -> None:
        raise WiretapeError("told to end while it waited for an answer: what is left stays on the tape")

    if with_recorder:  # its terminal's signals are the recorder's to answer
        threading.Thread(target=_listen, args=(over, closed), daemon=True).start()
    before = {number: signal.signal(number, signal.SIG_IGN if with_recorder else stop) for number in _SIGNALS}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, give_up)
    try:
        yield End(over.is_set, wait, closed.wait, with_recorder)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(over: threading.Event, closed: threading.Event) -> None:
    """Handle the recorder's messages on standard input, whose end is the recorder's."""
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as pipe:  # a buffer's lock would outlive its thread
        for line in pipe:
            if line == LEAVE:
                over.set()
    over.set()
    closed.set()
