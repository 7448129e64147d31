"""Pure: statistics in a dozen lines of plain words: counts with their causes, four quantities, stalls, missing usage;
and groups of exchanges, one a row.

`stats` lays out every statistic of every quantity. A percentile is shown only of values enough for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from wiretape.recorder.decode import causes
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.report import stats
from wiretape.viewer.report.tables import OF_TIME, Table, TableColumn, number, paragraph, table
from wiretape.viewer.stats.metrics import QUANTITIES, VALUES_NEEDED, group_title
from wiretape.viewer.stats.summary import AttemptCounts, field_name, supported, withheld
from wiretape.viewer.text.formatting import UNKNOWN, cell

_QUANTITIES: Final = {
    "ttft": "first token",
    "gap": "gap between reads",
    "latency": "whole answer",
    "tps_user": "speed",
    "server_total": "the server's own time",
    "network": "network and gateways",
}
_STATISTICS: Final = {"n": "n", "p50": "median", "p95": "p95", "p99": "p99", "max": "max"}
_GROUPED: Final = (
    ("ttft", "p50", "ttft ms"), ("ttft", "p95", "ttft p95"), ("gap", "p99", "gap p99 ms"),
    ("gap", "max", "longest gap"), ("latency", "p50", "latency ms"), ("tps_user", "p50", "tps p50"),
)  # fmt: skip
NAMED: Final = {title: name for name, title in _STATISTICS.items()} | {
    title: field_name(QUANTITIES[name], statistic) for name, statistic, title in _GROUPED
}
"""Names of statistics, and of fields of a row, by their headings."""

_LABEL: Final = 11


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of the endings of exchanges, and of the parties that caused their stalls: empty if these were not judged.

    `tape` is the option that names their source. `unasked` counts the answers that would report usage on request.
    """

    noun: str
    tape: str = ""
    endings: Mapping[Ending, int] = field(default_factory=dict)
    stalls: Mapping[str, int] = field(default_factory=dict)
    unasked: int = 0


def page(row: TableRow, counts: Counted, objective: str | None = None, width: int | None = None) -> Table:
    """Lay out one row of statistics; `objective` is that of its goodput, `width` the terminal's, in cells."""
    head = f"{counted(row['n'], counts.noun)} · {causes.counts(counts.endings)}"
    names = [name for name in _QUANTITIES if name not in ("server_total", "network") or row[f"{name}_n"]]
    laid_out = table(_columns(row), [{"name": name} for name in names], width)
    notes = [line for label, text in _notes(row, counts, objective) for line in paragraph(label, text, width)]
    return Table([*paragraph("", head, width, "bold"), *laid_out.lines, *notes], laid_out.hidden)


def groups(
    rows: Sequence[TableRow], by: Sequence[str], objective: str | None = None, width: int | None = None
) -> Table:
    """Lay out groups of exchanges, one a row of their statistics."""
    failed = TableColumn(
        "failed", "failed", lambda row: number(AttemptCounts.of({name: row[f"n_{name}"] for name in OUTCOMES}).failed)
    )
    columns = [*map(_key, by), TableColumn("n", "n", lambda row: number(row["n"])), failed]
    if objective is not None:
        columns.append(TableColumn("goodput", "goodput", lambda row: stats.percent(row["goodput_pct"])))
    columns += OF_TIME if "wall_ms" in rows[0] else []
    columns += [_figure(*figure) for figure in _GROUPED]
    laid_out = table(columns, rows, width, [column.name for column in columns])
    needed = ", ".join(f"{name} of {least}" for name, least in VALUES_NEEDED.items() if name != "p90")
    notes = paragraph("", f"medians; {needed} or more values; --all has all figures", width, "dim")
    return Table([*laid_out.lines, *notes], laid_out.hidden)


def _key(name: str) -> TableColumn:
    return TableColumn(name, group_title(name), lambda row: cell(row[name]))


def _figure(name: str, statistic: str, title: str) -> TableColumn:
    return TableColumn(title, title, lambda row: _statistic_text(row, name, statistic))


def _columns(row: TableRow) -> list[TableColumn]:
    def words(line: TableRow) -> str:
        quantity = QUANTITIES[line["name"]]
        return f"{_QUANTITIES[quantity.name]} ({quantity.name}) {quantity.unit}"

    def figure(statistic: str) -> TableColumn:
        return TableColumn(
            statistic, _STATISTICS[statistic], lambda line: _statistic_text(row, line["name"], statistic)
        )

    return [TableColumn("name", "", words), *map(figure, _STATISTICS)]


def _statistic_text(row: TableRow, name: str, statistic: str) -> str:
    return number(supported(row, field_name(QUANTITIES[name], statistic)))


def _notes(row: TableRow, counts: Counted, objective: str | None) -> Iterator[tuple[str, str]]:
    for flag, text in {
        "stall": causes.stalls(counts.endings, counts.stalls),
        "given_up": causes.given_up(counts.endings),
        "burst": causes.buffered(counts.endings),
    }.items():
        if text:
            yield f"{'slow':<{_LABEL}}", f"{text}: wiretape ls{safe(counts.tape)} -f flag:{flag}"
    for label, text in stats.paid(row, objective):
        yield f"{label:<{_LABEL}}", text
    if missing := row["usage_missing_n"]:
        some = "" if counts.unasked == missing else f" for {counts.unasked:,} of them"
        remedy = f': ask{some} with stream_options={{"include_usage": true}}' if counts.unasked else ""
        yield f"{'missing':<{_LABEL}}", f"usage of {counted(missing, 'answer')}{remedy}"
    notes = (_note(row, *warning.partition(":")[::2]) for warning in row["warnings"])
    yield from ((f"{'note':<{_LABEL}}", note) for note in notes if note)
    shown = [field_name(QUANTITIES[name], statistic) for name in _QUANTITIES for statistic in _STATISTICS]
    if few := withheld(row, shown):
        yield f"{UNKNOWN:<{_LABEL}}", few


def _note(row: TableRow, warning: str, about: str) -> str:
    """Return a warning in few words; empty if a line of the page says it already."""
    match warning:
        case "few" | "usage_missing" | "burst":
            return ""
        case "hidden_tokens":
            return f"{counted(int(about), 'answer')} with hidden tokens: speed withheld"
        case "coalesced":
            return f"{stats.percent(row['coalesced_pct'])} of the chunks share a read, with no gap between them"
    return stats.explained(f"{warning}:{about}" if about else warning)
