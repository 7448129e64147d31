"""A small tape: one exchange of each kind that a reader must get right, written through the recorder's own store."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.frames import read
from tests.support.wires import WIRES
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.store import Store

MS = 1_000_000
HOSTILE = (
    "=cmd()\n\x1b[2J\x1b]52;c;aGk=\x07\x1b]0;t\x1b\\ \x9b2J [/ [bold]x[/bold] \u202eabc\u2066 \u200b\u2028\u2029 "
    '"q",;| \t\U0001f600e\u0301\U000e0041\x7f'
)
"""ESC, OSC 52, a C1 control, markup, bidi controls, line separators, a formula, quotes, an emoji, a tag character."""

COMPLETE, TOOLS, TRUNCATED, LIMITED, FAILED, ODD, LIVE = (
    "aaaa000000000001", "aaaa000000000002", "b000000000000003", "c000000000000004", "d000000000000005",
    "e000000000000006", "f000000000000007",
)  # fmt: skip


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "r1", "object": "chat.completion.chunk", "model": "gpt-x-2026", "choices": choices, **more}
    return f"data: {json.dumps(chunk)}\n\n".encode()


DONE = b"data: [DONE]\n\n"
USAGE = event(usage={"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9})
TOOL = {"index": 0, "id": "call_1", "function": {"name": "get_weather", "arguments": '{"city":'}}

COMPLETE_READS = [
    (100, event({"role": "assistant", "content": ""})),
    (110, event({"content": "Hel"})),
    (120, b": keep-alive\n\n" + event({"content": "lo"}) + event({"content": ", "})),
    (150, event({"content": "world"})[:20]),
    (170, event({"content": "world"})[20:]),
    (180, event({}, "stop") + USAGE + DONE),
]
TOOLS_READS = [
    (50, event({"reasoning_content": "Think. "})),
    (3050, event({"tool_calls": [TOOL]})),
    (3060, event({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]})),
    (3070, event({}, "tool_calls") + DONE),
]
FAILED_READS = [
    (40, event({"content": "Half an ans"})),
    (60, b'data: {"error":{"message":"overloaded","code":"server_overloaded"}}\n\n'),
]
LIMITED_READS = [(30, b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}')]
ODD_READS = [
    (30, event({"content": HOSTILE}, model=HOSTILE)),
    (35, event({"tool_calls": [{"index": 0, "id": "x", "function": {"name": HOSTILE, "arguments": HOSTILE}}]})),
    (40, f"data: {json.dumps({'error': {'message': HOSTILE, 'code': HOSTILE}})}\n\n".encode()),
]


def begin(id: str, at: int, body: bytes, path: str = "/v1/chat/completions", **labels: str) -> journal.Begin:
    headers = [(b"host", b"api.example.com"), (b"authorization", b"Bearer sk-secret")]
    started, sha256 = f"2026-03-01T12:00:{at:02}.000000Z", hashlib.sha256(body).hexdigest()
    return journal.Begin(
        id=id,
        started_at=started,
        method="POST",
        path=path,
        upstream="https://api.example.com",
        headers=headers,
        body=body,
        body_size=len(body),
        body_sha256=sha256,
        labels=labels,
    )


def response(
    id: str, parts: Sequence[tuple[int, bytes]], status: int = 200, type: str = "text/event-stream"
) -> Iterator[journal.Frame]:
    kind = type if status == 200 else "application/json"
    yield journal.Head(
        id=id,
        status=status,
        headers=[(b"content-type", kind.encode())],
        framing="chunked",
        connected_ns=2 * MS,
        sent_ns=3 * MS,
        headers_ns=20 * MS,
    )
    for seq, (at_ms, data) in enumerate(parts):
        yield read(id, seq, at_ms * MS, at_ms * MS + 50_000, data)


def end(id: str, parts: Sequence[tuple[int, bytes]], by: str = "end", detail: str | None = None) -> journal.End:
    size, last_ns = sum(len(data) for _, data in parts), parts[-1][0] * MS + 1_500_000
    return journal.End(
        id=id, ended_by=by, ended_detail=detail, end_ns=last_ns, connected_ns=2 * MS, sent_ns=3 * MS, bytes=size
    )


def frames() -> Iterator[journal.Frame]:
    request = json.dumps({"model": "gpt-x-mini", "stream": True}).encode()
    endings = [
        (begin(COMPLETE, 1, request, run="a7"), COMPLETE_READS, 200, "end", None),
        (begin(TOOLS, 2, request), TOOLS_READS, 200, "end", None),
        (begin(TRUNCATED, 3, request), COMPLETE_READS[:4], 200, "eof", "closed mid-chunk"),
        (begin(LIMITED, 4, b"\xff\xfe not UTF-8"), LIMITED_READS, 429, "end", None),
        (begin(FAILED, 5, request, "/v1/chat/completions?api-version=1"), FAILED_READS, 200, "end", None),
        (begin(ODD, 6, json.dumps({"model": HOSTILE}).encode(), k=HOSTILE), ODD_READS, 200, "reset", HOSTILE),
    ]
    for opening, parts, status, by, detail in endings:
        yield opening
        yield from response(opening.id, parts, status)
        yield end(opening.id, parts, by, detail)
    yield begin(LIVE, 7, json.dumps({"model": "gpt-x", "stream": True}).encode())
    yield from response(LIVE, COMPLETE_READS[:2])


SESSION = journal.Session(
    "u", "0.1.0", 1, None, "http://127.0.0.1:8377", [("", "https://api.example.com")], "2026-03-01T12:00:00.000000Z"
)


def recorded(path: Path, frames: Sequence[journal.Frame]) -> Path:
    """Make a tape of frames as a relay sends them."""
    with file.writing(path, "a test") as connection:
        store = Store(connection)
        store.begin_session(SESSION)
        store.settle(store.append(frames))
    return path


def wire_frames() -> Iterator[journal.Frame]:
    """Yield an exchange for each of `WIRES`, with the wire's name for a label."""
    for number, (name, wire) in enumerate(WIRES.items()):
        request = {"model": f"m-{name}", "stream": True, "parameters": {"incremental_output": True}}
        opening = begin(f"{number:016x}", number, json.dumps(request).encode(), wire.path, wire=name)
        parts = [(100 + 40 * place, part) for place, part in enumerate(wire.parts)]
        yield opening
        yield from response(opening.id, parts, type=wire.type)
        yield end(opening.id, parts)
