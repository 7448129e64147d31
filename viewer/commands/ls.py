"""The command `ls`: exchanges, one a line, and those that end while it looks on; `viewer.cli` adds it to the group.

Only click is imported at the top: `--help` must not wait for a database library. What a line looks like is `report`'s.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.commands import options
from viewer.commands import options as selecting
from viewer.commands import output

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.filters.syntax import Filter
    from viewer.rows import Row

_SIGINT_EXIT = 128 + 2
_FIRST_FOLLOWED = 10
_LAID_OUT = 50
_NOTHING_EXIT = 3
_READ_AT_ONCE = 200


@click.command()
@options.db
@selecting.filtered
@selecting.limited
@selecting.sorted_by
@click.option(
    "-F", "--follow", is_flag=True, help="Print exchanges as they end, until interrupted; first the last N, or 10."
)
@click.option("--spark", is_flag=True, help="Draw each exchange's gaps, all on one axis of time and one scale.")
@click.option("--ascii", is_flag=True, envvar="WIRETAPE_ASCII", help="Draw with ASCII, as where there is no UTF-8.")
@click.option("-e", "--exit-code", is_flag=True, help="Exit 3 if nothing matches.")
@output.columned
@output.formatted_or_ids
def ls(
    db: Path | None,
    where: "Filter | None",
    limit: int | None,
    sort: tuple[str, bool] | None,
    follow: bool,
    spark: bool,
    ascii: bool,
    exit_code: bool,
    columns: str | None,
    format: str | None,
    raw_csv: bool,
) -> None:
    """List exchanges, the newest first."""
    from viewer.tape import queries

    format = format or "table" if spark else output.chosen(format)
    if columns is not None and (spark or format == "ids"):
        raise click.UsageError(f"{'--spark' if spark else '--format ids'} has columns of its own: leave out --columns")
    names = None if columns is None else _columns(columns)
    if follow and (sort or spark or exit_code or format in ("csv", "json")):
        raise click.UsageError("--follow goes by the order of ending, as --format table, tsv, jsonl or ids")
    if spark and format != "table":
        raise click.UsageError("--spark draws: it goes with --format table only")
    fields = _fields(format, spark, names)
    with queries.opened(options.tape_path(db)) as connection:
        if follow:
            _follow(connection, fields, where, _FIRST_FOLLOWED if limit is None else limit, format, ascii, names)
            return
        found = _found(connection, fields, where, limit, sort)
        if format != "table":
            count = output.put(format, fields, found, raw_csv)
        else:
            count = _show(connection, list(found), names, spark, ascii)
        if not count and limit != 0:
            selecting.report_nothing(connection, where)
    if exit_code and not count:
        raise click.exceptions.Exit(_NOTHING_EXIT)


def _columns(text: str) -> tuple[str, ...]:
    from viewer.export import fields
    from viewer.report import lines

    return output.columns_of(text, fields.meanings(lines.COLUMNS))


def _fields(format: str, spark: bool, names: tuple[str, ...] | None) -> tuple[str, ...]:
    from viewer import rows
    from viewer.report import lines

    if format == "ids":
        return ("id",)
    if format != "table":
        return names or rows.FIELDS
    return lines.SPARKED if spark else lines.needed(names or lines.LISTED)


def _found(
    connection: "Connection",
    fields: tuple[str, ...],
    where: "Filter | None",
    limit: int | None,
    sort: tuple[str, bool] | None,
) -> "Iterator[Row]":
    from viewer.tape import queries

    condition = selecting.condition(where)
    if sort is None:
        return queries.exchanges(connection, fields, newest_first=True, limit=limit, where=condition)
    by, descending = sort
    return queries.ordered(connection, fields, by, descending=descending, limit=limit, where=condition)


def _show(connection: "Connection", found: "list[Row]", names: tuple[str, ...] | None, spark: bool, ascii: bool) -> int:
    from viewer.report import lines

    if not found:
        return 0
    if spark:
        table = lines.sparked(found, _gaps(connection, found), output.width() or output.PLAIN_WIDTH)
    else:
        table = lines.listing(found, output.width(), names)
    output.show_table(table, ascii=ascii)
    return len(found)


def _gaps(connection: "Connection", found: "list[Row]") -> Iterator[bytes | None]:
    """Read the packed gaps of these exchanges, some of them at a time."""
    from viewer.columns import column
    from viewer.tape import queries

    for start in range(0, len(found), _READ_AT_ONCE):
        ids = [row["id"] for row in found[start : start + _READ_AT_ONCE]]
        packed = dict(queries.packed_gaps(connection, column("id").in_(ids)))
        yield from map(packed.get, ids)


def _follow(
    connection: "Connection",
    fields: tuple[str, ...],
    where: "Filter | None",
    last: int,
    format: str,
    ascii: bool,
    names: tuple[str, ...] | None,
) -> None:
    from viewer.report import lines
    from viewer.tape import following

    width = output.width()
    recent: list[Row] | None = None
    with contextlib.suppress(KeyboardInterrupt), following.interrupts() as pause:

        def wait() -> None:
            output.raise_if_unread()
            pause()

        for batch in following.ended(connection, fields, selecting.condition(where), last=last, wait=wait):
            if format != "table":
                output.put(format, fields, batch, header=recent is None)
                recent = []
                continue
            # What was printed before is laid out again, so that the columns stay where they are.
            before = recent or []
            table = lines.listing([*before, *batch], width, names)
            if recent is None:
                output.tell_hidden(table.hidden)
            output.show(table.lines if recent is None else table.lines[1 + len(before) :], ascii=ascii)
            recent = [*before, *batch][-_LAID_OUT:]
    sys.exit(_SIGINT_EXIT)


COMMANDS: list[click.Command] = [ls]
"""The commands of this module, for the group."""
