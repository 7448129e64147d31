"""The usual shapes of usage, each with its cost by hand.

Prices of a million tokens: input 3, output 15, read from a cache 0.30, written to it 3.75, written for an hour 6.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.sample_tape import begin, end, recorded, response
from wiretape.recorder.tape import journal

ENTRY = {"input": 3, "cached_input": 0.3, "cache_write": 3.75, "cache_write_1h": 6, "output": 15}
PRICES = "[[prices]]\n" + "".join(f"{name} = {price}\n" for name, price in ENTRY.items())
JSON, SSE = "application/json", "text/event-stream"


class Shape(NamedTuple):
    """An answer with 100 tokens to a request of 1,000 or more; `cost` is in millionths, None if nobody can tell."""

    path: str
    body: bytes
    cost: str | None
    type: str = JSON


def _json(**payload: Any) -> bytes:
    return json.dumps(payload).encode()


def _chat(**more: Any) -> bytes:
    choices = [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]
    return _json(choices=choices, usage={"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100, **more})


def _response(**more: Any) -> bytes:
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100, **more}
    return _json(id="r", object="response", status="completed", output=[message], usage=usage)


def _message(read: int = 0, written: int = 0, split: dict[str, int] | None = None) -> bytes:
    usage = {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": read}
    counts = {f"ephemeral_{ttl}_input_tokens": count for ttl, count in (split or {}).items()}
    usage |= {"cache_creation_input_tokens": written} | ({"cache_creation": counts} if split else {})
    return _json(type="message", content=[{"type": "text", "text": "Hi"}], stop_reason="end_turn", usage=usage)


def _stream_of_message() -> bytes:
    usage = {"input_tokens": 1000, "output_tokens": 1}
    events = (
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": usage}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "message_stop"},
    )
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def _gemini(**more: int) -> bytes:
    usage = {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100, **more}
    candidate = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    return _json(candidates=[candidate], usageMetadata=usage)


def _converse(**more: Any) -> bytes:
    usage = {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100, **more}
    return _json(
        output={"message": {"content": [{"text": "Hi"}]}}, stopReason="end_turn", usage=usage, metrics={"latencyMs": 1}
    )


def _dashscope() -> bytes:
    usage = {"input_tokens": 1000, "output_tokens": 100, "prompt_tokens_details": {"cached_tokens": 600}}
    return _json(output={"text": "Hi", "finish_reason": "stop"}, request_id="r", usage=usage)


_OLLAMA = {"message": {"content": "Hi"}, "done": True, "done_reason": "stop", "prompt_eval_count": 1000,
           "eval_count": 100}  # fmt: skip
_COHERE = {"message": {"content": [{"type": "text", "text": "Hi"}]}, "finish_reason": "COMPLETE",
           "usage": {"tokens": {"input_tokens": 1000, "output_tokens": 100}}}  # fmt: skip
_CHAT, _RESPONSES, _MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
_GEMINI, _CONVERSE = "/v1beta/models/g:generateContent", "/model/m/converse"

PLAIN = str(1000 * 3 + 100 * 15)
CACHED = "2880"  # 400 * 3 + 600 * 0.3 + 100 * 15
SHAPES = {
    "chat without details": Shape(_CHAT, _chat(), PLAIN),
    "chat with details": Shape(_CHAT, _chat(prompt_tokens_details={"cached_tokens": 0}), PLAIN),
    "chat cached": Shape(_CHAT, _chat(prompt_tokens_details={"cached_tokens": 600}), CACHED),
    "responses without details": Shape(_RESPONSES, _response(), PLAIN),
    "responses cached": Shape(_RESPONSES, _response(input_tokens_details={"cached_tokens": 600}), CACHED),
    "messages": Shape(_MESSAGES, _message(), PLAIN),
    "messages, 5 minutes": Shape(_MESSAGES, _message(600, 200, {"5m": 200, "1h": 0}), "5430"),  # + 180 + 200 * 3.75
    "messages, an hour": Shape(_MESSAGES, _message(600, 200, {"5m": 0, "1h": 200}), "5880"),  # + 180 + 200 * 6
    "messages, not split": Shape(_MESSAGES, _message(600, 200), None),  # kept for 5 minutes, or for an hour
    "messages without the last usage": Shape(_MESSAGES, _stream_of_message(), None, SSE),  # the output has no count
    "gemini": Shape(_GEMINI, _gemini(), PLAIN),
    "gemini cached": Shape(_GEMINI, _gemini(candidatesTokenCount=80, thoughtsTokenCount=20,
                                            cachedContentTokenCount=600), CACHED),
    "gemini with tools": Shape(_GEMINI, _gemini(toolUsePromptTokenCount=300, totalTokenCount=1400), "5400"),  # + 900
    "ollama": Shape("/api/chat", _json(model="m", **_OLLAMA), PLAIN),
    "cohere": Shape("/v2/chat", _json(id="c", **_COHERE), PLAIN),
    "converse": Shape(_CONVERSE, _converse(), PLAIN),
    "converse cached": Shape(_CONVERSE, _converse(
        cacheReadInputTokens=600, cacheWriteInputTokens=200, cacheDetails=[{"ttl": "5m", "inputTokens": 200}],
        totalTokens=1900), "5430"),
    "dashscope cached": Shape("/api/v1/services/aigc/text-generation/generation", _dashscope(), CACHED),
}  # fmt: skip
IDS = {f"{number:016x}": name for number, name in enumerate(SHAPES, 1)}


def _frames() -> Iterator[journal.Frame]:
    for number, (id, name) in enumerate(IDS.items(), 1):
        shape = SHAPES[name]
        opening, parts = begin(id, number, b"{}", shape.path), [(100, shape.body)]
        yield from (opening, *response(id, parts, type=shape.type), end(id, parts))


def tape(path: Path) -> Path:
    """Make a tape with one exchange of each shape."""
    return recorded(path, list(_frames()))
