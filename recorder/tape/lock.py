"""The lock on a tape: one writer at a time, by whatever name the tape is called. Readers are never hindered.

The file itself is locked, so that neither a hard link nor a removed lock file lets a second writer in: one byte of it,
far beyond those that SQLite locks. On Linux that is an open file description lock, which lasts until its descriptor is
closed, whatever else this process opens and closes; elsewhere it is a POSIX record lock. Both work on NFS, unlike a
lock on the whole file, which a network server (and macOS) would hold against SQLite's own. A second byte carries a
POSIX lock that excludes nobody: the kernel tells from it which process holds the tape now.

Beside the tape, `<tape>.lock` is locked as a whole. It says in words who holds the tape, and older recorders look at
nothing else. The operating system frees all of them when the holder dies. `Watch` notices when the files themselves are
removed, replaced or cut short under their writer.

The lock file also says where other recorders join: the path of a Unix socket, which a relay enters before it starts a
writer (`meet`), so that of several that start at once one starts a writer and the others wait at its socket. The path
outlives its relay; that nobody listens there any more tells that.
"""

import contextlib
import fcntl
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from recorder.errors import TapeBusy, TapeError, TapeGone
from recorder.tape.journal import PROTOCOL

TEXT_SUFFIX: Final = ".jsonl"
"""What the name of a tape that is text ends with; a database of such a name would be read as one, and is refused."""

_TRIES = 10
_TRY_SECONDS = 0.02
_HELD_BYTE = 1 << 62
_HOLDER_BYTE = _HELD_BYTE + 1
_COMMAND_LENGTH = 100
_UNKNOWN = "another wiretape"
_FLOCK = "hhqqi4x"
"""struct flock: type, whence, start, length, pid. Other systems order it otherwise, and Python does not tell how."""
_HAS_DESCRIPTION_LOCKS = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")


def _take_whole(descriptor: int, *, shared: bool = False) -> None:
    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _take_byte(descriptor: int) -> None:
    if _HAS_DESCRIPTION_LOCKS:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _write_lock(_HELD_BYTE))
    else:  # pragma: no cover
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _HELD_BYTE)


def _name_holder(descriptor: int) -> None:
    if not _HAS_DESCRIPTION_LOCKS:  # pragma: no cover - what SQLite drops includes the lock itself
        _take_byte(descriptor)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _HOLDER_BYTE)


def _is_taken(descriptor: int) -> bool:
    if not _HAS_DESCRIPTION_LOCKS:  # pragma: no cover
        return _holder_pid(descriptor) is not None
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _write_lock(_HELD_BYTE))
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def _holder_pid(descriptor: int) -> int | None:
    if sys.platform != "linux":  # pragma: no cover
        return None
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, _write_lock(_HOLDER_BYTE)))
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


def _write_lock(byte: int) -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)


