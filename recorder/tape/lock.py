"""The lock on a tape: one writer at a time, under all names of the tape. Readers are never hindered.

What is locked:

- The tape's file itself, so that neither a hard link nor a removed lock file lets a second writer in: one byte of it,
  far beyond those that SQLite locks. On Linux that is an open file description lock, which lasts until its descriptor
  is closed, also if this process closes others of the file; elsewhere it is a POSIX record lock. Both work on NFS,
  unlike a lock on the whole file, which a network server (and macOS) would hold against SQLite's own.
- A second byte of it, by a POSIX lock that excludes nobody: from it the kernel reports the process that holds the tape.
- `<tape>.lock` as a whole, which describes the holder of the tape in words. If it is removed or replaced, a writer that
  has the lock on the tape itself goes on, and puts it back as soon as no other process has it.

The operating system frees all of them when the holder dies. `FileWatch` notices when the tape's files are removed,
replaced or cut short under their writer.

Who starts the writer: the lock file also names the Unix socket of the tape's writer, the one way to it. A client that
finds the lock free takes it (`claim`), names a socket that it already listens at (`Claim.name`), and hands both to the
writer that it starts. So the lock is never free between the two, and of several clients that start at once one starts
the writer.
"""

import contextlib
import fcntl
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from wiretape.recorder import paths
from wiretape.recorder.errors import ForeignFile, TapeBusy, TapeError, TapeGone
from wiretape.recorder.tape.journal import PROTOCOL

TEXT_SUFFIX: Final = ".jsonl"
"""Suffix of a tape in text form; a database of such a name is refused, as it would be read as text."""

SOCKET_DIRECTORY: Final = "wiretape-"
"""Prefix of the private directory of a writer's socket."""
SOCKET_NAME: Final = "writer"

_NEW = "new"
_TRIES = 10
_HELD_BYTE = 1 << 62
"""Locked by the holder: SQLite locks bytes at 1 GiB, and no file of ours reaches this one."""
_HOLDER_BYTE = _HELD_BYTE + 1
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


def _holder_pid(descriptor: int) -> int | None:
    if sys.platform != "linux":  # pragma: no cover
        return None
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, _write_lock(_HOLDER_BYTE)))
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


def _write_lock(byte: int) -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)


class Lock:
    """The lock of one tape, held by this process."""

    def __init__(self, tape: Path, purpose: str, descriptor: int, socket: Path | None = None) -> None:
        self._tape = tape
        self._purpose = purpose if "(pid " in purpose else f"{purpose} (pid {os.getpid()})"
        self._beside = descriptor
        self._socket = socket
        self._file: int | None = None
        self._has_file = False

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
                    self._has_file = True
                except (BlockingIOError, PermissionError) as error:
                    raise _busy(self._tape, _describe(descriptor, None)) from error
            self._file = descriptor
            yield
        finally:
            self._file = None
            os.close(descriptor)

    def renew(self) -> None:
        """Name this process as the holder again, and put the lock file back if it was removed.

        SQLite's first transactions drop the name. Raises `TapeGone` if another process has the lock file and may write.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):  # the text is only for messages
                if not _HAS_DESCRIPTION_LOCKS:  # pragma: no cover - SQLite drops the lock itself, too
                    _take_byte(self._file)
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _HOLDER_BYTE)
        path = lock_of(self._tape)
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(self._beside)):
                return
        try:
            descriptor = _open(path)
        except TapeBusy:
            if self._has_file:
                return
            raise
        try:
            _take_whole(descriptor)
            os.dup2(descriptor, self._beside, inheritable=False)
            self.write_holder()
        except OSError as error:
            if not self._has_file:
                reason = f"{path} was removed, and {_LockText.of(descriptor).purpose or _UNKNOWN} has taken it"
                raise TapeGone(f"{reason}: nothing more is stored") from error
        finally:
            os.close(descriptor)

    def write_holder(self, purpose: str | None = None) -> None:
        """Name this process in the lock file, with its `purpose` from now on, and the writer's socket."""
        self._purpose = purpose or self._purpose
        _write(self._beside, self._purpose, self._socket)

    def empty(self) -> None:
        """Clear the holder's name."""
        os.ftruncate(self._beside, 0)


def _write(descriptor: int, words: str, socket: Path | None, *, is_new: bool = False) -> None:
    joining = "" if socket is None else f"{PROTOCOL} {socket}\n{_NEW if is_new else ''}\n"
    with contextlib.suppress(OSError):  # a full disk: the lock holds without its text
        # Never empty: others read it at any moment. They read lines, so that a remainder of a longer text does no harm.
        os.ftruncate(descriptor, os.pwrite(descriptor, f"{words}\n{os.getpid()}\n{joining}".encode(), 0))


