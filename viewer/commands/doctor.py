"""The command `doctor`: looks at the place and says what is fine, what is not and what to do; added by `viewer.cli`.

Only click is imported at the top: `--help` must not wait for a database library. Nothing is asked of the network unless
`--check` names it, and nothing is left behind. What a fact means is judged by `findings`.
"""

import dataclasses
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recorder.clock import SYSTEM, Clock
from recorder.commands import options
from recorder.errors import WiretapeError
from recorder.process import Run
from recorder.relay import local, providers
from recorder.sanitize import safe
from viewer.commands import findings, output
from viewer.commands.findings import Finding

if TYPE_CHECKING:
    from rich.text import Text


_BROKEN_EXIT = 3
_FLUSHES = 20
_PAGE = bytes(4096)
_TICKS = 1000
_CONNECT_SECONDS = 10
_NAMES = 18
_MOUNTS = Path("/proc/self/mountinfo")
_COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}


@click.command()
@options.db
@click.option("--check", "urls", multiple=True, metavar="URL",
              help="Connect to this API server, too; no request is sent. May be repeated.")  # fmt: skip
@output.formatted
def doctor(db: Path | None, urls: tuple[str, ...], format: str | None, raw_csv: bool) -> None:
    """Say whether this is a good place to record: the tape, the disk, the clock, the environment, the terminal.

    Exit 3 if anything is broken. No value that may be secret is printed.
    """
    path = options.tape_path(db).absolute()
    found = [
        *of_programs(),
        *of_tape(path),
        *of_disk(path),
        *of_limits(),
        of_clock(),
        *of_environment(path, os.environ),
    ]
    found += [of_upstream(url) for url in urls]
    found += [of_terminal(), of_parquet()]
    if output.chosen(format) == "table":
        output.show(line for finding in found for line in lines(finding))
    else:
        output.put(output.chosen(format), findings.FIELDS, map(dataclasses.asdict, found), raw_csv)
    if any(finding.level == "problem" for finding in found):
        raise click.exceptions.Exit(_BROKEN_EXIT)


def lines(finding: Finding) -> "Iterator[Text]":
    """Lay out a finding: a line, and one for the advice."""
    from rich.text import Text

    line = Text(f"{finding.level:<8}", _COLOURS[finding.level])
    yield line.append(safe(f"{finding.check:<{_NAMES}} {finding.found}"), "default")
    if finding.advice is not None:
        yield Text(safe(f"{'':<{9 + _NAMES}}→ {finding.advice}"))


def of_programs() -> Iterator[Finding]:
    """Look at the versions."""
    import sqlite3

    from recorder import __version__

    yield Finding("ok", "wiretape", f"{__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}")
    yield findings.sqlite(sqlite3.sqlite_version_info)


def of_tape(path: Path) -> Iterator[Finding]:
    """Look at the tape, who may read it, and who holds it."""
    from recorder.tape import lock
    from recorder.tape.schema import REVISION

    run, refusal = _newest_run(path) if path.exists() else (None, None)
    yield findings.tape(path, path.exists(), refusal, REVISION)
    if path.exists() and refusal is None and os.name == "posix":
        yield _privacy(path)
    yield findings.recorder(lock.holder(path), run, SYSTEM.wall_ns())


def of_disk(path: Path) -> Iterator[Finding]:
    """Look at the directory, and at the disk below it: how much, of what kind, how fast."""
    import shutil

    place = path.resolve().parent
    nearest = next(parent for parent in (place, *place.parents) if parent.exists())
    is_writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    yield findings.directory(place, place.exists(), is_writable)
    yield findings.space(shutil.disk_usage(nearest).free)
    mounts = _MOUNTS.read_text("utf-8", "replace") if _MOUNTS.exists() else ""
    yield findings.filesystem(findings.filesystem_of(nearest, mounts))
    if is_writable and place.exists():
        yield findings.flush(_flushes(place))


