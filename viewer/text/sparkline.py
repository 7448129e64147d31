"""Pure: the gaps of exchanges as bars on one axis of time.

The height of a bar in a line of an exchange is the length of its gap on the absolute scale of
`decode.metrics.sparkline`, so that lines can be compared; in a timeline of one stream it is relative to that stream's
own gaps. A line begins when the request was sent: the wait for the first output is the blank at its left. Every sign is
one cell wide, and `ASCII` has another for each. Callers choose the exchanges and label them.
"""

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, count
from typing import Final

from wiretape.recorder.decode.metrics import sparkline
from wiretape.viewer.text import formatting
from wiretape.viewer.text.formatting import MINUS

FIRST: Final = "·"
"""The cell of the first output, where no gap ends."""

END: Final = "│"
"""The cell in which an exchange ended, where it is not that of the last output."""

LEGEND: Final = f"gaps: ▁ <3  ▂ 3  ▃ 10  ▄ 30  ▅ 100  ▆ 300 ms  ▇ 1  █ 3 s  {FIRST} first output  {END} end"
ASCII: Final = str.maketrans("▁▂▃▄▅▆▇█·│╷–−…→", ".:-=+*#@o||--~>")
"""The signs of drawings and tables for terminals that only have ASCII, for `str.translate`."""

SLOW: Final = "▆"
"""Gaps of 300 ms and more."""

LONG: Final = "▇█"
"""Gaps of a second and more."""

UNITS_NS: Final = 5_000_000, 500_000_000
"""Shortest and longest unit of a stream's bars, in ns: where reads follow faster, milliseconds are jitter."""

TICK: Final = "╷"
"""Stands at a timestamp of the axis, whose label follows it."""

_BAR = " ▁▂▃▄▅▆▇█"
_STEPS = (1, 2, 5)
_CLOCK_STEPS_NS = tuple(
    [step * 10**exponent for exponent in range(6, 9) for step in _STEPS]
    + [seconds * 10**9 for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)]
)
_LEAST_MINUTES_NS = formatting.LEAST_MINUTES * 10**9
_ROUND_NS = tuple(step * size for size in (int(10**exponent) for exponent in range(11)) for step in _STEPS)
"""Round times of less than a minute, in ns."""

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def line(at: Sequence[int], end_ns: int | None, axis_ns: int, cells: int) -> str:
    """Draw one exchange in at most `cells` cells, which stand for `axis_ns` since its request.

    `at` are the timestamps of its outputs; `end_ns` is None where it is not known.
    """
    if axis_ns <= 0:
        return ""
    signs = list(sparkline(at, cells, (0, axis_ns))) if at else []
    return with_ends(signs or [" "] * cells, (at[0], at[-1]) if at else None, end_ns, axis_ns)


def with_ends(signs: list[str], outputs: tuple[int, int] | None, end_ns: int | None, axis_ns: int) -> str:
    """Mark the first output, and the end unless it is in the cell of the last output."""
    first_cell, last_cell = (cell(at_ns, axis_ns, len(signs)) for at_ns in outputs) if outputs else (len(signs), -1)
    end = -1 if end_ns is None else cell(end_ns, axis_ns, len(signs))
    for place, sign in ((first_cell, FIRST), *([(end, END)] if end > last_cell else [])):
        if place < len(signs) and signs[place] == " ":
            signs[place] = sign
    return "".join(signs).rstrip(" ")


def scale_ns(longest_ns: int) -> int:
    """Return the smallest round time that is not below a length in ns: as the length of an axis, it seldom changes."""
    minute_ns = 60 * 10**9
    rounds = chain(_ROUND_NS, (step * int(10**exponent) * minute_ns for exponent in count() for step in _STEPS))
    return next(step for step in rounds if step >= max(longest_ns, 1))


def scale(ns: int) -> str:
    """Return a time in its largest unit, such as `5 s`."""
    minus = MINUS if ns < 0 else ""
    if abs(ns) >= _LEAST_MINUTES_NS:
        return _minutes(ns)
    return next((f"{minus}{abs(ns) / size:.4g} {unit}" for size, unit in _UNITS if abs(ns) >= size), "0")


def timestamps(first_ns: int | None, gaps: bytes | None) -> list[int]:
    """Return when each output came, given when the first did and the gaps between them, little-endian int64, ns.

    There is none if the first is unknown.
    """
    if first_ns is None:
        return []
    gaps = gaps or b""
    return list(accumulate(struct.unpack_from(f"<{len(gaps) // 8}q", gaps), initial=first_ns))


