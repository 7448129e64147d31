"""Times as they are told."""

import pytest

from recorder.derive import decode
from recorder.exchange import Exchange, Read
from viewer.model import clocks
from viewer.model.clocks import FORMATS, Format, Times
from viewer.model.transcript import Transcript

from ..conftest import event

MS = 1_000_000
STARTED = "2026-03-01T23:59:59.950000Z"


def heard(*reads: tuple[int, int]) -> Transcript:
    """Give a transcript of reads: when each came, in ms, and how many events it brought."""
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


@pytest.mark.parametrize(
    ("format", "told"),
    [
        ("request", ["0.040", "0.100", "0.100", "2.345"]),
        ("first byte", ["0.000", "0.060", "0.060", "2.305"]),
        ("wall", ["23:59:59.990", "00:00:00.050", "00:00:00.050", "00:00:02.295"]),
        ("event", ["–", "60", "same", "2,245"]),
        ("row", ["–", "60", "same", "2,245"]),
    ],
)
def test_each_format_tells_the_same_instants_in_its_way(format: Format, told: list[str]) -> None:
    assert column(Times(format, 40 * MS, STARTED)) == told


def test_the_time_since_the_row_before_is_another_where_rows_are_left_out() -> None:
    assert column(Times("event"), (0, 3)) == ["–", "2,245"]
    assert column(Times("row"), (0, 3)) == ["–", "2,305"]
    assert column(Times("row"), (2, 3)) == ["–", "2,245"]


@pytest.mark.parametrize("format", ["request", "first byte"])
def test_times_count_from_the_reference_and_are_negative_before_it(format: Format) -> None:
    times = Times(format, 40 * MS, STARTED, 1)
    assert column(times) == ["−0.060", "*REF*", "0.000", "2.245"]
    assert times.name == "since #1"


def test_without_a_first_byte_no_time_since_it_is_known() -> None:
    assert column(Times("first byte")) == ["–"] * 4
    assert Times("first byte").instant(HEARD, 50 * MS) == "–"
    assert column(Times("first byte", reference=0)) == ["*REF*", "0.060", "0.060", "2.305"]


def test_what_is_unknown_has_no_unit() -> None:
    instants = [Times("first byte"), Times(), Times(reference=2), Times("wall", started_at=STARTED), Times("wall")]
    told = [times.told(HEARD, 50 * MS, "+") for times in instants]
    assert told == ["–", "+0.050 s", "−0.050 s", "00:00:00.000", "–"]
    assert Times().told(HEARD, 50 * MS) == "0.050 s"


@pytest.mark.parametrize("format", ["wall", "event", "row"])
def test_what_does_not_count_from_anything_only_marks_the_reference(format: Format) -> None:
    plain, marked = column(Times(format, None, STARTED)), column(Times(format, None, STARTED, 3))
    assert marked == [*plain[:3], "*REF*"]
    assert Times(format, reference=3).name == Times(format).name


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("reference", [None, 0, 3])
def test_a_column_is_as_wide_as_its_widest_time(format: Format, reference: int | None) -> None:
    times = Times(format, 40 * MS, STARTED, reference)
    for rows in ((0, 1, 2, 3), (0, 3)):
        assert max(map(len, [times.title, *column(times, rows)])) <= times.width(HEARD) <= 12
    assert Times(format).width(Transcript.of_texts({})) >= len(clocks.REFERENCE)


def test_formats_follow_each_other_and_begin_again() -> None:
    times, seen = Times(), []
    for _ in FORMATS:
        seen.append((times.name, times.title))
        times = Times(times.following)
    assert times.format == "request"
    assert seen == [
        ("since request", "t s"), ("since first byte", "t s"), ("wall clock, UTC", "UTC"),
        ("Δ previous event", "Δ ms"), ("Δ previous row", "Δ row ms"),
    ]  # fmt: skip


def test_what_has_no_instant_of_its_own_has_no_time() -> None:
    lost = heard((40, 1), (100, 1))
    lost.timed[1] = 0
    assert Times().of(lost, 1) == "–"
    assert Times("event").of(lost, 1) == "–"


def test_the_instant_of_a_read_has_no_time_since_another() -> None:
    told = [Times(format, 40 * MS, STARTED).instant(HEARD, 50 * MS) for format in FORMATS]
    assert told == ["0.050", "0.010", "00:00:00.000", "0.050", "0.050"]


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0.000"), (-400_000, "0.000"), (-123 * MS, "−0.123"), (1_234_567_890, "1.235")]
)
def test_seconds_have_a_sign_only_where_there_is_something_to_have_it(ns: int, text: str) -> None:
    assert clocks.seconds(ns) == text


@pytest.mark.parametrize(
    ("ns", "text"), [(100_000, "0.1"), (9_990_000, "10.0"), (11 * MS, "11"), (2_914 * MS, "2,914")]
)
def test_short_times_are_told_to_a_tenth_of_a_millisecond(ns: int, text: str) -> None:
    assert clocks.milliseconds(ns) == text


@pytest.mark.parametrize("started_at", ["", "yesterday", "9999-12-31T23:59:59.999Z"])
def test_a_wall_time_that_cannot_be_had_is_not_known(started_at: str) -> None:
    assert clocks.wall(started_at, 10**9) == "–"
