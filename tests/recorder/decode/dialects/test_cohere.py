import json

import pytest
from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects import chat, messages
from wiretape.recorder.decode.dialects.cohere import API, parse, tokens

USAGE = {
    "billed_units": {"input_tokens": 5.0, "output_tokens": 10.0},
    "tokens": {"input_tokens": 71, "output_tokens": 10},
}
CALL = {"id": "get_weather_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"at":"Rome"}'}}


def event(kind, message=None, **more):
    return parse({"type": kind, "index": 0, "delta": {"message": message or {}}, **more})


def end(**delta):
    return parse({"type": "message-end", "delta": delta})


def response(**more):
    return {"id": "c14c", "finish_reason": "COMPLETE", "message": {"role": "assistant", "content": []}, **more}


@each_case(
    ("chunk", "content", "reasoning"),
    [
        (event("content-start", {"content": {"type": "text", "text": "Hi"}}), "Hi", ""),
        (event("content-start", {"content": {"type": "thinking", "thinking": "Hm"}}), "", "Hm"),
        (event("content-delta", {"content": {"text": " "}}), " ", ""),
        (event("content-delta", {"content": {"text": "Hi"}}, logprobs={"token_ids": [1]}), "Hi", ""),
        (event("content-delta", {"content": {"thinking": "Hm"}}), "", "Hm"),
        (event("tool-plan-delta", {"tool_plan": "I will"}), "", "I will"),
    ],
)
def test_text_thinking_and_plans_are_read(chunk, content, reasoning):
    assert chunk.pieces == (Piece(0, content, reasoning, "", (), None),)
    assert (chunk.content, chunk.reasoning, chunk.tool) == (bool(content), bool(reasoning), False)


def test_a_call_begins_with_its_name_before_its_arguments():
    call = {**CALL, "function": {"name": "get_weather", "arguments": ""}}
    opening = event("tool-call-start", {"tool_calls": call}, index=1)
    more = event("tool-call-delta", {"tool_calls": {"function": {"arguments": '{"at"'}}}, index=1)
    assert opening.pieces[0].tools == (ToolPiece(1, "get_weather_1", "get_weather", ""),)
    assert more.pieces[0].tools == (ToolPiece(1, "", "", '{"at"'),)
    assert opening.tool
    assert more.tool


@each_case(
    "chunk",
    [
        event("content-start", {"content": {"type": "text", "text": ""}}),
        event("content-delta", {"content": {"text": ""}}),
        event("content-delta", {"content": {"image": "x"}}),
        event("content-delta"),
        event("tool-plan-delta", {"tool_plan": ""}),
        parse({"type": "content-end", "index": 0}),
        parse({"type": "tool-call-end", "index": 0}),
        event("citation-start", {"citations": {"start": 0, "end": 2, "text": "Hi", "sources": []}}),
        parse({"type": "citation-end", "index": 0}),
        event("content-new", {"content": {"text": "x"}}),
        event("citation-delta", {"citations": {}}),
    ],
)
def test_events_without_content_are_known_and_ignored(chunk):
    assert chunk == Chunk(API)


def test_the_start_names_the_answer_and_is_no_output():
    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    chunk = event("message-start", message, id="29f1")
    assert (chunk.id, chunk.output, chunk.ends) == ("29f1", False, False)


def test_content_that_the_start_carries_is_read():
    assert event("message-start", {"content": [{"type": "text", "text": "Hi"}]}).pieces[0].content == "Hi"


@each_case("reason", ["COMPLETE", "MAX_TOKENS", "STOP_SEQUENCE", "TOOL_CALL", "TIMEOUT"])
def test_message_end_ends_the_stream_with_reason_and_usage(reason):
    chunk = end(finish_reason=reason, usage=USAGE)
    assert chunk == Chunk(API, pieces=(Piece(0, "", "", "", (), reason),), usage=USAGE, ends=True)


@each_case(
    ("delta", "fault"),
    [
        ({"finish_reason": "ERROR", "error": "the model failed"}, ReportedError("ERROR", "the model failed")),
        ({"finish_reason": "ERROR"}, ReportedError("ERROR", None)),
        ({"finish_reason": "ERROR_TOXIC", "error": None}, ReportedError("ERROR_TOXIC", None)),
        ({"finish_reason": "TIMEOUT", "error": "too slow"}, ReportedError(None, "too slow")),
        ({"finish_reason": "COMPLETE", "error": ""}, None),
        ({"finish_reason": "MAX_TOKENS", "error": {}}, None),
    ],
)
def test_a_reason_that_is_an_error_is_a_fault(delta, fault):
    assert end(**delta).fault == fault
    assert parse(response(**delta)).fault == fault


def test_a_fault_that_was_found_is_kept():
    assert parse(
        {"type": "message-end", "delta": {"error": "b"}}, "message-end", ReportedError("1", "a")
    ).fault == ReportedError("1", "a")


@each_case("delta", [None, "x", [], {}, {"finish_reason": ""}, {"finish_reason": 1}])
def test_an_end_without_a_reason_ends_all_the_same(delta):
    assert parse({"type": "message-end", "delta": delta}) == Chunk(API, ends=True)


def test_a_whole_response_is_read():
    message = {
        "role": "assistant",
        "tool_plan": " I will look.",
        "content": [
            {"type": "thinking", "thinking": "Hm."},
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
        ],
        "tool_calls": [CALL, {**CALL, "id": "get_weather_2"}],
        "citations": [{"start": 0, "end": 1}],
    }
    calls = tuple(ToolPiece(i, f"get_weather_{i + 1}", "get_weather", '{"at":"Rome"}') for i in range(2))
    assert parse(response(message=message, finish_reason="TOOL_CALL", usage=USAGE)) == Chunk(
        API,
        "c14c",
        pieces=(Piece(0, "ab", "Hm. I will look.", "", calls, "TOOL_CALL"),),
        content=True,
        reasoning=True,
        tool=True,
        usage=USAGE,
        ends=True,
    )


def test_an_empty_response_is_a_response():
    chunk = parse(response())
    assert chunk.pieces == (Piece(0, "", "", "", (), "COMPLETE"),)
    assert not chunk.output


@each_case(
    ("usage", "read"),
    [
        ({**USAGE, "cached_tokens": 64.0}, Tokens(input=71, output=10, cache_read=64)),
        ({"billed_units": {"input_tokens": 5, "output_tokens": 10, "search_units": 1}}, Tokens(input=5, output=10)),
        ({"tokens": {}, "billed_units": {"input_tokens": 5}}, Tokens(input=5)),
        ({"tokens": {"input_tokens": "71", "output_tokens": 1.5}, "cached_tokens": True}, Tokens()),
        ({"tokens": [], "billed_units": None}, Tokens()),
        ({}, Tokens()),
    ],
)
def test_tokens_are_those_of_the_model_not_those_billed(usage, read):
    assert tokens(usage) == read


@each_case(
    "payload",
    [
        {},
        {"choices": [{"delta": {"content": "x"}}]},
        {"choices": [], "finish_reason": "stop", "message": {}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},  # Anthropic
        {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"},
        {"type": "message_start", "message": {}},
        {"model": "m", "message": {"role": "assistant", "content": "x"}, "done": True, "done_reason": "stop"},  # Ollama
        {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]},
        {"output": {"message": {"role": "assistant", "content": []}}, "stopReason": "end_turn"},  # Bedrock's Converse
        {"message": "invalid api token"},
        {"message": "x", "finish_reason": "COMPLETE"},
        {"type": "response.content_part.added"},
        {"type": "message-metadata", "messageMetadata": {}},  # a protocol between servers and browsers
        {"type": "text-delta", "id": "0", "delta": "x"},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "x"},
        {"type": 1},
        {"type": [], "finish_reason": "COMPLETE"},
    ],
)
def test_objects_of_other_apis_are_left_alone(payload):
    assert parse(payload) is None


