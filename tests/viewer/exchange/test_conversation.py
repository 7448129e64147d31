"""A turn of a conversation in words, in short and in full, and as a record."""

import json
from collections.abc import Iterable
from typing import Any

from tests.support import turns
from tests.support.exchanges import detailed
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.prompt import Media, Other, Prompt, Reasoning, Text, ToolCall, ToolResult
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange import changes
from wiretape.viewer.exchange.conversation import Folding, flattened, lines, parts_lines, record
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.exchange.report import rendered
from wiretape.viewer.exchange.turn import Turn, request_content, turn
from wiretape.viewer.record.rows import RequestRow

FIRST = detailed(
    id=turns.FIRST, content="I look.",
    tool_calls=[{"id": "call_1", "name": "get_weather", "arguments": '{"city":"Oslo"}'}],
)  # fmt: skip
SECOND = detailed(id=turns.SECOND, request_model="gpt-x", model="gpt-x", content="Yes.", finish_reason="stop")


def request(body: bytes) -> RequestRow:
    return RequestRow("", Exchange(path="/v1"), body, len(body), "", {})


def second() -> Turn:
    previous = request_content(FIRST, request(turns.asked(*turns.QUESTION)))
    body = turns.asked(*turns.QUESTION, *turns.GOES_ON, metadata={"user_id": "u"}, temperature=0)
    return turn(request_content(SECOND, request(body)), previous)


def text(lines_: Iterable[Line]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines_]


def test_a_turn_in_short_shows_what_is_new() -> None:
    assert text(lines(second(), Folding(60, "r shows it"), "")) == [
        "model       gpt-x",
        "parameters  stream true  metadata.user_id u  temperature 0",
        "",
        "system · 179 characters, as before",
        "",
        "tools · 1, as before",
        "  get_weather",
        "",
        "messages · 3, those of earlier turns in short: r shows it",
        "1 user  Is it cold in Oslo?",
        '2 assistant  I look. call get_weather {"city": "Oslo"}',
        f"{'── new since 11110000 ':─<60}",
        "3 tool",
        "  result of get_weather  call_1",
        "    snow",
        "",
        "answer · complete, finish reason stop",
        "  Yes.",
    ]


def test_of_many_messages_only_the_last_are_shown() -> None:
    messages = [{"role": "user", "content": ["<system-reminder>x</system-reminder>", f"Say {at}."]} for at in range(80)]
    previous = request_content(FIRST, request(turns.asked(*messages)))
    body = turns.asked(*messages, {"role": "user", "content": "Go on."})
    text_lines = text(lines(turn(request_content(SECOND, request(body)), previous), Folding(60, "r shows it"), ""))
    start = text_lines.index("… 68 earlier messages: r shows it")
    assert text_lines[start + 1] == "69 user  Say 68."
    assert "80 user  Say 79." in text_lines


def test_a_turn_in_full_leaves_nothing_out() -> None:
    text_lines = text(lines(second(), Folding(), ""))
    assert "  Rule 19." in text_lines
    assert "  get_weather  Tell the weather." in text_lines
    start = text_lines.index("2 assistant")
    assert text_lines[start : start + 5] == [
        "2 assistant", "  I look.", "  call get_weather  call_1", '    {"city": "Oslo"}',
        f"{'── new since 11110000 ':─<120}",
    ]  # fmt: skip


def test_a_long_text_is_folded_by_its_lines() -> None:
    first_turn = turn(request_content(FIRST, request(turns.asked(*turns.QUESTION))))
    text_lines = text(lines(first_turn, Folding(60, "r shows it"), ""))
    assert "  Rule 10." in text_lines
    assert "  Rule 11." not in text_lines
    assert "  … 9 more lines: r shows it" in text_lines


def test_a_changed_system_prompt_and_omitted_messages_are_reported() -> None:
    system = {"role": "system", "content": "Be long."}
    previous = request_content(FIRST, request(turns.asked(*turns.QUESTION, *turns.GOES_ON)))
    text_lines = text(
        lines(turn(request_content(SECOND, request(turns.asked(system, *turns.GOES_ON))), previous), Folding(40), "")
    )
    assert "system · 8 characters, changed since the turn before" in text_lines
    assert "── new since 11110000, without 3 of its messages" in "\n".join(text_lines)


