import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import hostile
from tests.support.cases import each_case
from tests.support.decoding import cut_everywhere, derived
from tests.support.decoding import said as said_of
from wiretape.recorder.decode.assembly import Calls
from wiretape.recorder.decode.dialect import Chunk, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects.responses import DIALECT, parse

API = "openai.responses"
USAGE = {
    "input_tokens": 75, "input_tokens_details": {"cached_tokens": 32, "cache_write_tokens": 4},
    "output_tokens": 1186, "output_tokens_details": {"reasoning_tokens": 1024}, "total_tokens": 1261,
}  # fmt: skip


def event(kind, **more):
    return {"type": f"response.{kind}", "sequence_number": 4, **more}


def delta(kind, text, place=0, **more):
    return event(f"{kind}.delta", **{"item_id": "x_1", "output_index": place, "delta": text, **more})


def done(kind, place=0, **more):
    return event(f"{kind}.done", item_id="x_1", output_index=place, **more)


def added(item, place=0):
    return event("output_item.added", output_index=place, item=item)


def finished(item, place=0):
    return event("output_item.done", output_index=place, item=item)


def response(*output, status="completed", **more):
    return {"id": "resp_1", "object": "response", "model": "m", "status": status, "output": list(output), **more}


def final(*output, status="completed", **more):
    return event(status, response=response(*output, status=status, **more))


def message(*texts, **more):
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": parts, **more}


