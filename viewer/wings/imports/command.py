"""The command `import`: exchanges that other programs recorded."""

import contextlib
import json
import mmap
import os
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.commands import dialects
from wiretape.recorder.commands.options import db, read_labels, tape_path
from wiretape.recorder.errors import NotFound
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped, safe
from wiretape.recorder.tape import redact
from wiretape.viewer.commands import progress
from wiretape.viewer.imported import Data, ImportedFile, NotImportable
from wiretape.viewer.wings.imports import formats

if TYPE_CHECKING:
    pass

_STANDARD_INPUT: Final = Path("-")


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@db
@click.option(
    "--from", "format", type=click.Choice(list(formats.FORMATS)), help="The format of the files. [default: by content]"
)
@click.option("--label", "labels", multiple=True, metavar="K=V", help="Label every exchange. May be repeated.")
@click.option(
    "--url", metavar="URL", help="For a bare body: its request's URL, such as https://api.example.com/v1/messages"
)
@dialects.option
def import_(
    files: tuple[Path, ...],
    db: Path | None,
    format: str | None,
    labels: tuple[str, ...],
    url: str | None,
    declared: tuple[Path, ...],
) -> None:
    """Import exchanges that other programs recorded.

    The tape is created if it does not exist. FILE may be a pipe; - is standard input. Its format is recognised by its
    content, JSON also by a name that ends in .har. Data that the source lacks is unknown on the tape, too; the flags
    imported, no_timing, coarse_clock and rebuilt show how complete the source was (wiretape help imports). Keys are
    redacted as in a recording. Exchanges that are on the tape already are left out: an import can be repeated. Failures
    are listed, and the exit code is 3.
    """
    chosen, path, declarations = read_labels(labels), tape_path(db), dialects.read(declared)
    sources = [(file, _source(file, url, json.dumps(declarations) if declarations else None)) for file in files]
    failed = sum(_import(path, file, source, format, chosen, declarations) for file, source in sources)
    if failed:
        raise NotImportable(f"{failed:,} could not be imported: see above")


def _source(file: Path, url: str | None, dialects: str | None) -> ImportedFile:
    """Return the facts about a file; a pipe has no time of its own."""
    name, modified_ns = click.format_filename(file), SYSTEM.wall_ns()
    try:
        if file != _STANDARD_INPUT:
            status = file.stat()
            if stat.S_ISDIR(status.st_mode):
                raise NotFound(f"{name} is a directory: name the files in it")
            modified_ns = status.st_mtime_ns if stat.S_ISREG(status.st_mode) else modified_ns
        modified = datetime.fromtimestamp(modified_ns / 1e9, UTC)
    except FileNotFoundError as error:
        raise NotFound(f"no file at {name}") from error
    except (OSError, ValueError, OverflowError) as error:
        raise NotFound(f"cannot read {name}: {safe(str(error))}") from error
    return ImportedFile(file.name.encode("utf-8", "replace").decode(), modified, url, dialects)


def _import(
    path: Path,
    file: Path,
    source: ImportedFile,
    format: str | None,
    labels: dict[str, str],
    declared: list[dialects.Declaration],
) -> int:
    from wiretape.recorder.tape import file as tape
    from wiretape.recorder.tape.store import Store
    from wiretape.viewer.wings.imports.tape import Importer

    name = redact.shown(click.format_filename(file))
    try:
        with _mapped(file) as data:
            seen = format or formats.recognised(data, source.name)
            exchanges = formats.read(seen, data, source)
            with (
                contextlib.ExitStack() as cleanup,
                progress.ProgressBar(f"importing {name}", lambda: None, "exchange") as bar,
            ):
                writing = tape.writing(path, "wiretape import")  # entered, and the tape made, with the first exchange
                importer = Importer(lambda: Store(cleanup.enter_context(writing)), source.name, seen, labels, declared)
                for _ in bar.over(importer.add(exchanges)):
                    pass
    except NotImportable as error:
        click.echo(redact.message(f"{name}: {error}"), err=True)
        return 1
    for refusal in importer.report.refused[:_SHOWN]:
        click.echo(redact.message(f"{name}: {refusal.place}: {clipped(refusal.reason, 300)}"), err=True)
    if (more := len(importer.report.refused) - _SHOWN) > 0:
        click.echo(f"wiretape: {name}: and {more:,} more", err=True)
    parts = [
        (importer.report.untimed, "without timing"),
        (importer.report.present, "on it already"),
        (importer.report.failed, "left out"),
    ]
    summary = ", ".join(f"{count:,} {label}" for count, label in parts if count)
    done = f"{counted(len(importer.report.added), 'exchange')} of {seen} imported to {path}"
    if not importer.report.added and not importer.report.present:
        done = f"no exchange of {seen} could be imported"
    click.echo(f"{name}: {done}; {summary}" if summary else f"{name}: {done}")
    return importer.report.failed


@contextlib.contextmanager
def _mapped(file: Path) -> Iterator[Data]:
    """Yield the bytes of a file, which are read when they are looked at; those of a pipe are read at once."""
    with contextlib.ExitStack() as cleanup:
        if file == _STANDARD_INPUT:
            data: Data = sys.stdin.buffer.read()
        else:
            source = cleanup.enter_context(file.open("rb"))
            status = os.fstat(source.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size:
                data = cleanup.enter_context(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ))
            else:
                data = source.read()
        if not len(data):
            raise NotImportable("it is empty")
        yield data


_SHOWN: Final = 20
"""Limit of refusals shown: a file of another kind may have thousands."""
