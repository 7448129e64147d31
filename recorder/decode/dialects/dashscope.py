"""One JSON payload of DashScope's own API (Alibaba Cloud Model Studio), as a `Chunk`.

Unless the request asks for `incremental_output`, each event of a stream repeats the earlier text, and only the addition
counts. Some models stream increments anyway. So without that option the stream decides: its texts are cumulative until
one does not begin with the text before it. Increments that repeat each other until then are lost. The answers of
embeddings and other tasks have a usage, and no text.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Parse, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.values import JsonObject, compact, index, text, usage_in

API: Final = "dashscope"

_NO_REASON = frozenset({"", "null"})  # the string "null" until the answer ends
_ERROR_KEYS = frozenset({"code", "message", "request_id", "status_code"})
_TEXT_KEYS = ("text", "finish_reason", "audio")
_OUTPUT_KEYS = frozenset({*_TEXT_KEYS, "choices", "embeddings", "results", "task_id", "task_status"})
"""Keys of an output: other APIs have an output and a request id, too."""

_Key = tuple[int, str, int]
_Grow = Callable[[_Key, str], str]
"""Returns the addition of a text to the one before it of the same choice, part and tool call."""


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object, whose text is all new; None if it is not of this API."""
    return _chunk(payload, fault, lambda key, text: text)


def parser(exchange: Exchange) -> Parse:
    """Return a function that reads the objects of one stream in their order."""
    return parse if _is_incremental(exchange.request) else _DashscopeStream().parse


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(
    api=API, operation="chat", parse=parse, tokens=tokens, finish_ends=True, parser=parser, repeats=False
)


class _DashscopeStream:
    """Reads one stream; `_texts_so_far` are those that came, while they are cumulative."""

    __slots__ = ("_is_incremental", "_texts_so_far")

    def __init__(self) -> None:
        self._texts_so_far: dict[_Key, str] = {}
        self._is_incremental = False

    def parse(self, payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
        return _chunk(payload, fault, self._addition)

    def _addition(self, key: _Key, text: str) -> str:
        if self._is_incremental or not text:
            return text
        previous = self._texts_so_far.get(key, "")
        if text.startswith(previous):
            self._texts_so_far[key] = text
            return text[len(previous) :]
        self._is_incremental = True
        self._texts_so_far.clear()
        return text


def _is_incremental(body: bytes | None) -> bool:
    try:
        request = msgspec.json.decode(body or b"")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    parameters = request.get("parameters") if isinstance(request, dict) else None
    return isinstance(parameters, dict) and parameters.get("incremental_output") is True


def _chunk(payload: JsonObject, fault: ReportedError | None, grow: _Grow) -> Chunk | None:
    output, request_id = payload.get("output"), payload.get("request_id")
    if not isinstance(request_id, str):
        return None
    if not isinstance(output, dict):
        is_error = fault is not None and "code" in payload and payload.keys() <= _ERROR_KEYS
        return Chunk(API, request_id, fault=fault) if is_error else None
    is_error = fault is not None and "code" in payload
    if _OUTPUT_KEYS.isdisjoint(output) and not isinstance(payload.get("usage"), dict) and not is_error:
        return None
    choices = output.get("choices")
    if isinstance(choices, list) and choices:
        answers = [_choice(choice, place, grow) for place, choice in enumerate(choices) if isinstance(choice, dict)]
    else:
        answers = []
        if any([key in output for key in _TEXT_KEYS]):  # a text or a voice, without choices
            audio = output.get("audio")
            piece = Piece(0, content=grow((0, "content", 0), text(output.get("text"))), finish_reason=_reason(output))
            answers = [(piece, isinstance(audio, dict) and bool(audio.get("data")))]
    content = reasoning = tool = False
    for piece, has_media in answers:
        content = content or has_media or piece.content != ""
        reasoning = reasoning or piece.reasoning != ""
        tool = tool or any([call.name != "" or call.arguments != "" for call in piece.tools])
    return Chunk(
        API,
        id=request_id,
        pieces=tuple([piece for piece, _ in answers]),
        content=content,
        reasoning=reasoning,
        tool=tool,
        usage=usage_in(payload),
        fault=fault,
    )


def _choice(choice: JsonObject, place: int, grow: _Grow) -> tuple[Piece, bool]:
    """Read a choice; the flag says whether it has output that is no text."""
    if "index" in choice and (number := index(choice["index"])) is not None:
        place = number
    message = choice.get("message")
    if not isinstance(message, dict):
        return Piece(place, finish_reason=_reason(choice)), False
    content, has_media = message.get("content"), False
    if isinstance(content, list):
        has_media = any([isinstance(part, dict) and "text" not in part and bool(part) for part in content])
        content = "".join([text(part.get("text")) for part in content if isinstance(part, dict)])
    content = grow((place, "content", 0), content) if isinstance(content, str) and content else ""
    thoughts, calls = message.get("reasoning_content"), message.get("tool_calls")
    thoughts = grow((place, "reasoning", 0), thoughts) if isinstance(thoughts, str) and thoughts else ""
    tools = _tools(calls, place, grow) if isinstance(calls, list) else ()
    return Piece(place, content=content, reasoning=thoughts, tools=tools, finish_reason=_reason(choice)), has_media


def _tools(calls: list[Any], choice: int, grow: _Grow) -> tuple[ToolPiece, ...]:
    pieces = []
    for place, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        number = index(call.get("index"))
        slot = place if number is None else number
        arguments = function.get("arguments")
        arguments = compact(arguments) if isinstance(arguments, dict | list) else text(arguments)
        name = grow((choice, "name", slot), text(function.get("name")))
        pieces.append(ToolPiece(slot, text(call.get("id")), name, grow((choice, "arguments", slot), arguments)))
    return tuple(pieces)


def _reason(holder: JsonObject) -> str | None:
    reason = holder.get("finish_reason")
    return reason if isinstance(reason, str) and reason not in _NO_REASON else None
