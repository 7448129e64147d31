"""The command `show`: one exchange, as a page or in its parts; `viewer.cli` adds it to the group.

Only click is imported at the top: `--help` must not wait for a database library. What a page looks like is `pages`'s.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.commands import options
from recorder.decode.stalls import Thresholds
from viewer.commands import completing, output
from viewer.timing import thresholds as limiting

if TYPE_CHECKING:
    from sqlalchemy import Connection

_PARTS = click.Choice(["summary", "text", "timing", "events", "reads", "request", "raw"])


@click.command()
@click.argument("id", shell_complete=completing.ids)
@options.db
@click.option("--part", type=_PARTS, default="summary", show_default=True, help="What to show of it.")
@click.option("--force", is_flag=True, help="Write raw bytes even to a terminal.")
@limiting.options
@output.formatted_page
def show(
    id: str, db: Path | None, part: str, force: bool, thresholds: Thresholds, format: str | None, raw_csv: bool
) -> None:
    """Show one exchange: ID is 4 or more characters of its id, @ (the newest), @-1 (the one before) or @err (failed).

    On a pipe, the parts text, request and raw are the content, the request body and the response body, byte for byte;
    without any content, standard error says why. A terminal gets raw text without its control characters, and the
    beginning of anything else as hex.
    """
    from viewer.tape import queries

    if part == "raw" and format is not None:
        raise click.UsageError("--part raw is the body as it came: it has no --format")
    if part not in _JUDGED and (given := limiting.given()):
        raise click.UsageError(f"--part {part} is not judged: leave out {', '.join(given)}")
    with queries.opened(options.tape_path(db)) as connection:
        no = queries.find(connection, id)
        if part == "raw" and output.on_terminal() and not force:
            _show_readable(connection, no)
        elif part in _JUDGED:
            _JUDGED[part](connection, no, thresholds, format, raw_csv)
        else:
            _SHOWN[part](connection, no, format, raw_csv)


def _show_summary(connection: "Connection", no: int, limits: Thresholds, format: str | None, raw_csv: bool) -> None:
    from viewer.report import exchange
    from viewer.tape import queries
    from viewer.timing.timed import Timed
    from viewer.timing.verdicts import verdicts

    row = queries.detail(connection, no)
    asked, answered = queries.headers(connection, no)
    if format is None or format == "table":
        found = verdicts(Timed(*queries.observed(connection, no)), row["outcome"], limits)
        output.show(exchange.page(row, found, answered, output.width()))
        output.show(exchange.headers("response headers", answered))
        if not output.on_terminal():
            output.show(exchange.headers("request headers", asked))
    else:
        del row["sparkline"], row["dialect"]
        output.put_one(format, row | {"request_headers": asked, "response_headers": answered}, raw_csv)


def _show_timing(connection: "Connection", no: int, limits: Thresholds, format: str | None, raw_csv: bool) -> None:
    from viewer.report import exchange
    from viewer.tape import queries
    from viewer.timing import verdicts as judging
    from viewer.timing.timed import Timed

    timed = Timed(*queries.observed(connection, no))
    found = judging.verdicts(timed, queries.detail(connection, no)["outcome"], limits)
    if output.chosen(format) == "table":
        output.show(exchange.timing(timed.slowness(), found, limits, output.width()))
    else:
        output.put(output.chosen(format), judging.FIELDS, map(judging.row, found), raw_csv)


def _show_text(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import rows
    from viewer.model import facts
    from viewer.report import exchange
    from viewer.tape import queries

    row = queries.detail(connection, no)
    if format is None and not output.on_terminal():
        if row["content"] is None:
            click.echo(f"wiretape: there is no text: {facts.no_text(row, exchange.HINT)}", err=True)
        _write_bytes((row["content"] or "").encode())
    elif format is None or format == "table":
        if all(row[field] is None for field in rows.TEXT_FIELDS):
            click.echo(f"wiretape: there is no text: {facts.no_text(row, exchange.HINT)}", err=True)
        output.show(exchange.answer(row))
    else:
        output.put_one(format, {field: row[field] for field in ("id", *rows.TEXT_FIELDS)}, raw_csv)


def _show_events(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from rich.text import Text

    from viewer import rows
    from viewer.model.exchange import events
    from viewer.model.exchange.clocks import Times
    from viewer.model.exchange.transcript import Transcript
    from viewer.tape import queries

    decoded = queries.decoded(connection, no)
    transcript = Transcript(decoded)
    if output.chosen(format) == "table":
        room = output.width()
        output.show(Text(line if room is None else _cut(line, room)) for line in events.lines(transcript, Times()))
    else:
        found = events.table(transcript, decoded.items)
        output.put(output.chosen(format), rows.EVENT_FIELDS, found, raw_csv)
    if not len(transcript):
        _say_nothing(connection, no, "events")


def _cut(line: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}…"


def _show_reads(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer import rows
    from viewer.tape import queries

    if not output.put(output.chosen(format), rows.READ_FIELDS, queries.reads(connection, no), raw_csv):
        _say_nothing(connection, no, "reads")


def _say_nothing(connection: "Connection", no: int, things: str) -> None:
    """Report on standard error that an exchange has no events or reads, and why."""
    from viewer.model import facts
    from viewer.report import exchange
    from viewer.tape import queries

    reason = facts.no_body(queries.detail(connection, no), exchange.HINT)
    click.echo(f"wiretape: there are no {things}: {reason}", err=True)


def _show_request(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer.model.exchange import pages
    from viewer.report import exchange
    from viewer.tape import exchange as tape
    from viewer.tape import queries

    if format is None and not output.on_terminal():
        _write_bytes(queries.request(connection, no)[1] or b"")
    elif format is None or format == "table":
        output.show(exchange.drawn(pages.request(tape.known(connection, no))))
    else:
        output.put_one(format, queries.request(connection, no)[0], raw_csv)


def _show_raw(connection: "Connection", no: int, format: str | None, raw_csv: bool) -> None:
    from viewer.tape import queries

    _write_bytes(queries.body(connection, no))


def _show_readable(connection: "Connection", no: int) -> None:
    """Show the body on a terminal: text without control characters, the beginning of anything else as hex."""
    from viewer.report import exchange
    from viewer.tape import queries

    body, decoded = queries.body(connection, no), queries.decoded(connection, no)
    if decoded.data != body:
        click.echo("wiretape: the body came compressed and is shown decoded; a pipe gets it as it came", err=True)
    output.show(exchange.body(decoded.data))


_JUDGED = {"summary": _show_summary, "timing": _show_timing}
_SHOWN = {
    "text": _show_text,
    "events": _show_events,
    "reads": _show_reads,
    "request": _show_request,
    "raw": _show_raw,
}


def _write_bytes(data: bytes) -> None:
    with output.stdout() as out:
        out.write(data)


COMMANDS: list[click.Command] = [show]
"""The commands of this module, for the group."""
