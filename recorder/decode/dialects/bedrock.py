"""One JSON payload of Amazon Bedrock's Converse and ConverseStream, as a `Chunk`.

Only the message's `:event-type` names the event of a payload. The payload's shape is checked, too, so that no event of
another API is claimed. Exceptions are those of any AWS event stream: their API is not known from them.
"""

from collections.abc import Callable
from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.framings.aws_eventstream import ERROR, EXCEPTION
from wiretape.recorder.decode.values import JsonObject, compact, index, text, usage_in

API: Final = "bedrock.converse"

_OPAQUE = ("opaque_reasoning",)


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read the payload of one event, or a whole answer; None if it is neither."""
    if event in _EVENTS:
        return read_event(API, event, payload, fault)
    if event.startswith((EXCEPTION, ERROR)):
        return read_exception(payload, event)
    # An answer of a Nova model to InvokeModel is the same but for its metrics.
    return read_answer(API, payload, fault) if "metrics" in payload and is_answer(payload) else None


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(api=API, operation="chat", parse=parse, tokens=tokens)


def read_event(api: str, event: str, payload: JsonObject, fault: ReportedError | None = None) -> Chunk | None:
    """Read the payload of an event of ConverseStream; None if it does not have the shape of that event."""
    reader = _EVENTS.get(event)
    return reader(api, payload, fault) if reader is not None else None


def read_exception(payload: JsonObject, event: str) -> Chunk:
    """Read an exception or error of an event stream; its type is the code."""
    code = event.partition(":")[2] or None
    message = text(payload.get("message")) or text(payload.get("Message")) or text(payload.get("originalMessage"))
    return Chunk("", fault=ReportedError(code, message or None))


def is_answer(payload: JsonObject) -> bool:
    """Return True if a JSON object is a whole answer of Converse, or of a Nova model."""
    output = payload.get("output")
    return isinstance(output, dict) and isinstance(output.get("message"), dict) and "stopReason" in payload


def read_answer(api: str, payload: JsonObject, fault: ReportedError | None) -> Chunk:
    """Read a whole answer."""
    blocks = payload["output"]["message"].get("content")
    answer = _Blocks(blocks if isinstance(blocks, list) else [])
    reason = text(payload.get("stopReason")) or None
    piece = Piece(
        0,
        content="".join(answer.content),
        reasoning="".join(answer.reasoning),
        tools=tuple(answer.tools),
        finish_reason=reason,
    )
    reasoning = answer.is_opaque or bool(piece.reasoning)
    return Chunk(
        api,
        model=_routed(payload),
        pieces=(piece,),
        content=answer.has_media or bool(piece.content),
        reasoning=reasoning,
        tool=any(tool.name or tool.arguments for tool in piece.tools),
        usage=usage_in(payload),
        fault=fault,
        flags=_OPAQUE if answer.is_opaque else (),
        ends=True,
    )


class _Blocks:
    """The content blocks of a whole answer."""

    __slots__ = ("content", "has_media", "is_opaque", "reasoning", "tools")

    def __init__(self, blocks: list[object]) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.tools: list[ToolPiece] = []
        self.has_media = self.is_opaque = False
        for place, block in enumerate(blocks):
            if isinstance(block, dict):
                self._add(block, place)

    def _add(self, block: JsonObject, place: int) -> None:
        self.content.append(text(block.get("text")))
        cited, thought, call = block.get("citationsContent"), block.get("reasoningContent"), block.get("toolUse")
        if isinstance(cited, dict) and isinstance(cited.get("content"), list):
            self.content += [text(part.get("text")) for part in cited["content"] if isinstance(part, dict)]
        if isinstance(thought, dict):
            words = thought.get("reasoningText")
            self.reasoning.append(text(words.get("text")) if isinstance(words, dict) else "")
            self.is_opaque = self.is_opaque or bool(text(thought.get("redactedContent")))
        if isinstance(call, dict):
            arguments = compact(call["input"]) if "input" in call else ""
            self.tools.append(ToolPiece(place, text(call.get("toolUseId")), text(call.get("name")), arguments))
        media = ("image", "audio", "video", "document")
        self.has_media = self.has_media or any(isinstance(block.get(kind), dict) for kind in media)


def _block_start(api: str, payload: JsonObject, fault: ReportedError | None) -> Chunk | None:
    if "contentBlockIndex" not in payload:
        return None
    start = payload.get("start")
    call = start.get("toolUse") if isinstance(start, dict) else None
    if not isinstance(call, dict):
        has_result = isinstance(start, dict) and isinstance(start.get("toolResult"), dict)
        return Chunk(api, fault=fault, provider_results=int(has_result))
    name = text(call.get("name"))
    tool = ToolPiece(index(payload["contentBlockIndex"]), text(call.get("toolUseId")), name, "")
    is_run_by_provider = call.get("type") == "server_tool_use"
    piece = Piece(0, tools=(tool,))
    return Chunk(api, pieces=(piece,), tool=bool(name), fault=fault, provider_calls=int(is_run_by_provider))


def _block_delta(api: str, payload: JsonObject, fault: ReportedError | None) -> Chunk | None:
    if "contentBlockIndex" not in payload:
        return None
    delta = payload.get("delta")
    if not isinstance(delta, dict):
        return Chunk(api, fault=fault)
    if "text" in delta:
        content = text(delta["text"])
        return Chunk(api, pieces=(Piece(0, content),), content=content != "", fault=fault)
    if isinstance(call := delta.get("toolUse"), dict):
        arguments = text(call.get("input"))
        tool = ToolPiece(index(payload["contentBlockIndex"]), id="", name="", arguments=arguments)
        return Chunk(api, pieces=(Piece(0, tools=(tool,)),), tool=arguments != "", fault=fault)
    if isinstance(thought := delta.get("reasoningContent"), dict):
        reasoning = text(thought.get("text"))
        is_opaque = bool(text(thought.get("redactedContent")))
        pieces = (Piece(0, reasoning=reasoning),)
        is_output = is_opaque or reasoning != ""
        return Chunk(api, pieces=pieces, reasoning=is_output, fault=fault, flags=_OPAQUE if is_opaque else ())
    # An image is output without text; a citation and the result of a tool that the server ran are no output.
    return Chunk(api, content=isinstance(delta.get("image"), dict), fault=fault)


def _message_stop(api: str, payload: JsonObject, fault: ReportedError | None) -> Chunk | None:
    if "stopReason" not in payload:
        return None
    piece = Piece(0, finish_reason=text(payload["stopReason"]) or None)
    return Chunk(api, pieces=(piece,), fault=fault, ends=True)


def _metadata(api: str, payload: JsonObject, fault: ReportedError | None) -> Chunk | None:
    # It may come before `messageStop` or behind it.
    usage, metrics = usage_in(payload), payload.get("metrics")
    is_ours = (usage is not None and "inputTokens" in usage) or (isinstance(metrics, dict) and "latencyMs" in metrics)
    return Chunk(api, model=_routed(payload), usage=usage, fault=fault) if is_ours else None


def _routed(payload: JsonObject) -> str:
    """Return the model that a prompt router chose, or "": other answers name no model."""
    trace = payload.get("trace")
    router = trace.get("promptRouter") if isinstance(trace, dict) else None
    return text(router.get("invokedModelId")) if isinstance(router, dict) else ""


_EVENTS: Final[dict[str, Callable[[str, JsonObject, ReportedError | None], Chunk | None]]] = {
    "messageStart": lambda api, payload, fault: (
        Chunk(api, fault=fault) if isinstance(payload.get("role"), str) else None
    ),
    "contentBlockStart": _block_start,
    "contentBlockDelta": _block_delta,
    "contentBlockStop": lambda api, payload, fault: Chunk(api, fault=fault) if "contentBlockIndex" in payload else None,
    "messageStop": _message_stop,
    "metadata": _metadata,
}
