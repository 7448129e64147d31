"""The demo's streams: examples from the documents of streaming APIs, and failures from the field.

Each scene is requested by the model's name. The texts are short and the delays real, so that a recording of them shows
every outcome worth looking at within a few seconds.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer

Piece = tuple[float, bytes]


class _SceneRequest(msgspec.Struct):
    model: str


def data(payload: object) -> bytes:
    """Return one event: `payload` as compact JSON on one `data:` line."""
    return b"data: " + json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def chunk(model: str, delta: JsonObject, finish: str | None = None, **more: object) -> JsonObject:
    """Return a chat completion chunk with one choice."""
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion.chunk",
        "created": 1773042793,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def usage(prompt: int, completion: int, reasoning: int | None = None) -> JsonObject:
    tokens: JsonObject = {"prompt_tokens": prompt, "completion_tokens": completion}
    tokens["total_tokens"] = prompt + completion
    if reasoning is not None:
        tokens["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return tokens


def fragments(text: str) -> list[str]:
    """Split a text as models stream it: a word with the space before it, or punctuation; `|` splits a word."""
    return re.findall(r" ?\w+| ?[^\w\s|]+\n*", text)


def spoken(model: str, text: str, gap: float, **more: Any) -> list[Piece]:
    """Return `text` as one chunk per fragment, `gap` seconds apart."""
    return [(gap, data(chunk(model, {"content": word}, **more))) for word in fragments(text)]


_TALE = "Once upon a time a ro|bot learned to wait, and found every pause has a length."


def _openai(model: str) -> Scene:
    """The schema page: role first, usage last on a chunk without choices."""
    body = [(0.12, data(chunk(model, {"role": "assistant", "content": ""}))), *spoken(model, _TALE, 0.03)]
    body += [
        (0.01, data(chunk(model, {}, "stop"))),
        (0.0, data({**chunk(model, {}), "choices": [], "usage": usage(14, 18)})),
    ]
    return answer([*body, (0.0, DONE)], delay=0.08)


def _envelope(_: str) -> Scene:
    """`object` is chat.completion, the model is empty, a tool call comes whole, and there is no `[DONE]`."""
    more = {"id": "stream:chat:1", "object": "chat.completion"}
    call: JsonObject = {"index": 0, "id": "call_1", "type": "function"}
    call["function"] = {"name": "get_weather", "arguments": '{"city":"Singapore"}'}
    body = [
        *spoken("", "Let me look that up.", 0.04, **more),
        (0.08, data(chunk("", {"tool_calls": [call]}, **more))),
    ]
    return answer([*body, (0.02, data(chunk("", {"content": ""}, "tool_calls", **more)))], delay=0.1)


def _pretty(model: str) -> Scene:
    """Payloads over many lines; only the first line begins with `data:`."""
    deltas: Iterable[tuple[JsonObject, str | None]] = (
        ({"role": "assistant"}, None),
        *(({"content": word}, None) for word in fragments(_TALE)[:8]),
        ({"content": ""}, "stop"),
    )
    body = [(0.04, f"data: {json.dumps(chunk(model, delta, end), indent=2)}\n\n".encode()) for delta, end in deltas]
    return answer([*body, (0.0, DONE)], delay=0.1)


def _shifting(_: str) -> Scene:
    """The id and the creation time change in mid-stream; no [DONE], no usage."""
    more = {"id": "stream:chat:26e9476e", "object": "chat.completion"}
    end = chunk("", {"content": ""}, "stop", **{**more, "id": "stream:chat:c51514fb", "created": 1773044133})
    return answer([*spoken("", "Hello! How can I help you today?", 0.05, **more), (0.03, data(end))], delay=0.15)


def _routed(model: str) -> Scene:
    """A routing object on the first chunk, usage in the finish chunk: with reasoning that never came."""
    sansa = {"routed": True, "routed_model": "openai/gpt-5.4-mini", "routing_latency_ms": 287}
    body = [
        (0.29, data(chunk(model, {"role": "assistant"}, sansa=sansa))),
        *spoken(model, "Rout|ed, answered.", 0.04),
    ]
    end: JsonObject = {"id": "chatcmpl-demo", "model": model, "usage": usage(12, 84, 78)}
    end["choices"] = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    return answer([*body, (0.02, data(end)), (0.0, DONE)])


def _reasoning(model: str) -> Scene:
    """Keep-alive comments, then reasoning, then the answer."""
    body = [(0.1, b": keep-alive\n\n"), (0.1, b": keep-alive\n\n")]
    thoughts = "The user asks for the sum; two and two make four."
    body += [(0.04, data(chunk(model, {"reasoning_content": word}))) for word in fragments(thoughts)]
    body += [(0.25, data(chunk(model, {"content": "Four"}))), (0.04, data(chunk(model, {"content": "."})))]
    return answer([*body, (0.01, data(chunk(model, {}, "stop", usage=usage(9, 22, 16)))), (0.0, DONE)], delay=0.1)


def _tool(model: str) -> Scene:
    """A tool call whose arguments come in pieces."""
    start = {"index": 0, "id": "call_a1", "type": "function", "function": {"name": "search", "arguments": ""}}
    body = [
        (0.1, data(chunk(model, {"role": "assistant", "content": None}))),
        (0.1, data(chunk(model, {"tool_calls": [start]}))),
    ]
    for piece in ('{"que', 'ry":"', "stream ", "replay", '"}'):
        call = {"index": 0, "function": {"arguments": piece}}
        body.append((0.05, data(chunk(model, {"tool_calls": [call]}))))
    return answer([*body, (0.01, data(chunk(model, {}, "tool_calls"))), (0.0, DONE)], delay=0.1)


def named(payload: JsonObject) -> bytes:
    """Return one event that bears the name of its payload's type."""
    return f"event: {payload['type']}\n".encode() + data(payload)


