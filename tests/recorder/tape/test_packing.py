"""Reads and gaps are on the tape what they were, in few bytes; what is damaged is found and the rest is kept."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.decode.outcome import Read, Reads
from recorder.tape import packing

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
def test_a_gap_takes_four_bytes_unless_one_beside_it_does_not_fit(gap: int, size: int) -> None:
    assert len(packing.pack_gaps(packed_gaps([0, 20_000_000, gap]))) == 1 + 3 * size


def test_a_missing_read_is_null_and_those_after_it_keep_their_number_time_and_place() -> None:
    reads = [Read(0, 5, 7, 0, 10), Read(3, 9, None, 25, 1)]
    packed = packing.pack(Reads.of(reads))
    assert tuple(map(packing.as_json, packed[2:])) == ("[5,null,null,4]", "[2,null,null,null]", "[10,15,0,1]")
    assert packing.intact(packed) == reads
    with pytest.raises(ValueError, match="a number in its arrays is null"):
        packing.unpack(packed)


def test_a_timestamp_that_no_tape_can_have_is_refused() -> None:
    with pytest.raises(OverflowError):
        packing.packed(0, 0, [1 << 63], [None], [1])
