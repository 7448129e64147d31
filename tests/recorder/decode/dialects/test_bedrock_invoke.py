import base64
import json

import pytest
from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from tests.support.eventstream import event
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects import bedrock, chat, messages
from wiretape.recorder.decode.dialects.bedrock_invoke import API, parse, tokens

METRICS = {"inputTokenCount": 8, "outputTokenCount": 3, "invocationLatency": 480, "firstByteLatency": 200}
LAST = {"amazon-bedrock-invocationMetrics": METRICS}
NOVA_USAGE = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}
NOVA = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}},
    "stopReason": "end_turn",
    "usage": NOVA_USAGE,
}
LLAMA = {"generation": "Hi.", "prompt_token_count": 8, "generation_token_count": 3, "stop_reason": "stop"}
TITAN = {
    "inputTextTokenCount": 8,
    "results": [{"tokenCount": 3, "outputText": "Hi.", "completionReason": "FINISH"}],
}


def packed(inner):
    raw = inner if isinstance(inner, bytes) else json.dumps(inner).encode()
    return {"bytes": base64.b64encode(raw).decode(), "p": "abcd"}


def unpacked(inner):
    return parse(packed(inner), "chunk")


def piece(content="", reason=None, place=0, tools=(), reasoning=""):
    return Piece(place, content, reasoning, "", tools, reason)


@each_case(
    ("inner", "pieces", "ends"),
    [
        ({"generation": "Hi", "prompt_token_count": 8, "stop_reason": None}, (piece("Hi"),), False),
        ({**LLAMA, "generation": "", **LAST}, (piece("", "stop"),), True),
        ({"outputText": "Hi", "index": 0, "completionReason": None}, (piece("Hi"),), False),
        ({"outputText": ".", "completionReason": "FINISH", **LAST}, (piece(".", "FINISH"),), True),
        ({"outputs": [{"text": "Hi", "stop_reason": None}]}, (piece("Hi"),), False),
        ({"outputs": [{"text": "", "stop_reason": "length"}], **LAST}, (piece("", "length"),), True),
        ({"text": "Hi", "is_finished": False, "event_type": "text-generation"}, (piece("Hi"),), False),
        ({"text": "Hi", "is_finished": False, "index": 2}, (piece("Hi", place=2),), False),
        (
            {"is_finished": True, "event_type": "stream-end", "finish_reason": "COMPLETE", "response": {"text": "Hi"}},
            (piece("", "COMPLETE"),),
            True,
        ),
        (
            {"is_finished": False, "tool_calls": [{"name": "f", "parameters": {"a": 1}}, {"name": "g"}, "x"]},
            (piece(tools=(ToolPiece(None, "", "f", '{"a":1}', whole=True),)),),
            False,
        ),
        ({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}}, (piece("Hi"),), False),
        ({"messageStop": {"stopReason": "end_turn"}}, (piece("", "end_turn"),), True),
        (
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
            (piece("Hi"),),
            False,
        ),
        ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, (piece("", "end_turn"),), False),
        ({"type": "message_stop", **LAST}, (), True),
        ({"choices": [{"index": 0, "delta": {"content": "Hi"}}]}, (piece("Hi"),), False),
        ({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, (piece("", "stop"),), True),
        ({"choices": [{"message": {"content": "Hi"}, "stop_reason": None}]}, (piece("Hi"),), False),
        ({"choices": [{"message": {"content": ""}, "stop_reason": "stop"}]}, (piece("", "stop"),), True),
        ({"choices": [{"text": "Hi", "stop_reason": "length"}]}, (piece("Hi", "length"),), True),
        ({"choices": [{"delta": {"reasoning_content": "hm"}}]}, (piece(reasoning="hm"),), False),
        ({"messageStart": {"role": "assistant"}}, (), False),
        ({"type": "ping"}, (), False),
    ],
)
def test_the_events_of_each_model_are_read(inner, pieces, ends):
    chunk = unpacked(inner)
    assert (chunk.api, chunk.pieces, chunk.ends) == (API, pieces, ends)
    assert chunk.content == any(piece.content for piece in pieces)
    assert chunk.reasoning == any(piece.reasoning for piece in pieces)
    assert chunk.tool == any(piece.tools for piece in pieces)
    assert not chunk.flags


