"""The decoder: a body and its reads in, its items and chunks in time out, as columns.

An *item* is a piece of the body: an event (by the standard, or a record of another framing), a comment, a record
outside of any event, or a body that is no stream. A *chunk* is a payload in an item. Nearly all payloads of a long
answer differ from an earlier one in one text only: they are found several at a time (`templates`) and kept as one
`ItemRun`, without an object for each event.

The time of an item, and of the chunks in it, is that of the read which holds its last byte. No body, however broken or
hostile, is an error: what cannot be read is left out and flagged. Measures are derived in `derive`.
"""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from wiretape.recorder.clock import THREAD, Clock
from wiretape.recorder.decode import choices, encoding, finals, payloads, remarks, rpc
from wiretape.recorder.decode.allowance import REPAIRED_BYTES, Allowance, TooMuchError
from wiretape.recorder.decode.audio import AudioPart
from wiretape.recorder.decode.declared.compiler import DeclaredDialect
from wiretape.recorder.decode.dialect import Chunk, Dialect, ReportedError
from wiretape.recorder.decode.dialects import chat, cohere, registry
from wiretape.recorder.decode.exchange import CloseFrame, Exchange, Read, Reads
from wiretape.recorder.decode.framings import aws_eventstream, json_array, length_prefixed, ndjson, sse
from wiretape.recorder.decode.operation import api_asked
from wiretape.recorder.decode.payloads import PayloadReader
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.templates import Templates
from wiretape.recorder.decode.turns import TurnDraft, union

if TYPE_CHECKING:
    from wiretape.recorder.decode.websocket import ResponseTurn

MAX_ITEMS: Final = 1_000_000
"""Limit of items and payloads decoded of one body: more than in 64 MiB of a real stream."""

KINDS: Final = ("event", "comment", "record", "body", "ping", "pong", "close", "broken")
EVENT, COMMENT, RECORD, BODY, PING, PONG, CLOSE, BROKEN = range(8)

Framing = Literal[
    "sse", "ndjson", "json-array", "aws-eventstream", "json", "websocket", "grpc", "grpc-web", "connect"
]  # fmt: skip
"""The framing of payloads in a body; `json`: it is not a stream."""

_FRAMINGS: Final[dict[str, Framing]] = {
    "text/event-stream": "sse",
    "application/vnd.amazon.eventstream": "aws-eventstream",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/x-jsonlines": "ndjson",
    "application/stream+json": "ndjson",
}
STREAM_TYPES: Final = frozenset(_FRAMINGS)
"""The content types of streams."""
_RECORDS: Final = {"ndjson": ndjson, "json-array": json_array, "aws-eventstream": aws_eventstream}
_ARRAY_PATH = re.compile(r":stream\w*(?:\?|$)")
_LOOKS_LIKE_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data[:\r\n]|event:|id:|retry:|:)")
_LOOKS_LIKE_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_ERROR_LINE = re.compile(rb"(?:^|(?<=[\r\n]))error:([^\r\n]*)")
_CHATS: Final = frozenset({chat.API, cohere.API})
_ARRAY_APIS: Final = frozenset({"gemini"})
_FIRST_ELEMENT: Final = 1 << 20
_OPAQUE: Final = Chunk("")
"""A message of a call whose payload is not read."""
_LF: Final = b"\n\n"
_CRLF: Final = b"\r\n\r\n"


class Item(NamedTuple):
    """One piece of a body, at the timestamp of the read (`read` is its seq) that holds its last byte.

    A standard event, or a record of a framing that is not SSE; a comment; a `record`, which is a payload outside of any
    event; or a whole `body` that is not a stream. `seq` counts them all from 0 in the order in which they were
    completed.

    Of a WebSocket, a message is an event, and a `ping`, a `pong`, a `close` or a `broken` message is an item as well;
    `sender` is who sent it, `upstream` or `client`.
    """

    seq: int
    kind: str
    at_ns: int | None
    read: int | None
    type: str
    id: str
    data: str
    start: int
    end: int
    sender: str = "upstream"


class TimedChunk(NamedTuple):
    """A chunk at the timestamp of its last byte, offset `end`; `item` is the seq of the item that holds it."""

    item: int
    at_ns: int | None
    read: int | None
    chunk: Chunk
    end: int


