"""Spans and metrics for a collector: the process that sends them, and what the recorder tells it.

`viewer.otlp.export` reads the exchanges that have ended from the tape, as any viewer does. The tape is the buffer: what
a collector does not take waits there, as long as the recorder runs. The process leaves the tape before the recorder
closes it, and sends what is left after that.
"""

import contextlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import click
import msgspec

from recorder import __version__
from recorder.clock import SYSTEM
from recorder.commands.companion import Companion, Program

if TYPE_CHECKING:
    from recorder.commands.status import Screen
    from recorder.relay.service import Options, Recorder

PROGRAM = "viewer.otlp.export"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[=:]\s*([\t\x20-\x7e\x80-\xff]*)")


@dataclass(frozen=True, slots=True)
class Collector:
    """Where spans and metrics are sent: a base URL, and headers, which may hold credentials."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()


class Setup(msgspec.Struct, frozen=True):
    """The line that the program gets."""

    tape: Path
    session: str
    version: str
    started_ns: int
    labels: dict[str, str]
    url: str
    headers: tuple[tuple[str, str], ...]
    ca_file: Path | None


def read_collector(url: str, headers_file: Path | None, environment: Mapping[str, str] = os.environ) -> Collector:
    """Read `--otlp` and the headers: lines `name: value` of a file, or those of OpenTelemetry's variable.

    Raises `click.UsageError`, which never holds a header's value.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise click.BadParameter("give http://HOST:PORT or https://…, below which are /v1/traces and /v1/metrics",
                                 param_hint="--otlp")  # fmt: skip
    if "@" in parts.netloc:
        raise click.BadParameter(f"credentials in a URL are seen by others: set {HEADERS}", param_hint="--otlp")
    if headers_file is None:
        given = [unquote(part) for part in environment.get(HEADERS, "").split(",")]
        return Collector(url.rstrip("/"), tuple(_headers(given, HEADERS)))
    try:
        lines = headers_file.read_text("latin-1").splitlines()
    except OSError as error:
        raise click.UsageError(f"--otlp-headers {headers_file} cannot be read ({error.strerror})") from error
    return Collector(url.rstrip("/"), tuple(_headers(lines, f"--otlp-headers {headers_file}")))


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
    collector: Collector | None, settings: "Options", recorder: "Recorder", screen: "Screen"
) -> AsyncIterator[Companion | None]:
    """Send spans and metrics of a recorder that has started; without a collector, nothing.

    `leave` is to be called before the recorder stops, and the context left when it has stopped.
    """
    if collector is None:
        yield None
        return
    setup = Setup(
        settings.tape, recorder.session, __version__, SYSTEM.wall_ns(), settings.labels, collector.url,
        collector.headers, settings.ca_file,
    )  # fmt: skip
    line = msgspec.json.encode(setup, enc_hook=str) + b"\n"
    export = Companion(Program(PROGRAM, "sends OTLP"), screen, line)
    screen.line(f"otlp        {collector.url}/v1/traces, /v1/metrics")
    try:
        yield export
    finally:
        await export.finish()
