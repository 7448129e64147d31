"""Copies of a tape, also while it is recorded: whole, private, and never in the place of anything else.

- SQLite's backup API copies, since the newest data of a recorded tape is in its log: `cp` of the file loses that.
- One read transaction lasts for all steps. Without it SQLite begins again after each commit of the recorder, of which
  there are ten a second. It does not hinder the recorder, whose log grows until the copy is done.
- A copy is not in WAL mode, so that it can be read on read-only media, and `lacks_log` can tell it from one by `cp`. A
  recorder sets that mode again.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from wiretape.recorder import paths, private
from wiretape.recorder.errors import OutputRefused, TapeBusy, WiretapeError
from wiretape.recorder.tape import lock, peek

_BESIDE = ("-wal", "-shm", "-journal", ".lock")
Report = Callable[[int, int], None]
"""Called with the number of pages copied, and of all."""


def copy(path: Path, target: Path, report: Report = lambda done, total: None) -> None:
    """Copy a tape, of any revision, to a file that is new or empty and private. Raises `TapeError` and its kinds."""
    peek.identify(path)
    with peek.explained(path), contextlib.closing(peek.connect(peek.read_uri(path))) as tape:
        peek.set_up_reader(tape, path)
        tape.execute("BEGIN")
        tape.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the snapshot begins
        (pages,) = tape.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = tape.execute("PRAGMA page_size").fetchone()
        is_same_disk = paths.real(path).stat().st_dev == target.parent.stat().st_dev
        spared = 64 << 20 if is_same_disk else 0  # a recorder's log: a copy may not fill the disk that it records to
        lacking = pages * page_bytes + spared - shutil.disk_usage(target.parent).free
        if lacking > 0:
            raise TapeBusy(f"{target} cannot be written: the disk needs {lacking:,} more free bytes: free some space")
        uri = paths.sqlite_uri(target, "mode=rw")
        target.touch(0o600)
        with peek.explained(target):
            with contextlib.closing(peek.connect(uri)) as copied:
                copied.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")  # a failed copy is removed
                tape.backup(copied, pages=256, progress=lambda _, left, total: report(total - left, total))
            with contextlib.closing(peek.connect(uri)) as copied:  # which reads the mode that has been copied
                copied.execute("PRAGMA journal_mode=DELETE")


def back_up(path: Path, target: Path, *, replace: bool, report: Report) -> None:
    """Copy a tape to a file that takes its name when it is whole and durable; on any failure nothing is left behind.

    An existing tape is replaced if `replace`, anything else never. Raises `OutputRefused`, or as `copy`.
    """
    target = paths.real(target)
    _refuse(path, target, replace=replace)
    part = target.with_name(f"{target.name}.part")
    try:
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except FileExistsError as error:
        raise OutputRefused(f"{part} is there: another copy writes it, or it is left over: remove it") from error
    except FileNotFoundError as error:
        folder = target.parent
        raise WiretapeError(f"{target} cannot be written: there is no directory {folder}: make it") from error
    except OSError as error:
        raise WiretapeError(f"{target} cannot be written ({error.strerror}): name another file") from error
    with private.exiting_on_signals(), contextlib.closing(os.fdopen(descriptor, "rb")):
        try:
            copy(path, part, report)
            os.fsync(descriptor)
            _refuse(path, target, replace=replace)  # it may have come meanwhile
            part.replace(target)
            directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(directory)
            os.close(directory)
        except BaseException:
            for suffix in ("", *_BESIDE):
                Path(f"{part}{suffix}").unlink(missing_ok=True)
            raise


def _refuse(path: Path, target: Path, *, replace: bool) -> None:
    """Raise `OutputRefused` or a kind of `TapeError` if a tape must not be copied to `target`, which is resolved."""
    if target.name.endswith(_BESIDE):
        raise OutputRefused(f"{target} has the name of a file beside a database: name another file")
    if target.suffix == lock.TEXT_SUFFIX:
        raise OutputRefused(f"{target} has the name of a tape as text: name a .db; 'wiretape db cut' makes texts")
    if paths.exists(target):
        if target.samefile(path):
            raise OutputRefused(f"{target} is the tape that is copied: name another file")
        if not replace:
            raise OutputRefused(f"{target} exists: name another file, or replace it with --replace")
        peek.identify(target)
        if holder := lock.holder(target):
            raise TapeBusy(f"{target} is being written by {holder}: name another file")
    if not peek.is_settled(target):  # SQLite would take it for the log of the copy
        raise TapeBusy(f"{target}-wal is there, so {target.name} is open or was not closed: name another file")


def lacks_log(path: Path) -> bool:
    """Return True if nobody writes a tape that was made to have a log, and there is none, or an empty one.

    Call it only while this process has no SQLite connection to the tape: it opens and closes the file.
    """
    path = paths.real(path)
    with path.open("rb") as file:
        versions = file.read(20)[18:]  # of the file format: 2 is WAL
    log = Path(f"{path}-wal")
    return versions == b"\x02\x02" and not (paths.exists(log) and log.stat().st_size) and not lock.holder(path)
