"""What `export` exports, and where to: a table, an archive of exchanges, or one exchange; in the format asked for.

Rows and files are written by `export` and `parquet`, whole exchanges by `har` and `asciicast`. Nothing here depends on
how large a tape is: rows and exchanges pass one by one. What only one format needs is imported where it is used.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import click
from sqlalchemy import Connection

from recorder import __version__
from recorder.errors import NotFound
from recorder.plurals import counted
from viewer import outfile, rows
from viewer.commands import output, progress
from viewer.export import fields, text
from viewer.filters.sql import Condition
from viewer.rows import Chunks, Row
from viewer.tape import queries

Bar = progress.Bar | progress.Hidden
Put = Callable[[BinaryIO | None], int]
"""Writes to a file, or to stdout where it gets none, and gives how much that was."""

_NOUNS: Final = {"sse": "byte", "asciicast": "event", "har": "exchange"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be exported; `by` are the groups of a summary, `file` is None for stdout, `tape` what is read.

    `columns` are those of the table that are exported, in their order; None is all of them.
    """

    table: str
    format: str
    file: Path | None = None
    by: tuple[str, ...] = ()
    limit: int | None = None
    raw_csv: bool = False
    header: bool = True
    tape: Path | None = None
    columns: tuple[str, ...] | None = None


def run(connection: Connection, asked: Asked, where: Condition | None = None) -> int:
    """Export the exchanges that fit, and return how many rows, bytes, events or exchanges that was.

    Raises `click.UsageError` for several where only one can be, and `NotFound` for none.
    """
    make = {"har": _archive, "sse": _one, "asciicast": _one}.get(asked.format, _table)
    put, noun = make(connection, asked, where), _NOUNS.get(asked.format, "row")
    return save(asked.file, put, noun, asked.tape)


def describe(tables: tuple[str, ...], asked: Asked) -> None:
    """Export what each column of some tables means."""
    found = fields.schema(tables, asked.by)
    save(asked.file, functools.partial(_written, asked, fields.SCHEMA_FIELDS, found), "column")


def save(file: Path | None, put: Put, noun: str, tape: Path | None = None) -> int:
    """Write to stdout, or to a file that is there when it is whole; then say on stderr how much it holds.

    Return how many things of the `noun` were written.
    """
    if file is None:
        return put(None)
    with outfile.replacing(file, tape) as out:
        count = put(out)
    click.echo(f"wrote {click.format_filename(file)} ({counted(count, noun)})", err=True)
    return count


def _table(connection: Connection, asked: Asked, where: Condition | None) -> Put:
    known = {field.name: field for field in fields.of(asked.table, asked.by)}
    columns = [known[name] for name in asked.columns or known]

    def put(out: BinaryIO | None) -> int:
        with _bar(connection, asked, where) as bar:
            found = _rows(connection, asked, where, bar)
            if asked.format == "parquet" and out is not None:
                from viewer.export import parquet

                return parquet.write(out, columns, found)
            names = [field.name for field in columns]
            if asked.columns and asked.table in ("chunks", "reads", "summary"):  # of exchanges, only these are read
                found = rows.only(found, names)
            return _written(asked, names, found, out)

    return put


def _written(asked: Asked, names: Sequence[str], found: Iterable[Row], out: BinaryIO | None) -> int:
    if out is None or asked.format == "table":
        return output.put(asked.format, names, found, asked.raw_csv, out, header=asked.header)
    format = cast("text.Format", asked.format)
    return text.write(out, format, names, found, raw_csv=asked.raw_csv, header=asked.header)


def _rows(connection: Connection, asked: Asked, where: Condition | None, bar: Bar) -> Iterator[Row]:
    match asked.table:
        case "summary":  # all of its work is done before its first row
            from viewer.stats import samples, summary

            found = samples.read(connection, asked.by, where)
            return itertools.islice((summary.row(sample, asked.by) for sample in found), asked.limit)
        case "chunks":  # as runs, which `export` makes lines of without a row in between
            runs = queries.all_chunks(connection, where).runs
            return Chunks(bar.over(runs, rows=lambda one: sum(len(run.texts) for run in one[1])), asked.limit)
        case "reads":
            reads = itertools.islice(queries.all_reads(connection, where), asked.limit)
            return bar.over(reads, key=lambda row: row["id"])
    names = asked.columns or tuple(text.TABLES[asked.table][0])
    return bar.over(queries.exchanges(connection, names, limit=asked.limit, where=where))


def _archive(connection: Connection, asked: Asked, where: Condition | None) -> Put:
    from viewer.export import har

    def put(out: BinaryIO | None) -> int:
        numbers = itertools.islice(queries.numbers(connection, where), asked.limit)
        with _bar(connection, asked, where) as bar, _opened(out) as file:
            return har.write(file, (queries.whole(connection, no) for no in bar.over(numbers)), __version__)

    return put


def _one(connection: Connection, asked: Asked, where: Condition | None) -> Put:
    found = list(itertools.islice(queries.numbers(connection, where), 2))
    if len(found) > 1:
        raise click.UsageError(f"--format {asked.format} is of one exchange: name its ID, such as @ for the newest")
    if not found:
        raise NotFound("no exchange matches: see 'wiretape ls'")

    def put(out: BinaryIO | None) -> int:
        with _opened(out) as file:
            if asked.format == "sse":
                return file.write(queries.body(connection, found[0]))
            from viewer.export import asciicast

            return asciicast.write(file, queries.whole(connection, found[0]))

    return put


def _opened(out: BinaryIO | None) -> contextlib.AbstractContextManager[BinaryIO]:
    return output.stdout() if out is None else contextlib.nullcontext(out)


def _bar(connection: Connection, asked: Asked, where: Condition | None) -> contextlib.AbstractContextManager[Bar]:
    def total() -> int | None:
        if asked.limit is not None and asked.table in ("chunks", "reads"):
            return None  # nobody knows in which exchange there will be that many rows
        found = queries.count(connection, where)
        return found if asked.limit is None else min(found, asked.limit)

    hidden, noun = asked.file is None and output.on_terminal(), _NOUNS.get(asked.format, "row")
    return progress.bar(f"exporting {asked.table}", total, noun, hidden=hidden)
