"""One answer on every wire: reasoning, text and a tool call, each as its API writes it."""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tests.support.eventstream import event

REASONING: Final = "Look it up. "
CONTENT: Final = "Let me see."
ARGUMENTS: Final = '{"city":"Oslo"}'
TOOL: Final = "get_weather"


@dataclass(frozen=True, slots=True)
class Wire:
    """One stream: its path, its type and its parts, each in a separate read.

    `error` is the API's error in place of a further part.
    """

    api: str
    path: str
    type: str
    parts: tuple[bytes, ...]
    error: bytes


def _compact(payload: Any) -> bytes:
    return json.dumps(payload, separators=(",", ":")).encode()


def _sse(*payloads: dict[str, Any], done: bytes = b"") -> tuple[bytes, ...]:
    parts = (b"data: " + _compact(payload) + b"\n\n" for payload in payloads)
    return (*parts, done) if done else tuple(parts)


def _named(*payloads: dict[str, Any], key: str = "type") -> tuple[bytes, ...]:
    return tuple(b"event: %s\ndata: %s\n\n" % (payload[key].encode(), _compact(payload)) for payload in payloads)


def _lines(payloads: Iterable[Any]) -> tuple[bytes, ...]:
    return tuple(_compact(payload) + b"\n" for payload in payloads)


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "r1", "object": "chat.completion.chunk", "model": "gpt-x", "choices": choices, **more}


def _call(**more: Any) -> dict[str, Any]:
    return _chunk({"tool_calls": [{"index": 0, **more}]})


CHAT = _sse(
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"reasoning_content": "Look it "}),
    _chunk({"reasoning_content": "up. "}),
    _chunk({"content": "Let me "}),
    _chunk({"content": "see."}),
    _call(id="c1", type="function", function={"name": TOOL, "arguments": ""}),
    _call(function={"arguments": '{"city":'}),
    _call(function={"arguments": '"Oslo"}'}),
    _chunk({}, "tool_calls"),
    _chunk({}) | {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}},
    done=b"data: [DONE]\n\n",
)


def _block(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"content_block_{kind}", "index": index, **more}


_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 12, "output_tokens": 1}}  # fmt: skip

MESSAGES = (
    {"type": "message_start", "message": _MESSAGE},
    _block(0, "start", content_block={"type": "thinking", "thinking": "", "signature": ""}),
    {"type": "ping"},
    _block(0, "delta", delta={"type": "thinking_delta", "thinking": "Look it "}),
    _block(0, "delta", delta={"type": "thinking_delta", "thinking": "up. "}),
    _block(0, "delta", delta={"type": "signature_delta", "signature": "EqQB"}),
    _block(0, "stop"),
    _block(1, "start", content_block={"type": "text", "text": ""}),
    _block(1, "delta", delta={"type": "text_delta", "text": "Let me "}),
    _block(1, "delta", delta={"type": "text_delta", "text": "see."}),
    _block(1, "stop"),
    _block(2, "start", content_block={"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}),
    _block(2, "delta", delta={"type": "input_json_delta", "partial_json": ""}),
    _block(2, "delta", delta={"type": "input_json_delta", "partial_json": '{"city":'}),
    _block(2, "delta", delta={"type": "input_json_delta", "partial_json": '"Oslo"}'}),
    _block(2, "stop"),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
     "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)  # fmt: skip


def _response(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 0, **more}


def _item(kind: str, place: int, item: dict[str, Any]) -> dict[str, Any]:
    return _response(f"output_item.{kind}", output_index=place, item=item)


def _delta(kind: str, place: int, text: str) -> dict[str, Any]:
    return _response(f"{kind}.delta", item_id=f"i_{place}", output_index=place, delta=text)


_REASONED = {"id": "i_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": REASONING}]}
_SAID = {"id": "i_1", "type": "message", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": CONTENT, "annotations": []}]}  # fmt: skip
_CALLED = {"id": "i_2", "type": "function_call", "call_id": "call_1", "name": TOOL, "arguments": ARGUMENTS}
_WHOLE = {"id": "resp_1", "object": "response", "model": "gpt-x", "status": "in_progress", "output": []}
_ENDED = {
    **_WHOLE, "status": "completed", "output": [_REASONED, _SAID, _CALLED],
    "usage": {"input_tokens": 12, "output_tokens": 9, "total_tokens": 21,
              "output_tokens_details": {"reasoning_tokens": 3}},
}  # fmt: skip

RESPONSES = (
    _response("created", response=_WHOLE),
    _item("added", 0, {**_REASONED, "summary": []}),
    _delta("reasoning_summary_text", 0, "Look it ") | {"summary_index": 0},
    _delta("reasoning_summary_text", 0, "up. ") | {"summary_index": 0},
    _item("done", 0, _REASONED),
    _item("added", 1, {**_SAID, "status": "in_progress", "content": []}),
    _delta("output_text", 1, "Let me ") | {"content_index": 0},
    _delta("output_text", 1, "see.") | {"content_index": 0},
    _response("output_text.done", item_id="i_1", output_index=1, content_index=0, text=CONTENT),
    _item("done", 1, _SAID),
    _item("added", 2, {**_CALLED, "arguments": ""}),
    _delta("function_call_arguments", 2, '{"city":'),
    _delta("function_call_arguments", 2, '"Oslo"}'),
    _response("function_call_arguments.done", item_id="i_2", output_index=2, arguments=ARGUMENTS),
    _item("done", 2, _CALLED),
    _response("completed", response=_ENDED),
)


def _generated(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 6, "thoughtsTokenCount": 3, "totalTokenCount": 21}
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "index": 0, **candidate}], "usageMetadata": usage,
            "modelVersion": "gemini-x", "responseId": "r1"}  # fmt: skip


