"""The command `ls`: exchanges, one per line, and with --follow also new ones.

Lines are laid out by `report.tables`.
"""

import contextlib
import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

import click

from wiretape.recorder.latch import Latch, heeded
from wiretape.recorder.plurals import counted
from wiretape.viewer.commands import options, output
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from datetime import date

    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.record.rows import TableRow
    from wiretape.viewer.source.base import Place, Source

_READ_AT_ONCE = 200  # rows, so that memory does not grow with the tape


@click.command()
@options.db
@options.filtered
@options.limited
@options.sorted_by
@click.option("--by", type=click.Choice(["conversation"]), help="List conversations, with the totals of each.")
@click.option(
    "-F", "--follow", is_flag=True, help="Print exchanges as they end (on a server: arrive), until interrupted; first "
    "the last N, or 10.",
)  # fmt: skip
@click.option("--spark", is_flag=True, help="Draw each exchange's gaps, all on one axis of time and one scale.")
@click.option("--ascii", is_flag=True, envvar="WIRETAPE_ASCII", help="Draw with ASCII only, as without UTF-8.")
@click.option("-e", "--exit-code", is_flag=True, help="Exit 3 if nothing matches.")
@output.formatted((*output.FORMATS, "ids"), columns=True)
def ls(
    db: "Place | None",
    filter: "Filter | None",
    limit: int | None,
    sort: tuple[str, bool] | None,
    by: str | None,
    follow: bool,
    spark: bool,
    ascii: bool,
    exit_code: bool,
    out: Output,
) -> None:
    """List exchanges, the newest first, or conversations."""

    if by is not None and (follow or sort or spark or out.chosen == "ids"):
        raise click.UsageError("--by goes by the newest exchange: without --sort, --follow, --spark and --format ids")
    if out.columns is not None and (spark or out.chosen == "ids"):
        raise click.UsageError(f"{'--spark' if spark else '--format ids'} has columns of its own: leave out --columns")
    if follow and (sort or spark or exit_code or out.chosen in ("csv", "json")):
        raise click.UsageError("--follow goes by the order of ending, as --format table, tsv, jsonl or ids")
    if spark and out.format not in (None, "table"):
        raise click.UsageError("--spark draws: it goes with --format table only")
    place = options.place(db)
    if by is not None:
        count = _conversations(place, filter, limit, out, ascii)
    else:
        from wiretape.viewer.source.base import Selection

        names = _columns(out, place)
        with output.opened(place) as source:
            fields = _fields(out, spark, names)
            if follow:
                _follow(source, fields, filter, 10 if limit is None else limit, out, ascii, names)
            rows = source.rows(fields, Selection(filter), order=sort, newest_first=True, limit=limit)
            if spark or out.is_table:
                count = _show(source, list(rows), names, spark, ascii)
            else:
                count = _put(source, rows, names, out)
            if not count and limit != 0:
                options.report_nothing(source, filter)
    if exit_code and not count:
        raise click.exceptions.Exit(3)  # 1 and 2 are errors


def _conversations(place: "Place", filter: "Filter | None", limit: int | None, out: Output, ascii: bool) -> int:
    from wiretape.recorder.clock import SYSTEM
    from wiretape.viewer import config
    from wiretape.viewer.export import fields
    from wiretape.viewer.record.fields import CONVERSATION_FIELDS
    from wiretape.viewer.record.rows import only
    from wiretape.viewer.report import tables
    from wiretape.viewer.source.base import Selection

    place.require("conversations", "--by conversation")
    names, selection = None, Selection(filter)
    if out.columns is not None:
        choosable = fields.conversations() | (tables.OF_SESSIONS if out.is_table else {})
        names = out.with_headings(tables.NAMED).fields(choosable)
    with output.opened(place) as source:
        sessions_found = source.sessions(selection, config.thresholds(), SYSTEM, limit)
        if not sessions_found and limit != 0:
            options.report_nothing(source, filter)
        left_out = source.without_session(selection)
    if not out.is_table:
        names = names or CONVERSATION_FIELDS
        out.put(names, only(sessions_found, names))
    elif sessions_found:
        output.show_table(tables.conversations(sessions_found, output.width(), names, _today()), ascii=ascii)
    if left_out:
        click.echo(f"wiretape: {counted(left_out, 'exchange')} of no conversation left out", err=True)
    return len(sessions_found)


def _columns(out: Output, place: "Place") -> tuple[str, ...] | None:
    if out.columns is None:
        return None
    from wiretape.viewer.export import fields
    from wiretape.viewer.record.fields import SHIPPED
    from wiretape.viewer.report import tables

    is_part = out.columns == "all" and not place.supports("bodies")
    choosable = fields.meanings((*SHIPPED, "sparkline") if is_part else tables.COLUMNS) | tables.IN_WORDS
    if not out.is_table:
        del choosable["mark"]  # programs have its parts, `outcome` and `id`
    return out.with_headings(tables.NAMED).fields(choosable)


