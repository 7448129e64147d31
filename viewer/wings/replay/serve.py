"""Serves recordings over HTTP: each answer with its bytes, reads, timing and end, one recorded read in one write.

An app of the recorder's own HTTP server. The rules of an answer:

- The body of the request comes whole before anything is chosen: the recording is found by it. The plan is made in a
  thread (`planning`), as decoding takes milliseconds in which other answers would stand still.
- Times count from the request. If it took longer to send than the recorded one, they count from later by the
  difference, so that the answer does not begin before upstream could have known the request.
- One recorded read is one write, and the `Pacer` calls when it is due. Parts that came in one read (the head and the
  first data, the last data and the end) leave in one write: a client would see two reads where there was one.
- A slow client holds up its own answer only: with `UNSENT_BYTES` unsent nothing more is written, and half of that must
  have left before the next write. The span is noted, and lateness after it is the client's, so it is not counted.
- A request without a recording goes to `upstreams`, if there are any, after recordings of the same request that have
  ended are on the tape; it is planned again then, once.
- An answer ends as recorded: whole, by a close, a reset or bytes that are no HTTP, or never.
"""

import asyncio
import contextlib
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import msgspec

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay import providers, proxy
from wiretape.recorder.relay.app import HttpApp
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.sanitize import safe
from wiretape.viewer.source.replayed import ExchangeHead
from wiretape.viewer.wings.replay import matching
from wiretape.viewer.wings.replay.matching import Miss, ReplayRequest
from wiretape.viewer.wings.replay.pacing import Pacer, spaced
from wiretape.viewer.wings.replay.planning import AnswerPlan, Planner, ToRecord

UNSENT_BYTES = 256 << 10
"""Limit of bytes that a client has not taken; beyond it its answer waits."""
BODY_BYTES = 64 << 20
"""Limit of a request's body, which is held in memory until the answer begins."""
ALL_BODIES_BYTES = 256 << 20
"""Limit of the bodies of all requests."""
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
    status: int | None = None
    faults: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
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
    ending: str = ""
    """The schedule's end, or `client`: it left before, or `relayed`: upstream answers."""

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


class Live(Protocol):
    """An answer on its way."""

    def stop(self) -> None:
        """End at once."""


