"""Pure: a stream along one axis of time, in rows of cells: bytes a second, what came, the gaps, and markers.

All rows have the same axis, from T0 to the end, and are made once for a width; what has no instant is in none of them.
Gaps are drawn on the absolute scale of `metrics.sparkline`, and waits are shaded (`waits`). A cell ends with
the instant on its right border: an instant on a border is in the cell before it. How the rows look, and where the
playhead stands in them, is the widget's.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import mul, sub
from typing import Final

from viewer import sparkline
from viewer.model.exchange import waits
from viewer.model.exchange.markers import Marker
from viewer.model.exchange.transcript import KINDS, OUTPUT, Transcript
from viewer.model.exchange.waits import Wait

LETTERS: Final = dict(zip(KINDS, "orctxfue:d!?", strict=True))
"""The sign of each kind; errors and what cannot be read are marked, too."""

_TELLING: Final = "e!tcrxfud:o?"


def legend(transcript: Transcript) -> str:
    """Say what the letters of the kinds mean that a stream has."""
    return " ".join(f"{LETTERS[KINDS[code]]} {KINDS[code]}" for code in sorted(set(transcript.kinds)))


@dataclass(frozen=True, slots=True)
class Strips:
    """A timeline of so many `cells`: `kinds` and `marks` are rows, the others can be drawn in several.

    `sums` are the bytes that came in each cell, `longest` the longest gap that ended in it, in ns, -1 without any.
    """

    kinds: str = ""
    marks: str = ""
    axis_ns: int = 0
    cells: int = 0
    sums: Sequence[int] = ()
    longest: Sequence[int] = ()
    waits: Sequence[Wait] = ()
    cap_ns: int | None = None

    def gaps(self, rows: int = 1) -> list[str]:
        """Draw the gaps in rows from the top; waits are shaded in the lowest."""
        drawn = sparkline.bars([sparkline.height(gap, rows) if gap >= 0 else 0 for gap in self.longest], rows)
        return [*drawn[:-1], waits.shaded(drawn[-1], self.waits, self.cells, self.cap_ns)]

    def bytes(self, rows: int = 1) -> list[str]:
        """Draw the bytes of each cell, as shares of the most that came in one, in rows from the top."""
        most = max(self.sums, default=0)
        return sparkline.bars(
            [min(size * 8 * rows // most, 8 * rows - 1) + 1 if size else 0 for size in self.sums], rows
        )


def cell(at_ns: int, axis_ns: int, cells: int) -> int:
    """Give the cell of an instant."""
    return min(sparkline.cell(at_ns, axis_ns, cells), cells - 1) if axis_ns > 0 else 0


def instant(cell: int, axis_ns: int, cells: int) -> int:
    """Give the last instant of a cell, in ns since T0."""
    return (cell + 1) * axis_ns // max(cells, 1)


def made(
    transcript: Transcript,
    reads: Iterable[tuple[int, int]],
    markers: Sequence[Marker],
    axis_ns: int,
    cells: int,
    cap_ns: int | None = None,
    *,
    is_whole: bool = True,
) -> Strips:
    """Draw a stream in so many cells; `reads` are the timestamps of its reads and their bytes.

    Silences longer than `cap_ns`, which are not played, are marked. Of a stream that is not whole, or has outputs
    without a timestamp, waits are not known.
    """
    cells = max(cells, 1)
    outputs, is_timed = _outputs(transcript)
    return Strips(
        _kinds(transcript, axis_ns, cells),
        _marks(markers, axis_ns, cells),
        axis_ns,
        cells,
        _sums(reads, axis_ns, cells),
        _longest(outputs, axis_ns, cells),
        waits.found(outputs, 0, axis_ns, axis_ns, cells) if is_whole and is_timed else (),
        cap_ns,
    )


def first(first_ms: float | None, gaps: bytes, axis_ns: int, cells: int) -> Strips:
    """Draw what is known before anything is decoded: the first output, and the gaps after it as the tape packs them."""
    cells = max(cells, 1)
    first_ns = None if first_ms is None else round(first_ms * 1e6)
    outputs = [] if first_ns is None else sparkline.timestamps(first_ns, gaps)
    found = waits.found(outputs, 0, axis_ns, axis_ns, cells) if outputs else ()
    return Strips("", "", axis_ns, cells, (), _longest(outputs, axis_ns, cells), found)


def _outputs(transcript: Transcript) -> "tuple[array[int], bool]":
    """Return the timestamps of the outputs, and whether all of them have one."""
    kinds = bytes(kind in OUTPUT for kind in KINDS)
    flags = transcript.kinds.translate(kinds + bytes(256 - len(kinds)))
    found = array("q", compress(transcript.at, map(mul, flags, transcript.timed)))
    return found, len(found) == sum(flags)


def _longest(outputs: Sequence[int], axis_ns: int, cells: int) -> list[int]:
    """Return the longest gap between outputs that ended in each cell, -1 where none did."""
    if axis_ns <= 0:
        return [-1] * cells
    gaps = list(map(sub, outputs[1:], outputs))
    longest, done = [], 0
    for place in range(cells):
        until = max(bisect_right(outputs, instant(place, axis_ns, cells)) - 1, done)
        longest.append(max(gaps[done:until], default=-1))
        done = until
    return longest


def _sums(reads: Iterable[tuple[int, int]], axis_ns: int, cells: int) -> list[int]:
    """Return the bytes that came in each cell."""
    sums = [0] * cells
    for at, size in reads:
        sums[cell(at, axis_ns, cells)] += size
    return sums


def _kinds(transcript: Transcript, axis_ns: int, cells: int) -> str:
    """Name the most telling kind of each cell: an error before all, then what is output."""
    drawn, start = [], 0
    for place in range(cells):
        end = bisect_right(transcript.at, instant(place, axis_ns, cells)) if place < cells - 1 else len(transcript)
        known = compress(transcript.kinds[start:end], transcript.timed[start:end])
        present = {LETTERS[KINDS[code]] for code in set(known)}
        drawn.append(min(present, key=_TELLING.index) if present else " ")
        start = max(end, start)
    return "".join(drawn)


def _marks(markers: Sequence[Marker], axis_ns: int, cells: int) -> str:
    drawn = [" "] * cells
    for sign in "BRCTSED":  # the later ones over the earlier where they share a cell
        for marker in markers:
            if marker.sign == sign and marker.at_ns is not None:
                drawn[cell(marker.at_ns, axis_ns, cells)] = sign
    return "".join(drawn)