GEMINI = (
    _generated({"text": "Look it ", "thought": True}),
    _generated({"text": "up. ", "thought": True}),
    _generated({"text": "Let me "}),
    _generated({"text": "see."}),
    _generated({"functionCall": {"name": TOOL, "args": {"city": "Oslo"}}}),
    _generated({"text": ""}, finishReason="STOP"),
)


def _said_by_ollama(*, done: bool = False, more: dict[str, Any] | None = None, **message: Any) -> dict[str, Any]:
    return {"model": "qwen-x", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", **message},
            "done": done, **(more or {})}  # fmt: skip


OLLAMA = (
    _said_by_ollama(content="", thinking="Look it "),
    _said_by_ollama(content="", thinking="up. "),
    _said_by_ollama(content="Let me "),
    _said_by_ollama(content="see."),
    _said_by_ollama(content="", tool_calls=[{"function": {"name": TOOL, "arguments": {"city": "Oslo"}}}]),
    _said_by_ollama(content="", done=True, more={"done_reason": "stop", "prompt_eval_count": 12, "eval_count": 9}),
)


def _cohere(kind: str, message: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "index": 0, "delta": {"message": message or {}}, **more}


def _cohere_call(kind: str, **function: str) -> dict[str, Any]:
    call = {"id": "c1", "type": "function"} if "name" in function else {}
    return _cohere(f"tool-call-{kind}", {"tool_calls": {**call, "function": function}})


COHERE = (
    {"type": "message-start", "id": "r1", "delta": {"message": {"role": "assistant", "content": []}}},
    _cohere("content-start", {"content": {"type": "thinking", "thinking": ""}}),
    _cohere("content-delta", {"content": {"thinking": "Look it "}}),
    _cohere("content-delta", {"content": {"thinking": "up. "}}),
    _cohere("content-end"),
    _cohere("content-delta", {"content": {"text": "Let me "}}),
    _cohere("content-delta", {"content": {"text": "see."}}),
    _cohere_call("start", name=TOOL, arguments=""),
    _cohere_call("delta", arguments='{"city":'),
    _cohere_call("delta", arguments='"Oslo"}'),
    _cohere("tool-call-end"),
    {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": {
        "tokens": {"input_tokens": 12, "output_tokens": 9}}}},
)  # fmt: skip


def _step(kind: str, index: int, **more: Any) -> dict[str, Any]:
    return {"event_type": f"step.{kind}", "index": index, **more}


