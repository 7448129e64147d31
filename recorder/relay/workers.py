"""The worker processes of a recorder, which relay, too: their start, reports, restart and stop.

Each listens on the recorder's port and has a channel of its own to the recorder's writer. Settings go to its standard
input, commands follow, and the end of that input means that the recorder is gone; reports come from its standard
output. Both are lines of JSON.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from wiretape.recorder import children
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import BY_EXIT_CODE, WiretapeError, WriterFailed
from wiretape.recorder.relay import local
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.sharing import RelayShare
from wiretape.recorder.tape import journal
from wiretape.recorder.tape.losses import Counts

LINE_BYTES = 16 << 20

Command = Literal["drain", "hurry", "cut", "give_up"]
Treatment = Literal["intercepted", "tunnelled", "relayed", "refused", "untrusted"]
"""Treatment of a connection to a host that a client requests from the proxy.

`relayed`: plain HTTP, not recorded; `untrusted`: the client does not accept our certificate.
"""


class WorkerReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker's report, with one field at a time, but for `lost`, which comes last and with the last `share`.

    `failure` is an exit code and a message; `refused` is a status and a message; `lost` counts frames.
    """

    is_ready: bool = False
    failure: tuple[int, str] | None = None
    share: RelayShare | None = None
    finished: journal.Finished | None = None
    trouble: str | None = None
    refused: tuple[int, str] | None = None
    fault: str | None = None
    asked: tuple[str, Treatment] | None = None
    notice: str | None = None
    lost: int | None = None


@dataclass(slots=True)
class Observer:
    """The callbacks of a recorder: exchanges, trouble with storing, refusals, failures of the relay itself.

    `asked` gets each `host:port` that a client asks the proxy for, and its treatment; `notice` gets messages about a
    client that the user should see at once.
    """

    finished: Callable[[journal.Finished], None] = lambda _: None
    trouble: Callable[[str], None] = lambda _: None
    refused: Callable[[Refusal], None] = lambda _: None
    failed: Callable[[str], None] = lambda _: None
    asked: Callable[[str, Treatment], None] = lambda _host, _treatment: None
    notice: Callable[[str], None] = lambda _: None


class _Worker:
    """One place among the workers: its process, and the next if that dies."""

    def __init__(self, settings: bytes, observer: Observer) -> None:
        self._settings, self._observer = settings, observer
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.share: RelayShare | None = None
        self.last_shares: list[RelayShare] = []
        """Those of its processes that died."""
        self.deaths = 0
        self.lost: int | None = None

    async def run(self) -> None:
        attempt, backoff_seconds = 0, (0.05, 0.5, 2.0, 5.0)
        while not self._is_stopping:
            try:
                await self._run_once()
            except OSError as error:
                self._fail(WriterFailed(f"a worker process cannot be started: {local.cause(error)}"))
            if not self.ready.done() or self.ready.exception():
                return
            await asyncio.sleep(backoff_seconds[min(attempt, len(backoff_seconds) - 1)])
            attempt += 1

    async def _run_once(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            *children.python("-m", "wiretape.recorder.relay.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            env=children.environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(self._settings + b"\n")
        if self._is_stopping:
            self.send("cut")
        with contextlib.suppress(ValueError, msgspec.MsgspecError, ConnectionError):  # then its reports are useless
            while (line := await process.stdout.readline()).endswith(b"\n"):
                self._take(msgspec.json.decode(line, type=WorkerReport))
        self.kill()
        code = await process.wait()
        if self.lost is None:
            self._note_death(process.pid, code)

    def _take(self, report: WorkerReport) -> None:
        if report.share is not None:
            self.share = report.share
            self.lost = report.lost
        elif report.failure is not None:
            code, message = report.failure
            self._fail(BY_EXIT_CODE.get(code, WiretapeError)(message))
        elif report.is_ready:
            if not self.ready.done():
                self.ready.set_result(None)
        else:
            self._pass_on(report)

    def _pass_on(self, report: WorkerReport) -> None:
        if report.finished is not None:
            self._observer.finished(report.finished)
        elif report.trouble is not None:
            self._observer.trouble(report.trouble)
        elif report.refused is not None:
            self._observer.refused(Refusal(*report.refused))
        elif report.fault is not None:
            self._observer.failed(report.fault)
        elif report.asked is not None:
            self._observer.asked(*report.asked)
        elif report.notice is not None:
            self._observer.notice(report.notice)

    def _fail(self, error: WiretapeError) -> None:
        if self.ready.done():
            self._observer.trouble(str(error))
        else:
            self.ready.set_exception(error)

    def _note_death(self, pid: int, code: int) -> None:
        """Keep the last share of a process that ended by itself, and report its end."""
        cause = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        if not self.ready.done():
            self._fail(WriterFailed(f"a worker process ended before it was ready ({cause})"))
            return
        self.deaths += 1
        if self.share is not None:
            self.last_shares.append(msgspec.structs.replace(self.share, waiting_ns=0, lacking=False, live=0))
            self.share = None
        consequence = "" if self._is_stopping else "; starting another"
        self._observer.trouble(f"worker process {pid} died ({cause}): its exchanges are interrupted{consequence}")

    def send(self, command: Command) -> None:
        """Send a command; `drain` and `cut` end the process."""
        self._is_stopping = self._is_stopping or command != "give_up"
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                self._process.kill()


class Workers:
    """All further processes of a recorder."""

    def __init__(self, count: int, observer: Observer) -> None:
        self._count, self._observer = count, observer
        self._workers: list[_Worker] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._gave_up = False

    async def start(self, settings: bytes) -> None:
        """Start them with these settings, and wait until each is ready. Raises `WiretapeError` if one cannot be."""
        self._workers = [_Worker(settings, self._observer) for _ in range(self._count)]
        self._tasks = [asyncio.create_task(worker.run()) for worker in self._workers]
        try:
            await asyncio.gather(*(worker.ready for worker in self._workers))
        except BaseException:
            await self.stop(0)
            raise

    def shares(self) -> list[RelayShare]:
        """Return each worker's share, and the last shares of those that died."""
        shares = [worker.share for worker in self._workers if worker.share is not None]
        return [*shares, *(share for worker in self._workers for share in worker.last_shares)]

    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def _counts(self) -> list[Counts]:
        return [share.counts for share in self.shares()]

    @property
    def lost(self) -> int:
        """Frames that those that have ended could not store."""
        return sum(worker.lost or 0 for worker in self._workers)

    @property
    def deaths(self) -> int:
        """The number of processes that ended by themselves."""
        return sum(worker.deaths for worker in self._workers)

    def send(self, command: Command) -> None:
        for worker in self._workers:
            worker.send(command)

    def give_up(self) -> None:
        """Stop storing in all workers, for good."""
        if not self._gave_up:
            self._gave_up = True
            self.send("give_up")

    async def stop(self, seconds: float) -> None:
        """Wait until all have ended; kill them if none makes progress for `seconds`."""
        self.send("drain")
        counts, until = self._counts(), SYSTEM.now() + seconds * 1e9
        while any(not task.done() for task in self._tasks) and SYSTEM.now() < until:
            await asyncio.wait(self._tasks, timeout=0.05)
            if counts != (counts := self._counts()):
                until = SYSTEM.now() + seconds * 1e9
        for worker in self._workers:
            worker.kill()
        for task in self._tasks:
            with contextlib.suppress(TimeoutError):  # it was killed: nothing more can come from it
                await asyncio.wait_for(task, 1.0)
