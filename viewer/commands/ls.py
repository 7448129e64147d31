"""The command `ls`: exchanges, one a line, and those that end while it looks on.

Lines are laid out by `report.tables`.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.commands.options import db, tape_path
from viewer.commands import options, output
from viewer.commands.output import Output

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.filters.syntax import Filter
    from viewer.rows import TableRow

_SIGINT_EXIT = 128 + 2
_FIRST_FOLLOWED = 10
_LAID_OUT = 50
_NOTHING_EXIT = 3
_READ_AT_ONCE = 200


@click.command()
@db
@options.filtered
@options.limited
@options.sorted_by
@click.option(
    "-F", "--follow", is_flag=True, help="Print exchanges as they end, until interrupted; first the last N, or 10."
)
@click.option("--spark", is_flag=True, help="Draw each exchange's gaps, all on one axis of time and one scale.")
@click.option("--ascii", is_flag=True, envvar="WIRETAPE_ASCII", help="Draw with ASCII, as where there is no UTF-8.")
@click.option("-e", "--exit-code", is_flag=True, help="Exit 3 if nothing matches.")
@output.formatted((*output.FORMATS, "ids"), columns=True)
def ls(
    db: Path | None,
    where: "Filter | None",
    limit: int | None,
    sort: tuple[str, bool] | None,
    follow: bool,
    spark: bool,
    ascii: bool,
    exit_code: bool,
    out: Output,
) -> None:
    """List exchanges, the newest first."""

    if out.columns is not None and (spark or out.chosen == "ids"):
        raise click.UsageError(f"{'--spark' if spark else '--format ids'} has columns of its own: leave out --columns")
    if follow and (sort or spark or exit_code or out.chosen in ("csv", "json")):
        raise click.UsageError("--follow goes by the order of ending, as --format table, tsv, jsonl or ids")
    if spark and out.format not in (None, "table"):
        raise click.UsageError("--spark draws: it goes with --format table only")
    names = _columns(out)
    with output.opened(tape_path(db)) as connection:
        fields = _fields(out, spark, names)
        if follow:
            _follow(connection, fields, where, _FIRST_FOLLOWED if limit is None else limit, out, ascii, names)
            return
        rows = _rows(connection, fields, where, limit, sort)
        count = _show(connection, list(rows), names, spark, ascii) if spark or out.is_table else out.put(fields, rows)
        if not count and limit != 0:
            options.report_nothing(connection, where)
    if exit_code and not count:
        raise click.exceptions.Exit(_NOTHING_EXIT)


def _columns(out: Output) -> tuple[str, ...] | None:
    if out.columns is None:
        return None
    from viewer.export import fields
    from viewer.report import tables

    return out.fields(fields.meanings(tables.COLUMNS))


def _rows(
    connection: "Connection",
    fields: tuple[str, ...],
    where: "Filter | None",
    limit: int | None,
    sort: tuple[str, bool] | None,
) -> "Iterator[TableRow]":
    from viewer.tape import queries

    condition = options.condition(where)
    if sort is None:
        return queries.exchanges(connection, fields, newest_first=True, limit=limit, where=condition)
    return queries.ordered(connection, fields, sort[0], descending=sort[1], limit=limit, where=condition)


def _fields(out: Output, spark: bool, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the fields of a row that are to be read."""
    from viewer import rows
    from viewer.report import tables

    if spark:
        return tables.SPARKED
    if out.is_table:
        return tables.needed(names or tables.LISTED)
    return ("id",) if out.chosen == "ids" else names or rows.FIELDS


def _show(
    connection: "Connection", rows: "list[TableRow]", names: tuple[str, ...] | None, spark: bool, ascii: bool
) -> int:
    from viewer.report import tables

    if not rows:
        return 0
    if spark:
        table = tables.sparked(rows, _gaps(connection, rows), output.width() or output.PLAIN_WIDTH)
    else:
        table = tables.listing(rows, output.width(), names)
    output.show_table(table, ascii=ascii)
    return len(rows)


def _gaps(connection: "Connection", rows: "list[TableRow]") -> Iterator[bytes | None]:
    """Read the packed gaps of these exchanges, some of them at a time."""
    from viewer.tape import queries
    from viewer.tape.columns import column

    for start in range(0, len(rows), _READ_AT_ONCE):
        ids = [row["id"] for row in rows[start : start + _READ_AT_ONCE]]
        packed = dict(queries.packed_gaps(connection, column("id").in_(ids)))
        yield from map(packed.get, ids)


def _follow(
    connection: "Connection",
    fields: tuple[str, ...],
    where: "Filter | None",
    last: int,
    out: Output,
    ascii: bool,
    names: tuple[str, ...] | None,
) -> None:
    from viewer.report import tables
    from viewer.tape import following

    recent: list[TableRow] | None = None
    with contextlib.suppress(KeyboardInterrupt), following.interrupts() as pause:

        def wait() -> None:
            output.raise_if_unread()
            pause()

        for batch in following.ended(connection, fields, options.condition(where), last=last, wait=wait):
            if not out.is_table:
                out.put(fields, batch, header=recent is None)
                recent = []
                continue
            # What was printed before is laid out again, so that the columns stay where they are.
            before = recent or []
            table = tables.listing([*before, *batch], output.width(), names)
            if recent is None:
                output.tell_hidden(table.hidden)
            output.show(table.lines if recent is None else table.lines[1 + len(before) :], ascii=ascii)
            recent = [*before, *batch][-_LAID_OUT:]
    sys.exit(_SIGINT_EXIT)
