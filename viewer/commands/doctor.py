"""The command `doctor`: checks this machine's fitness for recording, and gives advice.

No data is sent to the network unless `--check` names it, and nothing is left behind. Functions named `of_…` collect
facts, those named `judge_…` are pure and turn facts into findings. Secrets are never printed: only scheme, host and
port of a URL, and only the names of other variables.
"""

import dataclasses
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import click

from wiretape.recorder import paths, terminals
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.commands import options
from wiretape.recorder.errors import UpstreamError, WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.relay import apis, local, providers
from wiretape.recorder.sanitize import safe
from wiretape.viewer import contracts
from wiretape.viewer.commands import output
from wiretape.viewer.commands.output import Output
from wiretape.viewer.contracts import Extra

if TYPE_CHECKING:
    from rich.text import Text

_BROKEN_EXIT = 3
_FLUSHES = 20
_PAGE = bytes(4096)
_TICKS = 1000
_CONNECT_SECONDS = 10
_NAMES = 19
_MOUNTS = Path("/proc/self/mountinfo")
EXTRAS: Final = (
    contracts.Extra("parquet", "pyarrow", "Parquet"),
    contracts.Extra("tokenizers", "tokenizers", "stats --tokenizer"),
    *(extra for wing in contracts.built_in().values() for extra in wing.extras),
)
"""The extras of the package."""
_COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}
Level = Literal["ok", "note", "problem"]

FIELDS: Final = ("level", "check", "found", "advice")
PROXIES: Final = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
"""Variables that apply to a recorder, which speaks plain HTTP."""
CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_NETWORK = frozenset({
    "9p", "afp", "afs", "beegfs", "ceph", "cifs", "drvfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs",
    "fuse.sshfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs", "vboxsf", "virtiofs", "webdav",
})  # fmt: skip
_MEMORY = frozenset({"tmpfs", "ramfs"})
_OLDEST_SQLITE = (3, 31, 0)
_MENDED_SQLITE = (3, 51, 3)
_BACKPORTED = frozenset({(3, 44, 6), (3, 50, 7)})
_LITTLE_SPACE, _NO_SPACE = 1 << 30, 64 << 20
_SLOW_FLUSH_NS = 50_000_000
_FILES_BESIDES, _FEW_EXCHANGES, _ENOUGH_EXCHANGES = 32, 16, 1000
_COARSE_NS = 1_000_000
_NARROW = 60
_LATE_NS = 60_000_000_000
_LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+|localhost|::1")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its severity (in order, worth knowing, or broken), the facts, and the advice."""

    level: Level
    check: str
    found: str
    advice: str | None = None


@click.command()
@options.db
@click.option("--check", "urls", multiple=True, metavar="URL",
              help="Connect to this API server, too; no request is sent. May be repeated.")  # fmt: skip
@output.formatted()
def doctor(db: Path | None, urls: tuple[str, ...], out: Output) -> None:
    """Check this machine's fitness for recording.

    The checks cover the tape, the disk, the clock, the environment and the terminal. Exit 3 if anything is broken. No
    value that may be secret is printed.
    """
    path = paths.absolute(options.tape_path(db))
    results = [*of_programs(), *of_tape(path), *of_disk(path)]
    results.append(judge_open_files(*local.descriptor_limits(), local.WANTED_DESCRIPTORS[0]))
    results += [of_clock(), *of_environment(path, os.environ), *map(of_upstream, urls), of_terminal()]
    results += [judge_extra(extra, options.is_installed(extra.module)) for extra in EXTRAS]
    if out.is_table:
        output.show(line for finding in results for line in lines(finding))
    else:
        out.put(FIELDS, map(dataclasses.asdict, results))
    if any(finding.level == "problem" for finding in results):
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

    from wiretape.recorder import __version__

    yield Finding("ok", "wiretape", f"{__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}")
    yield judge_sqlite(sqlite3.sqlite_version_info)