def function(arguments="", name="f", id="call_1"):
    return {"id": "fc_1", "type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def reasoning(*summaries, content=(), **more):
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    return {"id": "rs_1", "type": "reasoning", "summary": summary, "content": list(content), **more}


def parsed(*payloads):
    """Return the chunks of one stream."""
    parser = DIALECT.parser(None)
    chunks = [parser(payload, "message", None) for payload in payloads]
    assert None not in chunks
    return chunks


def said(*payloads):
    """Return the texts of one stream: content, reasoning, refusal, and its calls by name."""
    calls, texts = Calls(), {"content": "", "reasoning": "", "refusal": ""}
    for chunk in parsed(*payloads):
        for piece in chunk.pieces:
            assert piece.index == 0
            calls.add(piece.tools)
            for name in texts:
                texts[name] += getattr(piece, name)
    return {name: text for name, text in texts.items() if text} | {
        call.name: "".join(call.arguments) for call in calls.calls
    }


@each_case(
    ("payload", "piece", "classes"),
    [
        (delta("output_text", "Hi"), Piece(0, "Hi", "", "", (), None), (True, False, False)),
        (delta("output_text", " ", 3, content_index=1, logprobs=[]), Piece(0, " ", "", "", (), None), (1, 0, 0)),
        (delta("refusal", "No"), Piece(0, "", "", "No", (), None), (True, False, False)),
        (delta("reasoning_summary_text", "r", summary_index=1), Piece(0, "", "r", "", (), None), (0, 1, 0)),
        (delta("reasoning_text", "r"), Piece(0, "", "r", "", (), None), (False, True, False)),
        (delta("function_call_arguments", "{", 2), Piece(0, "", "", "", (ToolPiece(2, "", "", "{"),), None), (0, 0, 1)),
        (delta("custom_tool_call_input", "x"), Piece(0, "", "", "", (ToolPiece(0, "", "", "x"),), None), (0, 0, 1)),
        (delta("mcp_call_arguments", "{"), Piece(0, "", "", "", (ToolPiece(0, "", "", "{"),), None), (0, 0, 1)),
        (delta("code_interpreter_call_code", "1"), Piece(0, "", "", "", (ToolPiece(0, "", "", "1"),), None), (0, 0, 1)),
        (event("audio.transcript.delta", delta="said"), Piece(0, "said", "", "", (), None), (True, False, False)),
    ],
)
def test_a_delta_is_text_of_its_class(payload, piece, classes):
    (chunk,) = parsed(payload)
    assert chunk == Chunk(API, pieces=(piece,), content=classes[0], reasoning=classes[1], tool=classes[2])


@each_case(
    "payload",
    [
        event("created", response={}),
        event("queued", response=None),
        event("in_progress"),
        added(message()),
        added(reasoning(encrypted_content="gAAA")),
        added(7),
        event("content_part.added", output_index=0, content_index=0, part={"type": "output_text", "text": ""}),
        event("content_part.done", part=[]),
        event("reasoning_summary_part.added", part={"type": "summary_text", "text": ""}),
        event("output_text.annotation.added", annotation={"type": "url_citation", "url": "https://example.com"}),
        event("web_search_call.searching"),
        event("mcp_list_tools.failed"),
        event("mcp_call.failed"),
        event("image_generation_call.generating"),
        event("audio.done"),
        event("audio.transcript.done"),
        event("compaction.compacting"),
        event("shell_call_output_content.delta", delta={"stdout": "x"}),
        event("of_a_later_year.delta", delta="x"),
        finished({"type": "function_call_output", "call_id": "c", "output": "x"}),
        finished({"type": "mcp_list_tools", "tools": [{"name": "f"}]}),
        finished({"type": "compaction", "encrypted_content": "gAAA"}),
        finished({"type": "of_a_later_year", "text": "x", "name": "f", "arguments": "{}"}),
        finished({"type": ["message"]}),
        finished(message("x", role="user")),
        delta("output_text", ""),
        delta("output_text", None),
        delta("function_call_arguments", {"x": 1}),
    ],
)
def test_what_says_nothing_is_a_chunk_without_output(payload):
    (chunk,) = parsed(payload)
    assert replace(chunk, provider_results=0) == Chunk(API)
    assert chunk.counts


@each_case(
    ("payload", "content", "tool", "reasoning", "flags"),
    [
        (event("audio.delta", delta="UklG"), True, False, False, ()),
        (event("image_generation_call.partial_image", partial_image_b64="iVBO"), True, False, False, ()),
        (finished({"type": "image_generation_call", "result": "iVBO"}), True, False, False, ()),
        (event("shell_call_command.delta", command_index=0, delta="ls"), False, True, False, ()),
        (event("apply_patch_call_operation_diff.delta", delta="+x"), False, True, False, ()),
        (finished(reasoning(encrypted_content="gAAA")), False, False, True, ("opaque_reasoning",)),
    ],
)
def test_what_has_no_text_can_be_output(payload, content, tool, reasoning, flags):
    (chunk,) = parsed(payload)
    expected = Chunk(API, content=content, reasoning=reasoning, tool=tool, flags=flags)
    assert replace(chunk, provider_results=0) == expected


def test_the_providers_tool_calls_and_results_are_counted():
    items = [{"type": kind, "id": "i"} for kind in ("web_search_call", "mcp_call", "function_call", "computer_call")]
    call_counts = [parsed(event("output_item.added", output_index=0, item=item))[0].provider_calls for item in items]
    result_counts = [parsed(event("output_item.done", output_index=0, item=item))[0].provider_results for item in items]
    assert call_counts == result_counts == [1, 1, 0, 0]
    result = {"type": "shell_call_output", "id": "i"}
    for kind in ("added", "done"):
        assert parsed(event(f"output_item.{kind}", output_index=1, item=result))[0].provider_results == 1


TEXT = [delta("output_text", "He"), delta("output_text", "llo", content_index=0)]


def unnumbered(*payloads):
    """Return events in llama.cpp's form: only ids distinguish their items."""
    return [{key: value for key, value in payload.items() if key != "output_index"} for payload in payloads]


def two_calls():
    """Return the calls of a stream with two calls at one place, whose deltas name them by id."""
    f, g = function('{"a":1}', "f", "call_1"), function('{"b":2}', "g", "call_2")
    f["id"], g["id"] = "fc_1", "fc_2"
    texts = [delta("function_call_arguments", call["arguments"], item_id=call["id"]) for call in (f, g)]
    return [added(f), texts[0], added(g), texts[1], finished(f), finished(g), final(message("Hello"), f, g)]


STREAMS = {
    "deltas, and all done events": (
        [
            event("created", response=response(status="in_progress")), added(message()), *TEXT,
            done("output_text", content_index=0, text="Hello"),
            done("content_part", content_index=0, part={"type": "output_text", "text": "Hello"}),
            finished(message("Hello")), final(message("Hello")),
        ],
        {"content": "Hello"},
    ),
    "deltas alone": (TEXT, {"content": "Hello"}),
    "text done alone": ([done("output_text", text="a"), done("output_text", content_index=1, text="b")],
                        {"content": "ab"}),
    "part done alone": ([done("content_part", part={"type": "output_text", "text": "a"}), final(message("a"))],
                        {"content": "a"}),
    "items alone": ([finished(message("a", "b")), finished(message("c"), 1), final(message("a", "b"), message("c"))],
                    {"content": "abc"}),
    "the last event alone": ([final(message("a"), message("b"), function("{}"))], {"content": "ab", "f": "{}"}),
    "nothing is in the last event": ([*TEXT, final()], {"content": "Hello"}),
    "an item that came in the last event only": ([*TEXT, final(message("Hello"), message("!"))], {"content": "Hello!"}),
    "another place in the last event": ([*TEXT, final(reasoning("r"), message("Hello"))],
                                        {"content": "Hello", "reasoning": "r"}),
    "items distinguished by their ids": (
        [*unnumbered(*TEXT), *unnumbered(*two_calls())], {"content": "Hello", "f": '{"a":1}', "g": '{"b":2}'},
    ),
    "items of one place": ([*TEXT, *two_calls()], {"content": "Hello", "f": '{"a":1}', "g": '{"b":2}'}),
    "two messages distinguished by their ids": (
        [*unnumbered(delta("output_text", "a", item_id="m_1"), delta("output_text", "b", item_id="m_2")),
         final(message("a"), message("b"))],
        {"content": "ab"},
    ),
    "parts that are numbered anew with each delta": (
        [delta("reasoning_text", "a", content_index=7), delta("reasoning_text", "b", content_index=8),
         done("reasoning_text", content_index=9, text="ab"),
         finished(reasoning(content=[{"type": "reasoning_text", "text": "ab"}]))],
        {"reasoning": "ab"},
    ),
    "summaries and reasoning": (
        [delta("reasoning_summary_text", "s"), done("reasoning_summary_text", text="s"),
         done("reasoning_summary_part", part={"type": "summary_text", "text": "s"}),
         done("reasoning_text", text="r"),
         final(reasoning("s", content=[{"type": "reasoning_text", "text": "r"}]))],
        {"reasoning": "sr"},
    ),
    "a refusal": ([delta("refusal", "No"), done("refusal", refusal="No"), final()], {"refusal": "No"}),
    "a refusal at the end": ([final(message(content=[{"type": "refusal", "refusal": "No"}]))], {"refusal": "No"}),
    "a function call": (
        [added(function()), delta("function_call_arguments", '{"a"'), delta("function_call_arguments", ":1}"),
         done("function_call_arguments", arguments='{"a":1}'), finished(function('{"a":1}')),
         final(function('{"a":1}'))],
        {"f": '{"a":1}'},
    ),
    "two calls that take turns": (
        [added(function(), 0), added(function(name="g", id="call_2"), 1), delta("function_call_arguments", "{", 1),
         delta("function_call_arguments", "[", 0), delta("function_call_arguments", "}", 1),
         finished(function("[]"), 0), final(function("[]"), function("{}", "g", "call_2"))],
        {"f": "[", "g": "{}"},
    ),
    "arguments in the finished item": ([added(function()), finished(function("{}")), final(function("{}"))],
                                       {"f": "{}"}),
    "a call without its beginning": ([delta("function_call_arguments", "{}"), finished(function("{}"))], {"f": "{}"}),
    "a call of other ids at each event": (
        [added(function(id="call_a")), delta("function_call_arguments", "{}"), finished(function("{}", id="call_b")),
         final(function("{}", id="call_c"))],
        {"f": "{}"},
    ),
    "arguments in full when the call begins": (
        [added(function("{}")), delta("function_call_arguments", "{}"), final(function("{}"))], {"f": "{}"},
    ),
    "a custom call": (
        [added({"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": ""}),
         delta("custom_tool_call_input", "select 1"), done("custom_tool_call_input", input="select 1")],
        {"sql": "select 1"},
    ),
    "an MCP call": (
        [added({"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": "", "server_label": "dice"}),
         done("mcp_call_arguments", arguments='{"d":6}'),
         finished({"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": '{"d":6}', "output": "4"})],
        {"roll": '{"d":6}'},
    ),
    "code": (
        [added({"type": "code_interpreter_call", "id": "ci_1", "code": ""}), delta("code_interpreter_call_code", "1+1"),
         done("code_interpreter_call_code", code="1+1"),
         finished({"type": "code_interpreter_call", "id": "ci_1", "code": "1+1", "outputs": []})],
        {"code_interpreter": "1+1"},
    ),
    "what goes on without places": (
        [{"type": "response.output_text.delta", "delta": "a"}, {"type": "response.output_text.delta", "delta": "b"},
         {"type": "response.output_text.done", "text": "ab"}, final(message("ab"))],
        {"content": "ab"},
    ),
}  # fmt: skip


@each_case("name", STREAMS)
def test_every_text_is_taken_once(name):
    payloads, expected = STREAMS[name]
    assert said(*payloads) == expected


@each_case("name", STREAMS)
def test_an_event_means_the_same_when_read_again(name):
    parser = DIALECT.parser(None)
    for payload in STREAMS[name][0]:
        assert parser(payload, "message", None) == parser(payload, "message", None)


@each_case(
    ("item", "name", "arguments"),
    [
        ({"type": "web_search_call", "action": {"type": "search", "query": "q"}}, "web_search",
         '{"type":"search","query":"q"}'),
        ({"type": "file_search_call", "queries": ["q"], "results": [{"text": "x"}]}, "file_search", '["q"]'),
        ({"type": "computer_call", "action": {"type": "wait"}}, "computer", '{"type":"wait"}'),
        ({"type": "computer_call", "actions": [{"type": "wait"}]}, "computer", '[{"type":"wait"}]'),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, "local_shell", '{"command":["ls"]}'),
        ({"type": "shell_call", "action": {"commands": ["ls"]}}, "shell", '{"commands":["ls"]}'),
        ({"type": "apply_patch_call", "operation": {"path": "a"}}, "apply_patch", '{"path":"a"}'),
        ({"type": "tool_search_call", "arguments": {"q": 1}}, "tool_search", '{"q":1}'),
        ({"type": "program", "code": "1"}, "program", "1"),
        ({"type": "mcp_approval_request", "name": "f", "arguments": "{}"}, "f", "{}"),
    ],
)  # fmt: skip
def test_a_built_in_tool_is_called_by_its_type(item, name, arguments):
    item = {"id": "ws_1", "status": "completed", **item}
    start, end, closing = parsed(added({"id": "ws_1", "type": item["type"], "name": item.get("name")}), finished(item),
                               final(item))  # fmt: skip
    assert start.pieces[0].tools == (ToolPiece(0, "ws_1", name, ""),)
    assert end.pieces[0].tools == (ToolPiece(0, "", "", arguments),)
    assert closing.pieces == (Piece(0, "", "", "", (), "completed"),)
    assert said(finished(item)) == {name: arguments}


