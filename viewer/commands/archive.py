"""What the command `ship` does for an archive of Parquet files."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from recorder.commands.archive import Archive
from recorder.errors import WiretapeError
from recorder.sanitize import clipped, safe
from viewer.commands.shipped import shipping

if TYPE_CHECKING:
    from viewer.ship.ending import End
    from viewer.ship.parquet.files import Files
    from viewer.ship.parquet.sink import Archiver


def send(tape: Path, archive: Archive, labels: Mapping[str, str], *, bodies: bool, once: bool, beside: bool) -> None:
    """Ship a tape to an archive. Raises `WiretapeError`."""
    from recorder.tape import file
    from viewer.ship.clickhouse.batches import Origin
    from viewer.ship.parquet.sink import Archiver

    file.identify(tape)  # before anything is made, beside it or in the archive
    files = _files(archive)
    with shipping(tape, archive.name, beside=beside) as ours:
        origin, end = Origin(socket.gethostname(), labels), ours.end
        archiver = Archiver(files, ours.known, origin, bodies, wait=end.wait, is_over=end.is_over, warn=ours.warn)
        if beside:
            _send_beside(tape, archiver, end)
            return
        archiver.tell = lambda shipped, waiting: ours.screen.status(f"{shipped:,} shipped · {waiting:,} waiting")
        with file.reading(tape) as connection:
            try:
                archiver.run(connection, once=once)
            finally:
                said = archiver.said if bodies else None
                ours.conclude(archiver.shipped, safe(archive.url), said, archiver.waiting)


def _send_beside(tape: Path, archiver: "Archiver", end: "End") -> None:
    """Ship until the recorder asks to leave the tape, so that its writer is the last to close it; then what is left."""
    from recorder.tape import file

    with file.reading(tape) as connection:
        archiver.follow(connection)
    end.leave()
    with file.reading(tape) as connection:
        archiver.finish(connection)


def _files(archive: Archive) -> "Files":
    """Return the files of an archive. Raises `WiretapeError`."""
    from viewer.export.parquet import pyarrow
    from viewer.ship.parquet.files import cause, in_bucket, in_directory

    arrow = pyarrow()
    arrow.set_memory_pool(arrow.system_memory_pool())  # which gives back what is freed
    try:
        return (
            in_directory(arrow, archive.directory)
            if archive.directory is not None
            else in_bucket(arrow, archive.prefix, archive.settings)
        )
    except (OSError, ValueError) as error:
        raise WiretapeError(f"{safe(archive.url)} cannot be used ({clipped(safe(cause(error)), 200)})") from error
