"""Plain streams of chat: those whose events are of a few kinds, in a few runs. Pure.

Nearly all answers are: a chunk with the role, chunks with one text each, one with the finish reason, one with the
usage, and `[DONE]`. Which chunks came, and when, is then known without the body: so programs that measure as other
tools do need not decode it. A stream is plain only if no such program could tell it from one made of `PAYLOADS`: an
event has one line, `data: ` and its JSON, with the keys below and no others, and no read ends between the two ends of
its lines, where some parsers look for a whole event.
"""

import functools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from wiretape.recorder.decode import payloads
from wiretape.recorder.decode.decoder import EVENT, Decoded
from wiretape.recorder.decode.dialect import Chunk
from wiretape.recorder.decode.dialects import chat
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.values import JsonObject

ROLE, CONTENT, REASONING, REASONING_CONTENT = "role", "content", "reasoning", "reasoning_content"
CALL, ARGUMENTS, FINISH, USAGE, DONE = "call", "arguments", "finish", "usage", "done"


def _payload(delta: JsonObject, finish: str | None = None) -> JsonObject:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice]}


PAYLOADS: Final[dict[str, JsonObject]] = {
    ROLE: _payload({"role": "assistant", "content": ""}),
    CONTENT: _payload({"content": "x"}),
    REASONING: _payload({"reasoning": "x"}),
    REASONING_CONTENT: _payload({"reasoning_content": "x"}),
    CALL: _payload({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "x", "arguments": ""}}]}),
    ARGUMENTS: _payload({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}),
    FINISH: _payload({}, "stop"),
    USAGE: {"object": "chat.completion.chunk", "choices": []},
}
"""A payload of each kind but `DONE`; that with usage lacks the usage."""

OUTPUTS: Final = frozenset({CONTENT, REASONING, REASONING_CONTENT, CALL, ARGUMENTS})
"""The kinds of output chunks: their times follow from `ttft_ns` and `icl`."""

_ENVELOPE: Final = frozenset({
    "id", "object", "created", "model", "system_fingerprint", "service_tier", "obfuscation", "choices", "usage",
})  # fmt: skip
_OF_CHOICE: Final = frozenset({"index", "delta", "finish_reason", "logprobs", "stop_reason"})
_TEXTS: Final = (CONTENT, REASONING, REASONING_CONTENT)
_HEAD, _BLANK, _DONE = b"data: ", b"\n\n", b"data: [DONE]\n\n"
_LINE_ENDS: Final = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""Characters of JSON strings (NEL, U+2028, U+2029) at which programs with Python's `str.splitlines` end a line."""


def event_runs(exchange: Exchange, decoded: Decoded) -> list[list[Any]] | None:
    """Return the runs of a plain stream's events: the kind, the count, and the time of one without output.

    None for any other stream.
    """
    if decoded.api != chat.API or decoded.declared is not None or exchange.gap_bytes or not _is_regular(decoded):
        return None
    runs = list[list[Any]]()
    runs_by_item = {run.item: run for run in decoded.runs}
    has_content = has_text = False
    item = 0
    while item < len(decoded.kinds):
        run = runs_by_item.get(item)
        block = decoded.data[decoded.starts[item] : decoded.ends[item]]
        kind = _kind(block, run.chunk.output) if run is not None else DONE if block == _DONE else None
        # The events of a run have the same bytes around their texts: searching all of them takes far longer.
        if (
            kind is None
            or _has_line_end(block)
            or (run is not None and _has_line_end("".join(run.texts).encode("utf-8", "replace")))
            or (runs and runs[-1][0] == DONE != kind)  # some tools read no further
        ):
            return None
        count = 1 if run is None else len(run)
        if kind == CONTENT and run is not None:
            has_content = True
            texts = run.texts if run.part is not None else [piece.content for piece in run.chunk.pieces]
            has_text = has_text or not "".join(texts).isspace()
        if kind not in OUTPUTS:
            runs += ([kind, 1, decoded.at_ns[at]] for at in range(item, item + count))
        elif runs and runs[-1][0] == kind:
            runs[-1][1] += count
        else:
            runs.append([kind, count, None])
        item += count
    # Some tools take a text of blanks for none, and only one usage is that of the measures.
    is_plain = has_text or not has_content
    return runs if is_plain and sum(kind == USAGE for kind, _, _ in runs) <= 1 else None


def _has_line_end(data: bytes) -> bool:
    return not data.isascii() and any(end in data for end in _LINE_ENDS)


def _is_regular(decoded: Decoded) -> bool:
    """Return True if a body is nothing but events, each in whole lines that a read brought as a whole or cut within."""
    data, starts, ends = decoded.data, decoded.starts, decoded.ends
    if decoded.framing != "sse" or not decoded.whole or None in decoded.at_ns or set(decoded.kinds) != {EVENT}:
        return False
    if starts[0] or starts[1:] != ends[:-1] or ends[-1] != len(data) or b"\r" in data:
        return False
    cuts = () if decoded.read_ends == ends else set(decoded.read_ends).difference(ends)
    return not any(b"\n" in data[end - 1 : end + 1] for end in cuts)


