"""One JSON payload of Cohere's chat API, version 2, as a `Chunk`.

Reads the events of a stream by their `type`, whole responses, and the usage of embeddings and of ordered documents. The
plan that comes before calls of tools is reasoning, as thinking is; citations are known and ignored. A finish reason
that is an error, or an error's message beside one, is the answer's error. Every value may have the wrong type: what
cannot be read is absent.
"""

from collections.abc import Callable
from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.values import JsonObject, compact, index, object_at, text, usage_in

API: Final = "cohere.chat"

_FAILED = frozenset({"ERROR", "ERROR_TOXIC"})
_REASONS = frozenset({"COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL", "TIMEOUT", *_FAILED})
_FAMILY = ("message-", "content-", "tool-plan-", "tool-call-", "citation-")
_WITHOUT_DELTA = frozenset({"content-end", "tool-call-end", "citation-end"})


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object; None if it is not of this API."""
    kind = payload.get("type")
    if type(kind) is not str:
        if not _is_response(payload):
            return _billed(payload, fault)
        reason = text(payload.get("finish_reason")) or None
        return _chunk(
            _message(payload["message"], reason),
            id=text(payload.get("id")),
            usage=usage_in(payload),
            fault=fault or _fault(reason, payload),
        )
    delta = payload.get("delta")
    if kind in _WITHOUT_DELTA:
        return Chunk(API, fault=fault) if "index" in payload else None
    if not isinstance(delta, dict) and kind == "message-end":
        delta = {}
    if not isinstance(delta, dict):
        return None
    if kind not in _EVENTS:
        is_ours = kind.startswith(_FAMILY) and isinstance(delta.get("message"), dict)
        return Chunk(API, fault=fault) if is_ours else None
    return _EVENTS[kind](payload, delta, fault)


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(api=API, operation="chat", parse=parse, tokens=tokens)


def _is_response(payload: JsonObject) -> bool:
    message, reason = payload.get("message"), payload.get("finish_reason")
    if not isinstance(message, dict) or "choices" in payload or "finish_reason" not in payload:
        return False
    is_reason = reason is None or (isinstance(reason, str) and reason in _REASONS)
    return is_reason and message.get("role") in (None, "assistant")


def _billed(payload: JsonObject, fault: ReportedError | None) -> Chunk | None:
    """Read the answer of Cohere's other APIs, embeddings and orders of documents, for its usage."""
    if "embeddings" not in payload and "results" not in payload:
        return None
    meta = object_at(payload, "meta")
    if not isinstance(meta.get("billed_units"), dict):
        return None
    usage: JsonObject = {name: meta[name] for name in ("tokens", "billed_units") if name in meta}
    return Chunk(API, text(payload.get("id")), usage=usage, fault=fault)


def _message(message: JsonObject, reason: str | None) -> Piece:
    """Read a message, whole or at the start of a stream, where it is empty."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    calls = message.get("tool_calls")
    return Piece(
        0,
        content=text(content) or "".join([text(block.get("text")) for block in blocks]),
        reasoning="".join([text(block.get("thinking")) for block in blocks]) + text(message.get("tool_plan")),
        tools=tuple([_tool(call, place) for place, call in enumerate(calls) if isinstance(call, dict)])
        if isinstance(calls, list)
        else (),
        finish_reason=reason,
    )


def _content(payload: JsonObject, delta: JsonObject, fault: ReportedError | None) -> Chunk:
    content = object_at(object_at(delta, "message"), "content")
    return _added(text(content.get("text")), text(content.get("thinking")), fault)


def _added(content: str, reasoning: str, fault: ReportedError | None) -> Chunk:
    if not content and not reasoning:
        return Chunk(API, fault=fault)
    pieces = (Piece(0, content=content, reasoning=reasoning),)
    return Chunk(API, pieces=pieces, content=content != "", reasoning=reasoning != "", fault=fault)


def _call(payload: JsonObject, delta: JsonObject, fault: ReportedError | None) -> Chunk:
    # In a stream this is one object, not a list.
    call = object_at(object_at(delta, "message"), "tool_calls")
    return _chunk(Piece(0, tools=(_tool(call, index(payload.get("index"))),)), fault=fault)


def _tool(call: JsonObject, place: int | None) -> ToolPiece:
    function = object_at(call, "function")
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = compact(arguments)
    return ToolPiece(place, text(call.get("id")), text(function.get("name")), text(arguments))


def _message_end(payload: JsonObject, delta: JsonObject, fault: ReportedError | None) -> Chunk:
    reason = text(delta.get("finish_reason")) or None
    return Chunk(
        API,
        id=text(payload.get("id")),
        pieces=(Piece(0, finish_reason=reason),) if reason else (),
        usage=usage_in(delta),
        fault=fault or _fault(reason, delta),
        ends=True,
    )


def _fault(reason: str | None, holder: JsonObject) -> ReportedError | None:
    code, message = reason if reason in _FAILED else None, text(holder.get("error")) or None
    return ReportedError(code, message) if code or message else None


_EVENTS: Final[dict[str, Callable[[JsonObject, JsonObject, ReportedError | None], Chunk]]] = {
    "message-start": lambda payload, delta, fault: _chunk(
        _message(object_at(delta, "message"), None), id=text(payload.get("id")), fault=fault
    ),
    "content-start": _content,
    "content-delta": _content,
    "tool-plan-delta": lambda payload, delta, fault: _added(
        "", text(object_at(delta, "message").get("tool_plan")), fault
    ),
    "tool-call-start": _call,
    "tool-call-delta": _call,
    "message-end": _message_end,
}


def _chunk(piece: Piece, id: str = "", usage: JsonObject | None = None, fault: ReportedError | None = None) -> Chunk:
    return Chunk(
        API,
        id,
        pieces=(piece,),
        content=piece.content != "",
        reasoning=piece.reasoning != "",
        tool=any([tool.name or tool.arguments for tool in piece.tools]),
        usage=usage,
        fault=fault,
        ends=piece.finish_reason is not None,
    )
