"""The decoder: a body and its reads in, its items and chunks in time out, as columns.

An *item* is a piece of the body: an event (by the standard, or a record of another framing), a comment, a record
outside of any event, or a body that is no stream. A *chunk* is a payload in an item. Nearly all payloads of a long
answer differ from an earlier one in one text only: they are found several at a time (`templates`) and kept as one
`ItemRun`, without an object for each event.

The rules, in the order in which `decode` applies them:

1. The content coding comes off first; a body that breaks within it is decoded up to there.
2. The framing is that of the content type unless the beginning of the body says otherwise (`framing_of`): servers and
   gateways send event streams as `application/json` or `text/plain`, and errors in JSON as `text/event-stream`.
3. Standard events are decoded to the letter, as a browser would. Payloads that real servers send beside them are read
   as well, and flagged: JSON outside of any event, lines without `data:`, a last event without its blank line, and
   `error:` lines. Such a payload is an item of its own (`record`), so that events still count as the standard says.
4. The time of an item, and of the chunks in it, is that of the read which holds its last byte. Two events in one read
   have the same time.
5. The dialect that claimed a payload is asked first about the next one. Which API answered is decided at the end, by
   the first chunk with output.

No body, however broken or hostile, is an error: what cannot be read is left out and flagged. Measures are derived in
`derive`.
"""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Final, Literal, NamedTuple

