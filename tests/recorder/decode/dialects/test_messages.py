import json
from dataclasses import replace

import pytest
from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import MS, cut_everywhere, derived, said
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects import chat
from wiretape.recorder.decode.dialects.messages import API, parse, tokens


def delta(value, index=0):
    return parse({"type": "content_block_delta", "index": index, "delta": value})


def start(block, index=0):
    return parse({"type": "content_block_start", "index": index, "content_block": block})


def message(**more):
    return parse({"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", **more})


@each_case(
    ("chunk", "content", "reasoning"),
    [
        (delta({"type": "text_delta", "text": "x"}), "x", ""),
        (delta({"type": "text_delta", "text": " "}), " ", ""),
        (delta({"type": "thinking_delta", "thinking": "hm"}), "", "hm"),
        (start({"type": "text", "text": "x", "citations": []}), "x", ""),
        (start({"type": "thinking", "thinking": "hm", "signature": ""}), "", "hm"),
    ],
)
def test_text_and_thinking_come_in_starts_and_deltas(chunk, content, reasoning):
    assert chunk.pieces == (Piece(0, content, reasoning, "", (), None),)
    assert (chunk.content, chunk.reasoning, chunk.tool) == (bool(content), bool(reasoning), False)


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_a_call_begins_with_its_name_and_is_output(kind):
    chunk = start({"type": kind, "id": "toolu_1", "name": "f", "input": {}}, index=2)
    assert chunk.pieces == (Piece(0, "", "", "", (ToolPiece(2, "toolu_1", "f", ""),), None),)
    assert chunk.tool


@each_case(
    ("given", "arguments"),
    [({}, ""), ({"a": [1, "é"]}, '{"a":[1,"é"]}'), (None, ""), ("{", ""), ([], ""), (7, "")],
)
def test_a_call_can_come_whole_at_its_start(given, arguments):
    (piece,) = start({"type": "tool_use", "id": "t", "name": "f", "input": given}).pieces
    assert piece.tools == (ToolPiece(0, "t", "f", arguments, whole=arguments != ""),)


@pytest.mark.parametrize("text", ['{"a"', "", "no JSON at all"])
def test_pieces_of_input_are_copied_even_without_json(text):
    chunk = delta({"type": "input_json_delta", "partial_json": text}, index=1)
    assert chunk.pieces[0].tools == (ToolPiece(1, "", "", text),)
    assert chunk.tool == bool(text)


def test_redacted_thinking_is_reasoning_without_text():
    chunk = start({"type": "redacted_thinking", "data": "EmwK"})
    assert chunk == Chunk(API, reasoning=True, flags=("opaque_reasoning",))


@each_case(
    "chunk",
    [
        delta({"type": "signature_delta", "signature": "EqQB"}),
        delta({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}),
        delta({"type": "compaction_delta", "content": None}),
        start({"type": "compaction", "content": None}),
        delta({"type": "new_delta", "text": "x"}),
        delta({"type": "text_delta", "text": ""}),
        start({"type": "text", "text": ""}),
        start({"type": "thinking", "thinking": "", "signature": "EqQB"}),
        start({"type": "web_search_tool_result", "tool_use_id": "t", "content": [{"type": "web_search_result"}]}),
        start({"type": "mcp_tool_result", "content": [{"type": "text", "text": "x"}]}),
        start({"type": "container_upload", "file_id": "f"}),
        start({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}),
        start({"type": "new_block", "text": "x"}),
        parse({"type": "content_block_stop", "index": 0}),
        parse({"type": "content_block_new", "index": 0}),
    ],
)
def test_events_without_content_are_known_and_ignored(chunk):
    assert replace(chunk, provider_results=0) == Chunk(API)


def test_the_providers_tool_calls_and_results_are_counted():
    call = start({"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}})
    result = start({"type": "web_search_tool_result", "tool_use_id": "t", "content": []})
    own_call = start({"type": "tool_use", "id": "t", "name": "f", "input": {}})
    counts = [(chunk.provider_calls, chunk.provider_results) for chunk in (call, result, own_call)]
    assert counts == [(1, 0), (0, 1), (0, 0)]


def test_the_start_names_the_message_and_reports_usage():
    usage = {"input_tokens": 25, "output_tokens": 1}
    chunk = parse(
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "content": [], "usage": usage}}
    )
    assert (chunk.id, chunk.model, chunk.usage, chunk.output) == ("msg_1", "claude", {"input_tokens": 25}, False)