def block(kind: str, index: int, **more: object) -> bytes:
    """Return one event about a content block of an answer."""
    return named({"type": f"content_block_{kind}", "index": index, **more})


def _messages(model: str) -> Scene:
    """Anthropic's Messages: thinking, a text and a tool call, each in a block of its own, and a ping."""
    message = {"id": "msg_demo", "type": "message", "role": "assistant", "model": model, "content": []}
    start = {"type": "message_start", "message": {**message, "usage": {"input_tokens": 21, "output_tokens": 1}}}
    thoughts, text = "Tokyo is in Japan. Look the weather up.", "Let me see what the sky does."
    call = {"type": "tool_use", "id": "toolu_demo", "name": "get_weather", "input": {}}
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 46}}
    body = [(0.15, named(start)), (0.0, block("start", 0, content_block={"type": "thinking", "thinking": ""}))]
    body.append((0.0, named({"type": "ping"})))
    body += [
        (0.04, block("delta", 0, delta={"type": "thinking_delta", "thinking": word})) for word in fragments(thoughts)
    ]
    body += [(0.01, block("stop", 0)), (0.1, block("start", 1, content_block={"type": "text", "text": ""}))]
    body += [(0.03, block("delta", 1, delta={"type": "text_delta", "text": word})) for word in fragments(text)]
    body += [(0.01, block("stop", 1)), (0.08, block("start", 2, content_block=call))]
    for piece in ('{"ci', 'ty":"', "Tokyo", '"}'):
        body.append((0.05, block("delta", 2, delta={"type": "input_json_delta", "partial_json": piece})))
    body += [(0.01, block("stop", 2)), (0.02, named(end)), (0.0, named({"type": "message_stop"}))]
    return answer(body, delay=0.12)


def _response(kind: str, **more: object) -> bytes:
    return named({"type": f"response.{kind}", **more})


