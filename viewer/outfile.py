"""Opening a file for output: the one way in which commands write to a path that the user names.

A file takes its name only when it is complete. Never replaced are a SQLite database, the files that SQLite or a
recorder keeps beside one, the tape that is being read (also through a link), and anything that is not a regular file.
A character device (`/dev/null`, a terminal) and a descriptor of this process (`/dev/stdout`, or a shell's `>(command)`)
hold nothing that could be lost: they are written to directly.
"""

import contextlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import click

from wiretape.recorder import paths, private
from wiretape.recorder.errors import OutputRefused, WiretapeError

_DATABASE: Final = b"SQLite format 3\x00"
_LOGS: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
"""Signatures of a write-ahead log (of either byte order) and of a rollback journal."""
_BESIDE: Final = ("-wal", "-shm", "-journal", ".lock")
_OWN_DESCRIPTOR: Final = re.compile(r"/dev/(?:fd/(\d+)|std(out|err))|/proc/self/fd/(\d+)")
_STANDARD: Final = {"out": 1, "err": 2}


@contextlib.contextmanager
def replacing(path: Path, tape: Path | None = None) -> Iterator[BinaryIO]:
    """Write a file of mode 0600 that takes its name only when it is whole; on any failure nothing is left behind.

    `tape` is the tape that is being read. Raises `OutputRefused` for what must not be replaced, before anything is
    written, and `WiretapeError` if the file cannot be written or FILE.part exists: it may belong to another export.
    """
    try:
        if _is_direct(path):
            with _directly(path) as file:
                yield file
            return
        path = paths.real(path)
        _make_folder(path)
        _refuse(path, tape)
        with _created(path.with_name(f"{path.name}.part")) as (part, file):
            yield file
            file.flush()
            os.fsync(file.fileno())
            _refuse(path, tape)  # it may have come meanwhile
            part.replace(path)
    except FileExistsError as error:
        raise WiretapeError(f"{path}.part is there: another export writes it, or it is left over: remove it") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WiretapeError(f"{path} cannot be written ({error.strerror}): name another file") from error


def _make_folder(path: Path) -> None:
    """Make the directory of a file after a question on a terminal; raise `WiretapeError` without one."""
    folder = path.parent
    if _kind(folder) is not None:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WiretapeError(f"{path} cannot be written: there is no directory {folder}: make it, or name another file")
    if not click.confirm(f"There is no directory {folder}. Make it?", err=True):
        raise click.Abort
    folder.mkdir(parents=True)


def _is_direct(path: Path) -> bool:
    return bool(_OWN_DESCRIPTOR.fullmatch(str(path))) or _kind(path) == stat.S_IFCHR


def _directly(path: Path) -> BinaryIO:
    if descriptor := _OWN_DESCRIPTOR.fullmatch(str(path)):
        number = _STANDARD[descriptor[2]] if descriptor[2] else int(descriptor[1] or descriptor[3])
        return os.fdopen(os.dup(number), "wb")
    return path.open("wb")


def _kind(path: Path) -> int | None:
    """Return the type bits of a file's mode; None if there is none."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _refuse(path: Path, tape: Path | None) -> None:
    """Raise `OutputRefused` if `path`, which is resolved, must not be replaced."""
    tape_files = [] if tape is None else [Path(f"{paths.real(tape)}{end}") for end in ("", *_BESIDE)]
    if path in tape_files or any(_is_same(path, tape_file) for tape_file in tape_files):
        raise OutputRefused(f"{path} belongs to the tape that is read: name another file")
    for end in _BESIDE:
        owner = Path(str(path).removesuffix(end))
        if path.name.endswith(end) and _kind(owner) == stat.S_IFREG and _begins(owner, _DATABASE):
            raise OutputRefused(f"{path} belongs to the database {owner.name}: name another file")
    kind = _kind(path)
    if kind is None:
        return
    if kind != stat.S_IFREG:
        raise OutputRefused(f"{path} is not a regular file, so it is not replaced: name another file")
    if _begins(path, _DATABASE, *_LOGS):
        raise OutputRefused(f"{path} is a database, which is never replaced: name another file, or remove it first")


def holds_text(path: Path) -> bool:
    """Return True if there is a file with contents that begin like text."""
    return _kind(path) == stat.S_IFREG and bool(path.stat().st_size) and not _begins(path, _DATABASE, *_LOGS)


def _begins(path: Path, *signatures: bytes) -> bool:
    # Python closes its descriptor: a process that has the file open through SQLite would lose its locks on it. The
    # tape that is read is therefore never opened here: `_is_same` has recognized it without opening it.
    with path.open("rb") as file:
        return file.read(16).startswith(signatures)


def _is_same(path: Path, existing: Path) -> bool:
    try:
        return path.samefile(existing)
    except OSError:
        return False


@contextlib.contextmanager
def _created(part: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Create a file that is removed after any failure, and when a signal ends the process."""
    # O_EXCL: another export may be writing the file. O_NOFOLLOW: no link may lead this one elsewhere.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with private.exiting_on_signals(), os.fdopen(descriptor, "wb") as file:
            yield part, file
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def replace_private(path: Path, data: bytes) -> None:
    """Replace a small file of the user's own as a whole; nobody else may read it. Raises `OSError`."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # or a power failure leaves the new name with an empty file
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):  # keep the first error
            os.unlink(name)
        raise
