"""An `httpx.AsyncBaseTransport` that stamps each socket read.

One connection serves one request and is then closed: what streams is a POST, a POST may not go out on a connection
that may be half dead, and bytes that follow a response can reach nobody. No redirects, no retries, no proxies from the
environment. A connection is an `asyncio.Protocol` over `httptools` (llhttp, strict). The timestamp is taken first thing
in `data_received`; the reads wait unmerged until they are taken, and upstream has to wait where too many do. What an
ending means is left to `recorder.decode.outcome`; here it is only named.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import httptools
import httpx

from recorder.clock import SYSTEM, Clock
from recorder.errors import UpstreamError
from recorder.relay import local
from recorder.relay.guard import transfer_codings

HEAD_BYTES = 64 << 10
"""A response head, with all informational ones before it, may be this large; so may trailers and chunk extensions."""
UNSENT_BYTES = 256 << 10
"""Reads that the client has not taken yet; beyond it upstream has to wait."""
_JOINED_BYTES = 64 << 10
_NO_BODY = frozenset({204, 304})
_FORBIDDEN = bytes(range(0x09)) + bytes(range(0x0A, 0x20)) + b"\x7f"


@dataclass(slots=True)
class Instants:
    """Clock instants in ns of one exchange's way upstream; None: did not happen.

    `connected` includes TLS, `sent` is when the kernel had taken the whole request. `connection_reused`: it went out on
    a connection kept from an exchange before. `clock` says whose time a read has (`kernel`, `loop`), and
    `clock_error_ns` how late it may be; None: not known.
    """

    connected: int | None = None
    sent: int | None = None
    headers: int | None = None
    connection_reused: bool | None = None
    clock: str | None = None
    clock_error_ns: int | None = None


@dataclass(slots=True)
class Head:
    """A response head as it came."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    framing: str = "close"


class Reads(httpx.AsyncByteStream):
    """The body's socket reads in order, each with its instant; iterating it as a byte stream gives the bytes alone.

    Raises `UpstreamError` where the body broke. `paused` counts how often upstream had to wait for the taker;
    `surplus` says whether bytes followed the response's end.
    """

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.paused = 0
        self.surplus = False

    async def next(self) -> tuple[int, bytes] | None:
        """Wait for the next read: its instant in ns and its body bytes; None after the last."""
        return await self.connection.next_read()

    @property
    def ended_at(self) -> int:
        """The instant in ns of the last thing that the socket told: at the end, that of the end."""
        return self.connection.stamp

    def left(self) -> list[tuple[int, bytes]]:
        """Return the reads that came but were never taken."""
        rest = list(self.connection.queue)
        self.connection.queue.clear()
        return rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (read := await self.next()) is not None:
            yield read[1]

    async def aclose(self) -> None:
        """Close the connection."""
        self.connection.close()


