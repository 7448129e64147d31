"""Pure: bars of the parts of a session and of its turns: a line of cells on one axis, with a sign for each part.

The parts are those of its time, or the sources of the bytes of its requests. A cell shows one of the parts within it:
the one that the cells before it have shown least of its due. So the cells are in the order of time, and of each part
there are as many as its share: a part that alternates with others is not lost.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from wiretape.recorder.decode.stalls import DEFAULT, Thresholds
from wiretape.viewer.record.rows import ConversationRow, TurnRow
from wiretape.viewer.sessions.account import Span, by_turn, phases, stretches
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.text.waterfall import SIGNS


class Phase(NamedTuple):
    """A part, from a place on an axis to another."""

    part: str
    start: int
    end: int


class PartSign(NamedTuple):
    """A part of a bar: its sign, one cell wide, its tone and its word."""

    sign: str
    tone: Tone
    word: str


TIME: Final = {
    "streaming": PartSign(SIGNS["content"], "success", "streaming"),
    "stalled": PartSign(SIGNS["stall"], "error", "stalled"),
    "waiting": PartSign(SIGNS["wait"], "accent", "waiting"),
    "closing": PartSign("▄", "muted", "closing"),
    "failed": PartSign("×", "error", "failed"),
    "backoff": PartSign("─", "warning", "backoff"),
    "tools": PartSign("▚", "plain", "tools"),
    "idle": PartSign(" ", "muted", "idle"),
}
"""The parts of a session's time."""

CONTEXT: Final = {
    "system": PartSign("░", "accent", "system"),
    "tools": PartSign("▚", "plain", "tools"),
    "user": PartSign("█", "accent", "user"),
    "assistant": PartSign("▓", "success", "assistant"),
    "tool_results": PartSign("▒", "warning", "results"),
    "images": PartSign("◆", "error", "images"),
    "documents": PartSign("▄", "error", "documents"),
    "other": PartSign("·", "muted", "other"),
}
"""The sources of a request's bytes: what fills the context of a model."""


# Compared by identity: bars are keys of a cache, and a list of phases has no hash.
@dataclass(frozen=True, slots=True, eq=False)
class PartBar:
    """The phases of a session, or of a turn, on an axis; `pause` is the time before a turn in which none was open."""

    phases: Sequence[Phase]
    start: int
    end: int
    pause: Phase | None = None

    @property
    def sizes(self) -> Counter[str]:
        sizes = Counter[str]()
        for part, start, end in self.phases:
            sizes[part] += end - start
        return sizes

    def runs(self, count: int, signs: Mapping[str, PartSign]) -> Iterator[Part]:
        blank = PartSign(" ", "plain", "")
        for part, run in groupby(_cells(self, count)):
            sign, tone, _ = blank if part is None else signs[part]
            yield sign * len([*run]), tone

    def largest(self, signs: Mapping[str, PartSign]) -> Part:
        total = (sizes := self.sizes).total()
        if not total:
            return "", "plain"
        part, size = max(sizes.items(), key=lambda item: item[1])
        return f"{signs[part].word} {formatting.share(size, total)}", signs[part].tone


@functools.lru_cache(maxsize=1024)
def _cells(bar: PartBar, count: int) -> list[str | None]:
    """Return the part that each cell shows, one of those within it, so that the cells of a part add up to its time.

    A part has the `due` time that earlier cells have not shown, as in the diffusion of errors.
    """
    length = bar.end - bar.start
    if length <= 0 or count <= 0:
        return [None] * count
    cell_parts: list[str | None] = [None] * count
    due = Counter[str]()
    # The phases come last: in a cell that both touch, a turn shows its own time and not the pause before it.
    for drawn_phases in ([bar.pause] if bar.pause else [], bar.phases):
        for cell, sizes in enumerate(_sizes_by_cell(drawn_phases, bar.start, length, count)):
            due.update(sizes)
            if sizes:
                part = cell_parts[cell] = max(sizes, key=due.__getitem__)
                due[part] -= length
    return cell_parts


