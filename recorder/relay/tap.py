"""The relay's end of the journal: sends frames to the writer process, never blocks, and counts losses.

Frames are kept until they are acknowledged; if the writer dies, another is started, and gets them again. Past a bound
a stream is relayed but no longer stored, and its gap is counted: a stream on a tape is always an exact prefix.

All relays of a tape have one writer, which any of them starts (`wiretape.recorder.relay.link`).
"""

import asyncio
import contextlib
import math
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode.exchange import FAILURES
from wiretape.recorder.decode.operation import is_covered
from wiretape.recorder.errors import BY_EXIT_CODE, LASTING, TapeError, TapeGone, WiretapeError, WriterFailed
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import link, sharing
from wiretape.recorder.relay.frame_queue import FrameQueue
from wiretape.recorder.relay.link import Link
from wiretape.recorder.relay.sharing import Share, WorkerPlace
from wiretape.recorder.relay.unstored import UnstoredExchanges
from wiretape.recorder.tape import journal, lock, peek
from wiretape.recorder.tape.lock import Identity, identity
from wiretape.recorder.tape.losses import LATE_NS, Counts, LossReporter, Totals, reconcile

QUEUE_BYTES = 64 << 20
"""Unacknowledged bytes kept at most; reads beyond it become gaps, and request bodies are left out."""
GATHER_SECONDS = 0.09
"""Time for gathering reads before they are sent: they and the writer's window (`window.WINDOW_NS`) take less than 0.2 s
together, the most that a kill may cost; a window holds the frames of two such times, so that a commit is of both."""
PROMPT_SECONDS = 0.03
"""Time for gathering all other frames, so that viewers see an exchange's begin and end soon."""
_TIMER_NS = 1_000_000
"""Resolution of the event loop's timers; a longer delay is the loop's."""
_PIPE_BYTES = 4 << 20
_LATER_SECONDS = 0.05
HEARTBEAT_SECONDS = 5.0
_LAST_SECONDS = 0.5
_CUT_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_BACKOFF_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
_REACH_NS = 10_000_000_000
"""Time allowed for connecting to a writer that another relay starts, …"""
READY_SECONDS = 10.0
"""… and for each answer of that writer, which sends one every second while it loads."""
_JOINING_SECONDS = 0.1
"""Time for which a start waits for that answer, which comes at once unless the other relay has just begun, too."""
_WATCH_SECONDS = 0.25
MEASURING_SECONDS = 3.0
"""Time allowed for measuring after a signal of the system, which may kill whoever takes longer."""
_NOTICE_SECONDS = 1.0, 5.0
"""Time until a close first reports its progress, and the interval after that."""
_MAY_WAIT = (journal.SocketReads, journal.Upload, journal.Heartbeat)


