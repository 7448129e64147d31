"""Pure: rows of statistics as a table for a screen: as many columns as there is room for, the most telling first.

The figures are those of `stats.row`. Texts are safe for a terminal; unknown is `–`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recorder.plurals import counted
from viewer import formatting
from viewer.rows import Row

GROUPS: Final = ("model", "upstream", "path", "outcome", "finish_reason", "status", "error_code", "hour", "day")
"""What the table can be grouped by, besides labels."""

_NAME: Final = 10
_APART: Final = 2
_FAILURE: Final = 60
_PENDING: Final = "…"
_TOTAL: Final = "all"
_POOLED: Final = "read_gap"
_FEW: Final = 100


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, the field that it shows, how, and its rank: the lowest stays the longest.

    `unit` is that of this column and of those of the same kind behind it.
    """

    label: str
    field: str
    rank: int
    shown: Callable[[Any], str]
    unit: str = ""

    def title(self, *, with_unit: bool) -> str:
        """Return its heading, with its unit behind the first word or without."""
        first, _, rest = self.label.partition(" ")
        return f"{first} {self.unit} {rest}" if with_unit and self.unit else self.label


def figure(value: float | None) -> str:
    """Give a duration in ms or a rate with a decimal where it is small."""
    if value is None:
        return formatting.UNKNOWN
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """Give a percentage to a tenth."""
    return formatting.UNKNOWN if value is None else f"{value:.1f}%"


_COLUMNS: Final = (
    Column("N", "n", 0, formatting.count),
    Column("ERR", "error_rate_pct", 2, percent),
    Column("GOODPUT", "goodput_pct", 1, percent),
    Column("TTFT p50", "ttft_p50_ms", 1, figure, "ms"),
    Column("p90", "ttft_p90_ms", 8, figure),
    Column("p99", "ttft_p99_ms", 3, figure),
    Column("GAP p50", "read_gap_p50_ms", 4, figure, "ms"),
    Column("p99", "read_gap_p99_ms", 5, figure),
    Column("max", "read_gap_max_ms", 4, figure),
    Column("TOK/s p50", "tps_p50", 6, figure),
    Column("DUR s p50", "duration_p50_ms", 9, lambda value: figure(None if value is None else value / 1000)),
    Column("OK", "n_complete", 10, formatting.count),
    Column("TRUNCATED", "n_truncated", 7, formatting.count),
    Column("CLIENT LEFT", "n_client_closed", 11, formatting.count),
    Column("IN ONE READ", "coalesced_pct", 12, percent),
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its headings, its lines, and how wide each column is; the first is the group's name, set to the left.

    `total` is the line of all groups together; None where there is but one.
    """

    heads: tuple[str, ...]
    lines: list[tuple[str, ...]]
    widths: tuple[int, ...]
    total: tuple[str, ...] | None = None


def table(
    by: str,
    rows: Sequence[Row],
    width: int,
    *,
    total: Row | None = None,
    objective: bool = False,
    pooled: bool = True,
) -> Table:
    """Lay rows out in a width; `pooled` says whether the figures of pooled gaps are there yet."""
    all_rows = [*rows, total | {by: None}] if total is not None and len(rows) > 1 else rows
    known = [column for column in _COLUMNS if objective or column.field != "goodput_pct"]
    shown = {column: [_cell(column, row, pooled) for row in all_rows] for column in known}
    names = [name(row[by]) for row in rows] + [_TOTAL] * (len(all_rows) - len(rows))
    longest = max([len(by), *map(len, names)])
    sizes, kept, with_units = _columns(shown, width - min(longest, max(_NAME, width // 3)))
    room = width - sum(sizes[column] + _APART for column in kept)
    first = max(min(longest, room), 1)
    lines = [
        (formatting.cut(own, first), *(shown[column][at] for column in kept)) for at, own in enumerate(names)
    ]  # fmt: skip
    titles = (column.title(with_unit=with_units) for column in kept)
    heads = (by if by.startswith("label.") else by.upper(), *titles)
    widths = (first, *(sizes[column] for column in kept))
    return Table(heads, lines[: len(rows)], widths, lines[-1] if len(all_rows) > len(rows) else None)


def name(key: Any) -> str:
    """Name a group; that of what is unknown is `–`."""
    return formatting.cell(key)


def rough(row: Row) -> str:
    """Say of how few values 99th percentiles are."""
    if row["measured_n"] >= _FEW:
        return f"some p99 from fewer than {_FEW} values: rough"
    return f"p99 from {counted(row['measured_n'], 'exchange')}: rough"


def failure(outcome: str, detail: str | None, code: str | None, status: int | None) -> str:
    """Name a kind of failure, with its status where that is one, too."""
    told = f"{status} " if status is not None and status >= 400 else ""
    named = [formatting.line(text) for text in (outcome, detail, code) if text]
    return formatting.cut(f"{told}{' '.join(named)}", _FAILURE)


def _columns(shown: dict[Column, list[str]], room: int) -> tuple[dict[Column, int], list[Column], bool]:
    """Choose the columns, with units behind their titles if that costs none of them; return their widths, too."""
    plain, full = (
        {column: max([len(column.title(with_unit=unit)), *map(len, texts)]) for column, texts in shown.items()}
        for unit in (False, True)
    )
    kept = _kept(plain, room)
    is_roomy = _kept(full, room) == kept
    return (full if is_roomy else plain), kept, is_roomy


def _kept(sizes: dict[Column, int], room: int) -> list[Column]:
    kept = set[Column]()
    for column in sorted(sizes, key=lambda column: column.rank):
        room -= sizes[column] + _APART
        if room < 0:
            break
        kept.add(column)
    return [column for column in sizes if column in kept]


def _cell(column: Column, row: Row, pooled: bool) -> str:
    return _PENDING if not pooled and column.field.startswith(_POOLED) else column.shown(row[column.field])
