"""An advisory lock on a file of its own, which says who holds it. The operating system frees it when the holder dies."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from recorder.errors import TapeBusy

if os.name == "nt":  # pragma: no cover
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def held(path: Path, purpose: str) -> Iterator[None]:
    """Hold the lock for the length of the block; raises `TapeBusy`, with the holder's purpose, if somebody has it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        _take_or_explain(descriptor, path)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{purpose}\n".encode())
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(path: Path) -> str:
    """Give what the lock's holder said of itself; empty if nobody holds it or nothing was said."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _take_or_explain(descriptor: int, path: Path) -> None:
    try:
        _take(descriptor)
    except OSError as error:
        by = holder(path) or "another wiretape"
        raise TapeBusy(f"{path.with_suffix('')} is being written by {by}: stop it, or use another tape") from error
