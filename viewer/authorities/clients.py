"""How the benchmark clients measure one exchange: AIPerf, genai-perf, guidellm and llmperf.

Follows AIPerf's `src/aiperf/metrics/types` and `endpoints/openai_chat.py` (2026), genai-perf's
`llm_profile_data_parser.py` (263c5f6e), guidellm's `backends/openai` and `schemas/request_stats.py` (ee7a7745) and
llmperf's `openai_chat_completions_client.py` (f1d6bed4). AIPerf, genai-perf and llmperf count tokens with a tokenizer
unless told otherwise: here they get what `usage` says (AIPerf's option), and llmperf its own count of chunks.
"""

from typing import Any

from viewer.authorities.seen import (
    Frame,
    Numbers,
    Request,
    ToolError,
    completion_tokens,
    first_choice,
    gaps,
    load,
    ms,
    part,
    per_token,
    place,
)

_NO_CHOICES = "IndexError on usage-only chunk (choices=[])"


def aiperf(request: Request) -> Numbers:
    """Measure as AIPerf: first to last chunk with text, reasoning or a tool's name or arguments, first choice only."""
    request.check_status()
    at: list[int] = []
    answers: list[int] = []
    tokens, first_tokens = None, None
    payloads = _aiperf_payloads(request)
    for frame, payload in payloads:
        counted = completion_tokens(payload)
        tokens = tokens if counted is None else counted
        content, reasoning = _aiperf_parts(payload)
        if content or reasoning:
            first_tokens = counted if not at else first_tokens
            at.append(frame.at_ns)
        if content:
            answers.append(frame.at_ns)
    request.check_transport()
    if not at:
        mismatched = any(_is_mismatched(payload) for _, payload in payloads)
        raise ToolError("no content response parsed" + " (object 'chat.completion' with delta)" * mismatched)
    window = at[-1] - at[0]
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


def genai_perf(request: Request) -> Numbers:
    """Measure as genai-perf: what one read brought is one response; those without text of the first choice are not."""
    request.check_status()
    at: list[int] = []
    last_read = None
    for frame in request.frames:
        payload = _genai_perf_payload(frame)
        if payload and _genai_perf_text(payload):
            if not at or frame.read != last_read:
                at.append(frame.at_ns)
            last_read = frame.read
    request.check_transport()
    if not at:
        raise ToolError("skipped: no response with text")
    # Its tokenizer needs no usage chunk to know the count.
    tokens = request.reported_tokens()
    itl = round((at[-1] - at[0]) / (tokens - 1)) if tokens is not None and tokens > 1 else None
    return {
        "ttft": ms(at[0]),
        "ttst": ms(at[1] - at[0]) if len(at) > 1 else None,
        "request_latency": ms(at[-1]),
        "itl": ms(itl) if itl is not None else None,
        "tps_user": 1e9 / itl if itl else None,
        "output_tokens": tokens,
    }


def guidellm(request: Request) -> Numbers:
    """Measure as guidellm: lines with text, reasoning or any tool call; TPOT has the first token's time in it."""
    request.check_status()
    at: list[int] = []
    answers: list[int] = []
    tokens, end_ns = None, None
    for frame, payload in _guidellm_payloads(request):
        if payload is None:
            end_ns = frame.at_ns
            break
        counted = completion_tokens(payload)
        tokens = tokens if counted is None else counted
        delta = part(first_choice(payload) or {}, "delta")
        if delta.get("content") or delta.get("tool_calls"):
            answers.append(frame.at_ns)
        if delta.get("content") or delta.get("tool_calls") or delta.get("reasoning_content") or delta.get("reasoning"):
            at.append(frame.at_ns)
    if end_ns is None:
        request.check_transport()
    if not at:
        raise ToolError("empty output")
    # An answer without usage has as many tokens as lines with output.
    count = tokens or len(at)
    return {
        "ttft": ms(at[0]),
        "ttfot": ms(answers[0]) if answers else None,
        "itl": per_token(at[-1] - at[0], count),
        "tpot": ms(at[-1]) / count,
        "request_latency": ms(end_ns if end_ns is not None else request.end_ns or at[-1]),
        "output_tokens": count,
    }


