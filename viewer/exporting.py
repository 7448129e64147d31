"""The command `export`: the tape as a table for machines; `viewer.cli` adds it to the group.

Only click is imported at the top: `--help` must not wait for a database library. The formats are `export`'s.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder import options
from viewer import output as writing
from viewer import selecting

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from viewer.filter_syntax import Filter
    from viewer.rows import Row

_SUFFIXES = {".tsv": "tsv", ".jsonl": "jsonl", ".json": "json"}


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
    help="Write to FILE; - is stdout. Its suffix .tsv, .jsonl or .json gives the format. [default: -]",
)
@writing.formatted
@writing.quiet
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
            writing.put(format or "csv", fields, _source(connection, table, fields, where, limit), raw_csv)
        return
    chosen = format or _SUFFIXES.get(output.suffix.lower(), "csv")
    with queries.opened(options.tape_path(db)) as connection, replacing(output) as file:
        count = writing.put(chosen, fields, _source(connection, table, fields, where, limit), raw_csv, file)
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


COMMANDS: list[click.Command] = [export]
"""The commands of this module, for the group."""
