"""Pure: the layout of an answer in a pane, for any position of a playhead: texts in rows, each with a heading.

The layout is that of the whole answer, so that nothing moves while it is played: a playhead only decides the shown
part of each text. A tool call is a text like any other.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.transcript import Track, Transcript, Voice
from wiretape.viewer.text.wrap import WrappedText, are_graphemes, grapheme_boundary, grapheme_ends

if TYPE_CHECKING:
    from wiretape.viewer.text.markdown import Line


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """A piece of a line: `said`, not said yet (`ghost`), or a `silence` before the next text, without an event."""

    text: str
    state: Literal["said", "ghost", "silence"]
    event: int | None = None


class AnswerPart:
    """One text of an answer: its kind, its name if it has one, its text, and its layout in the pane.

    `rendered` are lines to show instead of the layout, made for the playhead's position.
    """

    def __init__(self, kind: str, track: Track, voice: Voice, title: str = "", name: Track | None = None) -> None:
        self.kind = kind
        self.track = track
        self.voice = voice
        self.title = title
        self.name = name
        self.folded = False
        self.top = 0
        self.headed = True
        self.lines = WrappedText("", 2)
        self.rendered: list[Line] | None = None
        self._tracks = [track] if name is None else [track, name]
        self._is_value: bool | None = None
        self._inserted_at: list[int] = []
        self._inserted_sizes: list[int] = []
        self._silences: dict[int, int] = {}

    def standing(self, position: int) -> str:
        """Return the completeness of a tool's arguments after `position` events."""
        if self.track.length(position) < len(self.track):
            return "incomplete"
        if self._is_value is None:
            # Read once, and not in each frame: all of the text is there, whatever of it is shown.
            self._is_value = not self.track.text or _is_json(self.track.text)
        return "complete" if self._is_value else "no whole JSON"

    @property
    def began(self) -> int:
        return min((track.events[0] for track in self._tracks if len(track)), default=0)

    def newest(self, position: int) -> int:
        """Return the last event before a position that added to it; -1 if none did."""
        return max(
            track.events[at - 1] if (at := bisect_left(track.events, position)) else -1 for track in self._tracks
        )

    def has_grown(self, position: int, next_position: int) -> bool:
        """Return True if the text is longer at one of two positions than at the other."""
        return any(track.length(position) != track.length(next_position) for track in self._tracks)

    def lay_out(self, width: int, silences: Sequence[tuple[int, str]]) -> None:
        """Lay the text out anew; `silences` are the places before which one is shown, and its words."""
        text = events.without_nul(self.track.text)
        inserted = list(silences)
        most_tabs = 100_000
        if "\t" in text and text.count("\t") <= most_tabs:
            tab_width = 4
            inserted += [(tab.start(), " " * (tab_width - 1)) for tab in re.finditer("\t", text)]
            text = text.replace("\t", " ")
            inserted.sort(key=lambda insertion: insertion[0])  # stable: a silence stands before a tab
        self._silences = {at: len(words) for at, words in silences}
        self._inserted_at, self._inserted_sizes = [at for at, _ in inserted], [0]
        pieces, done = [], 0
        for at, words in inserted:
            pieces += [text[done:at], words]
            self._inserted_sizes.append(self._inserted_sizes[-1] + len(words))
            done = at
        self.lines = WrappedText("".join([*pieces, text[done:]]), width)
        self.lines.more(200)  # more than a screen has; `AnswerLayout.more` wraps the rest

    @property
    def rows(self) -> int:
        """The number of lines found yet, without the heading."""
        if self.rendered is not None:
            return len(self.rendered)
        return 0 if self.folded or not len(self.track) else len(self.lines)

    def row_of(self, position: int) -> int:
        """Return the row of the pane in which its newest words stand when `position` events have come."""
        if not self.rows:
            return self.top
        if self.rendered is not None:
            return self.top + self.headed + self.rows - 1
        line = self.lines.line_of(max(self._laid_out(self.track.length(position)) - 1, 0))
        return self.top + self.headed + min(line, self.rows - 1)

    def runs(self, line: int, position: int) -> Iterator[AnswerRun]:
        """Yield the pieces of a line for a position of the playhead; each `said` piece belongs to one event.

        A grapheme that several events brought is in the piece of the first of them, and not cut. The part of it that
        has been said is shown; the rest is not.
        """
        start, end = self.lines.span(line)
        said_end, text = self._laid_out(self.track.length(position)), self.lines.text
        boundaries: Sequence[int] = ()  # a line of single characters may be cut anywhere
        if not are_graphemes(text[start:end]):
            boundaries = [start, *(start + place for place in grapheme_ends(safe(text[start:end])))]
        for piece_start, piece_end, event in self._pieces(start, end):
            at, stop = _next(boundaries, piece_start), _next(boundaries, piece_end)
            if event is None:
                yield AnswerRun(safe(text[at:stop]), "silence" if stop <= said_end else "ghost")
                continue
            middle = min(max(said_end, at), stop)
            if middle > at:
                yield AnswerRun(safe(text[at:middle]), "said", event)
            if stop > (middle := _next(boundaries, middle)):
                yield AnswerRun(safe(text[middle:stop]), "ghost", event)

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int | None]]:
        """Yield the laid-out span of each event's text and of each silence (None)."""
        for delta in self.track.deltas(max(self._text_offset(start) - 1, 0), self._text_offset(end) + 1):
            piece_start, piece_end = self._laid_out(delta.start), self._laid_out(delta.end)
            if (size := self._silences.get(delta.start, 0)) and piece_start < end and piece_start + size > start:
                yield max(piece_start, start), min(piece_start + size, end), None
            piece_start += size
            if piece_start < end and piece_end > start:
                yield max(piece_start, start), min(piece_end, end), delta.event

    def _laid_out(self, length: int) -> int:
        """Return the laid-out offset of the text's first `length` characters' end."""
        return length + self._inserted_sizes[bisect_left(self._inserted_at, length)] if self._inserted_at else length

    def _text_offset(self, place: int) -> int:
        """Return the offset in the text of a laid-out offset."""
        at, sizes = self._inserted_at, self._inserted_sizes
        number = bisect_right(range(len(at)), place, key=lambda number: at[number] + sizes[number])
        return max(place - sizes[number], at[number - 1]) if number else place


