"""Programs of wiretape, forked from a server with the libraries loaded: a start takes 20 ms instead of 500.

Tests of imports, encodings, -P, signals, exit codes and kill -9 start an interpreter of their own.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.support.frames import exchange, opened, record

ROOT = Path(__file__).parents[2]
CLI = ("-m", "wiretape.viewer.cli")
"""Arguments of Python that run the command `wiretape`."""

_WRITER = [sys.executable, "-P", "-m", "wiretape.recorder.tape.writer"]
_RECORDERS = ("record", "run", "demo")
_LOADED = (
    "wiretape.viewer.cli",
    "wiretape.recorder.relay.service",
    "wiretape.recorder.relay.loop",
    "wiretape.recorder.commands.status",
    "wiretape.recorder.tape.writer",
    "wiretape.viewer.tui.app",
    "wiretape.viewer.source.tape.live",
    "wiretape.viewer.source.tape.overview",
    "wiretape.viewer.source.tape_source",
    "wiretape.viewer.commands.cut",
    "wiretape.viewer.commands.output",
    "wiretape.recorder.commands.record",
    "wiretape.recorder.commands.run",
    "wiretape.recorder.commands.local_apis",
    "wiretape.recorder.decode.framings.websocket",
    "cryptography.hazmat.primitives.serialization.pkcs12",
    "rich.progress",
    "textual.layouts.factory",
    "pandas",
    "uvloop",
)
_AGENTS_SERVER = "mcp.server"
"""Loaded before the first program that needs it: it takes longer than all others together."""
_REQUEST_BYTES = 1 << 17
_PASSED = 256
"""First number for received descriptors, above all their final numbers."""
_SUBREAPER = 36
"""The option of prctl(2) by which a process adopts the orphans among its descendants."""


class _Server:
    """A client of the forking process: the programs are children of the client, so it can wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> socket.socket:
        self._connection, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            code = f"from tests.support import forked; forked.serve({its.fileno()})"
            self._process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, pass_fds=[its.fileno()])
        return self._connection

    def close(self) -> None:
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.wait(60)

    def fork(self, request: tuple[Any, ...], passed: Sequence[int]) -> int:
        """Start a program that gets the descriptors `passed`, and return its process."""
        with self._lock:
            connection = self._connection or self.start()
            prctl = ctypes.CDLL(None).prctl
            prctl(_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(connection, [pickle.dumps(request)], passed)
                return int(connection.recv(32))
            finally:
                prctl(_SUBREAPER, 0, 0, 0, 0)


SERVER = _Server()


class Forked(subprocess.Popen[bytes]):
    """A program, `-m module` or `-c code` with its arguments; it is killed at the end of the block."""

    def __init__(self, command: Sequence[str], **more: Any) -> None:
        super().__init__(command, **{"stdin": subprocess.DEVNULL, "cwd": ROOT} | more)

    def _execute_child(self, args: Sequence[str], executable: None, *how: Any) -> None:
        """Fork through the server in place of fork and exec."""
        if sys.platform != "linux":  # where no process can adopt another
            super()._execute_child([sys.executable, *args], executable, *how)
            return
        preexec_fn, _, passed, cwd, env, _, _, _, *pipes, _, _, _, _, _, start_new_session, _ = how
        ends = [number if end == -1 else end for number, end in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = (list(args), [0, 1, 2, *passed], dict(env or os.environ), cwd, start_new_session, preexec_fn)
        self.pid = SERVER.fork(request, [*ends, *passed])
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def __exit__(self, *error: Any) -> None:
        self.kill()
        with contextlib.suppress(BrokenPipeError):
            super().__exit__(*error)


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, but for the writer that a recorder in the tests' own process starts: that is forked."""

    def __new__(cls, args: Any, **more: Any) -> Any:
        if list(args[:4]) != _WRITER or "start_new_session" not in more:  # it is a test that wants a fresh one
            return super().__new__(cls)
        return Forked(args[2:], cwd=Path.cwd(), **more)


class _WriterForking(subprocess.Popen[Any]):
    """`subprocess.Popen` in a forked recorder: its writer is forked from itself."""

    def __init__(self, args: Any, **more: Any) -> None:
        if list(args[:4]) == _WRITER and "pass_fds" in more:
            more["preexec_fn"] = functools.partial(_be_writer, args[2:], more["pass_fds"], more["env"])
            more["restore_signals"] = False  # SIGPIPE stays ignored, as an interpreter has it
        super().__init__(args, **more)


def _be_writer(command: Sequence[str], passed: Sequence[int], environment: Mapping[str, str]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    final = 2
    for number in sorted(passed):
        os.closerange(final + 1, number)
        final = number
    os.closerange(final + 1, os.sysconf("SC_OPEN_MAX"))
    _run(command, environment)


def run(arguments: Sequence[str | Path], **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command `wiretape` to its end, and return its exit code and its output."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": os.environ | environment}
    with Forked([*CLI, *map(str, arguments)], **given) as forked:
        out, err = forked.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, forked.returncode, out.decode(), err.decode())


class Process:
    """A program whose standard streams are read by the running loop: that part of `asyncio.subprocess.Process`.

    uvloop's own would not be forked here, and sets the signals of a program after its `preexec_fn`.
    """

    def __init__(self, program: "subprocess.Popen[bytes]") -> None:
        self._program = program
        threading.Thread(target=program.wait, daemon=True).start()  # else it would stay as a zombie
        self.pid, self.send_signal, self.kill = program.pid, program.send_signal, program.kill
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def of(cls, program: "subprocess.Popen[bytes]") -> "Process":
        started = cls(program)
        started.stdout = await started._read(program.stdout)
        started.stderr = await started._read(program.stderr)
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
        return self._program.poll()

    async def wait(self) -> int:
        return await asyncio.to_thread(self._program.wait)

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Send `data` and the end of file, and return the output up to the end of the program."""
        if self._program.stdin is not None and not self._program.stdin.closed:
            self._program.stdin.write(data)
            self._program.stdin.close()
        readers = [reader.read() if reader else asyncio.sleep(0, b"") for reader in (self.stdout, self.stderr)]
        out, err = await asyncio.gather(*readers)
        await self.wait()
        for transport in self._transports:
            transport.close()
        return out, err


def serve(number: int) -> None:
    """Fork programs for the process at the other end of a socket, as long as that runs."""
    for name in _LOADED:
        importlib.import_module(name)
    # A tape is made and an exchange recorded here, so that no writer compiles its statements again: half of its cost.
    with tempfile.TemporaryDirectory() as directory, opened(Path(directory) / "tape.db") as store:
        record(store, exchange("e1"))
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it goes with the tests
    with socket.socket(fileno=number) as asking:
        while True:
            request, received, *_ = socket.recv_fds(asking, _REQUEST_BYTES, 16)
            if not request:
                return
            command, *options = pickle.loads(request)
            if tuple(command[:3]) == (*CLI, "mcp"):
                importlib.import_module(_AGENTS_SERVER)
            reading, writing = os.pipe()
            if (between := os.fork()) == 0:  # it ends at once: its child is an orphan, which is adopted
                if (pid := os.fork()) == 0:
                    _be_program(received, command, *options)
                os.write(writing, str(pid).encode())
                os._exit(0)
            os.waitpid(between, 0)
            asking.send(os.read(reading, 32))
            for end in (reading, writing, *received):
                os.close(end)


def _be_program(
    received: Sequence[int],
    command: Sequence[str],
    numbers: Sequence[int],
    environment: Mapping[str, str],
    directory: Path,
    start_new_session: bool,
    preexec_fn: Any,
) -> NoReturn:
    """Be a program in this process, which was forked for it."""
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, _PASSED) for end in received]
    os.closerange(0, _PASSED)
    for end, number in zip(high, numbers, strict=True):
        os.dup2(end, number)
        os.close(end)
    os.chdir(directory)
    if start_new_session:
        os.setsid()
    if preexec_fn is not None:
        preexec_fn()
    if tuple(command[:2]) == CLI and command[2:3] and command[2] in _RECORDERS:
        subprocess.Popen = _WriterForking  # type: ignore[misc]
    _run(command, environment)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run a command in this process as an interpreter does that has just started, and end with its exit code."""
    code: object = 0
    try:
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
        _open_streams()
        kind, program, *arguments = command
        sys.argv = [kind, *arguments]
        if kind == "-m":
            sys.modules.pop(program, None)  # it is run as if it had not been imported
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as raised:
        code = raised.code
    except BaseException:  # noqa: BLE001  # as an interpreter does
        traceback.print_exc()
        code = 1
    finally:
        threading._shutdown()  # noqa: SLF001  # waits for threads, as the end of an interpreter does
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code if isinstance(code, int) else code is not None)


def _open_streams() -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        buffering, stream = 1 if os.isatty(number) or name == "stderr" else -1, None
        with contextlib.suppress(OSError):  # it is closed
            stream = open(number, "r" if number == 0 else "w", buffering, "utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
