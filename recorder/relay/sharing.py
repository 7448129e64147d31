"""How several relays share one writer: their connections to it, and the sum of what those of a recorder know."""

import asyncio
import contextlib
import errno
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec

from recorder import children
from recorder.errors import WriterFailed
from recorder.relay import local
from recorder.tape import channels, journal
from recorder.tape.losses import Counts, Unstored

_BACKLOG = 128
_EXIT_SECONDS = 5.0
_LOOK_SECONDS = 0.005
_NAME_BYTES = 100
"""The name of a Unix socket is shorter than this everywhere."""


class Share(msgspec.Struct, frozen=True):
    """What one relay knows of a recording.

    `waiting_ns` is how long the oldest frame has waited to be stored, `silent_ns` for how long nothing was
    acknowledged meanwhile; `lacking`: an exchange that is running lacks a part of what was relayed.
    """

    counts: Counts
    unstored: Unstored
    waiting_ns: int = 0
    lacking: bool = False
    live: int = 0
    silent_ns: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A relay's place among those of its recorder; the default is that of the only one.

    A recorder has one relay that ends its session, to which `others` returns what the workers know. A worker never
    starts a writer; `on_share` gets, again and again, what it knows itself.
    """

    is_worker: bool = False
    others: Callable[[], Sequence[Share]] = lambda: ()
    on_share: Callable[[Share], None] = lambda _: None


def total(shares: Sequence[Share]) -> Share:
    """Return what the relays know together; the first is the one that ends the session."""
    first, *others = shares
    if not others:
        return first
    unstored = msgspec.structs.replace(
        first.unstored,
        exchanges=[one for share in shares for one in share.unstored.exchanges],
        unlisted=sum(share.unstored.unlisted for share in shares),
        unlisted_bytes=sum(share.unstored.unlisted_bytes for share in shares),
    )
    return Share(
        _sum([share.counts for share in shares]),
        unstored,
        max(share.waiting_ns for share in shares),
        any(share.lacking for share in shares),
        sum(share.live for share in shares),
        max(share.silent_ns for share in shares),
    )


def _sum(parts: Iterable[Counts]) -> Counts:
    """Add up counts; what is no sum is the first's, but for the lag, which is the longest."""
    first, *others = parts
    added = {
        field.name: sum((getattr(one, field.name) for one in others), getattr(first, field.name))
        for field in fields(Counts)
        if field.name not in ("restarts", "trouble", "lag_ns")
    }
    lag_ns = max(first.lag_ns, *(one.lag_ns for one in others))
    return Counts(**added, restarts=first.restarts, trouble=first.trouble, lag_ns=lag_ns)


def listener() -> socket.socket:
    """Return a socket that other relays of this user can connect to; `recorder.tape.channels.remove` removes it.

    Raises `WriterFailed`.
    """
    sock, path = socket.socket(socket.AF_UNIX), None
    try:
        there = tempfile.gettempdir()
        there = there if len(there) < _NAME_BYTES // 2 else "/tmp"
        channels.remove_left(Path(there))
        path = Path(tempfile.mkdtemp(prefix="wiretape-", dir=there), "writer")
        sock.bind(str(path))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        if path is not None:
            channels.remove(path)
        raise WriterFailed(f"the socket of the writer cannot be made: {local.cause(error)}") from error
    return sock


class Link:
    """A connection to a writer; `process` is the writer's, where it was started here."""

    def __init__(
        self, answers: "_Answers", sink: asyncio.WriteTransport, process: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        self._answers, self.sink, self._process = answers, sink, process
        self.stdout = answers.reader
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The writer's process, where it was started here."""
        return self._process.pid if self._process else None

    @property
    def is_joined(self) -> bool:
        """Whether somebody else started the writer."""
        return self._process is None

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be sent or heard."""
        return self._is_closed if self._process is None else self._process.poll() is not None

    def end(self) -> None:
        """Send the end of file; answers still come."""
        if self._process is not None:
            self.sink.close()
            return
        with contextlib.suppress(OSError, RuntimeError):  # the writer has closed it, or died
            self.sink.write_eof()

    def kill(self) -> None:
        """Kill the writer, or break the connection to one that others have started."""
        if self._process is not None:
            self._process.kill()
        self.sink.abort()

    def release(self) -> None:
        """Leave the writer to those that it goes on for: it is not waited for, nor killed."""
        if self._process is not None:
            self._process.returncode = 0
        self._process = None

    async def wait(self) -> None:
        """Wait for the writer's end, once no more answers come; of one that others have started, close the connection.

        Raises `TimeoutError` if it takes its time.
        """
        self.sink.close()
        self._answers.close()
        async with asyncio.timeout(_EXIT_SECONDS):
            await self._answers.closed.wait()
            self._is_closed = True
            while not self.is_over:  # noqa: ASYNC110 - the end of a process has no event
                await asyncio.sleep(_LOOK_SECONDS)


class _Answers(asyncio.StreamReaderProtocol):
    """What a writer answers: all that came before it died can be read."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(journal.ANSWER_BYTES)
        super().__init__(self.reader)
        self.closed = asyncio.Event()
        self.close: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.close = transport.close

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(None)
        self.closed.set()


async def start(command: Sequence[str], passed: Sequence[int]) -> Link:
    """Start a writer, which keeps the descriptors `passed`. Raises `OSError`.

    Not by asyncio: that would kill a writer which goes on for others when this recorder ends.
    """
    process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own way takes as long
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=children.environment(),
        start_new_session=True,
        pass_fds=passed,
    )
    loop = asyncio.get_running_loop()
    answers = _Answers()
    await loop.connect_read_pipe(lambda: answers, process.stdout)
    sink, _ = await loop.connect_write_pipe(asyncio.Protocol, process.stdin)
    return Link(answers, sink, process)


async def join(path: Path) -> Link:
    """Connect to the writer that serves the socket at `path`. Raises `OSError`."""
    answers = _Answers()
    sink, _ = await asyncio.get_running_loop().create_unix_connection(lambda: answers, str(path))
    if not channels.is_ours(sink.get_extra_info("socket")):
        sink.abort()
        raise PermissionError(errno.EACCES, "it is another user's")
    return Link(answers, sink)
