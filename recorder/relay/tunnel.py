"""A blind tunnel: bytes go both ways between a client and the host that it asked for, and nothing is recorded.

One to this machine waits for its first bytes: Node's `fetch` asks for a tunnel also where it speaks plain HTTP. Where
the client begins with a request of HTTP/1.1, that may be for an API, and the connection is read as any other.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Callable
from typing import Literal

from wiretape.recorder.errors import ProxyRefusal, UpstreamError
from wiretape.recorder.relay.guard import Origin
from wiretape.recorder.relay.responder import Responder, Takeover
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.sockets import Socket, reset_when_taken
from wiretape.recorder.relay.upstream import Transport

HALF_OPEN_SECONDS = 60.0
"""Silence allowed on one side after the other has ended."""
_LINE_BYTES = 8 << 10
"""Size up to which a client's first line may be that of a request."""

ReadOn = Callable[[Socket, socket.socket, socket.socket, bytes], bool]
"""Reads a client's requests; returns False if it does not.

The arguments are the client's connection, the sockets of the client and of the server, and the client's first bytes.
"""


_REQUEST_LINE = re.compile(rb"[A-Z]{1,20} /[^ \r\n]* HTTP/1\.1\r\n")
_PART_OF_LINE = re.compile(rb"[A-Z]{1,20}(?: (?:/[^ \r\n]*(?: H?T?T?P?/?1?\.?1?\r?)?)?)?")


def begins_with_request(data: bytes) -> bool | None:
    """Return True if a client's bytes begin with a request of HTTP/1.1; None if more of them will tell."""
    if _REQUEST_LINE.match(data):
        return True
    is_part = len(data) < _LINE_BYTES and _PART_OF_LINE.fullmatch(data)
    return None if not data or is_part else False


TunnelEnd = Literal["whole", "broken", "handed_over"]


class Tunnel(Responder, Takeover):
    """A blind tunnel: answers a `CONNECT` and takes the connection over. The end of a recorder does not wait for it.

    A refusal by a proxy on the way becomes the answer. `taken_over` is the client's socket with the bytes received on
    it, if the `CONNECT` has been answered already. With `read_on`, the tunnel gives way to a client of HTTP/1.1.
    """

    def __init__(
        self,
        client: Http1Client,
        origin: Origin,
        transport: Transport,
        taken_over: tuple[Socket, bytes] | None = None,
        read_on: ReadOn | None = None,
    ) -> None:
        self._client, self._origin, self._taken_over, self._read_on = client, origin, taken_over, read_on
        self._transport = transport
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            scheme = "http" if self._origin.port == 80 else "https"  # WebSockets without TLS ask for tunnels, too
            far = await self._transport.reach(scheme, self._origin.host, self._origin.port)
        except UpstreamError as error:
            self._refuse(error)
            return
        with contextlib.ExitStack() as sockets:
            sockets.enter_context(far)
            sockets.callback(self._client.close)
            near, early = self._taken_over or self._client.switch(200, b"Connection established", [], self)
            if near.unsent:
                return
            detached = sockets.enter_context(near.detach())
            end = await self._pass_on(near, detached, early, far)
            if end == "handed_over":
                sockets.pop_all()
            elif end == "broken":
                for sock in (detached, far):
                    reset_when_taken(socket.socket(fileno=sock.detach()))

    def _refuse(self, error: UpstreamError) -> None:
        """Answer that there is no connection; as a proxy on the way has answered, or has not."""
        if self._taken_over is not None:
            self._client.close()
        elif error.ended_by in ("eof", "reset", "protocol"):
            self._client.cut()
        else:
            status, reason = (error.status, error.reason) if isinstance(error, ProxyRefusal) else (502, b"")
            text = f"wiretape: {self._origin.authority}: {error}\n".encode()
            self._client.answer(status, text, "text/plain", reason=reason)

    async def _pass_on(self, near: Socket, detached: socket.socket, early: bytes, far: socket.socket) -> TunnelEnd:
        """Pass bytes on until the end; a tunnel is `handed_over` to a client of HTTP/1.1."""
        try:
            if self._read_on is not None:
                early = await _first_bytes(detached, early, far)
                if begins_with_request(early) and self._read_on(near, detached, far, early):
                    return "handed_over"
            return "whole" if await _splice(detached, early, far) else "broken"
        except OSError:  # the client broke before it sent anything
            return "broken"

    # methods of responder.Responder, until there is a connection

    def client_left(self) -> None:
        self._task.cancel()

    def taker_failed(self, error: Exception) -> None:
        self._task.cancel()

    # responder.Takeover, from then on: the connection was detached, so that the server reports only its end

    def lost(self, error: Exception | None) -> None:
        self._task.cancel()

    def failed(self, error: Exception) -> None:
        self._task.cancel()


class _TunnelDirection:
    """One direction of the tunnel, after the bytes that came `early`; `passed` counts its reads."""

    def __init__(self, source: socket.socket, target: socket.socket, early: bytes = b"") -> None:
        self._source, self._target, self._early = source, target, early
        self.passed = 0

    async def run(self) -> bool:
        """Pass bytes on; return True if they ended in good order.

        A read comes after all bytes before it are written, and straight from the socket: the streams of asyncio drop
        their buffers on a reset, and those of uvloop take one that comes with data for an end in good order.
        """
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._target, self._early)
            while data := await loop.sock_recv(self._source, 64 << 10):
                await loop.sock_sendall(self._target, data)
                self.passed += 1
            self._target.shutdown(socket.SHUT_WR)
        except OSError:  # one side has broken
            return False
        return True


async def _first_bytes(near: socket.socket, data_received: bytes, far: socket.socket) -> bytes:
    """Return the client's first bytes once they identify a protocol, or once the server sends bytes or closes.

    Raises OSError if the client breaks.
    """
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    for sock in (near, far):
        loop.add_reader(sock, readable.set)
    try:
        with contextlib.suppress(BlockingIOError):  # it is the server that can be read
            while begins_with_request(data_received) is None:
                await readable.wait()
                readable.clear()
                data = near.recv(_LINE_BYTES)
                if not data:
                    break
                data_received += data
    finally:
        loop.remove_reader(near)
        loop.remove_reader(far)
    return data_received


async def _splice(near: socket.socket, early: bytes, far: socket.socket) -> bool:
    """Pass bytes on in both directions until both have ended, or one has broken; return False if one has.

    A full close looks like a half close: after one side has ended, the other may not be silent for ever.
    """
    directions = _TunnelDirection(near, far, early), _TunnelDirection(far, near)
    tasks = [asyncio.create_task(direction.run()) for direction in directions]
    try:
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        passed = -1
        while pending and all(task.result() for task in done) and passed < sum(side.passed for side in directions):
            passed = sum(side.passed for side in directions)
            done, pending = await asyncio.wait(pending, timeout=HALF_OPEN_SECONDS)
        return all(task.result() for task in done)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # they leave the event loop before the sockets close
