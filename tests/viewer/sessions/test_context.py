"""The bytes of a request by source, and those that its predecessor did not have."""

import json
from typing import Any

from tests.support.agents import DIALOGUE, RESULT, body
from wiretape.recorder.decode.elements import Elements, elements
from wiretape.viewer.sessions import context
from wiretape.viewer.sessions.context import RequestContext


def elements_of(request: dict[str, Any]) -> Elements:
    parts = elements(json.dumps(request).encode(), "anthropic.messages")
    assert parts is not None
    return parts


def size(value: Any) -> int:
    return len(json.dumps(value))


def new(change: RequestContext) -> dict[tuple[str, str | None], bool | None]:
    return {(part.source, part.name): part.is_new for part in change.parts}


def test_parts_add_up_and_the_largest_comes_first() -> None:
    record = context.record(context.context(elements_of(body(3)), elements_of(body(1))))
    sizes = [part["bytes"] for part in record["parts"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == record["bytes"] == size(body(3))
    assert record["parts"][0] == {
        "source": "tool_results",
        "name": "read_file",
        "bytes": size(DIALOGUE[2]),
        "new": True,
    }
    assert record["new_bytes"] == size(DIALOGUE[1]) + size(DIALOGUE[2])


def test_new_is_what_the_predecessor_did_not_have() -> None:
    novelty = new(context.context(elements_of(body(3)), elements_of(body(1))))
    assert {key for key, is_new in novelty.items() if is_new} == {("assistant", None), ("tool_results", "read_file")}
    assert not novelty["other", None], "other is left out"


def test_without_a_known_predecessor_nothing_is_called_new() -> None:
    first_context = context.context(elements_of(body(1)), None)
    assert {is_new for (source, _), is_new in new(first_context).items() if source != "other"} == {True}
    unknown = context.context(elements_of(body(1)), None, is_known=False)
    assert (unknown.new_size, {*new(unknown).values()}) == (None, {None})


def test_a_second_equal_message_is_new() -> None:
    request = body(0, messages=[DIALOGUE[0]])
    twice = body(0, messages=[DIALOGUE[0], DIALOGUE[0]])
    assert context.context(elements_of(twice), elements_of(request)).new_size == size(DIALOGUE[0])


def test_results_are_ranked_with_their_places() -> None:
    short = {"role": "user", "content": [{**RESULT, "content": "y"}]}
    change = context.context(elements_of(body(0, messages=[*DIALOGUE[:2], short, *DIALOGUE[1:3]])), None)
    assert [(result.name, result.place) for result in change.results] == [
        ("read_file", "messages[4]"),
        ("read_file", "messages[2]"),
    ]
