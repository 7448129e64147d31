"""An HTTP/2 client and upstream on the h2 library alone: any frame, any window.

They use nothing of wiretape, so that a second implementation judges the relay.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error
from h2.settings import SettingCodes

from tests.support.relay import SECONDS, Relay, address

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
DEFAULT_WINDOW = 65_535
LARGEST_STREAM = 0x7FFFFFFF
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER = struct.Struct(">HBBBI")  # the upper 16 bits of the length, its lowest 8, kind, flags, stream

Headers = Sequence[tuple[str, str]]
Answering = Callable[["Stream"], Coroutine[Any, Any, None]]


class Ended(Exception):
    """The early end of a stream or of its connection."""


def frame(kind: int, stream: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return the bytes of any frame, valid or not."""
    return _HEADER.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits that a peer advertises, in bytes; `is_manual`: nothing is granted but the first windows and by hand."""

    window: int = DEFAULT_WINDOW
    connection: int = DEFAULT_WINDOW
    frame: int = 16_384
    streams: int = 100
    is_manual: bool = False
    others: Mapping[int, int] = field(default_factory=dict)

    def settings(self) -> dict[SettingCodes | int, int]:
        """Return them as the entries of SETTINGS."""
        return {
            SettingCodes.INITIAL_WINDOW_SIZE: self.window,
            SettingCodes.MAX_FRAME_SIZE: self.frame,
            SettingCodes.MAX_CONCURRENT_STREAMS: self.streams,
            **self.others,
        }


@dataclass(eq=False, slots=True)
class Stream:
    """A stream as one peer sees it, with everything received."""

    peer: "Peer"
    id: int
    head: list[tuple[str, str]] = field(default_factory=list)
    informational: list[list[tuple[str, str]]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    sizes: list[int] = field(default_factory=list)
    """Flow-controlled sizes of the DATA frames: with their padding."""
    trailers: list[tuple[str, str]] | None = None
    is_ended: bool = False
    reset_code: int | None = None
    has_sent_end: bool = False
    sent_reset: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.head)

    @property
    def is_over(self) -> bool:
        """Return True if the other side ended it, or the stream is gone."""
        return self.is_ended or self.is_gone

    @property
    def is_gone(self) -> bool:
        """Return True if a side has reset it, a GOAWAY refused it, or the connection is gone."""
        return self.reset_code is not None or self.sent_reset is not None or self.peer.is_closed or self.is_refused

    @property
    def is_refused(self) -> bool:
        """Return True if the upstream said in a GOAWAY that it will not process the request."""
        goaway = self.peer.goaway
        return goaway is not None and self.id > goaway[1] and self.peer.h2.config.client_side

    @property
    def is_closed(self) -> bool:
        """Return True if both sides ended it, or the stream is gone."""
        return self.is_gone or (self.is_ended and self.has_sent_end)

    async def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> None:
        """Wait for a condition. Raises `Ended` if the stream is gone before it holds."""
        await self.peer.until(lambda: condition() or self.is_gone, seconds)
        if not condition():
            raise Ended(f"stream {self.id}: {self.reset_code}")

    async def over(self, seconds: float = SECONDS) -> "Stream":
        """Wait for the other side's end, or that of the stream."""
        await self.peer.until(lambda: self.is_over, seconds)
        return self

    async def closed(self, seconds: float = SECONDS) -> "Stream":
        """Wait for the ends of both sides, or that of the stream."""
        await self.peer.until(lambda: self.is_closed, seconds)
        return self

    def send_head(self, headers: Headers, *, end: bool = False) -> None:
        """Send a head, or trailers. Raises `Ended` if the stream is gone."""
        self._send(lambda h2: h2.send_headers(self.id, headers, end_stream=end))
        self.has_sent_end |= end

    async def send(
        self, data: bytes = b"", *, padding: int | None = None, end: bool = False, most: int | None = None
    ) -> None:
        """Send data in frames of at most `most` bytes; wait for windows.

        Padding is cut where a window has no room for it. Raises `Ended` if the stream is gone.
        """
        at = 0
        while True:
            wanted = min(len(data) - at, most or len(data))
            if wanted:
                await self.until(self._room)
            size = min(wanted, self._room())
            spare = self._room() - size - 1
            pad = None if padding is None or spare < 0 else min(padding, spare)
            piece, at = data[at : at + size], at + size
            is_last = end and at == len(data)
            self._send(lambda h2: h2.send_data(self.id, piece, is_last, pad))  # noqa: B023 - called at once
            self.has_sent_end |= is_last
            await self.peer.drain()
            if at == len(data):
                return

    def reset(self, code: int) -> None:
        """Send RST_STREAM, unless the stream is over on both sides."""
        with contextlib.suppress(Ended):
            self._send(lambda h2: h2.reset_stream(self.id, code))
            self.sent_reset = code

    def grant(self, size: int) -> None:
        """Enlarge the window of the stream."""
        with contextlib.suppress(Ended):
            self._send(lambda h2: h2.increment_flow_control_window(size, self.id))

    def _room(self) -> int:
        """Return the size of the largest DATA frame that may be sent now."""
        if self.is_gone:
            return 0
        h2 = self.peer.h2
        try:
            return max(0, min(h2.local_flow_control_window(self.id), h2.max_outbound_frame_size))
        except H2Error:  # this side has reset it
            return 0

    def _send(self, act: Callable[[H2Connection], None]) -> None:
        if self.is_gone:
            raise Ended(f"stream {self.id}: {self.reset_code}")
        try:
            act(self.peer.h2)
        except (H2Error, KeyError) as error:
            raise Ended(repr(error)) from error
        self.peer.flush()
        self.peer.wake()


