import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.dialect import Chunk, Piece, ToolPiece
from wiretape.recorder.decode.dialects.chat import parse
from wiretape.recorder.decode.values import compact


def delta(value, **choice):
    return parse({"choices": [{"index": 0, "delta": value, **choice}]})


@each_case(
    ("value", "content", "reasoning", "refusal"),
    [
        ({"content": "x"}, "x", "", ""),
        ({"content": " "}, " ", "", ""),
        ({"content": None, "reasoning_content": "r"}, "", "r", ""),
        ({"reasoning": "r", "reasoning_details": [{"text": "r"}]}, "", "r", ""),
        ({"reasoning_content": "", "reasoning": "r"}, "", "r", ""),
        ({"reasoning_content": "a", "reasoning": "b"}, "", "a", ""),
        ({"reasoning_details": [{"text": "a"}, {"summary": "b"}]}, "", "ab", ""),
        ({"refusal": "no"}, "", "", "no"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, "c"]}, "abc", "", ""),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}]}, "", "t", ""),
        ({"content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}]}, "a", "t", ""),
        ({"content": None, "audio": {"id": "a", "transcript": "said"}}, "said", "", ""),
        ({"content": "x", "audio": {"transcript": "said"}}, "x", "", ""),
    ],
)
def test_a_delta_gives_its_text_once(value, content, reasoning, refusal):
    chunk = delta(value)
    assert chunk.pieces == (Piece(0, content, reasoning, refusal, (), None),)
    assert (chunk.content, chunk.reasoning) == (bool(content or refusal), bool(reasoning))


@each_case(
    "value",
    [
        {},
        {"role": "assistant", "content": ""},
        {"content": None, "refusal": None},
        {"content": []},
        {"content": [{"type": "text", "text": ""}]},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "id": "a"}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "s"}]},
        {"audio": {"id": "audio_1", "expires_at": 1, "transcript": ""}},
        {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://example.com"}}]},
        {"content": 7, "reasoning": [], "refusal": {}, "audio": "x", "tool_calls": "x", "function_call": 1},
    ],
)
def test_a_delta_without_text_is_no_output(value):
    assert not delta(value).output


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        ({"audio": {"data": "AAAA"}}, ()),
        ({"content": [{"type": "image_url", "image_url": {}}]}, ()),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA"}]}, ("opaque_reasoning",)),
    ],
)
def test_what_has_no_text_can_be_output(value, flags):
    chunk = delta(value)
    assert chunk.output
    assert chunk.flags == flags


