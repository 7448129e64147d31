"""Pure: what an exchange said, event by event: where each text stood after each event, for any place of a playhead.

Texts only ever grow, so each is kept whole, with the length that it had after each event that added to it: going to
any place, forwards or backwards, is a bisection and replays nothing. Columns are arrays, because a stream may have a
hundred thousand events. How a body is decoded is `recorder.decode.derive`'s, which tool call a piece belongs to
`recorder.decode.assembly`'s; when an event is due on a screen `playback`'s.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from recorder.decode import chunks
from recorder.decode.assembly import Call, Calls
from recorder.decode.batch import Events, Run
from recorder.decode.chat import Chunk, Piece, ToolPiece
from recorder.decode.derive import Decoded
from recorder.decode.outcome import TimedChunk, TimedItem
from recorder.decode.templates import filler
from viewer.model.exchange.tracks import ToolCall, Track, Voice

KINDS: Final = (
    "role", "reasoning", "content", "tool", "refusal", "finish", "usage", "error", "comment", "done", "malformed",
    "other",
)  # fmt: skip
"""What an event is, for people: of all that it carries, the most telling."""

OUTPUT: Final = frozenset({"reasoning", "content", "tool", "refusal"})
"""The kinds that add to the answer."""

UNKNOWN: Final = -1
"""Stands in the integer columns where nothing is known."""


class Transcript:
    """The events of an exchange in columns, and its texts.

    `at` holds the instant of each event in ns since T0, never falling: that of the event before where its own is not on
    the tape (`timed` tells; see `come_by`). `reads` is the seq of the read that completed it, `starts` and `ends` are
    its bytes in `data`, the body without its content coding, and `kinds` an index into `KINDS`.
    """

    def __init__(self, decoded: Decoded) -> None:
        self.data = decoded.data
        self.at = array("q")
        self.timed = bytearray()
        self.reads = array("q")
        self.starts = array("q")
        self.ends = array("q")
        self.kinds = bytearray()
        self.voices: list[Voice] = []
        self._saying = _Saying()
        self._tracks: list[Track] = self._saying.tracks
        self._first = array("q")
        self._others: dict[int, list[int]] = {}
        chunks_of: dict[int, list[TimedChunk]] = {}
        for timed in decoded.chunks:
            chunks_of.setdefault(timed.item, []).append(timed)
        for item in decoded.items:
            self._add(item, chunks_of.get(item.seq, []))
        self._settle()

    @classmethod
    def of_events(cls, events: Events) -> "Transcript":
        """Make the one that decoding the same body in full would make; for a long one in a fraction of the time."""
        made = cls(Decoded(b"", True))
        made._saying = _Saying()
        made._tracks = made._saying.tracks
        made._take(events)
        made._settle()
        return made

    @classmethod
    def of_texts(cls, texts: Mapping[str, str], calls: Sequence[tuple[str, str]] = ()) -> "Transcript":
        """Make one without events, but with texts (content, reasoning, refusal, tool calls) that came at once."""
        made = cls(Decoded(b"", True))
        tools = tuple(ToolPiece(index, "", name, arguments) for index, (name, arguments) in enumerate(calls))
        saying = _Saying()
        content, reasoning, refusal = (texts.get(name, "") for name in ("content", "reasoning", "refusal"))
        saying.say(0, Piece(0, content, reasoning, refusal, tools, None))
        made.voices = list(saying.voices.values())
        return made

    def come_by(self, at_ns: int) -> None:
        """Let everything have come by then, if the instant of nothing is known: as with an answer that is no stream."""
        if not any(self.timed):
            self.at = array("q", (at_ns,)) * len(self.at)

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.at)

    def kind(self, event: int) -> str:
        """Give what an event is: one of `KINDS`."""
        return KINDS[self.kinds[event]]

    def gap_ns(self, event: int) -> int | None:
        """Give the time since the event before, in ns; None for the first, and where an instant is not known."""
        known = event > 0 and self.timed[event] and self.timed[event - 1]
        return self.at[event] - self.at[event - 1] if known else None

    def shares_read(self, event: int) -> bool:
        """Say whether the same read brought the event before, so that the time between them is not known."""
        return event > 0 and self.reads[event] != UNKNOWN and self.reads[event] == self.reads[event - 1]

    def bytes(self, event: int) -> bytes:
        """Give the bytes of an event."""
        return self.data[self.starts[event] : self.ends[event]]

    def text(self, event: int) -> str:
        """Give what an event added to the answer, whatever it is; "" if nothing."""
        return "".join(track.of(event) for track in self.tracks(event))

    def tracks(self, event: int) -> list[Track]:
        """Give the texts that an event added to."""
        places = [self._first[event], *self._others.get(event, ())]
        return [self._tracks[place] for place in places if place != UNKNOWN]

    def position(self, at_ns: int) -> int:
        """Give how many events had come at an instant."""
        return bisect_right(self.at, at_ns)

    def _settle(self) -> None:
        """Everything has been said: put the texts together."""
        self.voices = sorted(self._saying.voices.values(), key=lambda voice: voice.index)
        for track in self._tracks:
            _ = track.text
        del self._saying

    def _take(self, events: Events) -> None:
        count = len(events.ends)
        self.data = events.data
        # An event ends with the CR of its blank line, and the next begins behind that line; a comment, with its own.
        self.starts, self.ends = array("q", events.starts), array("q", events.ends)
        self.kinds = bytearray((_CODES["done"],)) * count
        for place in events.comments:
            self.kinds[place] = _CODES["comment"]
            self.ends[place] -= len(events.line_end)
        self.timed, self.at = _instants(events.at_ns)
        self.reads = array("q", (UNKNOWN if read is None else read for read in events.reads))
        self._first = array("q", (UNKNOWN,)) * count
        for run in events.runs:
            self._run(run)

    def _run(self, run: Run) -> None:
        """Say what the chunks of a run say: the first as any other, the rest at once if they add to the same text."""
        first, size = run.items[0], len(run.texts)
        self.kinds[first : first + size] = bytes((_CODES[_kind_of(run.chunk)],)) * size
        if run.part is None:
            self._say(first, run.chunk.pieces)
            return
        fill, single = filler(run.chunk, run.part), _adds_to_one(run.chunk.pieces[0], run.part)
        spoken = run.texts[:1] if single else run.texts
        for event, text in enumerate(spoken, first):
            self._say(event, fill(text).pieces)
        if size > len(spoken):
            place = self._first[first]
            self._tracks[place].extend(range(first + 1, first + size), run.texts[1:])
            self._first[first + 1 : first + size] = array("q", (place,)) * (size - 1)

    def _say(self, event: int, pieces: Sequence[Piece]) -> None:
        said = [place for piece in pieces for place in self._saying.say(event, piece)]
        self._first[event] = said[0] if said else UNKNOWN
        if len(said) > 1 and (others := [place for place in dict.fromkeys(said) if place != said[0]]):
            self._others[event] = others

    def _add(self, item: TimedItem, timed: Sequence[TimedChunk]) -> None:
        event = len(self.at)
        self.at.append(item.at_ns if item.at_ns is not None else (self.at[-1] if event else 0))
        self.timed.append(item.at_ns is not None)
        self.reads.append(UNKNOWN if item.read is None else item.read)
        self.starts.append(item.start)
        self.ends.append(item.end)
        self.kinds.append(_CODES[_kind(item, timed)])
        self._first.append(UNKNOWN)
        self._say(event, [piece for one in timed for piece in one.chunk.pieces])


class _Saying:
    """Hands the pieces of events to the texts that they belong to; each text has a place in `tracks`."""

    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.voices: dict[int, Voice] = {}
        self._places: dict[int, int] = {}
        self._calls: dict[int, Calls] = {}
        self._slots: dict[int, dict[int, int]] = {}
        self._known: list[Call] = []

    def say(self, event: int, piece: Piece) -> list[int]:
        """Add what a piece says; give the places of the texts it added to."""
        voice = self.voices.get(piece.index)
        if voice is None:
            voice = self.voices[piece.index] = Voice(piece.index)
            self._calls[piece.index], self._slots[piece.index] = Calls(), {}
        parts = ((voice.reasoning, piece.reasoning), (voice.content, piece.content), (voice.refusal, piece.refusal))
        said = [self._add(event, track, text) for track, text in parts if text]
        return said + (self._call(event, voice, piece) if piece.tools else [])

    def _add(self, event: int, track: Track, text: str) -> int:
        track.add(event, text)
        place = self._places.get(id(track))
        if place is None:
            place = self._places[id(track)] = len(self.tracks)
            self.tracks.append(track)
        return place

    def _call(self, event: int, voice: Voice, piece: Piece) -> list[int]:
        slots = self._slots[voice.index]
        said = []
        for call, tool in zip(self._calls[voice.index].add(piece.tools), piece.tools, strict=True):
            slot = slots.get(id(call))
            if slot is None:
                slot = slots[id(call)] = len(slots)
                self._known.append(call)  # so that no other call gets its id
                voice.calls.append(ToolCall())
            mine = voice.calls[slot]
            parts = ((mine.name, call.name[len(mine.name) :]), (mine.arguments, tool.arguments))
            said += [self._add(event, track, text) for track, text in parts if text]
        return said


def _instants(at_ns: Sequence[int | None]) -> "tuple[bytearray, array[int]]":
    """Give which of the instants are known, and all of them: of one that is not known, that of the one before."""
    last = 0
    return bytearray(at is not None for at in at_ns), array("q", (last := last if at is None else at for at in at_ns))


def _adds_to_one(piece: Piece, part: str) -> bool:
    """Say whether pieces like this one but for their text add to the same text as the one before."""
    if part == "arguments":
        return len(piece.tools) == 1 and not piece.tools[0].name
    return not piece.tools


def _kind(item: TimedItem, timed: Sequence[TimedChunk]) -> str:
    if item.kind == "comment":
        return "comment"
    if timed:
        return min((_kind_of(one.chunk) for one in timed), key=_TELLING.index)
    if item.kind == "body":
        return "other"
    read = chunks.read(item.data, item.type)
    if read is chunks.DONE:
        return "done"
    return "malformed" if read is chunks.MALFORMED else "other"


_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
_TELLING: Final = (
    "error", "tool", "content", "reasoning", "refusal", "finish", "usage", "role", "done", "malformed", "comment",
    "other",
)  # fmt: skip


def _kind_of(chunk: Chunk) -> str:
    if chunk.fault is not None:
        return "error"
    if not chunk.dialect:
        return "other"
    if chunk.tool:
        return "tool"
    if chunk.content or chunk.reasoning:
        return _kind_of_text(chunk)
    if any(piece.finish_reason for piece in chunk.pieces):
        return "finish"
    return "usage" if chunk.usage else "role"


def _kind_of_text(chunk: Chunk) -> str:
    refused = all(piece.refusal and not piece.content for piece in chunk.pieces)
    if refused:
        return "refusal"
    return "content" if chunk.content else "reasoning"