def _next(boundaries: Sequence[int], place: int) -> int:
    at = bisect_left(boundaries, place)
    return boundaries[at] if at < len(boundaries) else place


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):  # that is the answer
        return False
    return True


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A row of the pane: the heading of a part (`line` is None), one of its lines, or nothing."""

    part: AnswerPart | None = None
    line: int | None = None


class AnswerLayout:
    """The texts of a transcript in the order in which they began, laid out `width` cells wide.

    Silences longer than `limit_ns`, if it is given, are shown; `choice` leaves out all choices but one, by its index.
    """

    def __init__(
        self,
        transcript: Transcript,
        width: int,
        limit_ns: int | None = None,
        *,
        folded: bool = True,
        choice: int | None = None,
    ) -> None:
        self.transcript = transcript
        voices = [voice for voice in transcript.voices if choice in (None, voice.index)]
        self._several = len(voices) > 1
        self.parts = sorted(_parts(voices), key=lambda part: part.began)[:200]  # an answer has a handful
        for part in self.parts:
            # The text of a single choice is what a reader expects, and needs no heading.
            part.headed = part.kind != "content" or self._several
            # Reasoning by itself is all that there is to read.
            part.folded = folded and part.kind == "reasoning" and len(self.parts) > 1
            part.lay_out(width, _silences(transcript, part.track, limit_ns))
        self._arrange()

    def __len__(self) -> int:
        return self._end

    @property
    def done(self) -> bool:
        return all(part.folded or part.lines.done for part in self.parts)

    def more(self, lines: int) -> None:
        unfinished = next((part for part in self.parts if not part.folded and not part.lines.done), None)
        if unfinished is not None:
            unfinished.lines.more(lines)
            self._arrange()

    def fold(self) -> None:
        for part in self.parts:
            part.folded = not part.folded and part.kind == "reasoning"
        self._arrange()

    def render(self, texts: "Sequence[list[Line] | None]") -> None:
        """Show each part by lines rendered for the playhead's position, as of Markdown; None: by its own layout."""
        for part, lines in zip(self.parts, texts, strict=False):
            part.rendered = lines
        self._arrange()

    def row(self, number: int) -> AnswerRow:
        """Return the content of a row."""
        at = bisect_right(self.parts, number, key=lambda part: part.top) - 1
        if at < 0 or number >= self._end:
            return AnswerRow()
        part = self.parts[at]
        line = number - part.top - part.headed
        if line < 0:
            return AnswerRow(part)
        return AnswerRow(part, line) if line < part.rows else AnswerRow()

    def row_of(self, position: int, *, steady: bool = False) -> int:
        """Return the row in which the newest words stand; the first row before any.

        Where several choices grow by turns, it is with `steady` always that of the first of them.
        """
        newest = _newest(self.parts, position)
        if newest is None:
            return 0
        if steady and self._several:
            # A choice that has not grown while the others each grew this many times is done, or waits.
            turn_count = 4
            least = max(newest.newest(position) - turn_count * len(self.transcript.voices), 0)
            growing = [part for part in self.parts if part.newest(position) >= least]
            least_index = min(part.voice.index for part in growing)
            newest = _newest([part for part in growing if part.voice.index == least_index], position) or newest
        return newest.row_of(position)

    def hides(self, position: int) -> bool:
        """Return True if the newest words stand in a text that is folded."""
        newest = _newest(self.parts, position)
        return newest is not None and newest.folded

    def changed_rows(self, position: int, next_position: int) -> list[tuple[int, int]]:
        """Return the rows, as first and last, that change when the playhead goes from one position to another."""
        row_ranges = []
        for part in self.parts:
            if part.has_grown(position, next_position):
                first_row, last_row = sorted((part.row_of(position), part.row_of(next_position)))
                row_ranges += [(part.top, part.top), (first_row, last_row + 1)]
        return row_ranges

    def _arrange(self) -> None:
        top = 0
        for part in self.parts:
            part.top = top
            top += part.headed + part.rows + 1
        self._end = max(top - 1, 0)


