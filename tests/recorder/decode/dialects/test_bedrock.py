import json

import pytest
from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from tests.support.eventstream import event, message, string
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects.bedrock import API, parse, tokens
from wiretape.recorder.decode.framings.aws_eventstream import records

USAGE = {"inputTokens": 12, "outputTokens": 5, "totalTokens": 17, "serverToolUsage": {}}
ANSWER = {
    "metrics": {"latencyMs": 1249},
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Two calls.", "signature": "EtAC"}}},
                {"text": "Let me "},
                {"citationsContent": {"content": [{"text": "look"}, {"text": "."}], "citations": [{"title": "d"}]}},
                {"toolUse": {"toolUseId": "t1", "name": "find", "input": {"q": ["é"]}}},
                {"toolUse": {"toolUseId": "t2", "name": "list", "input": {}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": USAGE,
}


def delta(value, **fields):
    return parse({"contentBlockIndex": 1, "delta": value, "p": "abcd", **fields}, "contentBlockDelta")


@each_case(
    ("value", "piece"),
    [
        ({"text": "Hi"}, Piece(0, "Hi", "", "", (), None)),
        ({"text": " "}, Piece(0, " ", "", "", (), None)),
        ({"reasoningContent": {"text": "hm"}}, Piece(0, "", "hm", "", (), None)),
        ({"toolUse": {"input": '{"a":'}}, Piece(0, "", "", "", (ToolPiece(1, "", "", '{"a":'),), None)),
    ],
)
def test_a_delta_gives_its_text_once(value, piece):
    chunk = delta(value)
    assert (chunk.api, chunk.pieces) == (API, (piece,))
    assert (chunk.content, chunk.reasoning, chunk.tool) == (
        bool(piece.content),
        bool(piece.reasoning),
        bool(piece.tools),
    )


@each_case(
    "value",
    [
        {},
        {"text": ""},
        {"text": 7},
        {"reasoningContent": {"signature": "EtAC"}},
        {"reasoningContent": {"text": None, "redactedContent": 1}},
        {"reasoningContent": "x"},
        {"toolUse": {"input": ""}},
        {"toolUse": {"input": None}},
        {"toolUse": "x"},
        {"citation": {"title": "d", "sourceContent": [{"text": "quoted"}], "location": {}}},
        {"toolResult": [{"text": "of the server's tool"}]},
        {"somethingNew": {"text": "x"}},
        None,
    ],
)
def test_a_delta_without_text_is_no_output(value):
    chunk = delta(value)
    assert chunk.api == API
    assert not chunk.output
    assert not chunk.flags


@pytest.mark.parametrize(
    ("value", "flags", "kind"),
    [
        ({"reasoningContent": {"redactedContent": "cnNu"}}, ("opaque_reasoning",), "reasoning"),
        ({"image": {"source": {"bytes": "AAAA"}}}, (), "content"),
    ],
)
def test_what_has_no_text_can_be_output(value, flags, kind):
    chunk = delta(value)
    assert (chunk.flags, getattr(chunk, kind)) == (flags, True)


@each_case(
    ("kind", "payload", "chunk"),
    [
        ("messageStart", {"role": "assistant", "p": "ab"}, Chunk(API)),
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}}, Chunk(API)),
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {}}, Chunk(API)),
        (
            "contentBlockStart",
            {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "find"}}},
            Chunk(API, pieces=(Piece(0, "", "", "", (ToolPiece(2, "t1", "find", ""),), None),), tool=True),
        ),
        (
            "contentBlockStart",
            {"contentBlockIndex": "2", "start": {"toolUse": {"toolUseId": 1, "name": None}}},
            Chunk(API, pieces=(Piece(0, "", "", "", (ToolPiece(None, "", "", ""),), None),)),
        ),
        ("contentBlockStop", {"contentBlockIndex": 0}, Chunk(API)),
        (
            "messageStop",
            {"stopReason": "max_tokens", "additionalModelResponseFields": {"delta": {}}},
            Chunk(API, pieces=(Piece(0, "", "", "", (), "max_tokens"),), ends=True),
        ),
        ("messageStop", {"stopReason": 3}, Chunk(API, pieces=(Piece(0, "", "", "", (), None),), ends=True)),
        ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 802}}, Chunk(API, usage=USAGE)),
        ("metadata", {"usage": [], "metrics": {"latencyMs": 802}}, Chunk(API)),
        (
            "metadata",
            {"usage": USAGE, "trace": {"promptRouter": {"invokedModelId": "arn:m"}}},
            Chunk(API, model="arn:m", usage=USAGE),
        ),
    ],
)
def test_the_other_events_are_read(kind, payload, chunk):
    assert parse(payload, kind) == chunk


