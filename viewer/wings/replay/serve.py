"""Serves recordings over HTTP: each answer with its bytes, reads, timing and end, one recorded read in one write.

An app of the recorder's own HTTP server. The rules of an answer:

- The body of the request comes whole before anything is chosen: the recording is found by it. The plan is made in a
  thread (`planning`), as decoding takes milliseconds in which other answers would stand still.
- Times count from the request. If it took longer to send than the recorded one, they count from later by the
  difference, so that the answer does not begin before upstream could have known the request.
- One recorded read is one write, or what a form makes of it, and the `Pacer` calls when it is due. Parts that came in
  one read (the head and the first data, the last data and the end) leave in one write: a client would see two reads
  where there was one.
- A slow client holds up its own answer only: with `UNSENT_BYTES` unsent nothing more is written, and half of that must
  have left before the next write. The span is noted, and lateness after it is the client's, so it is not counted.
- A request without a recording goes to `upstreams`, if there are any, after recordings of the same request that have
  ended are on the tape; it is planned again then, once.
- The cuts of the forms `byte` and `split` are kept apart at the beginning of an answer, as the client's buffers would
  merge them; this is no lateness. Pings come by a timer of their own, so that they go on while nothing else is written.
- An answer ends as recorded: whole, by a close, a reset or bytes that are no HTTP, or never.
- A held answer (`streams`) has no write in the `Pacer`. Released, its next write is done at once, and the origin of its
  times moves so that later writes keep their distances.
- A page of another port of this machine may call: it gets the headers of CORS, unless they are recorded.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar, cast

import msgspec

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import providers, proxy
from wiretape.recorder.relay.app import HttpApp
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Policy, Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.sanitize import safe
from wiretape.viewer.source.replayed import ExchangeHead
from wiretape.viewer.wings.replay import comparing, faults, forms, matching
from wiretape.viewer.wings.replay.faults import Fault
from wiretape.viewer.wings.replay.forms import APART_BYTES, AS_RECORDED, Choice, Coder
from wiretape.viewer.wings.replay.matching import Match, Miss, ReplayRequest
from wiretape.viewer.wings.replay.pacing import APART_NS, Pacer, spaced
from wiretape.viewer.wings.replay.planning import AnswerPlan, Planner, ToRecord
from wiretape.viewer.wings.replay.positions import HEAD, Places
from wiretape.viewer.wings.replay.schedule import End
from wiretape.viewer.wings.replay.sessions import TurnRequests, TurnWait
from wiretape.viewer.wings.replay.streams import SILENCE_NS, ControlError, Hold, Stream

UNSENT_BYTES = 256 << 10
"""Limit of bytes that a client has not taken; beyond it its answer waits."""
BODY_BYTES = 64 << 20
"""Limit of a request's body, which is held in memory until the answer begins."""
ALL_BODIES_BYTES = 256 << 20
"""Limit of the bodies of all requests."""
CONTROL_PATH = b"/@control"
"""The path of requests that control answers, and do not count."""
TAIL_BYTES = 200
FORM_HEADER = b"x-wiretape-form"
Entries = tuple[Sequence[Fault], AnswerPlan | None]
"""The faults, and the error, that are to strike a request."""
T = TypeVar("T")


@dataclass(slots=True)
class Served:
    """The course of a request; times are ns after it came.

    The answer does not have the place of faults that are `unplaced`, and the tape not its `missing` bytes. `written_ns`
    and `sizes` have an element for each write that brought body bytes, `late` one for each that had a deadline: how
    much later it was. `waits` are the spans in which the client took nothing.
    """

    method: str
    path: str
    requested: int
    uploaded_ns: int | None = None
    head: ExchangeHead | None = None
    match: Match | None = None
    status: int | None = None
    faults: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    choice: Choice = AS_RECORDED
    missing: int = 0
    miss: Miss | None = None
    head_ns: int | None = None
    written_ns: "array[int]" = field(default_factory=lambda: array("q"))
    sizes: "array[int]" = field(default_factory=lambda: array("q"))
    late: "array[int]" = field(default_factory=lambda: array("q"))
    close_count: int = 0
    """Writes within 1 ms of the one before, nearer than recorded, so that a client may take both in one read."""
    waits: list[tuple[int, int]] = field(default_factory=list)
    ended_ns: int | None = None
    tail: bytes = b""
    """The last bytes of an answer in forms, before their content coding."""
    ending: str = ""
    """The schedule's end, or `client`: it left before, or `relayed`: upstream answers."""
    remark: str = ""
    """A note for the log, such as the end of a hold."""

    def wrote(self, at: int, size: int, gap: int) -> None:
        """Note a write of body bytes, which was due `gap` after the one before."""
        if self.written_ns and 2 * (distance := at - self.written_ns[-1]) < gap and distance < 1_000_000:
            self.close_count += 1
        self.written_ns.append(at)
        self.sizes.append(size)


