import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder import locking
from recorder.errors import TapeBusy

HOLD = """
import sys
from pathlib import Path
from recorder import locking
with locking.held(Path(sys.argv[1]), "wiretape record (pid 1)"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "tape.db.lock"


@pytest.fixture
def process(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    command = (sys.executable, "-c", HOLD, str(lock))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_who_finds_the_lock_taken_is_told_by_whom(lock: Path, process: subprocess.Popen[str]) -> None:
    before = lock.stat()
    message = r"tape\.db is being written by wiretape record \(pid 1\): stop it"
    with pytest.raises(TapeBusy, match=message), locking.held(lock, "mine"):
        pass
    assert locking.holder(lock) == "wiretape record (pid 1)"
    assert (lock.stat().st_mtime_ns, lock.stat().st_size) == (before.st_mtime_ns, before.st_size)


def test_a_dead_holder_holds_nothing_any_more(lock: Path, process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert lock.read_text() == "wiretape record (pid 1)\n"
    assert locking.holder(lock) == ""
    with locking.held(lock, "mine"):
        assert locking.holder(lock) == "mine"


def test_the_lock_is_free_after_the_block_however_it_ends(lock: Path) -> None:
    with pytest.raises(ZeroDivisionError), locking.held(lock, "mine"):
        raise ZeroDivisionError
    assert lock.read_text() == ""
    with locking.held(lock, "mine again"):
        assert lock.read_text() == "mine again\n"
    assert locking.holder(lock) == ""


def test_a_holder_that_has_not_spoken_yet_is_another_wiretape(lock: Path) -> None:
    with locking.held(lock, "mine"):
        os.truncate(lock, 0)
        with pytest.raises(TapeBusy, match="by another wiretape"), locking.held(lock, "yours"):
            pass


def test_nobody_holds_a_lock_that_is_not_there(lock: Path) -> None:
    assert locking.holder(lock) == ""
    assert not lock.exists()


def test_the_lock_file_is_private_whatever_the_umask(lock: Path) -> None:
    before = os.umask(0)
    try:
        with locking.held(lock.parent / "new" / "tape.lock", "mine"):
            assert (lock.parent / "new" / "tape.lock").stat().st_mode & 0o777 == 0o600
            assert (lock.parent / "new").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_a_lock_that_cannot_be_opened_is_explained(lock: Path, tmp_path: Path) -> None:
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TapeBusy, match=r"lock cannot be opened \(.*\): record to another"), locking.held(lock, "mine"):
        pass
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "file").touch()
    with pytest.raises(TapeBusy), locking.held(tmp_path / "file" / "tape.lock", "mine"):
        pass