@dataclass
class Decoded:
    """A decoded body. `data` is the body without its content coding, `whole` whether all of it was decoded.

    `framing` is that of its payloads. Of a WebSocket, `data` are the messages of both directions in the order in which
    they were completed, unmasked and inflated; `sent` are the items that the client sent, `turns` the responses,
    `drafts` the same with their contents, `audio` the items of both sides with audio, and `close` has its code and
    reason.

    Columns with one value for each item, in the order in which they were completed: `kinds` (indexes into `KINDS`),
    `starts` and `ends` (offsets in `data`), `at_ns` and `reads` (timestamp and seq of the read that completed it; None
    where the tape lacks that read, and no seq for the client's items). `runs` hold the chunks. `read_ends` are the ends
    of the reads in `data`, `read_at_ns` their timestamps; bytes without a read have None. `api` is that of the dialect
    that claimed the payload, "unknown" if none did, None if there is none. `declared` is the declared dialect that
    recognised the exchange or its stream, `is_recognised` that it did so by more than the path. `done_item` is the item
    with the last `[DONE]`, `end_item` the one with the last event that ends a stream of its dialect; `is_aborted`: an
    event said that the answer stays incomplete. `is_cut`: the end cuts an event or a message off. `may_repeat`: some
    text may have come twice. `remark` is the last text that upstream put outside of the events, and `misfit` the last
    in the place of JSON: often the reason why a stream broke. Of a call by gRPC or Connect, `status` is the one that
    came, and `message_coding` that of compressed messages. `flush_count` is that of the compressor, None without one.
    """

    data: bytes
    framing: Framing
    whole: bool = True
    kinds: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    at_ns: Sequence[int | None] = ()
    reads: Sequence[int | None] = ()
    runs: list[ItemRun] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    api: str | None = None
    done_item: int | None = None
    end_item: int | None = None
    read_ends: Sequence[int] = ()
    read_at_ns: Sequence[int | None] = ()
    ids: dict[int, str] = field(default_factory=dict)
    fields: dict[int, tuple[str, str]] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    turns: "list[ResponseTurn]" = field(default_factory=list)
    drafts: list[TurnDraft] = field(default_factory=list)
    audio: dict[int, AudioPart] = field(default_factory=dict)
    close: CloseFrame | None = None
    declared: DeclaredDialect | None = None
    is_recognised: bool = False
    is_aborted: bool = False
    status: rpc.CallStatus | None = None
    message_coding: str | None = None
    is_cut: bool = False
    may_repeat: bool = False
    remark: str | None = None
    misfit: str | None = None
    flush_count: int | None = None

    @property
    def is_call(self) -> bool:
        """True if it is a stream of messages by gRPC or Connect, which only the status of the call ends."""
        return self.framing in rpc.FRAMINGS

    @property
    def stream(self) -> bool:
        return self.framing != "json"

    @property
    def dialect(self) -> Dialect | None:
        """The dialect that claimed the payload, if any."""
        if self.declared is not None and self.declared.api == self.api:
            return self.declared
        return registry.BY_API.get(self.api or "")

    @property
    def done(self) -> bool:
        """True if `[DONE]` came."""
        return self.done_item is not None

    @property
    def ended(self) -> bool:
        """True if the event that ends a stream of its dialect came; over a WebSocket, for each response."""
        if self.turns:
            return all(turn.last is not None for turn in self.turns)
        if self.is_aborted:
            return False
        if self.is_call:
            return self.status is not None and self.status.error is None and not self.is_cut
        return self.end_item is not None or (self.done and (self.dialect is None or self.dialect.has_done))

    @property
    def ended_ns(self) -> int | None:
        """The timestamp of the last event that ends the stream."""
        said = [item for item in (self.done_item, self.end_item) if item is not None]
        return self.at_ns[max(said)] if said else None

    def add(self, chunk: Chunk, item: int) -> None:
        """Add a chunk that stands in an item."""
        self.runs.append(ItemRun(chunk, None, [""], item))
        if chunk.begins:
            self.done_item = self.end_item = None
        if chunk.ends:
            self.end_item = item
        if chunk.reason:
            self.remark = chunk.reason
        if not chunk.api and "malformed" in chunk.flags:
            self.flags.add("malformed")
        if chunk.aborts:
            self.is_aborted = True
        if chunk.may_repeat:
            self.may_repeat = True

    def note(self, text: str) -> None:
        """Note a text in the place of a payload; one that begins as JSON is the part of a payload that was cut."""
        self.misfit = remarks.plain(text) or self.misfit

    def settle(self) -> None:
        """Count no text twice that came in deltas and whole, once all chunks are there."""
        if self.may_repeat and len(self.runs) > 1:
            finals.settle(self.runs)

    def place_of_fault(self) -> int | None:
        """Return the index of the first run with an error; None if there is none."""
        forgives = self.dialect is not None and self.dialect.forgives_empty_errors
        last = max((place for place, run in enumerate(self.runs) if run.chunk.output), default=-1) if forgives else -1
        for place, run in enumerate(self.runs):
            fault = run.chunk.fault
            if fault is not None and (fault != ReportedError(None, None) or place > last):
                return place
        return None

    def item(self, no: int) -> Item:
        """Return an item with its text, read from its bytes."""
        start, end, kind = self.starts[no], self.ends[no], self.kinds[no]
        raw, type = self.data[start:end], ""
        if no in self.fields:
            type, text = self.fields[no]
        elif kind == EVENT:
            type, text = fields(self.framing, raw, self.message_coding)
        elif kind == COMMENT:
            text = raw[1:].removeprefix(b" ").rstrip(b"\r\n").decode("utf-8", "replace")
        elif kind == BODY:
            text = raw.decode("utf-8-sig", "replace") if encoding.is_utf8(raw) else ""
        else:
            text = raw.decode("utf-8", "replace")
        sender = "client" if no in self.sent else "upstream"
        return Item(
            no, KINDS[kind], self.at_ns[no], self.reads[no], type, self.ids.get(no, ""), text, start, end, sender
        )

    def items(self) -> list[Item]:
        """Return all items with their texts."""
        return list(map(self.item, range(len(self.kinds))))

    def chunk(self, no: int) -> Chunk:
        """Return a chunk by its number."""
        place = bisect_right(self._firsts, no) - 1
        return self.runs[place].chunk_of(no - self._firsts[place])

    @functools.cached_property
    def answering_ns(self) -> Sequence[int | None]:
        """The timestamps of all items, on a clock that runs only while upstream has a request to answer.

        Over a WebSocket it begins with the message that asks first, stands still when all responses have ended, and
        goes on with the message that asks for the next. Items of a response that generates nothing, or whose request
        the tape does not have, have no time.
        """
        if not self.turns:
            return self.at_ns
        # Responses of Realtime overlap, by the thousand if a peer likes: no item is looked at once for each.
        latest_ns = max((at for at in self.at_ns if at is not None), default=0)
        borders, asked = [0] * (len(self.at_ns) + 1), list[tuple[int, int]]()
        for turn in self.turns:
            asked_ns = None if turn.asked is None or not turn.generates else self.at_ns[turn.asked]
            if asked_ns is None:
                continue
            ended_ns = None if turn.last is None else self.at_ns[turn.last]
            asked.append((asked_ns, max(asked_ns, latest_ns if ended_ns is None else ended_ns)))
            borders[turn.first] += 1
            borders[-1 if turn.last is None else turn.last + 1] -= 1
        spans = union(asked)
        before = list(accumulate((end - start for start, end in spans), initial=0))
        times: list[int | None] = []
        for at_ns, open_turns in zip(self.at_ns, accumulate(borders), strict=False):
            place = bisect_right(spans, at_ns, key=itemgetter(0)) - 1 if open_turns and at_ns is not None else -1
            times.append(None if place < 0 else before[place] + min(at_ns or 0, spans[place][1]) - spans[place][0])
        return times

    def turn_of(self, item: int) -> int:
        """Return the number of an item's response; 0 if there is only one."""
        return max(bisect_right(self.turns, item, key=lambda turn: turn.first) - 1, 0)

    @functools.cached_property
    def _firsts(self) -> list[int]:
        """The number of each run's first chunk."""
        return list(accumulate(map(len, self.runs), initial=0))

    def chunks(self) -> Iterator[TimedChunk]:
        """Yield all chunks with their texts."""
        for run in self.runs:
            for item, chunk in enumerate(run.chunks(), run.item):
                yield TimedChunk(item, self.at_ns[item], self.reads[item], chunk, self.ends[item])


