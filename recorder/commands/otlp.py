"""Spans and metrics for a collector of OpenTelemetry: where it is, and the companion that sends them, `wiretape ship`.

The tape is the buffer: what a collector does not take waits there, and is sent by whatever sends that tape next. The
companion leaves the tape before the recorder closes it, and sends what is left after that, for some seconds.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import click

from recorder.clock import SYSTEM

if TYPE_CHECKING:
    from recorder.commands.companion import Companion
    from recorder.commands.status import Screen
    from recorder.relay.service import Options

SCHEME: Final = "otlp+"
"""Before the URL of a collector where there may be other destinations, too."""

HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[=:]\s*([\t\x20-\x7e\x80-\xff]*)")


@dataclass(frozen=True, slots=True)
class Collector:
    """Where spans and metrics are sent: a base URL without credentials, and a file of headers, if one was named."""

    url: str
    headers_file: Path | None = None

    @property
    def name(self) -> str:
        """The collector in a few words, without its path, which may hold a key: a hash tells it from others."""
        parts = urlsplit(self.url)
        path = f" {hashlib.sha256(parts.path.encode()).hexdigest()[:8]}" if parts.path else ""
        return f"otlp at {parts.netloc}{path}"


def read_collector(url: str, option: str, headers_file: Path | None = None) -> Collector:
    """Read the URL of a collector. Raises `click.BadParameter`, which never holds a credential."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment or not url.isprintable():
        raise click.BadParameter(
            "a collector is http://HOST:PORT or https://…, below which are /v1/traces and /v1/metrics",
            param_hint=option,
        )
    if "@" in parts.netloc:
        raise click.BadParameter(f"credentials in a URL are seen by others: set {HEADERS}", param_hint=option)
    return Collector(url.rstrip("/"), headers_file)


def read_headers(collector: Collector, environment: Mapping[str, str] = os.environ) -> list[tuple[str, str]]:
    """Return the headers to send: lines `NAME: VALUE` of a file, else those of OpenTelemetry's variable.

    Raises `click.UsageError`, which never holds a value.
    """
    file = collector.headers_file
    if file is None:
        return _headers([unquote(part) for part in environment.get(HEADERS, "").split(",")], HEADERS)
    try:
        lines = file.read_text("latin-1").splitlines()
    except OSError as error:
        raise click.UsageError(f"--otlp-headers {file} cannot be read ({error.strerror})") from error
    return _headers(lines, f"--otlp-headers {file}")


def _headers(lines: list[str], where: str) -> list[tuple[str, str]]:
    headers = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _HEADER.fullmatch(line.strip())
        if match is None:
            raise click.UsageError(f"{where}: part {number} is no header: write a name and a value")
        headers.append((match[1].lower(), match[2].strip()))
    return headers


@contextlib.asynccontextmanager
async def exported(
    collector: Collector | None, settings: "Options", screen: "Screen"
) -> AsyncIterator["Companion | None"]:
    """Send what is recorded, until the context is left when the recorder has stopped; without a collector, nothing."""
    if collector is None:
        yield None
        return
    arguments = ["ship", "--beside", "--db", str(settings.tape.absolute()), "--to", f"{SCHEME}{collector.url}"]
    arguments += ["--since-version", str(SYSTEM.wall_ns() // 1000)]
    for option, file in (("--ca-file", settings.ca_file), ("--otlp-headers", collector.headers_file)):
        arguments += [] if file is None else [option, str(file.absolute())]
    from recorder.commands.companion import Companion, Program
    from recorder.tape.redact import Redactor

    for name, value in Redactor(None).labels(settings.labels).items():  # others see the arguments of a process
        arguments += ["--label", f"{name}={value}"]
    export = Companion(Program("viewer.cli", "sends OTLP", tuple(arguments)), screen)
    screen.line(f"otlp        {Redactor(None).url(collector.url)}/v1/traces, /v1/metrics")
    try:
        yield export
    finally:
        await export.finish()
