"""A program that reads the tape of a running recorder. It is restarted when it ends, and its failure affects no stream.

A tape's writer does not depend on it: a companion is started by its module's name, and the recorder goes on without it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wiretape.recorder import children, paths
from wiretape.recorder.children import LAST_SECONDS, LEAVE
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.destinations import Destination
from wiretape.recorder.tape.redact import Redactor

if TYPE_CHECKING:
    from wiretape.recorder.commands.status import Screen
    from wiretape.recorder.relay.service import RecorderOptions


_LEAVE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CompanionProgram:
    """A module to run, with its arguments; `does` is its purpose, as in "serves metrics"."""

    module: str
    does: str
    arguments: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shipment:
    """A destination of a recorder's tape; `bodies`: ship the bodies, too. The file has headers for a collector."""

    destination: Destination
    bodies: bool = False
    headers_file: Path | None = None

    @property
    def line(self) -> str:
        """Return the line that a recorder prints at its start."""
        return f"{self.destination.line}{', with bodies' if self.bodies else ''}"

    def program(self, settings: "RecorderOptions") -> CompanionProgram:
        """Return the program for the tape of a recorder: `wiretape ship`."""
        labels = Redactor(None).labels(settings.labels)  # others see the arguments of a process
        arguments = ["ship", "--beside", "--db", str(paths.absolute(settings.tape))]
        arguments += self.destination.arguments(labels, SYSTEM.wall_ns() // 1000)
        arguments += ["--bodies"] if self.bodies else []
        for option, file in {"--ca-file": settings.ca_file, "--otlp-headers": self.headers_file}.items():
            arguments += [] if file is None else [option, str(paths.absolute(file))]
        return CompanionProgram("wiretape.viewer.cli", self.destination.purpose, tuple(arguments))


@contextlib.asynccontextmanager
async def shipped(
    shipments: Sequence[Shipment], settings: "RecorderOptions", screen: "Screen"
) -> "AsyncIterator[list[Companion]]":
    """Ship the tape while it is recorded, until the context is left after the recorder's stop.

    The tape is the buffer: shipping then goes on for some seconds; the next shipping process sends the remainder.
    """
    companions = []
    for shipment in shipments:
        companions.append(Companion(shipment.program(settings), screen))
        screen.line(shipment.line)
    try:
        yield companions
    finally:
        await asyncio.gather(*(companion.finish() for companion in companions))


async def keep_running(
    program: CompanionProgram, attend: Callable[[asyncio.subprocess.Process], Awaitable[int]], screen: "Screen"
) -> None:
    """Start a program, and again when it ends, until cancelled; `attend` returns its exit code when it has ended.

    Lines that one process has printed are not repeated for its successors, until one lasts: the cause may be the same.
    """
    shortest_wait, longest_wait = 0.25, 60.0
    wait, printers = shortest_wait, dict[str, object]()
    while True:
        started = SYSTEM.now()
        try:
            process = await asyncio.create_subprocess_exec(
                *children.python("-m", program.module, *program.arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=children.environment(connects=True),
                pass_fds=program.descriptors,
                start_new_session=True,
            )
        except OSError as error:
            screen.report(f"the process that {program.does} cannot start ({error.strerror}); trying again")
        else:
            _PRINTING[process] = asyncio.create_task(_print_errors(process, screen, printers))
            code = await attend(process)
            line = f"the process that {program.does} ended (exit code {code}); starting another"
            if line not in printers:
                printers[line] = process
                screen.report(line)
        if has_lasted := SYSTEM.now() - started > longest_wait * 1e9:
            printers.clear()
        wait = shortest_wait if has_lasted else min(2 * wait, longest_wait)
        await asyncio.sleep(wait)


_PRINTING: dict[asyncio.subprocess.Process, asyncio.Task[None]] = {}
"""The task that prints the lines of each program, until its end."""


async def _print_errors(process: asyncio.subprocess.Process, screen: "Screen", printers: dict[str, object]) -> None:
    """Print a program's standard error, which would otherwise break the status line.

    `printers` maps each line printed to the process that first printed it.
    """
    assert process.stderr is not None
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:  # longer than any line of wiretape's own
            continue
        if not line:
            del _PRINTING[process]
            return
        text = line.decode("utf-8", "replace").rstrip("\n")
        if printers.setdefault(text, process) is process:
            screen.line(text)


class Companion:
    """A process that reads the tape of a recorder, and the end of that process."""

    def __init__(self, program: CompanionProgram, screen: "Screen") -> None:
        self._program, self._screen = program, screen
        self._process: asyncio.subprocess.Process | None = None
        self._started = asyncio.Event()
        self._task = asyncio.create_task(keep_running(program, self._attend, screen))

    async def leave(self) -> None:
        """Ask the process to leave the tape, so that the writer closes it last; a slow process is not waited for."""
        # A recording can be over before its companion is there: cancelled now, it would ship nothing of it.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._started.wait(), _LEAVE_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with contextlib.suppress(OSError, TimeoutError):  # it has ended, or is too slow to wait for
                self._process.stdin.write(LEAVE)
                await asyncio.wait_for(self._process.stdout.readline(), _LEAVE_SECONDS)

    async def finish(self) -> None:
        """Close the process's input, and wait until it has handled the remainder; kill it if that takes too long."""
        if not self._task.done():
            await self.leave()
        if self._process is None or self._process.returncode is not None:
            self._screen.report(f"the process that {self._program.does} has ended: the rest is on the tape")
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), LAST_SECONDS + _LEAVE_SECONDS)
        except TimeoutError:
            self._screen.report(f"the process that {self._program.does} cannot end in time: the rest is on the tape")
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                self._process.kill()  # it only reads
            await self._process.wait()
        await asyncio.gather(*filter(None, [_PRINTING.get(self._process)]))

    async def _attend(self, process: asyncio.subprocess.Process) -> int:
        self._process = process
        self._started.set()
        return await process.wait()
