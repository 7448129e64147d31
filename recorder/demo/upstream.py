"""A scripted upstream: plays (delay, bytes) to each client. For the demo, the tests and the documentation.

It is a bare HTTP/1.1 server, so that it can also be a broken one: it may end a response early, reset the connection, or
fall silent. It logs the bytes and times of its sends, and whether its peer left.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import httptools

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.relay import local

End = Literal["end", "fin", "reset", "stall"]
"""`end`: as framed, connection kept; `fin`: close; `reset`: TCP reset; `stall`: silence until the peer leaves."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One response: pieces of raw bytes, each after a delay in seconds, and its `end`."""

    pieces: Sequence[tuple[float, bytes]]
    end: End = "end"


@dataclass(slots=True)
class ReceivedRequest:
    """A request received, and the log of its scene."""

    method: str = ""
    target: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    peer_left_ns: int | None = None
    complete: bool = False


def answer(
    body: Sequence[tuple[float, bytes]],
    *,
    status: int = 200,
    content_type: str = "text/event-stream",
    framing: Literal["chunked", "length", "close"] = "chunked",
    headers: Sequence[tuple[str, str]] = (),
    end: End = "end",
    delay: float = 0.0,
) -> Scene:
    """Return a scene of a response body's pieces: its head goes out after `delay`, in a piece of its own."""
    lines = [f"HTTP/1.1 {status} Scripted", f"content-type: {content_type}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif framing == "length":
        lines.append(f"content-length: {sum(len(data) for _, data in body)}")
    pieces = [(delay, "\r\n".join([*lines, "\r\n"]).encode("latin-1"))]
    pieces += [(wait, b"%x\r\n%s\r\n" % (len(data), data) if framing == "chunked" else data) for wait, data in body]
    if framing == "chunked" and end == "end":
        pieces.append((0.0, b"0\r\n\r\n"))
    return Scene(pieces, "fin" if framing == "close" and end == "end" else end)


class _Callbacks:
    def __init__(self, request: ReceivedRequest) -> None:
        self._request = request

    def on_url(self, url: bytes) -> None:
        self._request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._request.body += body

    def on_message_complete(self) -> None:
        self._request.complete = True


class ScriptedUpstream:
    """Serves on a free loopback port; `choose` gives each request its scene. Use as `async with`."""

    def __init__(self, choose: Callable[[ReceivedRequest], Scene], tls: ssl.SSLContext | None = None) -> None:
        self._choose, self._tls = choose, tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self.url = ""

    async def __aenter__(self) -> "ScriptedUpstream":
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        except OSError as error:
            raise local.cannot_listen("127.0.0.1", 0, error) from error
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, httptools.HttpParserError):
            pass  # the peer left in the middle of a scene: that is noted there; or it sent something else than HTTP
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = ReceivedRequest()
        parser = httptools.HttpRequestParser(_Callbacks(request))
        while not request.complete:
            data = await reader.read(65536)
            if not data:
                return False
            with contextlib.suppress(httptools.HttpParserUpgrade):  # the scene decides whether it gets one
                parser.feed_data(data)
        request.method = parser.get_method().decode()
        self.requests.append(request)
        scene = self._choose(request)
        watcher = asyncio.create_task(_watch_peer(reader, request))
        try:
            await _play(scene, request, writer)
            if scene.end == "stall":
                await watcher
        except ConnectionError:
            request.peer_left_ns = request.peer_left_ns or SYSTEM.now()  # a write may notice it before the watcher
            raise
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        if scene.end == "reset":
            sock = writer.get_extra_info("socket")  # lingering for 0 s makes its close a reset
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return scene.end == "end"


async def _play(scene: Scene, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    """Send each piece at its own absolute moment, so that delays do not add up late."""
    due = SYSTEM.now()
    for delay, data in scene.pieces:
        due += int(delay * 1e9)
        wait = (due - SYSTEM.now()) / 1e9
        if wait > 0:
            await asyncio.sleep(wait)
        if writer.is_closing():
            raise ConnectionResetError
        request.sent.append((SYSTEM.now(), data))
        writer.write(data)
        await writer.drain()


async def _watch_peer(reader: asyncio.StreamReader, request: ReceivedRequest) -> None:
    """Record that the peer has left."""
    try:
        while await reader.read(65536):
            pass
    except ConnectionError:
        pass  # a reset is a way of leaving
    request.peer_left_ns = SYSTEM.now()
