"""The rules of benchmark clients for one exchange.

AIPerf and guidellm: follows AIPerf's `transports` and `metrics/types`, and guidellm's `backends/openai` and `schemas`,
of the releases that `rules` names; `readers` has the fields that they read in the payloads of each API. AIPerf counts
tokens with a tokenizer; without one, it gets the counts of `usage` (an option of it).
"""

import contextlib
from collections.abc import Iterator

from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.stats.tools.request import (
    BodyFrame,
    MeasuredRequest,
    Numbers,
    ToolError,
    completion_tokens,
    first_choice,
    gaps,
    load,
    load_any,
    ms,
    per_token,
    place,
)
from wiretape.viewer.wings.tools import readers

_SUCCESSES = range(200, 300)


def aiperf(request: MeasuredRequest) -> Numbers:
    """Measure as AIPerf: first to last chunk with text, reasoning or a tool's name or arguments, first choice only."""
    request.check_status(_SUCCESSES)
    if any(_is_error_event(frame) for frame in request.frames):
        raise ToolError("SSEResponseError: error event in the stream")
    request.check_end()
    at: list[int] = []
    answers: list[int] = []
    contents, reasonings = list[str](), list[str]()
    tokens, first_tokens = None, None
    payloads = _aiperf_payloads(request)
    reader = readers.AIPERF[request.api]()
    for frame, payload in payloads:
        content, reasoning, is_content, reports = reader(payload)
        counted = completion_tokens(reports, request.api)
        tokens = tokens if counted is None else counted
        contents.append(content)
        reasonings.append(reasoning)
        if content or reasoning or is_content:
            first_tokens = counted if not at else first_tokens
            at += frame.at_ns
        if content:
            answers += frame.at_ns
    if not at:
        mismatched = any(
            payload.get("object") == "chat.completion" and "delta" in (first_choice(payload) or {})
            for _, payload in payloads
        )
        raise ToolError("no content response parsed" + " (object 'chat.completion' with delta)" * mismatched)
    window = at[-1] - at[0]
    if request.count_tokens is not None:
        tokens = sum(request.tokens_of(texts) or 0 for texts in (contents, reasonings) if any(texts))
    itl = per_token(window, tokens)
    later_tokens = tokens - first_tokens if tokens is not None and first_tokens is not None else 0
    return {
        "ttft": ms(at[0]),
        "ttfo": ms(answers[0]) if answers else None,
        "ttst": ms(at[1] - at[0]) if len(at) > 1 else None,
        "icl": gaps(at),
        "request_latency": ms(at[-1]),
        "itl": itl,
        "itl_per_chunk_usage": ms(window) / later_tokens if later_tokens > 0 else None,
        "tps_user": 1000 / itl if itl else None,
        "output_tokens": tokens,
    }


def guidellm(request: MeasuredRequest) -> Numbers:
    """Measure as guidellm: lines with text, reasoning or any tool call; TPOT has the first token's time in it."""
    request.check_status(_SUCCESSES)
    at: list[int] = []
    answers: list[int] = []
    texts: list[str] = []
    tokens, end_ns, has_call = None, None, False
    for frame, payload in _guidellm_payloads(request):
        if payload is None:
            end_ns = frame.at_ns[-1]
            break
        payload_read = readers.GUIDELLM[request.api](payload)
        tokens = readers.guidellm_tokens(payload_read.usage, request.api) if payload_read.usage else tokens
        if payload_read.ends:
            end_ns = frame.at_ns[-1]
            break
        texts.append(payload_read.text)
        has_call = has_call or payload_read.begins_call
        answers += frame.at_ns if payload_read.is_answer else ()
        at += frame.at_ns if payload_read.is_answer or payload_read.reasoning else ()
    if end_ns is None:
        request.check_end()
    if not (has_call or tokens or "".join(texts).strip()):
        raise ToolError("ValueError: empty response payload")
    # An answer without usage has as many tokens as lines with output.
    count = len(at) if tokens is None else tokens
    end_ns = request.exchange.end_ns or 0 if end_ns is None else end_ns
    return {
        "ttft": ms(at[0]) if at else None,
        "ttfot": ms(answers[0]) if answers else None,
        "itl": per_token(at[-1] - at[0], count) if at else None,
        "tpot": ms(at[-1] if at else end_ns) / count if count else None,
        "request_latency": ms(end_ns),
        "output_tokens": count,
    }


def _is_error_event(frame: BodyFrame) -> bool:
    """Return True if AIPerf takes an event for an error: by its type alone, not by its data."""
    if frame.comment or b"event" not in frame.raw.lower():
        return False
    fields = (line.partition(b":") for line in frame.lines())
    return any(name.strip().lower() == b"event" and value.strip().lower() == b"error" for name, _, value in fields)


def _aiperf_payloads(request: MeasuredRequest) -> list[tuple[BodyFrame, JsonObject]]:
    """Return the payloads that are JSON objects; AIPerf drops all others, and error payloads have no choices."""
    payloads = []
    for frame in request.frames:
        if not frame.comment and frame.data and frame.data.strip() != "[DONE]":
            with contextlib.suppress(ToolError):
                payloads.append((frame, load(frame.data, "")))
    return payloads


def _guidellm_payloads(request: MeasuredRequest) -> Iterator[tuple[BodyFrame, JsonObject | None]]:
    """Yield the payloads up to `[DONE]`, which is None; an error payload is the request's."""
    for frame in request.frames:
        # httpx ends a line where Python does: at U+2028, too.
        for text in frame.raw.decode("utf-8", "replace").splitlines():
            line = text.strip()
            if not line.startswith("data:"):
                continue
            data = line[len("data:") :].strip()
            payload = None if data == "[DONE]" else load_any(data, place(line.encode()))
            if payload is None:
                yield frame, None
                return
            if not payload:
                continue
            if not isinstance(payload, dict):
                raise ToolError("AttributeError: the payload is no object")
            if payload.get("error"):
                raise ToolError("ValueError: error payload in the stream")
            yield frame, payload
