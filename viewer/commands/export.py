"""The command `export`: the tape as a table for machines, or whole exchanges.

Rows and files are written by the modules of `wiretape.viewer.export`. Memory does not grow with the tape: rows and
exchanges pass one by one.
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from wiretape.recorder.errors import NotFound
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape import redact
from wiretape.viewer import contracts
from wiretape.viewer.commands import completion, masking, options, output, progress
from wiretape.viewer.commands.output import Output
from wiretape.viewer.contracts import Export

if TYPE_CHECKING:
    from wiretape.recorder.tape.masking import Masker
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.source.base import Place, Selection, Source

Put = Callable[[BinaryIO | None], int]
"""A function that writes to a file, or to stdout without one, and returns the count."""

_TABLES = ("exchanges", "texts", "chunks", "reads", "turns", "conversations", "summary")
_OF_ALL = ("exchanges", "summary")
_FORMATS: Final = {
    export.name: export
    for export in (
        Export(
            "sse", "wiretape.viewer.export.task:write_body", "byte", "the body of one exchange", suffix=".sse",
            unprintable="raw bytes may upset a terminal: send them to a file or a pipe",
        ),
        *(format for wing in contracts.built_in().values() for format in wing.exports),
    )
}  # fmt: skip
"""The formats of whole exchanges."""
_OPTIONS: Final = [
    option for wing in contracts.built_in().values() for option in wing.options if option.command == "export"
]
_SUFFIXES: Final = {f".{name}": name for name in ("csv", "tsv", "jsonl", "json", "parquet")} | {
    export.suffix: name for name, export in _FORMATS.items() if export.suffix
}


@dataclass(frozen=True, slots=True)
class _ExportJob:
    """The options of an export; `by` are the groups of a summary, `file` is None for stdout, `place` is the source."""

    table: str
    out: Output
    file: Path | None
    by: tuple[str, ...]
    limit: int | None
    place: "Place"
    columns: tuple[str, ...] | None = None
    filter: "Filter | None" = None
    every_operation: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    mask: "Masker | None" = None

    @property
    def format(self) -> str:
        return self.out.chosen

    @property
    def export_format(self) -> Export | None:
        """The format, if it is one of whole exchanges."""
        return _FORMATS.get(self.format)

    @property
    def unit(self) -> str:
        return self.export_format.unit if self.export_format else "row"


def _put_whole(source: "Source", job: _ExportJob, selection: "Selection", export: Export) -> Put:
    from wiretape.viewer.export.task import ExportTask

    write, is_shown = contracts.load(export.path), job.file is None and output.on_terminal()

    def put(stream: BinaryIO | None) -> int:
        target = output.stdout() if stream is None else contextlib.nullcontext(stream)
        with _bar(source, job, selection) as bar, target as file:
            task = ExportTask(
                job.format, source, selection, job.filter, job.limit, job.options.get(export.options),
                every_operation=job.every_operation, mask=job.mask, is_shown=is_shown, over=bar.over,
            )  # fmt: skip
            count: int = write(task, file)
        for line in task.notes:
            click.echo(line, err=True)
        return count

    return put


@click.command()
@options.exchange_ids()
@options.db
@options.filtered
@options.limited
@click.option("--table", type=click.Choice(_TABLES), help="The table to export. [default: exchanges]")
@click.option(
    "--by",
    metavar="NAMES",
    shell_complete=completion.groups,
    help="With --table summary: group by model, label.KEY, …, as in stats.",
)
@options.every_operation
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help=f"Write to FILE; - is stdout. Its suffix ({', '.join(_SUFFIXES)}) gives the format. [default: -]",
)
@options.of_wings("export")
@masking.no_redact
@click.option("--schema", is_flag=True, help="Print type, unit and meaning of each column.")
@click.option("--bom", is_flag=True, help="CSV, TSV: begin with the mark of UTF-8, which Excel needs.")
@output.formatted(
    (*output.FORMATS, "parquet", *_FORMATS),
    f"csv; {', '.join(f'{format.name} is {format.summary}' for format in _FORMATS.values())}; the others are tables",
    columns=True,
)
def export(
    ids: tuple[str, ...],
    db: "Place | None",
    filter: "Filter | None",
    limit: int | None,
    table: str | None,
    by: str | None,
    all_operations: bool,
    file: Path | None,
    no_redact: bool,
    schema: bool,
    bom: bool,
    out: Output,
    **added: Any,
) -> None:
    """Export exchanges as CSV, JSON, Parquet, HAR, HTML, GIF or SSE.

    The oldest exchange comes first. The default is CSV.

    ID is 4 or more characters of an exchange's id, @ (the newest), @-1, @err (a failed one), @stall or @slow; or s:KEY
    or @s, all exchanges of a session; - reads ids from stdin, one per line. Without ids, all that match the filter are
    exported. A summary covers the same exchanges as stats.

    Numbers have six decimals at most (of milliseconds: the nanosecond). In CSV and TSV an empty cell is unknown,
    booleans are true and false, and flags and labels are words: no_usage stall, run=a7 step=2; a space within a label
    is %20, a percent sign %25. pandas and DuckDB infer these types. SQLite's .import --csv makes every cell a text and
    an empty one '', which counts as 0 in avg(): write avg(nullif(ttft_ms, '')), max(cast(nullif(ttft_ms, '') as real)).
    """
    from wiretape.viewer.export import fields

    file = None if file is None or str(file) == "-" else file
    flag = next((name for name, format in _FORMATS.items() if format.flag and added.get(name)), None)
    if flag and out.format not in (None, flag):
        raise click.UsageError(f"--{flag} and --format {out.format} exclude each other")
    format = flag or out.format or (_format_of(file) if file is not None else None)
    out = replace(out, format=format or (None if schema and file is None else "csv"), mark=bom, exact=True)
    place = options.place(db)
    job = _ExportJob(table or "exchanges", out, file, options.groups(by, place), limit, place)
    job = replace(job, filter=filter, every_operation=all_operations, options=added, mask=_mask(job, no_redact))
    _refuse(job, table, schema)
    try:
        if schema:
            rows = fields.schema(_TABLES if table is None else (table,), job.by)
            _save(job, lambda stream: out.put(fields.SCHEMA_FIELDS, rows, stream), "column")
            return
        headed = out.with_headings(fields.aliases(job.table))
        job = replace(job, columns=headed.fields(fields.described(fields.choosable(job.table, job.by))))
        with output.opened(job.place) as source:
            chosen = selected = options.selection(source, ids, filter)
            if job.table == "summary":
                chosen = options.covered(source, selected, all_operations)
            if (export_format := job.export_format) and export_format.needs_exchange and not source.count(chosen):
                raise NotFound(options.nothing(source, filter, ids))
            put = _put_whole(source, job, chosen, export_format) if export_format else _put_table(source, job, chosen)
            count = _save(job, put, job.unit)
            # A summary of nothing is a row as well.
            if count <= 1 and limit != 0 and not source.count(selected):
                options.report_nothing(source, filter, ids)
            if export_format or job.table not in _OF_ALL:
                output.report_unshipped(source, chosen, "without texts and reads")
    except KeyboardInterrupt:
        sys.exit(128 + 2)  # as a shell reports SIGINT


def _mask(job: _ExportJob, no_redact: bool) -> "Masker | None":
    """Return the mask of a format that is made to be passed on. Raise a usage error if there is nothing to keep."""
    if job.export_format and job.export_format.is_masked:
        return masking.mask(no_redact)
    if no_redact:
        raise click.UsageError("--no-redact is for HAR and pages: nothing is redacted in bodies of other formats")
    return None


def _format_of(file: Path) -> str | None:
    """Return the format that a file's suffix stands for; None without a suffix. Raise a usage error for another one."""
    suffix = file.suffix.lower()
    if suffix and suffix not in _SUFFIXES:
        raise click.UsageError(
            f"{click.format_filename(file)}: no format has the suffix {suffix!r}: add --format, or use one of "
            f"{', '.join(_SUFFIXES)}"
        )
    return _SUFFIXES.get(suffix)


