"""Pure: verdicts on a stream's timing, each with its evidence: stalls and bursts.

A *stall* is a silence above the threshold, as in the tape's flag: between two reads with output (`gap`), or before
the end of the stream, whatever ended it (`end`); or only on the way to the client, which was late with data that had
come in time (`delivery`). A *burst* is an answer that did not come as a stream: many chunks to a read (`buffered`), as
a compressor was not flushed for them (`compressed`), or one by one and yet all in a flash (`fake`). `attribution` finds
the cause of a silence; `wording` writes the text.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

from wiretape.recorder.decode.attribution import Attribution, ChunkTime, Unclear
from wiretape.recorder.decode.dialect import Chunk
from wiretape.recorder.decode.exchange import Standing
from wiretape.recorder.decode.silences import awaited, cause_of_end
from wiretape.recorder.decode.stalls import (
    AwaitedAnswer,
    Span,
    Thresholds,
    is_held_by_compression,
    output_gaps,
    without_tools,
)
from wiretape.viewer.record import fields, units
from wiretape.viewer.record.rows import TableRow

WORDS: Final = 80
"""Length of the text quoted before and after a stall, in characters."""

_CUT: Final = frozenset({"connect_error", "timeout", "client_closed", "truncated", "interrupted", "error_event"})


def _always(meaning: str) -> Any:
    return field(metadata={"doc": meaning})


def _maybe(meaning: str) -> Any:
    return field(default=None, metadata={"doc": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One verdict; the meaning of each field is its metadata. A field that does not apply, or is unknown, is None."""

    kind: Literal["stall", "burst"] = _always("stall or burst")
    form: Literal["gap", "end", "delivery", "buffered", "compressed", "fake"] = _always(
        "stall: gap (between reads with output), end (before the end of the stream), delivery (came in time, was "
        "handed on late); burst: buffered (many chunks to a read), compressed (the same by compression: the decoder "
        "got them at once), fake (one by one, but all in a flash)"
    )
    who: Literal["upstream", "relay", "client"] | None = _always(
        "who was slow: upstream (or the network before it), relay, client; null: unclear"
    )
    from_ns: int = _always("T0 to the beginning of the silence, or to the first chunk of the burst")
    lasted_ns: int = _always("duration of the silence, or of the burst")
    read: int | None = _maybe("the read that ended the silence, or began the burst")
    event: int | None = _maybe("the event of that read with the next output")
    chunk: int | None = _maybe("the chunk of that read with the next output")
    before: str | None = _maybe(f"the last text before the silence, at most {WORDS} characters")
    after: str | None = _maybe(f"the first text after it, at most {WORDS} characters")
    reads_meanwhile: int | None = _maybe("reads without output during the silence")
    comments_meanwhile: int | None = _maybe("comments during it, usually keep-alives")
    events_meanwhile: int | None = _maybe("events without output during it")
    pings_meanwhile: int | None = _maybe("of these events, pings")
    relay_ns: int | None = _maybe("longest time that the relay took for a read before or after it")
    client_ns: int | None = _maybe(
        "longest wait of one of them for the client, or the time that reading was paused for it; null: unclear"
    )
    output_chunks: int | None = _maybe("burst: its output chunks; gap: the output chunks in the read that ended it")
    output_reads: int | None = _maybe("burst: the reads that they came in")
    chunks_per_read: float | None = _maybe("burst: output chunks per read")
    ttft_ns: int | None = _maybe("burst: T0 to the first output chunk")
    latency_ns: int | None = _maybe("burst: T0 to the last output chunk")
    unclear: Literal["instants", "missing", "at_once", "handing_on"] | None = _maybe(
        "why the slow party is unclear: instants (timestamps are not of socket reads), missing (reads of that time are "
        "not on the tape), at_once (data that usually came piece by piece came together: it was held back on the way, "
        "or the relay did not run), handing_on (relay or client)"
    )
    until: Literal["cut", "error", "end"] | None = _maybe(
        "end: what ended it: cut (the stream was broken off), error (upstream reported one), end (its own end came)"
    )

    @property
    def is_quiet(self) -> bool:
        """True if nothing at all came during the silence."""
        return not (self.reads_meanwhile or self.comments_meanwhile or self.events_meanwhile)


_MEANINGS: Final = {one.name: one.metadata["doc"] for one in dataclasses.fields(Verdict)}


def schema() -> dict[str, str]:
    """Return the fields of a verdict's row, which are a contract, and their meanings."""
    return {fields.field_name(name): meaning for name, meaning in _MEANINGS.items()}


