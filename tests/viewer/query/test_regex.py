"""Regular expressions: their subjects, their limits, and their time limit."""

import pytest

from wiretape.recorder.clock import Clock
from wiretape.viewer.query import values
from wiretape.viewer.query.values import Searches, TooSlow


def test_a_regular_expression_sees_the_beginning_of_a_text() -> None:
    assert Searches().search("B$", "ab")
    assert Searches().search("é", "é\xff".encode("latin-1") + "é".encode())
    assert not Searches().search("x", "a" * values.SEARCH_CHARACTERS + "x")
    assert Searches().search("x", None) is None


@pytest.mark.parametrize("text", ["(", "a{99999999999}", "x" * 201])
def test_what_is_no_regular_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a regular expression"):
        values.compiled_regex(text)


def test_a_repeat_within_a_repeat_is_no_trouble() -> None:
    assert not Searches().search("(a+)+$", "a" * 60 + "b")


def test_an_endless_expression_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "SEARCH_SECONDS", 0.02)
    with pytest.raises(TooSlow, match="takes too long on recorded texts"):
        Searches().search("(x+x+)+y", "x" * 60_000)


class Stopwatch:
    """A clock on which looking at it takes a while."""

    def __init__(self, took_ns: int) -> None:
        self.ns, self.took_ns = 0, took_ns

    def now(self) -> int:
        self.ns += self.took_ns
        return self.ns


def test_a_search_in_proportion_to_its_text_goes_on() -> None:
    searches = Searches(Clock(Stopwatch(values.SEARCH_CHARACTER_NS * 10).now))
    assert all(searches.search("b", "a" * 9 + "b") for _ in range(1000))
    assert searches.search("b", None) is None


def test_a_querys_searches_share_a_limit_of_their_own() -> None:
    each_ns = round(values.QUERY_SECONDS * 1e9 / 3)
    searches = Searches(Clock(Stopwatch(each_ns).now))
    for _ in range(2):
        assert [searches.search("b", "ab") for _ in range(3)] == [True] * 3
        with pytest.raises(TooSlow, match="takes too long on recorded texts"):
            searches.search("b", "ab")
        with pytest.raises(TooSlow):
            searches.search("b", "ab")
        searches.begin()


def test_a_search_stops_with_its_querys_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "QUERY_SECONDS", 0.02)
    with pytest.raises(TooSlow):
        Searches().search("(x+x+)+y", "x" * 60_000)