class Claim:
    """The lock of a tape without a writer yet, for handing it over from the client that took it to that writer."""

    def __init__(self, tape: Path, descriptor: int, *, is_new: bool = False, socket: Path | None = None) -> None:
        self.tape, self.descriptor, self._is_new, self._socket = tape, descriptor, is_new, socket

    def name(self, words: str, socket: Path) -> None:
        """Name the socket of the writer, which `words` describe; a socket that a killed writer has left is removed."""
        previous, self._socket = self.socket, socket
        _write(self.descriptor, words, socket, is_new=self._is_new)
        if previous != socket:
            remove_socket(previous)

    @property
    def socket(self) -> Path:
        """The socket that the lock file names."""
        return self._socket or Path(_LockText.of(self.descriptor).address.partition(" ")[2])

    def free(self) -> None:
        """Remove the name and the socket of a writer after a failed start."""
        remove_socket(self.socket)
        os.ftruncate(self.descriptor, 0)

    def withdraw(self) -> None:
        """Remove the lock file if it was made for a tape that is refused now."""
        is_new = _LockText.of(self.descriptor).mark == _NEW
        with contextlib.suppress(OSError):
            lock_of(self.tape).unlink() if is_new else os.ftruncate(self.descriptor, 0)

    def close(self) -> None:
        """Close this process's descriptor: the lock lasts as long as another process has it."""
        os.close(self.descriptor)


def claim(tape: Path) -> Claim | Path:
    """Claim the lock of a tape without a writer, or return the socket of its writer.

    Raises `TapeBusy` for a tape that another kind of process holds, or as `check_place`.
    """
    check_place(tape)
    tape = paths.real(tape)  # a link is followed here, and nowhere else: later, anybody may have put it there
    path = lock_of(tape)
    is_new = not paths.exists(path)
    descriptor = _open(path)
    is_taken = False
    try:
        is_taken = _takes(descriptor)
        if not is_taken and not _LockText.of(descriptor).address:  # not joinable, or only queried for a moment
            is_taken = _takes(descriptor, _TRIES)
        return Claim(tape, descriptor, is_new=is_new) if is_taken else _socket(tape, descriptor)
    finally:
        if not is_taken:
            os.close(descriptor)


def check_place(tape: Path) -> None:
    """Raise `TapeBusy` if a tape cannot be written, `ForeignFile` if a new one has the name of a tape as text."""
    exists = paths.exists(tape)
    if not exists and tape.suffix == TEXT_SUFFIX:
        hint = f"name another, such as {tape.with_suffix('.db').name}; 'wiretape db cut' makes a text of a tape"
        raise ForeignFile(f"{tape} has the name of a tape as text, which is not recorded or copied to: {hint}")
    link, tape = tape, paths.real(tape)
    if reason := paths.refusal(tape):
        raise TapeBusy(f"{tape} cannot be written ({reason}): ask its owner, or record to another tape with --db")
    if paths.is_link(link) and not paths.exists(tape.parent):  # such as a missing disk: nothing takes its place
        raise TapeBusy(f"{link} is a link to {tape}, whose directory does not exist: make that, or name another --db")
    if paths.is_file(tape) and (not tape.stat().st_mode & 0o222 or not os.access(tape, os.W_OK)):
        raise TapeBusy(f"{tape} is read-only: make it writable, or record to another tape with --db")
    if paths.exists(tape.parent) and not os.access(tape.parent, os.W_OK):
        raise TapeBusy(f"{tape.parent} may not be written: record to another tape with --db")


def remove_socket(path: Path) -> None:
    """Remove the socket of a writer, if there is one, and its directory; anything else stays."""
    with contextlib.suppress(OSError):  # it has been removed, or something else has its name
        if path.name == SOCKET_NAME and path.parent.name.startswith(SOCKET_DIRECTORY):
            if path.is_socket():
                path.unlink()
            path.parent.rmdir()


def _takes(descriptor: int, tries: int = 0) -> bool:
    try:
        _in_time(lambda: _take_whole(descriptor), tries)
    except OSError:
        return False
    return True


def _socket(tape: Path, descriptor: int) -> Path:
    """Return the socket that a held lock file names. Raises `TapeBusy` if its holder cannot be joined."""
    protocol, _, socket = _LockText.of(descriptor).address.partition(" ")
    if protocol == PROTOCOL and socket:
        return Path(socket)
    with _descriptor_of(tape) as file:
        raise _busy(tape, _describe(file, descriptor), "another version of wiretape, " if socket else "")


