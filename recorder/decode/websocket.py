"""Both directions of a WebSocket as one conversation: its messages in time, and the requested responses.

`framings.websocket` reads the bytes of each message. Messages of the Responses API are read as the events of a stream
are, those of Realtime and of Gemini Live by readers of their own; those of any other are left as they came.
"""

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import msgspec

from wiretape.recorder.clock import THREAD, Clock
from wiretape.recorder.decode import encoding, payloads, usage_fields
from wiretape.recorder.decode.allowance import Allowance, may_be_parsed
from wiretape.recorder.decode.audio import AudioPart
from wiretape.recorder.decode.dialect import Chunk
from wiretape.recorder.decode.dialects import gemini_live, openai_realtime, responses
from wiretape.recorder.decode.dialects.gemini_live import LiveReader
from wiretape.recorder.decode.dialects.openai_realtime import RealtimeReader
from wiretape.recorder.decode.exchange import CloseFrame, Exchange, Reads, Sent
from wiretape.recorder.decode.framings import websocket
from wiretape.recorder.decode.framings.websocket import Kind, WebSocketMessage
from wiretape.recorder.decode.operation import GPT_LIVE, api_asked
from wiretape.recorder.decode.payloads import PayloadReader
from wiretape.recorder.decode.turns import ResponseTurn, TurnDraft
from wiretape.recorder.decode.values import JsonObject


class TimedMessage(NamedTuple):
    """A message, and the read that completed it; `order` is its timestamp in ns, or the latest one before it."""

    message: WebSocketMessage
    order: int
    at_ns: int | None
    read: int | None
    is_client: bool


def read_conversation(exchange: Exchange, reads: Reads, body: bytes, limit: int, clock: Clock) -> "Conversation":
    """Read both directions of a WebSocket: up to `limit` items and chunks, within its `Allowance`."""
    conversation = Conversation(api_asked(exchange))
    for timed in messages(exchange, reads, body, clock):
        if len(conversation.kinds) + len(conversation.chunks) >= limit or timed.message.kind == "limit":
            conversation.is_whole = False
            break
        conversation.take(timed)
    conversation.finish()
    return conversation


def messages(exchange: Exchange, reads: Reads, body: bytes, clock: Clock = THREAD) -> Iterator[TimedMessage]:
    """Yield the messages of both directions in the order in which they were completed.

    One of the kind `limit` ends a direction whose frames are too many, or inflate to too much.
    """
    sent = exchange.sent or Sent(Reads.of(()), b"")
    parse = partial(websocket.messages, extensions=exchange.extensions)
    received = _timed(parse(body, from_client=False, allowance=Allowance(clock)), reads, len(body))
    sent_messages = parse(sent.data, from_client=True, allowance=Allowance(clock))
    requested = _timed(sent_messages, sent.reads, len(sent.data), is_client=True)
    # The client's message comes first of two with one timestamp.
    return heapq.merge(requested, received, key=lambda timed: timed.order)


def _timed(
    messages: Iterator[WebSocketMessage], reads: Reads, size: int, *, is_client: bool = False
) -> Iterator[TimedMessage]:
    ends, places = encoding.spans(reads.start, reads.size, size)
    order = 0
    for message in messages:
        span = bisect_left(ends, message.end)
        place = places[span] if span < len(places) else -1
        at_ns = reads.at_ns[place] if place >= 0 else None
        order = order if at_ns is None else max(order, at_ns)
        yield TimedMessage(message, order, at_ns, reads.seq[place] if place >= 0 else None, is_client)


def is_microphone(api: str | None, message: WebSocketMessage) -> bool:
    """Return True if a client's message brings nothing but the user's voice: it requests no answer."""
    test = _MICROPHONES.get(api or "")
    return test is not None and message.kind in ("text", "binary") and test(message.data)


_MICROPHONES: Final = {
    openai_realtime.API: openai_realtime.is_microphone,
    gemini_live.API: gemini_live.is_microphone,
}


