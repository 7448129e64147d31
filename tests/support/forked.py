"""Programs of ours as processes, forked from a server that has loaded the libraries: a start takes 20 ms, not 500.

A fresh interpreter is only needed by a test of the interpreter itself: of what is imported, of its encoding, of -P.
"""

import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn

ROOT = Path(__file__).parents[2]
CLI = ("-m", "wiretape.viewer.cli")
"""What the command `wiretape` runs, as arguments of Python."""

_WRITER = [sys.executable, "-P", "-m", "wiretape.recorder.tape.writer"]
_RECORDERS = ("record", "run", "demo")

_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    [
        "wiretape.viewer.cli",
        "wiretape.recorder.relay.service",
        "wiretape.recorder.relay.loop",
        "wiretape.recorder.commands.status",
        "wiretape.recorder.tape.writer",
        "wiretape.viewer.tui.app",
        "wiretape.viewer.source.tape.live",
        "wiretape.viewer.source.tape.overview",
        "textual.layouts.factory",
        "pandas",
    ]
)


class Forked:
    """A program, `-m module` or `-c code`, with its arguments; the part of `subprocess.Popen` that tests need.

    `preexec_fn` must be such as can be pickled.
    """

    def __init__(
        self,
        command: "Sequence[str | Passed]",
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
        start_new_session: bool = False,
        preexec_fn: Callable[[], object] | None = None,
    ) -> None:
        with contextlib.ExitStack() as given:
            self._ends: list[int | None] = [None, None, None]
            ends = [self._end(number, end, given) for number, end in enumerate((stdin, stdout, stderr))]
            arguments = (
                command,
                [Passed(end) for end in ends],
                dict(env or os.environ),
                cwd,
                start_new_session,
                preexec_fn,
            )
            self.process = _FORKSERVER.Process(target=_run, args=arguments, daemon=True)
            self.process.start()
        self._left: int | None = None
        self.stdin, self.stdout, self.stderr = (
            None if end is None else os.fdopen(end, "rb" if number else "wb") for number, end in enumerate(self._ends)
        )
        assert self.process.pid is not None
        self.pid = self.process.pid

    def _end(self, number: int, asked: int | IO[Any] | None, given: contextlib.ExitStack) -> int:
        """Return the end of standard stream `number` that the program gets; it is closed here with `given`."""
        if asked == subprocess.PIPE:
            reading, writing = os.pipe()
            mine, theirs = (reading, writing) if number else (writing, reading)
            self._ends[number] = mine
        elif asked == subprocess.DEVNULL:
            theirs = os.open(os.devnull, os.O_RDWR)
        else:
            return number if asked is None else asked if isinstance(asked, int) else asked.fileno()
        given.callback(os.close, theirs)
        return theirs

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode if self._left is None else self._left

    poll = returncode.fget

    @returncode.setter
    def returncode(self, code: int) -> None:
        """Leave the program to itself, as if it had ended."""
        self._left = code

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a forked program", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill the program if it still runs, and close its pipes."""
        self.kill()
        self.process.join()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, but for the writer that a recorder in the tests' own process starts: that is forked.

    A recorder that is itself forked starts its writer as it always does.
    """

    def __new__(cls, args: Any, **more: Any) -> Any:
        if list(args[:4]) != _WRITER or "start_new_session" not in more:  # it is a test that wants a fresh one
            return super().__new__(cls)
        passed = more.pop("pass_fds", ())
        command = [Passed(int(one)) if one in map(str, passed) else one for one in args[2:]]
        return Forked(command, cwd=Path.cwd(), **more)


def run(arguments: Sequence[str | Path], **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command `wiretape` to its end, and return its exit code and its output."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": os.environ | environment}
    with Forked([*CLI, *map(str, arguments)], **given) as forked, ThreadPoolExecutor() as pool:
        out, err = pool.map(lambda pipe: pipe.read(), (forked.stdout, forked.stderr))
        return subprocess.CompletedProcess(arguments, forked.wait(60), out.decode(), err.decode())


class AsyncForked:
    """A program whose standard streams are read by the running loop: that part of `asyncio.subprocess.Process`."""

    def __init__(self, command: Sequence[str], **streams: Any) -> None:
        self._forked = Forked(command, **streams)
        self.pid, self.send_signal, self.kill = self._forked.pid, self._forked.send_signal, self._forked.kill
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(cls, command: Sequence[str], **streams: Any) -> "AsyncForked":
        started = cls(command, **streams)
        started.stdout = await started._read(started._forked.stdout)
        started.stderr = await started._read(started._forked.stderr)
        return started

    async def _read(self, pipe: IO[bytes] | None) -> asyncio.StreamReader | None:
        if pipe is None:
            return None
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

    @property
    def returncode(self) -> int | None:
        return self._forked.returncode

    async def wait(self) -> int:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._forked.process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._forked.process.sentinel)
        return self._forked.wait()

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Send `data` and the end of file, and return what comes until the program has ended."""
        if self._forked.stdin is not None and not self._forked.stdin.closed:
            self._forked.stdin.write(data)
            self._forked.stdin.close()
        readers = [reader.read() if reader else asyncio.sleep(0, b"") for reader in (self.stdout, self.stderr)]
        out, err = await asyncio.gather(*readers)
        await self.wait()
        for transport in self._transports:
            transport.close()
        return out, err


