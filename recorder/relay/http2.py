"""One side of an HTTP/2 connection: frames in and out by `h2` over a `Socket`, and the output of each stream.

`http2_server` and `http2_upstream` are the two sides. Windows (RFC 9113, 5.2):

- Out: data waits in its stream until the peer's windows, the stream's and the connection's, and the kernel take it.
  `Http2Stream.unsent` counts it: above a limit, the exchange holds the other side back.
- In: a peer may send `WINDOW_BYTES` ahead on a stream. The receiver notes what it owes for data that it has taken, and
  opens the window again by it (`acknowledge`), in steps of `_ACKNOWLEDGED_BYTES`: a slow reader slows its own stream
  alone. Padding counts as data.
- The connection's window stays wide open: a stream that is held back must not hold its neighbours back.
- All that one read brought is handled before it is passed on (`deliver`), so that each stream has one read of it.

Frames that carry no data cost their sender, by the work that their bytes and entries cause: a peer that sends too many
of them, or resets too many streams, is read more slowly, so that a flood takes a bounded part of the processor and
harms its own connection alone. What is kept for a peer has a limit, too.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Generic, Protocol, TypeVar

import hpack
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error, ProtocolError
from h2.settings import SettingCodes, Settings

from wiretape.recorder.clock import Clock
from wiretape.recorder.relay import guard
from wiretape.recorder.relay.http2_frames import (
    FRAME_BYTES,
    HEAD_BYTES,
    PADDED,
    BadFrame,
    Frame,
    FrameReader,
    GoAway,
    Kind,
    frame,
    goaway,
    parse_goaway,
    with_settings,
)
from wiretape.recorder.relay.sockets import Socket
from wiretape.recorder.relay.states import OUTPUT, StreamOutput

WINDOW_BYTES = 256 << 10
"""Data of one stream that a peer may send ahead."""
STREAMS = 250
"""Limit of streams that a client has open at a time, if the upstream allows as many: each may hold 512 KiB."""
UNREAD_BYTES = 1 << 20
"""Limit of unsent bytes towards a peer; beyond it the peer is not read."""
CREDIT = 10_000
CREDIT_A_SECOND = 2_000
"""The cost of frames without data that a peer may send at once, and in each second from then on."""
_FIELDS_A_HEAD = 40
_FIELDS_A_CREDIT = 16
"""Fields that the cost of a head includes, and further ones for a credit: by the table, each may be a single byte."""
_SMALL_BYTES = 64
"""Data of a frame below which it has a cost, as one with padding has; a larger one has none."""
_DATA_CREDIT = 3
"""Credit for a piece of data that went out whole: the peer may open its windows for it; a small part costs as much."""
_ACKNOWLEDGED_BYTES = 32 << 10
"""Data for which a window is opened again at once; less of it waits for more."""

_KNOWN_SETTINGS = frozenset(map(int, SettingCodes))
_HEAD_EVENTS = (
    events.RequestReceived, events.ResponseReceived, events.InformationalResponseReceived, events.TrailersReceived,
)  # fmt: skip

Headers = list[tuple[bytes, bytes]]


class Receiver(Protocol):
    """The receiver of one stream's input, which comes before the `deliver` of its read."""

    @property
    def takes_data(self) -> bool:
        """True if plain data may come next, so that `h2` need not look at it first."""

    def data_came(self, data: bytes, flow_controlled: int) -> None:
        """Receive data; `flow_controlled` is its size with padding."""

    def trailers_came(self, trailers: Headers) -> None:
        """Receive the trailers."""

    def input_ended(self) -> None:
        """Note that the peer has ended the stream in good order."""

    def input_reset(self, code: int) -> None:
        """Note that the peer has reset the stream."""

    def deliver(self, at: int) -> None:
        """Handle all that one read, of the time `at`, has brought."""

    def output_progressed(self) -> None:
        """Continue: more of the output has been taken."""

    def failed(self, error: Exception) -> None:
        """Report that one of the above raised."""


RX = TypeVar("RX", bound=Receiver)


