"""The writer as a process, as the relay starts it, for the tests of what happens to it."""

import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recorder.tape import journal
from tests.forked import Forked
from tests.recorder.frames import SESSION


def seeds(count: int) -> list[Any]:
    """Return the seeds of a test in which something is killed at random: the first by default, the others nightly."""
    return [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, count))]


class WriterProcess:
    """A writer and the two ends of its pipes."""

    def __init__(self, process: "Forked | subprocess.Popen[bytes]") -> None:
        self.process, self.seq = process, 0
        self.answers: list[journal.Answer] = []

    def send(self, frames: Iterable[journal.Frame]) -> None:
        assert self.process.stdin is not None
        for frame in frames:
            self.process.stdin.write(journal.encode(self.seq, frame))
            self.seq += 1
        self.process.stdin.flush()

    @property
    def lost(self) -> list[journal.Lost]:
        """What was answered to be lost, so far."""
        return [lost for answer in self.answers if isinstance(answer, journal.Ack) for lost in answer.lost]

    def answer(self) -> journal.Answer:
        assert self.process.stdout is not None
        answer = journal.decode_answer(self.process.stdout.readline())
        self.answers.append(answer)
        return answer

    def acknowledged(self) -> int:
        """Take answers until all that was sent is committed; give how many acknowledgements that took."""
        acks = 0
        while True:
            match self.answer():
                case journal.Ack(seq=seq):
                    acks += 1
                    if seq == self.seq - 1:
                        return acks

    def end(self) -> int:
        """Give the end of file, and wait for the writer's own end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


@contextmanager
def writer(
    tape: Path, *, code: str | None = None, session: journal.Session = SESSION, is_fresh: bool = False
) -> Iterator[WriterProcess]:
    """Start a writer, or the program `code` in its place, and send it the session; `is_fresh`: named as in use."""
    program = ("-m", "recorder.tape.writer") if code is None else ("-c", code)
    command = (*program, str(tape), "wiretape record (pid 1)")
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        subprocess.Popen((sys.executable, "-P", *command), **streams)
        if is_fresh
        else Forked(command, **streams) as process
    ):
        started = WriterProcess(process)
        try:
            started.send([session])
            yield started
        finally:
            process.kill()
