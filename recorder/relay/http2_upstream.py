"""Connections to API servers over HTTP/2: one for each connection of a client, with a stream for each exchange."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.exchange import reset_code
from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.facts import EndedBy
from wiretape.recorder.relay import guard
from wiretape.recorder.relay.http2 import UNREAD_BYTES, Headers, Http2, Http2Stream
from wiretape.recorder.relay.http2_frames import GoAway
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.relay.request import Priority, Request
from wiretape.recorder.relay.sockets import Socket, TlsSocket
from wiretape.recorder.relay.states import RECEIVING, SENDING, Flow, Receiving, Sending, StreamOutput
from wiretape.recorder.relay.upstream import (
    LOOKS,
    NO_BODY,
    RUNNING,
    Carrier,
    Http1Connection,
    ResponseHead,
    Transport,
    error_text,
    lost_by,
)

H2: Final = "h2"
"""The name of HTTP/2 over TLS (ALPN), and of the framing of its bodies."""
ALPN = (H2, "http/1.1")
SETTLE_SECONDS = 5.0
"""Time for a server without TLS to answer HTTP/2's preface; one that does not gets HTTP/1.1."""


class StreamCarrier(Carrier):
    """A stream to an API server, which carries one exchange; it waits until the server allows another stream."""

    __slots__ = (
        "_connection", "_early_body", "_ends", "_expected_bytes", "_fields", "_has_ended", "_new_head", "_owed",
        "_padding", "_pieces", "_received", "_request", "_reset_code", "_sent_padding", "_sent_trailers", "_stream",
    )  # fmt: skip

    protocol = H2

    def __init__(self, connection: "Http2Connection", *, reused: bool) -> None:
        self._connection = connection
        super().__init__(connection.clock, connection.upstream, connection.socket.loop)
        self.reused = reused
        self._stream: Http2Stream[StreamCarrier] | None = None
        self._early_body: list[bytes] = []
        """The request's body, until the stream is open."""
        self._ends = False
        self._sent_trailers: Sequence[tuple[bytes, bytes]] | None = None
        self._pieces: list[bytes] = []
        self._new_head: Headers | None = None
        self._has_ended = False
        self._reset_code: int | None = None
        self._expected_bytes: int | None = None
        """The size of the body by the head's content-length."""
        self._received = 0
        self._padding = self._sent_padding = 0
        """Bytes of padding in the current read, and of the next piece of the request."""
        self._owed = 0
        """Bytes that came, and for which the server's window has not been opened again."""

    @property
    def tls_session(self) -> ssl.SSLSession | None:
        """The session by which the server offers to resume TLS."""
        return self._connection.tls_session

    @property
    def is_remembered(self) -> bool:
        """True if the session of the connection is stored for the next one."""
        return self._connection.is_remembered

    @is_remembered.setter
    def is_remembered(self, is_remembered: bool) -> None:
        self._connection.is_remembered |= is_remembered

    # the request

    def send_head(self, request: Request, target: bytes, headers: Headers, body: bytes | None) -> None:
        """Open a stream with a request's head as soon as the server allows it."""
        self._request, self._sent_trailers = request, request.trailers
        self._fields = [
            (b":method", request.method.encode("ascii")),
            (b":scheme", self.upstream.scheme.encode()),
            (b":authority", self.upstream.authority),
            (b":path", target),
            *headers,
        ]
        if guard.takes_trailers(request.headers):
            self._fields.append((b"te", b"trailers"))
        if body:
            self._early_body.append(body)
        if body is not None:
            self._end()
        self._active_at = self._clock.now()
        self._connection.admit(self)

    def open(self, stream: "Http2Stream[StreamCarrier]") -> None:
        """Send the head, and the received part of the body, on a stream."""
        self._stream = stream
        is_all = self._ends and not self._early_body and self._sent_trailers is None
        self._connection.ask(stream.id, self._request, self._fields, ends=is_all)
        if is_all:
            stream.drop_output()
            self._connection.output_ended(stream)
        stream.pad(self._sent_padding)
        for piece in self._early_body:
            stream.write(piece)
        self._early_body.clear()
        if self._ends:
            stream.end(self._passed_trailers())
        self._pump()

    def pad(self, size: int) -> None:
        """Pad the next piece of the request's body."""
        if self._stream is None:
            self._sent_padding = size
        else:
            self._stream.pad(size)

    def _passed_trailers(self) -> Headers | None:
        return None if self._sent_trailers is None else list(self._sent_trailers)

    def _end(self) -> None:
        self._ends = True
        if self.sending is Sending.OPEN:
            self.sending = SENDING[self.sending, "give all"]

    def send_body(self, piece: bytes, *, is_last: bool, trailers: Sequence[tuple[bytes, bytes]] | None = None) -> None:
        """Send a piece of the request's body; trailers may follow the last one."""
        self._active_at = self._clock.now()
        if is_last:
            self._sent_trailers = trailers
            self._end()
        if self._stream is None:
            self._early_body.append(piece)
            return
        self._stream.write(piece)
        if is_last:
            self._stream.end(self._passed_trailers())
        self._pump()

    def _pump(self) -> None:
        if self._stream is not None and self._stream.pump():
            self._note_sent()

    def _note_sent(self) -> None:
        if self.sending is Sending.GIVEN and not self.unsent:
            self._sent(self._clock.now())

    @property
    def unsent(self) -> int:
        """Bytes of the request's body that wait for the server's window or for the kernel."""
        return sum(map(len, self._early_body)) if self._stream is None else self._stream.unsent

    def output_progressed(self) -> None:
        """Report that more of the request has been taken."""
        self._active_at = self._clock.now()
        self._note_sent()
        if self._taker is not None:
            self._taker.request_progressed()

    @property
    def is_half_closed(self) -> bool:
        """True if the response is whole, and the server still takes the request's body."""
        is_open = self._stream is not None and self._stream.output is not StreamOutput.ENDED
        return is_open and self.state is Receiving.ENDED and self._reset_code is None

    @property
    def client_stream(self) -> int:
        """The client's number of its stream."""
        return self._request.stream

    def is_reusable(self) -> bool:
        """Return False: each exchange has a stream of its own."""
        return False

    # the response

    def head_came(self, headers: Headers) -> None:
        self._new_head = headers

    def informed(self, headers: Headers) -> None:
        """Receive an informational response."""
        if self.state is Receiving.WAITING and self._taker is not None and guard.are_fields(headers):
            self._active_at = self._clock.now()
            fields = [pair for pair in headers if not pair[0].startswith(b":")]
            self._taker.informed(ResponseHead(int(_status(headers)), headers=fields))

    @property
    def takes_data(self) -> bool:
        """True between the head of the response and its end."""
        return self.state is Receiving.STREAMING and not self._has_ended and self._reset_code is None

    def data_came(self, data: bytes, flow_controlled: int) -> None:
        """Receive a part of the body."""
        self._owed += flow_controlled
        self._received += len(data)
        self._padding += flow_controlled - len(data)
        if data:
            self._pieces.append(data)

    def trailers_came(self, trailers: Headers) -> None:
        self.trailers = [pair for pair in trailers if guard.are_fields([pair]) and not pair[0].startswith(b":")]

    def input_ended(self) -> None:
        """Note the end in good order."""
        self._has_ended = True

    def input_reset(self, code: int) -> None:
        self._reset_code = code

    def deliver(self, at: int) -> None:
        """Report all that one read brought."""
        taker = self._taker
        if taker is None:
            return
        if self.state not in RUNNING:
            if self._reset_code is not None:  # after the response: the server wants no more of the request
                taker.request_refused()
            return
        self._active_at = at
        head, pieces = self._take_head(at), self._pieces
        if len(pieces) > 1:
            self.merged_at = at
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self.state in RUNNING:
            self._note_end()
        is_over = self.state not in RUNNING
        if is_over:
            self.ended_at = at
        if head or body or is_over:
            self._note_clock(self._connection.socket)
            if self._padding:
                taker.padded(self._padding)
                self._padding = 0
            taker.response_received(at, head, body, is_over)
        if not is_over and self._flow is Flow.OPEN:
            self._acknowledge()

    def _take_head(self, at: int) -> ResponseHead | None:
        """Return the head if it is new, or note that it is none."""
        headers, self._new_head = self._new_head, None
        if headers is None:
            return None
        status = _status(headers)
        if not (status.isdigit() and len(status) == 3):
            self._break("protocol", "an answer without a status", ErrorCodes.PROTOCOL_ERROR)
            return None
        if not guard.are_fields(headers):
            self._break("protocol", "a character in a header that HTTP does not allow", ErrorCodes.PROTOCOL_ERROR)
            return None
        head = self.head
        is_bare = self._request.method == "HEAD" or int(status) in NO_BODY
        head.status, head.framing, head.keeps = int(status), "none" if is_bare else H2, True
        head.headers = [pair for pair in headers if not pair[0].startswith(b":")]
        head.fields, head.passed = guard.read_answer(head.headers)
        self._expected_bytes = None if is_bare else guard.content_length(head.fields)
        self.state = RECEIVING[self.state, "head"]
        self._facts.headers_ns = at - self._facts.t0
        return head

    def _note_end(self) -> None:
        if self._has_ended and self.state is Receiving.STREAMING:
            if self._expected_bytes is not None and self._received != self._expected_bytes:
                message = f"upstream ended after {self._received} of {self._expected_bytes} bytes"
                self._break("length", message, ErrorCodes.PROTOCOL_ERROR)
            else:
                self.state = RECEIVING[self.state, "end"]
        elif self._reset_code is not None:
            name = reset_code("rst", self._reset_code)
            self._break("reset", f"upstream reset the stream ({name})", self._reset_code, name)

    def _break(self, ended_by: EndedBy, message: str, code: int | None = None, name: str | None = None) -> None:
        self.state = RECEIVING[self.state, "break"]
        self.failure = UpstreamError(ended_by, message, code, name)

    def broke(self, failure: UpstreamError, at: int) -> None:
        """Report the failure, after the data that came before."""
        self.deliver(at)
        if self._taker is None:
            return
        if self.state is Receiving.ENDED:
            self._taker.request_refused()
        if self.state not in RUNNING:
            return
        self.state = RECEIVING[self.state, "break"]
        self.failure, self.ended_at = failure, at
        self._taker.response_received(at, None, b"", True)

    # flow and end

    def _hold(self) -> None:
        """Leave the server's window closed."""

    def _release(self) -> None:
        self._acknowledge()
        self._connection.flush()

    def _acknowledge(self) -> None:
        if self._stream is not None and not self._has_ended and self._connection.acknowledge(self._stream, self._owed):
            self._owed = 0

    def close(self, code: int | None = None) -> None:
        """End at once: reset the stream, unless it has ended on both sides.

        A whole response ends its exchange: the rest of a request that still comes is not needed.
        """
        self._timer.cancel()
        is_answered = self._has_ended or self._reset_code is not None
        is_open = not is_answered or (self._stream is not None and self._stream.output is not StreamOutput.ENDED)
        reason = ErrorCodes.NO_ERROR if self.state is Receiving.ENDED else ErrorCodes.CANCEL
        self._connection.forget(self, self._stream, reason if code is None else code, resets=is_open)


