"""Pure: the turns of a hosted session over all its exchanges: one sequence of streams, and the request of each turn.

The rules:

1. Events of several streams are one sequence, by arrival; `agent_turns` drops what came before. Where none was open
   before a stream, events may be missing: a turn without a number is over if the new stream begins with another one.
2. The events that a stream repeats by the server's ids name the request that began the turn. Of results of tools and
   confirmations that waited together, the last one did.
3. Otherwise it is the oldest request of the session, sent before the turn began, that no turn has.
4. A message that a running turn repeats behind the one that began it steers it: the oldest request that no turn has
   brought it, and begins none later.
5. Without a request on the tape, a turn starts with its first event.
"""

import copy
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from operator import attrgetter, itemgetter
from typing import Final

from wiretape.recorder.decode.agent_turns import AgentTurn, TurnMachine
from wiretape.recorder.decode.effects import Effect, SessionEvent
from wiretape.recorder.decode.session_requests import SessionRequest
from wiretape.recorder.decode.turns import TurnMeasures, turn_measures, union

_RESULTS: Final = ("tool_result", "confirmation")


@dataclass(frozen=True, slots=True, eq=False)
class SessionStream:
    """A stream of a session, of exchange `exchange_id`; `end_ns` is None while it is open.

    `events` are its events with their times and the numbers of their items; `thread` is that of a sub-agent, if the
    stream is its own, "" of the session's. All times of a session are on one axis.
    """

    exchange_id: str
    thread: str
    start_ns: int
    end_ns: int | None
    events: Sequence[tuple[int, int, SessionEvent]]


@dataclass(slots=True, eq=False)
class LinkedTurn:
    """A turn, and the stream that told its first event.

    `request` began it, and it took the messages of `steers`, too. `continued_in` are the further streams that told it;
    `missing` counts the times within it in which no stream was open, before the next one was.
    """

    turn: AgentTurn
    stream: SessionStream
    continued_in: list[str]
    missing: int
    request: SessionRequest | None = None
    steers: list[SessionRequest] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class LinkedSession:
    """The turns of a session in the order of their first events.

    `at_ns` and `sources` are the times of all marks, and the stream and the item of each. `results_at_ns` are the times
    of requests with results of tools or confirmations, `fault` is the last error outside of a turn.
    """

    turns: list[LinkedTurn] = field(default_factory=list)
    at_ns: list[int] = field(default_factory=list)
    sources: list[tuple[SessionStream, int]] = field(default_factory=list)
    results_at_ns: list[int] = field(default_factory=list)
    fault: tuple[int, Effect] | None = None


def linked(
    streams: Iterable[SessionStream], requests: Iterable[SessionRequest], lists: Iterable[Sequence[SessionEvent]] = ()
) -> LinkedSession:
    """Link the turns that streams of a session tell to its requests; `lists` have its history, each oldest first."""
    ordered = sorted(streams, key=attrgetter("start_ns"))
    requests = sorted(requests, key=attrgetter("at_ns"))
    reopened = {later for thread in {stream.thread for stream in ordered} for _, later in _breaks(ordered, {thread})}
    arrivals = merge(
        *(
            [(at_ns, number, item, event) for at_ns, item, event in stream.events]
            for number, stream in enumerate(ordered)
        ),
        key=itemgetter(0),
    )
    session, machine = LinkedSession(), TurnMachine()
    for mark, (at_ns, number, item, event) in enumerate(arrivals):
        session.at_ns.append(at_ns)
        session.sources.append((ordered[number], item))
        if ordered[number] in reopened:
            machine.part(event, number)
        machine.take(mark, event, number)
    for listed in lists:
        machine.fill(listed)
    for turn in machine.finish():
        stream, _ = session.sources[turn.first]
        tellers = [ordered[number] for number in turn.connections]
        from_ns, to_ns = session.at_ns[turn.first], session.at_ns[turn.last_event if turn.end is None else turn.end]
        breaks = _breaks(ordered, {source.thread for source in tellers})
        missing = sum(from_ns <= earlier_end_ns <= later.start_ns <= to_ns for earlier_end_ns, later in breaks)
        continued_in = [source.exchange_id for source in tellers if source is not stream]
        session.turns.append(LinkedTurn(turn, stream, continued_in, missing))
    session.results_at_ns = [request.at_ns for request in requests if request.has_result]
    _link(session, [request for request in requests if request.begun_by is not None])
    session.fault = machine.fault
    return session


def _breaks(ordered: Sequence[SessionStream], threads: set[str]) -> list[tuple[int, SessionStream]]:
    """Return the streams of threads that were opened when none was open, each with the end of the last one before."""
    breaks, until_ns = list[tuple[int, SessionStream]](), None
    for stream in ordered:
        if stream.thread not in threads:
            continue
        if until_ns is not None and stream.start_ns > until_ns:
            breaks.append((until_ns, stream))
        end_ns = sys.maxsize if stream.end_ns is None else stream.end_ns
        until_ns = end_ns if until_ns is None else max(until_ns, end_ns)
    return breaks


