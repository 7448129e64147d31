"""Pure: the gaps of exchanges drawn one below the other, on one axis of time and one absolute scale of height.

A line begins when the request was sent, so that the wait for the first output is the blank at its left. How long a gap
is shows in its height; the scale is that of `metrics.sparkline`. Every sign is one cell wide, and `ASCII` has
another for each. Which exchanges there are and what stands beside the drawing is left to the callers.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from recorder.decode.metrics import SPARK_STEPS_NS, sparkline
from viewer.formatting import MINUS

FIRST: Final = "·"
"""The cell of the first output, where no gap ends."""

END: Final = "│"
"""The cell in which an exchange ended, where it is not that of the last output."""

LEGEND: Final = f"gaps: ▁ <3  ▂ 3  ▃ 10  ▄ 30  ▅ 100  ▆ 300 ms  ▇ 1  █ 3 s  {FIRST} first output  {END} end"
ASCII: Final = str.maketrans("▁▂▃▄▅▆▇█·│╷–−…→", ".:-=+*#@o||--~>")
"""The signs of drawings and tables for terminals that only have ASCII, for `str.translate`."""

SLOW: Final = "▆"
"""Gaps of 300 ms and more."""

STALLED: Final = "▇█"
"""Gaps of a second and more."""

TICK: Final = "╷"
"""Stands at an instant of the axis, whose label follows it."""

_BAR = " ▁▂▃▄▅▆▇█"
_HEIGHT_ENDS_NS = 1_000_000, 10_000_000_000
_LEAST_BETWEEN_TICKS = 10
_STEPS = (1, 2, 5)
_CLOCK_STEPS_NS = tuple(
    [step * 10**exponent for exponent in range(6, 9) for step in _STEPS]
    + [seconds * 10**9 for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)]
)
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def line(at: Sequence[int], end_ns: int | None, axis_ns: int, cells: int) -> str:
    """Draw one exchange in at most `cells` cells, which stand for `axis_ns` since its request.

    `at` are the timestamps of its outputs; `end_ns` is None where it is not known.
    """
    if axis_ns <= 0:
        return ""
    drawn = [" "] * cells
    if at:
        drawn = list(sparkline(at, cells, (0, axis_ns))) or drawn
        _mark(drawn, cell(at[0], axis_ns, cells), FIRST)
    if end_ns is not None and (not at or cell(end_ns, axis_ns, cells) > cell(at[-1], axis_ns, cells)):
        _mark(drawn, cell(end_ns, axis_ns, cells), END)
    return "".join(drawn).rstrip(" ")


def placed(drawing: str, first_ns: int, last_ns: int, end_ns: int | None, axis_ns: int, cells: int) -> str:
    """Draw a sparkline, which goes from the first output to the last, on an axis from the request on; see `line`."""
    drawn = [" "] * cells
    for number, sign in enumerate(drawing, 1):
        place = cell(first_ns + number * (last_ns - first_ns) // len(drawing), axis_ns, cells)
        if place < cells:
            drawn[place] = max(drawn[place], sign)
    _mark(drawn, cell(first_ns, axis_ns, cells), FIRST)
    if end_ns is not None and cell(end_ns, axis_ns, cells) > cell(last_ns, axis_ns, cells):
        _mark(drawn, cell(end_ns, axis_ns, cells), END)
    return "".join(drawn).rstrip(" ")


def scale_ns(longest_ns: int) -> int:
    """Return the length of an axis for exchanges that last so long at most: a round one, so that it seldom changes."""
    return _step(longest_ns)


def scale(axis_ns: int) -> str:
    """Return what an axis goes up to, such as `5 s`."""
    return _amount(axis_ns)


def timestamps(first_ns: int | None, gaps: bytes | None) -> list[int]:
    """Return when each output came, given when the first did and the gaps between them, little-endian int64, ns.

    There is none if the first is unknown.
    """
    gaps = gaps or b""
    return (
        [] if first_ns is None else list(accumulate(struct.unpack_from(f"<{len(gaps) // 8}q", gaps), initial=first_ns))
    )


def axis(axis_ns: int, cells: int, zero_ns: int = 0) -> str:
    """Draw the axis: a tick and its instant, for as many round instants as there is room for.

    They count from `zero_ns`; what is before it has a minus.
    """
    step = _step(axis_ns * min(_LEAST_BETWEEN_TICKS, cells) // max(cells, 1))
    drawn = ""
    for at in range(-(zero_ns // step) * step, max(axis_ns, 0) - zero_ns + 1, step):
        place = (at + zero_ns) * cells // axis_ns if axis_ns > 0 else 0
        label = f"{TICK}{_amount(at)}"
        if place + len(label) <= cells:
            drawn += " " * (place - len(drawn)) + label
    return drawn


def height(gap_ns: int, rows: int) -> int:
    """Return how high the bar of a gap is, in eighths of a row, where there are so many rows: at least one.

    The scale is that of `recorder.decode.metrics.sparkline`: each of its steps is an eighth of all rows.
    """
    step = bisect_right(SPARK_STEPS_NS, gap_ns)
    lower, upper = (_HEIGHT_ENDS_NS[0], *SPARK_STEPS_NS, _HEIGHT_ENDS_NS[1])[step : step + 2]
    share = min(max(math.log(max(gap_ns, 1) / lower) / math.log(upper / lower), 0), 0.999)
    return int((step + share) * rows) + 1


def bars(heights: Sequence[int], rows: int) -> list[str]:
    """Draw bars of these heights, in eighths of a row, 0 for none: one cell each, in rows from the top."""
    below = [range((rows - 1 - row) * 8, (rows - row) * 8) for row in range(rows)]
    return ["".join(_BAR[min(max(height - low.start, 0), 8)] for height in heights) for low in below]


def bounds(rows: int) -> list[str]:
    """Return what gap each of 1, 2, 4 or 8 rows of bars begins with, from the top; the lowest begins with none."""
    steps = [SPARK_STEPS_NS[8 * row // rows - 1] for row in range(rows - 1, 0, -1)]
    return [*(_amount(step) for step in steps), ""]


def without_label(axis: str, at: int) -> str:
    """Return an axis without the label that a playhead at a cell stands within: it would show another time."""
    tick = axis.rfind(TICK, 0, at)
    end = axis.find(TICK, at)
    label = axis[tick + 1 : end if end >= 0 else None].rstrip()
    within = tick >= 0 and at <= tick + len(label)
    return f"{axis[: tick + 1]}{' ' * len(label)}{axis[tick + 1 + len(label) :]}" if within else axis


def clock_axis(axis_ns: int, cells: int, began_ns: int) -> str:
    """Draw an axis whose ticks are round times of day: it begins at `began_ns`, in ns since midnight."""
    step = _CLOCK_STEPS_NS[-1]
    for candidate in _CLOCK_STEPS_NS:
        if candidate * cells >= axis_ns * (len(_time_of_day(0, candidate)) + 3):
            step = candidate
            break
    drawn = ""
    for at in range(-(-began_ns // step) * step, began_ns + max(axis_ns, 0) + 1, step):
        place = (at - began_ns) * cells // axis_ns if axis_ns > 0 else 0
        label = f"{TICK}{_time_of_day(at, step)}"
        if place + len(label) <= cells:
            drawn += " " * (place - len(drawn)) + label
    return drawn


def _time_of_day(ns: int, step_ns: int) -> str:
    """Return a time of day as precise as steps of it need."""
    seconds, rest = divmod(ns, 10**9)
    hours, minutes = divmod(seconds // 60, 60)
    fraction = f".{rest // 10**6:03}" if step_ns < 10**9 else ""
    return f"{hours % 24:02}:{minutes:02}:{seconds % 60:02}{fraction}"


def cell(at_ns: int, axis_ns: int, cells: int) -> int:
    """Return the cell of an instant; one on a border belongs to the cell before it, as in `sparkline`."""
    return max(-(-at_ns * cells // axis_ns) - 1, 0)


def _mark(drawn: list[str], cell: int, sign: str) -> None:
    if cell < len(drawn) and drawn[cell] == " ":
        drawn[cell] = sign


def _step(least: int) -> int:
    """Give the smallest round number of ns that is not below `least`."""
    rounds = (step * int(10**exponent) for exponent in range(20) for step in _STEPS)
    return next(step for step in rounds if step >= max(least, 1))


def _amount(ns: int) -> str:
    minus = MINUS if ns < 0 else ""
    return next((f"{minus}{abs(ns) / size:.4g} {unit}" for size, unit in _UNITS if abs(ns) >= size), "0")
