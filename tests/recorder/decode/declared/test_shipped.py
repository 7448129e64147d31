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
    request_facts = {"path": wire.path, "request": wire.request, "headers": wire.headers, "framing": "chunked"}
    return derived(b"".join(events), **request_facts | facts)


def summary(measures: Measures) -> dict[str, Any]:
    calls = [(call["id"], call["name"], call["arguments"]) for call in measures.tool_calls or ()]
    return {name: getattr(measures, name) for name in Measures.__dataclass_fields__} | {"calls": calls}


@each_wire
def test_a_whole_stream_is_complete_with_texts_and_tokens(wire: DeclaredWire) -> None:
    measures = measured(wire, *wire.events, *wire.ending)
    assert (measures.api, measures.outcome) == (wire.api, "complete")
    assert {name: summary(measures)[name] for name in wire.expected} == wire.expected
    assert measures.ttft_ns is not None
    assert not {"unknown_payload", "malformed", "empty", "no_done", "object_mismatch"} & set(measures.flags)


@each_wire
def test_a_stream_that_a_clean_end_cut_is_truncated(wire: DeclaredWire) -> None:
    measures = measured(wire, *wire.events[: wire.cut], wire.torn)
    assert (measures.api, measures.outcome, measures.outcome_detail) == (wire.api, "truncated", "eof")
    assert (measures.content, measures.operation) == (wire.said, wire.expected["operation"])


@each_wire
def test_a_stream_with_its_wires_error_has_failed(wire: DeclaredWire) -> None:
    failure, code, message = wire.failure
    measures = measured(wire, *wire.events[: wire.cut], failure, *wire.ending)
    assert (measures.api, measures.outcome, measures.error_code, measures.error_message) == (
        wire.api,
        "error_event",
        code,
        message,
    )


@each_wire
@given(cuts=st.data())
def test_the_cuts_of_the_bytes_make_no_difference(wire: DeclaredWire, cuts: st.DataObject) -> None:
    body = b"".join((*wire.events, *wire.ending))
    places = sorted(cuts.draw(st.sets(st.integers(1, len(body) - 1), max_size=20)))
    facts = {"path": wire.path, "request": wire.request, "headers": wire.headers}
    assert said(derived(body, *places, **facts)) == said(derived(body, **facts))


@pytest.mark.parametrize(
    "name", ["ai-sdk-ui", "ag-ui", "a2a", "a2a-http", "a2a-0.3", "transcription", "tgi", "llamacpp"]
)
def test_a_long_stream_has_the_text_of_each_event(name: str) -> None:
    """Events in a row that differ in one text only are not parsed one by one."""
    wire = DECLARED_WIRES[name]
    at = next(at for at, event_bytes in enumerate(wire.events) if b"see." in event_bytes)
    words = [f"word {number}. " for number in range(40)]
    text = "Let me " + "".join(words)
    many = [wire.events[at].replace(b"see.", word.encode()) for word in words]
    ending = [event_bytes.replace(b"Let me see.", text.encode()) for event_bytes in wire.events[at + 1 :]]
    assert measured(wire, *wire.events[:at], *many, *ending, *wire.ending).content == text


def test_an_abort_of_the_ai_sdk_keeps_its_reason() -> None:
    for more in ((), (event({"type": "finish"}),)):
        measures = measured(AI_SDK_UI, *AI_SDK_UI.events[:9], event({"type": "abort", "reason": "stop"}), *more, DONE)
        assert (measures.outcome, measures.outcome_detail, measures.content) == ("truncated", "aborted", "Let me see.")
        assert measures.error_message == "stop"


def test_a_calls_whole_input_overrides_its_pieces() -> None:
    calls = [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "tool-input-start", "toolCallId": "t", "toolName": "lamp"},
        {"type": "tool-input-delta", "toolCallId": "t", "inputTextDelta": '{"on": fal'},
        {"type": "tool-input-available", "toolCallId": "t", "toolName": "lamp", "input": {"on": True}},
        {"type": "finish"},
    ]
    measures = measured(AI_SDK_UI, *map(event, calls), DONE)
    assert [call["arguments"] for call in measures.tool_calls or ()] == ['{"on":true}']


