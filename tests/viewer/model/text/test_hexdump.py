"""Bytes in rows."""

from viewer.model.text import hexdump
from viewer.model.text.hexdump import Dump, Piece


def rows(dumped: Dump) -> list[Piece]:
    return [dumped.piece(row) for row in range(len(dumped))]


def test_a_read_begins_a_row_and_says_so() -> None:
    assert rows(Dump(10, 40, 16, [0, 30], [4, 5])) == [
        Piece(10, 10, 4), Piece(10, 26), Piece(26, 30), Piece(30, 30, 5), Piece(30, 40),
    ]  # fmt: skip


def test_bytes_of_which_no_read_is_known_have_no_border() -> None:
    assert rows(Dump(0, 20, 16, [], [])) == [Piece(0, 16), Piece(16, 20)]
    assert rows(Dump(0, 0, 16, [], [])) == []


def test_each_byte_is_in_the_row_that_is_found_for_it() -> None:
    dumped = Dump(3, 100, 12, [0, 20, 21, 90], [0, 1, 2, 3])
    for offset in range(3, 100):
        piece = dumped.piece(dumped.row_of(offset))
        assert piece.start <= offset < piece.end


def test_lines_keep_what_ends_them() -> None:
    data = b"data: a\r\ndata: b\n\rrest"
    assert [data[piece.start : piece.end] for piece in hexdump.lines(data, 0, len(data))] == [
        b"data: a\r\n", b"data: b\n", b"\r", b"rest",
    ]  # fmt: skip


def test_long_lines_come_in_pieces() -> None:
    pieces = hexdump.lines(b"x" * 10_000, 0, 10_000)
    assert [piece.end - piece.start for piece in pieces] == [4096, 4096, 1808]


def test_bytes_are_printed_as_one_cell_each() -> None:
    assert hexdump.hexadecimal(b"\x1b]0;") == "1b 5d 30 3b"
    assert hexdump.printable(b"a\x1b\n\xff") == "a␛␊."
