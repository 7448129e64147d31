"""Pure: HTTP/2 frames in a stream of socket reads (RFC 9113, 4.1 and 6).

`h2` hands out a DATA frame only once all of it has come. Here each part of one is a frame of its own, so that every
byte has the timestamp of its read and is relayed at once.
"""

import re
import struct
from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client (RFC 9113, 3.4)."""
FRAME_BYTES = 16384
"""Limit of a frame's payload that HTTP/2 has unless a peer allows more."""
HEAD_BYTES = 9
END_STREAM = ACK = 0x1
PADDED = 0x8
_PRIORITY = 0x20
_SIZE_UPDATES = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]{0,4}[\x00-\x7f]){3}")
"""More changes of the table's size than a block begins with: the smallest and the last (RFC 7541, 4.2).

HPACK has no limit, and each takes as long as a field.
"""
_LARGEST_STREAM = 0x7FFFFFFF
_GOAWAY = struct.Struct(">II")


class Kind(IntEnum):
    """The type of a frame; those of later standards are mere numbers."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Error(IntEnum):
    """The codes of errors in frames that `h2` does not see (RFC 9113, 7)."""

    FRAME_SIZE = 0x6
    COMPRESSION = 0x9
    ENHANCE_YOUR_CALM = 0xB


class BadFrame(Exception):
    """A frame breaks HTTP/2 by its size or its cost."""

    def __init__(self, code: Error, message: str) -> None:
        super().__init__(message)
        self.code = code


class Frame(NamedTuple):
    """A frame, or a part of a DATA frame: its bytes are those of a whole frame. The preface is a frame of no kind."""

    kind: int | None
    flags: int
    stream: int
    data: bytes

    @property
    def payload(self) -> bytes:
        return self.data[HEAD_BYTES:]


class GoAway(NamedTuple):
    """The announcement that a connection ends: streams after `last_stream` are not processed."""

    last_stream: int
    code: int
    debug: bytes

    @property
    def is_graceful(self) -> bool:
        """True if it only announces the end: the last stream is still to be named."""
        return self.last_stream == _LARGEST_STREAM


class FrameReader:
    """Splits the reads of one side of a connection into frames; a client's begin with the preface."""

    def __init__(self, *, has_preface: bool) -> None:
        self._data, self._position = b"", 0
        self._needs_preface = has_preface
        self._remaining_bytes = self._flags = self._stream = 0
        """The remainder of a DATA frame in bytes, its flags and its stream."""
        self._block_size, self._block_start = 0, b""
        """The number of HPACK bytes received of a head or trailers, and the first of them."""

    def feed(self, data: memoryview) -> None:
        """Add a read."""
        unread = self._data[self._position :]
        self._data, self._position = unread + bytes(data) if unread else bytes(data), 0

    def next(self) -> Frame | None:
        """Return the next frame, or None until more comes. Raises `BadFrame`."""
        data, at = self._data, self._position
        if self._needs_preface:
            return self._preface()
        if self._remaining_bytes:
            return self._part(data[at : at + self._remaining_bytes]) if at < len(data) else None
        body = at + HEAD_BYTES
        if len(data) < body:
            return None
        size = int.from_bytes(data[at : at + 3])
        if size > FRAME_BYTES:
            raise BadFrame(Error.FRAME_SIZE, f"a frame of {size} bytes, where {FRAME_BYTES} are allowed")
        kind, flags = data[at + 3], data[at + 4]
        stream = int.from_bytes(data[at + 5 : body]) & _LARGEST_STREAM
        if body + size <= len(data):
            self._position = body + size
            if kind in (Kind.HEADERS, Kind.CONTINUATION):
                self._check_block(kind, flags, data[body : body + size])
            return Frame(kind, flags, stream, data[at : body + size])
        if kind != Kind.DATA or flags & PADDED or len(data) == body:
            return None
        self._remaining_bytes, self._flags, self._stream, self._position = size, flags, stream, body
        return self._part(data[body:])

    def _check_block(self, kind: int, flags: int, payload: bytes) -> None:
        """Check a head or trailers, which HPACK decodes at their end, at one go. Raises `BadFrame`."""
        if kind == Kind.HEADERS:
            self._block_size, self._block_start = 0, b""
            payload = payload[bool(flags & PADDED) + 5 * bool(flags & _PRIORITY) :]
        self._block_size += len(payload)
        if self._block_size > 64 << 10:
            raise BadFrame(Error.ENHANCE_YOUR_CALM, f"a head or trailers of more than {64 << 10} bytes in HPACK")
        if len(self._block_start) < 18:  # three changes of six bytes each
            self._block_start += payload[:18]
            if _SIZE_UPDATES.match(self._block_start):
                raise BadFrame(Error.COMPRESSION, "a head changes the size of HPACK's table more than twice")

    def _preface(self) -> Frame | None:
        if len(self._data) < len(PREFACE):
            return None
        self._needs_preface, self._position = False, len(PREFACE)
        return Frame(None, 0, 0, self._data[: len(PREFACE)])

    def _part(self, part: bytes) -> Frame:
        """Return a part of a DATA frame as a frame of its own, which ends the stream if it is the last."""
        self._position += len(part)
        self._remaining_bytes -= len(part)
        flags = self._flags if not self._remaining_bytes else self._flags & ~END_STREAM
        return Frame(Kind.DATA, flags, self._stream, frame(Kind.DATA, flags, self._stream, part))


_FRAME_HEAD = struct.Struct(">HBBBI")
"""The length in two parts, the kind, the flags and the stream."""


def frame(kind: Kind, flags: int, stream: int, payload: bytes | memoryview) -> bytes:
    return b"".join((_FRAME_HEAD.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream), payload))


def parse_goaway(payload: bytes) -> GoAway:
    """Parse the payload of a GOAWAY frame. Raises `BadFrame` if it is too short."""
    if len(payload) < _GOAWAY.size:
        raise BadFrame(Error.FRAME_SIZE, f"a GOAWAY frame of {len(payload)} bytes")
    last_stream, code = _GOAWAY.unpack_from(payload)
    return GoAway(last_stream & _LARGEST_STREAM, code, payload[_GOAWAY.size :])


def goaway(announced: GoAway) -> bytes:
    return frame(Kind.GOAWAY, 0, 0, _GOAWAY.pack(announced.last_stream, announced.code) + announced.debug)


_SETTING = struct.Struct(">HI")


def with_settings(received: Frame, codes: Collection[int]) -> Frame:
    """Return a SETTINGS frame with the last value of each of some settings alone: `h2` would keep all of them."""
    payload = received.payload
    if received.flags & ACK or len(payload) % _SETTING.size:
        return received
    values = {code: value for code, value in _SETTING.iter_unpack(payload) if code in codes}
    if len(values) * _SETTING.size == len(payload):
        return received
    settings = b"".join(_SETTING.pack(code, value) for code, value in values.items())
    return received._replace(data=frame(Kind.SETTINGS, received.flags, received.stream, settings))
