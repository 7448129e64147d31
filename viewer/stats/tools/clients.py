"""The rules of benchmark clients and of two specifications for one exchange.

AIPerf, genai-perf, guidellm and llmperf: follows AIPerf's `transports` and `metrics/types`, genai-perf's
`llm_profile_data_parser.py`, guidellm's `backends/openai` and `schemas`, and llmperf's
`openai_chat_completions_client.py`, of the releases that `tools` names; `readers` has the fields that AIPerf and
guidellm read in the payloads of each API. AIPerf, genai-perf and llmperf count tokens with a tokenizer. Without one,
AIPerf gets the counts of `usage` (an option of it), genai-perf the same if the answer is only text, and llmperf none.

MLPerf's load generator and OpenTelemetry's GenAI conventions: follows MLPerf inference
`loadgen/{loadgen,logging,results}.cc` (b66003e1) and the metrics of `semantic-conventions-genai` (9ba9b775; semconv
v1.41.1). MLPerf's clock starts when a query was scheduled, which only the load generator knows: here it starts when the
request is issued. Both count tokens as the system reports them.
"""

import contextlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.stats.tools import readers
from wiretape.viewer.stats.tools.request import (
    ClientLeft,
    Frame,
    MeasuredRequest,
    Numbers,
    ToolError,
    completion_tokens,
    first_choice,
    gaps,
    load,
    load_any,
    ms,
    part,
    per_token,
    place,
    text_of,
)

_NO_CHOICES = "IndexError on usage-only chunk (choices=[])"
_SUCCESSES = range(200, 300)

OTEL_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
OTEL_TOKENS: Final = tuple(4.0**power for power in range(14))
"""The bounds of the buckets that OpenTelemetry's histograms have."""


def aiperf(request: MeasuredRequest) -> Numbers:
    """Measure as AIPerf: first to last chunk with text, reasoning or a tool's name or arguments, first choice only."""
    request.check_status(_SUCCESSES)
    if any(_is_error_event(frame) for frame in request.frames):
        raise ToolError("SSEResponseError: error event in the stream")
    request.check_end()
    at: list[int] = []
    answers: list[int] = []
    texts: tuple[list[str], list[str]] = ([], [])
    tokens, first_tokens = None, None
    payloads = _aiperf_payloads(request)
    read = readers.AIPERF[request.api]()
    for frame, payload in payloads:
        content, reasoning, is_content, reports = read(payload)
        counted = completion_tokens(reports, request.api)
        tokens = tokens if counted is None else counted
        texts[0].append(content)
        texts[1].append(reasoning)
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
        tokens = sum(request.tokens_of(part) or 0 for part in texts if any(part))
    itl = per_token(window, tokens)
    later = tokens - first_tokens if tokens is not None and first_tokens is not None else 0
    return {
        "ttft": ms(at[0]),
        "ttfo": ms(answers[0]) if answers else None,
        "ttst": ms(at[1] - at[0]) if len(at) > 1 else None,
        "icl": gaps(at),
        "request_latency": ms(at[-1]),
        "itl": itl,
        "itl_per_chunk_usage": ms(window) / later if later > 0 else None,
        "tps_user": 1000 / itl if itl else None,
        "output_tokens": tokens,
    }


def genai_perf(request: MeasuredRequest) -> Numbers:
    """Measure as genai-perf: the data of one read is one response, unless the first choice has no text in it."""
    request.check_status()
    at: list[int] = []
    texts: list[str] = []
    last_read, text_only = None, True
    for frame in request.frames:
        payload = _genai_perf_payload(frame)
        text = _genai_perf_text(payload) if payload else ""
        text_only = text_only and not _has_more_than_text(payload)
        if text:
            for at_ns, read in zip(frame.at_ns, frame.reads, strict=True):
                if not at or read != last_read:
                    at.append(at_ns)
                last_read = read
            texts.append(text)
    request.check_end()
    if not at:
        raise ToolError("skipped: no response with text")
    tokens = request.tokens_of(texts)
    if tokens is None and text_only:
        tokens = request.reported_tokens()
    numbers: Numbers = {
        "ttft": ms(at[0]),
        "ttst": ms(at[1] - at[0]) if len(at) > 1 else None,
        "request_latency": ms(at[-1]),
        "output_tokens": tokens,
    }
    if len(at) == 1:
        return numbers
    itl = round((at[-1] - at[0]) / (tokens - 1)) if tokens is not None and tokens > 1 else None
    return {**numbers, "itl": None if itl is None else ms(itl), "tps_user": 1e9 / itl if itl else None}


