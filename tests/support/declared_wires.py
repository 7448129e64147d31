"""Streams of the declared dialects of the package: whole, cut and failed, each as the server sends it."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from wiretape.recorder.decode.exchange import Headers

DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class DeclaredWire:
    """One stream: its events, the facts of its request, and the values that must be derived of it.

    `cut` is the number of the events after which it was cut, and `said` its text up to there; `failure` is the error in
    their place, with its code and its message. `torn` is the beginning of the next event, of a wire that has no end of
    its own: only there it can be cut.
    """

    api: str
    path: str
    events: tuple[bytes, ...]
    expected: dict[str, Any]
    cut: int
    said: str | None
    failure: tuple[bytes, str | None, str | None]
    request: bytes | None = None
    headers: Headers = field(default_factory=Headers)
    ending: tuple[bytes, ...] = ()
    torn: bytes = b""


def event(payload: Any, name: str = "") -> bytes:
    """Return an event of a stream."""
    data = json.dumps(payload, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


def _events(*payloads: Any) -> tuple[bytes, ...]:
    return tuple(map(event, payloads))


def _rpc(id: int, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, **more}


def _asked(method: str, **params: Any) -> bytes:
    return json.dumps({"method": method, "params": params, "jsonrpc": "2.0", "id": 3}).encode()


AI_SDK_UI = DeclaredWire(
    "ai-sdk-ui",
    "/api/chat",
    _events(
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "0"},
        {"type": "reasoning-delta", "id": "0", "delta": "Look it "},
        {"type": "reasoning-delta", "id": "0", "delta": "up."},
        {"type": "reasoning-end", "id": "0"},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "Let me "},
        {"type": "text-delta", "id": "1", "delta": "see."},
        {"type": "text-end", "id": "1"},
        {"type": "tool-input-start", "toolCallId": "c1", "toolName": "lamp"},
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"on":'},
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": "true}"},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "lamp", "input": {"on": True}},
        {"type": "tool-input-available", "toolCallId": "c2", "toolName": "bulb", "input": {"on": False}},
        {"type": "tool-input-error", "toolCallId": "c3", "toolName": "sun", "input": "on", "errorText": "no such tool"},
        {"type": "tool-output-error", "toolCallId": "c1", "errorText": "the lamp is broken"},
        {"type": "data-weather", "data": {"error": "none of ours"}},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "tool-calls", "messageMetadata": {
            "totalUsage": {"inputTokens": 12, "outputTokens": 9, "totalTokens": 21}}},
    ),
    {"operation": "chat", "content": "Let me see.", "reasoning": "Look it up.", "finish_reason": "tool-calls",
     "input_tokens": 12, "output_tokens": 9, "total_tokens": 21, "response_id": "m1",
     "calls": [("c1", "lamp", '{"on":true}'), ("c2", "bulb", '{"on":false}'), ("c3", "sun", "on")]},
    9,
    "Let me see.",
    (event({"type": "error", "errorText": "the model left"}), None, "the model left"),
    headers=Headers(response=(("x-vercel-ai-ui-message-stream", "v1"),)),
    ending=(DONE,),
)  # fmt: skip

MCP = DeclaredWire(
    "mcp",
    "/mcp",
    (
        b"id: 1\ndata: \n\n",
        event({"jsonrpc": "2.0", "method": "notifications/progress",
               "params": {"progressToken": "t1", "progress": 1, "total": 3, "message": "step one"}}, "message"),
        event(_rpc(3, method="sampling/createMessage", params={"messages": []}), "message"),
        event(_rpc(4, result={"content": [{"type": "text", "text": "of another request"}]}), "message"),
        event(_rpc(3, result={"content": [{"type": "text", "text": "Lamp "}, {"type": "image", "data": "AAAA"},
                                          {"type": "text", "text": "is lit."}], "isError": False}), "message"),
    ),
    {"operation": "mcp", "content": "Lamp is lit.", "finish_reason": None, "attributes": {
        "mcp.method.name": "tools/call", "gen_ai.tool.name": "lamp", "jsonrpc.request.id": 3, "mcp.session.id": "s1",
        "mcp.protocol.version": "2025-06-18", "mcp.progress": 1, "mcp.progress.total": 3,
        "mcp.progress.message": "step one", "mcp.result.is_error": False}},
    4,
    None,
    (event(_rpc(3, error={"code": -32602, "message": "Unknown tool"})), "-32602", "Unknown tool"),
    request=_asked("tools/call", name="lamp", arguments={}),
    headers=Headers(request=(("mcp-protocol-version", "2025-06-18"), ("mcp-session-id", "s1"))),
)  # fmt: skip

MCP_2026 = DeclaredWire(
    "mcp",
    "/",
    (event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 0.5}}),
     event(_rpc(3, result={"resultType": "input_required", "inputRequests": {}}))),
    {"operation": "mcp", "content": None, "attributes": {
        "mcp.method.name": "tools/call", "gen_ai.tool.name": "lamp", "mcp.progress": 0.5,
        "mcp.result.type": "input_required"}},
    1,
    None,
    (event(_rpc(3, error={"code": -32000, "message": "too busy"})), "-32000", "too busy"),
    headers=Headers(request=(("mcp-method", "tools/call"), ("mcp-name", "lamp"))),
)  # fmt: skip

AG_UI = DeclaredWire(
    "ag-ui",
    "/agent",
    _events(
        {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "timestamp": 1},
        {"type": "THINKING_START"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m0", "delta": "Look it up."},
        {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Let me ", "timestamp": 2},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "see.", "timestamp": 3},
        {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "lamp"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"on":'},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "true}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "STATE_SNAPSHOT", "snapshot": {}, "error": "a state's own"},
        {"type": "MESSAGES_SNAPSHOT", "messages": [{"role": "assistant", "content": "Let me see."}]},
        {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": {"type": "success"}, "usage": [
            {"model": "gpt-x", "inputTokens": 10, "outputTokens": 4, "totalTokens": 14},
            {"model": "gpt-y", "inputTokens": 2, "outputTokens": 5, "totalTokens": 7}]},
    ),
    {"operation": "chat", "content": "Let me see.", "reasoning": "Look it up.", "finish_reason": "success",
     "input_tokens": 12, "output_tokens": 9, "total_tokens": 21, "response_model": "gpt-x", "response_id": "r1",
     "calls": [("c1", "lamp", '{"on":true}')], "attributes": {"gen_ai.conversation.id": "t1"}},
    5,
    "Let me ",
    (event({"type": "RUN_ERROR", "message": "out of tokens"}), None, "out of tokens"),
)  # fmt: skip


def _spoken(text: str, **more: Any) -> bytes:
    message = {"type": "AIMessageChunk", "id": "run--1", "content": text, "tool_call_chunks": [],
               "usage_metadata": None, "response_metadata": {}} | more  # fmt: skip
    return event([message, {"langgraph_node": "model", "ls_model_name": "gpt-x"}], "messages|model:1")


LANGGRAPH = DeclaredWire(
    "langgraph",
    "/threads/t1/runs/stream",
    (
        event({"run_id": "r1", "attempt": 1}, "metadata"),
        event([{"type": "human", "id": "h", "content": "Please"}, {}], "messages"),
        _spoken("Let me "),
        _spoken([{"type": "text", "text": "see.", "index": 0}]),
        _spoken("", tool_call_chunks=[{"name": "lamp", "args": "", "id": "c1", "index": 0}]),
        _spoken("", tool_call_chunks=[{"name": None, "args": '{"on":true}', "id": None, "index": 0}]),
        event({"messages": [], "error": "a state's own", "usage": {"total_tokens": 1}}, "values"),
        event([{"type": "tool", "id": "t", "content": "lit"}, {}], "messages"),
        _spoken("", usage_metadata={"input_tokens": 10, "output_tokens": 4, "total_tokens": 14},
                response_metadata={"finish_reason": "tool_calls", "model_name": "gpt-x"}),
        event([{"type": "AIMessageChunk", "id": "run--2", "content": " Done.", "usage_metadata":
                {"input_tokens": 2, "output_tokens": 5, "total_tokens": 7},
                "response_metadata": {"finish_reason": "stop"}}, {}], "messages"),
        event(None, "end"),
    ),
    {"operation": "chat", "content": "Let me see. Done.", "finish_reason": "stop", "input_tokens": 12,
     "output_tokens": 9, "total_tokens": 21, "response_model": "gpt-x", "response_id": "r1",
     "calls": [("c1", "lamp", '{"on":true}')]},
    3,
    "Let me ",
    (event({"error": "ValueError", "message": "bad input"}, "error"), "ValueError", "bad input"),
    torn=b'event: values\ndata: {"mess',
)  # fmt: skip

LANGGRAPH_PARTIAL = DeclaredWire(
    "langgraph",
    "/runs/stream",
    (
        event({"run_id": "r1"}, "metadata"),
        event({}, "messages/metadata"),
        event([{"type": "ai", "id": "1", "content": "Let "}], "messages/partial"),
        event([{"type": "ai", "id": "1", "content": "Let me see."}], "messages/partial"),
        event([{"type": "ai", "id": "1", "content": "Let me see.", "tool_calls":
                [{"id": "c1", "name": "lamp", "args": {"on": True}}]}], "messages/complete"),
        event(None, "end"),
    ),
    {"operation": "chat", "content": "Let me see.", "calls": [("c1", "lamp", '{"on":true}')]},
    3,
    "Let ",
    (event({"error": "ValueError", "message": "bad input"}, "error"), "ValueError", "bad input"),
    torn=b'event: values\ndata: {"mess',
)  # fmt: skip

_TASK = {"taskId": "t1", "contextId": "c1"}


def _state(state: str, text: str = "") -> dict[str, Any]:
    message = {"message": {"role": "ROLE_AGENT", "parts": [{"text": text}]}} if text else {}
    return {"statusUpdate": {**_TASK, "status": {"state": f"TASK_STATE_{state}", **message}}}


def _artifact(text: str) -> dict[str, Any]:
    return {"artifactUpdate": {**_TASK, "append": True, "artifact": {"artifactId": "a", "parts": [{"text": text}]}}}


_A2A = (
    {"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_SUBMITTED"}}},
    _state("WORKING", "I look it up."),
    _artifact("Let me "),
    _artifact("see."),
    _state("COMPLETED"),
)
_OF_TASK = {"operation": "chat", "content": "Let me see.", "finish_reason": "TASK_STATE_COMPLETED", "response_id": "t1"}


def _part(text: str) -> dict[str, Any]:
    return {"kind": "artifact-update", **_TASK, "artifact": {"parts": [{"kind": "text", "text": text}]}}


A2A = DeclaredWire(
    "a2a",
    "/",
    _events(*(_rpc(3, result=result) for result in _A2A)),
    {**_OF_TASK, "attributes": {"a2a.task.id": "t1", "gen_ai.conversation.id": "c1", "jsonrpc.request.id": 3,
                                "rpc.method": "SendStreamingMessage"}},
    3,
    "Let me ",
    (event(_rpc(3, result=_state("FAILED", "no such city"))), "TASK_STATE_FAILED", "no such city"),
    request=_asked("SendStreamingMessage", message={}),
)  # fmt: skip

A2A_OVER_HTTP = DeclaredWire(
    "a2a", "/v1/message:stream", _events(*_A2A), _OF_TASK, 4, "Let me see.",
    (event({"error": {"code": -32004, "message": "not supported"}}), "-32004", "not supported"),
)  # fmt: skip

A2A_03 = DeclaredWire(
    "a2a",
    "/a2a",
    _events(
        _rpc(3, result={"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "submitted"}}),
        _rpc(3, result=_part("Let me ")),
        _rpc(3, result=_part("see.")),
        _rpc(3, result={"kind": "status-update", **_TASK, "status": {"state": "completed"}, "final": True}),
    ),
    {"operation": "chat", "content": "Let me see.", "finish_reason": "completed"},
    2,
    "Let me ",
    (event(_rpc(3, error={"code": -32001, "message": "Task not found"})), "-32001", "Task not found"),
    request=_asked("message/stream"),
)  # fmt: skip

_COUNTED = {"usage": {"type": "tokens", "input_tokens": 12, "output_tokens": 9, "total_tokens": 21}}
_AUDIO_FAILED = (event({"type": "error", "error": {"code": "server_error", "message": "busy"}}), "server_error", "busy")

SPEECH = DeclaredWire(
    "speech",
    "/v1/audio/speech",
    _events({"type": "speech.audio.delta", "audio": "AAAA"}, {"type": "speech.audio.delta", "audio": "BBBB"},
            {"type": "speech.audio.done", **_COUNTED}),
    {"operation": "audio", "content": None, "input_tokens": 12, "output_tokens": 9},
    1,
    None,
    _AUDIO_FAILED,
)  # fmt: skip

TRANSCRIPTION = DeclaredWire(
    "speech",
    "/v1/audio/transcriptions",
    _events({"type": "transcript.text.delta", "delta": "Let me "}, {"type": "transcript.text.delta", "delta": "see."},
            {"type": "transcript.text.done", "text": "Let me see.", **_COUNTED}),
    {"operation": "audio", "content": "Let me see.", "input_tokens": 12, "output_tokens": 9},
    1,
    "Let me ",
    _AUDIO_FAILED,
)  # fmt: skip


SPEECH_OF_CARTESIA = DeclaredWire(
    "speech",
    "/tts/sse",
    _events({"type": "chunk", "data": "AAAA", "done": False, "status_code": 206, "step_time": 9.5},
            {"type": "timestamps", "done": False, "status_code": 206, "word_timestamps": {"words": ["Let"]}},
            {"type": "done", "done": True, "status_code": 200}),
    {"operation": "audio", "content": None},
    2,
    None,
    (event({"type": "error", "title": "Invalid voice", "message": "no such voice", "error_code": "voice_not_found",
            "status_code": 404, "done": True}), "voice_not_found", "no such voice"),
)  # fmt: skip


def _token(no: int, text: str, *, special: bool = False, **more: Any) -> dict[str, Any]:
    token = {"id": 7 * no, "text": text, "logprob": -0.25 * no, "special": special}
    return {"index": no, "token": token, "generated_text": None, "details": None, **more}


TGI = DeclaredWire(
    "tgi",
    "/generate_stream",
    _events(_token(1, "Let me "), _token(2, "see."), _token(
        3, "</s>", special=True, generated_text="Let me see.",
        details={"finish_reason": "eos_token", "generated_tokens": 3, "seed": None, "input_length": 12})),
    {"operation": "text_completion", "content": "Let me see.", "finish_reason": "eos_token", "input_tokens": 12,
     "output_tokens": 3},
    1,
    "Let me ",
    (event({"error": "Model is overloaded", "error_type": "overloaded"}), "overloaded", "Model is overloaded"),
)  # fmt: skip

LLAMACPP = DeclaredWire(
    "llamacpp",
    "/completion",
    _events(
        {"index": 0, "content": "Let me ", "tokens": [7], "stop": False, "tokens_predicted": 1, "tokens_evaluated": 12},
        {"index": 0, "content": "see.", "tokens": [8], "stop": False, "tokens_predicted": 2, "tokens_evaluated": 12},
        {"index": 0, "content": "", "tokens": [], "stop": True, "model": "qwen", "stop_type": "eos",
         "tokens_predicted": 2, "tokens_evaluated": 12, "timings": {"predicted_n": 2}},
    ),
    {"operation": "text_completion", "content": "Let me see.", "finish_reason": "eos", "response_model": "qwen",
     "input_tokens": 12, "output_tokens": 2},
    1,
    "Let me ",
    (event({"error": {"code": 500, "message": "context shift", "type": "server_error"}}), "500", "context shift"),
)  # fmt: skip

WORKERS_AI = DeclaredWire(
    "workers-ai",
    "/client/v4/accounts/0a/ai/run/@cf/meta/llama-t",
    _events(
        {"response": "Let me "},
        {"response": "see.", "p": "abcd"},
        {"response": "", "tool_calls": [{"name": "lamp", "arguments": {"on": True}}]},
        {"response": "", "usage": {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}},
    ),
    {
        "content": "Let me see.", "calls": [(None, "lamp", '{"on":true}')], "input_tokens": 8, "output_tokens": 4,
        "operation": "chat",
    },
    2,
    "Let me see.",
    (event({"errors": [{"code": 3040, "message": "Capacity exceeded"}]}), "3040", "Capacity exceeded"),
    ending=(DONE,),
)  # fmt: skip


def _studio(type: str, role: str = "assistant", **data: Any) -> dict[str, Any]:
    return {"object": "message", "id": f"msg_out_{type}", "role": role, "type": type,
            "content": [{"type": "data", "data": data}]}  # fmt: skip


def _studio_text(text: str, role: str = "assistant") -> dict[str, Any]:
    return {"object": "message", "role": role, "type": "message", "content": [{"type": "text", "text": text}]}


def _studio_status(status: str, **more: Any) -> dict[str, Any]:
    return _studio("session_status", "tool", session_status=status, **more)


AGENTSTUDIO = DeclaredWire(
    "agentstudio",
    "/api/v1/agentstudio/sessions/s1/events/stream",
    _events(
        _studio_text("Please", "user"), _studio_status("running"), _studio_text("Let me "), _studio_text("see."),
        _studio("tool_call", call_id="c1", name="lamp", arguments='{"on":true}'),
        _studio("tool_call_output", "tool", call_id="c1", output="lit"),
        _studio_status("idle", stop_reason={"type": "end_turn"}),
    ),
    {"operation": "agent_session", "content": "Let me see.", "finish_reason": "end_turn",
     "calls": [("c1", "lamp", '{"on":true}')]},
    3,
    "Let me ",
    (event(_studio_status("idle", stop_reason={"type": "retries_exhausted"})), "retries_exhausted", None),
)  # fmt: skip

DECLARED_WIRES: Final = {
    "ai-sdk-ui": AI_SDK_UI, "mcp": MCP, "mcp-2026": MCP_2026, "ag-ui": AG_UI, "langgraph": LANGGRAPH,
    "langgraph-partial": LANGGRAPH_PARTIAL, "a2a": A2A, "a2a-http": A2A_OVER_HTTP, "a2a-0.3": A2A_03,
    "speech": SPEECH, "transcription": TRANSCRIPTION,
    "cartesia": SPEECH_OF_CARTESIA, "tgi": TGI, "llamacpp": LLAMACPP, "workers-ai": WORKERS_AI,
    "agentstudio": AGENTSTUDIO,
}  # fmt: skip
