"""The command `export`: the tape as a table for machines, or whole exchanges.

Rows and files are written by the modules of `wiretape.viewer.export`. Memory does not grow with the tape: rows and
exchanges pass one by one.
"""

import contextlib
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from wiretape.recorder.commands.options import gathered
from wiretape.recorder.errors import NotFound
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape import redact
from wiretape.viewer.commands import completion, masking, options, output, progress
from wiretape.viewer.commands.output import Output
from wiretape.viewer.timing.playback import RECORDED, Pace

if TYPE_CHECKING:
    from wiretape.recorder.tape.masking import Masker
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.rows import TableRow
    from wiretape.viewer.source.base import Place, Selection, Source

Put = Callable[[BinaryIO | None], int]
"""A function that writes to a file, or to stdout without one, and returns the count."""

_SIGINT_EXIT = 128 + 2
_TABLES = ("exchanges", "texts", "chunks", "reads", "turns", "conversations", "summary")
_OF_ALL = ("exchanges", "summary")
_FILMS = ("asciicast", "gif")
_LEAST_SIZE, _LARGEST_SIZE = (40, 12), (240, 80)


@dataclass(frozen=True, slots=True)
class _FilmOptions:
    """The pace of a film, and the columns and lines of its screen."""

    pace: Pace = RECORDED
    size: tuple[int, int] = (80, 24)


def _read_film(speed: float, max_gap: str | None, size: str | None) -> _FilmOptions:
    """Return the options of a film. Raise `click.BadParameter`."""
    pace = options.read_pace(speed, max_gap, no_wait=False)
    if pace.speed == math.inf:
        raise click.BadParameter("a film takes time: use a number above 0", param_hint="--speed")
    match = re.fullmatch(r"(\d{1,3})x(\d{1,3})", size or "80x24")
    columns, lines = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (_LEAST_SIZE[0] <= columns <= _LARGEST_SIZE[0] and _LEAST_SIZE[1] <= lines <= _LARGEST_SIZE[1]):
        least, largest = ("x".join(map(str, limit)) for limit in (_LEAST_SIZE, _LARGEST_SIZE))
        raise click.BadParameter(f"use COLUMNSxLINES from {least} to {largest}, not {size}", param_hint="--size")
    return _FilmOptions(pace, (columns, lines))


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
    where: "Filter | None" = None
    with_text: bool = False
    with_bodies: bool = False
    with_messages: bool = False
    sides: "tuple[Filter, Filter] | None" = None
    every_operation: bool = False
    film: _FilmOptions = _FilmOptions()
    mask: "Masker | None" = None

    @property
    def format(self) -> str:
        return self.out.chosen

    @property
    def whole(self) -> "_WholeFormat | None":
        """The format, if it is one of whole exchanges."""
        return _WHOLE.get(self.format)

    @property
    def unit(self) -> str:
        return self.whole.unit if self.whole else "row"


def _archive(source: "Source", job: _ExportJob, where: "Selection") -> Put:
    from wiretape.recorder import __version__
    from wiretape.viewer.export import har
    from wiretape.viewer.source.tape import exchange, queries
    from wiretape.viewer.source.tape.source import condition

    def put(stream: BinaryIO | None) -> int:
        connection = source.tape("bodies")
        numbers = itertools.islice(queries.numbers(connection, condition(where)), job.limit)
        with _bar(source, job, where) as bar, _opened(stream) as file:
            return har.write(file, (exchange.full(connection, no, job.mask) for no in bar.over(numbers)), __version__)

    return put


def _few(source: "Source", job: _ExportJob, where: "Selection", most: int) -> list[int]:
    """Return the numbers of the exchanges, named ones in their order. Raise a usage error if there are more."""
    numbers = source.numbers(where, most + 1)
    if len(numbers) > most:
        race = ", or two for a race" if most > 1 else ""
        raise click.UsageError(f"--format {job.format} is of one exchange: name its ID, such as @ for the newest{race}")
    if not numbers:
        raise NotFound("no exchange matches: see 'wiretape ls'")
    return sorted(numbers, key=(where.numbers or numbers).index)


def _body(source: "Source", job: _ExportJob, where: "Selection") -> Put:
    (number,) = _few(source, job, where, 1)

    def put(stream: BinaryIO | None) -> int:
        with _opened(stream) as file:
            return file.write(source.exchange(number).body())

    return put