def _thought(text: str) -> dict[str, Any]:
    return _step("delta", 0, delta={"type": "thought_summary", "content": {"type": "text", "text": text}})


_INTERACTION = {"id": "v1_x", "object": "interaction", "model": "gemini-x", "status": "in_progress"}

INTERACTIONS = (
    {"event_type": "interaction.created", "interaction": _INTERACTION},
    {"event_type": "interaction.status_update", "interaction_id": "v1_x", "status": "in_progress"},
    _step("start", 0, step={"type": "thought"}),
    _thought("Look it "),
    _thought("up. "),
    _step("delta", 0, delta={"type": "thought_signature", "signature": "CiQ="}),
    _step("stop", 0),
    _step("start", 1, step={"type": "model_output"}),
    _step("delta", 1, delta={"type": "text", "text": "Let me "}),
    _step("delta", 1, delta={"type": "text", "text": "see."}),
    _step("stop", 1),
    _step("start", 2, step={"type": "function_call", "id": "fc1", "name": TOOL, "arguments": {}}),
    _step("delta", 2, delta={"type": "arguments_delta", "arguments": '{"city":'}),
    _step("delta", 2, delta={"type": "arguments_delta", "arguments": '"Oslo"}'}),
    _step("stop", 2),
    {"event_type": "interaction.completed", "interaction": {
        **_INTERACTION, "status": "requires_action",
        "usage": {"total_input_tokens": 12, "total_output_tokens": 6, "total_thought_tokens": 3, "total_tokens": 21},
    }},
)  # fmt: skip


def _converse(index: int, delta: dict[str, Any]) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abcdefgh"})


BEDROCK = (
    event("messageStart", {"role": "assistant", "p": "abcd"}),
    _converse(0, {"reasoningContent": {"text": "Look it "}}),
    _converse(0, {"reasoningContent": {"text": "up. "}}),
    event("contentBlockStop", {"contentBlockIndex": 0}),
    _converse(1, {"text": "Let me "}),
    _converse(1, {"text": "see."}),
    event("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": TOOL}}}),
    _converse(2, {"toolUse": {"input": '{"city":'}}),
    _converse(2, {"toolUse": {"input": '"Oslo"}'}}),
    event("contentBlockStop", {"contentBlockIndex": 2}),
    event("messageStop", {"stopReason": "tool_use"}),
    event("metadata", {"usage": {"inputTokens": 12, "outputTokens": 9, "totalTokens": 21},
                       "metrics": {"latencyMs": 900}}),
)  # fmt: skip


def _packed(inner: dict[str, Any]) -> bytes:
    return event("chunk", {"bytes": base64.b64encode(_compact(inner)).decode(), "p": "abcdefgh"})


_INVOKED = (*MESSAGES[:-1], {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 12}})


def _qwen(**message: Any) -> dict[str, Any]:
    finish = message.pop("finish_reason", "null")
    choice = {"message": {"role": "assistant", "content": "", **message}, "finish_reason": finish}
    usage = {"input_tokens": 12, "output_tokens": 9, "total_tokens": 21}
    return {"output": {"choices": [choice]}, "usage": usage, "request_id": "r1"}


def _qwen_call(arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **more}
    return _qwen(tool_calls=[{"index": 0, "id": "c1" if more else "", "type": "function", "function": function}])


_QWEN = (
    _qwen(reasoning_content="Look it "),
    _qwen(reasoning_content="up. "),
    _qwen(content="Let me "),
    _qwen(content="see."),
    _qwen_call("", name=TOOL),
    _qwen_call('{"city":'),
    _qwen_call('"Oslo"}'),
    _qwen(finish_reason="tool_calls"),
)
DASHSCOPE = tuple(
    b"id:%d\nevent:result\n:HTTP_STATUS/200\ndata:%s\n\n" % (number, _compact(payload))
    for number, payload in enumerate(_QWEN, 1)
)

_ARRAY = tuple(
    (b"," if number else b"[") + json.dumps(payload, indent=2).encode() for number, payload in enumerate(GEMINI)
)

