"""Bytes in rows: as hex, and as text around an event with the reads that brought it."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wiretape.viewer.text import hexdump
from wiretape.viewer.text.hexdump import UNKNOWN, HexDump, HexRow, TextDump


def rows(dumped: HexDump) -> list[HexRow]:
    return [dumped.row(row) for row in range(len(dumped))]


def test_each_read_begins_with_its_border() -> None:
    assert rows(HexDump(10, 40, 16, [0, 30], [4, 5])) == [
        HexRow(10, 10, read=4), HexRow(10, 26), HexRow(26, 30), HexRow(30, 30, read=5), HexRow(30, 40),
    ]  # fmt: skip


def test_bytes_without_a_known_read_have_no_border() -> None:
    assert rows(HexDump(0, 20, 16, [], [])) == [HexRow(0, 16), HexRow(16, 20)]
    assert rows(HexDump(0, 0, 16, [], [])) == []


def test_row_of_finds_the_row_of_each_byte() -> None:
    dumped = HexDump(3, 100, 12, [0, 20, 21, 90], [0, 1, 2, 3])
    for offset in range(3, 100):
        piece = dumped.row(dumped.row_of(offset))
        assert piece.start <= offset < piece.end


def test_each_byte_is_printed_in_one_cell() -> None:
    assert hexdump.printable(b"a\x1b\n\xff") == "a␛␊."


DATA = b"data: a\r\n\r\ndata: b\r\n\r\ndata: c\r\n\r\n"


def texts(data: bytes, dump: TextDump) -> list[object]:
    """Return the rows: the number of a read, or the event's bytes, or in a list those of others."""
    texts_shown: list[object] = []
    for row in dump.rows:
        piece = data[row.start : row.end]
        texts_shown.append(row.read if row.read is not None else piece if row.is_of_event else [piece])
    return texts_shown


def test_event_is_shown_with_its_reads_and_their_neighbours() -> None:
    dump = TextDump(DATA, 11, 22, 80, [0, 5, 15, 25, 30], [0, 1, 2, 3, 4])
    assert texts(DATA, dump) == [
        0, [b"data:"],
        1, [b" a\r\n"], [b"\r\n"], b"data",
        2, b": b\r\n", b"\r\n", [b"dat"],
        3, [b"a: c\r"],
    ]  # fmt: skip
    assert dump.known_reads == (0, 3)


def test_event_within_one_read_is_marked_among_the_others() -> None:
    dump = TextDump(DATA, 11, 22, 80, [0], [7])
    assert texts(DATA, dump) == [
        7, [b"data: a\r\n"], [b"\r\n"], b"data: b\r\n", b"\r\n", [b"data: c\r\n"], [b"\r\n"],
    ]  # fmt: skip


def test_an_event_ending_with_its_read_stays_there() -> None:
    assert TextDump(DATA, 0, 11, 80, [0, 11, 22], [0, 1, 2]).known_reads == (0, 1)
    assert TextDump(DATA, 22, 33, 80, [0, 11, 22], [0, 1, 2]).known_reads == (1, 2)


def test_bytes_without_a_read_have_their_own_border() -> None:
    dump = TextDump(DATA, 11, 22, 80, [0, 11, 15], [UNKNOWN, 3, UNKNOWN])
    assert texts(DATA, dump) == [
        UNKNOWN, [b"data: a\r\n"], [b"\r\n"],
        3, b"data",
        UNKNOWN, b": b\r\n", b"\r\n", [b"data: c\r\n"], [b"\r\n"],
    ]  # fmt: skip
    assert dump.known_reads == (3, 3)


def test_no_border_for_zero_bytes_without_a_read() -> None:
    dump = TextDump(DATA[:11], 0, 11, 80, [0, 0, 11], [UNKNOWN, 0, 1])
    assert texts(DATA, dump) == [0, b"data: a\r\n", b"\r\n", 1]
    assert dump.known_reads == (0, 1)
    assert TextDump(DATA, 0, 11, 80, [0], [UNKNOWN]).known_reads is None


def test_event_without_known_reads_is_shown_alone() -> None:
    dump = TextDump(DATA, 11, 22, 80, [], [])
    assert (texts(DATA, dump), dump.known_reads) == ([b"data: b\r\n", b"\r\n"], None)
    assert TextDump(b"", 0, 0, 80, [], []).rows == []


def test_only_bytes_near_the_event_are_shown() -> None:
    data = b"x" * 5_000 + b"mine" + b"y" * 5_000
    dump = TextDump(data, 5_000, 5_004, 2_000, [0], [0])
    assert dump.rows == [
        HexRow(0, 0, read=0), HexRow(0, 3_976, left_out=True), HexRow(3_976, 5_000),
        HexRow(5_000, 5_004, is_of_event=True), HexRow(5_004, 6_028), HexRow(6_028, 10_004, left_out=True),
    ]  # fmt: skip


def test_long_lines_continue_in_the_next_row_between_characters() -> None:
    data = "naïve – 東京".encode()
    dump = TextDump(data, 0, len(data), 5, [0], [0])
    assert [data[row.start : row.end].decode() for row in dump.rows[1:]] == ["naïv", "e –", " 東", "京"]


def test_rows_are_bounded() -> None:
    dump = TextDump(b"\n" * (hexdump.MOST_ROWS + 5), 0, hexdump.MOST_ROWS + 5, 80, [], [])
    assert (len(dump), dump.is_whole) == (hexdump.MOST_ROWS, False)


def test_the_row_of_a_byte_is_found() -> None:
    dump = TextDump(DATA, 11, 22, 80, [0, 15], [0, 1])
    for offset in range(len(DATA)):
        row = dump.rows[dump.row_of(offset)]
        assert row.start <= offset < row.end


@given(
    st.binary(max_size=60),
    st.lists(st.integers(0, 60), max_size=6),
    st.tuples(st.integers(0, 60), st.integers(0, 60)),
    st.integers(1, 20),
)
def test_every_byte_of_an_event_is_in_one_row(
    data: bytes, cuts: Sequence[int], place: tuple[int, int], width: int
) -> None:
    start, end = sorted(min(position, len(data)) for position in place)
    borders = sorted({0, *(cut for cut in cuts if cut < len(data))}) if data else []
    dump = TextDump(data, start, end, width, borders, range(len(borders)))
    event_rows = [row for row in dump.rows if row.is_of_event]
    assert b"".join(data[row.start : row.end] for row in event_rows) == data[start:end]
    assert all(0 < row.end - row.start <= max(width, 4) for row in event_rows)
    rules = [row for row in dump.rows if row.read is None]
    assert all(previous.end <= following.start for previous, following in pairwise(rules))
