"""The commands `ship` and `fleet`: many recorders, one centre."""

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from recorder.commands import archive, destination, otlp
from recorder.commands import centre as centres
from recorder.commands.options import ca_file, db, read_age, read_labels, tape_path
from viewer import formatting
from viewer.commands import output
from viewer.commands.centre import connected_to
from viewer.commands.output import Output
from viewer.commands.shipped import shipping

if TYPE_CHECKING:
    from datetime import timedelta

    from recorder.commands.status import Screen
    from viewer.ship.clickhouse.sink import Report, Shipper
    from viewer.ship.ending import End

F = TypeVar("F", bound=Callable[..., Any])

SHIP_PASSWORD, READ_PASSWORD = "WIRETAPE_FLEET_SHIP_PASSWORD", "WIRETAPE_FLEET_READ_PASSWORD"
_LEAST_PASSWORD: Final = 12
_MOST_PLANNED: Final = 10**15
_IMPORTANT: Final = ("name", "tenant", "waiting", "lag_ms", "silent_ms", "rows", "bytes")
"""What `fleet status` shows of a host also on a narrow terminal."""


_to = click.option("--to", "target", required=True, metavar="URL", envvar="WIRETAPE_FLEET", callback=centres.read,
                   help="The centre: clickhouse://HOST/DATABASE; see wiretape help shipping.")  # fmt: skip


def connected(command: F) -> F:
    """Add the options of a command that connects to a centre."""
    return _to(ca_file(command))


def _read_destination(
    context: click.Context, option: click.Parameter, url: str
) -> destination.Destination | otlp.Collector | None:
    """Read where a tape is shipped to: a centre, an archive, or a collector of OpenTelemetry."""
    if url.startswith(otlp.SCHEME):
        return otlp.read_collector(url.removeprefix(otlp.SCHEME), "--to")
    return destination.read(context, option, url)


@click.command()
@db
@click.option("--to", "target", required=True, metavar="URL", envvar="WIRETAPE_FLEET", callback=_read_destination,
              help="A centre: clickhouse://HOST/DATABASE; a collector: otlp+http://HOST:PORT; "
              f"or an archive: {archive.FORM}.")  # fmt: skip
@ca_file
@click.option("--otlp-headers", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Send these headers to a collector: NAME: VALUE, a line each. "
              "[default: OTEL_EXPORTER_OTLP_HEADERS]")  # fmt: skip
@click.option("--bodies", is_flag=True, help="Ship what was said, too: requests, answers, and their reads.")
@click.option("--label", "labels", multiple=True, metavar="K=V",
              help="Label all that is shipped; tenant=NAME keeps tenants apart. May be repeated.")  # fmt: skip
@click.option("--once", is_flag=True, help="End when all is there, instead of following the tape.")
@click.option("--beside", is_flag=True, hidden=True, help="End with the recorder, which holds standard input.")
@click.option("--since-version", type=int, default=0, hidden=True,
              help="To a collector that has taken nothing yet, send what is settled after this.")  # fmt: skip
def ship(
    db: Path | None,
    target: destination.Destination | otlp.Collector,
    ca_file: Path | None,
    otlp_headers: Path | None,
    bodies: bool,
    labels: tuple[str, ...],
    once: bool,
    beside: bool,
    since_version: int,
) -> None:
    """Ship a tape, also while it is recorded, until interrupted: to a ClickHouse centre, to an archive of Parquet
    files, or its spans and metrics to a collector of OpenTelemetry.

    It only reads the tape, which is the buffer: while the centre is away, all waits there. What it has acknowledged is
    kept in a small file beside the tape; without it, all is shipped again, and still counted once.

    The user is in the URL or WIRETAPE_FLEET_USER, the password in WIRETAPE_FLEET_PASSWORD or the file that
    WIRETAPE_FLEET_PASSWORD_FILE names. Other machines are reached by TLS unless the URL has ?tls=no. See "wiretape help
    shipping" for a centre, "wiretape help archive" for an archive, and "wiretape help otlp" for a collector.
    """
    from recorder.tape.redact import Redactor

    labelled = Redactor(None).labels(read_labels(labels))
    if isinstance(target, centres.Target):
        _ship_rows(tape_path(db), target, ca_file, labelled, bodies=bodies, once=once, beside=beside)
        return
    if isinstance(target, archive.Archive):
        from viewer.commands import archive as archiving

        archiving.send(tape_path(db), target, labelled, bodies=bodies, once=once, beside=beside)
        return
    if bodies:
        raise click.UsageError("--bodies is for a centre or an archive: no text is sent to a collector")
    from viewer.commands import otlp as sending

    collector = dataclasses.replace(target, headers_file=otlp_headers)
    sending.send(tape_path(db), collector, ca_file, labelled, once=once, beside=beside, since=since_version)


