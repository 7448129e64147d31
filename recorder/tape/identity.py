"""Notices when the files of a tape are removed, replaced or cut short under its writer.

SQLite keeps on writing to files that have lost their names: what it commits then is gone when it closes them. A writer
looks after each commit, so that nothing is acknowledged that has no name. It only asks for the files' status: to open
the tape and close it again would drop the locks that SQLite holds on it in the same process.
"""

import os
from pathlib import Path

from recorder.errors import TapeError, TapeGone

Identity = tuple[int, int]
"""Device and inode: what tells a file from another that has taken its name."""


def identity(path: Path) -> Identity | None:
    """Return the identity of the file at `path`; None if there is none."""
    return _identity_of(_status(path))


def _identity_of(status: os.stat_result | None) -> Identity | None:
    return status and (status.st_dev, status.st_ino)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


class LogGone(TapeError):
    """The tape's `-wal` or `-shm` was removed or replaced: what they hold can still be saved by their connection."""


class Watch:
    """The files of a tape that is open for writing, as they were at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logs = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]
        self._tape = identity(path)
        self._held = [identity(log) for log in self._logs]
        self._size = 0

    def check(self, pages_bytes: int) -> None:
        """Raise `TapeGone` or `LogGone` if a file is not the one that it was.

        `pages_bytes` is the size of the database as SQLite sees it. The file may be smaller until the next checkpoint,
        but it never shrinks below what it was, unless the database shrinks too.
        """
        status = _status(self._path)
        if status is None or _identity_of(status) != self._tape:
            raise TapeGone(f"{self._path} was removed or replaced while it was recorded: nothing more is stored")
        if status.st_size < min(self._size, pages_bytes):
            raise TapeGone(f"{self._path} was cut short while it was recorded: nothing more is stored")
        self._size = status.st_size
        for log, held in zip(self._logs, self._held, strict=True):
            if identity(log) != held:
                raise LogGone(f"{log} was removed or replaced while it was recorded")
