"""A command as the job of a shell, and its recorder beside it, in a session of its own.

The process that the shell has started is the parent of both. It shares the command's process group, and stops, goes on
and ends as the command does. Keys of a terminal do not reach the recorder: it reads on while the command is stopped.

Every signal to that process is the command's, as if it had been started without a parent in between. One that cannot be
caught ends the parent alone: on Linux the kernel then kills the command, whose proxy is about to end.
"""

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from wiretape.recorder.latch import heeded
from wiretape.recorder.tape import faults

_STOPS = frozenset((signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU))
_OF_TERMINALS = frozenset((
    signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, getattr(signal, "SIGINFO", signal.SIGWINCH), *_STOPS,
))  # fmt: skip
"""Signals that a terminal sends to both processes. It also sends SIGHUP, but to the first process of a session only."""
_OF_WRITERS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals for this process's own writes; Python ignores them, and a command does not."""
_FORWARDED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, *_OF_WRITERS}
_HARMLESS = frozenset((signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, *_STOPS))
"""Signals that do not end a process which has no handler for them."""
_MOST_SECONDS = 3600.0
CUT, HURRY = b"cut\n", b"hurry\n"
"""Lines that tell a recorder to stop waiting, and not to wait for long."""


@dataclass(frozen=True, slots=True)
class RecorderProcess:
    """The process of a recorder, and the connection to it."""

    pid: int
    _line: socket.socket

    def base(self) -> str:
        """Wait until it records; return its base URL, or "" if it has ended instead."""
        return self._line.recv(1 << 16).decode().rstrip("\n")

    def send(self, line: bytes) -> None:
        """Send it a line; it may have ended."""
        try:
            self._line.sendall(line)
        except OSError:
            return

    def leave(self) -> None:
        """Close the connection: the recorder prints no summary."""
        self._line.close()

    def wait(self) -> int:
        """Return its exit code, or -N if signal N ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def record(main: Callable[[socket.socket], int]) -> RecorderProcess:
    """Start a recorder; `main` gets the line to this process, on which it sends its base URL, and returns a code.

    When this process ends, however that happens, the line ends.
    """
    from wiretape.recorder.relay import loop  # asyncio, which a command that reads a tape does not need

    loop.open_standard_streams()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return RecorderProcess(pid, ours)
    ours.close()
    _become_recorder(main, theirs)


def _become_recorder(main: Callable[[socket.socket], int], line: socket.socket) -> NoReturn:
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the line says when it is enough
            signal.signal(number, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):  # the command's own: their reader does not wait for the recorder
            os.dup2(null, stream)
        code = main(line)
    except BaseException as error:  # noqa: BLE001 - nothing of this process may go on as the other one
        faults.report(error)
    finally:
        os._exit(code)


def as_script(command: Sequence[str], error: OSError) -> Sequence[str]:
    """Return the arguments to run a script without a `#!` line by `sh`, as shells and `env` do.

    Raises `error`, the system's refusal, for any other file.
    """
    path = shutil.which(command[0])
    if error.errno != errno.ENOEXEC or path is None:
        raise error
    with open(path, "rb") as file:
        if b"\0" in file.read(256):
            raise error
    return ["/bin/sh", path, *command[1:]]


class Job:
    """A command, from its start to its end; signals are held back from `__enter__` to `__exit__`.

    `look` is called while it runs, less and less often. `is_terminated`: the system has asked it to end.
    """

    is_terminated = False

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], look: Callable[[], None]) -> None:
        self._signals = {*heeded(*_FORWARDED), signal.SIGCHLD}
        self._command, self._environment, self._look = command, environment, look
        self._is_continued = False
        """True if the command was continued, but not yet this process."""

    def __enter__(self) -> "Job":
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, the exit code of a child is lost
        self._previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        return self

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._previous_mask)

    def run(self) -> int:
        """Run the command; return its exit code, or -N if signal N ended it. Raises `OSError` if it cannot be run."""
        try:
            child = self._start(self._command)
        except OSError as error:
            child = self._start(as_script(self._command, error))
        wait = 0.5
        while True:
            number, is_shared = self._signal(wait)
            self.is_terminated |= number in (signal.SIGTERM, signal.SIGHUP)
            if number is None:
                self._look()
                wait *= 2
            elif (code := self._follow(child)) is not None:
                return code
            elif number == signal.SIGCONT and self._is_continued:
                self._is_continued = False  # a shell continues both processes
            elif number != signal.SIGCHLD and not is_shared:
                with contextlib.suppress(PermissionError):  # it has another user's rights, as sudo has
                    os.kill(child, number)

    def finish(self, recording: RecorderProcess) -> int:
        """Wait for the recorder's end, and return its exit code; a signal that ends commands cuts it short."""
        while True:
            pid, status = os.waitpid(recording.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if self._signal()[0] not in (None, signal.SIGCHLD, *_HARMLESS):
                recording.send(CUT)

    def _start(self, command: Sequence[str]) -> int:
        """Start a command that does not outlive this process (Linux); return its pid."""
        launcher = os.getpid()
        prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

        def prepare() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._previous_mask)
            if prctl is not None:
                prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: the signal to this process when its parent ends
                if os.getppid() != launcher:  # it was killed before this process could ask for the signal
                    os.kill(os.getpid(), signal.SIGKILL)

        started = subprocess.Popen(command, env=self._environment, close_fds=False, preexec_fn=prepare)
        started.returncode = 0  # `run` waits for it: `subprocess` must not
        return started.pid

    def _follow(self, child: int) -> int | None:
        """Stop if the command was stopped; return its exit code if it has ended, or -N if signal N ended it."""
        changed, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if changed:
            self._is_continued = os.WIFCONTINUED(status)
            if os.WIFSTOPPED(status):
                _stop(os.WSTOPSIG(status), child)
            elif not self._is_continued:
                return os.waitstatus_to_exitcode(status)
        return None

    def _signal(self, seconds: float = _MOST_SECONDS) -> tuple[int | None, bool]:
        """Wait for a signal, on Linux with a timeout; return it, and True if it is a key, which both processes get."""
        if sys.platform == "linux":
            received = signal.sigtimedwait(self._signals, min(seconds, _MOST_SECONDS))
            return (
                (received.si_signo, received.si_signo in _OF_TERMINALS and received.si_code > 0)
                if received
                else (None, False)
            )
        number = signal.sigwait(self._signals)
        return number, number in _OF_TERMINALS and _foreground() == os.getpgrp()


