from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import wiretape.viewer.cli
from tests.support.frames import STREAM, exchange, opened, outcomes_of, record
from wiretape.recorder.errors import NotFound, TapeBusy

OLD, NEW = "aaaa000000000001", "bbbb000000000002"
BROKEN = "cccc000000000003"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    tape = tmp_path / "own.db"  # the other tests of this folder share theirs
    with opened(tape) as store:
        record(store, [*exchange(OLD), *exchange(NEW), *exchange(BROKEN, STREAM[:1])])
    return tape


def run(tape: Path, *arguments: str, input: str = "") -> Result:
    return CliRunner().invoke(wiretape.viewer.cli.group, ["rm", "--db", str(tape), *arguments], input=input)


def test_an_exchange_is_deleted_by_its_ids_beginning(recorded: Path) -> None:
    result = run(recorded, "aaaa", "-y")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"deleted 1 exchange from {recorded}\n")
    assert set(outcomes_of(recorded)) == {NEW, BROKEN}


def test_what_fits_a_filter_is_deleted(recorded: Path) -> None:
    assert run(recorded, "-f", "is:failed", "-y").exit_code == 0
    assert set(outcomes_of(recorded)) == {OLD, NEW}


def test_of_those_named_only_those_that_fit_are_deleted(recorded: Path) -> None:
    run(recorded, "aaaa", "cccc", "--errors", "-y")
    assert set(outcomes_of(recorded)) == {OLD, NEW}


def test_ids_come_from_standard_input(recorded: Path) -> None:
    run(recorded, "-", "-y", input=f"id\n{OLD}\n{NEW}\n")
    assert set(outcomes_of(recorded)) == {BROKEN}


def test_without_a_choice_nothing_is_deleted(recorded: Path) -> None:
    result = run(recorded, "-y")
    assert result.exit_code == 2
    assert len(outcomes_of(recorded)) == 3


def test_a_dry_run_deletes_nothing(recorded: Path) -> None:
    assert run(recorded, "aaaa", "--dry-run").stdout.startswith("would delete 1 exchange (")
    assert len(outcomes_of(recorded)) == 3


def test_an_unknown_id_deletes_none_of_the_rest(recorded: Path) -> None:
    result = run(recorded, "aaaa", "dddd", "-y")
    assert isinstance(result.exception, NotFound)
    assert len(outcomes_of(recorded)) == 3


def test_a_tape_that_is_being_recorded_is_left_alone(recorded: Path) -> None:
    with opened(recorded):
        result = run(recorded, "aaaa", "-y")
    assert isinstance(result.exception, TapeBusy)
    assert len(outcomes_of(recorded)) == 3