@contextlib.contextmanager
def held(tape: Path, purpose: str) -> Iterator[Lock]:
    """Hold the lock beside a tape for the length of the block; raises `TapeBusy`, with the holder, if it is taken.

    `Lock.on_file` locks the tape itself, once it exists.
    """
    descriptor = _open(lock_of(tape))
    try:
        try:
            _in_time(lambda: _take_whole(descriptor))
        except OSError as error:
            with _descriptor_of(tape) as file:
                raise _busy(tape, _describe(file, descriptor)) from error
        with _announced(Lock(tape, purpose, descriptor)) as lock:
            yield lock
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def adopted(claimed: Claim, purpose: str) -> Iterator[Lock]:
    """Hold the lock that a client has claimed for this process, for the length of the block."""
    with _announced(Lock(claimed.tape, purpose, claimed.descriptor, claimed.socket)) as lock:
        yield lock


@contextlib.contextmanager
def _announced(lock: Lock) -> Iterator[Lock]:
    lock.write_holder()
    try:
        yield lock
    finally:
        lock.empty()


def lock_of(tape: Path) -> Path:
    """Return the path of a tape's lock file: beside the file itself, not beside a symbolic link to it."""
    tape = paths.real(tape)
    return tape.with_name(tape.name + ".lock")


def holder(tape: Path) -> str:
    """Return a description of the holder of a tape's lock; empty if nobody holds it.

    Call it only while this process has no SQLite connection to the tape: it opens and closes the file.
    """
    with _descriptor_of(lock_of(tape)) as beside, _descriptor_of(tape) as file:
        if file is not None:
            if _HAS_DESCRIPTION_LOCKS:
                answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _write_lock(_HELD_BYTE))
                is_taken = struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK
            else:  # pragma: no cover
                is_taken = _holder_pid(file) is not None
            if is_taken:
                return _describe(file, beside)
        if beside is None:
            return ""
        try:  # a writer that starts has nothing else yet; asking takes its lock for a moment
            _take_whole(beside, shared=True)
        except OSError:
            return _LockText.of(beside).purpose or _UNKNOWN
        return ""


def _describe(file: int | None, beside: int | None) -> str:
    """Return a description of the holder of a tape that is known to be held.

    The lock file may have the words of an earlier holder, or be gone: its words count only if they name the process
    that holds the tape now; otherwise its command line does.
    """
    pid = _holder_pid(file) if file is not None else None
    text = _LockText("", "0", "", "") if beside is None else _LockText.of(beside)
    if pid is None or text.pid == str(pid):
        return text.purpose or _UNKNOWN
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return f"process {pid}"
    if "wiretape.recorder.tape.writer" in arguments:
        return arguments[-1]  # its purpose
    return f"process {pid} ({' '.join(arguments)[:100]})"


class _LockText(NamedTuple):
    """The lines of a lock file; `address` is the writer's protocol and socket, `mark` is `_NEW` or empty."""

    purpose: str
    pid: str
    address: str
    mark: str

    @classmethod
    def of(cls, descriptor: int) -> "_LockText":
        """Read a lock file."""
        return cls(*[*os.pread(descriptor, 4096, 0).decode("utf-8", "replace").split("\n"), "", "", ""][:4])


def _in_time(take: Callable[[], None], tries: int = _TRIES) -> None:
    """Try for a moment: a process that only queries the holder has the lock for a very short time."""
    for _ in range(tries):
        with contextlib.suppress(OSError):
            return take()
        threading.Event().wait(0.02)
    take()


def _busy(tape: Path, holder: str, kind: str = "") -> TapeBusy:
    return TapeBusy(f"{tape} is being written by {kind}{holder}: stop it, or use another tape")


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        cure = paths.shortage(path) or "record to another tape with --db"
        raise TapeBusy(f"{path} cannot be opened ({error.strerror}): {cure}") from error


@contextlib.contextmanager
def _descriptor_of(path: Path) -> Iterator[int | None]:
    """Open a file for querying its lock; None if it cannot be opened."""
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
    """The tape's `-wal` or `-shm` was removed or replaced: the open connection can still save their contents."""


Identity = tuple[int, int]
"""Device and inode: they distinguish a file from another that has taken its name."""


def identity(path: Path) -> Identity | None:
    """Return the identity of the file at `path`; None if there is none.

    Only its status is read: to open a tape and close it again would drop the locks that SQLite holds on it.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class FileWatch:
    """The files of a tape that is open for writing, as they were at the start.

    SQLite keeps on writing to files that have lost their names: its commits are gone when it closes them. A
    writer checks them after each commit, so that nothing is acknowledged that has no name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        logs = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]
        self._tape, self._logs = identity(path), {log: identity(log) for log in logs}

    def check(self, pages_bytes: int) -> None:
        """Raise `TapeGone` or `LogGone` if a file was removed, replaced or cut short.

        `pages_bytes` is the size of the database as SQLite sees it. The file may be smaller until the next checkpoint,
        but it never shrinks below its earlier size, unless the database shrinks too.
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
