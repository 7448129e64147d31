"""The command `rm`: deletes chosen exchanges.

Deleting by age or size is `db prune`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder.commands.options import db, deleting, tape_path
from wiretape.viewer.commands import options

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter


@click.command()
@options.exchange_ids()
@db
@options.filtered
@deleting
def rm(ids: tuple[str, ...], db: Path | None, filter: "Filter | None", dry_run: bool, yes: bool, vacuum: bool) -> None:
    """Delete exchanges by id or filter.

    ID is 4 or more characters of an exchange's id, @ (the newest), @-1, @err (a failed one), @stall or @slow; or s:KEY
    or @s, all exchanges of a session; - reads ids from stdin, one per line. With ids and a filter, an exchange must
    match both. On a terminal it asks first.
    """
    if not ids and filter is None:
        raise click.UsageError("nothing is selected: add an ID, or a filter such as -f until:30d")

    from wiretape.recorder.commands.db import delete
    from wiretape.recorder.tape import retention
    from wiretape.viewer.source.place import TapePlace

    path = tape_path(db)
    with TapePlace(path).opened() as source:
        chosen = [row["id"] for row in source.rows(("id",), options.selection(source, ids, filter))]
        if not chosen:
            options.report_nothing(source, filter, ids)
    delete(
        path,
        chosen,
        lambda connection: retention.erase(connection, chosen),
        by="wiretape rm",
        dry_run=dry_run,
        yes=yes,
        vacuum=vacuum,
    )