def _kind(block: bytes, is_output: bool) -> str | None:
    """Return the kind of an event with a payload, None if it has none."""
    if not (block.startswith(_HEAD) and block.endswith(_BLANK)) or b"\n" in block[: -len(_BLANK)]:
        return None
    try:
        payload = msgspec.json.decode(block[len(_HEAD) :])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(payload, dict) or payload.get("object") != "chat.completion.chunk" or payload.keys() - _ENVELOPE:
        return None
    choices, usage = payload.get("choices"), payload.get("usage")
    if choices == []:
        # The measures have no other values than these: numbers of a column, and texts that can be shown.
        return USAGE if isinstance(usage, dict) and usage and Cleaner().value(usage) == usage else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict) or usage is not None:
        return None
    kind = _kind_of_choice(choices[0], b'"reasoning_content":' in block)
    return kind if (kind in OUTPUTS) == is_output else None


def _kind_of_choice(choice: JsonObject, has_reasoning_content: bool) -> str | None:
    """Return the kind of a chunk with this choice; `has_reasoning_content` says so of its bytes."""
    delta, reason = choice.get("delta"), choice.get("finish_reason")
    if choice.keys() - _OF_CHOICE or choice.get("index") != 0 or not isinstance(delta, dict):
        return None
    if has_reasoning_content != isinstance(delta.get(REASONING_CONTENT), str):
        return None
    delta = {name: value for name, value in delta.items() if value is not None}
    if reason is not None:
        return FINISH if isinstance(reason, str) and reason and not delta else None
    role, calls = delta.pop("role", None), delta.pop("tool_calls", None)
    if calls is not None:
        return _kind_of_calls(calls) if delta in ({}, {CONTENT: ""}) else None
    texts = [name for name, text in delta.items() if text != ""]
    if delta.keys() - set(_TEXTS) or not all(isinstance(text, str) for text in delta.values()):
        return None
    if not texts:
        return ROLE if isinstance(role, str) and role and delta.keys() <= {CONTENT} else None
    # A role makes some tools count a chunk that they would not count without it, and an empty text likewise.
    is_certain = role is None and delta.keys() <= {CONTENT, REASONING} if texts[0] == REASONING else len(delta) == 1
    return texts[0] if len(texts) == 1 and is_certain else None


def _kind_of_calls(calls: Any) -> str | None:
    """Return the kind of a chunk with tool calls: it has to have one, with its index."""
    if not isinstance(calls, list) or len(calls) != 1 or not isinstance(calls[0], dict):
        return None
    function = calls[0].get("function")
    if not isinstance(calls[0].get("index"), int) or not isinstance(function, dict):
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str | None) or not isinstance(arguments, str | None):
        return None
    return CALL if name else ARGUMENTS if arguments else None


def stream(runs: Sequence[Sequence[Any]], usage: JsonObject | None, at_ns: Sequence[int]) -> Decoded | None:
    """Return the stream of `PAYLOADS` with these runs; `at_ns` are the times of its output chunks, `usage` its usage.

    None if they do not belong together, as those of a damaged tape.
    """
    if not {kind for kind, _, _ in runs} <= {DONE, *PAYLOADS} or not all(count > 0 for _, count, _ in runs):
        return None
    if sum(count for kind, count, _ in runs if kind in OUTPUTS) != len(at_ns):
        return None
    decoded = Decoded(b"", "sse", api=chat.API)
    # The equal events of a run stand in the body once, in one read.
    parts, ends, times, output = list[bytes](), list[int](), list[int](), 0
    for kind, count, single_ns in runs:
        block, chunk = _event(kind)
        if kind == USAGE and chunk is not None:
            block = _HEAD + msgspec.json.encode(PAYLOADS[USAGE] | {"usage": usage}) + _BLANK
            chunk = replace(chunk, usage=usage)
        item, start = len(times), ends[-1] if ends else 0
        if kind in OUTPUTS:
            times += at_ns[output : output + count]
            output += count
        elif count == 1 and single_ns is not None:
            times.append(single_ns)
        else:
            return None
        parts.append(block)
        ends.append(start + len(block))
        decoded.starts += [start] * count
        decoded.ends += ends[-1:] * count
        if chunk is None:
            decoded.done_item = item
        else:
            decoded.runs.append(ItemRun(chunk, CONTENT if count > 1 else None, ["x"] * count, item))
    decoded.data, decoded.kinds = b"".join(parts), bytearray((EVENT,)) * len(times)
    decoded.at_ns, decoded.reads = times, range(len(times))
    decoded.read_ends, decoded.read_at_ns = ends, [decoded.at_ns[bisect_left(decoded.ends, end)] for end in ends]
    return decoded


@functools.cache
def _event(kind: str) -> tuple[bytes, Chunk | None]:
    """Return an event of a kind, and its chunk, if it has one."""
    if kind == DONE:
        return _DONE, None
    data = msgspec.json.encode(PAYLOADS[kind])
    return _HEAD + data + _BLANK, payloads.read(data.decode())