from wiretape.recorder.clock import THREAD, Clock
from wiretape.recorder.decode import choices, encoding, finals, payloads, remarks, rpc, session_streams
from wiretape.recorder.decode.agent_turns import MOST_TURNS
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
from wiretape.recorder.decode.turns import ResponseTurn, TurnDraft, TurnMeasures, union

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
    "application/vnd.amazon.eventstream": "aws-eventstream",  # Bedrock
    "application/x-ndjson": "ndjson",  # Ollama
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/x-jsonlines": "ndjson",
    "application/stream+json": "ndjson",
}
STREAM_TYPES: Final = frozenset(_FRAMINGS)
"""The content types of streams."""
_RECORDS: Final = {"ndjson": ndjson, "json-array": json_array, "aws-eventstream": aws_eventstream}
# Google's custom methods (`:streamGenerateContent`): without `alt=sse` they answer with one array.
_ARRAY_PATH = re.compile(r":stream\w*(?:\?|$)")
_LOOKS_LIKE_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data[:\r\n]|event:|id:|retry:|:)")
_LOOKS_LIKE_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
# llama.cpp until September 2025 put errors in such a field, which the standard ignores (llama.cpp#16104).
_ERROR_LINE = re.compile(rb"(?:^|(?<=[\r\n]))error:([^\r\n]*)")
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
    """A decoded body: columns of its items, and runs of its chunks.

    The columns `kinds`, `starts`, `ends`, `at_ns` and `reads` have one value for each item, in the order of completion.
    """

    data: bytes
    """The body without its content coding; of a WebSocket the messages of both directions in the order of their
    completion, unmasked and inflated."""
    framing: Framing
    whole: bool = True
    """True if all of the body was decoded."""
    kinds: bytearray = field(default_factory=bytearray)
    """Indexes into `KINDS`."""
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    at_ns: Sequence[int | None] = ()
    """Timestamps of the reads that completed the items; None where the tape lacks the read."""
    reads: Sequence[int | None] = ()
    """The seq of these reads; None for a client's items, too."""
    runs: list[ItemRun] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    api: str | None = None
    """The API of the dialect that claimed the payload; "unknown" if none did, None without a payload."""
    done_item: int | None = None
    """The item with the last `[DONE]`."""
    end_item: int | None = None
    """The item with the last event that ends a stream of its dialect."""
    read_ends: Sequence[int] = ()
    read_at_ns: Sequence[int | None] = ()
    """The ends of all reads in `data`, and their timestamps; None for bytes without a read."""
    ids: dict[int, str] = field(default_factory=dict)
    fields: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Type and data of the items where they cannot be read from the bytes again."""
    sent: set[int] = field(default_factory=set)
    """The items that the client of a WebSocket sent."""
    turns: list[ResponseTurn] = field(default_factory=list)
    drafts: Sequence[TurnDraft] = ()
    """The responses over a WebSocket, or the turns of a hosted agent, and the same with their contents."""
    turn_measures: Sequence[TurnMeasures] | None = None
    tools: Sequence[tuple[int, int]] | None = None
    """The values of the turns of a hosted session that began here, linked to other exchanges, and the times in which
    tools ran in those of its own thread, in ns since T0; None: not linked."""
    is_session: bool = False
    """True if it is a stream of a hosted agent's session: no answer is awaited outside of its turns."""
    audio: dict[int, AudioPart] = field(default_factory=dict)
    """The audio in the items of both sides."""
    close: CloseFrame | None = None
    declared: DeclaredDialect | None = None
    """The declared dialect that recognised the exchange or its stream."""
    is_recognised: bool = False
    """True if it did so by more than the path."""
    is_aborted: bool = False
    """True if an event said that the answer stays incomplete."""
    status: rpc.CallStatus | None = None
    """The status of a call by gRPC or Connect."""
    message_coding: str | None = None
    """The coding of compressed messages of such a call."""
    is_cut: bool = False
    """True if the body ends within an event or a message."""
    may_repeat: bool = False
    """True if some text may have come twice, in deltas and whole."""
    remark: str | None = None
    """The last text outside of the events: often the reason why a stream broke."""
    misfit: str | None = None
    """The last text in the place of JSON."""
    flush_count: int | None = None
    """The number of the compressor's flushes; None without compression."""

    @functools.cached_property
    def whole_ends(self) -> Sequence[int]:
        """The ends of the items with their whole line end: to `ends`, no LF behind a CR belongs, as none is awaited."""
        if self.framing != "sse" or b"\r\n" not in self.data:
            return self.ends
        return [end + (self.data[end - 1 : end + 1] == b"\r\n") for end in self.ends]

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
        """True if the event that ends a stream of its dialect came; of several responses or turns, for each."""
        if self.turns or self.is_session:
            return all(turn.last is not None for turn in self.turns)
        if self.is_aborted:
            return False
        if self.is_call:
            return self.status is not None and self.status.error is None and not self.is_cut
        return self.end_item is not None or (self.done and (self.dialect is None or self.dialect.has_done))

    @property
    def ended_ns(self) -> int | None:
        """The timestamp of the last event that ends the stream."""
        items = [item for item in (self.done_item, self.end_item) if item is not None]
        return self.at_ns[max(items)] if items else None

    def add(self, chunk: Chunk, item: int) -> None:
        """Add a chunk that stands in an item."""
        self.runs.append(ItemRun(chunk, None, [""], item))
        if chunk.begins:  # a stream with several answers is over when its last one is
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
        if chunk.event is not None:
            self.is_session = True

    def note(self, text: str) -> None:
        """Note a text in the place of a payload; one that begins as JSON is the part of a payload that was cut."""
        self.misfit = remarks.plain(text) or self.misfit

    def settle(self) -> None:
        """Count no text twice that came in deltas and whole, once all chunks are there."""
        if self.may_repeat and len(self.runs) > 1:
            finals.settle(self.runs)

    def fault_index(self) -> int | None:
        """Return the index of the first run with an error; None if there is none."""
        last_output = -1
        if self.dialect is not None and self.dialect.forgives_empty_errors:
            last_output = max((index for index, run in enumerate(self.runs) if run.chunk.output), default=-1)
        for index, run in enumerate(self.runs):
            fault = run.chunk.fault
            if fault is not None and (fault != ReportedError(None, None) or index > last_output):
                return index
        return None

    def item(self, number: int) -> Item:
        """Return an item with its text, read from its bytes."""
        start, end, kind = self.starts[number], self.ends[number], self.kinds[number]
        raw, type = self.data[start:end], ""
        if number in self.fields:
            type, text = self.fields[number]
        elif kind == EVENT:
            type, text = fields(self.framing, raw, self.message_coding)
        elif kind == COMMENT:
            text = raw[1:].removeprefix(b" ").rstrip(b"\r\n").decode("utf-8", "replace")
        elif kind == BODY:
            text = raw.decode("utf-8-sig", "replace") if encoding.is_utf8(raw) else ""
        else:
            text = raw.decode("utf-8", "replace")
        at_ns, read, id, end = self.at_ns[number], self.reads[number], self.ids.get(number, ""), self.whole_ends[number]
        sender = "client" if number in self.sent else "upstream"
        return Item(number, KINDS[kind], at_ns, read, type, id, text, start, end, sender)

    def items(self) -> list[Item]:
        return list(map(self.item, range(len(self.kinds))))

    def chunk(self, number: int) -> Chunk:
        index = bisect_right(self._first_chunks, number) - 1
        return self.runs[index].chunk_of(number - self._first_chunks[index])

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
        open_changes, turn_spans = [0] * (len(self.at_ns) + 1), list[tuple[int, int]]()
        for turn in self.turns:
            asked_ns = self.asked_ns(turn)
            if asked_ns is None:
                continue
            ended_ns = None if turn.last is None else self.at_ns[turn.last]
            turn_spans.append((asked_ns, max(asked_ns, latest_ns if ended_ns is None else ended_ns)))
            open_changes[turn.first] += 1
            open_changes[-1 if turn.last is None else turn.last + 1] -= 1
        spans = union(turn_spans)
        # The clock's time at the start of each span: the sum of the spans in front of it.
        offsets = list(accumulate((end - start for start, end in spans), initial=0))
        times: list[int | None] = []
        for at_ns, open_turns in zip(self.at_ns, accumulate(open_changes), strict=False):
            index = bisect_right(spans, at_ns, key=itemgetter(0)) - 1 if open_turns and at_ns is not None else -1
            if index < 0 or at_ns is None:
                times.append(None)
            else:
                start, end = spans[index]
                times.append(offsets[index] + min(at_ns, end) - start)
        return times

    def asked_ns(self, turn: ResponseTurn) -> int | None:
        """Return the start of a turn's clock; None if it is unknown, or if the turn generates nothing."""
        if not turn.generates or turn.start_ns is not None:
            return turn.start_ns if turn.generates else None
        return None if turn.request is None else self.at_ns[turn.request]

    def turn_of(self, item: int) -> int:
        """Return the number of an item's response; 0 if there is only one."""
        return max(bisect_right(self.turns, item, key=lambda turn: turn.first) - 1, 0)

    @functools.cached_property
    def _first_chunks(self) -> list[int]:
        """The number of each run's first chunk."""
        return list(accumulate(map(len, self.runs), initial=0))

    def chunks(self) -> Iterator[TimedChunk]:
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
    type_and_data: tuple[str, str] = _RECORDS.get(framing, sse).fields(raw)
    return type_and_data