@each_case(
    ("call", "piece"),
    [
        ({"index": 1, "id": "a", "function": {"name": "f", "arguments": "{"}}, ToolPiece(1, "a", "f", "{")),
        ({"id": None, "function": {"name": None, "arguments": {"x": [1]}}}, ToolPiece(None, "", "", '{"x":[1]}')),
        ({"index": "0", "function": {"name": "f"}}, ToolPiece(None, "", "f", "")),
        ({"index": -1, "function": "f"}, ToolPiece(None, "", "", "")),
        ({"index": True}, ToolPiece(None, "", "", "")),
        ({"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}, ToolPiece(0, "a", "f", "x")),
        ({"index": 0, "type": "custom", "custom": {"input": "y"}}, ToolPiece(0, "", "", "y")),
        ({"index": 0, "custom": {"name": 1, "input": []}, "function": None}, ToolPiece(0, "", "", "[]")),
    ],
)
def test_an_incomplete_tool_call_is_read(call, piece):
    assert delta({"tool_calls": [call]}).pieces[0].tools == (piece,)
    assert delta({"tool_calls": call}).pieces[0].tools == (piece,)


def test_a_legacy_function_call_is_a_tool_call():
    chunk = delta({"function_call": {"name": "f", "arguments": "{}"}})
    assert chunk.tool
    assert chunk.pieces[0].tools == (ToolPiece(None, "", "f", "{}"),)


@each_case(("reason", "read"), [("stop", "stop"), ("", None), ("null", None), (None, None), (3, None), ([], None)])
def test_finish_reasons_that_say_nothing_are_absent(reason, read):
    assert delta({}, finish_reason=reason).pieces[0].finish_reason == read


@each_case(("index", "read"), [(3, 3), (None, 1), ("0", 1), (-1, 1), (True, 1), (1 << 31, 1), (1e3, 1), ({}, 1)])
def test_a_choice_without_an_index_has_its_position(index, read):
    chunk = parse({"choices": [None, {"index": index, "delta": {}}]})
    assert [piece.index for piece in chunk.pieces] == [read]


@pytest.mark.parametrize(
    ("choice", "content"),
    [
        ({"delta": {"content": "d"}, "message": {"content": "m"}, "text": "t"}, "d"),
        ({"delta": None, "message": {"content": "m"}, "text": "t"}, "m"),
    ],
)
def test_a_delta_precedes_a_message_and_both_precede_text(choice, content):
    assert parse({"choices": [choice]}).pieces[0].content == content


def test_an_annotation_is_no_sight_of_a_choice():
    assert parse({"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]}).pieces == ()


@each_case(
    ("payload", "usage"),
    [
        ({"choices": [], "usage": {"a": 1}}, {"a": 1}),
        ({"choices": [{"delta": {}, "usage": {"a": 2}}], "usage": None}, {"a": 2}),
        ({"choices": [], "x_groq": {"usage": {"a": 3}}}, {"a": 3}),
        ({"choices": [], "usage": {}}, None),
        ({"choices": [], "usage": [1]}, None),
        ({"choices": [], "usage": "1", "x_groq": "x"}, None),
        ({"usage": {"completion_tokens": 4}}, {"completion_tokens": 4}),
    ],
)
def test_usage_is_found_where_servers_put_it(payload, usage):
    assert parse(payload).usage == usage


@each_case(
    ("payload", "claimed"),
    [
        ({"choices": []}, True),
        ({"choices": None}, True),
        ({"choices": {"0": {}}}, False),
        ({"question": "Which?", "choices": [{"label": "Yes"}, {"label": "No"}]}, False),
        ({"question": "Which?", "choices": ["Yes", "No"]}, False),
        ({"question": "Which?", "choices": []}, False),
        ({"object": "chat.completion.chunk"}, True),
        ({}, False),
        ({"type": "message_delta", "usage": {"completion_tokens": 1}}, False),
        ({"output": {"text": "x"}, "usage": {"total_tokens": 1}}, False),
        ({"candidates": []}, False),
        ({"object": ["chat.completion"]}, False),
        ({"choices": [], "moderation": {"input": {"type": "error"}, "output": {}}}, True),
        ({"choices": [{"text": "t"}]}, False),
        ({"choices": [{"text": "t"}, {"delta": {}}]}, True),
        ({"object": "response", "usage": {"prompt_tokens": 1}}, False),
        ({"usage": {"total_tokens": 3}}, True),
        ({"usage": {"total_tokens": 3, "input_tokens": 1}}, False),
        ({"object": "list", "data": [{"object": "embedding"}], "usage": {"prompt_tokens": 1}}, False),
        ({"object": "list", "data": [{"object": "score"}], "usage": {"prompt_tokens": 1}}, True),
        ({"event_type": "interaction.status_update", "usage": {"total_tokens": 1}}, False),
        ({"id": "c", "usage": {"total_tokens": 1}, "timings": {"prompt_n": 1}}, True),
    ],
)
def test_the_shape_decides_what_is_chat(payload, claimed):
    assert (parse(payload) is not None) is claimed


@each_case(
    ("kind", "choice", "mismatch"),
    [
        ("chat.completion.chunk", {"delta": {}}, False),
        ("", {"delta": {}}, False),
        (None, {"delta": {}}, False),
        ("text_completion", {"delta": {"content": "x"}}, True),
        ("chat.completion", {"message": {}}, False),
        ("chat.completion", {"delta": {}}, True),
        ("chat.completion.done", {"delta": {}, "message": {}}, True),
    ],
)
def test_an_object_that_claims_something_else_is_flagged(kind, choice, mismatch):
    assert ("object_mismatch" in parse({"object": kind, "choices": [choice]}).flags) is mismatch


def test_ids_and_models_of_the_wrong_type_are_empty():
    assert parse({"id": 1, "model": ["m"], "choices": []}) == Chunk("openai.chat")


def test_what_cannot_be_written_is_empty():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert compact(deep) == ""
    assert compact({"é": [1, 2]}) == '{"é":[1,2]}'


@each_case(
    "piece",
    [
        {"reasoning_text": "Hm"},
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}]},
        {"content": [{"type": "reasoning", "reasoning": "Hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]},
    ],
)
def test_reasoning_has_many_names(piece):
    chunk = delta(piece)
    assert (chunk.pieces[0].reasoning, chunk.pieces[0].content) == ("Hm", "")
    assert (chunk.reasoning, chunk.content) == (True, False)


def test_reasoning_that_is_sent_back_is_no_output():
    assert not delta({"reasoning_opaque": "b3BhcXVl"}).output


def test_an_image_is_output_without_text():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    assert delta({"content": "", "images": [image]}).content
    assert parse({"choices": [{"message": {"content": "", "images": [image]}, "finish_reason": "stop"}]}).content
    assert not delta({"content": "", "images": []}).output
