"""A synthetic tape is a tape: whole, derived, complete in its outcomes, and the same for the same seed."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.frames import outcomes_of, reading
from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.recorder.demo import synthetic
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape import checks, file
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.schema import exchanges, measures, metadata, reads
from wiretape.recorder.tape.store import Store


def make(path: Path, count: int = 40, chunks: int = 30, seed: int = 1) -> list[int]:
    with file.writing(path, "a test") as connection:
        return list(synthetic.fill(connection, count, chunks, seed))


def content(path: Path) -> dict[str, list[Any]]:
    with reading(path) as connection:
        return {table.name: connection.execute(select(table)).all() for table in metadata.sorted_tables}  # type: ignore[misc]


def test_deriving_a_synthetic_tape_again_changes_nothing(tape: Path) -> None:
    make(tape, 120)
    with file.writing(tape, "a test") as connection:
        assert list(rederive(Store(connection))) == [False] * outcomes_counted(tape)
        assert list(checks.problems(connection)) == []


def outcomes_counted(tape: Path) -> int:
    return sum(outcome is not None for outcome in outcomes_of(tape).values())


def test_the_first_exchanges_have_every_outcome(tape: Path) -> None:
    make(tape, len(OUTCOMES))
    outcomes = {outcome or "open" for outcome in outcomes_of(tape).values()}
    assert outcomes == OUTCOMES.keys()


def test_most_exchanges_are_complete(tape: Path) -> None:
    make(tape, 300, 3)
    counts = Counter(outcomes_of(tape).values())
    assert 0.85 < counts["complete"] / 300 < 0.97


def test_a_seed_always_gives_the_same_tape(tmp_path: Path) -> None:
    first, second, different = (tmp_path / name for name in ("first.db", "again.db", "other.db"))
    make(first, seed=4)
    make(second, seed=4)
    make(different, seed=5)
    assert content(first) == content(second)
    assert content(first)["bodies"] != content(different)["bodies"]


def test_exchanges_differ_in_timestamps_labels_and_upstreams(tape: Path) -> None:
    make(tape, 60)
    with reading(tape) as connection:
        rows = connection.execute(select(exchanges.c.upstream, exchanges.c.labels["team"].as_string())).all()
        first_times = connection.execute(select(reads.c.at_ns).where(reads.c.seq == 0)).scalars().all()
    assert len({upstream for upstream, _ in rows}) == 3
    assert len({team for _, team in rows}) == 3
    assert len(set(first_times)) == len(first_times) > 40


def test_progress_is_reported_after_each_commit(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "BATCH", 15)
    assert make(tape, 40) == [15, 30, 40]


def test_a_batch_of_any_size_makes_the_same_tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "one.db")
    monkeypatch.setattr(synthetic, "BATCH", 7)
    make(tmp_path / "two.db")
    assert content(tmp_path / "one.db") == content(tmp_path / "two.db")


def test_a_tape_with_exchanges_is_left_alone(tape: Path) -> None:
    make(tape)
    original = content(tape)
    with pytest.raises(WiretapeError, match="holds exchanges already"):
        make(tape, seed=9)
    assert content(tape) == original


def test_measures_are_only_of_what_has_ended(tape: Path) -> None:
    make(tape)
    with reading(tape) as connection:
        open_ones = connection.execute(select(exchanges.c.no).where(exchanges.c.ended_by.is_(None))).scalars().all()
        measured = connection.execute(select(measures.c.exchange_no)).scalars().all()
    assert open_ones
    assert not set(open_ones) & set(measured)


def test_only_the_bodies_that_are_drawn_are_made(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tapes = list[tuple[str, str, int]]()
    template = synthetic.template

    def watched(model: synthetic.Model, ending: str, chunks: int, variation: int) -> synthetic.SyntheticExchange:
        tapes.append((model.name, ending, variation))
        return template(model, ending, chunks, variation)

    monkeypatch.setattr(synthetic, "template", watched)
    make(tape, 1)
    assert len(tapes) == 1
    make(tape.with_name("more.db"), 60)
    assert len(tapes) == len(set(tapes[1:])) + 1 < 61
