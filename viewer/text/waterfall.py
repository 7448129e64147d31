"""Pure: exchanges as bars one below the other, on one axis of time: wait, reasoning, content, stalls, and the end.

A bar begins with the request. Each phase has a sign of its own, so that it needs no colour, and at least one cell. The
axis is as long as the longest bar in sight, rounded up finely; it is logarithmic where lengths differ widely.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.sparkline import TICK, scale, scale_ns

Phase = Literal["idle", "wait", "reasoning", "content", "stall", "end"]

Sign = tuple[str, Phase]
"""The sign of a cell, and its phase."""

SIGNS: Final[dict[Phase, str]] = {"wait": "░", "reasoning": "▓", "content": "█", "stall": "╱"}
"""The sign of a phase's cells."""

TONES: Final[dict[Phase, Tone]] = {
    "idle": "muted", "wait": "muted", "reasoning": "reasoning", "content": "accent", "stall": "warning",
}  # fmt: skip

_BLANK: Final = " "
"""The sign of the time between two turns, in which nothing is waited for."""

_BETWEEN_TICKS: Final = 12


@dataclass(frozen=True, slots=True)
class PhaseBar:
    """The phases of an exchange, in ns since its request; `end_ns` of a running one is now.

    `first_ns` is the first output, `answer_ns` the first content or tool call, `thought_ns` the reasoning before that,
    `last_ns` the last output. `stalls` are pairs of begin and end. Unknown timestamps are None. Of several `turns`, the
    other times are those of the first, since its start; each has its start, its first and last output, and its end.
    """

    end_ns: int
    first_ns: int | None = None
    answer_ns: int | None = None
    thought_ns: int | None = None
    last_ns: int | None = None
    stalls: Sequence[tuple[int, int]] = ()
    turns: Sequence[tuple[int, int | None, int | None, int]] = ()

    @property
    def phases(self) -> Iterator[tuple[Phase, int, int]]:
        """Yield each phase after the wait with its begin and end; a later one covers an earlier one."""
        last_ns = self.end_ns if self.last_ns is None else self.last_ns
        first_turn_ns = self.turns[0][0] if self.turns else 0
        if self.turns:
            yield "idle", 0, self.end_ns
            for turn_ns, output_ns, until_ns, end_ns in self.turns:
                yield "wait", turn_ns, end_ns
                if output_ns is not None:
                    yield "content", output_ns, end_ns if until_ns is None else until_ns
        elif self.first_ns is not None:
            yield "reasoning" if self.answer_ns is None else "content", self.first_ns, last_ns
        if self.first_ns is not None and self.answer_ns is not None and self.thought_ns is not None:
            answer_ns = first_turn_ns + self.answer_ns
            yield "reasoning", answer_ns - self.thought_ns, answer_ns
        for begin, end in self.stalls:
            yield "stall", first_turn_ns + begin, first_turn_ns + end


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from 0 to `length_ns`; around `bend_ns` it turns from linear to logarithmic, None keeps it linear."""

    length_ns: int = 0
    bend_ns: int | None = None

    def cell(self, at_ns: int, cells: int) -> int:
        """Return the cells before a timestamp, of as many as the axis has."""
        at, length = (min(max(ns, 0), self.length_ns) for ns in (at_ns, self.length_ns))
        if not length:
            return 0
        if self.bend_ns is None:
            return round(at * cells / length)
        return round(cells * math.log1p(at / self.bend_ns) / math.log1p(length / self.bend_ns))


UNKNOWN: Final = Axis()
"""The axis of nothing."""


def axis(lengths_ns: Iterable[int]) -> Axis:
    """Return the axis for bars of these lengths, logarithmic if they differ much."""
    lengths = [length for length in lengths_ns if length > 0]
    if not lengths:
        return UNKNOWN
    shortest, longest = min(lengths), max(lengths)
    # On a linear axis, what is shorter than a twentieth of the longest could hardly be seen.
    return Axis(rounded(longest), shortest if longest > 20 * shortest else None)


def rounded(ns: int) -> int:
    """Return the next round time that is not below another: at most a quarter above it."""
    decade = int(10 ** (len(str(ns)) - 1))
    steps = (1, 1.2, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10)
    return next(size for step in steps if (size := round(step * decade)) >= ns)


def draw(bar: PhaseBar, axis: Axis | None, cells: int, ending: str) -> list[tuple[str, Phase]]:
    """Draw a bar in at most `cells` cells, then the sign of its ending; on its own axis if there is none."""
    room = cells - len(ending)
    axis = Axis(max(bar.end_ns, 1)) if axis is None else axis
    if room < 1 or not axis.length_ns:
        return []
    line = signs(bar, lambda at_ns: axis.cell(at_ns, room), range(max(axis.cell(bar.end_ns, room), 1)))
    return joined([*line, (ending, "end")])


def joined(signs: Iterable[Sign]) -> list[tuple[str, Phase]]:
    return [("".join(sign for sign, _ in run), phase) for phase, run in groupby(signs, lambda sign: sign[1])]


def signs(bar: PhaseBar, cell: Callable[[int], int], seen: range) -> list[Sign]:
    """Return the signs of those cells of a bar that are `seen`; `cell` returns the cell of a time since the request.

    A stall has its length where there is room.
    """
    line: list[Sign] = [(SIGNS["wait"], "wait")] * len(seen)
    end = max(cell(bar.end_ns), cell(0) + 1)
    for phase, begin_ns, end_ns in bar.phases:
        start = min(cell(begin_ns), end - 1)
        stop = min(max(min(cell(end_ns), end), start + 1), seen.stop) - seen.start
        start = max(start - seen.start, 0)
        if start < stop:
            label = formatting.duration(end_ns - begin_ns) if phase == "stall" else ""
            text = _first_that_fits(stop - start - 2, f" {label} ", label) if label else ""
            line[start:stop] = [(sign, phase) for sign in f"{text:{SIGNS.get(phase, _BLANK)}^{stop - start}}"]
    return line


def head(title: str, axis: Axis | None, cells: int) -> str:
    """Return the line above bars: a title, the ticks of the axis with their times, and its length at the right."""
    if axis is None:
        return _first_that_fits(cells, f"{title}, each on its own scale", f"{title}: own scale", "own scale")
    if not axis.length_ns:
        return title[:cells]
    length = f"{scale(axis.length_ns)}{TICK}"
    kind = "" if axis.bend_ns is None else "log "
    heading = _first_that_fits(cells - len(length) - 1, f"{title} {kind}", kind)
    line = list(f"{heading.ljust(cells - len(length))}{length}"[:cells])
    for at_ns in _ticks(axis, cells):
        label = f"{TICK}{scale(at_ns)}"
        place = axis.cell(at_ns, cells - 1)
        neighbours = slice(max(place - 1, 0), place + len(label) + 1)
        if not "".join(line[neighbours]).strip() and place + len(label) < cells - len(length):
            line[place : place + len(label)] = label
    return "".join(line)


def _first_that_fits(cells: int, *texts: str) -> str:
    return next((text for text in texts if len(text) <= cells), "")


def _ticks(axis: Axis, cells: int) -> Iterator[int]:
    """Yield the round times of an axis that may have a tick, the most important first."""
    if axis.bend_ns is None:
        step = scale_ns(axis.length_ns * _BETWEEN_TICKS // max(cells, _BETWEEN_TICKS))
        yield from range(step, axis.length_ns, step)
        return
    lowest = len(str(axis.bend_ns)) - 2
    # Steps of a decade, the most important first.
    for steps in ((1,), (2, 5), (3,)):
        for exponent in range(max(lowest, 0), len(str(axis.length_ns))):
            yield from (step * 10**exponent for step in steps if step * 10**exponent < axis.length_ns)
