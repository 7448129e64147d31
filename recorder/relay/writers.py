"""The writers of a tape, one after the other: each is reached, or started, and told who sends to it.

A relay that reaches a writer sends it `relay`, the tape's limits and the session, and then all frames that no earlier
writer has acknowledged. A writer takes long to load, and says so every second: frames are kept meanwhile, so that
programs need not wait. The tape is the same file for all of them: one that is another file is refused.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec

from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import BY_EXIT_CODE, TapeError, TapeGone, WiretapeError, WriterFailed
from wiretape.recorder.relay import link
from wiretape.recorder.relay.link import Link
from wiretape.recorder.relay.sharing import WorkerPlace
from wiretape.recorder.tape import journal, lock, peek
from wiretape.recorder.tape.lock import Identity, identity

_REACH_NS = 10_000_000_000
"""Time allowed for connecting to a writer that another relay starts, …"""
READY_SECONDS = 10.0
"""… and for each answer of that writer, which sends one every second while it loads."""


class EndedEarly(WriterFailed):
    """A writer that has ended before it held the tape, and without a reason."""


class Writers:
    """The writers of one tape, as one relay sees them.

    `process` is the connection to the present one, `ready` the last one's answer that it holds the tape. `unfinished`
    are the ids of exchanges whose end no writer has reported. `heard_ns` is the time of the last sign of progress.
    `reached` is set when the frames of a new relay are in a writer's socket, and no other relay is about to start one.
    """

    def __init__(
        self, path: Path, session: journal.Session, purpose: str, keep: journal.Keep | None, place: WorkerPlace,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._path, self._session, self._purpose, self._keep = path, session, purpose, keep
        self.place, self._clock = place, clock
        self.process: Link | None = None
        self.ready = journal.Ready("", [])
        self.starting, self.reached = asyncio.Lock(), asyncio.Event()
        self.unfinished: set[str] = set()
        self.announced: journal.Deleting | None = None
        self.verified: journal.Verified | None = None
        self.heard_ns = clock.now()
        self._file: Identity | None = None

    def check_tape(self) -> bool:
        """Raise if a new writer would refuse the tape, and return False if it may."""
        try:
            return peek.check_writable(self._path) or bool(lock.holder(self._path))
        except TapeError:
            if not lock.holder(self._path):
                raise
            return True

    async def launch(self, send_all: Callable[[], None], attempt: int = 0) -> bool:
        """Reach the writer, and start one if there is none; return True if it is the first. Raises `WiretapeError`.

        `send_all` sends it all kept frames.
        """
        until = self._clock.now() + _REACH_NS
        while True:
            began = self._clock.now()
            try:
                return await self._introduce(link.reach(self._path, self._purpose, self._file), send_all, attempt)
            except OSError as error:
                until += self._clock.now() - began  # a writer that dies while it loads has taken its time for that
                if self._clock.now() > until or isinstance(error, (PermissionError, TimeoutError)):
                    raise link.unreachable(self._path, str(error) or "it does not answer") from error
            await asyncio.sleep(0.05)

    async def _introduce(
        self, connecting: Coroutine[Any, Any, Link], send_all: Callable[[], None], attempt: int
    ) -> bool:
        """Send a writer the session and all that is kept, and wait until it holds the tape."""
        async with self.starting:
            process = self.process = await connecting
        loop = asyncio.get_running_loop()
        # The answer of another relay's writer comes at once, unless that relay has just begun, too.
        loop.call_later(0.1 if process.pid is None else 0, self.reached.set)
        # The session comes first, and all kept frames follow at once, so that no flush comes between.
        process.sink.write(b"".join(journal.encode(0, frame) for frame in self._preamble()))
        send_all()
        try:
            answer = await self._read_ready(process, attempt)
        except (WiretapeError, OSError):
            self.process = None
            if process.pid is None:
                process.kill()
            await process.wait_or_kill()
            raise
        is_first = self._file is None
        self.ready, self.heard_ns = answer, self._clock.now()
        self._file = self._file or identity(self._path)
        return is_first

    async def _read_ready(self, process: Link, attempt: int) -> journal.Ready:
        """Wait until a writer holds the tape; one that another relay has started, only while it is alive.

        The first attempts count as progress: a close waits for them, but not for writers that fail again and again.
        """
        is_own = process.pid is not None
        answer: journal.Answer | None = journal.Loading()
        while isinstance(answer, journal.Loading):
            async with asyncio.timeout(None if is_own else READY_SECONDS):
                answer = await link.read_answer(process.answers)
            if attempt <= 1:
                self.heard_ns = self._clock.now()
        if answer is None and not is_own:
            raise ConnectionError("it does not answer")
        if isinstance(answer, journal.Ready):
            return answer
        if not isinstance(answer, journal.Fatal):
            raise EndedEarly("the writer process ended before it was ready: run 'wiretape db check'")
        if answer.final:  # the tape's state follows: earlier writers' frames may be gone
            while isinstance(answer_after := await link.read_answer(process.answers), journal.Loading):
                pass
            self.verified = answer_after if isinstance(answer_after, journal.Verified) else None
        kind = BY_EXIT_CODE.get(answer.exit_code, WriterFailed)
        raise TapeGone(answer.message) if answer.final and kind is WriterFailed else kind(answer.message)

    def _preamble(self) -> Iterator[journal.Frame]:
        place, newest_no = self.place, self._file and self.ready.newest_no
        yield journal.Relay(self._purpose, place.is_worker, newest_no, list(self.unfinished), place.workers())
        if self._keep or self.announced:
            yield msgspec.structs.replace(self._keep or journal.Keep(), announced=self.announced)
        yield self._session

    def goes_on(self, grace: float, is_loading: bool) -> bool:
        """Return True if there is no standstill of `grace` seconds, or of a writer that loads."""
        allowed_ns = int(grace * 1e9)
        return self._clock.now() < self.heard_ns + (max(allowed_ns, _REACH_NS) if is_loading else allowed_ns)
