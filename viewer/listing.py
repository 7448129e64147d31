"""The command `ls`: exchanges, one a line, and those that end while it looks on; `viewer.cli` adds it to the group.

Only click is imported at the top: `--help` must not wait for a database library. What a line looks like is `report`'s.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder import options
from viewer import output, selecting

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.filter_syntax import Filter
    from viewer.filters import Condition
    from viewer.rows import Row

_SIGINT_EXIT = 128 + 2
_FIRST_FOLLOWED = 10
_LAID_OUT = 50


@click.command()
@options.db
@selecting.filtered
@selecting.limited
@selecting.sorted_by
@click.option(
    "-F", "--follow", is_flag=True, help="Print exchanges as they end, until interrupted; first the last N, or 10."
)
@output.formatted
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

    format = output.chosen(format)
    if follow and (sort or format in ("csv", "json")):
        raise click.UsageError("--follow goes by the order of ending, as --format table, tsv or jsonl")
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
            output.put(format, fields, found, raw_csv)


def _follow(
    connection: "Connection", fields: tuple[str, ...], where: "Condition | None", last: int, format: str
) -> None:
    from viewer import following, report

    width = output.width()
    recent: list[Row] | None = None
    try:
        for batch in following.ended(connection, fields, where, last=last):
            if format != "table":
                output.put(format, fields, batch, header=recent is None)
                recent = []
                continue
            # What was printed before is laid out again, so that the columns stay where they are.
            before = recent or []
            lines = list(report.listing([*before, *batch], width))
            output.show(lines if recent is None else lines[1 + len(before) :])
            recent = [*before, *batch][-_LAID_OUT:]
    except KeyboardInterrupt:
        sys.exit(_SIGINT_EXIT)


COMMANDS: list[click.Command] = [ls]
"""The commands of this module, for the group."""
