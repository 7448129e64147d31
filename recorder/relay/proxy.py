"""Relays exchanges: guard → upstream → client; it reports each step to the tap.

The client's bytes are the upstream's bytes: nothing is re-framed, decompressed, merged or injected. Each read goes to
the client first and to the tap second, both from the callback that the read came to. An exchange goes over a connection
that belongs to its client's: the one that an earlier exchange left open, else a new one. After a broken upstream the
client's connection is cut, never ended cleanly. An exchange that becomes a WebSocket is handed to `websocket`. The
meaning of the bytes is left to the decoders.
"""

import asyncio
import hashlib
import os
import re
import traceback
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from h2.errors import ErrorCodes

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode.exchange import reset_code
from wiretape.recorder.errors import ProxyRefusal, UpstreamError
from wiretape.recorder.facts import EndedBy
from wiretape.recorder.ids import exchange_id
from wiretape.recorder.relay import apis, guard, providers
from wiretape.recorder.relay.app import HttpApp
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.http2_upstream import H2
from wiretape.recorder.relay.recording import ExchangeFrames, Unrecorded, UntakenRead
from wiretape.recorder.relay.request import HTTP2, Headers, Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.relay.server import KEEP_ALIVE_MOST_SECONDS, KEEP_ALIVE_SECONDS, Http1Client
from wiretape.recorder.relay.states import STAGE, Receiving, RequestBody, Stage
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.relay.upstream import UPGRADE, Carrier, Http1Connection, ResponseHead, Transport
from wiretape.recorder.relay.websocket import WebSocket
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.redact import Redactor

_next_ids = list[str]()
os.register_at_fork(after_in_child=_next_ids.clear)  # else both processes would generate the same ids


def new_id() -> str:
    """Return a new id, made of 16 random hexadecimal digits."""
    if not _next_ids:  # many at once: one system call serves 64 exchanges
        digits, size = os.urandom(64 * 8).hex(), 16
        _next_ids.extend(exchange_id(digits[at : at + size]) for at in range(0, len(digits), size))
    return _next_ids.pop()


UNSENT_BYTES = 256 << 10
"""Limit of unsent bytes towards a client or an API server; beyond it the sender has to wait."""
CONTINUE_SECONDS = 1.0
"""Silence of upstream after which wiretape itself sends 100 (Continue) to a client that waits for it."""
REST_SECONDS = 2.0
"""Time allowed for the rest of a request's body after a failure of its upstream, before the answer."""
LAG_SECONDS = 0.005
"""Interval between measurements of the event loop's lag, where it stamps reads and nothing else shows the lag."""
LATE_NS = 1_000_000
"""Resolution of the event loop's timers; a longer delay is lag."""
_LAG_NS = int(LAG_SECONDS * 1e9)
_NOT_PASSED = guard.HOP_BY_HOP | {b"host", b"content-length", b"expect", b"x-wiretape-label"}
"""Headers of a request that upstream does not get as they came."""
_OWN_LIMITS = ("local", "headers_timeout", "idle_timeout")
"""Failures by limits of wiretape or of this machine, which would not occur without wiretape."""
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class LoopLag(NamedTuple):
    """A delay of the event loop, in the clock's ns.

    `ran_at` is the last time before it at which the loop is known to have run, `since` the time from which it was late
    for certain, `until` the delay's end.
    """

    ran_at: int = 0
    since: int = 0
    until: int = 0


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """Options of one request.

    `on_unreached`: the program believes that it is connected to the server itself. A failure before an answer closes
    its connection, as the server's failure would have; `on_unreached` is called with it. `failure`: one that has been
    met before the request, which is only recorded. `repeats`: the request of another exchange is sent again.
    """

    is_recorded: bool = True
    on_unreached: Callable[[UpstreamError], None] | None = None
    failure: UpstreamError | None = None
    repeats: "Repetition | None" = None


class Repetition(NamedTuple):
    """The facts `resent_from`, `resent_no` and `resent_in` of an exchange."""

    of: str
    number: int
    run: str


DIRECT = RelayOptions()
"""The options of a request to wiretape itself."""


