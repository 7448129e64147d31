"""Measures of a plain JSON answer of chat, worked out without the parts that other answers need. Pure.

Most short exchanges are such: one question in plain text, one answer in plain text, one JSON object each. The general
way through framings, dialects, chunks and elements takes a writer four times as long for the same values. Here the
bodies are decoded into types that forbid unknown fields: with one more field, another type, or null in place of a
text, there is no result, and the general way decides. What remains equals it in every value, which a test
proves with random answers: a change of the general way that this one does not follow fails there.
"""

import functools
from array import array
from operator import attrgetter
from typing import Annotated, Final, Literal

import msgspec

from wiretape.recorder.decode import elements, reported
from wiretape.recorder.decode.assembly import is_additive, is_unexplained, token_counts
from wiretape.recorder.decode.conversation import RecordedRequest, belonging_of
from wiretape.recorder.decode.dialects import chat, registry
from wiretape.recorder.decode.encoding import Cleaner, uncoded
from wiretape.recorder.decode.exchange import SUSPECT_NS, Exchange, Reads
from wiretape.recorder.decode.metrics import Measures, Timeline, measured
from wiretape.recorder.decode.prompt import SYSTEM, Message, Prompt, Text
from wiretape.recorder.decode.usage_fields import merge
from wiretape.recorder.decode.values import JsonObject

_facts_of = attrgetter("status", "method", "ended_by", "has_bytes")
_oddities_of = attrgetter(
    "content_encoding", "dialects", "sent", "gap_bytes", "paused", "request_missing", "surplus", "coarse_clock",
    "h2_offered", "asks_identity", "rebuilt", "resent_from",
)  # fmt: skip
"""The facts of an exchange that raise a flag, or decide about its answer or its session, unless they are unknown, 0 or
False."""
_USUAL: Final = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_NO_COUNTS: Final = token_counts("", {})
MOST: Final = 1 << 53

_Nothing = Annotated[list[None], msgspec.Meta(max_length=0)] | None
_FilledText = Annotated[str, msgspec.Meta(min_length=1)]
_Scalar = bool | int | float | str | None


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    pass


class _Message(_Plain):
    role: Literal["assistant"]
    content: _FilledText
    refusal: None = None
    annotations: _Nothing = None
    audio: None = None
    function_call: None = None
    tool_calls: _Nothing = None
    reasoning: None = None
    reasoning_content: None = None


class _Choice(_Plain):
    index: Literal[0]
    message: _Message
    finish_reason: Literal["stop", "length"]
    logprobs: None = None
    stop_reason: None = None
    token_ids: None = None


class _Answer(_Plain):
    id: _FilledText
    object: Literal["chat.completion"]
    created: int
    model: _FilledText
    choices: tuple[_Choice]
    usage: dict[str, int | dict[str, int | None] | None]
    service_tier: str | None = None
    system_fingerprint: str | None = None
    obfuscation: str | None = None
    prompt_logprobs: None = None
    prompt_token_ids: None = None
    kv_transfer_params: None = None


class _Request(_Plain):
    model: msgspec.Raw
    messages: list[msgspec.Raw]
    stream: _Scalar = None
    temperature: _Scalar = None
    top_p: _Scalar = None
    max_tokens: _Scalar = None
    max_completion_tokens: _Scalar = None
    n: _Scalar = None
    seed: _Scalar = None
    presence_penalty: _Scalar = None
    frequency_penalty: _Scalar = None
    user: _Scalar = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_request = msgspec.json.Decoder(_Request).decode
