"""The command `export`: the tape as a table for machines, or whole exchanges; `viewer.cli` adds it to the group.

Only click is imported at the top: `--help` must not wait for a database library. The work is `exports`'s.
"""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.commands import options
from recorder.errors import NotFound
from viewer.commands import completing, measuring
from viewer.commands import options as selecting
from viewer.commands import output as writing

if TYPE_CHECKING:
    from viewer.commands.exports import Asked
    from viewer.filters.syntax import Filter

_SIGINT_EXIT = 128 + 2
_TABLES = ("exchanges", "texts", "chunks", "reads", "summary")
_WHOLE = ("sse", "har", "asciicast")
_SUFFIXES = {f".{name}": name for name in ("csv", "tsv", "jsonl", "json", "parquet", "har", "sse")}
_SUFFIXES[".cast"] = "asciicast"


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completing.ids)
@options.db
@selecting.filtered
@selecting.limited
@click.option("--table", type=click.Choice(_TABLES), help="One row for each of these. [default: exchanges]")
@click.option(
    "--by",
    metavar="NAMES",
    shell_complete=completing.groups,
    help="Of the summary: one row for each model, label.KEY, …, as in stats.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write to FILE; - is stdout. Its suffix (.csv, .tsv, .jsonl, .json, .parquet, .har, .cast or .sse) gives the "
    "format. [default: -]",
)
@click.option(
    "--format",
    type=click.Choice((*writing.FORMATS, "parquet", *_WHOLE)),
    help="Of whole exchanges: sse (the bytes of one), har (any number) and asciicast (one); the others of a table. "
    "[default: csv]",
)
@click.option("--raw-csv", is_flag=True, help="CSV: leave texts that a spreadsheet takes for formulas alone.")
@click.option("--no-header", is_flag=True, help="TSV, CSV: leave out the line of field names.")
@click.option("--schema", is_flag=True, help="Say what each column is: type, unit and meaning.")
@writing.columned
def export(
    ids: tuple[str, ...],
    db: Path | None,
    where: "Filter | None",
    limit: int | None,
    table: str | None,
    by: str | None,
    output: Path | None,
    format: str | None,
    raw_csv: bool,
    no_header: bool,
    schema: bool,
    columns: str | None,
) -> None:
    """Export the tape as CSV (the default), JSON or Parquet, or whole exchanges; the oldest exchange comes first.

    ID is as in show: 4 or more characters of an exchange's id, @ (the newest), @-1 (the one before) or @err (failed);
    - reads them from stdin, one a line. Without any, it is all that fit.
    """
    from viewer.commands import exports
    from viewer.tape import queries

    file = None if output is None or str(output) == "-" else output
    format = format or (_format_of(file) if file is not None else None)
    format = writing.chosen(format) if schema and file is None else format or "csv"
    tape = options.tape_path(db)
    keys = measuring.keys_of(by)
    asked = exports.Asked(table or "exchanges", format, file, keys, limit, raw_csv, not no_header, tape)
    _refuse(asked, table, schema)
    if columns is not None:
        if format in _WHOLE or schema:
            raise click.UsageError("--columns selects those of a table: leave it out")
        asked = dataclasses.replace(asked, columns=_columns(asked, columns))
    try:
        if schema:
            exports.describe(_TABLES if table is None else (table,), asked)
            return
        with queries.opened(tape) as connection:
            condition = selecting.named(connection, ids, where)
            if format in ("sse", "asciicast") and not queries.count(connection, condition):
                raise NotFound(selecting.nothing(connection, where, ids))
            count = exports.run(connection, asked, condition)
            # A summary of nothing is a row as well.
            if count <= 1 and limit != 0 and not queries.count(connection, condition):
                selecting.report_nothing(connection, where, ids)
    except KeyboardInterrupt:
        sys.exit(_SIGINT_EXIT)


def _format_of(file: Path) -> str | None:
    """Return the format that a file's suffix stands for; None without a suffix. Raise a usage error for another one."""
    suffix = file.suffix.lower()
    if suffix and suffix not in _SUFFIXES:
        raise click.UsageError(
            f"{click.format_filename(file)}: no format has the suffix {suffix!r}: add --format, or use one of "
            f"{', '.join(_SUFFIXES)}"
        )
    return _SUFFIXES.get(suffix)


def _columns(asked: "Asked", text: str) -> tuple[str, ...]:
    from viewer.export import fields

    return writing.columns_of(text, fields.described(fields.of(asked.table, asked.by)))


def _refuse(asked: "Asked", table: str | None, schema: bool) -> None:
    """Raise a usage error where what is asked for does not go together."""
    if asked.format in _WHOLE and (schema or table is not None):
        raise click.UsageError(f"{asked.format} is of whole exchanges: it has no --table and no --schema")
    if asked.by and table != "summary":
        raise click.UsageError("--by groups the summary: add --table summary")
    if asked.format == "parquet" and (schema or asked.file is None):
        raise click.UsageError("Parquet is a file of rows: name it with -o FILE, and ask for --schema without it")
    if asked.format == "sse" and asked.file is None and writing.on_terminal():
        raise click.UsageError("raw bytes may upset a terminal: send them to a file or a pipe")


COMMANDS: list[click.Command] = [export]
"""The commands of this module, for the group."""
