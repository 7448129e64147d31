"""Completions of a filter."""

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE
from wiretape.viewer.query import completion
from wiretape.viewer.query.fields import FIELDS
from wiretape.viewer.query.parser import parse

VALUES = {"model": [HOSTILE, "gpt x", "gpt-x-mini", "qwen3"], "upstream": ["api.example.com"]}


@each_case(
    ("typed", "full_text"),
    [
        ("mo", "model:"), ("ttf", "ttft>"), ("is:trun", "is:truncated"), ("flag:st", "flag:stall"),
        ("model:gp", "model:gpt-x-mini"), ("model:a,qw", "model:a,qwen3"), ("x -is:li", "x -is:live"),
        ("(has:to", "(has:tool"), ("host:api", "host:api.example.com"), ("MODEL:GPT", "MODEL:gpt-x-mini"),
        ("max_g", "max_gap>"), ("", "model:"), ("is:live ", "is:live model:"),
    ],
)  # fmt: skip
def test_names_and_values_are_completed(typed: str, full_text: str) -> None:
    assert completion.offers(typed, VALUES)[0].filter_text == full_text


@each_case("typed", ["model:=", 'text:"mo', "model:gpt-x-mini", "zzz", "model:zzz", HOSTILE])
def test_nothing_is_offered_where_nothing_fits(typed: str) -> None:
    assert completion.offers(typed, VALUES) == []


def test_each_field_is_offered_under_the_begun_name() -> None:
    offered = completion.offers("t", VALUES)
    assert [offer.text for offer in offered[:3]] == ["ttft>", "tps<", "tok.out>"]
    assert len({offer.field for offer in offered}) == len(offered)
    assert [offer.text for offer in completion.offers("tok", VALUES)][:2] == ["tok.out>", "tok.in>"]


@each_case(
    ("typed", "unfinished"),
    [
        ("m", True), ("is:ok mod", True), ("model", True), ("TTF", True), ("model:gpt", True), ("is:ok -is:li", True),
        ("", False), ("gpt", False), ("model:gpt-x-mini", False), ("model:zzz", False), ("is:live", False),
        ("is:live ", False), ("ttft>8", False), ('"mod', False), ("text:mod", False), ("model:gpt-*", False),
    ],
)  # fmt: skip
def test_a_beginning_of_names_or_values_is_unfinished(typed: str, unfinished: bool) -> None:
    assert completion.is_unfinished(typed, VALUES) is unfinished


def test_every_field_that_is_offered_can_be_filtered_by() -> None:
    for offer in completion.offers("", {}):
        name = offer.text.rstrip(":<>=")
        parse(f"{name}{offer.text.removeprefix(name)}{EXAMPLES.get(name, _example(offer.field))}")


EXAMPLES = {
    "is": "live",
    "flag": "stall",
    "has": "tool",
    "outcome": "live",
    "flags": "stall",
    "operation": "chat",
    "cache_verdict": "hit",
}


def _example(field: str) -> str:
    return {"time": "today", "duration": "1s", "gaps": "1s"}.get(FIELDS[field].kind, "1")
