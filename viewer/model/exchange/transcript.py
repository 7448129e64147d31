"""Pure: what an exchange said, event by event: where each text stood after each event, for any place of a playhead.

Texts only ever grow, so each is kept whole, with the length that it had after each event that added to it: going to
any place, forwards or backwards, is a bisection and replays nothing. Columns are arrays, because a stream may have a
hundred thousand events. How a body is decoded is `recorder.decode.derive`'s, which tool call a piece belongs to
`recorder.decode.assembly`'s; when an event is due on a screen `playback`'s.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from recorder.decode import chunks
from recorder.decode.assembly import Call, Calls
from recorder.decode.chat import Chunk, Piece, ToolPiece
from recorder.decode.decoder import BODY, COMMENT, Decoded, Run
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
    the tape (see `come_by`). `reads` is the seq of the read that completed it, `starts` and `ends` are
    its bytes in `data`, the body without its content coding, and `kinds` an index into `KINDS`.
    """

    def __init__(self, decoded: Decoded) -> None:
        self.data = decoded.data
        self.timed = bytearray(at is not None for at in decoded.at_ns)
        last = 0
        self.at = array("q", (last := last if at is None else at for at in decoded.at_ns))
        self.reads = array("q", (UNKNOWN if read is None else read for read in decoded.reads))
        self.starts, self.ends = array("q", decoded.starts), array("q", decoded.ends)
        self.kinds = bytearray((_NO_CHUNK,)) * len(self.at)
        self.voices: list[Voice] = []
        self._saying = _Saying()
        self._tracks: list[Track] = self._saying.tracks
        self._first = array("q", (UNKNOWN,)) * len(self.at)
        self._others: dict[int, list[int]] = {}
        for event, runs in groupby(decoded.runs, key=lambda run: run.item):
            self._add(event, list(runs))
        event = -1
        while (event := self.kinds.find(_NO_CHUNK, event + 1)) >= 0:
            self.kinds[event] = _CODES[_kind_without_chunk(decoded, event)]
        self._settle()

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

    def _add(self, event: int, runs: Sequence[Run]) -> None:
        """Add the chunks that an event holds, or the one run that begins with it."""
        run = runs[0]
        kind = min((_kind_of(one.chunk) for one in runs), key=_TELLING.index)
        self.kinds[run.items] = bytes((_CODES[kind],)) * len(run)
        if len(run) == 1:
            self._say(event, [piece for one in runs for piece in one.chunk_of(0).pieces])
            return
        # All chunks of a run that add to the same text as the first do so at once.
        is_one_text = run.is_one_text
        for place in range(1 if is_one_text else len(run)):
            self._say(event + place, run.chunk_of(place).pieces)
        if is_one_text:
            later = range(event + 1, event + len(run))
            self._tracks[self._first[event]].extend(later, run.texts[1:])
            self._first[event + 1 : event + len(run)] = array("q", (self._first[event],)) * len(later)

    def _say(self, event: int, pieces: Sequence[Piece]) -> None:
        said = [place for piece in pieces for place in self._saying.say(event, piece)]
        self._first[event] = said[0] if said else UNKNOWN
        if len(said) > 1 and (others := [place for place in dict.fromkeys(said) if place != said[0]]):
            self._others[event] = others


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


def _kind_without_chunk(decoded: Decoded, event: int) -> str:
    if decoded.kinds[event] in (COMMENT, BODY):
        return "comment" if decoded.kinds[event] == COMMENT else "other"
    item = decoded.item(event)
    read = chunks.read(item.data, item.type)
    if read is chunks.DONE:
        return "done"
    return "malformed" if read is chunks.MALFORMED else "other"


_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
_NO_CHUNK: Final = 255
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