def test_a_finished_message_start_has_all_usage():
    usage = {"input_tokens": 25, "output_tokens": 7}
    chunk = parse({"type": "message_start", "message": {"content": [], "stop_reason": "end_turn", "usage": usage}})
    assert chunk.usage == usage


def test_content_in_a_messages_start_is_read():
    content = [{"type": "text", "text": "Hi"}]
    assert parse({"type": "message_start", "message": {"content": content}}).pieces[0].content == "Hi"


@each_case("reason", ["end_turn", "max_tokens", "tool_use", "pause_turn", "refusal"])
def test_a_message_delta_brings_stop_reason_and_usage(reason):
    usage = {"output_tokens": 15}
    chunk = parse({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage})
    assert chunk == Chunk(API, pieces=(Piece(0, "", "", "", (), reason),), usage=usage)


@each_case("value", [{"stop_reason": None}, {"stop_reason": ""}, {"stop_reason": 1}, {}, None, "x"])
def test_a_message_delta_without_stop_reason_adds_nothing(value):
    assert parse({"type": "message_delta", "delta": value}).pieces == ()


def test_only_message_stop_ends_a_stream():
    kinds = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
    skeleton = {"message": {}, "content_block": {}, "delta": {}, "index": 0}
    chunks = {kind: parse({"type": kind, **skeleton}) for kind in [*kinds, "message_stop", "ping"]}
    assert [kind for kind, chunk in chunks.items() if chunk.ends] == ["message_stop"]


def test_a_ping_counts_for_nothing_and_claims_no_stream():
    chunk = parse({"type": "ping"})
    assert chunk.ping
    assert not chunk.counts
    assert chunk.api == ""


def test_the_event_names_the_type_that_payloads_lack():
    assert parse({"index": 0, "delta": {"type": "text_delta", "text": "x"}}, "content_block_delta").content
    assert parse({"delta": {"type": "text_delta", "text": "x"}}) is None


def test_a_whole_message_is_read_block_by_block():
    chunk = message(
        id="msg_1",
        model="claude",
        content=[
            {"type": "thinking", "thinking": "Hm", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "EmwK"},
            {"type": "text", "text": "Let me "},
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
            {"type": "text", "text": "see", "citations": None},
            {"type": "tool_use", "id": "t", "name": "now", "input": {}},
            "no block",
        ],
        stop_reason="tool_use",
        usage={"input_tokens": 1},
    )
    calls = (ToolPiece(3, "srv", "web_search", '{"query":"q"}'), ToolPiece(6, "t", "now", "{}"))
    assert chunk == Chunk(
        API,
        "msg_1",
        "claude",
        (Piece(0, "Let me see", "Hm", "", calls, "tool_use"),),
        content=True,
        reasoning=True,
        tool=True,
        usage={"input_tokens": 1},
        flags=("opaque_reasoning",),
        ends=True,
    )


def test_an_empty_message_is_a_message():
    assert message().pieces == (Piece(0, "", "", "", (), "end_turn"),)


@pytest.mark.parametrize("more", [{}, {"context_management": {"original_input_tokens": 9}}])
def test_counted_tokens_are_a_usage_and_no_message(more):
    chunk = parse({"input_tokens": 43, **more})
    assert chunk.pieces == ()
    assert tokens(chunk.usage) == Tokens(input=43)