class Connection(asyncio.Protocol):
    """One connection, one request, one response."""

    def __init__(self, now: Callable[[], int], instants: Instants, bodiless: bool) -> None:
        self._now, self._instants, self._bodiless = now, instants, bodiless
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body: list[bytes] = []
        self._overhead = 0
        self._unsent = 0
        self._reading_paused = False
        self._sender: asyncio.Task[None] | None = None
        self._is_sending = False
        self._writable = asyncio.Event()
        self._expected: int | None = None
        self._received = 0
        self._final = False
        self.stamp = 0
        self._idle_ns = 0
        self.queue: deque[tuple[int, bytes]] = deque()
        self.head = Head()
        self.ended = False
        self.failure: UpstreamError | None = None
        self.reads = Reads(self)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._instants.connected = self._now()
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # to be told when the last of the request has gone out

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        if self._instants.sent is None and not self._is_sending:  # TLS writes once more when it closes
            self._instants.sent = self._now()

    def data_received(self, data: bytes) -> None:
        at = self._now()
        if self.ended:
            self.reads.surplus = True
            self.close()
            return
        self.stamp = at
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._parse_failed(error)
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body.clear()
            self._overhead = 0
            self._received += len(body)
            self.queue.append((at, body))
            self._unsent += len(body)
            if self._unsent > UNSENT_BYTES and not self._reading_paused:
                self._pause()
        elif not self.ended:
            self._overhead += len(data)
            if self._overhead > HEAD_BYTES:
                self._fail("framing" if self._final else "protocol", "too many bytes without any of the body")
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended:
            self.stamp = self._now()
            self._lost(error)
        self._writable.set()
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self.ended:
            self.reads.surplus = True  # the answer stays the first one's
        else:
            self.head = Head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._final:
            return  # a trailer, or of a surplus response
        if value.translate(None, _FORBIDDEN) != value:
            raise ValueError("a control character in a header")
        self.head.headers.append((name, value.strip()))

    def on_headers_complete(self) -> None:
        if self._final:
            return
        self.head.status = self._parser.get_status_code()
        if self.head.status < 100:
            raise ValueError(f"status {self.head.status}")
        if self.head.status < 200:
            return
        self._delimit()
        self._final = True
        self._instants.headers = self.stamp
        if self._bodiless:
            self._complete()

    def _delimit(self) -> None:
        named = {name.lower(): value for name, value in self.head.headers}
        codings = transfer_codings(self.head.headers)
        if codings not in ([], [b"chunked"], [b"identity"]):
            raise ValueError("a transfer coding that was not asked for (RFC 9112, 6.1)")
        if self._bodiless or self.head.status in _NO_BODY:
            self.head.framing = "none"
        elif codings == [b"chunked"]:
            self.head.framing = "chunked"
        elif b"content-length" in named:
            self.head.framing = "length"
            self._expected = int(named[b"content-length"])

    def on_body(self, body: bytes) -> None:
        if self.ended:
            self.reads.surplus = True
        elif self._final:
            self._body.append(body)
        else:
            raise ValueError("a body after an informational response")

    def on_message_complete(self) -> None:
        if self._final and not self.ended:
            self._complete()

    # endings

    def _complete(self) -> None:
        self.ended = True
        # Not closed at once: what follows in the same read is still to be seen as surplus.
        self._loop.call_soon(self.close)

    def _parse_failed(self, error: Exception) -> None:
        if self.ended:
            self.reads.surplus = True
        elif self.head.status == 101 or isinstance(error, httptools.HttpParserUpgrade):
            self._fail("protocol", "upstream switched protocols")
        else:
            cause = error.__context__ or error
            self._fail("framing" if self._final else "protocol", f"not HTTP: {cause}")

    def _lost(self, error: Exception | None) -> None:
        if error is not None:
            self._fail("reset", words(error))
        elif not self._final:
            self._fail("eof", "upstream closed the connection without an answer")
        elif self.head.framing == "close":
            self.ended = True
        elif self.head.framing == "length":
            self._fail("length", f"upstream closed after {self._received} of {self._expected} bytes")
        else:
            self._fail("eof", "upstream closed before the end of the chunked body")

    def _fail(self, ended_by: str, message: str) -> None:
        self.failure = UpstreamError(ended_by, message)
        self.ended = True
        self.close()

    def close(self) -> None:
        """Close the connection at once; what has come stays to be taken."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sender is not None:
            self._sender.cancel()
        if self._transport is not None:
            self._transport.abort()

    # the taker's side

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def send(self, head: bytes, body: bytes) -> None:
        """Write the request; `instants.sent` is set when the last of it has gone out."""
        assert self._transport is not None
        if len(body) < _JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        if not self._transport.get_write_buffer_size():
            self.resume_writing()

    def send_pieces(self, head: bytes, pieces: AsyncIterable[bytes], size: int) -> None:
        """Write a request with a body of `size` bytes, each piece when the kernel has taken the one before it."""
        self._is_sending = True
        self._sender = asyncio.create_task(self._send_pieces(head, pieces, size))

    async def _send_pieces(self, head: bytes, pieces: AsyncIterable[bytes], left: int) -> None:
        assert self._transport is not None
        self._transport.write(head)
        try:
            async for piece in pieces:
                await self._drained()
                if self._transport.is_closing():
                    return
                left -= len(piece)
                self._is_sending = left > 0
                self._transport.write(piece)
                if not self._transport.get_write_buffer_size():
                    self.resume_writing()  # taken at once: nobody calls back
        except OSError as error:
            self._fail("local", f"the request body cannot be read back from its temporary file ({words(error)})")
            self._wake()

    async def _drained(self) -> None:
        assert self._transport is not None
        while self._transport.get_write_buffer_size() and not self._transport.is_closing():
            self._writable.clear()
            await self._writable.wait()

    async def wait_head(self) -> Head:
        """Wait for the response's head; raises `UpstreamError` if none comes."""
        while not self._final and not self.ended:
            await self._wait()
        if not self._final:
            assert self.failure is not None
            raise self.failure
        return self.head

    async def next_read(self) -> tuple[int, bytes] | None:
        """Wait for the next read, as `Reads.next` gives it."""
        while not self.queue:
            if self.ended:
                if self.failure is not None:
                    raise self.failure
                return None
            await self._wait()
        read = self.queue.popleft()
        self._unsent -= len(read[1])
        if self._reading_paused and self._unsent < UNSENT_BYTES // 2:
            self._resume()
        return read

    def _pause(self) -> None:
        assert self._transport is not None
        self._reading_paused = True
        self.reads.paused += 1
        if not self.ended:
            self._transport.pause_reading()

    def _resume(self) -> None:
        assert self._transport is not None
        self._reading_paused = False
        if not self.ended and not self._transport.is_closing():
            self.stamp = self._now()  # silence while nobody listened is not upstream's
            self._transport.resume_reading()

    def limit_idle(self, seconds: float) -> None:
        """End the body when nothing comes for so long; one timer, set again only when it fires."""
        self._idle_ns = int(seconds * 1e9)
        self._timer = self._loop.call_later(seconds, self._check_idle)

    def _check_idle(self) -> None:
        if self.ended:
            return
        left = self.stamp + self._idle_ns - self._now()
        left = self._idle_ns if self._reading_paused else left
        if left > 1_000_000:
            self._timer = self._loop.call_later(left / 1e9, self._check_idle)
        else:
            self.stamp = self._now()  # the end is the limit's, not the last read's
            self._fail("idle_timeout", f"nothing came for {self._idle_ns / 1e9:g} s")
            self._wake()


