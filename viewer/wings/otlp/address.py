"""The address of a collector of OpenTelemetry, `otlp+http://HOST:PORT`, and the headers to send to it.

There is no credential in a URL: its path may hold one, and is not shown. Parsing an invalid URL raises `ValueError`.
"""

import contextlib
import hashlib
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import click

from wiretape.recorder import __version__
from wiretape.recorder.commands.options import check_extra
from wiretape.recorder.destinations import COLLECTOR, Destination
from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.ship.sink import Shipping, Sink

HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[=:]\s*([\t\x20-\x7e\x80-\xff]*)")


@dataclass(frozen=True, slots=True)
class Collector(Destination):
    """A collector of spans and metrics: a base URL without credentials."""

    url: str
    noun = "collector"
    purpose = "sends OTLP"
    own_option = "--otlp http://HOST:PORT"
    takes_bodies = False
    sink = f"{__name__}:opened"

    @property
    def name(self) -> str:
        """The collector in a few words, without its path, which may hold a key: a hash tells it from others."""
        parts = urlsplit(self.url)
        path = f" {hashlib.sha256(parts.path.encode()).hexdigest()[:8]}" if parts.path else ""
        return f"otlp at {parts.netloc}{path}"

    @property
    def line(self) -> str:
        """The line that a recorder prints at its start."""
        return f"otlp        {Redactor(None).url(self.url)}/v1/traces, /v1/metrics"

    def check(self, headers_file: Path | None = None) -> None:
        """Raise `WiretapeError` if the messages' module is not installed, `click.UsageError` for unreadable headers."""
        check_extra("opentelemetry.proto", "otlp", "--otlp")
        _sent_headers(headers_file)

    def arguments(self, labels: Mapping[str, str], since_version: int) -> Iterator[str]:
        """Yield the arguments: the labels become attributes of the recorder, which begins with its own exchanges."""
        yield from ("--to", f"{COLLECTOR}{self.url}", "--since-version", str(since_version))
        for name, value in labels.items():
            yield from ("--label", f"{name}={value}")


def parse(address: str) -> Collector:
    """Parse the address of a collector."""
    url = address.removeprefix(COLLECTOR)
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment or not url.isprintable():
        raise ValueError("a collector is http://HOST:PORT or https://…, below which are /v1/traces and /v1/metrics")
    if "@" in parts.netloc:
        raise ValueError(f"credentials in a URL are seen by others: set {HEADERS}")
    return Collector(url.rstrip("/"))


@contextlib.contextmanager
def opened(collector: Collector, shipping: Shipping) -> Iterator[Sink]:
    """Return the sink of a collector. Raises `WiretapeError` and `click.UsageError`."""
    check_extra("opentelemetry.proto", "otlp", f"--to {COLLECTOR}http://…")

    from wiretape.recorder.clock import SYSTEM
    from wiretape.recorder.relay.sockets import tls_context
    from wiretape.viewer.wings.otlp import attributes
    from wiretape.viewer.wings.otlp.client import CollectorClient
    from wiretape.viewer.wings.otlp.sink import CollectorSink

    trusted = tls_context(shipping.ca_file) if collector.url.startswith("https:") else None
    sent = _sent_headers(shipping.headers_file)
    client = CollectorClient(collector.url, sent, SYSTEM, version=__version__, verify=trusted)
    host = socket.gethostname()

    def origin(instance: str) -> attributes.TelemetryOrigin:
        return attributes.origin(os.environ, shipping.labels, version=__version__, host=host, instance=instance)

    yield CollectorSink(client, origin, shipping.since_version)


def _sent_headers(file: Path | None) -> list[tuple[str, str]]:
    try:
        return headers(file, os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def headers(file: Path | None, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers to send: lines `NAME: VALUE` of a file, else those of OpenTelemetry's variable.

    Raises `ValueError`, which never holds a value.
    """
    if file is None:
        return _parsed([unquote(part) for part in environment.get(HEADERS, "").split(",")], HEADERS)
    try:
        lines = file.read_text("latin-1").splitlines()
    except OSError as error:
        raise ValueError(f"--otlp-headers {file} cannot be read ({error.strerror})") from error
    return _parsed(lines, f"--otlp-headers {file}")


def _parsed(lines: list[str], origin: str) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _HEADER.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"{origin}: part {number} is no header: write a name and a value")
        pairs.append((match[1].lower(), match[2].strip()))
    return pairs