def decode(exchange: Exchange, reads: Sequence[Read], body: bytes, clock: Clock = THREAD) -> Decoded:
    """Decode a body. `reads` may cover less or more than the body: an item without a read has no timestamp.

    A body that takes more than its `Allowance` is decoded up to there, and flagged `decode_limit`.
    """
    columns = Reads.of(reads)
    if exchange.framing == "websocket":
        return _decode_websocket(exchange, columns, body, clock)
    span_ends, span_reads = encoding.spans(columns.start, columns.size, len(body))
    plain, is_miscoded = encoding.detect_and_decode(exchange.coding, body, span_ends)
    decoded = Decoded(plain.data, framing_of(exchange, plain.data), whole=plain.flag is None)
    decoded.flush_count = plain.flush_count
    if plain.flag is not None:
        decoded.flags.add(plain.flag)
    if is_miscoded:
        decoded.flags.add("wrong_coding")
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
    _set_times(decoded, columns, plain.ends, span_reads, is_identity=plain.ends is span_ends)
    decoded.declared, decoded.is_recognised = reader.declared, reader.is_certain
    path_api = api_asked(exchange)
    if decoded.is_session:
        _settle_turns(decoded, exchange)
    decoded.api = _api(decoded, path_api)
    is_declared = decoded.declared is not None and decoded.declared.has_turns
    # A session may have told nothing yet.
    decoded.is_session |= decoded.stream and decoded.api is None and (is_declared or path_api in registry.SESSION_APIS)
    if decoded.api == "unknown" and path_api is None:  # its events may have any format
        decoded.flags.discard("malformed")
        decoded.misfit = None
    if exchange.gap_bytes:  # a missing part leaves the rest of a line
        decoded.remark = decoded.misfit = None
    return decoded


def _settle_turns(decoded: Decoded, exchange: Exchange) -> None:
    """Set the turns of a hosted agent's session."""
    decoded.turns, decoded.drafts = session_streams.settle(decoded.runs, exchange)
    if len(decoded.drafts) == MOST_TURNS:
        decoded.flags.add("decode_limit")
        decoded.whole = False


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
    is_array_path = _ARRAY_PATH.search(exchange.path) is not None
    if json_array.looks_like(data) and (is_array_path or _is_streamed_array(data)):
        return "json-array"
    if typed in (None, "sse") and ndjson.looks_like(data):
        return "ndjson"
    if (typed == "ndjson" and ndjson.is_document(data)) or (typed == "sse" and _is_whole_answer(data)):
        return "json"
    return typed or ("json-array" if is_array_path and not data else "json")