@each_case(
    ("payload", "reason", "fault"),
    [
        (final(usage=USAGE), "completed", None),
        (
            final(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "max_output_tokens",
            None,
        ),
        (final(status="incomplete", incomplete_details=None), "incomplete", None),
        (final(status="cancelled"), "cancelled", None),
        (
            final(status="failed", error={"code": "server_error", "message": "m"}),
            None,
            ReportedError("server_error", "m"),
        ),
        (final(status="failed", error={"code": None, "type": "t", "message": ""}), None, ReportedError("t", None)),
        (final(status="failed", error={"code": 500}), None, ReportedError("500", None)),
        (final(status="failed", error=None), None, ReportedError(None, None)),
        (event("failed"), None, ReportedError(None, None)),
        (event("failed", response=response(status="completed")), None, ReportedError(None, None)),
        (event("incomplete", response=response(status="completed")), "incomplete", None),
        (event("completed", response=response(status="in_progress")), "completed", None),
        (event("completed", response=response(status="failed")), None, ReportedError(None, None)),
        (
            event("completed", response=response(status="incomplete", incomplete_details={"reason": "steered"})),
            "steered",
            None,
        ),
        (event("completed", response={"status": 7}), "completed", None),
        (event("incomplete", response=[]), "incomplete", None),
    ],
)
def test_the_last_event_ends_the_stream(payload, reason, fault):
    (chunk,) = parsed(payload)
    assert chunk.ends
    assert chunk.fault == fault
    assert [piece.finish_reason for piece in chunk.pieces] == ([] if reason is None else [reason])
    assert not chunk.output


def test_an_event_takes_its_facts_from_the_response():
    created, completed = parsed(
        event("created", response=response(status="in_progress", usage=None)), final(usage=USAGE)
    )
    assert (created.id, created.model, created.usage, created.ends) == ("resp_1", "m", None, False)
    assert (completed.id, completed.usage) == ("resp_1", USAGE)


def test_encrypted_reasoning_is_output_when_its_item_is_finished():
    item = reasoning(encrypted_content="gAAA")
    assert [chunk.reasoning for chunk in parsed(added(item), finished(item), final(item))] == [False, True, False]
    assert parsed(final(item))[0].reasoning


@each_case(
    ("payload", "fault", "expected"),
    [
        (
            {"type": "error", "sequence_number": 2, "error": {"code": "x"}},
            ReportedError("x", None),
            ReportedError("x", None),
        ),
        (
            {"type": "error", "sequence_number": 2, "code": "x", "message": "m"},
            ReportedError("x", "m"),
            ReportedError("x", "m"),
        ),
        (event("steer.failed", error={"code": "x"}), ReportedError("x", None), None),
        (event("output_text.delta", delta=""), ReportedError("x", None), ReportedError("x", None)),
    ],
)
def test_errors_are_those_of_the_response(payload, fault, expected):
    assert parse(payload, "error", fault) == Chunk(API, fault=expected)


@pytest.mark.parametrize("name", ["keepalive", "message"])
def test_a_keepalive_is_a_ping(name):
    assert parse({"type": "keepalive", "sequence_number": 466}, name) == Chunk(API, ping=True)


def test_a_whole_response_gives_everything():
    output = [reasoning("why"), message("a"), function("{}"), message("b"), {"type": "web_search_call", "id": "ws_1"}]
    chunk = parse(response(*output, usage=USAGE, error=None, incomplete_details=None))
    calls = (ToolPiece(2, "call_1", "f", "{}"), ToolPiece(4, "ws_1", "web_search", ""))
    assert chunk == Chunk(
        API, "resp_1", "m", (Piece(0, "ab", "why", "", calls, "completed"),), True, True, True, USAGE, ends=True
    )  # fmt: skip


@each_case(
    ("payload", "fault", "expected"),
    [
        (response(status="queued", error=None, usage=None), None, Chunk(API, "resp_1", "m")),
        (response(status="in_progress"), None, Chunk(API, "resp_1", "m")),
        (response(status="failed"), None, Chunk(API, "resp_1", "m", fault=ReportedError(None, None))),
        (response(status="failed"), ReportedError("x", "m"), Chunk(API, "resp_1", "m", fault=ReportedError("x", "m"))),
        (
            response(status="cancelled"),
            None,
            Chunk(API, "resp_1", "m", (Piece(0, "", "", "", (), "cancelled"),), ends=True),
        ),
        (
            {"object": "response.compaction", "id": "r", "output": [message("x", role="user")], "usage": USAGE},
            None,
            Chunk(API, "r", usage=USAGE),
        ),
    ],
)
def test_a_whole_response_need_not_be_finished(payload, fault, expected):
    assert parse(payload, "message", fault) == expected


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (USAGE, Tokens(input=75, output=1186, total=1261, reasoning=1024, cache_read=32, cache_write=4)),
        ({"input_tokens": 1, "output_tokens": 2}, Tokens(input=1, output=2)),
        ({"input_tokens": "1", "input_tokens_details": [], "output_tokens_details": 3}, Tokens()),
    ],
)
def test_tokens_are_copied(usage, tokens):
    assert DIALECT.tokens(usage) == tokens