@each_case(
    ("inner", "usage", "counts"),
    [
        (
            {**LLAMA, **LAST},
            {"prompt_token_count": 8, "generation_token_count": 3},
            Tokens(input=8, output=3),
        ),
        (
            {"outputText": "", "inputTextTokenCount": 8, "totalOutputTextTokenCount": 0},
            {"inputTextTokenCount": 8, "totalOutputTextTokenCount": 0},
            Tokens(input=8, output=0),
        ),
        ({"outputs": [], **LAST}, METRICS, Tokens(input=8, output=3)),
        ({"is_finished": True, **LAST}, METRICS, Tokens(input=8, output=3)),
        ({"choices": [], **LAST}, METRICS, Tokens(input=8, output=3)),
        ({"somethingElse": 1, **LAST}, METRICS, Tokens(input=8, output=3)),
        (
            {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, **LAST},
            {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
            Tokens(input=1, output=2, total=3),
        ),
        ({"metadata": {"usage": NOVA_USAGE, "metrics": {}}, **LAST}, NOVA_USAGE, Tokens(input=5, output=2, total=7)),
        (
            {"type": "message_start", "message": {"usage": {"input_tokens": 4, "cache_read_input_tokens": 1}}},
            {"input_tokens": 4, "cache_read_input_tokens": 1},
            Tokens(input=5, cache_read=1),
        ),
        ({"type": "message_stop", **LAST}, None, Tokens()),
        ({"outputs": [], "amazon-bedrock-invocationMetrics": "x"}, None, Tokens()),
        (
            {"text": "", "is_finished": True, "amazon-bedrock-invocationMetrics": {"cacheReadInputTokenCount": 1}},
            {"cacheReadInputTokenCount": 1},
            Tokens(cache_read=1),
        ),
    ],
)
def test_the_usage_is_the_models_own_or_bedrocks(inner, usage, counts):
    chunk = unpacked(inner)
    assert chunk.usage == usage
    assert tokens(chunk.usage or {}) == counts


def test_the_id_and_the_model_are_the_objects():
    chunk = unpacked({"type": "message_start", "message": {"id": "msg_1", "model": "claude"}})
    assert (chunk.id, chunk.model) == ("msg_1", "claude")
    chunk = unpacked({"choices": [], "id": "c1", "model": "mistral-large"})
    assert (chunk.id, chunk.model) == ("c1", "mistral-large")


def test_an_error_of_the_model_is_a_fault():
    inner = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert unpacked(inner).fault == ReportedError("overloaded_error", "Overloaded")
    thrown = parse({"message": "Slow down"}, "exception:throttlingException")
    assert thrown == Chunk("", fault=ReportedError("throttlingException", "Slow down"))


@each_case("raw", [b"", b"x", b"[]", b'"x"', b"{", b"\xff", b"[" * 10_000])
def test_an_event_that_holds_no_object_is_malformed(raw):
    assert unpacked(raw) == Chunk("", flags=("malformed",))


@pytest.mark.parametrize("value", ["ab", "é", "{}"])
def test_an_event_that_is_no_base64_is_malformed(value):
    assert parse({"bytes": value}, "chunk") == Chunk("", flags=("malformed",))


@each_case(
    ("payload", "chunk"),
    [
        (NOVA, Chunk(API, "", "", (piece("Hi.", "end_turn"),), True, usage=NOVA_USAGE, ends=True)),
        (
            LLAMA,
            Chunk(
                API, "", "", (piece("Hi.", "stop"),), True,
                usage={"prompt_token_count": 8, "generation_token_count": 3}, ends=True,
            ),
        ),
        (
            TITAN,
            Chunk(
                API, "", "", (piece("Hi.", "FINISH"),), True,
                usage={"inputTextTokenCount": 8, "tokenCount": 3}, ends=True,
            ),
        ),
        ({"inputTextTokenCount": 8, "embedding": [0.5]}, Chunk(API, usage={"inputTextTokenCount": 8})),
        (
            {"outputs": [{"text": "Hi.", "stop_reason": "stop"}]},
            Chunk(API, "", "", (piece("Hi.", "stop"),), True, ends=True),
        ),
    ],
)  # fmt: skip
def test_a_whole_answer_is_read(payload, chunk):
    assert parse(payload) == chunk


@each_case(
    ("payload", "kind"),
    [
        ({"bytes": 7}, "chunk"),
        ({"text": "x"}, "chunk"),
        (packed(LLAMA), "message"),
        ({**NOVA, "metrics": {"latencyMs": 3}}, "message"),
        ({"contentBlockIndex": 0, "delta": {"text": "x"}}, "contentBlockDelta"),
        ({"generation": "x"}, "message"),
        ({"results": [{"text": "x"}]}, "message"),
        ({"outputs": []}, "message"),
        ({"outputs": [{"text": "x"}]}, "message"),
        ({"choices": [{"delta": {"content": "x"}}]}, "message"),
        ({"type": "message", "content": [], "usage": {}}, "message"),
        ({"response": "x", "done": True}, "message"),
    ],
)
def test_payloads_of_others_are_not_claimed(payload, kind):
    assert parse(payload, kind) is None


@each_case("payload", [NOVA, LLAMA, TITAN, packed(LLAMA)])
def test_its_payloads_are_claimed_by_no_neighbour(payload):
    for kind in ("message", "chunk"):
        assert [dialect.parse(payload, kind) for dialect in (bedrock, chat, messages)] == [None] * 3


INNER = [
    LLAMA | LAST,
    {"outputText": "a", "index": 0, "totalOutputTextTokenCount": 3, "completionReason": "FINISH", **LAST},
    {"outputs": [{"text": "a", "stop_reason": "stop"}], **LAST},
    {"text": "a", "is_finished": True, "finish_reason": "COMPLETE", "tool_calls": [{"name": "f", "parameters": {}}]},
    {"id": "c", "choices": [{"index": 0, "message": {"content": "a"}, "stop_reason": "stop"}], "usage": {}},
    {"metadata": {"usage": NOVA_USAGE}},
    {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
    NOVA,
    TITAN,
]


@given(hostile.payloads(INNER))
def test_no_value_of_a_wrong_type_is_an_error(payload):
    for chunk in (unpacked(json.dumps(payload).encode()), parse(payload)):
        hostile.assert_sound(chunk)
        hostile.assert_counts(tokens((chunk.usage if chunk else payload) or {}))


# Whole exchanges

FACTS = {"content_type": "application/vnd.amazon.eventstream", "path": "/model/m/invoke-with-response-stream"}
START = {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": {"input_tokens": 8}}}
CLAUDE = [
    START,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop", **LAST},
]
SAID = {"api": API, "outcome": "complete", "content": "Hi.", "input_tokens": 8, "output_tokens": 3, "total_tokens": 11}
STREAMS = {
    "claude": (CLAUDE, {"response_id": "msg_1", "response_model": "claude", "finish_reason": "end_turn"}),
    "nova": (
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi."}}},
            {"messageStop": {"stopReason": "end_turn"}},
            {"metadata": {"usage": {"inputTokens": 8, "outputTokens": 3}}, **LAST},
        ],
        {"finish_reason": "end_turn"},
    ),
    "llama": (
        [{"generation": "Hi", "prompt_token_count": 8, "generation_token_count": 1, "stop_reason": None},
         {"generation": ".", "prompt_token_count": None, "generation_token_count": 3, "stop_reason": "stop"}],
        {"finish_reason": "stop"},
    ),
    "titan": (
        [{"outputText": "Hi", "index": 0, "totalOutputTextTokenCount": None, "completionReason": None},
         {"outputText": ".", "index": 0, "inputTextTokenCount": 8, "totalOutputTextTokenCount": 3,
          "completionReason": "FINISH", **LAST}],
        {"finish_reason": "FINISH"},
    ),
    "mistral": (
        [{"outputs": [{"text": "Hi", "stop_reason": None}]},
         {"outputs": [{"text": ".", "stop_reason": "stop"}], **LAST}],
        {"finish_reason": "stop"},
    ),
    "chat": (
        [{"id": "c1", "choices": [{"index": 0, "delta": {"content": "Hi."}}]},
         {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **LAST}],
        {"finish_reason": "stop", "response_id": "c1"},
    ),
    "cohere": (
        [{"text": "Hi.", "is_finished": False}, {"is_finished": True, "finish_reason": "COMPLETE", **LAST}],
        {"finish_reason": "COMPLETE"},
    ),
}  # fmt: skip


def body(objects):
    return b"".join(event("chunk", packed(item)) for item in objects)


@each_case("name", STREAMS)
def test_no_cut_changes_the_stream_of_a_model(name):
    objects, more = STREAMS[name]
    for measures in cut_everywhere(body(objects), 97, **FACTS):
        assert said(measures) == SAID | more
        assert measures.operation == "chat"


@each_case("name", STREAMS)
def test_each_models_stream_is_truncated_without_its_end(name):
    objects, _ = STREAMS[name]
    end = -2 if name == "nova" else -1
    assert derived(body(objects[:end]), **FACTS).outcome == "truncated"


def test_what_a_guardrail_says_ends_a_stream():
    said_instead = {
        "outputText": "Input blocked", "index": 0.0, "totalOutputTextTokenCount": 3.0, "inputTextTokenCount": 6.0,
        "amazon-bedrock-guardrailAction": "INTERVENED",
    }  # fmt: skip
    measures = derived(body([said_instead]), **FACTS)
    assert (measures.outcome, measures.content, measures.finish_reason) == ("complete", "Input blocked", None)
    assert (measures.input_tokens, measures.output_tokens) == (6, 3)


@each_case("answer", [{"type": "answer", "text": "Hi"}, {"answer": "Hi"}, {"choices": ["a", "b"]}])
def test_foreign_json_is_a_models_only_at_its_path(answer):
    agent = FACTS | {"path": "/agents/A/agentAliases/B/sessions/C/text"}
    assert [derived(body([answer]), **facts).api for facts in (FACTS, agent)] == [API, "unknown"]


@pytest.mark.parametrize("last_object", [{"type": "completion", "completion": " Hi."}, {"data": "Hi."}])
def test_an_unknown_models_stream_ends_with_its_metrics(last_object):
    assert derived(body([last_object, last_object | LAST]), **FACTS).outcome == "complete"
    assert derived(body([last_object, last_object]), **FACTS).outcome == "truncated"


def test_an_exception_ends_a_stream():
    thrown = event("modelTimeoutException", {"message": "m"}, "exception")
    for objects, detail in ((CLAUDE[:1], "before_output"), (CLAUDE[:3], "mid_stream")):
        measures = derived(body(objects) + thrown, **FACTS)
        assert (measures.outcome, measures.outcome_detail) == ("error_event", detail)
        assert (measures.error_code, measures.api) == ("modelTimeoutException", API)


def test_an_error_of_the_model_ends_a_stream():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
    measures = derived(body([*CLAUDE[:3], error]), **FACTS)
    assert (measures.outcome, measures.error_code) == ("error_event", "overloaded_error")


@pytest.mark.parametrize("payload", [NOVA, LLAMA, TITAN])
def test_a_whole_answer_is_derived_as_a_stream_is(payload):
    measures = derived(json.dumps(payload), content_type="application/json", path="/model/m/invoke")
    assert (measures.api, measures.content, measures.outcome, measures.operation) == (API, "Hi.", "complete", "chat")
    assert measures.output_tokens == (2 if payload is NOVA else 3)


def test_a_broken_stream_of_claude_has_no_output_tokens():
    usage = {"input_tokens": 8, "output_tokens": 1}
    opening = {"type": "message_start", "message": {"id": "m", "content": [], "usage": usage}}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    measures = derived(body([opening, text]), **FACTS)
    assert (measures.outcome, measures.input_tokens, measures.output_tokens) == ("truncated", 8, None)
    assert "no_usage" in measures.flags


def test_an_unreadable_event_makes_a_complete_stream_malformed():
    measures = derived(event("chunk", {"bytes": "!"}) + body(CLAUDE), **FACTS)
    assert (measures.outcome, "malformed" in measures.flags) == ("malformed", True)
