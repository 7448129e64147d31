import json

import pytest
from hypothesis import given

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived, said
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects import bedrock, bedrock_invoke, chat, messages
from wiretape.recorder.decode.dialects.dashscope import API, parse, parser, tokens
from wiretape.recorder.decode.exchange import Exchange

USAGE = {
    "input_tokens": 26,
    "output_tokens": 66,
    "total_tokens": 92,
    "output_tokens_details": {"reasoning_tokens": 40, "text_tokens": 26},
    "prompt_tokens_details": {"cached_tokens": 20, "cache_creation_input_tokens": 0},
}
INCREMENTAL = b'{"model":"qwen-plus","parameters":{"incremental_output":true}}'
OTHER_BODIES = [
    None, b"", b"{", b"[]", b"{}", b'{"parameters":[]}', b'{"parameters":{"incremental_output":"true"}}',
    b'{"parameters":{"incremental_output":false}}',
]  # fmt: skip


def answer(*choices, **fields):
    return {"output": {"choices": list(choices)}, "usage": USAGE, "request_id": "r1", **fields}


def choice(content="", reason="null", reasoning="", tools=None, **fields):
    message = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    return {"message": message | ({"tool_calls": tools} if tools else {}), "finish_reason": reason, **fields}


def bare(text, reason="null"):
    return {"output": {"finish_reason": reason, "text": text}, "usage": USAGE, "request_id": "r1"}


def call(arguments, id="c1", name="find", **fields):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def with_parameters(body):
    """Return an exchange with the body of its request."""
    return Exchange(status=200, content_type="text/event-stream", ended_by="end", request=body)


def stream(payloads, body=None):
    """Return the chunks of one stream."""
    request_parser = parser(with_parameters(body))
    return [request_parser(json.loads(json.dumps(payload)), "result", None) for payload in payloads]


def contents(chunks, place=0):
    return [piece.content for chunk in chunks for piece in chunk.pieces if piece.index == place]


@each_case(
    ("output", "piece"),
    [
        ({"choices": [choice("Hi")]}, Piece(0, "Hi", "", "", (), None)),
        ({"choices": [choice([{"text": "H"}, {"text": "i"}], "stop")]}, Piece(0, "Hi", "", "", (), "stop")),
        ({"choices": [choice("", "length", "hm", index=1)]}, Piece(1, "", "hm", "", (), "length")),
        ({"choices": [{"finish_reason": "stop", "message": None}]}, Piece(0, "", "", "", (), "stop")),
        ({"choices": [choice(7, "", None)]}, Piece(0, "", "", "", (), None)),
        ({"choices": [choice(["x", {"text": 1}, {}], None)]}, Piece(0, "", "", "", (), None)),
        ({"text": "Hi", "finish_reason": "null"}, Piece(0, "Hi", "", "", (), None)),
        ({"text": "Hi", "finish_reason": "stop", "choices": None}, Piece(0, "Hi", "", "", (), "stop")),
        ({"text": None, "finish_reason": None, "choices": [choice("Hi")]}, Piece(0, "Hi", "", "", (), None)),
        (
            {"choices": [choice(tools=[call('{"a":1}', index=0), call({"b": [2]}, "", "list")])]},
            Piece(0, "", "", "", (ToolPiece(0, "c1", "find", '{"a":1}'), ToolPiece(1, "", "list", '{"b":[2]}')), None),
        ),
        ({"choices": [choice(tools=["x", {"function": "f"}, {"function": {}}])]},
         Piece(0, "", "", "", (ToolPiece(2, "", "", ""),), None)),
    ],
)  # fmt: skip
def test_an_output_is_read_in_either_format(output, piece):
    chunk = parse({"output": output, "request_id": "r1", "usage": {}})
    assert chunk == Chunk(
        API, "r1", "", (piece,), bool(piece.content), bool(piece.reasoning), any(tool.name for tool in piece.tools)
    )


@pytest.mark.parametrize(
    "output",
    [{"choices": [choice([{"image": "https://host/a.png"}])]}, {"audio": {"data": "UklG"}, "finish_reason": "null"}],
)
def test_what_has_no_text_can_be_output(output):
    assert parse({"output": output, "request_id": "r1"}).content


@each_case(
    "output",
    [
        {}, {"choices": []}, {"embeddings": [{"embedding": [0.5]}]}, {"task_id": "t", "task_status": "PENDING"},
        {"choices": [None, "x"]}, {"audio": {"data": "", "url": "https://host/a.wav"}}, {"choices": [choice()]},
    ],
)  # fmt: skip
def test_answers_without_text_have_a_usage_and_no_output(output):
    chunk = parse({"output": output, "request_id": "r1", "usage": USAGE})
    assert (chunk.api, chunk.usage, chunk.output) == (API, USAGE, False)


