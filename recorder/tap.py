"""The relay's end of the journal: hands frames to the writer process, never blocks, counts what could not be kept.

Frames are gathered for a few milliseconds and written to the writer's pipe; they are kept until acknowledged, up to a
bound. If the writer dies, another is started and is sent again what was not acknowledged. Past the bound a stream is
relayed but no longer stored, and its gap is counted: what is on a tape is always an exact prefix.
"""

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from recorder import journal
from recorder.clock import SYSTEM, Clock
from recorder.errors import BY_EXIT_CODE, WiretapeError, WriterFailed

QUEUE_BYTES = 64 << 20
"""Unacknowledged bytes kept at most; reads beyond it become gaps, and request bodies are left out."""
GATHER_SECONDS = 0.008
"""Frames wait this long for company; well under the commit window, so a killed relay loses no more than that."""
_PIPE_BYTES = 4 << 20
_HEARTBEAT_SECONDS = 5.0
_LAST_SECONDS = 0.5
_CUT_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_BACKOFF_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


class _Kept(NamedTuple):
    """A frame that is not acknowledged: number, birth, encoding, body bytes, and whether it begins an exchange."""

    seq: int
    at: int
    data: bytes
    body: int
    begins: bool


@dataclass(slots=True)
class Counts:
    """What has happened so far; `lag_ns` is the time from a frame's birth to its acknowledgement."""

    recorded: int = 0
    failed: int = 0
    dropped_bytes: int = 0
    unrecorded: int = 0
    restarts: int = 0
    trouble: str = ""
    lag_ns: int = 0


