"""`stats --as TOOL`: a tape measured as another tool defines its numbers, printed for people or written for machines.

What a tool does is in `authorities`; here the tape is walked, one exchange decoded at a time, and the report laid out.
For people, everything is printed. For machines there is one row for each metric, which also has the counts of the whole
population; what the tool counts differently goes to stderr.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final

from rich.text import Text
from sqlalchemy import ColumnElement, Connection, select

from recorder.decode.outcome import Exchange
from recorder.plurals import counted
from recorder.sanitize import safe
from recorder.tape.schema import exchanges as _exchanges
from recorder.tape.schema import measures as _measures
from viewer.commands import output, progress
from viewer.report import tables
from viewer.report.tables import Table
from viewer.rows import Row, only
from viewer.stats.tools.request import CountTokens
from viewer.stats.tools.summary import Observed, Report, Summary, measure_as
from viewer.stats.tools.tools import TOOLS, Authority, authority
from viewer.tape import queries

__all__ = ["FIELDS", "TOOLS", "render", "rows", "schema", "stats_as"]

MEANINGS: Final = {
    "tool": "the tool whose definitions these are",
    "releases": "the releases that the rule was read from",
    "metric": "the name that the tool prints",
    "unit": "of all figures of the row",
    "n": "how many values; tokens, where the tool weighs by them; requests that succeeded, where there is a value",
    "value": "the one number that the tool prints for all requests, such as a throughput; its run is taken to last from"
    " the first request's start to the last one's end",
    "mean": "mean",
    "std": "standard deviation: the population's, or the sample's where the tool has that",
    "min": "smallest value",
    "p50": "median; percentiles are made the tool's own way",
    "p90": "90th percentile",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "largest value",
    "attempts": "requests that the tool would have counted; exchanges that are still open are not attempts",
    "failed": "of these, those that it would have counted as failed",
    "error_rate_pct": "failed / attempts",
    "excluded": "exchanges that are not attempts: still open, not streamed, not wholly on the tape, or left by a client"
    " that had no reason to by the tool's rule",
    "failures": "the tool's reasons of failures, and how often each",
    "exclusions": "why exchanges are excluded, and how many for each reason",
    "omitted": "metrics that the tool prints and the tape cannot tell, and how many requests hinder each",
}
"""The fields of a row, and what each means: the metric as the tool prints it, and the counts of the population."""

FIELDS: Final = tuple(MEANINGS)
"""The fields of a row."""

_STATISTICS: Final = tuple(field.name for field in fields(Summary) if field.name != "value")

Where = ColumnElement[bool]

_BATCH = 1000
_IMPORTANT: Final = ("metric", "unit", "n", "value", "p50", "p99", "mean", "max", "p95", "p90", "min", "std")
_FACTS = (
    _exchanges.c.no,
    _exchanges.c.status,
    _exchanges.c.ended_by,
    _exchanges.c.end_ns,
    _exchanges.c.gap_bytes,
    _measures.c.outcome,
    _measures.c.error_code,
    _measures.c.duration_ns,
    _exchanges.c.started_at,
)


def stats_as(
    connection: Connection,
    tool: str,
    where: Where | None = None,
    format: str = "table",
    *,
    raw_csv: bool = False,
    names: Sequence[str] | None = None,
    count_tokens: CountTokens | None = None,
) -> None:
    """Print the exchanges that `where` selects as a tool measures them; `format` is one of `output.FORMATS`.

    `names` are the fields that are printed; None is all of them.
    """
    rule = authority(tool)
    with progress.bar("measuring", lambda: queries.count(connection, where), "exchange") as bar:
        measured = measure_as(tool, bar.over(_observed(connection, where, rule)), count_tokens)
    if format == "table":
        output.show_table(render(measured, output.width(), names))
        return
    fields = FIELDS if names is None else names
    output.put(format, fields, only(_rows(measured), fields), raw_csv)
    for line in _remarks(measured):
        print(line.plain, file=sys.stderr)


def rows(
    connection: Connection, tool: str, where: Where | None = None, count_tokens: CountTokens | None = None
) -> list[Row]:
    """Return one row of `FIELDS` for each metric of a tool, over the exchanges that `where` selects."""
    return _rows(measure_as(tool, _observed(connection, where, authority(tool)), count_tokens))


def schema(tool: str) -> dict[str, str]:
    """Return each field of a row and what it means."""
    read = ", ".join(authority(tool).releases.read)
    return {**MEANINGS, "releases": f"{MEANINGS['releases']}: {read}"}


def render(measured: Report, width: int | None = None, names: Sequence[str] | None = None) -> Table:
    """Lay out a report for people, with these fields of its rows; None is all that differ from row to row."""
    found = list(map(_rounded, _rows(measured)))
    if names is not None:
        table = tables.grid(names, found, width, names)
        return Table([*table.lines, *_remarks(measured, width)], table.hidden)
    totals = {total.name for total in measured.rule.totals}
    parts = [tables.grid(_STATISTICS, [row for row in found if row["metric"] not in totals], width, _IMPORTANT)]
    if totals:
        one_number = [row for row in found if row["metric"] in totals]
        parts.append(tables.grid(("metric", "unit", "n", "value"), one_number, width, _IMPORTANT))
    lines = [line for part in parts for line in part.lines]
    return Table([*lines, *_remarks(measured, width)], parts[0].hidden)


def _remarks(measured: Report, width: int | None = None) -> Iterator[Text]:
    rate = "–" if measured.error_rate is None else f"{measured.error_rate:.2f} %"
    yield Text(f"{measured.tool}: {measured.failed:,} of {measured.attempts:,} failed ({rate})")
    remarks = {
        "failed there": _counted(measured.failures.most_common()),
        "fails here, succeeds there": _counted(measured.forgiven.most_common()),
        "complete here, fails there": f"{measured.refused:,}" if measured.refused else "",
        "left out": _counted(measured.left_out.most_common()),
        "omitted": _omitted(measured),
        "counts differently": measured.rule.note,
        "definitions of": f"{measured.rule.source}, read from {', '.join(measured.rule.releases.read)}",
    }
    for label, text in remarks.items():
        if text:
            counted_whole = text.replace(" × ", f"{tables.NO_BREAK}×{tables.NO_BREAK}")
            yield from tables.paragraph(f"{label}: ", counted_whole, width)


def _omitted(measured: Report) -> str:
    """Return the metrics that are omitted, and of how many requests the tokens are not known."""
    omitted, hint = measured.omitted, "" if measured.is_tokenized else ": see --tokenizer"
    match list(set(omitted.values())):
        case []:
            return ""
        case [number]:
            return f"{', '.join(omitted)} (tokens not known of {counted(number, 'request')}{hint})"
    return f"{_counted(omitted.items())} (requests of which tokens are not known{hint})"


def _counted(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{safe(reason)} × {count:,}" for reason, count in counts)


def _rows(measured: Report) -> list[Row]:
    rate = measured.error_rate
    population = {
        "attempts": measured.attempts,
        "failed": measured.failed,
        "error_rate_pct": None if rate is None else round(rate, 6),
        "excluded": measured.left_out.total(),
        "failures": _counted(measured.failures.most_common()),
        "exclusions": _counted(measured.left_out.most_common()),
        "omitted": _counted(measured.omitted.items()),
    }
    head = {"tool": measured.tool, "releases": ", ".join(measured.rule.releases.read)}
    return [{name: (head | asdict(summary) | population)[name] for name in FIELDS} for summary in measured.rows]


def _rounded(row: Row) -> Row:
    """Return figures with as many decimals as their unit wants, the same in all of a row."""
    digits = {"s": 4, "ns": 0}.get(row["unit"], 2)
    decimals = {name: f"{value:,.{digits}f}" for name, value in row.items() if isinstance(value, float)}
    return {**row, **decimals, "n": f"{row['n']:,}"}


def _observed(connection: Connection, where: Where | None, rule: Authority) -> Iterator[Observed]:
    for row in _facts(connection, where):
        exchange = Exchange(row.status, None, None, row.ended_by, None, None, row.end_ns, row.gap_bytes)
        requested = _requested_tokens(connection, row.no) if rule.reads_request else None
        yield Observed(exchange, queries.events(connection, row.no), row, _wall_ns(row.started_at), requested)


def _wall_ns(started_at: str) -> int | None:
    try:
        return round(datetime.fromisoformat(started_at).timestamp() * 1e6) * 1000
    except (TypeError, ValueError):
        return None


def _requested_tokens(connection: Connection, no: int) -> int | None:
    """Return the longest answer that a request asked for, None where it set no limit."""
    with connection.begin():
        body = connection.execute(select(_exchanges.c.request_body).where(_exchanges.c.no == no)).scalar()
    try:
        payload = json.loads(body or b"null")
    except (ValueError, RecursionError):
        return None
    found = payload.get("max_completion_tokens", payload.get("max_tokens")) if isinstance(payload, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


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
