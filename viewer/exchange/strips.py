"""Pure: a stream along one axis of time, in rows of cells: characters, bytes, kinds, gaps, markers and long waits.

All rows have the same axis, from T0 to the end; events without a timestamp are in none of them. A timestamp on the
border of two cells is in the first. The bars of gaps are relative to the stream's median gap.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from operator import sub
from typing import Final, Literal

from wiretape.recorder.decode.stalls import DEFAULT, Span
from wiretape.viewer.exchange.markers import SIGNS as MEANINGS
from wiretape.viewer.exchange.markers import Marker
from wiretape.viewer.exchange.transcript import KINDS, OUTPUT, Transcript
from wiretape.viewer.record import units
from wiretape.viewer.text import curve, formatting, sparkline
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.waterfall import SIGNS

LETTERS: Final = dict(zip(KINDS, "orctxfue:pdb!?sqz", strict=True))
"""The sign of each kind."""

LEAST_NS: Final = 300_000_000
"""Shorter waits are not shaded."""

_TELLING: Final = "e!tcrxfudsz:pqob?"
"""The signs by importance: of several in a cell, the first is shown."""

_OUTPUT: Final = frozenset(LETTERS[kind] for kind in OUTPUT)
_SHADES: Final = {"first": SIGNS["wait"], "slow": "·", "stalled": SIGNS["stall"], "idle": " "}

WaitKind = Literal["first", "slow", "stalled", "idle"]


@dataclass(frozen=True, slots=True)
class StripWait:
    """The time before the first output, between two, or from the last to the end, in the cells from first to last.

    While no turn of a hosted agent runs, nothing is waited for: the time is idle.

    The event that ends a wait has a cell of its own: the wait takes the cells before it without other output.
    """

    first_cell: int
    last_cell: int
    lasted_ns: int
    kind: WaitKind


@dataclass(frozen=True, slots=True)
class Strips:
    """A timeline of `cells` cells: `kinds` and `marks` are rows, the others can be drawn in several.

    `sums` are the bytes that came in each cell, `longest` the longest gap that ended in it, in ns, -1 without any, as
    multiples of `unit_ns`. `counts` are the characters that had come by the end of each half of a cell, as
    `curve.sampled` returns them, none if they are unknown, and `characters` is their number at the end.
    """

    kinds: str = ""
    marks: str = ""
    axis_ns: int = 0
    cells: int = 0
    sums: Sequence[int] = ()
    longest: Sequence[int] = ()
    waits: Sequence[StripWait] = ()
    cap_ns: int | None = None
    unit_ns: int = sparkline.UNITS_NS[0]
    counts: Sequence[int] = ()

    @property
    def characters(self) -> int:
        """The number of characters at the end."""
        return self.counts[-1] if self.counts else 0

    @property
    def outputs(self) -> str:
        """The letter of the last kind of output by the end of each cell, blank before the first."""
        return "".join(
            accumulate(self.kinds, lambda previous, sign: sign if sign in _OUTPUT else previous, initial=" ")
        )[1:]

    def curve(self, rows: int) -> list[str]:
        """Draw the characters that had come as a curve, in rows from the top."""
        return [*curve.signs(curve.dots(self.counts, self.characters, self.cells, rows))]

    def gaps(self, rows: int = 1) -> list[str]:
        """Draw the gaps in rows from the top; waits are shaded in the lowest."""
        heights = [sparkline.height(gap, rows, self.unit_ns) if gap >= 0 else 0 for gap in self.longest]
        lines = sparkline.bars(heights, rows)
        return [*lines[:-1], shaded(lines[-1], self.waits, self.cells, self.cap_ns)]

    def bytes(self, rows: int = 1) -> list[str]:
        """Draw the bytes of each cell, as shares of the most that came in one, in rows from the top."""
        most = max(self.sums, default=0)
        return sparkline.bars(
            [min(size * 8 * rows // most, 8 * rows - 1) + 1 if size else 0 for size in self.sums], rows
        )


def cell(at_ns: int, axis_ns: int, cells: int) -> int:
    return min(sparkline.cell(at_ns, axis_ns, cells), cells - 1) if axis_ns > 0 else 0


def instant(cell: int, axis_ns: int, cells: int) -> int:
    """Return the last timestamp of a cell, in ns since T0."""
    return (cell + 1) * axis_ns // max(cells, 1)


def legend(transcript: Transcript) -> str:
    """Return the meaning of the letters of a stream's kinds."""
    return " ".join(f"{LETTERS[KINDS[code]]} {KINDS[code]}" for code in sorted(set(transcript.kinds)))


