"""The rules of two serving engines' benchmarks for one exchange: vLLM's and SGLang's.

vLLM's backends are `openai-chat`, `openai` (completions) and, since 0.33, `openai-responses`; SGLang's is the one for
chat completions.

Follows vLLM's `vllm/benchmarks/lib/endpoint_request_func.py` and `serve.py`, and SGLang's
`python/sglang/benchmark/serving.py`, of the releases that `rules` names. Both stamp each event as it leaves their
parser; here it has the timestamp of its read. Neither looks at error payloads, and a body that ends early but cleanly
is a success.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.dialects import completions, responses
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.stats.tools.request import (
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

_DATA: Final = b"data: "
_TEXT_DELTA: Final = "response.output_text.delta"


def is_of_older_vllm(request: MeasuredRequest) -> bool:
    """Return True if a stream has what vLLM's servers sent before the first release whose rule is known.

    Reasoning has been `reasoning` since 0.11, and `reasoning_content` beside it until 0.15 (vllm-project/vllm#27752,
    #33402); Responses had events of another name.
    """
    fields = (b'"reasoning_content":', b'"response.reasoning.delta"')
    return request.decoded is not None and any(sign in request.decoded.data for sign in fields)


def vllm(request: MeasuredRequest) -> Numbers:
    """Measure as vLLM 0.33: content, reasoning and tool calls count; tokens from the last usage beside no output."""
    if request.api == responses.API:
        return _vllm_responses(request)
    return _vllm(request, _has_streamed_output, strips=False)


def vllm_0_32(request: MeasuredRequest) -> Numbers:
    """Measure as vLLM 0.30 to 0.32: every chunk with choices counts; tokens from a chunk without choices.

    It removes the white space around each read, so that a comment can swallow the text after it.
    """
    return _vllm(request, _has_delta, strips=True)


def sglang(request: MeasuredRequest) -> Numbers:
    """Measure as SGLang: text and reasoning count, tool calls do not; the end is the last line, `[DONE]` included."""
    request.check_status()
    at: list[int] = []
    texts: list[str] = []
    tokens, end_ns = request.requested_tokens, None
    for frame in request.frames:
        for line in frame.lines():
            text = line.removeprefix(_DATA)
            end_ns = frame.at_ns[-1]
            if text == b"[DONE]":
                continue
            payload = load(text, place(line))
            counted = completion_tokens(payload)
            tokens = tokens if counted is None else counted
            delta = part(first_choice(payload) or {}, "delta")
            reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
            output = text_of(reasoning) + text_of(delta.get("content") or "")
            if output:
                at += frame.at_ns
                texts.append(output)
    request.check_end()
    if end_ns is None:
        raise ToolError("UnboundLocalError: a body without a line")
    first_ns = at[0] if at else 0
    return {
        "ttft": ms(first_ns),
        "itl": gaps(at),
        "latency": ms(end_ns),
        "output_tokens": tokens,
        "retokenized": request.tokens_of(texts),
        "tpot": per_token(end_ns - first_ns, tokens),
    }


def _vllm(request: MeasuredRequest, is_token_event: Callable[[JsonObject], bool], *, strips: bool) -> Numbers:
    """Measure chat or completions; `is_token_event` tells by its first choice whether a message is one."""
    is_completion = request.api == completions.API
    request.check_status()
    itl: list[float] = []
    texts: list[str] = []
    first_ns: int | None = None
    end_ns, tokens = 0, None
    for at_ns, message in _messages(request, strips=strips):
        text = message.removeprefix(_DATA)
        if message.startswith(b":") or text == b"[DONE]":
            continue
        payload = load(text, place(message))
        choices = payload.get("choices")
        choice = _first_choice_of(choices) if choices else None
        # Completions count empty texts, too: special tokens have such a text.
        if choice is not None and (is_completion or is_token_event(choice)):
            output = choice.get("text") if is_completion else choice["delta"].get("content")
            texts.append(text_of(output or ""))
            itl += gaps(at_ns if first_ns is None else [end_ns, *at_ns])
            first_ns = at_ns[0] if first_ns is None else first_ns
            end_ns = at_ns[-1]
        elif payload.get("usage"):
            tokens = completion_tokens(payload)
    request.check_end()
    if first_ns is None:
        raise ToolError("Never received a valid chunk to calculate TTFT.")
    tokens = tokens or request.tokens_of(texts)
    return {
        "ttft": ms(first_ns),
        "itl": itl,
        "e2el": ms(end_ns),
        "output_tokens": tokens,
        "tpot": per_token(end_ns - first_ns, tokens),
    }


def _vllm_responses(request: MeasuredRequest) -> Numbers:
    request.check_status()
    at: list[int] = []
    texts: list[str] = []
    tokens, is_broken, is_over = None, False, False
    for at_ns, message in _messages(request, strips=False):
        lines = [line for line in message.split(b"\n") if line.startswith(b"data:")]
        data = b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)
        if not data or data == b"[DONE]":
            continue
        payload = load(data, "data line")
        kind = payload.get("type")
        if kind in (_TEXT_DELTA, "response.reasoning_text.delta"):
            at += at_ns
            # Reasoning has times, and no text to count tokens of.
            texts.append(text_of(payload.get("delta") or "") if kind == _TEXT_DELTA else "")
        elif kind in ("response.completed", "response.incomplete"):
            is_over = True
            reported = completion_tokens(part(payload, "response"), request.api)
            tokens = tokens if reported is None else reported
        else:
            is_broken = is_broken or kind in ("error", "response.failed") or bool(payload.get("error"))
    request.check_end()
    if is_broken:
        raise ToolError("error event in the stream")
    if not at:
        raise ToolError("Never received a token delta to calculate TTFT.")
    if not is_over:
        raise ToolError("Stream ended without a terminal event.")
    tokens = tokens or request.tokens_of(texts)
    return {
        "ttft": ms(at[0]),
        "itl": gaps(at),
        "e2el": ms(at[-1]),
        "output_tokens": tokens,
        "tpot": per_token(at[-1] - at[0], tokens),
    }


def _messages(request: MeasuredRequest, *, strips: bool) -> Iterator[tuple[Sequence[int], bytes]]:
    """Yield the messages of vLLM's parser: blocks between blank lines, and complete JSON before a blank line.

    Each has its timestamp; several in a row that differ in one text only become one message with all timestamps.
    """
    if request.decoded is None:
        return
    decoded = request.decoded
    data, ends, runs = decoded.data, decoded.read_ends, dict[int, ItemRun]()
    if strips:
        pieces = [decoded.data[start:end].strip() for start, end in pairwise([0, *decoded.read_ends])]
        data, ends = b"".join(pieces), list(accumulate(map(len, pieces)))
    else:
        runs = {decoded.starts[run.item]: run for run in _whole_runs(request, decoded)}
    start = searched = tries = place = 0
    most_tries = 100  # a hostile body of unfinished events must not take quadratic time
    while place < len(ends):
        end, at_ns = ends[place], [decoded.read_at_ns[place] or 0]
        if (run := runs.get(start)) is not None:
            yield [at or 0 for at in decoded.at_ns[run.items]], data[start : decoded.ends[run.item]].strip()
            start = searched = decoded.ends[run.items.stop - 1]
            tries, place = 0, bisect_left(ends, start)
            continue
        blank = data.find(b"\n\n", max(start, searched - 1), end)
        if blank >= 0:
            message, start, tries = data[start:blank].strip(), blank + 2, 0
            if message:
                yield at_ns, message
            continue
        searched = end
        # vLLM tries after each read; with one JSON object a line, this can succeed only at the end of a line.
        is_tried = tries < most_tries and data.startswith(_DATA, start, end)
        if is_tried and _ends_line(decoded.data, decoded.read_ends[place]):
            tries += 1
            if _is_payload(data[start + len(_DATA) : end].strip()):
                yield at_ns, data[start:end].strip()
                start, tries = end, 0
        place += 1


def _whole_runs(request: MeasuredRequest, decoded: Decoded) -> Iterator[ItemRun]:
    """Yield the runs whose events are one message each: no read ends between the data and the blank line."""
    odd = sorted(end for end in set(decoded.read_ends).difference(decoded.ends) if _ends_line(decoded.data, end))
    for run in request.runs:
        start, end = decoded.starts[run.item], decoded.ends[run.items.stop - 1]
        if decoded.data.endswith(b"\n\n", start, end) and bisect_right(odd, start) == bisect_left(odd, end):
            yield run


def _ends_line(data: bytes, end: int) -> bool:
    """Return True if a line ends with a read that ends here."""
    return data[end : end + 1] in (b"", b"\n", b"\r") or data[max(end - 1, 0) : end] in (b"\n", b"\r")


def _is_payload(text: bytes) -> bool:
    try:
        load_any(b"0" if text == b"[DONE]" else text, "")
    except ToolError:
        return False
    return True


def _first_choice_of(choices: object) -> JsonObject:
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise ToolError("AttributeError: the choice is no object")
    return choices[0]


def _has_streamed_output(choice: JsonObject) -> bool:
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    if any(delta.get(name) for name in ("content", "reasoning", "tool_calls", "function_call")):
        return True
    # A token can decode to an empty text; the opening chunk, which is no token, carries the role.
    return delta.get("content") == "" and "role" not in delta


def _has_delta(choice: JsonObject) -> bool:
    if "delta" not in choice:
        raise ToolError("KeyError: 'delta'")
    if not isinstance(choice["delta"], dict):
        raise ToolError("AttributeError: the delta is no object")
    return True
