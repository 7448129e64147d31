"""One exchange: the facts in its row, and those that need decoding."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.exchanges import full
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, LIVE, MS, TOOLS, TRUNCATED
from wiretape.recorder.decode.exchange import Read
from wiretape.recorder.errors import NoResultFound, TapeDamaged
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.opened import preliminary
from wiretape.viewer.record import units
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.source.tape import live as watching


def test_what_is_known_at_once_needs_no_decoding(connection: Connection) -> None:
    facts = exchange.known(connection, queries.find(connection, COMPLETE))
    assert (facts.row.content, facts.exchange.method, facts.recorder.pid) == ("Hello, world", "POST", 1)
    assert facts.exchange.headers.response == (("content-type", "text/event-stream"),)
    assert (facts.exchange.end_ns, len(facts.gaps)) == (181_500_000, 3 * 8)


def test_a_running_exchange_has_no_end_or_gaps(connection: Connection) -> None:
    facts = exchange.known(connection, queries.find(connection, LIVE))
    assert (facts.exchange.end_ns, facts.gaps, facts.row.ended_by) == (None, b"", None)


def test_a_running_exchange_is_measured_like_its_list(connection: Connection) -> None:
    no = queries.find(connection, LIVE)
    (listed,) = watching.listed(connection, [no])
    row = exchange.known(connection, no).row
    assert row.ttft_ms == 110.0
    shared = [name for name in watching.MEASURED if hasattr(listed, name)]
    assert {name: getattr(row, name) for name in shared} == {name: getattr(listed, name) for name in shared}


def test_an_exchange_that_is_gone_is_not_found(connection: Connection) -> None:
    for question in (exchange.known, exchange.stored, exchange.weight):
        with pytest.raises(NoResultFound):
            question(connection, 999)


def test_texts_on_the_tape_are_there_before_their_events(connection: Connection) -> None:
    row = queries.detail(connection, queries.find(connection, TOOLS))
    (voice,) = preliminary(row).voices
    assert (voice.reasoning.text, voice.calls[0].name.text) == ("Think. ", "get_weather")


def test_what_still_runs_weighs_what_has_come_of_it(connection: Connection) -> None:
    live = queries.find(connection, LIVE)
    assert exchange.weight(connection, live) == queries.detail(connection, live).bytes > 0


def test_an_ended_exchange_is_final_and_unchanged(connection: Connection) -> None:
    no, live = (queries.find(connection, id) for id in (COMPLETE, LIVE))
    answer = exchange.stored(connection, no)
    assert exchange.is_final(connection, no, answer)
    assert not exchange.is_final(connection, live, exchange.stored(connection, live))
    recording = answer.recording
    cut = recording._replace(exchange=dataclasses.replace(recording.exchange, ended_by="eof"))
    changes = {"id": "f" * 16, "outcome": "truncated", "recording": cut}
    for name, value in changes.items():
        assert not exchange.is_final(connection, no, dataclasses.replace(answer, **{name: value}))  # type: ignore[arg-type]
    assert not exchange.is_final(connection, queries.find(connection, TRUNCATED), answer)
    with pytest.raises(NoResultFound):
        exchange.is_final(connection, 999, answer)


def test_the_reads_asked_for_are_given_by_their_seq(tape: Path) -> None:
    with queries.opened(tape) as connection:
        no = queries.find(connection, COMPLETE)
        reads = exchange.reads_between(connection, no, 1, 2)
        assert exchange.reads_between(connection, no, 900, 999) == {}
    assert [(seq, read.seq, read.at_ns, read.size) for seq, read in reads.items()] == [
        (seq, seq, COMPLETE_READS[seq][0] * MS, len(COMPLETE_READS[seq][1])) for seq in (1, 2)
    ]


def test_a_start_is_a_timestamp_of_utc() -> None:
    assert full(started_at="2026-03-01T12:00:01.500000Z").started == datetime(2026, 3, 1, 12, 0, 1, 500_000, UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01T12:00:01"])
def test_a_time_that_is_none_is_damage(text: str) -> None:
    with pytest.raises(TapeDamaged, match="db check"):
        units.timestamp(text)


def test_an_open_exchanges_last_sign_is_its_last_read() -> None:
    reads = [Read(0, 5, None, 0, 1), Read(1, 9, None, 1, 1)]
    assert full(reads).last_ns == 9
    assert full(reads, end_ns=12).last_ns == 12
    assert full().last_ns is None


def test_an_ending_has_the_errors_or_transports_words() -> None:
    assert full(outcome="open").ending == "open"
    cut = {"outcome": "truncated", "outcome_detail": "eof", "ended_detail": "closed"}
    assert full(**cut).ending == "truncated (eof): closed"
    assert full(**cut, error_message="overloaded").ending == "truncated (eof): overloaded"