EVENTS = [
    {"type": "message-start", "id": "i", "delta": {"message": {"role": "assistant", "content": [], "tool_calls": []}}},
    {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": "a"}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "a"}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"thinking": "a"}}}},
    {"type": "content-end", "index": 0},
    {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "a"}}},
    {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": CALL}}},
    {"type": "tool-call-delta", "index": 0, "delta": {"message": {"tool_calls": {"function": {"arguments": "{"}}}}},
    {"type": "message-end", "id": "i", "delta": {"finish_reason": "ERROR", "error": "e", "usage": USAGE}},
    response(
        message={
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}],
            "tool_plan": "p",
            "tool_calls": [CALL],
        },
        usage=USAGE,
    ),
]


@each_case("payload", EVENTS)
def test_no_other_dialect_claims_them(payload):
    assert parse(payload) is not None
    assert chat.parse(payload) is None
    assert messages.parse(payload) is None


@given(hostile.payloads(EVENTS))
def test_values_of_a_wrong_type_are_absent(payload):
    chunk = parse(payload)
    hostile.assert_sound(chunk)
    hostile.assert_counts(tokens(chunk.usage if chunk and chunk.usage else {}))


# Whole bodies


def stream(*events, names=True):
    """Write events as a stream, with the `event:` lines or without."""
    return "".join((f"event: {item['type']}\n" if names else "") + f"data: {json.dumps(item)}\n\n" for item in events)


