"""The columns of a tape: groups, and their measures."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.cases import each_case
from tests.support.frames import damage, exchange, opened
from tests.support.random_filters import Stored, ended, fill, memory
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.source.tape import overview, queries
from wiretape.viewer.stats.metrics import GROUPS
from wiretape.viewer.stats.summary import Key


def test_without_groups_all_exchanges_are_one_sample(connection: Connection) -> None:
    (sample,) = overview.samples(connection)
    assert (sample.key, sample.size) == ((), 7)
    assert sample.outcomes == {"complete": 2, "truncated": 1, "http_error": 1, "error_event": 2, "open": 1}
    assert sample.after_2xx == {"complete": 2, "truncated": 1, "error_event": 2, "open": 1}
    assert (sample.first_at, sample.last_at) == ("2026-03-01T12:00:01.000000Z", "2026-03-01T12:00:07.000000Z")


def test_only_complete_exchanges_are_measured_unless_asked(connection: Connection) -> None:
    (sample,) = overview.samples(connection)
    assert sample.columns["ttft"][sample.measured].tolist() == [110, 50]
    assert sample.gaps.tolist() == [10_000_000, 0, 50_000_000, 3_000_000_000, 10_000_000]
    (everything,) = overview.samples(connection, include_failed=True)
    assert (everything.measured.sum(), everything.complete.sum(), len(everything.gaps)) == (7, 2, 8)


def test_unknown_is_no_number(connection: Connection) -> None:
    (sample,) = overview.samples(connection)
    assert sample.columns["output_tokens"][:2].tolist() == pytest.approx([4, np.nan], nan_ok=True)
    assert np.isnan(sample.columns["ttft"][[3, 6]]).all()
    assert sample.columns["tps_user"][0] == 50


@each_case(
    ("by", "expected"),
    [
        (("status",), {(200,): 6, (429,): 1}),
        (("label.run",), {("a7",): 1, (None,): 6}),
        (("outcome",), {("complete",): 2, ("truncated",): 1, ("http_error",): 1, ("error_event",): 2, ("open",): 1}),
        (("day", "method"), {("2026-03-01", "POST"): 7}),
        (("hour",), {("2026-03-01T12",): 7}),
        (("error_code",), {(None,): 4, ("server_overloaded",): 1, ("rate_limit_exceeded",): 1, (HOSTILE,): 1}),
    ],
)
def test_exchanges_are_grouped(connection: Connection, by: tuple[str, ...], expected: dict[Key, int]) -> None:
    samples = overview.samples(connection, by)
    assert {sample.key: sample.size for sample in samples} == expected
    assert sum(sample.gaps.size for sample in samples) == 5


def test_a_model_is_the_answering_or_requested_one(connection: Connection) -> None:
    keys = [sample.key for sample in overview.samples(connection, ("model",))]
    assert keys == [(HOSTILE,), ("gpt-x",), ("gpt-x-mini",), (None,)]


def test_every_group_can_be_read(connection: Connection) -> None:
    for name in (*GROUPS, "label.k", 'label."]'):
        assert sum(sample.size for sample in overview.samples(connection, (name,))) == 7


def test_a_condition_selects(connection: Connection) -> None:
    (sample,) = overview.samples(connection, where=measures.c.ttft_ns > 100_000_000)
    assert sample.columns["ttft"].tolist() == [110, 110]
    (nothing,) = overview.samples(connection, where=exchanges.c.status == 500)
    assert (nothing.size, nothing.gaps.size, nothing.first_at) == (0, 0, None)
    assert overview.samples(connection, ("model",), exchanges.c.status == 500) == []


def test_gaps_may_stay_unread(connection: Connection) -> None:
    (sample,) = overview.samples(connection, gaps=False)
    assert (sample.gaps.size, sample.size) == (0, 7)


@pytest.fixture
def many(tape_of_many: Path) -> Iterator[Connection]:
    with queries.opened(tape_of_many) as connection:
        yield connection


@pytest.fixture
def tape_of_many(tmp_path: Path) -> Path:
    path = tmp_path / "many.db"
    with opened(path) as store:
        for at in range(0, 9):
            store.settle(store.append(exchange(f"e{at}")))
    return path


@pytest.mark.parametrize("size", [1, 2, 3, 9, 10])
def test_batches_of_any_size_give_the_same(many: Connection, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (pooled,) = overview.samples(many)
    monkeypatch.setattr(Connection, "batch", size)
    (pieced,) = overview.samples(many)
    assert pieced.columns["ttft"].tolist() == pooled.columns["ttft"].tolist() == [4] * 9
    assert pieced.gaps.tolist() == pooled.gaps.tolist() == [2_000_000] * 9


@pytest.mark.damages
def test_exchanges_without_measures_are_counted_apart(tape_of_many: Path) -> None:
    damage(tape_of_many, "DELETE FROM measures WHERE exchange_no < 3")
    with queries.opened(tape_of_many) as connection:
        (sample,) = overview.samples(connection)
    assert sample.outcomes == {"complete": 7, "unmeasured": 2}


def test_burst_tokens_a_second_are_omitted_and_counted() -> None:
    rows = [
        ("burst", 50.0, "complete"),
        ("burst", None, "complete"),
        ("burst", 9.0, "truncated"),
        ("", 20.0, "complete"),
    ]
    tape: Stored = []
    for no, (flags, tps, outcome) in enumerate(rows, 1):
        tape += ended(no=no, id=f"e{no}", exchange_no=no, flags=flags, tps_user=tps, outcome=outcome)
    with memory() as connection:
        fill(connection, tape)
        (complete,) = overview.samples(connection)
        (every,) = overview.samples(connection, include_failed=True)
    assert np.isnan(complete.columns["tps_user"]).tolist() == [True, True, True, False]
    assert (complete.withheld, every.withheld) == (1, 2)


def test_those_that_the_client_held_up_are_counted() -> None:
    rows = [("backpressure burst", "complete"), ("stall", "complete"), ("backpressure", "truncated")]
    tape: Stored = []
    for no, (flags, outcome) in enumerate(rows, 1):
        tape += ended(no=no, id=f"e{no}", exchange_no=no, flags=flags, outcome=outcome)
    with memory() as connection:
        fill(connection, tape)
        held_up = [overview.samples(connection, include_failed=failed)[0].held_up for failed in (False, True)]
    assert held_up == [1, 2]
