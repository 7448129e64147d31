"""The declared dialects of the package, on whole, cut and failed streams, and on random cuts of the bytes."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declared_wires import (
    A2A,
    A2A_OVER_HTTP,
    AG_UI,
    AI_SDK_UI,
    DECLARED_WIRES,
    DONE,
    LANGGRAPH,
    LLAMACPP,
    MCP,
    TGI,
    DeclaredWire,
    event,
)  # fmt: skip
from tests.support.decoding import derived, said
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import Headers
from wiretape.recorder.decode.metrics import Measures

REPEATING = ("ai-sdk-ui", "ag-ui", "a2a", "a2a-http", "a2a-0.3", "transcription", "tgi", "llamacpp")
each_wire = pytest.mark.parametrize("wire", DECLARED_WIRES.values(), ids=DECLARED_WIRES.keys())


def measured(wire: DeclaredWire, *events: bytes, **facts: Any) -> Measures:
    asked = {"path": wire.path, "request": wire.request, "headers": wire.headers, "framing": "chunked"}
    return derived(b"".join(events), **asked | facts)


def told(found: Measures) -> dict[str, Any]:
    calls = [(call["id"], call["name"], call["arguments"]) for call in found.tool_calls or ()]
    return {name: getattr(found, name) for name in Measures.__dataclass_fields__} | {"calls": calls}


@each_wire
def test_a_whole_stream_is_complete_with_texts_and_tokens(wire: DeclaredWire) -> None:
    found = measured(wire, *wire.events, *wire.ending)
    assert (found.api, found.outcome) == (wire.api, "complete")
    assert {name: told(found)[name] for name in wire.expected} == wire.expected
    assert found.ttft_ns is not None
    assert not {"unknown_payload", "malformed", "empty", "no_done", "object_mismatch"} & set(found.flags)


@each_wire
def test_a_stream_that_a_clean_end_cut_is_truncated(wire: DeclaredWire) -> None:
    found = measured(wire, *wire.events[: wire.cut], wire.torn)
    assert (found.api, found.outcome, found.outcome_detail) == (wire.api, "truncated", "eof")
    assert (found.content, found.operation) == (wire.said, wire.expected["operation"])


@each_wire
def test_a_stream_with_its_wires_error_has_failed(wire: DeclaredWire) -> None:
    failure, code, message = wire.failure
    found = measured(wire, *wire.events[: wire.cut], failure, *wire.ending)
    assert (found.api, found.outcome, found.error_code, found.error_message) == (wire.api, "error_event", code, message)


@each_wire
@given(cuts=st.data())
def test_the_cuts_of_the_bytes_make_no_difference(wire: DeclaredWire, cuts: st.DataObject) -> None:
    body = b"".join((*wire.events, *wire.ending))
    places = sorted(cuts.draw(st.sets(st.integers(1, len(body) - 1), max_size=20)))
    asked = {"path": wire.path, "request": wire.request, "headers": wire.headers}
    assert said(derived(body, *places, **asked)) == said(derived(body, **asked))


@pytest.mark.parametrize(
    "name", ["ai-sdk-ui", "ag-ui", "a2a", "a2a-http", "a2a-0.3", "transcription", "tgi", "llamacpp"]
)
def test_a_long_stream_has_the_text_of_each_event(name: str) -> None:
    """Events in a row that differ in one text only are not parsed one by one."""
    wire = DECLARED_WIRES[name]
    at = next(at for at, one in enumerate(wire.events) if b"see." in one)
    words = [f"word {number}. " for number in range(40)]
    whole = "Let me " + "".join(words)
    many = [wire.events[at].replace(b"see.", word.encode()) for word in words]
    last = [one.replace(b"Let me see.", whole.encode()) for one in wire.events[at + 1 :]]
    assert measured(wire, *wire.events[:at], *many, *last, *wire.ending).content == whole


def test_an_abort_of_the_ai_sdk_keeps_its_reason() -> None:
    for more in ((), (event({"type": "finish"}),)):
        found = measured(AI_SDK_UI, *AI_SDK_UI.events[:9], event({"type": "abort", "reason": "stop"}), *more, DONE)
        assert (found.outcome, found.outcome_detail, found.content) == ("truncated", "aborted", "Let me see.")
        assert found.error_message == "stop"


def test_a_calls_whole_input_overrides_its_pieces() -> None:
    calls = [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "tool-input-start", "toolCallId": "t", "toolName": "lamp"},
        {"type": "tool-input-delta", "toolCallId": "t", "inputTextDelta": '{"on": fal'},
        {"type": "tool-input-available", "toolCallId": "t", "toolName": "lamp", "input": {"on": True}},
        {"type": "finish"},
    ]
    found = measured(AI_SDK_UI, *map(event, calls), DONE)
    assert [call["arguments"] for call in found.tool_calls or ()] == ['{"on":true}']


def test_an_mcp_batch_ends_when_each_request_is_answered() -> None:
    asked = json.dumps([{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in (1, 2)]).encode()
    first, second = (event({"jsonrpc": "2.0", "id": number, "result": {"content": []}}) for number in (1, 2))
    assert measured(MCP, first, second, request=asked).outcome == "complete"
    assert measured(MCP, first, request=asked).outcome == "truncated"
    both = json.loads(f"[{first[6:].decode()}, {second[6:].decode()}]")
    assert measured(MCP, event(both), request=asked).outcome == "complete"


def test_a_stream_that_ends_inside_an_event_is_cut() -> None:
    found = measured(MCP, MCP.events[1], b'data: {"jsonrpc', method="GET", request=None)
    assert (found.outcome, found.outcome_detail) == ("truncated", "eof")


def test_a_second_truncated_ag_ui_run_is_truncated() -> None:
    assert measured(AG_UI, *AG_UI.events, *AG_UI.events).outcome == "complete"
    assert measured(AG_UI, *AG_UI.events, *AG_UI.events[:2]).outcome == "truncated"


@pytest.mark.parametrize("has_artifact", [False, True])
def test_progress_messages_are_the_answer_without_another(has_artifact: bool) -> None:
    def status(state: str, text: str = "") -> bytes:
        message = {"message": {"parts": [{"text": text}]}} if text else {}
        update = {"taskId": "t", "status": {"state": f"TASK_STATE_{state}", **message}}
        return event({"jsonrpc": "2.0", "id": 1, "result": {"statusUpdate": update}})

    artifact = {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"text": "Lit."}]}}
    more = [event({"jsonrpc": "2.0", "id": 1, "result": {"artifactUpdate": artifact}})] if has_artifact else []
    found = measured(A2A, status("WORKING", "Let me "), status("WORKING", "see."), *more, status("COMPLETED"))
    assert (found.outcome, found.content) == ("complete", "Lit." if has_artifact else "Let me see.")


def test_the_ai_sdks_stream_is_known_without_its_header() -> None:
    assert measured(AI_SDK_UI, *AI_SDK_UI.events, DONE, headers=Headers()).api == "ai-sdk-ui"
    chat = b'data: {"type":"start","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    assert derived(chat).api == "openai.chat"


def test_a_whole_json_answer_reads_like_its_stream() -> None:
    answer = MCP.events[-1].partition(b"data: ")[2].strip()
    found = measured(MCP, answer, content_type="application/json")
    assert (found.api, found.operation, found.content, found.outcome) == ("mcp", "mcp", "Lamp is lit.", "complete")
    accepted = measured(MCP, b"", content_type=None, status=202)
    assert (accepted.api, accepted.operation, accepted.outcome) == ("mcp", "mcp", "complete")


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_failed_mcp_tool_is_a_failed_call(is_whole: bool) -> None:
    parts = [{"type": "text", "text": "no such lamp"}]
    result = {"jsonrpc": "2.0", "id": 3, "result": {"content": parts, "isError": True}}
    if is_whole:
        found = measured(MCP, json.dumps(result).encode(), content_type="application/json")
    else:
        found = measured(MCP, MCP.events[1], event(result, "message"))
    assert (found.outcome, found.outcome_detail, found.error_message) == (
        "error_event",
        "before_output",
        "no such lamp",
    )
    assert (found.content, found.rpc_method, found.tool_name) == (None, "tools/call", "lamp")


def test_a_tool_that_failed_without_a_text_has_failed() -> None:
    result = {"jsonrpc": "2.0", "id": 3, "result": {"content": [], "isError": True}}
    assert measured(MCP, event(result, "message")).outcome == "error_event"


@pytest.mark.parametrize(("method", "tool"), [("tools/call", "lamp"), ("prompts/get", None), ("tools/list", None)])
def test_a_calls_method_and_tool_are_own_values(method: str, tool: str | None) -> None:
    asked = json.dumps({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"name": "lamp"}}).encode()
    found = measured(MCP, MCP.events[-1], request=asked)
    assert (found.rpc_method, found.tool_name) == (method, tool)


def test_a_refused_mcp_call_is_known_by_its_request() -> None:
    found = measured(MCP, b'{"error": "no such session"}', content_type="application/json", status=404)
    assert (found.api, found.operation, found.outcome) == ("mcp", "mcp", "http_error")
    assert (found.attributes or {})["gen_ai.tool.name"] == "lamp"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_mcp_stream_without_a_request_has_no_end(method: str) -> None:
    asked = (
        None if method == "GET" else json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}).encode()
    )
    found = measured(MCP, MCP.events[1], method=method, request=asked)
    assert (found.outcome, found.api) == ("complete", "mcp")
    assert measured(MCP, b"", method=method, request=asked).outcome == "complete"
    assert measured(MCP, MCP.events[1], method=method, request=asked, ended_by="reset").outcome == "truncated"


def test_a_clean_close_ends_a_run_of_langgraph() -> None:
    values = [event({"messages": [{"content": text, "type": kind}]}, "values") for text, kind in (("hi", "human"),) * 2]
    with_crlf = [one.replace(b"\n", b"\r\n") for one in values]
    for events in (LANGGRAPH.events[:-1], values, with_crlf):
        assert measured(LANGGRAPH, *events).outcome == "complete"
    for ended_by in ("eof", "reset", "length"):
        assert measured(LANGGRAPH, *values, ended_by=ended_by).outcome == "truncated"


def test_a_finished_langgraph_message_does_not_end_its_run() -> None:
    finished = [
        {"type": "AIMessageChunk", "id": "1", "content": "Hi", "response_metadata": {"finish_reason": "stop"}},
        {},
    ]
    events = (event(finished, "messages"), LANGGRAPH.torn)
    assert measured(LANGGRAPH, *events).outcome == "truncated"
    assert measured(LANGGRAPH, events[0], ended_by="reset").outcome == "truncated"
    assert measured(LANGGRAPH, events[0]).outcome == "complete"


def test_an_answer_of_workers_ai_may_be_calls_alone() -> None:
    result = {"response": None, "tool_calls": [{"name": "lamp", "arguments": {"on": True}}]}
    body = json.dumps({"result": result, "success": True, "errors": [], "messages": []})
    path = "/client/v4/accounts/a/ai/run/@cf/meta/llama"
    found = derived(body, content_type="application/json", path=path)
    assert found.tool_calls is not None
    assert (found.api, found.outcome, found.tool_calls[0]["name"]) == ("workers-ai", "complete", "lamp")
    assert found.tool_calls[0]["arguments"] == '{"on":true}'


def test_a_path_shared_by_wires_names_no_dialect() -> None:
    foreign = event({"kind": "part", "value": "Hi"})
    for path in ("/generate", "/completion", "/runs/stream"):
        found = derived(foreign, path=path, framing="chunked")
        assert (found.api, found.dialect_version, "unknown_payload" in found.flags) == ("unknown", None, True)


def test_every_shipped_declaration_is_read_and_has_a_stream() -> None:
    apis = {wire.api for wire in DECLARED_WIRES.values()} | {"elevenlabs"}  # its stream has no end that can be cut
    assert apis == {dialect.api for dialect in registry.shipped()}
    assert [dialect.ignored for dialect in registry.shipped()] == [()] * len(registry.shipped())
    for name, text in registry.shipped_texts().items():
        assert [table["name"] for table in tomllib.loads(text)["dialects"]] == [name]


def test_user_texts_repeated_by_ag_ui_are_no_answer() -> None:
    said = [
        {"type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "u", "delta": "Please."},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "Let "},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "me "},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "d", "role": "developer", "delta": "Be "},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "brief."},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "see."},
    ]
    found = measured(AG_UI, AG_UI.events[0], *map(event, said), AG_UI.events[-1])
    assert (found.content, found.outcome) == ("Let me see.", "complete")
    assert measured(AG_UI, AG_UI.events[0], *map(event, said[:2])).ttft_ns is None


def test_even_an_error_identifies_an_ag_ui_run() -> None:
    asked = b'{"threadId": "t1", "runId": "r1", "messages": []}'
    assert (measured(AG_UI, b"", request=asked).api, measured(AG_UI, b"", request=asked).outcome) == (
        "ag-ui", "truncated",
    )  # fmt: skip
    failed = measured(AG_UI, AG_UI.failure[0])
    assert (failed.api, failed.outcome, failed.error_message) == ("ag-ui", "error_event", "out of tokens")


@pytest.mark.parametrize("mode", ["values", "updates", "custom", "tasks", "values|sub:1"])
def test_a_cut_join_of_langgraph_is_truncated(mode: str) -> None:
    payload = {"choices": [{"index": 0, "delta": {"content": "a state's own"}}], "error": "its own, too"}
    cut = (event(payload, mode), LANGGRAPH.torn)
    found = measured(LANGGRAPH, *cut, method="GET", path="/threads/t1/runs/r1/stream")
    assert (found.api, found.outcome, found.content, found.error_code) == ("langgraph", "truncated", None, None)


def test_langgraph_calls_in_parts_have_the_last_arguments() -> None:
    def part(arguments: dict[str, Any], **more: Any) -> bytes:
        call = {"id": "c1", "name": "lamp", "args": arguments}
        return event([{"type": "ai", "id": "1", "content": "", "tool_calls": [call], **more}], "messages/partial")

    last = part({"on": True}, response_metadata={"finish_reason": "tool_calls"})
    found = measured(LANGGRAPH, part({}), part({"on": None}), last, last, event(None, "end"))
    assert told(found)["calls"] == [("c1", "lamp", '{"on":true}')]
    assert found.ttft_ns == 100 * 1_000_000


def test_langgraphs_usage_in_parts_is_put_together() -> None:
    def spoken(**usage: int) -> bytes:
        return event([{"type": "AIMessageChunk", "id": "1", "content": "", "usage_metadata": usage}, {}], "messages")

    first = spoken(input_tokens=10, output_tokens=0, total_tokens=10)
    found = measured(LANGGRAPH, first, spoken(input_tokens=0, output_tokens=5, total_tokens=5), event(None, "end"))
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (10, 5, 15)


def test_repeated_a2a_artifacts_add_no_text() -> None:
    task = {
        "id": "t1",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"parts": [{"text": "Let me see."}]}],
    }
    last = event({"jsonrpc": "2.0", "id": 3, "result": {"task": task}})
    assert measured(A2A, *A2A.events[:-1], last).content == "Let me see."
    assert measured(A2A, last).content == "Let me see."


def test_a_file_from_an_a2a_agent_is_output() -> None:
    update = {"taskId": "t1", "artifact": {"parts": [{"raw": "AAAA", "mediaType": "image/png"}]}}
    found = measured(A2A, event({"jsonrpc": "2.0", "id": 3, "result": {"artifactUpdate": update}}), A2A.events[-1])
    assert (found.outcome, found.content) == ("complete", None)
    assert found.ttft_ns is not None


def test_a2a_over_http_is_known_by_its_first_task() -> None:
    found = measured(A2A_OVER_HTTP, A2A_OVER_HTTP.events[0])
    assert (found.api, found.outcome) == ("a2a", "truncated")


def test_tgi_is_known_even_by_a_special_first_token() -> None:
    begun = event({"index": 1, "token": {"id": 1, "text": "<s>", "special": True}, "generated_text": None})
    for facts in ({}, {"path": "/", "request": b'{"inputs": "Please", "stream": true}'}):
        found = measured(TGI, begun, **facts)
        assert (found.api, found.outcome, found.content) == ("tgi", "truncated", None)


def test_another_requests_mcp_error_is_none_of_this() -> None:
    other = event({"jsonrpc": "2.0", "id": 77, "error": {"code": -1, "message": "no such tool"}})
    assert measured(MCP, other, MCP.events[-1]).outcome == "complete"
    unread = event({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
    assert measured(MCP, unread).error_code == "-32700"


def test_mcp_is_told_from_a2a_by_path_and_method() -> None:
    asked = b'{"jsonrpc": "2.0", "id": 3, "method": "vendor/thing"}'
    assert measured(MCP, MCP.events[-1], headers=Headers(), request=asked).api == "mcp"
    task = b'{"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"id": "t1"}}'
    polled = b'{"jsonrpc": "2.0", "id": 3, "result": {"kind": "task", "id": "t1", "status": {"state": "working"}}}'
    found = measured(A2A, polled, request=task, content_type="application/json")
    assert (found.api, found.operation) not in (("mcp", "mcp"), ("a2a", "chat"))


def test_answers_to_an_mcp_batch_are_read_however_grouped() -> None:
    asked = b'[{"jsonrpc": "2.0", "id": 3, "method": "tools/call"}, {"jsonrpc": "2.0", "id": 4, "method": "ping"}]'
    answers = [
        {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": said}]}}
        for number, said in ((3, "Lamp "), (4, "is lit."))
    ]
    for events in (event(answers), b"".join(map(event, answers))):
        found = measured(MCP, events, request=asked)
        assert (found.api, found.outcome, found.content) == ("mcp", "complete", "Lamp is lit.")
    whole = measured(MCP, json.dumps(answers).encode(), request=asked, content_type="application/json")
    assert (whole.api, whole.outcome, whole.content) == ("mcp", "complete", "Lamp is lit.")


def test_a_langgraph_runs_error_may_be_a_text() -> None:
    found = measured(LANGGRAPH, LANGGRAPH.events[0], event("bad input", "error"))
    assert (found.outcome, found.error_message) == ("error_event", "bad input")


def test_a_clean_close_ends_speech_by_elevenlabs() -> None:
    line = b'{"audio_base64": "AAAA", "alignment": {"characters": ["L"]}}\n'
    last = b'{"audio_base64": null, "alignment": null}\n'
    asked = {"path": "/v1/text-to-speech/v1/stream/with-timestamps?output_format=mp3", "framing": "chunked"}
    for body in (line + line + last, line + line):
        found = derived(body, len(line), content_type="application/json", **asked)
        assert (found.api, found.operation, found.outcome, found.content) == ("elevenlabs", "audio", "complete", None)
        assert (found.ttft_ns, found.output_chunks) == (100 * 1_000_000, 2)
        assert derived(body, content_type="application/json", **asked, ended_by="reset").outcome == "truncated"


def test_a2a_without_artifacts_answers_by_its_status_message() -> None:
    said = {"state": "TASK_STATE_COMPLETED", "message": {"parts": [{"text": "Let me see."}]}}
    older = {"kind": "task", "id": "t1", "status": {**said, "state": "completed"}}
    for task in ({"task": {"id": "t1", "status": said}}, older):
        found = measured(A2A, event({"jsonrpc": "2.0", "id": 3, "result": task}))
        assert (found.outcome, found.content) == ("complete", "Let me see.")


def test_a_cut_llamacpp_stream_has_its_counts_so_far() -> None:
    found = measured(LLAMACPP, *LLAMACPP.events[:2])
    assert (found.outcome, found.input_tokens, found.output_tokens) == ("truncated", 12, 2)


@pytest.mark.parametrize("name", ["mcp", "a2a", "a2a-0.3"])
def test_json_rpc_is_known_by_its_first_message_alone(name: str) -> None:
    wire = DECLARED_WIRES[name]
    typed = Headers(response=(("content-type", "text/event-stream"),))
    events = [one for one in wire.events if b"of another request" not in one]
    found = measured(wire, *events, request=None, headers=typed, path="/")
    assert (found.api, found.outcome, found.content) == (wire.api, "complete", wire.expected["content"])


def test_the_last_event_of_langgraph_may_be_unterminated() -> None:
    message, end = LANGGRAPH.events[2], LANGGRAPH.events[-1]
    assert measured(LANGGRAPH, message, end.rstrip()).outcome == "complete"
    assert measured(LANGGRAPH, message.rstrip()).content == "Let me "


@pytest.mark.parametrize(
    ("wire", "request_body"),
    [(LANGGRAPH, b'{"assistant_id": "a"}'), (A2A_OVER_HTTP, b'{"message": {}}'), (TGI, b'{"inputs": "Please"}')],
)
def test_a_refused_request_belongs_to_its_named_wire(wire: DeclaredWire, request_body: bytes) -> None:
    found = measured(wire, b'{"detail": "no"}', request=request_body, content_type="application/json", status=422)
    assert (found.api, found.operation, found.outcome) == (wire.api, wire.expected["operation"], "http_error")


def test_beginning_like_the_ai_sdk_decides_nothing() -> None:
    begun = event({"type": "start"})
    foreign = derived(begun + event({"type": "token", "text": "Hi"}) + event({"type": "end"}), framing="chunked")
    assert (foreign.api, foreign.outcome, "unknown_payload" in foreign.flags) == ("unknown", "complete", True)
    text = event({"type": "text-start", "id": "0"}) + event({"type": "text-delta", "id": "0", "delta": "Hi"})
    cut = derived(begun + text, framing="chunked")
    assert (cut.api, cut.outcome, cut.content) == ("ai-sdk-ui", "truncated", "Hi")
    asked = b'{"id": "c", "messages": [], "trigger": "submit-message"}'
    assert derived(begun, framing="chunked", request=asked).outcome == "truncated"


def test_a_lone_token_or_content_names_no_server() -> None:
    for path, payload in (("/v2/parts", {"token": {"text": "Hi"}}), ("/completion", {"content": "Hi"})):
        assert derived(event(payload), path=path, framing="chunked").api == "unknown"


@pytest.mark.parametrize(
    "path",
    ["/{}/v1/chat/completions?{}", "/v1/{}/tasks/t:subscribe?{}", "/ai/run/{}/{}/m", "/runs/{}/stream", "/{}/{}"],
)
def test_paths_with_other_ids_are_looked_up_once(path):
    found = [registry.alternatives_of(None, "POST", path.format(id, id)) for id in ("a", "b-1", "")]
    assert found[0] is found[1]
    for id, ways in zip(("a", "b-1", ""), found, strict=True):
        expected = [one for one in registry.alternatives(None) if one[1].may_ask("POST", path.format(id, id))]
        assert sorted([*ways.by_exchange, *ways.by_event], key=expected.index) == expected