def delta(kind, message, index=0):
    return {"type": kind, "index": index, "delta": {"message": message}}


def message_end(reason, **more):
    return {"type": "message-end", "id": "c14c", "delta": {"finish_reason": reason, "usage": USAGE, **more}}


START = {
    **delta("message-start", {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}),
    "id": "c14c",
}
PLAN = [delta("tool-plan-delta", {"tool_plan": text}) for text in ("I ", "will.")]
CALLS = [
    item
    for index, city in enumerate(("Rome", "Oslo"))
    for item in (
        delta(
            "tool-call-start", {"tool_calls": {**CALL, "id": city, "function": {"name": "f", "arguments": ""}}}, index
        ),
        delta("tool-call-delta", {"tool_calls": {"function": {"arguments": '{"at":'}}}, index),
        delta("tool-call-delta", {"tool_calls": {"function": {"arguments": f'"{city}"}}'}}}, index),
        {"type": "tool-call-end", "index": index},
    )
]
TEXT = [
    delta("content-start", {"content": {"type": "text", "text": ""}}),
    delta("content-delta", {"content": {"text": "Hé"}}),
    delta("content-delta", {"content": {"text": "llo"}}),
    delta("citation-start", {"citations": {"start": 0, "end": 2, "text": "Hé"}}),
    {"type": "citation-end", "index": 0},
    {"type": "content-end", "index": 0},
]
ANSWER = stream(START, *PLAN, *CALLS, *TEXT, message_end("TOOL_CALL"))
SAID = {
    "api": "cohere.chat",
    "outcome": "complete",
    "response_id": "c14c",
    "content": "Héllo",
    "reasoning": "I will.",
    "finish_reason": "TOOL_CALL",
    "input_tokens": 71,
    "output_tokens": 10,
    "total_tokens": 81,
    "calls": [("Rome", "f", '{"at":"Rome"}'), ("Oslo", "f", '{"at":"Oslo"}')],
}


def test_a_stream_is_put_together_however_it_is_cut():
    assert said(derived(ANSWER)) == SAID
    assert all(said(measures) == SAID for measures in cut_everywhere(ANSWER))


@each_case("names", [True, False])
@each_case("done", ["", "data: [DONE]\n\n"])
def test_a_nameless_stream_may_end_with_done(names, done):
    body = stream(START, *PLAN, *CALLS, *TEXT, message_end("TOOL_CALL"), names=names)
    assert said(derived(body + done)) == SAID


def test_thinking_comes_in_a_block_of_its_own():
    thought = [delta("content-delta", {"content": {"thinking": text}}) for text in ("Hm", "…")]
    opening = delta("content-start", {"content": {"type": "thinking", "thinking": ""}})
    measures = derived(
        stream(START, opening, *thought, {"type": "content-end", "index": 0}, *TEXT, message_end("COMPLETE"))
    )
    assert (measures.reasoning, measures.content) == ("Hm…", "Héllo")


@pytest.mark.parametrize("events", [(START,), (START, *TEXT), (START, *PLAN, *CALLS)])
def test_a_stream_without_message_end_is_truncated(events):
    measures = derived(stream(*events))
    assert (measures.outcome, measures.outcome_detail) == ("truncated", "eof")


@each_case(("events", "detail"), [((), "before_output"), ((START,), "before_output"), ((START, *TEXT), "mid_stream")])
@each_case("reason", ["ERROR", "ERROR_TOXIC"])
def test_an_end_that_is_an_error_is_the_outcome(events, detail, reason):
    measures = derived(stream(*events, message_end(reason, error="the model failed")))
    assert (measures.outcome, measures.outcome_detail) == ("error_event", detail)
    assert (measures.error_code, measures.error_message) == (reason, "the model failed")


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        (EVENTS[-1], {"api": "cohere.chat", "outcome": "complete", "content": "a", "reasoning": "p"}),
        (EVENTS[-1], {"finish_reason": "COMPLETE", "response_id": "c14c", "input_tokens": 71, "output_tokens": 10}),
        (response(finish_reason="ERROR"), {"outcome": "error_event", "error_code": "ERROR"}),
    ],
)
def test_an_answer_that_is_not_streamed_is_read(payload, values):
    measures = derived(json.dumps(payload), content_type="application/json")
    assert values.items() <= said(measures).items()