class Http2Stream(Generic[RX]):
    """The output of one stream of HTTP/2; `wiretape.recorder.relay.states.StreamOutput` has its states.

    `receiver` has its input. `written` counts the body bytes that were written, `unsent` those of them that the kernel
    has not taken.
    """

    __slots__ = (
        "_head",
        "_http2",
        "_marks",
        "_padding",
        "_queue",
        "_reset_code",
        "_taken_bytes",
        "_trailers",
        "framed",
        "id",
        "output",
        "receiver",
        "written",
    )  # fmt: skip

    def __init__(self, http2: "Http2[Any]", id: int, receiver: RX) -> None:
        self._http2, self.id, self.receiver = http2, id, receiver
        self.output = StreamOutput.OPEN
        self._queue: deque[bytes | memoryview] = deque()
        self._head: Headers | None = None
        """The head of a message that is to be sent."""
        self._trailers: Headers | None = None
        self._reset_code: int | None = None
        """The code of the reset that follows the data; None: the stream ends in good order."""
        self._padding = 0
        self._marks: deque[tuple[int, int]] = deque()
        """Ends of frames that wait for the kernel: in all bytes of the socket, and in those of the body."""
        self.written = self.framed = self._taken_bytes = 0

    @property
    def unsent(self) -> int:
        """Body bytes that wait for the peer's window or for the kernel."""
        return self.written - self._taken_bytes

    def begin(self, head: Headers) -> None:
        """Begin a message with its head; `pump` sends it, with the end of the stream if nothing follows."""
        self._head = head

    def write(self, data: bytes) -> None:
        """Add to the body; `pump` sends it."""
        if data and self.output is StreamOutput.OPEN:
            self.written += len(data)
            self._queue.append(data)

    def end(self, trailers: Headers | None = None) -> None:
        """End the body, with trailers if there are any; `pump` sends the end."""
        if self.output is StreamOutput.OPEN:
            # `h2` leaves these names out, and makes no block without a field, which says no more than the end alone.
            passed = [pair for pair in trailers or () if pair[0].lower() not in guard.CONNECTION_ONLY]
            self.output, self._trailers = OUTPUT[self.output, "end"], passed or None

    def pad(self, size: int) -> None:
        """Pad the next piece within the room of a frame and of the peer's window."""
        self._padding = size

    def cut(self, code: int) -> None:
        """Reset the stream when all that was written is sent."""
        if self.output is StreamOutput.OPEN:
            self.output, self._reset_code = OUTPUT[self.output, "end"], code
            self.pump()

    def abort(self, code: int) -> None:
        """Reset the stream at once, and drop what waits."""
        if self.output is not StreamOutput.ENDED:
            self._drop()
            self._http2.reset(self.id, code)

    def drop_output(self) -> None:
        """Send nothing more: the peer has reset the stream, or the connection is lost."""
        if self.output is not StreamOutput.ENDED:
            self._drop()

    def _drop(self) -> None:
        self.output = OUTPUT[self.output, "drop"]
        self._queue.clear()

    def pump(self) -> bool:
        """Send as much as the peer's windows allow; return True if the kernel has taken all that was written."""
        http2, queue = self._http2, self._queue
        if self._head is not None and self.output is not StreamOutput.ENDED:
            head, self._head = self._head, None
            ends = self._is_end_next  # which the head then says itself: some clients tell that from an empty frame
            http2.h2.send_headers(self.id, head, end_stream=ends)
            if ends:
                self._close()
        is_plain = (
            len(queue) == 1 and self.output is StreamOutput.OPEN and http2.held_streams is None and not self._padding
        )
        if is_plain and len(queue[0]) <= self._room():
            data = queue.popleft()
            self.framed += len(data)
            if http2.send(self.id, data):
                self._taken_bytes = self.framed
                return True
            self.mark()
            return False
        if self.output is not StreamOutput.ENDED:
            self._make_frames()
        if http2.held_streams is not None:
            http2.held_streams.append(self)
            return False
        if http2.flush():
            self._taken_bytes = self.framed
            return not self.unsent
        self.mark()
        return False

    @property
    def _is_end_next(self) -> bool:
        """True if nothing is left to be sent but the end in good order."""
        is_last = not self._queue and self.output is StreamOutput.ENDING
        return is_last and self._trailers is None and self._reset_code is None

    def _room(self) -> int:
        """Return the size of the largest frame that the peer takes now, in bytes."""
        h2 = self._http2.h2
        return min(h2.local_flow_control_window(self.id), h2.max_outbound_frame_size)

    def mark(self) -> None:
        """Note the end of the frames that wait for the kernel."""
        http2 = self._http2
        if http2.unsent and self.framed > (self._marks[-1][1] if self._marks else self._taken_bytes):
            self._marks.append((http2.written, self.framed))

    def all_taken(self) -> bool:
        """Note that the kernel has taken all frames; return True if that is more than before."""
        previous, self._taken_bytes = self._taken_bytes, self.framed
        return self._taken_bytes > previous

    def _make_frames(self) -> None:
        """Make frames of the written data that the peer's windows allow, and of the end."""
        h2, queue = self._http2.h2, self._queue
        while queue:
            data = queue[0]
            room = self._room()
            if room <= 0:
                return
            if len(data) > room:
                remainder = memoryview(data)  # not copied for each frame
                self._http2.add(self.id, remainder[:room])
                queue[0] = remainder[room:]
                self.framed += room
                if room < _SMALL_BYTES:
                    self._http2.grant(-_DATA_CREDIT)
                continue
            queue.popleft()
            ends = self._is_end_next
            if ends or self._padding:
                h2.send_data(self.id, data, end_stream=ends, pad_length=self._take_padding(room - len(data)))
            else:
                self._http2.add(self.id, data)
            self.framed += len(data)
            self._http2.grant(_DATA_CREDIT)
            if ends:
                self._close()
                return
        if self.output is not StreamOutput.ENDING:
            return
        if self._reset_code is not None:
            self._http2.reset(self.id, self._reset_code)
        elif self._trailers is not None:
            h2.send_headers(self.id, self._trailers, end_stream=True)
        else:
            h2.end_stream(self.id)
        self._close()

    def _take_padding(self, room: int) -> int | None:
        """Return the padding of a frame, and forget it; None without any, or without room."""
        if not self._padding:
            return None
        size, self._padding = min(self._padding, room, 256) - 1, 0  # its length takes a byte
        return size if size >= 0 else None

    def _close(self) -> None:
        self.output = OUTPUT[self.output, "sent"]
        self._http2.output_ended(self)

    def progressed(self) -> bool:
        """Count the bytes that the kernel has accepted by now; return True if the count has grown."""
        marks, previous = self._marks, self._taken_bytes
        position = self._http2.written - self._http2.unsent
        while marks and marks[0][0] <= position:
            self._taken_bytes = marks.popleft()[1]
        return self._taken_bytes > previous