@dataclass
class Proxy(HttpApp):
    """The app of a recorder's server.

    Calls `on_refused` for each request that did not pass, `on_trouble` for each failure of its own.
    """

    upstreams: Sequence[providers.Upstream]
    transport: Transport
    tap: Tap
    policy: guard.Policy = field(default_factory=guard.Policy)
    labels: dict[str, str] = field(default_factory=dict)
    identity: bool = False
    no_websocket: str = ""
    clock: Clock = SYSTEM
    on_refused: Callable[[Refusal], None] = lambda _: None
    on_trouble: Callable[[str], None] = lambda _: None
    sends_continue = False
    records_refusals = True
    live: "set[RelayedExchange | WebSocket]" = field(default_factory=set)
    lag: LoopLag = field(default_factory=LoopLag)
    """The last delay that was noticed."""
    _is_noting: bool = False
    _unstamped: "set[RelayedExchange | WebSocket]" = field(default_factory=set)
    """Running exchanges with reads that the kernel did not stamp."""
    _lag_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        # Two witnesses of a delay cost nothing: a read of data that the kernel has stamped, and the frames' timer.
        self.tap.on_late, self.tap.on_run = self.note_late, self.transport.note_run
        self.transport.report_late_reads(self.note_late)

    def respond(self, client: Client, request: Request) -> "RelayedExchange | None":
        """Relay a request to the upstream that its path names."""
        route = providers.route(self.upstreams, request.target)
        if route is None:
            names = ", ".join(f"/{upstream.name}/" for upstream in self.upstreams)
            self.reject(client, Refusal(404, f"no upstream is served here; there are {names}"))
            return None
        return self.relay(client, request, *route)

    def refuse(self, client: Client, refusal: Refusal, headers: Headers | None = None) -> None:
        """Answer a request that may not pass."""
        _answer_error(client, refusal.status, refusal.message, "refused", headers=headers)

    def reject(self, client: Client, refusal: Refusal, headers: Headers | None = None) -> None:
        """Report and answer a request that may not pass."""
        self.client_rejected(refusal)
        self.refuse(client, refusal, headers)

    def client_failed(self, error: Exception) -> None:
        """Report a fault of wiretape's own."""
        self.on_trouble(f"a connection failed by a fault of wiretape's own: {_placed_description(error)}")

    def relay(
        self,
        client: Client,
        request: Request,
        upstream: providers.Upstream,
        target: bytes,
        options: RelayOptions = DIRECT,
        own_labels: Mapping[str, str] = _NO_LABELS,
    ) -> "RelayedExchange | None":
        """Relay an admitted request to an upstream, as its target `rest`; `own_labels` are its alone.

        A request that exchanges credentials is not recorded: they would be in its body, or in its answer.
        """
        if guard.grants_credentials(target):
            options = replace(options, is_recorded=False)
        labels = guard.labels(request.headers) if b"x-wiretape-label" in request.spelling else {}
        if isinstance(labels, Refusal):
            self.reject(client, labels)
            return None
        exchange = RelayedExchange(self, client, request, upstream, options)
        self.live.add(exchange)
        if not self.transport.has_kernel_time:
            self.measure_lag(exchange)
        if self._stall_timer is None:
            self._check_stalls_later()
        try:
            exchange.begin(target, {**self.labels, **labels, **own_labels})
        except Exception as error:  # noqa: BLE001 - every failure in here is reported to the client and the user
            exchange.taker_failed(error)
        return exchange

    def measure_lag(self, exchange: "RelayedExchange") -> None:
        """Measure the event loop's lag while an exchange runs whose timestamps are the loop's."""
        self._unstamped.add(exchange)
        if self._lag_timer is None:
            self._measure_after(self.clock.now() + _LAG_NS)

    def _measure_after(self, due: int) -> None:
        self._lag_timer = asyncio.get_running_loop().call_later(LAG_SECONDS, self._measure, due)

    def _measure(self, due: int) -> None:
        self._lag_timer = None
        now = self.clock.now()
        if (late_ns := now - due - LATE_NS) > LATE_NS:
            self.note_late(due, late_ns, due - _LAG_NS)
        if self._unstamped:
            self._measure_after(now + _LAG_NS)

    def note_stop(self) -> None:
        """Note that the process was stopped until now, for as long as nothing was read."""
        now = self.clock.now()
        # A process that goes on after a stop comes to the signal within 20 ms, perhaps after the first reads.
        since = self.transport.ran_before(now - 20_000_000)
        self.note_late(since, now - since)

    def note_late(self, since: int, late_ns: int, ran_at: int = 0) -> None:
        """Note that the event loop was late: timestamps of that time may be, too.

        A witness knows the delay only from the time it had to run: the delay may have begun when the loop last ran.
        """
        ran_at, until = max(ran_at, self.transport.ran_before(since)), since + late_ns
        if self._is_noting:  # another witness of the same turn of the loop
            lag = self.lag
            ran_at, since, until = min(ran_at, lag.ran_at), min(since, lag.since), max(until, lag.until)
        else:
            self._is_noting = True
            asyncio.get_running_loop().call_soon(self._note_lag)  # after the reads of the delay
        self.lag = LoopLag(ran_at, since, until)

    def _note_lag(self) -> None:
        """Note the event loop's lag in the running exchanges, whose timestamps may be late."""
        self._is_noting = False
        for exchange in self.live:
            exchange.note_lag()

    def leave(self, exchange: "RelayedExchange | WebSocket") -> None:
        """Forget an exchange that has ended."""
        self.live.discard(exchange)
        self._unstamped.discard(exchange)

    def _check_stalls_later(self) -> None:
        self._stall_timer = asyncio.get_running_loop().call_later(5.0, self._check_stalls)

    def _check_stalls(self) -> None:
        """End exchanges whose client stalls, at intervals while there are any: an idle relay is not woken."""
        self._stall_timer = None
        self.end_stalled()
        if self.live:
            self._check_stalls_later()

    def end_stalled(self) -> None:
        """End the exchanges whose client has not taken anything for a minute."""
        since = self.clock.now() - 60_000_000_000
        for exchange in list(self.live):
            exchange.end_if_stalled(since)

    def cut_quiet(self) -> None:
        """End the exchanges for which a stop need not wait."""
        for exchange in list(self.live):
            if exchange.is_quiet:
                exchange.cut("shutdown", "wiretape was stopped")

    def cut(self) -> None:
        """End all exchanges at once."""
        for exchange in list(self.live):
            exchange.cut("shutdown", "wiretape was stopped")


