"""Pure: the limits on silences laid out for people: which fits, what it costs and saves, and a plot of what each cuts.

Recorded text, a group's name, passes `safe` and only ever becomes `rich.text.Text`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from wiretape.recorder.decode.stalls import Layer
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.report.tables import Table, TableColumn, number, paragraph, table
from wiretape.viewer.stats.metrics import VALUES_NEEDED, group_title
from wiretape.viewer.stats.timeouts import FEW, Integers, SilentGroup, SilentPhase
from wiretape.viewer.text import curve
from wiretape.viewer.text.formatting import UNKNOWN, cell, span

MOST_PLOTS: Final = 6
"""Groups with a plot: more fill a screen."""

_LABEL: Final = 11


def page(groups: Sequence[SilentGroup], by: str | None, width: int | None = None) -> Table:
    """Lay out groups, a row for each layer and phase, and notes about them."""
    rows: list[TableRow] = [{"group": group.name, "phase": phase} for group in groups for phase in group.phases]
    title = [TableColumn("group", group_title(by), lambda row: cell(row["group"]))] if by else []
    columns = [*title, *(TableColumn(name, name, text) for name, text in _COLUMNS.items())]
    important = ("group", "silence", "limit", "max s", "saved", "n", "p99 s", "id", "cuts ≤", "p50 s")
    laid_out = table(columns, rows, width, important)
    notes = [line for label, text in _notes(groups) for line in paragraph(f"{label:<{_LABEL}}", text, width)]
    return Table([*laid_out.lines, *notes], laid_out.hidden)


def _percentile(phase: SilentPhase, percent: int) -> str:
    enough = phase.good_ns.size >= VALUES_NEEDED[f"p{percent}"]
    return number(float(np.percentile(phase.good_ns, percent)) / 1e9 if enough else None)


def _seconds(ns: int | None) -> str:
    return number(None if ns is None else ns / 1e9)


def _limit(phase: SilentPhase) -> str:
    return "none" if phase.fitting is None else f"{phase.fitting.limit_ns / 1e9:g} s"


def _bound(phase: SilentPhase) -> str:
    """Return the share of good streams that a limit cuts at most, with 95 %, if it cuts none of these: 3 / n."""
    return f"{300 / phase.good_n:.2g} %" if phase.fitting is not None and phase.good_n > 3 else UNKNOWN


def _saved(phase: SilentPhase) -> str:
    saved_ns = None if phase.fitting is None else phase.fitting.saved_ns
    return span(None if saved_ns is None else saved_ns / 1e6)


_COLUMNS: Final[dict[str, Callable[[TableRow], str]]] = {
    "silence": lambda row: f"{row['phase'].phase} {row['phase'].layer}",
    "n": lambda row: number(row["phase"].n),
    "p50 s": lambda row: _percentile(row["phase"], 50),
    "p99 s": lambda row: _percentile(row["phase"], 99),
    "max s": lambda row: _seconds(row["phase"].longest_good_ns),
    "id": lambda row: cell(row["phase"].longest_id)[:8],
    "limit": lambda row: _limit(row["phase"]),
    "cuts ≤": lambda row: _bound(row["phase"]),
    "saved": lambda row: _saved(row["phase"]),
}


def _notes(groups: Sequence[SilentGroup]) -> Iterator[tuple[str, str]]:
    yield (
        "limit",
        "the least that cuts no good stream: with 95 %, at most this share of further ones; p50 to id are of good "
        "streams; saved: waiting for dead ones",
    )
    names_by_interval: dict[str, list[str]] = {}
    for group in groups:
        interval = "none seen" if group.keepalive_ns is None else f"{number(group.keepalive_ns / 1e9)} s"
        names_by_interval.setdefault(interval, []).append(cell(group.name))
    texts = [
        interval if len(groups) == 1 else f"{interval} ({_listed(names)})"
        for interval, names in names_by_interval.items()
    ]
    yield "keep-alive", f"{', '.join(texts)}: a longer limit by bytes or events never fires while pings come"
    phases = [(group, phase) for group in groups for phase in group.phases]
    few = [
        f"{cell(group.name)} {phase.phase} {phase.layer} {phase.n:,}".lstrip()
        for group, phase in phases
        if phase.n < FEW
    ]
    if few:
        yield "too few", f"n < {FEW}: {_listed(few)}"
    if own_ns := [phase.own_limit_ns for _, phase in phases if phase.own_limit_ns is not None]:
        yield "note", f"recorded with an idle timeout of {min(own_ns) / 1e9:g} s: from there on none is known to fit"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def plots(groups: Sequence[SilentGroup], layer: Layer, width: int) -> Iterator[Text]:
    """Draw how many good and dead streams a limit on later silences of a layer cuts, on a logarithmic axis."""
    phases = [(group.name, phase) for group in groups for phase in group.phases]
    chosen = [(name, phase) for name, phase in phases if (phase.layer, phase.phase) == (layer, "later") and phase.n]
    if not chosen:
        return
    longest_ns = max(int(lengths.max(initial=0)) for _, phase in chosen for lengths in (phase.good_ns, phase.dead_ns))
    # From 0.1 s to 1,000 s, which the usual limits lie between, or to the decade of the longest silence.
    decades = max(4, math.ceil(math.log10(max(longest_ns / 1e8, 1))))
    label = f"cut, {layer}"
    room = max(len(label), *(len(f"good {phase.good_n:,}") for _, phase in chosen)) + 2
    cells = max(min(width - room - 6, 15 * decades) // decades, 4) * decades
    marks = "".join(f"{10 ** (decade - 1):<{cells // decades},g}" for decade in range(decades))
    yield Text(f"{label:<{room}}{marks}{10 ** (decades - 1):,g} s", "dim")
    ends_ns = 1e8 * 10 ** (np.arange(1, curve.WIDE * cells + 1) * decades / (curve.WIDE * cells))
    for name, phase in chosen[:MOST_PLOTS]:
        if len(groups) > 1:
            yield Text(cell(name), "bold")
        for kind, count, lengths_ns in (("good", phase.good_n, phase.good_ns), ("dead", phase.dead_n, phase.dead_ns)):
            yield from _curve(f"{kind} {count:,}", count, lengths_ns, ends_ns, room)


def _curve(label: str, count: int, lengths_ns: Integers, ends_ns: NDArray[np.float64], room: int) -> Iterator[Text]:
    """Draw how many of these lengths are longer than each end of a column, in two lines."""
    counts = (len(lengths_ns) - np.searchsorted(lengths_ns, ends_ns, side="right")).tolist()
    signs = curve.signs(curve.dots(counts, count, len(ends_ns) // curve.WIDE, 2))
    for text, line in zip((label, ""), signs, strict=True):
        yield Text(f"{text:<{room}}{line}".rstrip(" "))
