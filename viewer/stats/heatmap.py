"""Pure: heat maps of a quantity over time: columns are intervals of time, rows are powers of two, cells are counts.

The rows are absolute, so that two maps compare: those of a duration are the bit lengths of its ns, as the tape counts
gaps (`measures.gap_hist`), those of a rate the bit lengths of its whole part. A shade is a cell's share of its column;
a cell that is not empty always has a mark. Counting is left to `overview`, filters to `drilling`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from wiretape.recorder.local_time import moment, offset
from wiretape.recorder.plurals import counted

METRICS: Final = ("gap", "ttft", "tps")
"""Metrics of a map: gaps between output chunks, the time to the first, tokens per second."""

GLYPHS: Final = " ·░▒▓█"
"""Character of a cell without colours, by its step; 0 is empty."""

UNITS: Final = {"gap": "gaps", "ttft": "exchanges", "tps": "exchanges"}
"""Noun of the values counted in a map, by metric."""

LEGEND: Final = ("none", "< 1 %", "< 5 %", "< 20 %", "< 50 %", "≥ 50 %")
"""Range of a cell's share of its column, by step."""
FLOORS: Final = {"gap": 20, "ttft": 20, "tps": 0}
"""The lowest row of each metric, which includes all smaller values: 2^20 ns are about 1 ms."""