def fields(framing: Framing, raw: bytes, message_coding: str | None = None) -> tuple[str, str]:
    """Return the type and the data of the event that stands in these bytes; "" where there is no data.

    `message_coding` is that of compressed messages of a call.
    """
    if framing in rpc.FRAMINGS:
        return length_prefixed.fields(raw, framing, message_coding)
    if framing == "websocket":
        return "message", raw.decode("utf-8", "replace")
    found: tuple[str, str] = _RECORDS.get(framing, sse).fields(raw)
    return found


def decode(exchange: Exchange, reads: Sequence[Read], body: bytes, clock: Clock = THREAD) -> Decoded:
    """Decode a body. `reads` may cover less or more than the body: an item without a read has no timestamp.

    A body that takes more than its `Allowance` is decoded up to there, and flagged `decode_limit`.
    """
    columns = Reads.of(reads)
    if exchange.framing == "websocket":
        return _decode_websocket(exchange, columns, body, clock)
    span_ends, places = encoding.spans(columns.start, columns.size, len(body))
    plain, is_miscoded = encoding.fitting(exchange.coding, body, span_ends)
    decoded = Decoded(plain.data, framing_of(exchange, plain.data), whole=plain.flag is None)
    decoded.flush_count = plain.flush_count
    decoded.flags |= {plain.flag} if plain.flag is not None else set()
    decoded.flags |= {"wrong_coding"} if is_miscoded else set()
    allowance = Allowance(clock, len(plain.data))
    reader = PayloadReader(exchange, allowance)
    try:
        if decoded.stream:
            if decoded.framing == "sse":
                _StreamDecoder(decoded, reader, allowance).run()
            elif decoded.is_call:
                _decode_call(decoded, exchange, reader, allowance)
            else:
                _decode_records(decoded, reader, allowance)
        elif plain.data:
            _decode_whole(decoded, reader)
    except TooMuchError:
        decoded.flags.add("decode_limit")
        decoded.whole = False
    choices.merge(decoded.runs, exchange.request)
    decoded.settle()
    _set_times(decoded, columns, plain.ends, places, is_identity=plain.ends is span_ends)
    decoded.declared, decoded.is_recognised = reader.declared, reader.is_certain
    decoded.api = _api(decoded, api_asked(exchange))
    if decoded.api == "unknown" and api_asked(exchange) is None:  # its events may have any format
        decoded.flags.discard("malformed")
        decoded.misfit = None
    if exchange.gap_bytes:  # a missing part leaves the rest of a line
        decoded.remark = decoded.misfit = None
    return decoded