def of_tape(path: Path) -> Iterator[Finding]:
    """Look at the tape, who may read it, and who holds it."""
    from wiretape.recorder.tape import lock
    from wiretape.recorder.tape.peek import REVISION

    run, refusal = _newest_run(path) if paths.exists(path) else (None, None)
    yield judge_tape(path, paths.exists(path), refusal, REVISION)
    if paths.exists(path) and refusal is None:
        from wiretape.viewer.ship import acknowledged
        from wiretape.viewer.source import settled

        files = (path, *(Path(f"{paths.real(path)}{end}") for end in ("-wal", "-shm")))
        status_of = {str(file): file.stat() for file in files if paths.exists(file)}
        foreign = [name for name, status in status_of.items() if status.st_uid != os.geteuid()]
        yield judge_privacy({name: stat.S_IMODE(status.st_mode) for name, status in status_of.items()}, foreign)

        with settled.opened(path, decodes=False) as tape:
            for name, until in acknowledged.destinations(path, tape.identity()):
                backlog = tape.backlog(until)
                yield judge_shipping(name, backlog.exchanges, backlog.lag_ns(SYSTEM.wall_ns()))
    yield judge_recorder(lock.holder(path), run, SYSTEM.wall_ns())


def judge_shipping(name: str, waiting_count: int, late_ns: int | None) -> Finding:
    """Judge the count of exchanges that wait for shipping, and the first one's waiting time; None is unknown."""
    if not waiting_count:
        return Finding("ok", "shipped", f"all to {name}")
    text = f"{counted(waiting_count, 'exchange')} not yet to {name}"
    text += "" if late_ns is None else f", the first settled {late_ns / 1e9:,.0f} s ago"
    if late_ns is not None and late_ns < _LATE_NS:
        return Finding("ok", "shipped", text)
    return Finding("note", "shipped", text, "see what 'wiretape ship --once --to …' says")


def of_disk(path: Path) -> Iterator[Finding]:
    """Look at the directory, and at the disk below it: free space, kind, speed."""
    import shutil

    place = paths.real(path).parent
    nearest = next((parent for parent in (place, *place.parents) if paths.exists(parent)), Path("/"))
    is_writable = paths.is_directory(nearest) and os.access(nearest, os.W_OK)
    yield judge_directory(place, paths.exists(place), is_writable)
    yield judge_space(shutil.disk_usage(nearest).free)
    mounts = _MOUNTS.read_text("utf-8", "replace") if paths.exists(_MOUNTS) else ""
    yield judge_filesystem(filesystem_of(nearest, mounts))
    if is_writable and paths.exists(place):
        import tempfile

        durations = []
        with tempfile.TemporaryFile(dir=place) as file:
            for _ in range(_FLUSHES):
                file.write(_PAGE)
                file.flush()
                began_ns = SYSTEM.now()
                os.fsync(file.fileno())
                durations.append(SYSTEM.now() - began_ns)
        yield judge_flush(durations)


def of_clock(clock: Clock = SYSTEM) -> Finding:
    instants = {clock.now() for _ in range(_TICKS)}
    while len(instants) < 2:
        instants.add(clock.now())
    ordered = sorted(instants)
    return judge_clock(min(later - earlier for earlier, later in pairwise(ordered)))


