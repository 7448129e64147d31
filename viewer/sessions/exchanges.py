"""Pure: the exchanges of a session, from their facts to the spans of its time account."""

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from wiretape.recorder.decode.exchange import FAILURES, Operation, Outcome
from wiretape.recorder.decode.operation import is_covered
from wiretape.recorder.decode.stalls import DEFAULT, Thresholds, stalls_among
from wiretape.recorder.decode.stalls import Span as Silence
from wiretape.recorder.facts import ClockName
from wiretape.viewer.sessions.account import OWN_PARTS, Account, Span, account, by_turn
from wiretape.viewer.sessions.axis import IMPORTED, placed

_FAILURES: Final = frozenset(FAILURES)

_FAILED_TURNS: Final = ("error", "truncated")

Turn = Sequence[Any]
"""A response over a WebSocket, as `turn_spans` of the measures has it."""


class SessionExchange(NamedTuple):
    """An exchange of a session; the names are those of the tape, times are in ns since T0.

    `continued` is the number of its predecessor. `request` identifies its request among those of the session.
    `follows_answer`: the request holds an answer of a model, or names one. `gaps` are all gaps between its outputs,
    int64, and needed only where the longest is a stall; `last_silence_ns` is the silence in which it ended, and the
    provider ran tools in the `tool_spans`. Of an open exchange, `duration_ns` is the time until now.
    """

    no: int
    continued: int | None
    started_at: str
    boot: str | None
    boot_ns: int | None
    clock: ClockName | None
    outcome: Outcome | None
    operation: Operation | None
    ttft_ns: int | None
    latency_ns: int | None
    duration_ns: int | None
    end_ns: int | None
    gaps: bytes | None = None
    turn_spans: Sequence[Turn] | None = None
    calls_tool: bool | None = False
    answers_tools: bool | None = None
    follows_answer: bool = False
    request: str | None = None
    last_silence_ns: int | None = None
    tool_spans: Sequence[Sequence[int]] | None = None
    given_up: bool = False

    @property
    def is_imported(self) -> bool:
        """True if its times are another program's."""
        return self.clock in IMPORTED

    @property
    def failed(self) -> bool:
        return self.outcome in _FAILURES


class SessionSpans(NamedTuple):
    """The spans of a session; `clock_step`: the wall clock was set back between two of its exchanges.

    As many exchanges as `silent` have none: streams of hosted sessions in which no turn began.
    """

    spans: list[Span]
    clock_step: bool
    silent: int = 0


def spans(exchanges: Sequence[SessionExchange], limits: Thresholds = DEFAULT) -> SessionSpans:
    """Return the spans of a session's exchanges, which come in the order of their numbers, in that of their starts."""
    starts, is_stepped = placed(exchanges)
    silent = 0
    spans_made, by_request = list[Span](), dict[str, SessionExchange]()
    for start_ns, exchange in sorted(zip(starts, exchanges, strict=True), key=itemgetter(0)):
        earlier = None if exchange.request is None else by_request.get(exchange.request)
        # Behind an attempt that succeeded, the same request is a new one.
        repeated = earlier if earlier is not None and (earlier.failed or earlier.given_up) else None
        continues = exchange.continued if repeated is None else repeated.no
        if exchange.request is not None:
            by_request[exchange.request] = exchange
        if exchange.operation == "agent_session" and not exchange.turn_spans and not exchange.failed:
            silent += 1
        elif exchange.turn_spans:
            spans_made += _turns(exchange, start_ns, continues, limits)
        else:
            spans_made.append(_span(exchange, start_ns, continues, limits)._replace(repeats=repeated is not None))
    return SessionSpans(spans_made, is_stepped, silent)


def account_of(exchanges: Sequence[SessionExchange], limits: Thresholds = DEFAULT) -> Account:
    """Return the account of a session's exchanges, which come in the order of their numbers."""
    session_spans, is_stepped, silent = spans(exchanges, limits)
    return account(session_spans, limits, clock_step=is_stepped, silent=silent)


def own_time(exchange: SessionExchange, limits: Thresholds = DEFAULT) -> dict[str, int]:
    """Return the time of an exchange by part, in ns, as if no other were open; of a WebSocket, that of its turns.

    Empty if no time within its body is known.
    """
    if exchange.clock == "none":
        return {}
    turns = [*by_turn(spans([exchange], limits).spans, limits)]
    return {part: sum(turn.parts[part] for turn in turns) for part in OWN_PARTS}