def _stop(number: int, child: int) -> None:
    """Stop this process as the command was stopped, so that the shell has its terminal back, until it is continued."""
    group = os.getpgid(child)
    if number == signal.SIGSTOP and _foreground() not in (os.getpgrp(), group):
        return  # the sender of SIGCONT may not know this process
    os.kill(os.getpid(), number)
    if number in _STOPS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    if group != os.getpgrp():  # a shell, unknown to the one around this process
        _continue(group)


def _continue(group: int) -> None:
    """Hand the terminal to a process group, if this process has it, and continue the group."""
    with _terminal() as terminal, contextlib.suppress(OSError):
        if terminal is not None and os.tcgetpgrp(terminal) == os.getpgrp():
            os.tcsetpgrp(terminal, group)
        os.killpg(group, signal.SIGCONT)


def end(code: int) -> NoReturn:
    """End this process with an exit code, or by signal N if it is -N: a shell's loop ends if SIGINT ended its job."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(128 - code if code < 0 else code)  # the first process of a container ignores its own signals


def _foreground() -> int | None:
    """Return the process group that the keys of the terminal send signals to; None without a terminal."""
    with _terminal() as terminal:
        try:
            return None if terminal is None else os.tcgetpgrp(terminal)
        except OSError:  # it has been closed
            return None


@contextlib.contextmanager
def _terminal() -> Iterator[int | None]:
    """Yield a descriptor of the controlling terminal; None if there is none."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        yield None
        return
    try:
        yield terminal
    finally:
        os.close(terminal)
