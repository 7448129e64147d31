"""The commands that read a tape: `ls`, `show` and `export`; `viewer.cli` adds them to the group.

Only click is imported at the top: `--help` must not wait for a database library. Data goes to stdout and messages to
stderr. `WiretapeError` is left to the command line's `main`.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import click

from recorder import options
from viewer import output, selecting

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.export import Format
    from viewer.filter_syntax import Filter
    from viewer.filters import Condition
    from viewer.rows import Row

F = TypeVar("F", bound=Callable[..., Any])

_FORMATS = click.Choice(["table", "csv", "jsonl", "json"])
_PARTS = click.Choice(["summary", "text", "events", "reads", "request", "raw"])
_SIGINT_EXIT = 128 + 2
_FIRST_FOLLOWED = 10
_LAID_OUT = 50


def _formatted(command: F) -> F:
    """Add the options for the format of what is written."""
    raw = click.option("--raw-csv", is_flag=True, help="CSV: leave texts that a spreadsheet takes for formulas alone.")
    command = raw(command)
    return click.option("--format", "format", type=_FORMATS, help="Format of the output.")(command)


@click.command()
@options.db
@selecting.filtered
@selecting.limited
@selecting.sorted_by
@click.option(
    "-F", "--follow", is_flag=True, help="Print exchanges as they end, until interrupted; first the last N, or 10."
)
@_formatted
@output.quiet
def ls(
    db: Path | None,
    where: "Filter | None",
    limit: int | None,
    sort: tuple[str, bool] | None,
    follow: bool,
    format: str | None,
    raw_csv: bool,
) -> None:
    """List exchanges, the newest first."""
    from viewer import queries, report, rows

    format = format or "table"
    if follow and (sort or format not in ("table", "jsonl")):
        raise click.UsageError("--follow goes by the order of ending, as a table or as --format jsonl")
    fields = report.LISTED if format == "table" else rows.FIELDS
    with queries.opened(options.tape_path(db)) as connection:
        condition = selecting.condition(where)
        if follow:
            _follow(connection, fields, condition, _FIRST_FOLLOWED if limit is None else limit, format)
            return
        if sort:
            by, descending = sort
            found = queries.ordered(connection, fields, by, descending=descending, limit=limit, where=condition)
        else:
            found = queries.exchanges(connection, fields, newest_first=True, limit=limit, where=condition)
        if format == "table":
            output.show(report.listing(found, output.width()))
        else:
            _put(format, fields, found, raw_csv)


@click.command()
@click.argument("id")
@options.db
@click.option("--part", type=_PARTS, default="summary", show_default=True, help="What to show of it.")
@click.option("--force", is_flag=True, help="Write raw bytes even to a terminal.")
@_formatted
@output.quiet
def show(id: str, db: Path | None, part: str, force: bool, format: str | None, raw_csv: bool) -> None:
    """Show one exchange: ID is 4 or more characters of its id, @ (the newest), @-1 (the one before) or @err (failed).

    On a pipe, the parts text, request and raw are the content, the request body and the response body, byte for byte.
    """
    from viewer import queries

    if part == "raw" and format is not None:
        raise click.UsageError("--part raw is the body as it came: it has no --format")
    if part == "raw" and output.on_terminal() and not force:
        raise click.UsageError("raw bytes may upset a terminal: send them to a file or a pipe, or say --force")
    with queries.opened(options.tape_path(db)) as connection:
        _SHOWN[part](connection, queries.find(connection, id), format, raw_csv)


@click.command()
@options.db
@selecting.filtered
@selecting.limited
@click.option(
    "--table",
    type=click.Choice(["exchanges", "texts", "chunks", "reads"]),
    default="exchanges",
    show_default=True,
    help="One row for each of these.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write to FILE; - is stdout. Its suffix .jsonl or .json gives the format. [default: -]",
)
@_formatted
@output.quiet
def export(
    db: Path | None,
    where: "Filter | None",
    limit: int | None,
    table: str,
    output: Path | None,
    format: str | None,
    raw_csv: bool,
) -> None:
    """Export the tape as CSV (the default), JSON Lines or JSON, the oldest exchange first."""
    from viewer import queries
    from viewer.export import TABLES, replacing

    fields = tuple(TABLES[table][0])
    if output is None or str(output) == "-":
        with queries.opened(options.tape_path(db)) as connection:
            _put(format or "csv", fields, _source(connection, table, fields, where, limit), raw_csv)
        return
    chosen = format or {".jsonl": "jsonl", ".json": "json"}.get(output.suffix.lower(), "csv")
    with queries.opened(options.tape_path(db)) as connection, replacing(output) as file:
        count = _put(chosen, fields, _source(connection, table, fields, where, limit), raw_csv, file)
    click.echo(f"wrote {output} ({count:,} rows)", err=True)


def _source(
    connection: "Connection", table: str, fields: tuple[str, ...], where: "Filter | None", limit: int | None
) -> "Iterator[Row]":
    from viewer import queries

    condition = selecting.condition(where)
    if table in ("chunks", "reads"):
        source = queries.all_chunks if table == "chunks" else queries.all_reads
        return itertools.islice(source(connection, condition), limit)
    return queries.exchanges(connection, fields, limit=limit, where=condition)


COMMANDS: list[click.Command] = [ls, show, export]
"""The commands of this module, for the group."""


def _follow(
    connection: "Connection", fields: tuple[str, ...], where: "Condition | None", last: int, format: str
) -> None:
    from viewer import following, report

    width = output.width()
    recent: list[Row] | None = None
    try:
        for batch in following.ended(connection, fields, where, last=last):
            if format == "jsonl":
                _put(format, fields, batch, raw_csv=False)
                continue
            # What was printed before is laid out again, so that the columns stay where they are.
            before = recent or []
            lines = list(report.listing([*before, *batch], width))
            output.show(lines if recent is None else lines[1 + len(before) :])
            recent = [*before, *batch][-_LAID_OUT:]
    except KeyboardInterrupt:
        sys.exit(_SIGINT_EXIT)


def _show_summary(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import queries, report

    row = queries.detail(connection, no)
    if format is None or format == "table":
        output.show(report.page(row))
    else:
        row.pop("sparkline")
        _put_one(format, row, raw_csv)


def _show_text(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import queries, report, rows

    row = queries.detail(connection, no)
    if format is None and not output.on_terminal():
        _write_bytes((row["content"] or "").encode())
    elif format is None or format == "table":
        output.show(report.answer(row))
    else:
        _put_one(format, {field: row[field] for field in ("id", *rows.TEXT_FIELDS)}, raw_csv)


def _show_events(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import queries, rows

    _put(format or "table", rows.EVENT_FIELDS, rows.events(queries.decoded(connection, no).items), raw_csv)


def _show_reads(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import queries, rows

    _put(format or "table", rows.READ_FIELDS, queries.reads(connection, no), raw_csv)


def _show_request(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import queries, report

    row, body = queries.request(connection, no)
    if format is None and not output.on_terminal():
        _write_bytes(body or b"")
    elif format is None or format == "table":
        output.show(report.request(row))
    else:
        _put_one(format, row, raw_csv)


def _show_raw(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import queries

    _write_bytes(queries.body(connection, no))


_SHOWN = {
    "summary": _show_summary,
    "text": _show_text,
    "events": _show_events,
    "reads": _show_reads,
    "request": _show_request,
    "raw": _show_raw,
}


def _put(format: str, fields: Sequence[str], found: "Iterable[Row]", raw_csv: bool, out: BinaryIO | None = None) -> int:
    """Write rows to `out` (None: stdout) and give how many there were."""
    if format == "table":
        return _put_table(fields, list(found), out)
    from viewer.export import write

    chosen = cast("Format", format)
    if out is not None:
        return write(out, chosen, fields, found, raw_csv=raw_csv)
    with output.stdout() as stdout:
        return write(stdout, chosen, fields, found, raw_csv=raw_csv, terminal=output.on_terminal())


def _put_table(fields: Sequence[str], found: "list[Row]", out: BinaryIO | None) -> int:
    from viewer import report

    if out is not None:
        report.emit(report.grid(fields, found), out)
    else:
        output.show(report.grid(fields, found, output.width()))
    return len(found)


def _put_one(format: str, row: "Row", raw_csv: bool) -> None:
    from viewer.export import write_object

    if format != "json":
        _put(format, list(row), [row], raw_csv)
        return
    with output.stdout() as out:
        write_object(out, row, terminal=output.on_terminal())


def _write_bytes(data: bytes) -> None:
    with output.stdout() as out:
        out.write(data)
