"""Wall times for people: local, and such that a filter takes them as they stand."""

from datetime import UTC, date, datetime

import pytest

from tests.support.cases import each_case
from tests.support.zones import local_time as zone
from wiretape.recorder import local_time
from wiretape.viewer.query import values


@each_case(
    ("name", "shown"),
    [
        ("UTC", "2026-11-01 06:30:00.123 UTC"),
        ("Asia/Kolkata", "2026-11-01 12:00:00.123 +05:30"),
        ("America/New_York", "2026-11-01 01:30:00.123 -05:00"),
    ],
)
def test_a_time_has_the_offset_of_its_zone(name: str, shown: str) -> None:
    with zone(name):
        assert local_time.moment("2026-11-01T06:30:00.123456Z") == shown


@pytest.mark.parametrize("name", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_a_time_selects_what_it_showed(name: str) -> None:
    now = datetime(2026, 11, 1, 18, tzinfo=UTC)
    with zone(name):
        for hour in range(24):  # the clocks of New York are put back at 06:00 in UTC
            timestamp = f"2026-11-01T{hour:02}:30:00.123456Z"
            time = local_time.local(timestamp)
            assert time is not None
            short = f"{local_time.day(time, now.astimezone().date())} {time:%H:%M:%S}{local_time.distinction(time)}"
            for text in (local_time.moment(timestamp), local_time.moment(timestamp, "seconds"), short):
                start, end = values.period(text, now)
                assert end is not None
                assert start <= timestamp < end


def test_an_ambiguous_day_has_its_year() -> None:
    today = date(2026, 3, 1)
    days = [datetime(*day, tzinfo=UTC) for day in ((2026, 3, 1), (2025, 3, 2), (2025, 3, 1), (2026, 3, 2))]
    assert [local_time.day(day, today) for day in days] == ["03-01", "03-02", "2025-03-01", "2026-03-02"]


def test_a_period_names_a_shared_offset_once() -> None:
    first, last = "2026-11-01T05:59:00.000000Z", "2026-11-01T06:01:00.000000Z"
    with zone("Asia/Kolkata"):
        assert local_time.period(first, last, "minutes") == "2026-11-01 11:29 – 2026-11-01 11:31 +05:30"
        assert local_time.period(first, first, "minutes") == "2026-11-01 11:29 +05:30"
    with zone("America/New_York"):
        assert local_time.period(first, last, "minutes") == "2026-11-01 01:59 -04:00 – 2026-11-01 01:01 -05:00"


def test_what_is_no_time_is_shown_as_it_stands() -> None:
    assert local_time.moment("\x1b[2Jyesterday") == "␛[2Jyesterday"
    assert local_time.of_day("2026-11-01T06:30:00.123456Z") == "06:30:00Z"
