"""Metrics for dashboards: the process that serves them, and its input from the recorder.

`wiretape.viewer.wings.prometheus.serve` reads the finished exchanges from the tape, as any viewer does. Once a second
the recorder sends it the facts that are on no tape: its lag, its losses, the number of running exchanges. It may be
killed and started again: it reads the session from its beginning, so that counters go on.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wiretape.recorder import __version__, paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.commands.companion import CompanionProgram, keep_running
from wiretape.recorder.relay import server

if TYPE_CHECKING:
    from wiretape.recorder.commands.status import Screen
    from wiretape.recorder.relay.service import Recorder, RecorderOptions

PROGRAM = "wiretape.viewer.wings.prometheus.serve"


class Setup(msgspec.Struct, frozen=True):
    """The first line for the program: the tape and session to serve, and the `hosts` by which it may be called."""

    tape: Path
    session: str
    version: str
    hosts: frozenset[str]


class RecorderState(msgspec.Struct, frozen=True):
    """Each further line: the state of the recorder."""

    open: int
    event_loop_lag_ns: int
    write_lag_ns: int
    unstored_bytes: int
    unstored_exchanges: int
    writer_restarts: int


def listen(address: tuple[str, int] | None) -> socket.socket | None:
    """Return the socket for `served`; None without an address. Raises `CannotListen`."""
    return None if address is None else server.bound(*address, option="--metrics")


@contextlib.asynccontextmanager
async def served(
    sock: socket.socket | None, settings: "RecorderOptions", recorder: "Recorder", screen: "Screen"
) -> AsyncIterator[None]:
    """Serve metrics of a recorder that has started until the end of the context; without a socket, nothing."""
    if sock is None:
        yield
        return
    url = server.base_url(sock)
    hosts = settings.allow_hosts | {url.removeprefix("http://").rpartition(":")[0]}
    setup = msgspec.json.encode(Setup(settings.tape, recorder.session, __version__, hosts), enc_hook=paths.to_json)
    program = CompanionProgram(PROGRAM, "serves metrics", (str(sock.fileno()),), (sock.fileno(),))
    keeping = asyncio.create_task(keep_running(program, lambda process: _feed(process, setup, recorder), screen))
    sock.listen()  # who reads the line below may ask at once, and waits for the program
    screen.line(f"metrics     {url}/metrics")
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        sock.close()


async def _feed(process: asyncio.subprocess.Process, setup: bytes, recorder: "Recorder") -> int:
    """Send the program the setup, then pulses until it ends; return its exit code."""
    assert process.stdin is not None
    pipe = process.stdin
    pipe.write(setup + b"\n")
    try:
        lag_ns = 0
        while process.returncode is None:
            if pipe.transport.get_write_buffer_size() < 64 << 10 and not pipe.is_closing():  # else nobody reads them
                pipe.write(msgspec.json.encode(_pulse(recorder, lag_ns)) + b"\n")
            due = SYSTEM.now() + 1_000_000_000
            await asyncio.sleep(1.0)
            lag_ns = max(SYSTEM.now() - due, 0)
        return process.returncode
    finally:
        pipe.close()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                process.kill()  # it only reads
            await process.wait()


def _pulse(recorder: "Recorder", event_loop_lag_ns: int) -> RecorderState:
    counts = recorder.counts
    return RecorderState(
        open=recorder.live,
        event_loop_lag_ns=event_loop_lag_ns,
        write_lag_ns=recorder.lag_ns(),
        unstored_bytes=counts.dropped_bytes,
        unstored_exchanges=counts.unrecorded,
        writer_restarts=counts.restarts,
    )
