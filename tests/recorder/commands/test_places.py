"""Commands in places where the system refuses looks at paths: locked, removed, oddly named, linked, limited."""

import os
import resource
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.sample_tape import frames, recorded
from tests.support.strangers import locked, ran, ran_each
from wiretape.recorder.errors import TapeError
from wiretape.viewer.export.frames import open_tape

ECHO = ("--", "sh", "-c", "echo ran")
READING = (["ls"], ["stats"], ["show", "@"], ["db", "check"])
XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    (tmp_path / "tapes").mkdir()
    return recorded(tmp_path / "tapes" / "tape.db", list(frames()))


def last_line(text: str) -> str:
    return text.splitlines()[-1]


def test_commands_with_a_tape_need_no_home(tape: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "home") as home:
        environ = {name: value for name, value in os.environ.items() if name not in XDG} | {"HOME": str(home)}
        program = ran("run", "--db", tape, *ECHO, env=environ)
        *reports, default = ran_each([[*words, "--db", tape] for words in READING] + [["ls"]], env=environ)
    assert (program.returncode, program.stdout) == (0, "ran\n")
    assert [code for code, _ in reports] == [0] * len(READING)
    assert default[0] == 6
    assert "(Permission denied): ask its owner, or name another with --db" in default[1]


def test_a_program_runs_where_the_current_directory_was_removed(tape: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()

    def enter() -> None:
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()

    done = ran("run", "--db", tape, *ECHO, preexec_fn=enter)
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_a_tape_in_a_directory_without_utf8_is_usable(tape: Path, tmp_path: Path) -> None:
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    place.mkdir()
    shutil.copy(tape, place / "t.db")
    commands = [*READING, ["db", "upgrade"], ["db", "rebuild"], ["doctor", "--format", "json"]]
    for code, output in ran_each([[*words, "--db", place / "t.db"] for words in commands]):
        assert (code, "Traceback" in output) == (0, False), output
    assert ran("run", "--db", place / "new.db", *ECHO).stdout == "ran\n"
    assert (place / "new.db").exists()


def test_a_message_about_an_undecodable_path_prints(tmp_path: Path) -> None:
    ((code, output),) = ran_each([["ls", "--db", os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.db")]])
    assert (code, output.count("\n"), "caf\\udce9.db" in output) == (4, 1, True)


@pytest.mark.parametrize("target", ["tape.db", "new.db"])
def test_a_link_to_a_future_tape_is_followed(tape: Path, tmp_path: Path, target: str) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tape.parent / target)
    assert ran("run", "--db", link, *ECHO).stdout == "ran\n"
    with closing(sqlite3.connect(tape.parent / target)) as connection:
        assert connection.execute("SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL").fetchone() >= (1,)
    assert link.is_symlink()


def test_a_link_into_no_directory_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "unmounted" / "tape.db")
    done = ran("run", "--db", tmp_path / "link.db", *ECHO)
    assert (done.returncode, done.stdout) == (125, "")
    assert "whose directory does not exist" in last_line(done.stderr)
    assert not (tmp_path / "unmounted").exists()


def test_a_tape_in_anothers_directory_is_refused_with_reason(tape: Path) -> None:
    with locked(tape.parent):
        outputs = ran_each([[*words, "--db", tape] for words in READING])
        program = ran("run", "--db", tape, *ECHO)
    for code, output in outputs:
        assert code == 6
        assert last_line(output).endswith("(Permission denied): ask its owner, or name another with --db")
    assert (program.returncode, program.stdout) == (125, "")
    assert "cannot be written (Permission denied)" in last_line(program.stderr)


def test_an_unreadable_tape_is_refused_with_the_reason(tape: Path) -> None:
    tape.chmod(0)
    ((code, output),) = ran_each([["ls", "--db", tape]])
    tape.chmod(0o600)
    assert (code, "cannot be read (Permission denied)" in output) == (6, True)


def test_a_tape_in_a_link_loop_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "loop.db").symlink_to(tmp_path / "loop.db")
    with pytest.raises(TapeError, match="Too many levels of symbolic links"):
        open_tape(tmp_path / "loop.db")


def test_a_limit_of_file_sizes_is_named(tape: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # a module's bytecode would be cut off at the limit, and kept
    done = ran("run", "--db", tape.with_name("new.db"), *ECHO, env=env, preexec_fn=limit)
    assert not tape.with_name("new.db").exists()
    assert (done.returncode, done.stdout) == (125, "")
    assert last_line(done.stderr).endswith("a file may have 20,000 bytes here: raise the limit with 'ulimit -f'")
