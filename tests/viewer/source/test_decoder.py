"""Exchanges decoded in processes of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sample_tape import COMPLETE, MS, TOOLS
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import TapeError
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.opened import OpenedExchange
from wiretape.viewer.source.decoder import Decoders
from wiretape.viewer.source.tape import queries


@pytest.fixture
def decoders(tape: Path) -> Iterator[Decoders]:
    made = Decoders(tape, Thresholds(stall_ms=2999))
    yield made
    made.close()


def test_what_comes_from_there_is_what_comes_from_here(connection: Connection, decoders: Decoders) -> None:
    early: list[OpenedExchange] = []
    decoder = decoders.ask(queries.find(connection, TOOLS))
    answer = decoder.answer(early.append)
    assert list(answer.transcript.at) == [at * MS for at in (50, 3050, 3060, 3070, 3070)]
    assert [verdict.lasted_ns for verdict in answer.verdicts] == [3_000_000_000]
    assert [(exchange.judged, exchange.slowness is None) for exchange in (*early, answer)] == [
        (False, True),
        (True, True),
        (True, False),
    ]
    assert decoder.process.poll() == 0


def test_one_that_waits_is_taken_first_and_only_once(connection: Connection, decoders: Decoders) -> None:
    decoders.ready()
    queue = decoders.waiting
    decoders.ready()
    first, second = (decoders.ask(queries.find(connection, TOOLS)) for _ in range(2))
    assert first is queue
    assert second is not queue
    assert [len(decoder.answer().transcript) for decoder in (first, second)] == [5, 5]


def test_a_process_that_ended_while_waiting_is_not_taken(connection: Connection, decoders: Decoders) -> None:
    decoders.ready()
    queue = decoders.waiting
    assert queue is not None
    queue.process.kill()
    queue.process.wait()
    assert len(decoders.ask(queries.find(connection, TOOLS)).answer().transcript) == 5


def test_reading_ahead_does_not_change_the_requested_exchange(connection: Connection, decoders: Decoders) -> None:
    tools, complete = (queries.find(connection, id) for id in (TOOLS, COMPLETE))
    for ahead, requested, events in ((tools, tools, 5), (tools, complete, 9), (999, complete, 9)):
        decoders.ready(ahead, 1)
        assert len(decoders.ask(requested).answer().transcript) == events


def test_of_several_candidates_the_last_is_read_ahead(connection: Connection, decoders: Decoders) -> None:
    tools, complete = (queries.find(connection, id) for id in (TOOLS, COMPLETE))
    decoders.ready(tools, 1)
    decoders.ready(complete, 1)
    queue = decoders.waiting
    assert queue is not None
    assert queue.ahead == complete
    decoders.ready(tools, 1 << 30)  # a large exchange is read on request only
    assert queue.ahead == complete
    assert len(decoders.ask(complete).answer().transcript) == 9


def test_a_dead_process_is_replaced_and_its_orders_forgotten(connection: Connection, decoders: Decoders) -> None:
    no = queries.find(connection, TOOLS)
    for _ in range(2):
        decoders.ready(no, 1)
        queue = decoders.waiting
        assert queue is not None
        queue.process.kill()
        queue.process.wait()
        queue.read_ahead(no + 1)  # it cannot know yet that nobody listens
        decoders.ready(no, 1)
        assert decoders.waiting is not queue
    assert len(decoders.ask(no).answer().transcript) == 5
    decoders.ready(no, 1)
    last = decoders.waiting
    assert last is not None
    last.process.kill()
    last.process.wait()
    last.read_ahead(no + 1)
    decoders.close()


def test_nothing_waits_any_more_once_they_are_closed(tape: Path) -> None:
    decoders = Decoders(tape, Thresholds())
    decoders.ready()
    queue = decoders.waiting
    decoders.close()
    decoders.ready()
    assert queue is not None
    assert queue.process.poll() is not None
    assert decoders.waiting is None


def test_one_that_nobody_asks_ends_by_itself(decoders: Decoders) -> None:
    decoders.ready()
    queue = decoders.waiting
    assert queue is not None
    assert queue.process.stdin is not None
    queue.process.stdin.close()
    assert queue.process.wait(60) == 0


def test_a_caller_of_a_killed_decoder_gets_an_error(connection: Connection, decoders: Decoders) -> None:
    decoders.ready()
    decoder = decoders.ask(queries.find(connection, TOOLS))
    decoder.process.kill()
    with pytest.raises(TapeError, match="its process was ended"):
        decoder.answer()


def test_an_error_of_the_decoder_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(TapeError, match="cannot be decoded"):
        Decoders(tmp_path / "none.db", Thresholds()).ask(1).answer()