def _status(headers: Headers) -> bytes:
    return next((value for name, value in headers if name == b":status"), b"")


class Http2Connection(Http2[Http2Stream[StreamCarrier]]):
    """A connection to an API server that speaks HTTP/2; `settled` is done when the server's settings have come."""

    def __init__(self, sock: Socket, clock: Clock, upstream: Upstream) -> None:
        super().__init__(sock, clock, is_client=True)
        self.clock, self.socket, self.upstream = clock, sock, upstream
        self.settled: asyncio.Future[None] = self._loop.create_future()
        self.on_leaving: Callable[[GoAway, Collection[int]], None] = lambda *_: None
        self.on_closed: Callable[[], None] = lambda: None
        self.on_settings: Callable[[], None] = lambda: None
        self.hold_client: Callable[[], None] = lambda: None
        self.release_client: Callable[[], None] = lambda: None
        self.has_served = self.is_remembered = False
        self.failure: UpstreamError | None = None
        """The end of the connection, if the server has ended it."""
        self.is_reset = False
        """True if that was a reset which left no request without an answer: such requests pass it on themselves."""
        self._announced: GoAway | None = None
        self._numbers: dict[int, int] = {}
        """The numbers of streams by the client's."""
        self._queue: deque[StreamCarrier] = deque()
        """Exchanges that wait until the server allows another stream."""
        self._handlers |= {
            events.ResponseReceived: self._response_came,
            events.InformationalResponseReceived: self._informational_came,
        }
        sock.start(self)  # without `expect`: a server may send its settings as soon as it has accepted
        self._greet()

    @property
    def tls_session(self) -> ssl.SSLSession | None:
        """The session by which the server offers to resume TLS."""
        return self.socket.session if isinstance(self.socket, TlsSocket) else None

    @property
    def streams_allowed(self) -> int:
        """The limit of streams that the server takes; before its settings, the one that RFC 9113, 6.5.2 recommends."""
        return self.h2.remote_settings.max_concurrent_streams if self.settled.done() else 100

    # streams

    def is_ready(self) -> bool:
        """Return True if another exchange may begin: the server may have closed an idle connection just now."""
        for _ in range(LOOKS):
            if self.streams or not self.socket.look():
                break
        return not self.is_over and self._announced is None

    def carrier(self) -> StreamCarrier:
        reused, self.has_served = self.has_served, True
        return StreamCarrier(self, reused=reused)

    def admit(self, carrier: StreamCarrier) -> None:
        """Open a stream for an exchange as soon as the server allows it."""
        self._queue.append(carrier)
        self._admit()

    def _admit(self) -> None:
        """Open streams for waiting exchanges while the server allows it and reads the bytes sent."""
        while self._queue and len(self.streams) < self.streams_allowed:
            if self.is_over or self.unsent > UNREAD_BYTES:
                return
            carrier = self._queue.popleft()
            id = self.h2.get_next_available_stream_id()
            stream = self.streams[id] = Http2Stream(self, id, carrier)
            carrier.open(stream)

    def ask(self, id: int, request: Request, fields: Headers, *, ends: bool) -> None:
        """Send the head of a request on a stream."""
        priority = request.priority
        self._numbers[request.stream] = id
        if priority is None:
            self.h2.send_headers(id, fields, end_stream=ends)
            return
        parent = self._numbers.get(priority.parent, 0)
        self.h2.send_headers(id, fields, ends, priority.weight, parent, priority.is_exclusive)

    def prioritize(self, priority: Priority) -> None:
        """Pass a stream's new priority on, if the stream is one of this connection, and the server reads."""
        id = self._numbers.get(priority.stream)
        if id is not None and not self.is_over and self.unsent <= UNREAD_BYTES:
            parent = self._numbers.get(priority.parent, 0)
            self.h2.prioritize(id, priority.weight, parent, priority.is_exclusive)
            self.flush()

    def forget(
        self, carrier: StreamCarrier, stream: Http2Stream[StreamCarrier] | None, code: int, *, resets: bool
    ) -> None:
        """Forget an exchange, and reset its stream if it has not ended."""
        if stream is None:
            if carrier in self._queue:
                self._queue.remove(carrier)
            return
        if self.streams.pop(stream.id, None) is None or self.is_over:
            return
        self._numbers.pop(carrier.client_stream, None)
        if resets:
            stream.drop_output()
            self.reset(stream.id, code)
        self._admit()
        self._close_if_left()

    def _close_if_left(self) -> None:
        """Close after the last exchange, if the server has announced the end."""
        if self._announced is not None and not self.streams:
            on_closed = self.on_closed
            self.close()
            on_closed()

    def settings_came(self) -> None:
        """Pass the server's limit of streams on to the client, and open those that had to wait."""
        self.on_settings()
        if not self.settled.done():
            self.settled.set_result(None)
        self._admit()

    # http2.Http2

    def _response_came(self, event: events.ResponseReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._touched[event.stream_id] = stream
            # Else `h2` would end all streams for one whose body has another size.
            self.h2.streams[event.stream_id]._expected_content_length = None  # noqa: SLF001
            stream.receiver.head_came(list(event.headers))
        elif event.stream_id % 2 == 0:
            raise ProtocolError(f"a response on stream {event.stream_id}, which no request has opened")

    def _informational_came(self, event: events.InformationalResponseReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.receiver.informed(list(event.headers))

    def deliver(self, streams: Collection[Http2Stream[StreamCarrier]], at: int) -> None:
        """Report what one read has brought; that for several exchanges goes to the client in one write."""
        if len(streams) == 1:
            super().deliver(streams, at)
            return
        self.hold_client()
        try:
            super().deliver(streams, at)
        finally:
            self.release_client()

    def leaving(self, announced: GoAway) -> None:
        """Pass the announcement on, and end the exchanges that the server will not process."""
        self._announced = announced
        unprocessed = [stream.receiver for id, stream in self.streams.items() if id > announced.last_stream]
        unprocessed += self._queue
        self.on_leaving(announced, frozenset(carrier.client_stream for carrier in unprocessed))
        name = reset_code("goaway", announced.code)
        refused = UpstreamError(
            "reset", f"upstream ended the connection before the request ({name})", ErrorCodes.REFUSED_STREAM, name
        )
        for carrier in unprocessed:
            carrier.broke(refused, self.socket.stamp)
        self._close_if_left()

    def progressed(self) -> None:
        """The kernel has taken more."""
        super().progressed()
        self._admit()

    # the end

    def write_failed(self, error: OSError) -> None:
        """Ignore it: the next read reports the cause."""

    def lost(self, error: Exception | None) -> None:
        """End all exchanges: the server closed the connection, or broke it."""
        ended_by: EndedBy = "reset" if error and self.settled.done() else lost_by(error)
        exchanges = *(stream.receiver for stream in self.streams.values()), *self._queue
        self.is_reset = ended_by == "reset" and all(carrier.state is not Receiving.WAITING for carrier in exchanges)
        self._end_all(ended_by, error_text(error) if error else "upstream closed the connection", self.socket.stamp)

    def close_broken(self, error: Exception | None, at: int) -> None:
        """End all exchanges: the server broke HTTP/2."""
        self.socket.close()
        self._end_all("framing", f"upstream broke HTTP/2: {error_text(error) if error else ''}", at)

    def _end_all(self, ended_by: EndedBy, message: str, at: int) -> None:
        name = None if self._announced is None else reset_code("goaway", self._announced.code)
        self.failure = failure = UpstreamError(ended_by, message, None, name)
        if not self.settled.done():
            self.settled.set_exception(failure)
            self.settled.exception()  # nobody has to wait for it
        for carrier in (*(stream.receiver for stream in self.streams.values()), *self._queue):
            try:
                carrier.broke(failure, at)
            except Exception as error:  # noqa: BLE001 - one exchange's fault must not end the others
                carrier.failed(error)
        self.streams.clear()
        self._queue.clear()
        self.on_closed()

    def close(self, *, by_reset: bool = False) -> None:
        """Close at once; exchanges on it have ended."""
        self.on_closed, self.on_leaving = lambda: None, lambda *_: None
        if by_reset:
            self.socket.reset()
        self.socket.close()

    def failed(self, error: Exception) -> None:
        """Report a fault of our own to all exchanges, after the data that came before."""
        self._deliver_last(self.socket.stamp)
        self.socket.close()
        for carrier in (*(stream.receiver for stream in self.streams.values()), *self._queue):
            carrier.failed(error)
        self.on_closed()


async def open(transport: Transport, upstream: Upstream, clock: Clock) -> Http2Connection | Http1Connection:
    """Open a connection to an API server, over HTTP/2 if the server speaks it. Raises `UpstreamError`.

    With TLS the server chooses; without, it has to answer HTTP/2's preface. Its answer is remembered.
    """
    sock = await transport.open(upstream, ALPN)
    if upstream.scheme == "https":
        if sock.protocol == H2:
            return Http2Connection(sock, clock, upstream)
        transport.http1_only.add(upstream)
        return transport.serve(sock, upstream)
    connection = Http2Connection(sock, clock, upstream)
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await asyncio.shield(connection.settled)
    except (UpstreamError, TimeoutError) as error:
        connection.close()
        if upstream in transport.http2:
            raise UpstreamError("protocol", "its HTTP/2 did not begin with settings") from error
        if isinstance(error, TimeoutError) or error.ended_by == "framing":
            transport.http1_only.add(upstream)
        return transport.serve(await transport.open(upstream), upstream)
    except BaseException:  # the client has left
        connection.close()
        raise
    transport.http2.add(upstream)
    return connection
