"""What the command `ship` does for an archive of Parquet files."""

import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recorder.commands.archive import Archive
from recorder.commands.leaving import LEAVE
from recorder.errors import WiretapeError
from recorder.plurals import counted
from recorder.sanitize import clipped, safe

if TYPE_CHECKING:
    from viewer.fleet.archive import Archiver
    from viewer.fleet.files import Files
    from viewer.fleet.following import End

_NICENESS: Final = 10


def send(tape: Path, archive: Archive, labels: Mapping[str, str], *, bodies: bool, once: bool, beside: bool) -> None:
    """Ship a tape to an archive. Raises `WiretapeError`."""
    from recorder.commands.status import Screen
    from recorder.tape import file
    from viewer.fleet import acknowledged, following
    from viewer.fleet.archive import Archiver
    from viewer.fleet.batches import Origin

    file.identify(tape)  # before anything is made beside it
    files, origin = _files(archive), Origin(socket.gethostname(), labels)
    os.nice(_NICENESS)
    with contextlib.closing(Screen()) as screen:

        def warn(message: str) -> None:
            screen.line(f"wiretape: shipping: {message or 'works again'}")

        with (
            following.until_end(tape, with_recorder=beside) as end,
            acknowledged.held(tape, archive.name, end.wait_for_others(warn)) as known,
        ):
            archiver = Archiver(files, known, origin, bodies, wait=end.wait, is_over=end.is_over, warn=warn)
            if beside:
                _send_beside(tape, archiver, end)
                return
            archiver.tell = lambda shipped, waiting: screen.status(f"{shipped:,} shipped · {waiting:,} waiting")
            with file.reading(tape) as connection:
                try:
                    archiver.run(connection, once=once)
                finally:
                    screen.status("")
                    waiting = "" if archiver.waiting is None else f", {archiver.waiting:,} waiting"
                    said = f", what was said in {counted(archiver.said, 'exchange')}" if bodies else ""
                    screen.line(
                        f"{counted(archiver.shipped, 'exchange')} shipped to {safe(archive.url)}{said}{waiting}"
                    )


def _send_beside(tape: Path, archiver: "Archiver", end: "End") -> None:
    """Ship until the recorder asks to leave the tape, so that its writer is the last to close it; then what is left."""
    from recorder.tape import file

    with file.reading(tape) as connection:
        archiver.follow(connection)
    sys.stdout.buffer.write(LEAVE)
    sys.stdout.flush()
    end.wait_for_recorder()
    with file.reading(tape) as connection:
        archiver.finish(connection)


def _files(archive: Archive) -> "Files":
    """Return the files of an archive. Raises `WiretapeError`."""
    from viewer.export.parquet import pyarrow
    from viewer.fleet.files import cause, in_bucket, in_directory

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
