import gzip
import itertools
import tracemalloc
import zlib
from collections.abc import Iterator, Sequence

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.compressors import COMPRESS, by_brotli, by_zlib, by_zstd, zstd
from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.encoding import Cleaner, is_utf8, plain, spans

TEXT = b"data: hello\n\n" * 50
SKIPPABLE = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
"""A frame of Zstandard that says nothing."""


def raw_deflate(data):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


CODINGS = [*COMPRESS]


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
        ("BR", brotli.compress(TEXT)),
        (" Zstd", zstd.compress(TEXT)),
        ("zstd", SKIPPABLE + zstd.compress(TEXT[:100]) + SKIPPABLE + zstd.compress(TEXT[100:]) + SKIPPABLE),
        ("gzip, br", brotli.compress(gzip.compress(TEXT, mtime=0))),
        ("br,Identity, , zstd", zstd.compress(brotli.compress(TEXT))),
        (", ".join(CODINGS), b"".join(by_zstd(by_brotli(by_zlib(15, [gzip.compress(TEXT)], True), True), True))),
    ],
)
def test_a_coding_is_undone_however_it_was_cut(coding, body):
    for step in (1, 7, len(body)):
        ends = [*range(step, len(body), step), len(body)]
        assert plain(coding, body, ends).data == TEXT
        assert plain(coding, body, ends).flag is None


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.sampled_from([*zip(CODINGS), ("gzip", "br"), ("br", "zstd")]),
    st.lists(st.sampled_from([0, 1, 40, 90_000]), max_size=9),  # the last is more than is decoded in one piece
    st.booleans(),
    st.lists(st.integers(1, 1 << 20), max_size=6),
)
def test_a_body_is_decoded_as_far_as_each_read(codings, sizes, flushed, cuts):
    events: Sequence[bytes] = [b"%d" % number * size for number, size in enumerate(sizes)]
    text, pieces = b"".join(events), events
    for coding in codings:
        pieces = COMPRESS[coding](pieces, flushed)
    body, last_bytes = b"".join(pieces), [*itertools.accumulate(map(len, pieces))][: len(events)]
    ends = sorted({*last_bytes, *(1 + cut % len(body) for cut in cuts), len(body)})
    decoded = plain(", ".join(codings), body, ends)
    assert (decoded.data, decoded.flag) == (text, None)
    size_at = dict(zip(ends, decoded.ends, strict=True))
    for end, size in size_at.items():
        assert plain(", ".join(codings), body[:end], [end]).data == text[:size]
    if flushed:
        assert [size_at[end] for end in last_bytes] == [*itertools.accumulate(map(len, events))]


@each_case("coding", ["x", "compress", "dcb", "gzip, x", "x, gzip", "br, br, br, br, br, br"])
def test_an_unknown_coding_is_left(coding):
    assert plain(coding, b"abc", [3]) == encoding.Plain(b"", [0], "undecoded")


@each_case("coding", CODINGS)
def test_a_broken_coding_keeps_what_came_before(coding):
    *pieces, ending = COMPRESS[coding]([TEXT, b"more"], True)
    garbage = b"\xff" * 7
    garbled = b"".join(pieces) + ending + garbage
    assert plain(coding, garbled, [1, len(garbled)]) == encoding.Plain(TEXT + b"more", [0, len(TEXT) + 4], "undecoded")
    half = pieces[0] + garbage + ending
    decoded = plain(coding, half, [len(half)])
    assert (decoded.data[: len(TEXT)], decoded.flag) == (TEXT, "undecoded")
    nested = brotli.compress(garbled)
    assert plain(f"{coding}, br", nested, [len(nested)]) == encoding.Plain(TEXT + b"more", [len(TEXT) + 4], "undecoded")


def test_a_window_larger_than_clients_must_keep_stays_undecoded():
    body = zstd.compress(bytes(9 << 20), options={zstd.CompressionParameter.window_log: 24})
    assert plain("zstd", body, [len(body)]) == encoding.Plain(b"", [0], "undecoded")


@each_case("coding", CODINGS)
def test_a_cut_body_is_no_broken_one(coding):
    body = b"".join(COMPRESS[coding]([TEXT], True))[:-1]
    assert plain(coding, body, [len(body)]) == encoding.Plain(TEXT, [len(TEXT)])