def test_every_part_has_its_words() -> None:
    parts = (
        Reasoning("Hm.", opaque=True), Text("No.", "refusal"), ToolCall("c", "f", "not JSON"),
        ToolResult("c", "", (Media("image", "image/png", 5, "a.png"),), failed=True),
        Other("weird", '{"a":1}'), Other("", ""),
    )  # fmt: skip
    assert text(parts_lines(parts, {"c": "f"})) == [
        "  reasoning, encrypted", "    Hm.", "  No.", "  call f  c", "    not JSON", "  result of f, failed  c",
        "    [image, image/png, 5 bytes, a.png]", "  weird", '    {"a": 1}', "  JSON", "    (nested too deeply)",
    ]  # fmt: skip


def test_long_arguments_are_indented() -> None:
    arguments = json.dumps({"text": "x" * 100})
    assert text(parts_lines([ToolCall("", "f", arguments)]))[1:] == ["    {", f'      "text": "{"x" * 100}"', "    }"]


def test_a_request_without_messages_still_has_its_answer() -> None:
    text_lines = text(lines(turn(request_content(SECOND, request(b""))), Folding(), ""))
    assert text_lines == [
        "request  no messages are known: it has no body",
        "",
        "answer · complete, finish reason stop",
        "  Yes.",
    ]


def test_parameters_have_the_names_of_both_levels() -> None:
    value: dict[str, Any] = {"a": {"b": 1, "c": {"d": []}}, "e": {}, "f": "g"}
    assert flattened(value) == {"a.b": "1", "a.c": '{"d":[]}', "e": "{}", "f": "g"}


def test_a_record_says_which_messages_are_new() -> None:
    fields = record(second())
    assert [message["new"] for message in fields["messages"]] == [False, False, True]
    assert (fields["id"], fields["continues"], fields["problem"]) == (turns.SECOND, turns.FIRST, None)
    assert fields["messages"][2]["parts"][0]["content"] == [{"text": "snow", "kind": "text"}]
    assert fields["answer"]["parts"] == [{"text": "Yes.", "kind": "text"}]
    assert json.loads(fields["tools"][0]["definition"]) == turns.TOOLS[0]


def test_a_record_is_json_however_deep_a_parameter_is() -> None:
    body = b'{"messages": [], "seed": NaN, "a": ' + b"[" * 800 + b"]" * 800 + b"}"
    fields = json.dumps(record(turn(request_content(SECOND, request(body)))), indent=2, allow_nan=False)
    assert json.loads(fields)["parameters"]["seed"] == "NaN"


def test_recorded_text_reaches_no_terminal_as_it_is() -> None:
    call = {"id": HOSTILE, "function": {"name": HOSTILE, "arguments": HOSTILE}}
    messages = [
        {"role": "system", "content": HOSTILE}, {"role": HOSTILE, "name": HOSTILE, "content": HOSTILE},
        {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": HOSTILE, "content": HOSTILE},
        {"role": "user", "content": [{"type": HOSTILE}, {"type": "file", "file": {"filename": HOSTILE}}]},
    ]  # fmt: skip
    tools = [{"type": HOSTILE, "name": HOSTILE, "description": HOSTILE}]
    body = json.dumps({"messages": messages, "tools": tools, HOSTILE: HOSTILE, "a": {HOSTILE: HOSTILE}}).encode()
    for folding in (Folding(), Folding(60, "r shows it")):
        first_request = request_content(detailed(model=HOSTILE, content=HOSTILE), request(body))
        text_ = "\n".join(
            line.plain
            for line in rendered(lines(turn(request_content(SECOND, request(body)), first_request), folding, ""))
        )
        assert safe(text_, multiline=True) == text_
    second_request = request_content(SECOND, request(turns.asked(*turns.QUESTION)))
    assert None not in (first_request.prompt, second_request.prompt)
    differences = changes.changes(first_request.prompt or Prompt(), second_request.prompt or Prompt())
    compared = "\n".join(line.plain for line in rendered(changes.lines(differences, Folding())))
    assert safe(compared, multiline=True) == compared
