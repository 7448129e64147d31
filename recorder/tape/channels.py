"""The relays that one writer serves, over a Unix socket that is private to the user.

The rules:

- Each relay has frames, sequence numbers and acknowledgements of its own; their frames share transactions. They are of
  one recorder with several workers, or of several recorders that record to one tape.
- A thread for each relay reads its frames, and one accepts new relays; the writer's main thread does all else, by the
  tasks in a queue. So a commit that takes long stops no reading, and needs no lock.
- Reading begins before the writer has loaded its libraries, which takes seconds on a busy machine. Meanwhile it reports
  that it is loading, so that relays do not take it for dead; and frames that it has read survive their relay's death.
- A relay ends by closing its direction of the socket. The writer answers until nothing of it is left to be measured,
  and then closes the other one.
"""

import contextlib
import os
import queue
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.process import boot_id, is_gone
from wiretape.recorder.tape import journal

LOADING_SECONDS = 1.0
"""Interval between messages to relays that the writer still loads."""
_LAST_SECONDS = 1.0
"""Time allowed for clients to take their last answers, and for processes that have lost their connection to end."""
_POLL_SECONDS = 0.01

Task = Callable[[], None]
"""A step of a writer's work, done in its main thread."""


class Key(NamedTuple):
    """The identity of a relay, which its next connection has, too."""

    pid: int
    session_no: int
    is_worker: bool


class Channel:
    """One relay: its frames, and its exchanges that run (`open`) or have ended and are not measured yet (`unmeasured`).

    `session` and its number are known once it is admitted; `has_left`: it has announced its end.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = peer(connection)[0]
        self.introduction = journal.Relay("")
        self.session: journal.Session | None = None
        self.session_no = 0
        self.newest_no = 0
        self.keep: journal.Keep | None = None
        self.buffer = bytearray()
        self.seq = self.committed = 0
        self.open: set[str] = set()
        self.unmeasured: set[str] = set()
        self.has_left = self.is_over = self.is_verified = False

    def note(self, frame: journal.Frame) -> None:
        """Note the relay's identity, its limits, and which exchanges are its own."""
        match frame:
            case journal.Relay(running_ids=running_ids):
                self.introduction = frame
                self.open.update(running_ids)
            case journal.Keep():
                self.keep = frame
            case journal.End(id=id):
                self.open.discard(id)
                self.unmeasured.add(id)
            case journal.SocketReads(runs=runs):
                self.open.update(run.id for run in runs)
            case journal.Begin(id=id) | journal.Upload(id=id) | journal.Uploaded(id=id) | journal.Head(id=id):
                self.open.add(id)
            case journal.Close() | journal.Left():
                self.has_left = True

    @property
    def process(self) -> int:
        """The relay's process, or that of its recorder."""
        return self.pid or (self.session.pid if self.session else 0)

    @property
    def key(self) -> Key:
        return Key(self.process, self.session_no, self.introduction.is_worker)

    def has_died(self) -> bool:
        """Return True if its process is known to have ended."""
        return is_gone(self.process, boot_id())

    def will_return(self) -> bool:
        """Return True if it has only lost its connection: it has not announced its end, and its process lives."""
        return not self.has_left and not self.has_died()

    def answer(self, answer: journal.Answer) -> None:
        """Send an answer; an error is ignored, as storing goes on without the relay."""
        data = journal.encode_answer(answer)
        try:
            is_sent = self._connection.send(data) == len(data)
        except OSError:
            is_sent = False
        if not is_sent:
            self.break_off()

    def break_off(self, direction: int = socket.SHUT_RDWR) -> None:
        """Shut the connection down, in both directions or one."""
        with contextlib.suppress(OSError):  # the relay has left
            self._connection.shutdown(direction)

    def receive_all(self, take: Callable[["Channel", bytes], None]) -> None:
        """Pass each received piece to `take`, and last an empty one; meant for a thread."""
        piece = b"?"
        while piece:
            piece = self._receive()
            take(self, piece)

    def introduce(self, data: bytes) -> None:
        """Read frames up to the session, for a writer that stores nothing; the first piece may hold all of them."""
        self.buffer += data
        with contextlib.suppress(msgspec.MsgspecError):
            for _, frame in journal.decode(self.buffer):
                self.note(frame)
                if isinstance(frame, journal.Session):
                    self.session, self.newest_no = frame, self.introduction.newest_no or 0

    def wait_until_left(self, seconds: float) -> None:
        """Wait until the relay has closed its end: it has read all answers then."""
        with contextlib.suppress(OSError):
            self._connection.settimeout(seconds)
            while self._receive():
                pass

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(1 << 18)
        except OSError:  # as when the relay was killed with answers unread
            return b""

    def close(self) -> None:
        self._connection.close()