def _is_streamed_array(data: bytes) -> bool:
    # A first element of over 1 MiB is of an answer that is not streamed; looking further would decode all of it twice.
    element = next(json_array.records(data[: 1 << 20]), None)
    return element is not None and payloads.read(element.data).api == "gemini"


def _is_whole_answer(data: bytes) -> bool:
    if not ndjson.is_object(data):
        return False
    chunk = payloads.read(data.decode("utf-8-sig", "replace"))
    return chunk.fault is None and bool(chunk.pieces) and all(piece.finish_reason for piece in chunk.pieces)


def _decode_records(decoded: Decoded, reader: PayloadReader, allowance: Allowance) -> None:
    """Decode a stream of records that are no server-sent events; a record is an event with one payload."""
    covered = 0
    for record in _RECORDS[decoded.framing].records(decoded.data):
        allowance.take()
        if 2 * len(decoded.kinds) >= MAX_ITEMS:
            raise TooMuchError
        item, covered = len(decoded.kinds), record.end
        decoded.kinds.append(EVENT)
        decoded.starts.append(record.start)
        decoded.ends.append(record.end)
        chunk = payloads.MALFORMED if record.broken else payloads.read(record.data, record.type, reader)
        if chunk is payloads.MALFORMED and decoded.framing == "ndjson":
            decoded.note(record.data)
        _add(decoded, chunk, item)
    decoded.is_cut = decoded.framing == "aws-eventstream" and covered < len(decoded.data)


def _add(decoded: Decoded, chunk: Chunk, item: int) -> None:
    """Add the payload of an item. Raises `TooMuchError` if it is more than is parsed."""
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
    call_type = rpc.message_type(exchange.content_type)
    is_json = call_type is not None and call_type.is_json
    decoded.message_coding = rpc.message_coding(exchange, decoded.framing)
    decoded.status = rpc.status_around(exchange, decoded.framing, is_empty=not decoded.data)
    inflater, covered = _Inflater(decoded), 0
    for message in length_prefixed.messages(decoded.data, decoded.framing):
        allowance.take()
        if 2 * len(decoded.kinds) >= MAX_ITEMS:
            raise TooMuchError
        item, covered = len(decoded.kinds), message.end
        decoded.kinds.append(EVENT)
        decoded.starts.append(message.start)
        decoded.ends.append(message.end)
        payload = inflater.payload(message) if is_json or message.is_last else None
        if message.is_last:
            decoded.end_item = item
            if payload is None:  # it cannot be decompressed
                decoded.whole = False
                continue
            decoded.status = rpc.status_in(payload, decoded.framing)
            if decoded.status is not None and decoded.status.error is not None:
                decoded.add(Chunk("", fault=decoded.status.error), item)
        elif payload is None:
            decoded.add(Chunk(""), item)
        else:
            _add(decoded, payloads.read(payload.decode("utf-8", "replace"), reader=reader), item)
    if covered < len(decoded.data):
        # The status of gRPC comes in trailers, behind the body: no message of the body is its last one.
        if decoded.framing != "grpc" and decoded.status is not None:
            decoded.flags.add("surplus_bytes")
        else:
            decoded.is_cut = True


class _Inflater:
    """Decompresses messages of a body, within the limit of all bytes decoded of one."""

    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        self._allowed_bytes = encoding.MAX_DECODED

    def payload(self, message: length_prefixed.Message) -> bytes | None:
        """Return the payload of a message, or None, with a flag, if its coding cannot be decoded."""
        payload, coding = self._decoded.data[message.payload], self._decoded.message_coding
        if not message.flags & length_prefixed.COMPRESSED:
            return payload
        plain = encoding.plain(coding, payload, (len(payload),))
        self._allowed_bytes -= len(plain.data)
        if plain.flag == "decode_limit" or self._allowed_bytes < 0:
            raise TooMuchError
        if plain.flag is not None or encoding.is_identity(coding):
            self._decoded.flags.add("undecoded")
            return None
        return plain.data


