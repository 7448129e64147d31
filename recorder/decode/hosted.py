"""Pure: the exchanges of one hosted session, from their bytes to its turns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, NamedTuple

from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode import encoding, session_lists, session_streams
from wiretape.recorder.decode.agent_turns import thread_at
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.recorder.decode.linking import LinkedSession, SessionStream, linked, measures_of, told_by, tool_spans
from wiretape.recorder.decode.session_requests import SessionRequest, session_request

_MOST_LISTED: Final = 20
"""Limit of the lists that are read with a stream, and of the streams with a list: a client may ask every second."""
_STEP_NS: Final = 60_000_000_000
"""Difference of the distances by two clocks at which they are not of the same boot of a machine."""


@dataclass(frozen=True, slots=True, eq=False)
class SessionExchange:
    """An exchange of a session as it is on the tape."""

    id: str
    exchange: Exchange
    reads: Reads
    body: bytes
    request: RecordedRequest


class SessionMember(NamedTuple):
    """An exchange of a session by its number: its id, and wall times in ns.

    A stream, of a sub-agent's `thread` or the session's, `is_whole` if it told the end of its last turn; `taken` are
    the ids of requests that its turns took. A stream `lacks` what a list may have.
    """

    no: int
    id: str
    start_ns: int
    end_ns: int
    is_stream: bool
    is_whole: bool = False
    taken: frozenset[str] = frozenset()
    thread: str = ""
    lacks: bool = False
    is_list: bool = False


def related(member: SessionMember, others: Iterable[SessionMember]) -> list[int]:
    """Return the numbers of the exchanges with which the turns of a stream, or those after a late request, are linked.

    A session may have thousands of streams, one a turn: only those are read again that were open together, or went on
    with a turn, or lack what a list may have. The result is empty if no stream ended after the request.
    """
    streams = [other for other in others if other.is_stream]
    if not member.is_stream and not any(_may_change(stream, member) for stream in streams):  # as of nearly all
        return []
    groups, until_ns = list[list[SessionMember]](), -1
    ends, unfinished = dict[str, int](), set[str]()  # the last of each thread in the group
    for stream in sorted([*streams, member] if member.is_stream else streams, key=attrgetter("start_ns")):
        if not groups or (stream.start_ns > until_ns and not unfinished):
            groups.append([])
            ends.clear()
        groups[-1].append(stream)
        if stream.end_ns >= ends.get(stream.thread, stream.end_ns):
            ends[stream.thread] = stream.end_ns
            (unfinished.discard if stream.is_whole else unfinished.add)(stream.thread)
        until_ns = max(until_ns, stream.end_ns)
    changed = [
        group
        for group in groups
        if (member in group if member.is_stream else any(_may_change(stream, member) for stream in group))
    ]
    related = [stream for group in changed[-_MOST_LISTED if member.is_list else None :] for stream in group]
    numbers = {stream.no for stream in related}
    taken = frozenset().union(*(stream.taken for stream in streams if stream.no not in numbers))
    requests = [other for other in others if not (other.is_stream or other.is_list) and other.id not in taken]
    lists = [other for other in others if other.is_list and related and other.end_ns >= related[0].start_ns]
    together = (*related, *requests, *lists[-_MOST_LISTED:])
    return [other.no for other in together if other is not member] if related else []


def _may_change(stream: SessionMember, request: SessionMember) -> bool:
    """Return True if a request, or a list, may change the turns of a stream that was settled before it."""
    return stream.end_ns >= request.start_ns or (request.is_list and (stream.lacks or not stream.is_whole))


def is_stream(exchange: Exchange) -> bool:
    """Return True if an exchange of a session is a stream of its events."""
    succeeded = exchange.status is not None and exchange.status < 300
    return succeeded and (exchange.content_type or "").startswith("text/event-stream")


def has_turns(exchange: Exchange) -> bool:
    """Return True if an answer tells turns of its session: as a stream, or in a list."""
    return is_stream(exchange) or session_lists.is_list(exchange)


def decoded_streams(exchanges: Sequence[SessionExchange]) -> dict[str, Decoded]:
    """Return the streams among the exchanges of a session, decoded, by their ids; their turns are linked."""
    streams, requests, decoded_by_id = list[SessionStream](), list[SessionRequest](), dict[str, Decoded]()
    pages = list[tuple[str, bytes]]()
    for start_ns, member in zip(_starts([member.exchange for member in exchanges]), exchanges, strict=True):
        exchange = member.exchange
        if is_stream(exchange):
            decoded = decoded_by_id[member.id] = decode(exchange, member.reads, member.body)
            end_ns = None if exchange.end_ns is None else start_ns + exchange.end_ns
            events = [
                (start_ns + at_ns, run.item, run.chunk.event)
                for run in decoded.runs
                if run.chunk.event is not None and (at_ns := decoded.at_ns[run.item]) is not None
            ]
            streams.append(SessionStream(member.id, thread_at(exchange.path), start_ns, end_ns, events))
        is_list = session_lists.is_list(exchange)
        is_read = exchange.method == "POST" or is_list
        answer = encoding.uncoded(exchange.headers.response, member.body) if is_read else b""
        pages += [(exchange.path, answer)] if is_list else []
        request = session_request(exchange, member.id, start_ns, member.request.plain, answer)
        requests += [] if request is None else [request]
    session = linked(streams, requests, session_lists.listed_events(pages))
    for stream in streams:
        _link(decoded_by_id[stream.exchange_id], stream, session)
    return decoded_by_id


def _starts(exchanges: Sequence[Exchange]) -> list[int]:
    """Return the T0s of exchanges, in ns since the first one's: by the boot clock, or the wall clock between boots."""
    first, at_ns = exchanges[0], list[int]()
    first_wall_ns = wall_ns(first.started_at) or 0
    for exchange in exchanges:
        by_wall_ns = (wall_ns(exchange.started_at) or first_wall_ns) - first_wall_ns
        is_known = first.boot_ns is not None and exchange.boot_ns is not None
        by_boot_ns = (exchange.boot_ns or 0) - (first.boot_ns or 0) if is_known else by_wall_ns
        at_ns.append(by_boot_ns if abs(by_boot_ns - by_wall_ns) < _STEP_NS else by_wall_ns)
    return at_ns


