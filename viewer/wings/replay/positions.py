"""Pure: positions in an answer, as faults and `control` name them, and their places in its body.

`head` is before the head, `#3` before item 3 of `show --part events` (which counts comments, too), `50%` within the
body, `stall` before the write behind the first recorded silence of 2 s or more, `end` before the end of the answer. All
bytes before a place are written, and none of those behind it.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

HEAD: Final = -1
"""The place before the head; any other is an offset in the body."""

Spans = Sequence[tuple[int, int]]
"""The span of each event in the body."""

_POSITION = re.compile(r"#(\d{1,9})|(\d{1,3}(?:\.\d+)?)%|head|stall|end")


@dataclass(frozen=True, slots=True)
class Position:
    """A position: `event` is the number of an event, `share` a part of the body from 0 to 1; a word has neither."""

    text: str
    event: int | None = None
    share: float | None = None


def parse(text: str) -> Position:
    """Read a position. Raise ValueError, which names all kinds, if it is none."""
    match = _POSITION.fullmatch(text)
    if match is None or (match[2] and float(match[2]) > 100):
        kinds = "#120 (before an event), 50% (of the body), head, stall (behind a silence) or end"
        raise ValueError(f"{text} is no position: use {kinds}")
    return Position(text, int(match[1]) if match[1] else None, float(match[2]) / 100 if match[2] else None)


class Places:
    """The places in a body of `size` bytes.

    `read_spans` returns the spans of its events, which may take milliseconds. `silence` is the place behind the first
    silence, if there is one. Places are moved on to the next of the `borders`, if there are any.
    """

    def __init__(
        self, size: int, read_spans: Callable[[], Spans], silence: int | None, borders: Sequence[int] = ()
    ) -> None:
        self.size, self._read_spans, self._silence, self._borders = size, read_spans, silence, borders

    @cached_property
    def spans(self) -> Spans:
        return self._read_spans()

    def span(self, position: Position) -> tuple[int, int] | None:
        """Return the place of a position, and the end of what it names; None if the answer has no such place."""
        if position.event is not None:
            return self.spans[position.event] if position.event < len(self.spans) else None
        if position.share is not None:
            return int(self.size * position.share), self.size
        start = {"head": HEAD, "stall": self._silence, "end": self.size}[position.text]
        return None if start is None else (start, self.size)

    def place(self, position: Position) -> int | None:
        """Return the place of a position, on a border; None if the answer has no such place."""
        span = self.span(position)
        return None if span is None else self.border(span[0])

    def border(self, place: int) -> int:
        """Return the first border from a place on."""
        if place == HEAD or not self._borders:
            return place
        return self._borders[min(bisect_left(self._borders, place), len(self._borders) - 1)]

    @cached_property
    def _ends(self) -> Sequence[int]:
        return [end for _, end in self.spans]

    def event(self, place: int) -> int:
        """Return the number of the event at a place: the next to be written there."""
        return bisect_right(self._ends, max(place, 0))

    def behind(self, place: int, count: int) -> int | None:
        """Return the place behind `count` events from a place on; None if the last of the answer is among them."""
        number = self.event(place) + count
        return self.border(self._ends[number - 1]) if number < len(self._ends) else None