FIELDS: Final = tuple(schema())


def row(verdict: Verdict) -> TableRow:
    values = ((name, getattr(verdict, name)) for name in _MEANINGS)
    return {fields.field_name(name): units.ms(value) if name.endswith("_ns") else value for name, value in values}


def verdicts(timed: Attribution, outcome: Standing, limits: Thresholds) -> list[Verdict]:
    """Judge one exchange: its stalls in their order, then its burst.

    With the default limits, stalls of the forms `gap` and `end`, but for what a client did not take, and bursts are
    equal to the tape's flags. One wait for the client is one stall. Without the times of a body, there are none.
    """
    if not timed.exchange.is_timed:
        return []
    answers = awaited(timed.exchange, timed.decoded)
    gaps = list(_gaps(timed, answers, limits))
    late = (
        delivery for delivery in _deliveries(timed, limits.stall_ns) if not any(_is_same(delivery, gap) for gap in gaps)
    )
    stalls = [*gaps, *late, *_ends(timed, answers, outcome, limits)]
    return [*sorted(stalls, key=lambda verdict: verdict.from_ns), *_bursts(timed, limits)]


def longest_stall(judged: Sequence[Verdict]) -> Verdict | None:
    stalls = (verdict for verdict in judged if verdict.kind == "stall")
    return max(stalls, key=lambda verdict: verdict.lasted_ns, default=None)


def _gaps(timed: Attribution, answers: Sequence[AwaitedAnswer], limits: Thresholds) -> Iterator[Verdict]:
    stalls = {stall for answer in answers for stall in answer.stalls(limits)}
    tools = sorted(span for answer in answers for span in answer.tools)
    at = [_at(chunk) for chunk in timed.outputs]
    for nth, lasted in output_gaps(at, timed.places):
        silence = without_tools(at[nth - 1], at[nth], tools) if limits.is_stall(lasted) else None
        if silence in stalls and nth not in timed.later:
            chunk_before, chunk_after = timed.outputs[nth - 1 : nth + 1]
            start, end = timed.places[nth - 1 : nth + 1]
            cause = timed.silent(start, end)
            waits = timed.longest_steps(start, end)
            yield Verdict(
                kind="stall",
                form="gap",
                who=cause.who,
                from_ns=silence[0],
                lasted_ns=silence[1] - silence[0],
                output_chunks=timed.brought_by(end),
                unclear=cause.unclear,
                **_place(timed, chunk_before, chunk_after),
                **timed.items_between(start, end, chunk_before.end, chunk_after.end),
                **(waits | {"client_ns": cause.paused_ns} if cause.who == "client" else waits),
            )


def _deliveries(timed: Attribution, limit: int) -> Iterator[Verdict]:
    """Yield late deliveries: data handed on long after the data before it, though it had come in time."""
    relayed = timed.reads.relayed_ns
    for nth, (start, end) in enumerate(pairwise(timed.places)):
        began_ns, ended_ns = relayed[start], relayed[end]
        if (
            start == end
            or began_ns is None
            or ended_ns is None
            or ended_ns - began_ns <= limit
            or nth + 1 in timed.later
        ):
            continue
        chunk_before, chunk_after = timed.outputs[nth : nth + 2]
        if _at(chunk_after) - _at(chunk_before) <= limit:
            longest = max(timed.steps[start + 1 : end + 1], key=lambda step: step.ns or 0, default=None)
            who = None if longest is None or timed.lacks_reads(start, end) else longest.who
            yield Verdict(
                kind="stall",
                form="delivery",
                who=who,
                from_ns=began_ns,
                lasted_ns=ended_ns - began_ns,
                unclear=_doubt(timed, start, end) if who is None else None,
                **_place(timed, chunk_before, chunk_after),
                **timed.items_between(start, end, chunk_before.end, chunk_after.end),
                **timed.longest_steps(start + 1, end),
            )


def _doubt(timed: Attribution, start: int, end: int) -> Unclear:
    """Return the reason why the cause of a late delivery between two places is unclear."""
    if timed.exchange.coarse_clock:
        return "instants"
    return "missing" if timed.lacks_reads(start, end) else "handing_on"


def _is_same(late: Verdict, gap: Verdict) -> bool:
    """Return True if one wait for the client both delayed a delivery and, as reading was paused, made a gap."""
    overlap = late.from_ns < gap.from_ns + gap.lasted_ns and gap.from_ns < late.from_ns + late.lasted_ns
    return overlap and late.who == gap.who == "client"