def axis(axis_ns: int, cells: int, zero_ns: int = 0) -> str:
    """Draw the axis: a tick and its time, for as many round times as there is room for.

    They count from `zero_ns`; times before it have a minus.
    """
    least_ns = axis_ns * min(10, cells) // max(cells, 1)
    if axis_ns < _LEAST_MINUTES_NS:
        return _ticks(axis_ns, cells, -zero_ns, scale_ns(least_ns), scale)
    step = next((step for step in _CLOCK_STEPS_NS if step >= max(least_ns, 10**9)), scale_ns(least_ns))
    return _ticks(axis_ns, cells, -zero_ns, step, _minutes)


def _minutes(ns: int) -> str:
    """Return a time of whole seconds in minutes, as `5:00`."""
    return f"{MINUS if ns < 0 else ''}{formatting.minutes(abs(ns) // 10**9)}" if ns else "0"


def day_axis(axis_ns: int, cells: int, began_ns: int) -> str:
    """Draw an axis whose ticks are round times of day: it begins at `began_ns`, in ns since midnight."""
    steps = (step for step in _CLOCK_STEPS_NS if step * cells >= axis_ns * (len(_time_of_day(0, step)) + 3))
    step = next(steps, _CLOCK_STEPS_NS[-1])
    return _ticks(axis_ns, cells, began_ns, step, lambda ns: _time_of_day(ns, step))


def _ticks(axis_ns: int, cells: int, start_ns: int, step: int, time_of: Callable[[int], str]) -> str:
    """Draw a tick at each multiple of a step on an axis that begins at `start_ns`, with its time if there is room."""
    axis = ""
    for at in range(-(-start_ns // step) * step, start_ns + max(axis_ns, 0) + 1, step):
        place = (at - start_ns) * cells // axis_ns if axis_ns > 0 else 0
        label = f"{TICK}{time_of(at)}"
        if len(axis) <= place and place + len(label) <= cells:
            axis += " " * (place - len(axis)) + label
    return axis


def _time_of_day(ns: int, step_ns: int) -> str:
    """Return a time of day as precise as steps of it need."""
    seconds, fraction_ns = divmod(ns, 10**9)
    hours, minutes = divmod(seconds // 60, 60)
    fraction = f".{fraction_ns // 10**6:03}" if step_ns < 10**9 else ""
    return f"{hours % 24:02}:{minutes:02}:{seconds % 60:02}{fraction}"


def unit_ns(gaps: Iterable[int]) -> int:
    """Return the unit of the bars of a stream: the median of its gaps in ns, without those within one read.

    It is within `UNITS_NS`: of a stream with hardly any gap but a stall, that is no unit.
    """
    lengths = sorted(gap for gap in gaps if gap > 0)
    least, most = UNITS_NS
    return min(max(lengths[(len(lengths) - 1) // 2] if lengths else 0, least), most)


def height(gap_ns: int, rows: int, unit_ns: int) -> int:
    """Return the height of a gap's bar in a drawing of `rows` rows, in eighths of a row: at least one.

    Gaps of less than two units have the lowest bar: jitter is no signal. Each doubling adds an eighth of all rows.
    """
    doublings = math.log2(gap_ns / unit_ns) if gap_ns >= 2 * unit_ns else 0
    # Below 8: a row has eight bars, and the longest gaps have the highest.
    return int(min(doublings, 7.999) * rows) + 1


def bars(heights: Sequence[int], rows: int) -> list[str]:
    """Draw bars of these heights, in eighths of a row, 0 for none: one cell each, in rows from the top."""
    below = [range((rows - 1 - row) * 8, (rows - row) * 8) for row in range(rows)]
    return ["".join(_BAR[min(max(height - low.start, 0), 8)] for height in heights) for low in below]


def bounds(rows: int) -> list[str]:
    """Return the shortest gap of each of 1, 2, 4 or 8 rows of bars in units, from the top; the lowest has none."""
    return [*(f"{2 ** (8 * row // rows)}×" for row in range(rows - 1, 0, -1)), ""]


def without_label(axis: str, at: int) -> str:
    """Return an axis without the label that a playhead at a cell stands within: it would show another time."""
    tick = axis.rfind(TICK, 0, at)
    end = axis.find(TICK, at)
    label = axis[tick + 1 : end if end >= 0 else None].rstrip()
    within = tick >= 0 and at <= tick + len(label)
    return f"{axis[: tick + 1]}{' ' * len(label)}{axis[tick + 1 + len(label) :]}" if within else axis


def cell(at_ns: int, axis_ns: int, cells: int) -> int:
    """Return the cell of a timestamp; one on a border belongs to the cell before it, as in `sparkline`."""
    return max(-(-at_ns * cells // axis_ns) - 1, 0)
