"""The relays that one writer serves: the one that started it, over its standard streams, and others over a socket.

Each has frames, sequence numbers and acknowledgements of its own; what they bring shares transactions. The listening
socket is private to the user and belongs to the relay that starts the writers: it survives each of them, so that a
relay whose writer has died connects to the next one.
"""

import contextlib
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from recorder.tape import journal

PIPE_READ = 1 << 18
_SEND_SECONDS = 2
"""A relay that does not take its answers for so long is not served any more."""
_CREDENTIALS = "3i"
"""struct ucred: pid, uid, gid."""

Taker = Callable[[tuple["Channel", bytes]], None]


class Channel:
    """One relay: its frames so far, and its exchanges that have begun (`open`) or ended (`ended`, not measured yet)."""

    def __init__(self, source: int, sink: int, connection: socket.socket | None = None) -> None:
        self._source, self._sink, self._connection = source, sink, connection
        self.buffer = bytearray()
        self.seq = self.committed = 0
        self.open: set[str] = set()
        self.ended: set[str] = set()
        self.is_over = False

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

    def answer(self, what: journal.Answer) -> None:
        """Send an answer; that the relay is gone is no reason to stop storing."""
        data = journal.encode_answer(what)
        try:
            is_sent = os.write(self._sink, data) == len(data)
        except OSError:
            is_sent = False
        if not is_sent and self._connection is not None:
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


class Channels:
    """All relays of a writer; `first` is the one that started it."""

    def __init__(self, listener: socket.socket | None = None) -> None:
        self.first = Channel(0, 1)
        self.live = [self.first]
        self.had_others = False
        self._listener = listener

    def listen(self, take: Taker) -> None:
        """Accept other relays, in a thread; call it when the tape can be written."""
        if self._listener is not None:
            threading.Thread(target=self._accept, args=(self._listener, take), daemon=True).start()

    def _accept(self, listener: socket.socket, take: Taker) -> None:
        while True:
            connection, _ = listener.accept()
            if not _is_ours(connection):
                connection.close()
                continue
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
            channel = Channel(connection.fileno(), connection.fileno(), connection)
            self.live.append(channel)
            self.had_others = True
            threading.Thread(target=channel.read, args=(take,), daemon=True).start()

    def owner(self, id: str) -> Channel:
        """Return the relay that an exchange is of; the first where that is not known."""
        return next((one for one in self.live if id in one.open or id in one.ended), self.first)

    def answer(self, what: journal.Answer) -> None:
        """Answer all relays."""
        for channel in list(self.live):
            channel.answer(what)

    def close_settled(self) -> None:
        """Close the channels that are over and wait for nothing more."""
        for channel in self.live[1:]:
            if channel.is_over and not channel.ended:
                self.live.remove(channel)
                channel.close()

    @property
    def is_over(self) -> bool:
        """Whether no relay is left."""
        return all(channel.is_over for channel in self.live)


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the same user is at the other end; where the system does not tell, the directory is private."""
    if sys.platform != "linux":  # pragma: no cover
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
    return bool(struct.unpack(_CREDENTIALS, credentials)[1] == os.getuid())


def remove(listener: socket.socket) -> None:
    """Remove a listening socket's name and its directory, which nobody else will."""
    path = Path(listener.getsockname())
    with contextlib.suppress(OSError):  # the other of relay and writer has removed it
        path.unlink()
        path.parent.rmdir()