@each_case("body", OTHER_BODIES)
def test_a_cumulative_stream_gives_what_each_event_adds(body):
    texts = ["", "I", "I am", "I am", "I am here."]
    for payloads in (
        [answer(choice(text)) for text in texts],
        [answer(choice([{"text": text}])) for text in texts],
        [bare(text) for text in texts],
    ):
        assert contents(stream(payloads, body)) == ["", "I", " am", "", " here."]


def test_requested_increments_are_taken_verbatim():
    texts = ["-", "-", "--", "", "-"]
    assert contents(stream([answer(choice(text)) for text in texts], INCREMENTAL)) == texts


@each_case("body", OTHER_BODIES)
def test_unrequested_increments_are_seen_by_the_first_mismatch(body):
    texts = ["I", " am", " am", " here", ".", "."]
    assert contents(stream([answer(choice(text)) for text in texts], body)) == texts


def test_reasoning_and_choices_grow_each_by_itself():
    payloads = [
        answer(choice("", reasoning="Let")),
        answer(choice("", reasoning="Let me"), choice("B", index=1)),
        answer(choice("A", reasoning="Let me"), choice("Be", index=1)),
        answer(choice("An", "stop", "Let me"), choice("Be", "stop", index=1)),
    ]
    chunks = stream(payloads)
    assert [chunk.pieces[0].reasoning for chunk in chunks] == ["Let", " me", "", ""]
    assert contents(chunks) == ["", "", "A", "n"]
    assert contents(chunks, 1) == ["B", "e", ""]
    assert [chunk.reasoning for chunk in chunks] == [True, True, False, False]


def test_the_arguments_of_cumulative_calls_are_given_once():
    calls = [
        [call("")],
        [call('{"q"')],
        [call('{"q":1}')],
        [call('{"q":1}'), call("{", "c2", "list")],
        [call('{"q":1}'), call("{}", "c2", "list")],
        [call('{"q":1}'), call("{}", "c2", "list")],
    ]
    chunks = stream([answer(choice(tools=tools)) for tools in calls])
    assert [[(tool.name, tool.arguments) for tool in chunk.pieces[0].tools] for chunk in chunks] == [
        [("find", "")],
        [("", '{"q"')],
        [("", ":1}")],
        [("", ""), ("list", "{")],
        [("", ""), ("", "}")],
        [("", ""), ("", "")],
    ]
    assert [chunk.tool for chunk in chunks] == [True] * 5 + [False]


def test_incremental_calls_are_given_as_they_are():
    calls = [[call("", index=0)], [call('{"q":', "", "", index=0)], [call("1}", "", "", index=0)]]
    for body in (INCREMENTAL, None):
        chunks = stream([answer(choice(tools=tools)) for tools in calls], body)
        assert [chunk.pieces[0].tools[0].arguments for chunk in chunks] == ["", '{"q":', "1}"]


def test_streams_do_not_share_what_they_have_seen():
    payloads = [answer(choice("I")), answer(choice("I am", "stop"))]
    assert contents(stream(payloads)) == contents(stream(payloads)) == ["I", " am"]


@pytest.mark.parametrize(
    "payload",
    [
        {"code": "InvalidApiKey", "message": "No such key.", "request_id": "r1"},
        {"code": "InvalidApiKey", "message": "No such key.", "request_id": "r1", "status_code": 401},
        {"code": "InvalidApiKey", "message": "No such key.", "request_id": "r1", "output": {}},
    ],
)
def test_an_error_is_claimed_with_its_request(payload):
    fault = ReportedError("InvalidApiKey", "No such key.")
    assert parse(payload, "error", fault) == Chunk(API, "r1", fault=fault)


@each_case(
    "payload",
    [
        {"output": {"text": "x"}},
        {"output": {"text": "x"}, "request_id": 3},
        {"output": "x", "request_id": "r1"},
        {"output": [{"type": "message"}], "request_id": "r1"},
        {"request_id": "r1"},
        {"code": "X", "message": "m", "request_id": "r1", "detail": {}},
        {"choices": [{"delta": {"content": "x"}}], "request_id": "r1"},
        {"output": {"message": {"content": []}}, "stopReason": "end_turn", "metrics": {}},
        {"type": "error", "error": {"type": "t", "message": "m"}, "request_id": "r1"},
        {},
    ],
)
def test_payloads_of_others_are_not_claimed(payload):
    assert parse(payload, fault=ReportedError("X", "m")) is None


@pytest.mark.parametrize("payload", [answer(choice("x")), bare("x", "stop")])
def test_its_payloads_are_claimed_by_no_neighbour(payload):
    assert [dialect.parse(payload, "result") for dialect in (bedrock, bedrock_invoke, chat, messages)] == [None] * 4


def test_tokens_are_copied():
    assert tokens(USAGE) == Tokens(input=26, output=66, total=92, reasoning=40, cache_read=20, cache_write=0)
    assert tokens({"total_tokens": 8}) == Tokens(total=8)


