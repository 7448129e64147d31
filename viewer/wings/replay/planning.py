"""Finds the answer to a request, and schedules its writes.

This takes milliseconds for an exchange that is not cached: do it in another thread than the `Pacer`'s.
"""

import contextlib
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, Protocol

import msgspec

from wiretape.recorder.decode import encoding, uncoding
from wiretape.recorder.decode.exchange import RecordedExchange, reset_number
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.recorder.relay import guard
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.tape.masking import SECRETS, Rules
from wiretape.viewer.record.rows import Headers
from wiretape.viewer.source.tape.replayed import ExchangeHead
from wiretape.viewer.wings.replay import faults, schedule, turns
from wiretape.viewer.wings.replay.faults import Fault
from wiretape.viewer.wings.replay.matching import Library, Miss, Mode, ReplayRequest, read_body
from wiretape.viewer.wings.replay.schedule import Schedule
from wiretape.viewer.wings.replay.turns import Turns

CACHED_BYTES = 64 << 20
"""Bodies that are kept ready to be served."""
_READ_BYTES = 200
"""Approximate size in memory of a read's times."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_DROPPED: Final = frozenset({b"content-length", b"set-cookie", b"set-cookie2"})
_NEGOTIATED: Final = frozenset({
    b"sec-websocket-accept", b"sec-websocket-extensions", b"sec-websocket-protocol",
})  # fmt: skip

Rechunk = Literal["recorded", "event"] | int
Record = Literal["none", "once", "new", "all"]
"""Requests that upstream answers, and a recorder records.