def explained(marks: str, cells: int) -> str:
    """Return a row of markers, the first of each sign with its meaning behind it, or else before it, if there is room.

    A blank on both sides parts the meaning from its sign and from others.
    """
    line = marks.ljust(cells)
    for sign in dict.fromkeys(marks.replace(" ", "")):
        at, words = marks.index(sign), MEANINGS[sign].partition(",")[0]
        for start in (at + 2, at - 1 - len(words)):
            end = start + len(words)
            if start >= 0 and end <= cells and not line[max(start - 1, 0) : end + 1].strip():
                line = line[:start] + words + line[end:]
                break
    return line


def draw(
    transcript: Transcript,
    reads: Iterable[tuple[int, int]],
    markers: Sequence[Marker],
    axis_ns: int,
    cells: int,
    cap_ns: int | None = None,
    stalls: Sequence[Span] | None = None,
    *,
    is_whole: bool = True,
) -> Strips:
    """Draw a stream in `cells` cells; `reads` are the timestamps of its reads and their bytes.

    Silences longer than `cap_ns`, which are not played, are marked. The waits of a stream that is not whole, or has
    outputs without a timestamp, are unknown. Until it is judged, its `stalls` are None.
    """
    cells = max(cells, 1)
    events = transcript.outputs
    outputs = [transcript.at[event] for event in events if transcript.timed[event]]
    # Over a WebSocket, what lies between two responses is no wait.
    are_known = is_whole and len(outputs) == len(events) and transcript.framing != "websocket"
    idle = transcript.idle_spans(axis_ns)
    sums = [0] * cells
    for at_ns, size in reads:
        sums[cell(at_ns, axis_ns, cells)] += size
    marks = [" "] * cells
    for marker in sorted(markers, key=lambda marker: _MARKING_ORDER.index(marker.sign)):
        if marker.at_ns is not None:
            marks[cell(marker.at_ns, axis_ns, cells)] = marker.sign
    kinds, start = [], 0
    for place in range(cells):
        end = bisect_right(transcript.at, instant(place, axis_ns, cells)) if place < cells - 1 else len(transcript)
        timed_kinds = compress(transcript.kinds[start:end], transcript.timed[start:end])
        letters = {LETTERS[KINDS[code]] for code in set(timed_kinds)}
        kinds.append(min(letters, key=_TELLING.index, default=" "))
        start = max(end, start)
    return Strips(
        "".join(kinds),
        "".join(marks),
        axis_ns,
        cells,
        sums,
        longest_gaps(outputs, axis_ns, cells, idle),
        waits(outputs, 0, axis_ns, axis_ns, cells, stalls, idle) if are_known else (),
        cap_ns,
        transcript.gap_unit_ns,
        curve.sampled(transcript.characters_by, axis_ns, cells, axis_ns) if len(outputs) == len(events) else (),
    )


def draw_gaps(first_ms: float | None, gaps: bytes, axis_ns: int, cells: int) -> Strips:
    """Draw the timeline before decoding: the first output, and the gaps after it as the tape packs them."""
    cells = max(cells, 1)
    first_ns = units.ns(first_ms)
    outputs = [] if first_ns is None else sparkline.timestamps(first_ns, gaps)
    long_waits = waits(outputs, 0, axis_ns, axis_ns, cells) if outputs else ()
    unit_ns = sparkline.unit_ns(map(sub, outputs[1:], outputs))
    return Strips("", "", axis_ns, cells, (), longest_gaps(outputs, axis_ns, cells), long_waits, unit_ns=unit_ns)


_MARKING_ORDER: Final = "BRCTSED"
"""The later ones over the earlier where they share a cell."""


