"""The command `ship`: ships a tape to a server or a collector, during a recording or afterwards."""

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder.children import LAST_SECONDS
from wiretape.recorder.commands import options
from wiretape.recorder.commands.options import ca_file, db, read_labels, tape_path
from wiretape.recorder.destinations import Destination
from wiretape.recorder.plurals import counted
from wiretape.viewer import contracts

if TYPE_CHECKING:
    from wiretape.recorder.commands.status import Screen
    from wiretape.viewer.ship.shipper import Shipper
    from wiretape.viewer.ship.sink import Sink


@click.command()
@db
@click.option("--to", "target", required=True, metavar="URL", envvar="WIRETAPE_FLEET",
              callback=options.read_destination,
              help="A server: clickhouse://HOST/DATABASE or chdb:DIR; a collector: otlp+http://HOST:PORT.")  # fmt: skip
@ca_file
@click.option("--otlp-headers", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Send these headers to a collector: NAME: VALUE, a line each. "
              "[default: OTEL_EXPORTER_OTLP_HEADERS]")  # fmt: skip
@click.option("--bodies", is_flag=True, help="Ship the bodies, too: requests, answers, and their reads.")
@click.option("--label", "labels", multiple=True, metavar="K=V",
              help="Label all shipped exchanges; tenant=NAME separates tenants. May be repeated.")  # fmt: skip
@click.option("--once", is_flag=True, help="End when all exchanges are shipped, instead of following the tape.")
@click.option("--beside", is_flag=True, hidden=True, help="End with the recorder, which holds standard input.")
@click.option("--since-version", type=int, default=0, hidden=True,
              help="Send a collector only exchanges that were settled after this change of the tape.")  # fmt: skip
def ship(
    db: Path | None,
    target: Destination,
    ca_file: Path | None,
    otlp_headers: Path | None,
    bodies: bool,
    labels: tuple[str, ...],
    once: bool,
    beside: bool,
    since_version: int,
) -> None:
    """Ship a tape to ClickHouse or OpenTelemetry.

    It runs until interrupted, and ships new exchanges while they are recorded. It only reads the tape, which is the
    buffer: exchanges wait there while the destination is away. The progress is kept in a small file beside the tape;
    without it, all exchanges are shipped again, and still counted once. A collector gets spans and metrics only.

    The user is in the URL or WIRETAPE_FLEET_USER, the password in WIRETAPE_FLEET_PASSWORD or the file that
    WIRETAPE_FLEET_PASSWORD_FILE names. Connections to other machines use TLS unless the URL has ?tls=no. See "wiretape
    help shipping" for ClickHouse, and "wiretape help otlp" for a collector.
    """
    from wiretape.recorder.tape import peek
    from wiretape.recorder.tape.redact import Redactor
    from wiretape.viewer.ship.sink import Shipping

    if bodies and not target.takes_bodies:
        raise click.UsageError(f"--bodies is for a server: a {target.noun} gets no text")
    tape, labelled = tape_path(db), Redactor(None).labels(read_labels(labels))
    with contracts.load(target.sink)(target, Shipping(ca_file, labelled, bodies, otlp_headers, since_version)) as sink:
        peek.identify(tape)  # before anything is made beside it, or at the destination
        os.nice(10)  # the relay and its writer come first
        _ship(tape, sink, target, once=once, beside=beside)


def _ship(tape: Path, sink: "Sink", target: Destination, *, once: bool, beside: bool) -> None:
    from wiretape.recorder.commands.status import Screen
    from wiretape.viewer.ship import acknowledged
    from wiretape.viewer.ship import shipper as ending
    from wiretape.viewer.ship.shipper import Shipper
    from wiretape.viewer.ship.sink import NotTaken
    from wiretape.viewer.source import settled

    with contextlib.closing(Screen()) as screen:

        def warn(message: str) -> None:
            screen.report(f"shipping: {message or 'works again'}")

        with (
            ending.until_end(tape, with_recorder=beside) as end,
            acknowledged.locked(tape, target.name, end.wait_for_others(warn)) as progress,
        ):
            shipper = Shipper(sink, progress, end.wait, end.is_over, warn=warn)
            opened = partial(settled.opened, tape, decodes=sink.decodes)
            if not beside:
                shipper.tell = lambda report: screen.status(report.line(target.shown))
            try:
                if beside:  # until the recorder asks to leave the tape, so that its writer is the last to close it
                    with contextlib.suppress(NotTaken), opened() as exchanges:  # asked again at the end
                        shipper.run(exchanges)
                    end.leave()
                shipper.last_seconds = LAST_SECONDS
                with opened() as exchanges:
                    shipper.run(exchanges, once=once or beside)
            finally:
                screen.status("")
                _conclude(screen, shipper, target.shown, beside=beside)


def _conclude(screen: "Screen", shipper: "Shipper", name: str, *, beside: bool) -> None:
    """Print the counts of shipped and waiting exchanges; beside a recorder, only if some wait."""
    unshipped = None if shipper.last_report is None else shipper.last_report.unshipped
    if unshipped or not beside:
        waiting = "" if unshipped is None else f", {unshipped:,} waiting"
        remark = shipper.sink.remark(shipper.counts)
        screen.line(f"{counted(shipper.shipped, 'exchange')} shipped to {name}{remark}{waiting}")
