import gc
import sqlite3
import time
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from tests.support.frames import SESSION, STREAM, damage, exchange, opened, reading, record
from wiretape.recorder.clock import Clock
from wiretape.recorder.tape import checks, file
from wiretape.recorder.tape.journal import Verified


def problems(tape: Path) -> list[str]:
    with reading(tape) as connection:
        return list(checks.problems(connection))


@pytest.fixture
def recorded(tape: Path) -> Path:
    """A tape with an exchange that ended and one that is open."""
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("e2")[:-1]])
    return tape


def test_a_tape_as_it_was_written_has_no_problems(recorded: Path) -> None:
    assert problems(recorded) == []


def test_checks_take_the_same_statements_for_any_count(tmp_path: Path) -> None:
    def statements(tape: Path, exchanges: int) -> int:
        with opened(tape) as store:
            record(store, [frame for number in range(exchanges) for frame in exchange(f"e{number}")])
        seen: list[str] = []
        with reading(tape) as connection:
            event.listen(connection, "before_cursor_execute", lambda _connection, _cursor, text, *_: seen.append(text))
            assert list(checks.problems(connection)) == []
        return len(seen)

    assert statements(tmp_path / "twenty.db", 20) == statements(tmp_path / "one.db", 1)


SIZE = len(b"".join(STREAM))
LEFT = "INSERT INTO segments"
READS = "UPDATE bodies SET"
OTHER = zlib.compress(b"x" * SIZE).hex()


@pytest.mark.damages
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE segments SET seq=1 WHERE exchange_no=2", ["exchange e2: read 0 is missing"]),
        (f"{READS} at_ns=as_digits(json_set(as_json(at_ns), '$[2]', -5))", ["exchange e1: read 2 came before"]),
        ("UPDATE segments SET start=7 WHERE exchange_no=2", ["exchange e2: read 0 starts at 7, not at 0"]),
        ("UPDATE exchanges SET bytes=bytes+5 WHERE no=1", [f"exchange e1: {SIZE + 5} bytes came, but {SIZE} are in"]),
        ("UPDATE exchanges SET gap_bytes=7 WHERE no=1", [f"exchange e1: {SIZE} bytes came, but {SIZE} are in read"]),
        ("DELETE FROM measures", ["exchange e1: it has ended but has no measures: run 'wiretape db rebuild'"]),
        ("DELETE FROM bodies", ["exchange e1: it has ended but has no body"]),
        ("UPDATE bodies SET data=x'00'", ["exchange e1: its body cannot be unpacked"]),
        (f"UPDATE bodies SET data=x'{OTHER}'", ["exchange e1: its body is not the one that was stored (sha256)"]),
        ("UPDATE bodies SET size=size-1", ["exchange e1: its body cannot be unpacked (it does not hold"]),
        (f"{LEFT} VALUES (1, 4, 244, '[]', '[]', '[]', x'00')", ["exchange e1: it has ended but still has segments"]),
        ("UPDATE segments SET data=x'00' WHERE exchange_no=2", ["exchange e2: its segments hold 1 bytes, its reads"]),
        ("DELETE FROM exchanges WHERE no=2", ["a row of segments refers to a row of exchanges that is not there"]),
        ("UPDATE exchanges SET request_headers='{' WHERE no=1", ["exchange e1: exchanges.request_headers is text"]),
        ("UPDATE measures SET ttft_ns='soon'", ["exchange e1: measures.ttft_ns is text, not a number of nanoseconds"]),
        (f"{READS} sizes=as_digits(json_set(as_json(sizes), '$[2]', 'x'))", ["exchange e1: read 2 is damaged"]),
        (f"{READS} at_ns=as_digits(json_set(as_json(at_ns), '$[2]', NULL))", ["exchange e1: read 2 is damaged"]),
        (f"{READS} sizes=as_digits(json_remove(as_json(sizes), '$[3]'))", ["exchange e1: read 3 is damaged"]),
        (f"{READS} relayed_ns='[1]'", ["exchange e1: its reads are damaged (its arrays have 4, 1 and 4 elements)"]),
        (f"{READS} at_ns='[', relayed_ns=x'00'", ["exchange e1: read 0 is damaged"]),
        ("UPDATE sessions SET listen=x'00'", ["session 1: sessions.listen is a blob of 1 bytes, not text"]),
        (f"{READS} at_ns=as_digits(json_set(as_json(at_ns), '$[0]', -10000000000))", []),  # another clock's
    ],
)  # fmt: skip
def test_each_kind_of_damage_is_found_and_named(recorded: Path, statement: str, expected: list[str]) -> None:
    damage(recorded, statement)
    problems_found = problems(recorded)
    for sentence in expected:
        assert any(message.startswith(sentence) for message in problems_found), problems_found
    assert bool(problems_found) == bool(expected)