def framing_of(exchange: Exchange, data: bytes) -> Framing:
    """Return the framing of a body without its content coding: by its type, unless its beginning differs.

    An array is a stream if the request asked for one, or if its first element is of an API that streams arrays: any
    other is one answer. So is a single object with a reason for its end, even if it is typed as events.
    """
    if exchange.framing == "none":
        return "json"
    if (call := rpc.message_type(exchange.content_type)) is not None:
        return call.framing
    typed = _FRAMINGS.get((exchange.content_type or "").partition(";")[0].strip().lower())
    if aws_eventstream.looks_like(data):
        return "aws-eventstream"
    if _LOOKS_LIKE_EVENTS.match(data):
        return "sse"
    asked_for_array = _ARRAY_PATH.search(exchange.path) is not None
    if json_array.looks_like(data) and (asked_for_array or _is_streamed_array(data)):
        return "json-array"
    if typed in (None, "sse") and ndjson.looks_like(data):
        return "ndjson"
    if (typed == "ndjson" and ndjson.is_document(data)) or (typed == "sse" and _is_whole_answer(data)):
        return "json"
    return typed or ("json-array" if asked_for_array and not data else "json")


def _is_streamed_array(data: bytes) -> bool:
    first = next(json_array.records(data[:_FIRST_ELEMENT]), None)
    return first is not None and payloads.read(first.data).api in _ARRAY_APIS


