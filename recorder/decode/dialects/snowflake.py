"""One JSON payload of Snowflake Cortex's `inference:complete`, as a `Chunk`: chat's but for its deltas and its end.

A delta has a type: a text, or a call of a tool, whose input comes in pieces. No choice has a finish reason, and no
`[DONE]` comes: the end of the body ends the stream.
"""

from dataclasses import replace
from typing import Final

from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.dialects import chat
from wiretape.recorder.decode.values import JsonObject, compact, text

API: Final = "snowflake.cortex"

_CALL: Final = "tool_use"
_TYPES: Final = frozenset({"text", _CALL})


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object; None if it is not of this API."""
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    delta = choice.get("delta") if isinstance(choice, dict) and "finish_reason" not in choice else None
    if not isinstance(delta, dict) or delta.get("type") not in _TYPES:
        return None
    chunk = chat.parse(payload, event, fault)
    if chunk is None or delta["type"] != _CALL:
        return chunk and replace(chunk, api=API)
    name, arguments = text(delta.get("name")), delta.get("input")
    arguments = compact(arguments) if isinstance(arguments, dict) else text(arguments)
    call = ToolPiece(None, text(delta.get("tool_use_id")), name, arguments)
    piece = Piece(0, tools=(call,))
    return replace(chunk, api=API, pieces=(piece,), content=False, tool=bool(name or arguments))


DIALECT: Final = Dialect(
    api=API,
    operation="chat",
    parse=parse,
    tokens=chat.tokens,
    eof_ends=lambda _: True,
    silent=frozenset({"no_finish"}),
)
