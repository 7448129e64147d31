"""How the benchmarks of two serving engines measure one exchange: vLLM's and SGLang's, chat completions backend.

Follows vLLM's `vllm/benchmarks/lib/endpoint_request_func.py` (02cfb534) and `serve.py` (009e6d4a), and SGLang's
`python/sglang/benchmark/serving.py` (00f9ec47). Both stamp each event as it leaves their parser; here it has the
instant of its read. Neither looks at error payloads, and a body that ends early but cleanly is a success.
"""

from typing import Any

from viewer.authorities.seen import (
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


def vllm(request: Request) -> Numbers:
    """Measure as vLLM: every chunk with choices counts, whatever it carries; tokens from a chunk without choices."""
    request.check_status()
    at: list[int] = []
    tokens = None
    for frame in request.frames:
        block = frame.raw.strip()
        text = block.removeprefix(b"data: ")
        if frame.comment or text == b"[DONE]" or not (frame.whole or _is_json(text)):
            continue
        payload = load(text, place(block))
        choice = first_choice(payload)
        if choice is not None:
            _check_delta(choice)
            at.append(frame.at_ns)
        elif payload.get("usage"):
            tokens = completion_tokens(payload)
    request.check_transport()
    if not at:
        raise ToolError("Never received a valid chunk to calculate TTFT.")
    return {
        "ttft": ms(at[0]),
        "itl": gaps(at),
        "e2el": ms(at[-1]),
        "output_tokens": tokens,
        "tpot": per_token(at[-1] - at[0], tokens),
    }


def sglang(request: Request) -> Numbers:
    """Measure as SGLang: text and reasoning count, tool calls do not; the end is the last line, `[DONE]` included."""
    request.check_status()
    at: list[int] = []
    tokens, end_ns = None, None
    for frame in request.frames:
        for line in frame.lines():
            text = line.removeprefix(b"data: ")
            end_ns = frame.at_ns
            if text == b"[DONE]":
                continue
            payload = load(text, place(line))
            counted = completion_tokens(payload)
            tokens = tokens if counted is None else counted
            if _sglang_text(part(first_choice(payload) or {}, "delta")):
                at.append(frame.at_ns)
    request.check_transport()
    if end_ns is None:
        raise ToolError("UnboundLocalError: a body without a line")
    first_ns = at[0] if at else 0
    return {
        "ttft": ms(first_ns),
        "itl": gaps(at),
        "latency": ms(end_ns),
        "output_tokens": tokens,
        "tpot": per_token(end_ns - first_ns, tokens),
    }


def _is_json(text: bytes) -> bool:
    # What is left at the end of the body counts if it can be read, and is dropped without a word if not.
    try:
        load(text, "")
    except ToolError:
        return False
    return True


def _check_delta(choice: dict[str, Any]) -> None:
    if "delta" not in choice:
        raise ToolError("KeyError: 'delta'")
    if not isinstance(choice["delta"], dict):
        raise ToolError("AttributeError: the delta is no object")


def _sglang_text(delta: dict[str, Any]) -> bool:
    return bool(delta.get("reasoning_content") or delta.get("reasoning") or delta.get("content"))
