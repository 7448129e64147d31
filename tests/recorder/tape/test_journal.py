import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.frames import AT, SESSION, exchange, upload
from wiretape.recorder.tape import journal

FRAMES = [
    journal.Relay("wiretape record (pid 1)", is_worker=True, newest_no=7),
    SESSION,
    journal.Keep(3600.0, 10**9),
    *exchange("e1"),
    *upload("e2", [b"1", b"23"]),
    journal.Heartbeat(AT),
    journal.Close(AT),
    journal.Left(),
]
BYTES = b"".join(journal.encode(seq, frame) for seq, frame in enumerate(FRAMES))


def test_each_kind_of_frame_comes_back_as_it_was() -> None:
    assert list(journal.decode(bytearray(BYTES))) == list(enumerate(FRAMES))
    assert {type(frame) for frame in FRAMES} == set(journal.Frame.__args__) - {journal.Entries}


def test_gathered_entries_come_back_under_one_number() -> None:
    entries = exchange("e1")
    data = journal.encode(7, journal.Entries(entries)) + journal.encode(8, journal.Heartbeat(AT))
    assert list(journal.decode(bytearray(data))) == [*((7, entry) for entry in entries), (8, journal.Heartbeat(AT))]


@given(st.lists(st.integers(0, len(BYTES)), max_size=8))
def test_frames_survive_any_cutting_of_the_pipe(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(BYTES)]
    buffer, frames = bytearray(), []
    for start, stop in itertools.pairwise(edges):
        buffer += BYTES[start:stop]
        frames += journal.decode(buffer)
    assert frames == list(enumerate(FRAMES))
    assert not buffer


def test_half_a_frame_waits_for_the_next_piece() -> None:
    complete, cut = journal.encode(1, FRAMES[1]), journal.encode(2, FRAMES[2])[:-1]
    buffer = bytearray(complete + cut)
    assert list(journal.decode(buffer)) == [(1, FRAMES[1])]
    assert buffer == cut


def test_frames_not_yet_taken_stay_in_the_buffer() -> None:
    buffer = bytearray(BYTES)
    frames = journal.decode(buffer)
    next(frames)
    frames.close()
    assert list(journal.decode(buffer)) == list(enumerate(FRAMES))[1:]


def test_a_frame_that_is_none_is_refused() -> None:
    garbage = journal.encode(1, *exchange("e1")[:1]).replace(b"begin", b"bogus")
    with pytest.raises(msgspec.ValidationError):
        list(journal.decode(bytearray(garbage)))


@pytest.mark.parametrize(
    "answer",
    [
        journal.Ready("tape.db", ["a\nwarning"]),
        journal.Ack(7, [journal.Finished("e1", "POST", "/", "m", 200, "complete", None, 1, 2.5, 3, 4, 5, ["stall"])]),
        journal.Trouble("database or disk is full\n"),
        journal.Fatal(6, "taken"),
    ],
)
def test_an_answer_is_one_line_and_decodes_unchanged(answer: journal.Answer) -> None:
    line = journal.encode_answer(answer)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert journal.decode_answer(line) == answer
