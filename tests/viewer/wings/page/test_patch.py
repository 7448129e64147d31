"""Differences of values: a patch makes the new value of the old one, and is small where a column only grew."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as any_

from tests.support.patched import CASES, patched
from wiretape.viewer.wings.page.site import difference

JSON = any_.recursive(
    any_.none() | any_.booleans() | any_.integers() | any_.text(max_size=5),
    lambda inner: any_.lists(inner, max_size=5) | any_.dictionaries(any_.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def through_json(patch: Any) -> Any:
    return json.loads(json.dumps(patch))


@given(JSON, JSON)
@settings(max_examples=2 * settings.default.max_examples)
def test_a_patch_turns_the_old_value_into_the_new(old: Any, new: Any) -> None:
    patch = difference(old, new)
    assert (old if patch is None else patched(old, through_json(patch))) == new


def test_a_value_that_is_the_same_needs_no_patch() -> None:
    assert [difference(value, value) for value, _ in CASES] == [None] * len(CASES)
    assert difference(1, True) == ["=", True]


def test_of_what_grew_only_the_end_is_sent() -> None:
    old = {"at": [1, 2, 3], "texts": [{"pieces": ["a"], "kind": "content"}], "said": "abc", "same": [1] * 1000}
    new = {"at": [1, 2, 3, 4], "texts": [{"pieces": ["a", "b"], "kind": "content"}], "said": "abcd", "same": [1] * 1000}
    assert difference(old, new) == [
        "{",
        {"at": ["[", {}, [4]], "texts": ["[", {0: ["{", {"pieces": ["[", {}, ["b"]]}, []]}, []], "said": ["+", "d"]},
        [],
    ]
