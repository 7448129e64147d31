"""Connections to API servers: each serves one exchange at a time, stamps its reads, and may be kept for the next.

A connection is HTTP/1.1 by `httptools` (llhttp, strict) over a `Socket`. A response's `Taker` gets each read as it
comes, unmerged. A connection is kept only after a clean end, with nothing left over and the whole request sent; a
request is sent exactly once: no retries, no redirects. Endings are only named here;
`wiretape.recorder.decode.exchange` interprets them.
"""

import asyncio
import re
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

import httptools

from wiretape.recorder.clock import SYSTEM, Clock, KernelTime
from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.facts import ClockName, EndedBy, Framing
from wiretape.recorder.relay import guard, local, outward
from wiretape.recorder.relay.outward import OutwardProxy, Proxies
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.request import Headers, Request
from wiretape.recorder.relay.sockets import HAS_KERNEL_TIME, Socket, TlsSocket, connect_at_once
from wiretape.recorder.relay.states import RECEIVING, SENDING, Flow, Receiving, Sending, raise_illegal
from wiretape.recorder.relay.timers import LazyTimer

HEAD_BYTES = 64 << 10
"""Limit of a response head, in bytes; also of trailers and chunk extensions."""
LOOKS = 8
"""Limit of reads from a kept connection before it is used again."""
IDLE_CONNECTIONS = 8
"""Limit of idle connections of HTTP/1.1: of one client's to API servers, or of a client of HTTP/2 to one of them."""
NO_BODY = frozenset({204, 304})
"""The statuses of answers without a body."""
UPGRADE = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
"""The headers by which both sides of HTTP/1.1 change to WebSocket."""
_WAITING, _STREAMING = Receiving.WAITING, Receiving.STREAMING
RUNNING = (_STREAMING, _WAITING)
T = TypeVar("T")


class _ExpectedAnswer(Enum):
    """The answer that a request asks for."""

    BODY = "a head and perhaps a body"
    HEAD = "a head alone"
    SWITCH = "another protocol"


@dataclass(slots=True, eq=False)
class ConnectionFacts:
    """The facts of one exchange that its connection observes, as `wiretape.recorder.facts` has them; None: not yet.

    `t0` is the clock's time from which theirs count.
    """

    t0: int = 0
    connected_ns: int | None = None
    sent_ns: int | None = None
    headers_ns: int | None = None
    connection_reused: bool | None = None
    clock: ClockName | None = None
    clock_error_ns: int | None = None
    protocol: str | None = None


@dataclass(slots=True)
class ResponseHead:
    """A response head as it came; `keeps` says whether the peer keeps the connection after the response."""

    status: int = 0
    reason: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    fields: guard.Named = field(default_factory=dict)
    """The values of the headers that its relaying depends on, as `guard.read_answer` has them."""
    passed: Sequence[tuple[bytes, bytes]] = ()
    """The headers to pass on."""
    framing: Framing | None = None
    keeps: bool = False

    @property
    def is_event_stream(self) -> bool:
        """True if the body is a stream of server-sent events."""
        types = self.fields.get(b"content-type")
        return types is not None and types[-1].startswith(b"text/event-stream")


class Taker(Protocol):
    """The receiver of a response."""

    def informed(self, head: ResponseHead) -> None:
        """Handle an informational response, such as 100 (Continue): another head follows."""

    def response_received(
        self, at: int, head: ResponseHead | None, body: bytes, ends: bool, chunk: bytes = b""
    ) -> None:
        """Handle one read: perhaps the head, body bytes, and the end of the response.

        `chunk`: the body bytes as a chunk of HTTP/1.1, if they came as one.
        """

    def padded(self, size: int) -> None:
        """The read that is handled next came with padding of HTTP/2."""

    def request_progressed(self) -> None:
        """The kernel has taken more of the request."""

    def request_refused(self) -> None:
        """The rest of the request cannot be sent; an answer may still come."""

    def taker_failed(self, error: Exception) -> None:
        """One of the above raised."""

    def switched(self, at: int, head: ResponseHead, early: bytes) -> None:
        """Upstream has switched to the requested protocol; `early` are its first bytes."""


