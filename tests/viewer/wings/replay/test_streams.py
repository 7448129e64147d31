"""The states of an answer that may be held, and the places it is held at."""

import pytest

from wiretape.recorder.relay.states import IllegalStep
from wiretape.viewer.wings.replay.positions import HEAD, Places, parse
from wiretape.viewer.wings.replay.streams import SILENCE_NS, STREAM, ControlError, Hold, Stream, StreamState

SPANS = [(0, 10), (10, 25), (25, 30)]


def places(silence: int | None = None) -> Places:
    return Places(30, lambda: SPANS, silence)


def sending(place: int = 0) -> Stream:
    stream = Stream()
    assert not stream.wrote(place, 1)
    return stream


@pytest.mark.parametrize(
    ("text", "place"),
    [("head", HEAD), ("#0", 0), ("#2", 25), ("#3", None), ("50%", 15), ("100%", 30), ("stall", 25), ("end", 30)],
)
def test_a_position_is_a_place_in_the_body(text: str, place: int | None) -> None:
    assert places(25).place(parse(text)) == place


def test_an_answer_without_a_silence_has_no_stall() -> None:
    assert places().place(parse("stall")) is None


def test_places_of_a_websocket_are_between_frames() -> None:
    framed = Places(30, lambda: SPANS, None, [0, 12, 30])
    assert [framed.place(parse(text)) for text in ("head", "#0", "#1", "50%", "end")] == [HEAD, 0, 12, 30, 30]
    assert framed.behind(0, 1) == 12


@pytest.mark.parametrize("text", ["", "3", "#", "50", "101%", "Head", "#-1", "stall:5s", "#1 "])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no position: use #120"):
        parse(text)


def test_the_next_event_is_counted_by_whole_events() -> None:
    assert [places().event(place) for place in (HEAD, 0, 9, 10, 29, 30)] == [0, 0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("place", "count", "behind"), [(HEAD, 1, 10), (0, 1, 10), (10, 1, 25), (15, 1, 25), (0, 2, 25), (25, 1, None)]
)
def test_a_step_ends_behind_whole_events(place: int, count: int, behind: int | None) -> None:
    assert places().behind(place, count) == behind


def test_a_stream_is_held_once_written_to_its_place() -> None:
    stream = Stream()
    stream.add(Hold(10), 1)
    assert (stream.state, stream.limit(8), stream.limit(30)) == (StreamState.WAITING, 8, 10)
    assert not stream.wrote(8, 2)
    assert stream.state is StreamState.SENDING
    assert stream.wrote(10, 3, SILENCE_NS)
    assert (stream.state, stream.held_ns, stream.limit(30)) == (StreamState.HELD, 3, 30)


def test_a_silence_to_come_is_a_stall() -> None:
    stream = sending()
    stream.wrote(10, 2, SILENCE_NS)
    assert stream.state is StreamState.STALLED
    stream.wrote(25, 3, SILENCE_NS - 1)
    assert stream.state is StreamState.SENDING


@pytest.mark.parametrize(("place", "state"), [(HEAD, StreamState.WAITING), (0, StreamState.SENDING)])
def test_a_released_stream_goes_on_to_its_next_hold(place: int, state: StreamState) -> None:
    stream = Stream() if place == HEAD else sending()
    stream.add(Hold(place), 1)
    assert stream.is_held
    stream.add(Hold(place), 2)  # held already
    stream.add(Hold(25), 2)
    stream.release()
    assert (stream.state, stream.held_ns) == (state, None)
    assert stream.wrote(25, 3)


def test_only_a_hold_of_control_is_limited() -> None:
    for holds, is_limited in (([False], False), ([True], True), ([False, True], True)):
        stream = sending()
        for limit in holds:
            stream.add(Hold(10, limit), 1)
        stream.wrote(10, 2)
        assert stream.is_limited == is_limited


@pytest.mark.parametrize("ending", ["end", "close", "reset", "garbage", "client", "stopped", "relayed", "refused"])
def test_nothing_follows_the_end_of_a_stream(ending: str) -> None:
    for stream in (Stream(), sending()):
        stream.end(ending)
        assert stream.is_over
        with pytest.raises(ControlError, match="is over") as raised:
            stream.require()
        assert raised.value.code == "over"
        with pytest.raises(IllegalStep):
            stream.end("end")


def test_only_a_held_stream_can_be_released() -> None:
    with pytest.raises(ControlError) as raised:
        sending().require(is_held=True)
    assert raised.value.code == "not_held"


def test_a_held_stream_ends_or_is_released() -> None:
    steps = {event for state, event in STREAM if state is StreamState.HELD}
    assert not steps & {"hold", "write", "stall"}
    assert "release" in steps
