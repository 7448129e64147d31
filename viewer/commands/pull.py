"""The command `pull`: chosen exchanges of a centre, or of another tape, as an ordinary tape."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder import private
from wiretape.recorder.commands import db as tapes
from wiretape.recorder.commands.options import TapeFile
from wiretape.recorder.plurals import counted
from wiretape.viewer.commands import completion, options, output
from wiretape.viewer.commands.progress import ProgressBar

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.source.base import Place

_PURPOSE = "wiretape pull"


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.ids)
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
    help="The tape to copy to; it is made if need be.",
)
def pull(ids: tuple[str, ...], db: "Place | None", where: "Filter | None", limit: int | None, file: Path) -> None:
    """Copy exchanges of a centre, or of another tape, to a tape: those named, or those that fit a filter.

    ID is as in show: 4 or more characters of an exchange's id, @ (the newest), @-1 (the one before) or @err (failed);
    - reads them from stdin, one a line. The newest are copied first, so that --limit gives these. What is on the tape
    already is left out: a pull can be repeated, and go on with what is new.

    From a centre, an exchange comes with its body, of which its measures are derived again. One that was shipped
    without --bodies comes with its facts, measures and gaps, flagged bytes_not_shipped: ls, stats, check, compare and
    export give the figures that the centre gives; what needs bytes, such as play and serve, says that there are none.
    """
    place = options.place(db)
    if place.file is not None:
        from wiretape.recorder.tape import merge

        merge.refuse_itself(file, [place.file])
    with output.opened(place) as source:
        numbers = source.numbers(options.named(source, ids, where), limit)
        if not numbers and limit != 0:
            options.report_nothing(source, where, ids)
    if not numbers:
        return
    with private.directory("wiretape-pull-", "what is pulled") as directory:
        with ProgressBar("pulling", lambda: len(numbers), "exchange") as bar:
            copied = place.copied(numbers, directory, bar.over)
        if copied.without_body:
            what = counted(copied.without_body, "exchange")
            why = "shipped without --bodies, or their bodies are gone there (flag:bytes_not_shipped)"
            click.echo(f"wiretape: {what} with facts, measures and gaps only: {why}", err=True)
        if copied.numbers != set():
            tapes.merged(file, [copied.tape], _PURPOSE, copied.numbers)