FAULT: Final = "Overloaded, try again"
_GOOGLES = {"error": {"code": 503, "message": FAULT, "status": "UNAVAILABLE"}}
_OPENAIS = {"error": {"type": "server_error", "code": "overloaded", "message": FAULT}}
_ANTHROPICS = _named({"type": "error", "error": {"type": "overloaded_error", "message": FAULT}})[0]
_FAILED = {**_WHOLE, "status": "failed", "error": {"code": "server_error", "message": FAULT}}
_AWSS = event("serviceUnavailableException", {"message": FAULT}, role="exception")
_ALIBABAS = b'event:error\n:HTTP_STATUS/503\ndata:{"code":"Throttling","message":"%s","request_id":"r1"}\n\n'

SSE, FRAMES = "text/event-stream", "application/vnd.amazon.eventstream"

WIRES: Final = {
    "chat": Wire("openai.chat", "/v1/chat/completions", SSE, CHAT, _sse(_OPENAIS)[0]),
    "responses": Wire("openai.responses", "/v1/responses", SSE, _named(*RESPONSES),
                      _named(_response("failed", response=_FAILED))[0]),
    "messages": Wire("anthropic.messages", "/v1/messages", SSE, _named(*MESSAGES), _ANTHROPICS),
    "gemini": Wire("gemini", "/v1beta/models/gemini-x:streamGenerateContent?alt=sse", SSE, _sse(*GEMINI),
                   _sse(_GOOGLES)[0]),
    "gemini-array": Wire("gemini", "/v1beta/models/gemini-x:streamGenerateContent", "application/json",
                         (*_ARRAY, b"]"), b"," + _compact(_GOOGLES)),
    "interactions": Wire("gemini.interactions", "/v1beta/interactions", SSE,
                         (*_named(*INTERACTIONS, key="event_type"), b"event: done\ndata: [DONE]\n\n"),
                         _named({"event_type": "error", "error": {"code": "overloaded", "message": FAULT}},
                                key="event_type")[0]),
    "ollama": Wire("ollama", "/api/chat", "application/x-ndjson", _lines(OLLAMA), _lines([{"error": FAULT}])[0]),
    "cohere": Wire("cohere.chat", "/v2/chat", SSE, _named(*COHERE), _sse({"message": FAULT, "code": "500"})[0]),
    "bedrock": Wire("bedrock.converse", "/model/x/converse-stream", FRAMES, BEDROCK, _AWSS),
    "bedrock-invoke": Wire("bedrock.invoke", "/model/x/invoke-with-response-stream", FRAMES,
                           tuple(map(_packed, _INVOKED)), _AWSS),
    "dashscope": Wire("dashscope", "/api/v1/services/aigc/text-generation/generation", SSE, DASHSCOPE,
                      _ALIBABAS % FAULT.encode()),
}  # fmt: skip
"""By name. Each says the same: `REASONING`, `CONTENT` and a call of `TOOL` with `ARGUMENTS`."""


def _completion(text: str, finish: str | None = None) -> dict[str, Any]:
    choices = [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}]
    return {"id": "cmpl-1", "object": "text_completion", "model": "gpt-x", "choices": choices}


_COUNTED = {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}

COMPLETIONS: Final = Wire(
    "openai.completions", "/v1/completions", SSE,
    _sse(_completion("Let me "), _completion("see."), _completion("", "stop"),
         {**_completion(""), "choices": [], "usage": _COUNTED}, done=b"data: [DONE]\n\n"),
    _sse(_OPENAIS)[0],
)  # fmt: skip
"""A wire without reasoning and tools."""


def _cortex(kind: str, **delta: Any) -> dict[str, Any]:
    return {"id": "s1", "model": "claude-x", "choices": [{"delta": {"type": kind, **delta}}], "usage": {}}


CORTEX: Final = Wire(
    "snowflake.cortex", "/api/v2/cortex/inference:complete", SSE,
    _sse(_cortex("text", content="Let me "), _cortex("text", content="see."),
         _cortex("tool_use", tool_use_id="c1", name=TOOL), _cortex("tool_use", input=ARGUMENTS),
         _cortex("text", content="") | {"usage": _COUNTED}),
    _sse(_OPENAIS)[0],
)  # fmt: skip
"""A wire without reasoning and finish reasons."""