def longest_gaps(outputs: Sequence[int], axis_ns: int, cells: int, idle: Sequence[Span] = ()) -> list[int]:
    """Return the longest gap between outputs that ended in each cell, -1 where none did, or one around an idle time."""
    if axis_ns <= 0:
        return [-1] * cells
    gaps = list(map(sub, outputs[1:], outputs))
    for start, end in idle:
        following = bisect_right(outputs, start)
        if 0 < following < len(outputs) and end <= outputs[following]:
            gaps[following - 1] = -1
    longest, done = [], 0
    for place in range(cells):
        until = max(bisect_right(outputs, instant(place, axis_ns, cells)) - 1, done)
        longest.append(max(gaps[done:until], default=-1))
        done = until
    return longest


def waits(
    at: Sequence[int],
    start_ns: int,
    end_ns: int,
    axis_ns: int,
    cells: int,
    stalls: Sequence[Span] | None = None,
    idle: Sequence[Span] = (),
) -> list[StripWait]:
    """Return the waits of a stream from `start_ns` to `end_ns` whose outputs came at the ascending timestamps `at`.

    A wait with one of the `stalls` in it is stalled, also one that nothing ended; if they are None, any long one.
    What lies in the `idle` spans is none.
    """
    if axis_ns <= 0 or cells <= 0:
        return []
    bounds = sorted([*at, *(bound for span in idle for bound in span)]) if idle else at
    places = [start_ns, *bounds, max(end_ns, bounds[-1] if len(bounds) else start_ns)]
    begins = {until_ns for _, until_ns in idle}
    long = [number for number, lasted in enumerate(map(sub, places[1:], places)) if lasted > LEAST_NS]
    long_waits = []
    for number in long:
        start_at, end_at = places[number], places[number + 1]
        # The first wait has the cell of T0; any other begins behind the cell of the output before it.
        first_cell = start_at * cells // axis_ns if number == 0 else sparkline.cell(start_at, axis_ns, cells) + 1
        last_cell = min(sparkline.cell(end_at, axis_ns, cells) - (number < len(bounds)), cells - 1)
        is_stalled = DEFAULT.is_stall(end_at - start_at)
        if stalls is not None:
            is_stalled = any(start_at <= from_ns and to_ns <= end_at for from_ns, to_ns in stalls)
        is_first = (number == 0 or start_at in begins) and number < len(bounds)
        kind: WaitKind = "first" if is_first else "stalled" if is_stalled else "slow"
        if any(from_ns <= start_at and end_at <= to_ns for from_ns, to_ns in idle):
            kind = "idle"
        if first_cell <= last_cell:
            long_waits.append(StripWait(first_cell, last_cell, end_at - start_at, kind))
    return long_waits


def shaded(row: str, waits: Sequence[StripWait], cells: int, cap_ns: int | None = None) -> str:
    """Return a row with its blank cells shaded where there is a wait, and the wait's length where there is room for it.

    Waits longer than `cap_ns`, which are not played in full, are marked.
    """
    signs = list(row.ljust(cells))
    for wait in waits:
        size = wait.last_cell - wait.first_cell + 1
        mark = "┆" if cap_ns is not None and wait.lasted_ns > cap_ns else ""
        label = f"{mark}{'idle ' if wait.kind == 'idle' else ''}{formatting.duration(wait.lasted_ns)}{mark}"
        fitting_labels = (text for text in (f" {label} ", label) if len(text) + 2 <= size)
        text = f"{next(fitting_labels, mark):{_SHADES[wait.kind]}^{size}}"
        for cell, sign in zip(range(wait.first_cell, wait.last_cell + 1), text, strict=True):
            signs[cell] = sign if signs[cell] == " " else signs[cell]
    return "".join(signs)


def wait_kinds(waits: Sequence[StripWait], cells: int) -> list[WaitKind | None]:
    """Return the kind of the wait that each cell is in, None where there is none."""
    kinds: list[WaitKind | None] = [None] * cells
    for wait in waits:
        kinds[wait.first_cell : wait.last_cell + 1] = [wait.kind] * (wait.last_cell - wait.first_cell + 1)
    return kinds


def gap_tone(gap_ns: int) -> Tone:
    return "error" if DEFAULT.is_stall(gap_ns) else "warning" if gap_ns >= LEAST_NS else "plain"
