"""The end of shipping."""

import signal
import time
from pathlib import Path

import pytest

from wiretape.recorder.errors import TapeGone, WiretapeError
from wiretape.viewer.ship import shipper


def test_a_signal_ends_it_and_also_what_waits_for_an_answer_and_a_second_one_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "SHUTDOWN_SECONDS", 0.05)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)]
    with shipper.until_end(tmp_path, with_recorder=False) as end:
        assert not end.is_over()
        signal.raise_signal(signal.SIGTERM)
        assert end.is_over()
        with pytest.raises(WiretapeError, match="while it waited for an answer"):
            time.sleep(10)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)] == before


def test_it_notices_that_the_tape_is_gone(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    tape.touch()
    with shipper.until_end(tape, with_recorder=False) as end:
        end.wait(0)
        tape.unlink()
        with pytest.raises(TapeGone, match="was removed or replaced"):
            end.wait(0)