class Tap:
    """Owns the writer process of one tape."""

    def __init__(
        self,
        path: Path,
        session: journal.Session,
        purpose: str,
        *,
        on_finished: Callable[[journal.Finished], None] = lambda _: None,
        on_trouble: Callable[[str], None] = lambda _: None,
        clock: Clock = SYSTEM,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self.counts = Counts()
        self.warnings: list[str] = []
        self._path, self._session, self._purpose = path, session, purpose
        self._on_finished, self._on_trouble = on_finished, on_trouble
        self._clock, self._queue_bytes = clock, queue_bytes
        self._seq = 0
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0
        self._outbox: list[bytes] = []
        self._flush_at: asyncio.TimerHandle | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self._settled = asyncio.Event()
        self._starting = asyncio.Lock()
        self._lost = 0
        self._over = False
        self._until = sys.maxsize

    @property
    def pid(self) -> int | None:
        """The writer's process id; None while there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the writer and wait until it holds the tape; raises what kept it from that."""
        await self._launch()
        self._tasks = [asyncio.create_task(self._keep_up()), asyncio.create_task(self._beat())]

    async def _launch(self) -> None:
        command = (sys.executable, "-P", "-m", "recorder.writer", str(self._path), self._purpose)
        try:
            async with self._starting:
                process = self._process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=1 << 24,
                    start_new_session=True,
                )
        except OSError as error:
            raise WriterFailed(f"the writer process cannot be started ({error.strerror})") from error
        assert process.stdin is not None
        # Nothing may come before the session, and all that is kept follows at once, lest a flush come between.
        self._outbox = [journal.encode(0, self._session), *(kept.data for kept in self._kept)]
        self._flush()
        answer = await _answer(process)
        if not isinstance(answer, journal.Ready):
            self._process = None
            process.stdin.close()
            await process.wait()
            raise _start_failure(answer)
        self.warnings = answer.warnings

    async def _keep_up(self) -> None:
        """Take the writer's answers; when it dies, start another, later and later."""
        attempt = 0
        while True:
            if self._process is not None:
                attempt = 0 if await self._listen(self._process) else attempt
                await self._process.wait()
                self._process = None
            if self._over or (self._closing and not self._kept):
                return
            self.counts.restarts += 1
            self._say(f"the writer ended; starting another ({len(self._kept)} frames will be sent again)")
            await asyncio.sleep(_BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)])
            attempt += 1
            await self._relaunch()

    async def _relaunch(self) -> None:
        try:
            await self._launch()
        except WiretapeError as error:
            self._say(str(error))

    async def _listen(self, process: asyncio.subprocess.Process) -> bool:
        """Take answers until the writer ends; say whether it ever acknowledged anything."""
        useful = False
        while answer := await _answer(process):
            match answer:
                case journal.Ack(seq=seq, finished=finished):
                    useful = True
                    self._acknowledge(seq)
                    for one in finished:
                        self._count(one)
                case journal.Trouble(message=message):
                    self._say(message)
                case journal.Fatal(message=message, final=final):
                    self._say(message)
                    if final:
                        self._give_up()
        return useful

    def _acknowledge(self, seq: int) -> None:
        now = self._clock.now()
        if self._kept and self._kept[0].seq <= seq:
            self.counts.lag_ns = now - self._kept[0].at
        while self._kept and self._kept[0].seq <= seq:
            self._kept_bytes -= len(self._kept.popleft().data)
        if not self._kept:
            self._settled.set()
        if self.counts.trouble:
            self._say("")

    def _give_up(self) -> None:
        """Store nothing more: streams go on, and what is not stored is counted."""
        self._over = True
        self._lose()
        self._settled.set()

    def _lose(self) -> None:
        """Count what is kept as lost."""
        self._lost += len(self._kept)
        self.counts.dropped_bytes += sum(kept.body for kept in self._kept)
        self.counts.unrecorded += sum(kept.begins for kept in self._kept)
        self._kept.clear()
        self._kept_bytes = 0

    def _count(self, one: journal.Finished) -> None:
        self.counts.recorded += 1
        self.counts.failed += one.outcome not in ("complete", "client_closed")
        self._on_finished(one)

    def _say(self, message: str) -> None:
        self.counts.trouble = message
        self._on_trouble(message)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            if not self._kept:
                self.put(journal.Heartbeat(self._clock.wall()))

    def put(self, frame: journal.Frame) -> None:
        """Hand over a frame that is small or must not be lost."""
        if self._over:
            self._lost += 1
            return
        self._seq += 1
        data = journal.encode(self._seq, frame)
        body = len(frame.data) if isinstance(frame, journal.Read) else 0
        self._kept.append(_Kept(self._seq, self._clock.now(), data, body, isinstance(frame, journal.Begin)))
        self._kept_bytes += len(data)
        self._settled.clear()
        self._outbox.append(data)
        if self._flush_at is None:
            self._flush_at = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._flush)

    def offer(self, frame: journal.Read) -> bool:
        """Hand over a read; False if there is no room for it."""
        if not self.has_room(len(frame.data)):
            return False
        self.put(frame)
        return True

    def has_room(self, size: int) -> bool:
        """Say whether `size` more bytes may be kept."""
        return not self._over and self._kept_bytes + size <= self._queue_bytes

    def admits(self) -> bool:
        """Say whether another exchange may be recorded: what must not be lost has a bound, too."""
        return not self._over and self._kept_bytes <= 2 * self._queue_bytes

    def lag_ns(self) -> int:
        """Give the time from a frame's birth to its commit: the last one's, or that of what is waiting, if longer."""
        waiting = self._clock.now() - self._kept[0].at if self._kept else 0
        return max(self.counts.lag_ns, waiting)

    def cut(self) -> None:
        """Let `close` wait for a moment only."""
        self._until = self._clock.now() + int(_CUT_SECONDS * 1e9)

    def _flush(self) -> None:
        self._flush_at = None
        if self._process is None or self._process.stdin is None or self._process.returncode is not None:
            return  # whatever is kept is sent again to the next writer
        pipe = self._process.stdin
        if pipe.is_closing():
            return
        if pipe.transport.get_write_buffer_size() > _PIPE_BYTES:
            self._flush_at = asyncio.get_running_loop().call_later(0.05, self._flush)
            return
        pipe.write(b"".join(self._outbox))
        self._outbox.clear()

    async def close(self, grace: float = 10.0) -> int:
        """Let the writer commit everything and end; give the number of frames that could not be stored."""
        self._closing = True
        for task in self._tasks[1:]:
            task.cancel()  # no sign of life may come after the end
        self.put(journal.Close(self._clock.wall()))
        self._flush_now()
        self._until = min(self._until, self._clock.now() + int(grace * 1e9))
        while self._kept and self._clock.now() < self._until:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._settled.wait()
        if self._kept:
            self._say(f"{len(self._kept)} frames could not be stored within {grace:.2g} s")
        left = (self._until - self._clock.now()) / 1e9
        await self._end_writer(max(left, _LAST_SECONDS))
        self._lose()
        return self._lost

    def _flush_now(self) -> None:
        if self._flush_at is not None:
            self._flush_at.cancel()
        self._flush()

    async def _end_writer(self, seconds: float) -> None:
        """Give the writer the end of file, and listen to what it still reports until it ends."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=seconds)
        async with self._starting:  # a start that is cancelled half-way would leave a process to nobody
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def _answer(process: asyncio.subprocess.Process) -> journal.Answer | None:
    """Wait for the writer's next answer; None at its end, even if that came in the middle of a line."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    try:
        return journal.decode_answer(line) if line.endswith(b"\n") else None
    except msgspec.MsgspecError:  # not an answer: whatever wrote it, there is no telling what is committed
        process.kill()
        return None


def _start_failure(answer: journal.Answer | None) -> WiretapeError:
    if isinstance(answer, journal.Fatal):
        return BY_EXIT_CODE.get(answer.exit_code, WriterFailed)(answer.message)
    return WriterFailed("the writer process ended before it was ready: run 'wiretape db check'")
