"""One JSON payload of Amazon Bedrock's InvokeModel and InvokeModelWithResponseStream, as a `Chunk`.

An event holds a JSON object of the model's own API, in base64: Anthropic's messages, chat and text completions, Nova's,
which is that of Converse, and those of Llama, Titan, Mistral and Cohere. The object itself shows the API, and the end
of the stream. The last one has Bedrock's own counts, which are the usage where the model reports none.
"""

import binascii
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from wiretape.recorder.decode import operation, usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Parse, Piece, ReportedError, Tokens, ToolPiece
from wiretape.recorder.decode.dialects import bedrock, chat, completions, messages
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.framings.aws_eventstream import ERROR, EXCEPTION
from wiretape.recorder.decode.values import JsonObject, compact, index, text

API: Final = "bedrock.invoke"

_METRICS: Final = "amazon-bedrock-invocationMetrics"


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read the payload of one event, or the whole answer of a Nova, Llama, Titan or Mistral model; None for others."""
    if event == "chunk":
        packed = payload.get("bytes")
        return _unpack(packed, fault) if isinstance(packed, str) else None
    if event.startswith((EXCEPTION, ERROR)):
        return bedrock.read_exception(payload, event)
    return _answer(payload, fault)


def parser(exchange: Exchange) -> Parse:
    """Return a function that reads the objects of one stream: by InvokeModel those of a model not known here, too."""
    if operation.api_at(exchange.path) != API:
        return parse

    def parse_any(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
        chunk = parse(payload, event, fault)
        is_unknown = event == "chunk" and chunk is not None and not chunk.api and not chunk.flags
        return Chunk(API, fault=fault) if is_unknown else chunk

    return parse_any


def tokens(usage: JsonObject) -> Tokens:
    """Return the counts of `usage`, in the names of the model's API."""
    for name, reader in (
        ("inputTokens", bedrock.tokens),
        ("prompt_tokens", chat.tokens),
        ("input_tokens", messages.tokens),
    ):
        if name in usage:
            return reader(usage)
    return _tokens(usage)


_tokens: Final = usage_fields.reader(API)
DIALECT: Final = Dialect(api=API, operation="chat", parse=parse, tokens=tokens, parser=parser)


def _unpack(packed: str, fault: ReportedError | None) -> Chunk:
    """Read a packed object. Bytes that no model writes name no API: agents of AWS send text and JSON, too."""
    try:
        inner = msgspec.json.decode(binascii.a2b_base64(packed))
    except (ValueError, RecursionError):  # no base64, or no JSON
        inner = None
    if not isinstance(inner, dict):
        return Chunk("", fault=fault, flags=("malformed",))
    reader = next((reader for key, reader in _SHAPES if key in inner), _nova)
    return reader(inner, fault) or Chunk("", fault=fault)


def _chunk(
    inner: JsonObject, pieces: tuple[Piece, ...], usage: JsonObject | None, fault: ReportedError | None
) -> Chunk:
    """Return a chunk of pieces whose finish reasons end the stream, with Bedrock's counts if the model has no usage."""
    return Chunk(
        API,
        text(inner.get("id")),
        text(inner.get("model")),
        pieces,
        any([piece.content != "" for piece in pieces]),
        tool=any([tool.name != "" or tool.arguments != "" for piece in pieces for tool in piece.tools]),
        usage=usage or _metrics(inner),
        fault=fault,
        ends=_ends(inner, pieces),
    )


def _ends(inner: JsonObject, pieces: tuple[Piece, ...]) -> bool:
    # A guardrail's replacement of an answer has no finish reason.
    is_finished = bool(pieces) and all([piece.finish_reason for piece in pieces])
    return is_finished or inner.get("amazon-bedrock-guardrailAction") == "INTERVENED"


def _metrics(inner: JsonObject) -> JsonObject | None:
    metrics = inner.get(_METRICS)
    return metrics if isinstance(metrics, dict) and metrics else None


def _ours(
    chunk: Chunk | None, usage: JsonObject | None, fault: ReportedError | None, *, ends: bool = False
) -> Chunk | None:
    """Return the chunk of another dialect as one of this; None where neither it nor Bedrock's counts tell the API."""
    if chunk is None:
        return Chunk(API, usage=usage, fault=fault, ends=ends) if usage or ends else None
    return replace(chunk, api=API, usage=chunk.usage or usage, ends=chunk.ends or ends)