class RelayedExchange(Responder):
    """A request on its way upstream, and its answer on its way back; its stages are those of `states.Stage`."""

    __slots__ = (
        "_asks_identity",
        "_client",
        "_connecting",
        "_connection",
        "_continue",
        "_failure",
        "_headers",
        "_labels",
        "_now",
        "_options",
        "_proxy",
        "_recording",
        "_request",
        "_rest_limit",
        "_stage",
        "_target",
        "_untaken_reads",
        "_upload",
        "_upstream",
        "_waits_since",
        "_wants_websocket",
        "_websocket",
    )  # fmt: skip

    def __init__(
        self, proxy: Proxy, client: Client, request: Request, upstream: providers.Upstream, options: RelayOptions
    ) -> None:
        self._proxy, self._client, self._request, self._upstream, self._options = (
            proxy,
            client,
            request,
            upstream,
            options,
        )
        self._now = proxy.clock.now
        kind = ExchangeFrames if options.is_recorded else Unrecorded
        self._recording = kind(proxy.tap, proxy.clock, new_id())
        self._stage = Stage.WAITING
        self._upload = RequestBody.WHOLE if request.complete else RequestBody.COMING
        self._asks_identity = proxy.identity and options.is_recorded
        self._headers: Headers = request.headers
        """The request's headers as they are sent, but for those of the connection."""
        if self._asks_identity:
            name = b"accept-encoding"
            self._headers = [*(pair for pair in request.headers if pair[0] != name), (name, b"identity")]
        self._wants_websocket = client.may_switch
        self._connection: Carrier | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._continue: asyncio.TimerHandle | None = None
        self._websocket: WebSocket | None = None
        self._failure: tuple[UpstreamError, int] | None = None
        """The failure of upstream and its timestamp, until the answer."""
        self._rest_limit: asyncio.TimerHandle | None = None
        self._waits_since: int | None = None
        self._untaken_reads = list[UntakenRead]()

    @property
    def id(self) -> str:
        return self._recording.id

    @property
    def is_quiet(self) -> bool:
        """True if the end of the recorder need not wait for it."""
        return not self._options.is_recorded

    # the request

    def begin(self, target: bytes, labels: dict[str, str]) -> None:
        """Send the request upstream, and record it."""
        self._target, self._labels = target, labels
        refusal = self._request.refusal
        if refusal is not None:
            self._recording.start()
            self._enter(None)
            self._proxy.client_rejected(refusal)
            _answer_error(self._client, refusal.status, refusal.message, "refused", self._recording.id)
            self._end("local", refusal.message, self._now())
            return
        if self._options.failure is not None:
            self._recording.start()
            self._enter(b"")
            self._fail(self._options.failure, self._now())
            return
        body = self._request.take() if self._request.complete else None
        connection = self._client.reuse(self._upstream)
        if self._wants_websocket and isinstance(connection, Http1Connection) and connection.via:
            connection.close()  # the proxy at its end takes no other protocol
            connection = None
        recording = self._recording
        recording.connection_reused = connection is not None and connection.reused
        headers = self._passed_headers()
        recording.start()
        connection = connection or self._client.connect_at_once(self._proxy.transport, self._upstream, recording)
        try:
            if connection is not None:
                self._send(connection, headers, body)
            else:
                self._connecting = asyncio.get_running_loop().create_task(self._connect(headers, body))
        finally:
            self._enter(body)
        if self._upload is RequestBody.COMING:
            self.body_came()

    def _enter(self, body: bytes | None) -> None:
        """Record the request's head, and its body if that has come whole."""
        request, repeated = self._request, self._options.repeats or (None, None, None)
        self._recording.begin(
            journal.Begin(
                id=self._recording.id,
                started_at=self._recording.started_at,
                method=request.method,
                path=self._target.decode("ascii"),
                upstream=self._upstream.url,
                upstream_name=self._upstream.name or None,
                resent_from=repeated[0],
                resent_no=repeated[1],
                resent_in=repeated[2],
                headers=self._headers,
                body=body,
                body_size=None if body is None else len(body),
                body_sha256=None if body is None else hashlib.sha256(body).hexdigest(),
                labels=self._labels,
                h2_offered=request.version == HTTP2 or None,
                asks_identity=self._asks_identity or None,
                boot_ns=self._recording.boot_ns,
            )
        )

    async def _connect(self, headers: Headers, body: bytes | None) -> None:
        try:
            transport = self._proxy.transport
            connection: Carrier
            if self._wants_websocket:  # which no client of HTTP/2 does
                connection = await transport.connect(self._upstream, self._recording, switches=True)
            else:
                connection = await self._client.connect(transport, self._upstream, self._recording)
            self._send(connection, headers, body)
            self.body_came()
        except UpstreamError as error:
            self._fail(error, self._now())
        except Exception as error:  # noqa: BLE001 - every failure in here is reported to the client and the user
            self.taker_failed(error)

    def _send(self, connection: Carrier, headers: Headers, body: bytes | None) -> None:
        """Send the request's head, with its body if that has come whole."""
        self._connection, request = connection, self._request
        bodiless = request.method == "HEAD"
        connection.begin(self, self._recording, bodiless=bodiless, switches=self._wants_websocket)
        if request.padding:
            self._pass_padding(connection)
        connection.send_head(request, self._upstream.prefix + self._target, headers, body)
        if self._options.is_recorded:
            connection.limit(self._proxy.transport.limits.headers)

    def _passed_headers(self) -> Headers:
        """Return the request's headers for upstream, without those of the connection."""
        request, authorization = self._request, self._upstream.authorization
        headers = [pair for pair in self._headers if pair[0] not in _NOT_PASSED]
        if b"connection" in request.spelling and (names := guard.named_by_connection(request.headers)):
            headers = [pair for pair in headers if pair[0] not in names]
        if authorization and b"authorization" not in request.spelling:
            headers.append((b"authorization", authorization))
        if b"content-length" in request.spelling:
            headers += [pair for pair in request.headers if pair[0] == b"content-length"]
        if self._upload is RequestBody.COMING and guard.expects_continue(request.headers):
            headers.append((b"expect", b"100-continue"))
            self._continue = asyncio.get_running_loop().call_later(CONTINUE_SECONDS, self._ask_for_body)
        return headers

    def body_came(self) -> None:
        """Send more of the request's body; where upstream has failed, only record it."""
        if self._upload is not RequestBody.COMING or self._stage is Stage.ENDED:
            return
        if self._stage is Stage.FAILING:
            self._recording.upload(self._request.take())
            if self._request.complete or not self._recording.takes_upload:
                self._tell_failure()
            return
        connection = self._connection
        if connection is None:
            return
        piece, is_last = self._request.take(), self._request.complete
        if piece:
            self._recording.upload(piece)
        if self._request.padding:
            self._pass_padding(connection)
        connection.send_body(piece, is_last=is_last, trailers=self._request.trailers)
        if is_last:
            self._end_upload()
            self._end_uploading()
        self._client.hold_body(not is_last and connection.unsent > UNSENT_BYTES)

    def _pass_padding(self, connection: Carrier) -> None:
        connection.pad(self._request.padding)
        self._request.padding = 0

    def _end_upload(self) -> None:
        """Record the received rest of the request's body, and its end."""
        self._upload = RequestBody.WHOLE
        self._recording.upload(self._request.take())
        self._recording.uploaded(is_whole=self._request.complete)

    def request_failed(self, refusal: Refusal) -> None:
        """End the exchange: the rest of the request's body will not come."""
        self._proxy.on_refused(refusal)
        if self._is_unanswered:
            _answer_error(self._client, refusal.status, refusal.message, "refused", self._recording.id)
        else:
            self._client.cut()
        self._end("client_stalled" if refusal.status == 408 else "client", refusal.message, self._now())

    # upstream.Taker

    def informed(self, head: ResponseHead) -> None:
        """Pass an informational response on; 100 (Continue) once to a client that asked for it."""
        if head.status == 100 and guard.expects_continue(self._request.headers):
            self._ask_for_body()
        elif self._is_unanswered:
            headers = guard.end_to_end(head.headers, without=frozenset((b"x-wiretape-id", b"content-length")))
            self._client.inform(head.status, head.reason, headers)

    def _ask_for_body(self) -> None:
        """Ask the client for the request's body, once."""
        if self._continue is not None:
            self._continue.cancel()
            self._continue = None
            if self._is_unanswered:
                self._client.inform(100)

    def padded(self, size: int) -> None:
        """Pass the padding of the next read on."""
        self._client.pad(size)

    def request_progressed(self) -> None:
        """Resume reading the request's body."""
        connection = self._connection
        if self._upload is RequestBody.COMING and connection is not None and connection.unsent < UNSENT_BYTES // 2:
            self._client.hold_body(False)
        self._end_uploading()

    def _end_uploading(self) -> None:
        """End an exchange whose answer is whole when upstream has the whole request, too."""
        if self._stage is Stage.UPLOADING and self._connection is not None and not self._connection.is_half_closed:
            self._finish(is_upload_over=True)

    def request_refused(self) -> None:
        """Continue to read from both: the answer, or else the end of the connection, has the reason."""
        if self._stage is Stage.UPLOADING:
            self._finish(is_upload_over=True)
        elif self._upload is RequestBody.COMING:
            self._client.hold_body(False)

    def response_received(
        self, at: int, head: ResponseHead | None, body: bytes, ends: bool, chunk: bytes = b""
    ) -> None:
        """Send a read to the client at once, then to the tap."""
        if head is None and not ends:
            relayed = None
            try:
                if self._client.send(body, chunk):
                    relayed = self._now()
            finally:  # a read is recorded also if the client's side fails
                if chunk and relayed is not None and not self._untaken_reads:
                    self._recording.put_read(at, relayed, body)
                else:
                    self._relayed(at, relayed, body)
            return
        connection = self._connection
        assert connection is not None
        if head is not None or self._stage is Stage.RELAYING:
            self._send_edge(at, head, body, ends=ends, is_whole=ends and connection.failure is None)
        if ends and self._untaken_reads and connection.failure is None:
            self._stage = STAGE[self._stage, "drain"]
        elif ends:
            self._finish()

    def _send_edge(self, at: int, head: ResponseHead | None, body: bytes, *, ends: bool, is_whole: bool) -> None:
        """Send a read that holds the head or the end of an answer."""
        client, relayed = self._client, None
        try:
            if head is not None:
                self._begin_answer(head)
            if body:
                client.add(body)
            if is_whole and self._connection is not None:
                client.add_end(self._connection.trailers)
            if client.flush():
                relayed = self._now()
        finally:
            if head is not None:
                self._recording.put_head(head.status, head.headers, head.framing)
                if not ends and self._connection is not None and self._options.is_recorded:
                    # A stream that a GET opens lives as long as a session, whose user may think for hours.
                    is_session = head.is_event_stream and self._request.method == "GET"
                    self._connection.limit(None if is_session else self._proxy.transport.limits.idle)
            if body:
                self._relayed(at, relayed, body)

    def _begin_answer(self, head: ResponseHead) -> None:
        self._stage = STAGE[self._stage, "answer"]
        if self._continue is not None:
            self._continue.cancel()
            self._continue = None
        chunked = head.framing in ("chunked", "close")
        headers = _passed(head, self._recording.id if self._options.is_recorded else None)
        if self._options.on_unreached is None and not guard.LOCATIONS.isdisjoint(head.fields):
            headers = providers.relocated(self._upstream, headers, self._request.origin)
        self._client.keep_seconds = _keep_seconds(headers) if b"keep-alive" in head.fields else KEEP_ALIVE_SECONDS
        status, reason = head.status, head.reason
        fallback = _websocket_fallback(head, self._request.headers) if self._wants_websocket else None
        if fallback is not None:
            headers += [(b"upgrade", b"HTTP/1.1"), (b"x-wiretape-upstream-status", b"%d" % status)]
            status, reason = fallback, b""
        self._client.start(status, reason, headers, chunked=chunked, closes=not head.keeps)

    def _relayed(self, at: int, relayed: int | None, body: bytes) -> None:
        """Record a read, at once or when the client has taken it."""
        if self._connection is not None and self._connection.merged_at == at:
            self.note_lag()
        if self._recording.clock == "loop":
            self._proxy.measure_lag(self)
        if relayed is not None and not self._untaken_reads:
            self._recording.put_read(at, relayed, body)
            return
        if not self._untaken_reads:
            self._waits_since = self._now()
        self._untaken_reads.append(UntakenRead(at, body, self._client.written))
        if self._client.unsent > UNSENT_BYTES and self._connection is not None and not self._connection.is_over:
            self._connection.pause()

    def client_progressed(self) -> None:
        """Record the reads that the kernel has taken now; resume upstream when half of the limit is free."""
        relayed, unsent = self._now(), self._client.unsent
        count = bisect_right(self._untaken_reads, self._client.written - unsent, key=attrgetter("end"))
        taken_reads = self._untaken_reads[:count]
        del self._untaken_reads[:count]  # at once: of tiny chunks there may be tens of thousands
        for at, body, _ in taken_reads:
            self._recording.put_read(at, relayed, body)
        self._waits_since = relayed if self._untaken_reads else None
        if self._stage is Stage.DRAINING and not self._untaken_reads:
            self._finish()
        elif self._connection is not None and unsent < UNSENT_BYTES // 2:
            self._connection.resume()

    # a WebSocket

    def switched(self, at: int, head: ResponseHead, early: bytes) -> None:
        """Hand both connections over to a WebSocket."""
        assert isinstance(self._connection, Http1Connection)
        assert isinstance(self._client, Http1Client)
        self._stage = STAGE[self._stage, "switch"]
        self._recording.put_head(head.status, head.headers, head.framing)
        headers = [*UPGRADE, *_passed(head, self._recording.id if self._options.is_recorded else None)]
        self._websocket = WebSocket(self._client, self._connection, self._recording, self)
        self._proxy.live.discard(self)
        self._proxy.live.add(self._websocket)
        self._websocket.begin(at, head, headers, early, self._now)

    def websocket_ended(self, ended_by: EndedBy, detail: str | None, at: int, *, paused: int) -> None:
        """Record that the WebSocket has ended."""
        assert self._connection is not None
        self._stage = STAGE[self._stage, "end"]
        if self._websocket is not None:
            self._proxy.leave(self._websocket)
        self._proxy.leave(self)
        self.note_lag()
        self._recording.end(ended_by, detail, at, paused=paused)
        self._proxy.transport.remember(self._connection)

    def failed(self, error: Exception) -> None:
        """Report a fault of our own."""
        self._proxy.on_trouble(f"a WebSocket failed by a fault of wiretape's own: {_placed_description(error)}")

    # endings

    def _finish(self, *, is_upload_over: bool = False) -> None:
        """End as the response ended; if upstream still takes the request's body, after that."""
        assert self._connection is not None
        if self._connection.failure is not None:
            self._fail(self._connection.failure, self._connection.ended_at)
            return
        if not is_upload_over and self._connection.is_half_closed:
            self._stage = STAGE[self._stage, "upload"]
            return
        self._end("end", None, self._connection.ended_at)
        self._client.finish()

    @property
    def _is_unanswered(self) -> bool:
        """True if no head of an answer has been passed on."""
        return self._stage in (Stage.WAITING, Stage.FAILING)

    def _fail(self, error: UpstreamError, at: int) -> None:
        """End because upstream failed; before an answer, first record the rest of the request's body, within limits."""
        if self._stage in (Stage.FAILING, Stage.ENDED):
            return
        self._failure = error, at
        if not self._is_unanswered or self._upload is RequestBody.WHOLE or not self._recording.takes_upload:
            self._tell_failure()
            return
        self._stage = STAGE[self._stage, "fail"]
        self._rest_limit = asyncio.get_running_loop().call_later(REST_SECONDS, self._tell_failure)
        self._ask_for_body()
        self.body_came()
        self._client.hold_body(False)

    def _tell_failure(self) -> None:
        """End with an answer of our own; with a cut if one has begun, or if the program sees the server itself.

        A kept connection that is closed on a request is mirrored: clients know that race, and many try again.
        """
        assert self._failure is not None
        error, at = self._failure
        is_unanswered, on_unreached = self._is_unanswered, self._options.on_unreached
        is_own_limit = error.ended_by in _OWN_LIMITS
        # A connection of HTTP/2 that was lost has no code for its streams; one of HTTP/1.1 is the exchange's alone.
        is_stream_lost = not isinstance(self._connection, Http1Connection) and not is_own_limit
        code = ErrorCodes.INTERNAL_ERROR if error.code is None and not is_stream_lost else error.code
        self._end(error.ended_by, str(error), at)  # which forgets the connection
        is_closed = self._recording.connection_reused and error.ended_by in ("eof", "reset")
        is_mirrored = error.code is not None or is_closed
        cut = self._client.reset if error.ended_by == "reset" else self._client.cut
        if isinstance(error, ProxyRefusal) and self._request.method == "CONNECT" and on_unreached is not None:
            text = f"wiretape: {error}\n".encode()
            self._client.answer(error.status, text, "text/plain", reason=error.reason)
            on_unreached(error)
            return
        if not is_unanswered or is_mirrored:
            cut(code)
            return
        if on_unreached is not None and not is_own_limit:
            cut()
            on_unreached(error)
            return
        place = "" if error.ended_by == "local" else f"upstream {self._upstream.host}: "
        statuses = {"headers_timeout": 504, "connect_timeout": 504, "idle_timeout": 504, "local": 503}
        status = statuses.get(error.ended_by, 502)
        _answer_error(self._client, status, f"{place}{error}", error.ended_by, self._recording.id)

    def _end(self, ended_by: EndedBy, detail: str | None, at: int) -> None:
        """Record the ending, which is upstream's where that failed first; keep or close the connection upstream."""
        if self._stage is Stage.ENDED:
            return
        self._stage = STAGE[self._stage, "end"]
        if self._failure is not None:
            error, at = self._failure
            ended_by, detail = error.ended_by, str(error)
        self._proxy.leave(self)
        self.note_lag()
        for pending in (self._continue, self._connecting, self._rest_limit):
            if pending is not None:
                pending.cancel()
        if self._upload is RequestBody.COMING:
            self._end_upload()
        for read_at, body, _ in self._untaken_reads:
            self._recording.put_read(read_at, None, body)
        self._untaken_reads.clear()
        connection, self._connection = self._connection, None  # else both would wait for a garbage collection
        reset_code = None if ended_by == "end" else self._reset_code(ended_by)
        if connection is None:
            self._recording.end(ended_by, detail, at, reset_code=reset_code)
            return
        self._recording.end(
            ended_by,
            detail,
            at,
            paused=connection.paused,
            surplus=connection.state is Receiving.SURPLUS,
            trailers=connection.trailers,
            reset_code=reset_code,
        )
        if not connection.is_remembered:
            self._proxy.transport.remember(connection)
        client = self._client
        if ended_by == "end" and connection.is_reusable():
            client.keep(connection)
        elif self._recording.client_closed_ns is not None and not client.has_ended and client.reset_code is None:
            connection.reset()  # as the client has reset its own, and not a stream of it
        else:
            connection.close(client.reset_code)

    def _reset_code(self, ended_by: EndedBy) -> str | None:
        """Return the name of the HTTP/2 error that ended the exchange, or None."""
        if self._failure is not None:
            return self._failure[0].reset_code
        code = self._client.reset_code if ended_by == "client" else None
        return None if code is None else reset_code("rst", code)

    def client_left(self) -> None:
        if self._stage is not Stage.ENDED:
            at = self._now()
            self._recording.client_closed_ns = at - self._recording.t0
            self._end_with_client("client", None, at)

    def dropped(self, ended_by: EndedBy, detail: str) -> None:
        """End because wiretape closed the client's connection."""
        self._end_with_client(ended_by, detail, self._now())

    def _end_with_client(self, ended_by: EndedBy, detail: str | None, at: int) -> None:
        """End without a client; if the whole response had been received by then, as that ended."""
        if self._stage in (Stage.DRAINING, Stage.UPLOADING):
            assert self._connection is not None
            self._end("end", None, self._connection.ended_at)
        else:
            self._end(ended_by, detail, at)

    def end_if_stalled(self, since: int) -> None:
        """End if the client has taken nothing since then."""
        if self._waits_since is not None and self._waits_since < since:
            self._end("client_stalled", "the client stopped reading", self._now())
            self._client.close()

    def cut(self, ended_by: EndedBy, detail: str) -> None:
        """End at once; a client that waits for an answer gets an error."""
        if self._stage is Stage.ENDED:
            return
        if self._stage is Stage.UPLOADING:
            self._finish(is_upload_over=True)
            return
        is_unanswered = self._is_unanswered
        self._end(ended_by, detail, self._now())
        if not is_unanswered:
            self._client.close()
        else:
            _answer_error(self._client, 503, "stopped before an answer came", ended_by, self._recording.id)

    def taker_failed(self, error: Exception) -> None:
        """End because of wiretape's own fault: report it to the client and the user, and record it."""
        self._proxy.on_trouble(f"an exchange failed by a fault of wiretape's own: {_placed_description(error)}")
        is_unanswered = self._is_unanswered
        self._end("died", f"a fault of wiretape's own: {_description(error)}", self._now())
        if not is_unanswered:
            self._client.close()
            return
        _answer_error(self._client, 500, f"a fault of its own: {_description(error)}", "internal", self._recording.id)

    def note_lag(self) -> None:
        """Record that timestamps may be late: separate reads may have merged while the loop was late."""
        recording, connection = self._recording, self._connection
        (ran_at, since, until), t0 = self._proxy.lag, recording.t0
        if connection is None:
            return
        is_merged = max(since, t0) <= connection.merged_at <= until + LATE_NS
        if is_merged or (recording.clock == "loop" and since >= t0):
            recording.clock_error_ns = max(recording.clock_error_ns or 0, until - max(ran_at, t0))


