"""Suggestions for names that do not exist."""

import re

from tests.support.cases import each_case
from wiretape.viewer.query import guesses
from wiretape.viewer.query.fields import CHOICES, NAMES
from wiretape.viewer.query.parser import parse
from wiretape.viewer.stats.metrics import GROUPS, RATES

OUTCOMES = CHOICES["outcome"]


@each_case(
    ("word", "names", "expected"),
    [
        ("slow", OUTCOMES, ["ttft>2s", "duration>30s", "flag:stall"]),
        ("stalled", OUTCOMES, ["flag:stall"]),
        ("Rate-Limited", OUTCOMES, ["status:429", "detail:rate_limited"]),
        ("trunc", OUTCOMES, ["truncated"]),
        ("xyzzy", OUTCOMES, []),
        ("429", OUTCOMES, ["status:429"]),
        ("no_usage", OUTCOMES, ["flag:no_usage"]),
        ("retry", OUTCOMES, []),
    ],
)
def test_a_wrong_value_gets_terms_by_meaning(word: str, names: list[str], expected: list[str]) -> None:
    assert guesses.nearest(word, names, terms=True) == expected


@each_case(
    ("word", "names", "expected"),
    [
        ("tool", ["context_tools_bytes", "tool_name"], ["tool_name", "context_tools_bytes"]),
        ("finish", GROUPS, ["finish_reason"]),
        ("host", GROUPS, ["upstream"]),
        ("odel", GROUPS, ["model"]),
        ("disk", ["is", "bodies"], []),
        ("https", ["tps", "ttst"], []),
        ("--replace", ["--redact", "--label"], []),
    ],
)
def test_suggestions_contain_a_word_or_differ_by_a_slip(word: str, names: list[str], expected: list[str]) -> None:
    assert guesses.nearest(word, names) == expected


@each_case("word", ["minute", "5m", "10 s", "1min"])
def test_short_periods_mean_the_groups_by_time(word: str) -> None:
    assert guesses.nearest(word, GROUPS) == ["hour", "day"]


def test_every_meaning_is_a_name_or_a_term() -> None:
    names = {*NAMES, *GROUPS, *RATES, "label.KEY"}.union(*CHOICES.values())
    for word, meanings in guesses.MEANINGS.items():
        assert word not in NAMES
        for meaning in meanings.split("|"):
            if re.search("[:<>]", meaning):
                parse(meaning)
            else:
                assert meaning in names


def test_at_most_three_suggestions_are_made() -> None:
    for word in (*guesses.MEANINGS, *NAMES):
        assert len(guesses.nearest(f"{word}x", NAMES)) <= guesses.MOST
    assert guesses.advice("mdoel", NAMES) == ": did you mean model? 'wiretape help fields' lists all"
    assert guesses.advice("xyzzy", NAMES) == "; 'wiretape help fields' lists all"