`none`; `once`: those without a recording, if the tape has none at the start; `new`: those without a recording; `all`.
"""
RECORD: Final[tuple[Record, ...]] = ("none", "once", "new", "all")


def read_rechunk(text: str) -> Rechunk:
    """Parse a chunking: `recorded`, `event`, `byte` or a number of bytes. Raise ValueError for anything else."""
    match "1" if text == "byte" else text:
        case "recorded" | "event" as named:
            return named
        case size if size.isdecimal() and 0 < int(size) <= 1 << 30:
            return int(size)
    raise ValueError(f"{text!r} is not recorded, event, byte or a number of bytes")


class Recordings(Protocol):
    """A source of exchanges."""

    def newer(self) -> Sequence[ExchangeHead]:
        """Return the exchanges that were not returned before, oldest first."""

    def request_bodies(self, heads: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
        """Yield the body of each request without its content coding; None if not all of it is there."""

    def answer(self, head: ExchangeHead) -> RecordedExchange:
        """Return the answer to a request. Raises `TapeError`, and `NotFound` if it was deleted meanwhile."""

    def close(self) -> None:
        """Read no more."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Options for serving recordings; `rechunk` may be a number of bytes, `speed` infinite.

    Requests are compared without what the rules of `redaction` replace; new recordings in text are written so.
    """

    mode: Mode = "request"
    ignored: Sequence[str] = ()
    speed: float = 1.0
    cap_ns: int | None = None
    rechunk: Rechunk = "recorded"
    faults: Sequence[Fault] = field(default=())
    seed: int = 0
    record: Record = "none"
    redaction: Rules = SECRETS


@dataclass(frozen=True, slots=True)
class ToRecord:
    """A request that upstream is to answer; `replaces`: the recordings whose place the new one takes.

    `key` is equal for requests that the same recording would answer; None: there is none that would.
    """

    miss: Miss
    key: Hashable | None = None
    replaces: Sequence[ExchangeHead] = ()


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """An answer to be sent; `faults` are those that were applied to it, `missing` bytes are not on the tape.

    It does not have the place of the faults that are `unplaced`.

    `asked_ns` is when the request had been sent as a whole. Over HTTP/2, `trailers` follow the body, or `reset_code`
    is the error by which upstream reset the stream.
    """

    head: ExchangeHead
    status: int | None
    headers: list[tuple[bytes, bytes]]
    chunked: bool
    closes: bool
    schedule: Schedule
    faults: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    missing: int = 0
    asked_ns: int = 0
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    reset_code: int | None = None


@dataclass(frozen=True, slots=True)
class Greeting:
    """The beginning of a WebSocket: its time, extension (as recorded) and headers.

    `speaks_first`: upstream did not wait for a message.
    """

    at_ns: int
    extension: str | None
    headers: list[tuple[bytes, bytes]]
    speaks_first: bool


@dataclass(frozen=True, slots=True)
class Talk:
    """A recorded WebSocket to be played; `faults` were applied to it, and it does not have the place of others."""

    head: ExchangeHead
    turns: Turns
    faults: tuple[str, ...]
    unplaced: tuple[str, ...]


class Planner:
    """Plans answers from a source. It is used by one thread, the one that opened the source."""

    def __init__(self, source: Recordings, options: ServingOptions) -> None:
        self._source, self._options = source, options
        self._library = Library(
            options.mode,
            source.request_bodies,
            options.ignored,
            options.seed,
            needs_answer=options.record != "none",
            redaction=options.redaction,
        )
        self._sockets = Library(
            options.mode,
            self._first_messages,
            options.ignored,
            options.seed,
            kind="WebSocket",
            redaction=options.redaction,
        )
        self._cached: OrderedDict[tuple[int, bool], tuple[RecordedExchange, AnswerPlan]] = OrderedDict()
        """Answers by number, with (True) and without their content coding."""
        self._held = 0
        self._served: dict[int, int] = {}
        self.refresh()
        heads = self.heads
        self._cold = iter([*self._library.heads])
        self._before = heads[-1].no if heads else 0
        is_new = not any(head.is_answered for head in heads)
        self._adds = options.record in ("new", "all") or (options.record == "once" and is_new)

    def refresh(self) -> bool:
        """Add new recordings; return True if there were any."""
        newer = self._source.newer()
        self._library.add([head for head in newer if head.framing != "websocket"])
        self._sockets.add([self._asked_for(head) for head in newer if head.framing == "websocket"])
        return bool(newer)

    @property
    def heads(self) -> Sequence[ExchangeHead]:
        """The served exchanges, oldest first."""
        return sorted([*self._library.heads, *self._sockets.heads], key=lambda head: head.no)

    def warm(self) -> bool:
        """Prepare one more answer before its request; return True if there may be more to prepare."""
        head = next(self._cold, None)
        if head is None or self._held > CACHED_BYTES // 2:
            return False
        with contextlib.suppress(WiretapeError):  # reported to the request
            self._base(head)
        return True

    def recorded(self, id: str) -> None:
        """Note that an exchange is being recorded to answer a request."""
        self._library.apart.add(id)

    def plan(self, asked: ReplayRequest) -> AnswerPlan | Miss | ToRecord:
        """Return the plan for answering a request."""
        if self._options.record == "all" and asked.id is None:
            return ToRecord(Miss("all requests go to the API"), None, self._library.before(asked, self._before))
        found = self._library.find(asked)
        if isinstance(found, Miss) and self.refresh():
            found = self._library.find(asked)
        if isinstance(found, Miss):
            return self._missed(asked, found)
        try:
            answer, plan = self._accepted(found, asked.headers)
        except NotFound as error:
            return Miss(str(error), found.id)
        turn = self._served[found.no] = self._served.get(found.no, 0) + 1
        struck = faults.striking(self._options.faults, self._options.seed, found.id, turn)
        return _with_faults(plan, answer, struck) if struck else plan

    def _missed(self, asked: ReplayRequest, miss: Miss) -> Miss | ToRecord:
        if asked.id is not None or self._options.mode == "id" or self._options.record == "none":
            return miss
        if self._adds or miss.is_unanswered:
            return ToRecord(miss, self._library.key(asked))
        return replace(miss, message=f"{miss.message} (to record missing requests: --record new)")

    def _base(self, head: ExchangeHead) -> tuple[RecordedExchange, AnswerPlan]:
        """Return an exchange's answer, and the plan of serving it without faults."""
        return self._planned(head, (head.no, True), lambda: self._source.answer(head))

    def _accepted(
        self, head: ExchangeHead, headers: Sequence[tuple[bytes, bytes]]
    ) -> tuple[RecordedExchange, AnswerPlan]:
        """Return the same, without the answer's content coding if a client with these headers does not take it."""
        answer, plan = self._base(head)
        codings = encoding.codings_of(encoding.coding_of(answer.exchange.headers.response))
        if all(guard.accepts(headers, coding.removeprefix("x-")) for coding in codings):
            return answer, plan
        return self._planned(head, (head.no, False), lambda: _uncoded(answer))

    def _planned(
        self, head: ExchangeHead, key: tuple[int, bool], read: Callable[[], RecordedExchange]
    ) -> tuple[RecordedExchange, AnswerPlan]:
        if key in self._cached:
            self._cached.move_to_end(key)
            return self._cached[key]
        answer = read()
        made = answer, _planned(head, answer, self._options)
        self._cached[key] = made
        self._held += _weight(answer)
        while self._held > CACHED_BYTES and len(self._cached) > 1:
            _, (oldest, _) = self._cached.popitem(last=False)
            self._held -= _weight(oldest)
        return made

    # WebSockets

    def _first_messages(self, heads: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
        for head in heads:
            try:
                yield turns.first(self._source.answer(head))
            except NotFound:  # its bytes are not here, or it was deleted meanwhile: it answers nothing
                yield None

    def _asked_for(self, head: ExchangeHead) -> ExchangeHead:
        """Return a WebSocket with the model of its first message, if it is matched by model."""
        if self._options.mode != "model":
            return head
        return head._replace(model=read_body(next(self._first_messages([head])) or b"").model or head.model)

    def greet(
        self, asked: ReplayRequest, offered: str, protocols: Sequence[str]
    ) -> Greeting | AnswerPlan | Miss | ToRecord | Refusal:
        """Return the greeting, or the error, that answers a request for a WebSocket before its first message.

        With answers recorded over HTTP only, a client falls back to HTTP for a 426; so it does if all requests are
        recorded again, as it is unknown yet which recording the new one replaces.
        """
        record = self._options.record
        if record == "all" and asked.id is None:
            return Refusal(426, "all requests are recorded again, over HTTP only: send the request over HTTP")
        if record == "once" and self._adds and asked.id is None:
            return ToRecord(Miss("the tape is new"))
        near = self._sockets.near(asked)
        if isinstance(near, Miss) and self.refresh():
            near = self._sockets.near(asked)
        if isinstance(near, Miss):
            is_http = not isinstance(self._library.near(replace(asked, method="POST")), Miss)
            if is_http:
                return Refusal(426, f"{near.message}; send the request over HTTP")
            missed = self._missed(asked, near)
            return ToRecord(near) if isinstance(missed, ToRecord) else missed
        head = next((one for one in near if one.has_bytes), near[0])
        try:
            answer = self._source.answer(head)
        except NotFound as error:
            return Miss(str(error), head.id)
        turn = self._served[-head.no] = self._served.get(-head.no, 0) + 1
        struck = faults.striking(self._options.faults, self._options.seed, head.id, turn)
        if (status := next((fault for fault in struck if fault.kind == "status"), None)) is not None:
            return _failure(_planned(head, answer, self._options), status)
        extension = answer.exchange.extensions if turns.agrees(answer.exchange.extensions, offered) else None
        recorded = answer.exchange.headers.response
        headers = [pair for pair in passed(_bytes(recorded)) if pair[0].lower() not in _NEGOTIATED]
        headers += [(b"sec-websocket-extensions", extension.encode("latin-1"))] if extension else []
        headers += [
            (b"sec-websocket-protocol", value.encode())
            for name, value in recorded
            if name == "sec-websocket-protocol" and value in protocols
        ]
        made = turns.of(answer, as_recorded=True)
        waits = schedule.paced(replace(made.schedules[0], head_ns=answer.exchange.headers_ns or 0), self._options.speed)
        return Greeting(waits.head_ns or 0, extension, headers, bool(made.schedules[0].body or not made.asked))

    def talk(self, asked: ReplayRequest, extension: str | None, *, is_met: bool) -> Talk | Miss:
        """Return the plan of a WebSocket for a request; its body is the first message unless `is_met`."""
        found = self._sockets.meet(asked) if is_met else self._sockets.find(asked)
        if isinstance(found, Miss):
            return found
        options = self._options
        try:
            answer = self._source.answer(found)
        except NotFound as error:
            return Miss(str(error), found.id)
        made = turns.of(answer, as_recorded=answer.exchange.extensions in (extension, None))
        made = turns.paced(turns.rechunked(made, options.rechunk), options.speed, options.cap_ns)
        turn = self._served[found.no] = self._served.get(found.no, 0) + 1
        struck = faults.striking(options.faults, options.seed, found.id, turn)
        made, done = turns.with_faults(made, struck)
        return Talk(found, made, done, faults.unplaced(struck, done))

    def confirm(self, talk: Talk, number: int, message: bytes) -> Miss | None:
        """Return the difference of a client's message from the recorded one of that number, or None."""
        recorded = talk.turns.asked[number] if number < len(talk.turns.asked) else None
        what = f"message {number} of the client"
        if recorded is None:
            return Miss(f"{what} is one more than were recorded of {talk.head.id}", talk.head.id)
        return self._sockets.differing(talk.head, what, recorded, message)

    def close(self) -> None:
        self._source.close()


def _uncoded(answer: RecordedExchange) -> RecordedExchange:
    """Return an answer without its content coding, at the same reads; verbatim if it cannot be decoded."""
    body = uncoding.uncoded(uncoding.Body(answer.exchange.headers.response, answer.reads, answer.body))
    if body is None:
        return answer
    headers = answer.exchange.headers._replace(response=tuple((name, value) for name, value in body.headers))
    return RecordedExchange(replace(answer.exchange, content_encoding=None, headers=headers), body.reads, body.data)


def _weight(answer: RecordedExchange) -> int:
    return len(answer.body) + len(answer.reads) * _READ_BYTES


def _planned(head: ExchangeHead, answer: RecordedExchange, options: ServingOptions) -> AnswerPlan:
    facts = answer.exchange
    made = schedule.recorded(answer)
    if options.rechunk == "event":
        made = schedule.rechunked(made, schedule.event_ends(answer))
    elif options.rechunk != "recorded":
        made = schedule.rechunked(made, schedule.in_pieces(made.body, options.rechunk))
    made = schedule.paced(made, options.speed, options.cap_ns)
    recorded = _bytes(answer.exchange.headers.response)
    chunked, length = _framing(answer, made)
    headers = passed(recorded)
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    headers.append((b"x-wiretape-exchange", head.id.encode()))
    closes = facts.framing == "close" or b"close" in guard.named_by_connection(recorded)
    asked_ns = schedule.wait(facts.sent_ns or 0, options.speed, options.cap_ns)
    return AnswerPlan(
        head,
        facts.status,
        headers,
        chunked,
        closes,
        made,
        missing=facts.gap_bytes,
        asked_ns=asked_ns,
        trailers=passed(_bytes(answer.exchange.headers.trailers)),
        reset_code=None if facts.reset_code is None else reset_number(facts.reset_code),
    )


def _bytes(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers]


def passed(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the recorded headers that are served: end-to-end and well-formed, no cookies, none of wiretape's own."""
    return [
        (name, value)
        for name, value in guard.end_to_end(headers, without=_DROPPED)
        if _NAME.fullmatch(name) and _VALUE.fullmatch(value) and not name.lower().startswith(b"x-wiretape-")
    ]


def _framing(answer: RecordedExchange, made: Schedule) -> tuple[bool, int | None]:
    """Return a pair: True if an answer is sent in HTTP chunks, and the length for its head, or None.

    The length of a body that ends too early is larger than the body, so that the client notices.
    """
    facts = answer.exchange
    stated = dict(reversed([(name, value) for name, value in answer.exchange.headers.response])).get(
        "content-length", ""
    )
    known = int(stated) if stated.isascii() and stated.isdecimal() and len(stated) < 16 else None
    match facts.framing:
        case "none":
            return False, known if facts.method == "HEAD" else None
        case "close":
            return False, None
        case "chunked":
            return True, None
        case "length" if made.end != "end":
            return False, max(known or 0, len(made.body) + 1)
        case "length":
            return False, len(made.body)
    return (True, None) if known is None else (False, max(known, len(made.body)))


def _with_faults(plan: AnswerPlan, answer: RecordedExchange, struck: Sequence[Fault]) -> AnswerPlan:
    status = next((fault for fault in struck if fault.kind == "status"), None)
    if status is not None:
        return _failure(plan, status)
    made, applied = faults.applied(plan.schedule, struck, partial(schedule.events, answer))
    done = tuple(fault.text for fault in applied)
    return replace(plan, schedule=made, faults=done, unplaced=faults.unplaced(struck, done))


def _failure(plan: AnswerPlan, fault: Fault) -> AnswerPlan:
    """Return an error that replaces the recorded answer, at once."""
    status = int(fault.value)
    error = {"type": "wiretape_fault", "code": "fault", "message": f"wiretape: the fault {fault.text} was asked for"}
    body = msgspec.json.encode({"type": "error", "error": error})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    made = Schedule(body, 0, [0], [len(body)], 0, "end", joins_head=True, joins_end=True)
    return replace(
        plan, status=status, headers=headers, chunked=False, closes=False, schedule=made, faults=(fault.text,)
    )
