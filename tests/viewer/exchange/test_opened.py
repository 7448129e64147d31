"""An opened exchange, from its rows on the tape."""

import gc
import pickle
import zlib

from tests.support.exchanges import opened
from tests.support.sample_tape import COMPLETE, LIVE, MS, TOOLS, TRUNCATED, event
from wiretape.recorder.decode.exchange import Exchange, Read, Reads, RecordedExchange
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import opened as opening
from wiretape.viewer.exchange.opened import StoredAnswer
from wiretape.viewer.exchange.transcript import UNKNOWN

ID = "e" * 16


def test_an_exchange_is_decoded_and_judged(connection: Connection) -> None:
    exchange = opened(connection, TOOLS)
    assert [(verdict.kind, verdict.form) for verdict in exchange.verdicts] == [("stall", "gap")]
    assert [(marker.sign, marker.position) for marker in exchange.markers] == [
        ("B", 1),
        ("R", 1),
        ("T", 2),
        ("S", 2),
        ("D", 5),
    ]
    assert (exchange.live, exchange.end_ns, exchange.missing) == (False, 3_071_500_000, 0)


def test_stalls_are_found(connection: Connection) -> None:
    assert [stall.form for stall in opened(connection, TOOLS).stalls] == ["gap"]
    assert opened(connection, COMPLETE).stalls == []


def test_borders_are_where_reads_begin(connection: Connection) -> None:
    exchange = opened(connection, COMPLETE)
    assert list(exchange.owners) == [0, 1, 2, 3, 4, 5]
    assert [exchange.borders[seq + 1] - exchange.borders[seq] for seq in range(5)] == list(exchange.sizes[:5])
    assert list(exchange.reads_at[:2]) == [100 * MS, 110 * MS]


def test_running_exchange_lasts_until_its_last_read(connection: Connection) -> None:
    exchange = opened(connection, LIVE)
    assert (exchange.live, exchange.end_ns, len(exchange.transcript)) == (True, 110 * MS, 2)


def test_truncated_stream_is_shown_as_far_as_it_came(connection: Connection) -> None:
    exchange = opened(connection, TRUNCATED)
    assert exchange.transcript.voices[0].content.text == "Hello, "


def test_compressed_body_has_no_borders() -> None:
    plain = event({"content": "x"})
    body = zlib.compress(plain, wbits=31)
    facts = Exchange(
        status=200,
        content_type="text/event-stream",
        content_encoding="gzip",
        ended_by="end",
        connected_ns=0,
        headers_ns=0,
        end_ns=9,
    )
    exchange = opening.open_exchange(
        StoredAnswer(ID, RecordedExchange(facts, Reads.of([Read(0, 5, 6, 0, len(body))]), body), "complete"),
        Thresholds(),
    )
    assert (list(exchange.borders), exchange.transcript.voices[0].content.text) == ([], "x")


def test_bytes_missing_from_the_tape_are_counted() -> None:
    facts = Exchange(
        status=200,
        content_type="text/event-stream",
        ended_by="end",
        connected_ns=0,
        headers_ns=0,
        end_ns=9,
        gap_bytes=7,
    )
    assert (
        opening.open_exchange(
            StoredAnswer(ID, RecordedExchange(facts, Reads.of([]), b""), "truncated"), Thresholds()
        ).missing
        == 7
    )


def test_bytes_without_a_read_have_no_owner() -> None:
    body = b"data: 1\n\n" * 6
    reads = [Read(0, 10, None, 0, 9), Read(3, 40, None, 27, 9), Read(4, 50, None, 36, 9)]
    facts = Exchange(
        status=200, content_type="text/event-stream", ended_by="end", connected_ns=0, headers_ns=0, end_ns=99
    )
    exchange = opening.open_exchange(
        StoredAnswer(ID, RecordedExchange(facts, Reads.of(reads), body), "truncated"), Thresholds()
    )
    assert list(exchange.borders) == [0, 9, 27, 36, 45]
    assert list(exchange.owners) == [0, UNKNOWN, 3, 4, UNKNOWN]
    none = opening.open_exchange(
        StoredAnswer(ID, RecordedExchange(facts, Reads.of([]), body), "truncated"), Thresholds()
    )
    assert (list(none.borders), list(none.owners)) == ([0], [UNKNOWN])


def test_garbage_collection_resumes_afterwards(connection: Connection) -> None:
    assert gc.isenabled()
    opened(connection, COMPLETE)
    assert gc.isenabled()


def test_opened_exchange_can_be_pickled(connection: Connection) -> None:
    exchange = opened(connection, TOOLS)
    unpickled = pickle.loads(pickle.dumps(exchange))
    assert unpickled.transcript.text(1) == exchange.transcript.text(1)
    assert unpickled.transcript.voices[0].calls[0].arguments.text == '{"city":"Oslo"}'
    assert unpickled.markers == exchange.markers
