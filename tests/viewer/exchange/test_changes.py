"""Changes between two requests."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from wiretape.recorder.decode.prompt import Prompt
from wiretape.recorder.decode.request import parse
from wiretape.viewer.exchange.changes import RequestDifference, changes, differ, lines
from wiretape.viewer.exchange.conversation import Folding
from wiretape.viewer.exchange.facts import Line

USER = {"role": "user", "content": "Is it cold?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
SYSTEM = "\n".join(["Be brief.", *(f"Rule {number}." for number in range(9))])


def prompt(*messages: Any, tools: Any = (), **parameters: Any) -> Prompt:
    read = parse(json.dumps({"messages": messages, "tools": tools, **parameters}).encode())
    assert read is not None
    return read


def tool(name: str, description: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description}}


def said(a: Prompt, b: Prompt, folding: Folding | None = None) -> list[str]:
    found: Iterable[Line] = lines(changes(a, b), folding or Folding())
    return ["".join(text for text, _ in one).rstrip() for one in found]


def test_the_same_request_with_other_ids_has_no_difference() -> None:
    asked = [USER, {"role": "assistant", "tool_calls": [CALL]}]
    parts = [{"type": "text", "text": "Is it cold?"}]
    again = [{"role": "user", "content": parts}, {"role": "assistant", "tool_calls": [CALL | {"id": "c2"}]}]
    found = changes(prompt(*asked), prompt(*again))
    assert found == [RequestDifference("message", "1–2", "same")]
    assert not differ(found)
    assert said(prompt(*asked), prompt(*again)) == ["the requests are the same"]


def test_models_and_parameters_are_compared_by_their_names() -> None:
    a, b = prompt(temperature=0, top_p=1, metadata={"user": "u"}), prompt(temperature=1, metadata={"user": "v"}, seed=7)
    assert changes(replace(a, model="m"), replace(b, model="n")) == [
        RequestDifference("model", "", "changed", "m", "n"),
        RequestDifference("parameter", "temperature", "changed", "0", "1"),
        RequestDifference("parameter", "top_p", "removed", "1", None),
        RequestDifference("parameter", "metadata.user", "changed", "u", "v"),
        RequestDifference("parameter", "seed", "added", None, "7"),
    ]
    assert said(a, b) == [
        "~ parameter temperature  0 → 1", "- parameter top_p  1", "~ parameter metadata.user  u → v",
        "+ parameter seed  7",
    ]  # fmt: skip


def test_a_system_prompt_is_compared_line_by_line() -> None:
    a, b = ({"role": "system", "content": text} for text in (SYSTEM, SYSTEM.replace("Rule 4.", "Rule four.\nRule 4b.")))
    assert said(prompt(a), prompt(b)) == [
        "~ system",
        "      … 3 lines the same", "      Rule 2.", "      Rule 3.",
        "    - Rule 4.", "    + Rule four.", "    + Rule 4b.",
        "      Rule 5.", "      Rule 6.", "      … 2 lines the same",
    ]  # fmt: skip


def test_only_the_words_that_differ_are_marked() -> None:
    found = changes(*(prompt({"role": "system", "content": f"Be {how} now."}) for how in ("brief", "long")))
    marked = [[text for text, tone in one if tone in ("error", "success")] for one in lines(found, Folding())]
    assert marked == [[], ["    - ", "brief"], ["    + ", "long"]]


def test_tools_are_added_removed_changed_and_moved() -> None:
    a, b = (
        prompt(tools=[tool(*one) for one in tools]) for tools in ([("f", "x"), ("g", "y")], [("f", "z"), ("h", "y")])
    )
    assert [(one.name, one.change) for one in changes(a, b)] == [
        ("f", "changed"), ("g", "removed"), ("h", "added"),
    ]  # fmt: skip
    moved = prompt(tools=[tool("g", "y"), tool("f", "x")])
    assert [(one.name, one.change) for one in changes(a, moved)] == [("all tools", "moved")]


def test_messages_are_compared_after_those_that_are_the_same() -> None:
    answer, result = {"role": "assistant", "content": "No."}, {"role": "tool", "tool_call_id": "c1", "content": "warm"}
    a = prompt(USER, answer, {"role": "user", "content": "Sure?"}, result)
    b = prompt(USER, answer, {"role": "user", "content": "Why?"}, {"role": "user", "content": "Say!"}, result)
    assert said(a, b) == [
        "", "messages", "= 1–2: the same", "~ 3 user", "    - Sure?", "    + Why?", "+ 4 user", "    + Say!",
        "= 4 (5 on in B): the same",
    ]  # fmt: skip


def test_a_message_of_another_role_replaces_one() -> None:
    found = changes(prompt(USER), prompt({"role": "assistant", "content": "Is it cold?"}))
    assert [(one.name, one.change) for one in found] == [("1 user", "removed"), ("1 assistant", "added")]


def test_a_long_difference_is_folded() -> None:
    text = "\n".join(map(str, range(40)))
    shown = said(prompt(), prompt({"role": "user", "content": text}), Folding(60, "a pipe gets all of it"))
    assert shown[-1].strip() == "… 28 more lines: a pipe gets all of it"
