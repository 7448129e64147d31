import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.forked import CLI
from tests.support.frames import AT, STREAM, damage, end, exchange, opened, outcomes_of, record, snapshot
from tests.support.terminal import Terminal
from wiretape.recorder.commands.db import db
from wiretape.recorder.errors import NotFound, SchemaMismatch, TapeBusy, TapeDamaged, WiretapeError
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.schema import REVISION


def run(*arguments: Any) -> Result:
    """Run a command; an error that wiretape foresees is left in `exception`, for `wiretape.viewer.cli` to print."""
    result = CliRunner().invoke(db, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, WiretapeError | SystemExit), result.exception
    return result


@pytest.fixture
def recorded(tape: Path) -> Path:
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("e2", STREAM[:1]), *exchange("e3")[:-1]])
    return tape


def test_the_schema_needs_no_tape_and_fits_new_ones(recorded: Path) -> None:
    printed = run("schema").stdout
    assert printed == run("schema", "--db", recorded).stdout
    assert "-- T0 → first output chunk: content, reasoning or tool call; ns\n" in printed
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(printed)
        assert connection.execute("SELECT * FROM exchange_metrics").fetchall() == []


@pytest.mark.damages
def test_the_schema_of_any_revision_is_printed(recorded: Path) -> None:
    damage(recorded, "DROP VIEW exchange_metrics", "UPDATE alembic_version SET version_num='0001'")
    printed = run("schema", "--db", recorded).stdout
    assert printed.startswith("PRAGMA auto_vacuum = 2;\nPRAGMA application_id = ")
    assert "CREATE VIEW exchange_metrics" not in printed


def test_info_says_what_a_tape_holds(recorded: Path) -> None:
    result = run("info", "--db", recorded)
    facts = dict(line.split("\t") for line in result.stdout.splitlines())
    assert int(facts["size"]) == recorded.stat().st_size
    assert (facts["tape"], facts["schema"], facts["sessions"], facts["exchanges"]) == (
        str(recorded),
        REVISION,
        "1",
        "3",
    )
    assert (facts["complete"], facts["truncated"], facts["open"]) == ("1", "1", "1")
    assert result.stdout.splitlines()[-1] == "written by\tnobody now"


def test_info_names_the_writer_under_every_link(recorded: Path) -> None:
    link = recorded.parent / "sub" / "link.db"
    link.parent.mkdir()
    link.symlink_to(recorded)
    with opened(recorded):
        for path in (recorded, link):
            assert run("info", "--db", path).stdout.splitlines()[-1] == f"written by\ta test (pid {os.getpid()})"


def test_check_of_a_whole_tape(recorded: Path) -> None:
    with opened(recorded) as store:
        record(store, [end("e3", STREAM), journal.Close(AT)])
    result = run("check", "--db", recorded)
    assert (result.exit_code, result.stdout) == (0, f"{recorded} is whole\n")


@pytest.mark.damages
def test_check_lists_the_damage_and_fails(recorded: Path) -> None:
    damage(recorded, "UPDATE exchanges SET id='\x1b]0;x' WHERE no=1", "DELETE FROM bodies", "DELETE FROM measures")
    result = run("check", "--db", recorded)
    assert isinstance(result.exception, TapeDamaged)
    assert result.exception.exit_code == 3
    assert str(result.exception) == f"{recorded} has 4 problems"
    assert [line.count("measures") for line in result.stdout.splitlines()] == [0, 1, 0, 1]
    assert "\x1b" not in result.stdout


@pytest.mark.damages
@pytest.mark.parametrize("command", ["check", "info", "rebuild"])
def test_an_unreadable_tape_is_damaged(recorded: Path, command: str) -> None:
    with recorded.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (recorded.stat().st_size - 4096))
    result = run(command, "--db", recorded)
    assert isinstance(result.exception, TapeDamaged)
    assert "\n" not in str(result.exception)


