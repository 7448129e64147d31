"""Pure: the transcript of an exchange: its events in columns, and its texts as they grew.

Texts only ever grow, so each is kept whole, with the length that it had after each event that added to it: going to any
place, forwards or backwards, is a bisection and replays nothing.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, groupby, islice, pairwise
from operator import sub
from typing import Final

from wiretape.recorder.decode import decoder, payloads, turns
from wiretape.recorder.decode.assembly import Calls
from wiretape.recorder.decode.decoder import BODY, COMMENT, Decoded, Framing
from wiretape.recorder.decode.dialect import Chunk, Piece, ToolPiece
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.turns import TurnMeasures
from wiretape.viewer.text import json_spans, sparkline

KINDS: Final = (
    "role", "reasoning", "content", "tool", "refusal", "finish", "usage", "error", "comment", "ping", "done",
    "boundary", "malformed", "other", "sent", "pong", "close",
)  # fmt: skip
"""Kinds of events: the most telling part of each.

A `boundary` begins or ends the answer or a part of it, and adds nothing; `sent` is a message of the client; `other` is
of no meaning that is known here.
"""

OUTPUT: Final = frozenset({"reasoning", "content", "tool", "refusal"})
"""The kinds that add to the answer."""

UNKNOWN: Final = -1
"""Stands in the integer columns where nothing is known."""

_IS_OUTPUT: Final = bytes(kind in OUTPUT for kind in KINDS).ljust(256, b"\0")
_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
_NO_CHUNK: Final = 255
_TELLING: Final = (
    "error", "tool", "content", "reasoning", "refusal", "finish", "usage", "role", "done", "malformed", "comment",
    "ping", "boundary", "other",
)  # fmt: skip
_LOW: Final = "\udc00"


@dataclass(frozen=True, slots=True)
class Delta:
    """The addition of one event to a text: the characters from `start` to `end`."""

    event: int
    start: int
    end: int


class Track:
    """A text that grows: the events that added to it, and how long it was after each of them.

    `number` is its place among the texts of a transcript, UNKNOWN as long as it is empty.
    """

    __slots__ = ("_parts", "_text", "ends", "events", "number")

    def __init__(self) -> None:
        self.events = array("q")
        self.ends = array("q")
        self.number = UNKNOWN
        self._parts: list[str] = []
        self._text: str | None = ""

    def add(self, event: int, text: str) -> None:
        """Append an event's text; an event may add more than once.

        Both halves of a character that is split between events belong to the event that brings the second.
        """
        if _LOW <= text[0] <= "\udfff" and self._parts and "\ud800" <= self._parts[-1][-1:] < _LOW:
            text = (self._parts[-1][-1] + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            self._parts[-1] = self._parts[-1][:-1]
            self.ends[-1] -= 1
        end = len(self) + len(text)
        if self.events and self.events[-1] == event:
            self.ends[-1] = end
        else:
            self.events.append(event)
            self.ends.append(end)
        self._parts.append(text)
        self._text = None

    def extend(self, events: Sequence[int], texts: Sequence[str]) -> None:
        """Add what each of these events brings, in their order; no text is empty or has half of a character."""
        self.ends.extend(islice(accumulate(map(len, texts), initial=len(self)), 1, None))
        self.events.extend(events)
        self._parts += texts
        self._text = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join(self._parts)
            self._parts = [self._text]
        return self._text

    def __len__(self) -> int:
        """Return the length of the whole text, in characters."""
        return self.ends[-1] if self.ends else 0

    def length(self, position: int) -> int:
        at = bisect_left(self.events, position)
        return self.ends[at - 1] if at else 0

    def deltas(self, start: int = 0, end: int | None = None) -> Iterator[Delta]:
        """Yield the deltas that touch the characters from `start` to `end`."""
        at = bisect_right(self.ends, start)
        start_of_delta = self.ends[at - 1] if at else 0
        while at < len(self.ends) and (end is None or start_of_delta < end):
            yield Delta(self.events[at], start_of_delta, self.ends[at])
            start_of_delta = self.ends[at]
            at += 1

    def of(self, event: int) -> str:
        return self.text[self.length(event) : self.length(event + 1)]


@dataclass(slots=True)
class GrowingToolCall:
    """A tool call: its name and arguments as they grow."""

    name: Track = field(default_factory=Track)
    arguments: Track = field(default_factory=Track)


@dataclass(slots=True)
class Voice:
    """One choice of the answer."""

    index: int
    content: Track = field(default_factory=Track)
    reasoning: Track = field(default_factory=Track)
    refusal: Track = field(default_factory=Track)
    calls: list[GrowingToolCall] = field(default_factory=list)

    @property
    def texts(self) -> list[tuple[str, Track]]:
        """Its texts, each with its kind."""
        texts = [("reasoning", self.reasoning), ("content", self.content), ("refusal", self.refusal)]
        return texts + [("tool", track) for call in self.calls for track in (call.name, call.arguments)]


class Transcript:
    """The events of an exchange in columns, and its texts.

    `at` holds the timestamp of each event in ns since T0, never falling: that of the event before where its own is not
    on the tape (`timed` tells; see `come_by`). `reads` is the seq of the read that completed it, `starts` and `ends`
    are its bytes in `data`, the body without its content coding, and `kinds` an index into `KINDS`. `end_event` is the
    event that says that the stream has ended, UNKNOWN if none does. `sent` are the events that a client sent over a
    WebSocket, `audio` those of both sides with audio, and `turns` its turns. `gap_unit_ns` is the unit of the bars of
    its gaps. `is_call`: its events are messages by gRPC or Connect, of which `message_coding` is that of the compressed
    ones.
    """

    def __init__(self, decoded: Decoded) -> None:
        self.data = decoded.data
        self.framing: Framing = decoded.framing
        self.is_call = decoded.is_call
        self.message_coding = decoded.message_coding
        self.end_event = max(
            (item for item in (decoded.done_item, decoded.end_item) if item is not None), default=UNKNOWN
        )
        self.timed = bytearray(at is not None for at in decoded.at_ns)
        latest = 0
        self.at = array("q", (latest := latest if at is None else at for at in decoded.at_ns))
        self.reads = array("q", (UNKNOWN if seq is None else seq for seq in decoded.reads))
        self.sent = frozenset(decoded.sent)
        self.audio = decoded.audio
        self.turns = turns.turn_measures(decoded.drafts, decoded.at_ns)
        self._ended_turns = {
            draft.end: turn for draft, turn in zip(turns.by_start(decoded.drafts), self.turns, strict=True)
        }
        if decoded.turn_measures is not None:  # a turn may have begun, or end, on another stream
            self.turns = [*decoded.turn_measures]
            turn_by_end: dict[int | None, TurnMeasures] = {turn.ended_at_ns: turn for turn in self.turns}
            ends = {end: turn_by_end.get(decoded.at_ns[end]) for end in self._ended_turns if end is not None}
            self._ended_turns = {end: turn for end, turn in ends.items() if turn is not None}
        self._hosted_turns = decoded.turns if decoded.is_session else None
        self.starts, self.ends = array("q", decoded.starts), array("q", decoded.whole_ends)
        self.kinds = bytearray((_NO_CHUNK,)) * len(self.at)
        self._first_track = array("q", (UNKNOWN,)) * len(self.at)
        self._further_tracks: dict[int, list[int]] = {}
        texts = _Texts()
        self._tracks = texts.tracks
        for event, runs in groupby(decoded.runs, key=lambda run: run.item):
            self._add(texts, event, list(runs))
        event = -1
        while (event := self.kinds.find(_NO_CHUNK, event + 1)) >= 0:
            self.kinds[event] = _CODES[_kind_without_chunk(decoded, event)]
        self.voices = sorted(texts.voices.values(), key=lambda voice: voice.index)
        for track in self._tracks:
            _ = track.text  # is put together here, beside the loop, and not when it is first shown
        _ = self.gap_unit_ns  # likewise

    @cached_property
    def gap_unit_ns(self) -> int:
        return sparkline.unit_ns(self._output_gaps)

    @classmethod
    def of_texts(cls, texts: Mapping[str, str], calls: Sequence[tuple[str, str]] = ()) -> "Transcript":
        """Return one without events, but with texts (content, reasoning, refusal, tool calls) that came at once."""
        transcript, all_texts = cls(Decoded(b"", "sse")), _Texts()
        tools = tuple(ToolPiece(index, "", name, arguments) for index, (name, arguments) in enumerate(calls))
        content, reasoning, refusal = (texts.get(name, "") for name in ("content", "reasoning", "refusal"))
        all_texts.add(0, Piece(0, content, reasoning, refusal, tools, None))
        transcript.voices = list(all_texts.voices.values())
        return transcript

    def come_by(self, at_ns: int) -> None:
        """The timestamp of the whole answer, if its parts have none, as without a stream."""
        if not any(self.timed):
            self.at = array("q", (at_ns,)) * len(self.at)

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.at)

    def kind(self, event: int) -> str:
        return KINDS[self.kinds[event]]

    def arrow(self, event: int) -> str:
        """Return the arrow of an event over a WebSocket: to upstream or to the client; "" over one-way transports."""
        return "" if self.framing != "websocket" else "→" if event in self.sent else "←"

    def turn_ended(self, event: int) -> TurnMeasures | None:
        """Return the turn that an event over a WebSocket ended."""
        return self._ended_turns.get(event)

    def is_idle(self, event: int) -> bool:
        """Return True if no turn of a hosted agent ran before an event, so that the time before it is no stall."""
        hosted_turns = self._hosted_turns
        return hosted_turns is not None and not any(
            turn.first < event and (turn.last is None or event <= turn.last) for turn in hosted_turns
        )

    def idle_spans(self, end_ns: int) -> list[tuple[int, int]]:
        """Return the times from T0 to an end in which no turn of a hosted agent ran; none of other streams."""
        if self._hosted_turns is None:
            return []
        busy = turns.union(
            (turn.start_ns or self.at[turn.first], end_ns if turn.last is None else self.at[turn.last])
            for turn in self._hosted_turns
        )
        bounds = [(0, 0), *busy, (end_ns, end_ns)]
        return [(end, start) for (_, end), (start, _) in pairwise(bounds) if end < start]

    def is_idle_at(self, at_ns: int) -> bool:
        return any(start <= at_ns <= end for start, end in self.idle_spans(at_ns))

    def gap_ns(self, event: int) -> int | None:
        """Return the time since the event before, in ns; None for the first, and where a timestamp is not known."""
        is_known = event > 0 and self.timed[event] and self.timed[event - 1]
        return self.at[event] - self.at[event - 1] if is_known else None

    def shares_read(self, event: int) -> bool:
        """Return True if the same read brought the event before, so that the time between them is not known."""
        return event > 0 and self.reads[event] != UNKNOWN and self.reads[event] == self.reads[event - 1]

    def payload(self, event: int) -> bytes:
        """Return the data of an event as bytes; all of it if it holds none."""
        raw = self.bytes(event)
        if self.framing in ("sse", "json"):
            return json_spans.payload(raw.rstrip(b"\r\n"))
        return decoder.fields(self.framing, raw, self.message_coding)[1].encode("utf-8", "replace")

    def bytes(self, event: int) -> bytes:
        return self.data[self.starts[event] : self.ends[event]]

    def fields(self, event: int, most: int) -> tuple[str, str]:
        """Return the type and the data of an event, of its first `most` bytes; all of them if they hold no data."""
        start = self.starts[event]
        raw = self.data[start : min(self.ends[event], start + most)]
        type, data = decoder.fields(self.framing, raw, self.message_coding)
        return type, data or raw.decode("utf-8", "replace").strip()

    def text(self, event: int) -> str:
        """Return an event's addition to the answer, of any kind; "" if nothing."""
        return "".join(track.of(event) for track in self.tracks(event))

    def tracks(self, event: int) -> list[Track]:
        """Return the texts that an event added to."""
        numbers = [self._first_track[event], *self._further_tracks.get(event, ())]
        return [self._tracks[number] for number in numbers if number != UNKNOWN]

    @property
    def outputs(self) -> "array[int]":
        """The events that add to the answer."""
        return array("q", compress(range(len(self)), self.kinds.translate(_IS_OUTPUT)))

    def position(self, at_ns: int) -> int:
        """Return the number of events received at a timestamp."""
        return bisect_right(self.at, at_ns)

    def characters(self, position: int) -> int:
        """Return the length of all texts together after `position` events."""
        return sum(track.length(position) for track in self._tracks)

    def characters_by(self, at_ns: int) -> int:
        """Return the length of all texts together at a timestamp."""
        return self.characters(self.position(at_ns))

    @property
    def _output_gaps(self) -> Iterator[int]:
        at = [self.at[event] for event in self.outputs if self.timed[event]]
        return map(sub, at[1:], at)

    def _add(self, texts: "_Texts", event: int, runs: Sequence[ItemRun]) -> None:
        """Add the chunks that an event holds, or the one run that begins with it."""
        run = runs[0]
        kind = min((_kind_of(item_run.chunk) for item_run in runs), key=_TELLING.index)
        self.kinds[run.items] = bytes((_CODES[kind],)) * len(run)
        if len(run) == 1:
            self._say(texts, event, [piece for item_run in runs for piece in item_run.chunk_of(0).pieces])
            return
        # All chunks of a run that add to the same text as the first do so at once.
        is_one_text = run.is_one_text
        for place in range(1 if is_one_text else len(run)):
            self._say(texts, event + place, run.chunk_of(place).pieces)
        if is_one_text and self._first_track[event] != UNKNOWN:  # a finished text may have replaced these
            later = range(event + 1, event + len(run))
            self._tracks[self._first_track[event]].extend(later, run.texts[1:])
            self._first_track[event + 1 : event + len(run)] = array("q", (self._first_track[event],)) * len(later)

    def _say(self, texts: "_Texts", event: int, pieces: Sequence[Piece]) -> None:
        numbers = list(dict.fromkeys(number for piece in pieces for number in texts.add(event, piece)))
        self._first_track[event] = numbers[0] if numbers else UNKNOWN
        if len(numbers) > 1:
            self._further_tracks[event] = numbers[1:]


