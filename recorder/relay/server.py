"""Sockets, uvicorn, and the end: listens, hands requests to the proxy, drains.

uvicorn (httptools) serves HTTP/1.1. Its protocol is extended by what a recorder on a developer's machine needs and
uvicorn leaves open: a bound on a request's head and on the time it takes, and the raw request target for the guard.
A client that closes its sending side has left: the full close and the half close cannot be told apart in time.
"""

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from recorder.errors import CannotListen
from recorder.plurals import counted
from recorder.relay import local
from recorder.relay.guard import Refusal
from recorder.relay.proxy import Proxy

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048
_RESERVED_DESCRIPTORS = 8
"""For the refused, for another writer, and for temporary files."""
_ACCEPTED_AT_ONCE = 100
_ACCEPT_AGAIN_SECONDS = 0.2
_REFUSED_KEPT = 3
_REFUSED_SECONDS = 1.0
_REFUSED_HEADERS = b"retry-after: 1\r\nx-wiretape-error: local\r\n"
_TELL_SECONDS = 10.0
_REJECTION = b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\nconnection: close\r\n%scontent-length: %d\r\n\r\n%s\n"


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
        """What came of a head, or of trailers, in reads that held nothing else."""
        self._is_shared = False
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
        self._is_shared = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._head_bytes = 0 if self._is_shared else self._head_bytes + len(data)
        if self._head_bytes > HEAD_BYTES:
            self._reject(_HEAD_TOO_LARGE)
        elif not self._in_head and self._head_timer is None and self._is_idle():
            self._start_head_timer()  # line ends between requests, which begin no message, have stopped the keep-alive

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if not self._is_answering():
            self._start_head_timer()

    def on_headers_complete(self) -> None:
        self._in_head, self._is_shared = False, True
        self._stop_head_timer()
        self.scope["headers"] = list(self.headers)  # what comes later under this list are trailers
        self.scope["extensions"] = {"wiretape": {"target": self.url, "abort": self.transport.abort}}
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._is_shared = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_shared = True
        super().on_message_complete()

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


def _rejection(status: bytes, reason: bytes, headers: bytes = b"") -> bytes:
    return _REJECTION % (status, headers, len(reason) + 1, reason)


_HEAD_TOO_LARGE = _rejection(b"431 Request Header Fields Too Large", b"wiretape: head or trailers are too large")
_BAD_REQUEST = _rejection(b"400 Bad Request", b"wiretape: the request is not valid HTTP")


class _Listener:
    """Accepts connections as long as there are file descriptors for them and for what they cause.

    The event loops' own servers close what they have no descriptor for without a word to anybody.
    """

    def __init__(self, sock: socket.socket, server: uvicorn.Server, on_refused: Callable[[Refusal], None]) -> None:
        self._sock, self._server, self._on_refused = sock, server, on_refused
        self._loop = asyncio.get_running_loop()
        self._limit = max((local.free_descriptors() - _RESERVED_DESCRIPTORS) // 2, 1)
        self._opening: set[asyncio.Task[Any]] = set()
        self._refused: deque[socket.socket] = deque()
        self._untold = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        sock.setblocking(False)
        self._resume()

    def _resume(self) -> None:
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # not tried again at once: it would fail again
                self._loop.remove_reader(self._sock)
                self._timers["resume"] = self._loop.call_later(_ACCEPT_AGAIN_SECONDS, self._resume)
                self._tell()
                return
            if len(self._server.server_state.connections) + len(self._opening) < self._limit:
                self._open(connection)
            else:
                self._refuse(connection)

    def _open(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # a client that has left already is no news
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each read is passed on at once
        task = self._loop.create_task(self._serve(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()

    def _protocol(self) -> asyncio.Protocol:
        state = self._server.lifespan.state
        return _Protocol(config=self._server.config, server_state=self._server.server_state, app_state=state)

    def _refuse(self, connection: socket.socket) -> None:
        """Answer, and close a little later: a close on unread bytes would keep the client from the answer."""
        message = f"wiretape: {local.no_descriptors()}".encode()
        with contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(_rejection(b"503 Service Unavailable", message, _REFUSED_HEADERS))
            connection.shutdown(socket.SHUT_WR)
        self._refused.append(connection)
        while len(self._refused) > _REFUSED_KEPT:
            self._close_refused()
        self._loop.call_later(_REFUSED_SECONDS, self._close_refused)
        self._tell()

    def _close_refused(self) -> None:
        if self._refused:
            connection = self._refused.popleft()
            with contextlib.suppress(OSError):
                connection.recv(HEAD_BYTES)
            connection.close()

    def _tell(self) -> None:
        """Report at once, and then how many more there were, now and then."""
        self._untold += 1
        if "tell" not in self._timers:
            self._tell_now()

    def _tell_now(self) -> None:
        self._timers.pop("tell", None)
        if self._untold:
            count = counted(self._untold, "connection")
            self._on_refused(Refusal(503, f"{count}: {local.no_descriptors()}"))
            self._untold = 0
            self._timers["tell"] = self._loop.call_later(_TELL_SECONDS, self._tell_now)

    def close(self) -> None:
        """Accept nothing more."""
        self._tell_now()
        self._loop.remove_reader(self._sock)
        for timer in self._timers.values():
            timer.cancel()
        while self._refused:
            self._close_refused()

    async def wait_closed(self) -> None:
        """Wait until no connection is being opened."""
        if self._opening:
            await asyncio.wait(self._opening)


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handling, which is the command's, and with a listener of ours."""

    on_refused: Callable[[Refusal], None]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        listeners: list[Any] = [_Listener(sock, self, self.on_refused) for sock in sockets or ()]
        self.servers = listeners


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
    """Return the URL by which clients reach the socket."""
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
        self._server.on_refused = proxy.on_refused
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
        serving, watching = self._tasks
        await asyncio.wait([serving])
        watching.cancel()
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
