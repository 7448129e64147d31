"""The playhead, on a clock that stands still until it is moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.viewer.timing.playback import SPEEDS, Playback

MS = 1_000_000
AT = [100 * MS, 110 * MS, 110 * MS, 3_110 * MS, 3_120 * MS]
END = 3_200 * MS


class Watch:
    """A clock that is moved by hand, in ns."""

    def __init__(self) -> None:
        self.ns = 5_000_000_000

    def now(self) -> int:
        return self.ns


def playback_of(at: list[int] = AT, end: int = END) -> tuple[Playback, Watch]:
    watch = Watch()
    return Playback(at, end, watch.now), watch


def test_an_event_comes_at_its_timestamp_and_not_before() -> None:
    playback, watch = playback_of()
    playback.play()
    watch.ns += 100 * MS - 1
    assert (playback.advance(), playback.position) == (0, 0)
    watch.ns += 1
    assert (playback.advance(), playback.media_ns) == (1, 100 * MS)


def test_events_of_one_timestamp_come_together() -> None:
    playback, watch = playback_of()
    playback.play()
    watch.ns += 110 * MS
    assert playback.advance() == 3


def test_lateness_does_not_add_up() -> None:
    playback, watch = playback_of()
    started = watch.ns
    playback.play()
    for at in AT:
        assert playback.deadline() == started + at or at == AT[2]
        watch.ns = started + at + 7 * MS  # every wake-up is late
        playback.advance()
    assert playback.deadline() == started + END


def test_speed_scales_what_is_left_and_not_what_was() -> None:
    playback, watch = playback_of()
    playback.play()
    watch.ns += 50 * MS
    playback.set_speed(2.0)
    assert playback.media_ns == 50 * MS
    assert playback.deadline() == watch.ns + 25 * MS


def test_playing_stops_at_the_end_and_starts_over() -> None:
    playback, watch = playback_of()
    playback.play()
    watch.ns += END + 1
    assert playback.advance() == 5
    assert (playback.playing, playback.at_end, playback.media_ns, playback.deadline()) == (False, True, END, None)
    playback.play()
    assert (playback.position, playback.media_ns) == (0, 0)


@pytest.mark.parametrize("speed", SPEEDS)
def test_playing_a_span_stops_at_its_end(speed: float) -> None:
    playback, watch = playback_of()
    playback.set_speed(speed)
    playback.play_span(105 * MS, 3_115 * MS)
    assert (playback.playing, playback.position, playback.media_ns) == (True, 1, 105 * MS if speed < 20 else 100 * MS)
    watch.ns += 100 * END
    assert playback.advance() == 3
    assert (playback.playing, playback.media_ns, playback.deadline()) == (False, 3_115 * MS, None)
    playback.play()
    watch.ns += 100 * END
    assert playback.advance() == 1
    assert (playback.playing, playback.at_end) == (False, True)


def test_a_moved_playhead_forgets_the_end_of_a_span() -> None:
    playback, watch = playback_of()
    playback.play_span(120 * MS, 1_000 * MS)
    assert playback.deadline() == watch.ns + 880 * MS
    playback.seek_to(120 * MS)
    assert playback.deadline() == watch.ns + 2_990 * MS
    playback.play_span(3_000 * MS, 2 * END)
    watch.ns += 2 * END
    playback.advance()
    assert playback.at_end


def test_silence_at_the_end_is_played_too() -> None:
    playback, watch = playback_of()
    playback.seek(5)
    playback.play()
    assert playback.playing
    assert playback.deadline() == watch.ns + 80 * MS


def test_a_pause_has_the_events_due_before_it() -> None:
    playback, watch = playback_of()
    playback.play()
    watch.ns += 105 * MS
    playback.pause()
    assert (playback.position, playback.media_ns, playback.playing) == (1, 105 * MS, False)


def test_a_pause_keeps_the_place_however_long_it_is() -> None:
    playback, watch = playback_of()
    playback.play()
    watch.ns += 105 * MS
    playback.advance()
    playback.pause()
    watch.ns += 60_000 * MS
    assert (playback.media_ns, playback.position, playback.deadline()) == (105 * MS, 1, None)
    playback.play()
    assert playback.deadline() == watch.ns + 5 * MS


def test_steps_go_both_ways_and_stay_within_the_stream() -> None:
    playback, _ = playback_of()
    playback.step(2)
    assert (playback.position, playback.media_ns) == (2, 110 * MS)
    playback.step(-1)
    assert (playback.position, playback.media_ns) == (1, 100 * MS)
    playback.step(-9)
    assert (playback.position, playback.media_ns) == (0, 0)
    playback.step(99)
    assert playback.position == 5


def test_seeking_brings_everything_until_the_timestamp() -> None:
    playback, _ = playback_of()
    playback.seek_to(110 * MS)
    assert playback.position == 3
    playback.seek_to(109 * MS)
    assert (playback.position, playback.media_ns) == (1, 109 * MS)
    playback.seek_to(10**18)
    assert (playback.position, playback.media_ns) == (5, END)


def test_a_cap_shortens_silences_for_the_eye_only() -> None:
    playback, watch = playback_of()
    playback.seek(3)
    playback.set_cap(500 * MS)
    playback.play()
    assert playback.deadline() == watch.ns + 500 * MS
    watch.ns += 500 * MS
    assert playback.advance() == 1
    assert playback.media_ns == 3_110 * MS
    assert list(AT) == [100 * MS, 110 * MS, 110 * MS, 3_110 * MS, 3_120 * MS]


def test_taking_a_cap_away_keeps_the_place() -> None:
    playback, _ = playback_of()
    playback.seek_to(3_115 * MS)
    playback.set_cap(500 * MS)
    assert playback.media_ns == 3_115 * MS
    playback.set_cap(None)
    assert playback.media_ns == 3_115 * MS


def test_full_speed_takes_no_more_events_than_allowed() -> None:
    playback, watch = playback_of()
    playback.set_speed(float("inf"))
    playback.play()
    assert playback.deadline() == watch.ns
    assert (playback.advance(2), playback.position, playback.media_ns) == (2, 2, 110 * MS)
    assert (playback.advance(9), playback.playing, playback.media_ns) == (3, False, END)


def test_a_stream_that_grows_is_played_on() -> None:
    at = AT[:2]
    playback, watch = playback_of(at, at[-1])
    playback.play()
    watch.ns += 105 * MS
    playback.advance()
    at.append(200 * MS)
    playback.grow(at, 200 * MS)
    assert playback.deadline() == watch.ns + 5 * MS
    watch.ns += 95 * MS
    assert (playback.advance(), playback.position) == (2, 3)


def test_a_stream_without_events_ends_at_its_end() -> None:
    playback, watch = playback_of([], 50 * MS)
    playback.play()
    assert playback.deadline() == watch.ns + 50 * MS
    watch.ns += 50 * MS
    assert (playback.advance(), playback.playing, playback.at_end) == (0, False, True)


def moved(playback: Playback, watch: Watch, move: str, value: int) -> None:
    if move == "wait":
        watch.ns += value
        playback.advance()
        return
    moves = {
        "seek": lambda: playback.seek(value % 31),
        "seek_to": lambda: playback.seek_to(value),
        "step": lambda: playback.step(value % 7 - 3),
        "speed": lambda: playback.set_speed(SPEEDS[value % 8]),
        "cap": lambda: playback.set_cap([None, 500, 50][value % 3]),
        "toggle": playback.toggle,
    }
    moves[move]()


@given(
    st.lists(st.integers(0, 10_000), max_size=30).map(sorted),
    st.lists(
        st.tuples(
            st.sampled_from(["wait", "seek", "seek_to", "step", "speed", "cap", "toggle"]), st.integers(0, 12_000)
        ),
        max_size=20,
    ),
)
def test_everything_shown_lies_before_the_playhead(at: list[int], moves: list[tuple[str, int]]) -> None:
    playback, watch = playback_of(at, 11_000)
    for move, value in moves:
        moved(playback, watch, move, value)
        assert 0 <= playback.position <= len(at)
        assert 0 <= playback.media_ns <= playback.end_ns
        assert all(instant <= playback.media_ns for instant in at[: playback.position])
        if (due := playback.deadline()) is not None:
            assert due >= watch.ns or playback.position < len(at)


@each_case("speed", SPEEDS[:-1])
def test_the_whole_stream_takes_its_duration_at_any_speed(speed: float) -> None:
    playback, watch = playback_of()
    started = watch.ns
    playback.set_speed(speed)
    playback.play()
    while (due := playback.deadline()) is not None:
        watch.ns = max(watch.ns + 1, due)
        playback.advance()
    assert watch.ns - started == pytest.approx(END / speed, abs=10)