class _Texts:
    """Adds the pieces of events to the texts that they belong to."""

    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.voices: dict[int, Voice] = {}
        self._calls: dict[int, tuple[Calls, dict[int, GrowingToolCall]]] = {}

    def add(self, event: int, piece: Piece) -> list[int]:
        """Add a piece's texts; return the numbers of the texts that grew."""
        voice = self.voices.get(piece.index)
        if voice is None:
            voice = self.voices[piece.index] = Voice(piece.index)
            self._calls[piece.index] = Calls(), {}
        parts = ((voice.reasoning, piece.reasoning), (voice.content, piece.content), (voice.refusal, piece.refusal))
        numbers = self._append(event, *parts)
        if piece.tools:
            calls, tool_calls = self._calls[piece.index]
            for call, tool in zip(calls.add(piece.tools), piece.tools, strict=True):
                tool_call = tool_calls.get(id(call))  # `calls` keeps every call, so that no other gets its id
                if tool_call is None:
                    tool_call = tool_calls[id(call)] = GrowingToolCall()
                    voice.calls.append(tool_call)
                name = call.name[len(tool_call.name) :]
                numbers += self._append(event, (tool_call.name, name), (tool_call.arguments, tool.arguments))
        return numbers

    def _append(self, event: int, *parts: tuple[Track, str]) -> list[int]:
        numbers = []
        for track, text in parts:
            if text:
                if track.number == UNKNOWN:
                    track.number = len(self.tracks)
                    self.tracks.append(track)
                track.add(event, text)
                numbers.append(track.number)
        return numbers