def _refuse(job: _ExportJob, table: str | None, schema: bool) -> None:
    """Raise a usage error if options do not go together, and `Unsupported` if the source lacks the data."""
    export_format = job.export_format
    if job.out.mark and job.format not in ("csv", "tsv"):
        raise click.UsageError("--bom is for CSV and TSV: other formats need no mark")
    if job.table == "conversations":
        job.place.require("conversations", "--table conversations")
    elif export_format or job.table not in _OF_ALL:
        job.place.require("bodies", f"--format {job.format}" if export_format else f"--table {job.table}")
    if export_format and (schema or table is not None):
        raise click.UsageError(f"{job.format} is of whole exchanges: it has no --table and no --schema")
    if job.by and table != "summary":
        raise click.UsageError("--by groups the summary: add --table summary")
    if job.format == "parquet" and (schema or job.file is None):
        raise click.UsageError("Parquet is a file of rows: name it with -o FILE, and ask for --schema without it")
    for option in _OPTIONS:
        if job.options.get(option.name) is not None and (not export_format or export_format.options != option.name):
            raise click.UsageError(option.refusal)
    if export_format and export_format.unprintable and job.file is None and output.on_terminal():
        raise click.UsageError(export_format.unprintable)
    if job.every_operation and job.table != "summary" and not (export_format and export_format.has_operations):
        raise click.UsageError("--all-operations is for summaries, pages and traces: others have every operation")
    if job.out.columns is not None and (export_format or schema):
        raise click.UsageError("--columns selects those of a table: leave it out")


