"""The relays that one writer serves: the one that started it, over its standard streams, and others over a socket.

Each has frames, sequence numbers and acknowledgements of its own; what they bring shares transactions. They are of one
recorder with several workers, or of several recorders that record to one tape. The listening socket is private to the
user and belongs to the relay that starts the writers: it survives each of them, so that a relay whose writer has died
connects to the next one. A writer whose recorder has ended before others goes on for them, without its streams.
"""

import contextlib
import errno
import os
import socket
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from recorder.clock import SYSTEM
from recorder.process import boot_id, is_gone
from recorder.tape import journal

PIPE_READ = 1 << 18
_SEND_SECONDS = 2
"""A relay that does not take its answers for so long is not served any more."""
_LEFT_NS = 10_000_000_000
"""A socket at which nobody listens is left behind if it is this old: until then its process may just be making it."""
_CREDENTIALS = "3i"
"""struct ucred: pid, uid, gid."""

Taker = Callable[[tuple["Channel", bytes]], None]


class Channel:
    """One relay: its frames so far, and its exchanges that have begun (`open`) or ended (`ended`, not measured yet).

    `session` and its number are known once it is admitted; `has_left`: it said that it ends.
    """

    def __init__(self, source: int, sink: int, connection: socket.socket | None = None) -> None:
        self._source, self._sink, self._connection = source, sink, connection
        self.pid = peer(connection)[0] if connection is not None else None
        self.relay = journal.Relay("")
        self.session: journal.Session | None = None
        self.session_no = 0
        self.after = 0
        self.keep: journal.Keep | None = None
        self.buffer = bytearray()
        self.seq = self.committed = 0
        self.open: set[str] = set()
        self.ended: set[str] = set()
        self.has_left = self.is_over = self.is_verified = False

    def note(self, frame: journal.Frame) -> None:
        """Note which exchanges are this relay's."""
        match frame:
            case journal.End(id=id):
                self.open.discard(id)
                self.ended.add(id)
            case journal.Reads(runs=runs):
                self.open.update(run.id for run in runs)
            case journal.Begin(id=id) | journal.Upload(id=id) | journal.Uploaded(id=id) | journal.Head(id=id):
                self.open.add(id)
            case journal.Close() | journal.Left():
                self.has_left = True

    @property
    def is_joined(self) -> bool:
        """Whether it came over the socket."""
        return self._connection is not None

    @property
    def process(self) -> int:
        """The relay's process, or that of its recorder."""
        return self.pid or (self.session.pid if self.session else 0)

    def is_gone(self) -> bool:
        """Return whether its process is known to have ended."""
        return is_gone(self.process, boot_id())

    def will_return(self) -> bool:
        """Return whether it has only lost its connection: it has not said that it ends, and its process lives."""
        return self.is_joined and not self.has_left and not self.is_gone()

    def answer(self, what: journal.Answer) -> None:
        """Send an answer; that the relay is gone is no reason to stop storing."""
        data = journal.encode_answer(what)
        try:
            is_sent = os.write(self._sink, data) == len(data)
        except OSError:
            is_sent = False
        if not is_sent:
            self.break_off()

    def break_off(self) -> None:
        """Take nothing more of a relay that joined."""
        if self._connection is not None:
            with contextlib.suppress(OSError):  # the relay has left
                self._connection.shutdown(socket.SHUT_RDWR)

    def read(self, take: Taker) -> None:
        """Hand on what comes, and last an empty piece; meant for a thread."""
        piece = b"?"
        while piece:
            try:
                piece = os.read(self._source, PIPE_READ)
            except OSError:  # as when the relay was killed with answers unread
                piece = b""
            take((self, piece))

    def close(self) -> None:
        """Tell the relay that nothing more is to come."""
        if self._connection is not None:
            self._connection.close()
            return
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # whoever reads what the recorder prints waits for the end of it
            os.dup2(nowhere, stream)
        os.close(nowhere)


