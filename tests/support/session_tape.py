"""The worked example of a session's time as a tape: a stalled turn, a rate limit, a tool; and another session."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.support.sample_tape import DONE, MS, begin, end, event, recorded, response
from wiretape.recorder.tape import journal

KEY, OTHER = "agent-one-7f3a", "agent-two-1b2c"
FIRST, LIMITED, SECOND, ELSEWHERE = "aaaa000000000001", "bbbb000000000002", "cccc000000000003", "dddd000000000004"
_CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
_ASKED = [{"role": "user", "content": "Fix it."}]
_RESULT = [{"role": "assistant", "content": None, "tool_calls": [_CALL]},
           {"role": "tool", "tool_call_id": "call_1", "content": "x = 1"}]  # fmt: skip
_CALLS = event({"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "read", "arguments": "{}"}}]})
_USAGE = event(usage={"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940,
                      "prompt_tokens_details": {"cached_tokens": 600}})  # fmt: skip


def _exchange(
    id: str, at_ms: int, key: str, messages: Sequence[Any], parts: Sequence[tuple[int, bytes]], end_ms: int, **more: Any
) -> Iterator[journal.Frame]:
    body = json.dumps({"model": "gpt-x", "stream": True, "messages": messages, "metadata": {"session_id": key}})
    boot_ns = more.pop("boot_ns", at_ms * MS)
    opening = begin(id, at_ms // 1000, body.encode())
    yield msgspec.structs.replace(opening, boot_ns=boot_ns)
    yield from response(id, parts, **more)
    yield msgspec.structs.replace(end(id, parts), end_ns=end_ms * MS)


def frames(asked: Sequence[Any] = _ASKED) -> Iterator[journal.Frame]:
    """Yield the frames; `asked` are the first messages as the second turn repeats them."""
    words = event({"content": "Hm"})
    yield from _exchange(
        FIRST, 0, KEY, _ASKED, [(400, words), (1400, _CALLS), (1450, event({}, "tool_calls") + DONE)], 1450
    )
    yield from _exchange(
        LIMITED, 3450, KEY, [*asked, *_RESULT], [(50, b'{"error":{"message":"slow down"}}')], 50, status=429
    )
    parts = [(500, words), (700, words), (3700, words), (3900, words + event({}, "stop") + _USAGE + DONE)]
    yield from _exchange(SECOND, 4500, KEY, [*asked, *_RESULT], parts, 3900)
    yield from _exchange(ELSEWHERE, 20_000, OTHER, _ASKED, [(10, words), (20, event({}, "stop") + DONE)], 20)


def session_tape(path: Path, asked: Sequence[Any] = _ASKED) -> Path:
    return recorded(path, list(frames(asked)))