def of_limits() -> Iterator[Finding]:
    """Look at how many files may be open."""
    limits = local.descriptor_limits()
    if limits is not None:
        yield findings.open_files(*limits, local.WANTED_DESCRIPTORS[0])


def of_clock(clock: Clock = SYSTEM) -> Finding:
    """Look at the clock, and find its smallest step."""
    instants = {clock.now() for _ in range(_TICKS)}
    while len(instants) < 2:
        instants.add(clock.now())
    ordered = sorted(instants)
    return findings.clock(min(later - earlier for earlier, later in pairwise(ordered)))


def of_environment(path: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the variables that SDKs go by, and at what upstreams are trusted by."""
    import ssl

    wanted = dict.fromkeys(providers.SDK_VARIABLES, "") | _bases(path)
    yield from findings.base_urls(environment, wanted)
    yield from findings.proxies(environment, wanted)
    missing = [name for name in findings.CERTIFICATES if (given := environment.get(name)) and not Path(given).exists()]
    known = ssl.get_default_verify_paths()
    yield findings.certificates(missing, bool(known.cafile or known.capath))


def of_upstream(url: str, clock: Clock = SYSTEM) -> Finding:
    """Connect to an API server, TLS included, and hang up."""
    import socket
    import ssl

    try:
        server = providers.make("", url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--check") from error
    before = clock.now()
    try:
        with socket.create_connection((server.host, server.port), _CONNECT_SECONDS) as connection:
            if server.scheme == "https":
                ssl.create_default_context().wrap_socket(connection, server_hostname=server.host).close()
    except OSError as error:
        return findings.upstream(url, None, error.strerror or str(error) or "no answer")
    return findings.upstream(url, clock.now() - before, "")


def of_terminal() -> Finding:
    """Look at what stdout can show."""
    from rich.console import Console

    console = Console(file=sys.stdout)
    colours = None if console.no_color else console.color_system
    return findings.terminal(output.on_terminal(), output.has_utf8(), colours, console.width)


def of_parquet() -> Finding:
    """Look for the package that only some need."""
    from importlib.util import find_spec

    return findings.extra("pyarrow", "parquet", find_spec("pyarrow") is not None, "Parquet")


def _newest_run(path: Path) -> tuple[Run | None, str | None]:
    """Return the newest run of a recorder on a tape, or why it cannot be read."""
    from recorder.tape import reading
    from viewer.tape import queries

    try:
        with queries.opened(path) as connection:
            return reading.newest_run(connection), None
    except WiretapeError as error:
        return None, str(error)
    except OSError as error:
        return None, f"{path} cannot be read ({error.strerror}): ask its owner, or name another with --db"


def _privacy(path: Path) -> Finding:
    files = [file for file in (path, *(Path(f"{path.resolve()}{end}") for end in ("-wal", "-shm"))) if file.exists()]
    told = {str(file): file.stat() for file in files}
    foreign = [name for name, status in told.items() if status.st_uid != os.geteuid()]
    return findings.privacy({name: stat.S_IMODE(status.st_mode) for name, status in told.items()}, foreign)


def _bases(path: Path) -> dict[str, str]:
    """Give what `wiretape env` says for the recorder that runs; nothing if none does, or if the tape cannot tell."""
    from sqlalchemy.exc import SQLAlchemyError

    from recorder.commands.env import running

    try:
        found = running(path)
    except (WiretapeError, SQLAlchemyError, OSError):
        return {}
    return providers.sdk_bases(*found) if found else {}


def _flushes(place: Path, clock: Clock = SYSTEM) -> list[int]:
    """Write pages to a file that has no name for long, and time until each is safe, in ns."""
    import tempfile

    found = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(_FLUSHES):
            file.write(_PAGE)
            file.flush()
            before = clock.now()
            os.fsync(file.fileno())
            found.append(clock.now() - before)
    return found


COMMANDS: list[click.Command] = [doctor]
"""The commands of this module, for the group."""
