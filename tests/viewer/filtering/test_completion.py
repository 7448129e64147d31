"""What a filter may go on with."""

import pytest

from tests.viewer.conftest import HOSTILE
from viewer.filtering import completion
from viewer.filtering.parser import parse

VALUES = {"model": [HOSTILE, "gpt x", "gpt-x-mini", "qwen3"], "upstream": ["api.example.com"]}


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("mo", "model:"), ("ttf", "ttft>"), ("is:trun", "is:truncated"), ("flag:st", "flag:stall"),
        ("model:gp", "model:gpt-x-mini"), ("model:a,qw", "model:a,qwen3"), ("x -is:li", "x -is:live"),
        ("(has:to", "(has:tool"), ("host:api", "host:api.example.com"), ("MODEL:GPT", "MODEL:gpt-x-mini"),
        ("max_st", "max_stall"),
    ],
)  # fmt: skip
def test_names_and_values_are_completed(typed: str, whole: str) -> None:
    assert completion.complete(typed, VALUES) == whole


@pytest.mark.parametrize(
    "typed", ["", "is:live ", "model:=", 'text:"mo', "model:gpt-x-mini", "zzz", "model:zzz", HOSTILE]
)
def test_nothing_is_offered_where_nothing_fits(typed: str) -> None:
    assert completion.complete(typed, VALUES) is None


def test_every_field_that_is_offered_can_be_filtered_by() -> None:
    for offered in completion.OFFERED:
        name = offered.rstrip(":<>=")
        value = {"is": "live", "flag": "stall", "has": "tool", "since": "-2h", "until": "today"}.get(name, "1s")
        number = name in ("status", "tps", "tok.out", "tok.in", "events")
        parse(offered + ("1" if number else value))
