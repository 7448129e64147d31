import gzip
import itertools
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from recorder.decode import encoding
from recorder.decode.encoding import Cleaner, is_utf8, plain, spans
from tests.cases import each_case

TEXT = b"data: hello\n\n" * 50


def raw_deflate(data):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


@each_case(
    ("coding", "body"),
    [
        (None, TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("X-GZIP ", gzip.compress(TEXT, mtime=0)),
        ("gzip", gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
    ],
)
def test_a_coding_is_undone_however_it_was_cut(coding, body):
    for step in (1, 7, len(body)):
        ends = [*range(step, len(body), step), len(body)]
        assert plain(coding, body, ends).data == TEXT
        assert plain(coding, body, ends).flag is None


def test_each_decoded_byte_keeps_its_span():
    compressor = zlib.compressobj(wbits=31)
    pieces = [compressor.compress(word) + compressor.flush(zlib.Z_SYNC_FLUSH) for word in (b"one", b"three", b"five")]
    ends = list(itertools.accumulate(map(len, pieces)))
    assert plain("gzip", b"".join(pieces), ends).ends == [3, 8, 12]


@each_case("coding", ["br", "zstd", "gzip, br", "x"])
def test_an_unknown_coding_is_left(coding):
    assert plain(coding, b"abc", [3]) == encoding.Plain(b"", [0], "undecoded")


def test_a_broken_coding_keeps_what_came_before():
    body = gzip.compress(TEXT)
    assert plain("gzip", body[:-4] + b"zzzz", [len(body)]).flag == "undecoded"
    half = plain("gzip", gzip.compress(TEXT) + b"garbage", [len(body) + 7])
    assert (half.data, half.flag) == (TEXT, "undecoded")


def test_a_cut_body_is_no_broken_one():
    body = gzip.compress(TEXT)[:-9]
    assert plain("gzip", body, [len(body)]).flag is None


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bomb_stops_at_the_ratio(coding):
    body = (gzip.compress if coding == "gzip" else zlib.compress)(bytes(50 << 20))
    found = plain(coding, body, [len(body)])
    assert found.flag == "decode_limit"
    assert 1 << 20 <= len(found.data) <= max(1 << 20, 100 * len(body))


def test_endless_empty_members_stop():
    body = gzip.compress(b"") * 20_000
    assert plain("gzip", body, [len(body)]).flag == "decode_limit"


@each_case(
    ("parts", "size", "expected"),
    [
        ([], 0, ([], [])),
        ([], 5, ([5], [-1])),
        ([(0, 3), (3, 2)], 5, ([3, 5], [0, 1])),
        ([(0, 3), (3, 0), (3, 2)], 5, ([3, 5], [0, 2])),
        ([(0, 3)], 5, ([3, 5], [0, -1])),
        ([(0, 3), (3, 9), (12, 4)], 5, ([3, 5], [0, 1])),
        ([(2, 2)], 5, ([2, 4, 5], [-1, 0, -1])),
        ([(9, 2)], 5, ([5], [-1])),
    ],
)
def test_spans_cover_the_body_exactly(parts, size, expected):
    ends, places = spans([start for start, _ in parts], [length for _, length in parts], size)
    assert (list(ends), list(places)) == expected


@each_case(
    ("text", "clean", "changed"),
    [
        ("plain é €", "plain é €", False),
        ("\ud83d\ude00", "\U0001f600", False),
        ("a\ud83d", "a\ufffd", True),
        ("\ude00\ud83d", "\ufffd\ufffd", True),
        ("a\0b", "a\ufffdb", True),
        ("\ufffd", "\ufffd", False),
        ("\ufffdx\ud83d", "\ufffdx\ufffd", True),
    ],
)
def test_text_becomes_storable(text, clean, changed):
    cleaner = Cleaner()
    assert cleaner.text(text) == clean
    assert cleaner.changed is changed


def test_values_become_storable():
    deep: list = []
    for _ in range(900):
        deep = [deep]
    found = Cleaner().value({"a\0": [1, 1.5, float("nan"), float("inf"), 1 << 64, True, None, "\ud800"], "deep": deep})
    assert found["a\ufffd"] == [1, 1.5, None, None, None, True, None, "\ufffd"]
    assert str(found["deep"]).count("[") == 31


@each_case(
    ("data", "valid"),
    [("é€".encode(), True), (b"a\xe2\x82", True), (b"\xff", False), (b"\xe2\x82a", False), (b"", True)],
)
def test_a_cut_character_is_valid(data, valid):
    assert is_utf8(data) is valid


def test_a_stored_body_is_unpacked_to_the_size_that_it_is_said_to_have() -> None:
    for body in (b"", b"x", TEXT * 1000):
        assert encoding.unpack(zlib.compress(body), len(body)) == body


@each_case(
    ("packed", "size", "why"),
    [
        (zlib.compress(b"abc"), 2, "does not hold the 2 bytes"),
        (zlib.compress(b"abc"), 4, "does not hold the 4 bytes"),
        (zlib.compress(b"abc")[:-1], 3, "does not hold"),
        (b"no zlib", 3, "incorrect header"),
        (zlib.compress(b"abc"), -1, "are said to hold -1"),
        (zlib.compress(b"abc"), 2**63 - 1, "are said to hold"),
        (zlib.compress(b"abc"), 300 << 20, "are said to hold"),
    ],
)
def test_a_stored_body_that_is_not_what_it_is_said_to_be_is_refused(packed: bytes, size: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        encoding.unpack(packed, size)


@pytest.mark.parametrize("size", [100, 2 << 30])
def test_a_stored_body_that_inflates_without_end_takes_no_memory(size: int) -> None:
    packed = b"".join(inflating(32 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="bytes"):
            encoding.unpack(packed, size)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def inflating(size: int) -> Iterator[bytes]:
    packer, piece = zlib.compressobj(9), bytes(1 << 20)
    yield from (packer.compress(piece) for _ in range(size >> 20))
    yield packer.flush()
