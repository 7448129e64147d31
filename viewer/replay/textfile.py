"""Keeps a tape that is text up to date with the database to which what is new is recorded."""

import contextlib
import fcntl
import io
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from recorder.errors import WiretapeError
from recorder.tape import cut
from recorder.tape.schema import exchanges
from viewer import outfile
from viewer.tape import queries


class TextFile:
    """The text at `path`, to which the exchanges of one session in the database `tape` are added, or some removed."""

    def __init__(self, path: Path, tape: Path, session: str) -> None:
        self._path, self._tape, self._session = path.resolve(), tape, session

    def save(self, kept: Collection[str], gone: Collection[str]) -> None:
        """Replace the text as a whole: its lines stay as they are, what is `kept` follows, what is `gone` is removed.

        What others have entered meanwhile stays, too. Raises `WiretapeError`; then it is as it was.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self._path.parent):
                before = self._path.read_bytes() if self._path.exists() else b""
                outfile.replace_private(self._path, self._changed(before, kept, gone))
        except (OSError, ValueError) as error:
            raise WiretapeError(f"{self._path} cannot be written ({error}): see to it") from error

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
