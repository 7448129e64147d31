"""What the command `ship` does for a collector of OpenTelemetry."""

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recorder.commands import options
from recorder.commands.leaving import LAST_SECONDS
from recorder.commands.otlp import Collector, read_headers
from recorder.errors import WiretapeError
from recorder.plurals import counted

if TYPE_CHECKING:
    from viewer.ship.otlp.attributes import Origin
    from viewer.ship.otlp.delivery import Delivery


_NICENESS: Final = 10


def send(
    tape: Path,
    collector: Collector,
    ca_file: Path | None,
    labels: Mapping[str, str],
    *,
    once: bool,
    beside: bool,
    since: int,
) -> None:
    """Send spans and metrics of a tape, until it is over; if `once`, what there is. Raises `WiretapeError`."""
    options.check_extra("opentelemetry.proto", "otlp", "--to otlp+http://…")

    from recorder.commands.status import Screen
    from recorder.tape import file
    from viewer.ship import acknowledged, ending
    from viewer.ship.otlp.sink import Shipper
    from viewer.source.tape import queries

    with contextlib.closing(Screen()) as screen:

        def warn(line: str) -> None:
            screen.line(f"wiretape: otlp: {line}")

        delivery = _delivery(collector, ca_file, warn)
        file.identify(tape)  # before anything is made beside it
        os.nice(_NICENESS)
        with (
            ending.until_end(tape, with_recorder=beside) as end,
            acknowledged.held(tape, collector.name, end.wait_for_others(warn)) as known,
        ):
            shipper = Shipper(delivery, known, _origin(labels), since, end.wait, end.is_over)
            if not beside:
                shipper.tell = lambda taken: screen.status(f"{taken:,} sent to {collector.name}")
            if not once:
                with queries.opened(tape) as connection:
                    shipper.follow(connection)
            if beside:
                end.leave()
            with queries.opened(tape) as connection:
                waiting = shipper.finish(connection, None if once else LAST_SECONDS)
        screen.status("")
        if not beside:
            refused = f", {counted(delivery.refused, 'span')} refused" if delivery.refused else ""
            screen.line(f"{counted(shipper.taken, 'exchange')} sent to {collector.name}, {waiting:,} waiting{refused}")
    if waiting:
        raise WiretapeError(
            f"otlp: {counted(waiting, 'exchange')} not sent: whatever sends this tape next begins there"
        )


def _delivery(collector: Collector, ca_file: Path | None, report: Callable[[str], None]) -> "Delivery":
    """Return the delivery to a collector. Raises `click.UsageError` if its headers cannot be read."""
    from recorder import __version__
    from recorder.clock import SYSTEM
    from recorder.relay.trust import tls_context
    from viewer.ship.otlp.client import Client
    from viewer.ship.otlp.delivery import Delivery

    trusted = tls_context(ca_file) if collector.url.startswith("https:") else None
    client = Client(collector.url, read_headers(collector), SYSTEM, version=__version__, verify=trusted)
    return Delivery(client, SYSTEM, report)


def _origin(labels: Mapping[str, str]) -> "Callable[[str], Origin]":
    """Return a function from the id of an instance to the origin of its spans and metrics."""
    from recorder import __version__
    from viewer.ship.otlp import attributes

    host = socket.gethostname()
    return lambda instance: attributes.origin(os.environ, labels, version=__version__, host=host, instance=instance)