@each_case(
    ("payload", "kind"),
    [
        ({"type": "messageStart"}, "messageStart"),
        ({"delta": {"text": "x"}}, "contentBlockDelta"),
        ({"start": {"toolUse": {}}}, "contentBlockStart"),
        ({}, "contentBlockStop"),
        ({"reason": "stop"}, "messageStop"),
        ({"run_id": "r", "usage": {"input_tokens": 3}}, "metadata"),
        ({"usage": "x", "metrics": {"latency": 1}}, "metadata"),
        ({"contentBlockIndex": 0, "delta": {"text": "x"}}, "message"),
        ({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "x"}}}, "message"),
        ({key: value for key, value in ANSWER.items() if key != "metrics"}, "message"),
        ({**ANSWER, "output": [{"message": {}}]}, "message"),
        ({"output": {"choices": []}, "metrics": {}, "stopReason": "x"}, "message"),
        ({"choices": [{"delta": {"content": "x"}}]}, "message"),
        ({"bytes": "e30="}, "chunk"),
        ({"type": "content_block_delta", "index": 0, "delta": {"text": "x"}}, "content_block_delta"),
        ({}, "initial-response"),
    ],
)
def test_payloads_of_others_are_not_claimed(payload, kind):
    assert parse(payload, kind) is None


@each_case(
    ("raw", "fault"),
    [
        (
            event("throttlingException", {"message": "Too many tokens"}, "exception"),
            ReportedError("throttlingException", "Too many tokens"),
        ),
        (
            event("modelStreamErrorException", {"originalStatusCode": 500, "originalMessage": "m"}, "exception"),
            ReportedError("modelStreamErrorException", "m"),
        ),
        (event("internalServerException", {}, "exception"), ReportedError("internalServerException", None)),
        (
            event("validationException", {"message": 3, "Message": "x"}, "exception"),
            ReportedError("validationException", "x"),
        ),
        (message(string(":message-type", "exception"), b""), ReportedError(None, None)),
        (
            message(
                string(":message-type", "error")
                + string(":error-code", "InternalError")
                + string(":error-message", "Sorry"),
                b"",
            ),
            ReportedError("InternalError", "Sorry"),
        ),
    ],
)
def test_a_stream_exception_is_a_fault_without_api(raw, fault):
    (record,) = records(raw)
    assert parse(json.loads(record.data), record.type) == Chunk("", fault=fault)


def test_a_whole_answer_is_read():
    calls = (ToolPiece(3, "t1", "find", '{"q":["é"]}'), ToolPiece(4, "t2", "list", "{}"))
    piece = Piece(0, "Let me look.", "Two calls.", "", calls, "tool_use")
    assert parse(ANSWER) == Chunk(API, "", "", (piece,), True, True, True, USAGE, ends=True)


@each_case(
    ("block", "output", "flags"),
    [
        ({"reasoningContent": {"redactedContent": "cnNu"}}, (False, True, False), ("opaque_reasoning",)),
        ({"image": {"format": "png", "source": {"bytes": "AA"}}}, (True, False, False), ()),
        ({"text": ""}, (False, False, False), ()),
        ({"toolUse": {"name": "f"}}, (False, False, True), ()),
        ({"toolUse": {}}, (False, False, False), ()),
        ({"toolResult": {"content": [{"text": "x"}]}}, (False, False, False), ()),
        (None, (False, False, False), ()),
    ],
)
def test_a_whole_answers_blocks_count_as_in_streams(block, output, flags):
    chunk = parse({**ANSWER, "output": {"message": {"content": [block]}}})
    assert (chunk.content, chunk.reasoning, chunk.tool) == output
    assert chunk.flags == flags


def test_tokens_come_from_usage_and_cached_ones_are_input():
    usage = USAGE | {"cacheReadInputTokens": 3, "cacheWriteInputTokens": 0, "cacheReadInputTokenCount": 9}
    assert tokens(usage) == Tokens(input=15, output=5, total=17, cache_read=3, cache_write=0)
    assert tokens({"inputTokens": -1, "outputTokens": "5", "totalTokens": True}) == Tokens()


@each_case(
    ("details", "kept"),
    [
        ([{"ttl": "1h", "inputTokens": 7}, {"ttl": "5m", "inputTokens": 2}], 7),
        ([{"ttl": "1h", "inputTokens": 9}], 9),
        ([{"ttl": "5m", "inputTokens": 9}], 0),
        ([{"ttl": "1h", "inputTokens": 7}], None),
        ([{"ttl": "1h", "inputTokens": "7"}, {"ttl": 5, "inputTokens": 2}], None),
        ([], None),
        (None, None),
    ],
)
def test_one_hour_cache_writes_count_where_all_are_split(details, kept):
    counts = tokens({"cacheWriteInputTokens": 9, "cacheDetails": details})
    assert (counts.cache_write, counts.cache_write_1h) == (9, kept)


