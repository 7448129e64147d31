"""Pure: rows of statistics (`summary.row`) as a table for a screen: as many columns as there is room for."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from wiretape.recorder.decode.exchange import Outcome
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.metrics import group_title
from wiretape.viewer.text import formatting

GROUPS: Final = (
    "model", "upstream", "path", "outcome", "finish_reason", "status", "error_code", "operation", "api",
    "response_model", "hour", "day",
)  # fmt: skip
"""The fields that the table can be grouped by, besides labels."""

_BETWEEN: Final = 2


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A column: its heading, the field that it shows, how, and its rank: the lowest stays the longest.

    `unit` is that of this column and of those of the same kind behind it.
    """

    label: str
    field: str
    rank: int
    render: Callable[[Any], str]
    unit: str = ""

    def title(self, *, with_unit: bool) -> str:
        """Return its heading, with its unit behind the first word or without."""
        first_word, _, further_words = self.label.partition(" ")
        return f"{first_word} {self.unit} {further_words}" if with_unit and self.unit else self.label


def figure(value: float | None) -> str:
    if value is None:
        return formatting.UNKNOWN
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    return formatting.UNKNOWN if value is None else f"{value:.1f}%"


_COLUMNS: Final = (
    GroupColumn("N", "n", 0, formatting.count),
    GroupColumn("ERR", "error_rate_pct", 2, percent),
    GroupColumn("GOODPUT", "goodput_pct", 1, percent),
    GroupColumn("TTFT p50", "ttft_p50_ms", 1, figure, "ms"),
    GroupColumn("p90", "ttft_p90_ms", 8, figure),
    GroupColumn("p99", "ttft_p99_ms", 3, figure),
    GroupColumn("GAP p50", "gap_p50_ms", 7, figure, "ms"),
    GroupColumn("GAP p99", "gap_p99_ms", 4, figure, "ms"),
    GroupColumn("LONGEST GAP", "gap_max_ms", 4, figure),
    GroupColumn("TPS p50", "tps_user_p50", 6, figure),
    GroupColumn("DUR s p50", "duration_p50_ms", 9, lambda value: figure(None if value is None else value / 1000)),
    GroupColumn("OK", "n_complete", 10, formatting.count),
    GroupColumn("TRUNCATED", "n_truncated", 8, formatting.count),
    GroupColumn("CLIENT LEFT", "n_client_closed", 11, formatting.count),
    GroupColumn("IN ONE READ", "coalesced_pct", 12, percent),
)


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """A table: its headings, its lines, and how wide each column is; the first is the group's name, set to the left.

    `total` is the line of all groups together; None where there is but one.
    """

    heads: tuple[str, ...]
    lines: list[tuple[str, ...]]
    widths: tuple[int, ...]
    total: tuple[str, ...] | None = None


def table(
    by: str,
    rows: Sequence[TableRow],
    width: int,
    *,
    total: TableRow | None = None,
    objective: bool = False,
    pooled: bool = True,
) -> GroupLayout:
    """Lay rows out in a width; `pooled` says whether the figures of pooled gaps are known yet."""
    names = [name(row[by]) for row in rows]
    # A single group is its own total.
    has_total = total is not None and len(rows) > 1
    if total is not None and has_total:
        rows, names = [*rows, total], [*names, "all"]
    texts = {
        column: [
            column.render(summary.supported(row, column.field)) if pooled or not column.field.startswith("gap") else "…"
            for row in rows
        ]
        for column in _COLUMNS
        if objective or column.field != "goodput_pct"
    }
    head = by if by.startswith("label.") else group_title(by).upper()
    longest = max([len(head), *map(len, names)])
    widths, with_units = _columns(texts, width - min(longest, max(10, width // 3)))
    name_width = max(min(longest, width - sum(size + _BETWEEN for size in widths.values())), 1)
    lines = [
        (clipped(group_name, name_width), *(texts[column][at] for column in widths))
        for at, group_name in enumerate(names)
    ]
    titles = (column.title(with_unit=with_units) for column in widths)
    heads = (head, *titles)
    total_line = lines.pop() if has_total else None
    return GroupLayout(heads, lines, (name_width, *widths.values()), total_line)


def name(key: object) -> str:
    return formatting.cell(key)


def silences(row: TableRow) -> str:
    """Return the longest later silence of a row on each layer that has one; empty without any."""
    fields = {
        "bytes": "max_silence_max_ms",
        "events": "max_event_silence_max_ms",
        "output": "max_output_silence_max_ms",
    }
    longest = [f"{formatting.span(row[field])} of {layer}" for layer, field in fields.items() if row[field] is not None]
    return f"longest silence {', '.join(longest)}" if longest else ""


def withheld(row: TableRow) -> str:
    """Return a sentence on the percentiles of the table that have too few values in a row; empty without any."""
    return summary.withheld(row, [column.field for column in _COLUMNS])


def failure(outcome: Outcome, detail: str | None, code: str | None, status: int | None) -> str:
    prefix = f"{status} " if status is not None and status >= 400 else ""
    words = [formatting.line(text) for text in (outcome, detail, code) if text]
    return clipped(f"{prefix}{' '.join(words)}", 60)


def _columns(texts: dict[GroupColumn, list[str]], room: int) -> tuple[dict[GroupColumn, int], bool]:
    """Return the widths of the columns that fit, and whether there is room for units behind their titles, too."""
    full, plain = (
        {column: max([len(column.title(with_unit=unit)), *map(len, cells)]) for column, cells in texts.items()}
        for unit in (True, False)
    )
    visible = _columns_that_fit(plain, room)
    with_units = _columns_that_fit(full, room) == visible
    return {column: size for column, size in (full if with_units else plain).items() if column in visible}, with_units


def _columns_that_fit(sizes: dict[GroupColumn, int], room: int) -> set[GroupColumn]:
    by_rank = sorted(sizes, key=lambda column: column.rank)
    return set(by_rank[: bisect_right(list(accumulate(sizes[column] + _BETWEEN for column in by_rank)), room)])
