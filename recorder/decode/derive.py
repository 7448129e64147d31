"""Everything that is derived from the facts of one exchange: its items and chunks in time, and its measures.

A pure function of what the tape holds, so that a tape can be derived again at any time with the same result. `decode`
puts the layers below together (content coding, `sse`, `chunks`) and gives each item the instant of the read that holds
its last byte; `derive` adds assembly, timing and judgement. No body, however broken or hostile, is an error: what
cannot be read is left out and flagged. Reading and writing the tape is left to `store`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from recorder.decode import chunks, encoding, sse
from recorder.decode.assembly import Answer, assemble
from recorder.decode.chat import Chunk, Fault
from recorder.decode.encoding import Cleaner
from recorder.decode.metrics import DECODER_VERSION, Measures, Timeline, measured
from recorder.decode.outcome import Evidence, Exchange, Read, TimedChunk, TimedItem, judge, transport_flags
from recorder.decode.templates import Reader

__all__ = ["DECODER_VERSION", "Decoded", "Measures", "TimedChunk", "TimedItem", "decode", "derive"]

MAX_ITEMS: Final = 1_000_000
"""Events, comments and chunks decoded of one body: more than 64 MiB of a real stream holds."""

_PIECE = 1 << 18

_STREAM_TYPES = frozenset({"text/event-stream", "application/vnd.amazon.eventstream"})
_LINE_TYPES = frozenset(
    {
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/stream+json",
    }
)
_LOOKS_LIKE_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data[:\r\n]|event:|id:|retry:|:)")
_LOOKS_LIKE_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_ERROR_LINE = re.compile(rb"(?:^|(?<=[\r\n]))error:([^\r\n]*)")
_STREAM_ONLY = frozenset({"no_usage", "object_mismatch", "id_changed", "hidden_tokens"})
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Decoded:
    """What a body says, in time. `items` are its pieces, whatever they are, and `chunks` the payloads in them.

    `dialect` is the one that claimed the payload, "unknown" if none did, None if there is none. `done_ns` is the
    instant of the last `[DONE]`; `data` the body without its content coding; `whole` whether all of it was decoded.
    `read_ends` is where in `data` each read ends, `read_at_ns` when it came, None for what no read covers.
    """

    data: bytes
    stream: bool
    items: list[TimedItem] = field(default_factory=list)
    chunks: list[TimedChunk] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    dialect: str | None = None
    done: bool = False
    done_ns: int | None = None
    whole: bool = True
    read_ends: Sequence[int] = ()
    read_at_ns: Sequence[int | None] = ()


def decode(exchange: Exchange, reads: Sequence[Read], body: bytes) -> Decoded:
    """Decode a body. `reads` may cover less or more than the body: what has no read has no instant."""
    ends, places = encoding.spans([read.start for read in reads], [read.size for read in reads], len(body))
    owners = [None if place is None else reads[place] for place in places]
    plain = encoding.plain(exchange.content_encoding, body, ends)
    decoded = Decoded(plain.data, is_stream(exchange, plain.data), whole=plain.flag is None)
    decoded.read_ends = plain.ends
    decoded.read_at_ns = [None if read is None else read.at_ns for read in owners]
    if plain.flag is not None:
        decoded.flags.add(plain.flag)
    if decoded.stream:
        _StreamReader(decoded, plain.ends, owners, _media_type(exchange) in _LINE_TYPES).run()
    elif plain.data:
        _read_whole(decoded, _read_at(plain.ends, owners, len(plain.data)))
    decoded.dialect = _dialect(decoded)
    return decoded


def is_stream(exchange: Exchange, data: bytes) -> bool:
    """Say whether a body, here without its content coding, is read as an event stream: by its type, else its looks."""
    is_typed = _media_type(exchange) in _STREAM_TYPES | _LINE_TYPES
    return exchange.framing != "none" and (is_typed or _LOOKS_LIKE_EVENTS.match(data) is not None)


def derive(exchange: Exchange, reads: Sequence[Read], body: bytes) -> Measures:
    """Derive the measures of an exchange from its facts."""
    decoded = decode(exchange, reads, body)
    cleaner = Cleaner()
    succeeded = exchange.status is not None and exchange.status < 300
    understood = succeeded and decoded.dialect == "chat"
    # Embeddings and their like report a model and usage, too, though they are no chat.
    readable = understood or (succeeded and not decoded.stream)
    answer = assemble((timed.chunk for timed in decoded.chunks) if readable else (), cleaner)
    fault, evidence = _evidence(decoded, answer, succeeded)
    outcome, outcome_detail = judge(exchange, evidence)
    is_timed = succeeded and decoded.stream
    came = (decoded.chunks, decoded.done_ns, answer.tokens.completion) if is_timed else ()
    timeline = Timeline(exchange, reads, *came)
    values = measured(timeline)
    if is_timed and not understood:
        values["chunks"] = 0
    flags = transport_flags(exchange, outcome) | decoded.flags & {"decode_limit", "undecoded"}
    if succeeded:
        flags |= _flags(decoded, answer, outcome, timeline)
    if fault is not None:
        values["error_code"], values["error_message"] = cleaner.optional(fault.code), cleaner.optional(fault.message)
    if cleaner.changed or (decoded.chunks and not encoding.is_utf8(decoded.data)):
        flags.add("sanitized")
    return Measures(
        outcome=outcome,
        outcome_detail=outcome_detail,
        dialect=decoded.dialect if succeeded else None,
        events=sum(item.kind == "event" for item in decoded.items),
        comments=sum(item.kind == "comment" for item in decoded.items),
        flags=tuple(sorted(flags)),
        **answer.values(),
        **values,
    )


def _read_whole(decoded: Decoded, last: Read | None) -> None:
    """Read a body that is not a stream: one item, completed by the `last` read, and the payload in it, if any."""
    at_ns, read = (last.at_ns, last.seq) if last is not None else (None, None)
    size = len(decoded.data)
    text = decoded.data.decode("utf-8-sig", "replace") if encoding.is_utf8(decoded.data) else ""
    decoded.items.append(TimedItem(0, "body", at_ns, read, "", "", text, 0, size))
    if _LOOKS_LIKE_JSON.match(decoded.data):
        chunk = chunks.read(text or decoded.data.decode("utf-8-sig", "replace"))
        if chunk is not chunks.MALFORMED:
            decoded.chunks.append(TimedChunk(0, at_ns, read, chunk, size))


def _read_at(ends: Sequence[int], owners: Sequence[Read | None], end: int) -> Read | None:
    """Return the read that holds the byte before `end`; `ends` are where the data of each owner ends."""
    span = bisect_right(ends, end - 1)
    return owners[span] if span < len(owners) else None


def _media_type(exchange: Exchange) -> str:
    return (exchange.content_type or "").partition(";")[0].strip().lower()


class _TooMany(Exception):
    """The body holds more items than are decoded."""


class _StreamReader:
    """Fills a `Decoded` from its data: standard events first, then what stands between them."""

    def __init__(self, decoded: Decoded, ends: Sequence[int], owners: Sequence[Read | None], is_lines: bool) -> None:
        self._decoded = decoded
        self._data = decoded.data
        self._ends = ends
        self._owners = owners
        self._is_lines = is_lines
        self._reader = Reader()

    def run(self) -> None:
        """Decode the data, as far as `MAX_ITEMS` goes."""
        try:
            self._run()
        except _TooMany:
            self._decoded.flags.add("decode_limit")
            self._decoded.whole = False

    def _run(self) -> None:
        decoder = sse.Decoder()
        covered = len(_BOM) if self._data.startswith(_BOM) else 0
        for item in self._feed(decoder):
            if item.start > covered:
                self._between(covered, item.start)
            covered = max(covered, item.end)
            if isinstance(item, sse.Event):
                self._event(item)
            else:
                self._item("comment", "", "", item.text, item.start, item.end)
        tail = decoder.finish()
        self._between(covered, tail.start if tail else len(self._data))
        if tail:
            self._tail(tail)
        self._error_lines()

    def _feed(self, decoder: sse.Decoder) -> Iterator[sse.Event | sse.Comment]:
        """Decode a piece at a time: a body of nothing but line ends is many times larger when it is decoded."""
        for start in range(0, len(self._data), _PIECE):
            yield from decoder.feed(self._data[start : start + _PIECE])

    def _room(self) -> None:
        if len(self._decoded.items) + len(self._decoded.chunks) >= MAX_ITEMS:
            raise _TooMany

    def _event(self, event: sse.Event) -> None:
        item = self._item("event", event.type, event.id, event.data, event.start, event.end)
        untyped = event.type == "message"
        chunk = self._reader.read(event.data) if untyped else chunks.read(event.data, event.type)
        if chunk is chunks.MALFORMED or self._data[event.start] == 0x7B:
            for repaired in self._repaired(event):
                self._add(repaired, item.seq, item.end)
        elif chunk is chunks.EMPTY:
            self._empty(event, item)
        elif chunk is chunks.DONE:
            self._add(chunk, item.seq, item.end)
        else:
            self._decoded.chunks.append(TimedChunk(item.seq, item.at_ns, item.read, chunk, item.end))

    def _empty(self, event: sse.Event, item: TimedItem) -> None:
        """Nothing behind `data:`, unless its payload stands on the lines below, without a prefix."""
        found = self._repaired(event) if b"{" in self._data[event.start : event.end] else []
        for chunk in found if chunks.MALFORMED not in found else []:
            self._add(chunk, item.seq, item.end)
        if not found or chunks.MALFORMED in found:
            self._add(chunks.EMPTY, item.seq, item.end)

    def _item(self, kind: Any, name: str, event_id: str, data: str, start: int, end: int) -> TimedItem:
        self._room()
        read = _read_at(self._ends, self._owners, end)
        items = self._decoded.items
        at_ns, seq = (read.at_ns, read.seq) if read is not None else (None, None)
        item = TimedItem(len(items), kind, at_ns, seq, name, event_id, data, start, end)
        items.append(item)
        return item

    def _tail(self, tail: sse.Event) -> None:
        # The standard discards it. If it can be read, it was sent; if not, it is where the stream was cut.
        sent = [chunk for chunk in self._repaired(tail) if chunk is not chunks.MALFORMED and chunk is not chunks.EMPTY]
        if sent:
            self._decoded.flags.add("unterminated")
            item = self._item("record", tail.type, tail.id, tail.data, tail.start, tail.end)
            for chunk in sent:
                self._add(chunk, item.seq, tail.end)

    def _repaired(self, event: sse.Event) -> list[Chunk]:
        found, flags = chunks.repair(self._data[event.start : event.end].decode("utf-8", "replace"), event.type)
        self._decoded.flags.update(flags)
        return found

    def _between(self, start: int, end: int) -> None:
        if not self._data[start:end].strip():
            return
        # Escaped, not replaced: the length of each character in bytes must not be lost.
        region = self._data[start:end].decode("utf-8", "surrogateescape")
        done = 0
        for chunk, stop in chunks.unframed(region):
            text = region[done:stop]
            begin, start = start, start + len(text.encode("utf-8", "surrogateescape"))
            done = stop
            is_payload = chunk is chunks.DONE or chunk.fault is not None or bool(chunk.dialect)
            if not self._is_lines and not is_payload:
                continue
            if not self._is_lines:
                self._decoded.flags.add("unframed")
            begin += len(text) - len(text.lstrip())
            item = self._item("record", "", "", self._data[begin:start].decode("utf-8", "replace"), begin, start)
            self._add(chunk, item.seq, start)

    def _error_lines(self) -> None:
        if b"error:" not in self._data:
            return
        found = False
        for line in _ERROR_LINE.finditer(self._data):
            if line[1].strip():
                text, end = line[1].decode("utf-8", "replace"), min(line.end() + 1, len(self._data))
                item = self._item("record", "error", "", text.strip(), line.start(), end)
                self._add(Chunk("", fault=chunks.error_field(text)), item.seq, end)
                found = True
        if found:
            self._decoded.flags.add("error_field")
            self._reorder()

    def _reorder(self) -> None:
        """Number the items anew in the order in which they were completed, after some were found late."""
        items = sorted(self._decoded.items, key=lambda item: item.end)
        seqs = {item.seq: seq for seq, item in enumerate(items)}
        self._decoded.items[:] = (item._replace(seq=seq) for seq, item in enumerate(items))
        renumbered = (timed._replace(item=seqs[timed.item]) for timed in self._decoded.chunks)
        self._decoded.chunks[:] = sorted(renumbered, key=lambda timed: timed.end)

    def _add(self, chunk: Chunk, item: int, end: int) -> None:
        self._room()
        read = _read_at(self._ends, self._owners, end)
        at_ns, seq = (read.at_ns, read.seq) if read is not None else (None, None)
        if chunk is chunks.DONE:
            self._decoded.done, self._decoded.done_ns = True, at_ns
        elif chunk is chunks.EMPTY:
            self._decoded.flags.add("empty_data")
        elif chunk is chunks.MALFORMED:
            self._decoded.flags.add("malformed")
        else:
            self._decoded.chunks.append(TimedChunk(item, at_ns, seq, chunk, end))


def _dialect(decoded: Decoded) -> str | None:
    if not decoded.stream:
        return next((timed.chunk.dialect for timed in decoded.chunks if timed.chunk.pieces), None)
    claimed = next((timed.chunk.dialect for timed in decoded.chunks if timed.chunk.dialect), None)
    if claimed is not None:
        return claimed
    if "malformed" in decoded.flags or "undecoded" in decoded.flags or any(c.chunk.counts for c in decoded.chunks):
        return "unknown"
    # Only the chat family ends with [DONE].
    return "chat" if decoded.done else None


def _evidence(decoded: Decoded, answer: Answer, succeeded: bool) -> tuple[Fault | None, Evidence]:
    place = next((place for place, timed in enumerate(decoded.chunks) if timed.chunk.fault is not None), None)
    fault = decoded.chunks[place].chunk.fault if place is not None else None
    if not succeeded and fault is None and decoded.data:
        fault = chunks.body_fault(decoded.data.decode("utf-8-sig", "replace"))
    error: Any = "finish" if answer.failed else None
    if place is not None:
        before = [timed.chunk for timed in decoded.chunks[: place + 1]]
        # In a dialect that is not known, any payload before the error may have been output.
        started = any(chunk.output for chunk in before) or (decoded.dialect == "unknown" and place > 0)
        error = "mid_stream" if started else "before_output"
    return fault, Evidence(
        stream=decoded.stream,
        understood=decoded.dialect != "unknown",
        whole=decoded.whole,
        done=decoded.done,
        finished=answer.finished,
        error=error,
        malformed="malformed" in decoded.flags,
    )


def _flags(decoded: Decoded, answer: Answer, outcome: str, timeline: Timeline) -> set[str]:
    has_output = any(timed.chunk.output for timed in decoded.chunks)
    understood = decoded.dialect == "chat"
    raised = {
        "nonstream": not decoded.stream,
        "comments": any(item.kind == "comment" for item in decoded.items),
        "unknown_payload": decoded.dialect == "unknown" and "undecoded" not in decoded.flags,
        "empty": understood and outcome == "complete" and not has_output,
        "no_done": understood and decoded.stream and not decoded.done,
        "no_finish": understood and decoded.stream and not answer.finished,
    }
    flags = decoded.flags | {flag for flag, is_raised in raised.items() if is_raised}
    if understood:
        flags |= answer.flags | timeline.flags() if decoded.stream else answer.flags - _STREAM_ONLY
    return flags