def words(error: Exception) -> str:
    """Return an error's own words, without addresses of memory or an empty string."""
    return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds to connect (TLS included), to the response head, and between two reads of the body."""

    connect: float = 10.0
    headers: float = 600.0
    idle: float = 300.0


class Transport(httpx.AsyncBaseTransport):
    """Sends one request over a connection of its own.

    The request extension `instants` (an `Instants`) is filled in on the way, also when it fails. The response has the
    extensions `reads` (a `Reads`), `framing` and `raw_headers`. A body that comes in pieces needs a Content-Length.
    Raises `UpstreamError`.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, limits: Limits | None = None, clock: Clock = SYSTEM) -> None:
        self._tls = tls or ssl.create_default_context()
        self._limits = limits or Limits()
        self._clock = clock

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Connect, send, and give the response once its head is there; its body comes through `reads`."""
        instants: Instants = request.extensions.get("instants") or Instants()
        connection = await self._connect(request, instants)
        try:
            _send(connection, request)
            head = await self._answer(connection)
        except BaseException:
            connection.close()
            raise
        connection.limit_idle(self._limits.idle)
        extensions: dict[str, Any] = {"reads": connection.reads, "framing": head.framing, "raw_headers": head.headers}
        return httpx.Response(head.status, headers=head.headers, stream=connection.reads, extensions=extensions)

    async def _connect(self, request: httpx.Request, instants: Instants) -> Connection:
        url, secure = request.url, request.url.scheme == "https"
        host = url.raw_host.decode("ascii").strip("[]")  # `url.host` undoes IDNA, which fails for some names
        port = url.port or (443 if secure else 80)
        try:
            async with asyncio.timeout(self._limits.connect):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._clock.now, instants, request.method == "HEAD"),
                    host,
                    port,
                    ssl=self._tls if secure else None,
                    server_hostname=host if secure else None,
                )
        except TimeoutError as error:
            raise UpstreamError("connect_timeout", f"no connection within {self._limits.connect:g} s") from error
        except OSError as error:
            if local.is_local(error):
                raise UpstreamError("local", local.cause(error)) from error
            raise UpstreamError(why_not_connected(error), words(error)) from error
        return connection

    async def _answer(self, connection: Connection) -> Head:
        try:
            async with asyncio.timeout(self._limits.headers):
                return await connection.wait_head()
        except TimeoutError as error:
            raise UpstreamError("headers_timeout", f"no answer within {self._limits.headers:g} s") from error


def _send(connection: Connection, request: httpx.Request) -> None:
    """Send a request whole, or in pieces if its body does not come at once: then beside what is answered to it."""
    if isinstance(request.stream, httpx.ByteStream):
        connection.send(_head_bytes(request), request.read())
    else:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        connection.send_pieces(_head_bytes(request), request.stream, int(request.headers["content-length"]))


def _head_bytes(request: httpx.Request) -> bytes:
    target = request.extensions.get("target") or request.url.raw_path
    lines = [b"%s %s HTTP/1.1\r\n" % (request.method.encode("ascii"), target)]
    lines += [b"%s: %s\r\n" % pair for pair in request.headers.raw]
    return b"".join([*lines, b"\r\n"])


def why_not_connected(error: OSError) -> str:
    """Return the outcome detail of a connection that failed with `error`."""
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        return "tls"
    if isinstance(error, socket.gaierror):
        return "dns"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "reset"
    return "refused"