def test_an_mcp_batch_ends_when_each_request_is_answered() -> None:
    request_body = json.dumps([{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in (1, 2)]).encode()
    first, second = (event({"jsonrpc": "2.0", "id": number, "result": {"content": []}}) for number in (1, 2))
    assert measured(MCP, first, second, request=request_body).outcome == "complete"
    assert measured(MCP, first, request=request_body).outcome == "truncated"
    batch = json.loads(f"[{first[6:].decode()}, {second[6:].decode()}]")
    assert measured(MCP, event(batch), request=request_body).outcome == "complete"


def test_a_stream_that_ends_inside_an_event_is_cut() -> None:
    measures = measured(MCP, MCP.events[1], b'data: {"jsonrpc', method="GET", request=None)
    assert (measures.outcome, measures.outcome_detail) == ("truncated", "eof")


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
    measures = measured(A2A, status("WORKING", "Let me "), status("WORKING", "see."), *more, status("COMPLETED"))
    assert (measures.outcome, measures.content) == ("complete", "Lit." if has_artifact else "Let me see.")


def test_the_ai_sdks_stream_is_known_without_its_header() -> None:
    assert measured(AI_SDK_UI, *AI_SDK_UI.events, DONE, headers=Headers()).api == "ai-sdk-ui"
    chat = b'data: {"type":"start","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    assert derived(chat).api == "openai.chat"


def test_a_whole_json_answer_reads_like_its_stream() -> None:
    answer = MCP.events[-1].partition(b"data: ")[2].strip()
    measures = measured(MCP, answer, content_type="application/json")
    assert (measures.api, measures.operation, measures.content, measures.outcome) == (
        "mcp",
        "mcp",
        "Lamp is lit.",
        "complete",
    )
    accepted = measured(MCP, b"", content_type=None, status=202)
    assert (accepted.api, accepted.operation, accepted.outcome) == ("mcp", "mcp", "complete")


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_failed_mcp_tool_is_a_failed_call(is_whole: bool) -> None:
    parts = [{"type": "text", "text": "no such lamp"}]
    result = {"jsonrpc": "2.0", "id": 3, "result": {"content": parts, "isError": True}}
    if is_whole:
        measures = measured(MCP, json.dumps(result).encode(), content_type="application/json")
    else:
        measures = measured(MCP, MCP.events[1], event(result, "message"))
    assert (measures.outcome, measures.outcome_detail, measures.error_message) == (
        "error_event",
        "before_output",
        "no such lamp",
    )
    assert (measures.content, measures.rpc_method, measures.tool_name) == (None, "tools/call", "lamp")


def test_a_tool_that_failed_without_a_text_has_failed() -> None:
    result = {"jsonrpc": "2.0", "id": 3, "result": {"content": [], "isError": True}}
    assert measured(MCP, event(result, "message")).outcome == "error_event"


@pytest.mark.parametrize(("method", "tool"), [("tools/call", "lamp"), ("prompts/get", None), ("tools/list", None)])
def test_a_calls_method_and_tool_are_own_values(method: str, tool: str | None) -> None:
    request_body = json.dumps({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"name": "lamp"}}).encode()
    measures = measured(MCP, MCP.events[-1], request=request_body)
    assert (measures.rpc_method, measures.tool_name) == (method, tool)


def test_a_refused_mcp_call_is_known_by_its_request() -> None:
    measures = measured(MCP, b'{"error": "no such session"}', content_type="application/json", status=404)
    assert (measures.api, measures.operation, measures.outcome) == ("mcp", "mcp", "http_error")
    assert (measures.attributes or {})["gen_ai.tool.name"] == "lamp"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_mcp_stream_without_a_request_has_no_end(method: str) -> None:
    request_body = (
        None if method == "GET" else json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}).encode()
    )
    measures = measured(MCP, MCP.events[1], method=method, request=request_body)
    assert (measures.outcome, measures.api) == ("complete", "mcp")
    assert measured(MCP, b"", method=method, request=request_body).outcome == "complete"
    assert measured(MCP, MCP.events[1], method=method, request=request_body, ended_by="reset").outcome == "truncated"


