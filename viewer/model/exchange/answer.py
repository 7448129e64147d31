"""Pure: an answer laid out for a pane: its texts one below the other, each with a heading, for any place of a playhead.

The layout is that of the whole answer, so that nothing moves while it is played: a playhead only decides how much of
each text has been said. Lines are found as they are asked for (`wrap`). A tool call is a text like any other. What
silences are shown between its words is decided here; what all this looks like is the widget's.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from recorder.sanitize import safe
from viewer.model.exchange import events
from viewer.model.exchange.tracks import Track, Voice
from viewer.model.exchange.transcript import Transcript
from viewer.model.text.wrap import WrappedText, are_graphemes, grapheme_boundary, grapheme_ends

if TYPE_CHECKING:
    from viewer.model.text.markdown import Line

TAB: Final = 4
MOST_PARTS: Final = 200
"""So many texts are laid out; an answer has a handful."""

_AT_ONCE: Final = 200
_A_TAB: Final = re.compile("\t")
_MOST_TABS: Final = 100_000
_TURNS: Final = 4
"""A choice that has not grown while the others each did so often is done, or waits."""


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of a line, of one event or of none: `said`, not said yet (`ghost`), or a silence before what follows."""

    text: str
    state: Literal["said", "ghost", "silence"]
    event: int | None = None


class Part:
    """One text of an answer: what it is, its name if it has one, its text, and how it lies in the pane."""

    def __init__(self, kind: str, track: Track, voice: Voice, title: str = "", name: Track | None = None) -> None:
        self.kind = kind
        self.track = track
        self.voice = voice
        self.title = title
        self.name = name
        self.folded = False
        self._is_value: bool | None = None
        self.folding = WrappedText("", 2)
        self.rendered: list[Line] | None = None
        self._at: list[int] = []
        self._sizes: list[int] = []
        self._is_silence: list[bool] = []

    def standing(self, position: int) -> str:
        """Say of arguments how far they are when `position` events have come: they are JSON, and may end too early."""
        if self.track.length(position) < len(self.track):
            return "incomplete"
        if self._is_value is None:
            self._is_value = not self.track.text or _is_json(self.track.text)
        return "complete" if self._is_value else "no whole JSON"

    @property
    def began(self) -> int:
        """The event that began it."""
        starts = [track.events[0] for track in (self.track, self.name) if track is not None and len(track)]
        return min(starts, default=0)

    def lay(self, width: int, silences: Sequence[tuple[int, str]]) -> None:
        """Lay the text out anew; `silences` are the places before which one is shown, and its words."""
        text = events.without_nul(self.track.text)
        inserted = [(at, words, True) for at, words in silences]
        if "\t" in text and text.count("\t") <= _MOST_TABS:
            inserted += [(tab.start(), " " * (TAB - 1), False) for tab in _A_TAB.finditer(text)]
            text = text.replace("\t", " ")
            inserted.sort(key=lambda one: (one[0], not one[2]))
        self._at, self._sizes, self._is_silence = [], [0], [silence for _, _, silence in inserted]
        pieces, done = [], 0
        for at, words, _ in inserted:
            pieces += [text[done:at], words]
            self._at.append(at)
            self._sizes.append(self._sizes[-1] + len(words))
            done = at
        self.folding = WrappedText("".join([*pieces, text[done:]]), width)
        self.folding.more(_AT_ONCE)

    @property
    def rows(self) -> int:
        """How many lines it takes, as far as they have been found, its heading not counted."""
        if self.rendered is not None:
            return len(self.rendered)
        if not len(self.track):
            return 0
        return 0 if self.folded else len(self.folding)

    def shown(self, length: int) -> int:
        """Give where the first `length` characters of the text end in what is laid out."""
        return length + self._sizes[bisect_left(self._at, length)]

    def runs(self, line: int, position: int) -> Iterator[Run]:
        """Yield the pieces of a line for a position of the playhead; each piece that was said is of one event.

        A grapheme that several events brought is in the piece of the first of them, and not cut. What of it has been
        said is shown; what is still to come of it is not.
        """
        start, end = self.folding.span(line)
        said = self.shown(self.track.length(position))
        text = self.folding.text
        boundaries = _boundaries(text, start, end)
        for first, last, event, silence in self._pieces(start, end):
            at, stop = _next(boundaries, first), _next(boundaries, last)
            if silence:
                yield Run(safe(text[at:stop]), "silence" if stop <= said else "ghost", event)
                continue
            middle = min(max(said, at), stop)
            if middle > at:
                yield Run(safe(text[at:middle]), "said", event)
            if stop > (middle := _next(boundaries, middle)):
                yield Run(safe(text[middle:stop]), "ghost", event)

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int | None, bool]]:
        """Cut what is laid out from `start` to `end` where events and silences end."""
        at = start
        for event, own, stop in self._cuts(start, end):
            if own > at:
                yield at, min(own, end), event, False
                at = min(own, end)
            if stop > at:
                yield at, min(stop, end), event, True
                at = min(stop, end)
            if at >= end:
                return
        if at < end:
            yield at, end, None, False

    def _cuts(self, start: int, end: int) -> Iterator[tuple[int | None, int, int]]:
        """Give for each event of a stretch where its text ends, and where a silence shown after that ends."""
        silences = {at: number for number, at in self._around(start, end) if self._is_silence[number]}
        first = self._stored(start)
        if 0 in silences and start < self._sizes[1]:
            yield None, 0, self._sizes[1]
        for delta in self.track.deltas(max(first - 1, 0), self._stored(end) + 1):
            number = silences.get(delta.end)
            ends = self.shown(delta.end)
            yield delta.event, ends, ends if number is None else self._end_of(number)

    def _end_of(self, number: int) -> int:
        return self._at[number] + self._sizes[number + 1]

    def _around(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        first = bisect_left(self._at, self._stored(start) - 1)
        last = bisect_right(self._at, self._stored(end) + 1)
        return zip(range(first, last), islice(self._at, first, last), strict=True)

    def _stored(self, place: int) -> int:
        """Give the place in the text of a place in what is laid out."""
        if not self._at:
            return place
        number = bisect_right(range(len(self._at)), place, key=lambda one: self._at[one] + self._sizes[one])
        if not number:
            return place
        return max(place - self._sizes[number], self._at[number - 1])


def _boundaries(text: str, start: int, end: int) -> Sequence[int]:
    """Return the places at which a line may be cut, ascending; none where it may be cut anywhere."""
    line = text[start:end]
    return () if are_graphemes(line) else [start, *(start + place for place in grapheme_ends(safe(line)))]


def _next(boundaries: Sequence[int], place: int) -> int:
    at = bisect_left(boundaries, place)
    return boundaries[at] if at < len(boundaries) else place


@dataclass(slots=True)
class Row:
    """A line of the pane: the heading of a part (`line` is None), one of its lines, or nothing."""

    part: Part | None = None
    line: int | None = None


@dataclass(slots=True)
class _Place:
    part: Part
    top: int
    headed: bool = field(default=True)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):  # that is the answer
        return False
    return True


