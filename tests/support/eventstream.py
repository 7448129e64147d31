"""Messages of `application/vnd.amazon.eventstream`, written as AWS's specification describes them."""

import json
import struct
from typing import Any
from zlib import crc32


def header(name: str, kind: int, value: bytes) -> bytes:
    """Return one header; `value` is written as it is, so it begins with its length where the type has one."""
    return bytes((len(name),)) + name.encode() + bytes((kind,)) + value


def string(name: str, value: str) -> bytes:
    return header(name, 7, struct.pack(">H", len(value.encode())) + value.encode())


def message(headers: bytes, payload: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    start = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return start + struct.pack(">I", crc32(start))


def event(kind: str, payload: Any, role: str = "event") -> bytes:
    """Return an event with a JSON payload, or with `role` "exception" an exception."""
    headers = string(f":{role}-type", kind) + string(":content-type", "application/json")
    return message(headers + string(":message-type", role), json.dumps(payload, separators=(",", ":")).encode())