def corrupt(tape: Path) -> None:
    """Clear the pages of an index, which SQLite's checks find."""
    with closing(sqlite3.connect(tape)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name='ix_measures_outcome'").fetchone()
    with tape.open("r+b") as opened_file:
        opened_file.seek(4096 * (page - 1))
        opened_file.write(bytes(4096))


def limited(tape: Path) -> list[str]:
    with reading(tape) as connection:
        return checks.damage(connection, 60)


@pytest.mark.damages
def test_a_limited_check_stops_where_sqlite_finds_something(recorded: Path) -> None:
    damage(recorded, "UPDATE sessions SET listen=x'00'")
    assert limited(recorded) == ["session 1: sessions.listen is a blob of 1 bytes, not text"]
    corrupt(recorded)
    problems_found = limited(recorded)
    assert problems_found
    assert all(line.startswith("SQLite: ") and "***" not in line for line in problems_found)


@pytest.mark.damages
def test_a_limited_check_reports_problems_of_the_newest_exchanges(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "EXCHANGES_SECONDS", 60)
    with opened(tape) as store:
        for number in range(8):
            record(store, exchange(f"e{number}"))
    assert limited(tape) == []
    damage(tape, "UPDATE bodies SET at_ns=as_digits(json_set(as_json(at_ns), '$[1]', NULL))")
    problems_found = limited(tape)
    assert len(problems_found) == 5
    assert problems_found[0] == "exchange e7: read 1 is damaged"


@pytest.mark.damages
def test_a_check_that_takes_too_long_is_left(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1", [b"x"] * 20_000))
    damage(tape, "UPDATE bodies SET at_ns=as_digits(json_set(as_json(at_ns), '$[19000]', NULL))")
    with reading(tape) as connection:
        assert checks.damage(connection, 0, Clock(now=iter(range(0, 10**18, 10**17)).__next__)) == []


def test_a_session_is_counted_in_the_file_itself(recorded: Path) -> None:
    assert checks.verify(recorded, SESSION.uuid, 60) == Verified(2, 0, 2 * SIZE, [])


@pytest.mark.damages
def test_what_cannot_be_read_is_not_held(recorded: Path) -> None:
    other_tape = recorded.with_name("other.db")
    assert checks.verify(other_tape, SESSION.uuid, 60) == Verified(0, 0, 0, ["it was removed"])
    damage(other_tape, "CREATE VIEW segments AS SELECT 1")
    assert checks.verify(other_tape, SESSION.uuid, 60).problems[0].startswith(f"{other_tape} holds segments as a view")
    recorded.write_bytes(recorded.read_bytes()[:4096] + b"\xff" * (recorded.stat().st_size - 4096))
    verification = checks.verify(recorded, SESSION.uuid, 60)
    assert (verification.exchanges, verification.failed, verification.bytes) == (0, 0, 0)
    assert "malformed" in verification.problems[0]
    with closing(sqlite3.connect(other_tape, isolation_level=None)) as locker:
        locker.execute("DROP VIEW segments")
        locker.execute("BEGIN EXCLUSIVE")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file, "BUSY_MS", 20)
            assert checks.verify(other_tape, SESSION.uuid, 60) == Verified(None, None, None, ["database is locked"])


def test_measuring_during_a_check_is_no_damage(tape: Path) -> None:
    with opened(tape) as store, file.reader_beside_writer(tape).connect() as connection:
        finished = store.append(exchange("e1"))
        calls = list[int]()

        def now() -> int:
            calls.append(0)
            if len(calls) == 2:  # the exchange's row has been read, its reads have not
                store.settle(finished)
            return 0

        assert checks.damage(connection, 1.0, Clock(now=now)) == []
    assert len(calls) == 2


@pytest.mark.parametrize("part", ["FROM bodies", "FROM segments", "FROM client_bodies"])
def test_a_check_that_is_interrupted_leaves_no_error_behind(
    recorded: Path, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    def wait(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if part in statement and "sum(" not in statement.partition("FROM")[0]:
            time.sleep(0.4)  # an exchange is being read, which takes longer than all may

    event.listen(Engine, "before_cursor_execute", wait)
    try:
        assert checks.verify(recorded, SESSION.uuid, 60).problems == []
    finally:
        event.remove(Engine, "before_cursor_execute", wait)
    gc.collect()
    assert caplog.records == []
