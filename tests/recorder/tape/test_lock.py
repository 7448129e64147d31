import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wiretape.recorder.errors import ForeignFile, TapeBusy, TapeGone
from wiretape.recorder.tape import lock as locking

HOLD = """
import sys
from pathlib import Path
from wiretape.recorder.tape import lock as locking
with locking.held(Path(sys.argv[1]), "wiretape record (pid 1)") as lock, lock.on_file():
    lock.renew()
    print("held", flush=True)
    for line in sys.stdin:
        lock.renew()
        print("renewed", flush=True)
"""


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "tape.db"
    path.touch()
    return path


@pytest.fixture
def lock_file(tape: Path) -> Path:
    return locking.lock_of(tape)


def holding(tape: Path, program: str = HOLD, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = (sys.executable, "-c", program, str(tape), *arguments)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.fixture
def process(tape: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    yield from holding(tape)


def take(tape: Path) -> None:
    with locking.held(tape, "mine") as lock, lock.on_file():
        pass


def test_a_taken_lock_is_reported_with_its_holder(tape: Path, lock_file: Path, process: subprocess.Popen[str]) -> None:
    status = lock_file.stat()
    with pytest.raises(TapeBusy, match=r"tape\.db is being written by wiretape record \(pid 1\): stop it"):
        take(tape)
    assert locking.holder(tape) == "wiretape record (pid 1)"
    assert (lock_file.stat().st_mtime_ns, lock_file.stat().st_size) == (status.st_mtime_ns, status.st_size)


def test_a_hard_link_to_a_held_tape_is_held(tape: Path, process: subprocess.Popen[str]) -> None:
    link = tape.with_name("link.db")
    link.hardlink_to(tape)
    with pytest.raises(TapeBusy, match=rf"link\.db is being written by process {process.pid} \("):
        take(link)
    assert locking.holder(link).startswith(f"process {process.pid} (")


def test_a_tape_is_held_without_its_lock_file(tape: Path, lock_file: Path, process: subprocess.Popen[str]) -> None:
    lock_file.unlink()
    with pytest.raises(TapeBusy, match=f"is being written by process {process.pid} "):
        take(tape)
    assert locking.holder(tape).startswith(f"process {process.pid} (")


def test_a_holder_puts_a_removed_lock_file_back(tape: Path, lock_file: Path, process: subprocess.Popen[str]) -> None:
    lock_file.unlink()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("renew\n")
    process.stdin.flush()
    assert process.stdout.readline() == "renewed\n"
    with pytest.raises(TapeBusy, match=r"by wiretape record \(pid 1\)"):
        take(tape)
    assert locking.holder(tape) == "wiretape record (pid 1)"


def test_a_holder_survives_the_loss_of_its_lock_file(tape: Path, lock_file: Path) -> None:
    with locking.held(tape, "mine") as lock, lock.on_file():
        lock_file.unlink()
        claimed = locking.claim(tape)
        assert isinstance(claimed, locking.Claim)
        lock.renew()
        claimed.name("yours", tape.parent / "socket")
        lock.renew()
        claimed.close()
        lock.renew()
        assert lock_file.read_text() == f"mine (pid {os.getpid()})\n{os.getpid()}\n"
        lock_file.unlink()
        lock_file.mkdir()
        lock.renew()


def test_without_the_tapes_own_lock_a_replaced_holder_ends(tape: Path, lock_file: Path) -> None:
    with locking.held(tape, "mine") as lock:
        lock_file.unlink()
        claimed = locking.claim(tape)
        assert isinstance(claimed, locking.Claim)
        with contextlib.closing(claimed), pytest.raises(TapeGone, match="another wiretape has taken it"):
            lock.renew()


def test_the_lock_file_alone_holds_the_tape(tape: Path) -> None:
    with locking.held(tape, "mine"):
        assert locking.holder(tape) == f"mine (pid {os.getpid()})"
        with pytest.raises(TapeBusy, match="by mine"):
            take(tape)


def test_the_words_of_an_earlier_holder_are_not_shown(
    tape: Path, lock_file: Path, process: subprocess.Popen[str]
) -> None:
    lock_file.write_text("wiretape db rebuild (pid 7)\n7\n")
    with pytest.raises(TapeBusy, match=f"is being written by process {process.pid} "):
        take(tape)


def test_a_missing_lock_file_names_the_writers_argument(tape: Path, lock_file: Path) -> None:
    for _ in holding(tape, HOLD, "wiretape.recorder.tape.writer", "wiretape demo (pid 3)"):
        lock_file.unlink()
        assert locking.holder(tape) == "wiretape demo (pid 3)"


def test_a_dead_holder_holds_nothing_any_more(tape: Path, lock_file: Path, process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert lock_file.read_text() == f"wiretape record (pid 1)\n{process.pid}\n"
    assert locking.holder(tape) == ""
    with locking.held(tape, "mine") as lock, lock.on_file():
        assert locking.holder(tape) == f"mine (pid {os.getpid()})"


def test_the_lock_is_free_however_the_block_ends(tape: Path, lock_file: Path) -> None:
    with pytest.raises(ZeroDivisionError), locking.held(tape, "mine") as lock, lock.on_file():
        raise ZeroDivisionError
    assert lock_file.read_text() == ""
    take(tape)
    assert locking.holder(tape) == ""


def test_a_holder_without_a_text_is_another_wiretape(tape: Path, lock_file: Path) -> None:
    with locking.held(tape, "mine"):
        os.truncate(lock_file, 0)
        with pytest.raises(TapeBusy, match="by another wiretape"), locking.held(tape, "yours"):
            pass


def test_nobody_holds_a_lock_that_is_not_there(tmp_path: Path) -> None:
    assert locking.holder(tmp_path / "tape.db") == ""
    assert list(tmp_path.iterdir()) == []


def test_the_lock_file_is_private_with_any_umask(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        with locking.held(tmp_path / "new" / "tape", "mine"):
            assert (tmp_path / "new" / "tape.lock").stat().st_mode & 0o777 == 0o600
            assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(mask)


def test_a_lock_that_cannot_be_opened_is_explained(tape: Path, lock_file: Path, tmp_path: Path) -> None:
    lock_file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TapeBusy, match=r"lock cannot be opened \(.*\): record to another"):
        take(tape)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(TapeBusy), locking.held(tape / "tape", "mine"):
        pass


def test_a_tape_that_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    with (
        locking.held(tmp_path / "none.db", "mine") as lock,
        pytest.raises(TapeBusy, match=r"none\.db cannot be opened"),
        lock.on_file(),
    ):
        pass


def test_a_tape_without_write_permission_gets_no_lock_file(tape: Path) -> None:
    tape.chmod(0o400)
    with pytest.raises(TapeBusy, match="is read-only"):
        locking.claim(tape)
    text = tape.with_suffix(locking.TEXT_SUFFIX)
    with pytest.raises(ForeignFile, match="has the name of a tape as text"):
        locking.claim(text)
    assert [path.name for path in tape.parent.iterdir()] == [tape.name]


def test_a_claimed_lock_is_handed_to_another_process(tape: Path) -> None:
    claimed = locking.claim(tape)
    assert isinstance(claimed, locking.Claim)
    claimed.name("a test", Path("/tmp/wiretape-x/writer"))
    assert locking.claim(tape) == Path("/tmp/wiretape-x/writer")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[claimed.descriptor]) as keeper:
        claimed.close()
        assert isinstance(locking.claim(tape), Path)
        keeper.kill()
    second_claim = locking.claim(tape)
    assert isinstance(second_claim, locking.Claim)
    second_claim.close()


def test_a_lock_file_removes_no_file_but_a_socket(tape: Path) -> None:
    precious = tape.parent / "wiretape-x" / "writer"
    precious.parent.mkdir()
    precious.write_text("precious")
    locking.lock_of(tape).write_text(f"somebody\n1\n0 {precious}\n")
    claimed = locking.claim(tape)
    assert isinstance(claimed, locking.Claim)
    with contextlib.closing(claimed):
        claimed.name("a test", tape.parent / "socket")
    assert precious.read_text() == "precious"