@each_case(
    ("usage", "read"),
    [
        ({}, Tokens()),
        (
            {
                "input_tokens": 61,
                "output_tokens": 503,
                "cache_read_input_tokens": 7,
                "cache_creation_input_tokens": 0,
                "output_tokens_details": {"thinking_tokens": 300},
            },
            Tokens(input=68, output=503, reasoning=300, cache_read=7, cache_write=0),
        ),
        (
            {
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 7},
            },
            Tokens(cache_write=9, cache_write_1h=7),
        ),
        (
            {"cache_creation_input_tokens": 9, "cache_creation": {"ephemeral_5m_input_tokens": 9}},
            Tokens(cache_write=9, cache_write_1h=0),
        ),
        ({"cache_creation_input_tokens": 9, "cache_creation": {"ephemeral_1h_input_tokens": 8}}, Tokens(cache_write=9)),
        ({"cache_creation_input_tokens": 9, "cache_creation": [9]}, Tokens(cache_write=9)),
        ({"input_tokens": "61", "output_tokens": -1, "output_tokens_details": []}, Tokens()),
        ({"input_tokens": None, "output_tokens": True, "cache_read_input_tokens": 1.5}, Tokens()),
    ],
)
def test_tokens_come_from_usage_and_cached_ones_are_input(usage, read):
    assert tokens(usage) == read


@each_case(
    ("payload", "claimed"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, True),
        ({"type": "error", "error": {"type": "api_error", "message": "m"}, "request_id": "req_1"}, True),
        ({"type": "error", "sequence_number": 2, "error": {"type": "t", "code": "c", "message": "m"}}, False),
        ({"type": "error", "code": "c", "message": "m", "param": None}, False),
        ({"type": "error", "error": "text"}, False),
        ({"error": {"type": "t", "message": "m"}}, False),
    ],
)
def test_errors_of_this_api_carry_their_fault(payload, claimed):
    chunk = parse(payload, "error", ReportedError("t", "m"))
    assert chunk == (Chunk(API, fault=ReportedError("t", "m")) if claimed else None)


@each_case(
    "payload",
    [
        {},
        {"choices": [{"delta": {"content": "x"}}]},
        {"object": "chat.completion.chunk", "usage": {"prompt_tokens": 1}},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []},  # Conversations
        {"type": "message", "content": "x", "model": "m"},
        {"type": "message"},
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "delta": "x"},
        {"object": "response.input_tokens", "input_tokens": 3},
        {"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}},  # Cohere
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "x"}}}},
        {"messageStart": {"role": "assistant"}},  # Bedrock's Converse
        {"contentBlockDelta": {"delta": {"text": "x"}, "contentBlockIndex": 0}},
        {"candidates": [{"content": {"parts": [{"text": "x"}]}}]},
        {"model": "m", "message": {"role": "assistant", "content": "x"}, "done": False},
        {"type": 1},
        {"type": []},
        {"type": None, "input_tokens": 1, "output_tokens": 1},
    ],
)
def test_objects_of_other_apis_are_left_alone(payload):
    assert parse(payload) is None


@each_case(
    "payload",
    [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message", "content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 1}},
        {"input_tokens": 1},
    ],
)
def test_the_chat_dialect_leaves_them_alone(payload):
    assert chat.parse(payload) is None


USAGE = {"input_tokens": 25, "output_tokens": 1, "output_tokens_details": {"thinking_tokens": 1}}
EVENTS = [
    {"type": "message_start", "message": {"id": "m", "model": "c", "content": [], "stop_reason": None, "usage": USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "a"}},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE},
    {"type": "message_stop"},
    {
        "type": "message",
        "id": "m",
        "model": "c",
        "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        "stop_reason": "tool_use",
        "usage": USAGE,
    },
    {"input_tokens": 1},
]


@given(hostile.payloads(EVENTS))
def test_values_of_a_wrong_type_are_absent(payload):
    chunk = parse(payload)
    hostile.assert_sound(chunk)
    hostile.assert_counts(tokens(chunk.usage if chunk and chunk.usage else {}))


# Whole bodies

START = {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
         "model": "claude", "stop_reason": None, "usage": {"input_tokens": 43, "output_tokens": 1}}}  # fmt: skip
