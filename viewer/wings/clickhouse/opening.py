"""Opening of a server or a directory as a source and as a sink; its client is looked for before it is loaded."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.viewer.wings.clickhouse import address
from wiretape.viewer.wings.clickhouse.address import PASSWORD_FILE, Target

if TYPE_CHECKING:
    from wiretape.viewer.ship.sink import Shipping, Sink
    from wiretape.viewer.source.base import Place
    from wiretape.viewer.wings.clickhouse.client import Centre


@contextlib.contextmanager
def connected(target: Target, ca_file: Path | None = None, seconds: float | None = None) -> "Iterator[Centre]":
    """Connect to a server with the environment's credentials. Raises `click.UsageError` if these are invalid.

    `seconds` is the timeout of an answer; 0 is none, None the default.
    """
    target.check()
    from wiretape.recorder.relay.sockets import tls_context
    from wiretape.viewer.wings.clickhouse.client import ANSWER_SECONDS, Centre

    try:
        credentials = address.credentials(target, os.environ)
    except OSError as error:
        path = os.environ[PASSWORD_FILE]
        raise click.UsageError(f"{PASSWORD_FILE}: {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    is_secure = any(node.startswith("https:") for node in target.nodes)
    seconds = ANSWER_SECONDS if seconds is None else seconds
    with Centre(target, credentials, tls_context(ca_file) if is_secure else None, seconds=seconds) as centre:
        yield centre


@contextlib.contextmanager
def sink(target: Target, shipping: "Shipping") -> "Iterator[Sink]":
    """Connect to a server to ship to it. Raises `WiretapeError` and `click.UsageError`."""
    with connected(target, shipping.ca_file) as centre:
        from wiretape.viewer.wings.clickhouse.sink import CentreSink, ShippedLabels

        yield CentreSink(centre, ShippedLabels(socket.gethostname(), shipping.labels), shipping.bodies)


def place(text: str) -> "Place":
    """Return the source at an address. Raises `ValueError`, and `WiretapeError` if its client is not installed."""
    target = address.parse(text)
    target.check()
    from wiretape.recorder.tape.peek import query_seconds
    from wiretape.viewer.wings.clickhouse.source import ClickHouse

    return ClickHouse(target, lambda: connected(target, seconds=query_seconds()), lambda: connected(target))
