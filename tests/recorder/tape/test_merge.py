import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.support.frames import (
    STREAM,
    begin,
    bodies_of,
    body,
    damage,
    end,
    head,
    opened,
    other_session,
    outcomes_of,
    reading,
)
from tests.support.frames import record as store_all
from wiretape.recorder.errors import ForeignFile, TapeBusy, WiretapeError
from wiretape.recorder.tape import checks, file, merge, peek, retention
from wiretape.recorder.tape.schema import exchanges, settlements


def record(tape: Path, *days: int, session: str) -> Path:
    """Record one exchange of each of these days."""
    with opened(tape, other_session(session)) as store:
        for day in days:
            id = f"{session}-{day}"
            began = begin(id, started_at=f"2026-03-{day:02d}T12:00:00.000000Z")
            store_all(store, [began, head(id), *body(id, STREAM), end(id, STREAM)])
    return tape


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Two tapes whose exchanges alternate in time."""
    return [record(tmp_path / "a.db", 1, 3, session="a"), record(tmp_path / "b.db", 2, 4, session="b")]


def merged(tape: Path, sources: Sequence[Path]) -> merge.MergePlan:
    with file.writing(tape, "a test") as connection:
        plan = merge.plan(connection, sources)
        assert sum(merge.copy(connection, sources, plan)) == len(plan.exchanges)
        return plan


def in_order(tape: Path) -> list[str]:
    with reading(tape) as connection:
        return list(connection.execute(select(exchanges.c.id).order_by(exchanges.c.no)).scalars())


def test_exchanges_of_several_tapes_are_numbered_by_time(tape: Path, sources: list[Path]) -> None:
    merged(tape, sources)
    assert in_order(tape) == ["a-1", "b-2", "a-3", "b-4"]
    assert bodies_of(tape) == bodies_of(sources[0]) | bodies_of(sources[1])
    assert set(outcomes_of(tape).values()) == {"complete"}


def test_merged_exchanges_follow_those_of_the_tape(tape: Path, sources: list[Path]) -> None:
    record(tape, 9, session="own")
    merged(tape, sources)
    assert in_order(tape) == ["own-9", "a-1", "b-2", "a-3", "b-4"]


def test_merged_exchanges_are_settled_after_all_others(tape: Path, sources: list[Path]) -> None:
    record(tape, 5, session="own")
    merged(tape, sources)
    with reading(tape) as connection:
        settled = select(exchanges.c.id).join(settlements).order_by(settlements.c.version)
        assert connection.execute(settled).scalars().all() == ["own-5", "a-1", "a-3", "b-2", "b-4"]


def test_a_merge_that_is_repeated_copies_nothing(tape: Path, sources: list[Path]) -> None:
    merged(tape, sources[:1])
    plan = merged(tape, sources)
    assert (len(plan.exchanges), plan.present) == (2, 2)
    plan = merged(tape, [*sources, *sources])
    assert (len(plan.exchanges), plan.present) == (0, 8)
    assert in_order(tape) == ["a-1", "a-3", "b-2", "b-4"]


def test_a_merge_leaves_running_exchanges_out(tape: Path, sources: list[Path]) -> None:
    with opened(sources[0], other_session("a")) as store:
        store.append([begin("running")])
        plan = merged(tape, sources)
    assert (len(plan.exchanges), plan.running) == (4, 1)
    assert "running" not in in_order(tape)


def test_a_dead_recorders_exchange_is_copied_as_it_is(tape: Path, sources: list[Path]) -> None:
    with opened(sources[0], other_session("a")) as store:
        store.append([begin("orphan"), head("orphan"), *body("orphan", STREAM[:1])])
    merged(tape, sources)
    assert bodies_of(tape)["orphan"] == STREAM[0]


def test_sources_are_not_written_to(tape: Path, sources: list[Path]) -> None:
    contents = [source.read_bytes() for source in sources]
    merged(tape, sources)
    assert [source.read_bytes() for source in sources] == contents


@pytest.mark.damages
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE exchanges SET status='a lot' WHERE id='a-1'",
        "UPDATE exchanges SET started_at=x'00ff' WHERE id='a-1'",
        "UPDATE exchanges SET id=x'41' WHERE id='a-1'",
        "UPDATE exchanges SET labels='[1]' WHERE id='a-1'",
        "UPDATE exchanges SET session_no=999 WHERE id='a-1'",
        "UPDATE measures SET tpot_ns=9e999 WHERE exchange_no=1",
        "UPDATE bodies SET at_ns='x' WHERE exchange_no=1",
        "UPDATE bodies SET data=x'00', size=99999999999 WHERE exchange_no=1",
        "UPDATE bodies SET sha256='00' WHERE exchange_no=1",
    ],
)
def test_a_damaged_exchange_is_left_out_and_named(tape: Path, sources: list[Path], statement: str) -> None:
    damage(sources[0], statement)
    plan = merged(tape, sources)
    assert in_order(tape) == ["b-2", "a-3", "b-4"]
    (line,) = plan.damaged
    assert f"of {sources[0]} is damaged and left out: " in line
    with reading(tape) as connection:
        assert list(checks.problems(connection)) == []


@pytest.mark.damages
def test_exchanges_of_a_damaged_session_are_left_out(tape: Path, sources: list[Path]) -> None:
    damage(sources[0], "UPDATE sessions SET salt='not a blob'")
    plan = merged(tape, sources)
    assert (in_order(tape), len(plan.damaged)) == (["b-2", "b-4"], 2)
    with opened(tape, other_session("own")) as store:
        store.append([begin("own-5")])  # the session that comes next takes its key from a whole one


def test_exchanges_deleted_after_the_plan_are_not_copied(tape: Path, sources: list[Path]) -> None:
    with file.writing(tape, "a test") as connection:
        plan = merge.plan(connection, sources)
        with file.writing(sources[0], "a test") as writer_connection:
            assert sum(retention.erase(writer_connection, ["a-1"])) == 1
        assert sum(merge.copy(connection, sources, plan)) == 3
    assert in_order(tape) == ["b-2", "a-3", "b-4"]


def test_a_merge_onto_a_full_disk_copies_nothing(tape: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "large.db") as store:
        store_all(store, [begin("large", body=os.urandom(100_000)), head("large"), end("large", [])])
    with file.writing(tape, "a test") as connection:
        plan = merge.plan(connection, [tmp_path / "large.db"])
        (pages,) = connection.connection.execute("PRAGMA page_count").fetchone()
        connection.connection.execute(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(TapeBusy, match="the disk is full"), peek.explained(tape):
            list(merge.copy(connection, [tmp_path / "large.db"], plan))
    assert in_order(tape) == []


def test_a_source_that_is_no_tape_is_refused(tape: Path, tmp_path: Path) -> None:
    other_file = tmp_path / "notes.txt"
    other_file.write_text("no tape at all, but text that is long enough for a header" * 4)
    with pytest.raises(ForeignFile):
        merge.plan(None, [other_file])


def test_a_tape_is_not_merged_into_itself(sources: list[Path], tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.hardlink_to(sources[0])
    with pytest.raises(WiretapeError, match="is the target itself"):
        merge.refuse_itself(sources[0], [sources[1], link])