def test_rebuilding_a_fresh_tape_changes_nothing(recorded: Path) -> None:
    outcomes_before = outcomes_of(recorded)
    result = run("rebuild", "--db", recorded)
    assert result.stdout == f"{recorded}: 2 exchanges derived again, 0 changed\n"
    assert outcomes_of(recorded) == outcomes_before == {"e1": "complete", "e2": "truncated", "e3": None}


def test_rebuilding_restores_measures(recorded: Path) -> None:
    damage(
        recorded, "UPDATE measures SET outcome='forged' WHERE exchange_no=1", "DELETE FROM measures WHERE exchange_no=2"
    )
    assert run("rebuild", "--db", recorded).stdout.endswith(": 2 exchanges derived again, 2 changed\n")
    assert outcomes_of(recorded) == {"e1": "complete", "e2": "truncated", "e3": None}


def test_pruning_needs_a_limit(recorded: Path) -> None:
    assert run("prune", "--db", recorded).exit_code == 2


@pytest.mark.parametrize("option", ["--older=30", "--older=0d", "--max-size=2", "--max-size=10kB", "--max-size=x"])
def test_a_limit_without_unit_or_amount_is_wrong_usage(recorded: Path, option: str) -> None:
    assert run("prune", "--db", recorded, option).exit_code == 2


def test_a_dry_prune_reports_and_changes_nothing(recorded: Path) -> None:
    content = recorded.read_bytes()
    result = run("prune", "--db", recorded, "--older", "1d", "--dry-run")
    assert result.stdout.startswith("would delete 3 exchanges (2026-03-01 12:00 UTC, ")
    assert recorded.read_bytes() == content


def test_pruning_where_nobody_can_be_asked_needs_a_yes(recorded: Path) -> None:
    result = run("prune", "--db", recorded, "--older", "1d")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert len(outcomes_of(recorded)) == 3


def test_pruning_deletes_old_exchanges_and_names_remaining_copies(recorded: Path) -> None:
    result = run("prune", "--db", recorded, "--older", "1d", "--yes")
    assert result.stdout.startswith(f"deleted 3 exchanges from {recorded}\n")
    assert "'wiretape db vacuum' removes it" in result.stdout
    assert outcomes_of(recorded) == {}
    assert run("prune", "--db", recorded, "--older", "1d", "--yes").stdout == f"nothing to delete from {recorded}\n"


def test_a_vacuum_frees_space_and_names_the_rest(recorded: Path) -> None:
    run("prune", "--db", recorded, "--older", "1d", "--yes")
    (recorded.parent / f"{recorded.name}.before-0001").touch()
    assert run("vacuum", "--db", recorded, "--dry-run").stdout.endswith(" are free pages\n")
    output = run("vacuum", "--db", recorded).stdout
    assert f"(beside it: {recorded.name}.before-0001)" in output
    assert run("vacuum", "--db", recorded, "--dry-run").stdout.startswith(f"would rewrite {recorded}: 0 bytes of ")


@pytest.mark.damages
def test_a_merge_names_damage_and_copies_the_rest(recorded: Path, tmp_path: Path) -> None:
    damage(recorded, "UPDATE exchanges SET status='many' WHERE no=1")
    result = run("merge", recorded, "--db", tmp_path / "target.db")
    assert result.stdout == f"2 exchanges copied to {tmp_path / 'target.db'}; left out: 1 damaged\n"
    assert result.stderr.startswith(f"wiretape: exchange e1 of {recorded} is damaged and left out: exchanges.status is")
    assert isinstance(result.exception, TapeDamaged)


@pytest.mark.damages
def test_a_merge_of_unreadable_tapes_makes_none(recorded: Path, tmp_path: Path) -> None:
    pages = recorded.read_bytes()
    recorded.write_bytes(pages[:8192] + bytes(len(pages) - 8192))
    result = run("merge", recorded, "--db", tmp_path / "target.db")
    assert isinstance(result.exception, TapeDamaged)
    assert not (tmp_path / "target.db").exists()


