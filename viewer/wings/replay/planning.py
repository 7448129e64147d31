"""Finds the answer to a request, and schedules its writes.

This takes milliseconds for an exchange that is not cached: do it in another thread than the `Pacer`'s. The order of
changes to a recorded answer: decoded, if the client does not accept its content coding, or a form needs the text; its
forms (`forms`), but for the content coding and the chunks, which are those of each write; paced; faults last, so that
their positions and delays are what the user named.
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
from wiretape.recorder.decode.decoder import framing_of
from wiretape.recorder.decode.exchange import RecordedExchange, reset_number
from wiretape.recorder.decode.operation import generates
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import NotFound, WiretapeError
from wiretape.recorder.relay import guard
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.tape.masking import SECRETS, Rules
from wiretape.viewer.record.rows import Headers
from wiretape.viewer.source.replayed import ExchangeHead
from wiretape.viewer.wings.replay import faults, forms, schedule, sessions, turns
from wiretape.viewer.wings.replay.comparing import read_body
from wiretape.viewer.wings.replay.faults import Fault
from wiretape.viewer.wings.replay.forms import AS_RECORDED, Choice
from wiretape.viewer.wings.replay.matching import Library, Match, Miss, Mode, ReplayRequest
from wiretape.viewer.wings.replay.positions import HEAD, Places
from wiretape.viewer.wings.replay.schedule import Schedule
from wiretape.viewer.wings.replay.sessions import TurnWait
from wiretape.viewer.wings.replay.streams import SILENCE_NS
from wiretape.viewer.wings.replay.turns import Turns

CACHED_BYTES = 64 << 20
"""Limit of bodies that are kept ready to be served."""

# Names and values of headers by RFC 9110 (5.1 and 5.5): others of a tape, which may be anybody's, could end the head.
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_NEGOTIATED: Final = frozenset({
    b"sec-websocket-accept", b"sec-websocket-extensions", b"sec-websocket-protocol",
})  # fmt: skip

Record = Literal["none", "once", "new", "all"]
"""Requests that upstream answers, and a recorder records.

`none`; `once`: those without a recording, if the tape has none at the start; `new`: those without a recording; `all`.
"""
RECORD: Final[tuple[Record, ...]] = ("none", "once", "new", "all")


class Recordings(Protocol):
    """A source of exchanges."""

    def newer(self) -> Sequence[ExchangeHead]:
        """Return the exchanges that were not returned before, oldest first."""

    def request_bodies(self, heads: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
        """Yield the body of each request without its content coding; None if not all of it is there."""

    def answer(self, head: ExchangeHead) -> RecordedExchange:
        """Return the answer to a request. Raises `TapeError`, and `NotFound` if it was deleted meanwhile."""

    def turns(self, head: ExchangeHead) -> Sequence[JsonObject]:
        """Return the turns of a hosted session that began on a stream. Raises `TapeError`."""

    def close(self) -> None:
        """Read no more."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Options for serving recordings; `forms` are as `forms.parse` returns them, `speed` may be infinite.

    Requests are compared without what the rules of `redaction` replace; new recordings in text are written so. With
    `strict`, all else of a body is compared. With a `token`, answers can be controlled; a hold lasts `hold_seconds` at
    most (0: without a limit).
    """

    mode: Mode = "request"
    ignored: Sequence[str] = ()
    speed: float = 1.0
    cap_ns: int | None = None
    forms: Sequence[str] = ()
    faults: Sequence[Fault] = field(default=())
    seed: int = 0
    record: Record = "none"
    redaction: Rules = SECRETS
    strict: bool = False
    token: str = ""
    hold_seconds: float = 60.0


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

    It does not have the place of the faults that are `unplaced`; `holds` are those that hold it at one of its `places`.
    `at_speed` returns the schedule at another speed.

    `asked_ns` is when the request had been sent as a whole. Over HTTP/2, `trailers` follow the body, or `reset_code`
    is the error by which upstream reset the stream.
    """

    head: ExchangeHead | None
    """None: an error that needs no recording."""
    status: int | None
    headers: list[tuple[bytes, bytes]]
    chunked: bool
    closes: bool
    schedule: Schedule
    places: Places
    at_speed: Callable[[float], Schedule]
    faults: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    holds: tuple[Fault, ...] = ()
    missing: int = 0
    asked_ns: int = 0
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    reset_code: int | None = None
    match: Match | None = None
    """Why it is the answer to its request; None if it was made before that."""
    choice: Choice = AS_RECORDED
    between: frozenset[int] = frozenset()
    waits: Sequence[TurnWait] = ()