S = TypeVar("S", bound=Http2Stream[Any])


class _HeadEncoder(hpack.Encoder):
    """HPACK with a small table, however large a one the peer allows; changes of its size do not add up."""

    @property
    def header_table_size(self) -> int:
        """The size of the table, in bytes."""
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, allowed: int) -> None:
        size = min(allowed, 4096)  # it is searched for each field
        if size == self.header_table.maxsize:
            return
        self.header_table.maxsize = size
        smallest = min(self.table_size_changes, default=size)
        self.table_size_changes = [smallest, size] if smallest < size else [size]


class Http2(ABC, Generic[S]):
    """One side of a connection; `streams` are the open ones by their number."""

    def __init__(self, sock: Socket, clock: Clock, *, is_client: bool) -> None:
        self._socket, self._clock = sock, clock
        self._loop = asyncio.get_running_loop()
        self.h2 = H2Connection(
            H2Configuration(
                client_side=is_client,
                header_encoding=None,
                validate_inbound_headers=not is_client,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
            )
        )
        settings = {SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES, SettingCodes.MAX_HEADER_LIST_SIZE: 64 << 10}
        if is_client:
            settings[SettingCodes.ENABLE_PUSH] = 0
        else:
            settings[SettingCodes.MAX_CONCURRENT_STREAMS] = STREAMS
        self.h2.local_settings = Settings(client=is_client, initial_values=settings)
        self.h2.encoder = _HeadEncoder()
        self._reader = FrameReader(has_preface=not is_client)
        self._credit, self._credited_at = float(CREDIT), clock.now()
        self._turn_cost = 0.0
        """The cost of the frames of the current turn of the loop."""
        self._is_broken = False
        self._pacing: asyncio.TimerHandle | asyncio.Handle | None = None
        self._read_at = 0
        """The timestamp of the last read; the clock's ns."""
        self._unacknowledged = 0
        self._made_frames: list[bytes] = []
        """Frames that wait for `flush`."""
        self._unaccounted: dict[int, int] = {}
        """Bytes received on each stream that `h2` has not counted yet."""
        self.held_streams: list[S] | None = None
        """The streams whose frames are held back; None: frames are sent at once."""
        self.streams: dict[int, S] = {}
        self._touched: dict[int, S] = {}
        """The streams with data in the current read."""
        self._handlers: dict[type[events.Event], Callable[[Any], None]] = {
            events.DataReceived: self._data_came,
            events.StreamEnded: self._stream_ended,
            events.StreamReset: self._stream_reset,
            events.WindowUpdated: self._window_opened,
            events.RemoteSettingsChanged: self._settings_came,
            events.TrailersReceived: self._trailers_came,
        }

    def _greet(self) -> None:
        """Send our preface and settings, and open the connection's window wide: those of its streams are the limit."""
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(1 << 30)
        self.flush()

    # input

    def received(self, at: int, data: memoryview) -> None:
        """Handle a read of the socket; while the peer waits for credit, only keep it."""
        self._reader.feed(data)
        self._read_at = at
        if self._pacing is None:
            self._process(at)

    def _process(self, at: int) -> None:
        """Handle the received frames within the peer's credit."""
        if self._is_broken:
            return
        try:
            is_done = self._read_frames()
            self._deliver(at)
        except (ProtocolError, BadFrame) as error:
            self._deliver_last(at)
            self.broken(error, at)
            return
        self.flush()
        if not is_done and not self.is_over:
            self._socket.pause()
            self._pacing = (
                self._loop.call_soon(self._continue) if self._credit > 0 else
                self._loop.call_later(0.05, self._continue)
            )  # fmt: skip

    def _break_off(self, error: ProtocolError) -> None:
        if not self._socket.is_closed:
            self._deliver_last(self._read_at)
            self.broken(error, self._read_at)

    def _deliver_last(self, at: int) -> None:
        """Deliver the frames before the one that broke the connection; nothing can be sent behind it."""
        self._is_broken = True
        for stream in self.streams.values():
            stream.drop_output()
        self._deliver(at)

    @property
    def is_over(self) -> bool:
        """True if nothing can be sent: the connection is closed, or the peer broke HTTP/2."""
        return self._is_broken or self._socket.is_closed

    def _continue(self) -> None:
        if self._socket.is_closed:
            return
        self._pacing = None
        self._regulate()
        try:
            self._process(self._read_at)
        except Exception as error:  # noqa: BLE001 - the event loop would only print it
            self.failed(error)

    def _read_frames(self) -> bool:
        """Handle frames until none is left; return False if the peer has to wait for credit."""
        now = self._clock.now()
        self._credit = min(self._credit + (now - self._credited_at) * CREDIT_A_SECOND / 1e9, CREDIT)
        self._credited_at = now
        # Other connections have their turn after 64 frames, or after what 64 frames of the most expensive kinds cost.
        frames_left, self._turn_cost = 64, 0.0
        while (frame := self._reader.next()) is not None:
            if not (frame.kind == Kind.DATA and not frame.flags and self._take_data(frame)):
                self._account(frame.stream)
                self._receive(frame)
            is_stray = frame.kind == Kind.DATA and frame.stream not in self.streams  # `h2` answers it
            cost = 1 if is_stray else _cost(frame)
            if cost:
                self._charge(cost)
            frames_left -= 1
            if not frames_left or self._credit <= 0 or self._turn_cost >= 640:
                return False
        return True

    def _charge(self, cost: float) -> None:
        """Decrease the peer's credit."""
        self._credit -= cost
        self._turn_cost += cost

    def _take_data(self, frame: Frame) -> bool:
        """Receive plain data before `h2` accounts for it; return True if its stream expects data."""
        stream, data = self.streams.get(frame.stream), frame.payload
        if stream is None or not data or not stream.receiver.takes_data:
            return False
        size = len(data)
        owed = self._unaccounted.get(frame.stream, 0)
        if owed + size > FRAME_BYTES:  # `h2` counts it as one frame
            self._account(frame.stream)
            owed = 0
        self._unaccounted[frame.stream] = owed + size
        self._unacknowledged += size
        self._touched[frame.stream] = stream
        stream.receiver.data_came(data, size)
        return True

    def _account(self, id: int) -> None:
        """Report the uncounted data of a stream to `h2`, as one frame. Raises `ProtocolError`."""
        size = self._unaccounted.pop(id, 0)
        if size:
            self.h2.receive_data(frame(Kind.DATA, 0, id, bytes(size)))

    def _receive(self, frame: Frame) -> None:
        if frame.kind == Kind.GOAWAY:  # `h2` would take it for the end of all streams
            self._deliver(self._read_at)  # deliver earlier data: the other side may drop later data
            self.leaving(parse_goaway(frame.payload))
            return
        if frame.kind == Kind.SETTINGS:
            frame = with_settings(frame, _KNOWN_SETTINGS)
        handlers = self._handlers
        for event in self.h2.receive_data(frame.data):
            if isinstance(event, _HEAD_EVENTS) and len(event.headers) > _FIELDS_A_HEAD:
                self._charge((len(event.headers) - _FIELDS_A_HEAD) / _FIELDS_A_CREDIT)
            handle = handlers.get(type(event))
            if handle is not None:
                handle(event)

    def grant(self, credit: int) -> None:
        """Increase the peer's credit for frames without data."""
        self._credit = min(self._credit + credit, CREDIT)

    def _deliver(self, at: int) -> None:
        """Deliver the data of one read to its streams."""
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        self.deliver(touched.values(), at)
        if self._unacknowledged >= _ACKNOWLEDGED_BYTES and not self.is_over:
            self.h2.increment_flow_control_window(self._unacknowledged)
            self._unacknowledged = 0

    def _data_came(self, event: events.DataReceived) -> None:
        self._unacknowledged += event.flow_controlled_length
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._touched[event.stream_id] = stream
            stream.receiver.data_came(event.data, event.flow_controlled_length)

    def _stream_ended(self, event: events.StreamEnded) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._touched[event.stream_id] = stream
            stream.receiver.input_ended()

    def _stream_reset(self, event: events.StreamReset) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._touched[event.stream_id] = stream
            stream.drop_output()
            stream.receiver.input_reset(int(event.error_code))

    def _trailers_came(self, event: events.TrailersReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._touched[event.stream_id] = stream
            stream.receiver.trailers_came(list(event.headers))

    def _window_opened(self, event: events.WindowUpdated) -> None:
        if event.stream_id:
            stream = self.streams.get(event.stream_id)
            if stream is not None:
                self._pump(stream)
        else:
            self._pump_all()

    def _settings_came(self, event: events.RemoteSettingsChanged) -> None:
        self.settings_came()
        if SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
            self._charge(len(self.streams) / _FIELDS_A_CREDIT)
            self._pump_all()

    def acknowledge(self, stream: S, size: int) -> bool:
        """Open a stream's window for `size` more bytes, unless they are too few; return True if it was opened."""
        if size < _ACKNOWLEDGED_BYTES or self.is_over:
            return False
        try:
            self.h2.increment_flow_control_window(size, stream.id)
        except H2Error:  # it has ended, or was reset
            return False
        return True

    # output

    def _pump(self, stream: S) -> None:
        if stream.unsent or stream.output is StreamOutput.ENDING:
            stream.pump()
            self._progressed(stream)

    def _pump_all(self) -> None:
        """Send as much as the windows allow, without a look at streams that have to wait for their own."""
        h2 = self.h2
        for stream in list(self.streams.values()):
            if h2.outbound_flow_control_window <= 0:
                return
            flow = h2.streams.get(stream.id)
            if flow is not None and flow.outbound_flow_control_window > 0:
                self._pump(stream)

    def flush(self) -> bool:
        """Send the frames that were made, unless they are held; return True if the kernel has taken all."""
        if self.held_streams is not None:
            return False
        data = self._frames()
        if not data:
            return not self._socket.unsent
        is_taken = self._socket.write(data)
        if not is_taken:
            self._regulate()
        return is_taken

    def _frames(self) -> bytes:
        """Return the frames made since the last call."""
        data = self.h2.data_to_send()
        if self._made_frames:
            self._made_frames.append(data)
            data = b"".join(self._made_frames)
            self._made_frames.clear()
        return data

    def add(self, id: int, data: bytes | memoryview) -> None:
        """Make a frame of data, within the peer's windows; `h2` would take several times as long."""
        h2 = self.h2
        h2.outbound_flow_control_window -= len(data)
        h2.streams[id].outbound_flow_control_window -= len(data)
        if earlier_frames := h2.data_to_send():
            self._made_frames.append(earlier_frames)
        self._made_frames.append(frame(Kind.DATA, 0, id, data))

    def send(self, id: int, data: bytes | memoryview) -> bool:
        """Send data of a stream at once, as a frame, and account for it then; return True if the kernel took all."""
        self.add(id, data)
        is_taken = self._socket.write(self._frames())
        self.grant(_DATA_CREDIT)
        if not is_taken:
            self._regulate()
        return is_taken

    def hold(self) -> None:
        """Hold frames back until `release`: those for many streams go out together."""
        self.held_streams = []

    def release(self) -> None:
        """Send the held frames, and report the accepted bytes."""
        streams, self.held_streams = self.held_streams or [], None
        if self.flush():
            for stream in streams:
                if stream.all_taken():
                    self._progressed(stream)
        else:
            for stream in streams:
                stream.mark()

    def _regulate(self) -> None:
        """Read the peer only while it takes our own bytes, and has credit."""
        if self._socket.unsent > UNREAD_BYTES or self._pacing is not None:
            self._socket.pause()
        else:
            self._socket.resume()

    @property
    def unsent(self) -> int:
        """Bytes of all streams that wait for the kernel."""
        return self._socket.unsent

    @property
    def written(self) -> int:
        return self._socket.written

    def reset(self, id: int, code: int) -> None:
        """Reset a stream."""
        if self._is_broken:
            return
        try:
            self._account(id)
        except ProtocolError as error:  # more than its windows came: `h2` is closed, and takes and sends no more
            self._is_broken = True
            self._loop.call_soon(self._break_off, error)  # its streams are being gone through
            return
        try:
            self.h2.reset_stream(id, code)
        except H2Error:  # it has ended on both sides
            return
        self.flush()

    def output_ended(self, stream: Http2Stream[Any]) -> None:
        """Note that the end of a stream's output was sent."""
        self.grant(100)  # more than its heads, its trailers and its window cost

    def progressed(self) -> None:
        """The kernel has taken more."""
        self._regulate()
        for stream in list(self.streams.values()):
            if stream.progressed():
                self._progressed(stream)

    def announce(self, leaving: GoAway) -> None:
        """Send a GOAWAY frame."""
        self.flush()
        self._socket.write(goaway(leaving))

    def broken(self, error: Exception, at: int) -> None:
        """End the connection, whose peer broke HTTP/2, and tell the peer."""
        if isinstance(error, BadFrame):
            self.announce(GoAway(self.h2.highest_inbound_stream_id, error.code, b""))
        self.flush()
        self.close_broken(error, at)

    def _progressed(self, stream: S) -> None:
        """Report that more of a stream's output has been taken."""
        try:
            stream.receiver.output_progressed()
        except Exception as error:  # noqa: BLE001 - one stream's fault must not end the others
            stream.receiver.failed(error)
        self.handled(stream)

    def deliver(self, streams: Collection[S], at: int) -> None:
        """Deliver what one read has brought for each of some streams."""
        for stream in streams:
            try:
                stream.receiver.deliver(at)
            except Exception as error:  # noqa: BLE001 - one stream's fault must not end the others
                stream.receiver.failed(error)
            self.handled(stream)

    # the side's own part

    def handled(self, stream: S) -> None:
        """Continue after a stream's input, or the progress of its output, has been handled."""

    @abstractmethod
    def leaving(self, announced: GoAway) -> None:
        """Note that the peer is about to end the connection."""

    def settings_came(self) -> None:
        """Note the peer's settings."""

    @abstractmethod
    def close_broken(self, error: Exception | None, at: int) -> None:
        """End: the connection is lost, or the peer broke HTTP/2."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """Report a fault of our own."""


_COSTS: dict[int | None, float] = {Kind.HEADERS: 10, Kind.RST_STREAM: 10, Kind.SETTINGS: 10, Kind.PUSH_PROMISE: 10}
"""The least cost of frames that cause work besides their own; that of any other is 1."""


def _cost(frame: Frame) -> float:
    if frame.kind != Kind.DATA or len(frame.data) == HEAD_BYTES:
        # A credit is the time of 64 bytes of Huffman, or of 10 settings.
        return max(_COSTS.get(frame.kind, 1), len(frame.data) / 64)
    return 0.25 if len(frame.data) < _SMALL_BYTES or frame.flags & PADDED else 0
