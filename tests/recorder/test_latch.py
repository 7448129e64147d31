"""The flag that a signal's handler sets."""

import signal
import time

from wiretape.recorder.latch import Latch


def test_a_latch_wakes_who_waits_for_it() -> None:
    latch = Latch()
    signal.signal(signal.SIGALRM, lambda *_: latch.set())
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    started = time.monotonic()
    assert latch.wait(60)
    assert time.monotonic() - started < 50
    assert latch.wait(60)


def test_an_unset_latch_is_waited_for_until_the_timeout() -> None:
    assert not Latch().wait(0.001)


def test_a_signal_during_any_wait_sets_the_latch() -> None:
    latches = [Latch()]
    signal.signal(signal.SIGALRM, lambda *_: latches[-1].set())
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        for _ in range(2000):
            latches[-1].wait(0.0001)
            latches.append(Latch())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert any(latch.is_set for latch in latches)