class Peer:
    """One side of a connection, which reads and answers every frame within its `limits`.

    It keeps GOAWAY from h2, which takes no frame after it, not even of the streams that may still end.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits, *, is_client: bool
    ) -> None:
        self.h2 = H2Connection(
            H2Configuration(
                is_client, "latin-1", validate_outbound_headers=False, normalize_outbound_headers=False,
                normalize_inbound_headers=False,
            )
        )  # fmt: skip
        self.limits = limits
        self.streams: dict[int, Stream] = {}
        self.frames: Counter[int] = Counter()
        """Frames received, by kind."""
        self.acks = 0
        """Acknowledgements of SETTINGS and PING among them."""
        self.goaway: tuple[int, int] | None = None
        """Code and last stream of the GOAWAY that came."""
        self.announced: int | None = None
        """Last stream of the GOAWAY sent."""
        self.error = ""
        """The error of h2 or of the socket."""
        self.is_closed = False
        self.opened: Callable[[Stream], None] = lambda stream: None
        self.reading = asyncio.Event()
        """While it is clear, nothing is read from the socket."""
        self.reading.set()
        self._reader, self._writer = reader, writer
        self._changed = asyncio.Event()
        self._unparsed = bytearray()
        self._preface = 0 if is_client else len(PREFACE)

    # To send

    def start(self) -> None:
        """Send the preface and the settings."""
        self.h2.initiate_connection()
        push = {SettingCodes.ENABLE_PUSH: 0} if self.h2.config.client_side else {}
        self.h2.update_settings({**self.limits.settings(), **push})
        if self.limits.connection > DEFAULT_WINDOW:
            self.h2.increment_flow_control_window(self.limits.connection - DEFAULT_WINDOW)
        self.flush()

    def request(self, headers: Headers, *, end: bool = False) -> Stream:
        """Open a stream with these headers."""
        stream = Stream(self, self.h2.get_next_available_stream_id())
        self.streams[stream.id] = stream
        stream.send_head(headers, end=end)
        return stream

    def raw(self, data: bytes) -> None:
        """Send bytes that h2 knows nothing of."""
        if not self.is_closed:
            self._writer.write(data)

    def leave(self, code: int, last: int, debug: bytes = b"") -> None:
        """Send GOAWAY; the connection stays."""
        self.announced = last
        self.raw(frame(GOAWAY, 0, struct.pack(">II", last, code) + debug))

    def grant(self, size: int) -> None:
        """Enlarge the window of the connection."""
        self.h2.increment_flow_control_window(size)
        self.flush()

    def flush(self) -> None:
        """Send what h2 has ready."""
        if (data := self.h2.data_to_send()) and not self.is_closed:
            self._writer.write(data)

    async def drain(self) -> None:
        """Wait for room in the send buffer."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    @property
    def socket(self) -> socket.socket:
        """The socket below."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        return sock

    def close(self) -> None:
        """Close the connection at once."""
        self.reading.set()
        self._end()
        self._writer.transport.abort()

    def end(self) -> None:
        """Close the sending side after the data in the send buffer."""
        self._writer.write_eof()

    def finish(self) -> None:
        """Close the connection after the data in the send buffer."""
        self._writer.close()

    # To receive

    async def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> None:
        """Wait for a condition, which is looked at after every read."""
        async with asyncio.timeout(seconds):
            while not condition():
                await self._changed.wait()

    async def serve(self) -> None:
        """Read until the connection ends."""
        try:
            while data := await self._reader.read(65_536):
                self._received(data)
                self.wake()
                await self.reading.wait()
        except (ConnectionError, ssl.SSLError) as error:
            self.error = self.error or repr(error)
        except H2Error as error:
            self.error = repr(error)
            self.flush()
            self._writer.close()
        finally:
            self._end()

    def _end(self) -> None:
        self.is_closed = True
        self.wake()

    def wake(self) -> None:
        """Check the conditions of all waiters."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _received(self, data: bytes) -> None:
        self._unparsed += data
        if self._preface and len(self._unparsed) >= self._preface:
            self._feed(self._take(self._preface))
            self._preface = 0
        while not self._preface and len(self._unparsed) >= _HEADER.size:
            high, low, kind, flags, _ = _HEADER.unpack_from(self._unparsed)
            size = _HEADER.size + (high << 8 | low)
            if len(self._unparsed) < size:
                break
            self.frames[kind] += 1
            self.acks += kind in (SETTINGS, PING) and flags & ACK
            payload = self._take(size)
            if kind == GOAWAY:
                last_stream, code = struct.unpack_from(">II", payload, _HEADER.size)
                self.goaway = (code, last_stream)
            else:
                self._feed(payload)
        self.flush()

    def _take(self, size: int) -> bytes:
        data_taken = bytes(self._unparsed[:size])
        del self._unparsed[:size]
        return data_taken

    def _feed(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            self._handle(event)

    def _handle(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived(stream_id=id, headers=headers):
                stream = self.streams[id] = Stream(self, id, list(headers))
                self.opened(stream)
            case events.ResponseReceived(stream_id=id, headers=headers):
                self.streams[id].head = list(headers)
            case events.InformationalResponseReceived(stream_id=id, headers=headers):
                self.streams[id].informational.append(list(headers))
            case events.TrailersReceived(stream_id=id, headers=headers):
                self.streams[id].trailers = list(headers)
            case events.DataReceived(stream_id=id, data=data, flow_controlled_length=size):
                self._data(self.streams[id], data, size)
            case events.StreamEnded(stream_id=id):
                self.streams[id].is_ended = True
            case events.StreamReset(stream_id=id, error_code=code, remote_reset=True) if id in self.streams:
                self.streams[id].reset_code = int(code)

    def _data(self, stream: Stream, data: bytes, size: int) -> None:
        stream.body += data
        stream.sizes.append(size)
        if size and not self.limits.is_manual:
            stream.grant(size)
            self.h2.increment_flow_control_window(size)


# The client


@contextlib.asynccontextmanager
async def connect(base: str, limits: Limits = Limits(), tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """Connect to a base URL with prior knowledge, or with ALPN if a context is given."""
    if tls is not None:
        tls.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection(*address(base), ssl=tls)
    peer = Peer(reader, writer, limits, is_client=True)
    peer.start()
    serving = asyncio.create_task(peer.serve())
    try:
        yield peer
    finally:
        peer.close()
        await asyncio.gather(serving, return_exceptions=True)


def ask(path: str, *more: tuple[str, str], method: str = "POST", authority: str = "localhost") -> Headers:
    """Return the headers of a request."""
    return [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path), *more]


# The upstream


class Upstream:
    """A server on a free port, which calls `answer` for each stream, and `greet` for each connection."""

    def __init__(
        self,
        answer: Answering,
        limits: Limits = Limits(),
        tls: ssl.SSLContext | None = None,
        greet: Callable[[Peer], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.peers: list[Peer] = []
        self.limits = limits
        self._answer, self._greet, self._tls = answer, greet, tls
        self._tasks: set[asyncio.Task[None]] = set()
        if tls is not None:
            tls.set_alpn_protocols(["h2"])

    async def __aenter__(self) -> "Upstream":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for peer in self.peers:
            peer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, self.limits, is_client=False)
        peer.opened = lambda stream: self._start(self._act(stream))
        self.peers.append(peer)
        peer.start()
        if self._greet is not None:
            self._start(self._greet(peer))
        await peer.serve()
        writer.transport.abort() if not peer.error else None

    async def _act(self, stream: Stream) -> None:
        with contextlib.suppress(Ended):
            await self._answer(stream)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# The recorder


@contextlib.asynccontextmanager
async def recording(directory: Path, answer: Answering, **more: Any) -> AsyncIterator[tuple[Relay, Upstream, str]]:
    """Record an upstream of HTTP/2 as `/h`; yield the recorder, the upstream, and the base URL for clients."""
    async with Upstream(
        answer, more.pop("limits", Limits()), more.pop("tls", None), more.pop("greet", None)
    ) as upstream:
        relay = Relay(directory, others=[f"h={upstream.url}"], **more)
        await relay.start()
        try:
            yield relay, upstream, relay.base
        finally:
            await relay.stop()
            assert relay.troubles == []