def _anthropic(inner: JsonObject, fault: ReportedError | None) -> Chunk | None:
    error = inner.get("error")
    if isinstance(error, dict):
        fault = ReportedError(text(error.get("type")) or None, text(error.get("message")) or None)
    # Every message has a usage of its own. Of the completions before them only the end is known, by its metrics.
    return _ours(messages.parse(inner, fault=fault), None, fault, ends=_METRICS in inner)


def _chat(inner: JsonObject, fault: ReportedError | None) -> Chunk | None:
    choices = inner["choices"]
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and "stop_reason" in choice:
            choice.setdefault("finish_reason", choice["stop_reason"])  # Mistral's name of it
    chunk = chat.parse(inner, fault=fault) or completions.parse(inner, fault=fault)
    return _ours(chunk, _metrics(inner), fault, ends=_ends(inner, chunk.pieces if chunk else ()))


def _nova(inner: JsonObject, fault: ReportedError | None) -> Chunk | None:
    for name, payload in inner.items():
        if isinstance(payload, dict) and (chunk := bedrock.read_event(API, name, payload, fault)) is not None:
            return chunk
    return _ours(None, _metrics(inner), fault, ends=_METRICS in inner)


def _llama(inner: JsonObject, fault: ReportedError | None) -> Chunk:
    usage = {
        name: inner[name] for name in ("prompt_token_count", "generation_token_count") if inner.get(name) is not None
    }
    piece = Piece(0, content=text(inner["generation"]), finish_reason=text(inner.get("stop_reason")) or None)
    return _chunk(inner, (piece,), usage, fault)


def _titan(inner: JsonObject, fault: ReportedError | None) -> Chunk:
    usage = {
        name: inner[name]
        for name in ("inputTextTokenCount", "totalOutputTextTokenCount")
        if inner.get(name) is not None
    }
    piece = Piece(0, content=text(inner["outputText"]), finish_reason=text(inner.get("completionReason")) or None)
    return _chunk(inner, (piece,), usage, fault)


def _mistral(inner: JsonObject, fault: ReportedError | None) -> Chunk:
    outputs = inner["outputs"] if isinstance(inner["outputs"], list) else []
    pieces = [
        Piece(place, content=text(output.get("text")), finish_reason=text(output.get("stop_reason")) or None)
        for place, output in enumerate(outputs)
        if isinstance(output, dict)
    ]
    return _chunk(inner, tuple(pieces), None, fault)


def _cohere(inner: JsonObject, fault: ReportedError | None) -> Chunk:
    calls = inner.get("tool_calls")
    tools = [
        ToolPiece(None, "", text(call.get("name")), compact(call["parameters"]), whole=True)
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict) and "parameters" in call
    ]
    reason = text(inner.get("finish_reason")) or None
    piece = Piece(
        index(inner.get("index")) or 0, content=text(inner.get("text")), tools=tuple(tools), finish_reason=reason
    )
    return _chunk(inner, (piece,), None, fault)


_SHAPES: Final[tuple[tuple[str, Callable[[JsonObject, ReportedError | None], Chunk | None]], ...]] = (
    ("type", _anthropic),
    ("choices", _chat),
    ("generation", _llama),
    ("outputText", _titan),
    ("outputs", _mistral),
    ("is_finished", _cohere),
)
"""Keys that only the objects of one family have, and the reader of that family."""


def _answer(payload: JsonObject, fault: ReportedError | None) -> Chunk | None:
    """Read a whole answer, if it is one: those of Anthropic's and of chat models are known by themselves."""
    if "metrics" not in payload and bedrock.is_answer(payload):
        return bedrock.read_answer(API, payload, fault)
    if isinstance(payload.get("generation"), str) and "generation_token_count" in payload:
        return _llama(payload, fault)
    results, outputs = payload.get("results"), payload.get("outputs")
    if "embedding" in payload and "inputTextTokenCount" in payload:
        return Chunk(API, usage={"inputTextTokenCount": payload["inputTextTokenCount"]}, fault=fault)
    if isinstance(results, list) and "inputTextTokenCount" in payload:
        answers = [result for result in results if isinstance(result, dict)]
        pieces = [
            Piece(
                place,
                content=text(result.get("outputText")),
                finish_reason=text(result.get("completionReason")) or None,
            )
            for place, result in enumerate(answers)
        ]
        usage = {"inputTextTokenCount": payload["inputTextTokenCount"]}
        if len(answers) == 1:
            usage["tokenCount"] = answers[0].get("tokenCount")
        return _chunk(payload, tuple(pieces), usage, fault)
    if isinstance(outputs, list) and outputs and isinstance(outputs[0], dict) and "stop_reason" in outputs[0]:
        return _mistral(payload, fault)
    return None