class Switched(Protocol):
    """The owner of a connection that has switched to another protocol."""

    def upstream_received(self, at: int, data: memoryview) -> None:
        """Handle one read."""

    def upstream_progressed(self) -> None:
        """The kernel has taken more of the written bytes."""

    def upstream_lost(self, error: Exception | None, at: int) -> None:
        """The peer closed (None), or the connection broke."""

    def failed(self, error: Exception) -> None:
        """One of the above raised."""


class _Passing:
    """The handler of a socket that speaks another protocol."""

    def __init__(self, sock: Socket, taker: Switched) -> None:
        self._socket, self._taker = sock, taker
        self.received, self.progressed, self.failed = taker.upstream_received, taker.upstream_progressed, taker.failed

    def write_failed(self, error: OSError) -> None:
        """Ignore it: the next read reports the cause."""

    def lost(self, error: Exception | None) -> None:
        self._taker.upstream_lost(error, self._socket.stamp)


class Carrier(ABC):
    """The base of a carrier of exchanges to an API server: a connection of HTTP/1.1, or a stream of HTTP/2.

    `wiretape.recorder.relay.states` has its states. `ended_at` is the timestamp in ns of the response's end,
    `merged_at` that of the last read that may hold several segments. `paused` counts how often the server had to wait,
    `reused` is True if its connection has served an exchange before. `trailers` came after the body.
    `is_remembered` is True if the server's TLS session is stored for the next connection.
    """

    __slots__ = (
        "_active_at", "_clock", "_facts", "_flow", "_limit_ns", "_taker", "_timer",
        "ended_at", "failure", "head", "is_remembered", "merged_at", "paused", "reused", "sending", "state", "trailers",
        "upstream",
    )  # fmt: skip

    protocol = "http/1.1"

    def __init__(self, clock: Clock, upstream: Upstream, loop: asyncio.AbstractEventLoop) -> None:
        self._clock, self.upstream = clock, upstream
        self._taker: Taker | None = None
        self._timer = LazyTimer(loop)
        self._active_at = 0
        self._flow = Flow.OPEN
        self.state, self.sending = Receiving.IDLE, Sending.OPEN
        self.reused = self.is_remembered = False
        # As `begin` sets them: an exchange ends by these also where `begin` has failed.
        self.merged_at = self.paused = 0
        self.trailers: Headers | None = None

    def begin(self, taker: Taker, facts: ConnectionFacts, *, bodiless: bool, switches: bool = False) -> None:
        """Serve one exchange; `bodiless`: its response has no body, even if its head announces one.

        `switches`: it asks for another protocol.
        """
        self.state, self.sending = RECEIVING[self.state, "begin"], Sending.OPEN
        self._taker, self._facts = taker, facts
        facts.protocol = self.protocol
        self._limit_ns = self.ended_at = self.merged_at = self.paused = 0
        self.head = ResponseHead()
        self.trailers = None
        self.failure: UpstreamError | None = None

    @abstractmethod
    def send_head(self, request: Request, target: bytes, headers: Headers, body: bytes | None) -> None:
        """Send a request's head, with its body if that has come whole.

        `headers` are those for the server itself, without the host.
        """

    @abstractmethod
    def send_body(self, piece: bytes, *, is_last: bool, trailers: Sequence[tuple[bytes, bytes]] | None = None) -> None:
        """Send a piece of the request's body; over HTTP/2, trailers may follow the last one."""

    @abstractmethod
    def pad(self, size: int) -> None:
        """Pad the next piece of the request's body, if the protocol has padding."""

    def _sent(self, now: int) -> None:
        self.sending = SENDING[self.sending, "take all"]
        self._facts.sent_ns = now - self._facts.t0

    @property
    @abstractmethod
    def unsent(self) -> int:
        """Bytes of the request that wait to be taken by the kernel."""

    @property
    def tls_session(self) -> ssl.SSLSession | None:
        """The session by which the server offers to resume TLS."""
        return None

    @property
    def is_over(self) -> bool:
        """True after the end of the response."""
        return self.state not in RUNNING

    @property
    def is_half_closed(self) -> bool:
        """True if the response is whole, and the server still takes the request's body."""
        return False

    @abstractmethod
    def is_reusable(self) -> bool:
        """Return True if the carrier itself may serve another exchange after this one."""

    @abstractmethod
    def close(self, code: int | None = None) -> None:
        """End at once; `code` is HTTP/2's reason."""

    def reset(self) -> None:
        """End as `close` does; a connection of HTTP/1.1 by a TCP reset."""
        self.close()

    def _note_clock(self, sock: Socket) -> None:
        """Note the clock of the last read's timestamp, and the largest difference between the clocks."""
        facts = self._facts
        if sock.has_kernel_time:
            facts.clock = "kernel"
            return
        facts.clock = "loop"
        if sock.kernel_time is not None and sock.kernel_time.error_ns:
            facts.clock_error_ns = max(facts.clock_error_ns or 0, sock.kernel_time.error_ns)

    def _fail(self, ended_by: EndedBy, message: str) -> None:
        """Break off, and close."""
        self.state = RECEIVING[self.state, "break"]
        self.failure = UpstreamError(ended_by, message)
        self.close()

    def failed(self, error: Exception) -> None:
        """Report a fault of our own to the exchange, and close."""
        self.close()
        if self._taker is None:
            raise error
        self._taker.taker_failed(error)

    # flow and limits

    def pause(self) -> None:
        """Read nothing until `resume`: upstream has to wait."""
        if self._flow is Flow.OPEN:
            self._flow = Flow.HELD
            self.paused += 1
            self._hold()

    def resume(self) -> None:
        """Read on."""
        if self._flow is Flow.HELD:
            self._flow = Flow.OPEN
            self._active_at = self._clock.now()  # silence while reading was paused is not upstream's
            self._release()

    @abstractmethod
    def _hold(self) -> None: ...

    @abstractmethod
    def _release(self) -> None: ...

    def limit(self, seconds: float | None) -> None:
        """End the exchange after a silence of `seconds`; None: after none."""
        self._limit_ns = 0 if seconds is None else int(seconds * 1e9)
        if seconds is None:
            self._timer.cancel()
            return
        self._active_at = max(self._active_at, self._clock.now())
        self._timer.set(self._active_at + self._limit_ns, seconds, self._check_limit)

    def _check_limit(self) -> None:
        if not self._limit_ns or self.state not in RUNNING or self._taker is None:
            return
        now = self._clock.now()
        due = self._limit_ns + (now if self._flow is Flow.HELD else self._active_at)
        if due - now > 1_000_000:
            self._timer.set(due, (due - now) / 1e9, self._check_limit)
            return
        self.ended_at = now
        seconds = self._limit_ns / 1e9
        if self.state is _STREAMING:
            self._fail("idle_timeout", f"nothing came for {seconds:g} s")
        else:
            self._fail("headers_timeout", f"no answer within {seconds:g} s")
        try:
            self._taker.response_received(self.ended_at, None, b"", True)
        except Exception as error:  # noqa: BLE001 - the event loop would only print it
            self.failed(error)