PING, STOP = {"type": "ping"}, {"type": "message_stop"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def block(index, kind, *deltas, **more):
    """Return the events of one block, with a text in each delta."""
    name, key = {"text": ("text", "text"), "thinking": ("thinking", "thinking")}.get(
        kind, ("input_json", "partial_json")
    )
    start_value = {"input": {}} if name == "input_json" else {key: ""}
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": kind, **start_value, **more}},
        *({"type": "content_block_delta", "index": index, "delta": {"type": f"{name}_delta", key: t}} for t in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def stream(*events, names=True):
    """Write events as a stream, with the `event:` lines or without."""
    return "".join(
        (f"event: {event['type']}\n" if names else "") + f"data: {json.dumps(event)}\n\n" for event in events
    )


SIGNATURE = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}}
THOUGHT = block(0, "thinking", "Hm", "…")
TEXT = block(1, "text", "Hé", "llo")
CALL = block(2, "tool_use", "", '{"at": "Ro', 'me"}', id="toolu_1", name="weather")
LAST = end("tool_use", input_tokens=61, output_tokens=9, cache_read_input_tokens=7, cache_creation_input_tokens=0)
ANSWER = stream(START, PING, *THOUGHT[:-1], SIGNATURE, THOUGHT[-1], *TEXT, *CALL, LAST, STOP)
SAID = {
    "api": "anthropic.messages",
    "outcome": "complete",
    "response_model": "claude",
    "response_id": "msg_1",
    "content": "Héllo",
    "reasoning": "Hm…",
    "finish_reason": "tool_use",
    "input_tokens": 68,
    "output_tokens": 9,
    "total_tokens": 77,
    "cache_read_input_tokens": 7,
    "cache_write_input_tokens": 0,
    "calls": [("toolu_1", "weather", '{"at": "Rome"}')],
}


def test_a_stream_is_put_together_however_it_is_cut():
    assert said(derived(ANSWER)) == SAID
    assert all(said(measures) == SAID for measures in cut_everywhere(ANSWER))


def test_a_stream_needs_no_names_of_events():
    events = (START, *THOUGHT, *TEXT, *CALL, LAST, STOP)
    assert said(derived(stream(*events, names=False))) == SAID
    assert said(derived(stream(*events).replace("\n", "\r\n"))) == SAID


def test_a_ping_is_not_the_first_chunk():
    ping = stream(PING)
    assert derived(ping + stream(START, *TEXT, end("end_turn"), STOP), len(ping)).ttfc_ns == 110 * MS


@each_case("reason", ["end_turn", "max_tokens", "refusal", "pause_turn", "model_context_window_exceeded"])
def test_a_stream_that_message_stop_ends_is_complete(reason):
    measures = derived(stream(START, *TEXT, end(reason, output_tokens=2), STOP))
    assert (measures.outcome, measures.finish_reason, measures.input_tokens, measures.output_tokens) == (
        "complete",
        reason,
        43,
        2,
    )


STARTED = {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}
PLACED = {"type": "message_start", "message": {"id": "m", "model": "claude", "content": [], "usage": STARTED}}


@each_case(
    ("events", "facts", "outcome"),
    [
        ((PLACED, *TEXT), {}, "truncated"),
        ((PLACED, *TEXT), {"ended_by": "reset"}, "truncated"),
        ((PLACED, *TEXT), {"ended_by": "client"}, "client_closed"),
        ((PLACED, *TEXT, OVERLOADED), {}, "error_event"),
        ((PLACED, *TEXT, STOP), {}, "complete"),
        ((PLACED, *TEXT, end("end_turn"), STOP), {}, "complete"),
    ],
)
def test_without_a_last_usage_output_tokens_are_unknown(events, facts, outcome):
    measures = derived(stream(*events), **facts)
    assert (measures.outcome, measures.output_tokens, measures.total_tokens, measures.tpot_ns) == (
        outcome,
        None,
        None,
        None,
    )
    assert (measures.input_tokens, measures.cache_read_input_tokens, measures.cache_write_input_tokens) == (35, 7, 3)
    assert "no_usage" in measures.flags


def test_streams_and_whole_messages_have_their_output_tokens():
    measures = derived(stream(PLACED, *TEXT, end("end_turn", output_tokens=15), STOP))
    assert (measures.output_tokens, measures.total_tokens, "no_usage" in measures.flags) == (15, 50, False)
    answer = {"type": "message", "content": [], "stop_reason": "max_tokens", "usage": STARTED}
    assert derived(json.dumps(answer), content_type="application/json").output_tokens == 1


