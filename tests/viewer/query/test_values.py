"""Values: numbers with units, times, regular expressions."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support.cases import each_case
from wiretape.viewer.query import values

NOW = datetime(2026, 3, 29, 12, 30, tzinfo=UTC)
"""The day on which the clocks of Berlin are put forward: it is 23 hours long there."""


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@each_case(
    ("text", "kind", "number"),
    [
        ("800ms", "duration", 800_000_000), ("1.5s", "duration", 1_500_000_000), ("2m", "duration", 120 * 10**9),
        ("1h", "duration", 3600 * 10**9), ("7us", "duration", 7000), ("0", "duration", 0), ("0.1ns", "duration", 0),
        ("10k", "count", 10_000), ("1.5M", "count", 1_500_000), ("12b", "count", 12), (".5", "rate", 0.5),
        ("10%", "share", 0.1), ("0.1", "share", 0.1),
    ],
)  # fmt: skip
def test_a_number_is_in_the_tapes_unit(text: str, kind: values.Kind, number: float) -> None:
    assert values.number(text, kind) == number


@each_case(
    ("text", "kind"),
    [("800", "duration"), ("1M", "duration"), ("10m", "count"), ("5%", "rate"), ("-1", "count"), ("9" * 20, "count"),
     ("", "count"), ("1e3", "count")],
)  # fmt: skip
def test_what_is_no_number_of_its_kind_is_refused(text: str, kind: values.Kind) -> None:
    with pytest.raises(ValueError, match="expected"):
        values.number(text, kind)


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("-2h", "2026-03-29T10:30:00.000000Z", None),
        ("2h", "2026-03-29T10:30:00.000000Z", None),
        ("-1.5d", "2026-03-28T00:30:00.000000Z", None),
        ("90s", "2026-03-29T12:28:30.000000Z", None),
        ("23:00", "2026-03-29T21:00:00.000000Z", "2026-03-29T21:01:00.000000Z"),
        ("2027-01-01T00:00Z", "2027-01-01T00:00:00.000000Z", "2027-01-01T00:01:00.000000Z"),
        ("Now", "2026-03-29T12:30:00.000000Z", None),
        ("today", "2026-03-28T23:00:00.000000Z", "2026-03-29T22:00:00.000000Z"),
        ("Yesterday", "2026-03-27T23:00:00.000000Z", "2026-03-28T23:00:00.000000Z"),
        ("2026-01-01", "2025-12-31T23:00:00.000000Z", "2026-01-01T23:00:00.000000Z"),
        ("14:00", "2026-03-29T12:00:00.000000Z", "2026-03-29T12:01:00.000000Z"),
        ("9:00:01", "2026-03-29T07:00:01.000000Z", "2026-03-29T07:00:02.000000Z"),
        ("2026-01-01T14:00", "2026-01-01T13:00:00.000000Z", "2026-01-01T13:01:00.000000Z"),
        ("2026-01-01T14:00Z", "2026-01-01T14:00:00.000000Z", "2026-01-01T14:01:00.000000Z"),
        ("2026-01-01T14:00:00+02:00", "2026-01-01T12:00:00.000000Z", "2026-01-01T12:00:01.000000Z"),
        ("2026-01-01T14:00:00.25Z", "2026-01-01T14:00:00.250000Z", "2026-01-01T14:00:00.260000Z"),
        ("2026-01-01T14:00:00.250000Z", "2026-01-01T14:00:00.250000Z", None),
        ("2026-01-01T14", "2026-01-01T13:00:00.000000Z", "2026-01-01T14:00:00.000000Z"),
        ("2026-01-01 14:00:00.250 +01:00", "2026-01-01T13:00:00.250000Z", "2026-01-01T13:00:00.251000Z"),
        ("2026-01-01 14:00 UTC", "2026-01-01T14:00:00.000000Z", "2026-01-01T14:01:00.000000Z"),
        ("03-28 14:00:01", "2026-03-28T13:00:01.000000Z", "2026-03-28T13:00:02.000000Z"),
        ("12-24 14:00", "2025-12-24T13:00:00.000000Z", "2025-12-24T13:01:00.000000Z"),
        ("03-28", "2026-03-27T23:00:00.000000Z", "2026-03-28T23:00:00.000000Z"),
        ("14:00:00Z", "2026-03-29T14:00:00.000000Z", "2026-03-29T14:00:01.000000Z"),
        ("14:00:00.5", "2026-03-29T12:00:00.500000Z", "2026-03-29T12:00:00.600000Z"),
        ("2026-10-25T02", "2026-10-25T00:00:00.000000Z", "2026-10-25T02:00:00.000000Z"),
        ("2026-10-25 02:30 +01:00", "2026-10-25T01:30:00.000000Z", "2026-10-25T01:31:00.000000Z"),
    ],
)
def test_a_time_is_a_period_in_utc(text: str, start: str, end: str | None) -> None:
    assert values.period(text, NOW) == (start, end)


@each_case(
    "text",
    [
        "",
        "soon",
        "25:00",
        "2026-02-30",
        "-2y",
        "2y",
        "+2h",
        "--2h",
        "2",
        "-999999999d",
        "0001-01-01T00:00+23:00",
        "14",
        "2026-01-01T",
        "14:00+25:99",
        "2026-01-01Z",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time, such as 2h"):
        values.period(text, NOW)
