"""Bytes in, the messages of an `application/vnd.amazon.eventstream` body out, each with its byte range.

A message is a total length, a headers length and the CRC-32 of these two (each four bytes, big-endian), then headers, a
payload and the CRC-32 of all that comes before it. Both checksums are verified. If the second is wrong the message is
broken, but its length holds, and the next one is read; if the first is wrong the rest cannot be read.

The event type of a record is the message's `:event-type`. Exceptions and errors have a type with a prefix: `exception:`
and the `:exception-type`, or `error:` and the `:error-code`.
"""

import json
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from zlib import crc32

from wiretape.recorder.decode.framings import Record

EXCEPTION: Final = "exception:"
ERROR: Final = "error:"
"""Prefixes of the types of records that are not events."""

# The limits of AWS's own decoders.
MAX_PAYLOAD: Final = 24 << 20
MAX_HEADERS: Final = 128 << 10

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_OVERHEAD = _PRELUDE.size + _CRC.size
# Sizes of the values of headers by their type: true, false, byte, short, integer, long; then timestamp and UUID.
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_SIZED = frozenset({6, 7})  # byte array and string: two bytes of length, then as many bytes
_STRING = 7


def records(data: bytes) -> Iterator[Record]:
    """Yield the messages of a body. One that the end cuts off is left out; what cannot be read is broken."""
    start, size, view = 0, len(data), memoryview(data)
    while size - start >= _PRELUDE.size:
        total, length = _prelude(data, start)
        if not total:
            yield Record(start, size, *fields(data[start:]), broken=True)
            return
        end = start + total
        if end > size:
            return
        (expected,) = _CRC.unpack_from(data, end - _CRC.size)
        body = start + _PRELUDE.size + length
        names = _names(data[start + _PRELUDE.size : body])
        if names is None or crc32(view[start : end - _CRC.size]) != expected:
            yield Record(start, end, *fields(data[start:end]), broken=True)
        else:
            yield Record(start, end, *_meaning(names, data[body : end - _CRC.size]))
        start = end


def fields(raw: bytes) -> tuple[str, str]:
    """Return the type and the payload of a `raw` message; a broken one may have only a part of them."""
    total, length = _prelude(raw, 0) if len(raw) >= _PRELUDE.size else (0, 0)
    if total != len(raw):
        return "message", raw.decode("utf-8", "replace")
    body = _PRELUDE.size + length
    return _meaning(_names(raw[_PRELUDE.size : body]) or {}, raw[body : total - _CRC.size])


def payload(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the byte range of the payload of the message at `start` to `end`."""
    length = _prelude(data, start)[1] if end - start >= _OVERHEAD else 0
    return min(start + _PRELUDE.size + length, end), max(end - _CRC.size, start)


def sealed(raw: bytes) -> bytes:
    """Return a message with the checksum of its bytes."""
    return raw[: -_CRC.size] + _CRC.pack(crc32(raw[: -_CRC.size]))


def looks_like(data: bytes) -> bool:
    """Return True if a body begins with a message's two lengths and their checksum."""
    return len(data) >= _PRELUDE.size and _prelude(data, 0)[0] > 0


def _prelude(data: bytes, start: int) -> tuple[int, int]:
    """Return the lengths of the message at `start` and of its headers; 0 and 0 if they cannot be trusted."""
    total, length, checksum = _PRELUDE.unpack_from(data, start)
    is_sane = length <= MAX_HEADERS and _OVERHEAD <= total - length <= MAX_PAYLOAD + _OVERHEAD
    return (total, length) if is_sane and crc32(data[start : start + 8]) == checksum else (0, 0)


def _meaning(names: dict[str, str], payload: bytes) -> tuple[str, str]:
    """Return the type and the text of a message; an error's message may stand in a header, it becomes a payload."""
    kind = names.get(":message-type")
    if kind == "exception":
        return EXCEPTION + names.get(":exception-type", ""), payload.decode("utf-8", "replace") or "{}"
    if kind == "error":
        text = payload.decode("utf-8", "replace")
        message = {"message": names[":error-message"]} if ":error-message" in names else {}
        return ERROR + names.get(":error-code", ""), text or json.dumps(message, ensure_ascii=False)
    return names.get(":event-type") or "message", payload.decode("utf-8", "replace")


@lru_cache(maxsize=64)
def _cached_names(headers: bytes) -> dict[str, str] | None:
    return _read_names(headers)


def _names(headers: bytes) -> dict[str, str] | None:
    """Return the headers whose values are strings; None if the headers cannot be read."""
    # Nearly all messages of a stream have the same few headers. The cache of others is limited.
    return _cached_names(headers) if len(headers) <= 512 else _read_names(headers)


def _read_names(headers: bytes) -> dict[str, str] | None:
    names: dict[str, str] = {}
    at, size = 0, len(headers)
    while at < size:
        name_end = at + 1 + headers[at]
        if name_end >= size:
            return None
        kind, start = headers[name_end], name_end + 1
        if kind in _SIZED:
            start += 2
            length = int.from_bytes(headers[start - 2 : start], "big")
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            return None
        name = headers[at + 1 : name_end].decode("utf-8", "replace")
        at = start + length
        if at > size:
            return None
        if kind == _STRING:
            names[name] = headers[start:at].decode("utf-8", "replace")
    return names
