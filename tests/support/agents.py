"""A session of an agent over the Messages API, with the provider's cache in its usage."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.sample_tape import begin, end, response
from wiretape.recorder.tape import journal

IDS = tuple(f"5e55{number:012x}" for number in range(1, 8))
MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS = [{"name": name, "description": "d" * 40, "input_schema": {"type": "object"}} for name in ("read_file", "bash")]
CALL = {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "x" * 500}
DIALOGUE: list[dict[str, Any]] = [
    {"role": "user", "content": "Fix it."},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [RESULT]},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Thanks."},
]


def body(count: int, **changed: Any) -> dict[str, Any]:
    """Return a request with the first messages of the dialogue."""
    system = [{"type": "text", "text": "Be an agent.", **MARK}]
    request = {"model": "claude-sonnet-4-5", "max_tokens": 100, "tools": TOOLS, "system": system, "stream": True}
    return request | {"messages": DIALOGUE[:count], "metadata": {"session_id": "run-1"}} | changed


def turn(
    id: str, at: int, body: dict[str, Any], input: int, read: int | None = 0, text: str = "ok", status: int = 200
) -> Iterator[journal.Frame]:
    """Yield the frames of an exchange that starts at a second; `input` are the tokens that no cache had."""
    cached = {} if read is None else {"cache_read_input_tokens": read, "cache_creation_input_tokens": 0}
    usage = {"input_tokens": input, "output_tokens": 1} | cached
    message = {"id": f"msg_{id}", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    sent = b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    parts = [(50, sent if status == 200 else b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}')]
    yield begin(id, at, json.dumps(body).encode(), "/v1/messages")
    yield from response(id, parts, status)
    yield end(id, parts)


def session() -> Iterator[journal.Frame]:
    """Yield the exchanges of `IDS`: a hit, a changed tool, a failure, its repetition, a sub-agent, a count."""
    changed = [TOOLS[0], TOOLS[1] | {"description": "other"}]
    yield from turn(IDS[0], 0, body(1), 2_000)
    yield from turn(IDS[1], 5, body(3), 100, 2_000)
    yield from turn(IDS[2], 9, body(5, tools=changed), 2_200, 0)
    yield from turn(IDS[3], 11, body(5, tools=changed), 0, status=429)
    yield from turn(IDS[4], 13, body(5, tools=changed), 2_200, 0)
    yield from turn(IDS[5], 15, body(0, messages=[{"role": "user", "content": "Look around."}]), 1_900, 1_800)
    counted = json.dumps(body(5)).encode()
    yield begin(IDS[6], 16, counted, "/v1/messages/count_tokens")
    yield from response(IDS[6], [(20, b'{"input_tokens":7}')], type="application/json")
    yield end(IDS[6], [(20, b'{"input_tokens":7}')])
