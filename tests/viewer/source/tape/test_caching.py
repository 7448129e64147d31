"""The verdicts about the cache of a tape's exchanges, as columns, filters and groups."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Connection

from tests.support.agents import IDS, body, session, turn
from tests.support.sample_tape import SESSION, recorded
from wiretape.recorder.tape import file
from wiretape.recorder.tape.store import Store
from wiretape.viewer import rows
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.tape import conditions, overview, queries


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("agent") / "agent.db", list(session()))


@pytest.fixture
def reader(tape: Path) -> Iterator[Connection]:
    with queries.opened(tape) as connection:
        yield connection


def verdicts(reader: Connection, where: str = "") -> dict[str, str | None]:
    condition = conditions.condition(parse(where)) if where else None
    return {row["id"]: row["cache_verdict"] for row in queries.exchanges(reader, ("id", *rows.CACHE), where=condition)}


def test_every_generation_that_succeeded_has_a_verdict(reader: Connection) -> None:
    found = ["first", "hit", "prefix_changed", None, "provider", "first", None]
    assert verdicts(reader) == dict(zip(IDS, found, strict=True))


def test_the_figures_of_a_changed_prefix(reader: Connection) -> None:
    (row,) = queries.exchanges(reader, rows.CACHE, where=conditions.condition(parse(f"id:{IDS[2]}")))
    assert row["cache_broken_at"] == "tools[1]"
    assert row["cache_expected_tokens"] == 2_100, "all input tokens of the predecessor, those from the cache included"
    assert row["cache_idle_ms"] is None, "no request before had these tools"
    assert 0 < row["cache_common_tokens"] < 2_100
    (hit,) = queries.exchanges(reader, rows.CACHE, where=conditions.condition(parse(f"id:{IDS[1]}")))
    assert [*hit.values()] == ["hit", None, 2_000, 5000.0, 2_000]


def test_they_are_filtered_by(reader: Connection) -> None:
    assert [*verdicts(reader, "cache_verdict:hit")] == [IDS[1]]
    assert [*verdicts(reader, "cache_broken_at:tools")] == [IDS[2]]
    assert [*verdicts(reader, "cache_idle>4.5s has:cache_expected_tokens")] == [IDS[1]]


def test_they_are_groups_of_statistics(reader: Connection) -> None:
    found = overview.samples(reader, ["cache_verdict"], None)
    assert {one.key for one in found} == {("first",), ("hit",), ("prefix_changed",), ("provider",), (None,)}


def test_a_new_turn_is_judged_while_somebody_looks(tmp_path: Path) -> None:
    tape = tmp_path / "growing.db"
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        store.begin_session(SESSION)
        frames = list(session())
        at = next(place for place, frame in enumerate(frames) if getattr(frame, "id", "") == IDS[1])
        store.settle(store.append(frames[:at]))
        with queries.opened(tape) as reader:
            assert verdicts(reader) == {IDS[0]: "first"}
            store.settle(store.append(frames[at:]))
            assert verdicts(reader)[IDS[2]] == "prefix_changed"


def test_without_the_request_the_verdict_is_unknown(tmp_path: Path) -> None:
    frames = [*turn(IDS[0], 0, body(1), 2_000), *turn(IDS[1], 5, body(3), 100, 2_000)]
    cut = json.dumps(body(1)).encode()[:-5]
    frames[0] = msgspec.structs.replace(frames[0], body=cut)
    with queries.opened(recorded(tmp_path / "cut.db", frames)) as reader:
        assert verdicts(reader)[IDS[0]] == "unknown"