def guidellm(request: MeasuredRequest) -> Numbers:
    """Measure as guidellm: lines with text, reasoning or any tool call; TPOT has the first token's time in it."""
    request.check_status(_SUCCESSES)
    at: list[int] = []
    answers: list[int] = []
    texts: list[str] = []
    tokens, end_ns, called = None, None, False
    for frame, payload in _guidellm_payloads(request):
        if payload is None:
            end_ns = frame.at_ns[-1]
            break
        read = readers.GUIDELLM[request.api](payload)
        tokens = readers.guidellm_tokens(read.usage, request.api) if read.usage else tokens
        if read.ends:
            end_ns = frame.at_ns[-1]
            break
        texts.append(read.text)
        called = called or read.begins_call
        answers += frame.at_ns if read.is_answer else ()
        at += frame.at_ns if read.is_answer or read.reasoning else ()
    if end_ns is None:
        request.check_end()
    if not (called or tokens or "".join(texts).strip()):
        raise ToolError("ValueError: empty response payload")
    # An answer without usage has as many tokens as lines with output.
    count = len(at) if tokens is None else tokens
    end_ns = request.end_ns or 0 if end_ns is None else end_ns
    return {
        "ttft": ms(at[0]) if at else None,
        "ttfot": ms(answers[0]) if answers else None,
        "itl": per_token(at[-1] - at[0], count) if at else None,
        "tpot": ms(at[-1] if at else end_ns) / count if count else None,
        "request_latency": ms(end_ns),
        "output_tokens": count,
    }


def llmperf(request: MeasuredRequest) -> Numbers:
    """Measure as llmperf: text of the first choice only; its inter-token latency has the first token's time in it."""
    request.check_status()
    at: list[int] = []
    texts: list[str] = []
    count = 0
    for frame in request.frames:
        for line in frame.lines():
            # llmperf removes six characters from each line, comments included.
            text = line[len("data: ") :]
            if text == b"[DONE]":
                continue
            count += len(frame.at_ns)
            payload = load(text, place(line))
            if "error" in payload and _is_uncounted(payload["error"]):
                return _llmperf_numbers(request, at, texts, count, 0)
            choice = _choice_or_error(payload)
            if "delta" not in choice:
                raise ToolError("KeyError: 'delta'")
            content = part(choice, "delta").get("content")
            if content:
                at += frame.at_ns
                texts.append(text_of(content))
    request.check_end()
    return _llmperf_numbers(request, at, texts, count, request.end_ns)


def mlperf(request: MeasuredRequest) -> Numbers:
    """Measure as MLPerf: first to last output in whole ns; a query that has no whole answer is no sample."""
    if request.client_left:
        raise ClientLeft
    if request.outcome != "complete":
        raise ToolError(f"no QuerySamplesComplete ({request.outcome})")
    at = request.chunk_times(output=True)
    if not at:
        raise ToolError("no FirstTokenComplete")
    tokens = request.reported_tokens()
    return {
        "ttft_ns": at[0],
        "latency_ns": at[-1],
        "tpot_ns": (at[-1] - at[0]) // (tokens - 1) if tokens is not None and tokens > 1 else None,
        "output_tokens": tokens,
    }


def otel(request: MeasuredRequest) -> Numbers:
    """Measure as OpenTelemetry's client metrics: any chunk is a chunk; failed operations have a duration, too."""
    if request.client_left:
        raise ClientLeft
    at = request.chunk_times(output=False)
    duration_s = request.duration_ns / 1e9 if request.duration_ns is not None else None
    numbers: Numbers = {
        "time_to_first_chunk_s": at[0] / 1e9 if at else None,
        "time_per_output_chunk_s": [(later - earlier) / 1e9 for earlier, later in pairwise(at)],
        "operation_duration_s": duration_s,
        "output_tokens": request.reported_tokens(),
    }
    if request.outcome != "complete":
        failed: Numbers = {"operation_duration_s": None, "failed_operation_duration_s": duration_s}
        raise ToolError(f"error.type {error_type(request)}", numbers=numbers | failed)
    return numbers