class Conversation:
    """The messages and control frames of both directions, in the order in which they were completed, as columns.

    `data` are their contents, `starts` and `ends` where in it each stands, `at_ns` when it was completed, `reads` by
    which read of the body. `sent` are those of the client, `chunks` the payloads with the numbers of their items,
    `turns` the responses, `drafts` the same with their contents. `end_item`
    is the message that ends a session of GPT-Live. `has_fault`: upstream sent unreadable data; `is_whole`: all data was
    read.
    """

    def __init__(self, api: str | None) -> None:
        self._is_responses = api == responses.API
        make = _READERS.get(api or "")
        self._voice = make() if make else None
        self._drafter = RealtimeReader(errors_end_turns=True)
        self._path_api = api
        self._reader = PayloadReader()
        self._requests: deque[tuple[int, bool]] = deque()
        """The messages that request a response that has not begun, and whether it generates an answer."""
        self._answers = 0
        self._usage: JsonObject = {}
        self.data = bytearray()
        self.kinds: list[Kind] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.at_ns: list[int | None] = []
        self.reads: list[int | None] = []
        self.sent: set[int] = set()
        self.chunks: list[tuple[Chunk, int]] = []
        self.turns: list[ResponseTurn] = []
        self.close: CloseFrame | None = None
        self.end_item: int | None = None
        self.has_fault = False
        self.is_whole = True

    @property
    def api(self) -> str | None:
        """The API that the messages are of, "unknown" if it is none that is decoded; None without an answer."""
        if any(chunk.api for chunk, _ in self.chunks):
            return self._path_api
        has_answer = any(kind in ("text", "binary") and item not in self.sent for item, kind in enumerate(self.kinds))
        return "unknown" if has_answer else None

    def take(self, timed: TimedMessage) -> None:
        """Add a message."""
        message, item = timed.message, len(self.kinds)
        self.kinds.append(message.kind)
        self.starts.append(len(self.data))
        self.data += message.data
        self.ends.append(len(self.data))
        self.at_ns.append(timed.at_ns)
        self.reads.append(None if timed.is_client else timed.read)
        if timed.is_client:
            self.sent.add(item)
        if message.kind == "close" and self.close is None:
            code, _, reason = message.data.decode().partition(" ")
            self.close = CloseFrame(int(code), reason, timed.is_client)
        elif message.kind == "broken" and not timed.is_client:
            self.has_fault = True
        elif message.kind in ("text", "binary") and self._voice is not None:
            voice_chunk = self._voice.take(item, message.data, is_client=timed.is_client)
            if voice_chunk is not None:
                self.chunks.append((self._with_running_usage(voice_chunk), item))
        elif message.kind == "text" and timed.is_client:
            if self._is_responses:
                self._ask(message.data, item)
        elif message.kind == "text":
            text = message.data.decode()
            if self._is_responses:
                self._answer(text, item)
            elif self._path_api == GPT_LIVE and _typed(text).type == "session.closed":
                self.end_item = item

    @property
    def audio(self) -> dict[int, AudioPart]:
        """The audio in messages of both sides, by their items."""
        return self._voice.audio if self._voice is not None else {}

    @property
    def drafts(self) -> list[TurnDraft]:
        """The turns with their contents, in the order in which they began."""
        return sorted((self._voice or self._drafter).turns, key=lambda draft: draft.first)

    def finish(self) -> None:
        """Note that no more messages follow."""
        code = self.close.code if self.close is not None else None
        self._drafter.finish(code)
        if self._voice is None:
            return
        self._voice.finish(code)
        self.turns = [ResponseTurn(draft.start, draft.first, draft.end) for draft in self.drafts]
        if self._voice.fault is not None and all(draft.outcome == "error" for draft in self.drafts):
            fault_item, fault = self._voice.fault
            self.chunks = [
                (replace(chunk, fault=fault) if item == fault_item else chunk, item) for chunk, item in self.chunks
            ]

    def _ask(self, data: bytes, item: int) -> None:
        self._drafter.take(item, data, is_client=True)
        request = _typed(data.decode())
        if request.type == responses.REQUEST:
            self._requests.append((item, request.generate is not False))
            if self._turn() is None:
                self._begin(item)

    def _with_running_usage(self, chunk: Chunk) -> Chunk:
        """Return a chunk whose usage is that of all responses up to it."""
        if not chunk.usage:
            return chunk
        self._usage = usage_fields.summed(self._usage, chunk.usage)
        return replace(chunk, usage=self._usage)

    def _turn(self) -> ResponseTurn | None:
        """Return the current response."""
        return self.turns[-1] if self.turns and self.turns[-1].last is None else None

    def _begin(self, item: int) -> None:
        # Responses come in the order of their requests.
        request, generates = self._requests.popleft() if self._requests else (None, True)
        self._answers += generates
        self.turns.append(ResponseTurn(request, item, generates=generates))
        self._reader = PayloadReader()  # its parts are counted anew

    def _answer(self, text: str, item: int) -> None:
        if self._turn() is None and _typed(text).type == responses.CREATED:
            self._begin(item)
        chunk = payloads.read(text, reader=self._reader)
        if chunk.output:
            self._drafter.note_output(item, "".join([piece.content for piece in chunk.pieces]))
        if chunk.ends or not chunk.output:  # the text of a delta is known: it need not be parsed again
            self._drafter.take(item, text.encode(), is_client=False)
        if chunk is payloads.UNREAD:
            self.is_whole = False
            return
        if chunk is payloads.MALFORMED or chunk is payloads.EMPTY or chunk is payloads.DONE:
            self.has_fault = True
            return
        self.chunks.append((self._as_choice(chunk), item))
        turn = self._turn()
        if turn is not None and (chunk.ends or chunk.fault is not None):
            turn.last = item
            if self._requests:
                self._begin(item + 1)

    def _as_choice(self, chunk: Chunk) -> Chunk:
        """Return a chunk as one of all responses: each is a choice of its own, and usage is a running total."""
        number = self._answers - 1
        chunk = self._with_running_usage(chunk)
        if self.turns and not self.turns[-1].generates:
            return replace(chunk, id="", pieces=(), finals=(), content=False, reasoning=False, tool=False)
        if number <= 0:
            return chunk
        # A finished text is that of its own response: items have the same places in each.
        return replace(
            chunk,
            id="",
            pieces=tuple([replace(piece, index=number) for piece in chunk.pieces]),
            finals=tuple([final._replace(choice=number) for final in chunk.finals]),
        )


_READERS: Final[dict[str, type[RealtimeReader] | type[LiveReader]]] = {
    reader.api: reader for reader in (RealtimeReader, LiveReader)
}
"""The readers of sessions of voice, by the APIs that paths name."""


class _Typed(msgspec.Struct):
    type: str = ""
    generate: object = None


def _typed(text: str) -> _Typed:
    if not may_be_parsed(text):
        return _Typed()
    try:
        return msgspec.json.decode(text, type=_Typed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Typed()