def llmperf(request: Request) -> Numbers:
    """Measure as llmperf: text of the first choice only; its inter-token latency has the first token's time in it."""
    request.check_status()
    at: list[int] = []
    count = 0
    for frame in request.frames:
        for line in frame.lines():
            # It cuts six characters off any line, comments included.
            text = line[len("data: ") :]
            if text == b"[DONE]":
                continue
            count += 1
            payload = load(text, place(line))
            if "error" in payload and _is_uncounted(payload["error"]):
                return _llmperf_numbers(at, count, 0)
            if _llmperf_delta(payload).get("content"):
                at.append(frame.at_ns)
    request.check_transport()
    return _llmperf_numbers(at, count, request.end_ns)


def _aiperf_payloads(request: Request) -> list[tuple[Frame, dict[str, Any]]]:
    """Give what can be read; what cannot be is passed over."""
    found = []
    for frame in request.frames:
        if frame.comment or not frame.data or frame.data == "[DONE]":
            continue
        if frame.type == "error":
            raise ToolError("error event in the stream")
        try:
            payload = load(frame.data, "")
        except ToolError:
            continue
        if payload.get("error"):
            raise ToolError("error event in the stream")
        found.append((frame, payload))
    return found


def _aiperf_parts(payload: dict[str, Any]) -> tuple[bool, bool]:
    """Say whether the first choice has an answer (text, or a tool's name or arguments), and whether reasoning."""
    name = {"chat.completion": "message", "chat.completion.chunk": "delta"}.get(str(payload.get("object")))
    delta = part(first_choice(payload) or {}, name) if name else {}
    calls = delta.get("tool_calls")
    functions = [part(call, "function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    called = any(function.get("name") or function.get("arguments") for function in functions)
    return bool(delta.get("content")) or called, bool(delta.get("reasoning_content") or delta.get("reasoning"))


def _is_mismatched(payload: dict[str, Any]) -> bool:
    return payload.get("object") == "chat.completion" and "delta" in (first_choice(payload) or {})


def _genai_perf_payload(frame: Frame) -> dict[str, Any]:
    if frame.type == "error":
        raise ToolError("GenAIPerfException: error event in the SSE response")
    if frame.comment or not frame.data or frame.data.strip() == "[DONE]":
        return {}
    return load(frame.data, place(frame.raw))


def _genai_perf_text(payload: dict[str, Any]) -> bool:
    choice = _choice_or_error(payload)
    kind = payload.get("object", "text_completion")
    if kind == "text_completion":
        return bool(choice.get("text"))
    name = {"chat.completion": "message", "chat.completion.chunk": "delta"}.get(str(kind))
    if name is None:
        raise ToolError("ValueError: unknown OpenAI response object type")
    if name not in choice:
        raise ToolError(f"KeyError: '{name}'")
    return bool(part(choice, name).get("content"))


def _choice_or_error(payload: dict[str, Any]) -> dict[str, Any]:
    choice = first_choice(payload)
    if choice is None:
        if payload.get("choices") == []:
            raise ToolError(_NO_CHOICES, usage_only=True)
        raise ToolError("KeyError: 'choices'")
    return choice


def _guidellm_payloads(request: Request) -> list[tuple[Frame, dict[str, Any] | None]]:
    """Give the payloads up to `data: [DONE]`, which is None; an error payload is the request's."""
    found: list[tuple[Frame, dict[str, Any] | None]] = []
    for frame in request.frames:
        for line in frame.lines():
            if line == b"data: [DONE]":
                return [*found, (frame, None)]
            if not line.startswith(b"data:"):
                continue
            payload = load(line[len("data:") :].strip(), place(line))
            if payload.get("error"):
                raise ToolError("ValueError: error payload in the stream")
            found.append((frame, payload))
    return found


def _is_uncounted(error: Any) -> bool:
    """Say whether an error has no code, which the summary takes for a success; any other is the request's failure."""
    if not isinstance(error, dict) or "message" not in error or "code" not in error:
        raise ToolError("KeyError on an error payload")
    if error["code"] is not None:
        raise ToolError("RuntimeError: error payload in the stream")
    return True


def _llmperf_delta(payload: dict[str, Any]) -> dict[str, Any]:
    choice = _choice_or_error(payload)
    if "delta" not in choice:
        raise ToolError("KeyError: 'delta'")
    return part(choice, "delta")


def _llmperf_numbers(at: list[int], count: int, end_ns: int | None) -> Numbers:
    return {
        "ttft": ms(at[0]) if at else 0,
        "itl": ms(at[-1]) / count if at else 0,
        "e2e_latency": ms(end_ns) if end_ns is not None else None,
        "output_tokens": count,
    }