def _kind_without_chunk(decoded: Decoded, event: int) -> str:
    if decoded.framing == "websocket":
        kind = decoder.KINDS[decoded.kinds[event]]
        if kind != "event":
            return "malformed" if kind == "broken" else kind
        if event in decoded.sent:
            return "sent"
        is_read = decoded.dialect is not None and payloads.read(decoded.item(event).data) is payloads.MALFORMED
        return "malformed" if is_read else "other"
    if decoded.kinds[event] in (COMMENT, BODY):
        return "comment" if decoded.kinds[event] == COMMENT else "other"
    if decoded.is_call and event == decoded.end_item:
        return "done"
    item = decoded.item(event)
    payload = payloads.read(item.data, item.type)
    if payload is payloads.DONE or payload is payloads.EMPTY:
        return "done" if payload is payloads.DONE else "other"
    # A record without a chunk is broken, even if its data look whole: a checksum may be wrong.
    is_broken = payload is payloads.MALFORMED or decoded.framing != "sse"
    return "malformed" if is_broken and "malformed" in decoded.flags else "other"


def _kind_of(chunk: Chunk) -> str:
    # The most telling part counts: an error that carries a text, too, is an error.
    if chunk.fault is not None:
        return "error"
    if chunk.ping:
        return "ping"
    if not chunk.api:
        return "other"
    if chunk.tool:
        return "tool"
    if chunk.content or chunk.reasoning:
        is_refusal = bool(chunk.pieces) and all(piece.refusal and not piece.content for piece in chunk.pieces)
        return "refusal" if is_refusal else "content" if chunk.content else "reasoning"
    if any(piece.finish_reason for piece in chunk.pieces):
        return "finish"
    if chunk.usage:
        return "usage"
    if chunk.ends:
        return "done"
    return "role" if any(not piece.tools for piece in chunk.pieces) else "boundary"
