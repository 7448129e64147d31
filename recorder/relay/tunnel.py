"""A blind tunnel: bytes go both ways between a client and the host that it asked for, and nothing is recorded."""

import asyncio
import socket

from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.relay.guard import Origin
from wiretape.recorder.relay.responder import Responder, Takeover
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.sockets import Socket, connect

HALF_OPEN_SECONDS = 60.0
"""Silence allowed on one side after the other has ended."""
_CONNECT_SECONDS = 10.0
_READ_BYTES = 64 << 10


class Tunnel(Responder, Takeover):
    """A blind tunnel: answers a `CONNECT` and takes the connection over. The end of a recorder does not wait for it.

    `opened` is the client's socket with the bytes received on it, if the `CONNECT` has been answered already.
    """

    def __init__(self, client: Http1Client, origin: Origin, opened: tuple[Socket, bytes] | None = None) -> None:
        self._client, self._origin, self._opened = client, origin, opened
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            far = await self._connect()
        except UpstreamError as error:
            if self._opened is None:
                self._client.answer(502, f"wiretape: {self._origin.authority}: {error}\n".encode(), "text/plain")
            else:
                self._client.close()
            return
        with far:
            near, early = self._opened or self._client.switch(200, b"Connection established", [], self)
            try:
                if not near.unsent:
                    with near.detach() as detached:
                        await _splice(detached, early, far)
            finally:
                self._client.close()

    async def _connect(self) -> socket.socket:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await connect(self._origin.host, self._origin.port)
        except TimeoutError as error:
            raise UpstreamError("connect_timeout", f"no connection within {_CONNECT_SECONDS:g} s") from error
        except OSError as error:
            raise UpstreamError("refused", str(error)) from error

    # methods of responder.Responder, until there is a connection

    def client_left(self) -> None:
        """End."""
        self._task.cancel()

    def taker_failed(self, error: Exception) -> None:
        """End."""
        self._task.cancel()

    # responder.Takeover, from then on: the connection was detached, so that the server reports only its end

    def lost(self, error: Exception | None) -> None:
        """End."""
        self._task.cancel()

    def failed(self, error: Exception) -> None:
        """End."""
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
            while data := await loop.sock_recv(self._source, _READ_BYTES):
                await loop.sock_sendall(self._target, data)
                self.passed += 1
            self._target.shutdown(socket.SHUT_WR)
        except OSError:  # one side has broken
            return False
        return True


async def _splice(near: socket.socket, early: bytes, far: socket.socket) -> None:
    """Pass bytes on in both directions until both have ended, or one has broken.

    A full close looks like a half close: after one side has ended, the other may not be silent for ever.
    """
    directions = _TunnelDirection(near, far, early), _TunnelDirection(far, near)
    tasks = [asyncio.create_task(direction.run()) for direction in directions]
    try:
        ended, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        passed = -1
        while running and all(task.result() for task in ended) and passed < sum(one.passed for one in directions):
            passed = sum(one.passed for one in directions)
            ended, running = await asyncio.wait(running, timeout=HALF_OPEN_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # they leave the event loop before the sockets close
