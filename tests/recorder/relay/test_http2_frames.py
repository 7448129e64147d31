"""Frames of HTTP/2 in reads of any size."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.http2 import DATA, END_STREAM, GOAWAY, HEADERS, PADDED, PREFACE, frame
from wiretape.recorder.relay.http2_frames import BadFrame, FrameReader, GoAway, goaway, parse_goaway


def read(*reads: bytes, has_preface: bool = False) -> list[list[tuple[int | None, int, int, bytes]]]:
    """Return the frames of each read: kind, flags, stream and payload."""
    reader, found = FrameReader(has_preface=has_preface), []
    for data in reads:
        reader.feed(memoryview(data))
        frames = list(iter(reader.next, None))
        found.append([(one.kind, one.flags, one.stream, one.payload) for one in frames if one is not None])
    return found


def test_a_part_of_a_data_frame_is_a_frame_of_its_read() -> None:
    whole = frame(DATA, 5, b"abcdef", END_STREAM)
    assert read(whole[:11], whole[11:13], whole[13:]) == [
        [(DATA, 0, 5, b"ab")], [(DATA, 0, 5, b"cd")], [(DATA, END_STREAM, 5, b"ef")],
    ]  # fmt: skip


@pytest.mark.parametrize("whole", [frame(HEADERS, 1, b"abc"), frame(DATA, 1, b"\1abc\0", PADDED), frame(DATA, 1, b"")])
def test_any_other_frame_waits_for_its_end(whole: bytes) -> None:
    first, second = read(whole[:-1], whole[-1:])
    assert first == []
    assert len(second) == 1


def test_the_preface_is_a_frame_of_no_kind() -> None:
    (first, second) = read(PREFACE[:20], PREFACE[20:] + frame(HEADERS, 1, b"x"), has_preface=True)
    assert first == []
    assert [one[0] for one in second] == [None, HEADERS]


def test_a_frame_larger_than_allowed_is_refused_by_its_head_alone() -> None:
    with pytest.raises(BadFrame, match="16385"):
        read(frame(DATA, 1, bytes(16385))[:9])


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_any_split_gives_the_same_bytes_and_ends(bodies: list[bytes], cuts: list[int]) -> None:
    sent = b"".join(frame(DATA, 2 * place + 1, body, END_STREAM) for place, body in enumerate(bodies))
    edges = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    found = [one for part in read(*(sent[a:b] for a, b in itertools.pairwise(edges))) for one in part]
    for place, body in enumerate(bodies):
        of = [one for one in found if one[2] == 2 * place + 1]
        assert b"".join(payload for *_, payload in of) == body
        assert [flags for _, flags, *_ in of] == [0] * (len(of) - 1) + [END_STREAM]


def test_a_goaway_is_what_it_was_made_of() -> None:
    sent = goaway(GoAway(7, 11, b"why"))
    assert sent == frame(GOAWAY, 0, b"\0\0\0\7\0\0\0\x0bwhy")
    assert parse_goaway(sent[9:]) == GoAway(7, 11, b"why")
    with pytest.raises(ValueError, match="4 bytes"):
        parse_goaway(b"\0\0\0\0")
