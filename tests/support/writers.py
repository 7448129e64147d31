"""The writer as a process, started like a relay starts it, for tests of its failures."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import Forked
from tests.support.frames import SESSION
from wiretape.recorder.tape import journal, lock


def seeds(count: int) -> list[Any]:
    """Return the seeds of a test in which something is killed at random: the first by default, the others nightly."""
    return [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, count))]


PROGRAM = """
import socket, sys
from pathlib import Path
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.tape import file as tapefile, journal, writer
from wiretape.recorder.tape.channels import Channels
from wiretape.recorder.tape.lock import Claim
from wiretape.recorder.tape.store import Store
claimed, tape = Claim(Path(sys.argv[3]), int(sys.argv[1])), Path(sys.argv[3])
relays = Channels(socket.socket(fileno=int(sys.argv[2])))
"""
"""The beginning of a program that takes a writer's place: `code` of `writer`."""


def loading(signal: Path) -> str:
    """Return a program that takes a writer's place, and loads its libraries when a file is there."""
    return f"""
import runpy, sys, time
from pathlib import Path
class Waits:
    def find_spec(self, name, *_):
        while name == "sqlalchemy" and not Path({str(signal)!r}).exists():
            time.sleep(0.01)
sys.meta_path.insert(0, Waits())
if "-m" in sys.argv:  # in the place of Python
    del sys.argv[1:4]
from wiretape.recorder.tape import channels
channels.LOADING_SECONDS = 0.05
runpy.run_module("wiretape.recorder.tape.writer", run_name="__main__")
"""


class WriterProcess:
    """A writer and a connection to it."""

    def __init__(self, process: "Forked | subprocess.Popen[bytes]", connection: socket.socket) -> None:
        self.process, self.seq, self.connection = process, 0, connection
        self.place = Path(connection.getpeername())
        self._lines = connection.makefile("rb")
        self.answers: list[journal.Answer] = []

    def send(self, frames: Iterable[journal.Frame]) -> None:
        for frame in frames:
            self.connection.sendall(journal.encode(self.seq, frame))
            self.seq += 1

    @property
    def lost(self) -> list[journal.Lost]:
        """The reported losses."""
        return [lost for answer in self.answers if isinstance(answer, journal.Ack) for lost in answer.lost]

    def answer(self) -> journal.Answer:
        """Return the next answer, but not those that come while the writer loads."""
        while isinstance(answer := journal.decode_answer(self._lines.readline()), journal.Loading):
            pass
        self.answers.append(answer)
        return answer

    def acknowledged(self) -> int:
        """Read answers until all sent frames are committed; return the number of acknowledgements."""
        acks = 0
        while True:
            match self.answer():
                case journal.Ack(seq=seq):
                    acks += 1
                    if seq == self.seq - 1:
                        return acks

    def end(self) -> int:
        """Send the end of file, and wait for the writer's end."""
        self.leave()
        return self.process.wait(60)

    def leave(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.connection.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)


def _connected_by_the_dead(path: str) -> socket.socket:
    """Return a connection of a process that has ended: its writer takes the end of file for the end of its relay."""
    connection = socket.socket(socket.AF_UNIX)
    if (pid := os.fork()) == 0:
        try:
            connection.connect(path)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return connection


@contextmanager
def writer(
    tape: Path,
    *,
    code: str | None = None,
    session: journal.Session = SESSION,
    is_fresh: bool = False,
    has_guest: bool = False,
    running: Sequence[str] = (),
) -> Iterator[WriterProcess]:
    """Start a writer, or the program `code` in its place, and send it the session.

    `is_fresh`: named as in use; `has_guest`: another client has come and left before; `running`: the relay's open
    exchanges, which an earlier writer has.
    """
    program = ("-m", "wiretape.recorder.tape.writer") if code is None else ("-c", code)
    purpose = "wiretape record (pid 1)"
    claimed = lock.claim(tape)
    assert isinstance(claimed, lock.Claim)
    directory = tempfile.mkdtemp(prefix=lock.SOCKET_DIRECTORY)
    with contextlib.closing(claimed), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(directory, lock.SOCKET_NAME))
        listener.listen()
        claimed.name(purpose, Path(listener.getsockname()))
        descriptors = claimed.descriptor, listener.fileno()
        process: Any
        if is_fresh:
            command = (sys.executable, "-P", *program, *map(str, descriptors), str(tape), purpose)
            process = subprocess.Popen(command, pass_fds=descriptors)
        else:
            process = Forked((*program, *map(str, descriptors), str(tape), purpose), pass_fds=descriptors)
        if has_guest:
            _connected_by_the_dead(listener.getsockname()).close()
        connection = _connected_by_the_dead(listener.getsockname())
    with process, connection:
        started = WriterProcess(process, connection)
        try:
            started.send([journal.Relay(purpose, running_ids=list(running)), session] if running else [session])
            yield started
        finally:
            process.kill()
            lock.remove_socket(Path(directory, lock.SOCKET_NAME))
