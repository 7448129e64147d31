"""Columns: one expression for each field of a row."""

import pytest

from tests.support.cases import each_case
from tests.support.random_filters import ended, fill, memory
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, LIVE
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import select
from wiretape.recorder.tape.tables import exchanges
from wiretape.viewer.record.fields import DETAIL_FIELDS, FIELDS, TEXT_FIELDS
from wiretape.viewer.source.tape.columns import JOINED, column, flagged


@each_case("field", [*FIELDS, *TEXT_FIELDS, *DETAIL_FIELDS, "request_body"])
def test_every_field_has_a_column(connection: Connection, field: str) -> None:
    with connection.begin():
        assert len(connection.execute(select(column(field)).select_from(JOINED)).all()) == 7


@pytest.mark.parametrize(
    ("id", "model", "outcome", "reads", "size"),
    [
        (COMPLETE, "gpt-x-mini", "complete", 6, sum(len(data) for _, data in COMPLETE_READS)),
        (LIVE, "gpt-x", "open", 2, sum(len(data) for _, data in COMPLETE_READS[:2])),
    ],
)
def test_an_open_exchange_shows_what_is_there(
    connection: Connection, id: str, model: str, outcome: str, reads: int, size: int
) -> None:
    query = select(*map(column, ("model", "outcome", "reads", "bytes"))).select_from(JOINED)
    with connection.begin():
        (row,) = connection.execute(query.where(exchanges.c.id == id))
    assert tuple(row) == (model, outcome, reads, size)


@each_case(
    ("flags", "flags_shown"),
    [("", 50.0), ("burst", None), ("backpressure burst coalesced", None), ("bursting", 50.0), ("outburst", 50.0)],
)
def test_tokens_a_second_are_withheld_from_bursts(flags: str, flags_shown: float | None) -> None:
    query = select(*map(column, ("tps_user", "e2e_tps", "tpot_ms")), flagged("burst")).select_from(JOINED)
    with memory() as connection:
        fill(connection, ended(flags=flags, tps_user=50.0, e2e_tps=40.0, tpot_ns=2e7))
        with connection.begin():
            assert tuple(connection.execute(query).one()) == (flags_shown, 40.0, 2e7, flags_shown is None)


def test_ttft_is_withheld_from_answers_that_began_earlier() -> None:
    query = select(*map(column, ("ttft_ms", "ttfo_ms", "ttfc_ms"))).select_from(JOINED)
    with memory() as connection:
        fill(connection, ended(flags="continuation", ttft_ns=2_000_000, ttfo_ns=2_000_000, ttfc_ns=1_000_000))
        with connection.begin():
            ttft_ms, ttfo_ms, ttfc_ms = connection.execute(query).one()
    assert (ttft_ms, ttfo_ms) == (None, None)
    assert ttfc_ms is not None
