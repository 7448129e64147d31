"""The axis of the wall clock without idle times, and the views of it."""

import random
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tests.support.cases import each_case
from wiretape.viewer.text import clock_axis
from wiretape.viewer.text.clock_axis import ClockAxis, ClockLine, ClockView, ClockZoom

S = 1_000_000_000
NOON = round(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * S


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show times in UTC."""
    monkeypatch.setenv("TZ", "UTC")


def axis(*seconds: tuple[float, float]) -> ClockAxis:
    return clock_axis.clock_axis((NOON + round(start * S), NOON + round(end * S)) for start, end in seconds)


def view_of(one: ClockAxis, cells: int) -> ClockView:
    return ClockView(0, one.length_ns, cells)


def test_overlapping_and_consecutive_times_are_one_period() -> None:
    clock = axis((5, 9), (0, 4), (3, 6))
    assert [(end - start) // S for start, end, _ in clock.periods] == [9]
    assert list(clock.cuts) == []


def test_a_cut_idle_time_keeps_its_length_in_words() -> None:
    clock = axis((0, 10), (3610, 3612))
    (cut,) = clock.cuts
    assert cut.idle_ns == 3600 * S
    assert cut.end - cut.start == 12 * S // 24
    assert clock.length_ns == 12 * S + 12 * S // 24
    assert clock.at(NOON + 3611 * S) == 11 * S + 12 * S // 24
    assert clock.at(NOON + 60 * S) == 10 * S, "in an idle time"
    assert clock.at(NOON - S) == 0, "before all"


def test_idle_times_of_half_the_busy_time_stay_whole() -> None:
    assert list(axis((0, 5), (7, 10), (12, 14)).cuts) == []
    assert [cut.idle_ns // S for cut in axis((0, 5), (7, 10), (15, 17)).cuts] == [5]


@each_case("seed", range(60))
def test_the_axis_is_mostly_busy_despite_idle_times(seed: int) -> None:
    source = random.Random(seed)
    starts = sorted(source.sample(range(100_000), k=source.randint(1, 200)))
    clock = axis(*((start, start + source.expovariate(0.3)) for start in starts))
    busy_ns = sum(end - start for start, end, _ in clock.periods)
    assert sum(cut.end - cut.start for cut in clock.cuts) <= busy_ns / 4
    for start_ns, end_ns, _ in clock.periods:
        for wall_ns in (start_ns, end_ns - 1):
            assert clock.wall_ns(clock.at(wall_ns)) == wall_ns
    assert all(previous.at < following.at for previous, following in pairwise(clock.periods))


def test_a_line_has_times_and_each_cuts_length() -> None:
    clock = axis((0, 10), (3610, 3620))
    assert ClockLine(clock, view_of(clock, 72)).text() == (
        "╷12:00:00        ╷12:00:05         ┆60 m              ╷13:00:15         "
    )
    assert ClockLine(clock, view_of(clock, 72)).ground == f"{'┆':>36}{'':36}"


@each_case("cells", range(1, 220))
def test_ticks_of_a_line_stand_at_their_times(cells: int) -> None:
    clock = axis((0, 3.2), (5, 9), (1205.5, 1212), (1300, 1301))
    for view in (view_of(clock, cells), ClockView(clock.length_ns // 3, clock.length_ns // 4, cells)):
        line = ClockLine(clock, view).text()
        assert len(line) == cells
        for label in line.split("╷")[1:]:
            time = datetime.fromisoformat(f"2026-03-01T{label.split()[0]}+00:00").timestamp()
            first_cell, last_cell = (view.cell(clock.at(round(seconds * S))) for seconds in (time, time + 1))
            assert first_cell - 1 <= line.index(f"╷{label}") <= last_cell


def test_the_longest_cuts_have_signs_and_a_sum() -> None:
    clock = axis(*((at * 10, at * 10 + 1) for at in range(100)), (2000, 2001))
    line = ClockLine(clock, view_of(clock, 100))
    assert len(line.cuts) == 7
    assert line.ground.rstrip() == line.ground, "the longest is the last"
    assert line.ground.count("┆") == 7
    assert line.text().count("╷") >= 3
    assert clock_axis.idle(clock) == "┆ idle 32 m"
    assert clock_axis.idle(axis((0, 1))) == ""


def test_no_other_time_stands_at_a_pointer() -> None:
    clock = axis((0, 10), (3610, 3620))
    assert ClockLine(clock, view_of(clock, 72)).text(17) == (
        "╷12:00:00        ▼12:00:05         ┆60 m              ╷13:00:15         "
    )
    assert ClockLine(clock, view_of(clock, 72)).text(20) == (
        "╷12:00:00           ▼              ┆60 m              ╷13:00:15         "
    )


def test_zooming_halves_the_time_around_a_timestamp() -> None:
    clock = axis((0, 64))
    closer = ClockZoom().zoomed(clock, NOON + 20 * S, closer=True)
    assert closer.view(clock, clock.length_ns, 80) == ClockView(4 * S, 32 * S, 80)
    assert closer.zoomed(clock, NOON, closer=False) == ClockZoom()
    assert closer.panned(clock, 1).view(clock, clock.length_ns, 80).start == 20 * S
    assert closer.panned(clock, -1).view(clock, clock.length_ns, 80).start == 0


def test_a_view_at_the_end_follows_it() -> None:
    short, long = axis((0, 64)), axis((0, 70))
    at_end = ClockZoom().zoomed(short, NOON + 60 * S, closer=True)
    assert at_end.view(long, 70 * S, 80) == ClockView(38 * S, 32 * S, 80)
    earlier = at_end.panned(short, -1)
    assert earlier.view(short, 64 * S, 80) == earlier.view(long, 70 * S, 80) == ClockView(16 * S, 32 * S, 80)


def test_nothing_has_an_empty_line() -> None:
    assert ClockLine(clock_axis.EMPTY, ClockView(0, 0, 5)).text() == " " * 5
    assert ClockZoom().zoomed(clock_axis.EMPTY, 0, closer=True).view(clock_axis.EMPTY, 0, 5) == ClockView(0, 0, 5)
