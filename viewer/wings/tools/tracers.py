"""Measures of one exchange by SDKs that trace a program's own requests: Langfuse, LiteLLM and OpenLLMetry.

Follows Langfuse's `langfuse/openai.py` and the measures of its server's `dataModel.ts`, LiteLLM's
`litellm_core_utils/streaming_handler.py`, `responses/streaming_iterator.py`,
`llms/anthropic/messages/native/streaming_iterator.py` and `integrations/prometheus.py`, and OpenLLMetry's
`opentelemetry/instrumentation/openai/shared/chat_wrappers.py`, of the releases that `rules` names. Each stamps the
first item that the SDK below yields: any event with JSON data.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from wiretape.recorder.decode.dialects import chat, gemini, messages, responses
from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.stats.tools.request import (
    BodyFrame,
    ClientLeft,
    MeasuredRequest,
    Numbers,
    ToolError,
    first_choice,
    load,
    ms,
    part,
    text_of,
)

_SUCCESSES: Final = range(200, 300)
_OUTPUTS: Final = ("tool_calls", "function_call", "reasoning_content", "annotations", "reasoning_items")
"""Fields of a delta, beside content, that make LiteLLM pass a chunk."""


def langfuse(request: MeasuredRequest) -> Numbers:
    """Measure as Langfuse: any chunk is the first token; a generation ends with its stream, also with a broken one."""
    if request.client_left:
        raise ClientLeft
    request.check_status(_SUCCESSES)
    at, end_ns, tokens = request.chunk_times(output=False), request.judged.duration_ns, request.reported_tokens()
    streaming_ns = end_ns - at[0] if at and end_ns is not None else None
    return {
        "ttft": ms(at[0]) if at else None,
        "latency": None if end_ns is None else ms(end_ns),
        "streaming": None if streaming_ns is None else ms(streaming_ns),
        "tps": tokens / streaming_ns * 1e9 if tokens is not None and streaming_ns else None,
        "output_tokens": tokens,
    }


def litellm(request: MeasuredRequest) -> Numbers:
    """Measure as LiteLLM, by the API that it asks, or answers itself."""
    request.check_status(_SUCCESSES)
    texts: list[str] = []
    if request.decoded is not None and not request.decoded.stream:
        _check_faults(request)
        request.check_end()
        first_ns, end_ns = None, request.judged.duration_ns
    elif request.api == chat.API:
        first_ns, end_ns = _chat(request, texts)
    else:
        first_ns, end_ns = _LITELLM[request.api](request)
    tokens = request.reported_tokens()
    tokens = request.tokens_of(texts) if tokens is None and texts else tokens
    generating_ns = end_ns - first_ns if end_ns is not None and first_ns is not None else None
    return {
        "ttft_s": None if first_ns is None else first_ns / 1e9,
        "latency_s": None if end_ns is None else end_ns / 1e9,
        "per_token_s": generating_ns / 1e9 / tokens if generating_ns and tokens else None,
        "output_tokens": tokens,
    }


class _Times(NamedTuple):
    first_token_ns: int | None
    end_ns: int | None


def _chat(request: MeasuredRequest, texts: list[str]) -> _Times:
    """Measure chat: the first chunk with a role or output is the first token; collect the texts."""
    first_ns: int | None = None
    is_finished = False
    for frame, payload in _items(request):
        choice = first_choice(payload) or {}
        delta = part(choice, "delta")
        texts.append(text_of(delta.get("content") or ""))
        is_finished = is_finished or bool(choice.get("finish_reason"))
        if first_ns is None and (
            (bool(delta.get("content")) or any(delta.get(name) is not None for name in ("role", *_OUTPUTS)))
            or is_finished
        ):
            first_ns = frame.at_ns[0]
    request.check_end()
    if not is_finished:
        raise ToolError("RemoteProtocolError: stream ended before a finish_reason")
    return _Times(first_ns, request.judged.duration_ns)


def _messages(request: MeasuredRequest) -> _Times:
    """Measure Messages: the first output is the first token; in answers of LiteLLM itself, any event is."""
    if request.is_litellm:
        request.check_end()
        return _Times(_first_event_ns(request), request.judged.duration_ns)
    _check_faults(request)
    request.check_end()
    end_ns = request.finish_ns()
    if end_ns is None:
        raise ToolError("APIConnectionError: stream ended before a finish_reason")
    return _Times(next(iter(request.chunk_times(output=True)), None), end_ns)


def _gemini(request: MeasuredRequest) -> _Times:
    """Measure Gemini: the first output is the first token; a stream without a finish reason is a success."""
    _check_faults(request)
    request.check_end()
    return _Times(next(iter(request.chunk_times(output=True)), None), request.judged.duration_ns)


def _responses(request: MeasuredRequest) -> _Times:
    """Measure Responses: the first event of any kind is the first token."""
    _check_faults(request)
    request.check_end()
    if request.decoded is None or request.decoded.end_item is None:
        raise ToolError("APIConnectionError: the stream was closed before any terminal event")
    return _Times(_first_event_ns(request), request.judged.duration_ns)


_LITELLM: Final = {messages.API: _messages, gemini.API: _gemini, responses.API: _responses}


def _check_faults(request: MeasuredRequest) -> None:
    if request.decoded is not None and any(run.chunk.fault is not None for run in request.decoded.runs):
        raise ToolError("MidStreamFallbackError: error payload in the stream")


def _first_event_ns(request: MeasuredRequest) -> int | None:
    return next((frame.at_ns[0] for frame in request.frames if frame.data and not frame.comment), None)


def traceloop(request: MeasuredRequest) -> Numbers:
    """Measure as OpenLLMetry: any chunk is the first token; failed streams have all but the time to generate."""
    first_ns, end_ns = None, request.judged.duration_ns
    numbers: Numbers = {
        "ttft_s": None,
        "duration_s": None if end_ns is None else end_ns / 1e9,
        "output_tokens": request.reported_tokens(),
    }
    try:
        request.check_status(_SUCCESSES)
        for frame, _ in _items(request):
            first_ns = frame.at_ns[0] if first_ns is None else first_ns
            numbers["ttft_s"] = first_ns / 1e9
        request.check_end()
    except ToolError as error:
        raise ToolError(str(error), numbers=numbers) from error
    return {**numbers, "generate_s": None if end_ns is None else (end_ns - (first_ns or 0)) / 1e9}


def _items(request: MeasuredRequest) -> Iterator[tuple[BodyFrame, JsonObject]]:
    """Yield the payloads up to `[DONE]`, as OpenAI's SDK does; it raises on one with an error."""
    for frame in request.frames:
        if frame.comment or not frame.is_terminated or not frame.data:
            continue
        if frame.data.startswith("[DONE]"):
            return
        payload = load(frame.data, "data line")
        if payload.get("error"):
            raise ToolError("APIError: error payload in the stream")
        yield frame, payload
