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
from typing import Any

from wiretape.recorder import process
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import WiretapeError


@contextlib.contextmanager
def directory(prefix: str, purpose: str, place: Path | None = None) -> Iterator[Path]:
    """Make a directory, and remove it at the end. Those that killed processes left are removed, too.

    Raises `WiretapeError`, which names the purpose, where there is no place for it. In a `place` other than that of
    temporary files it stays while processes have its name in their environment; a later start removes it then.
    """
    with ending(), contextlib.ExitStack() as cleanup:
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
def ending() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise `SystemExit`, so that cleanup code runs.

    A signal that is ignored (nohup) or caught already keeps its handler; outside the main thread nothing changes.
    """

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    previous = dict[signal.Signals, Any]()
    if threading.current_thread() is threading.main_thread():
        numbers = (signal.SIGTERM, signal.SIGHUP)
        previous = {number: signal.SIG_DFL for number in numbers if signal.getsignal(number) is signal.SIG_DFL}
    for number in previous:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
