"""All of an exchange from what the tape holds of it."""

import gc
import pickle
import zlib

from sqlalchemy import Connection

from recorder.decode.outcome import Exchange, Read, Reads
from recorder.decode.stalls import Thresholds
from tests.viewer.conftest import COMPLETE, LIVE, MS, TOOLS, TRUNCATED, event
from viewer.model.exchange import opened as opening
from viewer.model.exchange.opened import Opened, Stored
from viewer.model.exchange.transcript import UNKNOWN
from viewer.tape import exchange, queries

ID = "e" * 16


def opened(connection: Connection, id: str) -> Opened:
    return opening.opened(exchange.stored(connection, queries.find(connection, id)), Thresholds())


def test_an_exchange_is_decoded_and_judged(connection: Connection) -> None:
    found = opened(connection, TOOLS)
    assert [(one.kind, one.form) for one in found.verdicts] == [("stall", "gap")]
    assert [(one.sign, one.position) for one in found.markers] == [("B", 1), ("R", 1), ("T", 2), ("S", 2), ("D", 5)]
    assert (found.live, found.end_ns, found.missing) == (False, 3_071_500_000, 0)


def test_of_its_stalls_the_longest_is_known(connection: Connection) -> None:
    longest = opened(connection, TOOLS).longest
    assert longest is not None
    assert (longest.sign, longest.position) == ("S", 2)
    assert opened(connection, COMPLETE).longest is None


def test_its_reads_begin_where_their_bytes_are(connection: Connection) -> None:
    found = opened(connection, COMPLETE)
    assert list(found.owners) == [0, 1, 2, 3, 4, 5]
    assert [found.borders[seq + 1] - found.borders[seq] for seq in range(5)] == list(found.sizes[:5])
    assert list(found.reads_at[:2]) == [100 * MS, 110 * MS]


def test_one_that_still_runs_lasts_until_its_last_read(connection: Connection) -> None:
    found = opened(connection, LIVE)
    assert (found.live, found.end_ns, len(found.transcript)) == (True, 110 * MS, 2)


def test_a_stream_that_was_cut_is_shown_as_far_as_it_came(connection: Connection) -> None:
    found = opened(connection, TRUNCATED)
    assert found.transcript.voices[0].content.text == "Hello, "


def test_of_a_body_that_came_compressed_no_read_is_drawn() -> None:
    plain = event({"content": "x"})
    body = zlib.compress(plain, wbits=31)
    facts = Exchange(200, "text/event-stream", "gzip", "end", 0, 0, 9)
    found = opening.opened(Stored(ID, facts, Reads.of([Read(0, 5, 6, 0, len(body))]), body, "complete"), Thresholds())
    assert (list(found.borders), found.transcript.voices[0].content.text) == ([], "x")


def test_bytes_that_the_tape_could_not_keep_are_counted() -> None:
    facts = Exchange(200, "text/event-stream", None, "end", 0, 0, 9, gap_bytes=7)
    assert opening.opened(Stored(ID, facts, Reads.of([]), b"", "truncated"), Thresholds()).missing == 7


def test_bytes_that_no_read_is_known_to_have_brought_belong_to_none() -> None:
    body = b"data: 1\n\n" * 6
    reads = [Read(0, 10, None, 0, 9), Read(3, 40, None, 27, 9), Read(4, 50, None, 36, 9)]
    facts = Exchange(200, "text/event-stream", None, "end", 0, 0, 99)
    found = opening.opened(Stored(ID, facts, Reads.of(reads), body, "truncated"), Thresholds())
    assert list(found.borders) == [0, 9, 27, 36, 45]
    assert list(found.owners) == [0, UNKNOWN, 3, 4, UNKNOWN]
    none = opening.opened(Stored(ID, facts, Reads.of([]), body, "truncated"), Thresholds())
    assert (list(none.borders), list(none.owners)) == ([0], [UNKNOWN])


def test_collections_of_garbage_go_on_afterwards(connection: Connection) -> None:
    assert gc.isenabled()
    opened(connection, COMPLETE)
    assert gc.isenabled()


def test_it_can_be_handed_from_one_process_to_another(connection: Connection) -> None:
    found = opened(connection, TOOLS)
    again = pickle.loads(pickle.dumps(found))
    assert again.transcript.text(1) == found.transcript.text(1)
    assert again.transcript.voices[0].calls[0].arguments.text == '{"city":"Oslo"}'
    assert again.markers == found.markers