def _ends(
    timed: Attribution, answers: Sequence[AwaitedAnswer], outcome: Standing, limits: Thresholds
) -> Iterator[Verdict]:
    """Yield the silences in which answers ended; a wait for a client that did not read replaces the last one."""
    end, stuck = timed.exchange.end_ns, timed.stuck
    is_cut = timed.stream and outcome in _CUT
    if is_cut and stuck is not None and end is not None and end - stuck.began_ns > limits.stall_ns:
        cause = cause_of_end(timed, (stuck.began_ns, end), limits)
        yield Verdict(
            kind="stall",
            form="end",
            who=cause.who,
            from_ns=stuck.began_ns,
            lasted_ns=end - stuck.began_ns,
            read=stuck.seq,
            unclear=_doubt(timed, 0, 0) if cause.who is None else None,
            until="cut",
        )
        answers = [answer for answer in answers if not answer.is_pending]
    for answer in answers:
        if answer.last is not None and answer.stalls(limits)[-1:] == [answer.last]:
            yield _silent_end(timed, answer, answer.last, outcome, limits)


def _silent_end(
    timed: Attribution, answer: AwaitedAnswer, silence: Span, outcome: Standing, limits: Thresholds
) -> Verdict:
    """Return the verdict on the silence in which an answer ended."""
    error = timed.error if outcome == "error_event" else None
    if error is not None and error.at_ns != silence[1]:
        error = None
    output = next((chunk for chunk in reversed(timed.outputs) if [chunk.at_ns] == [*answer.outputs[-1:]]), None)
    start, end = timed.places_around(silence)
    is_cut = answer.is_pending and outcome in _CUT
    cause = cause_of_end(timed, silence, limits) if is_cut else timed.cause(start, end, silence[1] - silence[0])
    waits = timed.longest_steps(max(start, 0), max(start, 0))
    return Verdict(
        kind="stall",
        form="end",
        who=cause.who,
        from_ns=silence[0],
        lasted_ns=silence[1] - silence[0],
        event=error.item if error else None,
        chunk=error.no if error else None,
        before=_words(timed.decoded.chunk(output.no), last=True) if output else None,
        unclear=cause.unclear,
        until="error" if error else "cut" if is_cut else "end",
        **timed.items_between(
            start, end, output.end if output else -1, error.end if error else len(timed.decoded.data) + 1
        ),
        **(waits | {"client_ns": cause.paused_ns} if cause.who == "client" and cause.paused_ns else waits),
    )


def _bursts(timed: Attribution, limits: Thresholds) -> Iterator[Verdict]:
    answering_ns = timed.decoded.answering_ns
    at = [at_ns for chunk in timed.outputs if (at_ns := answering_ns[chunk.item]) is not None]
    reads, count = len(timed.brought), len(timed.outputs)
    is_held = is_held_by_compression(count, reads, timed.decoded.flush_count)
    if not at or len(at) < count or not (is_held or limits.is_burst(at, timed.places)):
        return
    buffered: Literal["buffered", "fake"] = "buffered" if count - reads >= count / 2 else "fake"
    first_chunk = timed.outputs[0]
    yield Verdict(
        kind="burst",
        form="compressed" if is_held else buffered,
        who=None if timed.exchange.coarse_clock else "upstream",
        unclear="instants" if timed.exchange.coarse_clock else None,
        from_ns=_at(first_chunk),
        lasted_ns=at[-1] - at[0],
        read=first_chunk.read,
        event=first_chunk.item,
        chunk=first_chunk.no,
        output_chunks=count,
        output_reads=reads,
        chunks_per_read=count / reads,
        ttft_ns=at[0],
        latency_ns=at[-1],
    )


def _place(timed: Attribution, chunk_before: ChunkTime, chunk_after: ChunkTime) -> TableRow:
    chunk = timed.decoded.chunk
    words = {"before": _words(chunk(chunk_before.no), last=True), "after": _words(chunk(chunk_after.no))}
    return {"read": chunk_after.read, "event": chunk_after.item, "chunk": chunk_after.no, **words}


def _words(chunk: Chunk, *, last: bool = False) -> str | None:
    """Return the end of a chunk's text, or its beginning, from any of its fields; None if it has no text."""
    for piece in chunk.pieces:
        calls = "".join(tool.name + tool.arguments for tool in piece.tools)
        if text := piece.content or piece.reasoning or piece.refusal or calls:
            return text[-WORDS:] if last else text[:WORDS]
    return None


def _at(output: ChunkTime) -> int:
    assert output.at_ns is not None
    return output.at_ns