def before_each(exchanges: Sequence[SessionExchange]) -> dict[int, tuple[str, int]]:
    """Return the part and length of the time before exchanges in which none of their session was open, if any."""
    pauses: dict[int, tuple[str, int]] = {}
    for turn in by_turn(spans(exchanges).spans):
        pauses.setdefault(turn.span.no, (turn.pause, turn.pause_ns))
    return {no: pause for no, pause in pauses.items() if pause[1]}


def _span(exchange: SessionExchange, start_ns: int, continues: int | None, limits: Thresholds) -> Span:
    took_ns, first_ns, last_ns = exchange.duration_ns, exchange.ttft_ns, exchange.latency_ns
    if took_ns is None:
        took_ns = exchange.end_ns if exchange.end_ns is not None else last_ns or 0
    # Without output its time is that of waiting, or of failing.
    silences = () if first_ns is None else _stalls(exchange, limits)
    stalls = [(start_ns + from_ns, start_ns + to_ns) for from_ns, to_ns in silences]
    is_generation, outcome = is_covered(exchange.operation), exchange.outcome
    return Span(
        exchange.no,
        start_ns,
        start_ns + took_ns,
        None if first_ns is None else start_ns + first_ns,
        None if last_ns is None else start_ns + last_ns,
        stalls,
        is_generation,
        outcome == "open",
        outcome in _FAILURES,
        outcome == "client_closed",
        None if exchange.calls_tool is None else bool(exchange.calls_tool),
        exchange.answers_tools,
        continues,
        is_generation and continues is None and not exchange.follows_answer,
        given_up=bool(exchange.given_up),
        is_timed=exchange.clock != "none",
    )


def _stalls(exchange: SessionExchange, limits: Thresholds) -> Iterator[Silence]:
    gaps = _unpacked(exchange.gaps or b"")
    return stalls_among(gaps, exchange.ttft_ns, exchange.latency_ns, exchange.last_silence_ns, _tools(exchange), limits)


def stalls_of(exchange: SessionExchange) -> list[Silence]:
    """Return the stalls of an exchange, in ns since T0; over a WebSocket, those of its turns that had output."""
    if exchange.turn_spans:
        return [stall for turn in _turns(exchange, 0, None, DEFAULT) for stall in turn.stalls]
    return [*_stalls(exchange, DEFAULT)]


def _tools(exchange: SessionExchange) -> list[Silence]:
    return [(from_ns, to_ns) for from_ns, to_ns in exchange.tool_spans or ()]


def _turns(exchange: SessionExchange, start_ns: int, continues: int | None, limits: Thresholds) -> Iterator[Span]:
    """Yield the responses over a WebSocket, whose last one ends as the exchange does, or the turns of a session."""
    gaps, tools = iter(_unpacked(exchange.gaps or b"")), _tools(exchange)
    turns = exchange.turn_spans or ()
    for number, (asked_ns, first_ns, last_ns, end_ns, outputs, calls, answers, outcome) in enumerate(turns):
        is_last = number == len(turns) - 1
        # The surest first: a response whose end nobody knows ends with its last output.
        known_ns = (end_ns, exchange.end_ns if is_last else None, last_ns, asked_ns)
        ends = [at_ns for at_ns in known_ns if at_ns is not None]
        turn_gaps = list(islice(gaps, max((outputs or 0) - 1, 0)))
        is_lasting = end_ns is not None or (is_last and exchange.last_silence_ns is not None)
        silence_ns = ends[0] - last_ns if is_lasting and last_ns is not None else None
        stalls = stalls_among(turn_gaps, first_ns, last_ns, silence_ns, tools, limits)
        yield Span(
            exchange.no,
            start_ns + (asked_ns or 0),
            start_ns + ends[0],
            None if first_ns is None else start_ns + first_ns,
            None if last_ns is None else start_ns + last_ns,
            () if first_ns is None else [(start_ns + from_ns, start_ns + to_ns) for from_ns, to_ns in stalls],
            is_open=exchange.outcome == "open" and is_last and end_ns is None,
            failed=outcome in _FAILED_TURNS or (outcome is None and is_last and exchange.failed),
            client_closed=end_ns is None and is_last and exchange.outcome == "client_closed",
            calls_tool=bool(calls),
            answers_tool=bool(answers),
            continues=exchange.no if number else continues,
            begins=not number and continues is None and not exchange.follows_answer,
            given_up=is_last and bool(exchange.given_up),
            is_timed=exchange.clock != "none",
            tools=[(start_ns + from_ns, start_ns + to_ns) for from_ns, to_ns in tools] if outcome else (),
            outcome=outcome,
        )


def _unpacked(gaps: bytes) -> Sequence[int]:
    return struct.unpack(f"<{len(gaps) // 8}q", gaps)