@pytest.mark.damages
def test_a_tape_whose_pages_are_damaged_is_not_rewritten(recorded: Path) -> None:
    pages = recorded.read_bytes()
    recorded.write_bytes(pages[: len(pages) // 2] + bytes(len(pages) - len(pages) // 2))
    assert isinstance(run("vacuum", "--db", recorded).exception, TapeDamaged)


def test_a_merge_measures_what_dead_recorders_left(recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.db"
    assert run("merge", recorded, "--db", target, "--dry-run").stdout == f"would copy 3 exchanges to {target}\n"
    assert not target.exists()
    assert run("merge", recorded, "--db", target).stdout == f"3 exchanges copied to {target}\n"
    assert outcomes_of(target) == {"e1": "complete", "e2": "truncated", "e3": "interrupted"}
    assert run("merge", recorded, "--db", target).stdout.endswith("; left out: 3 on it already\n")


@pytest.mark.parametrize("command", ["rebuild", "upgrade", "vacuum"])
def test_a_tape_that_is_being_written_is_left_alone(recorded: Path, command: str) -> None:
    with opened(recorded):
        files = snapshot(recorded.parent)
        result = run(command, "--db", recorded)
        assert isinstance(result.exception, TapeBusy)
        assert "is being written by a test" in str(result.exception)
        assert snapshot(recorded.parent) == files


@pytest.mark.parametrize("command", ["info", "check", "rebuild", "upgrade", "vacuum"])
def test_no_command_makes_a_tape(tape: Path, command: str) -> None:
    assert isinstance(run(command, "--db", tape).exception, NotFound)
    assert list(tape.parent.iterdir()) == []


def test_a_tape_of_this_schema_needs_no_upgrade(recorded: Path) -> None:
    files = snapshot(recorded.parent)
    assert run("upgrade", "--db", recorded).stdout == f"{recorded} has schema {REVISION} already\n"
    assert snapshot(recorded.parent) == files


@pytest.mark.damages
def test_a_newer_tape_is_not_downgraded(recorded: Path) -> None:
    damage(recorded, "UPDATE alembic_version SET version_num='9999'")
    files = snapshot(recorded.parent)
    assert isinstance(run("upgrade", "--db", recorded).exception, SchemaMismatch)
    assert snapshot(recorded.parent) == files


def test_deriving_again_does_not_change_a_fixture(tape: Path) -> None:
    result = run("fixture", "--db", tape, "--exchanges", 30, "--chunks", 20, "--seed", 3)
    assert result.stdout == f"{tape}: 30 exchanges of up to 20 chunks, seed 3\n"
    assert result.stderr == ""
    assert run("check", "--db", tape).stdout.endswith(f"\n{tape} has no damage\n")  # of a recorder that was killed
    assert run("rebuild", "--db", tape).stdout.endswith(" 0 changed\n")


def test_a_fixture_never_goes_onto_a_recorded_tape(recorded: Path) -> None:
    outcomes_before = outcomes_of(recorded)
    result = run("fixture", "--db", recorded)
    assert isinstance(result.exception, WiretapeError)
    assert "holds exchanges already" in str(result.exception)
    assert outcomes_of(recorded) == outcomes_before


def test_a_vacuum_frees_pages_without_any_deletion(recorded: Path) -> None:
    result = run("prune", "--db", recorded, "--max-size", "1GB", "--vacuum", "--yes")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"nothing to delete from {recorded}\n")


@pytest.mark.damages
def test_rebuilding_names_the_rows_that_are_damaged(recorded: Path) -> None:
    damage(recorded, "UPDATE exchanges SET status = 'many' WHERE no = 1")
    assert "exchange e1 is damaged: exchanges.status is text" in run("rebuild", "--db", recorded).stderr


@pytest.mark.parametrize(("typed", "code", "remaining"), [("y", 0, 0), ("n", 1, 3)])
def test_at_a_terminal_pruning_asks(recorded: Path, typed: str, code: int, remaining: int) -> None:
    command = [*CLI, "db", "prune", "--db", str(recorded), "--older", "1s"]
    with Terminal(command, columns=200) as terminal:
        terminal.wait_for("Delete 3 exchanges")
        terminal.press(f"{typed}\n")
        assert terminal.ended() == code
    assert len(outcomes_of(recorded)) == remaining
