"""Messages of gRPC, gRPC-Web and Connect, written as their protocols describe them."""

import json
import struct
from typing import Any


def message(payload: bytes | str, flags: int = 0) -> bytes:
    """Return a message with its prefix."""
    data = payload.encode() if isinstance(payload, str) else payload
    return struct.pack(">BI", flags, len(data)) + data


def of_json(payload: Any) -> bytes:
    return message(json.dumps(payload, separators=(",", ":")))


def trailers(text: str) -> bytes:
    """Return the last message of gRPC-Web."""
    return message(text, 0x80)


def end_stream(payload: Any = None) -> bytes:
    """Return the last message of Connect."""
    return message(json.dumps({} if payload is None else payload), 0x02)
