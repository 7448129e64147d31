"""Pure: a stream along one axis of time, in rows of cells: bytes a second, what came, the gaps, and markers.

All rows have the same axis, from T0 to the end, and are made once for a width; what has no instant is in none of them.
The gaps are drawn on the absolute scale of `recorder.metrics.sparkline`. A cell ends with the instant on its right
border: an instant on a border is in the cell before it. How the rows look, and where the playhead stands in them, is
the widget's.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import mul
from typing import Final

from recorder.metrics import sparkline
from viewer import sparks
from viewer.model.landmarks import Marker
from viewer.model.transcript import KINDS, OUTPUT, Transcript

LETTERS: Final = dict(zip(KINDS, "orctxfue:d!?", strict=True))
"""The sign of each kind; errors and what cannot be read are marked, too."""

_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
_TELLING: Final = "e!tcrxfud:o?"
_MARK: Final = "┆"


def legend(transcript: Transcript) -> str:
    """Say what the letters of the kinds mean that a stream has."""
    return " ".join(f"{LETTERS[KINDS[code]]} {KINDS[code]}" for code in sorted(set(transcript.kinds)))


@dataclass(frozen=True, slots=True)
class Strips:
    """The rows of a timeline, each so many cells wide as it was made for."""

    bytes: str
    kinds: str
    gaps: str
    marks: str
    axis_ns: int


def cell(at_ns: int, axis_ns: int, cells: int) -> int:
    """Give the cell of an instant."""
    if axis_ns <= 0:
        return 0
    return min(max(-(-at_ns * cells // axis_ns) - 1, 0), cells - 1)


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
) -> Strips:
    """Draw a stream in so many cells; `reads` are the instants of its reads and their bytes.

    Silences longer than `cap_ns`, which are not played, are marked in the row of the gaps.
    """
    cells = max(cells, 1)
    outputs = _outputs(transcript)
    gaps = sparkline(outputs, cells, (0, axis_ns)) if axis_ns > 0 else ""
    return Strips(
        _rate(reads, axis_ns, cells),
        _kinds(transcript, axis_ns, cells),
        _cuts(gaps, outputs, axis_ns, cells, cap_ns),
        _marks(markers, axis_ns, cells),
        axis_ns,
    )


def first(first_ms: float | None, gaps: bytes, axis_ns: int, cells: int) -> Strips:
    """Draw what is known before anything is decoded: the first output, and the gaps after it as the tape packs them."""
    first_ns = None if first_ms is None else round(first_ms * 1e6)
    return Strips("", "", sparks.line(first_ns, gaps, None, axis_ns, max(cells, 1)), "", axis_ns)


def _outputs(transcript: Transcript) -> "array[int]":
    kinds = bytes(kind in OUTPUT for kind in KINDS)
    flags = transcript.kinds.translate(kinds + bytes(256 - len(kinds)))
    return array("q", compress(transcript.at, map(mul, flags, transcript.timed)))


def _rate(reads: Iterable[tuple[int, int]], axis_ns: int, cells: int) -> str:
    """Draw the bytes that came in each cell, as shares of the most that came in one."""
    sums = [0] * cells
    for at, size in reads:
        sums[cell(at, axis_ns, cells)] += size
    most = max(sums)
    return "".join(" " if not size else _HEIGHTS[min(size * 8 // most, 7)] for size in sums) if most else ""


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


def _cuts(gaps: str, outputs: Sequence[int], axis_ns: int, cells: int, cap_ns: int | None) -> str:
    """Mark the middle of each silence of which a part is not played."""
    if cap_ns is None or axis_ns <= cap_ns:
        return gaps
    drawn, before = list(gaps.ljust(cells)), 0
    for at in (*outputs, axis_ns):
        middle = cell((before + at) // 2, axis_ns, cells)
        if at - before > cap_ns and drawn[middle] == " ":
            drawn[middle] = _MARK
        before = at
    return "".join(drawn)


def _marks(markers: Sequence[Marker], axis_ns: int, cells: int) -> str:
    drawn = [" "] * cells
    for sign in "BRCTSED":  # the later ones over the earlier where they share a cell
        for marker in markers:
            if marker.sign == sign and marker.at_ns is not None:
                drawn[cell(marker.at_ns, axis_ns, cells)] = sign
    return "".join(drawn)
