"""Private directories of a process, removed at its end: also after SIGTERM, and by the next process if it is killed.

A directory is held by a lock, which ends with the process. One that other programs know stays for as long as one of
them runs.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from wiretape.recorder import process
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import WiretapeError


@contextlib.contextmanager
def directory(prefix: str, purpose: str, place: Path | None = None) -> Iterator[Path]:
    """Make a private directory, and remove it at the end. Directories of killed processes are removed first.

    `place` is the directory around it, without one that of temporary files. In a given `place` it stays as long as
    processes have its name in their environment, and a later start removes it. Raises `WiretapeError`, which names
    the purpose, if it cannot be made.
    """
    with exiting_on_signals(), contextlib.ExitStack() as cleanup:
        try:
            _remove_abandoned(place or Path(tempfile.gettempdir()), prefix, is_named=place is not None)
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            cleanup.callback(_remove, path, is_named=place is not None)
            lock = os.open(path, os.O_RDONLY)
            cleanup.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            cause = error.strerror or str(error)
            raise WiretapeError(f"no directory for {purpose} can be made ({cause}): set TMPDIR to a place") from error
        yield path


def _remove(directory: Path, *, is_named: bool) -> None:
    """Remove a directory, but not one that a process has the name of, or may have for some time yet."""
    one_day = 24 * 3600 * 10**9  # the time for which others may have its name, where the system does not tell
    if is_named and (process.pids_started_with(str(directory)) if process.HAS_PROC else _age_ns(directory) < one_day):
        return
    shutil.rmtree(directory, ignore_errors=True)


def _age_ns(directory: Path) -> int:
    return SYSTEM.wall_ns() - directory.lstat().st_mtime_ns


def _remove_abandoned(place: Path, prefix: str, *, is_named: bool) -> None:
    for path in place.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # it is held, or another start has just removed it
            status = path.lstat()
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
            if not is_ours or _age_ns(path) < 10_000_000_000:  # the process of a younger one may be about to lock it
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path, is_named=is_named)
            finally:
                os.close(lock)


@contextlib.contextmanager
def exiting_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise `SystemExit`, so that cleanup code runs.

    A signal that is ignored (nohup) or caught already keeps its handler; outside the main thread nothing changes.
    """

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    numbers = list[signal.Signals]()
    if threading.current_thread() is threading.main_thread():
        numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