def test_a_clean_close_ends_a_run_of_langgraph() -> None:
    values = [event({"messages": [{"content": text, "type": kind}]}, "values") for text, kind in (("hi", "human"),) * 2]
    with_crlf = [value.replace(b"\n", b"\r\n") for value in values]
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
    measures = derived(body, content_type="application/json", path=path)
    assert measures.tool_calls is not None
    assert (measures.api, measures.outcome, measures.tool_calls[0]["name"]) == ("workers-ai", "complete", "lamp")
    assert measures.tool_calls[0]["arguments"] == '{"on":true}'


def test_a_path_shared_by_wires_names_no_dialect() -> None:
    foreign = event({"kind": "part", "value": "Hi"})
    for path in ("/generate", "/completion", "/runs/stream"):
        measures = derived(foreign, path=path, framing="chunked")
        assert (measures.api, measures.dialect_version, "unknown_payload" in measures.flags) == ("unknown", None, True)


def test_every_shipped_declaration_is_read_and_has_a_stream() -> None:
    apis = {wire.api for wire in DECLARED_WIRES.values()} | {"elevenlabs"}  # its stream has no end that can be cut
    assert apis == {dialect.api for dialect in registry.shipped()}
    assert [dialect.ignored for dialect in registry.shipped()] == [()] * len(registry.shipped())
    for name, text in registry.shipped_texts().items():
        assert [table["name"] for table in tomllib.loads(text)["dialects"]] == [name]


def test_user_texts_repeated_by_ag_ui_are_no_answer() -> None:
    messages = [
        {"type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "u", "delta": "Please."},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "Let "},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "me "},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "d", "role": "developer", "delta": "Be "},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "brief."},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "see."},
    ]
    measures = measured(AG_UI, AG_UI.events[0], *map(event, messages), AG_UI.events[-1])
    assert (measures.content, measures.outcome) == ("Let me see.", "complete")
    assert measured(AG_UI, AG_UI.events[0], *map(event, messages[:2])).ttft_ns is None


def test_even_an_error_identifies_an_ag_ui_run() -> None:
    request_body = b'{"threadId": "t1", "runId": "r1", "messages": []}'
    assert (measured(AG_UI, b"", request=request_body).api, measured(AG_UI, b"", request=request_body).outcome) == (
        "ag-ui", "truncated",
    )  # fmt: skip
    failed = measured(AG_UI, AG_UI.failure[0])
    assert (failed.api, failed.outcome, failed.error_message) == ("ag-ui", "error_event", "out of tokens")


@pytest.mark.parametrize("mode", ["values", "updates", "custom", "tasks", "values|sub:1"])
def test_a_cut_join_of_langgraph_is_truncated(mode: str) -> None:
    payload = {"choices": [{"index": 0, "delta": {"content": "a state's own"}}], "error": "its own, too"}
    cut = (event(payload, mode), LANGGRAPH.torn)
    measures = measured(LANGGRAPH, *cut, method="GET", path="/threads/t1/runs/r1/stream")
    assert (measures.api, measures.outcome, measures.content, measures.error_code) == (
        "langgraph",
        "truncated",
        None,
        None,
    )


def test_langgraph_calls_in_parts_have_the_last_arguments() -> None:
    def part(arguments: dict[str, Any], **more: Any) -> bytes:
        call = {"id": "c1", "name": "lamp", "args": arguments}
        return event([{"type": "ai", "id": "1", "content": "", "tool_calls": [call], **more}], "messages/partial")

    final_event = part({"on": True}, response_metadata={"finish_reason": "tool_calls"})
    measures = measured(LANGGRAPH, part({}), part({"on": None}), final_event, final_event, event(None, "end"))
    assert summary(measures)["calls"] == [("c1", "lamp", '{"on":true}')]
    assert measures.ttft_ns == 100 * 1_000_000


def test_langgraphs_usage_in_parts_is_put_together() -> None:
    def spoken(**usage: int) -> bytes:
        return event([{"type": "AIMessageChunk", "id": "1", "content": "", "usage_metadata": usage}, {}], "messages")

    first_usage = spoken(input_tokens=10, output_tokens=0, total_tokens=10)
    measures = measured(
        LANGGRAPH, first_usage, spoken(input_tokens=0, output_tokens=5, total_tokens=5), event(None, "end")
    )
    assert (measures.input_tokens, measures.output_tokens, measures.total_tokens) == (10, 5, 15)


def test_repeated_a2a_artifacts_add_no_text() -> None:
    task = {
        "id": "t1",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"parts": [{"text": "Let me see."}]}],
    }
    final_event = event({"jsonrpc": "2.0", "id": 3, "result": {"task": task}})
    assert measured(A2A, *A2A.events[:-1], final_event).content == "Let me see."
    assert measured(A2A, final_event).content == "Let me see."


