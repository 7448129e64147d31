"""Bytes in, the length-prefixed messages of gRPC, gRPC-Web and Connect out, each with its byte range.

A message is a byte of flags, a length in four bytes (big-endian), and a payload of that length. Flag 0x01 marks a
compressed payload. In gRPC-Web and Connect the last message carries the status of the call and a flag of its own; gRPC
has the status in the trailers of HTTP.
"""

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from wiretape.recorder.decode import encoding

COMPRESSED: Final = 0x01
"""The flag of a compressed payload."""

PREFIX: Final = struct.Struct(">BI")
"""The flags and the length of the payload."""

_LAST: Final = {"grpc-web": (0x80, "trailers"), "connect": (0x02, "end-stream")}
"""The flag and the type of the message that ends a stream, by framings."""

_CONTROLS: Final = re.compile(r"\A\n|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Message(NamedTuple):
    """A message's byte range and flags; the payload follows the prefix. `is_last`: it ends the stream."""

    start: int
    end: int
    flags: int
    is_last: bool

    @property
    def payload(self) -> slice:
        """The byte range of the payload."""
        return slice(self.start + PREFIX.size, self.end)


def messages(data: bytes, framing: str) -> Iterator[Message]:
    """Yield the messages of a body, up to the one that ends the stream. One that the end cuts off is left out."""
    start, size = 0, len(data)
    last_flag, _ = _LAST.get(framing, (0, ""))
    while size - start >= PREFIX.size:
        flags, length = PREFIX.unpack_from(data, start)
        end = start + PREFIX.size + length
        if end > size:
            return
        yield Message(start, end, flags, bool(flags & last_flag))
        if flags & last_flag:
            return
        start = end


def fields(raw: bytes, framing: str, coding: str | None) -> tuple[str, str]:
    """Return the type and the payload of a message, or of its beginning: text verbatim, anything else in hex.

    `coding` is that of compressed payloads.
    """
    last_flag, name = _LAST.get(framing, (0, ""))
    payload = raw[PREFIX.size :]
    content = text(raw, coding)
    return name if raw and raw[0] & last_flag else "message", payload.hex() if content is None else content


def text(raw: bytes, coding: str | None) -> str | None:
    """Return the payload of a message, or of its beginning, decompressed; None if it is no text."""
    payload = raw[PREFIX.size :]
    if raw[:1] and raw[0] & COMPRESSED:
        plain = encoding.plain(coding, payload, (len(payload),))
        if plain.flag is not None or encoding.is_identity(coding) or not plain.data:
            return None
        payload = plain.data
    try:
        decoded = payload.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None
        decoded = payload[: error.start].decode()  # the beginning of a longer text may end within a character
    return None if _CONTROLS.search(decoded) else decoded