class Http1Connection(Carrier):
    """One connection of HTTP/1.1, which carries an exchange at a time."""

    __slots__ = (
        "_body", "_expected_answer", "_expected_bytes", "_is_at_chunk", "_is_chunked", "_overhead", "_parser",
        "_received", "_socket", "closed_by_peer", "via",
    )  # fmt: skip

    def __init__(self, sock: Socket, clock: Clock, upstream: Upstream) -> None:
        self._socket = sock
        self._parser: httptools.HttpResponseParser | None = None
        super().__init__(clock, upstream, sock.loop)
        self._body: list[bytes] = []
        self._is_at_chunk = False
        """True if the next byte of the response begins a chunk of its body, or the end."""
        self.closed_by_peer: Callable[[Http1Connection, Exception | None], None] = _ignore_close
        """Called when the peer closes the connection (None), or breaks it, while no exchange is on it."""
        self.via: OutwardProxy | None = None
        """The proxy at the other end, which passes requests for plain HTTP on; None: it is the server, or a tunnel."""

    # an exchange

    def begin(self, taker: Taker, facts: ConnectionFacts, *, bodiless: bool, switches: bool = False) -> None:
        super().begin(taker, facts, bodiless=bodiless, switches=switches)
        self._socket.expect()
        self._expected_answer = (
            _ExpectedAnswer.SWITCH if switches else _ExpectedAnswer.HEAD if bodiless else _ExpectedAnswer.BODY
        )
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
            self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)  # clients take such heads, too
        self._overhead = self._received = 0
        self._is_chunked = False

    def send_head(self, request: Request, target: bytes, headers: Headers, body: bytes | None) -> None:
        authority, spelling = self.upstream.authority, request.spelling
        self._is_chunked = b"transfer-encoding" in spelling and guard.transfer_codings(request.headers) == [b"chunked"]
        if request.stream:  # HTTP/2 delimits the body, and splits cookies
            headers = guard.with_one_cookie(headers)
            if b"content-length" not in spelling and body:
                headers.append((b"content-length", b"%d" % len(body)))
            elif b"content-length" not in spelling and body is None:
                self._is_chunked = True
        headers = [(b"host", authority), *headers]
        if self._is_chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        if self._expected_answer is _ExpectedAnswer.SWITCH:
            headers += UPGRADE
        elif not request.keeps:
            headers.append((b"connection", b"close"))
        if self.via is not None:
            target = b"http://" + authority + target
            headers += self.via.authorization
        spelled = spelling.get
        lines = [b"%s: %s" % (spelled(name, name), value) for name, value in headers]
        head = b"\r\n".join((b"%s %s HTTP/1.1" % (request.method.encode("ascii"), target), *lines, b"\r\n"))
        if body is None:
            self.send(head, is_last=False)
        else:
            self.send(head + (self._framed(body, is_last=True) if self._is_chunked else body), is_last=True)

    def pad(self, size: int) -> None:
        """Ignore it: HTTP/1.1 has no padding."""

    def send_body(self, piece: bytes, *, is_last: bool, trailers: Sequence[tuple[bytes, bytes]] | None = None) -> None:
        framed = self._framed(piece, is_last=is_last)
        if framed or is_last:
            self.send(framed, is_last=is_last)

    def _framed(self, body: bytes, *, is_last: bool) -> bytes:
        if not self._is_chunked:
            return body
        framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return framed + b"0\r\n\r\n" if is_last else framed

    def send(self, data: bytes, *, is_last: bool) -> None:
        """Send a piece of the request."""
        self._active_at = self._clock.now()
        is_taken = self._socket.write(data)
        if is_last and self.sending is Sending.OPEN:
            self.sending = SENDING[self.sending, "give all"]
            if is_taken:
                self._sent(self._clock.now())

    @property
    def tls_session(self) -> ssl.SSLSession | None:
        """The session by which the server offers to resume TLS."""
        return self._socket.session if isinstance(self._socket, TlsSocket) else None

    @property
    def unsent(self) -> int:
        """Bytes of the request that wait to be taken by the kernel."""
        return self._socket.unsent

    @property
    def is_refused(self) -> bool:
        """True if the server took only a part of the request."""
        return self.sending is Sending.REFUSED

    def is_reusable(self) -> bool:
        """Return True if the connection may serve another exchange after this one."""
        return (
            self.state is Receiving.ENDED
            and self.sending is Sending.SENT
            and self.head.keeps
            and not self._socket.is_closed
        )

    def keep(self) -> None:
        """Wait for another exchange."""
        self.state, self.reused = RECEIVING[self.state, "keep"], True
        self._taker = None
        if self._flow is Flow.HELD:
            self.resume()

    def is_silent(self) -> bool:
        """Return True if a kept connection is still open, and nothing came without a request."""
        for _ in range(LOOKS):  # it may have sent records of TLS itself, without data
            if not self._socket.look():
                return not (self._socket.is_closed or self._socket.holds_more)
        return False

    def close(self, code: int | None = None) -> None:
        """Close at once, without a reference that leads back here: it would wait for a garbage collection."""
        self._parser, self.closed_by_peer = None, _ignore_close
        self._timer.cancel()
        self._socket.close()

    def reset(self) -> None:
        self._socket.reset()
        self.close()

    # socket.Handler

    def received(self, at: int, data: memoryview) -> None:
        """Handle a read; one that is a whole chunk is passed on as it came, without parsing it."""
        taker = self._taker
        if self._is_at_chunk and taker is not None:
            chunk = bytes(data)
            start = chunk.find(b"\r\n") + 2
            size = len(chunk) - start - 2
            if size > 0 and chunk.startswith(b"%x\r\n" % size) and chunk.endswith(b"\r\n"):
                self._active_at, self._overhead = at, 0
                if self._facts.clock != "kernel" or not self._socket.has_kernel_time:
                    self._note_clock(self._socket)
                taker.response_received(at, None, chunk[start:-2], False, chunk)
                return
        self._parse(at, data)

    def _parse(self, at: int, data: memoryview) -> None:
        taker, previous = self._taker, self.state
        if taker is None or previous not in RUNNING or self._parser is None:
            # The server sends bytes that belong to no response.
            if taker is None:
                self._leave_idle()
            else:
                self._note_surplus()
                self._socket.close()  # and the bytes are not read
            return
        self._active_at = at
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._switch(taker, at, data, error):
                return
            self._parse_failed(error)
        body = self._take_body(len(data))
        is_over = self.state not in RUNNING
        # Bytes behind a chunk begin the next one: they end in its size, which is reported, or in the middle of a line.
        self._is_at_chunk = self._is_at_chunk and not is_over and bytes(data[-2:]) == b"\r\n"
        if is_over:
            self.ended_at = at
        head = self.head if previous is _WAITING and self._facts.headers_ns is not None else None
        if body or is_over or head:
            self._note_clock(self._socket)
            taker.response_received(at, head, body, is_over)

    def _note_surplus(self) -> None:
        if self.state is Receiving.ENDED:
            self.state = RECEIVING[self.state, "surplus"]

    def _switch(self, taker: Taker, at: int, data: memoryview, error: Exception) -> bool:
        """Hand the connection over if it has switched to the requested protocol; return True if it has."""
        is_switch = self.head.status == 101 and isinstance(error, httptools.HttpParserUpgrade)
        if not is_switch or self._expected_answer is not _ExpectedAnswer.SWITCH or self.state is not _WAITING:
            return False
        self.state = RECEIVING[self.state, "switch"]
        self.head.framing = "websocket"
        self.head.fields, self.head.passed = guard.read_answer(self.head.headers)
        self._facts.headers_ns = at - self._facts.t0
        self._note_clock(self._socket)
        taker.switched(at, self.head, bytes(data[error.args[0] :]))
        return True

    def release(self, taker: Switched) -> Socket:
        """Hand the socket, which has switched to another protocol, to its new owner."""
        self._timer.cancel()
        self._socket.start(_Passing(self._socket, taker))
        return self._socket

    def _take_body(self, size: int) -> bytes:
        """Return the body bytes in a read of `size` bytes; much without any of them is a failure."""
        pieces = self._body
        if pieces:
            if len(pieces) > 1 or self.head.framing != "chunked":
                self.merged_at = self._active_at
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._overhead = 0
            self._received += len(body)
            return body
        self._overhead += size
        if self._overhead > HEAD_BYTES and self.state in RUNNING:
            self._fail("framing" if self.state is _STREAMING else "protocol", "too many bytes without any of the body")
        return b""

    def progressed(self) -> None:
        self._active_at = self._clock.now()
        if self.sending is Sending.GIVEN and not self._socket.unsent:
            self._sent(self._active_at)
        if self._taker is not None:
            self._taker.request_progressed()

    def write_failed(self, error: OSError) -> None:
        self.sending = SENDING[self.sending, "refuse"]
        if self._taker is not None and self.state in RUNNING:
            self._taker.request_refused()

    def lost(self, error: Exception | None) -> None:
        if self._taker is None:
            self._leave_idle(error)
        elif self.state in RUNNING:
            self.ended_at = self._socket.stamp
            self._lost(error)
            self._taker.response_received(self.ended_at, None, b"", True)

    def _leave_idle(self, error: Exception | None = None) -> None:
        report = self.closed_by_peer
        self.close()
        report(self, error)

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self.state is not _WAITING:
            self._note_surplus()  # the answer stays the first one's
        elif self.head.status:  # of an informational response
            self.head = ResponseHead()

    def on_status(self, reason: bytes) -> None:
        if self.state is _WAITING and reason.translate(None, guard.FORBIDDEN) == reason:
            self.head.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.state is not _WAITING:
            return  # a trailer, or of a surplus response
        if value.translate(None, guard.FORBIDDEN) != value:
            raise ValueError("a control character in a header")
        self.head.headers.append((name, value.strip()))

    def on_headers_complete(self) -> None:
        if self.state is not _WAITING:
            return
        assert self._parser is not None
        status = self.head.status = self._parser.get_status_code()
        if status < 100:
            raise ValueError(f"status {status}")
        if status < 200:
            self._overhead = 0  # it is not kept, and a server may send them for as long as it works
            if status != 101 and self._taker is not None:
                self._taker.informed(self.head)
            return
        self._delimit(self._parser.get_http_version())
        self.state = RECEIVING[self.state, "head"]
        self._facts.headers_ns = self._active_at - self._facts.t0
        if self._expected_answer is _ExpectedAnswer.HEAD:
            self.state = RECEIVING[self.state, "end"]
            self._parser = None  # which waits for a body

    def _delimit(self, version: str) -> None:
        fields, self.head.passed = guard.read_answer(self.head.headers)
        self.head.fields = fields
        codings = guard.tokens(fields[b"transfer-encoding"]) if b"transfer-encoding" in fields else []
        length = fields.get(b"content-length")
        if codings not in ([], [b"chunked"], [b"identity"]):
            raise ValueError("a transfer coding that was not asked for (RFC 9112, 6.1)")
        if self._expected_answer is _ExpectedAnswer.HEAD or self.head.status in NO_BODY:
            self.head.framing = "none"
        elif codings == [b"chunked"]:
            self.head.framing = "chunked"
            self._is_at_chunk = True
        elif length:
            self.head.framing = "length"
            self._expected_bytes = int(length[-1])
        else:
            self.head.framing = "close"
        connection = guard.tokens(fields[b"connection"]) if b"connection" in fields else []
        is_kept = b"close" not in connection if version == "1.1" else b"keep-alive" in connection
        self.head.keeps = is_kept and self.head.framing != "close"

    def on_chunk_header(self) -> None:
        self._is_at_chunk = False

    def on_chunk_complete(self) -> None:
        self._is_at_chunk = True

    def on_body(self, body: bytes) -> None:
        if self.state is _STREAMING:
            self._body.append(body)
        elif self.state is _WAITING:
            raise ValueError("a body after an informational response")
        else:
            self._note_surplus()

    def on_message_complete(self) -> None:
        if self.state is _STREAMING:
            self.state = RECEIVING[self.state, "end"]

    # endings

    def _parse_failed(self, error: Exception) -> None:
        raise_illegal(error)
        if self.state not in RUNNING:
            self._note_surplus()
        elif self.head.status == 101 or isinstance(error, httptools.HttpParserUpgrade):
            self._fail("protocol", "upstream switched protocols")
        else:
            cause = error.__context__ or error
            self._fail("framing" if self.state is _STREAMING else "protocol", f"not HTTP: {cause}")

    def _lost(self, error: Exception | None) -> None:
        if error is not None:
            self._fail("reset" if self.state is _STREAMING else lost_by(error), error_text(error))
        elif self.state is _WAITING:
            self._fail("eof", "upstream closed the connection without an answer")
        elif self.head.framing == "close":
            self.state = RECEIVING[self.state, "end"]
        elif self.head.framing == "length":
            self._fail("length", f"upstream closed after {self._received} of {self._expected_bytes} bytes")
        else:
            self._fail("eof", "upstream closed before the end of the chunked body")

    def _hold(self) -> None:
        self._socket.pause()

    def _release(self) -> None:
        self._socket.resume()