def _ship_rows(
    path: Path,
    target: centres.Target,
    ca_file: Path | None,
    labels: Mapping[str, str],
    *,
    bodies: bool,
    once: bool,
    beside: bool,
) -> None:
    """Ship a tape to a centre."""
    import socket

    from recorder.tape import file
    from viewer.ship.clickhouse.batches import Origin
    from viewer.ship.clickhouse.sink import Shipper

    file.identify(path)  # before anything is made beside it
    with connected_to(target, ca_file) as centre, shipping(path, target.name, beside=beside) as ours:
        origin, end = Origin(socket.gethostname(), labels), ours.end
        shipper = Shipper(centre, ours.known, origin, bodies, wait=end.wait, is_over=end.is_over, warn=ours.warn)
        if beside:
            _ship_beside(path, shipper, end)
            return
        shipper.tell = lambda report: _tell(ours.screen, report, target)
        with file.reading(path) as connection:
            try:
                shipper.run(connection, once=once)
            finally:
                waiting = None if shipper.last is None else shipper.last.waiting
                ours.conclude(shipper.shipped, target.name, shipper.said if bodies else None, waiting)


def _ship_beside(tape: Path, shipper: "Shipper", end: "End") -> None:
    """Ship until the recorder asks to leave the tape, so that its writer is the last to close it; then what is left."""
    from recorder.commands.leaving import LAST_SECONDS
    from recorder.tape import file
    from viewer.source.clickhouse.client import Unavailable

    with suppress(Unavailable), file.reading(tape) as connection:  # it is asked once more at the end
        shipper.run(connection)
    end.leave()
    shipper.last_seconds = LAST_SECONDS
    with file.reading(tape) as connection:
        shipper.run(connection, once=True)


def _tell(screen: "Screen", report: "Report", target: centres.Target) -> None:
    lag = "" if report.lag_ns is None else f" · lag {report.lag_ns / 1e9:,.1f} s"
    screen.status(f"{report.shipped:,} shipped to {target.name} · {report.waiting:,} waiting{lag}")


@click.group()
def fleet() -> None:
    """Look after the centre that recorders ship to."""


@fleet.command()
@connected
@click.option("--cluster", metavar="NAME", help="Spread the tables over the shards and replicas of this cluster.")
@click.option("--print", "is_printed", is_flag=True, help="Only print the statements; nothing is connected to.")
@click.option("--accounts", is_flag=True,
              help="Make two accounts, too: wiretape_ship and wiretape_read.")  # fmt: skip
def init(target: centres.Target, ca_file: Path | None, cluster: str | None, is_printed: bool, accounts: bool) -> None:
    """Make the tables of a centre, or add the columns that an older version did not have.

    Nothing is dropped, and no column is changed. In ClickHouse Cloud leave out --cluster: it replicates by itself.

    With --accounts, wiretape_ship may insert and do nothing else, and wiretape_read may read all but the table streams,
    which has what was said and is what pull copies. Their passwords are in WIRETAPE_FLEET_SHIP_PASSWORD and
    WIRETAPE_FLEET_READ_PASSWORD, and are sent as hashes. Who makes accounts needs access_management. For a server
    before 20.5, which takes accounts from files only, the file is printed.
    """
    from viewer.ship.clickhouse import setup
    from viewer.source.clickhouse import ddl, tables

    if cluster is not None:
        try:
            centres.identifier(cluster)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--cluster") from error
    if is_printed:
        _print(target, cluster, accounts)
        return
    passwords = {}
    if accounts:
        passwords = {ddl.SHIPPER: _password(SHIP_PASSWORD), ddl.ANALYST: _password(READ_PASSWORD)}
    with connected_to(target, ca_file) as centre:
        setup.prepare(centre, tables.TABLES, cluster, lambda line: click.echo(line))
        if accounts:
            setup.make_accounts(centre, tables.TABLES, cluster, passwords, lambda line: click.echo(line))


def _print(target: centres.Target, cluster: str | None, accounts: bool) -> None:
    from viewer.ship.clickhouse import setup
    from viewer.source.clickhouse import ddl, tables

    for statement in setup.statements(target.database, tables.TABLES, cluster):
        click.echo(f"{statement};")
    if accounts:
        hashes = {account: "SHA-256 of the password, in hex" for account in (ddl.SHIPPER, ddl.ANALYST)}
        for statement in ddl.accounts(target.database, hashes, tables.TABLES, cluster):
            click.echo(f"{statement};")


