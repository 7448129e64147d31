"""Pure: a tape's figures by another tool's definitions, as tables for people and as rows for machines.

The definitions are in `stats.tools`. For machines there is one row for each metric, with the counts of the whole
population.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Final

from rich.text import Text

from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.report import tables
from wiretape.viewer.report.tables import Table
from wiretape.viewer.stats.compare import change
from wiretape.viewer.stats.tools.summary import MetricSummary, ToolReport
from wiretape.viewer.stats.tools.tools import authority

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
"""The fields of a row, with their meanings: the metric as the tool prints it, and the counts of the population."""

FIELDS: Final = tuple(MEANINGS)

GROUPED: Final = ("metric", "unit", "n", "value", "mean", "p50", "p95", "p99", "max", "attempts", "failed")
"""The fields of the rows of several groups that a table shows."""

COMPARED: Final = {
    "metric": "the name that the tool prints",
    "statistic": "which of its statistics; value: the one number that the tool prints for all requests",
    "unit": "of the figures of the row",
    "base_n": "values of the base group",
    "new_n": "values of the new group",
    "base": "the statistic of the base group",
    "new": "the statistic of the new group",
    "difference": "new − base",
    "change_pct": "the difference in percent of the base",
}
"""The fields of a comparison of two groups by a tool's definitions, with their meanings."""

COMPARED_IMPORTANT: Final = (
    "metric",
    "statistic",
    "base",
    "new",
    "change_pct",
    "unit",
    "difference",
    "new_n",
    "base_n",
)

_IMPORTANT: Final = ("metric", "unit", "n", "value", "p50", "p99", "mean", "max", "p95", "p90", "min", "std")


def rows(measured: ToolReport) -> list[TableRow]:
    """Return one row of `FIELDS` for each metric of a tool."""
    rate = measured.error_rate
    population = {
        "attempts": measured.attempts,
        "failed": measured.failed,
        "error_rate_pct": None if rate is None else round(rate, 6),
        "excluded": measured.left_out.total(),
        "failures": _counted(measured.failures.most_common()),
        "exclusions": _counted(measured.left_out.most_common()),
        "omitted": _counted((measured.omitted | dict.fromkeys(measured.absent, measured.attempts)).items()),
    }
    head = {"tool": measured.tool, "releases": ", ".join(measured.rule.releases)}
    return [{name: (head | asdict(summary) | population)[name] for name in FIELDS} for summary in measured.rows]


def grouped(report_rows: Sequence[TableRow], names: Sequence[str], width: int | None = None) -> Table:
    # The first key of the groups tells the rows apart; others give way before the figures.
    first_key, *further_keys = [name for name in names if name not in _IMPORTANT] or [""]
    return tables.grid(names, list(map(_rounded, report_rows)), width, (first_key, *_IMPORTANT, *further_keys))


def compared(base: ToolReport, new: ToolReport) -> Iterator[TableRow]:
    """Yield the comparison of each statistic that both reports have."""
    new_rows = {row["metric"]: row for row in rows(new)}
    for row in rows(base):
        for statistic in ("value", "mean", "p50", "p99"):
            sides = row[statistic], new_rows.get(row["metric"], {}).get(statistic)
            if None not in sides:
                sizes = {"base_n": row["n"], "new_n": new_rows[row["metric"]]["n"]}
                head = {"metric": row["metric"], "statistic": statistic, "unit": row["unit"], **sizes}
                yield head | dict(zip(("base", "new"), sides, strict=True)) | change(*sides)


def schema(tool: str) -> dict[str, str]:
    releases = ", ".join(authority(tool).releases)
    return {**MEANINGS, "releases": f"{MEANINGS['releases']}: {releases}"}


_STATISTICS: Final = tuple(field.name for field in fields(MetricSummary) if field.name != "value")


def render(measured: ToolReport, width: int | None = None, names: Sequence[str] | None = None) -> Table:
    """Lay out a report for people, with these fields of its rows; None is the fields that differ between rows."""
    rounded = list(map(_rounded, rows(measured)))
    totals = {total.name for total in measured.rule.totals}
    if names is not None:
        parts = [tables.grid(names, rounded, width, names)]
    else:
        parts = [tables.grid(_STATISTICS, [row for row in rounded if row["metric"] not in totals], width, _IMPORTANT)]
        if totals:
            one_number = [row for row in rounded if row["metric"] in totals]
            parts.append(tables.grid(("metric", "unit", "n", "value"), one_number, width, _IMPORTANT))
    lines = [line for part in parts for line in part.lines]
    return Table([*lines, *remarks(measured, width)], parts[0].hidden)


def remarks(measured: ToolReport, width: int | None = None) -> Iterator[Text]:
    """Yield remarks: failures, excluded exchanges, omitted metrics, and the tool's differences."""
    rate = "–" if measured.error_rate is None else f"{measured.error_rate:.2f} %"
    yield Text(f"{measured.tool}: {measured.failed:,} of {measured.attempts:,} failed ({rate})")
    remarks = {
        "failed there": _counted(measured.failures.most_common()),
        "fails here, succeeds there": _counted(measured.forgiven.most_common()),
        "complete here, fails there": f"{measured.refused:,}" if measured.refused else "",
        "left out": _counted(measured.left_out.most_common()),
        "omitted": _omitted(measured),
        "older than this rule": _older(measured),
        "not known here": f"{', '.join(measured.absent)}: 'wiretape pull' copies to a tape" if measured.absent else "",
    }
    for label, text in remarks.items():
        if text:
            counted_whole = text.replace(" × ", f"{tables.NO_BREAK}×{tables.NO_BREAK}")
            yield from tables.paragraph(f"{label}: ", counted_whole, width)
    yield from about(measured, width)


def about(measured: ToolReport, width: int | None = None) -> Iterator[Text]:
    yield from tables.paragraph("counts differently: ", measured.rule.note, width) if measured.rule.note else ()
    releases = ", ".join(measured.rule.releases)
    yield from tables.paragraph("definitions of: ", f"{measured.rule.source}, read from {releases}", width)


def _omitted(measured: ToolReport) -> str:
    omitted, hint = measured.omitted, "" if measured.is_tokenized else ": see --tokenizer"
    match list(set(omitted.values())):
        case []:
            return ""
        case [number]:
            return f"{', '.join(omitted)} (tokens not known of {counted(number, 'request')}{hint})"
    return f"{_counted(omitted.items())} (requests of which tokens are not known{hint})"


def _older(measured: ToolReport) -> str:
    if not measured.older:
        return ""
    hint = f"; see --as {measured.rule.older_rule}" if measured.rule.older_rule else ""
    return f"the servers of {counted(measured.older, 'request')}, as their names of reasoning show{hint}"


def _counted(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{safe(reason)} × {count:,}" for reason, count in counts)


def _rounded(row: TableRow) -> TableRow:
    digits = {"s": 4, "ns": 0}.get(row["unit"], 2)
    decimals = {name: f"{value:,.{digits}f}" for name, value in row.items() if isinstance(value, float)}
    return {**row, **decimals, "n": f"{row['n']:,}"}
