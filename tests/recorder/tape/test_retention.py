import random
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection, select

from tests.support.frames import STREAM, begin, body, end, head, opened, reading, record
from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import TapeBusy
from wiretape.recorder.tape import file, retention
from wiretape.recorder.tape.journal import Deleted
from wiretape.recorder.tape.retention import Removed
from wiretape.recorder.tape.schema import exchanges

DAY = 24 * 3600 * 10**9
NOON = int(datetime.fromisoformat("2026-03-10T12:00:00Z").timestamp()) * 10**9


def on_day(number: int, pieces: list[bytes] = STREAM) -> list:
    id = f"day{number}"
    began = begin(id, started_at=f"2026-03-{number:02d}T12:00:00.000000Z")
    return [began, head(id), *body(id, pieces), end(id, pieces)]


def record_noise(tape: Path, count: int) -> None:
    """Record an exchange a day, of 40 kB that do not compress."""
    noise = [random.Random(1).randbytes(40_000)]
    with opened(tape) as store:
        for number in range(1, count + 1):
            record(store, on_day(number, noise))


@pytest.fixture
def days(tape: Path) -> Path:
    """A tape of one exchange a day, recorded in another order; the last has not ended."""
    with opened(tape) as store:
        for number in (3, 1, 2, 4):
            record(store, on_day(number))
        store.append(on_day(5)[:-1])
    return tape


def ids(tape: Path) -> set[str]:
    with reading(tape) as connection:
        return set(connection.execute(select(exchanges.c.id)).scalars())


@pytest.fixture
def writing(days: Path) -> Iterator[Connection]:
    with file.writing(days, "a test") as connection:
        yield connection


class Time:
    """A clock that a test moves: seconds since the recorder was started, at noon of the 10th of March."""

    def __init__(self) -> None:
        self.seconds = 0
        self.clock = Clock(lambda: self.seconds * 10**9, lambda: NOON + self.seconds * 10**9)


def past(connection: Connection, limits: retention.TapeLimits, settled: bool = False) -> list[str]:
    with connection.begin():
        return retention.past(connection, limits, Time().clock, settled=settled)


def test_exchanges_past_an_age_come_oldest_first(writing: Connection) -> None:
    assert past(writing, retention.TapeLimits(timedelta(days=7))) == ["day1", "day2"]
    assert past(writing, retention.TapeLimits(timedelta(days=7, seconds=-1))) == ["day1", "day2", "day3"]
    assert past(writing, retention.TapeLimits(timedelta(days=1))) == ["day1", "day2", "day3", "day4", "day5"]


def test_no_more_exchanges_are_named_than_requested(writing: Connection) -> None:
    with writing.begin():
        for limits in (retention.TapeLimits(age=timedelta(days=1)), retention.TapeLimits(size=1)):
            assert retention.past(writing, limits, Time().clock, most=2) == ["day1", "day2"]


def test_a_recorders_limits_spare_unsettled_exchanges(writing: Connection) -> None:
    assert past(writing, retention.TapeLimits(timedelta(days=1)), settled=True) == ["day1", "day2", "day3", "day4"]
    assert past(writing, retention.TapeLimits(size=1), settled=True) == ["day1", "day2", "day3", "day4"]


def test_a_tape_that_fits_has_nothing_beyond_its_size(writing: Connection) -> None:
    assert past(writing, retention.TapeLimits(size=10**9)) == []


def test_erasing_deletes_exactly_the_rows_of_an_exchange(days: Path) -> None:
    with file.writing(days, "a test") as connection:
        assert list(retention.erase(connection, ["day1", "day3", "unknown"])) == [2]
    assert ids(days) == {"day2", "day4", "day5"}
    # That the tape is whole, with no row that belongs to nothing, is checked after each test.


def test_a_deleted_exchanges_number_is_not_used_again(days: Path) -> None:
    with file.writing(days, "a test") as connection:
        assert sum(retention.erase(connection, sorted(ids(days)))) == 5
    with opened(days) as store:
        record(store, on_day(6))
    with reading(days) as connection:
        assert connection.execute(select(exchanges.c.no)).scalars().all() == [6]