def _save(job: _ExportJob, put: Put, noun: str) -> int:
    """Write to stdout, or to a file that appears when it is complete; then report its size on stderr.

    Return how many things of the `noun` were written.
    """
    from wiretape.viewer import outfile

    if job.file is None:
        count = put(None)
        if masked := masking.counts(job.mask):
            click.echo(f"wiretape: {masked.removeprefix(', ')}", err=True)
        return count
    with outfile.replacing(job.file, job.place.file) as stream:
        count = put(stream)
    wrote = f"{counted(count, noun)}{masking.counts(job.mask)}"
    click.echo(f"wrote {redact.shown(click.format_filename(job.file))} ({wrote})", err=True)
    return count


def _put_table(source: "Source", job: _ExportJob, selection: "Selection") -> Put:
    from wiretape.viewer.export import fields
    from wiretape.viewer.record import rows

    fields_by_name = {field.name: field for field in fields.choosable(job.table, job.by)}
    columns = [fields_by_name[name] for name in job.columns] if job.columns else fields.of(job.table, job.by)
    names = [field.name for field in columns]

    def put(stream: BinaryIO | None) -> int:
        with _bar(source, job, selection) as bar:
            selected = _rows(source, job, selection, bar)
            if job.format == "parquet" and stream is not None:
                from wiretape.viewer.export import parquet

                return parquet.write(stream, columns, selected)
            if job.columns and job.table not in ("exchanges", "texts"):  # of these, only the chosen are read
                selected = rows.only(selected, names)
            return job.out.put(names, selected, stream)

    return put


def _rows(source: "Source", job: _ExportJob, selection: "Selection", bar: progress.ProgressBar) -> "Iterator[TableRow]":
    from wiretape.viewer.export import text
    from wiretape.viewer.record.chunks import Chunks
    from wiretape.viewer.record.rows import Exchanges

    match job.table:
        case "summary":  # all of its work is done before its first row
            from wiretape.viewer.source.base import Measuring
            from wiretape.viewer.stats import summary

            groups = source.figures(job.by, selection, Measuring())
            return itertools.islice((summary.row_of(group, job.by) for group in groups), job.limit)
        case "conversations":
            from wiretape.recorder.clock import SYSTEM
            from wiretape.viewer import config

            # A list has the newest first, an export the oldest; the limit is counted from the oldest.
            return iter(source.sessions(selection, config.thresholds(), SYSTEM)[::-1][: job.limit])
        case "chunks" | "reads" | "turns":
            rows = source.table(job.table, selection)
            if isinstance(rows, Chunks):  # as runs, which `export` makes lines of without a row in between
                return Chunks(bar.over(rows.bodies, rows=lambda pair: sum(map(len, pair[1].runs))), job.limit)
            key = "id" if job.table == "reads" else "exchange_id"
            return bar.over(itertools.islice(rows, job.limit), key=lambda row: row[key])
    names = job.columns or text.TABLES[job.table]
    rows = source.rows(names, selection, limit=job.limit)
    return Exchanges(names, bar.over(rows.batches, rows=len, steps=len)) if isinstance(rows, Exchanges) else rows


def _bar(source: "Source", job: _ExportJob, selection: "Selection") -> progress.ProgressBar:
    def total() -> int | None:
        if job.limit is not None and job.table in ("chunks", "reads", "turns"):
            return None  # nobody knows in which exchange there will be that many rows
        count = source.count(selection)
        return count if job.limit is None else min(count, job.limit)

    hidden = job.file is None and output.on_terminal()
    return progress.ProgressBar(f"exporting {job.table}", total, job.unit, hidden=hidden)
