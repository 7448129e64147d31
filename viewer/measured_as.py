"""`stats --as TOOL`: a tape measured as another tool defines its numbers, printed for people or written for machines.

What a tool does is in `authorities`; here the tape is walked, one exchange decoded at a time, and the report laid out.
For people, everything is printed. For machines there is one row for each metric, and what else there is to say (what
the tool counts differently, what it takes for a failure) goes to stderr.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from rich.text import Text
from sqlalchemy import ColumnElement, Connection, select

from recorder.derive import Decoded
from recorder.exchange import Exchange
from recorder.runs import Events
from recorder.safe import safe
from recorder.schema import exchanges as _exchanges
from recorder.schema import measures as _measures
from viewer import output, progress, queries, tables
from viewer.authorities.seen import Judged
from viewer.authorities.summary import Summary
from viewer.authorities.tools import TOOLS, Report, measure_as
from viewer.rows import Row, only
from viewer.tables import Table

__all__ = ["FIELDS", "TOOLS", "render", "rows", "stats_as"]

FIELDS: Final = ("tool", *(field.name for field in fields(Summary)))
"""The fields of a row: the tool, the metric as it prints it, its unit, how many values, and their statistics."""

MEANINGS: Final = {
    "tool": "the tool that measures so",
    "metric": "the metric, as the tool prints it",
    "unit": "its unit",
    "n": "how many values",
    **{name: f"{name} of the metric" for name in FIELDS[4:]},
}
"""What each field means."""

Where = ColumnElement[bool]

_BATCH = 1000
_IMPORTANT: Final = ("metric", "unit", "n", "p50", "p99", "mean", "max", "p95", "p90", "min", "std")
_FACTS = (
    _exchanges.c.no,
    _exchanges.c.status,
    _exchanges.c.ended_by,
    _exchanges.c.end_ns,
    _exchanges.c.gap_bytes,
    _measures.c.outcome,
    _measures.c.error_code,
    _measures.c.duration_ns,
)


def stats_as(
    connection: Connection,
    tool: str,
    where: Where | None = None,
    format: str = "table",
    *,
    raw_csv: bool = False,
    names: Sequence[str] | None = None,
) -> None:
    """Print the exchanges that `where` selects as a tool measures them; `format` is table, csv, jsonl or json.

    `names` are the fields that are printed; None is all of them.
    """
    with progress.bar("measuring", lambda: queries.count(connection, where), "exchange") as bar:
        measured = measure_as(tool, bar.over(_measured(connection, where)))
    if format == "table":
        output.show_table(render(measured, output.width(), names))
        return
    fields = FIELDS if names is None else names
    output.put(format, fields, only(_rows(measured), fields), raw_csv)
    for line in _remarks(measured):
        print(line.plain, file=sys.stderr)


def rows(connection: Connection, tool: str, where: Where | None = None) -> list[Row]:
    """Give one row of `FIELDS` for each metric of a tool, over the exchanges that `where` selects."""
    return _rows(measure_as(tool, _measured(connection, where)))


def render(measured: Report, width: int | None = None, names: Sequence[str] | None = None) -> Table:
    """Lay out a report for people, with these fields of its rows; None is all but the tool."""
    shown = names or [field for field in FIELDS if field != "tool"]
    table = tables.grid(shown, map(_rounded, _rows(measured)), width, names or _IMPORTANT)
    return Table([*table.lines, *_remarks(measured)], table.hidden)


def _remarks(measured: Report) -> Iterator[Text]:
    rate = "–" if measured.error_rate is None else f"{measured.error_rate:.2f} %"
    yield Text(f"{measured.tool}: {measured.failed:,} of {measured.attempts:,} failed ({rate})")
    told = {
        "failed there": _counted(measured.failures),
        "fails here, succeeds there": _counted(measured.forgiven),
        "complete here, fails there": f"{measured.refused:,}" if measured.refused else "",
        "left out": _counted(measured.left_out),
        "counts differently": measured.note,
        "definitions of": measured.source,
    }
    for label, text in told.items():
        if text:
            yield Text.assemble((f"{label}: ", "dim"), text)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{safe(reason)} × {count:,}" for reason, count in counts.items())


def _rows(measured: Report) -> list[Row]:
    return [{"tool": measured.tool, **asdict(summary)} for summary in measured.rows]


def _rounded(row: Row) -> Row:
    """Give figures with as many decimals as their unit wants, the same in all of a row."""
    digits = {"s": 4, "ns": 0}.get(row["unit"], 2)
    decimals = {name: f"{value:,.{digits}f}" for name, value in row.items() if isinstance(value, float)}
    return {**row, **decimals, "n": f"{row['n']:,}"}


def _measured(connection: Connection, where: Where | None) -> Iterable[tuple[Exchange, Decoded | Events, Judged]]:
    for row in _facts(connection, where):
        exchange = Exchange(row.status, None, None, row.ended_by, None, None, row.end_ns, row.gap_bytes)
        yield exchange, queries.events(connection, row.no), row


def _facts(connection: Connection, where: Where | None) -> Iterator[Any]:
    """Give what decoding does not, oldest first; in batches, so that no transaction outlives one."""
    joined = _exchanges.outerjoin(_measures, _measures.c.exchange_no == _exchanges.c.no)
    statement = select(*_FACTS).select_from(joined).order_by(_exchanges.c.no).limit(_BATCH)
    if where is not None:
        statement = statement.where(where)
    last = 0
    while True:
        with connection.begin():
            batch = connection.execute(statement.where(_exchanges.c.no > last)).all()
        yield from batch
        if len(batch) < _BATCH:
            return
        last = batch[-1].no