def _decode_websocket(exchange: Exchange, reads: Reads, body: bytes, clock: Clock) -> Decoded:
    """Decode both directions of a WebSocket, their messages in the order in which they were completed."""
    # Few tapes have any: wsproto is loaded for the first one.
    from wiretape.recorder.decode.websocket import read_conversation

    messages = read_conversation(exchange, reads, body, MAX_ITEMS, clock)
    decoded = Decoded(
        bytes(messages.data),
        "websocket",
        whole=messages.is_whole,
        kinds=bytearray(EVENT if kind in ("text", "binary") else KINDS.index(kind) for kind in messages.kinds),
        starts=messages.starts,
        ends=messages.ends,
        at_ns=messages.at_ns,
        reads=messages.reads,
        api=messages.api,
        sent=messages.sent,
        turns=messages.turns,
        drafts=messages.drafts,
        audio=messages.audio,
        close=messages.close,
        end_item=messages.end_item,
    )
    for chunk, item in messages.chunks:
        decoded.add(chunk, item)
    decoded.settle()
    if messages.has_fault:
        decoded.flags.add("malformed")
    if not messages.is_whole:
        decoded.flags.add("decode_limit")
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
    decoded: Decoded, reads: Reads, span_ends: Sequence[int], span_reads: Sequence[int], *, is_identity: bool
) -> None:
    """Set the columns that come from the reads; `span_reads` has the read of each span, -1 where there is none."""
    # With each event in a read of its own, the columns are those of the reads.
    if is_identity and decoded.ends == span_ends:
        item_reads = span_reads
    else:
        padded = [*span_reads, -1]
        # Most events end where a read does: only the others are searched for. Of equal ends, the first one counts.
        span_of = dict(zip(reversed(span_ends), range(len(span_ends) - 1, -1, -1), strict=True))
        spans = zip(map(span_of.get, decoded.ends), decoded.ends, strict=True)
        item_reads = [padded[bisect_left(span_ends, end) if span is None else span] for span, end in spans]
    decoded.at_ns, decoded.reads = _of_reads(reads.at_ns, item_reads), _of_reads(reads.seq, item_reads)
    decoded.read_ends, decoded.read_at_ns = span_ends, _of_reads(reads.at_ns, span_reads)


def _of_reads(column: Sequence[int], indexes: Sequence[int]) -> Sequence[int | None]:
    """Return the values of a column of the reads at some indexes, None at -1."""
    if indexes == range(len(column)):
        return list(column)
    values: list[int | None] = [*column, None]
    return [*map(values.__getitem__, indexes)]


def _api(decoded: Decoded, path_api: str | None) -> str | None:
    """Return the API of a body whose path names `path_api`, or None; "unknown" for a stream of no known dialect."""
    # Data that gateways put before an answer may look like another API's: the output decides.
    claims = [run.chunk for run in decoded.runs if run.chunk.api]
    claimed = next((chunk.api for chunk in claims if chunk.output), claims[0].api if claims else None)
    # Usage alone is no chat: other answers report it likewise.
    is_named = claimed not in (chat.API, cohere.API) or any(run.chunk.pieces for run in decoded.runs)
    if not decoded.stream:
        return claimed if is_named else None
    if claimed is not None:
        is_foreign = any(run.chunk.counts and not run.chunk.api for run in decoded.runs)
        return claimed if is_named or ((decoded.done or path_api is not None) and not is_foreign) else "unknown"
    if decoded.flags & {"malformed", "undecoded"} or any(run.chunk.counts for run in decoded.runs):
        return "unknown"
    # Unless the path names another API, [DONE] alone ends an answer of chat.
    return (path_api if path_api in registry.BY_API else chat.API) if decoded.done else None


