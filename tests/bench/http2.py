"""HTTP/2 by hand for the load of the benchmarks: frames at the cost of a pack, since h2 would be the bottleneck."""

import struct
from collections import deque
from collections.abc import Iterator

import hpack

from tests.bench.channel import Channel

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
_HEADER = struct.Struct(">HBBBI")  # the upper 16 bits of the length, its lowest 8, kind, flags, stream
_INITIAL_WINDOW_SIZE = 4
_DEFAULT_WINDOW, _WINDOW = 65_535, (1 << 31) - 1
_MAX_STREAMS, _STREAMS = 3, 10_000


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return _HEADER.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def frames(received: bytearray) -> Iterator[tuple[int, int, int, bytes]]:
    """Remove the whole frames from a buffer; yield kind, flags, stream and payload of each."""
    at = 0
    try:
        while len(received) >= at + 9:
            high, low, kind, flags, stream = _HEADER.unpack_from(received, at)
            start = at + 9
            end = start + (high << 8 | low)
            if len(received) < end:
                return
            at = end
            yield kind, flags, stream, bytes(received[start:end])
    finally:
        del received[:at]


def literal(name: bytes | int, value: bytes) -> bytes:
    """Return a header field of HPACK: a short name, or the number of a name in the static table, and a short value."""
    return (b"%c" % name if isinstance(name, int) else b"\0%c%s" % (len(name), name)) + b"%c%s" % (len(value), value)


SETTINGS_SENT = frame(
    SETTINGS, 0, 0, struct.pack(">HIHI", _INITIAL_WINDOW_SIZE, _WINDOW, _MAX_STREAMS, _STREAMS)
) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - _DEFAULT_WINDOW))
"""Windows that no run exhausts."""
ACKNOWLEDGED = frame(SETTINGS, ACK, 0)
_HEAD = b"\x88" + literal(b"content-type", b"text/event-stream")
_TRAILERS = literal(b"grpc-status", b"0")


class Stream:
    """A request on a connection, and its response; data that no window admits waits."""

    def __init__(self, connection: "Http2Connection", id: int) -> None:
        self.connection, self.id = connection, id
        self.path = b""
        self.window = connection.initial
        self.waiting = deque[tuple[bytes, bytes]]()

    def head(self) -> bytes:
        """Return the head of a stream's response."""
        return frame(HEADERS, END_HEADERS, self.id, _HEAD)

    def chunk(self, data: bytes) -> bytes:
        """Queue data; return the frames that the windows admit."""
        self.waiting.append((data, b""))
        return self.admitted()

    def last(self, data: bytes) -> bytes:
        """Queue the last data and trailers; return the frames that the windows admit."""
        self.waiting.append((data, frame(HEADERS, END_HEADERS | END_STREAM, self.id, _TRAILERS)))
        return self.admitted()

    def answer(self, data: bytes) -> bytes:
        """Return a whole short response."""
        return self.head() + self.last(data)

    def admitted(self) -> bytes:
        """Return the frames that the windows admit."""
        sent = b""
        while self.waiting and len(self.waiting[0][0]) <= min(self.window, self.connection.window):
            data, behind = self.waiting.popleft()
            self.window -= len(data)
            self.connection.window -= len(data)
            sent += frame(DATA, 0, self.id, data) + behind
            if behind:
                self.connection.streams.pop(self.id, None)
        return sent


class Http2Connection(Channel):
    """The upstream's side of a connection."""

    window = initial = _DEFAULT_WINDOW
    received: bytearray
    streams: dict[int, Stream]
    _is_greeted = False

    def requests(self) -> Iterator[tuple[Stream, bytes]]:
        """Handle the frames received; yield the streams of whole requests, and their paths."""
        if not self._is_greeted and len(self.received) >= len(PREFACE):
            del self.received[: len(PREFACE)]
            self._is_greeted = True
            self._decoder = hpack.Decoder()
            self.streams = {}
            self.write(SETTINGS_SENT)
        if self._is_greeted:
            for kind, flags, id, payload in frames(self.received):
                if kind in (DATA, HEADERS):
                    stream = self._request(kind, flags, id, payload)
                    if flags & END_STREAM:
                        yield stream, stream.path
                else:
                    self._control(kind, flags, id, payload)

    def _request(self, kind: int, flags: int, id: int, payload: bytes) -> Stream:
        if kind == HEADERS:
            stream = self.streams[id] = Stream(self, id)
            start, cut = (1, payload[0]) if flags & 0x8 else (0, 0)
            start += 5 if flags & 0x20 else 0
            fields = self._decoder.decode(payload[start : len(payload) - cut], raw=True)
            stream.path = next(value for name, value in fields if name == b":path")
        return self.streams[id]

    def _control(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            self._settings(payload)
            self.write(ACKNOWLEDGED)
        elif kind == PING and not flags & ACK:
            self.write(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM:
            self.streams.pop(id, None)
        elif kind == WINDOW_UPDATE:
            (more,) = struct.unpack(">I", payload)
            if id == 0:
                self.window += more
            elif id in self.streams:
                self.streams[id].window += more
            self._resume()

    def _settings(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == _INITIAL_WINDOW_SIZE:
                for stream in self.streams.values():
                    stream.window += value - self.initial
                self.initial = value
        self._resume()

    def _resume(self) -> None:
        for stream in list(self.streams.values()):
            if stream.waiting:
                self.write(stream.admitted())
