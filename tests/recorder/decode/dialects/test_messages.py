import pytest
from hypothesis import given, settings

from recorder.decode.dialect import Chunk, Fault, Piece, Tokens, ToolPiece
from recorder.decode.dialects import chat
from recorder.decode.dialects.messages import API, parse, tokens
from tests import hostile


def delta(value, index=0):
    return parse({"type": "content_block_delta", "index": index, "delta": value})


def start(block, index=0):
    return parse({"type": "content_block_start", "index": index, "content_block": block})


def message(**more):
    return parse({"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", **more})


@pytest.mark.parametrize(
    ("chunk", "content", "reasoning"),
    [
        (delta({"type": "text_delta", "text": "x"}), "x", ""),
        (delta({"type": "text_delta", "text": " "}), " ", ""),
        (delta({"type": "thinking_delta", "thinking": "hm"}), "", "hm"),
        (start({"type": "text", "text": "x", "citations": []}), "x", ""),
        (start({"type": "thinking", "thinking": "hm", "signature": ""}), "", "hm"),
    ],
)
def test_text_and_thinking_are_read_from_deltas_and_from_the_start_of_a_block(chunk, content, reasoning):
    assert chunk.pieces == (Piece(0, content, reasoning, "", (), None),)
    assert (chunk.content, chunk.reasoning, chunk.tool) == (bool(content), bool(reasoning), False)


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_a_call_begins_with_its_name_and_is_output(kind):
    chunk = start({"type": kind, "id": "toolu_1", "name": "f", "input": {}}, index=2)
    assert chunk.pieces == (Piece(0, "", "", "", (ToolPiece(2, "toolu_1", "f", ""),), None),)
    assert chunk.tool


@pytest.mark.parametrize(
    ("given", "arguments"),
    [({}, ""), ({"a": [1, "é"]}, '{"a":[1,"é"]}'), (None, ""), ("{", ""), ([], ""), (7, "")],
)
def test_a_call_can_come_whole_at_its_start(given, arguments):
    (piece,) = start({"type": "tool_use", "id": "t", "name": "f", "input": given}).pieces
    assert piece.tools == (ToolPiece(0, "t", "f", arguments),)


@pytest.mark.parametrize("text", ['{"a"', "", "no JSON at all"])
def test_pieces_of_an_input_are_copied_even_if_they_are_no_json(text):
    chunk = delta({"type": "input_json_delta", "partial_json": text}, index=1)
    assert chunk.pieces[0].tools == (ToolPiece(1, "", "", text),)
    assert chunk.tool == bool(text)


def test_redacted_thinking_is_reasoning_without_text():
    chunk = start({"type": "redacted_thinking", "data": "EmwK"})
    assert chunk == Chunk(API, reasoning=True, flags=("opaque_reasoning",))


@pytest.mark.parametrize(
    "chunk",
    [
        delta({"type": "signature_delta", "signature": "EqQB"}),
        delta({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}),
        delta({"type": "compaction_delta", "content": "summary"}),
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
        parse({"type": "message_new"}),
    ],
)
def test_what_adds_nothing_to_the_answer_is_known_and_ignored(chunk):
    assert chunk == Chunk(API)


def test_the_start_names_the_message_and_reports_usage():
    usage = {"input_tokens": 25, "output_tokens": 1}
    chunk = parse(
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "content": [], "usage": usage}}
    )
    assert (chunk.id, chunk.model, chunk.usage, chunk.output) == ("msg_1", "claude", usage, False)


def test_content_that_the_start_of_a_message_carries_is_read():
    content = [{"type": "text", "text": "Hi"}]
    assert parse({"type": "message_start", "message": {"content": content}}).pieces[0].content == "Hi"


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "tool_use", "pause_turn", "refusal"])
def test_the_stop_reason_and_the_last_usage_come_with_a_message_delta(reason):
    usage = {"output_tokens": 15}
    chunk = parse({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage})
    assert chunk == Chunk(API, pieces=(Piece(0, "", "", "", (), reason),), usage=usage)


@pytest.mark.parametrize("value", [{"stop_reason": None}, {"stop_reason": ""}, {"stop_reason": 1}, {}, None, "x"])
def test_a_message_delta_without_a_stop_reason_adds_no_piece(value):
    assert parse({"type": "message_delta", "delta": value}).pieces == ()


def test_only_message_stop_ends_a_stream():
    kinds = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
    assert [kind for kind in [*kinds, "message_stop", "ping"] if parse({"type": kind}).ends] == ["message_stop"]


def test_a_ping_counts_for_nothing_and_claims_no_stream():
    chunk = parse({"type": "ping"})
    assert chunk.ping
    assert not chunk.counts
    assert chunk.api == ""


def test_the_event_names_the_type_where_the_payload_does_not():
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
    )


def test_an_empty_message_is_a_message():
    assert message().pieces == (Piece(0, "", "", "", (), "end_turn"),)


@pytest.mark.parametrize("more", [{}, {"context_management": {"original_input_tokens": 9}}])
def test_counted_tokens_are_a_usage_and_no_message(more):
    chunk = parse({"input_tokens": 43, **more})
    assert chunk.pieces == ()
    assert tokens(chunk.usage) == Tokens(input=43)


@pytest.mark.parametrize(
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
            Tokens(input=61, output=503, reasoning=300, cache_read=7, cache_write=0),
        ),
        ({"input_tokens": "61", "output_tokens": -1, "output_tokens_details": []}, Tokens()),
        ({"input_tokens": None, "output_tokens": True, "cache_read_input_tokens": 1.5}, Tokens()),
    ],
)
def test_tokens_are_copied_from_usage(usage, read):
    assert tokens(usage) == read


@pytest.mark.parametrize(
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
def test_errors_of_this_api_are_claimed_and_carry_the_fault_that_was_found(payload, claimed):
    chunk = parse(payload, "error", Fault("t", "m"))
    assert chunk == (Chunk(API, fault=Fault("t", "m")) if claimed else None)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@settings(max_examples=50)
@given(hostile.payloads(EVENTS))
def test_values_of_a_wrong_type_are_absent(payload):
    chunk = parse(payload)
    hostile.assert_sound(chunk)
    hostile.assert_counts(tokens(chunk.usage if chunk and chunk.usage else {}))