class Upstreams(Protocol):
    """The upstreams that answer requests, to be recorded."""

    async def settle(self, to_record: ToRecord) -> bool:
        """Wait until a recording that would answer the request, and has ended, is on the tape; False: there is none."""

    def relay(self, client: Client, request: Request, to_record: ToRecord) -> proxy.RelayedExchange | Refusal | None:
        """Relay a request, whose body has come whole; None if it is answered, a `Refusal` if it cannot be."""


class Director(Protocol):
    """The control of answers (`control.Control`); it gets each request."""

    def serve(self, client: Client, request: Request) -> Responder | None: ...

    def add(self, answering: "Answering") -> None: ...

    def take(self, answering: "Answering", target: bytes, body: bytes | None) -> Entries: ...


class Replay(HttpApp):
    """Answers from recordings; requests without a recording go to `upstreams`, if there are any.

    `on_came` gets each request when it comes, to be filled in; `on_served` gets it when it is over.
    `on_refused` gets refusals, `on_trouble` failures. Several servers may share a `thread` to plan. `upgrade` takes the
    requests for a WebSocket, which are refused without it. A hold that is limited lasts `hold_seconds` at most (0:
    without a limit). `direct` makes the control of answers.
    """

    policy = Policy(takes_local_pages=True)

    def __init__(
        self,
        open_planner: Callable[[], Planner],
        *,
        upstreams: Upstreams | None = None,
        clock: Clock = SYSTEM,
        thread: ThreadPoolExecutor | None = None,
        upgrade: "Callable[[Replay, Http1Client, Request], Responder | None] | None" = None,
        direct: "Callable[[Replay], Director] | None" = None,
        hold_seconds: float = 60.0,
        on_came: Callable[[Served], None] = lambda _: None,
        on_served: Callable[[Served], None] = lambda _: None,
        on_refused: Callable[[Refusal], None] = lambda _: None,
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._open, self.clock, self.upstreams, self._upgrade = open_planner, clock, upstreams, upgrade
        self.on_came, self.on_served, self.on_refused, self.on_trouble = on_came, on_served, on_refused, on_trouble
        self.no_websocket = "" if upgrade else "recorded WebSockets are not served: send the request over HTTP"
        self._thread, self._shares_thread = thread or ThreadPoolExecutor(1, "planner"), thread is not None
        self._planner: Planner
        self.pacer: Pacer
        self.began_ns = 0
        """When it was started; the clock's ns."""
        self.live: set[Answering] = set()
        self.hold_seconds = hold_seconds
        self.director = None if direct is None else direct(self)
        self._body_bytes = 0
        self.turn_requests = TurnRequests()

    async def start(self) -> Sequence[ExchangeHead]:
        """Open the recordings, and return them. Raises `WiretapeError`."""
        self.pacer = Pacer(self.clock)
        loop = asyncio.get_running_loop()
        try:
            self._planner = await loop.run_in_executor(self._thread, self._open)
        except BaseException:
            await self._shut()
            raise
        self.began_ns = self.clock.now()
        return self._planner.heads

    def warm(self) -> None:
        """Prepare answers before their requests, one at a time: requests come first."""
        self._thread.submit(self._warm)

    def _warm(self) -> None:
        if self._planner.warm():
            with contextlib.suppress(RuntimeError):  # the server has been stopped
                self._thread.submit(self._warm)

    async def stop(self) -> None:
        for response in list(self.live):
            response.stop()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._planner.close)
        await self._shut()

    async def _shut(self) -> None:
        self.pacer.close()
        if not self._shares_thread:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def plan(self, request: ReplayRequest, *, with_places: bool) -> "asyncio.Future[AnswerPlan | Miss | ToRecord]":
        return self.planned(lambda planner: planner.plan(request, with_places=with_places))

    def planned(self, plan: Callable[[Planner], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._thread, lambda: plan(self._planner))

    def refuse_body(self, size: int, more: int) -> Refusal | None:
        """Count `more` bytes of a request's body of `size`; return the refusal of one for which there is no room."""
        self._body_bytes += more
        if size > BODY_BYTES:
            return Refusal(413, f"the request's body is larger than {BODY_BYTES >> 20} MiB")
        if self._body_bytes > ALL_BODIES_BYTES:
            return Refusal(503, f"the bodies of all requests are larger than {ALL_BODIES_BYTES >> 20} MiB: try again")
        return None

    def forget_body(self, size: int) -> None:
        self._body_bytes -= size

    def recorded(self, id: str) -> None:
        self._planner.recorded(id)

    @property
    def heads(self) -> Sequence[ExchangeHead]:
        return self._planner.heads

    # app.HttpApp

    def respond(self, client: Client, request: Request) -> Responder | None:
        """Answer a request from the recordings, or one to control them."""
        if request.target.startswith(CONTROL_PATH) and request.target[len(CONTROL_PATH) :][:1] in (b"", b"/", b"?"):
            if self.director is not None:
                return self.director.serve(client, request)
            answer_error(client, 404, "answers cannot be controlled: add --control", "unknown_path")
            return None
        if request.method == "OPTIONS" and (headers := _preflight(request)):
            client.start(204, b"", headers, chunked=False, closes=False)
            client.flush()
            client.finish()
            return None
        if self._upgrade is not None and isinstance(client, Http1Client) and client.may_switch:
            return self._upgrade(self, client, request)
        response = Response(self, client, request)
        response.body_came()
        return response

    def refuse(self, client: Client, refusal: Refusal) -> None:
        answer_error(client, refusal.status, refusal.message, "refused")


class NextWrite(NamedTuple):
    """The next write: when the one before it was due, and when it is; the clock's ns."""

    previous: int
    due: int
    is_spaced: bool = False
    """True if it is a write of its own to the client, also where it is late."""
    is_apart: bool = False
    """True if it is one also where it is due at once."""


class Answering(Responder, ABC):
    """A request on its way to its answer, over HTTP or a WebSocket: its writes, its holds, the room of its data."""

    def __init__(self, app: Replay, client: Client, request: Request) -> None:
        self._app, self._client, self._request = app, client, request
        self.served = Served(request.method, request.target.decode("latin-1"), client.stamp)
        self._size = 0
        """Bytes of the client that count for the limits of bodies."""
        self.no, self.model = 0, cast(str | None, None)
        """The number and the model of the request, which only control asks for."""
        self.stream = Stream()
        self.places: Places | None = None
        """The places in the answer, once it is planned; of a WebSocket, once its first message came."""
        self._waiting_faults: list[Fault] = []
        """The faults that control asked for before the answer was planned."""
        self._cuts: list[Fault] = []
        """The faults that have cut the answer since it was planned."""
        self._speed: float | None = None
        self._is_ready = False
        """True once its head may be written."""
        self._writing = 0
        """The number of the write that is in the pacer: a hold, a release or another speed makes it void."""
        self._is_scheduled = self._is_blocked = False
        """If a write is in the pacer, and if the client takes nothing."""
        self._is_on_time = True
        """False if the next write does not follow the one before as it was recorded: after a hold."""
        self._apart_ns = self._written_ns = 0
        """The earliest time of the next write, to keep it apart from the one before or catch up; the time of that."""
        self._hold_timer: asyncio.TimerHandle | None = None
        app.on_came(self.served)
        app.live.add(self)
        if app.director is not None:
            app.director.add(self)

    @property
    def _t0(self) -> int:
        return self.served.requested

    @property
    def _is_over(self) -> bool:
        return self.served.ending != ""

    def _now(self) -> int:
        return self._app.clock.now()

    def _read_forms(self) -> tuple[str, ...] | None:
        """Return the forms that the request names, and take their names out of it. Raises ValueError."""
        request = self._request
        header = next((value for name, value in request.headers if name == FORM_HEADER), None)
        request.target, names = forms.read_target(request.target, header)
        request.headers = [pair for pair in request.headers if pair[0] != FORM_HEADER]
        return names

    def _fail(self, status: int, message: str, code: str, **more: object) -> None:
        self.served.status = status
        self._end("refused")
        answer_error(self._client, status, message, code, cors(self._request), **more)

    def _miss(self, miss: Miss, status: int = 404) -> None:
        self.served.miss = miss
        self._fail(status, miss.message, "not_recorded", nearest=miss.nearest, differs=miss.differs)

    def _end(self, ending: str) -> None:
        if self._is_over:
            return
        self.served.ending = ending
        self._forget_body()
        if self._hold_timer is not None:
            self._hold_timer.cancel()
        self.served.ended_ns = self._now() - self._t0
        self.stream.end(ending)
        self._app.live.discard(self)
        self._app.on_served(self.served)

    def _forget_body(self) -> None:
        self._app.forget_body(self._size)
        self._size = 0

    def client_left(self) -> None:
        self._end("client")

    def stop(self) -> None:
        self._end("stopped")
        self._client.close()

    # the writes

    @abstractmethod
    def _next(self) -> NextWrite | None:
        """Return the next write; None if there is none, or none yet."""

    @abstractmethod
    def _write(self, this: NextWrite) -> NextWrite | None:
        """Send a write, up to the place of a hold; return the one that follows by its time."""

    def _wrote(self, place: int, this: NextWrite, *, is_waiting: bool = False) -> NextWrite | None:
        """Note that all before a place is written; return the next write, unless the answer is held there.

        `is_waiting`: the next write waits for the client.
        """
        following, self._written_ns = self._next(), self._now()
        silence_ns = 0 if is_waiting else SILENCE_NS if following is None else following.due - this.due
        if self.stream.wrote(place, self._written_ns, silence_ns):
            self._note_hold()
            return None
        return following

    @abstractmethod
    def _shift(self, ns: int) -> None:
        """Put the next write off, and those whose times count from the same origin."""

    def _add(self, due: int) -> None:
        self._writing += 1
        self._is_scheduled = True
        self._app.pacer.add(due, self._client.guarded(partial(self._advance, self._writing)))

    def _advance(self, writing: int, now: int) -> int | None:
        """Write the due parts; return the time of the next, or None: not before something has happened, or never."""
        if self._is_over or writing != self._writing or (this := self._next()) is None:
            return None
        if self._client.unsent > UNSENT_BYTES:
            if not self._is_blocked:
                self._is_blocked = True
                self.served.waits.append((now - self._t0, 0))
            return None
        following, now = self._write(this), self._now()
        self._is_scheduled = following is not None
        if not self.served.waits:  # after one, lateness is the client's
            self.served.late.append(max(now - max(this.due, self._apart_ns), 0))
        apart_ns, self._apart_ns = self._apart_ns, 0
        if following is None:
            return None
        if following.is_apart:
            self._apart_ns = max(following.due, now + APART_NS)
            return self._apart_ns
        if apart_ns and following.due < now:  # cuts kept apart have used up its time: it catches up
            self._apart_ns = now
        return spaced(following.due, following.due - this.due, now) if following.is_spaced else following.due

    def _progressed(self) -> None:
        """Continue once the client has taken half of the limit."""
        if self._is_blocked and self._client.unsent < UNSENT_BYTES // 2:
            self._is_blocked = False
            now = self._now()
            self.served.waits[-1] = (self.served.waits[-1][0], now - self._t0)
            if not self.stream.is_held:
                self._add(now)

    # control

    @property
    @abstractmethod
    def _end_place(self) -> int:
        """The place of the answer's end."""

    @abstractmethod
    def _replan(self, speed: float | None) -> None:
        """Cut the answer by the newest of its faults, or play it at another speed."""

    @abstractmethod
    def _answer(self, plan: AnswerPlan) -> None:
        """Answer by a plan."""

    def strike(self, fault: Fault) -> None:
        """Hold, cut or reset at a position, or, without one, before the next write. Raises `ControlError`."""
        self.stream.require()
        position, place = fault.position, None
        if position is None and fault.kind != "hold":
            place = self.stream.place
        elif self.stream.place == HEAD and self._is_ready and (position is None or position.text == "head"):
            place = HEAD
        elif self.places is None:
            self._waiting_faults.append(fault)
            return
        else:
            place = self.places.border(self.stream.place) if position is None else self.places.place(position)
            if position is not None and position.text == "end":
                place = self._end_place
            if place is None or place > self._end_place:
                count = counted(len(self.places.spans), "event")
                raise ControlError("bad_request", f"{fault.text}: the answer has no such position, but {count}")
        if place < self.stream.place:
            raise ControlError("passed", f"{fault.text}: the answer is beyond that position")
        self.served.faults = (*self.served.faults, fault.text)
        if fault.kind == "hold":
            self.stream.add(Hold(place, fault.is_limited), self._now())
            self._note_hold()
        elif place == self.stream.place:
            self._break_off("reset" if fault.kind == "reset" else "close")
        else:
            self._cuts.append(fault)
            self._replan(None)

    def _strike_planned(self, holds: Sequence[Fault]) -> None:
        """Strike with the holds of a plan, and with the faults that waited for it."""
        faults, self._waiting_faults = [*holds, *self._waiting_faults], []
        for fault in faults:
            try:
                self.strike(fault)
            except ControlError:
                self.served.unplaced = (*self.served.unplaced, fault.text)

    def _note_hold(self) -> None:
        """Void the next write of an answer that is held, and limit the hold."""
        if not self.stream.is_held or self._hold_timer is not None:
            return
        self._writing += 1
        self._is_scheduled = False
        if self.stream.is_limited and (seconds := self._app.hold_seconds):
            loop = asyncio.get_running_loop()
            self._hold_timer = loop.call_later(seconds, self._client.guarded(self._expire), seconds)

    def _expire(self, seconds: float) -> None:
        self.served.remark = f"held for {seconds:g} s, and cut"
        self._break_off("close")

    def _break_off(self, end: End) -> None:
        """End now, by a close or a reset."""
        self._end(end)
        if end == "reset":
            self._client.flush()
            self._client.reset()
        else:
            self._client.cut()

    def _released(self) -> None:
        self.stream.require(is_held=True)
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        self.stream.release()

    def release(self) -> None:
        """Release a held answer: its next write is done at once. Raises `ControlError`."""
        self._released()
        self._client.guarded(self._resume)(self._now())

    def _resume(self, now: int) -> None:
        self._is_on_time, self._apart_ns = False, 0
        if (following := self._next()) is not None:
            self._shift(now - following.due)
            due = self._advance(self._writing, now)
            if due is not None:
                self._add(due)

    def step(self, count: int) -> None:
        """Write some events at once, and hold again, or end behind the last. Raises `ControlError`.

        Those of a WebSocket's turn that has not begun follow the client's message.
        """
        self.stream.require(is_held=True)
        if self.places is None:
            raise ControlError("bad_request", "a WebSocket has no events before its first message: release it")
        target = self.places.behind(self.stream.place, count)
        self._released()
        if target is not None and not self.stream.is_hold_at(target):
            self.stream.add(Hold(target), self._now())
        self._client.guarded(self._write_on)()

    def _write_on(self) -> None:
        """Write until the answer is held again, or over."""
        following = self._next()
        while following is not None:
            self._is_on_time = False
            following = self._write(following)

    def fail(self, plan: AnswerPlan) -> None:
        """Answer by an error. Raises `ControlError`."""
        self.stream.require()
        if self.stream.place > HEAD:
            raise ControlError("head_sent", f"the head is sent, with the status {self.served.status}")
        if self.stream.is_held:
            self._released()
        self.stream.forget()
        self._waiting_faults.clear()
        self._answer(plan)
        self._client.guarded(self._resume)(self._now())

    def play(self, speed: float) -> None:
        """Go on at another speed. Raises `ControlError`."""
        self.stream.require()
        self._speed = speed
        if self.places is None:
            return
        now, old = self._now(), self._next()
        self._replan(speed)
        new = self._next()
        if old is not None and new is not None:  # of the wait for the next write, the same part is left
            share = min(max(old.due - now, 0) / (old.due - old.previous), 1) if old.due > old.previous else 0
            self._shift(now + int(share * (new.due - new.previous)) - new.due)
            if not self.stream.is_held:
                self._add(now + int(share * (new.due - new.previous)))


class Response(Answering):
    """One request, and its answer on the way to the client."""

    def __init__(self, app: Replay, client: Client, request: Request) -> None:
        super().__init__(app, client, request)
        self._origin = self._t0
        """The origin of the schedule's times."""
        self._pieces: list[bytes] = []
        self._replay_request: ReplayRequest | None = None
        self._settling: asyncio.Task[None] | None = None
        self._is_requested = self._has_settled = False
        self._plan: AnswerPlan
        self._index = 0
        """The number of the next write of the body."""
        self._coder: Coder | None = None
        self._coded: deque[bytes] = deque()
        """Coded bytes of the last write, each to be a write."""
        self._coded_size = self._coded_place = 0
        self._waits: dict[int, TurnWait] = {}
        """The requests that writes wait for, by the numbers of the writes."""
        self._is_waiting = False

    # responder.Responder

    def body_came(self) -> None:
        """Read a piece of the request's body, and answer once it is whole."""
        if self._is_requested or self._is_ready:
            return
        piece = self._request.take()
        self._pieces.append(piece)
        self._size += len(piece)
        refusal = self._app.refuse_body(self._size, len(piece))
        if refusal is not None:
            self.request_failed(refusal)
        elif self._request.complete:
            self._is_requested = True
            self.served.uploaded_ns = self._now() - self._t0
            request = self._request
            try:
                names = self._read_forms()
            except ValueError as error:
                self._fail(400, str(error), "bad_form")
                return
            if request.target == b"/" and request.method in ("GET", "HEAD"):
                self._end("list")
                answer_list(self._client, request, self._app.heads)
                return
            header = next((value for name, value in request.headers if name == b"x-wiretape-exchange"), None)
            target, id = matching.read_target(request.target, header)
            self._pieces = [b"".join(self._pieces)]
            plain = comparing.uncoded(request.headers, self._pieces[0])
            self._replay_request = ReplayRequest(
                request.method, target, plain, id, request.headers, names, request.version
            )
            failure = None
            if self._app.director is not None:
                faults_of_entries, failure = self._app.director.take(self, target, plain)
                self._waiting_faults += faults_of_entries
            if failure is None:
                self._ask()
            else:
                self._answer(failure)

    def _ask(self) -> None:
        assert self._replay_request is not None  # it is kept until it is answered
        planning = self._app.plan(self._replay_request, with_places=bool(self._waiting_faults))
        planning.add_done_callback(self._client.guarded(self._planned))

    def _planned(self, planning: "asyncio.Future[AnswerPlan | Miss | ToRecord]") -> None:
        if self._is_over or self._is_ready or planning.cancelled():
            return
        try:
            outcome = planning.result()
        except WiretapeError as error:
            self._app.on_trouble(str(error))
            self._fail(500, str(error), "tape")
        else:
            match outcome:
                case ToRecord():
                    self._settling = asyncio.get_running_loop().create_task(self._record(outcome))
                case Miss():
                    self._miss(outcome)
                case AnswerPlan():
                    self._answer(outcome)

    async def _record(self, to_record: ToRecord) -> None:
        """Relay the request to upstream, unless it is answered by a recording that is about to settle."""
        assert self._app.upstreams is not None  # else nothing is to be recorded
        try:
            # Once only: a recording that settles, and still does not answer the request, would be waited for for ever.
            if not self._has_settled and await self._app.upstreams.settle(to_record):
                self._has_settled = True
                if not self._is_ready:
                    self._ask()
            elif not self._is_over and not self._is_ready:
                self._relay(self._app.upstreams, to_record)
        except Exception as error:  # noqa: BLE001 - any failure is reported to the client and the user
            self._client.failed(error)

    def _relay(self, upstreams: Upstreams, to_record: ToRecord) -> None:
        self._request.pieces = self._pieces  # upstream gets the body as it came, with its content coding
        relayed = upstreams.relay(self._client, self._request, to_record)
        if isinstance(relayed, Refusal):
            self._miss(replace(to_record.miss, message=relayed.message), relayed.status)
            return
        self._end("relayed")
        if relayed is not None:
            self._app.recorded(relayed.id)
            self._client.hand_over(self, relayed)

    def request_failed(self, refusal: Refusal) -> None:
        """End: the rest of the request's body will not come, or is not wanted."""
        self._app.client_rejected(refusal)
        self._fail(refusal.status, refusal.message, "refused")

    def client_progressed(self) -> None:
        self._progressed()

    def taker_failed(self, error: Exception) -> None:
        if self.served.head_ns is None:
            self.served.status = 500
        self._end("fault")
        self._app.on_trouble(f"an answer failed by a fault of wiretape's own: {error!r}")

    def _forget_body(self) -> None:
        super()._forget_body()
        self._pieces, self._replay_request = [], None

    # the answer

    def _answer(self, plan: AnswerPlan) -> None:
        self._forget_body()  # the answer may take minutes, and others wait for the room
        if self._speed is not None:
            plan = replace(plan, schedule=plan.at_speed(self._speed))
        self._plan, self.places, self._is_ready = plan, plan.places, True
        self.served.head, self.served.status, self.served.match = plan.head, plan.status, plan.match
        self.served.faults = (*self.served.faults, *plan.faults)
        self.served.missing, self.served.unplaced, self.served.choice = plan.missing, plan.unplaced, plan.choice
        self._coder = None if plan.choice.coding is None else Coder(plan.choice.coding)
        self._origin += max((self.served.uploaded_ns or 0) - plan.asked_ns, 0)
        self._waits = {bisect_right(plan.schedule.ends, wait.place): wait for wait in plan.waits}
        if plan.head is not None and "/sessions" in plan.head.path:
            self._app.turn_requests.add(plan.head.id, self._t0)
        self._strike_planned(plan.holds)
        if not self.stream.is_held and not self._is_over and (first := self._next()):
            self._add(first.due)

    def _next(self) -> NextWrite | None:
        schedule, index = self._plan.schedule, self._index
        if self.stream.place == HEAD and schedule.head_ns is not None:
            return NextWrite(self._t0, self._origin + schedule.head_ns)
        if self._coded:
            return NextWrite(self._written_ns, self._written_ns, is_apart=True)
        if index in self._waits and not self._has_request(index):
            return None
        origin = self._origin
        previous = origin + (schedule.at_ns[index - 1] if index else schedule.head_ns or 0)
        if index < len(schedule.at_ns):
            is_spaced, is_apart = schedule.end_ns > 0, schedule.ends[index] <= schedule.apart_size  # not at speed 0
            return NextWrite(previous, origin + schedule.at_ns[index], is_spaced, is_apart)
        # The end adds no data that could merge.
        return None if schedule.end == "silence" else NextWrite(previous, origin + schedule.end_ns)

    def _has_request(self, index: int) -> bool:
        """Return True if the request came that a write waits for; its times count from that."""

        def go_on(at_ns: int) -> bool:
            if not self._is_over:
                self._is_waiting = False
                self._begin_turn(index, at_ns)
                if not self.stream.is_held and (following := self._next()) is not None:
                    self._add(following.due)
            return not self._is_over

        if self._is_waiting:
            return False
        at_ns = self._app.turn_requests.wait(self._waits[index].exchange_id, go_on)
        if at_ns is None:
            self._is_waiting = True
            return False
        self._begin_turn(index, at_ns)
        return True

    def _begin_turn(self, index: int, at_ns: int) -> None:
        self._origin = at_ns + self._waits.pop(index).delay_ns - self._plan.schedule.at_ns[index]

    def _shift(self, ns: int) -> None:
        self._origin += ns

    def _write(self, this: NextWrite) -> NextWrite | None:
        """Send the head, or a write of the body, or the end; parts that were read together are written together."""
        place = self._write_parts()
        return None if self._is_over else self._wrote(place, this)

    def _write_parts(self) -> int:
        """Return the place up to which all is written."""
        plan, schedule, place = self._plan, self._plan.schedule, self.stream.place
        is_head = self._request.method == "HEAD"
        if self._coded:
            self._add_body(self._coded.popleft(), 0)
            self._client.flush()
            return self._coded_place if not self._coded else max(place, 0)
        if place == HEAD and schedule.head_ns is not None:  # a recording without an answer has no head
            place = self.stream.place = 0
            self.served.head_ns = self._now() - self._t0
            self._start(plan, is_head=is_head)
            is_joined = schedule.joins_head if schedule.at_ns else schedule.joins_end
            if not is_joined or is_head or self.stream.is_hold_at(place):
                self._client.flush()
                return place
        if self._index in self._waits:
            self._client.flush()
            return place
        if self._index < len(schedule.at_ns) and not is_head:
            end = schedule.ends[self._index]
            stop = self.stream.limit(end)
            is_on_time = self._is_on_time and not self._apart_ns
            self._add_text(schedule.body[place:stop], schedule.gap_ns(self._index) if is_on_time else 0)
            self._is_on_time = True
            self._index += stop == end
            if self._coded:  # until they are written, the place is not reached
                self._coded_place = stop
                self._client.flush()
                return place
            place = stop
            if self._index < len(schedule.at_ns) or not schedule.joins_end or self.stream.is_hold_at(place):
                self._client.flush()
                return place
        self.stream.place = place
        self._finish()
        return place

    def _start(self, plan: AnswerPlan, *, is_head: bool) -> None:
        headers = plan.headers
        if plan.head is not None:
            headers = providers.relocated(matching.mounts(plan.head.upstream)[0], headers, self._request.origin)
            if plan.head.method == "HEAD" and not is_head:  # named by its id: there is no body of the stated length
                headers = [*(pair for pair in headers if pair[0] != b"content-length"), (b"content-length", b"0")]
        if plan.match is not None:
            headers = [*headers, (b"x-wiretape-match", plan.match.step.encode())]
        headers = [*headers, *cors(self._request, headers)]
        self._client.start(plan.status or 0, b"", headers, chunked=plan.chunked and not is_head, closes=plan.closes)
        if plan.between and not is_head:
            self._app.pacer.add(self._now() + self._ping_interval, self._client.guarded(self._ping))

    def _add_text(self, text: bytes, gap_ns: int) -> None:
        """Send a part of the text in its content coding; if each byte of that is a write, the first one."""
        if self._plan.choice.names:
            self.served.tail = (self.served.tail + text)[-TAIL_BYTES:]
        data = text if self._coder is None else self._coder.add(text)
        if self._coder is not None and self._plan.choice.cut == "byte":
            self._queue(data)
            data = self._coded.popleft()
        self._add_body(data, gap_ns)

    def _queue(self, data: bytes) -> None:
        cut_size = max(APART_BYTES - self._coded_size, 0)
        self._coded_size += len(data)
        self._coded.extend(data[at : at + 1] for at in range(min(cut_size, len(data))))
        if data[cut_size:]:
            self._coded.append(data[cut_size:])

    def _add_body(self, data: bytes, gap_ns: int) -> None:
        if "chunk-extensions" in self._plan.choice.names:
            self._client.add_unframed(forms.chunk(data))
        else:
            self._client.add(data)
        self.served.wrote(self._now() - self._t0, len(data), gap_ns)

    @property
    def _ping_interval(self) -> int:
        return forms.ping_ns(self._plan.choice.names) or 0

    def _ping(self, now: int) -> int | None:
        """Send a comment if nothing was written for long, and no event is open; return the time of the next look."""
        if self._is_over:
            return None
        due, schedule = self._written_ns + self._ping_interval, self._plan.schedule
        if now < due:
            return due
        if self.stream.place in self._plan.between and not self._coded and not self._is_blocked:
            self._add_text(forms.ping_of(schedule.body, self._plan.choice.names), 0)
            self._client.flush()
            self._written_ns = now
        return now + self._ping_interval

    def _finish(self) -> None:
        plan, client = self._plan, self._client
        end = plan.schedule.end
        if end == "end" and self._coder is not None and self._request.method != "HEAD":
            coder, self._coder = self._coder, None
            if plan.choice.cut == "byte":
                self._queue(coder.end())
                client.flush()
                return
            self._add_body(coder.end(), 0)
        if end == "silence":  # with its last write
            client.flush()
            return
        self._end(end)
        if end == "garbage" and (plan.chunked or plan.status is None):
            garbage = "the recorded answer was no HTTP\r\n" if plan.status is None else "this is no chunk"
            client.add_unframed(f"wiretape: {garbage}\r\n".encode())
        if end == "reset":
            client.flush()
            client.reset(plan.reset_code)
        elif end != "end" or plan.status is None:
            client.cut()
        else:
            if "chunk-extensions" in plan.choice.names and self._request.method != "HEAD":
                client.add_unframed(forms.chunk(b""))
            else:
                client.add_end(plan.trailers or None)
            client.flush()
            client.finish()

    # control

    @property
    def _end_place(self) -> int:
        return 0 if self._request.method == "HEAD" else len(self._plan.schedule.body)

    def _replan(self, speed: float | None) -> None:
        plan = self._plan
        schedule = plan.schedule if speed is None else plan.at_speed(speed)
        self._plan = replace(plan, schedule=faults.applied(schedule, self._cuts, plan.places)[0])


def cors(request: Request, recorded: Sequence[tuple[bytes, bytes]] = ()) -> list[tuple[bytes, bytes]]:
    """Return the headers by which a page of another port may read an answer, unless the `recorded` ones have them."""
    origin = next((value for name, value in request.headers if name == b"origin"), None)
    if origin is None or any(name.lower() == b"access-control-allow-origin" for name, _ in recorded):
        return []
    return [
        (b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true"),
        (b"access-control-expose-headers", b"*"), (b"vary", b"origin"),
    ]  # fmt: skip


def _preflight(request: Request) -> list[tuple[bytes, bytes]]:
    """Return the headers that answer the question of a page if it may send a request, or none for any other request."""
    fields = dict(request.headers)
    method = fields.get(b"access-control-request-method")
    if method is None or b"origin" not in fields:
        return []
    names = fields.get(b"access-control-request-headers", b"*")
    allowed = [(b"access-control-allow-methods", method), (b"access-control-allow-headers", names)]
    return [*cors(request), *allowed, (b"access-control-max-age", b"600")]


def answer_error(
    client: Client, status: int, message: str, code: str, headers: Sequence[tuple[bytes, bytes]] = (), **more: object
) -> None:
    """Answer with an error of our own, in the shape that SDKs show."""
    error = {"message": f"wiretape: {message}", "type": "wiretape_error", "code": code, **more}
    fields = [(b"x-wiretape-error", code.encode()), *headers]
    client.answer(status, msgspec.json.encode({"type": "error", "error": error}), "application/json", fields)


def answer_list(client: Client, request: Request, heads: Sequence[ExchangeHead]) -> None:
    """Answer with a list of the newest served exchanges: as JSON if that is accepted by name, else as text."""
    # A browser shows the list as one page.
    newest = heads[-1000:]
    accepted = b",".join(value for name, value in request.headers if name == b"accept")
    if b"json" in accepted:
        names = ("id", "method", "path", "model", "status", "outcome", "started_at")
        rows = [{name: getattr(head, name) for name in names} for head in newest]
        body = msgspec.json.encode({"count": len(heads), "exchanges": rows})
        client.answer(200, body, "application/json", cors(request))
        return
    lines = [f"wiretape serves {len(heads)} recorded exchanges; /@ID/… asks for one of them"]
    lines += [
        f"{head.id}  {head.status or '–':>3}  {head.outcome:<13}  {head.model or '–':<24}  {head.method} {head.path}"
        for head in newest
    ]
    text = "".join(f"{safe(line)}\n" for line in lines)
    client.answer(200, text.encode(), "text/plain; charset=utf-8", cors(request))
