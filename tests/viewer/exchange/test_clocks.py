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
    return Transcript(
        decode(
            Exchange(
                status=200, content_type="text/event-stream", ended_by="end", connected_ns=0, headers_ns=0, end_ns=1
            ),
            came,
            b"".join(parts),
        )
    )


HEARD = heard((40, 1), (100, 2), (2_345, 1))


def column(times: Times) -> list[str]:
    return [times.of(HEARD, row) for row in range(4)]


@each_case(
    ("format", "expected"),
    [
        ("request", ["0.040", "0.100", "0.100", "2.345"]),
        ("wall", ["23:59:59.990", "00:00:00.050", "00:00:00.050", "00:00:02.295"]),
        ("event", ["–", "60", "same", "2,245"]),
    ],
)
def test_timestamps_in_each_format(format: Format, expected: list[str]) -> None:
    assert column(Times(format, STARTED)) == expected


def test_unknown_times_have_no_unit() -> None:
    labels = [times.with_unit(50 * MS, "+") for times in (Times(), Times("wall", STARTED), Times("wall"))]
    assert labels == ["+0.050 s", "00:00:00.000", "–"]
    assert Times().with_unit(50 * MS) == "0.050 s"


@each_case("times", [Times(format, STARTED) for format in FORMATS])
def test_a_column_is_as_wide_as_its_widest_time(times: Times) -> None:
    assert max(map(len, [times.title, *column(times)])) <= times.width(HEARD) <= 12
    assert times.width(Transcript.of_texts({})) >= len(times.title)


def test_formats_cycle() -> None:
    times, seen = Times("request", STARTED), []
    for _ in FORMATS:
        seen.append((times.name, times.title))
        times = times.with_next_format
    assert times == Times("request", STARTED)
    assert seen == [("since request", "t s"), ("Δ previous event", "Δ ms"), ("wall clock, UTC", "UTC")]


def test_wall_time_is_skipped_where_it_is_not_known() -> None:
    assert [Times().with_next_format.format, Times("event").with_next_format.format] == ["event", "request"]


@pytest.mark.parametrize("times", [Times("request"), Times("event")])
@given(st.integers(-(10**12), 10**13))
def test_typing_a_displayed_time_returns_it(times: Times, at_ns: int) -> None:
    text = times.instant(at_ns)
    goal = parse_goal(f"{text.removeprefix('−')}{formatting.unit(text)}")
    assert goal is not None
    assert abs(int(-goal.value if text.startswith("−") else goal.value) - at_ns) <= MS // 2


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
    ("times", "expected"),
    [
        (Times(), "╷0             ╷1 s           ╷2 s"),
        (Times("wall", started_at=STARTED), "╷00:00:00      ╷00:00:01      ╷00:00:02"),
        (Times("wall", started_at="2026-03-01T12:00:00.750Z"), "   ╷12:00:01      ╷12:00:02      ╷12:00:03"),
        (Times("wall"), "╷0             ╷1 s           ╷2 s"),
        (Times("event"), "╷0             ╷1 s           ╷2 s"),
    ],
)
def test_an_axis_has_round_times_of_its_clock(times: Times, expected: str) -> None:
    assert times.axis(3_000 * MS, 45) == expected


@given(st.integers(0, 10**14), st.integers(1, 200), st.datetimes())
def test_a_time_of_day_axis_stays_within_its_cells(axis: int, cells: int, began: datetime) -> None:
    axis_text = Times("wall", started_at=f"{began.isoformat()}Z").axis(axis, cells)
    assert len(axis_text) <= cells


def test_event_without_a_timestamp_has_no_time() -> None:
    lost = heard((40, 1), (100, 1))
    lost.timed[1] = 0
    assert Times().of(lost, 1) == "–"
    assert Times("event").of(lost, 1) == "–"


def test_a_time_beside_one_of_minutes_is_in_minutes() -> None:
    assert [Times().instant(at_ms * MS, 150_000 * MS) for at_ms in (0, 5_000, 150_000)] == [
        "0:00.000", "0:05.000", "2:30.000",
    ]  # fmt: skip
    assert Times().with_unit(1_836_755 * MS, "+") == "+30:36.755"


@each_case(("ns", "text"), [(100_000, "0.1"), (9_990_000, "10.0"), (11 * MS, "11"), (2_914 * MS, "2,914")])
def test_short_times_have_tenths_of_a_millisecond(ns: int, text: str) -> None:
    assert clocks.milliseconds(ns) == text


@pytest.mark.parametrize("started_at", ["", "yesterday", "9999-12-31T23:59:59.999Z"])
def test_invalid_wall_time_is_unknown(started_at: str) -> None:
    assert clocks.wall(started_at, 10**9) == "–"