class Answer:
    """The texts of a transcript in the order in which they began, laid out `width` cells wide."""

    def __init__(
        self,
        transcript: Transcript,
        width: int,
        limit_ns: int | None = None,
        *,
        folded: bool = True,
        choice: int | None = None,
    ) -> None:
        """Take what was said, or only one `choice` of it by its index; silences longer than `limit_ns` are shown, if it
        is given.
        """
        self.transcript = transcript
        voices = [voice for voice in transcript.voices if choice in (None, voice.index)]
        self._several = len(voices) > 1
        self.parts = sorted(_parts(voices), key=lambda part: part.began)[:MOST_PARTS]
        for part in self.parts:
            part.folded = folded and part.kind == "reasoning" and len(self.parts) > 1
            part.lay(width, _silences(transcript, part.track, limit_ns))
        self._places: list[_Place] = []
        self._arrange()

    def __len__(self) -> int:
        """How many rows there are, as far as lines have been found."""
        return self._end

    @property
    def done(self) -> bool:
        """Whether all lines have been found."""
        return all(part.folded or part.folding.done for part in self.parts)

    def more(self, lines: int) -> None:
        """Find more lines."""
        unfinished = next((part for part in self.parts if not part.folded and not part.folding.done), None)
        if unfinished is not None:
            unfinished.folding.more(lines)
            self._arrange()

    def fold(self) -> None:
        """Fold the reasoning, or unfold it."""
        for part in self.parts:
            part.folded = not part.folded and part.kind == "reasoning"
        self._arrange()

    def render(self, texts: "Sequence[list[Line] | None]") -> None:
        """Let texts stand in lines that were made elsewhere, for the place of the playhead; None: as laid out here."""
        for part, lines in zip(self.parts, texts, strict=False):
            part.rendered = lines
        self._arrange()

    def row(self, number: int) -> Row:
        """Say what a row shows."""
        at = bisect_right(self._places, number, key=lambda place: place.top) - 1
        if at < 0 or number >= self._end:
            return Row()
        place = self._places[at]
        line = number - place.top - place.headed
        if line < 0:
            return Row(place.part)
        return Row(place.part, line) if line < place.part.rows else Row()

    def row_of(self, position: int, *, steady: bool = False) -> int:
        """Give the row in which the newest words stand; the first row before any.

        Where several choices grow by turns, it is with `steady` always that of the first of them.
        """
        newest = self._newest(self._places, position)
        if newest is None:
            return 0
        if steady and self._several:
            least = _last(newest.part, position) - _TURNS * len(self.transcript.voices)
            growing = [place for place in self._places if _last(place.part, position) >= max(least, 0)]
            first = min(place.part.voice.index for place in growing)
            newest = self._newest([place for place in growing if place.part.voice.index == first], position) or newest
        return self._row(newest, position)

    @staticmethod
    def _newest(places: "Sequence[_Place]", position: int) -> "_Place | None":
        newest = max(places, key=lambda place: _last(place.part, position), default=None)
        return None if newest is None or _last(newest.part, position) < 0 else newest

    def hides(self, position: int) -> bool:
        """Say whether the newest words stand in a text that is folded."""
        newest = max(self.parts, key=lambda part: _last(part, position), default=None)
        return newest is not None and newest.folded and _last(newest, position) >= 0

    def changed(self, before: int, after: int) -> list[tuple[int, int]]:
        """Give the rows, as first and last, that look otherwise after the playhead went from a position to another."""
        found = []
        for place in self._places:
            tracks = [track for track in (place.part.track, place.part.name) if track is not None]
            if all(track.length(before) == track.length(after) for track in tracks):
                continue
            rows = sorted((self._row(place, before), self._row(place, after)))
            found.append((place.top, place.top))
            found.append((rows[0], rows[1] + 1))
        return found

    def _row(self, place: _Place, position: int) -> int:
        if not place.part.rows:
            return place.top
        if place.part.rendered is not None:
            return place.top + place.headed + place.part.rows - 1
        shown = place.part.shown(place.part.track.length(position))
        line = place.part.folding.line_of(max(shown - 1, 0))
        return place.top + place.headed + min(line, max(place.part.rows - 1, 0))

    def _arrange(self) -> None:
        self._places, top = [], 0
        for part in self.parts:
            headed = part.kind != "content" or self._several
            self._places.append(_Place(part, top, headed))
            top += headed + part.rows + 1
        self._end = max(top - 1, 0)


