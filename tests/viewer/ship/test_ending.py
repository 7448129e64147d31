"""The end of shipping."""

import signal
from pathlib import Path

import pytest

from wiretape.recorder.errors import TapeGone, WiretapeError
from wiretape.viewer.ship import shipper


def test_a_signal_ends_waiting_and_a_second_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper, "SHUTDOWN_SECONDS", 3600.0)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)]
    with shipper.until_end(tmp_path, with_recorder=False) as end:
        assert not end.is_over()
        signal.raise_signal(signal.SIGTERM)
        assert end.is_over()
        # The alarm comes again: an exception that is raised within a callback of a library is lost.
        assert signal.getitimer(signal.ITIMER_REAL)[1] == shipper.SHUTDOWN_SECONDS
        with pytest.raises(WiretapeError, match="while it waited for an answer"):
            signal.raise_signal(signal.SIGALRM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)] == handlers


def test_a_signal_that_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with shipper.until_end(tmp_path, with_recorder=False) as end:
            signal.raise_signal(signal.SIGHUP)
            assert not end.is_over()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, handler)


def test_it_notices_that_the_tape_is_gone(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    tape.touch()
    with shipper.until_end(tape, with_recorder=False) as end:
        end.wait(0)
        tape.unlink()
        with pytest.raises(TapeGone, match="was removed or replaced"):
            end.wait(0)
