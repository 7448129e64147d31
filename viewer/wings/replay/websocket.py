"""Serves a recorded WebSocket to a client: upstream's data after each message of the client, with its timing.

One recorded read is one write, as over HTTP, planned in a thread and written by the `Pacer`; a client that reads slowly
holds up its own WebSocket only. A ping is answered between two frames. A message that was not recorded is answered by
an error, as a message, and a close frame with the code 1008.
"""

import asyncio
import base64
import binascii
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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
from wiretape.recorder.relay.responder import Responder, Takeover
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.sockets import Socket
from wiretape.viewer.wings.replay import matching, turns
from wiretape.viewer.wings.replay.matching import Miss, ReplayRequest
from wiretape.viewer.wings.replay.pacing import spaced
from wiretape.viewer.wings.replay.planning import AnswerPlan, Greeting, Planner, Talk, ToRecord
from wiretape.viewer.wings.replay.schedule import End, Schedule
from wiretape.viewer.wings.replay.serve import BODY_BYTES, UNSENT_BYTES, Replay, Served, answer_error

T = TypeVar("T")
_SWITCH = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
_VERSION = b"13"
_REASON_BYTES = 123
"""Size of the reason in a close frame."""


class _Turn(NamedTuple):
    """A turn that has begun, and when."""

    schedule: Schedule
    origin: int
    is_last: bool


@dataclass
class _Playing:
    """Upstream's data as it is written: the turns that have begun, the parts of the first one, and all bytes."""

    turns: deque[_Turn] = field(default_factory=deque)
    parts_written: int = 0
    bytes_written: int = 0
    is_scheduled: bool = False
    is_held: bool = False
    """True while the client takes nothing."""


