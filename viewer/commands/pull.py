"""The command `pull`: chosen exchanges of a centre, or of another tape, as an ordinary tape."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder import private
from recorder.commands import db as tapes
from recorder.commands.options import TapeFile
from recorder.plurals import counted
from viewer.commands import completion, options, output
from viewer.commands.options import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recorder.commands.centre import Target
    from viewer.filters.syntax import Filter

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
def pull(ids: tuple[str, ...], db: Source | None, where: "Filter | None", limit: int | None, file: Path) -> None:
    """Copy exchanges of a centre, or of another tape, to a tape: those named, or those that fit a filter.

    ID is as in show: 4 or more characters of an exchange's id, @ (the newest), @-1 (the one before) or @err (failed);
    - reads them from stdin, one a line. The newest are copied first, so that --limit gives these. What is on the tape
    already is left out: a pull can be repeated, and go on with what is new.

    From a centre, an exchange comes with its body, of which its measures are derived again. One that was shipped
    without --bodies comes with its facts, measures and gaps, flagged bytes_not_shipped: ls, stats, check, compare and
    export give the figures that the centre gives; what needs bytes, such as play and serve, says that there are none.
    """
    source = options.source(db)
    with contextlib.ExitStack() as stack:
        if isinstance(source, Path):
            from recorder.tape import merge

            merge.refuse_itself(file, [source])
            numbers = _numbers(source, ids, where, limit)
            tape: Path | None = source
        else:
            numbers, tape = None, stack.enter_context(_pulled(source, ids, where, limit))
        if tape is not None and numbers != set():
            tapes.merged(file, [tape], _PURPOSE, numbers)


def _numbers(source: Path, ids: "Sequence[str]", where: "Filter | None", limit: int | None) -> set[int]:
    """Return the numbers of the exchanges of a tape that are to be copied; report if there are none."""
    from viewer.source.tape import queries

    with output.opened(source) as connection:
        condition = options.named(connection, ids, where)
        found = set(itertools.islice(queries.numbers(connection, condition, newest_first=True), limit))
        if not found and limit != 0:
            options.report_nothing(connection, where, ids)
    return found


@contextlib.contextmanager
def _pulled(
    target: "Target", ids: "Sequence[str]", where: "Filter | None", limit: int | None
) -> "Iterator[Path | None]":
    """Make a tape of exchanges of a centre, for as long as it is needed; None if there are none."""
    from recorder.tape import cut
    from viewer.commands.centre import connected_to
    from viewer.commands.progress import Bar
    from viewer.source.clickhouse import pulling, reading
    from viewer.source.tape import queries

    with connected_to(target) as centre, private.directory("wiretape-pull-", "what is pulled") as directory:
        with reading.opened(centre) as connection:
            condition = options.named(connection, ids, where)
            numbers = list(itertools.islice(queries.numbers(connection, condition, newest_first=True), limit))
            if not numbers and limit != 0:
                options.report_nothing(connection, where, ids)
        pulled, tape = pulling.Pulled(), directory / "pulled.db"
        if numbers:
            with Bar("pulling", lambda: len(numbers), "exchange") as bar:
                lines = pulling.lines(centre, bar.over(map(str, reversed(numbers))), pulled)
                cut.make_passing_tape(lines, tape, "what was pulled")
        if pulled.without_body:
            what = counted(len(pulled.without_body), "exchange")
            why = "shipped without --bodies, or their bodies are gone there (flag:bytes_not_shipped)"
            click.echo(f"wiretape: {what} with facts, measures and gaps only: {why}", err=True)
        yield tape if pulled.count else None