class _StreamDecoder:
    """Fills a `Decoded` from its data: standard events first, then the data between them."""

    def __init__(self, decoded: Decoded, reader: PayloadReader, allowance: Allowance) -> None:
        self._decoded = decoded
        self._allowance = allowance
        self._data = decoded.data
        self._reader = reader
        self._cursor = sse.EventCursor(self._data)
        self._covered = self._cursor.at
        """The offset up to which all bytes are in items."""
        self._templates = Templates(reader)
        self._blank = _CRLF if b"\r" in self._data else _LF
        self._count = 0
        """Items and payloads, which `MAX_ITEMS` limits together."""

    def run(self) -> None:
        """Decode the data. Raises `TooMuchError`, with all before that in place."""
        cursor, size = self._cursor, len(self._data)
        while cursor.at < size:
            self._allowance.take()
            if cursor.in_block or cursor.id or not self._take_repeated():
                item = cursor.step()
                if item is None:
                    continue
                if item.start > self._covered:
                    self._take_unframed(item.start)
                self._covered = max(self._covered, item.end)
                if isinstance(item, sse.Event):
                    self._take_event(item)
                else:
                    self._add_item(COMMENT, item.start, item.end)
        is_open, tail = cursor.in_block, cursor.finish()
        self._take_unframed(tail.start if tail else size)
        is_readable = tail is not None and self._take_tail(tail)
        self._decoded.is_cut = is_open and not is_readable
        if cursor.has_error:
            self._take_error_lines()

    def _take_repeated(self) -> bool:
        """Decode the following events whose payloads repeat an earlier one; return True if there are any."""
        start = self._cursor.at
        repeated = self._templates.find(self._data, start, self._blank)
        if repeated is None:
            return False
        template, texts, sizes = repeated
        self._take_unframed(start)
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

    def _take_event(self, event: sse.Event) -> None:
        item = self._add_item(EVENT, event.start, event.end)
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
            # Its payload may stand on the lines below, without a prefix.
            chunks = self._repaired(event) if b"{" in self._data[event.start : event.end] else []
            for repaired in [payloads.EMPTY] if not chunks or payloads.MALFORMED in chunks else chunks:
                self._add(repaired, item)
        elif chunk is payloads.DONE or chunk is payloads.UNREAD:
            self._add(chunk, item)
        else:
            self._decoded.add(chunk, item)
            self._count += 1
            self._templates.learn(event, self._data[event.start : event.end], chunk)

    def _add_item(self, kind: int, start: int, end: int) -> int:
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
        _add(self._decoded, chunk, item)

    def _take_tail(self, tail: sse.Event) -> bool:
        """Decode the event that the standard discards, and return True if it can be read: then all of it was sent.

        If not, it is where the stream was cut.
        """
        # Gemini ends streams without the last blank line (gemini-cli#29059); openai-node reads such an event as well.
        unreadable = (payloads.MALFORMED, payloads.EMPTY)
        chunks = [chunk for chunk in self._repaired(tail) if not any(chunk is marker for marker in unreadable)]
        if not chunks:
            self._decoded.note(tail.data)
            return False
        self._decoded.flags.add("unterminated")
        item = self._add_item(RECORD, tail.start, tail.end)
        self._decoded.fields[item] = tail.type, tail.data
        if tail.id:
            self._decoded.ids[item] = tail.id
        for chunk in chunks:
            self._add(chunk, item)
        return True

    def _repaired(self, event: sse.Event) -> list[Chunk]:
        block = self._data[event.start : event.end].decode("utf-8", "replace")
        repaired, flags = payloads.repair(block, event.type, self._reader)
        self._decoded.flags.update(flags)
        return repaired

    def _take_unframed(self, end: int) -> None:
        """Decode the payloads outside of any event, up to `end`."""
        start = self._covered
        if not self._data[start:end].strip():
            return
        if self._data.find(b"\n", start, end) >= 0 or end == len(self._data):
            self._decoded.remark = remarks.around_fields(self._data[start:end]) or self._decoded.remark
        # Escaped, not replaced: the length of each character in bytes must not be lost.
        region = self._data[start:end].decode("utf-8", "surrogateescape")
        region_offset = 0
        for chunk, stop in payloads.unframed(region, self._reader):
            text = region[region_offset:stop]
            begin, start = start, start + len(text.encode("utf-8", "surrogateescape"))
            region_offset = stop
            if chunk is payloads.UNREAD:
                raise TooMuchError
            if chunk is payloads.DONE or chunk.fault is not None or chunk.api:
                self._decoded.flags.add("unframed")
                self._add(chunk, self._add_item(RECORD, begin + len(text) - len(text.lstrip()), start))

    def _take_error_lines(self) -> None:
        decoded = self._decoded
        for line in _ERROR_LINE.finditer(self._data):
            if line[1].strip():
                text = line[1].decode("utf-8", "replace")
                item = self._add_item(RECORD, line.start(), min(line.end() + 1, len(self._data)))
                decoded.fields[item] = "error", text.strip()
                self._add(Chunk("", fault=payloads.error_field(text)), item)
                decoded.flags.add("error_field")
        if "error_field" not in decoded.flags:
            return
        # These lines were found after all events: the items are numbered again in the order of their completion.
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