class Channels:
    """All relays of a writer, which come to a listening socket.

    `tasks` is the queue of the writer's main thread: data received (`take`, which the writer sets), and the results of
    its other threads. It is unbounded at first: a relay waits for acknowledgements once the `QUEUE_BYTES` of its tap
    have none.
    `has_loaded`: the writer works on it.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.live: list[Channel] = []
        self.tasks: queue.Queue[Task] = queue.Queue()
        self.take: Callable[[Channel, bytes], None] = Channel.introduce
        self.has_loaded = threading.Event()
        self._listener, self._starter = listener, os.getppid()
        for work in (self._accept, self._report_loading):
            threading.Thread(target=work, daemon=True).start()

    @property
    def place(self) -> Path:
        """The path of the listening socket."""
        return Path(self._listener.getsockname())

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()[0]
            if not is_ours(connection):
                connection.close()
                continue
            # A relay that does not take its answers for 2 s is not served any more: it would hold up all others.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 2, 0))
            channel = Channel(connection)
            self.live.append(channel)
            threading.Thread(target=channel.receive_all, args=(self._queue,), daemon=True).start()

    def _queue(self, channel: Channel, data: bytes) -> None:
        self.tasks.put(lambda: self.take(channel, data))  # `take` as it is when the task is done, not now

    def _report_loading(self) -> None:
        while not self.has_loaded.wait(LOADING_SECONDS):
            self.answer(journal.Loading())

    def introduce(self, seconds: float) -> None:
        """Wait until each relay has sent its session, within a time: for a writer that has only an error to answer."""
        self.take = Channel.introduce
        until = SYSTEM.now() + int(seconds * 1e9)
        while (remaining := until - SYSTEM.now()) > 0 and any(relay.session is None for relay in list(self.live)):
            with contextlib.suppress(queue.Empty):
                self.tasks.get(timeout=remaining / 1e9)()

    def wait_for_first(self) -> None:
        """Wait a moment for the client that has started this writer: it connects at once, unless it was killed."""
        until = SYSTEM.now() + 5_000_000_000
        while not self.live and SYSTEM.now() < until:
            threading.Event().wait(_POLL_SECONDS)

    def part(self) -> None:
        """Send the end of file to all relays, and wait a moment until each has read its answers."""
        relays = list(self.live)
        for relay in relays:
            relay.break_off(socket.SHUT_WR)
        until = SYSTEM.now() + int(_LAST_SECONDS * 1e9)
        for relay in relays:
            relay.wait_until_left(max((until - SYSTEM.now()) / 1e9, _POLL_SECONDS))

    def mains(self) -> Iterator[Channel]:
        """Yield the relays that end their sessions, one for each recorder."""
        return (relay for relay in list(self.live) if relay.session is not None and not relay.introduction.is_worker)

    def of(self, session_no: int) -> list[Channel]:
        """Return the relays of a session that are not over."""
        return [relay for relay in list(self.live) if relay.session_no == session_no and not relay.is_over]

    def owner(self, id: str) -> Channel | None:
        """Return the relay that an exchange is of, or None if that is not known."""
        return next((relay for relay in list(self.live) if id in relay.open or id in relay.unmeasured), None)

    def answer(self, answer: journal.Answer) -> None:
        for relay in list(self.live):
            relay.answer(answer)

    def answer_recorders(self, answer: journal.Answer) -> None:
        """Answer all recorders, each once."""
        for relay in self.mains():
            relay.answer(answer)

    def settled(self) -> Iterator[Channel]:
        """Yield the relays that are over and wait for nothing more."""
        return (relay for relay in list(self.live) if relay.is_over and not relay.unmeasured)

    def close(self, channel: Channel) -> None:
        """End the connection with a relay; the output of the one that started this writer is let go of."""
        self.live.remove(channel)
        channel.close()
        if channel.pid in (None, self._starter):  # a reader of its output waits for the end of file
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 2)
            os.close(nowhere)

    @property
    def is_over(self) -> bool:
        """True if no relay is left; one that has connected and has not sent its session yet is one."""
        return all(relay.is_over for relay in list(self.live))

    def is_deserted(self) -> bool:
        """Return True if the processes of all relays have ended."""
        return all(relay.has_died() for relay in list(self.live) if relay.session is not None)

    def wait_for_dying(self) -> None:
        """Wait a moment for processes that have lost their connections, as a killed one does before it has ended."""
        until = SYSTEM.now() + int(_LAST_SECONDS * 1e9)
        while any(relay.session and relay.will_return() for relay in self.live) and SYSTEM.now() < until:
            threading.Event().wait(_POLL_SECONDS)


def peer(connection: socket.socket) -> tuple[int | None, int]:
    """Return process and user at the other end; None and this user if the system does not report them.

    The directory of the socket is private.
    """
    if sys.platform != "linux":  # pragma: no cover
        return None, os.getuid()
    ucred = struct.Struct("3i")  # struct ucred: pid, uid, gid
    pid, user, _ = ucred.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, ucred.size))
    return pid or None, user


def is_ours(connection: socket.socket) -> bool:
    """Return True if the same user is at the other end."""
    return peer(connection)[1] == os.getuid()
