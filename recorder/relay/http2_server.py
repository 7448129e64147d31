"""A client's HTTP/2 connection: each stream is a client of its own."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from h2 import events
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from wiretape.recorder.clock import Clock
from wiretape.recorder.facts import EndedBy
from wiretape.recorder.relay import guard
from wiretape.recorder.relay.client import FAULT, LINGER_SECONDS, App, P, R, guarded
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.http2 import STREAMS, UNREAD_BYTES, Headers, Http2, Http2Stream
from wiretape.recorder.relay.http2_frames import GoAway
from wiretape.recorder.relay.http2_mirror import Mirror
from wiretape.recorder.relay.http2_upstream import Http2Connection
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.request import HTTP2, Priority, Request
from wiretape.recorder.relay.responder import Responder, Takeover
from wiretape.recorder.relay.sockets import Ends, Socket
from wiretape.recorder.relay.states import StreamOutput
from wiretape.recorder.relay.upstream import Carrier, ConnectionFacts, Transport, error_text

IDLE_SECONDS = 600.0
"""Time that a connection is kept without a request, unless its API server ends its own before."""
LAST_SECONDS = 60.0
"""Time that the rest of an answer is kept for a client that does not open its window, after the answer was cut."""


class ClientStream(Http2Stream["ClientStream"]):
    """One request of a client, and the answer to it (`client.Client`)."""

    __slots__ = (
        "__weakref__", "_connection", "_is_held", "_owed", "_request", "_responder", "has_come", "is_answered",
        "keep_seconds", "reset_code",
    )  # fmt: skip

    def __init__(self, connection: "Http2Client", id: int, request: Request) -> None:
        super().__init__(connection, id, self)
        self._connection, self._request = connection, request
        self._responder: Responder | None = None
        self._is_held = False
        self._owed = 0
        """Bytes of the body that were taken, and for which the client's window has not been opened again."""
        self.has_come = self.is_answered = False
        self.reset_code: int | None = None
        """The code by which the client reset the stream; None: it has not."""
        self.keep_seconds = 0.0

    # the request

    @property
    def may_switch(self) -> bool:
        """False: a stream has no other protocol."""
        return False

    @property
    def can_switch(self) -> bool:
        """False: a stream has no other protocol."""
        return False

    @property
    def stamp(self) -> int:
        """The timestamp of the last read from the client; the clock's ns."""
        return self._connection.stamp

    @property
    def connection(self) -> "Http2Client":
        return self._connection

    @property
    def ends(self) -> Ends | None:
        """Both ends of the connection that it is a stream of, ours first."""
        return self._connection.ends

    @property
    def has_ended(self) -> bool:
        """True if the client closed in good order."""
        return self._connection.has_ended

    def hold_body(self, is_held: bool) -> None:
        """Hold the request's body back, or release it."""
        self._is_held = is_held
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Open the client's window for the processed part of the body."""
        waits = self._is_held or self._request.pieces or self._request.complete or self.reset_code is not None
        if not waits and self._connection.acknowledge(self, self._owed):
            self._owed = 0
            self._connection.flush()

    def inform(self, status: int, reason: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Send an informational response before the answer."""
        if self.output is StreamOutput.OPEN and not self.is_answered and self._connection.unsent <= UNREAD_BYTES:
            self._connection.h2.send_headers(self.id, _head(status, headers))
            self._connection.flush()

    # the way to an API server

    def reuse(self, upstream: Upstream) -> Carrier | None:
        """Return a carrier on a connection that is open already."""
        return self._connection.mirror.reuse(upstream)

    def connect_at_once(self, transport: Transport, upstream: Upstream, facts: ConnectionFacts) -> Carrier | None:
        """Return None: the server's protocol is not known yet."""
        return None

    async def connect(self, transport: Transport, upstream: Upstream, facts: ConnectionFacts) -> Carrier:
        return await self._connection.mirror.connect(transport, upstream, facts)

    def keep(self, carrier: Carrier) -> None:
        """Keep a connection of HTTP/1.1 for another request."""
        self._connection.mirror.keep(carrier)

    # the answer

    def start(self, status: int, reason: bytes, headers: Headers, *, chunked: bool, closes: bool) -> None:
        """Begin an answer; the framing and the end of the connection are HTTP/1.1's alone."""
        if self.output is not StreamOutput.OPEN:
            return
        self.is_answered = True
        self.begin(_head(status, headers))

    def add(self, body: bytes) -> None:
        self.write(body)

    def add_unframed(self, data: bytes) -> None:
        """Ignore the bytes: a stream has none outside of its frames."""

    def add_end(self, trailers: Headers | None = None) -> None:
        self.end(trailers)

    def send(self, body: bytes, chunk: bytes = b"") -> bool:
        """Send more of an answer's body; return True if the kernel took all that was written at once."""
        self.write(body)
        return self.pump()

    def flush(self) -> bool:
        """Send the added bytes; return True if the kernel took all of them at once."""
        return self.pump()

    def answer(
        self, status: int, body: bytes, content_type: str, headers: Headers | None = None, reason: bytes = b""
    ) -> None:
        """Send a whole answer of wiretape's own."""
        fields = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body)), *(headers or [])]
        self.start(status, b"", fields, chunked=False, closes=False)
        if self._request.method != "HEAD":
            self.add(body)
        self.add_end()
        self.flush()
        self.finish()

    # the end of the answer

    def finish(self) -> None:
        """End an answer, and the request of a client that still sends it."""
        self._responder = None
        self._connection.settle(self)

    def cut(self, code: int | None = None, *, by_reset: bool = False) -> None:
        """Reset the stream when all that came of the answer is sent; without a code, lose the connection."""
        self._responder = None
        if code is None:
            self._connection.lose(self, by_reset=by_reset)
        else:
            super().cut(code)
        if self.output is not StreamOutput.ENDED:
            self._connection.give_up(self, LAST_SECONDS)
        self._connection.settle(self)

    def reset(self, code: int | None = None) -> None:
        """End as `cut` does; the connection, if that is lost, by a TCP reset."""
        self.cut(code, by_reset=True)

    def close(self) -> None:
        """Reset the stream at once."""
        self._responder = None
        self.abort(ErrorCodes.INTERNAL_ERROR)
        self._connection.settle(self)

    # faults of our own

    def guarded(self, call: Callable[P, R]) -> Callable[P, R | None]:
        """Return a callback for the event loop, or another thread's result, whose exceptions fail this stream."""
        return guarded(call, self.failed)

    def hand_over(self, responder: Responder, successor: Responder) -> None:
        """Replace a responder, if its client is still there."""
        if self._responder is responder:
            self._responder = successor

    def failed(self, error: Exception) -> None:
        """Report a fault of our own, answer if no answer has begun, and end."""
        responder, self._responder = self._responder, None
        try:
            if responder is not None:
                responder.taker_failed(error)
            else:
                self._connection.app.client_failed(error)
        finally:
            if not self.is_answered and self.output is StreamOutput.OPEN:
                self.answer(500, FAULT, "text/plain")
            elif self.output is not StreamOutput.ENDED:
                self.close()

    # used by the connection

    def prioritize(self, priority: Priority) -> None:
        self._request.priority = priority

    def data_came(self, data: bytes, flow_controlled: int) -> None:
        """Receive a part of the request's body."""
        self._owed += flow_controlled
        self._request.pieces.append(data)
        self._request.padding += flow_controlled - len(data)
        self._request.has_news = True

    def trailers_came(self, trailers: Headers) -> None:
        """Note the trailers after the request's body."""
        self._request.trailers = [pair for pair in trailers if guard.is_request([pair]) and pair[0][:1] != b":"]

    def input_reset(self, code: int) -> None:
        """Note that the client does not want the answer."""
        self.reset_code = code

    def input_ended(self) -> None:
        """Note the end of the request's body."""
        self._request.complete = self._request.has_news = True

    @property
    def is_read(self) -> bool:
        """True until all of the request has been processed."""
        return self._responder is not None

    @property
    def takes_data(self) -> bool:
        """True if the request's body may go on, and no length limits it, which `h2` checks first.

        To an HTTP/1.1 server, bytes beyond the length would be another request.
        """
        request = self._request
        return not request.complete and self.reset_code is None and b"content-length" not in request.spelling

    @property
    def is_complete(self) -> bool:
        """True if all of the request has come."""
        return self._request.complete

    def deliver(self, at: int) -> None:
        """Begin with the request, or report its progress or its end to the responder.

        A request that is reset in the read that brought it is no exchange, nor is one before a frame that broke the
        connection: nothing of it was sent on.
        """
        if not self.has_come:
            self.has_come = True
            self._request.has_news = False
            is_wanted = self.reset_code is None and self.output is StreamOutput.OPEN
            if is_wanted:
                responder = self._connection.app.serve(self, self._request)
                if self.output is StreamOutput.OPEN and self.reset_code is None:
                    self._responder = responder
        elif self._request.has_news and self._responder is not None:
            self._request.has_news = False
            self._responder.body_came()
        if self.reset_code is not None:
            self.leave()
        else:
            self._acknowledge()

    def leave(self) -> None:
        responder, self._responder = self._responder, None
        if responder is not None:
            responder.client_left()

    def drop(self, ended_by: EndedBy, detail: str) -> None:
        """Report to the responder that wiretape has closed the connection."""
        responder, self._responder = self._responder, None
        if responder is not None:
            responder.dropped(ended_by, detail)

    def output_progressed(self) -> None:
        """Report to the responder that the client has received more."""
        if self._responder is not None:
            self._responder.client_progressed()


