"""Directories of a process's own, removed at its end: also when it is told to end, and by the next one if it is killed.

A directory is held by a lock, which ends with the process.
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

from recorder.clock import SYSTEM
from recorder.errors import WiretapeError

_LEFT_NS = 10_000_000_000
"""A directory that nobody holds is removed when it is this old: until then its process may just be taking it."""


@contextlib.contextmanager
def directory(prefix: str, purpose: str) -> Iterator[Path]:
    """Make a directory, and remove it at the end. Those that killed processes left are removed, too.

    Raises `WiretapeError`, which names the purpose, where there is no place for it.
    """
    with ending(), contextlib.ExitStack() as opened:
        try:
            _remove_left(prefix)
            made = Path(tempfile.mkdtemp(prefix=prefix))
            opened.callback(shutil.rmtree, made, ignore_errors=True)
            lock = os.open(made, os.O_RDONLY)
            opened.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            cause = error.strerror or str(error)
            raise WiretapeError(f"no directory for {purpose} can be made ({cause}): set TMPDIR to a place") from error
        yield made


def _remove_left(prefix: str) -> None:
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # it is held, or another start has just removed it
            found = left.lstat()
            is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if not is_ours or SYSTEM.wall_ns() - found.st_mtime_ns < _LEFT_NS:
                continue
            lock = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(lock)


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise `SystemExit`, so that what was begun can be undone.

    Where they are ignored, as under nohup, or caught already, that stays; and signals are the main thread's.
    """

    def end(number: int, _: Any) -> None:
        sys.exit(128 + number)

    before = dict[signal.Signals, Any]()
    if threading.current_thread() is threading.main_thread():
        numbers = (signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.SIG_DFL for number in numbers if signal.getsignal(number) is signal.SIG_DFL}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
