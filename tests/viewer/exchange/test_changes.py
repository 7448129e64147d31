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
    prompt_read = parse(json.dumps({"messages": messages, "tools": tools, **parameters}).encode())
    assert prompt_read is not None
    return prompt_read


def tool(name: str, description: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description}}


def diff_lines(a: Prompt, b: Prompt, folding: Folding | None = None) -> list[str]:
    differences: Iterable[Line] = lines(changes(a, b), folding or Folding())
    return ["".join(text for text, _ in line).rstrip() for line in differences]


def test_the_same_request_with_other_ids_has_no_difference() -> None:
    request = [USER, {"role": "assistant", "tool_calls": [CALL]}]
    parts = [{"type": "text", "text": "Is it cold?"}]
    repeated = [{"role": "user", "content": parts}, {"role": "assistant", "tool_calls": [CALL | {"id": "c2"}]}]
    differences = changes(prompt(*request), prompt(*repeated))
    assert differences == [RequestDifference("message", "1–2", "same")]
    assert not differ(differences)
    assert diff_lines(prompt(*request), prompt(*repeated)) == ["the requests are the same"]


def test_models_and_parameters_are_compared_by_their_names() -> None:
    a, b = prompt(temperature=0, top_p=1, metadata={"user": "u"}), prompt(temperature=1, metadata={"user": "v"}, seed=7)
    assert changes(replace(a, model="m"), replace(b, model="n")) == [
        RequestDifference("model", "", "changed", "m", "n"),
        RequestDifference("parameter", "temperature", "changed", "0", "1"),
        RequestDifference("parameter", "top_p", "removed", "1", None),
        RequestDifference("parameter", "metadata.user", "changed", "u", "v"),
        RequestDifference("parameter", "seed", "added", None, "7"),
    ]
    assert diff_lines(a, b) == [
        "~ parameter temperature  0 → 1", "- parameter top_p  1", "~ parameter metadata.user  u → v",
        "+ parameter seed  7",
    ]  # fmt: skip


def test_a_system_prompt_is_compared_line_by_line() -> None:
    a, b = ({"role": "system", "content": text} for text in (SYSTEM, SYSTEM.replace("Rule 4.", "Rule four.\nRule 4b.")))
    assert diff_lines(prompt(a), prompt(b)) == [
        "~ system",
        "      … 3 lines the same", "      Rule 2.", "      Rule 3.",
        "    - Rule 4.", "    + Rule four.", "    + Rule 4b.",
        "      Rule 5.", "      Rule 6.", "      … 2 lines the same",
    ]  # fmt: skip


def test_only_the_words_that_differ_are_marked() -> None:
    differences = changes(*(prompt({"role": "system", "content": f"Be {manner} now."}) for manner in ("brief", "long")))
    marked = [[text for text, tone in line if tone in ("error", "success")] for line in lines(differences, Folding())]
    assert marked == [[], ["    - ", "brief"], ["    + ", "long"]]


def test_tools_are_added_removed_changed_and_moved() -> None:
    a, b = (
        prompt(tools=[tool(*line) for line in tools]) for tools in ([("f", "x"), ("g", "y")], [("f", "z"), ("h", "y")])
    )
    assert [(change.name, change.change) for change in changes(a, b)] == [
        ("f", "changed"), ("g", "removed"), ("h", "added"),
    ]  # fmt: skip
    moved = prompt(tools=[tool("g", "y"), tool("f", "x")])
    assert [(change.name, change.change) for change in changes(a, moved)] == [("all tools", "moved")]


def test_messages_are_compared_after_those_that_are_the_same() -> None:
    answer, result = {"role": "assistant", "content": "No."}, {"role": "tool", "tool_call_id": "c1", "content": "warm"}
    a = prompt(USER, answer, {"role": "user", "content": "Sure?"}, result)
    b = prompt(USER, answer, {"role": "user", "content": "Why?"}, {"role": "user", "content": "Say!"}, result)
    assert diff_lines(a, b) == [
        "", "messages", "= 1–2: the same", "~ 3 user", "    - Sure?", "    + Why?", "+ 4 user", "    + Say!",
        "= 4 (5 on in B): the same",
    ]  # fmt: skip


def test_a_message_of_another_role_replaces_one() -> None:
    differences = changes(prompt(USER), prompt({"role": "assistant", "content": "Is it cold?"}))
    assert [(change.name, change.change) for change in differences] == [("1 user", "removed"), ("1 assistant", "added")]


def test_a_long_difference_is_folded() -> None:
    text = "\n".join(map(str, range(40)))
    output = diff_lines(prompt(), prompt({"role": "user", "content": text}), Folding(60, "a pipe gets all of it"))
    assert output[-1].strip() == "… 28 more lines: a pipe gets all of it"