def _password(name: str) -> str:
    password = os.environ.get(name, "")
    if len(password) < _LEAST_PASSWORD:
        raise click.UsageError(f"set {name} to a password of {_LEAST_PASSWORD} or more characters")
    return password


@fleet.command()
@connected
@click.option("--since", type=read_age, default="2d", show_default=True, metavar="AGE",
              help="Count what began in this time: 12h, 30d, 8w.")  # fmt: skip
def hours(target: centres.Target, ca_file: Path | None, since: "timedelta") -> None:
    """Count the exchanges of each hour, by host, upstream, model, operation and API, in the table hours.

    Run it now and then: what is counted again replaces what was counted before. It takes an account that may read the
    table exchanges and insert into hours, which neither of those of fleet init may.
    """
    from recorder.clock import SYSTEM
    from viewer.ship.clickhouse import hours

    with connected_to(target, ca_file) as centre:
        first = hours.count(centre, int(since.total_seconds()), SYSTEM)
    click.echo(f"counted what began from {first} on")


@fleet.command()
@connected
@output.formatted()
def status(target: centres.Target, ca_file: Path | None, out: Output) -> None:
    """Show how far each host is shipped, and what the tables take."""
    from viewer.ship.clickhouse import status

    with connected_to(target, ca_file) as centre:
        found = [dataclasses.asdict(row) for row in status.rows(centre, _note)]
    if not out.is_table:
        out.put(status.FIELDS, found)
        return
    for kind in ("host", "table"):
        its = [row for row in found if row["kind"] == kind]
        shown = [name for name in status.FIELDS if any(row[name] not in (None, "") for row in its) and name != "kind"]
        if its:
            out.put_rounded(
                shown, [{name: _cell(name, row[name]) for name in shown} for row in its], important=_IMPORTANT
            )
    if not found:
        click.echo(f"{target.name} holds nothing yet: ship a tape with 'wiretape ship --to …'", file=sys.stderr)


def _cell(name: str, value: str | int | None) -> str | int | None:
    return formatting.moment(value) if name.endswith("_at") and isinstance(value, str) else value


def _note(line: str) -> None:
    click.echo(f"wiretape: {line}", err=True)


def _finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not value <= _MOST_PLANNED:  # nan is within any limits
        raise click.BadParameter(f"{value:g} is not a number up to {_MOST_PLANNED:g}")
    return value


def _inputs(command: F) -> F:
    """Add an option for each input of a plan."""
    from viewer.ship.clickhouse.plan import Inputs

    for one in reversed(dataclasses.fields(Inputs)):
        is_required = one.default is dataclasses.MISSING
        given: dict[str, Any] = {} if is_required else {"default": one.default}
        about = one.metadata["doc"]
        limits = click.IntRange if one.type is int else click.FloatRange
        command = click.option(
            f"--{one.name.replace('_', '-')}",
            one.name,
            type=limits(one.metadata["least"]),
            required=is_required,
            show_default="unknown" if one.default is None else not is_required,
            metavar="N",
            callback=_finite,
            help=f"{about[0].upper()}{about[1:]}.",
            **given,
        )(command)
    return command


@fleet.command()
@_inputs
@output.formatted()
def plan(out: Output, **inputs: Any) -> None:
    """Work out on paper what a centre takes: rows, bytes, shards, memory for exact percentiles, and cost.

    Every result is shown with its formula, and every input with its meaning; nothing is connected to. Sizes and speeds
    were measured with other exchanges than yours: "wiretape fleet status" shows what yours take.
    """
    from viewer.report import tables
    from viewer.ship.clickhouse import plan

    rows = list(plan.rows(plan.Inputs(**inputs)))
    if not out.is_table:
        out.put(plan.FIELDS, rows)
        return
    cells = [(row["name"], _shown(row["value"]), row["unit"].removeprefix("1")) for row in rows]
    names, values, units = (max(map(len, column)) for column in zip(*cells, strict=True))
    for row, (name, value, unit) in zip(rows, cells, strict=True):
        label = f"{name:<{names}}  {value:>{values}} {unit:<{units}}  "
        output.show(tables.paragraph(label, row["origin"], output.width()))
    output.show(tables.paragraph("", plan.NOTE, output.width()))


def _shown(value: float | None) -> str:
    from viewer.report import tables

    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return tables.number(value)