def test_the_type_may_stand_in_the_event_alone():
    assert parse({"delta": "x"}, "response.output_text.delta").content
    assert parse({"type": "message", "delta": "x"}, "response.output_text.delta") is None


@each_case(
    "payload",
    [
        {},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "ping"},
        {"type": "keepalive"},
        {"type": "message_start", "message": {}},
        {"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 1}},
        {"type": ["response.created"]},
        {"type": "response"},
        {"object": "response.deleted", "id": "resp_1", "deleted": True},
        {"object": "list", "data": [message("x")]},
        {"object": {"response": 1}},
        {"responseId": "r", "candidates": []},
        {"model": "m", "response": "x", "done": False},
        {"choices": [], "type": "response.created"},
    ],
)
def test_other_apis_are_not_claimed(payload):
    assert parse(payload) is None


EXAMPLES = [
    *(payload for payloads, _ in STREAMS.values() for payload in payloads),
    response(reasoning("s", encrypted_content="x"), message("a"), function("{}"), usage=USAGE),
    final(status="failed", error={"code": "c", "message": "m"}),
]


@given(st.lists(hostile.payloads(EXAMPLES), min_size=1, max_size=4))
def test_values_of_a_wrong_type_are_absent(payloads):
    parser = DIALECT.parser(None)
    for payload in payloads:
        chunk = parser(payload, "message", None)
        assert chunk == parser(payload, "message", None)
        hostile.assert_sound(chunk)