@given(
    hostile.payloads(
        [
            answer(choice("Hi", "stop", "hm", [call('{"a":1}', index=0)])),
            answer(choice([{"text": "Hi"}, {"image": "u"}])),
            bare("Hi"),
            {"output": {"audio": {"data": "UklG"}}, "request_id": "r1"},
            {"code": "X", "message": "m", "request_id": "r1"},
        ]
    )
)
def test_no_value_of_a_wrong_type_is_an_error(payload):
    request_parser = parser(with_parameters(json.dumps({"parameters": payload}).encode()))
    for chunk in (
        parse(payload),
        request_parser(payload, "result", None),
        request_parser(payload, "result", ReportedError("X", "m")),
    ):
        hostile.assert_sound(chunk)
        hostile.assert_counts(tokens((chunk.usage if chunk else payload) or {}))


# Whole exchanges


def wire(*payloads, kind="result", status=200):
    """Return the events as DashScope writes them: an id, a type and a comment each, and no spaces."""
    return "".join(
        f"id:{number}\nevent:{kind}\n:HTTP_STATUS/{status}\ndata:{json.dumps(payload, separators=(',', ':'))}\n\n"
        for number, payload in enumerate(payloads, 1)
    )


GROWN = [
    answer(choice("", reasoning="Hm")),
    answer(choice("", reasoning="Hm.")),
    answer(choice("Let", reasoning="Hm.")),
    answer(choice("Let me see…", reasoning="Hm.")),
    answer(choice("Let me see…", reasoning="Hm.", tools=[call("", index=0)])),
    answer(choice("Let me see…", "tool_calls", "Hm.", [call('{"q":1}', index=0)])),
]
ADDED = [
    answer(choice("", reasoning="Hm")),
    answer(choice("", reasoning=".")),
    answer(choice("Let")),
    answer(choice(" me see…")),
    answer(choice("", tools=[call("", index=0)])),
    answer(choice("", "tool_calls", "", [call('{"q":1}', "", "", index=0)])),
]
SAID = {
    "api": API, "outcome": "complete", "response_id": "r1", "content": "Let me see…", "reasoning": "Hm.",
    "finish_reason": "tool_calls", "input_tokens": 26, "output_tokens": 66, "total_tokens": 92, "reasoning_tokens": 40,
    "cache_read_input_tokens": 20, "cache_write_input_tokens": 0, "calls": [("c1", "find", '{"q":1}')],
}  # fmt: skip
ERROR = {"code": "InternalError", "message": "Sorry.", "request_id": "r1"}


@pytest.mark.parametrize(("payloads", "request_body"), [(GROWN, None), (ADDED, None), (ADDED, INCREMENTAL)])
def test_a_stream_is_the_same_however_it_was_cut(payloads, request_body):
    for measures in cut_everywhere(wire(*payloads), 97, request=request_body):
        assert said(measures) == SAID
        assert (measures.events, measures.comments, measures.chunks, measures.output_chunks) == (6, 6, 6, 6)


@each_case(
    ("body", "outcome"),
    [
        (wire(*GROWN[:4]), ("truncated", "eof")),
        (wire(*GROWN)[:-10], ("truncated", "eof")),
        (wire(bare("Hi"), bare("Hi.", "stop")), ("complete", None)),
        (wire(bare("Hi"), bare("Hi.", "null")), ("truncated", "eof")),
        (wire(ERROR, kind="error", status=500), ("error_event", "before_output")),
        (wire(*GROWN[:4]) + wire(ERROR, kind="error", status=500), ("error_event", "mid_stream")),
    ],
)
def test_a_stream_ends_with_its_finish_reason(body, outcome):
    measures = derived(body)
    assert (measures.outcome, measures.outcome_detail) == outcome
    assert (measures.error_code, measures.error_message, measures.response_id) == (
        ("InternalError", "Sorry.", "r1") if "InternalError" in body else (None, None, "r1")
    )


def test_a_whole_answer_is_derived_as_a_stream_is():
    measures = derived(json.dumps(GROWN[-1]), content_type="application/json")
    assert said(measures) == SAID


def test_an_error_before_the_stream_is_read():
    measures = derived(json.dumps(ERROR), content_type="application/json", status=500)
    assert (measures.outcome, measures.error_code, measures.error_message) == ("http_error", "InternalError", "Sorry.")


def test_embeddings_have_a_usage():
    payload = {"output": {"embeddings": [{"embedding": [0.5]}]}, "usage": {"total_tokens": 8}, "request_id": "r1"}
    path = "/api/v1/services/embeddings/text-embedding/text-embedding"
    measures = derived(json.dumps(payload), content_type="application/json", path=path)
    assert (measures.api, measures.total_tokens, measures.content) == (API, 8, None)