class Replay(HttpApp):
    """Answers from recordings; requests without a recording go to `upstreams`, if there are any.

    `on_came` gets each request when it comes, to be filled in; `on_served` gets it when it is over.
    `on_refused` gets refusals, `on_trouble` failures. Several servers may share a `thread` to plan. `upgrade` takes the
    requests for a WebSocket, which are refused without it.
    """

    def __init__(
        self,
        open_planner: Callable[[], Planner],
        *,
        upstreams: Upstreams | None = None,
        clock: Clock = SYSTEM,
        thread: ThreadPoolExecutor | None = None,
        upgrade: "Callable[[Replay, Http1Client, Request], Responder | None] | None" = None,
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
        self.live: set[Live] = set()
        self._body_bytes = 0

    async def start(self) -> Sequence[ExchangeHead]:
        """Open the recordings, and return them. Raises `WiretapeError`."""
        self.pacer = Pacer(self.clock)
        loop = asyncio.get_running_loop()
        try:
            self._planner = await loop.run_in_executor(self._thread, self._open)
        except BaseException:
            await self._shut()
            raise
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

    def plan(self, request: ReplayRequest) -> "asyncio.Future[AnswerPlan | Miss | ToRecord]":
        return self.planned(lambda planner: planner.plan(request))

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
        """Answer a request from the recordings."""
        if self._upgrade is not None and isinstance(client, Http1Client) and client.may_switch:
            return self._upgrade(self, client, request)
        response = Response(self, client, request)
        response.body_came()
        return response

    def refuse(self, client: Client, refusal: Refusal) -> None:
        answer_error(client, refusal.status, refusal.message, "refused")


class Answering(Responder):
    """A request on its way to its answer, over HTTP or a WebSocket: its course, and the room that its data take."""

    def __init__(self, app: Replay, client: Client, request: Request) -> None:
        self._app, self._client, self._request, self._now = app, client, request, app.clock.now
        self._served = Served(request.method, request.target.decode("latin-1"), client.stamp)
        self._t0 = self._served.requested
        self._size = 0
        """Bytes of the client that count for the limits of bodies."""
        self._is_over = False
        app.on_came(self._served)
        app.live.add(self)

    def _fail(self, status: int, message: str, code: str, **more: object) -> None:
        self._served.status = status
        self._end("refused")
        answer_error(self._client, status, message, code, **more)

    def _miss(self, miss: Miss, status: int = 404) -> None:
        self._served.miss = miss
        self._fail(status, miss.message, "not_recorded", nearest=miss.nearest, differs=miss.differs)

    def _end(self, ending: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._forget_body()
        self._served.ending, self._served.ended_ns = ending, self._now() - self._t0
        self._app.live.discard(self)
        self._app.on_served(self._served)

    def _forget_body(self) -> None:
        self._app.forget_body(self._size)
        self._size = 0

    def _hold(self, now: int) -> None:
        """Note that the client takes nothing any more."""
        self._served.waits.append((now - self._t0, 0))

    def _go_on(self) -> int:
        """Note that the client has taken enough of what it was sent, and return the time."""
        now = self._now()
        self._served.waits[-1] = (self._served.waits[-1][0], now - self._t0)
        return now

    def client_left(self) -> None:
        self._end("client")

    def stop(self) -> None:
        self._end("stopped")
        self._client.close()


class Response(Answering):
    """One request, and its answer on the way to the client."""

    def __init__(self, app: Replay, client: Client, request: Request) -> None:
        super().__init__(app, client, request)
        self._origin = self._t0
        """The origin of the schedule's times."""
        self._pieces: list[bytes] = []
        self._replay_request: ReplayRequest | None = None
        self._settling: asyncio.Task[None] | None = None
        self._is_requested = self._is_held = self._has_settled = False
        self._plan: AnswerPlan
        self._index = -1
        """The number of the next write; -1: the head."""

    # responder.Responder

    def body_came(self) -> None:
        """Read a piece of the request's body, and answer once it is whole."""
        if self._is_requested:
            return
        piece = self._request.take()
        self._pieces.append(piece)
        self._size += len(piece)
        refusal = self._app.refuse_body(self._size, len(piece))
        if refusal is not None:
            self.request_failed(refusal)
        elif self._request.complete:
            self._is_requested = True
            self._served.uploaded_ns = self._now() - self._t0
            request = self._request
            if request.target == b"/" and request.method in ("GET", "HEAD"):
                self._end("list")
                answer_list(self._client, request, self._app.heads)
                return
            header = next((value for name, value in request.headers if name == b"x-wiretape-exchange"), None)
            target, id = matching.read_target(request.target, header)
            self._pieces = [b"".join(self._pieces)]
            plain = matching.uncoded(request.headers, self._pieces[0])
            self._replay_request = ReplayRequest(request.method, target, plain, id, request.headers)
            self._app.plan(self._replay_request).add_done_callback(self._client.guarded(self._planned))

    def _planned(self, planning: "asyncio.Future[AnswerPlan | Miss | ToRecord]") -> None:
        if self._is_over or planning.cancelled():
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
                    self._forget_body()  # the answer may take minutes, and others wait for the room
                    self._begin(outcome)

    async def _record(self, to_record: ToRecord) -> None:
        """Relay the request to upstream, unless it is answered by a recording that is about to settle."""
        assert self._app.upstreams is not None  # else nothing is to be recorded
        try:
            # Once only: a recording that settles, and still does not answer the request, would be waited for for ever.
            if not self._has_settled and await self._app.upstreams.settle(to_record):
                self._has_settled = True
                assert self._replay_request is not None  # it is kept until it is answered
                self._app.plan(self._replay_request).add_done_callback(self._client.guarded(self._planned))
            elif not self._is_over:
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
        """Continue once the client has taken half of the limit."""
        if self._is_held and self._client.unsent < UNSENT_BYTES // 2:
            self._is_held = False
            self._add(self._go_on())

    def taker_failed(self, error: Exception) -> None:
        if self._served.head_ns is None:
            self._served.status = 500
        self._end("fault")
        self._app.on_trouble(f"an answer failed by a fault of wiretape's own: {error!r}")

    def _forget_body(self) -> None:
        super()._forget_body()
        self._pieces, self._replay_request = [], None

    # the answer

    def _begin(self, plan: AnswerPlan) -> None:
        self._plan = plan
        self._served.head, self._served.status, self._served.faults = plan.head, plan.status, plan.faults
        self._served.missing, self._served.unplaced = plan.missing, plan.unplaced
        if plan.schedule.head_ns is None:
            self._index = 0
        if plan.schedule.head_ns is None and plan.schedule.end == "silence":
            return  # the client will leave
        self._origin += max((self._served.uploaded_ns or 0) - plan.asked_ns, 0)
        self._add(self._origin + self._due())

    def _add(self, due: int) -> None:
        self._app.pacer.add(due, self._client.guarded(self._advance))

    def _due(self) -> int:
        schedule = self._plan.schedule
        if self._index < 0:
            return schedule.head_ns or 0
        return schedule.at_ns[self._index] if self._index < len(schedule.at_ns) else schedule.end_ns

    def _advance(self, now: int) -> int | None:
        """Write the due parts; return the time of the next, or None: not before the client has taken more, or never."""
        if self._is_over:
            return None
        if self._client.unsent > UNSENT_BYTES:
            self._is_held = True
            self._hold(now)
            return None
        due = self._due()
        self._write()
        if not self._served.waits:  # after one, lateness is the client's
            self._served.late.append(max(self._now() - self._origin - due, 0))
        schedule = self._plan.schedule
        if self._served.ending or (schedule.end == "silence" and self._index >= len(schedule.at_ns)):
            return None
        due = self._due()
        # The end adds no data that could merge; and at speed 0 nothing is waited for.
        if schedule.end_ns and self._index < len(schedule.at_ns):
            previous = schedule.at_ns[self._index - 1] if self._index else schedule.head_ns or 0
            due = spaced(due, due - previous, self._now() - self._origin)
        return self._origin + due

    def _write(self) -> None:
        """Send the head, or a write of the body, or the end; parts that were read together are written together."""
        plan, schedule = self._plan, self._plan.schedule
        is_head = self._request.method == "HEAD"
        if self._index < 0:
            self._index = 0
            self._served.head_ns = self._now() - self._t0
            headers = providers.relocated(matching.mounts(plan.head.upstream)[0], plan.headers, self._request.origin)
            if plan.head.method == "HEAD" and not is_head:  # named by its id: there is no body of the stated length
                headers = [*(pair for pair in headers if pair[0] != b"content-length"), (b"content-length", b"0")]
            self._client.start(plan.status or 0, b"", headers, chunked=plan.chunked and not is_head, closes=plan.closes)
            is_joined = schedule.joins_head if schedule.at_ns else schedule.joins_end
            if not is_joined or is_head:
                self._client.flush()
                return
        if self._index < len(schedule.at_ns) and not is_head:
            data, gap_ns = schedule.write(self._index)
            self._index += 1
            self._client.add(data)
            self._served.wrote(self._now() - self._t0, len(data), gap_ns)
            if self._index < len(schedule.at_ns) or not schedule.joins_end:
                self._client.flush()
                return
        self._finish()

    def _finish(self) -> None:
        plan, client = self._plan, self._client
        end = plan.schedule.end
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
            client.add_end(plan.trailers or None)
            client.flush()
            client.finish()


def answer_error(client: Client, status: int, message: str, code: str, **more: object) -> None:
    """Answer with an error of our own, in the shape that SDKs show."""
    error = {"message": f"wiretape: {message}", "type": "wiretape_error", "code": code, **more}
    headers = [(b"x-wiretape-error", code.encode())]
    client.answer(status, msgspec.json.encode({"type": "error", "error": error}), "application/json", headers)


def answer_list(client: Client, request: Request, heads: Sequence[ExchangeHead]) -> None:
    """Answer with a list of the newest served exchanges: as JSON if that is accepted by name, else as text."""
    # A browser shows the list as one page.
    newest = heads[-1000:]
    accepted = b",".join(value for name, value in request.headers if name == b"accept")
    if b"json" in accepted:
        names = ("id", "method", "path", "model", "status", "outcome", "started_at")
        rows = [{name: getattr(head, name) for name in names} for head in newest]
        client.answer(200, msgspec.json.encode({"count": len(heads), "exchanges": rows}), "application/json")
        return
    lines = [f"wiretape serves {len(heads)} recorded exchanges; /@ID/… asks for one of them"]
    lines += [
        f"{head.id}  {head.status or '–':>3}  {head.outcome:<13}  {head.model or '–':<24}  {head.method} {head.path}"
        for head in newest
    ]
    client.answer(200, "".join(f"{safe(line)}\n" for line in lines).encode(), "text/plain; charset=utf-8")
