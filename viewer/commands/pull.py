"""The command `pull`: chosen exchanges of a server, or of another tape, as an ordinary tape."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder import private
from wiretape.recorder.commands import db as tapes
from wiretape.recorder.commands.options import TapeFile
from wiretape.recorder.plurals import counted
from wiretape.viewer.commands import options, output
from wiretape.viewer.commands.progress import ProgressBar

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.source.base import Place


@click.command()
@options.exchange_ids()
@options.db
@options.filtered
@options.limited
@click.option(
    "-o",
    "--output",
    "file",
    type=TapeFile(path_type=Path, dir_okay=False),
    metavar="TAPE",
    required=True,
    help="The tape to copy to; it is created if it does not exist.",
)
def pull(ids: tuple[str, ...], db: "Place | None", filter: "Filter | None", limit: int | None, file: Path) -> None:
    """Copy exchanges from ClickHouse, or another tape, to a tape.

    ID is 4 or more characters of an exchange's id, @ (the newest), @-1, @err (a failed one), @stall or @slow; or s:KEY
    or @s, all exchanges of a session; - reads ids from stdin, one per line. The newest are copied first, so that
    --limit selects them. Exchanges that are on the tape already are left out: a repeated pull adds only new ones.

    From a server, an exchange comes with its body, and its measures are derived from that. One that was shipped
    without --bodies comes with its facts, measures and gaps, flagged bytes_not_shipped: ls, stats, check, compare and
    export show the same figures as for the server; commands that need bytes, such as play and serve, report an error.
    """
    place = options.place(db)
    if place.file is not None:
        from wiretape.recorder.tape import merge

        merge.refuse_itself(file, [place.file])
    with output.opened(place) as source:
        numbers = source.numbers(options.selection(source, ids, filter), limit)
        if not numbers and limit != 0:
            options.report_nothing(source, filter, ids)
    if not numbers:
        return
    with private.directory("wiretape-pull-", "pulled exchanges") as directory:
        with ProgressBar("pulling", lambda: len(numbers), "exchange") as bar:
            copied = place.copied(numbers, directory, bar.over)
        if copied.without_body:
            label = counted(copied.without_body, "exchange")
            reason = "shipped without --bodies, or their bodies are gone there (flag:bytes_not_shipped)"
            click.echo(f"wiretape: {label} with facts, measures and gaps only: {reason}", err=True)
        if copied.numbers != set():
            tapes.merged(file, [copied.tape], "wiretape pull", copied.numbers)