_decode_text = msgspec.json.Decoder(_FilledText).decode
_decode_message = msgspec.json.Decoder(dict[Literal["role", "content"], _FilledText]).decode
_SOURCES: Final = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def measures(exchange: Exchange, reads: Reads, body: bytes, request: RecordedRequest) -> Measures | None:
    """Return the measures of an exchange; None if its request or its answer is not plain."""
    # An escaped NUL is the one character that the types let through, and no column takes.
    if not _is_plain(exchange, request) or b"\\u0000" in body or not body.startswith(b"{"):
        return None
    try:
        answer = _decode_answer(body)
        prompt, prompt_values = _prompt(uncoded(request.headers, request.body or b""))
    except (msgspec.DecodeError, UnicodeError, KeyError, RecursionError):
        return None
    content = answer.choices[0].message.content
    usage, counts = _counts(answer.usage)
    additive = is_additive(counts)
    flags = ["nonstream"]
    if exchange.clock_error_ns is not None and exchange.clock_error_ns > SUSPECT_NS:  # as on a busy machine
        flags.insert(0, "clock_suspect")
    if additive:
        flags.append("reasoning_additive")
    if is_unexplained(counts, is_additive=additive):
        flags.append("total_unexplained")
    values: JsonObject = measured(Timeline(exchange, reads, None, counts["output_tokens"])) | counts
    values |= reported.values(exchange, {}, values["ttfb_ns"], values["duration_ns"])
    values |= prompt_values | belonging_of(prompt, request.headers, "chat", content, None)
    return Measures(
        outcome="complete",
        api=chat.API,
        operation="chat",
        events=0,
        comments=0,
        flags=tuple(flags),
        content=content,
        finish_reason=answer.choices[0].finish_reason,
        response_model=answer.model,
        response_id=answer.id,
        usage=usage or None,
        answers=1,
        **values,
    )


def _is_plain(exchange: Exchange, request: RecordedRequest) -> bool:
    """Return True if nothing but the two bodies tells anything of the exchange."""
    if (
        _facts_of(exchange) != (200, "POST", "end", True)
        or any(_oddities_of(exchange))
        or exchange.content_type not in ("application/json", "application/json; charset=utf-8")
        or exchange.framing not in ("length", "chunked")
        or exchange.is_imported
    ):
        return False
    if not exchange.path.endswith("/chat/completions") or "?" in exchange.path:  # which may name another API
        return False
    names = {name for side in (*exchange.headers, request.headers) for name, _ in side}
    return "sec-websocket-version" not in names and not any([headers <= names for headers in _headers_of_others()])


@functools.cache
def _headers_of_others() -> tuple[frozenset[str], ...]:
    """Return the headers by which other dialects recognise exchanges at any path."""
    return tuple(
        {
            alternative.headers
            for _, alternative in registry.alternatives(None)
            if alternative.headers and alternative.first is None
        }
    )


def _counts(usage: JsonObject) -> tuple[JsonObject, dict[str, int | None]]:
    """Return a usage as the tape has it, and its counts."""
    if usage.keys() == _USUAL and all([type(count) is int and 0 <= count < MOST for count in usage.values()]):
        counts = {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
            "total_tokens": usage["total_tokens"],
            "input_uncached_tokens": usage["prompt_tokens"],
        }
        return usage, _NO_COUNTS | counts
    merged: JsonObject = {}
    merge(chat.API, merged, usage)
    return Cleaner().value(merged), token_counts(chat.API, merged)


def _prompt(body: bytes) -> tuple[Prompt, JsonObject]:
    """Return the prompt of a request, and the values about its elements. Raises `DecodeError` if it is not plain."""
    request = _decode_request(body)
    # Marks of caches and of attribution have values of their own.
    is_special = b'"cache' in body or b"x-anthropic-billing-header" in body
    if not request.messages or len(request.messages) > 1000 or is_special:
        raise msgspec.DecodeError
    model = _decode_text(request.model)
    digests, sizes, system, messages = [elements.digest(model)], [len(request.model)], list[int](), list[Message]()
    context = dict.fromkeys(elements.SOURCES, 0)
    for position, raw in enumerate(request.messages, 1):
        message = _decode_message(raw)
        role = message["role"]
        context[_SOURCES[role]] += len(raw)
        digests.append(elements.digest(message))
        sizes.append(len(raw))
        messages.append(Message(role, (Text(message["content"]),)))
        if role in SYSTEM:
            system.append(position)
    context["other"] = len(body) - sum(context.values())
    leading = next((position for position, message in enumerate(messages) if message.role not in SYSTEM), len(messages))
    prefix = elements.Prefix(
        places=[("model", None), ("messages", len(messages))],
        digests=b"".join(digests),
        sizes=array("I", sizes).tobytes(),
        first=1,
        system=system,
        head=elements.joined(digests[: 1 + leading]),
        by_model=any([message.role == "assistant" for message in messages]),
        is_marked=False,
        ttl_s=None,
    )
    values: JsonObject = {f"context_{source}_bytes": size for source, size in context.items()}
    in_front = tuple(part for message in messages[:leading] for part in message.parts)
    prompt = Prompt(model, in_front, (), tuple(messages[leading:]))
    return prompt, values | {"prompt_elements": elements.packed(prefix)}
