"""The server in front: listens, reads requests, writes responses, and drains at the end.

HTTP/1.1 by `request_reader` over a `Socket`; an `App` handles the requests. A client that closes its sending side has
left: a full close and a half close look the same at first.

The connections to API servers mirror the client's, so that its own pool decides as it would without wiretape:

- They belong to the client's connection that caused them. A request goes over the one that an earlier request left
  open, if it is still silent, else over a new one; no other client's is used.
- They close with the client's: by a reset, if the client has reset its own.
- Where a server closes one between two exchanges, the client's is closed as well, unless another server keeps its own,
  a request has begun to come, or the connection has served none.
- The client's is kept as long as its server promises to keep its own, within limits.
- Where a server closes a kept one on a request, the client's is cut: clients know that race, and many try again. No
  request is sent twice by wiretape.
"""

import asyncio
import contextlib
import http
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from wiretape.recorder.clock import SYSTEM, Clock, KernelTime
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import local
from wiretape.recorder.relay.client import FAULT, LINGER_SECONDS, App, P, R, guarded
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.http2 import UNREAD_BYTES
from wiretape.recorder.relay.http2_server import Http2Client
from wiretape.recorder.relay.http2_upstream import Http2Connection
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.request import Headers, Request
from wiretape.recorder.relay.request_reader import HEAD_BYTES, RequestReader
from wiretape.recorder.relay.responder import Responder, Takeover
from wiretape.recorder.relay.sockets import Ends, Socket, ask_for_times, send_at_once
from wiretape.recorder.relay.states import INBOUND, OUTBOUND, Flow, Inbound, Outbound
from wiretape.recorder.relay.timers import LazyTimer
from wiretape.recorder.relay.upstream import IDLE_CONNECTIONS, Carrier, ConnectionFacts, Http1Connection, Transport

HEAD_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 75.0
KEEP_ALIVE_MOST_SECONDS = 600.0
"""Keep-alive time of a connection without a request, and the maximum if its API server promises a longer one."""
BODY_PAUSE_SECONDS = 30.0
"""Timeout of a pause within a request's body."""
LAST_SECONDS = 60.0
"""Time that an unread last response is kept for a slow client."""
UPLOAD_BYTES = 256 << 10
"""Limit of a request body that waits for upstream, and of the bytes after an upgrade; beyond it the client waits."""
_REASONS = {status.value: status.phrase.encode() for status in http.HTTPStatus}
_HTTP2 = b"PRI"
"""The first bytes of HTTP/2's preface, which begins no request of HTTP/1.1 (RFC 9113, 3.4)."""
_ANSWERED = (Outbound.ASKED, Outbound.ANSWERING, Outbound.LAST)
_ENDING = (Outbound.FLUSHING, Outbound.LINGERING, Outbound.CLOSED)


