"""Pure: the long waits of a stream on an axis of time: which cells they take, and a row with their length written in.

A wait is the time before the first output, between two outputs, or from the last one to the end. What ends a wait has a
cell of its own; the wait takes those before it in which no other output came.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from typing import Final, Literal

from viewer import sparkline

LEAST_NS: Final = 300_000_000
"""Shorter waits are not shaded."""

STALLED_NS: Final = 1_000_000_000
"""From here on a wait is drawn as a gap of that length is."""

SHADE: Final = "·"
_CUT: Final = "┆"

Kind = Literal["first", "slow", "stalled"]


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of so many ns, in the cells from `first` to `last`; that for the first output is of its own kind."""

    first: int
    last: int
    lasted_ns: int
    kind: Kind


def found(at: Sequence[int], start_ns: int, end_ns: int, axis_ns: int, cells: int) -> list[Wait]:
    """Return the waits of a stream from `start_ns` to `end_ns` whose outputs came at the ascending timestamps `at`."""
    if axis_ns <= 0 or cells <= 0:
        return []
    places = [start_ns, *at, max(end_ns, at[-1] if len(at) else start_ns)]
    long = [number for number, lasted in enumerate(map(sub, places[1:], places)) if lasted > LEAST_NS]
    waits = []
    for number in long:
        began, ended = places[number], places[number + 1]
        first = began * cells // axis_ns if number == 0 else sparkline.cell(began, axis_ns, cells) + 1
        last = sparkline.cell(ended, axis_ns, cells) - (number < len(at))
        kind: Kind = "first" if number == 0 and len(at) else "stalled" if ended - began >= STALLED_NS else "slow"
        if first <= min(last, cells - 1):
            waits.append(Wait(first, min(last, cells - 1), ended - began, kind))
    return waits


def shaded(row: str, waits: Sequence[Wait], cells: int, cap_ns: int | None = None) -> str:
    """Return a row with its blank cells shaded where there is a wait, and the wait's length where there is room for it.

    Waits longer than `cap_ns`, of which a part is not played, are marked.
    """
    drawn = list(row.ljust(cells))
    for wait in waits:
        size = wait.last - wait.first + 1
        is_cut = cap_ns is not None and wait.lasted_ns > cap_ns
        length = written(wait.lasted_ns)
        label = f"{_CUT}{length}{_CUT}" if is_cut else length
        label = label if len(label) + 2 <= size else _CUT if is_cut else ""
        text = f"{label:{SHADE}^{size}}"
        for cell, sign in zip(range(wait.first, wait.last + 1), text, strict=True):
            drawn[cell] = sign if drawn[cell] == " " else drawn[cell]
    return "".join(drawn)


def kinds(waits: Sequence[Wait], cells: int) -> list[Kind | None]:
    """Return the kind of the wait that each cell is in, None where there is none."""
    found: list[Kind | None] = [None] * cells
    for wait in waits:
        found[wait.first : wait.last + 1] = [wait.kind] * (wait.last - wait.first + 1)
    return found


def written(lasted_ns: int) -> str:
    """Return the length of a wait in few characters."""
    return f"{lasted_ns / 1e6:.0f} ms" if lasted_ns < 999_500_000 else f"{lasted_ns / 1e9:,.1f} s"