def _film(source: "Source", job: _ExportJob, where: "Selection") -> Put:
    from wiretape.viewer import config
    from wiretape.viewer.export import asciicast, gif
    from wiretape.viewer.export.film import Film, ScreenSize
    from wiretape.viewer.source.tape import exchange

    numbers = _few(source, job, where, 2)
    connection, limits = source.tape("bodies"), config.thresholds()
    pace, size = job.film.pace, ScreenSize(*job.film.size)

    def put(stream: BinaryIO | None) -> int:
        shown = [exchange.full(connection, number) for number in numbers]
        with _opened(stream) as file:
            if job.format == "gif":
                return gif.write(file, Film(shown, pace, limits, size))
            if len(shown) > 1:
                return asciicast.write_race(file, shown[0], shown[1], Film(shown, pace, limits, size))
            return asciicast.write(file, shown[0], limits, pace, size)

    return put


def _page(source: "Source", job: _ExportJob, where: "Selection") -> Put:
    from wiretape.viewer import config
    from wiretape.viewer.page import sources
    from wiretape.viewer.page import stream as stream_page
    from wiretape.viewer.source.tape.source import condition

    connection, numbers = source.tape("bodies"), source.numbers(where, 2)
    is_run = len(numbers) > 1
    if is_run and job.with_bodies:
        raise click.UsageError("--with-bodies is of the page of one exchange: name its ID, such as @ for the newest")
    if not is_run and job.sides is not None:
        raise click.UsageError("--base and --new compare exchanges of a run: only one exchange is selected")
    limits = config.thresholds()

    def put(stream: BinaryIO | None) -> int:
        with _opened(stream) as file:
            if is_run:
                wanted = sources.PageContent(job.where, condition(where), job.sides, job.with_text, job.every_operation)
                return sources.write_run(connection, replace(wanted, mask=job.mask), limits, file)
            shared = stream_page.Shared(job.with_text, job.with_bodies)
            return sources.write_one(connection, numbers[0], limits, file, shared, job.mask)

    return put


def _trace(source: "Source", job: _ExportJob, where: "Selection") -> Put:
    """Write a row for each exchange in the order of arrival; report those left out."""
    from wiretape.viewer.export import text, trace
    from wiretape.viewer.source.tape import queries

    connection = source.tape("bodies")

    def put(stream: BinaryIO | None) -> int:
        left_out = Counter[str]()
        with _bar(source, job, where) as bar, _opened(stream) as file:
            found = bar.over(source.rows(trace.EXCHANGE_FIELDS, where, order=("started_at", False), limit=job.limit))
            asked = ((row, queries.request(connection, row["no"])) for row in found)
            entries = trace.entries(asked, left_out, with_messages=job.with_messages)
            count = text.write(file, "jsonl", (), entries, terminal=stream is None and output.on_terminal())
        if left_out:
            reasons = ", ".join(f"{number:,} {reason}" for reason, number in left_out.most_common())
            click.echo(f"wiretape: {counted(left_out.total(), 'exchange')} left out: {reasons}", err=True)
        return count

    return put


@dataclass(frozen=True, slots=True)
class _WholeFormat:
    """A format of whole exchanges: its writer, the unit in which its files are counted, and the suffix of these.

    With `needs_exchange`, a file of no exchange is refused.
    """

    make: "Callable[[Source, _ExportJob, Selection], Put]"
    unit: str
    suffix: str | None
    needs_exchange: bool = True


