"""One JSON payload of Anthropic's Messages API, as a `Chunk`.

Reads the events of a stream by their `type`, which servers that drop the `event:` lines keep, and whole messages. Of
content blocks, text, thinking and calls of tools are read, whether they come in deltas or in the event that starts the
block; what servers' tools return, citations and blocks of a type not known here are known and ignored. Signatures are
opaque: no text, and no output. The summary of a compaction is text. Every value may have the wrong type: what cannot be
read is absent.

`message_start` comes before anything is generated: its input tokens are final, its output tokens are a placeholder
that the last `message_delta` replaces. Without that one, the count of output tokens is unknown.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.values import JsonObject, compact, index, text, usage_in

API: Final = "anthropic.messages"

_PROVIDER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_CALLS = frozenset({"tool_use"}) | _PROVIDER_CALLS
_MESSAGE_KEYS = frozenset({"stop_reason", "usage", "model"})
# The Responses API reports errors of the same type, with more.
_ERROR_KEYS = frozenset({"type", "error", "request_id"})
_COUNT_KEYS = frozenset({"input_tokens", "context_management"})
_IN_TOTAL = ("message", "fallback_message")
"""Kinds of iterations that the counts beside them include (docs.claude.com: compaction, BetaIterationsUsage)."""
_OF_OTHER_MODELS = ("advisor_message", "fallback_message")
"""Kinds of iterations by another model than the one that the request names: their tokens have another price."""


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object; None if it is not of this API."""
    kind = payload.get("type")
    if type(kind) is not str:
        if type(payload.get("input_tokens")) is int and payload.keys() <= _COUNT_KEYS:
            # The answer to `count_tokens`: no message, but a usage.
            return Chunk(API, usage=payload, fault=fault)
        kind = event if event in _EVENTS else ""
    if "choices" in payload:
        return None
    if kind in _HOLDS and _HOLDS[kind].isdisjoint(payload):
        return None
    if (reader := _EVENTS.get(kind)) is not None:
        return reader(payload, fault)
    if kind == "message":
        # An item of OpenAI's conversations has this type, too, and none of these keys.
        is_message = isinstance(payload.get("content"), list) and not _MESSAGE_KEYS.isdisjoint(payload)
        return _message(payload, fault, whole=True) if is_message else None
    if kind == "error":
        error = payload.get("error")
        is_ours = isinstance(error, dict) and "type" in error and "code" not in error and payload.keys() <= _ERROR_KEYS
    else:
        is_ours = kind.startswith("content_block_") and "index" in payload
    return Chunk(API, fault=fault) if is_ours else None


def tokens(usage: JsonObject) -> Tokens:
    """Return the counts of `usage` and of the compactions among its iterations, which its own counts leave out."""
    iterations = usage.get("iterations")
    runs = [run for run in iterations if isinstance(run, dict)] if isinstance(iterations, list) else []
    if not runs:
        return _tokens(usage)
    models = {text(run.get("model")) for run in runs if run.get("model")}
    uncounted = [run for run in runs if run.get("type") not in _IN_TOTAL and not run.get("model")]
    has_other_models = len(models) > 1 or any(run.get("type") in _OF_OTHER_MODELS for run in runs)
    return replace(_tokens(usage_fields.summed(usage, *uncounted)), has_other_models=has_other_models)


_tokens: Final = usage_fields.reader(API)
DIALECT: Final = Dialect(api=API, operation="chat", parse=parse, tokens=tokens)


def _message_start(payload: JsonObject, fault: ReportedError | None) -> Chunk:
    message = payload.get("message")
    if not isinstance(message, dict):
        return Chunk(API, fault=fault)
    if "output_tokens" in (usage := usage_in(message) or {}) and not message.get("stop_reason"):
        # Nothing has been generated yet: these counts are placeholders.
        counts = {name: usage[name] for name in usage if name not in ("output_tokens", "output_tokens_details")}
        message = message | {"usage": counts}
    return _message(message, fault)


def _message(message: JsonObject, fault: ReportedError | None, *, whole: bool = False) -> Chunk:
    """Read a message, whole or at the start of a stream, where its content is empty but for servers that differ."""
    content = message.get("content")
    blocks = [
        _block(block, position, whole=True)
        for position, block in enumerate(content if isinstance(content, list) else ())
        if isinstance(block, dict)
    ]
    pieces = [piece for chunk in blocks for piece in chunk.pieces]
    reason = text(message.get("stop_reason")) or None
    piece = Piece(
        0,
        content="".join([piece.content for piece in pieces]),
        reasoning="".join([piece.reasoning for piece in pieces]),
        tools=tuple([tool for piece in pieces for tool in piece.tools]),
        finish_reason=reason,
    )
    return Chunk(
        API,
        text(message.get("id")),
        text(message.get("model")),
        (piece,),
        content=any([chunk.content for chunk in blocks]),
        reasoning=any([chunk.reasoning for chunk in blocks]),
        tool=any([chunk.tool for chunk in blocks]),
        usage=usage_in(message),
        fault=fault,
        flags=("opaque_reasoning",) if any([chunk.flags for chunk in blocks]) else (),
        ends=whole and reason is not None,
    )


