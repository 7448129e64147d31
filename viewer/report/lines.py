"""Exchanges for people, one a line, and printing lines.

Every recorded text passes `safe` on its way here and is only ever put into `rich.text.Text`, never into markup, so it
can neither drive a terminal nor style itself. Unknown is `–`. What machines read is written by `export`.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO, Final

from rich.console import Console
from rich.text import Text

from viewer import formatting, rows, sparkline
from viewer.report import tables
from viewer.report.tables import Column, Table
from viewer.rows import Row

LISTED: Final = (
    "id", "started_at", "model", "upstream", "status", "outcome", "ttft_ms", "icl_p50_ms", "max_stall_ms",
    "completion_tokens", "duration_ms", "flags", "sparkline",
)  # fmt: skip
"""The columns of `listing`, unless others are asked for."""

COLUMNS: Final = (*rows.FIELDS, "sparkline", *rows.TEXT_FIELDS, *rows.DETAIL_FIELDS, *rows.GAP_PERCENTILES)
"""All columns that `listing` can have: the fields of an exchange."""

_IMPORTANT: Final = (
    "id", "outcome", "started_at", "model", "ttft_ms", "duration_ms", "max_stall_ms", "completion_tokens", "flags",
    "status", "icl_p50_ms", "sparkline", "upstream",
)  # fmt: skip
_TITLES: Final = {
    "started_at": "started UTC", "ttft_ms": "ttft ms", "icl_p50_ms": "icl p50 ms", "max_stall_ms": "max gap ms",
    "max_silence_ms": "max silence ms",
    "completion_tokens": "tokens", "duration_ms": "total ms", "sparkline": "gaps",
}  # fmt: skip
_SHORT_ID = 8
_TIME, _DATE_AND_TIME = slice(11, 19), slice(5, 19)


SPARKED: Final = ("id", "model", "outcome", "ttft_ms", "duration_ms")
"""The fields that `sparked` wants."""

_LEAST_DRAWN = 20


def emit(lines: Iterable[Text], out: BinaryIO | None = None) -> None:
    """Print lines to the terminal, in its colours and without wrapping; or write them to `out` as plain UTF-8."""
    if out is None:
        console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
        for line in lines:
            console.print(line)
    else:
        for line in lines:
            out.write(f"{line.plain}\n".encode("utf-8", "replace"))


def terminal_width() -> int:
    """Give the terminal's width in cells."""
    return Console(file=sys.stdout).width


def needed(names: Sequence[str]) -> tuple[str, ...]:
    """Return the fields that a list with these columns wants: an outcome is shown with its detail."""
    return tuple(dict.fromkeys((*names, "outcome_detail"))) if "outcome" in names else tuple(names)


def listing(found: Sequence[Row], width: int | None = None, names: Sequence[str] | None = None) -> Table:
    """Lay out exchanges, one a line, with the columns `names`, of which the last matter least; None is `LISTED`.

    `width` is the terminal's, in cells.
    """
    columns = [_column(name, names or LISTED, found) for name in names or LISTED]
    return tables.table(columns, found, width, names or _IMPORTANT)


def sparked(found: Sequence[Row], gaps: Iterable[bytes | None], width: int) -> Table:
    """Lay out exchanges, one a line of `width` cells, and draw the packed gaps of each, all on the first line's axis.

    `gaps` has one item for each exchange and is read as lines are taken.
    """
    longest = max(width // 5, _SHORT_ID)
    columns = [
        _column("id", SPARKED, found),
        Column("model", "model", lambda row: tables.fitting(formatting.line(row["model"]), longest)),
        tables.plain("outcome"),
        _column("duration_ms", SPARKED, found),
    ]
    beside = tables.table(columns, found, width - _LEAST_DRAWN - 2, ("id", "duration_ms", "model", "outcome"))
    left = 2 + max(tables.width_of(text.plain) for text in beside.lines)
    room = max(width - left, _LEAST_DRAWN)
    axis_ns = max((rows.ns(row["duration_ms"]) or 0 for row in found), default=0)
    drawn = chain(
        [Text(sparkline.axis(axis_ns, room), "bold")],
        (_drawing(row, packed, axis_ns, room) for row, packed in zip(found, gaps, strict=True)),
    )
    for text, drawing in zip(beside.lines, drawn, strict=True):
        text.pad_right(left - tables.width_of(text.plain))
        text.append_text(drawing)
    return Table([*beside.lines, *_legend(width)], beside.hidden)


def _legend(width: int) -> Iterator[Text]:
    """Yield the legend of the drawings, wrapped between its entries."""
    label, entries = sparkline.LEGEND.split(" ", 1)
    joined = "  ".join(entry.replace(" ", tables.NO_BREAK) for entry in entries.split("  "))
    for line in tables.paragraph(f"{label} ", joined, width):
        yield Text(line.plain, "dim")


def in_ascii(line: Text) -> Text:
    """Give a line with ASCII for the signs of drawings and tables; recorded text stays as it is otherwise."""
    line.plain = line.plain.translate(sparkline.ASCII)
    return line


def _drawing(row: Row, packed: bytes | None, axis_ns: int, width: int) -> Text:
    at = sparkline.timestamps(rows.ns(row["ttft_ms"]), packed)
    drawn = Text(sparkline.line(at, rows.ns(row["duration_ms"]), axis_ns, width))
    drawn.highlight_regex(f"[{sparkline.SLOW}]+", "yellow")
    drawn.highlight_regex(f"[{sparkline.STALLED}]+", "red")
    return drawn


def _column(name: str, names: Sequence[str], found: Sequence[Row]) -> Column:
    """Return a column of a list of exchanges. A short instant has no date where all are of one day."""
    title = _TITLES.get(name, name)
    if name == "outcome" and "outcome_detail" not in names:
        return Column(name, title, formatting.outcome, lambda row: formatting.line(row["outcome"]))
    if name == "started_at":
        days = {row["started_at"][:10] for row in found}
        kept = _TIME if len(days) == 1 else _DATE_AND_TIME
        return Column(
            name,
            title,
            lambda row: formatting.moment(row["started_at"]),
            lambda row: formatting.moment(row["started_at"])[kept],
        )
    return Column(name, title, lambda row: _cell(name, row[name]))


def _cell(name: str, value: Any) -> str:
    match name:
        case "id":
            return formatting.line(value)[:_SHORT_ID]
        case "upstream":
            return formatting.line(formatting.host(value))
        case "status":
            return formatting.cell(value)
        case "sparkline":
            return formatting.line(value or "")
    if name.endswith("_ms"):
        return formatting.ms(value)
    if type(value) is float:
        return f"{value:,.2f}"
    return formatting.count(value) if type(value) is int else formatting.cell(value)