@given(hostile.payloads([USAGE]))
def test_counts_of_a_wrong_type_are_unknown(usage):
    hostile.assert_counts(DIALECT.tokens(usage))


# Through the decoder, to the measures


def wire(*payloads):
    """Write a stream of events that bear the name of their type."""
    return "".join(
        f"event: {payload['type']}\ndata: {json.dumps(payload, ensure_ascii=False)}\n\n" for payload in payloads
    )


CREATED = event("created", response=response(status="in_progress", usage=None))
BEGUN = [CREATED, added(reasoning()), delta("reasoning_summary_text", "Hm"), finished(reasoning("Hm")),
         added(message(), 1), *(delta("output_text", text, 1) for text in ("Hé", "llo", " there"))]  # fmt: skip
CALLED = [added(function(), 2), delta("function_call_arguments", '{"a":', 2), delta("function_call_arguments", "1}", 2)]
OUTPUT = [reasoning("Hm"), message("Héllo there"), function('{"a":1}')]
ENDED = final(*OUTPUT, usage=USAGE)
SAID = {
    "api": API, "outcome": "complete", "response_model": "m", "response_id": "resp_1", "content": "Héllo there",
    "reasoning": "Hm", "finish_reason": "completed", "input_tokens": 75, "output_tokens": 1186, "total_tokens": 1261,
    "reasoning_tokens": 1024, "cache_read_input_tokens": 32, "cache_write_input_tokens": 4,
    "calls": [("call_1", "f", '{"a":1}')],
}  # fmt: skip


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_stream_is_the_same_wherever_it_is_cut(line_end):
    body = wire(*BEGUN, {"type": "keepalive", "sequence_number": 9}, *CALLED, ENDED).replace("\n", line_end)
    assert said_of(derived(body)) == SAID
    assert all(said_of(measures) == SAID for measures in cut_everywhere(body))


