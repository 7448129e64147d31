"""A blind tunnel: bytes go both ways between a client and the host that it asked for, and nothing is recorded."""

import asyncio
import socket

from recorder.errors import UpstreamError
from recorder.relay.guard import Origin, Refusal
from recorder.relay.server import Client
from recorder.relay.sockets import Socket, connect

_CONNECT_SECONDS = 10.0
_READ_BYTES = 64 << 10


class Tunnel:
    """What answers a `CONNECT`, and takes the connection over. The end of a recorder does not wait for it.

    Where it is answered, `opened` is the client's socket, and what has come on it.
    """

    is_idle = True

    def __init__(self, client: Client, origin: Origin, opened: tuple[Socket, bytes] | None = None) -> None:
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

    # server.Exchange, until there is a connection

    def body_came(self) -> None:
        """There is no body."""

    def request_failed(self, refusal: Refusal) -> None:
        """There is no body."""

    def client_progressed(self) -> None:
        """Of no interest."""

    def client_left(self) -> None:
        """End."""
        self._task.cancel()

    def taker_failed(self, error: Exception) -> None:
        """End."""
        self._task.cancel()

    # server.Takeover, from then on: the connection was detached, so that only its end by the server is told

    def received(self, at: int, data: memoryview) -> None:
        """Of no interest."""

    def progressed(self) -> None:
        """Of no interest."""

    def write_failed(self, error: OSError) -> None:
        """Of no interest."""

    def lost(self, error: Exception | None) -> None:
        """End."""
        self._task.cancel()

    def failed(self, error: Exception) -> None:
        """End."""
        self._task.cancel()


async def _splice(near: socket.socket, early: bytes, far: socket.socket) -> None:
    """Pass bytes on in both directions until both have ended, or one has broken."""
    near_reader, near_writer = await asyncio.open_connection(sock=near, limit=_READ_BYTES)
    far_reader, far_writer = await asyncio.open_connection(sock=far, limit=_READ_BYTES)
    far_writer.write(early)
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pass_on(near_reader, far_writer))
            both.create_task(_pass_on(far_reader, near_writer))
    except* (OSError, RuntimeError):
        pass  # one of them has broken, or is closed: that ends both
    finally:
        near_writer.transport.abort()
        far_writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_READ_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
    await writer.drain()
