"""Frames of HTTP/2 in reads of any size."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.http2 import (
    CONTINUATION,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PREFACE,
    SETTINGS,
    frame,
)
from wiretape.recorder.relay.http2_frames import (
    BadFrame,
    Frame,
    FrameReader,
    GoAway,
    goaway,
    parse_goaway,
    with_settings,
)

PRIORITIZED = 0x20
COMPRESSION_ERROR, CALM = 9, 11


def frames_of(*reads: bytes, has_preface: bool = False) -> list[list[tuple[int | None, int, int, bytes]]]:
    """Return the frames of each read: kind, flags, stream and payload."""
    reader, found = FrameReader(has_preface=has_preface), []
    for data in reads:
        reader.feed(memoryview(data))
        frames = list(iter(reader.next, None))
        found.append([(item.kind, item.flags, item.stream, item.payload) for item in frames if item is not None])
    return found


def test_part_of_a_data_frame_belongs_to_its_read() -> None:
    data = frame(DATA, 5, b"abcdef", END_STREAM)
    assert frames_of(data[:11], data[11:13], data[13:]) == [
        [(DATA, 0, 5, b"ab")], [(DATA, 0, 5, b"cd")], [(DATA, END_STREAM, 5, b"ef")],
    ]  # fmt: skip


@pytest.mark.parametrize("data", [frame(HEADERS, 1, b"abc"), frame(DATA, 1, b"\1abc\0", PADDED), frame(DATA, 1, b"")])
def test_any_other_frame_waits_for_its_end(data: bytes) -> None:
    first, second = frames_of(data[:-1], data[-1:])
    assert first == []
    assert len(second) == 1


def test_the_preface_is_a_frame_of_no_kind() -> None:
    (first, second) = frames_of(PREFACE[:20], PREFACE[20:] + frame(HEADERS, 1, b"x"), has_preface=True)
    assert first == []
    assert [item[0] for item in second] == [None, HEADERS]


def test_an_oversized_frame_is_refused_by_its_head() -> None:
    with pytest.raises(BadFrame, match="16385"):
        frames_of(frame(DATA, 1, bytes(16385))[:9])


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_any_split_gives_the_same_bytes_and_ends(bodies: list[bytes], cuts: list[int]) -> None:
    sent = b"".join(frame(DATA, 2 * place + 1, body, END_STREAM) for place, body in enumerate(bodies))
    edges = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    picture = [item for part in frames_of(*(sent[a:b] for a, b in itertools.pairwise(edges))) for item in part]
    for place, body in enumerate(bodies):
        of = [item for item in picture if item[2] == 2 * place + 1]
        assert b"".join(payload for *_, payload in of) == body
        assert [flags for _, flags, *_ in of] == [0] * (len(of) - 1) + [END_STREAM]


def test_a_goaway_is_what_it_was_made_of() -> None:
    sent = goaway(GoAway(7, 11, b"why"))
    assert sent == frame(GOAWAY, 0, b"\0\0\0\7\0\0\0\x0bwhy")
    assert parse_goaway(sent[9:]) == GoAway(7, 11, b"why")
    with pytest.raises(BadFrame, match="4 bytes"):
        parse_goaway(b"\0\0\0\0")


UPDATES = [b"\x20", b"\x3f\xe1\x1f", b"\x3e"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_head_may_change_the_table_size_twice(count: int) -> None:
    block = b"".join(UPDATES[:count]) + b"\x82\x86"
    assert [payload for *_, payload in frames_of(frame(HEADERS, 1, block))[0]] == [block]


@pytest.mark.parametrize(
    "prefix", [(b"", 0), (b"\1", PADDED), (bytes(5), PRIORITIZED), (bytes(6), PADDED | PRIORITIZED)]
)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_head_that_keeps_changing_the_table_is_refused(prefix: tuple[bytes, int], size: int) -> None:
    block, (fields, flags) = b"".join(UPDATES) + b"\x20" * 100, prefix
    parts = [block[at : at + size] for at in range(0, len(block), size)]
    with pytest.raises(BadFrame, match="table") as caught:
        frames_of(frame(HEADERS, 1, fields + parts[0], flags), *(frame(CONTINUATION, 1, part) for part in parts[1:]))
    assert caught.value.code == COMPRESSION_ERROR


def test_a_head_is_no_larger_in_hpack_than_without() -> None:
    parts = [frame(CONTINUATION, 1, bytes(16_384))] * 3
    assert frames_of(frame(HEADERS, 1, bytes(16_384)), *parts, frame(HEADERS, 3, b"\x82"))
    with pytest.raises(BadFrame, match="65536") as caught:
        frames_of(frame(HEADERS, 1, bytes(16_384)), *parts, frame(CONTINUATION, 1, b"\x82"))
    assert caught.value.code == CALM


def test_unknown_settings_and_earlier_values_are_dropped() -> None:
    pairs = [(4, 1), (0x4A0A, 7), (3, 100), (4, 2)]
    received = Frame(SETTINGS, 0, 0, frame(SETTINGS, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs)))
    assert with_settings(received, {3, 4}).payload == struct.pack(">HIHI", 4, 2, 3, 100)
    for untouched in (frame(SETTINGS, 0, b"", 1), frame(SETTINGS, 0, b"odd")):
        assert with_settings(Frame(SETTINGS, untouched[4], 0, untouched), {3}).data == untouched
