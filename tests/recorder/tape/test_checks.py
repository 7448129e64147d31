import zlib
from pathlib import Path

import pytest

from recorder.tape import checks
from tests.recorder.frames import STREAM, damage, exchange, opened, reading, record


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


SIZE = len(b"".join(STREAM))
OTHER = zlib.compress(b"x" * SIZE).hex()


@pytest.mark.damages
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM reads WHERE exchange_no=1 AND seq=1", ["exchange e1: read 1 is missing"]),
        ("UPDATE reads SET at_ns=0 WHERE exchange_no=1 AND seq=2", ["exchange e1: read 2 came before the one that it"]),
        ("UPDATE reads SET start=start+1 WHERE exchange_no=1 AND seq=3", ["exchange e1: read 3 starts at"]),
        ("UPDATE exchanges SET bytes=bytes+5 WHERE no=1", [f"exchange e1: {SIZE + 5} bytes came, but {SIZE} are in"]),
        ("UPDATE exchanges SET gap_bytes=7 WHERE no=1", [f"exchange e1: {SIZE} bytes came, but {SIZE} are in read"]),
        ("DELETE FROM measures", ["exchange e1: it has ended but has no measures: run 'wiretape db rebuild'"]),
        ("DELETE FROM bodies", ["exchange e1: it has ended but has no body"]),
        ("UPDATE bodies SET data=x'00'", ["exchange e1: its body cannot be unpacked"]),
        (f"UPDATE bodies SET data=x'{OTHER}'", ["exchange e1: its body is not the one that was stored (sha256)"]),
        ("UPDATE bodies SET size=size-1", ["exchange e1: its body cannot be unpacked (it does not hold"]),
        ("INSERT INTO segments VALUES (1, 0, x'00')", ["exchange e1: it has ended but still has segments"]),
        ("UPDATE segments SET data=x'00' WHERE exchange_no=2", ["exchange e2: its segments hold 1 bytes, its reads"]),
        ("DELETE FROM exchanges WHERE no=2", ["a row of reads refers to a row of exchanges that is not there"]),
        ("UPDATE exchanges SET request_headers='{' WHERE no=1", ["exchange e1: exchanges.request_headers is text"]),
        ("UPDATE measures SET ttft_ns='soon'", ["exchange e1: measures.ttft_ns is text, not a number of nanoseconds"]),
        ("UPDATE reads SET size='x' WHERE exchange_no=1 AND seq=2", ["exchange e1: read 2 is damaged"]),
        ("UPDATE sessions SET listen=x'00'", ["session 1: sessions.listen is a blob of 1 bytes, not text"]),
    ],
)  # fmt: skip
def test_each_kind_of_damage_is_found_and_named(recorded: Path, statement: str, expected: list[str]) -> None:
    damage(recorded, statement)
    found = problems(recorded)
    for sentence in expected:
        assert any(one.startswith(sentence) for one in found), found
    assert bool(found) == bool(expected)