_WHOLE: Final = {
    "har": _WholeFormat(_archive, "exchange", ".har", needs_exchange=False),
    "sse": _WholeFormat(_body, "byte", ".sse"),
    "asciicast": _WholeFormat(_film, "event", ".cast"),
    "gif": _WholeFormat(_film, "frame", ".gif"),
    "html": _WholeFormat(_page, "byte", ".html"),
    "trace": _WholeFormat(_trace, "row", None, needs_exchange=False),
}
_SUFFIXES: Final = {f".{name}": name for name in ("csv", "tsv", "jsonl", "json", "parquet")} | {
    one.suffix: name for name, one in _WHOLE.items() if one.suffix
}


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
    help="Write to FILE; - is stdout. Its suffix (.csv, .tsv, .jsonl, .json, .parquet, .har, .cast, .gif, .sse or "
    ".html) gives the format. [default: -]",
)
@click.option(
    "--html",
    is_flag=True,
    help="The same as --format html: a page for browsers, of one or many exchanges, in one file.",
)
@click.option("--with-text", is_flag=True, help="With --html: include texts of answers and first prompts of sessions.")
@click.option(
    "--base", metavar="EXPR", shell_complete=completion.filters, help="With --html: the group to compare with, …"
)
@click.option(
    "--new", metavar="EXPR", shell_complete=completion.filters, help="… and the group compared, as in compare."
)
@click.option("--with-bodies", is_flag=True, help="With --html: include texts, and the bytes of request and answer.")
@click.option("--with-messages", is_flag=True, help="With --format trace: the prompts themselves.")
@gathered(
    "film",
    _read_film,
    click.option("--speed", type=float, default=1.0, metavar="N", help="With asciicast or gif: N times as fast, …"),
    click.option("--max-gap", metavar="TIME", help="… each silence shortened to TIME at most, such as 1s, …"),
    click.option("--size", metavar="COLSxLINES", help="… and the size of the screen. [default: 80x24]"),
)
@masking.no_redact
@click.option("--schema", is_flag=True, help="Print type, unit and meaning of each column.")
@click.option("--bom", is_flag=True, help="CSV, TSV: begin with the mark of UTF-8, which Excel needs.")
@output.formatted(
    (*output.FORMATS, "parquet", *_WHOLE),
    "csv; sse is the body of one exchange, asciicast and gif the replay of one or the race of two, har and html any "
    "number, trace the traffic for load generators (help trace); the others are tables",
    columns=True,
)
def export(
    ids: tuple[str, ...],
    db: "Place | None",
    where: "Filter | None",
    limit: int | None,
    table: str | None,
    by: str | None,
    all_operations: bool,
    file: Path | None,
    html: bool,
    with_text: bool,
    with_bodies: bool,
    with_messages: bool,
    base: str | None,
    new: str | None,
    film: _FilmOptions,
    no_redact: bool,
    schema: bool,
    bom: bool,
    out: Output,
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
    if html and out.format not in (None, "html"):
        raise click.UsageError(f"--html and --format {out.format} exclude each other")
    format = "html" if html else out.format or (_format_of(file) if file is not None else None)
    out = replace(out, format=format or (None if schema and file is None else "csv"), mark=bom, exact=True)
    job = _ExportJob(table or "exchanges", out, file, options.groups(by), limit, options.place(db))
    job = replace(job, where=where, with_text=with_text, with_bodies=with_bodies, sides=_sides(base, new))
    job = replace(
        job, every_operation=all_operations, with_messages=with_messages, film=film, mask=_mask(job, no_redact)
    )
    _refuse(job, table, schema)
    try:
        if schema:
            rows = fields.schema(_TABLES if table is None else (table,), job.by)
            _save(job, lambda stream: out.put(fields.SCHEMA_FIELDS, rows, stream), "column")
            return
        named = out.with_headings(fields.aliases(job.table))
        job = replace(job, columns=named.fields(fields.described(fields.choosable(job.table, job.by))))
        with output.opened(job.place) as source:
            chosen = selected = options.named(source, ids, where)
            if job.table == "summary" or job.format == "trace":
                chosen = options.covered(source, selected, all_operations)
            if job.whole and job.whole.needs_exchange and not source.count(chosen):
                raise NotFound(options.nothing(source, where, ids))
            make = job.whole.make if job.whole else _table
            count = _save(job, make(source, job, chosen), job.unit)
            # A summary of nothing is a row as well.
            if count <= 1 and limit != 0 and not source.count(selected):
                options.report_nothing(source, where, ids)
            _report_unshipped(source, job, chosen)
    except KeyboardInterrupt:
        sys.exit(_SIGINT_EXIT)


def _mask(job: _ExportJob, no_redact: bool) -> "Masker | None":
    """Return the mask of a format that is made to be passed on. Raise a usage error if there is nothing to keep."""
    if job.format in ("har", "html"):
        return masking.mask(no_redact)
    if no_redact:
        raise click.UsageError("--no-redact is for HAR and pages: nothing is redacted in bodies of other formats")
    return None


def _report_unshipped(source: "Source", job: _ExportJob, where: "Selection") -> None:
    """Print the count of exchanges that lack the requested bytes, if there are any."""
    if job.whole or job.table not in _OF_ALL:
        output.report_unshipped(source, where, "without texts and reads")


def _sides(base: str | None, new: str | None) -> "tuple[Filter, Filter] | None":
    from wiretape.viewer.query.parser import parse

    if base is None and new is None:
        return None
    if base is None or new is None:
        raise click.UsageError("--base and --new go together")
    return options.parsed("--base", parse, base), options.parsed("--new", parse, new)


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
    """Raise a usage error if options do not go together."""
    _require(job)
    if job.whole and (schema or table is not None):
        raise click.UsageError(f"{job.format} is of whole exchanges: it has no --table and no --schema")
    if job.by and table != "summary":
        raise click.UsageError("--by groups the summary: add --table summary")
    if job.format == "parquet" and (schema or job.file is None):
        raise click.UsageError("Parquet is a file of rows: name it with -o FILE, and ask for --schema without it")
    if job.with_messages and job.format != "trace":
        raise click.UsageError("--with-messages is for traces: add --format trace")
    if job.film != _FilmOptions() and job.format not in _FILMS:
        raise click.UsageError("--speed, --max-gap and --size are of films: add --format gif or asciicast")
    if job.format in ("sse", "gif") and job.file is None and output.on_terminal():
        raise click.UsageError("raw bytes may upset a terminal: send them to a file or a pipe")
    if job.out.columns is not None and (job.whole or schema):
        raise click.UsageError("--columns selects those of a table: leave it out")
    _refuse_of_page(job)


def _require(job: _ExportJob) -> None:
    """Raise `Unsupported` if the source lacks the data of an export, or a usage error if the format has no mark."""
    if job.out.mark and job.format not in ("csv", "tsv"):
        raise click.UsageError("--bom is for CSV and TSV: other formats need no mark")
    if job.table == "conversations":
        job.place.require("conversations", "--table conversations")
    elif job.whole or job.table not in _OF_ALL:
        job.place.require("bodies", f"--format {job.format}" if job.whole else f"--table {job.table}")


def _refuse_of_page(job: _ExportJob) -> None:
    """Raise a usage error if options do not go together with a page, or need one."""
    if job.format != "html":
        if job.with_text or job.with_bodies or job.sides:
            raise click.UsageError("--with-text, --with-bodies, --base and --new are for pages: add --html")
        if job.every_operation and job.table != "summary" and job.format != "trace":
            raise click.UsageError("--all-operations is for summaries, pages and traces: others have every operation")
    elif job.limit is not None:
        raise click.UsageError("--limit is for rows: limit a page by a filter, such as -f since:2h")
    elif job.file is None and output.on_terminal():
        raise click.UsageError("a page is for browsers: name its file with -o FILE")


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


def _table(source: "Source", job: _ExportJob, where: "Selection") -> Put:
    from wiretape.viewer import rows
    from wiretape.viewer.export import fields

    known = {field.name: field for field in fields.choosable(job.table, job.by)}
    columns = [known[name] for name in job.columns] if job.columns else fields.of(job.table, job.by)
    names = [field.name for field in columns]

    def put(stream: BinaryIO | None) -> int:
        with _bar(source, job, where) as bar:
            selected = _rows(source, job, where, bar)
            if job.format == "parquet" and stream is not None:
                from wiretape.viewer.export import parquet

                return parquet.write(stream, columns, selected)
            if job.columns and job.table not in ("exchanges", "texts"):  # of these, only the chosen are read
                selected = rows.only(selected, names)
            return job.out.put(names, selected, stream)

    return put


def _rows(source: "Source", job: _ExportJob, where: "Selection", bar: progress.ProgressBar) -> "Iterator[TableRow]":
    from wiretape.viewer.export import text
    from wiretape.viewer.rows import Chunks, Exchanges
    from wiretape.viewer.source.tape import queries
    from wiretape.viewer.source.tape.source import condition

    match job.table:
        case "summary":  # all of its work is done before its first row
            from wiretape.viewer.source.base import Measuring
            from wiretape.viewer.stats import summary

            groups = source.figures(job.by, where, Measuring())
            return itertools.islice((summary.row_of(one, job.by) for one in groups), job.limit)
        case "chunks":  # as runs, which `export` makes lines of without a row in between
            decoded = queries.all_chunks(source.tape("bodies"), condition(where)).found
            return Chunks(bar.over(decoded, rows=lambda one: sum(map(len, one[1].runs))), job.limit)
        case "conversations":
            from wiretape.recorder.clock import SYSTEM
            from wiretape.viewer import config
            from wiretape.viewer.source.tape import sessions

            connection, limits = source.tape("conversations"), config.thresholds()
            return iter(sessions.listed(connection, limits, SYSTEM, condition(where))[::-1][: job.limit])
        case "reads":
            reads = itertools.islice(queries.all_reads(source.tape("bodies"), condition(where)), job.limit)
            return bar.over(reads, key=lambda row: row["id"])
        case "turns":
            turns = itertools.islice(queries.all_turns(source.tape("bodies"), condition(where)), job.limit)
            return bar.over(turns, key=lambda row: row["exchange_id"])
    names = job.columns or tuple(text.TABLES[job.table][0])
    found = source.rows(names, where, limit=job.limit)
    return Exchanges(names, bar.over(found.batches, rows=len, steps=len)) if isinstance(found, Exchanges) else found


def _opened(stream: BinaryIO | None) -> contextlib.AbstractContextManager[BinaryIO]:
    return output.stdout() if stream is None else contextlib.nullcontext(stream)


def _bar(source: "Source", job: _ExportJob, where: "Selection") -> progress.ProgressBar:
    def total() -> int | None:
        if job.limit is not None and job.table in ("chunks", "reads", "turns"):
            return None  # nobody knows in which exchange there will be that many rows
        count = source.count(where)
        return count if job.limit is None else min(count, job.limit)

    hidden = job.file is None and output.on_terminal()
    return progress.ProgressBar(f"exporting {job.table}", total, job.unit, hidden=hidden)