def _link(decoded: Decoded, stream: SessionStream, session: LinkedSession) -> None:
    """Set the turns of a stream, and the output in its chunks, to those of its session."""
    pairs = [(turn, measures_of(turn, session)) for turn in session.turns if turn.stream is stream]
    pairs.sort(key=lambda pair: pair[1].started_at_ns or 0)
    measures_by_turn = {turn: replace(measures, turn=number) for number, (turn, measures) in enumerate(pairs, 1)}
    local_turns = [(turn, local) for turn in session.turns if (local := told_by(turn, session, stream)) is not None]
    thread_turns = [(turn, local) for turn, local in local_turns if local.thread == stream.thread]
    fault = session.fault
    if fault is not None:
        source, item = session.sources[fault[0]]
        fault = (item, fault[1]) if source is stream else None
    session_streams.set_chunks(decoded.runs, [local for _, local in thread_turns], fault)
    decoded.drafts = [local for _, local in local_turns]
    decoded.turn_measures = [*measures_by_turn.values()]
    decoded.tools = [
        (from_ns - stream.start_ns, to_ns - stream.start_ns)
        for turn, _ in thread_turns
        if turn.stream is stream
        for from_ns, to_ns in tool_spans(turn, session)
    ]
    decoded.turns = [
        # A turn that began elsewhere has its times there.
        replace(session_streams.response(local), measures=measures_by_turn.get(turn), generates=turn.stream is stream)
        for turn, local in thread_turns
    ]