def _today() -> "date":
    from wiretape.viewer.query.parser import now

    return now().astimezone().date()


def _fields(out: Output, spark: bool, names: tuple[str, ...] | None) -> tuple[str, ...]:
    from wiretape.viewer.report import tables

    if spark:
        return tables.SPARKED
    if out.chosen == "ids":
        return ("id",)
    return tables.needed(names or (tables.LISTED if out.is_table else tables.PIPED))


def _show(source: "Source", rows: "list[TableRow]", names: tuple[str, ...] | None, spark: bool, ascii: bool) -> int:
    from wiretape.viewer.report import tables

    if not rows:
        return 0
    if spark:
        table = tables.sparked(rows, _gaps(source, rows), output.width() or output.PLAIN_WIDTH)
    else:
        _judge(source, rows, names or tables.LISTED)
        table = tables.listing(rows, output.width(), names, _today())
    output.show_table(table, ascii=ascii)
    return len(rows)


def _put(
    source: "Source", rows: "Iterator[TableRow]", names: tuple[str, ...] | None, out: Output, *, header: bool = True
) -> int:
    """Write exchanges for programs, with the words for what happened where that is a column; return their count."""
    from wiretape.viewer.report import tables

    names = ("id",) if out.chosen == "ids" else names or tables.PIPED
    return out.put(names, _in_words(source, rows, names) if "happened" in names else rows, header=header)


def _in_words(source: "Source", rows: "Iterator[TableRow]", names: tuple[str, ...]) -> "Iterator[TableRow]":
    from wiretape.viewer.report import tables

    while batch := list(itertools.islice(rows, _READ_AT_ONCE)):
        _judge(source, batch, names)
        for row in batch:
            row["happened"] = tables.happened(row)
            yield {name: row[name] for name in names}


def _judge(source: "Source", rows: "list[TableRow]", names: tuple[str, ...]) -> None:
    """Add the words for their stalls to the newest of the rows that have one."""
    from wiretape.viewer.source.base import JUDGED
    from wiretape.viewer.timing import wording

    if not source.judges or "happened" not in names:
        return
    stalled = [row for row in rows if row["outcome"] == "complete" and "stall" in row["flags"]][:JUDGED]
    numbers = [source.find(row["id"]) for row in stalled]
    stalls = source.stalls(numbers)
    for number, row in zip(numbers, stalled, strict=True):
        if number in stalls:
            row["stalled"] = wording.lasted(stalls[number])


def _gaps(source: "Source", rows: "list[TableRow]") -> Iterator[bytes | None]:
    """Read the packed gaps of these exchanges, some of them at a time."""
    for start in range(0, len(rows), _READ_AT_ONCE):
        ids = [row["id"] for row in rows[start : start + _READ_AT_ONCE]]
        yield from map(source.gaps(ids).get, ids)


@contextlib.contextmanager
def _interrupts(seconds: float) -> Iterator[Callable[[], None]]:
    """Yield a function that waits for the next poll, and raises `KeyboardInterrupt` for an interrupt until then.

    By itself Python raises it wherever it happens to be; within a callback of a library it would be lost.
    """
    interrupted = Latch()

    def pause() -> None:
        if interrupted.wait(seconds):
            raise KeyboardInterrupt

    handlers = {number: signal.signal(number, lambda *_: interrupted.set()) for number in heeded(signal.SIGINT)}
    try:
        yield pause
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _follow(
    source: "Source",
    fields: tuple[str, ...],
    filter: "Filter | None",
    count: int,
    out: Output,
    ascii: bool,
    names: tuple[str, ...] | None,
) -> NoReturn:
    from wiretape.viewer.report import tables
    from wiretape.viewer.source.base import Selection

    recent: list[TableRow] | None = None
    with contextlib.suppress(KeyboardInterrupt), _interrupts(source.poll_s) as pause:

        def wait() -> None:
            output.raise_if_unread()  # where nothing new matches, no write would tell that the reader has left
            pause()

        for batch in source.follow(fields, Selection(filter), last=count, wait=wait):
            if not out.is_table:
                _put(source, iter(batch), names, out, header=recent is None)
                recent = []
                continue
            # Lay out the printed rows again, so that the columns keep their widths.
            printed = recent or []
            _judge(source, batch, names or tables.LISTED)
            table = tables.listing([*printed, *batch], output.width(), names, _today())
            if recent is None:
                output.tell_hidden(table.hidden)
            output.show(table.lines if recent is None else table.lines[1 + len(printed) :], ascii=ascii)
            recent = [*printed, *batch][-50:]  # each batch lays them out again: not ever more of them
    sys.exit(128 + 2)  # as a shell reports SIGINT
