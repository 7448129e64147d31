"""Keeps a tape that is text up to date with the database of its new recordings."""

import contextlib
import fcntl
import io
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape import cut
from wiretape.recorder.tape.schema import exchanges
from wiretape.viewer import outfile
from wiretape.viewer.source.tape import queries


class TextFile:
    """The text at `path`, to which the exchanges of one session in the database `tape` are added, or some removed."""

    def __init__(self, path: Path, tape: Path, session: str) -> None:
        self._path, self._tape, self._session = path.resolve(), tape, session

    def check(self) -> None:
        """Raise `WiretapeError` if the text cannot be written, before anything is recorded."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        if self._path.is_dir() or not os.access(self._path.parent, os.W_OK):
            raise self._unwritable("it is a directory" if self._path.is_dir() else "its directory is read-only")

    def _unwritable(self, cause: str) -> WiretapeError:
        return WiretapeError(f"{self._path} cannot be written ({cause}): name another tape, or see to it")

    def save(self, kept: Collection[str], gone: Collection[str]) -> None:
        """Replace the text as a whole: its lines stay as they are, `kept` exchanges are appended, `gone` ones removed.

        Changes by others since then stay, too. Raises `WiretapeError`, and leaves the text as it was.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self._path.parent):
                before = self._path.read_bytes() if self._path.exists() else b""
                outfile.replace_private(self._path, self._changed(before, kept, gone))
        except (OSError, ValueError) as error:
            raise self._unwritable(str(error)) from error

    def _changed(self, before: bytes, kept: Collection[str], gone: Collection[str]) -> bytes:
        ended = b"" if not before or before.endswith(b"\n") else b"\n"
        lines = [*cut.without(io.BytesIO(before + ended), self._session, gone)]
        new = list(self._lines(kept))
        return b"".join([*lines, *(new[1:] if lines else new)])

    def _lines(self, ids: Collection[str]) -> Iterator[bytes]:
        with queries.opened(self._tape) as connection:
            yield from cut.lines(connection, list(queries.numbers(connection, exchanges.c.id.in_(ids))))


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold a directory: programs that record to one file take turns."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
