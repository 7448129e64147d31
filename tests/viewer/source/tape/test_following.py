"""Following: each exchange once, in the order of ending, from a tape that is being written."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sample_tape import (
    COMPLETE,
    COMPLETE_READS,
    FAILED,
    LIMITED,
    LIMITED_READS,
    LIVE,
    ODD,
    TOOLS,
    begin,
    end,
    response,
)
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.store import Store
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.base import POLL_SECONDS, Seen, pause_s
from wiretape.viewer.source.settled import SettledTape
from wiretape.viewer.source.tape import conditions, following, live, queries

LATER, LAST = "9000000000000008", "9000000000000009"


class Over(Exception):
    """There is no further step."""


def ending(id: str, parts: list[tuple[int, bytes]], status: int = 200) -> Iterator[journal.Frame]:
    yield from response(id, parts, status)
    yield end(id, parts)


def write(path: Path, frames: list[journal.Frame]) -> None:
    with file.writing(path, "a test") as connection:
        store = Store(connection)
        store.begin_session(journal.Session("u", "0.1.0", 1, None, "", [], "2026-03-01T12:00:00.000000Z"))
        store.settle(store.append(frames))


@pytest.fixture
def growing(tape: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "tape.db"
    copy.write_bytes(tape.read_bytes())
    return copy


def at_once() -> None:
    """Poll without delay."""


def followed(path: Path, steps: list[list[journal.Frame]], expression: str = '""') -> list[list[str]]:
    """Return the ids of each batch but the first; before each poll one step is written, without a wait."""
    pending = iter(steps)

    def wait() -> None:
        try:
            write(path, next(pending))
        except StopIteration:
            raise Over from None

    batches = []
    with queries.opened(path) as connection, contextlib.suppress(Over):
        for batch in live.ended(connection, ("id",), conditions.condition(parse(expression)), wait=wait):
            batches.append([row["id"] for row in batch])
    return batches[1:]


def test_the_last_that_ended_come_first(growing: Path) -> None:
    with queries.opened(growing) as connection:
        assert [row["id"] for row in next(live.ended(connection, ("id",), last=3, wait=at_once))] == [
            LIMITED,
            FAILED,
            ODD,
        ]
        assert next(live.ended(connection, ("id",), last=0, wait=at_once)) == []
        filter_ = conditions.condition(parse("is:ok"))
        assert [row["id"] for row in next(live.ended(connection, ("id",), filter_, wait=at_once))] == [COMPLETE, TOOLS]


def test_an_exchange_comes_when_it_ends_and_once(growing: Path) -> None:
    steps = [
        [begin(LATER, 8, b"{}")],
        [],
        [end(LIVE, COMPLETE_READS[:2])],
        [],
        list(ending(LATER, COMPLETE_READS)),
        [begin(LAST, 9, b"{}"), *ending(LAST, LIMITED_READS, 429)],
    ]
    assert followed(growing, steps) == [[LIVE], [LATER], [LAST]]


def test_exchanges_between_two_polls_come_by_their_end(growing: Path) -> None:
    slow = [(20_000, COMPLETE_READS[0][1])]
    step = [begin(LATER, 8, b"{}"), begin(LAST, 9, b"{}"), *ending(LATER, slow), *ending(LAST, COMPLETE_READS)]
    assert followed(growing, [step]) == [[LAST, LATER]]


def test_only_what_fits_when_it_has_ended_comes(growing: Path) -> None:
    steps = [
        [begin(LATER, 8, b"{}"), begin(LAST, 9, b"{}"), *ending(LATER, LIMITED_READS, 429)],
        list(ending(LAST, COMPLETE_READS)),
    ]
    assert followed(growing, steps, "is:ok") == [[LAST]]
    assert followed(growing, [[]], "is:ok") == []


def test_what_is_derived_again_does_not_come_again(growing: Path) -> None:
    def derive_again() -> None:
        with file.writing(growing, "a test") as connection:
            assert connection.exec_driver_sql("UPDATE measures SET outcome = 'truncated'").rowcount > 1
            connection.commit()
            assert any(rederive(Store(connection)))

    steps = iter([derive_again, lambda: write(growing, [begin(LATER, 8, b"{}"), *ending(LATER, COMPLETE_READS)])])

    def wait() -> None:
        for step in steps:
            return step()
        raise Over

    ids: list[str] = []
    with queries.opened(growing) as connection, contextlib.suppress(Over):
        for batch in live.ended(connection, ("id",), last=0, wait=wait):
            ids += [row["id"] for row in batch]
    assert ids == [LATER]


def test_a_tapes_version_changes_with_writes_and_connections(growing: Path) -> None:
    with queries.opened(growing) as connection, queries.opened(growing) as other_connection:
        version_before = following.version(connection)
        assert following.version(connection) == version_before != following.version(other_connection)
        write(growing, [begin(LATER, 8, b"{}")])
        assert following.version(connection) != version_before


def test_a_poll_tells_new_settled_and_running_exchanges(growing: Path) -> None:
    def polled(seen: Seen) -> following.Changes | None:
        with connection.begin():
            return following.changes(connection, seen)

    with queries.opened(growing) as connection:
        with connection.begin():
            start = following.start(connection)
        assert (start.newest, start.unsettled, polled(start)) == (7, {7}, None)
        write(growing, [begin(LATER, 8, b"{}"), begin(LAST, 9, b"{}"), *ending(LAST, COMPLETE_READS)])
        polled_ids = polled(start)
        assert polled_ids is not None
        assert (polled_ids.new, polled_ids.settled, polled_ids.seen.unsettled) == ({8, 9}, {9}, {7, 8})
        assert polled(polled_ids.seen) is None


@pytest.mark.damages
def test_a_damaged_version_does_not_end_following(growing: Path) -> None:
    with file.writing(growing, "a test") as writing:
        writing.exec_driver_sql("UPDATE settlements SET version = 'none' WHERE exchange_no = 1")
        writing.commit()
    with queries.opened(growing, report=print) as connection:
        follower = SettledTape(connection).followed()
        assert (follower.take(), follower.take()) == ([2, 3, 4, 5, 6], [])
        seen = live.change(connection, None)
        for no, id in ((8, LATER), (9, LAST)):
            write(growing, [begin(id, no, b"{}"), *ending(id, COMPLETE_READS)])
            seen = live.change(connection, seen)
            assert seen is not None
            assert (no in seen.fits, seen.seen.unsettled) == (True, {7})


def test_a_slow_reading_takes_a_fifth_of_the_time() -> None:
    assert pause_s("screen", 0) == POLL_SECONDS["screen"]
    assert pause_s("screen", 10**9) == 4.0
