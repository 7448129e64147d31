"""A client's link to the writer of its tape: over the socket that the lock file names.

Recorders and their workers are clients alike. One that finds the tape without a writer starts it, at the beginning and
after a writer's death, and passes it the tape's lock and a listening socket (`wiretape.recorder.tape.lock.claim`).
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wiretape.recorder import children
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import TapeBusy, WriterFailed
from wiretape.recorder.relay import local
from wiretape.recorder.tape import channels, journal, lock
from wiretape.recorder.tape.lock import Claim, Identity


class Link:
    """A connection to a writer; `process` is the writer's, if this client has started it."""

    def __init__(
        self, answers: "_Answers", sink: asyncio.WriteTransport, process: "subprocess.Popen[bytes] | None"
    ) -> None:
        self._answers, self.sink, self._process = answers, sink, process
        self.answers = answers.reader

    @property
    def pid(self) -> int | None:
        """The writer's process, if this client has started it."""
        return self._process.pid if self._process else None

    @property
    def is_over(self) -> bool:
        """True if the connection is closed in both directions."""
        return self._answers.closed.is_set()

    def end(self) -> None:
        """Send the end of file; answers can still be received."""
        with contextlib.suppress(OSError, RuntimeError):  # the writer has closed it, or died
            self.sink.write_eof()

    def kill(self) -> None:
        """Break the connection, and kill the writer if this client has started it: others start the next one."""
        if self._process is not None and not self.is_over:
            self._process.kill()
        self.sink.abort()

    async def wait(self) -> None:
        """Wait until the writer has closed the connection. Raises `TimeoutError`."""
        self.sink.close()
        async with asyncio.timeout(5.0):
            await self._answers.closed.wait()

    async def wait_or_kill(self) -> None:
        """Wait until a writer that answers no more has ended; kill it if that takes too long."""
        try:
            await self.wait()
        except TimeoutError:
            self.kill()
            await self.wait()


async def read_answer(answers: asyncio.StreamReader) -> journal.Answer | None:
    """Wait for a writer's next answer; None at its end, even if that came in the middle of a line.

    Raises `WriterFailed` for anything that is no answer: the committed frames are unknown then.
    """
    try:
        line = await answers.readline()
        return journal.decode_answer(line) if line.endswith(b"\n") else None
    except (ValueError, msgspec.MsgspecError) as error:  # a line that is too long, or junk
        raise WriterFailed(f"the writer process sent an invalid answer: {error}") from error


class _Answers(asyncio.StreamReaderProtocol):
    """The answers of a writer: all that came before it died can be read."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(journal.ANSWER_BYTES)
        super().__init__(self.reader)
        self.closed = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(None)
        self.closed.set()


async def reach(tape: Path, purpose: str, tape_identity: Identity | None = None) -> Link:
    """Connect to the writer of a tape, and start one if there is none, for a `purpose` in words.

    `tape_identity` is known after a writer's death. Raises `TapeBusy`, `ForeignFile`, `WriterFailed` if no writer can
    be started, `OSError` if a writer cannot be connected to.
    """
    try:
        claim = await asyncio.to_thread(lock.claim, tape)
    except TapeBusy as error:
        if isinstance(error.__cause__, OSError) and local.is_local(error.__cause__):
            raise _not_started(error.__cause__) from error
        raise
    if isinstance(claim, Path):
        return await _connect(claim)
    process = None
    with contextlib.closing(claim):
        try:
            with listen(claim.tape) as listener:
                path = Path(listener.getsockname())
                claim.name(purpose, path)
                identities = () if tape_identity is None else (str(tape_identity),)
                process = _start(claim, listener, (str(claim.tape), *identities, purpose))
                return await _connect(path, process)
        except OSError as error:
            if process is not None:
                process.kill()
            claim.free()
            raise _not_started(error) from error


def _not_started(error: OSError) -> WriterFailed:
    return WriterFailed(f"the writer process cannot be started: {local.cause(error)}")


def _start(claimed: Claim, listener: socket.socket, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a writer, which gets the lock and the socket.

    Not by asyncio: that would kill a writer which goes on for others when this client ends.
    """
    passed = claimed.descriptor, listener.fileno()
    process = subprocess.Popen(
        [*children.python("-m", "wiretape.recorder.tape.writer"), *map(str, passed), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=children.environment(),
        start_new_session=True,
        pass_fds=passed,
    )
    threading.Thread(target=process.wait, daemon=True).start()  # else it would remain as a zombie
    return process


async def _connect(path: Path, process: "subprocess.Popen[bytes] | None" = None) -> Link:
    answers = _Answers()
    sink, _ = await asyncio.get_running_loop().create_unix_connection(lambda: answers, str(path))
    if not channels.is_ours(sink.get_extra_info("socket")):
        sink.abort()
        raise PermissionError(errno.EACCES, "it is another user's")
    return Link(answers, sink, process)


def listen(tape: Path) -> socket.socket:
    """Return a listening socket in a private directory, for the writer of a tape. Raises `OSError`.

    Where nothing temporary can be made, as on a read-only root, it is beside the tape, which can be written.
    """
    listener, path = socket.socket(socket.AF_UNIX), None
    most_bytes = 50  # a socket's name may have 100 bytes on all systems, and our part of it needs some
    try:
        try:
            directory = tempfile.gettempdir()
        except FileNotFoundError as error:
            directory = str(tape.parent)
            if len(directory) >= most_bytes:
                raise OSError(errno.EROFS, "nothing temporary can be made: set TMPDIR to a directory") from error
        directory = directory if len(directory) < most_bytes else "/tmp"
        _remove_abandoned(Path(directory))
        path = Path(tempfile.mkdtemp(prefix=lock.SOCKET_DIRECTORY, dir=directory), lock.SOCKET_NAME)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(128)
    except OSError:
        listener.close()
        if path is not None:
            lock.remove_socket(path)
        raise
    return listener


def _remove_abandoned(directory: Path) -> None:
    """Remove the sockets of this user's killed writers, with their directories, from a directory."""
    for path in directory.glob(f"{lock.SOCKET_DIRECTORY}*/{lock.SOCKET_NAME}"):
        with contextlib.suppress(OSError):  # another start has just removed it
            status, parent = path.lstat(), path.parent.lstat()
            is_old = SYSTEM.wall_ns() - parent.st_mtime_ns > 10_000_000_000  # else its process may be starting
            is_ours = {status.st_uid, parent.st_uid} == {os.getuid()} and stat.S_ISDIR(parent.st_mode)
            if is_old and is_ours and stat.S_ISSOCK(status.st_mode) and _is_deserted(path):
                lock.remove_socket(path)


def _is_deserted(path: Path) -> bool:
    """Return True if a socket has no listener."""
    with socket.socket(socket.AF_UNIX) as trying:
        trying.setblocking(False)
        return trying.connect_ex(str(path)) == errno.ECONNREFUSED


def unreachable(tape: Path, cause: str) -> TapeBusy:
    """Return the error for a tape whose writer cannot be connected to."""
    holder = lock.holder(tape) or "another recorder"
    return TapeBusy(
        f"{tape} is being written by {holder}, which cannot be joined ({cause}): stop it, or use another tape"
    )
