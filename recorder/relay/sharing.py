"""How several relays share one writer: the socket between them, and the sum of what each of them knows."""

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec

from recorder.errors import WriterFailed
from recorder.relay import local
from recorder.tape import journal
from recorder.tape.losses import Counts, Unstored

_BACKLOG = 128
_NAME_BYTES = 100
"""The name of a Unix socket is shorter than this everywhere."""


class Share(msgspec.Struct, frozen=True):
    """What one relay knows of a recording.

    `waiting_ns` is how long the oldest frame has waited to be stored; `lacking`: an exchange that is running lacks a
    part of what was relayed.
    """

    counts: Counts
    unstored: Unstored
    waiting_ns: int = 0
    lacking: bool = False
    live: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A relay's place among those of its recorder; the default is that of the only one.

    With a `listener`, others can join the writer that this relay starts, and `others` returns what they know. Such a
    relay has that socket's path as `joins`, and `on_share` gets, again and again, what it knows itself.
    """

    listener: socket.socket | None = None
    others: Callable[[], Sequence[Share]] = lambda: ()
    joins: Path | None = None
    on_share: Callable[[Share], None] = lambda _: None


def total(shares: Sequence[Share]) -> Share:
    """Return what the relays know together; the first is the one that started the writer."""
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
    there = tempfile.gettempdir()
    sock = socket.socket(socket.AF_UNIX)
    try:
        directory = tempfile.mkdtemp(prefix="wiretape-", dir=there if len(there) < _NAME_BYTES // 2 else "/tmp")
        sock.bind(str(Path(directory) / "writer"))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise WriterFailed(f"the socket of the writer cannot be made: {local.cause(error)}") from error
    return sock


class Joined:
    """A connection to a writer that another process has started, used as that process uses the writer itself."""

    pid: int | None = None

    def __init__(self, stdout: asyncio.StreamReader, stdin: asyncio.StreamWriter) -> None:
        self.stdout, self.stdin = stdout, stdin
        self.returncode: int | None = None

    def end(self) -> None:
        """Send the end of file; answers still come."""
        with contextlib.suppress(OSError, RuntimeError):  # the writer has closed it, or died
            self.stdin.write_eof()

    def kill(self) -> None:
        """Break the connection."""
        self.stdin.transport.abort()

    async def wait(self) -> int:
        """Close the connection: once no more answers come, nothing else does."""
        self.stdin.close()
        self.returncode = 0
        with contextlib.suppress(OSError):  # the writer has died: closed all the same
            await self.stdin.wait_closed()
        return self.returncode


async def join(path: Path) -> Joined:
    """Connect to the writer that serves the socket at `path`. Raises `WriterFailed`."""
    try:
        return Joined(*await asyncio.open_unix_connection(path, limit=journal.ANSWER_BYTES))
    except OSError as error:
        raise WriterFailed(f"the writer cannot be reached: {local.cause(error)}") from error
