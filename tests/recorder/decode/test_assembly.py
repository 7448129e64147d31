from tests.support.cases import each_case
from wiretape.recorder.decode.assembly import assemble
from wiretape.recorder.decode.dialects.chat import parse
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.values import count


def answer(*payloads):
    chunks = [parse(payload) for payload in payloads]
    return assemble([ItemRun(chunk, None, [""], 0) for chunk in chunks], Cleaner())


def calls(*deltas):
    calls = answer(*({"choices": [{"delta": {"tool_calls": delta}}]} for delta in deltas)).values["tool_calls"]
    return [(call["id"], call["name"], call["arguments"]) for call in calls or []]


def call(id=None, name=None, arguments=None, index=None):
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


@each_case(
    ("deltas", "expected"),
    [
        ([[call("a", "f", "", 0)], [call(None, None, "{", 0)], [call("", "", "}", 0)]], [("a", "f", "{}")]),
        (
            [[call("a", "f", "1", 0), call("b", "g", "2", 1)], [call(arguments="3", index=0)]],
            [("a", "f", "13"), ("b", "g", "2")],
        ),
        ([[call("a", "f", "{}", 0)], [call("b", "g", "{}", 0)]], [("a", "f", "{}"), ("b", "g", "{}")]),
        (
            [[call("a", "f", "1", 0)], [call("b", "g", "2", 0)], [call(arguments="3", index=0)]],
            [("a", "f", "1"), ("b", "g", "23")],
        ),
        ([[call("a", "f", "{}")], [call("b", "g", "{}")]], [("a", "f", "{}"), ("b", "g", "{}")]),
        ([[call("a", "f", "1")], [call("b", "g", "2")], [call("a", None, "3")]], [("a", "f", "13"), ("b", "g", "2")]),
        ([[call("a", "f", "1")], [call(arguments="2")]], [("a", "f", "12")]),
        ([[call(None, "f", "")], [call(arguments="{}")]], [(None, "f", "{}")]),
        ([[call(None, "f", "{}"), call(None, "f", "{}")]], [(None, "f", "{}"), (None, "f", "{}")]),
        ([[call(None, "f", "{}")], [call(None, "g", "{}")]], [(None, "f", "{}"), (None, "g", "{}")]),
        ([[call(None, "get_", "", 0)], [call(None, "time", "{}", 0)]], [(None, "get_time", "{}")]),
        ([[call("a", "f", "1", 0)], [call("a", "f", "2", 0)]], [("a", "f", "12")]),
        ([[call(None, "f", "", 0)], [call("a", None, "{}", 0)]], [("a", "f", "{}")]),
        ([[call("a", "f", {"x": 1}, 5)]], [("a", "f", '{"x":1}')]),
        ([[call("a", None, "", 0)]], [("a", None, "")]),
        ([[]], []),
    ],
)
def test_tool_calls_are_distinguished(deltas, expected):
    assert calls(*deltas) == expected


def test_every_chunk_of_a_run_adds_text_and_call():
    chunk = parse({"choices": [{"index": 0, "delta": {"content": "a", "tool_calls": [call(None, None, "1", 0)]}}]})
    values = assemble([ItemRun(chunk, "content", ["a", "b", "c"], 0)], Cleaner()).values
    assert values["content"] == "abc"
    assert [call["arguments"] for call in values["tool_calls"]] == ["111"]


def choice(index, content, reason=None):
    return {"choices": [{"index": index, "delta": {"content": content}, "finish_reason": reason}]}


def test_the_lowest_choice_is_the_answer():
    assembled = answer(choice(2, "c", "stop"), choice(1, "b"), choice(2, "C"))
    assert (assembled.values["content"], assembled.values["finish_reason"]) == ("b", None)
    assert [
        (choice["index"], choice["content"], choice["finish_reason"]) for choice in assembled.values["choices"]
    ] == [(2, "cC", "stop")]
    assert "multi_choice" in assembled.flags


@each_case(
    ("payloads", "finished"),
    [
        ([], False),
        ([choice(0, "a")], False),
        ([choice(0, "a", "stop")], True),
        ([choice(0, "a", "stop"), choice(1, "b")], False),
        ([choice(0, "a", "stop"), choice(1, "b", "length")], True),
        ([choice(0, "", "stop"), {"choices": [{"index": 1, "content_filter_offsets": {}}]}], True),
    ],
)
def test_finished_needs_every_seen_choice(payloads, finished):
    assert answer(*payloads).finished is finished


def test_what_did_not_come_is_none():
    assembled = answer(choice(0, ""), choice(0, "", "stop"))
    assert (
        assembled.values["content"],
        assembled.values["reasoning"],
        assembled.values["refusal"],
        assembled.values["tool_calls"],
        assembled.values["choices"],
    ) == (None,) * 5
    assert answer().values["finish_reason"] is None


def test_the_first_model_and_id_hold():
    assembled = answer(
        *({"choices": [], "id": id, "model": model} for id, model in [("", ""), ("a", ""), ("a", "m"), ("b", "n")])
    )
    assert (assembled.values["response_id"], assembled.values["response_model"]) == ("a", "m")
    assert "id_changed" in assembled.flags


def test_usage_keeps_the_last_value_of_each_field():
    first_usage = {"prompt_tokens": 1, "completion_tokens": 1, "x": {"y": 1}}
    assembled = answer(
        *({"choices": [], "usage": usage} for usage in [first_usage, {"completion_tokens": 5, "x": None}, {"z": "\0"}])
    )
    assert assembled.values["usage"] == {"prompt_tokens": 1, "completion_tokens": 5, "x": {"y": 1}, "z": "\ufffd"}


@each_case(
    ("usage", "tokens", "additive"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 9}, (1, 2, 9, None), False),
        ({"prompt_tokens": 1, "completion_tokens": 2}, (1, 2, 3, None), False),
        ({"completion_tokens": 2.0}, (None, 2, None, None), False),
        ({"completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}, (None, 2, None, 1), False),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 7, "reasoning_tokens": 4}, (1, 2, 7, 4), True),
        ({"prompt_tokens": "1", "completion_tokens": -1, "total_tokens": True}, (None,) * 4, False),
        ({"prompt_tokens": 1 << 63, "completion_tokens_details": [1]}, (None,) * 4, False),
    ],
)
def test_tokens_are_what_usage_reports(usage, tokens, additive):
    assembled = answer({"choices": [], "usage": usage})
    assert tuple(assembled.values[f"{name}_tokens"] for name in ("input", "output", "total", "reasoning")) == tokens
    assert ("reasoning_additive" in assembled.flags) is additive


@each_case(
    ("usage", "flagged"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 9}, True),
        ({"prompt_tokens": 7, "total_tokens": 9}, True),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, False),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 2}, False),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 7, "reasoning_tokens": 4}, False),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 8, "reasoning_tokens": 4}, True),
        ({"prompt_tokens": 1, "completion_tokens": 2}, False),
        ({"completion_tokens": 2, "total_tokens": 9}, False),
    ],
)
def test_a_total_of_more_than_its_parts_is_flagged(usage, flagged):
    assert ("total_unexplained" in answer({"choices": [], "usage": usage}).flags) is flagged


@each_case("value", [None, "3", -1, 1.5, float("inf"), float("nan"), 1e30, True, [], 1 << 63])
def test_what_is_no_count_is_unknown(value):
    assert count(value) is None
