"""Serves a recorded WebSocket to a client: upstream's data after each message of the client, with its timing.

One recorded read is one write, as over HTTP, planned in a thread and written by the `Pacer`; a client that reads slowly
holds up its own WebSocket only. The rules of turns:

- Which recording it is, is decided by the first message, unless upstream spoke first. Messages are looked at one by one
  and in order, as each look is a call of the planner's thread.
- A message of the client that is the recorded one begins the next turn, whose times count from that message. Turns are
  written one after the other, however early the client sends its messages.
- Microphone data and pongs begin nothing (`turns`); a ping is answered.
- Frames of our own (pong, error, close) wait until the recorded bytes are between two frames: a recorded read may end
  in the middle of one, and a frame within a frame would break the connection.
- A message that was not recorded is answered by an error, as a message, and a close frame with the code 1008.
- A close frame of the client is answered as recorded, if the client closed there, else by one like the client's.
- It is held between two frames. Messages of the client wait meanwhile; its pings are answered, and so is its close
  frame, by which it leaves.
"""

import asyncio
import base64
import binascii
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from wsproto.frame_protocol import FrameProtocol
from wsproto.utilities import generate_accept_token

from wiretape.recorder.decode.framings.websocket import Incoming, WebSocketMessage
from wiretape.recorder.decode.operation import api_at
from wiretape.recorder.decode.websocket import is_microphone
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay.client import LINGER_SECONDS
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Takeover
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.sockets import Socket
from wiretape.viewer.wings.replay import forms, matching, turns
from wiretape.viewer.wings.replay.matching import Miss, ReplayRequest
from wiretape.viewer.wings.replay.planning import AnswerPlan, Greeting, Planner, Talk, ToRecord
from wiretape.viewer.wings.replay.positions import HEAD
from wiretape.viewer.wings.replay.schedule import End, Schedule
from wiretape.viewer.wings.replay.serve import BODY_BYTES, TAIL_BYTES, Answering, NextWrite, Replay

T = TypeVar("T")


class _Received(NamedTuple):
    """A message of the client, and when it came."""

    at_ns: int
    message: WebSocketMessage


class _ReplayTurn(NamedTuple):
    """A turn that has begun, and when."""

    number: int
    schedule: Schedule
    origin: int
    is_last: bool


@dataclass
class _Playing:
    """Upstream's data as it is written: the turns that have begun, the parts of the first one, and all bytes."""

    turns: deque[_ReplayTurn] = field(default_factory=deque)
    parts_written: int = 0
    bytes_written: int = 0


