"""Sockets, uvicorn, and the end: listens, hands requests to the proxy, drains.

uvicorn (httptools) serves HTTP/1.1. Its protocol is extended by what a recorder on a developer's machine needs and
uvicorn leaves open: a bound on a request's head and on the time it takes, and the raw request target for the guard.
A client that closes its sending side has left: the full close and the half close cannot be told apart in time.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from recorder.errors import CannotListen
from recorder.proxy import Proxy

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048
_REJECTION = b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s\n"


STATUS_LINE.update(
    {code: b"HTTP/1.1 %d \r\n" % code for code in range(600, 1000)}
)  # seen in the field; passed as they came


class _Protocol(HttpToolsProtocol):
    """One client connection.

    Nothing that comes after a whole request may touch the response to it: neither the limits on the next head nor
    a violation of HTTP in it. What is to be said of that is said after the response.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_bytes = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._rejection: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._rejection is not None:
            return  # read on all the same, to see the client leave
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._reject(_HEAD_TOO_LARGE)
        elif self._head_timer is None and self._is_idle():
            self._start_head_timer()  # line ends between requests, which begin no message, have stopped the keep-alive

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if not self._is_answering():
            self._start_head_timer()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_head_timer()
        self.scope["headers"] = list(self.headers)  # what comes later under this list are trailers
        self.scope["extensions"] = {"wiretape": {"target": self.url, "abort": self.transport.abort}}
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self._is_answering():
            return
        if self._rejection is not None:
            self._reject(self._rejection)
        elif self._in_head:
            self._start_head_timer()

    def send_400_response(self, msg: str) -> None:
        self._reject(_BAD_REQUEST)

    def _reject(self, response: bytes) -> None:
        """Send a response that ends the connection, after those that are still to come."""
        self._rejection = response
        self._stop_head_timer()
        if not self._is_answering():
            self.transport.write(response)
            self.transport.close()

    def _is_answering(self) -> bool:
        """Return whether a response is running, or due to a request that has come whole."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        return bool(self.pipeline) or cycle.response_started or not cycle.more_body

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_complete

    def _start_head_timer(self) -> None:
        self._stop_head_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _rejection(status: bytes, reason: bytes) -> bytes:
    return _REJECTION % (status, len(reason) + 1, reason)


_HEAD_TOO_LARGE = _rejection(b"431 Request Header Fields Too Large", b"wiretape: the request's head is too large")
_BAD_REQUEST = _rejection(b"400 Bad Request", b"wiretape: the request is not valid HTTP")


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handling: signals are the command's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """Bind a listening socket; port 0 takes a free one. Raises `CannotListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        reason = error.strerror or str(error)
        raise CannotListen(f"cannot listen on {host}:{port} ({reason}): stop what does, or use --listen :0") from error
    return sock


def base_url(sock: socket.socket) -> str:
    """Give the URL by which clients reach the socket."""
    host, port = sock.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


class Server:
    """Serves a proxy on a socket until it is stopped."""

    def __init__(self, proxy: Proxy, sock: socket.socket, drain_seconds: int) -> None:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # or a client's reset is a line for each write
        self._proxy, self._sock = proxy, sock
        config = uvicorn.Config(
            proxy,
            http=_Protocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=drain_seconds,
        )
        self._server = _Uvicorn(config)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Accept connections from now on."""
        self._tasks = [
            asyncio.create_task(self._server.serve(sockets=[self._sock])),
            asyncio.create_task(self._proxy.watch_stalls()),
        ]
        while not self._server.started:
            if self._tasks[0].done():
                self._tasks[0].result()
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Accept nothing more, let running exchanges end, and cut those that outlast the drain."""
        self._server.should_exit = True
        if self._tasks:
            await asyncio.wait([self._tasks[0]])
            self._tasks[1].cancel()
        for task in list(self._proxy.live):
            task.cancel()
        if self._proxy.live:
            await asyncio.wait(list(self._proxy.live), timeout=2)
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()

    def cut(self) -> None:
        """End a drain at once."""
        self._server.force_exit = True
        for task in list(self._proxy.live):
            task.cancel()
