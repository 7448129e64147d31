"""Formats of times."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.sample_tape import event
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.viewer.exchange import clocks
from wiretape.viewer.exchange.clocks import FORMATS, Format, Times
from wiretape.viewer.exchange.markers import parse_goal
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.text import formatting

MS = 1_000_000
STARTED = "2026-03-01T23:59:59.950000Z"


def heard(*reads: tuple[int, int]) -> Transcript:
    """Return a transcript of reads, given the time of each, in ms, and its count of events."""
    word = event({"content": "x"})
    parts = [word * count for _, count in reads]
    starts = [sum(map(len, parts[:place])) for place in range(len(parts))]
    came = [
        Read(place, at * MS, None, start, len(part))
        for place, ((at, _), start, part) in enumerate(zip(reads, starts, parts, strict=True))
    ]
    return Transcript(decode(Exchange(200, "text/event-stream", None, "end", 0, 0, 1), came, b"".join(parts)))


HEARD = heard((40, 1), (100, 2), (2_345, 1))


def column(times: Times, rows: tuple[int, ...] = (0, 1, 2, 3)) -> list[str]:
    above = [None, *rows[:-1]]
    return [times.of(HEARD, row, before) for row, before in zip(rows, above, strict=True)]


@each_case(
    ("format", "told"),
    [
        ("request", ["0.040", "0.100", "0.100", "2.345"]),
        ("first byte", ["0.000", "0.060", "0.060", "2.305"]),
        ("wall", ["23:59:59.990", "00:00:00.050", "00:00:00.050", "00:00:02.295"]),
        ("event", ["–", "60", "same", "2,245"]),
        ("row", ["–", "60", "same", "2,245"]),
    ],
)
def test_timestamps_in_each_format(format: Format, told: list[str]) -> None:
    assert column(Times(format, 40 * MS, STARTED)) == told


def test_time_since_the_row_before_depends_on_the_rows_shown() -> None:
    assert column(Times("event"), (0, 3)) == ["–", "2,245"]
    assert column(Times("row"), (0, 3)) == ["–", "2,305"]
    assert column(Times("row"), (2, 3)) == ["–", "2,245"]


def since(event: int) -> Times:
    """Return times that count from an event."""
    return Times("reference", 40 * MS, STARTED, event, HEARD.at[event])


def test_times_count_from_the_reference_and_are_negative_before_it() -> None:
    assert column(since(1)) == ["−0.060", "*REF*", "0.000", "2.245"]
    assert (since(1).name, since(1).origin_ns) == ("since #1", 100 * MS)


def test_time_since_an_unknown_first_byte_is_unknown() -> None:
    assert column(Times("first byte")) == ["–"] * 4
    assert Times("first byte").instant(50 * MS) == "–"


def test_unknown_times_have_no_unit() -> None:
    instants = [Times("first byte"), Times(), since(2), Times("wall", started_at=STARTED), Times("wall")]
    told = [times.with_unit(50 * MS, "+") for times in instants]
    assert told == ["–", "+0.050 s", "−0.050 s", "00:00:00.000", "–"]
    assert Times().with_unit(50 * MS) == "0.050 s"


@each_case("times", [*(Times(format, 40 * MS, STARTED) for format in FORMATS), since(0), since(3)])
def test_a_column_is_as_wide_as_its_widest_time(times: Times) -> None:
    for rows in ((0, 1, 2, 3), (0, 3)):
        assert max(map(len, [times.title, *column(times, rows)])) <= times.width(HEARD) <= 12
    assert times.width(Transcript.of_texts({})) >= len(clocks.REFERENCE)


def test_formats_cycle() -> None:
    times, seen = Times("request", 40 * MS, STARTED), []
    for _ in FORMATS:
        seen.append((times.name, times.title))
        times = times.following(HEARD, 2)
    assert times == Times("request", 40 * MS, STARTED)
    assert seen == [
        ("since request", "t s"), ("since first byte", "t s"), ("since #2", "t s"), ("wall clock, UTC", "UTC"),
        ("Δ previous event", "Δ ms"), ("Δ previous row", "Δ row ms"),
    ]  # fmt: skip


def test_format_without_an_origin_is_skipped() -> None:
    assert Times().following(HEARD, -1).format == "event"
    assert Times("request", 40 * MS).following(HEARD, -1).format == "first byte"
    lost = heard((40, 1), (100, 1))
    lost.timed[1] = 0
    assert Times("first byte", 40 * MS, STARTED).following(lost, 1).format == "wall"
    assert Times("first byte", 40 * MS, STARTED).following(lost, 0).reference == 0


CLOCKS = [Times("request"), Times("first byte", 40 * MS), since(2), Times("event"), Times("row")]


@pytest.mark.parametrize("times", CLOCKS)
@given(st.integers(-(10**12), 10**13))
def test_typing_a_displayed_time_returns_it(times: Times, at_ns: int) -> None:
    shown = times.instant(at_ns)
    goal = parse_goal(f"{shown.removeprefix('−')}{formatting.unit(shown)}")
    assert goal is not None
    assert abs(times.at(int(-goal.value if shown.startswith("−") else goal.value)) - at_ns) <= MS // 2


@given(st.integers(0, 4 * 3_600 * 10**9))
def test_typing_a_displayed_time_of_day_returns_it(at_ns: int) -> None:
    times = Times("wall", started_at=STARTED)
    hours, minutes, seconds = times.instant(at_ns).split(":")
    typed_ns = (int(hours) * 60 + int(minutes)) * 60 * 10**9 + round(float(seconds) * 10**9)
    found = times.at_time_of_day(typed_ns)
    assert found is not None
    assert 0 <= at_ns - found < MS


def test_displayed_time_leads_to_its_event() -> None:
    transcript = heard((40, 1), (100, 1))
    transcript.at[1] = 100 * MS + 400_000
    assert [Times().position(transcript, at) for at in (99 * MS, 100 * MS, 101 * MS)] == [1, 2, 2]
    transcript.at[1] = 100 * MS + 600_000
    assert [Times().position(transcript, at) for at in (100 * MS, 101 * MS)] == [1, 2]
    assert Times("wall", started_at=STARTED).position(transcript, 100 * MS) == 2


@each_case(
    ("times", "drawn"),
    [
        (Times(), "╷0             ╷1 s           ╷2 s"),
        (Times("first byte", 500 * MS), "       ╷0             ╷1 s           ╷2 s"),
        (Times("reference", None, "", 0, 1_000 * MS), "╷−1 s          ╷0             ╷1 s"),
        (Times("wall", started_at=STARTED), "╷00:00:00      ╷00:00:01      ╷00:00:02"),
        (Times("wall", started_at="2026-03-01T12:00:00.750Z"), "   ╷12:00:01      ╷12:00:02      ╷12:00:03"),
        (Times("wall"), "╷0             ╷1 s           ╷2 s"),
        (Times("row"), "╷0             ╷1 s           ╷2 s"),
    ],
)
def test_an_axis_has_round_times_of_its_clock(times: Times, drawn: str) -> None:
    assert times.axis(3_000 * MS, 45) == drawn


@given(st.integers(0, 10**14), st.integers(1, 200), st.datetimes())
def test_an_axis_of_times_of_day_takes_no_more_cells_than_there_are(axis: int, cells: int, began: datetime) -> None:
    drawn = Times("wall", started_at=f"{began.isoformat()}Z").axis(axis, cells)
    assert len(drawn) <= cells


def test_event_without_a_timestamp_has_no_time() -> None:
    lost = heard((40, 1), (100, 1))
    lost.timed[1] = 0
    assert Times().of(lost, 1) == "–"
    assert Times("event").of(lost, 1) == "–"


def test_events_of_one_read_have_no_time_between_them() -> None:
    times = [Times(format, 40 * MS, STARTED, None, 20 * MS) for format in FORMATS]
    shown = [one.instant(50 * MS) for one in times]
    assert shown == ["0.050", "0.010", "0.030", "00:00:00.000", "0.050", "0.050"]


def test_a_time_beside_one_of_minutes_is_in_minutes() -> None:
    assert [Times().instant(at_ms * MS, 150_000 * MS) for at_ms in (0, 5_000, 150_000)] == [
        "0:00.000", "0:05.000", "2:30.000",
    ]  # fmt: skip
    assert Times("first byte", 40_000 * MS).instant(45_000 * MS, 150_000 * MS) == "5.000"
    assert Times().with_unit(1_836_755 * MS, "+") == "+30:36.755"


@each_case(("ns", "text"), [(100_000, "0.1"), (9_990_000, "10.0"), (11 * MS, "11"), (2_914 * MS, "2,914")])
def test_short_times_are_shown_to_a_tenth_of_a_millisecond(ns: int, text: str) -> None:
    assert clocks.milliseconds(ns) == text


@pytest.mark.parametrize("started_at", ["", "yesterday", "9999-12-31T23:59:59.999Z"])
def test_invalid_wall_time_is_unknown(started_at: str) -> None:
    assert clocks.wall(started_at, 10**9) == "–"
