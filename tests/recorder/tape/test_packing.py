"""Reads and gaps survive packing, in few bytes; damage is found and the remainder is kept."""

import sqlite3
import struct
from contextlib import closing
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.recorder.decode.exchange import Read, Reads
from wiretape.recorder.tape import packing, schema

TIMES = st.integers(-(1 << 50), 1 << 50)


def packed_gaps(gaps: list[int]) -> bytes:
    return struct.pack(f"<{len(gaps)}q", *gaps)


@given(st.lists(st.tuples(TIMES, st.none() | TIMES, st.integers(0, 1 << 20))))
def test_reads_are_what_they_were(drawn: list[tuple[int, int | None, int]]) -> None:
    position, reads = 0, []
    for seq, (at_ns, relayed_ns, size) in enumerate(drawn):
        reads.append(Read(seq, at_ns, relayed_ns, position, size))
        position += size
    packed = packing.pack(Reads.of(reads))
    assert list(packing.unpack(packed)) == reads == packing.intact(packed)


@given(st.lists(st.integers(0, (1 << 32) - 1)) | st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_gaps_are_what_they_were(gaps: list[int]) -> None:
    assert packing.unpack_gaps(packing.pack_gaps(packed_gaps(gaps))) == packed_gaps(gaps)


@pytest.mark.parametrize(("gap", "size"), [((1 << 32) - 1, 4), (1 << 32, 8), (-1, 8)])
def test_a_gap_takes_four_bytes_unless_one_is_long(gap: int, size: int) -> None:
    assert len(packing.pack_gaps(packed_gaps([0, 20_000_000, gap]))) == 1 + 3 * size


def test_reads_after_a_missing_one_keep_number_and_time() -> None:
    reads = [Read(0, 5, 7, 0, 10), Read(3, 9, None, 25, 1)]
    packed = packing.pack(Reads.of(reads))
    assert [packing.numbers_of(array) for array in packed[2:]] == [
        [5, None, None, 4],
        [2, None, None, None],
        [10, 15, 0, 1],
    ]
    assert packing.intact(packed) == reads
    with pytest.raises(ValueError, match="a number in its arrays is null"):
        packing.unpack(packed)


def test_a_timestamp_that_no_tape_can_have_is_refused() -> None:
    with pytest.raises(OverflowError):
        packing.packed(0, 0, [1 << 63], [None], [1])


def viewed(table: str, *rows: packing.Packed) -> list[tuple[int | None, ...]]:
    """Return the view `reads` of one exchange with these arrays, to a program that does not trust the schema."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA trusted_schema=OFF")
        for statement in schema.statements():
            connection.execute(statement)
        for seq, start, *arrays in rows:
            values = (1, 0, "", *arrays, b"") if table == "bodies" else (1, seq, start, *arrays, b"")
            connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        columns = "seq, at_ns, relayed_ns, start, size"
        return connection.execute(f"SELECT {columns} FROM reads WHERE exchange_no = 1 ORDER BY seq").fetchall()


@given(st.lists(st.tuples(TIMES, st.none() | TIMES, st.integers(0, 1 << 20)), max_size=70))
def test_the_view_has_the_reads_of_a_finished_exchange(drawn: list[tuple[int, int | None, int]]) -> None:
    position, reads = 0, []
    for seq, (at_ns, relayed_ns, size) in enumerate(drawn):
        reads.append(Read(seq, at_ns, relayed_ns, position, size))
        position += size
    assert viewed("bodies", packing.pack(Reads.of(reads))) == reads


def test_the_view_has_the_reads_of_an_open_exchange() -> None:
    first, next_one = packing.packed(0, 0, [5, 5], [7, None], [1, 2]), packing.packed(2, 3, [9], [9], [4])
    assert viewed("segments", first, next_one) == [(0, 5, 7, 0, 1), (1, 5, None, 1, 2), (2, 9, 9, 3, 4)]


def test_the_view_has_no_reads_without_timestamps() -> None:
    assert viewed("bodies", packing.untimed(9)) == viewed("bodies", packing.pack(Reads.of([]))) == []


def test_the_view_leaves_out_missing_reads() -> None:
    reads = [Read(0, 5, 7, 0, 10), Read(3, 9, None, 25, 1)]
    assert viewed("bodies", packing.pack(Reads.of(reads))) == reads


def test_reads_of_a_steady_stream_take_eight_bytes() -> None:
    random, at_ns, position, reads = Random(1), 400_000_000, 0, list[Read]()
    for seq in range(500):
        at_ns += 20_000_000 + round(random.gauss(0, 1_000_000))
        reads.append(Read(seq, at_ns, at_ns + random.randrange(20_000, 400_000), position, random.randrange(318, 330)))
        position += reads[-1].size
    assert sum(map(len, packing.pack(Reads.of(reads))[2:])) <= 8 * len(reads)


def test_many_arrays_of_gaps_are_unpacked_as_each_alone() -> None:
    numbers = [[1, 2, 3], [], [1 << 40, 5], [7], [(1 << 32) - 1, 0]]
    arrays = [packing.pack_gaps(b"".join(gap.to_bytes(8, "little") for gap in gaps)) for gaps in numbers]
    found = packing.unpack_all_gaps([None, *arrays, None])
    assert found == [None, *map(packing.unpack_gaps, arrays), None]
