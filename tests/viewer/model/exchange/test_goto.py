"""Where to go, as it is typed."""

from array import array

import pytest

from recorder.decode.derive import Decoded, decode
from recorder.decode.outcome import Exchange, Read
from tests.viewer.conftest import event
from viewer.model.exchange import goto
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.goto import Goal
from viewer.model.exchange.transcript import Transcript
from viewer.timing.playback import Playback

S = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("3.2s", Goal("instant", 3.2 * S)),
        (" 450 ms ", Goal("instant", 0.45 * S)),
        ("1m", Goal("instant", 60 * S)),
        ("50%", Goal("share", 0.5)),
        ("250 %", Goal("share", 1.0)),
        ("#120", Goal("event", 120)),
        ("+500ms", Goal("offset", 0.5 * S)),
        ("-1s", Goal("offset", -1 * S)),
        ("12:00:03.5", Goal("time_of_day", (12 * 3600 + 3.5) * S)),
        ("waits", Goal("words", words="waits")),
        ("5 apples", Goal("words", words="5 apples")),
        ("  ", None),
    ],
)
def test_what_is_typed_is_a_place(text: str, goal: Goal | None) -> None:
    assert goto.read(text) == goal


def spoken(*words: str) -> Transcript:
    body = b"".join(event({"content": word}) for word in words)
    facts = Exchange(200, "text/event-stream", None, "end", 0, 0, 1)
    decoded: Decoded = decode(facts, [Read(0, 1, None, 0, len(body))], body)
    return Transcript(decoded)


def test_words_are_found_where_they_have_just_been_said() -> None:
    transcript = spoken("the que", "ue waits", " for the", " QUEUE")
    assert goto.found(transcript, 0, "queue") == 2
    assert goto.found(transcript, 1, "queue") == 2
    assert goto.found(transcript, 2, "queue") == 4


def test_past_the_last_words_come_the_first_ones() -> None:
    transcript = spoken("one", " two", " one")
    assert [goto.found(transcript, at, "one") for at in (0, 1, 3)] == [1, 3, 1]


def test_a_place_is_an_instant_or_a_position() -> None:
    transcript = spoken("one", " two")
    playback = Playback([10, 20], 40, lambda: 0)
    playback.seek(1)
    places = {
        text: goto.place(goto.read(text) or Goal("event"), playback, transcript, Times())
        for text in ("1s", "+1ms", "50%", "#1")
    }
    assert places == {"1s": (S, None), "+1ms": (10 + S // 1000, None), "50%": (20, None), "#1": (0, 2)}
    assert goto.place(Goal("words", words="TWO"), playback, transcript, Times()) == (0, 2)
    assert goto.place(Goal("words", words="three"), playback, transcript, Times()) is None
    assert goto.place(Goal("event", 2), playback, transcript, Times()) is None


@pytest.mark.parametrize(
    ("times", "typed"),
    [
        (Times(), "2.551s"),
        (Times("first byte", S), "1.551s"),
        (Times("reference", None, "", 0, S), "1551ms"),
        (Times("wall", started_at="2026-03-01T23:59:58.500Z"), "0:00:01.051"),
        (Times("request", started_at="2026-03-01T23:59:58.500Z"), "00:00:01.051"),
    ],
)
def test_a_time_goes_to_the_event_that_is_displayed_at_it_whatever_the_clock(times: Times, typed: str) -> None:
    transcript = spoken("one", " two", " three")
    transcript.at[:] = array("q", (S, 2 * S, 2_551_400_000))
    playback = Playback(transcript.at, 3 * S, lambda: 0)
    assert goto.place(goto.read(typed) or Goal("event"), playback, transcript, times) == (0, 3)


def test_a_time_of_day_is_no_place_where_the_wall_time_is_not_known() -> None:
    assert goto.place(Goal("time_of_day", S), Playback([], 0, lambda: 0), spoken(), Times()) is None


def test_what_is_never_said_is_not_found() -> None:
    assert goto.found(spoken("a.b"), 0, "axb") is None


def test_looking_back_the_last_words_before_are_found_and_past_the_first_the_last() -> None:
    transcript = spoken("one", " two o", "ne", " one ONE")
    assert [goto.found(transcript, at, "one", back=True) for at in (0, 1, 2, 3, 4)] == [4, 4, 1, 1, 3]
    assert goto.found(transcript, 2, "three", back=True) is None


def test_looking_back_goes_where_looking_on_has_been() -> None:
    transcript = spoken("a", " b", " ab", "c", " ab a", " ba", " ab", "cab" * 3)
    on = [0]
    while len(on) < 20:
        on.append(goto.found(transcript, on[-1], "ab") or 0)
    back = [on[-1]]
    while len(back) < 19:
        back.append(goto.found(transcript, back[-1], "ab", back=True) or 0)
    assert back == on[:0:-1]


def test_looking_back_finds_words_wherever_long_texts_are_cut() -> None:
    text = "x" * 65_530 + "needle" + "x" * 65_530
    for more in range(20):
        assert goto.found(spoken(text + "x" * more, "end"), 2, "NEEDLE", back=True) == 1
