"""Pure: the silences of awaited streams by layer: bytes, events, output.

A layer is silent from one of its *marks* to the next, or from the last one to the end of waiting: those are its later
silences. The first one is from the request to the first mark, or to the end of waiting without any. Marks of `bytes`
are reads with bytes of the body, of `events` the events of any type (a comment is none), of `output` the output chunks.
Output has silences only where a dialect decodes a generation.

Which silences a limit would have cut is answered by the *rising* ones: those that are longer than all of upstream's
before them on their layer. `packed` keeps them for the tape, so that no body has to be read for it.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, cast

from wiretape.recorder.decode.attribution import UPSTREAM, Attribution, SilenceCause
from wiretape.recorder.decode.decoder import COMMENT, EVENT, PING, Decoded
from wiretape.recorder.decode.exchange import Exchange, Outcome, Reads
from wiretape.recorder.decode.silences import SilentEnd, cause_of_end, streams
from wiretape.recorder.decode.stalls import (
    DEFAULT,
    ENDINGS,
    LATER,
    OWNERS,
    AwaitedAnswer,
    Ending,
    Silence,
    Span,
    StreamSilences,
    Who,
)
from wiretape.recorder.decode.turns import union

_MOST_MARKS: Final = 4_000_000
"""Limit of the marks of bytes and events looked at for one exchange, some 0.3 s of CPU: those of later streams over a
WebSocket are unknown then."""


def silences(exchange: Exchange, reads: Reads, decoded: Decoded, body: bytes | None = None) -> list[StreamSilences]:
    """Return the silences of the streams that an exchange has waited for; `body` is that of the request."""
    attribution = Attribution(exchange, reads, decoded)
    read_at_ns = list(reads.at_ns)
    if reads and min(reads.size) == 0:
        read_at_ns = [at_ns for at_ns, size in zip(reads.at_ns, reads.size, strict=True) if size]
    events_at_ns = decoded.at_ns
    if decoded.sent or decoded.kinds.count(EVENT) < len(decoded.kinds):
        events_at_ns = [
            at_ns
            for item, (kind, at_ns) in enumerate(zip(decoded.kinds, decoded.at_ns, strict=True))
            if kind == EVENT and item not in decoded.sent
        ]
    if None in events_at_ns:
        events_at_ns = [at_ns for at_ns in events_at_ns if at_ns is not None]
    event_at_ns = cast("Sequence[int]", events_at_ns)
    silences, room = list[StreamSilences](), _MOST_MARKS
    for stream in streams(exchange, decoded, body):
        of_bytes, of_events = _between(read_at_ns, stream), _between(event_at_ns, stream)
        room -= len(of_bytes) + len(of_events)
        if room < 0:
            of_bytes = of_events = ()
        one = _of_stream(stream, attribution, of_bytes, of_events)
        if room < 0:
            one.first, one.later, one.first_event_ns = (None, None, one.first[2]), ((), (), one.later[2]), None
        silences.append(one)
    return silences


def _of_stream(
    stream: AwaitedAnswer, attribution: Attribution, of_bytes: Sequence[int], of_events: Sequence[int]
) -> StreamSilences:
    # Nearly always each read brought one event.
    is_alike = of_events == of_bytes
    rising = _rising(_spans(of_bytes, stream), stream, attribution)
    later = [rising, rising if is_alike else _rising(_spans(of_events, stream), stream, attribution), []]
    first = _first(of_bytes, stream, attribution)
    firsts = [first, first if is_alike else _first(of_events, stream, attribution), None]
    if stream.is_decoded:
        later[2], firsts[2] = _rising(stream.later(), stream, attribution), _first(stream.outputs, stream, attribution)
    if "decode_limit" in attribution.decoded.flags:  # events may have come behind those that were decoded
        later[1:] = [], []
    return StreamSilences(stream, firsts, later, of_events[0] - stream.start_ns if of_events else None)


def _between(marks: Sequence[int], stream: AwaitedAnswer) -> Sequence[int]:
    """Return the marks from the request of a stream to the end of waiting."""
    start_ns, end_ns = stream.start_ns, stream.end_ns
    if not marks or (marks[0] >= start_ns and (end_ns is None or marks[-1] <= end_ns)):
        return marks
    # Responses over a WebSocket overlap, by the thousand if a peer likes: no mark is looked at once for each.
    return marks[bisect_left(marks, start_ns) : len(marks) if end_ns is None else bisect_right(marks, end_ns)]


def _spans(marks: Sequence[int], stream: AwaitedAnswer) -> Iterable[Span]:
    return zip(marks, marks[1:] if stream.end_ns is None else [*marks[1:], stream.end_ns], strict=False)


def _first(marks: Sequence[int], stream: AwaitedAnswer, attribution: Attribution) -> Silence | None:
    to_ns = marks[0] if marks else stream.end_ns
    if to_ns is None:
        return None
    is_clear = attribution.is_clear and marks  # no output before it tells how often a read brings several
    cause = UPSTREAM if is_clear else _cause((stream.start_ns, to_ns), stream, attribution)
    return Silence(stream.start_ns, to_ns - stream.start_ns, cause.who)


def _rising(spans: Iterable[Span], stream: AwaitedAnswer, attribution: Attribution) -> list[Silence]:
    """Return the silences that are longer than all of upstream's, and of their own owner's, before them."""
    rising = list[Silence]()
    longest_ns: dict[Who | None, int] = {}
    upstream_ns = -1
    for from_ns, to_ns in spans:
        if to_ns - from_ns <= upstream_ns:
            continue
        lasted_ns = to_ns - from_ns
        cause = _cause((from_ns, to_ns), stream, attribution)
        if cause.unclear == "missing" or lasted_ns <= longest_ns.get(cause.who, -1):
            continue
        longest_ns[cause.who] = lasted_ns
        if cause.who == "upstream":
            upstream_ns = lasted_ns
        rising.append(Silence(from_ns, lasted_ns, cause.who))
    return rising


def _cause(silence: Span, stream: AwaitedAnswer, attribution: Attribution) -> SilenceCause:
    if stream.is_pending and silence[1] == stream.end_ns:
        return cause_of_end(attribution, silence, DEFAULT)
    return attribution.cause_between(*silence)


def ping_gaps(decoded: Decoded, answers: Iterable[AwaitedAnswer]) -> bytes:
    """Return the int64 of `measures.ping_gaps`; pings and comments of one read count once."""
    kinds = decoded.kinds
    items = (
        [item for item, kind in enumerate(kinds) if kind in (COMMENT, PING)] if kinds.count(EVENT) < len(kinds) else []
    )
    # Beside the pings that dialects know, gateways send objects of no API, such as {}.
    items += [
        item
        for run in decoded.runs
        if run.chunk.ping or not (run.chunk.api or run.chunk.output or run.chunk.fault)
        for item in range(run.item, run.item + len(run))
    ]
    times = sorted({at_ns for item in items if (at_ns := decoded.at_ns[item]) is not None})
    if len(times) < 2:  # an import without times has none
        return b""
    outputs = sorted(at_ns for answer in answers for at_ns in answer.outputs)
    gaps = (
        to_ns - from_ns
        for start_ns, end_ns in union(
            (one.start_ns, times[-1] if one.end_ns is None else one.end_ns) for one in answers
        )
        for from_ns, to_ns in pairwise(times[bisect_left(times, start_ns) : bisect_right(times, end_ns)])
        if bisect_right(outputs, from_ns) == bisect_left(outputs, to_ns)
    )
    return array("q", gaps).tobytes()


def packed(silences: Iterable[StreamSilences], ending: Ending) -> bytes:
    """Return the records of `measures.silences`; `ending` is that of streams that have none of their own.

    A record is three int64, little-endian: a tag, the beginning and the length of a time, in ns. The records of a
    stream follow each other, and each stream begins with its header:

    - header: `ENDINGS.index(ending) << 4`, its request since the exchange's T0, and the time from there to the end of
      waiting, -1 if that is unknown;
    - silence: `OWNERS.index(who) << 4 | layers`, its beginning since the request of its stream, its length. `layers`
      are the bits of all layers on which it is one, and `LATER` unless it is the first one there.

    In each stream a layer has its first silence, unless that is unknown (as on a layer that nobody can decode), and its
    rising later ones in their order: at least one if the layer has a mark and an end.
    """
    numbers = array("q")
    for one in silences:
        start_ns, end_ns = one.stream.start_ns, one.stream.end_ns
        numbers.extend(
            (ENDINGS.index(one.stream.ending or ending) << 4, start_ns, -1 if end_ns is None else end_ns - start_ns)
        )
        layers = dict[tuple[int, Silence], int]()  # most silences are those of several layers
        for bit, first, later in zip((1, 2, 4), one.first, one.later, strict=True):
            if first is not None:
                layers[0, first] = layers.get((0, first), 0) | bit
            for silence in later:
                layers[LATER, silence] = layers.get((LATER, silence), 0) | bit
        for phase, silence in sorted(layers, key=_beginning):
            from_ns, lasted_ns, who = silence
            numbers.extend((OWNERS.index(who) << 4 | phase | layers[phase, silence], from_ns - start_ns, lasted_ns))
    return numbers.tobytes()


def _beginning(silence: tuple[int, Silence]) -> tuple[int, int]:
    return silence[1].from_ns, silence[1].lasted_ns


def ending(outcome: Outcome, end: SilentEnd | None) -> Ending:
    """Return the ending of an exchange; `end` is the stall at its end, None without one."""
    if outcome in ("complete", "timeout"):
        return "good" if outcome == "complete" else "limit"
    if end is not None and end.who not in ("client", "relay"):
        return "dead"
    return "left" if outcome in ("client_closed", "interrupted") else "dead"