def _newest(parts: Sequence[AnswerPart], position: int) -> AnswerPart | None:
    newest = max(parts, key=lambda part: part.newest(position), default=None)
    return None if newest is None or newest.newest(position) < 0 else newest


def _parts(voices: Sequence[Voice]) -> Iterator[AnswerPart]:
    for voice in voices:
        prefix = f"choice {voice.index} · " if len(voices) > 1 else ""
        for kind, track in (("reasoning", voice.reasoning), ("content", voice.content), ("refusal", voice.refusal)):
            if len(track):
                yield AnswerPart(kind, track, voice, f"{prefix}{kind}")
        for number, call in enumerate(voice.calls):
            yield AnswerPart("tool", call.arguments, voice, f"{prefix}tool call {number}", call.name)


def _silences(transcript: Transcript, track: Track, limit_ns: int | None) -> list[tuple[int, str]]:
    """Return the places of a text before which a silence is shown, with its words; none within a grapheme."""
    if limit_ns is None:
        return []
    silences = []
    for number, event in enumerate(track.events):
        gap = transcript.gap_ns(event)
        if gap is not None and gap > limit_ns:
            place = track.ends[number - 1] if number else 0
            if grapheme_boundary(track.text, place) == place:
                silences.append((place, f"┊+{gap / 1e9:.3f} s┊"))
    return silences