def _is_whole_answer(data: bytes) -> bool:
    if not ndjson.is_object(data):
        return False
    chunk = payloads.read(data.decode("utf-8-sig", "replace"))
    return chunk.fault is None and bool(chunk.pieces) and all(piece.finish_reason for piece in chunk.pieces)


def _decode_records(decoded: Decoded, reader: PayloadReader, allowance: Allowance) -> None:
    """Decode a stream of records that are no server-sent events; a record is an event with one payload."""
    read = 0
    for record in _RECORDS[decoded.framing].records(decoded.data):
        allowance.take()
        if 2 * len(decoded.kinds) >= MAX_ITEMS:
            raise TooMuchError
        item, read = len(decoded.kinds), record.end
        decoded.kinds.append(EVENT)
        decoded.starts.append(record.start)
        decoded.ends.append(record.end)
        chunk = payloads.MALFORMED if record.broken else payloads.read(record.data, record.type, reader)
        if chunk is payloads.MALFORMED and decoded.framing == "ndjson":
            decoded.note(record.data)
        _take(decoded, chunk, item)
    decoded.is_cut = decoded.framing == "aws-eventstream" and read < len(decoded.data)


def _take(decoded: Decoded, chunk: Chunk, item: int) -> None:
    """Add the payload of a record. Raises `TooMuchError` if it is more than is parsed."""
    if chunk is payloads.UNREAD:
        raise TooMuchError
    if chunk is payloads.DONE:
        decoded.done_item = item
    elif chunk is payloads.EMPTY:
        decoded.flags.add("empty_data")
    elif chunk is payloads.MALFORMED:
        decoded.flags.add("malformed")
    else:
        decoded.add(chunk, item)


def _decode_call(decoded: Decoded, exchange: Exchange, reader: PayloadReader, allowance: Allowance) -> None:
    """Decode a stream of messages by gRPC or Connect: payloads in JSON are read, others are opaque."""
    named = rpc.message_type(exchange.content_type)
    is_json = named is not None and named.is_json
    decoded.message_coding = rpc.message_coding(exchange, decoded.framing)
    decoded.status = rpc.status_around(exchange, decoded.framing, is_empty=not decoded.data)
    inflater, read = _Inflater(decoded), 0
    for message in length_prefixed.messages(decoded.data, decoded.framing):
        allowance.take()
        if 2 * len(decoded.kinds) >= MAX_ITEMS:
            raise TooMuchError
        item, read = len(decoded.kinds), message.end
        decoded.kinds.append(EVENT)
        decoded.starts.append(message.start)
        decoded.ends.append(message.end)
        payload = inflater.payload(message) if is_json or message.is_last else None
        if message.is_last:
            _end_call(decoded, payload, item)
        elif payload is None:
            decoded.add(_OPAQUE, item)
        else:
            text = payload.decode("utf-8", "replace")
            _take(decoded, payloads.read(text, reader=reader), item)
    if read < len(decoded.data):
        is_over = decoded.framing != "grpc" and decoded.status is not None
        decoded.is_cut = not is_over
        decoded.flags |= {"surplus_bytes"} if is_over else set()


def _end_call(decoded: Decoded, payload: bytes | None, item: int) -> None:
    """Set the status by the message that ends a stream; `payload` is None if it cannot be decompressed."""
    decoded.end_item = item
    if payload is None:
        decoded.whole = False
        return
    decoded.status = rpc.status_in(payload, decoded.framing)
    if decoded.status is not None and decoded.status.error is not None:
        decoded.add(Chunk("", fault=decoded.status.error), item)


class _Inflater:
    """Decompresses messages of a body, within the limit of all bytes decoded of one."""

    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        self._left = encoding.MAX_DECODED

    def payload(self, message: length_prefixed.Message) -> bytes | None:
        """Return the payload of a message, or None, with a flag, if its coding cannot be decoded."""
        payload, coding = self._decoded.data[message.payload], self._decoded.message_coding
        if not message.flags & length_prefixed.COMPRESSED:
            return payload
        plain = encoding.plain(coding, payload, (len(payload),))
        self._left -= len(plain.data)
        if plain.flag == "decode_limit" or self._left < 0:
            raise TooMuchError
        if plain.flag is not None or encoding.is_identity(coding):
            self._decoded.flags.add("undecoded")
            return None
        return plain.data


