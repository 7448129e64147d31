"""One ASGI app: guard → upstream → client; it reports each step to the tap.

The client's bytes are the upstream's bytes: nothing is re-framed, decompressed, merged or injected. Each read goes to
the client first and to the tap second. A watcher sees the client leave at any time, also before the first byte, and
the upstream connection is then closed. After a broken upstream the client's connection is cut, never ended cleanly.
The meaning of what passes is left to the decoders, sockets and signals to `recorder.relay.server`.
"""

import asyncio
import contextlib
import secrets
import traceback
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from recorder.clock import SYSTEM, Clock
from recorder.errors import UpstreamError
from recorder.relay import guard, local, providers
from recorder.relay.guard import Refusal
from recorder.relay.recording import REQUEST_STORED_BYTES, Recording
from recorder.relay.spool import Body, Memory
from recorder.relay.tap import Tap
from recorder.relay.upstream import Reads, Transport
from recorder.tape import journal
from recorder.tape.redact import Redactor

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LIVE = 4096
"""Exchanges at a time; more are answered 503."""
BODY_PAUSE_SECONDS = 30.0
"""A request body may pause for this long, …"""
BODY_SECONDS = 60.0
"""… and take this long altogether, …"""
BODY_BYTES_PER_SECOND = 16 << 10
"""… and a second more for each of these: a client that trickles is ended soon, and one that sends 64 MiB over a line of
128 kbit/s (slower than any that people upload over) is not."""
_LINGER_SECONDS = 2.0
_STALL_NS = 60_000_000_000
_NOT_PASSED = frozenset((b"host", b"expect", b"content-length", b"x-wiretape-label"))
_STATUS = {"headers_timeout": 504, "connect_timeout": 504, "idle_timeout": 504, "local": 503}
_LEFT = Refusal(499, "the client left")


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request, whole, with where it goes."""

    method: str
    upstream: providers.Upstream
    rest: bytes
    headers: list[tuple[bytes, bytes]]
    body: Body
    labels: dict[str, str]


Ending = tuple[str, str | None, int]
"""What ended an exchange (one of `outcome.ENDED_BY`), the error's message, and the clock's ns."""


@dataclass(slots=True)
class _Exchange:
    recording: Recording
    reads: Reads | None = None
    sending_since: int | None = None
    started: bool = False
    stalled: bool = False
    task: asyncio.Task[Ending] | None = None


@dataclass(slots=True)
class Proxy:
    """The ASGI app. Calls `on_refused` for each request that did not pass, `on_trouble` for each failure of its own."""

    upstreams: Sequence[providers.Upstream]
    transport: Transport
    tap: Tap
    policy: guard.Policy = field(default_factory=guard.Policy)
    labels: dict[str, str] = field(default_factory=dict)
    keep_encoding: bool = False
    clock: Clock = SYSTEM
    on_refused: Callable[[Refusal], None] = lambda _: None
    on_trouble: Callable[[str], None] = lambda _: None
    live: set[asyncio.Task[Any]] = field(default_factory=set)
    memory: Memory = field(default_factory=Memory)
    _storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _active: list[_Exchange] = field(default_factory=list)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request, as ASGI 3 has it."""
        task = asyncio.current_task()
        assert task is not None
        self.live.add(task)
        try:
            await self._handle(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - whatever fails in here is reported to the client and the user
            self.on_trouble(f"an exchange failed by a fault of wiretape's own: {_where(error)}")
            await _answer_error(send, 500, f"a fault of its own: {_described(error)}", "internal")
        finally:
            self.live.discard(task)

    async def _handle(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = Body(self.memory)
        try:
            request = await self._admit(scope, receive, body)
            if isinstance(request, Refusal):
                self.on_refused(Refusal(request.status, Redactor(None).text(request.message)))
                await _refuse(request, receive, send)
            elif request is not None:
                await self._serve(request, scope, receive, send)
        finally:
            body.close()

    async def _admit(self, scope: MutableMapping[str, Any], receive: Receive, body: Body) -> Request | Refusal | None:
        """Check a request and read it whole; None if the client left meanwhile."""
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        target = _target(scope)
        refusal = guard.check(scope["method"], target, headers, self.policy)
        if scope["http_version"] == "1.0":
            refusal = Refusal(505, "HTTP/1.0 has no chunks, so a broken answer would look whole: use HTTP/1.1")
        if refusal is None and len(self.live) > LIVE:
            refusal = Refusal(503, f"more than {LIVE} exchanges at a time")
        if refusal is not None:
            return refusal
        labels = guard.labels(headers)
        if isinstance(labels, Refusal):
            return labels
        route = providers.route(self.upstreams, target)
        if route is None:
            names = ", ".join(f"/{upstream.name}/" for upstream in self.upstreams)
            return Refusal(404, f"no upstream is served here; there are {names}")
        refusal = await self._read_body(receive, body)
        if refusal is not None:
            return None if refusal is _LEFT else refusal
        return Request(scope["method"], *route, headers, body, {**self.labels, **labels})

    async def _read_body(self, receive: Receive, body: Body) -> Refusal | None:
        """Read a request's body; `_LEFT` if the client left."""
        began = self.clock.now()
        while True:
            left = _allowed(body.size) - (self.clock.now() - began) / 1e9
            try:
                async with asyncio.timeout(min(BODY_PAUSE_SECONDS, left)):
                    message = await receive()
            except TimeoutError:
                return _body_too_slow(body.size, left < BODY_PAUSE_SECONDS)
            if message["type"] == "http.disconnect":
                return _LEFT
            try:
                await body.append(message.get("body", b""))
            except OSError as error:
                return Refusal(503, f"the request body cannot be held while it arrives: {local.spool_cause(error)}")
            if body.size > guard.BODY_BYTES:
                return guard.TOO_LARGE
            if not message.get("more_body"):
                return None

    async def _serve(self, request: Request, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Relay one exchange beside a watcher for the client's leaving, and record how it ended."""
        exchange = _Exchange(Recording(self.tap, self.clock, secrets.token_hex(8)))
        await self._begin(exchange.recording, request)
        relay = exchange.task = asyncio.create_task(self._relay(exchange, request, send))
        watcher = asyncio.create_task(_left(receive))
        self._active.append(exchange)
        ended_by, detail = "client", None
        try:
            await asyncio.wait({relay, watcher}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            ended_by, detail = "shutdown", "wiretape was stopped"
        if not relay.done() and ended_by == "client":
            exchange.recording.client_closed = self.clock.now()
        await self._finish(exchange, relay, watcher, (ended_by, detail, self.clock.now()))
        if exchange.stalled:
            scope.get("extensions", {}).get("wiretape", {}).get("abort", lambda: None)()
        elif ended_by == "shutdown" and not exchange.started:
            await _answer_error(send, 503, "stopped before an answer came", "shutdown", exchange.recording.id)

    async def _finish(
        self,
        exchange: _Exchange,
        relay: asyncio.Task[Ending],
        watcher: asyncio.Task[None],
        cut: Ending,
    ) -> None:
        """Stop what still runs, and record the ending: the relay's, or `cut` if it had to be stopped."""
        await _stop(relay, watcher)
        self._active.remove(exchange)
        ended, error = cut, None if relay.cancelled() else relay.exception()
        if exchange.stalled:
            ended = ("client_stalled", "the client stopped reading", self.clock.now())
        elif error is not None:
            ended = ("died", f"a fault of wiretape's own: {_described(error)}", self.clock.now())
        elif not relay.cancelled():
            ended = relay.result()
        if exchange.reads is not None:
            await exchange.reads.aclose()
        exchange.recording.end(*ended, exchange.reads)
        if error is not None:
            raise error

    async def _begin(self, recording: Recording, request: Request) -> None:
        """Record the request; of large bodies one at a time is brought to memory, and only if it can be stored."""
        body = request.body
        async with self._storing if body.is_spooled else contextlib.nullcontext():
            stored = None
            if recording.has_room_for_body(body.size):
                with contextlib.suppress(OSError):  # sending it will fail, too, and say so
                    stored = await body.start(REQUEST_STORED_BYTES)
            recording.begin(self._begin_frame(recording, request, stored))

    def _begin_frame(self, recording: Recording, request: Request, stored: bytes | None) -> journal.Begin:
        return journal.Begin(
            id=recording.id,
            started_at=self.clock.wall(),
            method=request.method,
            path=request.rest.decode("ascii"),
            upstream=request.upstream.url,
            headers=request.headers,
            body=stored,
            body_size=request.body.size,
            body_sha256=request.body.sha256,
            labels=request.labels,
        )

    async def _relay(self, exchange: _Exchange, request: Request, send: Send) -> Ending:
        recording = exchange.recording
        try:
            response = await self.transport.handle_async_request(self._upstream_request(recording, request))
            reads = exchange.reads = response.extensions["reads"]
            headers, framing = response.extensions["raw_headers"], response.extensions["framing"]
            recording.head(response.status_code, headers, framing)
            exchange.started = True
            request.body.forget_sent()
            await send(_start(response.status_code, headers, framing, recording.id))
            await self._relay_reads(exchange, reads, send)
        except UpstreamError as error:
            at = exchange.reads.ended_at if exchange.reads else self.clock.now()
            if not exchange.started:
                status = _STATUS.get(error.ended_by, 502)
                where = "" if error.ended_by == "local" else f"upstream {request.upstream.host}: "
                await _answer_error(send, status, f"{where}{error}", error.ended_by, recording.id)
            return error.ended_by, str(error), at
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return "end", None, reads.ended_at

    async def _relay_reads(self, exchange: _Exchange, reads: Reads, send: Send) -> None:
        """Send each read to the client at once, then to the tap."""
        now, record = self.clock.now, exchange.recording.read
        while (read := await reads.next()) is not None:
            at, data = read
            relayed = None
            exchange.sending_since = now()
            try:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                relayed = now()
            finally:
                record(at, relayed, data)
            exchange.sending_since = None

    def _upstream_request(self, recording: Recording, request: Request) -> httpx.Request:
        upstream = request.upstream
        without = _NOT_PASSED if self.keep_encoding else _NOT_PASSED | {b"accept-encoding"}
        headers = [(b"host", upstream.authority), *guard.end_to_end(request.headers, without=without)]
        if not self.keep_encoding:
            headers.append((b"accept-encoding", b"identity"))
        if upstream.authorization and not any(name == b"authorization" for name, _ in headers):
            headers.append((b"authorization", upstream.authorization))
        if request.body.size or request.method in ("POST", "PUT", "PATCH"):
            headers.append((b"content-length", b"%d" % request.body.size))
        return httpx.Request(
            request.method,
            httpx.URL(scheme=upstream.scheme, host=upstream.host, port=upstream.port),
            headers=headers,
            stream=request.body.stream(),
            extensions={"instants": recording.instants, "target": upstream.target(request.rest)},
        )

    async def watch_stalls(self) -> None:
        """Call `end_stalled` every five seconds, beside the server."""
        while True:
            await asyncio.sleep(5)
            self.end_stalled()

    def end_stalled(self) -> None:
        """End the exchanges whose client has not taken anything for a minute."""
        for exchange in list(self._active):
            since = exchange.sending_since
            if since is not None and self.clock.now() - since > _STALL_NS and exchange.task is not None:
                exchange.stalled = True
                exchange.task.cancel()


def _target(scope: MutableMapping[str, Any]) -> bytes:
    """Return the request target as it came; without it, as from another server, path and query."""
    raw: bytes | None = scope.get("extensions", {}).get("wiretape", {}).get("target")
    if raw is not None:
        return raw
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"]
    return path + (b"?" + query if query else b"")


def _body_too_slow(size: int, is_total: bool) -> Refusal:
    if is_total:
        return Refusal(408, f"the request body came too slowly: {size} bytes in {_allowed(size):.0f} s")
    return Refusal(408, f"nothing of the request body came for {BODY_PAUSE_SECONDS:g} s")


def _allowed(size: int) -> float:
    """Return how long a body of which `size` bytes have come may take altogether, in seconds."""
    return BODY_SECONDS + size / BODY_BYTES_PER_SECOND


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their end, whoever cancels us meanwhile: the ending must still be recorded."""
    for task in tasks:
        task.cancel()
    while pending := [task for task in tasks if not task.done()]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(pending)


def _start(status: int, headers: list[tuple[bytes, bytes]], framing: str, id: str) -> Message:
    bodiless = frozenset((b"content-length",)) if framing == "none" and status in (204, 304) else frozenset()
    passed = guard.end_to_end(headers, without=bodiless | {b"x-wiretape-id"})
    names = {name.lower(): value for name, value in passed}
    if names.get(b"content-type", b"").startswith(b"text/event-stream") and b"x-accel-buffering" not in names:
        passed.append((b"x-accel-buffering", b"no"))  # or an nginx in front of the client would hold the stream back
    passed.append((b"x-wiretape-id", id.encode()))
    return {"type": "http.response.start", "status": status, "headers": passed}


async def _refuse(refusal: Refusal, receive: Receive, send: Send) -> None:
    """Answer, and take what is left of the request: a reset on unread bytes would keep its sender from the answer."""
    await _answer_error(send, refusal.status, refusal.message, "refused", more=True)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _where(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{_described(error)} at {place.filename}:{place.lineno}"


def _described(error: BaseException) -> str:
    """Return an error's type and message; its `repr` may hold all of the bytes that it is about."""
    return Redactor(None).text(f"{type(error).__name__}: {error}")


async def _answer_error(
    send: Send, status: int, message: str, kind: str, id: str | None = None, *, more: bool = False
) -> None:
    body = msgspec.json.encode({"error": {"message": f"wiretape: {message}", "type": "wiretape_error", "code": kind}})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-wiretape-error", kind.encode()),
        (b"connection", b"close"),
    ]
    if id is not None:
        headers.append((b"x-wiretape-id", id.encode()))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})
