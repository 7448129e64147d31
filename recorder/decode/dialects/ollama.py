"""Ollama's own API: the answers of `/api/chat` and `/api/generate`, in lines or whole, and the usage of `/api/embed`.

Each line adds to the text; the one with `done` is the last and has the counters and durations. Tool calls come whole.
"""

from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.values import JsonObject, compact, object_at, text

API: Final = "ollama"

_COUNTERS = (
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
)


_ADDED = frozenset({"response", "thinking", "image", "done_reason", *_COUNTERS})
"""Keys that identify a line without a message: it has at least one."""


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object; None if it is not of this API."""
    model, message = payload.get("model"), payload.get("message")
    if not isinstance(model, str) or "choices" in payload or "candidates" in payload:
        return None
    if isinstance(payload.get("embeddings"), list) and "total_duration" in payload:
        return Chunk(API, model=model, usage=_usage(payload), fault=fault)
    # Newer servers end a stream with a reason alone, and gateways leave out what is false; a mere `done` is the mark of
    # many a job.
    has_mark = type(payload.get("done")) is bool or (isinstance(message, dict) and "created_at" in payload)
    done = payload["done"] is True if "done" in payload else text(payload.get("done_reason")) != ""
    if not (has_mark or done) or not (isinstance(message, dict) or not _ADDED.isdisjoint(payload)):
        return None
    tools: tuple[ToolPiece, ...] = ()
    if isinstance(message, dict):
        content, reasoning = text(message.get("content")), text(message.get("thinking"))
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            tools = tuple(_tool(call) for call in calls if isinstance(call, dict))
    else:
        content, reasoning = text(payload.get("response")), text(payload.get("thinking"))
    return Chunk(
        API,
        "",
        model,
        (Piece(0, content, reasoning, "", tools, text(payload.get("done_reason")) or None),),
        bool(content or text(payload.get("image"))),
        bool(reasoning),
        bool(tools) and any(tool.name or tool.arguments for tool in tools),
        usage=_usage(payload) if done else None,
        fault=fault,
        ends=done,
    )


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(api=API, operation="chat", parse=parse, tokens=tokens)


def _usage(payload: JsonObject) -> JsonObject | None:
    return {name: payload[name] for name in _COUNTERS if name in payload} or None


def _tool(call: JsonObject) -> ToolPiece:
    function = object_at(call, "function")
    arguments = function.get("arguments")  # an object, not JSON text
    json_text = compact(arguments) if isinstance(arguments, dict) else text(arguments)
    return ToolPiece(None, text(call.get("id")), text(function.get("name")), json_text, whole=True)
