"""The places of a stream to go to: its markers, and positions as they are typed."""

from array import array

import pytest

from tests.support.cases import each_case
from tests.support.sample_tape import COMPLETE, FAILED, MS, TOOLS, event
from wiretape.recorder.decode.derive import Decoded, decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import markers
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.markers import Goal, Marker
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.source.tape import queries
from wiretape.viewer.timing.playback import Playback


@pytest.fixture
def tools(connection: Connection) -> Transcript:
    return Transcript(queries.observed(connection, queries.find(connection, TOOLS))[2])


@pytest.fixture
def complete(connection: Connection) -> Transcript:
    return Transcript(queries.observed(connection, queries.find(connection, COMPLETE))[2])


def test_markers_stand_in_their_order(tools: Transcript) -> None:
    found_markers = markers.markers(tools, 50 * MS, [3050 * MS])
    assert [(marker.sign, marker.position) for marker in found_markers] == [
        ("B", 1),
        ("R", 1),
        ("T", 2),
        ("S", 2),
        ("D", 5),
    ]
    assert found_markers[3].at_ns == 3050 * MS


def test_errors_have_a_marker(connection: Connection) -> None:
    failed = Transcript(queries.observed(connection, queries.find(connection, FAILED))[2])
    assert [(marker.sign, marker.position) for marker in markers.markers(failed, None)] == [("C", 1), ("E", 2)]


def test_a_stream_without_events_has_no_markers() -> None:
    assert markers.markers(Transcript.of_texts({}), 5) == []


def test_past_the_last_marker_comes_the_first_one() -> None:
    stalls = [Marker("C", 2, 0), Marker("S", 4, 0), Marker("S", 9, 0)]
    found_markers = [markers.beyond(stalls, at, "S") for at in (0, 4, 9)]
    assert [marker.position for marker in found_markers if marker is not None] == [4, 9, 4]
    assert markers.beyond(stalls, 2, "E") is None


def test_the_first_event_of_a_kind(tools: Transcript) -> None:
    assert (markers.position_of_kind(tools, "tool"), markers.position_of_kind(tools, "content")) == (2, None)


def test_missing_markers_in_words() -> None:
    assert [markers.missing(sign) for sign in "ES"] == ["no error and no unreadable event here", "no stall here"]


S = 1_000_000_000


@each_case(
    ("text", "goal"),
    [
        ("3.2s", Goal("instant", 3.2 * S)),
        (" 450 ms ", Goal("instant", 0.45 * S)),
        ("1m", Goal("instant", 60 * S)),
        ("50%", Goal("share", 0.5)),
        ("250 %", Goal("share", 1.0)),
        ("-10%", Goal("step", -0.1)),
        ("@tool", Goal("first", words="tool")),
        ("@someone", Goal("words", words="@someone")),
        ("#120", Goal("event", 120)),
        ("+500ms", Goal("offset", 0.5 * S)),
        ("-1s", Goal("offset", -1 * S)),
        ("30:36.755", Goal("instant", 1836.755 * S)),
        ("12:00:03.5", Goal("time_of_day", (12 * 3600 + 3.5) * S)),
        ("waits", Goal("words", words="waits")),
        ("5 apples", Goal("words", words="5 apples")),
        ("  ", None),
    ],
)
def test_typed_positions_are_parsed(text: str, goal: Goal | None) -> None:
    assert markers.parse_goal(text) == goal


def spoken(*words: str) -> Transcript:
    body = b"".join(event({"content": word}) for word in words)
    facts = Exchange(
        status=200, content_type="text/event-stream", ended_by="end", connected_ns=0, headers_ns=0, end_ns=1
    )
    decoded: Decoded = decode(facts, [Read(0, 1, None, 0, len(body))], body)
    return Transcript(decoded)


def test_words_are_found_where_they_are_complete() -> None:
    transcript = spoken("the que", "ue waits", " for the", " QUEUE")
    assert markers.position_of_words(transcript, 0, "queue") == 2
    assert markers.position_of_words(transcript, 1, "queue") == 2
    assert markers.position_of_words(transcript, 2, "queue") == 4


def test_search_wraps_around() -> None:
    transcript = spoken("one", " two", " one")
    assert [markers.position_of_words(transcript, at, "one") for at in (0, 1, 3)] == [1, 3, 1]


def test_goals_lead_to_a_timestamp_or_a_position() -> None:
    transcript = spoken("one", " two")
    playback = Playback([10, 20], 40, lambda: 0)
    playback.seek(1)
    places = {
        text: markers.place(markers.parse_goal(text) or Goal("event"), playback, transcript, Times())
        for text in ("1s", "+1ms", "50%", "+25%", "#1", "@content", "@error")
    }
    assert places == {
        "1s": (S, None), "+1ms": (10 + S // 1000, None), "50%": (20, None), "+25%": (20, None), "#1": (0, 2),
        "@content": (0, 1), "@error": None,
    }  # fmt: skip
    assert markers.place(Goal("words", words="TWO"), playback, transcript, Times()) == (0, 2)
    assert markers.place(Goal("words", words="three"), playback, transcript, Times()) is None
    assert markers.place(Goal("event", 2), playback, transcript, Times()) is None


@each_case(
    ("times", "typed"),
    [
        (Times(), "2.551s"),
        (Times("wall", started_at="2026-03-01T23:59:58.500Z"), "0:00:01.051"),
        (Times("request", started_at="2026-03-01T23:59:58.500Z"), "00:00:01.051"),
    ],
)
def test_typed_time_goes_to_the_event_displayed_at_it(times: Times, typed: str) -> None:
    transcript = spoken("one", " two", " three")
    transcript.at[:] = array("q", (S, 2 * S, 2_551_400_000))
    playback = Playback(transcript.at, 3 * S, lambda: 0)
    assert markers.place(markers.parse_goal(typed) or Goal("event"), playback, transcript, times) == (0, 3)


def test_time_of_day_needs_a_known_wall_time() -> None:
    assert markers.place(Goal("time_of_day", S), Playback([], 0, lambda: 0), spoken(), Times()) is None


def test_absent_words_are_not_found() -> None:
    assert markers.position_of_words(spoken("a.b"), 0, "axb") is None


def test_backward_search_wraps_around() -> None:
    transcript = spoken("one", " two o", "ne", " one ONE")
    assert [markers.position_of_words(transcript, at, "one", back=True) for at in (0, 1, 2, 3, 4)] == [4, 4, 1, 1, 3]
    assert markers.position_of_words(transcript, 2, "three", back=True) is None


def test_backward_search_mirrors_forward_search() -> None:
    transcript = spoken("a", " b", " ab", "c", " ab a", " ba", " ab", "cab" * 3)
    on = [0]
    while len(on) < 20:
        on.append(markers.position_of_words(transcript, on[-1], "ab") or 0)
    back = [on[-1]]
    while len(back) < 19:
        back.append(markers.position_of_words(transcript, back[-1], "ab", back=True) or 0)
    assert back == on[:0:-1]


def test_backward_search_finds_words_in_long_texts() -> None:
    text = "x" * 65_530 + "needle" + "x" * 65_530
    for more in range(20):
        assert markers.position_of_words(spoken(text + "x" * more, "end"), 2, "NEEDLE", back=True) == 1
