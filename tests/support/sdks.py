"""Scenes for the official SDKs, and the measures of their exchanges on the tape."""

import json
import sqlite3
from typing import Any

from tests.support.relay import Relay, select, until
from wiretape.recorder.demo.upstream import Scene, answer


async def measured(relay: Relay, name: str) -> sqlite3.Row:
    """Wait for the measures of the exchange under this base URL."""
    statement = "SELECT m.* FROM measures m JOIN exchanges e ON e.no = m.exchange_no WHERE e.path LIKE ?"
    (row,) = await until(lambda: select(relay.tape, statement, f"/{name}/%"))
    return row


def calls(row: sqlite3.Row) -> list[tuple[str, str, Any]]:
    """Return the tool calls on the tape; arguments that never came are an empty object."""
    recorded = json.loads(row["tool_calls"] or "[]")
    return [(call["id"], call["name"], json.loads(call["arguments"] or "{}")) for call in recorded]


def events(*payloads: dict[str, Any], **more: Any) -> Scene:
    """Return a stream of events that bear the name of their type, one read each."""
    return answer(
        [(0.001, f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()) for event in payloads], **more
    )


def plain(payload: Any, status: int = 200) -> Scene:
    body = json.dumps(payload).encode()
    return answer([(0.0, body)], status=status, content_type="application/json", framing="length")


USAGE = {"input_tokens": 43, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 5}
MESSAGE: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
                           "stop_reason": None, "stop_sequence": None, "usage": USAGE}  # fmt: skip


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def inputs(*texts: str) -> list[dict[str, str]]:
    return [{"type": "input_json_delta", "partial_json": text} for text in texts]


BLOCKS = [
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Where "},
        {"type": "thinking_delta", "thinking": "is it?"},
        {"type": "signature_delta", "signature": "EqQB"},
    ),
    *block(1, {"type": "redacted_thinking", "data": "EmwK"}),
    *block(
        2,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Let me "},
        {"type": "text_delta", "text": "see…"},
    ),
    *block(
        3, {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}, *inputs('{"query":', '"é"}')
    ),
    *block(4, {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}),
    *block(5, {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}, *inputs("", '{"at": "Ro', 'me"}')),
    *block(6, {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}, *inputs("")),
]
START = {"type": "message_start", "message": MESSAGE}
END = {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
       "usage": {"input_tokens": 61, "output_tokens": 9, "cache_read_input_tokens": 7}}  # fmt: skip
STOP = {"type": "message_stop"}
