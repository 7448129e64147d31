import json

import pytest
from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects.ollama import API, parse, tokens
from wiretape.recorder.decode.dialects.registry import DIALECTS

COUNTERS = {
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}


def chat(message, done=False, **more):
    message = {"role": "assistant", **message}
    return {"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done, **more}


def generate(response, done=False, **more):
    return {"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "response": response, "done": done, **more}


@each_case(
    ("payload", "content", "reasoning"),
    [
        (chat({"content": "x"}), "x", ""),
        (chat({"content": " "}), " ", ""),
        (chat({"content": "", "thinking": "t"}), "", "t"),
        (chat({"content": "x", "thinking": "t"}), "x", "t"),
        (chat({"content": "x", "images": None}), "x", ""),
        (chat({"content": "x"}, logprobs=[{"token": "x", "logprob": -0.1}]), "x", ""),
        (chat({"content": ""}), "", ""),
        (chat({}), "", ""),
        (generate("x"), "x", ""),
        (generate("", thinking="t"), "", "t"),
        (generate(""), "", ""),
    ],
)
def test_a_line_adds_its_text(payload, content, reasoning):
    assert parse(payload) == Chunk(
        API,
        model="qwen3",
        pieces=(Piece(0, content, reasoning, "", (), None),),
        content=bool(content),
        reasoning=bool(reasoning),
    )


def test_tool_calls_have_their_arguments_as_compact_json():
    calls = [
        {"function": {"name": "f", "arguments": {"city": "Zürich", "n": [1, 2]}}},
        {"id": "call_1", "function": {"index": 1, "name": "f", "arguments": {}}},
        {"function": {"name": "g", "arguments": "{}"}},
    ]
    chunk = parse(chat({"content": "", "tool_calls": calls}))
    assert chunk.tool
    assert chunk.pieces[0].tools == (
        ToolPiece(None, "", "f", '{"city":"Zürich","n":[1,2]}', whole=True),
        ToolPiece(None, "call_1", "f", "{}", whole=True),
        ToolPiece(None, "", "g", "{}", whole=True),
    )


@each_case("calls", [None, [], "x", [None], [{}], [{"function": None}], [{"function": {"name": ""}}]])
def test_a_call_without_a_name_is_no_output(calls):
    assert not parse(chat({"tool_calls": calls})).output


def test_an_image_is_output_without_text():
    assert not parse(generate("", completed=1, total=9)).output
    assert parse(generate("", image="AAAA")).content


@pytest.mark.parametrize(
    "payload",
    [
        chat({"content": ""}, done=True, done_reason="stop", **COUNTERS),
        generate("", done=True, done_reason="stop", context=[1, 2], **COUNTERS),
    ],
)
def test_the_last_line_ends_with_reason_and_counters(payload):
    chunk = parse(payload)
    assert (chunk.ends, chunk.pieces[0].finish_reason, chunk.usage) == (True, "stop", COUNTERS)
    assert not chunk.output


@each_case(
    ("more", "reason"),
    [({}, None), ({"done_reason": ""}, None), ({"done_reason": 1}, None), ({"done_reason": "load"}, "load")],
)
def test_the_reason_may_be_missing(more, reason):
    chunk = parse(generate("", done=True, **more))
    assert (chunk.ends, chunk.pieces[0].finish_reason, chunk.usage) == (True, reason, None)


def test_a_line_of_chat_may_lack_done():
    line = chat({"content": "x"})
    del line["done"]
    assert parse(line) == parse(chat({"content": "x"}))
    assert parse({"model": "m", "message": {"content": "x"}}) is None


def test_a_whole_answer_is_a_line():
    chunk = parse(chat({"content": "x", "thinking": "t"}, done=True, done_reason="length", **COUNTERS))
    assert chunk.pieces == (Piece(0, "x", "t", "", (), "length"),)
    assert chunk.usage == COUNTERS


def test_embeddings_are_usage_without_an_answer():
    payload = {"model": "m", "embeddings": [[0.1]], "total_duration": 14, "load_duration": 1, "prompt_eval_count": 8}
    chunk = parse(payload)
    assert (chunk.api, chunk.model, chunk.pieces) == (API, "m", ())
    assert chunk.usage == {"total_duration": 14, "load_duration": 1, "prompt_eval_count": 8}


def test_an_error_beside_an_answer_is_kept():
    fault = ReportedError(None, "out of memory")
    assert parse(chat({"content": ""}, error="out of memory"), "message", fault).fault == fault


@each_case(
    ("usage", "expected"),
    [
        (COUNTERS, Tokens(input=26, output=282)),
        ({"eval_count": 2}, Tokens(output=2)),
        ({"prompt_eval_count": "26", "eval_count": -1}, Tokens()),
        ({}, Tokens()),
    ],
)
def test_tokens_are_copied(usage, expected):
    assert tokens(usage) == expected


@each_case(
    "payload",
    [
        {},
        {"error": "out of memory"},
        {"status": "pulling manifest"},
        {"status": "success", "done": True},
        {"name": "operations/1", "done": True, "response": {}},
        {"model": "m", "choices": [], "done": True},
        {"model": "m", "candidates": [], "done": True},
        {"model": "m", "done": 1},
        {"model": "m", "message": {"content": "x"}},
        {"model": None, "done": True, "message": {"content": "x"}},
        {"model": "m", "embeddings": [[0.1]]},
        {"embedding": [0.1]},
        {"models": []},
    ],
)
def test_other_objects_are_not_claimed(payload):
    assert parse(payload) is None


CALL = {"id": "i", "function": {"name": "f", "arguments": {"a": 1}}}
EXAMPLES = [
    chat({"content": "x", "thinking": "t", "tool_calls": [CALL]}, done=True, done_reason="stop", **COUNTERS),
    generate("x", done=True, thinking="t", image="A", done_reason="stop", **COUNTERS),
    {"model": "m", "embeddings": [[0.1]], "total_duration": 14, "prompt_eval_count": 8},
]


@pytest.mark.parametrize("payload", EXAMPLES)
def test_no_other_dialect_claims_an_answer(payload):
    assert [dialect.api for dialect in DIALECTS if dialect.parse(payload, "message", None)] == [API]


@given(hostile.payloads(EXAMPLES))
def test_values_of_a_wrong_type_are_absent(payload):
    chunk = parse(payload)
    hostile.assert_sound(chunk)
    hostile.assert_counts(tokens(chunk.usage if chunk and chunk.usage else {}))


# Whole bodies

LINES = [
    chat({"content": "", "thinking": "Hm…"}),
    chat({"content": "Hé"}),
    chat({"content": "llo"}),
    chat({"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"at": "Rome"}}}]}),
    chat({"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"at": "Oslo"}}}]}),
    chat({"content": ""}, done=True, done_reason="stop", **COUNTERS),
]
SAID = {
    "api": "ollama",
    "outcome": "complete",
    "response_model": "qwen3",
    "content": "Héllo",
    "reasoning": "Hm…",
    "finish_reason": "stop",
    "input_tokens": 26,
    "output_tokens": 282,
    "total_tokens": 308,
    "calls": [(None, "f", '{"at":"Rome"}'), (None, "f", '{"at":"Oslo"}')],
}
FACTS = {"content_type": "application/x-ndjson", "path": "/api/chat"}


def stream(*payloads, end="\n"):
    return "".join(json.dumps(payload, ensure_ascii=False) + end for payload in payloads)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stream_is_put_together_however_it_is_cut(end):
    body = stream(*LINES, end=end)
    assert said(derived(body, **FACTS)) == SAID
    assert all(said(measures) == SAID for measures in cut_everywhere(body, **FACTS))


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", None])
def test_lines_tell_a_stream_without_its_type(content_type):
    assert said(derived(stream(*LINES), content_type=content_type)) == SAID
    measures = derived(stream(LINES[0]), content_type=content_type)
    assert (measures.outcome, measures.api) == ("truncated", API)


def test_only_the_last_line_completes_a_stream():
    body = stream(*LINES).encode()
    end = len(body) - 1  # whether its line end has come does not matter
    assert {derived(body[:size], **FACTS).outcome for size in (*range(1, end, 7), end - 1)} == {"truncated"}
    assert {derived(body[:size], **FACTS).outcome for size in (end, len(body))} == {"complete"}


def test_an_old_server_ends_without_a_reason():
    measures = derived(stream(generate("x"), generate("", done=True, context=[1])), **FACTS)
    assert (measures.outcome, measures.content, measures.finish_reason) == ("complete", "x", None)


@pytest.mark.parametrize(("chunk_count", "detail"), [(0, "before_output"), (2, "mid_stream")])
def test_an_error_in_a_stream_is_the_outcome(chunk_count, detail):
    measures = derived(stream(*LINES[:chunk_count], {"error": "out of memory"}), **FACTS)
    assert (measures.outcome, measures.outcome_detail) == ("error_event", detail)
    assert (measures.error_code, measures.error_message) == (None, "out of memory")


def test_an_error_instead_of_a_stream_is_read():
    measures = derived('{"error":"model not found"}', status=404, content_type="application/json")
    assert (measures.outcome, measures.outcome_detail, measures.error_message) == (
        "http_error",
        "client_error",
        "model not found",
    )


def test_a_line_that_is_no_json_is_malformed():
    measures = derived(stream(*LINES[:2]) + "ouch\n" + stream(*LINES[2:]), **FACTS)
    assert (measures.outcome, measures.content) == ("malformed", "Héllo")


@pytest.mark.parametrize(
    ("payload", "path", "operation"),
    [
        (chat({"content": "x"}, done=True, done_reason="stop", **COUNTERS), "/api/chat", "chat"),
        (generate("x", done=True, done_reason="stop", **COUNTERS), "/api/generate", "text_completion"),
    ],
)
def test_a_whole_answer_is_read_as_a_stream_is(payload, path, operation):
    measures = derived(json.dumps(payload), content_type="application/json", path=path)
    assert (measures.outcome, measures.api, measures.operation) == ("complete", API, operation)
    assert (measures.content, measures.finish_reason, measures.output_tokens) == ("x", "stop", 282)
    assert "nonstream" in measures.flags


def test_embeddings_are_no_generation():
    body = json.dumps({"model": "m", "embeddings": [[0.1]], "total_duration": 14, "prompt_eval_count": 8})
    measures = derived(body, content_type="application/json", path="/api/embed")
    assert (measures.api, measures.operation, measures.input_tokens, measures.content) == (API, "embeddings", 8, None)