class Lock:
    """The lock of one tape, held by this process."""

    def __init__(self, tape: Path, purpose: str, descriptor: int, meeting: Path | None = None) -> None:
        self._tape = tape
        self._purpose = purpose if "(pid " in purpose else f"{purpose} (pid {os.getpid()})"
        self._beside = descriptor
        self._meeting = meeting
        self._file: int | None = None

    @contextlib.contextmanager
    def on_file(self) -> Iterator[None]:
        """Lock the tape's file as well, which exists by now. Raises `TapeBusy`.

        Enter this before SQLite opens the file and leave it after SQLite has closed it: on some systems, a process that
        closes any descriptor of a file loses SQLite's locks on it.
        """
        try:
            descriptor = os.open(self._tape, os.O_RDWR | os.O_NOFOLLOW)
        except OSError as error:
            raise TapeBusy(f"{self._tape} cannot be opened ({error.strerror}): use another tape") from error
        try:
            with contextlib.suppress(OSError):  # a file system without such locks: the lock file has to do
                try:
                    _in_time(lambda: _take_byte(descriptor))
                except (BlockingIOError, PermissionError) as error:
                    raise _busy(self._tape, _describe(descriptor, None)) from error
            self._file = descriptor
            yield
        finally:
            self._file = None
            os.close(descriptor)

    def renew(self) -> None:
        """Name this process as the holder again, and put the lock file back if it was removed.

        SQLite's first transactions drop the name. Raises `TapeGone` if somebody else has taken the lock file.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):  # it is only for messages
                _name_holder(self._file)
        path = lock_of(self._tape)
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(self._beside)):
                return
        descriptor = _open(path)
        try:
            _take_whole(descriptor)
        except OSError as error:
            holder = _lines(descriptor)[0] or _UNKNOWN
            os.close(descriptor)
            raise TapeGone(f"{path} was removed, and {holder} has taken it: nothing more is stored") from error
        os.dup2(descriptor, self._beside, inheritable=False)
        os.close(descriptor)
        self.write_holder()

    def write_holder(self, purpose: str | None = None) -> None:
        """Write into the lock file who holds it, for what `purpose` from now on, and where others join."""
        self._purpose = purpose or self._purpose
        _write(self._beside, self._purpose, self._meeting)


def _write(descriptor: int, words: str, meeting: Path | None) -> None:
    joining = "" if meeting is None else f"{PROTOCOL} {meeting}\n"
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same, and says less
        # Never empty: others read it at any moment. They go by lines, so that what was longer does no harm.
        os.ftruncate(descriptor, os.pwrite(descriptor, f"{words}\n{os.getpid()}\n{joining}".encode(), 0))


def meet(tape: Path, words: str = "", own: Path | None = None, dead: Path | None = None) -> Path | None:
    """Return the socket at which to join whoever writes a tape, or is about to; None if nobody is known to.

    Then others find the socket `own` from now on: this process is about to start a writer, which `words` describe.
    `dead` is a socket at which nobody listens. Raises `TapeBusy` if somebody has the tape who cannot be joined.
    """
    path = lock_of(tape)
    is_new = own is not None and path.parent.is_dir() and not tape.exists() and tape.suffix != TEXT_SUFFIX
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if is_new else 0), 0o600)
    except OSError:
        return None  # there is no lock yet, or the writer will say what is wrong with it
    try:
        is_held = not _takes(descriptor)
        if is_held and not _lines(descriptor)[2]:  # nobody can join who holds it; or somebody only asks, for a blink
            is_held = not _takes(descriptor, _TRIES)
        meeting = _meeting(tape, descriptor, is_held=is_held)
        if meeting == own or (meeting == dead and not is_held):
            meeting = None
        if own is not None and not is_held and meeting is None:
            _write(descriptor, words, own)
        return meeting
    finally:
        os.close(descriptor)


def _takes(descriptor: int, tries: int = 0) -> bool:
    try:
        _in_time(lambda: _take_whole(descriptor), tries)
    except OSError:
        return False
    return True


def _meeting(tape: Path, descriptor: int, *, is_held: bool) -> Path | None:
    """Return the socket that a lock file names. Raises `TapeBusy` where it `is_held` by who cannot be joined."""
    protocol, _, socket = _lines(descriptor)[2].partition(" ")
    if protocol == PROTOCOL and socket:
        return Path(socket)
    if not is_held:
        return None
    with _opened(tape) as file:
        raise _busy(tape, _describe(file, descriptor), "another version of wiretape, " if socket else "")


@contextlib.contextmanager
def held(tape: Path, purpose: str, meeting: Path | None = None) -> Iterator[Lock]:
    """Hold the lock beside a tape for the length of the block; raises `TapeBusy`, with the holder, if it is taken.

    `Lock.on_file` locks the tape itself, once it exists. Others can join at the socket `meeting`.
    """
    descriptor = _open(lock_of(tape))
    try:
        try:
            _in_time(lambda: _take_whole(descriptor))
        except OSError as error:
            with _opened(tape) as file:
                raise _busy(tape, _describe(file, descriptor)) from error
        lock = Lock(tape, purpose, descriptor, meeting)
        lock.write_holder()
        try:
            yield lock
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def lock_of(tape: Path) -> Path:
    """Return the path of a tape's lock file: beside the file itself, by whatever symbolic link it is called."""
    tape = tape.resolve()
    return tape.with_name(tape.name + ".lock")