def of_environment(path: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the variables that SDKs read, and at the trusted certificates."""
    import ssl

    expected = dict.fromkeys(apis.BY_VARIABLE, "") | _bases(path)
    yield from judge_base_urls(environment, expected)
    yield from judge_proxies(environment, expected)
    missing = [name for name in CERTIFICATES if (value := environment.get(name)) and not paths.exists(value)]
    defaults = ssl.get_default_verify_paths()
    yield judge_certificates(missing, bool(defaults.cafile or defaults.capath))


def of_upstream(url: str, clock: Clock = SYSTEM) -> Finding:
    """Connect to an API server as a recorder does, TLS included, and hang up."""
    import asyncio

    from wiretape.recorder.relay import outward
    from wiretape.recorder.relay.upstream import Timeouts, Transport

    try:
        server = providers.make("", url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--check") from error
    proxies, began_ns = outward.read(os.environ), clock.now()

    async def connect() -> None:
        (await Transport(None, Timeouts(_CONNECT_SECONDS), proxies=proxies).open(server)).close()

    try:
        asyncio.run(connect())
    except UpstreamError as error:
        return judge_upstream(url, None, str(error))
    return judge_upstream(url, clock.now() - began_ns, "")


def of_terminal() -> Finding:
    from rich.console import Console

    console = Console(file=sys.stdout, width=output.width())
    colours = None if console.no_color else console.color_system
    return judge_terminal(output.on_terminal(), terminals.has_utf8(), colours, console.width)


def _newest_run(path: Path) -> tuple[RecorderRun | None, str | None]:
    """Return the newest run of a recorder on a tape, or the reason why the tape cannot be read."""
    from wiretape.viewer.source.place import TapePlace

    try:
        with TapePlace(path).opened() as source:
            return source.newest_run(), None
    except WiretapeError as error:
        return None, str(error)
    except OSError as error:
        return None, f"{path} cannot be read ({error.strerror}): ask its owner, or name another with --db"


def _bases(path: Path) -> dict[str, str]:
    """Return the variables of `wiretape env` for the running recorder; empty if none runs or the tape is unreadable."""
    import sqlite3

    from wiretape.recorder.commands.env import newest_recorder

    try:
        serving = newest_recorder(path)
    except (WiretapeError, sqlite3.Error, OSError):
        return {}
    return providers.sdk_bases(*serving) if serving else {}


def judge_sqlite(version: tuple[int, ...]) -> Finding:
    """Judge SQLite: some versions lose data when two programs write a tape, which wiretape's lock keeps apart."""
    text = ".".join(map(str, version))
    if version < _OLDEST_SQLITE:
        return Finding("problem", "sqlite", f"{text} is too old", "use a Python with SQLite 3.31 or newer")
    if version < _MENDED_SQLITE and version not in _BACKPORTED:
        return Finding("ok", "sqlite", f"{text}; before 3.51.3 let no other program write a tape while it is recorded")
    return Finding("ok", "sqlite", text)


def judge_tape(path: PurePath, exists: bool, refusal: str | None, revision: str) -> Finding:
    """Judge the file: `refusal` is the error message if it cannot be read as a tape."""
    if refusal is not None:
        fact, _, advice = refusal.rpartition(": ")
        return Finding("problem", "tape", fact or refusal, advice)
    if not exists:
        return Finding("note", "tape", f"there is none at {path} yet", "record one: wiretape record")
    return Finding("ok", "tape", f"{path}, schema {revision}")


def judge_directory(path: PurePath, exists: bool, writable: bool) -> Finding:
    if not writable:
        fact = f"{path} may not be written" if exists else f"{path} cannot be made"
        return Finding("problem", "directory", fact, "name a tape elsewhere with --db or WIRETAPE_DB")
    return Finding("ok", "directory", f"{path} may be written" if exists else f"{path} will be made")


def judge_privacy(modes: Mapping[str, int], foreign: Sequence[str]) -> Finding:
    """Judge the permissions of the tape and of the files beside it: their modes and their owners."""
    if foreign:
        advice = "record to a tape of your own, or change the owner"
        return Finding("note", "owner", f"{', '.join(foreign)} belongs to another user", advice)
    open_modes = {name: mode for name, mode in modes.items() if mode & 0o077}
    if open_modes:
        text = ", ".join(f"{name} has mode {mode:04o}" for name, mode in open_modes.items())
        return Finding("problem", "mode", f"others may read it: {text}", f"chmod 600 {' '.join(open_modes)}")
    return Finding("ok", "mode", ", ".join(f"{name} {mode:04o}" for name, mode in modes.items()))


def judge_recorder(holder: str, run: RecorderRun | None, wall_ns: int) -> Finding:
    """Judge the recorder: the process that holds the tape, and its newest run. None: absent or unknown."""
    state = run.state(wall_ns) if run is not None else "ended"
    silent_ms = run.silent_ms(wall_ns) if run is not None else None
    if holder and run is not None and state != "ended" and silent_ms is not None:
        if run.is_gone:
            advice = "if this stays so, stop that process and start the recorder again"
            return Finding("problem", "recorder", f"{holder} holds the tape, but its relay is gone", advice)
        heard = f"{holder} holds the tape, last heard of {max(silent_ms, 0) / 1000:,.0f} s ago"
        if state == "lost":
            return Finding("note", "recorder", heard, "see whether it hangs")
        return Finding("ok", "recorder", heard)
    if holder:
        return Finding("ok", "recorder", f"{holder} holds the tape")
    if state != "ended":
        text = "none is running; the last one was killed"
        return Finding("note", "recorder", text, "no action needed: the next recorder settles its open exchanges")
    return Finding("ok", "recorder", "none is running")


def judge_space(free: int) -> Finding:
    text = f"{free / (1 << 30):,.1f} GiB are free"
    if free < _LITTLE_SPACE:
        level: Level = "problem" if free < _NO_SPACE else "note"
        return Finding(level, "space", text, "free some, or name a tape elsewhere with --db")
    return Finding("ok", "space", text)


def filesystem_of(path: PurePath, mounts: str) -> str | None:
    """Return the kind of filesystem of an absolute path, from Linux's table of mounts (`/proc/self/mountinfo`)."""
    best, kind = -1, None
    for line in mounts.splitlines():
        ours, _, theirs = line.partition(" - ")
        fields = ours.split(" ")
        if len(fields) > 4 and theirs:
            mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            if path.is_relative_to(mount) and len(mount) >= best:
                best, kind = len(mount), theirs.split(" ")[0]
    return kind


def judge_filesystem(kind: str | None) -> Finding:
    """Judge the kind of filesystem: SQLite's log needs memory shared by all who have the tape open."""
    if kind in _NETWORK:
        advice = "name a tape on a disk of this machine with --db"
        return Finding("problem", "filesystem", f"{kind} is shared with other machines: tapes break there", advice)
    if kind in _MEMORY:
        return Finding("note", "filesystem", f"{kind} is memory: the tape is gone when this machine stops")
    return Finding("ok", "filesystem", kind or "of an unknown kind")


def judge_flush(durations_ns: Sequence[int]) -> Finding:
    median = sorted(durations_ns)[len(durations_ns) // 2]
    text = f"{median / 1e6:,.1f} ms in the middle, {max(durations_ns) / 1e6:,.1f} ms at worst, of {len(durations_ns)}"
    if median > _SLOW_FLUSH_NS:
        return Finding("note", "flush", text, "a faster disk keeps the recorder from falling behind")
    return Finding("ok", "flush", text)


def judge_open_files(soft: int, hard: int, expected: int) -> Finding:
    """Judge a recorder's limit of open files: it raises the limit to `expected`, or to the hard limit."""
    limit = max(soft, min(expected, hard))
    text = f"{limit:,} at a time" if soft >= limit else f"{limit:,} at a time, to which a recorder raises {soft:,}"
    exchanges = max(limit - _FILES_BESIDES, 0) // 2
    if exchanges >= _ENOUGH_EXCHANGES:
        return Finding("ok", "open files", text)
    level: Level = "problem" if exchanges < _FEW_EXCHANGES else "note"
    advice = f"for more than {exchanges:,} exchanges at a time raise the hard limit (ulimit -Hn, LimitNOFILE=)"
    return Finding(level, "open files", text, advice)


def judge_clock(step_ns: int) -> Finding:
    if step_ns >= _COARSE_NS:
        advice = "shorter gaps are not measurable on this machine"
        return Finding("note", "clock", f"the clock advances in steps of {step_ns / 1e6:,.1f} ms", advice)
    return Finding("ok", "clock", f"monotonic, in steps of {step_ns:,} ns")


def judge_base_urls(environment: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the SDKs' variables: `expected` are those of `wiretape env` for the running recorder.

    Without one, the values of `expected` are empty.
    """
    for name, url in expected.items():
        value = environment.get(name)
        if value and url and value.rstrip("/") == url.rstrip("/"):
            yield Finding("ok", name, f"points at the recorder, {origin(value)}")
        elif value and (not url or origin(value) != origin(url)):
            yield _elsewhere(name, value, bool(url))
        elif value:
            yield Finding("note", name, "points at the recorder, but with another path", 'eval "$(wiretape env)"')
    unset = [name for name, url in expected.items() if url and not environment.get(name)]
    if unset:
        verb = f"and {len(unset) - 1} more variables are" if len(unset) > 1 else "is"
        yield Finding("note", unset[0], f"{verb} not set: SDKs go past the recorder", 'eval "$(wiretape env)"')


def _elsewhere(name: str, value: str, is_running: bool) -> Finding:
    if is_running:
        advice = 'to record, eval "$(wiretape env)"'
        return Finding("note", name, f"points at {origin(value)}, not at the recorder of this tape", advice)
    if is_loopback(value):
        advice = "start it, or unset the variable"
        return Finding("note", name, f"points at {origin(value)}; no recorder of this tape runs", advice)
    return Finding("ok", name, f"points at {origin(value)}")


def judge_proxies(environment: Mapping[str, str], bases: Iterable[str]) -> Iterator[Finding]:
    """Judge proxies that SDKs would ask even for this machine."""
    variables = [name for name in PROXIES if environment.get(name)]
    if not variables:
        return
    skipped = re.split(r"[,\s]+", environment.get("no_proxy") or environment.get("NO_PROXY") or "")
    if {"*", "127.0.0.1", "localhost"} & set(skipped):
        yield Finding("ok", "proxy", f"{', '.join(variables)} is set, and not used for this machine")
        return
    level: Level = "problem" if any(is_loopback(environment.get(name, "")) for name in bases) else "note"
    text = f"SDKs would ask the proxy of {', '.join(variables)} for the recorder"
    yield Finding(level, "proxy", text, "export NO_PROXY=127.0.0.1,localhost")


def judge_certificates(missing: Sequence[str], has_any: bool) -> Finding:
    """Judge the trusted certificates: variables that name missing files, and a trust store without certificates."""
    if missing:
        text = f"{', '.join(missing)} names a missing file"
        return Finding("problem", "certificates", text, "unset it, or name a file of certificates (PEM)")
    if not has_any:
        advice = "install your system's ca-certificates, or set SSL_CERT_FILE"
        return Finding("problem", "certificates", "the system has none: no https upstream can be trusted", advice)
    return Finding("ok", "certificates", "the system's")


def judge_upstream(url: str, took_ns: int | None, refusal: str) -> Finding:
    if took_ns is None:
        advice = "see whether the URL is right and the network lets this machine there"
        return Finding("problem", "upstream", f"{origin(url)} cannot be reached ({refusal})", advice)
    return Finding("ok", "upstream", f"{origin(url)} was reached in {took_ns / 1e6:,.0f} ms")


def judge_terminal(is_terminal: bool, has_utf8: bool, colours: str | None, width: int) -> Finding:
    """Judge the terminal's abilities."""
    if not is_terminal:
        return Finding("ok", "terminal", "stdout is no terminal: commands write TSV")
    text = f"{width} cells wide, {'UTF-8' if has_utf8 else 'no UTF-8'}, colours: {colours or 'none'}"
    if not has_utf8:
        return Finding("note", "terminal", f"{text}: drawings are ASCII", "for more, set LANG to a UTF-8 locale")
    if width < _NARROW:
        return Finding("note", "terminal", f"{text}: columns are left out", f"make it {_NARROW} cells wide or more")
    return Finding("ok", "terminal", text)


def judge_extra(extra: Extra, is_there: bool) -> Finding:
    if is_there:
        return Finding("ok", extra.module, f"is there, for {extra.use}")
    return Finding(
        "note", extra.module, f"is not there: no {extra.use}", f"to have it, {options.install_hint(extra.name)}"
    )


def origin(url: str) -> str:
    """Return scheme, host and port of a URL: its other parts may be secret."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "what is no URL"
    return f"{parts.scheme}://{host}{port}" if parts.scheme and host else "what is no URL"


def is_loopback(url: str) -> bool:
    try:
        return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None
    except ValueError:
        return False