class Channels:
    """All relays of a writer; `first` is the one that started it."""

    def __init__(self, listener: socket.socket | None = None) -> None:
        self.first = Channel(0, 1)
        self.live = [self.first]
        self._listener = listener

    @property
    def meeting(self) -> Path | None:
        """The path of the socket at which others join."""
        return None if self._listener is None else Path(self._listener.getsockname())

    def listen(self, take: Taker) -> None:
        """Accept other relays, in a thread; call it when the tape can be written."""
        if self._listener is not None:
            threading.Thread(target=self._accept, args=(self._listener, take), daemon=True).start()

    def _accept(self, listener: socket.socket, take: Taker) -> None:
        while True:
            connection, _ = listener.accept()
            if not is_ours(connection):
                connection.close()
                continue
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
            channel = Channel(connection.fileno(), connection.fileno(), connection)
            self.live.append(channel)
            threading.Thread(target=channel.read, args=(take,), daemon=True).start()

    def mains(self) -> Iterator[Channel]:
        """Yield the relays that end their sessions, one for each recorder."""
        return (one for one in list(self.live) if one is self.first or (one.session and not one.relay.is_worker))

    def of(self, session_no: int) -> list[Channel]:
        """Return the relays of a session that are not over."""
        return [one for one in list(self.live) if one.session_no == session_no and not one.is_over]

    def owner(self, id: str) -> Channel:
        """Return the relay that an exchange is of; the first where that is not known."""
        return next((one for one in list(self.live) if id in one.open or id in one.ended), self.first)

    def answer(self, what: journal.Answer) -> None:
        """Answer all relays."""
        for channel in list(self.live):
            channel.answer(what)

    def tell(self, what: journal.Answer) -> None:
        """Answer all recorders, each once."""
        for channel in self.mains():
            channel.answer(what)

    def settled(self) -> Iterator[Channel]:
        """Yield the relays that are over and wait for nothing more."""
        return (one for one in list(self.live) if one.is_over and not one.ended)

    def close(self, channel: Channel) -> None:
        """End the connection with a relay."""
        self.live.remove(channel)
        channel.close()

    @property
    def is_over(self) -> bool:
        """Whether no relay is left; one that has not said what it is does not count."""
        return all(one.is_over for one in list(self.live) if one.session is not None or one is self.first)

    def is_deserted(self, parent: int) -> bool:
        """Return whether nobody is there any more to be answered: the process `parent` started this one."""
        joined = [one for one in list(self.live) if one.is_joined and one.session]
        return os.getppid() != parent and all(one.is_gone() for one in joined)


def peer(connection: socket.socket) -> tuple[int | None, int]:
    """Return process and user at the other end, where the system tells; else nobody, and this user.

    The directory of the socket is private.
    """
    if sys.platform != "linux":  # pragma: no cover
        return None, os.getuid()
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
    pid, user, _ = struct.unpack(_CREDENTIALS, credentials)
    return pid or None, user


def is_ours(connection: socket.socket) -> bool:
    """Return whether the same user is at the other end."""
    return peer(connection)[1] == os.getuid()


def remove_left(there: Path) -> None:
    """Remove the sockets, with their directories, that killed recorders of this user have left in a directory."""
    for path in there.glob("wiretape-*/writer"):
        with contextlib.suppress(OSError):  # another start has just removed it
            found, parent = path.lstat(), path.parent.lstat()
            is_old = SYSTEM.wall_ns() - parent.st_mtime_ns > _LEFT_NS
            is_ours = {found.st_uid, parent.st_uid} == {os.getuid()} and stat.S_ISDIR(parent.st_mode)
            if is_old and is_ours and stat.S_ISSOCK(found.st_mode) and _is_deserted(path):
                remove(path)


def _is_deserted(path: Path) -> bool:
    """Return True if nobody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as trying:
        trying.setblocking(False)
        return trying.connect_ex(str(path)) == errno.ECONNREFUSED


def remove(path: Path) -> None:
    """Remove a listening socket's name and its directory, which nobody else will."""
    with contextlib.suppress(OSError):  # the other of relay and writer has removed it
        path.unlink(missing_ok=True)
        path.parent.rmdir()
