"""Copies of a tape: by SQLite's backup API, and the sign of one by `cp`."""

import os
import resource
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from tests.support.frames import (
    AT,
    STREAM,
    bodies_of,
    damage,
    exchange,
    opened,
    other_session,
    outcomes_of,
    record,
    snapshot,
)
from wiretape.recorder.commands.db import db
from wiretape.recorder.errors import ForeignFile, NotFound, OutputRefused, TapeBusy, WiretapeError
from wiretape.recorder.tape import backup, file, journal
from wiretape.recorder.tape.schema import REVISION

LARGE = [*STREAM[:2], os.urandom(3 << 20), *STREAM[2:]]
"""A stream that takes several steps to copy."""


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(db, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, WiretapeError | SystemExit), result.exception
    return result


@pytest.fixture
def recorded(tape: Path) -> Path:
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("e2")[:-1]])
    return tape


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "backup.db"


def test_a_copy_of_a_tape_that_is_recorded_has_what_its_log_has(tape: Path, target: Path) -> None:
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("e2")[:-1]])
        assert run("copy", target, "--db", tape).stdout.startswith(f"{tape} copied to {target} (")
        assert run("check", "--db", target).stdout == f"{target} is whole\n"
        assert outcomes_of(target) == outcomes_of(tape)
        assert bodies_of(target) == bodies_of(tape)
    assert sorted(path.name for path in target.parent.iterdir()) == ["backup.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_recorder_goes_on_during_a_copy_which_has_the_state_of_its_start(tape: Path, target: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1", LARGE))
        steps: list[int] = []

        def report(done: int, total: int) -> None:
            steps.append(done)
            record(store, exchange(f"later-{len(steps)}"))
            assert total < 2000

        backup.back_up(tape, target, replace=False, report=report)
        assert len(outcomes_of(tape)) == 1 + len(steps)
    assert len(steps) > 2
    assert steps == sorted(set(steps))  # it never begins again
    assert bodies_of(target) == {"e1": b"".join(LARGE)}


def test_a_copy_is_read_and_recorded_to_like_any_tape(recorded: Path, target: Path) -> None:
    run("copy", target, "--db", recorded)
    with opened(target) as store:
        record(store, exchange("e3"))
    assert set(outcomes_of(target)) == {"e1", "e2", "e3"}


def test_reading_a_copy_leaves_no_files_beside_it(recorded: Path, target: Path) -> None:
    run("copy", target, "--db", recorded)
    before = snapshot(target.parent)
    assert run("check", "--db", target).exit_code == run("info", "--db", target).exit_code == 0
    assert snapshot(target.parent) == before


def test_a_tape_of_another_schema_is_copied_as_it_is(recorded: Path, target: Path) -> None:
    damage(recorded, "UPDATE alembic_version SET version_num='9999'")
    run("copy", target, "--db", recorded)
    assert "9999" in str(run("check", "--db", target).exception)
    damage(recorded, f"UPDATE alembic_version SET version_num='{REVISION}'")
    damage(target, f"UPDATE alembic_version SET version_num='{REVISION}'")
    assert bodies_of(target) == bodies_of(recorded)


def test_a_copy_replaces_a_tape_only_when_told_to(recorded: Path, target: Path) -> None:
    run("copy", target, "--db", recorded)
    before = snapshot(target.parent)
    assert str(run("copy", target, "--db", recorded).exception).endswith("or replace it with --replace")
    assert snapshot(target.parent) == before
    with opened(recorded) as store:
        record(store, exchange("e3"))
    assert run("copy", target, "--db", recorded, "--replace").exit_code == 0
    assert set(outcomes_of(target)) == {"e1", "e2", "e3"}


def test_anything_but_a_tape_is_never_replaced(recorded: Path, target: Path) -> None:
    target.write_text("notes")
    assert isinstance(run("copy", target, "--db", recorded, "--replace").exception, ForeignFile)
    assert target.read_text() == "notes"
    assert isinstance(run("copy", "/dev/null", "--db", recorded, "--replace").exception, ForeignFile)


@pytest.mark.parametrize("name", ["tape.db", "symbolic.db", "hard.db", "tape.db-wal", "tape.db.lock", "tape.jsonl"])
def test_a_tape_is_not_copied_onto_itself_or_its_files(recorded: Path, name: str) -> None:
    (recorded.parent / "symbolic.db").symlink_to(recorded)
    (recorded.parent / "hard.db").hardlink_to(recorded)
    recorded.rename(recorded.with_name("tape.db"))
    tape = recorded.with_name("tape.db")
    before = snapshot(tape.parent)
    result = run("copy", tape.with_name(name), "--db", tape, "--replace")
    assert isinstance(result.exception, OutputRefused)
    assert snapshot(tape.parent) == before


def test_a_tape_that_is_recorded_or_was_not_closed_is_not_replaced(recorded: Path, target: Path) -> None:
    with opened(target) as store:
        record(store, exchange("other"))
        result = run("copy", target, "--db", recorded, "--replace")
        assert isinstance(result.exception, TapeBusy)
        assert "is being written by a test" in str(result.exception)
    Path(f"{target}-wal").touch()
    assert isinstance(run("copy", target, "--db", recorded, "--replace").exception, TapeBusy)
    assert set(outcomes_of(target)) == {"other"}


def test_a_copy_that_breaks_off_leaves_nothing(tape: Path, target: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1", LARGE))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        result = run("copy", target, "--db", tape)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert isinstance(result.exception, TapeBusy)
    assert "ulimit -f" in str(result.exception)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup.back_up(tape, target, replace=False, report=stop)
    assert list(target.parent.iterdir()) == []


def test_a_copy_leaves_room_for_the_recorder_on_its_disk(
    recorded: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_bytes = 64 << 20
    free = log_bytes + recorded.stat().st_size - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    result = run("copy", target, "--db", recorded)
    assert isinstance(result.exception, TapeBusy)
    assert "the disk needs 1 more free bytes" in str(result.exception)
    assert list(target.parent.iterdir()) == []
    free += 1
    assert run("copy", target, "--db", recorded).exit_code == 0


def test_a_copy_into_a_missing_directory_or_beside_an_unfinished_one_is_refused(recorded: Path, target: Path) -> None:
    result = run("copy", target.parent / "missing" / "x.db", "--db", recorded)
    assert "there is no directory" in str(result.exception)
    target.with_name("backup.db.part").touch()
    assert "is left over" in str(run("copy", target, "--db", recorded).exception)
    assert target.with_name("backup.db.part").exists()


def test_a_missing_tape_is_not_copied(tape: Path, target: Path) -> None:
    assert isinstance(run("copy", target, "--db", tape).exception, NotFound)
    assert list(target.parent.iterdir()) == []


def test_a_check_notices_a_copy_by_cp_of_a_tape_that_was_recorded(tape: Path, target: Path) -> None:
    with opened(tape) as store:
        record(store, [*exchange("e1"), journal.Close(AT)])
    with opened(tape, other_session("session-2")) as store:
        record(store, exchange("e2"))  # is in the log
        shutil.copy(tape, target)
        assert run("check", "--db", tape).stdout == f"{tape} is whole\n"
    result = run("check", "--db", target)
    assert (result.exit_code, set(outcomes_of(target))) == (0, {"e1"})
    assert "'wiretape db copy'" in result.stdout
    assert result.stdout.endswith(f"\n{target} has no damage\n")
    assert run("check", "--db", target).stdout == result.stdout  # which has left an empty log beside it
    with file.reading(target):
        assert run("check", "--db", target).stdout == result.stdout