_LIMITS = (0.01, 0.05, 0.2, 0.5)
_STEPS_S: Final = (
    1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 28800, 43200,
    86400, 172800, 259200, 604800,
)  # fmt: skip
_STEPS_MS: Final = (10, 20, 50, 100, 200, 500, *(1000 * step_s for step_s in _STEPS_S))
_SECOND_MS: Final = 1000
_DAY_MS: Final = 86_400_000
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_APART = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its count, its share of its column, and the number of exchanges that a filter for it selects."""

    count: int
    share: float
    exchanges: int


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A map: `bands` are its rows, the highest first; `counts` and `exchanges` have one list for each of them.

    Its columns are `step_ms` milliseconds long and begin at `start_ms`, in ms since the epoch. Of a gap map the
    exchanges of a cell are those that had such a gap. `same_read` counts gaps of 0, which no cell shows.
    """

    metric: str
    start_ms: int
    step_ms: int
    bands: tuple[tuple[int, int], ...]
    counts: list[list[int]]
    exchanges: list[list[int]]
    same_read: int = 0

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self.counts[0]) if self.counts else 0

    @property
    def whole(self) -> list[int]:
        """The total of each column."""
        return [sum(column) for column in zip(*self.counts, strict=True)]

    def cell(self, row: int, column: int) -> Cell:
        """Return one cell."""
        count = self.counts[row][column]
        whole = sum(line[column] for line in self.counts)
        return Cell(count, count / whole if whole else 0.0, self.exchanges[row][column])

    def step(self, row: int, column: int) -> int:
        """Return the step of a cell: an index into `LEGEND`."""
        return step(self.cell(row, column).share)

    def span(self, column: int) -> tuple[str, str]:
        """Return when a column begins and when the next one does: ISO 8601, UTC."""
        start = self.start_ms + column * self.step_ms
        return _iso(start, self.step_ms), _iso(start + self.step_ms, self.step_ms)

    @property
    def offset(self) -> str:
        """The offset of the times of the axis from UTC."""
        return offset(datetime.fromtimestamp(self.start_ms // 1000).astimezone())

    def limits(self, row: int) -> tuple[int | None, int]:
        """Return the range of a row's values: its start (None: 0) and its exclusive end, in ns or as a rate."""
        low, high = self.bands[row]
        return None if low <= FLOORS[self.metric] else 1 << (low - 1), 1 << high

    def label(self, row: int) -> str:
        """Return the label of a row: its least value; for the lowest row, its upper limit."""
        low, high = self.limits(row)
        return f"<{amount(high, self.metric)}" if low is None else amount(low, self.metric)


def bar(found: Heatmap, lines: int, line: int, edges: Sequence[int]) -> str:
    """Draw one of the `lines` of a bar chart of the columns' totals: line 0 is the lowest.

    A column begins at its edge in cells and ends at the next one. A column that is not empty always has a mark.
    """
    most = max(found.whole)
    drawn = ""
    for column, whole in enumerate(found.whole):
        eighths = -(-whole * 8 * lines // most) if whole else 0
        drawn += _EIGHTHS[max(0, min(eighths - 8 * line, 8))] * (edges[column + 1] - edges[column])
    return drawn


def step(share: float) -> int:
    """Return the step of a share, 0 to 1: an index into `LEGEND`."""
    return 0 if not share else 1 + sum(share >= limit for limit in _LIMITS)


def columns(first_ms: int, last_ms: int, room: int, exchanges: int) -> tuple[int, int, int]:
    """Return the start of the first column and a column's length (ms), and the number of columns: at most `room`.

    They are shorter than a second only if there are at least as many `exchanges` as columns: most would be empty.
    """
    for step_ms in (*_STEPS_MS, *(_STEPS_MS[-1] << doubled for doubled in range(1, 40))):
        start = _floored(first_ms, step_ms)
        most = max(room, 1) if step_ms >= _SECOND_MS else min(room, exchanges)
        if (count := (last_ms - start) // step_ms + 1) <= most:
            return start, step_ms, count
    return first_ms, last_ms - first_ms + 1, 1


def bands(lowest: int, highest: int, room: int) -> tuple[tuple[int, int], ...]:
    """Divide bit lengths into at most `room` rows of equal size, the highest first: the ends of each, both included.

    The borders depend only on the size of a row, not on the tape.
    """
    size = 1
    while highest // size - lowest // size + 1 > max(room, 1):
        size += 1
    rows = range(highest // size, lowest // size - 1, -1)
    return tuple((max(row * size, lowest), row * size + size - 1) for row in rows)


def axis(heatmap: Heatmap, width: int) -> str:
    """Draw the axis below a map whose columns are `width` wide in all: evenly spaced labels of their start times.

    Over two days or more, only days are named, by their date, where they begin; all times have the offset of the first.
    """
    count, step_ms = heatmap.columns, heatmap.step_ms
    in_days = step_ms < _DAY_MS and _DAY_MS % step_ms == 0 and count * step_ms >= 2 * _DAY_MS
    unit = _DAY_MS // step_ms if in_days else 1
    start = heatmap.start_ms + _offset_ms(heatmap.start_ms)
    named = range(-(start // step_ms) % unit, count, unit)
    labels = [_when(start + column * step_ms, unit * step_ms) for column in named]
    needed = max(map(len, labels), default=0) + _APART
    apart = next((apart for apart in range(1, count) if apart * unit * width // count >= needed), max(count, 1))
    drawn = ""
    for column, label in list(zip(named, labels, strict=True))[::apart]:
        place = column * width // count
        if place + len(label) <= width:
            drawn = f"{drawn:<{place}}{label}"
    return drawn


def amount(value: int, metric: str) -> str:
    """Return an edge of a row for people, in three digits: a duration with its unit, or a rate."""
    if metric == "tps":
        return f"{value:,}"
    return f"{value / 1e9:.3g} s" if value >= 1e9 else f"{value / 1e6:.3g} ms"


def described(found: Heatmap, row: int, column: int) -> str:
    """Return a cell in words: its time, its values, its count, and the number of its exchanges."""
    cell = found.cell(row, column)
    since, _ = found.span(column)
    low, high = found.limits(row)
    least = "0" if low is None else amount(low, found.metric)
    start = moment(since, "milliseconds" if found.step_ms < _SECOND_MS else "seconds")
    span = f"{start} · {least} – {amount(high, found.metric)}"
    if not cell.count:
        return f"{span} · nothing"
    number = counted(cell.count, "gap" if found.metric == "gap" else "exchange")
    such = " with such a gap" if found.metric == "gap" else ""
    return f"{span} · {number}, {100 * cell.share:.1f} % · enter: {counted(cell.exchanges, 'exchange')}{such}"


def length(step_ms: int) -> str:
    """Return a column's length, for people."""
    for unit, size in (("d", _DAY_MS), ("h", 3_600_000), ("min", 60_000), ("s", _SECOND_MS)):
        if step_ms % size == 0:
            return f"{step_ms // size} {unit}"
    return f"{step_ms} ms"


def row_of(bits: int, laid: Sequence[tuple[int, int]]) -> int:
    """Return the row of a bit length; the lowest row includes all smaller ones."""
    return next((at for at, (low, _) in enumerate(laid) if bits >= low), len(laid) - 1)


def _offset_ms(at_ms: int) -> int:
    """Return the offset of local time from UTC at a time, in ms."""
    local, utc = (datetime.fromtimestamp(at_ms // 1000, zone).replace(tzinfo=None) for zone in (None, UTC))
    return (local - utc) // timedelta(milliseconds=1)


def _floored(at_ms: int, step_ms: int) -> int:
    """Return the beginning of the step that a time is in: days and hours are local."""
    local_ms = at_ms + _offset_ms(at_ms)
    return local_ms // step_ms * step_ms - local_ms + at_ms


def _when(at_ms: int, step_ms: int) -> str:
    start = datetime.fromtimestamp(at_ms // 1000, UTC)
    if step_ms >= _DAY_MS:
        return f"{start:%m-%d}"
    return f"{start:%H:%M}" if step_ms >= 60_000 else _iso(at_ms, step_ms)[11:-1]


def _iso(at_ms: int, step_ms: int) -> str:
    """Return a time in ISO 8601, to a millisecond if the columns are shorter than a second."""
    fraction = f".{at_ms % 1000:03}" if step_ms < _SECOND_MS else ""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"