class Http2Owner(Protocol):
    """The connection that turned out to speak HTTP/2."""

    def close(self) -> None: ...

    def limit(self, seconds: float | None) -> None:
        """Close it after some time; None: no limit."""


class Http2Client(Http2[ClientStream], Takeover):
    """A client's connection that speaks HTTP/2; `server_connection` is the API server's, if it was opened before."""

    def __init__(
        self, owner: Http2Owner, sock: Socket, app: App, clock: Clock, server_connection: Http2Connection | None = None
    ) -> None:
        Http2.__init__(self, sock, clock, is_client=False)
        self._owner, self.app = owner, app
        self._handlers[events.RequestReceived] = self._request_came
        self._handlers[events.PriorityUpdated] = self._priority_came
        self._handlers[events.SettingsAcknowledged] = self._settings_acknowledged
        self.mirror = Mirror(self, clock)
        self._highest_stream = 0
        self._last_stream: int | None = None
        """The last stream that is processed, once the client has been told so."""
        self._is_upstream_leaving = False
        """True after an API server has announced the end of its connection."""
        self._is_server_reset = self._is_reset_due = False
        """True if the last server was reset, and if the client's connection is to be reset when all is sent."""
        self._lost_streams: dict[ClientStream, bool] = {}
        """The streams whose server has lost its connection, with True where that was a reset."""
        self._announcements = 0
        self._streams_allowed = self._streams_announced = STREAMS
        """Limits of streams: that of the API servers, and the last one announced to the client."""
        self._has_unacknowledged_limit = False
        owner.limit(IDLE_SECONDS)
        self._greet()
        if server_connection is not None:
            self.mirror.adopt(server_connection)

    @property
    def stamp(self) -> int:
        """The timestamp of the last read; the clock's ns."""
        return self._socket.stamp

    @property
    def ends(self) -> Ends | None:
        """Both ends of the connection, ours first; None where it is closed, or not over IPv4."""
        return self._socket.ends

    @property
    def has_ended(self) -> bool:
        """True if the client closed in good order."""
        return self._socket.has_ended

    @property
    def is_closed(self) -> bool:
        """True after the end of the connection."""
        return self._socket.is_closed

    @property
    def is_idle(self) -> bool:
        """True if no request is being answered, and all answers are sent."""
        return not self.streams and not self._socket.unsent

    # requests

    def _request_came(self, event: events.RequestReceived) -> None:
        if (
            self._last_stream is not None and event.stream_id > self._last_stream
        ):  # the client repeats it on another connection
            self.reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        headers = list(event.headers)
        if not guard.is_request(headers):
            self.app.client_rejected(Refusal(400, "a request over HTTP/2 breaks HTTP by a name or a value in its head"))
            self.reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        request = _request(headers)
        request.stream = event.stream_id
        stream = ClientStream(self, event.stream_id, request)
        self._owner.limit(None)
        self._highest_stream = max(self._highest_stream, event.stream_id)
        self.streams[event.stream_id] = self._touched[event.stream_id] = stream

    def _priority_came(self, event: events.PriorityUpdated) -> None:
        """Pass a stream's priority on, with its request if that is still to be sent."""
        stream = self.streams.get(event.stream_id or 0)
        if stream is not None and not stream.has_come:
            stream.prioritize(_priority(event))
            return
        self.mirror.prioritize(_priority(event))

    def handled(self, stream: ClientStream) -> None:
        self.settle(stream)
        self._end_lost()

    def output_ended(self, stream: Http2Stream[Any]) -> None:
        """Forget a stream whose answer is sent, if its request has come."""
        super().output_ended(stream)
        if isinstance(stream, ClientStream):
            self.settle(stream)

    def settle(self, stream: ClientStream) -> None:
        """Forget a stream that has ended on both sides; end the request of one whose answer is sent."""
        if stream.output is not StreamOutput.ENDED or self.streams.get(stream.id) is not stream:
            return
        if stream.reset_code is None:
            if stream.is_read:
                return
            if not stream.is_complete:
                self.reset(stream.id, ErrorCodes.NO_ERROR)
        stream.progressed()
        if stream.unsent and not self._socket.is_closed and stream.reset_code is None:
            return  # its last reads wait for the kernel
        del self.streams[stream.id]
        if self._lost_streams:
            self._loop.call_soon(self._end_lost)
        if self.streams:
            return
        self._owner.limit(IDLE_SECONDS)
        if self._is_upstream_leaving:
            self._loop.call_soon(self._leave_if_idle)

    def lose(self, stream: ClientStream, *, by_reset: bool) -> None:
        """End a stream as its server's connection ended: by the end of the client's, if that has no other stream."""
        self._lost_streams[stream] = by_reset
        self._loop.call_soon(self._end_lost)  # after all streams of that server

    def _end_lost(self) -> None:
        """End the lost streams when the client has all that came of them."""
        self._lost_streams = {
            stream: by_reset for stream, by_reset in self._lost_streams.items() if self.streams.get(stream.id) is stream
        }
        if not self._lost_streams or self._socket.is_closed:
            return
        for stream in self._lost_streams:
            stream.pump()
        if any(stream.unsent for stream in self._lost_streams):
            return
        streams, self._lost_streams = self._lost_streams, {}
        if all(stream in streams for stream in self.streams.values()):
            self._end_connection(by_reset=any(streams.values()))
            return
        for stream in streams:
            stream.close()

    def give_up(self, stream: ClientStream, seconds: float) -> None:
        """Drop the rest of a cut answer if the client has not taken it within some time."""

        def drop() -> None:
            if self.streams.get(stream.id) is stream and not self._socket.is_closed:
                stream.close()

        self._loop.call_later(seconds, drop)

    # the API servers

    def limit_streams(self, allowed: int) -> None:
        """Allow as many streams as the API servers do, once the client has acknowledged the limit before."""
        self._streams_allowed = allowed
        if allowed != self._streams_announced and not self._has_unacknowledged_limit and not self.is_over:
            self._streams_announced, self._has_unacknowledged_limit = allowed, True
            self.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: allowed})
            self.flush()

    def _settings_acknowledged(self, event: events.SettingsAcknowledged) -> None:
        if SettingCodes.MAX_CONCURRENT_STREAMS in event.changed_settings:
            self._has_unacknowledged_limit = False
            self.limit_streams(self._streams_allowed)

    def upstream_leaves(self, announced: GoAway, refused: Collection[int]) -> None:
        """Pass the announcement on, with the client's number of the last stream that the server has not `refused`.

        New requests need a new connection, where the client repeats those after that number. A refused one before it
        is reset on its own.
        """
        self._is_upstream_leaving = True
        self._announcements += 1
        if self._announcements > 8:  # the client may read none of them
            return
        if announced.is_graceful:
            self.announce(announced)
            return
        last_stream = self._highest_stream
        while last_stream in refused:
            last_stream -= 2  # a client's streams have odd numbers
        self._announce_end(max(last_stream, 0), announced.code, announced.debug)
        for id in refused:
            stream = self.streams.get(id)
            if stream is not None and id > last_stream:
                stream.drop_output()

    def _announce_end(self, last_stream: int, code: int = ErrorCodes.NO_ERROR, debug: bytes = b"") -> None:
        """Send a GOAWAY frame: no request after the stream `last_stream` is processed."""
        self._last_stream = last_stream if self._last_stream is None else min(last_stream, self._last_stream)
        self.announce(GoAway(self._last_stream, code, debug))

    def upstream_closed(self, *, is_reset: bool) -> None:
        """Close after a server closed the last connection, unless another request is being answered."""
        self._is_server_reset = is_reset
        self._loop.call_soon(self._leave_if_idle)  # after the frames that are held back

    def leave(self) -> None:
        """Announce the end, and refuse further requests."""
        if self._last_stream is None and not self.is_over:
            self._announce_end(self._highest_stream)

    def _leave_if_idle(self) -> None:
        """End the connection in good order, unless a request is being answered or an API server keeps its own."""
        if self.mirror.connections or self.streams or self._socket.is_closed:
            return
        if not self._is_server_reset:
            self.leave()
        self._end_connection(by_reset=self._is_server_reset)

    def _end_connection(self, *, by_reset: bool) -> None:
        """Close the connection when all is sent, and give the client time to read it."""
        if self._last_stream is None:
            self._last_stream = self._highest_stream
        self.mirror.close()
        self.flush()
        self._is_reset_due = by_reset
        self._loop.call_later(LINGER_SECONDS, self._owner.close)
        if by_reset:
            self._reset_when_sent()
        else:
            self._socket.end()

    def _reset_when_sent(self) -> None:
        if not self._socket.unsent:
            self._socket.reset()
            self._owner.close()

    def progressed(self) -> None:
        """The kernel has taken more."""
        super().progressed()
        if self._is_reset_due:
            self._reset_when_sent()

    # the end

    def leaving(self, announced: GoAway) -> None:
        """Ignore it: a client that leaves closes the connection when it has its answers."""

    def write_failed(self, error: OSError) -> None:
        """End as if the client had closed the connection: it does not read the answers."""
        self._owner.close()
        self.lost(error)

    def lost(self, error: Exception | None) -> None:
        """End: the client closed the connection, or broke it, which breaks those to API servers."""
        self.mirror.close(by_reset=error is not None)
        self._end_streams(ClientStream.leave)

    def dropped(self, ended_by: EndedBy, detail: str) -> None:
        """End: wiretape closed the connection."""
        self._end_streams(lambda stream: stream.drop(ended_by, detail))

    def close_broken(self, error: Exception | None, at: int) -> None:
        """End, and close the connection: the client broke HTTP/2."""
        reason = f"a client broke HTTP/2: {error_text(error) if error else ''}"
        self.dropped("client", f"wiretape closed the connection: {reason}")
        self.app.client_rejected(Refusal(400, reason))
        self._socket.end()
        self._owner.close()

    def failed(self, error: Exception) -> None:
        """Report a fault of our own, and close."""
        self.app.client_failed(error)
        self._owner.close()
        self.dropped("died", f"a fault of wiretape's own: {type(error).__name__}")

    def _end_streams(self, end: Callable[[ClientStream], None]) -> None:
        """End all requests, and close the connections to API servers."""
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            stream.drop_output()
            try:
                end(stream)
            except Exception as error:  # noqa: BLE001 - one stream's fault must not keep the others
                self.app.client_failed(error)
        self.mirror.close()


def _head(status: int, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return a head with its status as the pseudo-header, and without headers that HTTP/2 does not have."""
    passed = [pair if pair[0].islower() else (pair[0].lower(), pair[1]) for pair in headers]
    return [(b":status", b"%d" % status), *(pair for pair in passed if pair[0] not in guard.CONNECTION_ONLY)]


def _priority(event: events.PriorityUpdated) -> Priority:
    return Priority(event.stream_id or 0, event.depends_on or 0, event.weight or 16, bool(event.exclusive))


def _request(headers: Headers) -> Request:
    """Return a request with its pseudo-headers as HTTP/1.1 has them: a method, a target and a host."""
    pseudo = {name: value for name, value in headers if name.startswith(b":")}
    fields = [pair for pair in headers if not pair[0].startswith(b":")]
    if b":authority" in pseudo:
        fields = [(b"host", pseudo[b":authority"]), *(pair for pair in fields if pair[0] != b"host")]
    return Request(
        method=pseudo.get(b":method", b"").decode("latin-1"),
        target=pseudo.get(b":path", b""),
        headers=fields,
        version=HTTP2,
        keeps=True,
        spelling={name: name for name, _ in fields},
        scheme=pseudo.get(b":scheme", b""),
    )