def holder(tape: Path) -> str:
    """Return who holds a tape's lock now, in words; empty if nobody does.

    Call it only while this process has no SQLite connection to the tape: it opens and closes the file.
    """
    with _opened(lock_of(tape)) as beside, _opened(tape) as file:
        if file is not None and _is_taken(file):
            return _describe(file, beside)
        if beside is None:
            return ""
        try:  # a recorder of an older version locks nothing else; asking takes its lock for a moment
            _take_whole(beside, shared=True)
        except OSError:
            return _lines(beside)[0] or _UNKNOWN
        return ""


def _describe(file: int | None, beside: int | None) -> str:
    """Return who holds a tape that is known to be held.

    The lock file may have the words of an earlier holder, or be gone: its words count only if they name the process
    that holds the tape now; otherwise its command line does.
    """
    pid = _holder_pid(file) if file is not None else None
    words, written_by, _ = ("", "0", "") if beside is None else _lines(beside)
    if pid is None or written_by == str(pid):
        return words or _UNKNOWN
    return _command(pid) or f"process {pid}"


def _lines(descriptor: int) -> list[str]:
    """Return what a lock file says: in words who wrote it, its process, and where others join."""
    return [*os.pread(descriptor, 4096, 0).decode("utf-8", "replace").strip().split("\n"), "", ""][:3]


def _command(pid: int) -> str:
    """Return what a process does, where the system tells: a writer's last argument says it in words."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return ""
    if "recorder.tape.writer" in arguments:
        return arguments[-1]
    return f"process {pid} ({' '.join(arguments)[:_COMMAND_LENGTH]})"


def _in_time(take: Callable[[], None], tries: int = _TRIES) -> None:
    """Try for a moment: whoever only asks who holds the lock has it for a blink."""
    for _ in range(tries):
        with contextlib.suppress(OSError):
            return take()
        threading.Event().wait(_TRY_SECONDS)
    take()


def _busy(tape: Path, holder: str, kind: str = "") -> TapeBusy:
    return TapeBusy(f"{tape} is being written by {kind}{holder}: stop it, or use another tape")


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise TapeBusy(f"{path} cannot be opened ({error.strerror}): record to another tape with --db") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Open a file for asking who has locked it; None if that cannot be."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class LogGone(TapeError):
    """The tape's `-wal` or `-shm` was removed or replaced: what they hold can still be saved by their connection."""


Identity = tuple[int, int]
"""Device and inode: what tells a file from another that has taken its name."""


def identity(path: Path) -> Identity | None:
    """Return the identity of the file at `path`; None if there is none.

    Only its status is read: to open a tape and close it again would drop the locks that SQLite holds on it.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Watch:
    """The files of a tape that is open for writing, as they were at the start.

    SQLite keeps on writing to files that have lost their names: what it commits then is gone when it closes them. A
    writer checks them after each commit, so that nothing is acknowledged that has no name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        logs = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]
        self._tape, self._logs = identity(path), {log: identity(log) for log in logs}

    def check(self, pages_bytes: int) -> None:
        """Raise `TapeGone` or `LogGone` if a file is not the one that it was.

        `pages_bytes` is the size of the database as SQLite sees it. The file may be smaller until the next checkpoint,
        but it never shrinks below what it was, unless the database shrinks too.
        """
        try:
            status = self._path.stat()
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._tape:
            raise TapeGone(f"{self._path} was removed or replaced while it was recorded: nothing more is stored")
        if status.st_size < min(self._size, pages_bytes):
            raise TapeGone(f"{self._path} was cut short while it was recorded: nothing more is stored")
        self._size = status.st_size
        for log, expected in self._logs.items():
            if identity(log) != expected:
                raise LogGone(f"{log} was removed or replaced while it was recorded")
