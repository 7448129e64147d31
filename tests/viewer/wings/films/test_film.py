"""Films: the frames of a replay and of a race, at the times of the recording."""

import pytest
from rich.cells import cell_len

from tests.support.exchanges import full
from tests.support.sample_tape import COMPLETE, FAILED, LIMITED, LIVE, MS, ODD, TOOLS, TRUNCATED
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.opened import FullExchange
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.timing.playback import Pace
from wiretape.viewer.wings.films.film import TICK_NS, Film, FilmFrame, ScreenSize


def exchanges_of(connection: Connection, *ids: str) -> list[FullExchange]:
    return [exchange.full(connection, queries.find(connection, id)) for id in ids]


def lines(frame: FilmFrame) -> list[str]:
    return ["".join(text for text, _ in line) for line in frame.lines]


def seen(frame: FilmFrame) -> str:
    return "\n".join(lines(frame))


def first_ns(film: Film, text: str) -> int:
    """Return the time of the first frame that shows a text."""
    return next(frame.at_ns for frame in film.frames(each_event=True) if text in seen(frame))


def test_each_text_appears_at_its_recorded_time(connection: Connection) -> None:
    film = Film(exchanges_of(connection, COMPLETE))
    times = {"Hel▏": 110, "Hello, ▏": 120, "Hello, world": 170, "✓ complete": 181.5}
    assert {text: first_ns(film, text) / MS for text in times} == times
    assert film.length_ns == 181.5 * MS


def test_the_end_is_told_only_at_the_end(connection: Connection) -> None:
    for id in (COMPLETE, TRUNCATED, FAILED, LIMITED):
        (recorded,) = exchanges_of(connection, id)
        *frames_before, final = Film([recorded]).frames(each_event=True)
        words = [recorded.row.outcome, "no text"]
        assert not [word for frame in frames_before for word in words if word in seen(frame)]
        assert recorded.row.outcome in seen(final)


def test_without_events_the_clock_ticks_ten_times_a_second(connection: Connection) -> None:
    at_ns = [frame.at_ns for frame in Film(exchanges_of(connection, TOOLS)).frames()]
    assert at_ns == [number * TICK_NS for number in range(32)]
    times_ns = [frame.at_ns for frame in Film(exchanges_of(connection, TOOLS)).frames(each_event=True)]
    assert set(at_ns[:-1]) | {50 * MS, 3050 * MS, 3060 * MS, 3070 * MS} <= set(times_ns)
    assert times_ns == sorted(set(times_ns))


def test_a_pace_shortens_the_film_and_its_silences(connection: Connection) -> None:
    displayed = exchanges_of(connection, TOOLS)
    length_ns = Film(displayed).length_ns
    assert length_ns == 3071.5 * MS
    assert Film(displayed, Pace(speed=2)).length_ns == length_ns // 2
    fast = Film(displayed, Pace(speed=4, cap_ns=500 * MS))
    assert fast.length_ns == (length_ns - 2500 * MS) // 4
    assert first_ns(fast, "get_weather") == 550 * MS // 4
    assert "4× · silences ≤ 0.5 s" in lines([*fast.frames()][-1])[-1]


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (121, 31)])
@pytest.mark.parametrize("ids", [(COMPLETE,), (ODD,), (LIMITED,), (LIVE,), (TOOLS, ODD), (ODD, COMPLETE)])
def test_each_frame_fills_the_screen_without_hostile_controls(
    connection: Connection, ids: tuple[str, ...], size: tuple[int, int]
) -> None:
    for frame in Film(exchanges_of(connection, *ids), size=ScreenSize(*size)).frames():
        rows = lines(frame)
        assert len(rows) == size[1]
        assert {cell_len(line) for line in rows} == {size[0]}
        assert rows == [safe(line) for line in rows]


def test_a_race_shows_both_streams_on_one_clock(connection: Connection) -> None:
    film = Film(exchanges_of(connection, TOOLS, COMPLETE))
    frames = {frame.at_ns: lines(frame) for frame in film.frames(each_event=True)}
    assert frames[0][0].startswith("A ")
    assert f"│B gpt-x-mini  {COMPLETE[:8]}" in frames[0][0]
    left_half, right = frames[170 * MS][2].split("│")
    assert (left_half.strip(), right.strip()) == ("Think. ▏", "Hello, world▏")
    assert "✓ complete" in frames[max(frames)][-6].split("│")[0]
    assert "✓ complete" in frames[200 * MS][-6].split("│")[1]


def test_a_race_says_which_lane_is_behind(connection: Connection) -> None:
    feet = {
        frame.at_ns // MS: lines(frame)[-1].rstrip()
        for frame in Film(exchanges_of(connection, TOOLS, COMPLETE)).frames()
    }
    assert feet[0] == "0.000 of 3.071 s"
    assert feet[100].endswith("· B is 50 ms behind")
    assert feet[max(feet)].endswith("· B ended 2.9 s before A")


def test_a_bar_grows_with_the_lists_signs(connection: Connection) -> None:
    frames = [*Film(exchanges_of(connection, TOOLS)).frames()]
    bars = [lines(frame)[-3].rstrip() for frame in frames]
    assert [len(bar) for bar in bars[:-1]] == sorted(len(bar) for bar in bars[:-1])
    assert bars[15] == "░▓" + "░" * (len(bars[15]) - 2)
    assert "╱ 3.0 s ╱" in bars[-1]
    assert bars[-1].endswith("✓")


def test_a_films_gaps_are_judged_once(connection: Connection) -> None:
    judged = list[int | None]()

    class Counted(Thresholds):
        def is_stall(self, gap_ns: int | None) -> bool:
            judged.append(gap_ns)
            return super().is_stall(gap_ns)

    film = Film(exchanges_of(connection, TOOLS), limits=Counted())
    assert len([*film.frames()]) > 30
    assert judged.count(3000 * MS) == 2  # as the longest of all, which decides if any is a stall, and by itself


def test_an_exchange_without_events_films_its_wait() -> None:
    *frames_before, final = Film([full(end_ns=1200 * MS, outcome="connect_error")]).frames()
    assert "waiting for 1.0 s" in seen(frames_before[10])
    assert "no text: connect_error" in seen(final)