def _link(session: LinkedSession, free: list[SessionRequest]) -> None:
    """Link turns to the requests that can begin them, which come in the order of their times."""
    by_event = {id: request for request in free for id in request.event_ids}
    repeated = {
        by_event[ask.id] for linked_turn in session.turns for ask in linked_turn.turn.asks if ask.id in by_event
    }
    for linked_turn in session.turns:
        turn, begin_ns = linked_turn.turn, session.at_ns[linked_turn.turn.first]
        by_id = [by_event[ask.id] for ask in turn.asks if ask.id in by_event]
        sent = free[: bisect_right(free, begin_ns, key=attrgetter("at_ns"))]
        candidates = [request for request in sent if request in by_id]
        if not candidates and not turn.thread:  # requests to a sub-agent are known by their events alone
            candidates = [request for request in sent if request not in repeated]
        beginners = candidates[:1]
        if beginners and beginners[0].begun_by in _RESULTS:
            beginners = [request for request in candidates if request.begun_by in _RESULTS]
        messages = [ask for ask in turn.asks if ask.id not in by_event and ask.kind == "text"]
        used = dict.fromkeys([*beginners, *(request for request in by_id if request in free)])
        for ask in messages[1:]:
            messages_left = (request for request in free if request not in used and request not in repeated)
            if (steer := next(messages_left, None)) is not None and steer.at_ns <= session.at_ns[ask.mark]:
                used[steer] = None
        linked_turn.request = beginners[-1] if beginners else None
        linked_turn.steers = [request for request in used if request is not linked_turn.request]
        for request in used:
            free.remove(request)  # nearly always the first: a session has thousands


def tool_spans(linked_turn: LinkedTurn, session: LinkedSession) -> list[tuple[int, int]]:
    """Return the times in which a tool of the provider ran in a turn, or the turn waited for the client."""
    turn, at_ns = linked_turn.turn, session.at_ns
    spans = [(at_ns[from_mark], at_ns[to_mark]) for from_mark, to_mark in turn.tool_spans]
    for from_mark, to_mark in turn.waits:
        until_ns = at_ns[turn.last_event if to_mark is None else to_mark]
        answers = [result_ns for result_ns in session.results_at_ns if at_ns[from_mark] <= result_ns <= until_ns]
        spans.append((at_ns[from_mark], answers[-1] if answers else until_ns))
    return union(spans)


def told_by(linked_turn: LinkedTurn, session: LinkedSession, stream: SessionStream) -> AgentTurn | None:
    """Return a turn as one of its streams told it, by the numbers of its items; None if it told nothing."""

    def item(mark: int | None) -> int | None:
        source, number = (None, 0) if mark is None else session.sources[mark]
        return number if source is stream else None

    firsts = (mark for mark in linked_turn.turn.connections.values() if session.sources[mark][0] is stream)
    first = item(next(firsts, None))
    if first is None:
        return None
    turn = copy.copy(linked_turn.turn)
    turn.first = turn.start = first
    turn.end = item(turn.end)
    turn.outputs = [replace(output, mark=place) for output in turn.outputs if (place := item(output.mark)) is not None]
    tools = [(item(from_mark), item(to_mark)) for from_mark, to_mark in turn.tool_spans]
    turn.tool_spans = [(start, end) for start, end in tools if start is not None and end is not None]
    turn.waits = [(start, item(to_mark)) for from_mark, to_mark in turn.waits if (start := item(from_mark)) is not None]
    if linked_turn.stream is not stream:
        turn.requests, turn.is_begun_elsewhere = {}, True
    elif linked_turn.request is not None:
        turn.start_ns = linked_turn.request.at_ns - stream.start_ns
    return turn


def measures_of(linked_turn: LinkedTurn, session: LinkedSession) -> TurnMeasures:
    """Return the values of a turn, by the clock of the stream that told its first event."""
    turn, stream, request = linked_turn.turn, linked_turn.stream, linked_turn.request
    turn.start_ns = None if request is None else request.at_ns - stream.start_ns
    # Messages of other agents are no requests: only the stream has them.
    turn.begun_by = request.begun_by if request is not None else "agent" if turn.begun_by == "agent" else None
    marks = (turn.start, turn.first_output, turn.last_output, turn.end)
    times = {mark: session.at_ns[mark] - stream.start_ns for mark in marks if mark is not None}
    (measures,) = turn_measures([turn], times)
    spans = tool_spans(linked_turn, session)
    return replace(
        measures,
        begun_by_id=None if request is None else request.exchange_id,
        steered_by=" ".join(request.exchange_id for request in linked_turn.steers) or None,
        continued_in=" ".join(linked_turn.continued_in) or None,
        missing=linked_turn.missing,
        audio_bytes=None,
        tools_ns=sum(to_ns - from_ns for from_ns, to_ns in spans),
    )