def test_a_whole_response_is_no_stream():
    measures = derived(json.dumps(response(*OUTPUT, usage=USAGE, error=None)), content_type="application/json")
    assert said_of(measures) == SAID
    assert measures.operation == "chat"


BROKEN = {"type": "server_error", "code": "server_error", "message": "It broke.", "param": None}
ERROR = {"type": "error", "sequence_number": 3, "error": BROKEN}
FLAT = {**BROKEN, "type": "error", "sequence_number": 3}
FAILED = final(status="failed", error={"code": "server_error", "message": "It broke."})


@each_case("ending", [[ERROR], [FLAT], [FAILED], [ERROR, FAILED], [FLAT, FAILED]])
@each_case(("begun", "detail"), [([CREATED], "before_output"), (BEGUN, "mid_stream")])
def test_an_error_is_found_in_every_shape(begun, ending, detail):
    measures = derived(wire(*begun, *ending))
    assert (measures.outcome, measures.outcome_detail) == ("error_event", detail)
    assert (measures.error_code, measures.error_message) == ("server_error", "It broke.")


def test_a_response_that_failed_in_background_is_an_error():
    body = json.dumps(FAILED["response"])
    measures = derived(body, content_type="application/json", method="GET", path="/v1/responses/resp_1")
    assert (measures.outcome, measures.error_code, measures.operation) == ("error_event", "server_error", "chat")


