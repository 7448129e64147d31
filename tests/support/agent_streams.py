"""Streams of hosted agents' sessions: events of both APIs with their times, as bytes and reads of an exchange."""

import json
from typing import Any, NamedTuple

from wiretape.recorder.decode.exchange import Exchange, Read

MS = 1_000_000
CLAUDE = "/v1/sessions/s1/events/stream"
OPENAI = "/v1/agents/sessions/s1/events"


class Event(NamedTuple):
    """An event at a time in ms."""

    at_ms: int
    data: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.data["type"])


def claude(at_ms: int, kind: str, **fields: Any) -> Event:
    """Make an event of Claude's API; its id is of its type and time unless the wire has none."""
    id = {} if kind in ("event_start", "event_delta", "error", "ping") else {"id": f"{kind}-{at_ms}"}
    return Event(at_ms, {"type": kind, **id, "processed_at": "2026-11-28T12:00:00Z", **fields})


def running(at_ms: int) -> Event:
    return claude(at_ms, "session.status_running")


def idle(at_ms: int, reason: str = "end_turn", **more: Any) -> Event:
    return claude(at_ms, "session.status_idle", stop_reason={"type": reason, **more})


def delta(at_ms: int, text: str, message: str = "m1", index: int = 0) -> Event:
    content = {"type": "text", "text": text}
    return claude(
        at_ms, "event_delta", event_id=message, delta={"type": "content_delta", "index": index, "content": content}
    )


def message(at_ms: int, *texts: str, id: str = "m1") -> Event:
    return claude(at_ms, "agent.message", id=id, content=[{"type": "text", "text": text} for text in texts])


def request_end(at_ms: int, **usage: Any) -> Event:
    return claude(
        at_ms, "span.model_request_end", model_request_start_id=f"s{at_ms}", model_usage=usage, is_error=False
    )


def openai(at_ms: int, kind: str, of: str = "t1", **fields: Any) -> Event:
    """Make an event of a turn by OpenAI's API, with its padding."""
    type = kind if kind == "error" or kind.startswith("agent.") else f"agent.session.{kind}"
    told = {"turn_id": of} if ".turn." in type or "output" in type else {}
    more = {"obfuscation": "x" * (at_ms % 7)}
    return Event(at_ms, {"type": type, "event_id": f"e{at_ms}-{kind}", "session_id": "s1", **told, **more, **fields})


def turn(at_ms: int, state: str, id: str = "t1", usage: Any = None, **fields: Any) -> Event:
    status = {"created": "in_progress"}.get(state, state)
    return openai(at_ms, f"turn.{state}", id, turn={"id": id, "status": status, **fields}, usage=usage)


def words(at_ms: int, text: str, item: str = "i1", turn: str = "t1") -> Event:
    place = {"item_id": item, "output_index": 0, "content_index": 0}
    return openai(at_ms, "turn.output_text.delta", turn, delta=text, **place)


def item(at_ms: int, state: str, kind: str, turn: str = "t1", **fields: Any) -> Event:
    return openai(at_ms, f"turn.item.{state}", turn, item={"type": kind, "turn_id": turn, **fields})


def recorded(
    path: str, events: list[Event], ended_by: str | None = "client", **facts: Any
) -> tuple[Exchange, list[Read], bytes]:
    """Return the exchange of a stream in which each event is a read of its own, ended 5 s after the last one."""
    return raw(
        path,
        [(at_ms, f"event: {data['type']}\ndata: {json.dumps(data)}\n\n") for at_ms, data in events],
        ended_by,
        **facts,
    )


def raw(
    path: str, blocks: list[tuple[int, str]], ended_by: str | None = "client", **facts: Any
) -> tuple[Exchange, list[Read], bytes]:
    """Return the exchange of a stream of given blocks, each with its time in ms."""
    body, reads = b"", list[Read]()
    for seq, (at_ms, block) in enumerate(blocks):
        reads.append(Read(seq, at_ms * MS, at_ms * MS, len(body), len(block.encode())))
        body += block.encode()
    end_ns = None if ended_by is None else (blocks[-1][0] + 5_000 if blocks else 5_000) * MS
    usual = {
        "method": "GET",
        "status": 200,
        "content_type": "text/event-stream",
        "framing": "chunked",
        "headers_ns": 2 * MS,
    }
    return Exchange(**{**usual, "path": path, "ended_by": ended_by, "end_ns": end_ns, **facts}), reads, body
