"""Connecting to a centre, as the environment says: for what ships to it, and for what asks it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder import destinations

if TYPE_CHECKING:
    from wiretape.viewer.source.clickhouse.client import Centre


@contextmanager
def connected_to(
    target: destinations.Target, ca_file: Path | None = None, seconds: float | None = None
) -> "Iterator[Centre]":
    """Connect to a server with the environment's credentials. Raises `click.UsageError` if these are invalid.

    `seconds` is the timeout of an answer; 0 is none, None the default.
    """
    from wiretape.recorder.relay.trust import tls_context
    from wiretape.viewer.source.clickhouse.client import ANSWER_SECONDS, Centre

    try:
        credentials = destinations.credentials(target, os.environ)
    except OSError as error:
        name = destinations.PASSWORD_FILE
        raise click.UsageError(f"{name}: {os.environ[name]} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    is_secure = any(node.startswith("https:") for node in target.nodes)
    seconds = ANSWER_SECONDS if seconds is None else seconds
    with Centre(target, credentials, tls_context(ca_file) if is_secure else None, seconds=seconds) as centre:
        yield centre
