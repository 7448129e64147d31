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
    found = opened(connection, TOOLS)
    assert [(one.kind, one.form) for one in found.verdicts] == [("stall", "gap")]
    assert [(one.sign, one.position) for one in found.markers] == [("B", 1), ("R", 1), ("T", 2), ("S", 2), ("D", 5)]
    assert (found.live, found.end_ns, found.missing) == (False, 3_071_500_000, 0)


def test_stalls_are_found(connection: Connection) -> None:
    assert [one.form for one in opened(connection, TOOLS).stalls] == ["gap"]
    assert opened(connection, COMPLETE).stalls == []


def test_borders_are_where_reads_begin(connection: Connection) -> None:
    found = opened(connection, COMPLETE)
    assert list(found.owners) == [0, 1, 2, 3, 4, 5]
    assert [found.borders[seq + 1] - found.borders[seq] for seq in range(5)] == list(found.sizes[:5])
    assert list(found.reads_at[:2]) == [100 * MS, 110 * MS]


def test_running_exchange_lasts_until_its_last_read(connection: Connection) -> None:
    found = opened(connection, LIVE)
    assert (found.live, found.end_ns, len(found.transcript)) == (True, 110 * MS, 2)


def test_truncated_stream_is_shown_as_far_as_it_came(connection: Connection) -> None:
    found = opened(connection, TRUNCATED)
    assert found.transcript.voices[0].content.text == "Hello, "


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
    found = opening.open_exchange(
        StoredAnswer(ID, RecordedExchange(facts, Reads.of([Read(0, 5, 6, 0, len(body))]), body), "complete"),
        Thresholds(),
    )
    assert (list(found.borders), found.transcript.voices[0].content.text) == ([], "x")


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
    found = opening.open_exchange(
        StoredAnswer(ID, RecordedExchange(facts, Reads.of(reads), body), "truncated"), Thresholds()
    )
    assert list(found.borders) == [0, 9, 27, 36, 45]
    assert list(found.owners) == [0, UNKNOWN, 3, 4, UNKNOWN]
    none = opening.open_exchange(
        StoredAnswer(ID, RecordedExchange(facts, Reads.of([]), body), "truncated"), Thresholds()
    )
    assert (list(none.borders), list(none.owners)) == ([0], [UNKNOWN])


def test_garbage_collection_resumes_afterwards(connection: Connection) -> None:
    assert gc.isenabled()
    opened(connection, COMPLETE)
    assert gc.isenabled()


def test_opened_exchange_can_be_pickled(connection: Connection) -> None:
    found = opened(connection, TOOLS)
    again = pickle.loads(pickle.dumps(found))
    assert again.transcript.text(1) == found.transcript.text(1)
    assert again.transcript.voices[0].calls[0].arguments.text == '{"city":"Oslo"}'
    assert again.markers == found.markers