def _sizes_by_cell(phase_spans: Iterable[Phase], axis_start: int, length: int, count: int) -> list[dict[str, int]]:
    """Return the sizes of the parts within each cell; a cell is `length` long."""
    cells: list[dict[str, int]] = [{} for _ in range(count)]
    for part, start, end in phase_spans:
        # Multiplied by `count`: borders of cells are whole numbers then.
        position, stop = (start - axis_start) * count, (end - axis_start) * count
        while position < stop:
            cell = position // length
            border = min((cell + 1) * length, stop)
            if 0 <= cell < count:
                cells[cell][part] = cells[cell].get(part, 0) + border - position
            position = border
    return cells


@dataclass(frozen=True, slots=True)
class SessionBars:
    """The bar of a session, and those of its turns by the numbers of their exchanges."""

    session: PartBar
    turns: Mapping[int, PartBar]

    @property
    def length(self) -> int:
        """The length of the axis: of time, the wall time in ns."""
        return self.session.end - self.session.start


def of_time(spans: Sequence[Span], limits: Thresholds = DEFAULT) -> SessionBars:
    """Return the bars of the time of a session, empty if its parts are unknown; there is a span at least."""
    session_phases = [*_in_line(stretches(spans, limits), min(span.start_ns for span in spans))]
    if not all(span.is_timed for span in spans):
        return SessionBars(PartBar([], session_phases[0].start, session_phases[-1].end), {})
    start, end = session_phases[0].start, session_phases[-1].end
    turn_phases: dict[int, list[Phase]] = {}
    time_before: dict[int, Phase] = {}
    for turn in by_turn(spans, limits):
        turn_phases.setdefault(turn.span.no, []).extend(map(Phase._make, phases(turn.span, limits)))
        began = turn.span.start_ns
        time_before.setdefault(turn.span.no, Phase(turn.pause, began - turn.pause_ns, began))
    turns = {no: PartBar(own_phases, start, end, time_before[no]) for no, own_phases in turn_phases.items()}
    return SessionBars(PartBar(session_phases, start, end), turns)


def of_context(turns: Iterable[TurnRow]) -> SessionBars | None:
    """Return the bars of the requests of a session, on the axis of the largest one, which is that of the session.

    None if no request is known.
    """
    sizes = {turn.no: turn.sources for turn in turns if turn.sources}
    if not sizes:
        return None
    longest = max(sizes, key=lambda no: sum(sizes[no].values()))
    end = sum(sizes[longest].values())
    bars = {no: PartBar([*_in_line(parts.items(), 0)], 0, end) for no, parts in sizes.items()}
    return SessionBars(bars[longest], bars)


def _in_line(sizes: Iterable[tuple[str, int]], at: int) -> Iterator[Phase]:
    """Yield parts one behind the other, from a place on."""
    for part, size in sizes:
        yield Phase(part, at, at + size)
        at += size


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of the lines of a tree, all of one kind, under a title; `wall_ns` is the wall time of each session."""

    title: str = "TIME"
    signs: Mapping[str, PartSign] = field(default_factory=lambda: TIME)
    sessions: Mapping[str, SessionBars] = field(default_factory=dict)
    wall_ns: Mapping[str, int] = field(default_factory=dict)
    turns: Mapping[int, PartBar] = field(default_factory=dict)

    def of(self, line: ConversationRow | TurnRow) -> PartBar | None:
        """Return the bar of a line, None if it is not known."""
        if isinstance(line, TurnRow):
            return self.turns.get(line.no)
        session_bars = self.sessions.get(line.conversation)
        return None if session_bars is None else session_bars.session

    def legend(self, name: str) -> Iterator[list[Part]]:
        """Yield the sign of each part with its share of a session, the largest first, and then those it has not."""
        session_bars = self.sessions.get(name)
        sizes = session_bars.session.sizes if session_bars else Counter[str]()
        ranked = sorted(self.signs, key=lambda part: -sizes[part])
        for part in ranked:
            sign, tone, word = self.signs[part]
            share = f" {formatting.share(sizes[part], sizes.total())}" if sizes[part] else ""
            sign_parts: list[Part] = [(f"{sign} ", tone)] if sign.strip() else []
            yield [*sign_parts, (f"{word}{share}", "plain" if share else "muted")]