def test_a_tape_shrinks_by_its_oldest_exchanges(tape: Path) -> None:
    record_noise(tape, 10)
    with file.writing(tape, "a test") as connection:
        limit = retention.size(connection).used - 150_000
        connection.rollback()
        assert sum(retention.enforce(connection, retention.TapeLimits(size=limit), Time().clock)) in (4, 5)
        assert retention.size(connection).used <= limit
    assert "day10" in ids(tape)
    assert "day1" not in ids(tape)


def test_what_died_is_deleted_by_age_with_the_rest(writing: Connection) -> None:
    assert sum(retention.enforce(writing, retention.TapeLimits(timedelta(days=1)), Time().clock)) == 5


def test_a_vacuum_leaves_no_deleted_data_in_any_file(tape: Path) -> None:
    secret = b"the quick brown canary"
    pieces = [b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"' + secret + b'"}}]}\n\n']
    with opened(tape) as store:
        store.append([begin("secret", body=b'{"model":"m","prompt":"' + secret * 1000 + b'"}'), head("secret")])
        for frame in (*body("secret", pieces), end("secret", pieces)):
            record(store, [frame])
        record(store, on_day(2))
    assert secret in tape.read_bytes()
    with file.writing(tape, "a test") as connection:
        assert sum(retention.erase(connection, ["secret"])) == 1
        size_before, size_after = retention.vacuum(connection, tape)
    assert size_after.file < size_before.file
    assert size_after.free == 0
    assert [path for path in tape.parent.iterdir() if secret in path.read_bytes()] == []
    assert tape.stat().st_size == size_after.file
    assert ids(tape) == {"day2"}


def test_a_vacuum_that_has_no_room_changes_nothing(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    with file.writing(days, "a test") as connection, pytest.raises(TapeBusy, match="more free bytes"):
        retention.vacuum(connection, days)
    assert len(ids(days)) == 5


def test_a_vacuum_beside_a_reader_reports_remaining_data(days: Path) -> None:
    with reading(days) as reader, file.writing(days, "a test") as connection:
        reader.exec_driver_sql("BEGIN")
        reader.execute(select(exchanges.c.no)).all()
        connection.connection.execute("PRAGMA busy_timeout=50")
        with pytest.raises(TapeBusy, match="is still in the file"):
            retention.vacuum(connection, days)


def test_a_recorder_deletes_old_exchanges_but_no_running_ones(writing: Connection) -> None:
    time = Time()
    pruner = retention.Pruner(writing, retention.TapeLimits(timedelta(days=8)), time.clock)
    size = sum(map(len, STREAM))
    assert [pruner.step(), pruner.step()] == [Removed(1, {1: Deleted(1, 1, 0, size)}), Removed(0, {})]
    assert pruner.due > time.clock.now()
    time.seconds = 86400
    assert pruner.due < time.clock.now()
    assert [pruner.step().exchanges, pruner.step().exchanges] == [1, 0]
    time.seconds += 30 * 86400
    assert [pruner.step().exchanges, pruner.step().exchanges] == [2, 0]
    with writing.begin():
        assert writing.execute(select(exchanges.c.id)).scalars().all() == ["day5"]


def test_deletions_are_counted_for_their_own_recorder(writing: Connection) -> None:
    removed = retention.Pruner(writing, retention.TapeLimits(timedelta(days=8)), Time().clock).step()
    assert removed.of(2, all=True) == Deleted(1, 0, 0, 0)
    assert removed.of(2, all=False) == Deleted(0, 0, 0, 0)


def test_a_full_tape_gets_some_room_at_once(tape: Path) -> None:
    record_noise(tape, 30)
    with file.writing(tape, "a test") as connection:
        limit = retention.size(connection).used - 1
        connection.rollback()
        pruner = retention.Pruner(connection, retention.TapeLimits(size=limit), Time().clock)
        assert pruner.step().exchanges == 1
        while pruner.step().exchanges:
            pass
        assert 0.85 * limit < retention.size(connection).used <= 0.95 * limit