@pytest.mark.parametrize(("cache_write_tokens", "flagged"), [(3, True), (4, False)])
def test_a_total_counts_cache_reads_and_writes_separately(cache_write_tokens, flagged):
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 10, "cacheReadInputTokens": 3}
    answer = {**ANSWER, "usage": usage | {"cacheWriteInputTokens": cache_write_tokens}}
    measures = derived(json.dumps(answer), content_type="application/json")
    assert (measures.total_tokens, "total_unexplained" in measures.flags) == (10, flagged)


PAYLOADS = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "a"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{}"}}}),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}, "trace": {"promptRouter": {"invokedModelId": "m"}}}),
    ("exception:throttlingException", {"message": "m"}),
    ("message", ANSWER),
]


@given(hostile.payloads([payload for _, payload in PAYLOADS]))
def test_no_value_of_a_wrong_type_is_an_error(payload):
    for kind, _ in PAYLOADS:
        chunk = parse(payload, kind)
        hostile.assert_sound(chunk)
        hostile.assert_counts(tokens(chunk.usage if chunk and chunk.usage else payload))


# Whole exchanges

FACTS = {"content_type": "application/vnd.amazon.eventstream", "path": "/model/us.amazon.nova-v1%3A0/converse-stream"}
TEXT = [event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) for text in ("Let me ", "see…")]
CALL = [
    event("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "find"}}}),
    event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"q":'}}}),
    event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": "1}"}}}),
]
START, STOP = event("messageStart", {"role": "assistant"}), event("messageStop", {"stopReason": "tool_use"})
COUNTS = event("metadata", {"usage": USAGE | {"cacheReadInputTokens": 4}, "metrics": {"latencyMs": 802}})
THROTTLED = event("throttlingException", {"message": "Slow down"}, "exception")
SAID = {
    "api": API, "outcome": "complete", "content": "Let me see…", "finish_reason": "tool_use", "input_tokens": 16,
    "output_tokens": 5, "total_tokens": 17, "cache_read_input_tokens": 4, "calls": [("t1", "find", '{"q":1}')],
}  # fmt: skip


def stream(*messages, **facts):
    return derived(b"".join(messages), **FACTS | facts)


def test_a_stream_is_the_same_however_it_was_cut():
    body = b"".join([START, *TEXT, *CALL, STOP, COUNTS])
    for measures in cut_everywhere(body, **FACTS):
        assert said(measures) == SAID
        assert (measures.events, measures.chunks, measures.output_chunks) == (8, 8, 5)


def test_usage_may_come_before_the_end():
    assert said(stream(START, COUNTS, *TEXT, *CALL, STOP)) == SAID


@each_case(
    ("messages", "facts", "outcome"),
    [
        ([START, *TEXT, STOP], {"ended_by": "reset"}, ("complete", None)),
        ([START, *TEXT, STOP, COUNTS, TEXT[0][:-3]], {}, ("complete", None)),
        ([START, *TEXT, COUNTS], {}, ("truncated", "eof")),
        ([START, *TEXT, STOP[:-1]], {}, ("truncated", "eof")),
        ([START, *TEXT], {"ended_by": "length"}, ("truncated", "length")),
        ([THROTTLED], {}, ("error_event", "before_output")),
        ([START, THROTTLED], {}, ("error_event", "before_output")),
        ([START, *TEXT, THROTTLED], {}, ("error_event", "mid_stream")),
        ([START, *TEXT[:1], TEXT[1][:-1] + b"!", STOP], {}, ("malformed", None)),
        ([START, *TEXT[:1], bytes(4) + TEXT[1], STOP], {}, ("truncated", "eof")),
    ],
)
def test_a_stream_ends_with_its_message(messages, facts, outcome):
    measures = stream(*messages, **facts)
    assert (measures.outcome, measures.outcome_detail) == outcome
    assert (measures.error_code, measures.error_message) == (
        ("throttlingException", "Slow down") if THROTTLED in messages else (None, None)
    )


def test_a_stream_of_any_type_is_recognised_by_bytes():
    assert said(stream(START, *TEXT, *CALL, STOP, COUNTS, content_type="application/octet-stream")) == SAID


def test_a_whole_answer_is_derived_as_a_stream_is():
    measures = derived(json.dumps(ANSWER), content_type="application/json", path="/model/m/converse")
    calls = [("t1", "find", '{"q":["é"]}'), ("t2", "list", "{}")]
    counts = {name: value for name, value in SAID.items() if name != "cache_read_input_tokens"}
    counts["input_tokens"] = 12  # nothing came from a cache
    assert said(measures) == counts | {"content": "Let me look.", "reasoning": "Two calls.", "calls": calls}
    assert measures.operation == "chat"


def test_an_error_before_the_stream_is_read():
    measures = derived('{"message":"No such model"}', content_type="application/json", status=404)
    assert (measures.outcome, measures.error_message) == ("http_error", "No such model")