def _passed(head: ResponseHead, id: str | None) -> Headers:
    """Return the headers of a response that the client gets."""
    passed, fields = list(head.passed), head.fields
    if head.framing == "none" and head.status in (204, 304):
        passed = [pair for pair in passed if pair[0].lower() != b"content-length"]
    if head.is_event_stream and b"x-accel-buffering" not in fields:
        passed.append((b"x-accel-buffering", b"no"))  # else an nginx in front of the client would buffer the stream
    if head.framing == H2:  # whose trailers are passed on
        passed += [pair for pair in head.headers if pair[0] == b"trailer"]
    if head.keeps and b"keep-alive" in head.fields:  # the client's connection lives as long as upstream's
        passed += [(name, value) for name, value in head.headers if name.lower() == b"keep-alive"]
    if id is not None:
        passed.append((b"x-wiretape-id", id.encode()))
    return passed


def _websocket_fallback(head: ResponseHead, headers: Headers) -> int | None:
    """Return the status for which the program that sent `headers` falls back to HTTP; None: it needs no other.

    None, too, if `head` is not the answer to an upgrade by a server without WebSocket at this path.
    """
    lengths = [value for name, value in head.headers if name.lower() == b"content-length"]
    is_refused = head.status == 403 and lengths == [b"0"]  # by a server in Python
    if head.status not in (200, 404, 405, 501) and not is_refused:
        return None
    agents = (value.decode("latin-1") for name, value in headers if name in (b"user-agent", b"originator"))
    programs = filter(None, map(apis.program_by_agent, agents))
    return next((program.falls_back_on for program in programs if program.falls_back_on), None)


def _keep_seconds(headers: Headers) -> float:
    """Return the keep-alive time of the client's connection: the one that the passed headers promise, within bounds."""
    values = b",".join(value for name, value in headers if name.lower() == b"keep-alive")
    promised = re.search(rb"\btimeout\s*=\s*(\d{1,6})", values, re.IGNORECASE)
    return min(max(KEEP_ALIVE_SECONDS, float(promised[1]) if promised else 0), KEEP_ALIVE_MOST_SECONDS)


def _answer_error(
    client: Client, status: int, message: str, kind: str, id: str | None = None, headers: Headers | None = None
) -> None:
    body = msgspec.json.encode({"error": {"message": f"wiretape: {message}", "type": "wiretape_error", "code": kind}})
    headers = [(b"x-wiretape-error", kind.encode()), *(headers or [])]
    if id is not None:
        headers.append((b"x-wiretape-id", id.encode()))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    client.answer(status, body, "application/json", headers)


def _placed_description(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{_description(error)} at {place.filename}:{place.lineno}"


def _description(error: BaseException) -> str:
    """Return an error's type and message; its `repr` may contain all the bytes concerned."""
    return Redactor(None).text(f"{type(error).__name__}: {error}")