@dataclass(frozen=True, slots=True)
class Greeting:
    """The beginning of a WebSocket: its time, extension (as recorded) and headers.

    `speaks_first`: upstream did not wait for a message. `holds` are faults that hold it before its head.
    """

    at_ns: int
    extension: str | None
    headers: list[tuple[bytes, bytes]]
    speaks_first: bool
    holds: tuple[Fault, ...] = ()
    choice: Choice = AS_RECORDED


@dataclass(frozen=True, slots=True)
class Talk:
    """A recorded WebSocket to be played; the fields are those of an `AnswerPlan`."""

    match: Match
    turns: Turns
    places: Places
    at_speed: Callable[[float], Turns]
    faults: tuple[str, ...]
    unplaced: tuple[str, ...]
    holds: tuple[Fault, ...]

    @property
    def head(self) -> ExchangeHead:
        return self.match.head


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
            strict=options.strict,
        )
        self._sockets = Library(
            options.mode,
            self._first_messages,
            options.ignored,
            options.seed,
            kind="WebSocket",
            redaction=options.redaction,
            strict=options.strict,
        )
        self._cached: OrderedDict[tuple[int, bool, Choice], tuple[RecordedExchange, AnswerPlan]] = OrderedDict()
        """Answers by number, with (True) and without their content coding, in their forms."""
        self._cached_bytes = 0
        self._served: dict[int, int] = {}
        self.refresh()
        heads = self.heads
        self._cold = iter([*self._library.heads])  # a copy: recordings are added meanwhile
        self._last_at_start = heads[-1].no if heads else 0
        is_new = not any(head.is_answered for head in heads)
        # `once` is decided now: what this run records makes the tape no older one.
        self._adds = options.record in ("new", "all") or (options.record == "once" and is_new)

    def refresh(self) -> bool:
        """Add new recordings; return True if there were any."""
        newer = self._source.newer()
        self._library.add([head for head in newer if head.framing != "websocket"])
        sockets = [head for head in newer if head.framing == "websocket"]
        if self._options.mode == "model":  # it is in the first message: the path of a WebSocket has none
            bodies = map(read_body, (message or b"" for message in self._first_messages(sockets)))
            sockets = [
                head._replace(model=body.model or head.model) for head, body in zip(sockets, bodies, strict=True)
            ]
        self._sockets.add(sockets)
        return bool(newer)

    @property
    def heads(self) -> Sequence[ExchangeHead]:
        return sorted([*self._library.heads, *self._sockets.heads], key=lambda head: head.no)

    def warm(self) -> bool:
        """Prepare one more answer before its request; return True if there may be more to prepare."""
        head = next(self._cold, None)
        if head is None or self._cached_bytes > CACHED_BYTES // 2:  # the other half is for what is requested
            return False
        with contextlib.suppress(WiretapeError):  # reported to the request
            self._plain_plan(head)
        return True

    def recorded(self, id: str) -> None:
        """Note that an exchange is being recorded to answer a request."""
        self._library.answered_earlier.add(id)

    def set_speed(self, speed: float) -> None:
        """Play answers at another speed from now on."""
        self._options = replace(self._options, speed=speed)
        self._cached.clear()
        self._cached_bytes = 0

    def plan(self, request: ReplayRequest, *, with_places: bool = False) -> AnswerPlan | Miss | ToRecord:
        """Return the plan of the answer to a request, with its faults, or the reason that no recording answers it.

        `with_places`: the places of events are to be known, too, which takes milliseconds.
        """
        if self._options.record == "all" and request.id is None:
            older = self._library.replaced(request, self._last_at_start)
            return ToRecord(Miss("all requests go to the API"), None, older)
        match = self._library.find(request)
        if isinstance(match, Miss) and self.refresh():  # it may have been recorded meanwhile
            match = self._library.find(request)
        if isinstance(match, Miss):
            return self._missed(request, match)
        try:
            plan = replace(self._formed(match.head, request), match=match)
        except NotFound as error:
            return Miss(str(error), match.head.id)
        turn = self._served[match.head.no] = self._served.get(match.head.no, 0) + 1
        struck = faults.striking(self._options.faults, self._options.seed, match.head.id, turn)
        holds = tuple(fault for fault in struck if fault.kind == "hold")
        if with_places or holds:
            plan.places.event(HEAD)
        if not struck:
            return plan
        status = next((fault for fault in struck if fault.kind == "status"), None)
        if status is not None:  # instead of all other faults but those that hold it
            return replace(_failure(plan, status), holds=holds)
        at_speed = plan.at_speed
        writes, applied = faults.applied(plan.schedule, struck, plan.places)
        names = tuple(fault.text for fault in applied)
        return replace(
            plan,
            status=plan.status if writes.head_ns is not None else None,
            schedule=writes,
            at_speed=lambda speed: faults.applied(at_speed(speed), struck, plan.places)[0],
            faults=names,
            unplaced=faults.unplaced(struck, names),
            holds=holds,
        )

    def _missed(self, request: ReplayRequest, miss: Miss) -> Miss | ToRecord:
        names_model = request.method == "POST" and b'"model"' in request.body
        is_generation = request.method == "POST" and generates(
            request.target.decode("latin-1"), names_model=names_model
        )
        miss = replace(miss, is_generation=is_generation)
        if request.id is not None or self._options.mode == "id" or self._options.record == "none":
            return miss
        if self._adds or miss.is_unanswered:
            return ToRecord(miss, self._library.key(request))
        return replace(miss, message=f"{miss.message} (to record missing requests: --record new)")

    def _plain_plan(self, head: ExchangeHead) -> tuple[RecordedExchange, AnswerPlan]:
        return self._planned(head, AS_RECORDED, lambda: self._source.answer(head))

    def _formed(self, head: ExchangeHead, request: ReplayRequest) -> AnswerPlan:
        """Return the plan of an answer in the forms that are wanted, of those that the answer and the client take.

        Without its content coding if the client does not take it, or if a form is one of the text.
        """
        answer, plan = self._plain_plan(head)
        headers = request.headers
        codings = encoding.codings_of(encoding.coding_of(answer.exchange.headers.response))
        is_accepted = all(guard.accepts(headers, coding.removeprefix("x-")) for coding in codings)
        wanted = self._options.forms if request.forms is None else request.forms
        if is_accepted and not wanted:
            return plan
        plain, plain_plan = self._planned(head, AS_RECORDED, lambda: _uncoded(answer), is_coded=False)
        if not wanted:
            return plain_plan
        is_coded = not encoding.is_identity(encoding.coding_of(plain.exchange.headers.response))
        framing = None if is_coded else framing_of(plain.exchange, plain.body)
        accepts_any = all(name.lower() != b"accept-encoding" for name, _ in headers)
        choice = forms.chosen(
            wanted, framing, plain.body, request.version, lambda coding: accepts_any or guard.accepts(headers, coding)
        )
        # Chunks and HTTP/2 carry any bytes: all other forms are those of the text.
        is_text = any(forms.form_of(name).kind != "wire" for name in choice.names)
        base = plain if is_text or not is_accepted else answer
        return self._planned(head, choice, lambda: base, is_coded=base is answer)[1]

    def _planned(
        self, head: ExchangeHead, choice: Choice, read_answer: Callable[[], RecordedExchange], *, is_coded: bool = True
    ) -> tuple[RecordedExchange, AnswerPlan]:
        key = head.no, is_coded, choice
        if key in self._cached:
            self._cached.move_to_end(key)
            return self._cached[key]
        answer = read_answer()
        plan = _planned(head, answer, self._options, choice)
        if head.operation == "agent_session":
            waits = sessions.waits(answer, self._source.turns(head), plan.places.spans)
            pace = self._options.speed, self._options.cap_ns
            waits = [replace(one, delay_ns=schedule.wait(one.delay_ns, *pace)) for one in waits]
            plan = replace(plan, waits=waits)
        planned = answer, plan
        self._cached[key] = planned
        self._cached_bytes += _memory_of(*planned)
        while self._cached_bytes > CACHED_BYTES and len(self._cached) > 1:
            _, oldest = self._cached.popitem(last=False)
            self._cached_bytes -= _memory_of(*oldest)
        return planned

    # WebSockets

    def _first_messages(self, heads: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
        for head in heads:
            try:
                yield turns.first_message(self._source.answer(head))
            except NotFound:  # its bytes are not here, or it was deleted meanwhile: it answers nothing
                yield None

    def greet(
        self, request: ReplayRequest, offered: str, protocols: Sequence[str]
    ) -> Greeting | AnswerPlan | Miss | ToRecord | Refusal:
        """Return the greeting, or the error, that answers a request for a WebSocket before its first message.

        With answers recorded over HTTP only, a client falls back to HTTP for a 426; so it does if all requests are
        recorded again, as it is unknown yet which recording the new one replaces.
        """
        record = self._options.record
        if record == "all" and request.id is None:
            return Refusal(426, "all requests are recorded again, over HTTP only: send the request over HTTP")
        if record == "once" and self._adds and request.id is None:
            return ToRecord(Miss("the tape is new"))
        near = self._sockets.near(request)
        if isinstance(near, Miss) and self.refresh():
            near = self._sockets.near(request)
        if isinstance(near, Miss):
            is_http = not isinstance(self._library.near(replace(request, method="POST")), Miss)
            if is_http:
                return Refusal(426, f"{near.message}; send the request over HTTP")
            missed = self._missed(request, near)
            return ToRecord(near) if isinstance(missed, ToRecord) else missed
        # Which recording it is, the first message decides; until then any with its bytes greets.
        head = next((head for head in near if head.has_bytes), near[0])
        try:
            answer = self._source.answer(head)
        except NotFound as error:
            return Miss(str(error), head.id)
        # Greetings are counted apart from the WebSocket's turns, which follow: a fault of either has its own chance.
        turn = self._served[-head.no] = self._served.get(-head.no, 0) + 1
        struck = faults.striking(self._options.faults, self._options.seed, head.id, turn)
        if (status := next((fault for fault in struck if fault.kind == "status"), None)) is not None:
            return _failure(_planned(head, answer, self._options, AS_RECORDED), status)
        extension = answer.exchange.extensions if turns.agrees(answer.exchange.extensions, offered) else None
        recorded = answer.exchange.headers.response
        headers = [pair for pair in served_headers(_bytes(recorded)) if pair[0].lower() not in _NEGOTIATED]
        headers += [(b"sec-websocket-extensions", extension.encode("latin-1"))] if extension else []
        headers += [
            (b"sec-websocket-protocol", value.encode())
            for name, value in recorded
            if name == "sec-websocket-protocol" and value in protocols
        ]
        recorded_turns = turns.of(answer, as_recorded=True)
        greeting = replace(recorded_turns.schedules[0], head_ns=answer.exchange.headers_ns or 0)
        waits = schedule.paced(greeting, self._options.speed)
        speaks_first = bool(greeting.body or not recorded_turns.client_messages)
        holds = tuple(fault for fault in struck if fault.kind == "hold" and _is_at_head(fault))
        choice = self._talk_choice(request)
        headers += form_header(choice)
        return Greeting(waits.head_ns or 0, extension, headers, speaks_first, holds, choice)

    def talk(self, request: ReplayRequest, extension: str | None, *, speaks_first: bool) -> Talk | Miss:
        """Return the plan of a WebSocket for a request; its body is the first message unless `speaks_first`."""
        match = self._sockets.meet(request) if speaks_first else self._sockets.find(request)
        if isinstance(match, Miss):
            return match
        options = self._options
        try:
            answer = self._source.answer(match.head)
        except NotFound as error:
            return Miss(str(error), match.head.id)
        played = turns.of(answer, as_recorded=answer.exchange.extensions in (extension, None))
        choice = self._talk_choice(request)
        unpaced = played if choice.cut is None else turns.rechunked(played, choice.cut)
        places = turns.places(unpaced)
        turn = self._served[match.head.no] = self._served.get(match.head.no, 0) + 1
        struck = faults.striking(options.faults, options.seed, match.head.id, turn)

        def at_speed(speed: float) -> tuple[Turns, tuple[str, ...]]:
            return turns.with_faults(turns.paced(unpaced, speed, options.cap_ns), struck, places)

        played, applied = at_speed(options.speed)
        return Talk(
            match,
            played,
            places,
            lambda speed: at_speed(speed)[0],
            applied,
            faults.unplaced(struck, applied),
            tuple(fault for fault in struck if fault.kind == "hold" and not _is_at_head(fault)),
        )

    def _talk_choice(self, request: ReplayRequest) -> Choice:
        wanted = self._options.forms if request.forms is None else request.forms
        return forms.chosen(wanted, "websocket", b"", request.version, lambda _: False)

    def confirm(self, talk: Talk, number: int, message: bytes) -> Miss | None:
        """Return the difference of a client's message from the recorded one of that number, or None."""
        recorded = talk.turns.client_messages[number] if number < len(talk.turns.client_messages) else None
        label = f"message {number} of the client"
        if recorded is None:
            return Miss(f"{label} is one more than were recorded of {talk.head.id}", talk.head.id)
        return self._sockets.differing(talk.head, label, recorded, message)

    def close(self) -> None:
        self._source.close()


def _is_at_head(fault: Fault) -> bool:
    return fault.position is not None and fault.position.text == "head"


def _uncoded(answer: RecordedExchange) -> RecordedExchange:
    """Return an answer without its content coding, at the same reads; verbatim if it cannot be decoded."""
    body = uncoding.uncoded(uncoding.Body(answer.exchange.headers.response, answer.reads, answer.body))
    if body is None:
        return answer
    headers = answer.exchange.headers._replace(response=tuple((name, value) for name, value in body.headers))
    return RecordedExchange(replace(answer.exchange, content_encoding=None, headers=headers), body.reads, body.data)


def _memory_of(answer: RecordedExchange, plan: AnswerPlan) -> int:
    # A read's or a write's time, offset and data, as Python's objects.
    return len(answer.body) + len(plan.schedule.body) + (len(answer.reads) + len(plan.schedule.ends)) * 200


def _planned(head: ExchangeHead, answer: RecordedExchange, options: ServingOptions, choice: Choice) -> AnswerPlan:
    facts = answer.exchange
    writes, between = schedule.recorded(answer), frozenset[int]()
    silence, read_spans = schedule.silence(writes, SILENCE_NS), partial(schedule.events, answer)
    places = Places(len(writes.body), read_spans, silence)
    if any(forms.form_of(name).kind in ("cut", "text") for name in choice.names):
        is_coded = not encoding.is_identity(facts.coding)
        framing = None if is_coded else framing_of(facts, answer.body)
        writes, spans, between = forms.shaped(writes, places.spans, framing, choice)
        places = Places(len(writes.body), [*spans].copy, schedule.silence(writes, SILENCE_NS))
    at_speed = partial(schedule.paced, writes, cap_ns=options.cap_ns)
    writes = at_speed(options.speed)
    recorded = _bytes(answer.exchange.headers.response)
    chunked, length = _framing(answer, writes, choice)
    headers = served_headers(recorded)
    if choice.coding:
        headers.append((b"content-encoding", choice.coding.encode()))
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    headers.append((b"x-wiretape-exchange", head.id.encode()))
    headers += form_header(choice)
    closes = facts.framing == "close" or b"close" in guard.named_by_connection(recorded)
    asked_ns = schedule.wait(facts.sent_ns or 0, options.speed, options.cap_ns)
    return AnswerPlan(
        head,
        facts.status,
        headers,
        chunked,
        closes,
        writes,
        places,
        at_speed,
        missing=facts.gap_bytes,
        asked_ns=asked_ns,
        trailers=served_headers(_bytes(answer.exchange.headers.trailers)),
        reset_code=None if facts.reset_code is None else reset_number(facts.reset_code),
        choice=choice,
        between=between,
    )


def form_header(choice: Choice) -> list[tuple[bytes, bytes]]:
    return [(b"x-wiretape-form", ",".join(choice.names).encode())] if choice.names else []


def _bytes(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers]


def served_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the recorded headers that are served: end-to-end and well-formed, no cookies, none of wiretape's own."""
    # The length is that of the writes planned; the cookies are redacted on the tape.
    dropped = frozenset({b"content-length", b"set-cookie", b"set-cookie2"})
    return [
        (name, value)
        for name, value in guard.end_to_end(headers, without=dropped)
        if _NAME.fullmatch(name) and _VALUE.fullmatch(value) and not name.lower().startswith(b"x-wiretape-")
    ]


def _framing(answer: RecordedExchange, writes: Schedule, choice: Choice) -> tuple[bool, int | None]:
    """Return a pair: True if an answer is sent in HTTP chunks, and the length for its head, or None.

    The length of a body that ends too early is larger than the body, so that the client notices. One that is coded as
    it is written, or interrupted by pings, has no length yet.
    """
    facts = answer.exchange
    if facts.framing != "none" and "chunk-extensions" in choice.names:
        return True, None
    if facts.framing not in ("none", "close") and (choice.coding or forms.ping_ns(choice.names) is not None):
        return True, None
    header = dict(reversed([(name, value) for name, value in answer.exchange.headers.response])).get(
        "content-length", ""
    )
    stated_length = int(header) if header.isascii() and header.isdecimal() and len(header) < 16 else None
    match facts.framing:
        case "none":
            return False, stated_length if facts.method == "HEAD" else None
        case "close":
            return False, None
        case "chunked":
            return True, None
        case "length" if writes.end != "end":
            return False, max(stated_length or 0, len(writes.body) + 1)
        case "length":
            return False, len(writes.body)
    return (True, None) if stated_length is None else (False, max(stated_length, len(writes.body)))


def _failure(plan: AnswerPlan, fault: Fault) -> AnswerPlan:
    """Return an error that replaces the recorded answer, at once."""
    return replace(failure(int(fault.value), fault.text), head=plan.head, match=plan.match)


def failure(
    status: int, text: str, headers: Sequence[tuple[bytes, bytes]] = (), body: bytes | None = None
) -> AnswerPlan:
    """Return an error that needs no recording; `text` is the fault, which the body names unless one is given."""
    if body is None:
        message = f"wiretape: the fault {text} was asked for"
        error = {"type": "wiretape_fault", "code": "fault", "message": message}
        body = msgspec.json.encode({"type": "error", "error": error})
    if not any(name == b"content-type" for name, _ in headers):
        headers = [(b"content-type", b"application/json"), *headers]
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    writes = Schedule(body, 0, [0], [len(body)], 0, "end", joins_head=True, joins_end=True)
    places = Places(len(body), list, None)
    return AnswerPlan(None, status, headers, False, False, writes, places, lambda _: writes, (text,))