class Passed:
    """A file descriptor on its way to another process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.number),)


def _received(duplicate: Any) -> int:
    return int(duplicate.detach())


def _run(
    command: Sequence[str | int],
    ends: list[int],
    environment: dict[str, str],
    directory: Path,
    start_new_session: bool,
    preexec_fn: Callable[[], object] | None,
) -> None:
    """Run a command in this process, which was forked for it."""
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    os.chdir(directory)
    if start_new_session:
        os.setsid()
    if preexec_fn is not None:
        preexec_fn()
    if tuple(command[:2]) == CLI and command[2:3] and command[2] in _RECORDERS:
        with contextlib.suppress(OSError):  # a standard stream is closed
            _Fork.spares.append(_Spare())
            subprocess.Popen = _Fork  # type: ignore[misc]
    _become(command)


class _Fork(subprocess.Popen[Any]):
    """`subprocess.Popen` in a forked recorder: its first writer is the process that was forked to be that."""

    spares: "ClassVar[list[_Spare]]" = []

    def __new__(cls, args: Any, **more: Any) -> Any:
        if list(args[:4]) != _WRITER or "pass_fds" not in more or not cls.spares:
            return super().__new__(cls)
        spare = cls.spares.pop()
        if spare.parent != os.getpid():  # a recorder is a child of the process that was started
            spare = _Spare()
        spare.write(args[2:], more["pass_fds"])
        return spare


class _Spare:
    """A child that becomes the writer of this process; that part of `subprocess.Popen` which a relay needs.

    It is forked while this process has no other threads: one that was forked later might wait for their locks.
    """

    def __init__(self) -> None:
        for number in range(3):
            os.fstat(number)
        self._asking, asked = socket.socketpair()
        self.returncode: int | None = None
        self.parent, self.pid = os.getpid(), os.fork()
        if self.pid == 0:
            _stand_by(asked.detach())
        asked.close()

    def write(self, command: Sequence[str], passed: Sequence[int]) -> None:
        """Make it a writer, which gets the descriptors `passed`."""
        files = resource.RLIMIT_NOFILE  # a relay raises its limit, and its writer inherits it
        resource.prlimit(self.pid, files, resource.getrlimit(files))
        with self._asking:
            socket.send_fds(self._asking, [json.dumps([command, passed]).encode()], passed)

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def _stand_by(asked: int) -> NoReturn:
    """Wait in this process, which was forked for it, until it is to be a writer, or its parent has ended."""
    code: object = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: its parent's
        os.closerange(3, asked)
        os.closerange(asked + 1, os.sysconf("SC_OPEN_MAX"))
        with socket.socket(fileno=asked) as asked_by:
            question, (*ends,), *_ = socket.recv_fds(asked_by, 1 << 16, 16)
        if question:
            command, passed = json.loads(question)
            received = dict(zip(map(str, passed), map(str, ends), strict=True))
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1):
                os.dup2(nowhere, number)
            os.close(nowhere)
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _become([received.get(one, one) for one in command])
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001  # as an interpreter does
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code if isinstance(code, int) else code is not None)


def _become(command: Sequence[str | int]) -> None:
    """Run a command as an interpreter does that has just started."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        buffering, stream = 1 if os.isatty(number) or name == "stderr" else -1, None
        with contextlib.suppress(OSError):  # it is closed
            stream = open(number, "r" if number == 0 else "w", buffering, "utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    kind, program, *arguments = map(str, command)
    sys.argv = [kind, *arguments]
    if kind == "-m":
        sys.modules.pop(program, None)  # it is run as if it had not been imported
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
