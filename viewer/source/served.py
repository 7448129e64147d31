"""The address of the live pages of a tape, for the viewer: in a private file as long as they are served.

It stands in the user's runtime directory, which no other user can read; without that directory there is none. The
server holds a lock on it, so that the file of a killed server counts as none.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from wiretape.recorder.tape.lock import identity


@contextlib.contextmanager
def announced(tape: Path, url: str) -> Iterator[None]:
    """Keep the address of the page of all exchanges of a tape, unless another server has done so."""
    path = _path(tape)
    with contextlib.ExitStack() as cleanup:
        with contextlib.suppress(OSError):  # the viewer writes a page instead
            if path is not None:
                path.parent.mkdir(mode=0o700, exist_ok=True)
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                cleanup.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                cleanup.callback(os.ftruncate, file, 0)
                os.ftruncate(file, 0)
                os.write(file, url.encode())
        yield


def address(tape: Path) -> str | None:
    """Return the address of the live page of all exchanges of a tape; None if none are served."""
    path = _path(tape)
    try:
        with open(path or os.devnull, opener=lambda name, _: os.open(name, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # the server runs
        return None if path is None else path.read_text("utf-8") or None
    except OSError:
        return None
    return None


def _path(tape: Path) -> Path | None:
    runtime, file = os.environ.get("XDG_RUNTIME_DIR"), identity(tape)
    return Path(runtime, "wiretape", f"pages-{file[0]:x}-{file[1]:x}") if runtime and file is not None else None