def _block_start(payload: JsonObject, fault: ReportedError | None) -> Chunk:
    block = payload.get("content_block")
    return _block(block, index(payload.get("index")), fault) if isinstance(block, dict) else Chunk(API, fault=fault)


def _block(block: JsonObject, place: int | None, fault: ReportedError | None = None, *, whole: bool = False) -> Chunk:
    """Read a content block: a `whole` one, or the beginning of one to which deltas add."""
    kind = block.get("type")
    if kind == "text":
        return _text(text(block.get("text")), fault)
    if kind == "compaction":
        return _text(text(block.get("content")), fault)
    if kind == "thinking":
        return _thinking(text(block.get("thinking")), fault)
    if kind == "redacted_thinking":
        return Chunk(API, reasoning=True, fault=fault, flags=("opaque_reasoning",))
    if isinstance(kind, str) and kind in _CALLS:
        input = block.get("input")
        # At the start of a block an empty input is a placeholder for the deltas.
        # One that is not may come again in deltas, which hold.
        arguments = compact(input) if isinstance(input, dict) and (input or whole) else ""
        is_whole = arguments != "" and not whole
        call = _call(ToolPiece(place, text(block.get("id")), text(block.get("name")), arguments, is_whole), fault)
        return replace(call, provider_calls=1) if kind in _PROVIDER_CALLS else call
    # The result of a tool that the provider ran: `web_search_tool_result`, …
    has_result = isinstance(kind, str) and kind.endswith("_tool_result")
    return Chunk(API, fault=fault, provider_results=int(has_result))


def _block_delta(payload: JsonObject, fault: ReportedError | None) -> Chunk:
    delta = payload.get("delta")
    if isinstance(delta, dict):
        kind = delta.get("type")
        if kind == "text_delta":
            return _text(text(delta.get("text")), fault)
        if kind == "input_json_delta":
            return _call(ToolPiece(index(payload.get("index")), "", "", text(delta.get("partial_json"))), fault)
        if kind == "thinking_delta":
            return _thinking(text(delta.get("thinking")), fault)
        if kind == "compaction_delta":
            return _text(text(delta.get("content")), fault)
    return Chunk(API, fault=fault)


def _message_delta(payload: JsonObject, fault: ReportedError | None) -> Chunk:
    delta = payload.get("delta")
    reason = text(delta.get("stop_reason")) if isinstance(delta, dict) else ""
    pieces = (Piece(0, finish_reason=reason),) if reason else ()
    # Its counts are cumulative, and may replace the input tokens of `message_start`.
    return Chunk(API, pieces=pieces, usage=usage_in(payload), fault=fault)


_EVENTS: Final[dict[str, Callable[[JsonObject, ReportedError | None], Chunk]]] = {
    "message_start": _message_start,
    "content_block_start": _block_start,
    "content_block_delta": _block_delta,
    "content_block_stop": lambda payload, fault: Chunk(API, fault=fault),
    "message_delta": _message_delta,
    "message_stop": lambda payload, fault: Chunk(API, fault=fault, ends=True),
    # Gateways put the same into the streams of other APIs: it does not tell whose stream it is.
    "ping": lambda payload, fault: Chunk("", fault=fault, ping=True),
}
_HOLDS: Final = {
    "message_start": frozenset({"message"}),
    "content_block_start": frozenset({"content_block"}),
    "content_block_delta": frozenset({"delta"}),
    "content_block_stop": frozenset({"index"}),
    "message_delta": frozenset({"delta", "usage"}),
}
"""Keys that identify an event, which has at least one: other wires have events of these names."""


def _text(content: str, fault: ReportedError | None) -> Chunk:
    if not content:
        return Chunk(API, fault=fault)
    return Chunk(API, pieces=(Piece(0, content=content),), content=True, fault=fault)


def _thinking(reasoning: str, fault: ReportedError | None) -> Chunk:
    if not reasoning:
        return Chunk(API, fault=fault)
    return Chunk(API, pieces=(Piece(0, reasoning=reasoning),), reasoning=True, fault=fault)


def _call(tool: ToolPiece, fault: ReportedError | None) -> Chunk:
    has_output = tool.name != "" or tool.arguments != ""
    return Chunk(API, pieces=(Piece(0, tools=(tool,)),), tool=has_output, fault=fault)
