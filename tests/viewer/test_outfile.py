"""Writing to a file that the user names: whole or not at all, and never over what cannot be made again."""

import contextlib
import os
import signal
import sqlite3
import stat
import sys
from pathlib import Path

import click
import pytest

from wiretape.recorder.errors import OutputRefused, WiretapeError
from wiretape.viewer import outfile


def test_a_private_file_is_named_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    path.chmod(0o644)
    with outfile.replacing(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
        assert (tmp_path / "out.csv.part").exists()
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["out.csv"]


def write_half(path: Path) -> None:
    with outfile.replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        write_half(path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_link_at_the_parts_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "out.csv.part").symlink_to(victim)
    with pytest.raises(WiretapeError, match=r"out\.csv\.part is there"), outfile.replacing(tmp_path / "out.csv"):
        pass
    assert victim.read_bytes() == b"mine"


def test_another_export_to_the_file_is_refused_harmlessly(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with outfile.replacing(path) as file:
        with pytest.raises(WiretapeError, match="another export writes it"), outfile.replacing(path):
            pass
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_to_end_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    handler = signal.getsignal(number)
    with pytest.raises(SystemExit) as raised, outfile.replacing(tmp_path / "out.csv"):
        signal.raise_signal(number)
    assert (raised.value.code, os.listdir(tmp_path), signal.getsignal(number)) == (128 + number, [], handler)


def test_a_device_is_written_to_and_not_replaced() -> None:
    with outfile.replacing(Path("/dev/null")) as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WiretapeError, match="cannot be written"), outfile.replacing(tmp_path / "none" / "out.csv"):
        pass


def database(path: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    return path


def refused(path: Path, reason: str, tape: Path | None = None) -> None:
    content = path.read_bytes() if path.is_file() else None
    with pytest.raises(OutputRefused, match=reason), outfile.replacing(path, tape) as file:
        file.write(b"never")
    assert (path.read_bytes() if path.is_file() else None) == content
    assert not list(path.parent.glob("*.part"))


def test_a_database_of_any_name_is_never_replaced(tmp_path: Path) -> None:
    path = database(tmp_path / "any.db")
    (tmp_path / "symbolic.csv").symlink_to(path)
    (tmp_path / "hard.csv").hardlink_to(path)
    for name in ("any.db", "symbolic.csv", "hard.csv"):
        refused(tmp_path / name, "is a database")


def test_files_beside_a_database_are_never_replaced(tmp_path: Path) -> None:
    path = database(tmp_path / "any.db")
    for end in ("-wal", "-shm", "-journal", ".lock"):
        refused(Path(f"{path}{end}"), "belongs to the database any.db")
        Path(f"{path}{end}").write_bytes(b"x")
        refused(Path(f"{path}{end}"), "belongs to the database any.db")
    with outfile.replacing(tmp_path / "notes.lock") as file:
        file.write(b"no database is beside it")


def test_a_log_under_another_name_is_never_replaced(tmp_path: Path) -> None:
    for magic in ("377f0682", "377f0683", "d9d505f920a163d7"):
        path = tmp_path / magic
        path.write_bytes(bytes.fromhex(magic) + bytes(24))
        refused(path, "is a database")


def test_the_tape_being_read_is_never_replaced(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    tape.write_bytes(b"")
    (tmp_path / "link").hardlink_to(tape)
    (tmp_path / "tape.db-shm").write_bytes(b"x")
    (tmp_path / "log").hardlink_to(tmp_path / "tape.db-shm")
    for name in ("tape.db", "link", "log"):
        refused(tmp_path / name, "belongs to the tape that is read", tape)


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "folder"):
        refused(tmp_path / name, "is not a regular file")


def test_a_database_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(OutputRefused), outfile.replacing(path):
        database(path)
    assert path.read_bytes().startswith(b"SQLite format 3")
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_descriptor_of_this_process_is_written_to(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out_file, outfile.replacing(Path(f"/dev/fd/{out_file.fileno()}")) as file:
        file.write(b"rows")
    assert (tmp_path / "out").read_bytes() == b"rows"


def write_deep(path: Path) -> None:
    with outfile.replacing(path) as file:
        file.write(b"whole")


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "out.csv"
    with pytest.raises(WiretapeError, match=f"there is no directory {path.parent}: make it, or name another file"):
        write_deep(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_terminal_is_asked_for_a_missing_directory(
    tmp_path: Path, is_wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, questions = tmp_path / "missing" / "deep" / "out.csv", list[str]()

    def answered(text: str, **_: object) -> bool:
        questions.append(text)
        return is_wanted

    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", answered)
    with contextlib.nullcontext() if is_wanted else pytest.raises(click.Abort):
        write_deep(path)
    assert questions == [f"There is no directory {path.parent}. Make it?"]
    assert path.exists() == is_wanted
