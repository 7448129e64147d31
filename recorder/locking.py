"""An advisory lock on a file of its own that says who holds it; the operating system frees it when the holder dies."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from recorder.errors import TapeBusy

if os.name == "nt":  # pragma: no cover
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]

    _probe = _take
else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _probe(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


@contextlib.contextmanager
def held(path: Path, purpose: str) -> Iterator[None]:
    """Hold the lock for the length of the block; raises `TapeBusy`, with the holder's purpose, if somebody has it."""
    descriptor = _open(path)
    try:
        _take_or_explain(descriptor, path)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{purpose}\n".encode())
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(path: Path) -> str:
    """Give what the lock's holder says of itself; empty if nobody holds it: a dead holder's words stay in the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        _probe(descriptor)
    except OSError:
        return _said(descriptor)
    else:
        return ""
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise TapeBusy(f"{path} cannot be opened ({error.strerror}): record to another tape with --db") from error


def _take_or_explain(descriptor: int, path: Path) -> None:
    try:
        _take_in_time(descriptor)
    except OSError as error:
        tape = path.with_suffix("")
        raise TapeBusy(f"{tape} is being written by {_said(descriptor)}: stop it, or use another tape") from error


def _take_in_time(descriptor: int) -> None:
    """Try for a moment: whoever only asks who holds the lock has it for a blink."""
    for _ in range(10):
        with contextlib.suppress(OSError):
            return _take(descriptor)
        threading.Event().wait(0.02)
    _take(descriptor)


def _said(descriptor: int) -> str:
    return os.read(descriptor, 4096).decode("utf-8", "replace").strip() or "another wiretape"