def test_a_file_from_an_a2a_agent_is_output() -> None:
    update = {"taskId": "t1", "artifact": {"parts": [{"raw": "AAAA", "mediaType": "image/png"}]}}
    measures = measured(A2A, event({"jsonrpc": "2.0", "id": 3, "result": {"artifactUpdate": update}}), A2A.events[-1])
    assert (measures.outcome, measures.content) == ("complete", None)
    assert measures.ttft_ns is not None


def test_a2a_over_http_is_known_by_its_first_task() -> None:
    measures = measured(A2A_OVER_HTTP, A2A_OVER_HTTP.events[0])
    assert (measures.api, measures.outcome) == ("a2a", "truncated")


def test_tgi_is_known_even_by_a_special_first_token() -> None:
    opening = event({"index": 1, "token": {"id": 1, "text": "<s>", "special": True}, "generated_text": None})
    for facts in ({}, {"path": "/", "request": b'{"inputs": "Please", "stream": true}'}):
        measures = measured(TGI, opening, **facts)
        assert (measures.api, measures.outcome, measures.content) == ("tgi", "truncated", None)


def test_another_requests_mcp_error_is_none_of_this() -> None:
    other_answer = event({"jsonrpc": "2.0", "id": 77, "error": {"code": -1, "message": "no such tool"}})
    assert measured(MCP, other_answer, MCP.events[-1]).outcome == "complete"
    unread = event({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
    assert measured(MCP, unread).error_code == "-32700"


def test_mcp_is_told_from_a2a_by_path_and_method() -> None:
    request_body = b'{"jsonrpc": "2.0", "id": 3, "method": "vendor/thing"}'
    assert measured(MCP, MCP.events[-1], headers=Headers(), request=request_body).api == "mcp"
    task = b'{"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"id": "t1"}}'
    polled = b'{"jsonrpc": "2.0", "id": 3, "result": {"kind": "task", "id": "t1", "status": {"state": "working"}}}'
    measures = measured(A2A, polled, request=task, content_type="application/json")
    assert (measures.api, measures.operation) not in (("mcp", "mcp"), ("a2a", "chat"))


def test_answers_to_an_mcp_batch_are_read_however_grouped() -> None:
    request_body = (
        b'[{"jsonrpc": "2.0", "id": 3, "method": "tools/call"}, {"jsonrpc": "2.0", "id": 4, "method": "ping"}]'
    )
    answers = [
        {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}]}}
        for number, text in ((3, "Lamp "), (4, "is lit."))
    ]
    for events in (event(answers), b"".join(map(event, answers))):
        measures = measured(MCP, events, request=request_body)
        assert (measures.api, measures.outcome, measures.content) == ("mcp", "complete", "Lamp is lit.")
    json_measures = measured(MCP, json.dumps(answers).encode(), request=request_body, content_type="application/json")
    assert (json_measures.api, json_measures.outcome, json_measures.content) == ("mcp", "complete", "Lamp is lit.")


def test_a_langgraph_runs_error_may_be_a_text() -> None:
    measures = measured(LANGGRAPH, LANGGRAPH.events[0], event("bad input", "error"))
    assert (measures.outcome, measures.error_message) == ("error_event", "bad input")


def test_a_clean_close_ends_speech_by_elevenlabs() -> None:
    line = b'{"audio_base64": "AAAA", "alignment": {"characters": ["L"]}}\n'
    final_event = b'{"audio_base64": null, "alignment": null}\n'
    facts = {"path": "/v1/text-to-speech/v1/stream/with-timestamps?output_format=mp3", "framing": "chunked"}
    for body in (line + line + final_event, line + line):
        measures = derived(body, len(line), content_type="application/json", **facts)
        assert (measures.api, measures.operation, measures.outcome, measures.content) == (
            "elevenlabs",
            "audio",
            "complete",
            None,
        )
        assert (measures.ttft_ns, measures.output_chunks) == (100 * 1_000_000, 2)
        assert derived(body, content_type="application/json", **facts, ended_by="reset").outcome == "truncated"