def _decode_websocket(exchange: Exchange, reads: Reads, body: bytes, clock: Clock) -> Decoded:
    """Decode both directions of a WebSocket, their messages in the order in which they were completed."""
    from wiretape.recorder.decode.websocket import converse  # few tapes have any: wsproto is loaded where one is met

    found = converse(exchange, reads, body, MAX_ITEMS, clock)
    decoded = Decoded(
        bytes(found.data),
        "websocket",
        whole=found.is_whole,
        kinds=bytearray(EVENT if kind in ("text", "binary") else KINDS.index(kind) for kind in found.kinds),
        starts=found.starts,
        ends=found.ends,
        at_ns=found.at_ns,
        reads=found.reads,
        api=found.api,
        sent=found.sent,
        turns=found.turns,
        drafts=found.drafts,
        audio=found.audio,
        close=found.close,
        end_item=found.end_item,
    )
    for chunk, item in found.chunks:
        decoded.add(chunk, item)
    decoded.settle()
    raised = {"malformed": found.has_fault, "decode_limit": not found.is_whole}
    decoded.flags.update(flag for flag, is_raised in raised.items() if is_raised)
    return decoded


def _decode_whole(decoded: Decoded, reader: PayloadReader) -> None:
    """Decode a body that is no stream: one item, and the payload in it, if any."""
    data = decoded.data
    decoded.kinds.append(BODY)
    decoded.starts.append(0)
    decoded.ends.append(len(data))
    if _LOOKS_LIKE_JSON.match(data):
        chunk = payloads.read(data.decode("utf-8-sig", "replace"), reader=reader)
        if chunk is payloads.UNREAD:
            raise TooMuchError
        if chunk is not payloads.MALFORMED:
            decoded.runs.append(ItemRun(chunk, None, [""], 0))


def _set_times(
    decoded: Decoded, reads: Reads, span_ends: Sequence[int], places: Sequence[int], *, is_identity: bool
) -> None:
    """Set the columns that come from the reads; `places` has the read of each span, -1 where there is none."""
    # With each event in a read of its own, the columns are those of the reads.
    if is_identity and decoded.ends == span_ends:
        owners = places
    else:
        padded = [*places, -1]
        # Most events end where a read does: only the others are searched for. Of equal ends, the first one counts.
        span_of = dict(zip(reversed(span_ends), range(len(span_ends) - 1, -1, -1), strict=True))
        spans = zip(map(span_of.get, decoded.ends), decoded.ends, strict=True)
        owners = [padded[bisect_left(span_ends, end) if span is None else span] for span, end in spans]
    decoded.at_ns, decoded.reads = _of_reads(reads.at_ns, owners), _of_reads(reads.seq, owners)
    decoded.read_ends, decoded.read_at_ns = span_ends, _of_reads(reads.at_ns, places)


def _of_reads(column: Sequence[int], places: Sequence[int]) -> Sequence[int | None]:
    """Return the values of a column of the reads at some places, None at -1."""
    if places == range(len(column)):
        return list(column)
    values: list[int | None] = [*column, None]
    return [*map(values.__getitem__, places)]


def _api(decoded: Decoded, asked: str | None) -> str | None:
    # Data that gateways put before an answer may look like another API's: the output decides.
    claims = [run.chunk for run in decoded.runs if run.chunk.api]
    claimed = next((chunk.api for chunk in claims if chunk.output), claims[0].api if claims else None)
    # Usage alone is no chat: other answers report it likewise.
    is_named = claimed not in _CHATS or any(run.chunk.pieces for run in decoded.runs)
    if not decoded.stream:
        return claimed if is_named else None
    if claimed is not None:
        is_foreign = any(run.chunk.counts and not run.chunk.api for run in decoded.runs)
        return claimed if is_named or ((decoded.done or asked is not None) and not is_foreign) else "unknown"
    if decoded.flags & {"malformed", "undecoded"} or any(run.chunk.counts for run in decoded.runs):
        return "unknown"
    # Unless the path names another API, [DONE] alone ends an answer of chat.
    return (asked if asked in registry.BY_API else chat.API) if decoded.done else None