def _is_error_event(frame: Frame) -> bool:
    """Return True if AIPerf takes an event for an error: by its type alone, not by its data."""
    if frame.comment or b"event" not in frame.raw.lower():
        return False
    fields = (line.partition(b":") for line in frame.lines())
    return any(name.strip().lower() == b"event" and value.strip().lower() == b"error" for name, _, value in fields)


def _aiperf_payloads(request: MeasuredRequest) -> list[tuple[Frame, JsonObject]]:
    """Return the payloads that are JSON objects; AIPerf drops all others, and error payloads have no choices."""
    payloads = []
    for frame in request.frames:
        if not frame.comment and frame.data and frame.data.strip() != "[DONE]":
            with contextlib.suppress(ToolError):
                payloads.append((frame, load(frame.data, "")))
    return payloads


def _genai_perf_payload(frame: Frame) -> JsonObject:
    if frame.raw.startswith(b"event:") and b"error" in frame.raw.lower():
        raise ToolError("GenAIPerfException: error event in the SSE response")
    # An event that does not begin with its data is ignored.
    if frame.raw.startswith((b":", b"event:", b"id:", b"retry:")) or not frame.data or frame.data.strip() == "[DONE]":
        return {}
    return load(frame.data, place(frame.raw))


def _has_more_than_text(payload: JsonObject) -> bool:
    """Return True if a payload has output that usage counts and genai-perf does not see."""
    choices = payload.get("choices")
    for number, choice in enumerate(choices if isinstance(choices, list) else []):
        delta = part(choice, "delta") if isinstance(choice, dict) else {}
        if any(value for name, value in delta.items() if name != "role" and (number or name != "content")):
            return True
    usage = payload.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    return isinstance(details, dict) and bool(details.get("reasoning_tokens"))


def _genai_perf_text(payload: JsonObject) -> str:
    choice = _choice_or_error(payload)
    kind = payload.get("object", "text_completion")
    if kind == "text_completion":
        return str(choice.get("text") or "")
    name = {"chat.completion": "message", "chat.completion.chunk": "delta"}.get(str(kind))
    if name is None:
        raise ToolError("ValueError: unknown OpenAI response object type")
    if name not in choice:
        raise ToolError(f"KeyError: '{name}'")
    return str(part(choice, name).get("content") or "")


def _choice_or_error(payload: JsonObject) -> JsonObject:
    choice = first_choice(payload)
    if choice is None:
        if payload.get("choices") == []:
            raise ToolError(_NO_CHOICES, usage_only=True)
        raise ToolError("KeyError: 'choices'")
    return choice


def _guidellm_payloads(request: MeasuredRequest) -> Iterator[tuple[Frame, JsonObject | None]]:
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


def _is_uncounted(error: object) -> bool:
    """Return True if an error has no code, which the summary takes for a success; any other fails the request."""
    if not isinstance(error, dict) or "message" not in error or "code" not in error:
        raise ToolError("KeyError on an error payload")
    if error["code"] is not None:
        raise ToolError("RuntimeError: error payload in the stream")
    return True


def _llmperf_numbers(
    request: MeasuredRequest, at: list[int], texts: list[str], count: int, end_ns: int | None
) -> Numbers:
    tokens = request.tokens_of(texts, special=True)
    rate = tokens * 1e9 / end_ns if tokens is not None and end_ns else None
    return {
        "ttft": ms(at[0]) if at else 0,
        "itl": ms(at[-1]) / count if at else 0,
        "e2e_latency": ms(end_ns) if end_ns is not None else None,
        "output_tokens": tokens,
        "throughput": rate if end_ns else 0,
        "chunks": count,
    }


def error_type(request: MeasuredRequest) -> str:
    """Return the `error.type` of an operation that failed: a status, the upstream's own code, or the outcome."""
    if request.outcome == "http_error":
        return str(request.status)
    return (request.outcome == "error_event" and request.error_code) or request.outcome