def _ignore_close(_connection: Http1Connection, _error: Exception | None) -> None:
    pass


def error_text(error: Exception) -> str:
    """Return an error's own words, or advice on certificates; its type where it has no words, or a number alone.

    Addresses of memory are left out.
    """
    unknown_authority = (18, 19, 20, 21)  # OpenSSL's codes: self-signed, or signed by an unknown authority
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in unknown_authority:
        return f"its certificate is not trusted here ({error.verify_message}): name its authority's by --ca-file"
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if reason.endswith("_ALERT_CERTIFICATE_REQUIRED"):
        return "it asks for a client certificate: name one by --client-cert"
    # Alerts by which a server refuses a client's certificate, or, before TLS 1.3, the lack of one.
    refusals = "_ALERT_HANDSHAKE_FAILURE", "_ALERT_BAD_CERTIFICATE", "_ALERT_UNKNOWN_CA", "_ALERT_ACCESS_DENIED"
    if reason.endswith(refusals):
        return f"it refuses the connection ({error}): if it asks for a client certificate, name one by --client-cert"
    text = re.sub(r"<memory at 0x[0-9a-f]+>", "bytes", str(error))  # hpack quotes its input so
    return f"{type(error).__name__} {text}".rstrip() if not text or text.isdigit() else text


def lost_by(error: Exception | None) -> EndedBy:
    """Return the end of a connection that was lost before its first answer, as `UpstreamError` has it.

    With TLS 1.3, a server refuses a client's certificate, or the lack of one, after the client's handshake.
    """
    return "eof" if error is None else "tls" if isinstance(error, ssl.SSLError) else "reset"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to connect (TLS included), to the response head, and between two reads of the body."""

    connect: float = 10.0
    headers: float = 600.0
    idle: float = 300.0


class Transport:
    """Opens connections to API servers. TLS sessions are resumed where the server offers it."""

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        limits: Timeouts | None = None,
        clock: Clock = SYSTEM,
        proxies: Proxies | None = None,
    ) -> None:
        self._tls = tls or ssl.create_default_context()
        self.limits = limits or Timeouts()
        self.proxies = proxies or Proxies()
        self._clock = clock
        self._kernel_time = KernelTime(clock)
        self.http1_only: set[Upstream] = set()
        """API servers without HTTP/2, as their answers have shown."""
        self.http2: set[Upstream] = set()
        """API servers without TLS that speak HTTP/2."""
        self._sessions: dict[tuple[str, int], ssl.SSLSession] = {}

    @property
    def has_kernel_time(self) -> bool:
        """True if the kernel stamps reads, as far as is known."""
        return HAS_KERNEL_TIME and not self._kernel_time.error_ns

    def report_late_reads(self, on_late: Callable[[int, int], None]) -> None:
        """Call `on_late` for data that have waited to be read, as `KernelTime` does."""
        self._kernel_time.on_late = on_late

    def note_run(self) -> None:
        """Note that the event loop runs: a silence without reads is no delay."""
        self._kernel_time.note_run()

    def ran_before(self, at: int) -> int:
        """Return the last time before `at` at which the event loop is known to have read, as `KernelTime` does."""
        return self._kernel_time.ran_before(at) if self.has_kernel_time else at

    async def connect(self, upstream: Upstream, facts: ConnectionFacts, *, switches: bool = False) -> Http1Connection:
        """Open a connection of HTTP/1.1, and set `facts.connected_ns`. Raises `UpstreamError`.

        A proxy gets requests for plain HTTP as such, unless one `switches` to another protocol, which few pass on.
        """
        proxy = self.proxies.of(upstream.scheme, upstream.host, upstream.port)
        if proxy is None or not proxy.is_http or upstream.scheme == "https" or switches:
            return self._connected(await self.open(upstream), upstream, facts)
        sock = await self._limited(outward.connect(proxy), proxy)
        connection = self._connected(Socket(sock, self._clock, self._kernel_time), upstream, facts)
        connection.via = proxy
        return connection

    async def open(
        self, upstream: Upstream, protocols: Sequence[str] = (), connected: socket.socket | None = None
    ) -> Socket:
        """Open a connection, or go on over one that `reach` has opened; TLS offers the `protocols` by ALPN.

        Raises `UpstreamError`.
        """
        proxy = self.proxies.of(upstream.scheme, upstream.host, upstream.port)
        return await self._limited(self._open(upstream, protocols, proxy, connected), proxy)

    async def reach(self, scheme: str, host: str, port: int) -> socket.socket:
        """Connect to a host, through a tunnel of the proxy that is for it, if any. Raises `UpstreamError`."""
        proxy = self.proxies.of(scheme, host, port)
        return await self._limited(outward.reach(proxy, host, port), proxy)

    async def _limited(self, opening: Coroutine[None, None, T], proxy: OutwardProxy | None) -> T:
        """Open a connection within the limit. Raises `UpstreamError`."""
        try:
            async with asyncio.timeout(self.limits.connect):
                return await opening
        except TimeoutError as error:
            place = f" through the proxy {proxy}" if proxy else ""
            raise UpstreamError("connect_timeout", f"no connection within {self.limits.connect:g} s{place}") from error
        except OSError as error:
            if local.is_local(error):
                raise UpstreamError("local", local.cause(error)) from error
            raise UpstreamError(why_not_connected(error), error_text(error)) from error

    def connect_at_once(self, upstream: Upstream, facts: ConnectionFacts) -> Http1Connection | None:
        """Open a connection to a server on this machine without waiting; None: `connect` has to."""
        place = upstream.scheme, upstream.host, upstream.port
        sock = None if upstream.scheme == "https" or self.proxies.of(*place) else connect_at_once(*place[1:])
        if sock is None:
            return None
        return self._connected(Socket(sock, self._clock, self._kernel_time), upstream, facts)

    def _connected(self, sock: Socket, upstream: Upstream, facts: ConnectionFacts) -> Http1Connection:
        facts.connected_ns = self._clock.now() - facts.t0
        return self.serve(sock, upstream)

    def serve_connected(self, sock: socket.socket, upstream: Upstream) -> Http1Connection:
        """Return a connection of HTTP/1.1 without TLS over a socket that others have connected."""
        return self.serve(Socket(sock, self._clock, self._kernel_time), upstream)

    def serve(self, sock: Socket, upstream: Upstream) -> Http1Connection:
        """Return a connection of HTTP/1.1 over an open socket."""
        connection = Http1Connection(sock, self._clock, upstream)
        sock.start(connection)
        return connection

    async def _open(
        self, upstream: Upstream, protocols: Sequence[str], proxy: OutwardProxy | None, connected: socket.socket | None
    ) -> Socket:
        began = self._clock.now()
        sock = connected or await outward.reach(proxy, upstream.host, upstream.port)
        if upstream.scheme != "https":
            plain = Socket(sock, self._clock, self._kernel_time)
            plain.since = began if connected is None else 0
            return plain
        address = upstream.host, upstream.port
        self._tls.set_alpn_protocols(protocols)  # of the next connection alone
        secured = TlsSocket(sock, self._clock, self._kernel_time, self._tls, upstream.host, self._sessions.get(address))
        await secured.shake_hands()
        return secured

    def remember(self, carrier: Carrier) -> None:
        """Keep the server's ticket for resuming the TLS session of a connection; once, for it is copied."""
        if carrier.is_remembered:
            return
        session = carrier.tls_session
        carrier.is_remembered = session is None or session.has_ticket
        if session is not None and session.has_ticket:
            self._sessions[carrier.upstream.host, carrier.upstream.port] = session


def why_not_connected(error: OSError) -> EndedBy:
    """Return the outcome detail of a connection that failed with `error`."""
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        return "tls"
    if isinstance(error, socket.gaierror):
        return "dns"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "reset"
    return "refused"