@each_case("codings", [*zip(CODINGS), ("gzip", "br"), ("br", "zstd"), ("zstd", "gzip"), ("gzip", "gzip", "gzip")])
def test_a_bomb_stops_at_the_ratio_without_memory(codings):
    pieces: Sequence[bytes] = [bytes(1 << 20)] * 50
    for coding in codings:
        pieces = COMPRESS[coding](pieces, False)
    body = b"".join(pieces)
    tracemalloc.start()
    decoded = plain(", ".join(codings), body, [len(body)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    most = max(1 << 20, 100 * len(body))
    assert (decoded.flag, peak < 3 * most) == ("decode_limit", True)
    assert len(decoded.data) <= most


@each_case(("coding", "member"), [("gzip", gzip.compress(b"")), ("zstd", SKIPPABLE), ("zstd", zstd.compress(b""))])
def test_endless_empty_members_stop(coding, member):
    body = member * 20_000
    assert plain(coding, body, [len(body)]).flag == "decode_limit"


def test_several_header_fields_are_one_list() -> None:
    headers = [["content-encoding", "gzip"], ["x", "y"], ["content-encoding", "br"]]
    assert encoding.coding_of(headers) == "gzip, br"
    assert encoding.coding_of([["x", "y"]]) is None


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
    cleaned = Cleaner().value(
        {"a\0": [1, 1.5, float("nan"), float("inf"), 1 << 64, True, None, "\ud800"], "deep": deep}
    )
    assert cleaned["a\ufffd"] == [1, 1.5, None, None, None, True, None, "\ufffd"]
    assert str(cleaned["deep"]).count("[") == 31


@each_case(
    ("data", "valid"),
    [("é€".encode(), True), (b"a\xe2\x82", True), (b"\xff", False), (b"\xe2\x82a", False), (b"", True)],
)
def test_a_cut_character_is_valid(data, valid):
    assert is_utf8(data) is valid


def test_a_stored_body_is_unpacked_to_its_stated_size() -> None:
    for body in (b"", b"x", TEXT * 1000):
        assert encoding.unpack(zlib.compress(body), len(body)) == body


@each_case(
    ("packed", "size", "why"),
    [
        (zlib.compress(b"abc"), 2, "does not hold the 2 bytes"),
        (zlib.compress(b"abc"), 4, "does not hold the 4 bytes"),
        (zlib.compress(b"abc")[:-1], 3, "does not hold"),
        (b"no zlib", 3, "incorrect header"),
        (zlib.compress(b"abc"), -1, "claim to hold -1"),
        (zlib.compress(b"abc"), 2**63 - 1, "claim to hold"),
        (zlib.compress(b"abc"), 300 << 20, "claim to hold"),
    ],
)
def test_a_stored_body_of_other_size_is_refused(packed: bytes, size: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        encoding.unpack(packed, size)


@pytest.mark.parametrize("size", [100, 2 << 30])
def test_an_endlessly_inflating_stored_body_takes_no_memory(size: int) -> None:
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


def coded(body: bytes, *codings: str) -> bytes:
    for coding in codings:
        body = gzip.compress(body, mtime=0) if coding == "gzip" else zstd.compress(body)
    return body


@pytest.mark.parametrize(
    ("header", "codings"),
    [
        ("gzip", ()), ("deflate", ()), ("br", ()), ("zstd", ()), ("utf-8", ()), ("gzip, gzip", ("gzip",)),
        ("zstd", ("gzip",)), ("gzip", ("zstd",)), (None, ("gzip",)), (None, ("zstd",)), ("gzip", ("gzip", "gzip")),
        ("br", ("gzip",)), ("aws-chunked", ("gzip",)),
    ],
)  # fmt: skip
def test_a_body_is_decoded_whatever_its_header_says(header: str | None, codings: tuple[str, ...]) -> None:
    text = b'data: {"part": 1}\n\n' * 9
    body = coded(text, *codings)
    decoded, is_wrong = encoding.detect_and_decode(header, body, (len(body),))
    assert (decoded.data, decoded.flag, is_wrong) == (text, None, True)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (None, b"data: x"), ("gzip", coded(b"data: x", "gzip")), ("gzip", b""), ("gzip", b"\xff\xfe\x00\x01"),
        (None, coded(b"\x00\x01binary", "gzip")), ("gzip", coded(b"data: x" * 99, "gzip")[:-9] + b"\xff" * 40),
    ],
)  # fmt: skip
def test_a_content_encoding_holds_unless_the_body_is_text(header: str | None, body: bytes) -> None:
    decoded, is_wrong = encoding.detect_and_decode(header, body, (len(body),))
    assert not is_wrong
    assert decoded == encoding.plain(header, body, (len(body),))