@pytest.mark.parametrize("events", [(START,), (START, *TEXT), (START, *TEXT, end("end_turn"))])
def test_a_stream_without_message_stop_is_truncated(events):
    measures = derived(stream(*events))
    assert (measures.outcome, measures.outcome_detail) == ("truncated", "eof")


@pytest.mark.parametrize(
    ("earlier_events", "detail"), [((), "before_output"), ((START,), "before_output"), ((START, *TEXT), "mid_stream")]
)
def test_an_error_event_is_the_outcome(earlier_events, detail):
    measures = derived(stream(*earlier_events, OVERLOADED))
    assert (measures.outcome, measures.outcome_detail) == ("error_event", detail)
    assert (measures.error_code, measures.error_message) == ("overloaded_error", "Overloaded")


def test_a_message_start_that_comes_twice_adds_nothing():
    once = stream(START, *TEXT, end("end_turn", output_tokens=2), STOP)
    assert said(derived(stream(START) + once)) == said(derived(once))


def test_a_second_message_continues_the_answer():
    second_start = {
        "type": "message_start",
        "message": {**START["message"], "id": "msg_2", "usage": {"input_tokens": 50}},
    }
    calls = [*block(0, "tool_use", "{}", id="a", name="f"), second_start, *block(0, "tool_use", "{}", id="b", name="g")]
    measures = derived(stream(START, *calls, end("tool_use"), STOP))
    assert said(measures)["calls"] == [("a", "f", "{}"), ("b", "g", "{}")]
    assert (measures.response_id, measures.input_tokens) == ("msg_1", 50)
    assert "id_changed" in measures.flags


def test_server_tools_give_calls_but_no_results():
    result = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"type": "x", "text": "found"}]}
    results = [{"type": "content_block_start", "index": 1, "content_block": result}]
    searched = block(0, "server_tool_use", '{"query":', '"q"}', id="srv", name="web_search")
    measures = derived(stream(START, *searched, *results, *block(2, "text", "So."), end("end_turn"), STOP))
    assert said(measures)["calls"] == [("srv", "web_search", '{"query":"q"}')]
    assert measures.content == "So."


def test_redacted_thinking_starts_the_clock_and_is_flagged():
    redacted = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": "E"}}
    ]
    measures = derived(stream(START, *redacted, *TEXT, end("end_turn"), STOP), len(stream(START, *redacted)))
    assert "opaque_reasoning" in measures.flags
    assert (measures.ttft_ns, measures.ttfo_ns, measures.reasoning) == (100 * MS, 110 * MS, None)


MESSAGE = {
    **START["message"],
    "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
}


@each_case(
    ("payload", "values"),
    [
        (MESSAGE, {"outcome": "complete", "content": "Hi", "reasoning": "Hm", "finish_reason": "end_turn"}),
        (MESSAGE, {"api": "anthropic.messages", "response_model": "claude", "input_tokens": 43, "output_tokens": 1}),
        (OVERLOADED, {"outcome": "error_event", "error_code": "overloaded_error", "error_message": "Overloaded"}),
        ({"input_tokens": 43}, {"outcome": "complete", "input_tokens": 43}),
    ],
)
def test_an_answer_that_is_not_streamed_is_read(payload, values):
    measures = said(derived(json.dumps(payload), content_type="application/json"))
    assert values.items() <= measures.items()
    assert ("content" in measures) == (payload is MESSAGE)


def test_a_compaction_is_output_and_text():
    events = (block(0, "compaction"), block(1, "text", "Two swans."))
    summary = {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": "So far: "}}
    body = stream(
        START, {**events[0][0], "content_block": {"type": "compaction", "content": None}}, summary, *events[1]
    )
    measures = derived(body, body.index("event: content_block_delta"))
    assert (measures.content, measures.output_chunks) == ("So far: Two swans.", 2)
    answer = {"type": "message", "model": "m", "content": [{"type": "compaction", "content": "So far"}]}
    assert parse(answer).pieces[0].content == "So far"