class Upgrade(Responder, Takeover):
    """One request for a WebSocket, and what becomes of it."""

    def __init__(self, app: Replay, client: Http1Client, request: Request) -> None:
        self._app, self._client, self._request, self._now = app, client, request, app.clock.now
        self._served = Served(request.method, request.target.decode("latin-1"), client.stamp)
        self._t0 = self._served.requested
        self._is_over = self._is_thinking = self._is_closing = False
        self._asked: ReplayRequest
        self._greeting: Greeting
        self._socket: Socket
        self._incoming: Incoming
        self._held = 0
        """Bytes of the client; all are kept."""
        self._came: deque[tuple[int, WebSocketMessage]] = deque()
        """Messages of the client that are still to be looked at."""
        self._count = 0
        self._talk: Talk | None = None
        self._playing = _Playing()
        self._between: list[bytes] = []
        """Frames of our own, which wait until none of the recorded ones is in the middle."""
        app.on_came(self._served)
        app.live.add(self)
        self._greet()

    # the handshake

    def _greet(self) -> None:
        headers, request = dict(self._request.headers), self._request
        key = headers.get(b"sec-websocket-key", b"").strip()
        if headers.get(b"sec-websocket-version", b"").strip() != _VERSION or not _is_key(key):
            self._fail(400, "the request is for a WebSocket, but not by RFC 6455", "refused")
            return
        target, id = matching.named(request.target, headers.get(b"x-wiretape-exchange"))
        self._asked = ReplayRequest(request.method, target, b"", id)
        self._api = api_at(target.decode("latin-1"))
        offered, protocols = (
            ",".join(value.decode("latin-1") for name, value in request.headers if name == wanted)
            for wanted in (b"sec-websocket-extensions", b"sec-websocket-protocol")
        )
        names = [part.strip() for part in protocols.split(",")]
        self._find(lambda planner: planner.greet(self._asked, offered, names), self._greeted)

    def _find(self, find: Callable[[Planner], T], take: Callable[[T], None]) -> None:
        """Run `find` on the planner, and pass its result to `take` unless it is too late."""

        def found(finding: "asyncio.Future[T]") -> None:
            if self._is_over or finding.cancelled():
                return
            try:
                take(finding.result())
            except WiretapeError as error:
                self._app.on_trouble(str(error))
                self.stop()

        self._app.planned(find).add_done_callback(self._client.guarded(found))

    def _greeted(self, found: Greeting | AnswerPlan | Miss | ToRecord | Refusal) -> None:
        if isinstance(found, Refusal):
            self._app.client_rejected(found)
            self._fail(found.status, found.message, "refused")
        elif isinstance(found, ToRecord):
            self._record(found)
        elif isinstance(found, Miss):
            self._served.miss = found
            self._fail(404, found.message, "not_recorded", nearest=found.nearest, differs=found.differs)
        elif isinstance(found, AnswerPlan):
            self._refuse(found)
        else:
            self._greeting = found
            self._app.pacer.add(self._t0 + found.at_ns, self._client.guarded(self._switch))

    def _record(self, found: ToRecord) -> None:
        assert self._app.upstreams is not None  # else nothing is to be recorded
        relayed = self._app.upstreams.relay(self._client, self._request, found)
        if isinstance(relayed, Refusal):
            self._fail(relayed.status, relayed.message, "not_recorded")
            return
        self._end("relayed")
        if relayed is not None:
            self._client.hand_over(self, relayed)

    def _refuse(self, plan: AnswerPlan) -> None:
        self._served.head, self._served.status, self._served.faults = plan.head, plan.status, plan.faults
        self._end("end")
        self._client.start(plan.status or 0, b"", plan.headers, chunked=False, closes=True)
        self._client.add(plan.schedule.body)
        self._client.flush()
        self._client.finish()

    def _fail(self, status: int, message: str, code: str, **more: object) -> None:
        self._served.status = status
        self._end("refused")
        answer_error(self._client, status, message, code, **more)

    def _switch(self, _: int) -> None:
        if self._is_over:
            return
        made = self._greeting
        accept = generate_accept_token(dict(self._request.headers)[b"sec-websocket-key"].strip())
        headers = [*_SWITCH, (b"sec-websocket-accept", accept), *made.headers]
        self._incoming = Incoming(from_client=True, extensions=made.extension)
        self._served.status, self._served.head_ns = 101, self._now() - self._t0
        self._socket, early = self._client.switch(101, b"", headers, self)
        if made.speaks_first:
            self._choose(is_met=True)
        if early:
            self.received(self._now(), memoryview(early))

    # responder.Responder, before the switch

    def client_left(self) -> None:
        self._end("client")

    def taker_failed(self, error: Exception) -> None:
        self.failed(error)

    # responder.Takeover

    @property
    def is_idle(self) -> bool:
        """True once it has ended and everything is sent: only the client has not closed yet."""
        return self._is_over and not self._socket.unsent

    def received(self, at: int, data: memoryview) -> None:
        """Process the client's data."""
        if self._is_over or self._is_closing:
            return
        self._held += len(data)
        refusal = self._app.refuse_body(self._held, len(data))
        for message in self._incoming.feed(bytes(data)):
            self._take(at, message)
        if self._held > BODY_BYTES:
            self._close_with(f"1009 the client sent more than {BODY_BYTES >> 20} MiB")
        elif refusal is not None:
            self._close_with(f"1013 {refusal.message}")

    def _take(self, at: int, message: WebSocketMessage) -> None:
        if message.kind == "ping":
            self._between.append(bytes(FrameProtocol(client=False, extensions=[]).pong(message.data)))
            self._send_between()
        elif message.kind in ("broken", "limit"):
            self._close_with("1002 the client broke the protocol" if message.kind == "broken" else "1009 too large")
        elif message.kind != "pong" and not is_microphone(self._api, message):
            self._came.append((at, message))
            self._look()

    def progressed(self) -> None:
        """Continue once the client has taken half of the limit, or close once it has taken all."""
        if self._playing.is_held and self._socket.unsent < UNSENT_BYTES // 2:
            self._playing.is_held = False
            self._served.held[-1] = (self._served.held[-1][0], self._now() - self._t0)
            self._app.pacer.add(self._now(), self._client.guarded(self._advance))
        elif self._is_over and self._served.ended == "reset" and not self._socket.unsent:
            self._client.reset()

    def write_failed(self, error: OSError) -> None:
        """End as if the client had left."""
        self._client.lost(error)

    def lost(self, error: Exception | None) -> None:
        self._end("client")

    def failed(self, error: Exception) -> None:
        self._end("fault")
        self._app.on_trouble(f"a WebSocket failed by a fault of wiretape's own: {error!r}")

    def stop(self) -> None:
        self._end("stopped")
        self._client.close()

    # the client's messages

    def _look(self) -> None:
        """Look at the next message, unless one is being looked at."""
        if self._is_thinking or self._is_over or not self._came:
            return
        if self._came[0][1].kind == "close":
            self._closed_by_client(*self._came.popleft())
        elif self._talk is None:
            self._asked = ReplayRequest(self._asked.method, self._asked.target, self._came[0][1].data, self._asked.id)
            self._choose(is_met=False)
        else:
            talk, number, data = self._talk, self._count, self._came[0][1].data
            self._is_thinking = True
            self._find(lambda planner: planner.confirm(talk, number, data), self._confirmed)

    def _choose(self, *, is_met: bool) -> None:
        asked, extension = self._asked, self._greeting.extension
        self._is_thinking = True
        self._find(lambda planner: planner.talk(asked, extension, is_met=is_met), self._chosen)

    def _chosen(self, found: Talk | Miss) -> None:
        self._is_thinking = False
        if isinstance(found, Miss):
            self._missed(found)
            return
        self._talk, self._served.head = found, found.head
        self._served.faults, self._served.unplaced = found.faults, found.unplaced
        self._begin(0, self._t0)
        if self._asked.body:
            self._begin(1, self._came.popleft()[0])
        self._look()

    def _confirmed(self, miss: Miss | None) -> None:
        self._is_thinking = False
        if miss is not None:
            self._missed(miss)
            return
        self._begin(self._count + 1, self._came.popleft()[0])
        self._look()

    def _closed_by_client(self, at: int, message: WebSocketMessage) -> None:
        """Close as was recorded, if the client closed there, else by a close frame like the client's."""
        if self._talk is not None and self._talk.turns.asked[self._count : self._count + 1] == [None]:
            self._begin(self._count + 1, at)
        else:
            self._close_with(message.data.decode())

    def _missed(self, miss: Miss) -> None:
        """Send the nearest recording, as an error in the shape that SDKs show, and close."""
        self._served.miss = miss
        error = {"message": f"wiretape: {miss.message}", "type": "wiretape_error", "code": "not_recorded"}
        told = {"type": "error", "status": 404, "error": error | {"nearest": miss.nearest, "differs": miss.differs}}
        text = msgspec.json.encode(told).decode()
        self._between.append(bytes(FrameProtocol(client=False, extensions=[]).send_data(text, fin=True)))
        self._close_with(f"1008 wiretape: {miss.message}")

    def _close_with(self, said: str) -> None:
        """Close with a code and a reason, when no frame is in the middle."""
        if not self._is_closing:
            self._is_closing = True
            code, _, reason = said.partition(" ")
            short = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
            self._between.append(turns.close_frame(f"{code} {short}".rstrip().encode()))
            self._send_between()

    # upstream's turns

    def _begin(self, number: int, origin: int) -> None:
        """Play a turn after those that have begun."""
        assert self._talk is not None
        made = self._talk.turns.schedules
        self._count = max(number, self._count)
        if number < len(made):  # else a fault has cut before
            self._playing.turns.append(_Turn(made[number], origin, number == len(made) - 1))
            if not self._playing.is_scheduled:
                self._playing.is_scheduled = True
                self._app.pacer.add(self._due(), self._client.guarded(self._advance))

    def _due(self) -> int:
        turn = self._playing.turns[0]
        made = turn.schedule
        part = self._playing.parts_written
        return turn.origin + (made.at_ns[part] if part < len(made.at_ns) else made.end_ns)

    def _advance(self, now: int) -> int | None:
        """Write the due parts; return the time of the next, or None: not before something has happened, or never."""
        if self._is_over or (self._is_closing and self._is_between):
            return None
        if self._socket.unsent > UNSENT_BYTES:
            self._playing.is_held = True
            self._served.held.append((now - self._t0, 0))
            return None
        turn, due = self._playing.turns[0], self._due()
        if self._playing.parts_written < len(turn.schedule.at_ns):
            self._write(turn.schedule)
            if not self._served.held:
                self._served.late.append(max(self._now() - due, 0))
        elif turn.is_last:
            self._finish(turn.schedule.end)
            return None
        return self._next(due)

    def _next(self, written: int) -> int | None:
        """Return the time of the next write, in this turn or the one after it, or None if there is none yet."""
        playing, turn = self._playing, self._playing.turns[0]
        if playing.parts_written == len(turn.schedule.at_ns) and not turn.is_last:
            playing.turns.popleft()
            playing.parts_written = 0
        if not playing.turns:
            playing.is_scheduled = False
            return None
        due = self._due()
        is_write = turn.schedule.end_ns and playing.parts_written < len(playing.turns[0].schedule.at_ns)
        return spaced(due, due - written, self._now()) if is_write else due

    def _write(self, made: Schedule) -> None:
        part = self._playing.parts_written
        piece = made.body[made.ends[part - 1] if part else 0 : made.ends[part]]
        gap = made.at_ns[part] - made.at_ns[part - 1] if part else 0
        self._playing.parts_written += 1
        self._playing.bytes_written += len(piece)
        self._socket.write(piece)
        self._served.wrote(self._now() - self._t0, len(piece), gap)
        self._send_between()

    @property
    def _is_between(self) -> bool:
        """True between two recorded frames."""
        return self._talk is None or self._playing.bytes_written in self._talk.turns.between

    def _send_between(self) -> None:
        """Send frames of our own, if none is in the middle."""
        if self._is_over or not self._is_between:
            return
        if self._between:
            self._socket.write(b"".join(self._between))
            self._between.clear()
        if self._is_closing:
            self._finish("end")

    def _finish(self, end: End) -> None:
        """End as the recording ended; the client has time to read the data sent."""
        if end == "silence":
            return
        self._end("refused" if self._served.miss else end)
        if end == "reset":
            if not self._socket.unsent:
                self._client.reset()
        else:
            self._socket.end()
            self._socket.resume()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._client.close)

    def _end(self, ended: str) -> None:
        """Note the end, once."""
        if not self._is_over:
            self._is_over = True
            self._served.ended, self._served.ended_ns = ended, self._now() - self._t0
            self._app.live.discard(self)
            self._app.forget_body(self._held)
            self._held = 0
            self._app.on_served(self._served)


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False
