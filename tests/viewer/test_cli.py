"""The command line as a whole: what it says and exits with when something is wrong."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def wiretape(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "viewer.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=30)


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("wiretape: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


@pytest.mark.parametrize("command", [["ls"], ["show", "@"], ["export"], ["db", "check"], ["db", "rebuild"]])
def test_a_missing_tape_is_one_line_and_4(command: list[str], tmp_path: Path) -> None:
    assert_one_line(wiretape(*command, "--db", tmp_path / "none.db"), 4, "no tape at")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["ls"], ["record", "--listen", ":0"], ["db", "upgrade"]])
def test_another_applications_database_is_one_line_and_8(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    assert_one_line(wiretape(*command, "--db", path), 8, "another application")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["theirs.db"]


def test_the_version_is_printed() -> None:
    assert wiretape("--version").stdout == "wiretape 0.1.0\n"


def test_a_wrong_option_is_2() -> None:
    assert wiretape("ls", "--no-such-option").returncode == 2
