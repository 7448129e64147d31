"""Pure: a race on one axis of time: what both lanes had brought as two curves with their finish, and below the gaps.

Cells are grouped by their drawing, so that a screen only chooses colours and draws the playhead.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, NamedTuple

from wiretape.recorder.decode.stalls import Span
from wiretape.viewer.exchange import strips
from wiretape.viewer.exchange.strips import WaitKind
from wiretape.viewer.text import curve, formatting, sparkline

RaceLook = Literal["a", "b", "both", "slow", "stalled", "axis"]
"""The look of a cell: of a lane, of both where their curves cross, of a long gap, or of an explanation."""

FINISH: Final = "┊"
"""The line at the timestamp at which a lane ended."""

_LANES: Final[tuple[RaceLook, RaceLook]] = ("a", "b")
_TONES: Final[dict[str, RaceLook]] = {"warning": "slow", "error": "stalled"}


class RaceCell(NamedTuple):
    """A cell: its sign and look, the wait that it is in, and the lane whose playhead passes it, None if none does."""

    sign: str
    look: RaceLook = "axis"
    wait: WaitKind | None = None
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """One lane on the axis of a race: its request, its outputs and its end, in ns since the axis begins.

    `count` returns how many characters had come by a timestamp, `unit_ns` is the unit of the bars of its gaps. The
    waits of a lane that is not timed are unknown, and which of them are stalls until it is judged.
    """

    start_ns: int
    output_at: Sequence[int]
    end_ns: int
    count: Callable[[int], int]
    unit_ns: int
    is_timed: bool = True
    is_live: bool = False
    stalls: Sequence[Span] | None = None


@dataclass(frozen=True, slots=True)
class Drawing:
    """A race in rows of `cells` cells on an axis of `axis_ns`; its 0 is `zero_ns` from its beginning.

    The last two rows are the gaps of A and B, those above them the curves.
    """

    rows: Sequence[Sequence[RaceCell]] = ((), ())
    axis_ns: int = 0
    zero_ns: int = 0
    cells: int = 0


def draw(courses: tuple[Course, Course], axis_ns: int, zero_ns: int, cells: int, rows: int) -> Drawing:
    """Draw a race with `rows` rows for the curves."""
    plot = list(_plot(courses, axis_ns, zero_ns, cells, rows)) if rows and axis_ns > 0 else [()] * rows
    # Both lanes have the unit of the faster one: in it, the other has higher bars.
    unit_ns = min((course.unit_ns for course in courses if len(course.output_at) > 1), default=sparkline.UNITS_NS[0])
    return Drawing(
        (*plot, *(_strip(number, course, axis_ns, cells, unit_ns) for number, course in enumerate(courses))),
        axis_ns,
        zero_ns,
        cells,
    )


def _strip(number: int, course: Course, axis_ns: int, cells: int, unit_ns: int) -> list[RaceCell]:
    """Return the row of a lane's gaps, its waits shaded with their lengths."""
    places = course.output_at, course.start_ns, course.end_ns, axis_ns, cells
    waits = strips.waits(*places, course.stalls) if course.is_timed else []
    longest = strips.longest_gaps(course.output_at, axis_ns, cells)
    bars = sparkline.bars([sparkline.height(gap, 1, unit_ns) if gap >= 0 else 0 for gap in longest], 1)[0]
    ends = (course.output_at[0], course.output_at[-1]) if course.output_at else None
    line = sparkline.with_ends([*bars], ends, None if course.is_live else course.end_ns, axis_ns) if axis_ns > 0 else ""
    cells_with_gaps = zip(strips.shaded(line, waits, cells), longest, strips.wait_kinds(waits, cells), strict=True)
    lane_cell = _LANES[number]
    return [
        RaceCell(sign, _TONES.get(strips.gap_tone(gap), lane_cell), kind, number) for sign, gap, kind in cells_with_gaps
    ]


def _plot(
    courses: tuple[Course, Course], axis_ns: int, zero_ns: int, cells: int, rows: int
) -> Iterator[list[RaceCell]]:
    """Yield the rows of both curves, with a line where a lane ended, and its time beside that."""
    counts = [curve.sampled(course.count, axis_ns, cells, course.end_ns) for course in courses]
    most = max((count[-1] for count in counts if count), default=0)
    a, b = (curve.dots(count, most, cells, rows) for count in counts)
    plot = [[_cell(*dots) for dots in zip(*row, strict=True)] for row in zip(a, b, strict=True)]
    least_labelled = 30
    if cells >= least_labelled:
        _write(plot[:1], 0, f"{formatting.short_count(most)} characters", RaceCell(""))
    ends = [(RaceCell("", _LANES[lane]), course.end_ns) for lane, course in enumerate(courses) if not course.is_live]
    for lane_cell, end_ns in ends:
        place, at = strips.cell(end_ns, axis_ns, cells), formatting.timestamp_with_unit(end_ns - zero_ns)
        label = f" {lane_cell.look.upper()} {at} "
        if not _write(plot[::-1], place - len(label), label, lane_cell):
            _write(plot[::-1], place + 1, label, lane_cell)
    for (lane_cell, end_ns), row in product(ends, plot):
        _write([row], strips.cell(end_ns, axis_ns, cells), FINISH, lane_cell)
    yield from plot


def _cell(a: int, b: int) -> RaceCell:
    """Return the cell of a curve with the dots of each lane; the playhead of A passes a cell that both have."""
    if not a | b:
        return RaceCell(" ")
    look: RaceLook = "both" if a and b else "a" if a else "b"
    return RaceCell(next(curve.signs([[a | b]])), look, lane=0 if a else 1)


def _write(rows: Sequence[list[RaceCell]], place: int, text: str, like: RaceCell) -> bool:
    """Write a text into the first of some rows that is blank there; return True if there is one."""
    for row in rows:
        span = slice(place, place + len(text))
        if place >= 0 and len(row[span]) == len(text) and all(cell.sign == " " for cell in row[span]):
            row[span] = [like._replace(sign=sign) for sign in text]
            return True
    return False
