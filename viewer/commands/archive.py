"""What the command `ship` does for an archive of Parquet files: `parquet:DIR`, or `s3://BUCKET/PREFIX`."""

import hashlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from recorder.errors import WiretapeError
from recorder.plurals import counted
from recorder.sanitize import clipped, safe

if TYPE_CHECKING:
    from viewer.fleet.files import Files

DIRECTORY: Final = "parquet:"
BUCKET: Final = "s3://"
FORM: Final = "parquet:DIR or s3://BUCKET/PREFIX[?region=…]"
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Archive:
    """Where an archive is: a directory, or the URL of a bucket, which has no credentials."""

    directory: Path | None
    url: str

    @property
    def name(self) -> str:
        """The archive in a few words, different for each."""
        return (
            f"{clipped(safe(self.url), _SHOWN)} {hashlib.sha256(self.url.encode('utf-8', 'replace')).hexdigest()[:8]}"
        )


def is_archive(url: str) -> bool:
    """Return whether this is meant for an archive."""
    return url.startswith((DIRECTORY, BUCKET))


def read(url: str) -> Archive:
    """Read where an archive is. Raises `click.BadParameter`, which never holds a credential."""
    if url.startswith(DIRECTORY):
        path = url.removeprefix(DIRECTORY)
        if not path or "\0" in path:
            raise click.BadParameter(f"an archive is {FORM}")
        directory = Path(path).expanduser().resolve()
        return Archive(directory, f"{DIRECTORY}{directory}")
    parts = urlsplit(url)
    if "@" in parts.netloc or "secret_key" in parts.query:
        raise click.BadParameter("credentials in a URL are seen by others: set AWS_ACCESS_KEY_ID and the like")
    if not parts.netloc:
        raise click.BadParameter(f"an archive is {FORM}")
    return Archive(None, url.rstrip("/"))


def send(tape: Path, archive: Archive, labels: Mapping[str, str], *, bodies: bool, once: bool) -> None:
    """Ship a tape to an archive. Raises `WiretapeError`."""
    from recorder.commands.status import Screen
    from recorder.tape import file
    from viewer.fleet import acknowledged, following
    from viewer.fleet.archive import Archiver
    from viewer.fleet.batches import Origin

    files, screen = _files(archive), Screen()
    origin = Origin(socket.gethostname(), labels)
    with (
        acknowledged.held(tape, archive.name) as known,
        following.until_end(tape, with_recorder=False) as end,
        file.reading(tape) as connection,
    ):
        archiver = Archiver(files, known, origin, bodies, wait=end.wait, is_over=end.is_over)
        archiver.warn = lambda message: screen.line(f"wiretape: shipping: {message or 'works again'}")
        archiver.tell = lambda shipped, waiting: screen.status(f"{shipped:,} shipped · {waiting:,} waiting")
        try:
            archiver.run(connection, once=once)
        finally:
            screen.status("")
            waiting = "" if archiver.waiting is None else f", {archiver.waiting:,} waiting"
            screen.line(f"{counted(archiver.shipped, 'exchange')} shipped to {safe(archive.url)}{waiting}")
            screen.close()


def _files(archive: Archive) -> "Files":
    """Return the files of an archive. Raises `WiretapeError`."""
    from viewer.export.parquet import pyarrow
    from viewer.fleet.files import Files

    arrow = pyarrow()
    if archive.directory is not None:
        return Files(arrow, arrow.fs.LocalFileSystem(), str(archive.directory), is_local=True)
    try:
        system, root = arrow.fs.FileSystem.from_uri(archive.url)
    except (OSError, ValueError) as error:
        raise WiretapeError(f"{safe(archive.url)} cannot be used ({clipped(safe(str(error)), 200)})") from error
    return Files(arrow, system, root, is_local=False)
