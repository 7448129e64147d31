"""The command `fleet`: many recorders, one ClickHouse server."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from wiretape.recorder.commands.cli import CommandGroup
from wiretape.recorder.commands.options import ca_file, read_age
from wiretape.recorder.local_time import moment
from wiretape.recorder.tape.redact import message
from wiretape.viewer.commands import output
from wiretape.viewer.commands.output import Output
from wiretape.viewer.wings.clickhouse import address
from wiretape.viewer.wings.clickhouse.address import Target
from wiretape.viewer.wings.clickhouse.opening import connected as connected_to

if TYPE_CHECKING:
    from datetime import timedelta


F = TypeVar("F", bound=Callable[..., Any])

SHIP_PASSWORD, READ_PASSWORD = "WIRETAPE_FLEET_SHIP_PASSWORD", "WIRETAPE_FLEET_READ_PASSWORD"
_LEAST_PASSWORD: Final = 12


def read_centre(_: click.Context, __: click.Parameter, url: str) -> Target:
    """Parse a server's URL. Raises `click.BadParameter`, and `WiretapeError` if its client is not installed."""
    try:
        target = address.parse(url)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    target.check()
    return target


_to = click.option("--to", "target", required=True, metavar="URL", envvar="WIRETAPE_FLEET", callback=read_centre,
                   help="The server: clickhouse://HOST/DATABASE, or chdb:DIR; see wiretape help shipping.")  # fmt: skip


def connected(command: F) -> F:
    """Add the options of a command that connects to a server."""
    return _to(ca_file(command))


@click.group(cls=CommandGroup)
def fleet() -> None:
    """Manage the ClickHouse server that recorders ship to."""


@fleet.command()
@connected
@click.option("--cluster", metavar="NAME", help="Spread the tables over the shards and replicas of this cluster.")
@click.option("--print", "is_printed", is_flag=True, help="Only print the statements, without a connection.")
@click.option("--accounts", is_flag=True,
              help="Create two accounts, too: wiretape_ship and wiretape_read.")  # fmt: skip
def init(target: Target, ca_file: Path | None, cluster: str | None, is_printed: bool, accounts: bool) -> None:
    """Create the tables of a server, or add new columns to them.

    Nothing is dropped, and no column is changed. In ClickHouse Cloud leave out --cluster: it replicates by itself.

    With --accounts, wiretape_ship may insert and do nothing else, and wiretape_read may read all but the table streams,
    which has the bodies and which pull copies. Their passwords are read from WIRETAPE_FLEET_SHIP_PASSWORD and
    WIRETAPE_FLEET_READ_PASSWORD, and are sent as hashes. Creating accounts needs access_management.
    """
    from wiretape.viewer.wings.clickhouse import ddl, setup, tables

    if cluster is not None:
        try:
            address.identifier(cluster)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--cluster") from error
    if is_printed:
        statements = [*setup.setup_statements(target.database, tables.TABLES, cluster)]
        if accounts:
            hashes = {account: "SHA-256 of the password, in hex" for account in (ddl.SHIPPER, ddl.ANALYST)}
            statements += ddl.accounts(target.database, hashes, tables.TABLES, cluster)
        click.echo("".join(f"{statement};\n" for statement in statements), nl=False)
        return
    passwords = {}
    if accounts:
        passwords = {ddl.SHIPPER: _password(SHIP_PASSWORD), ddl.ANALYST: _password(READ_PASSWORD)}
    with connected_to(target, ca_file) as centre:
        setup.prepare(centre, tables.TABLES, cluster, lambda line: click.echo(line))
        if accounts:
            setup.make_accounts(centre, tables.TABLES, cluster, passwords, lambda line: click.echo(line))


def _password(name: str) -> str:
    password = os.environ.get(name, "")
    if len(password) < _LEAST_PASSWORD:
        raise click.UsageError(f"set {name} to a password of {_LEAST_PASSWORD} or more characters")
    return password


@fleet.command()
@connected
@click.option("--since", type=read_age, default="2d", show_default=True, metavar="AGE",
              help="Count the exchanges that began within this time: 12h, 30d, 8w.")  # fmt: skip
def hours(target: Target, ca_file: Path | None, since: "timedelta") -> None:
    """Count the exchanges of each hour in the table hours.

    They are counted by host, upstream, model, operation and API. Run it regularly: new counts replace older ones. It
    needs an account that may read the table exchanges and insert into hours, unlike both accounts of fleet init.
    """
    from wiretape.recorder.clock import SYSTEM
    from wiretape.viewer.wings.clickhouse import hours

    with connected_to(target, ca_file) as centre:
        start = hours.count(centre, int(since.total_seconds()), SYSTEM)
    click.echo(f"counted the exchanges that began at {start} or later")


@fleet.command()
@connected
@output.formatted()
def status(target: Target, ca_file: Path | None, out: Output) -> None:
    """Show the shipping progress of hosts, and the size of tables."""
    from wiretape.viewer.wings.clickhouse import status

    with connected_to(target, ca_file) as centre:
        fleet_rows = [*status.rows(centre, lambda line: click.echo(message(line), err=True))]
    if not out.is_table:
        out.put(status.FIELDS, fleet_rows)
        return
    for kind in ("host", "table"):
        rows = [row for row in fleet_rows if row["kind"] == kind]
        columns = [
            name for name in status.FIELDS if any(row[name] not in (None, "") for row in rows) and name != "kind"
        ]
        cells = [
            {name: moment(row[name]) if name.endswith("_at") and row[name] else row[name] for name in columns}
            for row in rows
        ]
        if cells:
            out.put_rounded(
                columns, cells, important=("name", "tenant", "waiting", "lag_ms", "silent_ms", "rows", "bytes")
            )
    if not fleet_rows:
        click.echo(f"{target.shown} holds nothing yet: ship a tape with 'wiretape ship --to …'", file=sys.stderr)