def _last(part: Part, position: int) -> int:
    """Give the last event before a position that added to a part; -1 if none did."""
    tracks = [part.track] if part.name is None else [part.track, part.name]
    return max(track.events[at - 1] if (at := bisect_left(track.events, position)) else -1 for track in tracks)


def _parts(voices: Sequence[Voice]) -> Iterator[Part]:
    several = len(voices) > 1
    for voice in voices:
        for kind, track in (("reasoning", voice.reasoning), ("content", voice.content), ("refusal", voice.refusal)):
            if len(track):
                yield Part(kind, track, voice, f"choice {voice.index} · {kind}" if several else kind)
        for number, call in enumerate(voice.calls):
            title = f"tool call {number}"
            yield Part(
                "tool", call.arguments, voice, f"choice {voice.index} · {title}" if several else title, call.name
            )


def _silences(transcript: Transcript, track: Track, limit_ns: int | None) -> list[tuple[int, str]]:
    """Return the places of a text before which a silence is shown, with its words; none within a grapheme."""
    if limit_ns is None:
        return []
    found = []
    for number, event in enumerate(track.events):
        gap = transcript.gap_ns(event)
        if gap is not None and gap > limit_ns:
            place = track.ends[number - 1] if number else 0
            if grapheme_boundary(track.text, place) == place:
                found.append((place, f"┊+{gap / 1e9:.3f} s┊"))
    return found