class Upgrade(Answering, Takeover):
    """A request for a WebSocket, and the WebSocket."""

    _client: Http1Client

    def __init__(self, app: Replay, client: Http1Client, request: Request) -> None:
        super().__init__(app, client, request)
        self._is_planning = self._is_closing = False
        self._replay_request: ReplayRequest
        self._greeting: Greeting | AnswerPlan
        self._switch_ns = 0
        """When the answer to the handshake is due; the clock's ns."""
        self._socket: Socket
        self._incoming: Incoming
        self._messages: deque[_Received] = deque()
        """Messages of the client that are not processed yet."""
        self._turn_count = 0
        self._talk: Talk | None = None
        self._playing = _Playing()
        self._own_frames: list[bytes] = []
        """Frames of our own, which wait until none of the recorded ones is in the middle."""
        self._greet()

    # the handshake

    def _greet(self) -> None:
        headers, request = dict(self._request.headers), self._request
        key = headers.get(b"sec-websocket-key", b"").strip()
        if headers.get(b"sec-websocket-version", b"").strip() != b"13" or not _is_key(key):
            self._fail(400, "the request is for a WebSocket, but not by RFC 6455", "refused")
            return
        try:
            form_names = self._read_forms()
        except ValueError as error:
            self._fail(400, str(error), "bad_form")
            return
        target, id = matching.read_target(request.target, headers.get(b"x-wiretape-exchange"))
        self._replay_request = ReplayRequest(request.method, target, b"", id, forms=form_names)
        self._api = api_at(target.decode("latin-1"))
        if self._app.director is not None:
            faults_of_entries, failure = self._app.director.take(self, target, None)
            self._waiting_faults += faults_of_entries
            if failure is not None:
                self._answer(failure)
                return
        offered, protocols = (
            ",".join(value.decode("latin-1") for name, value in request.headers if name == header)
            for header in (b"sec-websocket-extensions", b"sec-websocket-protocol")
        )
        names = [part.strip() for part in protocols.split(",")]
        self._query(lambda planner: planner.greet(self._replay_request, offered, names), self._on_greeting)

    def _query(self, query: Callable[[Planner], T], on_result: Callable[[T], None]) -> None:
        """Run `query` on the planner, and pass its result to `on_result` unless it is too late."""

        def done(planning: "asyncio.Future[T]") -> None:
            if self._is_over or planning.cancelled():
                return
            try:
                on_result(planning.result())
            except WiretapeError as error:
                self._app.on_trouble(str(error))
                self.stop()

        self._app.planned(query).add_done_callback(self._client.guarded(done))

    def _on_greeting(self, greeting: Greeting | AnswerPlan | Miss | ToRecord | Refusal) -> None:
        if isinstance(greeting, Refusal):
            self._app.client_rejected(greeting)
            self._fail(greeting.status, greeting.message, "refused")
        elif isinstance(greeting, ToRecord):
            self._record(greeting)
        elif isinstance(greeting, Miss):
            self._miss(greeting)
        else:
            self._answer(greeting)

    def _answer(self, plan: Greeting | AnswerPlan) -> None:
        self._greeting, self._is_ready = plan, True
        self._switch_ns = self._t0 + (plan.at_ns if isinstance(plan, Greeting) else 0)
        self._strike_planned(plan.holds)
        if not self.stream.is_held and not self._is_over:
            self._add(self._switch_ns)

    def _record(self, to_record: ToRecord) -> None:
        assert self._app.upstreams is not None  # else nothing is to be recorded
        relayed = self._app.upstreams.relay(self._client, self._request, to_record)
        if isinstance(relayed, Refusal):
            self._fail(relayed.status, relayed.message, "not_recorded")
            return
        self._end("relayed")
        if relayed is not None:
            self._client.hand_over(self, relayed)

    def _switch(self) -> None:
        greeting = self._greeting
        if isinstance(greeting, AnswerPlan):
            self.served.head, self.served.status = greeting.head, greeting.status
            self.served.faults = (*self.served.faults, *greeting.faults)
            self._end("end")
            self._client.start(greeting.status or 0, b"", greeting.headers, chunked=False, closes=True)
            self._client.add(greeting.schedule.body)
            self._client.flush()
            self._client.finish()
            return
        accept = generate_accept_token(dict(self._request.headers)[b"sec-websocket-key"].strip())
        headers = [
            (b"connection", b"Upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-accept", accept),
            *greeting.headers,
        ]  # fmt: skip
        self._incoming = Incoming(from_client=True, extensions=greeting.extension)
        self.served.status, self.served.head_ns = 101, self._now() - self._t0
        self._socket, early = self._client.switch(101, b"", headers, self)
        self.served.choice, self._written_ns = greeting.choice, self._now()
        if interval := forms.ping_ns(greeting.choice.names):
            self._app.pacer.add(self._written_ns + interval, self._client.guarded(partial(self._ping, interval)))
        self.stream.wrote(0, self._written_ns)
        if greeting.speaks_first:
            self._choose(speaks_first=True)
        if early:
            self.received(self._now(), memoryview(early))

    # responder.Responder, before the switch

    def taker_failed(self, error: Exception) -> None:
        self.failed(error)

    # responder.Takeover

    @property
    def is_idle(self) -> bool:
        return self._is_over and not self._socket.unsent

    def received(self, at: int, data: memoryview) -> None:
        """Process the client's data."""
        if self._is_over or self._is_closing:
            return
        self._size += len(data)
        refusal = self._app.refuse_body(self._size, len(data))
        for message in self._incoming.feed(bytes(data)):
            self._take(at, message)
        if self._size > BODY_BYTES:
            self._close_with(f"1009 the client sent more than {BODY_BYTES >> 20} MiB")
        elif refusal is not None:
            self._close_with(f"1013 {refusal.message}")

    def _take(self, at: int, message: WebSocketMessage) -> None:
        if message.kind == "ping":
            self._own_frames.append(bytes(FrameProtocol(client=False, extensions=[]).pong(message.data)))
            self._send_between()
        elif message.kind in ("broken", "limit"):
            self._close_with("1002 the client broke the protocol" if message.kind == "broken" else "1009 too large")
        elif message.kind == "close" and self.stream.is_held:
            self._close_with(message.data.decode())
        elif message.kind != "pong" and not is_microphone(self._api, message):
            self._messages.append(_Received(at, message))
            self._process_next()

    def progressed(self) -> None:
        """Continue once the client has taken half of the limit, or close once it has taken all."""
        self._progressed()
        if self._is_over and self.served.ending == "reset" and not self._socket.unsent:
            self._client.reset()

    def write_failed(self, error: OSError) -> None:
        self._client.lost(error)

    def lost(self, error: Exception | None) -> None:
        self._end("client")

    def failed(self, error: Exception) -> None:
        self._end("fault")
        self._app.on_trouble(f"a WebSocket failed by a fault of wiretape's own: {error!r}")

    # the client's messages

    def _process_next(self) -> None:
        """Process the client's next message, unless the planner is still deciding on one, or the answer is held."""
        if self._is_planning or self._is_over or self.stream.is_held or not self._messages:
            return
        if self._messages[0].message.kind == "close":
            # Close as was recorded, if the client closed there, else by a close frame like the client's.
            close = self._messages.popleft()
            recorded = () if self._talk is None else self._talk.turns.client_messages[self._turn_count :]
            if recorded and recorded[0] is None:
                self._begin(self._turn_count + 1, close.at_ns)
            else:
                self._close_with(close.message.data.decode())
        elif self._talk is None:
            self._replay_request = replace(self._replay_request, body=self._messages[0].message.data)
            self._choose(speaks_first=False)
        else:
            talk, number, data = self._talk, self._turn_count, self._messages[0].message.data
            self._is_planning = True
            self._query(lambda planner: planner.confirm(talk, number, data), self._on_confirmed)

    def _choose(self, *, speaks_first: bool) -> None:
        assert isinstance(self._greeting, Greeting)  # any other has ended it
        request, extension = self._replay_request, self._greeting.extension
        self._is_planning = True
        self._query(lambda planner: planner.talk(request, extension, speaks_first=speaks_first), self._on_talk)

    def _on_talk(self, talk: Talk | Miss) -> None:
        self._is_planning = False
        if isinstance(talk, Miss):
            self._close_unmatched(talk)
            return
        if self._speed is not None:
            talk = replace(talk, turns=talk.at_speed(self._speed))
        self._talk, self.places, self.served.head = talk, talk.places, talk.head
        self.served.match = talk.match
        self.served.faults = (*self.served.faults, *talk.faults)
        self.served.unplaced = (*self.served.unplaced, *talk.unplaced)
        self._strike_planned(talk.holds)
        self._begin(0, self._t0)
        if self._replay_request.body:
            self._begin(1, self._messages.popleft().at_ns)
        self._process_next()

    def _on_confirmed(self, miss: Miss | None) -> None:
        self._is_planning = False
        if miss is not None:
            self._close_unmatched(miss)
            return
        self._begin(self._turn_count + 1, self._messages.popleft().at_ns)
        self._process_next()

    def _close_unmatched(self, miss: Miss) -> None:
        """Send the nearest recording, as an error in the shape that SDKs show, and close."""
        self.served.miss = miss
        error = {"message": f"wiretape: {miss.message}", "type": "wiretape_error", "code": "not_recorded"}
        message = {"type": "error", "status": 404, "error": error | {"nearest": miss.nearest, "differs": miss.differs}}
        text = msgspec.json.encode(message).decode()
        self._own_frames.append(bytes(FrameProtocol(client=False, extensions=[]).send_data(text, fin=True)))
        self._close_with(f"1008 wiretape: {miss.message}")

    def _close_with(self, text: str) -> None:
        """Close with a code and a reason, when no frame is in the middle."""
        if not self._is_closing:
            self._is_closing = True
            code, _, reason = text.partition(" ")
            # A control frame has at most 125 bytes (RFC 6455, 5.5), two of them for the code.
            short = reason.encode()[:123].decode(errors="ignore")
            self._own_frames.append(turns.close_frame(f"{code} {short}".rstrip().encode()))
            self._send_between()

    # upstream's turns

    def _begin(self, number: int, origin: int) -> None:
        """Play a turn after those that have begun."""
        assert self._talk is not None
        schedules = self._talk.turns.schedules
        self._turn_count = max(number, self._turn_count)
        if number < len(schedules):  # else a fault has cut before
            self._playing.turns.append(_ReplayTurn(number, schedules[number], origin, number == len(schedules) - 1))
            following = self._next()
            if not self._is_scheduled and not self.stream.is_held and following is not None:
                self._add(following.due)

    def _next(self) -> NextWrite | None:
        if self.stream.place == HEAD:
            return NextWrite(self._t0, self._switch_ns) if self._is_ready else None
        if not self._playing.turns:
            return None
        turn, part = self._playing.turns[0], self._playing.parts_written
        at_ns, end_ns = turn.schedule.at_ns, turn.schedule.end_ns
        previous = turn.origin + (at_ns[part - 1] if part else 0)
        if part == len(at_ns):
            return NextWrite(previous, turn.origin + end_ns)
        is_apart = turn.schedule.ends[part] <= turn.schedule.apart_size
        return NextWrite(previous, turn.origin + at_ns[part], end_ns > 0, is_apart)

    def _shift(self, ns: int) -> None:
        self._switch_ns += ns
        if self._playing.turns:
            turn = self._playing.turns[0]
            self._playing.turns[0] = turn._replace(origin=turn.origin + ns)

    def _write(self, this: NextWrite) -> NextWrite | None:
        """Switch to the WebSocket, or send a write of the turn that is played, or its end."""
        if self.stream.place == HEAD:
            self._switch()
            return None
        assert self._talk is not None
        playing, turn = self._playing, self._playing.turns[0]
        schedule, index, is_waiting = turn.schedule, playing.parts_written, True
        if index < len(schedule.at_ns):
            start = self._talk.turns.starts[turn.number]
            end = start + schedule.ends[index]
            stop = self.stream.limit(end)
            piece = schedule.body[playing.bytes_written - start : stop - start]
            playing.parts_written += stop == end
            playing.bytes_written = self.stream.place = stop
            self._socket.write(piece)
            self._written_ns = self._now()
            gap_ns = schedule.gap_ns(index) if self._is_on_time else 0
            self.served.wrote(self._written_ns - self._t0, len(piece), gap_ns)
            if self.served.choice.names:
                self.served.tail = (self.served.tail + piece)[-TAIL_BYTES:]
            self._is_on_time = True
            self._send_between()
        elif turn.is_last:
            self._finish(schedule.end)
            playing.turns.clear()  # if the end is silence, nothing more is written
            is_waiting = False
        if playing.turns and playing.parts_written == len(schedule.at_ns) and not turn.is_last:
            playing.turns.popleft()
            playing.parts_written = 0
        is_waiting = is_waiting and not playing.turns
        return None if self._is_over else self._wrote(playing.bytes_written, this, is_waiting=is_waiting)

    @property
    def _is_between_frames(self) -> bool:
        return self._talk is None or self._playing.bytes_written in self._talk.turns.between

    def _send_between(self) -> None:
        """Send frames of our own, if none is in the middle."""
        if self._is_over or not self._is_between_frames:
            return
        if self._own_frames:
            self._socket.write(b"".join(self._own_frames))
            self._own_frames.clear()
        if self._is_closing:
            self._finish("client" if self.stream.is_held else "end")

    def _ping(self, interval: int, now: int) -> int | None:
        """Send a Ping if nothing was written for long; return the time of the next look."""
        if self._is_over or self._is_closing:
            return None
        if now < (due := self._written_ns + interval):
            return due
        if self._is_between_frames and not self._is_blocked:
            self._own_frames.append(bytes(FrameProtocol(client=False, extensions=[]).ping(b"wiretape")))
            self._send_between()
            self._written_ns = now
        return now + interval

    def _finish(self, end: str) -> None:
        """End as the recording ended; the client has time to read the data sent."""
        if end == "silence":
            return
        self._end("refused" if self.served.miss else end)
        if end == "reset":
            if not self._socket.unsent:  # else `progressed` does: a reset discards data that is not sent yet
                self._client.reset()
        else:
            self._socket.end()
            self._socket.resume()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._client.close)

    # control

    @property
    def _end_place(self) -> int:
        assert self._talk is not None
        schedules = self._talk.turns.schedules
        return self._talk.turns.starts[len(schedules) - 1] + len(schedules[-1].body)

    def _replan(self, speed: float | None) -> None:
        assert self._talk is not None
        played = self._talk.turns if speed is None else self._talk.at_speed(speed)
        played = turns.with_faults(played, self._cuts, self._talk.places)[0]
        self._talk = replace(self._talk, turns=played)
        last, playing = len(played.schedules) - 1, self._playing
        playing.turns = deque(
            turn._replace(schedule=played.schedules[turn.number], is_last=turn.number == last)
            for turn in playing.turns
            if turn.number <= last
        )

    def _break_off(self, end: End) -> None:
        if self.stream.place > HEAD:
            self._finish(end)
        else:
            super()._break_off(end)

    def _resume(self, now: int) -> None:
        super()._resume(now)
        self._process_next()

    def _write_on(self) -> None:
        super()._write_on()
        self._process_next()


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False
