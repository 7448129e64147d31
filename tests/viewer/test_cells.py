"""Values as text for people."""

import pytest

from viewer import cells


def test_unknown_is_a_dash_in_every_kind_of_cell() -> None:
    assert {cells.cell(None), cells.line(None), cells.ms(None), cells.count(None)} == {"–"}
    assert (cells.ms(0.0), cells.count(0)) == ("0.0", "0")


def test_numbers_are_grouped_and_times_are_to_a_tenth() -> None:
    assert (cells.ms(12_345.678), cells.count(1_234_567)) == ("12,345.7", "1,234,567")
    assert cells.moment("2026-03-01T12:00:01.123456Z") == "2026-03-01 12:00:01.123"


def test_recorded_text_keeps_to_its_line_and_drives_nothing() -> None:
    assert cells.line("a\n\x1b[2J") == "a␊␛[2J"
    assert cells.block("a\n\tb\x07") == "a\n    b␇"
    assert cells.cell(["a", "b\x1b"]) == "a b␛"


def test_a_text_that_is_cut_says_so() -> None:
    assert (cells.cut("abcdef", 4), cells.cut("abcd", 4)) == ("abc…", "abcd")


@pytest.mark.parametrize("upstream", ["http://[", "", "not a url"])
def test_an_upstream_that_is_no_url_is_shown_as_it_is(upstream: str) -> None:
    assert cells.host(upstream) == upstream


def test_an_upstream_is_shown_as_its_host_and_port() -> None:
    assert cells.host("http://127.0.0.1:8000/v1") == "127.0.0.1:8000"