class Http1Client:
    """One client's connection; `wiretape.recorder.relay.states` has its states.

    Nothing that comes after a whole request may touch the answer to it: neither the limits on the next head nor a
    violation of HTTP in it. Such a refusal follows the answer.
    """

    __slots__ = (
        "__weakref__",
        "_app",
        "_clock",
        "_deadline",
        "_flow",
        "_idle_connections",
        "_is_chunked",
        "_is_reset",
        "_on_closed",
        "_out",
        "_outbound",
        "_reader",
        "_requests",
        "_responder",
        "_socket",
        "_takeover",
        "_timer",
        "keep_seconds",
        "prepared_upstream",
    )  # fmt: skip

    def __init__(self, sock: Socket, app: App, clock: Clock, on_closed: Callable[["Http1Client"], None]) -> None:
        self._socket, self._app, self._clock, self._on_closed = sock, app, clock, on_closed
        self._outbound, self._flow = Outbound.IDLE, Flow.OPEN
        self._reader = RequestReader()
        self._requests = self._reader.requests
        self._responder: Responder | None = None
        self._takeover: Takeover | None = None
        self._is_reset = False
        self.prepared_upstream: Http2Connection | None = None
        """The connection to the API server that mirrors this one, if it speaks HTTP/2 and was opened before it."""
        self._out: list[bytes] = []
        self._is_chunked = False
        self._deadline: int | None = None
        self._timer = LazyTimer(sock.loop)
        self.keep_seconds = KEEP_ALIVE_SECONDS
        """Time that the connection is kept without a request."""
        self._idle_connections = dict[str, Http1Connection]()
        """Idle connections to API servers by their URL; the one used last is the last."""

    def open(self) -> None:
        """Begin to read; at once, for bytes that came with the connection, and are a whole request most of the time."""
        self._socket.start(self, is_read_to_end=True)
        self._socket.look()
        if self._outbound is Outbound.IDLE and self._deadline is None:
            self._set_deadline(HEAD_SECONDS)

    # sockets.Handler

    def received(self, at: int, data: memoryview) -> None:
        """Continue parsing requests."""
        reader = self._reader
        state = reader.state
        if state is Inbound.HEAD or state is Inbound.BODY:
            reader.feed(data)
            self._advance()
        elif state is Inbound.NEW:
            self._open(at, data)
        elif self._takeover is not None:
            self._takeover.received(at, data)
        elif state is Inbound.UPGRADE:
            reader.early += data
            self._regulate()

    def _open(self, at: int, data: memoryview) -> None:
        """Detect HTTP/2 by the first bytes of a connection, and hand it over; else parse them."""
        reader = self._reader
        received, reader.early = reader.early + bytes(data), b""
        if len(received) < len(_HTTP2) and _HTTP2.startswith(received):
            reader.early = received
            return
        if not received.startswith(_HTTP2):
            reader.state = INBOUND[reader.state, "HTTP/1.1"]
            reader.feed(memoryview(received))
            self._advance()
            return
        reader.switch()
        self._outbound = OUTBOUND[self._outbound, "switch"]
        self._deadline = None
        mirrored, self.prepared_upstream = self.prepared_upstream, None
        self._takeover = Http2Client(self, self._socket, self._app, self._clock, mirrored)
        self._takeover.received(at, memoryview(received))

    def progressed(self) -> None:
        """Notify the responder, or close after the last answer."""
        if self._responder is not None:
            self._responder.client_progressed()
        elif self._takeover is not None:
            self._takeover.progressed()
        elif self._outbound is Outbound.FLUSHING and not self._socket.unsent:
            self.close()

    def write_failed(self, error: OSError) -> None:
        """End as if the client had closed the connection: it does not read the answer."""
        if self._takeover is not None:
            self._takeover.write_failed(error)
        else:
            self.lost(error)

    def lost(self, error: Exception | None) -> None:
        """Close, and tell the responder, or the other protocol."""
        responder, takeover = self._release()
        if error is not None:
            for connection in self._idle_connections.values():
                connection.reset()
        self.close()
        if takeover is not None:
            takeover.lost(error)
        elif responder is not None:
            responder.client_left()

    def failed(self, error: Exception) -> None:
        """Report a fault of our own, answer the request if no answer has begun, and close."""
        responder, takeover = self._release()
        try:
            if takeover is not None:
                takeover.failed(error)
            elif responder is not None:
                responder.taker_failed(error)
            else:
                self._app.client_failed(error)
        finally:
            if self._outbound is Outbound.ASKED:
                self.answer(500, FAULT, "text/plain")
            elif self._outbound not in _ENDING:  # else the answer is on its way, and ends the connection
                self.close()

    def guarded(self, call: Callable[P, R]) -> Callable[P, R | None]:
        """Return a callback for the event loop, or another thread's result, whose exceptions fail this connection."""
        return guarded(call, self.failed)

    def _release(self) -> tuple[Responder | None, Takeover | None]:
        released = self._responder, self._takeover
        self._responder = self._takeover = None
        return released

    # requests

    def _advance(self) -> None:
        """Begin the next request if none is being answered, or tell its responder that more of its body came."""
        requests = self._requests
        if self._outbound is not Outbound.IDLE:
            if self._responder is not None:
                self._notify_responder(self._responder, requests[0])
        elif requests and (requests[0].complete or self._reader.rejection is None):
            request = requests[0]
            request.has_news = False
            self._outbound = OUTBOUND[self._outbound, "ask"]
            responder = self._app.serve(self, request)
            if requests and requests[0] is request and self._outbound in _ANSWERED:
                self._responder = responder
        elif (rejection := self._reader.rejection) is not None:
            self._outbound = OUTBOUND[self._outbound, "ask"]
            self._app.client_rejected(rejection)
            self.answer(rejection.status, f"wiretape: {rejection.message}\n".encode(), "text/plain")
        self._regulate()

    def _notify_responder(self, responder: Responder, request: Request) -> None:
        if request.has_news:
            request.has_news = False
            responder.body_came()
        rejection = self._reader.rejection
        if rejection is not None and not request.complete and self._responder is responder:
            responder.request_failed(rejection)

    def hold_body(self, is_held: bool) -> None:
        """Hold the request's body back, or release it."""
        self._flow = Flow.HELD if is_held else Flow.OPEN
        self._regulate()  # also if unchanged: the received part may have been consumed

    def _regulate(self) -> None:
        """Pause a client that sends requests faster than they are answered, or a body faster than upstream takes it."""
        out, requests = self._outbound, self._requests
        if out is Outbound.TAKEN:
            return
        if out in _ENDING:
            self._socket.resume()
            return
        current = requests[0] if requests else None
        is_ahead = len(requests) > 1 or len(self._reader.early) > UPLOAD_BYTES
        if current is not None and not is_ahead:
            pieces = current.pieces
            is_ahead = (self._flow is Flow.HELD and not current.complete) or (
                len(pieces) > 1 and sum(map(len, pieces)) > UPLOAD_BYTES
            )
        if is_ahead:
            self._socket.pause()
            self._deadline = None
            return
        if not self._socket.is_reading:
            self._socket.resume()
        if out is Outbound.ASKED and current is not None and not current.complete:
            self._set_deadline(BODY_PAUSE_SECONDS)
        elif out in _ANSWERED:
            self._deadline = None
        elif out is Outbound.IDLE and self._reader.has_partial_head:
            self._set_deadline(HEAD_SECONDS, only_sooner=True)

    # deadlines

    def _set_deadline(self, seconds: float | None, *, only_sooner: bool = False) -> None:
        """Set the time after which the connection is closed or its timeout reported; None: never.

        There is one timer for all deadlines: it looks at the present one when it fires.
        """
        if seconds is None:
            self._deadline = None
            return
        due = self._clock.now() + int(seconds * 1e9)
        if only_sooner and self._deadline is not None and self._deadline <= due:
            return
        self._deadline = due
        self._timer.set(due, seconds, self._check_deadline)

    def _check_deadline(self) -> None:
        if self._deadline is None or self._outbound is Outbound.CLOSED:
            return
        seconds = (self._deadline - self._clock.now()) / 1e9
        if seconds > 0.001:
            self._timer.set(self._deadline, seconds, self._check_deadline)
            return
        self._deadline = None
        try:
            if self._responder is not None:
                self._responder.request_failed(
                    Refusal(408, f"nothing of the request body came for {BODY_PAUSE_SECONDS:g} s")
                )
            else:
                self.drop()
        except Exception as error:  # noqa: BLE001 - the event loop would only print it
            self.failed(error)

    # answers

    def inform(self, status: int, reason: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Send an informational response before the answer; HTTP/1.0 has none (RFC 9110, 15.2)."""
        if self._socket.unsent <= UNREAD_BYTES and self._requests[0].version != "1.0":
            self._socket.write(b"".join([*_head_lines(status, reason, headers), b"\r\n"]))

    def start(self, status: int, reason: bytes, headers: Headers, *, chunked: bool, closes: bool) -> None:
        """Begin an answer; `closes`: the connection ends with it."""
        if self._outbound is Outbound.CLOSED:
            return
        is_old = self._requests[0].version == "1.0"  # which knows no chunks: the close ends the answer
        is_last = closes or not self._requests[0].keeps or (is_old and chunked)
        chunked = chunked and not is_old
        self._outbound = OUTBOUND[self._outbound, "answer last" if is_last else "answer"]
        self._is_chunked = chunked
        self._deadline = None  # a client may wait with the rest of its request for the end of the answer
        framing = b"transfer-encoding: chunked\r\n" if chunked else b""
        closing = b"connection: close\r\n\r\n" if is_last else b"\r\n"
        self._out.append(b"".join([*_head_lines(status, reason, headers), framing, closing]))

    @property
    def may_switch(self) -> bool:
        """True if the request that is answered now asks for another protocol."""
        return self._reader.state is Inbound.UPGRADE and len(self._requests) == 1

    @property
    def can_switch(self) -> bool:
        """True if the last request asks for another protocol, and has no body that would come first."""
        return self._reader.state is Inbound.UPGRADE

    def switch(self, status: int, reason: bytes, headers: Headers, takeover: Takeover) -> tuple[Socket, bytes]:
        """Answer a request with a head after which the connection speaks another protocol, and hand it to `takeover`.

        Return the socket to write to, and the bytes that the client has already sent in the new protocol.
        """
        early = self._reader.switch()
        self._outbound = OUTBOUND[self._outbound, "switch"]
        self._socket.write(b"".join([*_head_lines(status, reason, headers), b"\r\n"]))
        self._takeover, self._responder, self._deadline = takeover, None, None
        self._close_idle_connections()
        self._socket.resume()
        return self._socket, early

    def hand_over(self, responder: Responder, successor: Responder) -> None:
        """Replace a responder, if its client is still there."""
        if self._responder is responder:
            self._responder = successor

    def replace(self, sock: Socket) -> None:
        """Go on over another socket: the same connection, but secured."""
        self._socket = sock

    def limit(self, seconds: float | None) -> None:
        """End a connection that was taken over unless requests are read again within `seconds`; None: no limit."""
        self._set_deadline(seconds)

    def read_on(self, app: App, early: bytes) -> None:
        """Read requests again after another protocol had the connection, for another app; `early` has come already."""
        self._reader.resume()
        self._outbound = OUTBOUND[self._outbound, "resume"]
        self._app, self._takeover = app, None
        self._set_deadline(HEAD_SECONDS)
        self.received(self._socket.stamp, memoryview(early))

    def add(self, body: bytes) -> None:
        """Go on with an answer's body."""
        self._out.append(_chunk(body) if self._is_chunked else body)

    def pad(self, size: int) -> None:
        """Ignore it: HTTP/1.1 has no padding."""

    def send(self, body: bytes, chunk: bytes = b"") -> bool:
        """Send more of an answer's body, which may be a `chunk`; return True if the kernel took all at once."""
        if self._out:
            self.add(body)
            return self.flush()
        if self._is_chunked:
            return self._socket.write(chunk or _chunk(body))
        return self._socket.write(body)

    def add_unframed(self, data: bytes) -> None:
        """Go on with bytes outside of the answer's framing, as a server sends that breaks HTTP."""
        self._out.append(data)

    def add_end(self, trailers: Headers | None = None) -> None:
        """End an answer's body; trailers, which only HTTP/2 brings, are not sent."""
        if self._is_chunked:
            self._out.append(b"0\r\n\r\n")

    def flush(self) -> bool:
        """Send the bytes that were added; return True if the kernel took all of them at once."""
        if not self._out:
            return not self._socket.unsent
        out = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return self._socket.write(out)

    @property
    def stamp(self) -> int:
        """The timestamp of the last read from the client; the clock's ns."""
        return self._socket.stamp

    @property
    def unsent(self) -> int:
        """Bytes that wait to be taken by the kernel."""
        return self._socket.unsent

    @property
    def written(self) -> int:
        """All bytes that were written to the connection."""
        return self._socket.written

    @property
    def has_ended(self) -> bool:
        """True if the client closed in good order, and so had read all that had reached it."""
        return self._socket.has_ended

    @property
    def reset_code(self) -> int | None:
        """None: there is no such code in HTTP/1.1."""
        return None

    @property
    def connection(self) -> "Http1Client":
        return self

    @property
    def ends(self) -> Ends | None:
        """Both ends of the connection, ours first; None where it is closed, or not over IPv4."""
        return self._socket.ends

    def answer(
        self, status: int, body: bytes, content_type: str, headers: Headers | None = None, reason: bytes = b""
    ) -> None:
        """Send a whole answer of wiretape's own, the connection's last."""
        length = (b"content-length", b"%d" % len(body))
        if not self._requests:  # nothing that came was a request
            self._requests.append(Request("", b"", [], "1.1", keeps=False))
        fields = [(b"content-type", content_type.encode()), length, *(headers or [])]
        self.start(status, reason, fields, chunked=False, closes=True)
        if self._requests[0].method != "HEAD":
            self.add(body)
        self.flush()
        self.finish()

    def finish(self) -> None:
        """End an answer: go on with the next request, or end the connection."""
        self._responder, self._flow = None, Flow.OPEN
        request = self._requests.pop(0)
        if self._outbound is Outbound.CLOSED:
            return
        if self._outbound is Outbound.LAST:
            reader = self._reader
            is_met = reader.state is Inbound.DEAF or not request.complete or self._requests or reader.early
            self._end(linger=bool(is_met))
        elif not request.complete:
            self._end(linger=True)
        else:
            self._outbound = OUTBOUND[self._outbound, "finish"]
            self._set_deadline(self.keep_seconds)
            reader = self._reader
            if reader.state is Inbound.UPGRADE and not self._requests:
                reader.resume()
            if self._requests or reader.rejection is not None or reader.has_partial_head:
                self._advance()
            elif not self._socket.is_reading:
                self._socket.resume()

    def _end(self, *, linger: bool) -> None:
        """End the connection when all is sent."""
        if self._outbound in _ENDING:
            return
        self._reader.deafen()
        if linger:
            self._outbound = OUTBOUND[self._outbound, "linger"]
            self._close_idle_connections()
            self._socket.end()
            self._socket.resume()
            self._set_deadline(LINGER_SECONDS)
        elif self._socket.unsent:
            self._outbound = OUTBOUND[self._outbound, "flush"]
            self._close_idle_connections()
            self._set_deadline(LAST_SECONDS)
        else:
            self.close()

    def cut(self, code: int | None = None) -> None:
        """End the connection in the middle of an answer, when all that came of it is sent."""
        self._responder = None
        self.flush()
        self._end(linger=False)

    def reset(self, code: int | None = None) -> None:
        """End the connection as `cut` does, but by a TCP reset."""
        self._is_reset = True
        self.cut()

    # the connection

    @property
    def is_idle(self) -> bool:
        """True if the connection waits for a request, or for a protocol that is idle."""
        if self._takeover is not None:
            return self._takeover.is_idle
        return self._outbound is Outbound.IDLE and not self._socket.unsent

    def leave(self) -> None:
        """Announce the end to a client whose protocol can say so."""
        if self._takeover is not None:
            self._takeover.leave()

    def reuse(self, upstream: Upstream) -> Http1Connection | None:
        """Return the connection that an earlier exchange left open, if it is still open and silent."""
        connection = self._idle_connections.pop(upstream.url, None)
        if connection is None or connection.is_silent():
            return connection
        connection.close()
        return None

    def connect_at_once(
        self, transport: Transport, upstream: Upstream, facts: ConnectionFacts
    ) -> Http1Connection | None:
        """Return a new connection to a server on this machine; None: `connect` has to."""
        return transport.connect_at_once(upstream, facts)

    async def connect(self, transport: Transport, upstream: Upstream, facts: ConnectionFacts) -> Http1Connection:
        """Return a new connection to an API server. Raises `UpstreamError`."""
        return await transport.connect(upstream, facts)

    def keep(self, carrier: Carrier) -> None:
        """Keep a connection to an API server as long as the client keeps this one, or that server that one."""
        assert isinstance(carrier, Http1Connection)
        if self._outbound not in (Outbound.IDLE, Outbound.ASKED, Outbound.ANSWERING):
            carrier.close()
            return
        carrier.keep()
        self.adopt(carrier)

    def adopt(self, connection: Http1Connection) -> None:
        """Keep an idle connection for the next request to its server."""
        connection.closed_by_peer = self._idle_closed
        self._idle_connections[connection.upstream.url] = connection
        if len(self._idle_connections) > IDLE_CONNECTIONS:
            self._idle_connections.pop(next(iter(self._idle_connections))).close()

    def _idle_closed(self, connection: Http1Connection, error: Exception | None) -> None:
        """End as a server ended a connection between two exchanges, unless another server keeps its own.

        A request that has begun to come stays: it goes over a new connection, instead of being lost with this one. So
        does the first request, for which the connection was opened: a new one has the reason.
        """
        if self._idle_connections.get(connection.upstream.url) is connection:
            del self._idle_connections[connection.upstream.url]
        if self._idle_connections or not self.is_idle or not connection.reused:
            return
        self._socket.look()
        if self._outbound not in _ANSWERED and not self._reader.has_partial_head:
            self._is_reset = error is not None
            self.close()

    def _close_idle_connections(self) -> None:
        for connection in self._idle_connections.values():
            connection.close()
        self._idle_connections.clear()

    def drop(self) -> None:
        """Close the connection for a reason of our own, and report it: the client has not left."""
        responder, takeover = self._release()
        self.close()
        reason = "wiretape closed the connection"
        if takeover is not None:
            takeover.dropped("shutdown", reason)
        elif responder is not None:
            responder.dropped("shutdown", reason)

    def close(self) -> None:
        """Close the connection, and those to API servers that belong to it, at once."""
        if self._outbound is Outbound.CLOSED:
            return
        self._outbound = OUTBOUND[self._outbound, "close"]
        if self._is_reset:
            self._socket.reset()
        self._socket.close()
        self._close_idle_connections()
        if self.prepared_upstream is not None:
            self.prepared_upstream.close()
        self._reader.close()
        self._timer.cancel()
        self._on_closed(self)


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def _head_lines(status: int, reason: bytes, headers: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    line = b"HTTP/1.1 %d %s\r\n" % (status, reason or _REASONS.get(status, b""))
    return [line, *[b"%s: %s\r\n" % pair for pair in headers]]


class _Listener:
    """Accepts connections as long as there are file descriptors for them and for their upstreams.

    The event loops' own servers silently close connections for which they have no descriptor.
    """

    def __init__(
        self,
        sock: socket.socket,
        app: App,
        clock: Clock,
        on_refused: Callable[[Refusal], None],
        kernel_time: KernelTime | None,
    ) -> None:
        self._sock, self._app, self._clock, self._on_refused = sock, app, clock, on_refused
        self._kernel_time = kernel_time
        self._loop = asyncio.get_running_loop()
        # Each client has a connection upstream; eight are left for refusals, a second writer and temporary files.
        self._limit = max((local.free_descriptors() - 8) // 2, 1)
        self.clients: set[Http1Client] = set()
        self.accepted = 0
        self._refused: deque[socket.socket] = deque()
        self._unreported_count = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        sock.setblocking(False)
        try:
            sock.listen(2048)
        except OSError as error:  # another one, which was bound at the same time, listens by now
            host, port = sock.getsockname()[:2]
            raise local.cannot_listen(host, port, error) from error
        self._resume()

    def _resume(self) -> None:
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(4):  # few at once, so that clients are served in the order of their arrival
            try:
                connection, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no immediate retry, which would fail again
                self._loop.remove_reader(self._sock)
                self._timers["resume"] = self._loop.call_later(0.2, self._resume)
                self._note_refusal()
                return
            connection.setblocking(False)
            self.accepted += 1
            if len(self.clients) < self._limit:
                stamped = Socket(connection, self._clock, self._kernel_time, asks=False)
                client = Http1Client(stamped, self._app, self._clock, self.clients.discard)
                self.clients.add(client)
                client.open()
            else:
                self._refuse(connection)

    def _refuse(self, connection: socket.socket) -> None:
        """Answer, and close a little later: a close on unread bytes would keep the client from the answer."""
        reason = f"wiretape: {local.no_descriptors()}\n".encode()
        head = (
            b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nconnection: close\r\nretry-after: 1\r\n"
            b"x-wiretape-error: local\r\ncontent-length: %d\r\n\r\n"
        )
        with contextlib.suppress(OSError):  # the client has left
            connection.send(head % len(reason) + reason)
            connection.shutdown(socket.SHUT_WR)
        self._refused.append(connection)
        while len(self._refused) > 3:  # they take descriptors, too
            self._close_refused()
        self._loop.call_later(1.0, self._close_refused)
        self._note_refusal()

    def _close_refused(self) -> None:
        if self._refused:
            connection = self._refused.popleft()
            with contextlib.suppress(OSError):  # no bytes came, or the client has left
                connection.recv(HEAD_BYTES)
            connection.close()

    def _note_refusal(self) -> None:
        """Report the first refusal at once, and then the number of further ones, at intervals."""
        self._unreported_count += 1
        if "report" not in self._timers:
            self._report_refusals()

    def _report_refusals(self) -> None:
        self._timers.pop("report", None)
        if self._unreported_count:
            count = counted(self._unreported_count, "connection")
            self._on_refused(Refusal(503, f"{count}: {local.no_descriptors()}"))
            self._unreported_count = 0
            self._timers["report"] = self._loop.call_later(10.0, self._report_refusals)

    def close(self) -> None:
        """Accept nothing more."""
        self._report_refusals()
        self._loop.remove_reader(self._sock)
        for timer in self._timers.values():
            timer.cancel()
        while self._refused:
            self._close_refused()
        self._sock.close()


class _ListeningSocket(socket.socket):
    """A listening socket that makes no enumerations of numbers for each connection: that took longer than the rest."""

    def accept(self) -> tuple[socket.socket, tuple[Any, ...]]:
        descriptor, address = self._accept()  # type: ignore[attr-defined] # which `socket.accept` calls, too
        family = socket.AF_INET if len(address) == 2 else socket.AF_INET6
        return socket.socket(family, socket.SOCK_STREAM, 0, descriptor), address


def bound(
    host: str, port: int, *, shares: bool = False, joins: bool = False, option: str = "--listen"
) -> socket.socket:
    """Return a socket that has an address, and refuses connections until a `Server` listens; port 0 is a free one.

    Clients in between see no port, instead of one that does not answer. Raises `CannotListen`.

    A socket that `shares` its port had it alone first, so that nobody else is there; later sockets of the same user
    that have `joins` listen on it as well, and the system spreads connections over all of them. `option` names the
    address.
    """
    sock = None
    try:
        sock = _ListeningSocket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if joins:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        if shares:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        send_at_once(sock)  # as each connection that it accepts
        ask_for_times(sock)  # it exists as long as the recorder, so that no connection is the first
    except OSError as error:
        if sock is not None:
            sock.close()
        raise local.cannot_listen(host, port, error, option) from error
    return sock


def base_url(sock: socket.socket) -> str:
    """Return the URL by which clients reach the socket."""
    host, port = sock.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


class Server:
    """Serves an app on a `bound` socket until it is stopped; with `kernel_time`, reads are stamped by the kernel."""

    def __init__(
        self,
        app: App,
        sock: socket.socket,
        on_refused: Callable[[Refusal], None] = lambda _: None,
        clock: Clock = SYSTEM,
        kernel_time: KernelTime | None = None,
    ) -> None:
        self._listener = _Listener(sock, app, clock, on_refused, kernel_time)

    @property
    def accepted(self) -> int:
        """The number of connections accepted."""
        return self._listener.accepted

    def close(self) -> None:
        """Accept nothing more, and close the connections that wait for a request."""
        self._listener.close()
        for client in list(self._listener.clients):
            client.leave()
        self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that wait for a request."""
        for client in [client for client in self._listener.clients if client.is_idle]:
            client.drop()

    async def wait_closed(self, seconds: float) -> None:
        """Wait until all answers are sent, at most `seconds`; then close all connections."""
        with contextlib.suppress(TimeoutError):  # open connections are closed below
            async with asyncio.timeout(seconds):
                while self._listener.clients:
                    await asyncio.sleep(0.02)
                    self.close_idle()
        for client in list(self._listener.clients):
            client.drop()