def test_a_stream_without_its_last_event_was_truncated():
    events = [*BEGUN, *CALLED, {**ENDED, "type": "response.of_a_later_year"}]
    for size in range(1, len(events) + 1):
        assert derived(wire(*events[:size])).outcome == "truncated"
    cut = wire(*BEGUN, ENDED)
    assert derived(cut[:-40]).outcome == "truncated"


@pytest.mark.parametrize(
    ("status", "details", "reason"),
    [
        ("incomplete", {"reason": "content_filter"}, "content_filter"),
        ("completed", None, "completed"),
    ],
)
def test_a_stream_that_says_why_it_ended_is_complete(status, details, reason):
    measures = derived(wire(*BEGUN, final(status=status, incomplete_details=details)))
    assert (measures.outcome, measures.finish_reason, "no_done" in measures.flags) == ("complete", reason, False)


def test_a_keepalive_is_no_first_chunk():
    body = wire({"type": "keepalive", "sequence_number": 1}, *BEGUN, ENDED)
    measures = derived(body, body.encode().index(b"\n\n") + 2)
    assert measures.ttfc_ns == measures.ttft_ns == 110 * 1_000_000


def test_item_ids_may_change_but_no_response_id():
    renamed = [{**payload, "item_id": f"x_{place}"} for place, payload in enumerate(BEGUN[2:])]
    assert said_of(derived(wire(CREATED, *renamed[:1], *renamed[3:], final(*OUTPUT[:2]))))["content"] == "Héllo there"
    other_end = {**ENDED, "response": {**ENDED["response"], "id": "resp_2"}}
    flags = [derived(wire(*BEGUN, end)).flags for end in (ENDED, other_end)]
    assert ["id_changed" in raised for raised in flags] == [False, True]


@pytest.mark.parametrize("padded", [False, True])
def test_repeated_deltas_are_read_as_if_each_were_parsed(padded):
    words = [f" wörd{place}" + '"\n' * (place % 7 == 0) for place in range(60)]
    deltas = [
        {
            **delta("output_text", word, 1),
            "sequence_number": number,
            **({"obfuscation": "x" * number} if padded else {}),
        }
        for number, word in enumerate(words)
    ]
    body = wire(CREATED, *deltas, done("output_text", 1, text="".join(words)), final(reasoning(), message(*words)))
    measures = derived(body)
    assert (measures.content, measures.output_chunks, measures.events) == ("".join(words), 60, 63)
    assert said_of(derived(body, *range(7, len(body.encode()), 7))) == said_of(measures)