def test_a2a_without_artifacts_answers_by_its_status_message() -> None:
    result = {"state": "TASK_STATE_COMPLETED", "message": {"parts": [{"text": "Let me see."}]}}
    older = {"kind": "task", "id": "t1", "status": {**result, "state": "completed"}}
    for task in ({"task": {"id": "t1", "status": result}}, older):
        measures = measured(A2A, event({"jsonrpc": "2.0", "id": 3, "result": task}))
        assert (measures.outcome, measures.content) == ("complete", "Let me see.")


def test_a_cut_llamacpp_stream_has_its_counts_so_far() -> None:
    measures = measured(LLAMACPP, *LLAMACPP.events[:2])
    assert (measures.outcome, measures.input_tokens, measures.output_tokens) == ("truncated", 12, 2)


@pytest.mark.parametrize("name", ["mcp", "a2a", "a2a-0.3"])
def test_json_rpc_is_known_by_its_first_message_alone(name: str) -> None:
    wire = DECLARED_WIRES[name]
    typed = Headers(response=(("content-type", "text/event-stream"),))
    events = [event_bytes for event_bytes in wire.events if b"of another request" not in event_bytes]
    measures = measured(wire, *events, request=None, headers=typed, path="/")
    assert (measures.api, measures.outcome, measures.content) == (wire.api, "complete", wire.expected["content"])


def test_the_last_event_of_langgraph_may_be_unterminated() -> None:
    message, end = LANGGRAPH.events[2], LANGGRAPH.events[-1]
    assert measured(LANGGRAPH, message, end.rstrip()).outcome == "complete"
    assert measured(LANGGRAPH, message.rstrip()).content == "Let me "


@pytest.mark.parametrize(
    ("wire", "request_body"),
    [(LANGGRAPH, b'{"assistant_id": "a"}'), (A2A_OVER_HTTP, b'{"message": {}}'), (TGI, b'{"inputs": "Please"}')],
)
def test_a_refused_request_belongs_to_its_named_wire(wire: DeclaredWire, request_body: bytes) -> None:
    measures = measured(wire, b'{"detail": "no"}', request=request_body, content_type="application/json", status=422)
    assert (measures.api, measures.operation, measures.outcome) == (wire.api, wire.expected["operation"], "http_error")


def test_beginning_like_the_ai_sdk_decides_nothing() -> None:
    opening = event({"type": "start"})
    foreign = derived(opening + event({"type": "token", "text": "Hi"}) + event({"type": "end"}), framing="chunked")
    assert (foreign.api, foreign.outcome, "unknown_payload" in foreign.flags) == ("unknown", "complete", True)
    text = event({"type": "text-start", "id": "0"}) + event({"type": "text-delta", "id": "0", "delta": "Hi"})
    cut = derived(opening + text, framing="chunked")
    assert (cut.api, cut.outcome, cut.content) == ("ai-sdk-ui", "truncated", "Hi")
    request_body = b'{"id": "c", "messages": [], "trigger": "submit-message"}'
    assert derived(opening, framing="chunked", request=request_body).outcome == "truncated"


def test_a_lone_token_or_content_names_no_server() -> None:
    for path, payload in (("/v2/parts", {"token": {"text": "Hi"}}), ("/completion", {"content": "Hi"})):
        assert derived(event(payload), path=path, framing="chunked").api == "unknown"


@pytest.mark.parametrize(
    "path",
    ["/{}/v1/chat/completions?{}", "/v1/{}/tasks/t:subscribe?{}", "/ai/run/{}/{}/m", "/runs/{}/stream", "/{}/{}"],
)
def test_paths_with_other_ids_are_looked_up_once(path):
    alternatives = [registry.alternatives_of(None, "POST", path.format(id, id)) for id in ("a", "b-1", "")]
    assert alternatives[0] is alternatives[1]
    for id, wires in zip(("a", "b-1", ""), alternatives, strict=True):
        expected = [
            alternative
            for alternative in registry.alternatives(None)
            if alternative[1].may_ask("POST", path.format(id, id))
        ]
        assert sorted([*wires.by_exchange, *wires.by_event], key=expected.index) == expected
