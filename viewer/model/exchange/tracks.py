"""Pure: the texts of an answer as they grow: each kept whole, with how long it was after each event that added to it.

Texts only ever grow, so that going to any place of one, forwards or backwards, is a bisection. Which event adds to
which text is `transcript`'s.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Final

_HIGH: Final = "\ud800"
_LOW: Final = "\udc00"
_HIGH_END: Final = "\udfff"


@dataclass(frozen=True, slots=True)
class Delta:
    """What one event added to a text: the characters from `start` to `end`."""

    event: int
    start: int
    end: int


class Track:
    """A text that grows: the events that added to it, and how long it was after each of them."""

    __slots__ = ("_parts", "_text", "ends", "events")

    def __init__(self) -> None:
        self.events = array("q")
        self.ends = array("q")
        self._parts: list[str] = []
        self._text: str | None = ""

    def add(self, event: int, text: str) -> None:
        """Add what an event brings; an event may add more than once.

        Of a character whose two halves come apart, both belong to the event that brings the second.
        """
        if _LOW <= text[0] <= _HIGH_END and self._ends_in_half():
            text = (self._parts[-1][-1] + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            self._parts[-1] = self._parts[-1][:-1]
            self.ends[-1] -= 1
        end = (self.ends[-1] if self.ends else 0) + len(text)
        if self.events and self.events[-1] == event:
            self.ends[-1] = end
        else:
            self.events.append(event)
            self.ends.append(end)
        self._parts.append(text)
        self._text = None

    def extend(self, events: Sequence[int], texts: Sequence[str]) -> None:
        """Add what each of these events brings, in their order; no text is empty or has half of a character."""
        before = self.ends[-1] if self.ends else 0
        self.events.extend(events)
        self.ends.extend(islice(accumulate(map(len, texts), initial=before), 1, None))
        self._parts += texts
        self._text = None

    def _ends_in_half(self) -> bool:
        return bool(self._parts and self._parts[-1]) and _HIGH <= self._parts[-1][-1] < _LOW

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = "".join(self._parts)
            self._parts = [self._text]
        return self._text

    def __len__(self) -> int:
        """How long the whole text is, in characters."""
        return self.ends[-1] if self.ends else 0

    def length(self, position: int) -> int:
        """Give how long the text was when `position` events had come."""
        at = bisect_left(self.events, position)
        return self.ends[at - 1] if at else 0

    def deltas(self, start: int = 0, end: int | None = None) -> Iterator[Delta]:
        """Give the deltas that touch the characters from `start` to `end`."""
        at = bisect_right(self.ends, start)
        before = self.ends[at - 1] if at else 0
        while at < len(self.ends) and (end is None or before < end):
            yield Delta(self.events[at], before, self.ends[at])
            before = self.ends[at]
            at += 1

    def of(self, event: int) -> str:
        """Give what one event added."""
        at = bisect_left(self.events, event)
        if at == len(self.events) or self.events[at] != event:
            return ""
        return self.text[self.ends[at - 1] if at else 0 : self.ends[at]]


@dataclass(slots=True)
class ToolCall:
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
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def texts(self) -> list[tuple[str, Track]]:
        """Its texts, each with its kind."""
        texts = [("reasoning", self.reasoning), ("content", self.content), ("refusal", self.refusal)]
        return texts + [("tool", track) for call in self.calls for track in (call.name, call.arguments)]
