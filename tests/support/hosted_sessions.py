"""Sessions of hosted agents as they are on a tape: streams and requests at given times, of both APIs' events."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests.support.frames import AT, begin
from tests.support.sample_tape import recorded
from wiretape.recorder.clock import Clock, wall_ns
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.exchange import Exchange, Headers, Read, Reads
from wiretape.recorder.decode.hosted import SessionExchange
from wiretape.recorder.tape import journal

MS = 1_000_000
Event = dict[str, Any]


def sse(event: Event) -> bytes:
    """Return an event as both APIs send it."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


@dataclass
class Sent:
    """An exchange of a session: its T0, its events or its answer with their times since the session's start, in ms."""

    id: str
    at: float
    path: str
    parts: Sequence[tuple[float, bytes]] = ()
    method: str = "POST"
    body: Any = None
    end: float | None = None
    status: int = 200
    ended_by: Any = "end"
    kind: str = "application/json"
    headers: Sequence[tuple[str, str]] = field(default_factory=list)

    @property
    def end_ns(self) -> int:
        """T0 → the end."""
        last = max([self.at, *(at for at, _ in self.parts)]) if self.end is None else self.end
        return round((last - self.at) * MS)

    @property
    def reads(self) -> list[Read]:
        sizes = [len(data) for _, data in self.parts]
        starts = accumulate(sizes, initial=0)
        times = [round((at - self.at) * MS) for at, _ in self.parts]
        return [Read(*values) for values in zip(range(len(sizes)), times, times, starts, sizes, strict=False)]

    @property
    def sent_body(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()

    def exchange(self) -> SessionExchange:
        """Return it as the tape has it."""
        started_ns = (wall_ns(AT) or 0) + round(self.at * MS)
        exchange = Exchange(
            method=self.method, path=self.path, upstream="https://api.test", started_at=Clock().wall(started_ns),
            boot_ns=round(self.at * MS) + 5 * MS, status=self.status, content_type=self.kind, framing="chunked",
            clock="kernel", ended_by=self.ended_by, end_ns=self.end_ns, headers_ns=MS,
            headers=Headers((), (("content-type", self.kind),)), request=self.sent_body,
        )  # fmt: skip
        data = b"".join(data for _, data in self.parts)
        return SessionExchange(self.id, exchange, Reads.of(self.reads), data, RecordedRequest([], self.sent_body))

    def frames(self) -> Iterator[journal.Frame]:
        """Yield its frames."""
        started_ns = (wall_ns(AT) or 0) + round(self.at * MS)
        headers = [(name.encode(), value.encode()) for name, value in self.headers]
        yield begin(
            self.id, started_at=Clock().wall(started_ns), boot_ns=round(self.at * MS) + 5 * MS, path=self.path,
            method=self.method, body=self.sent_body, headers=headers,
        )  # fmt: skip
        yield journal.Head(
            self.id, status=self.status, headers=[(b"content-type", self.kind.encode())], framing="chunked",
            clock="kernel", headers_ns=MS,
        )  # fmt: skip
        for read, (_, data) in zip(self.reads, self.parts, strict=True):
            run = journal.ReadRun(self.id, read.seq, [read.at_ns], [read.at_ns], [read.size])
            yield journal.SocketReads([run], data)
        size = sum(len(data) for _, data in self.parts)
        yield journal.End(self.id, end_ns=self.end_ns, ended_by=self.ended_by, bytes=size)


def stream(id: str, at: float, events: Sequence[tuple[float, Event]], path: str, **more: Any) -> Sent:
    """Return a stream that a GET opens."""
    parts = [(event_at, sse(event)) for event_at, event in events]
    return Sent(id, at, path, parts, **{"method": "GET", "kind": "text/event-stream", **more})


def session_tape(path: Path, *exchanges: Sent, settled: Sequence[str] | None = None) -> Path:
    """Record exchanges in the order of their starts; they are settled as they end, or in the order of some ids."""
    starts = sorted(exchanges, key=lambda exchange: exchange.at)
    frames = {exchange.id: [*exchange.frames()] for exchange in starts}
    order = settled or [one.id for one in sorted(starts, key=lambda exchange: exchange.at + exchange.end_ns / MS)]
    before_ends = [frame for id in frames for frame in frames[id][:-1]]
    return recorded(path, [*before_ends, *(frames[id][-1] for id in order)])


# Claude's Managed Agents

CLAUDE = "/v1/sessions/sesn_1"
CLAUDE_STREAM = f"{CLAUDE}/events/stream?event_deltas%5B%5D=agent.message"


def claude(type: str, id: str = "", **fields: Any) -> Event:
    return {"type": type, **({"id": id} if id else {}), **fields}


def running(id: str) -> Event:
    return claude("session.status_running", id, processed_at=AT)


def idle(id: str, reason: str = "end_turn", **more: Any) -> Event:
    return claude("session.status_idle", id, processed_at=AT, stop_reason={"type": reason, **more})


def start_of(message: str) -> Event:
    return claude("event_start", event={"type": "agent.message", "id": message})


def delta(message: str, text: str, index: int = 0) -> Event:
    content = {"type": "text", "text": text}
    return claude("event_delta", event_id=message, delta={"type": "content_delta", "index": index, "content": content})


def message(id: str, text: str) -> Event:
    return claude("agent.message", id, content=[{"type": "text", "text": text}], processed_at=AT)


def model_end(id: str, input: int, output: int, read: int = 0, write: int = 0) -> Event:
    usage = {"input_tokens": input, "output_tokens": output, "cache_read_input_tokens": read,
             "cache_creation_input_tokens": write, "speed": "standard"}  # fmt: skip
    return claude("span.model_request_end", id, model_request_start_id=f"{id}s", is_error=False, model_usage=usage)


def posted(id: str, at: float, *events: Event, path: str = f"{CLAUDE}/events", ids: Sequence[str] = (), took: float = 5,
           **more: Any) -> Sent:  # fmt: skip
    """Return a request with events, whose answer gives them these ids."""
    stored = [{**event, "id": name, "processed_at": None} for event, name in zip(events, ids, strict=False)]
    answer = json.dumps({"data": stored}).encode()
    return Sent(id, at, path, [(at + took, answer)], body={"events": list(events)}, **more)


def said(text: str) -> Event:
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


def echo(id: str, text: str, processed: bool = True) -> Event:
    return {**said(text), "id": id, "processed_at": AT if processed else None}


def worked_example() -> list[Sent]:
    """Return the session of two turns whose second one is continued on another stream."""
    first = [
        (140, running("r1")), (250, start_of("m1")), (290, delta("m1", "Hel")), (335, delta("m1", "lo")),
        (380, message("m1", "Hello")), (398, idle("i1")), (1040, running("r2")), (1190, delta("m2", "Ye")),
    ]  # fmt: skip
    second = [(1600, message("m2", "Yes.")), (1620, idle("i2"))]
    return [
        stream("aaaa00000000000a", 0, first, CLAUDE_STREAM, end=1210, ended_by="reset"),
        posted("bbbb00000000000b", 100, said("Hi")),
        posted("cccc00000000000c", 998, said("Sure?")),
        stream("dddd00000000000d", 1500, second, CLAUDE_STREAM, end=1700),
    ]
