"""Values as text for people."""

import pytest

from wiretape.recorder.sanitize import clipped
from wiretape.viewer.text import formatting


def test_unknown_is_a_dash_in_every_kind_of_cell() -> None:
    assert {formatting.cell(None), formatting.line(None), formatting.ms(None), formatting.count(None)} == {"–"}
    assert (formatting.ms(0.0), formatting.count(0)) == ("0.0", "0")


def test_numbers_are_grouped_and_times_are_to_a_tenth() -> None:
    assert (formatting.ms(12_345.678), formatting.count(1_234_567)) == ("12,345.7", "1,234,567")


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.000 s"),
        (-400_000, "0.000 s"),
        (-123_000_000, "−0.123 s"),
        (1_234_567_890, "1.235 s"),
        (119_999_400_000, "119.999 s"),
        (119_999_600_000, "2:00.000"),
        (1_836_755_000_000, "30:36.755"),
        (-150_500_000_000, "−2:30.500"),
        (36_000_000_000_000, "600:00.000"),
    ],
)
def test_a_time_is_in_minutes_from_120_s_on(ns: int, text: str) -> None:
    assert formatting.timestamp_with_unit(ns) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(301, "301 ms"), (999, "999 ms"), (999.6, "1.0 s"), (2_440, "2.4 s"), (119_400, "119.4 s"), (3_600_000, "60:00")],
)
def test_a_length_is_written_in_few_characters(ms: float, text: str) -> None:
    assert formatting.duration(round(ms * 1_000_000)) == text


def test_recorded_text_keeps_to_its_line_and_drives_nothing() -> None:
    assert formatting.line("a\n\x1b[2J") == "a␊␛[2J"
    assert formatting.block("a\n\tb\x07") == "a\n    b␇"
    assert formatting.cell(["a", "b\x1b"]) == "a b␛"


def test_a_text_that_is_cut_says_so() -> None:
    assert (clipped("abcdef", 4), clipped("abcd", 4)) == ("abc…", "abcd")


@pytest.mark.parametrize("upstream", ["http://[", "", "not a url"])
def test_an_upstream_without_a_url_is_shown_verbatim(upstream: str) -> None:
    assert formatting.host(upstream) == upstream


def test_an_upstream_is_shown_as_its_host_and_port() -> None:
    assert formatting.host("http://127.0.0.1:8000/v1") == "127.0.0.1:8000"


def test_a_small_share_is_not_none() -> None:
    assert [formatting.share(part, 1000) for part in (1, 9, 10, 444, 1000)] == ["<1 %", "<1 %", "1 %", "44 %", "100 %"]