class Tap:
    """One relay's connection to the writer of a tape."""

    def __init__(
        self,
        path: Path,
        session: journal.Session,
        purpose: str,
        *,
        on_finished: Callable[[journal.Finished], None] = lambda _: None,
        on_trouble: Callable[[str], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
        clock: Clock = SYSTEM,
        queue_bytes: int = QUEUE_BYTES,
        keep: journal.Keep | None = None,
        place: WorkerPlace | None = None,
    ) -> None:
        self.counts = Counts()
        self.unstored = UnstoredExchanges(session.uuid)
        self.on_late: Callable[[int, int], None] = lambda due, late_ns: None
        """Called when the event loop was late: with the time from which it was, and its delay, in ns."""
        self.on_run: Callable[[], None] = lambda: None
        """Called at intervals: a later delay of the event loop began after that."""
        self._path, self._session, self._purpose, self._keep = path, session, purpose, keep
        self._place = place or WorkerPlace()
        self._announced: journal.Deleting | None = None
        self._on_finished, self._on_trouble, self._on_notice = on_finished, on_trouble, on_notice
        self._clock = clock
        self.frames = FrameQueue(clock, queue_bytes, self._flush_reads)
        self._lost = self._flush_due = 0
        self._flush_at: asyncio.TimerHandle | None = None
        self._flush_wait = math.inf
        """Time for which the frames that are flushed next wait, in seconds."""
        self._process: Link | None = None
        self._ready = journal.Ready("", [])
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = self._is_hurried = self._gave_up = False
        self._all_stored = asyncio.Event()
        self._starting, self._reached = asyncio.Lock(), asyncio.Event()
        self._launching: asyncio.Task[None] | None = None
        self._unfinished: set[str] = set()
        self._verified: journal.Verified | None = None
        self._file: Identity | None = None
        self._reporter = LossReporter()
        # When a close must be over, and when the writer last acknowledged or reported anything.
        self._deadline_ns, self._heard_ns = sys.maxsize, clock.now()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The event loop; asking for it is a system call in Python 3.11, and a tap is made before it runs."""
        return asyncio.get_running_loop()

    @property
    def pid(self) -> int | None:
        """The writer's process id, if this relay has started it."""
        return self._process.pid if self._process else None

    @property
    def joined(self) -> int | None:
        """The process of the recorder that was joined; None: this one started the writer."""
        return self._ready.joined

    async def start(self) -> None:
        """Reach a writer. Raise `WiretapeError` if that cannot be.

        One that has just been started takes long to load, and need not hold the tape yet: frames are kept until then.
        A tape with names that are not ours is waited for: it may be one that is only read.
        """
        is_plain = await asyncio.to_thread(self._check_tape)
        self._launching = asyncio.create_task(self._launch())
        reached = asyncio.create_task(self._reached.wait())
        await asyncio.wait((self._launching, reached), return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        if not (is_plain and self._reached.is_set()):
            await self._launching
        works = [self._keep_writer_running, self._watch_losses]
        if not self._place.is_worker:
            works.append(self._send_heartbeats)
        self._tasks = [asyncio.create_task(work()) for work in works]

    def _check_tape(self) -> bool:
        """Raise if a new writer would refuse the tape, and return False if it may."""
        try:
            return peek.check_writable(self._path) or bool(lock.holder(self._path))
        except TapeError:
            if not lock.holder(self._path):
                raise
            return True

    async def ready(self) -> None:
        """Wait until the first writer holds the tape, or has failed to."""
        assert self._launching is not None
        await asyncio.wait((self._launching,))

    async def _launch(self, attempt: int = 0) -> None:
        """Reach the writer, and start one if there is none. Raise `WiretapeError` if that cannot be."""
        until = self._clock.now() + _REACH_NS
        while True:
            began = self._clock.now()
            try:
                return await self._introduce(link.reach(self._path, self._purpose, self._file), attempt)
            except OSError as error:
                until += self._clock.now() - began  # a writer that dies while it loads has taken its time for that
                if self._clock.now() > until or isinstance(error, (PermissionError, TimeoutError)):
                    raise link.unreachable(self._path, str(error) or "it does not answer") from error
            await asyncio.sleep(_LOOK_SECONDS)

    async def _introduce(self, connecting: Coroutine[Any, Any, Link], attempt: int) -> None:
        """Send a writer the session and all that is kept, and wait until it holds the tape."""
        async with self._starting:
            process = self._process = await connecting
        self._loop.call_later(_JOINING_SECONDS if process.pid is None else 0, self._reached.set)
        # The session comes first, and all kept frames follow at once, so that no flush comes between.
        process.sink.write(b"".join(journal.encode(0, frame) for frame in self._preamble()))
        self.frames.send_again()
        self._flush()
        try:
            answer = await self._read_ready(process, attempt)
        except (WiretapeError, OSError):
            self._process = None
            if process.pid is None:
                process.kill()
            await _ended(process)
            raise
        if self._file is None and not self._place.is_worker:
            for warning in answer.warnings:
                self._on_notice(f"warning: {warning}")
        self._ready, self._heard_ns = answer, self._clock.now()
        self._file = self._file or identity(self._path)
        if not self._place.is_worker:
            self.unstored.open(self._path, self._on_trouble)

    async def _read_ready(self, process: Link, attempt: int) -> journal.Ready:
        """Wait until a writer holds the tape; one that another relay has started, only while it is alive.

        The first attempts count as progress: a close waits for them, but not for writers that fail again and again.
        """
        is_own = process.pid is not None
        answer: journal.Answer | None = journal.Loading()
        while isinstance(answer, journal.Loading):
            async with asyncio.timeout(None if is_own else READY_SECONDS):
                answer = await read_answer(process)
            if attempt <= 1:
                self._heard_ns = self._clock.now()
        if answer is None and not is_own:
            raise ConnectionError("it does not answer")
        if not isinstance(answer, journal.Ready):
            await self._read_last(process, answer)
            raise _start_failure(answer)
        return answer

    def _preamble(self) -> Iterator[journal.Frame]:
        place = self._place
        newest_no = self._file and self._ready.newest_no
        yield journal.Relay(self._purpose, place.is_worker, newest_no, list(self._unfinished), place.workers())
        if self._keep or self._announced:
            yield msgspec.structs.replace(self._keep or journal.Keep(), announced=self._announced)
        yield self._session

    async def _read_last(self, process: Link, answer: journal.Answer | None) -> None:
        """Read the tape's state from a writer that refuses it for good: earlier writers' frames may be gone."""
        if isinstance(answer, journal.Fatal) and answer.final:
            while isinstance(last := await read_answer(process), journal.Loading):
                pass
            self._verified = last if isinstance(last, journal.Verified) else None

    async def _keep_writer_running(self) -> None:
        """Handle the writer's answers; when it dies, start another, waiting longer each time."""
        attempt = 0
        assert self._launching is not None
        await self._follow_launch(self._launching)
        while True:
            was_own = self._process is not None and self._process.pid is not None
            if self._process is not None:
                attempt = 0 if await self._handle_answers(self._process) else attempt
                await _ended(self._process)
                self._process = None
            if self._gave_up or (self._closing and not self.frames):
                return
            self.counts.restarts += 1
            if was_own:  # else the relay that started it reports that
                again = counted(len(self.frames), "frame")
                self._report(f"the writer ended; starting another (to be sent again: {again})")
            await asyncio.sleep(_BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)])
            attempt += 1
            await self._follow_launch(self._launch(attempt), attempt)

    async def _follow_launch(self, launching: Awaitable[None], attempt: int = 0) -> None:
        """Wait until a writer holds the tape, and report the error if that cannot be."""
        try:
            await launching
        except WiretapeError as error:
            if not self._place.is_worker:
                # A writer that was killed while it loaded says nothing about the tape; the third in a row does.
                is_replaced = isinstance(error, _EndedEarly) and attempt <= 1 and (self.frames or not self._closing)
                self._report("the writer ended before it was ready; starting another" if is_replaced else str(error))
            if isinstance(error, LASTING):
                self.give_up()

    async def _handle_answers(self, process: Link) -> bool:
        """Handle answers until the writer ends; return True if it was of use.

        Any failure to read one ends the writer: its acknowledgements would not be read.
        """
        try:
            return await self._read_answers(process)
        except Exception as error:  # noqa: BLE001 - a relay whose reader has ended would store nothing for ever
            self._report(f"the writer's answers cannot be read ({error})")
            process.kill()
            return False

    async def _read_answers(self, process: Link) -> bool:
        """Handle answers until the writer ends; return True if it ever acknowledged anything."""
        useful = False
        while answer := await read_answer(process):
            match answer:
                case journal.Ack():
                    useful = True
                    self._handle_ack(answer)
                case journal.Trouble(message=message):
                    self._report(message)
                case journal.Fatal():
                    self._handle_fatal(answer)
                case journal.Deleting() | journal.Deleted():
                    self._count_deleted(answer)
                case journal.Verified():
                    self._verified = answer
        return useful

    def _handle_fatal(self, fatal: journal.Fatal) -> None:
        if not self._place.is_worker:  # else its recorder reports that
            self._report(fatal.message)
        if fatal.final:
            self.give_up()

    def _handle_ack(self, ack: journal.Ack) -> None:
        self._heard_ns = self._clock.now()
        self._acknowledge(ack.seq)
        self._count_lost(ack.lost)
        for one in ack.finished:
            self._count_finished(one)

    def _acknowledge(self, seq: int) -> None:
        frames = self.frames.acknowledge(seq)
        if frames:
            self.counts.lag_ns = self._clock.now() - frames[0].at
        for frame in frames:
            self.counts.stored_bytes += frame.body
            self.counts.stored_exchanges += frame.begins
            for id in frame.ends:
                self.unstored.drop(id)
        if not self.frames:
            self._all_stored.set()
        if self.counts.trouble:
            self._report("")

    def _count_deleted(self, deleted: journal.Deleting | journal.Deleted) -> None:
        """Count deleted exchanges; remember an announced deletion, as the writer may die before it reports the end."""
        if isinstance(deleted, journal.Deleting):
            self._announced = deleted
            return
        self._announced = None
        self.counts.deleted += deleted.exchanges
        self.counts.own_deleted += deleted.own_exchanges
        self.counts.own_failed_deleted += deleted.own_failed
        self.counts.own_non_generations_deleted += deleted.own_non_generations
        self.counts.stored_exchanges -= deleted.own_exchanges
        self.counts.stored_bytes -= deleted.own_bytes

    def _count_lost(self, lost: list[journal.Lost]) -> None:
        """Count acknowledged frames that found no place on the tape; report the exchanges that are lost as a whole."""
        gone = [one.id for one in lost if one.is_whole and one.id in self._unfinished]
        size = sum(one.bytes for one in lost)
        self._unfinished.difference_update(gone)
        self.counts.stored_bytes -= size
        self.counts.dropped_bytes += size
        self.counts.stored_exchanges -= len(gone)
        self.counts.unrecorded += len(gone)
        if gone:
            self._on_trouble(
                f"the tape does not hold {counted(len(gone), 'running exchange')} ({gone[0][:8]}…): the rest of"
                " them is relayed, but not stored"
            )

    @property
    def unfinished(self) -> int:
        """The number of exchanges whose end the writer has not reported, and will."""
        return 0 if self._gave_up else len(self._unfinished)

    @property
    def gave_up(self) -> bool:
        """True if nothing more is stored."""
        return self._gave_up

    def give_up(self) -> None:
        """Stop storing: streams go on, and their unstored bytes are counted."""
        self.frames.encode()
        self._gave_up, self.frames.limit = True, -1
        self._count_pending_as_lost()
        self._all_stored.set()

    def _count_pending_as_lost(self) -> None:
        for frame in self.frames.clear():
            self._lost += frame.entries
            self.counts.dropped_bytes += frame.body
            self.counts.unrecorded += frame.begins

    def _count_finished(self, one: journal.Finished) -> None:
        """Count an exchange once: a restarted writer may repeat the report of an earlier one."""
        if one.id not in self._unfinished:
            return
        self._unfinished.discard(one.id)
        self.counts.recorded += 1
        self.counts.failed += is_covered(one.operation) and one.outcome in FAILURES
        self.counts.non_generations += not is_covered(one.operation)
        self._on_finished(one)

    def _report(self, message: str) -> None:
        self.counts.trouble = message
        self._on_trouble(message)

    async def _watch_losses(self) -> None:
        """Report losses, and list them in the file beside the tape."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            self._watch()

    def _watch(self) -> None:
        self.on_run()
        if self._place.is_worker:
            self._place.on_share(self.share())
            return
        whole = sharing.total([self.share(), *self._place.others()])
        now = self._clock.now()
        late = whole.waiting_ns, whole.silent_ns
        if line := self._reporter.report(now, whole.counts, *late, lacking=whole.lacking):
            self._on_trouble(line)
        self.unstored.keep(whole.unstored)

    def share(self) -> Share:
        """Return this relay's own share."""
        now = self._clock.now()
        waiting_ns = self._waiting_ns(now)
        unstored = self.unstored.listed(is_late=self._gave_up or self._closing or waiting_ns > LATE_NS)
        silent_ns = min(waiting_ns, now - self._heard_ns)
        return Share(self.counts, unstored, waiting_ns, self._gave_up or self.unstored.has_gaps, silent_ns=silent_ns)

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            # While streams run there is always a frame without an acknowledgement yet.
            if self._waiting_ns(self._clock.now()) <= LATE_NS:
                self.put(journal.Heartbeat(self._clock.wall()))

    def put(self, entry: journal.Entry) -> None:
        """Queue an entry that is small or must not be lost."""
        if self._gave_up:
            self._lost += 1
            return
        if isinstance(entry, journal.Begin):
            self._unfinished.add(entry.id)
        self.frames.put(entry)
        if self._flush_wait > PROMPT_SECONDS:
            self._flush_soon(GATHER_SECONDS if isinstance(entry, _MAY_WAIT) else PROMPT_SECONDS)

    def _flush_reads(self) -> None:
        if self._flush_wait > GATHER_SECONDS:
            self._flush_soon(GATHER_SECONDS)

    def _flush_soon(self, seconds: float) -> None:
        due = self._clock.now() + int(seconds * 1e9)
        self._flush_wait = min(seconds, self._flush_wait)
        if self._flush_at is not None:
            if self._flush_due <= due:
                return
            self._flush_at.cancel()
        self._flush_due, self._flush_at = due, self._loop.call_later(seconds, self._flush)

    def lag_ns(self) -> int:
        """Return the time from a frame's queueing to its commit: the last one's, or the oldest waiting one's age."""
        return max(self.counts.lag_ns, self._waiting_ns(self._clock.now()))

    def _waiting_ns(self, now: int) -> int:
        oldest_at = self.frames.oldest_at
        return 0 if oldest_at is None else now - oldest_at

    def totals(self) -> Totals:
        """Return the totals of the recording, after `close`."""
        return reconcile(sharing.total([self.share(), *self._place.others()]).counts, self._verified)

    def cut(self) -> None:
        """Make `close` wait for at most one second more."""
        self._deadline_ns = self._clock.now() + int(_CUT_SECONDS * 1e9)

    def _flush(self) -> None:
        """Send the writer what it has not got yet, as far as the pipe has room."""
        if self._flush_at is not None:
            self._flush_at.cancel()
            self._flush_at, self._flush_wait = None, math.inf
            if (late_ns := self._clock.now() - self._flush_due - _TIMER_NS) > _TIMER_NS:
                self.on_late(self._flush_due, late_ns)
        self.frames.encode()
        if self._process is None or self._process.is_over or self._process.sink.is_closing():
            return  # the next writer gets all kept frames
        pipe = self._process.sink
        while not self.frames.is_sent and pipe.get_write_buffer_size() <= _PIPE_BYTES:
            pipe.write(self.frames.take_piece())
        if not self.frames.is_sent:
            self._flush_soon(_LATER_SECONDS)

    async def close(self, grace: float = 10.0) -> int:
        """Make the writer commit and measure everything and end; return the number of frames that are not stored.

        That takes as long as it needs, unless it is cut: only a standstill of `grace` seconds ends it.
        """
        self._closing = True
        for task in self._tasks[2:]:
            task.cancel()  # no heartbeat may follow the end
        self.put(journal.Left() if self._place.is_worker else journal.Close(self._clock.wall()))
        self._flush()
        if self._launching is not None and not self._launching.done() and self._has_nothing():
            return await self._leave()
        self._heard_ns = self._clock.now()
        if self._deadline_ns < self._heard_ns + int(_CUT_SECONDS * 1e9):
            self.cut()  # it was cut before, and the end of the workers has used up that time
        telling = asyncio.create_task(self._tell_what_is_left())
        while self.frames and self._goes_on(grace):
            self._all_stored.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._all_stored.wait()
        if self.frames:
            is_cut = self._clock.now() >= self._deadline_ns
            why = "recording was cut" if is_cut else f"for {grace:.2g} s the writer acknowledged nothing"
            self._report(f"{counted(self.frames.entries, 'frame')} could not be stored: {why}")
            self._watch()
        await self._end_writer(grace)
        telling.cancel()
        self.unstored.close()
        self._count_pending_as_lost()
        return self._lost

    def _has_nothing(self) -> bool:
        """Return True if nothing was put but the session's end."""
        return self.frames.seq == self.frames.entries == 1 and not self.counts.unrecorded

    async def _leave(self) -> int:
        """Leave the writer before it is loaded: the frames are in its socket, and its answers of no use."""
        await self._cancel_tasks()
        if self._process is not None:
            await _ended(self._process)
        return 0

    async def _cancel_tasks(self) -> None:
        tasks = self._tasks if self._launching is None else [*self._tasks, self._launching]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _goes_on(self, grace: float) -> bool:
        """Return True if there is no standstill of `grace` seconds, or of a writer that loads, and no cut."""
        allowed_ns = int(grace * 1e9)
        if self._launching is not None and not self._launching.done():
            allowed_ns = max(allowed_ns, _REACH_NS)
        return self._clock.now() < min(self._deadline_ns, self._heard_ns + allowed_ns)

    async def _tell_what_is_left(self) -> None:
        """Print the number of exchanges still to be stored and measured, at intervals if it changes."""
        first, then = _NOTICE_SECONDS
        reported = 0
        await asyncio.sleep(first)
        while not self._place.is_worker:
            if (left := len(self._unfinished)) not in (0, reported):
                reported = left
                self._on_notice(f"storing and measuring {counted(left, 'exchange')} (ctrl-c again to cut) …")
            await asyncio.sleep(then)

    def hurry(self) -> None:
        """Make `close` leave the measuring of stored exchanges to the next writer after `MEASURING_SECONDS`."""
        self._is_hurried = True

    async def _end_writer(self, grace: float) -> None:
        """Send the writer the end of file, and handle its last answers until it ends."""
        if self._process is not None:
            self._process.end()
        began = self._clock.now()
        until, leave_at = began + int(_LAST_SECONDS * 1e9), began + int(MEASURING_SECONDS * 1e9)
        while any(not task.done() for task in self._tasks[:1]) and (self._goes_on(grace) or self._clock.now() < until):
            if self._is_hurried and not self.frames and self._clock.now() >= leave_at:
                break
            await asyncio.wait(self._tasks[:1], timeout=_LOOK_SECONDS)
        async with self._starting:  # a start cancelled half-way would leave a process without an owner
            await self._cancel_tasks()
        if self._process is not None:
            if self.frames or not self._is_hurried:  # else it ends by itself, and well
                self._process.kill()
            await self._process.wait()


async def read_answer(process: Link) -> journal.Answer | None:
    """Wait for the writer's next answer; None at its end, even if that came in the middle of a line.

    Raises `WriterFailed` for anything that is no answer: the committed frames are unknown then.
    """
    try:
        line = await process.stdout.readline()
        return journal.decode_answer(line) if line.endswith(b"\n") else None
    except (ValueError, msgspec.MsgspecError) as error:  # a line that is too long, or junk
        raise WriterFailed(f"the writer process sent an invalid answer: {error}") from error


async def _ended(process: Link) -> None:
    """Wait until a writer that answers no more has ended; kill it if that takes too long."""
    try:
        await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class _EndedEarly(WriterFailed):
    """A writer that has ended before it held the tape, and without a reason."""


def _start_failure(answer: journal.Answer | None) -> WiretapeError:
    if isinstance(answer, journal.Fatal):
        kind = BY_EXIT_CODE.get(answer.exit_code, WriterFailed)
        return TapeGone(answer.message) if answer.final and kind is WriterFailed else kind(answer.message)
    return _EndedEarly("the writer process ended before it was ready: run 'wiretape db check'")