class _StreamDecoder:
    """Fills a `Decoded` from its data: standard events first, then the data between them."""

    def __init__(self, decoded: Decoded, reader: PayloadReader, allowance: Allowance) -> None:
        self._decoded = decoded
        self._allowance = allowance
        self._data = decoded.data
        self._reader = reader
        self._cursor = sse.EventCursor(self._data)
        self._covered = self._cursor.at
        self._templates = Templates(reader)
        self._blank = _CRLF if b"\r" in self._data else _LF
        self._count = 0

    def run(self) -> None:
        """Decode the data. Raises `TooMuchError`, with all before that in place."""
        cursor, size = self._cursor, len(self._data)
        while cursor.at < size:
            self._allowance.take()
            if cursor.in_block or cursor.id or not self._take_repeated():
                item = cursor.step()
                if item is not None:
                    self._take(item)
        is_open, tail = cursor.in_block, cursor.finish()
        self._between(tail.start if tail else size)
        is_sent = tail is not None and self._tail(tail)
        self._decoded.is_cut = is_open and not is_sent
        if cursor.has_error:
            self._error_lines()

    def _take_repeated(self) -> bool:
        """Decode the following events whose payloads repeat an earlier one; return True if there are any."""
        start = self._cursor.at
        repeated = self._templates.find(self._data, start, self._blank)
        if repeated is None:
            return False
        template, texts, sizes = repeated
        self._between(start)
        self._check_room()
        room = (MAX_ITEMS - self._count + 1) // 2
        borders = list(accumulate(sizes[:room], initial=start))
        decoded = self._decoded
        decoded.runs.append(ItemRun(template.chunk, template.part, texts[:room], len(decoded.kinds)))
        decoded.kinds += bytes((EVENT,)) * (len(borders) - 1)
        decoded.starts += borders[:-1]
        # A line ends at its CR: the LF after it is not waited for.
        decoded.ends += borders[1:] if self._blank is _LF else [border - 1 for border in borders[1:]]
        if len(texts) > room:
            raise TooMuchError
        self._count += 2 * len(texts)
        self._cursor.at, self._covered = borders[-1], decoded.ends[-1]
        return True

    def _take(self, item: sse.Event | sse.Comment) -> None:
        if item.start > self._covered:
            self._between(item.start)
        self._covered = max(self._covered, item.end)
        if isinstance(item, sse.Event):
            self._event(item)
        else:
            self._item(COMMENT, item.start, item.end)

    def _event(self, event: sse.Event) -> None:
        item = self._item(EVENT, event.start, event.end)
        if event.id:
            self._decoded.ids[item] = event.id
        chunk = payloads.read(event.data, event.type, self._reader)
        if chunk is payloads.MALFORMED or self._data[event.start] == 0x7B:
            self._allowance.take(len(event.data) // REPAIRED_BYTES)
            for repaired in self._repaired(event):
                self._add(repaired, item)
                if repaired is payloads.MALFORMED:
                    self._decoded.note(event.data)
        elif chunk is payloads.EMPTY:
            self._empty(event, item)
        elif chunk is payloads.DONE or chunk is payloads.UNREAD:
            self._add(chunk, item)
        else:
            self._decoded.add(chunk, item)
            self._count += 1
            self._templates.learn(event, self._data[event.start : event.end], chunk)

    def _empty(self, event: sse.Event, item: int) -> None:
        """Add an event without data, unless its payload stands on the lines below, without a prefix."""
        repaired = self._repaired(event) if b"{" in self._data[event.start : event.end] else []
        for chunk in [payloads.EMPTY] if not repaired or payloads.MALFORMED in repaired else repaired:
            self._add(chunk, item)

    def _item(self, kind: int, start: int, end: int) -> int:
        self._check_room()
        decoded = self._decoded
        decoded.kinds.append(kind)
        decoded.starts.append(start)
        decoded.ends.append(end)
        self._count += 1
        return len(decoded.kinds) - 1

    def _check_room(self) -> None:
        if self._count >= MAX_ITEMS:
            raise TooMuchError

    def _add(self, chunk: Chunk, item: int) -> None:
        self._check_room()
        self._count += 1
        if chunk is payloads.UNREAD:
            raise TooMuchError
        if chunk is payloads.DONE:
            self._decoded.done_item = item
        elif chunk is payloads.EMPTY:
            self._decoded.flags.add("empty_data")
        elif chunk is payloads.MALFORMED:
            self._decoded.flags.add("malformed")
        else:
            self._decoded.add(chunk, item)

    def _tail(self, tail: sse.Event) -> bool:
        """Decode the event that the standard discards, and return True if it can be read: then it was sent.

        If not, it is where the stream was cut.
        """
        sent = [
            chunk for chunk in self._repaired(tail) if chunk is not payloads.MALFORMED and chunk is not payloads.EMPTY
        ]
        if sent:
            self._decoded.flags.add("unterminated")
            item = self._item(RECORD, tail.start, tail.end)
            self._decoded.fields[item] = tail.type, tail.data
            if tail.id:
                self._decoded.ids[item] = tail.id
            for chunk in sent:
                self._add(chunk, item)
        else:
            self._decoded.note(tail.data)
        return bool(sent)

    def _repaired(self, event: sse.Event) -> list[Chunk]:
        block = self._data[event.start : event.end].decode("utf-8", "replace")
        repaired, flags = payloads.repair(block, event.type, self._reader)
        self._decoded.flags.update(flags)
        return repaired

    def _between(self, end: int) -> None:
        """Decode the payloads outside of any event, up to `end`."""
        start = self._covered
        if not self._data[start:end].strip():
            return
        if self._data.find(b"\n", start, end) >= 0 or end == len(self._data):
            self._decoded.remark = remarks.around_fields(self._data[start:end]) or self._decoded.remark
        # Escaped, not replaced: the length of each character in bytes must not be lost.
        region = self._data[start:end].decode("utf-8", "surrogateescape")
        done = 0
        for chunk, stop in payloads.unframed(region, self._reader):
            text = region[done:stop]
            begin, start = start, start + len(text.encode("utf-8", "surrogateescape"))
            done = stop
            if chunk is payloads.UNREAD:
                raise TooMuchError
            is_payload = chunk is payloads.DONE or chunk.fault is not None or bool(chunk.api)
            if not is_payload:
                continue
            self._decoded.flags.add("unframed")
            self._add(chunk, self._item(RECORD, begin + len(text) - len(text.lstrip()), start))

    def _error_lines(self) -> None:
        has_error = False
        for line in _ERROR_LINE.finditer(self._data):
            if line[1].strip():
                text = line[1].decode("utf-8", "replace")
                item = self._item(RECORD, line.start(), min(line.end() + 1, len(self._data)))
                self._decoded.fields[item] = "error", text.strip()
                self._add(Chunk("", fault=payloads.error_field(text)), item)
                has_error = True
        if has_error:
            self._decoded.flags.add("error_field")
            self._reorder()

    def _reorder(self) -> None:
        """Renumber the items in the order of their completion, after some were found late."""
        decoded = self._decoded
        order = sorted(range(len(decoded.ends)), key=decoded.ends.__getitem__)
        numbers = {old: new for new, old in enumerate(order)}
        decoded.kinds = bytearray(decoded.kinds[item] for item in order)
        decoded.starts = [decoded.starts[item] for item in order]
        decoded.ends = [decoded.ends[item] for item in order]
        decoded.ids = {numbers[item]: id for item, id in decoded.ids.items()}
        decoded.fields = {numbers[item]: fields for item, fields in decoded.fields.items()}
        decoded.done_item = None if decoded.done_item is None else numbers[decoded.done_item]
        decoded.end_item = None if decoded.end_item is None else numbers[decoded.end_item]
        alone = [
            ItemRun(chunk, None, [""], numbers[item])
            for run in decoded.runs
            for item, chunk in enumerate(run.chunks(), run.item)
        ]
        decoded.runs = sorted(alone, key=lambda run: decoded.ends[run.item])