def _responses(model: str) -> Scene:
    """OpenAI's Responses: a summary of the reasoning, then a text; each end repeats the whole part."""
    response = {"id": "resp_demo", "object": "response", "model": model, "status": "in_progress", "output": []}
    thoughts, text = "**Pauses**\n\nEach is a gap.", "A pause is as long as nobody speaks."
    summary = {"id": "rs_demo", "type": "reasoning", "summary": [{"type": "summary_text", "text": thoughts}]}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": "msg_demo", "type": "message", "role": "assistant", "status": "completed", "content": content}
    tokens = {"input_tokens": 17, "output_tokens": 38, "total_tokens": 55}
    tokens["output_tokens_details"] = {"reasoning_tokens": 24}  # type: ignore[assignment]
    complete = {**response, "status": "completed", "output": [summary, message], "usage": tokens}
    body = [(0.1, _response("created", response=response))]
    body.append((0.2, _response("output_item.added", output_index=0, item={**summary, "summary": []})))
    place = {"item_id": "rs_demo", "output_index": 0, "summary_index": 0}
    body += [(0.05, _response("reasoning_summary_text.delta", delta=word, **place)) for word in fragments(thoughts)]
    body.append((0.01, _response("output_item.done", output_index=0, item=summary)))
    body.append((0.1, _response("output_item.added", output_index=1, item={**message, "content": []})))
    place = {"item_id": "msg_demo", "output_index": 1, "content_index": 0}
    body += [(0.03, _response("output_text.delta", delta=word, **place)) for word in fragments(text)]
    body += [
        (0.01, _response("output_item.done", output_index=1, item=message)),
        (0.02, _response("completed", response=complete)),
    ]
    return answer(body, delay=0.1)


def _stall(model: str) -> Scene:
    """A silence of 2.4 s in mid-sentence."""
    start = spoken(model, "The model begins to speak,", 0.03)
    (_, word), *end = spoken(model, " and goes on as if nothing had happened.", 0.03)
    return answer(
        [*start, (2.4, word), *end, (0.01, data(chunk(model, {}, "stop", usage=usage(11, 14)))), (0.0, DONE)], delay=0.2
    )


def _burst(model: str) -> Scene:
    """Everything was held back and comes in one piece: a stream by name only."""
    text = b"".join(piece for _, piece in spoken(model, f"{_TALE} {_TALE}", 0.0))
    return answer([(1.3, text + data(chunk(model, {}, "stop", usage=usage(14, 36))) + DONE)], delay=0.05)


def _truncated(model: str) -> Scene:
    """Upstream closes the connection in mid-stream."""
    return answer(spoken(model, "This answer ends in the mid", 0.04), end="fin", delay=0.12)


def _limited(model: str) -> Scene:
    """A rate limit, before any stream."""
    error = {
        "message": "Rate limit reached for demo: try again in 20 s",
        "type": "requests",
        "code": "rate_limit_exceeded",
    }
    body = json.dumps({"error": error}).encode()
    retry = [("retry-after", "20")]
    return answer(
        [(0.0, body)], status=429, content_type="application/json", framing="length", headers=retry, delay=0.06
    )


def _failing(model: str) -> Scene:
    """An error inside a 200, followed by [DONE] as if all were well."""
    error = {"error": {"code": "provider_error", "message": "Provider disconnected"}}
    error["choices"] = [{"finish_reason": "error"}]  # type: ignore[assignment]
    return answer([*spoken(model, "It all looked good until", 0.04), (0.2, data(error)), (0.0, DONE)], delay=0.1)


SCENES = {
    "openai": _openai,
    "envelope": _envelope,
    "pretty": _pretty,
    "shifting": _shifting,
    "routed": _routed,
    "reasoning": _reasoning,
    "tool": _tool,
    "messages": _messages,
    "responses": _responses,
    "stall": _stall,
    "burst": _burst,
    "truncated": _truncated,
    "limited": _limited,
    "failing": _failing,
}
"""Scene by name; a request asks for one by the model `demo-NAME`."""


def request(name: str) -> tuple[str, JsonObject]:
    """Return the path and the body of a client's request for a scene, in the scene's API."""
    path = f"/v1/{name}" if name in ("messages", "responses") else "/v1/chat/completions"
    messages = [{"role": "user", "content": f"Play the scene {name}."}]
    return path, {"model": f"demo-{name}", "stream": True, "input" if name == "responses" else "messages": messages}


def choose(request: ReceivedRequest) -> Scene:
    """Return the scene that a request's model asks for; 404 if there is none of that name."""
    try:
        name = msgspec.json.decode(request.body, type=_SceneRequest).model.removeprefix("demo-")
    except msgspec.MsgspecError:
        name = ""
    if name in SCENES:
        return SCENES[name](f"demo-{name}")
    error = {"message": f"there is no scene {name!r}", "type": "invalid_request_error", "code": "model_not_found"}
    body = json.dumps({"error": error}).encode()
    return answer([(0.0, body)], status=404, content_type="application/json", framing="length")
