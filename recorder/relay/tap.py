"""The relay's end of the journal: sends frames to the writer process, never blocks, and counts losses.

Each exchange puts its entries and reads into the queue of frames; `wiretape.recorder.tape.journal` has the rules of who
keeps what until when. Here:

- Reads are gathered for `GATHER_SECONDS`, all else for `PROMPT_SECONDS`; then one frame has all of both.
- A frame is kept until it is acknowledged. If the writer dies, another is started, and gets the kept ones again.
- Past the queue's limit, a stream is relayed but no longer stored, and its gap is counted: a stream on a tape is always
  an exact prefix. Entries that must not be lost have a bound, too: beyond it, new exchanges are only counted.
- A tape that cannot be written for good ends the storing (`give_up`), and no stream.
- A close waits while the writer makes progress, and gives up after a standstill, or when it is cut.

All relays of a tape have one writer, which any of them starts (`wiretape.recorder.relay.writers`).
"""

import asyncio
import contextlib
import math
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode.exchange import FAILURES
from wiretape.recorder.decode.operation import is_covered
from wiretape.recorder.errors import LASTING, WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import link, sharing
from wiretape.recorder.relay.frame_queue import FrameQueue
from wiretape.recorder.relay.link import Link
from wiretape.recorder.relay.sharing import RelayShare, WorkerPlace
from wiretape.recorder.relay.unstored import UnstoredExchanges
from wiretape.recorder.relay.writers import EndedEarly, Writers
from wiretape.recorder.tape import journal
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
HEARTBEAT_SECONDS = 5.0
"""Interval of a recorder's reports; one that has not reported for three of them counts as lost (`process.LOST_MS`)."""
_CUT_SECONDS = 1.0
_LOOK_SECONDS = 0.05
MEASURING_SECONDS = 3.0
"""Time allowed for measuring after a signal of the system, which may kill whoever takes longer."""


class FlushTimer:
    """The time of the next flush; `wait` is the time for which it is awaited, in seconds."""

    __slots__ = ("_call", "_clock", "_due", "_handle", "wait")

    def __init__(self, clock: Clock, call: Callable[[], None]) -> None:
        self._clock, self._call = clock, call
        self._due = 0
        self._handle: asyncio.TimerHandle | None = None
        self.wait = math.inf

    def set(self, seconds: float) -> None:
        """Flush after some time, or before."""
        due = self._clock.now() + int(seconds * 1e9)
        self.wait = min(seconds, self.wait)
        if self._handle is not None:
            if self._due <= due:
                return
            self._handle.cancel()
        self._due, self._handle = due, asyncio.get_running_loop().call_later(seconds, self._call)

    def stop(self) -> tuple[int, int]:
        """Await no flush; return the time at which it was due, and for how long it has been, in ns, above a timer's."""
        if self._handle is None:
            return 0, 0
        self._handle.cancel()
        self._handle, self.wait = None, math.inf
        return self._due, self._clock.now() - self._due - _TIMER_NS


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
        self._path = path
        self.writers = Writers(path, session, purpose, keep, place or WorkerPlace(), clock)
        self._on_finished, self._on_trouble, self._on_notice = on_finished, on_trouble, on_notice
        self._clock = clock
        self.frames = FrameQueue(clock, queue_bytes, self._flush_reads)
        self._flush_timer = FlushTimer(clock, self._flush)
        self._lost = 0
        self._writer_task: asyncio.Task[None] | None = None
        self._loss_task: asyncio.Task[None] | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._is_closing = self._is_hurried = False
        self._all_stored = asyncio.Event()
        self._launching: asyncio.Task[bool] | None = None
        self._reporter = LossReporter()
        self._deadline_ns = sys.maxsize
        """The time when a close must be over."""

    @property
    def pid(self) -> int | None:
        """The writer's process id, if this relay has started it."""
        return self.writers.process.pid if self.writers.process else None

    @property
    def joined(self) -> int | None:
        """The process of the recorder that was joined; None: this one started the writer."""
        return self.writers.ready.joined

    async def start(self) -> None:
        """Reach a writer. Raise `WiretapeError` if that cannot be.

        One that has just been started takes long to load, and need not hold the tape yet: frames are kept until then.
        A tape with names that are not ours is waited for: it may be one that is only read.
        """
        is_plain = await asyncio.to_thread(self.writers.check_tape)
        self._launching = asyncio.create_task(self._launch())
        reached = asyncio.create_task(self.writers.reached.wait())
        await asyncio.wait((self._launching, reached), return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        if not (is_plain and self.writers.reached.is_set()):
            await self._launching
        self._writer_task = asyncio.create_task(self._keep_writer_running())
        self._loss_task = asyncio.create_task(self._watch_losses())
        if not self.writers.place.is_worker:
            self._heartbeat_task = asyncio.create_task(self._send_heartbeats())

    async def ready(self) -> None:
        """Wait until the first writer holds the tape, or has failed to."""
        assert self._launching is not None
        await asyncio.wait((self._launching,))

    async def _launch(self, attempt: int = 0) -> bool:
        """Reach a writer that holds the tape. Raises `WiretapeError`."""
        is_first = await self.writers.launch(self._send_again, attempt)
        if not self.writers.place.is_worker:
            for warning in self.writers.ready.warnings if is_first else ():
                self._on_notice(f"warning: {warning}")
            self.unstored.open(self._path, self._on_trouble)
        return is_first

    def _send_again(self) -> None:
        self.frames.send_again()
        self._flush()

    async def _keep_writer_running(self) -> None:
        """Handle the writer's answers; when it dies, start another, waiting longer each time."""
        attempt = 0
        backoff_seconds = 0.05, 0.2, 0.5, 1.0, 2.0, 5.0
        assert self._launching is not None
        await self._follow_launch(self._launching)
        while True:
            process = self.writers.process
            if process is not None:
                attempt = 0 if await self._handle_answers(process) else attempt
                await process.wait_or_kill()
                self.writers.process = None
            if self.gave_up or (self._is_closing and not self.frames):
                return
            self.counts.restarts += 1
            if process is not None and process.pid is not None:  # else the relay that started it reports that
                count = counted(len(self.frames), "frame")
                self._report(f"the writer ended; starting another (to be sent again: {count})")
            await asyncio.sleep(backoff_seconds[min(attempt, len(backoff_seconds) - 1)])
            attempt += 1
            await self._follow_launch(self._launch(attempt), attempt)

    async def _follow_launch(self, launching: Awaitable[bool], attempt: int = 0) -> None:
        """Wait until a writer holds the tape, and report the error if that cannot be."""
        try:
            await launching
        except WiretapeError as error:
            if not self.writers.place.is_worker:
                # A writer that was killed while it loaded says nothing about the tape; the third in a row does.
                is_replaced = isinstance(error, EndedEarly) and attempt <= 1 and (self.frames or not self._is_closing)
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
        while answer := await link.read_answer(process.answers):
            match answer:
                case journal.Ack():
                    useful = True
                    self.writers.heard_ns = self._clock.now()
                    self._acknowledge(answer.seq)
                    self._count_lost(answer.lost)
                    for finished in answer.finished:
                        self._count_finished(finished)
                case journal.Trouble(message=message):
                    self._report(message)
                case journal.Fatal():
                    if not self.writers.place.is_worker:  # else its recorder reports that
                        self._report(answer.message)
                    if answer.final:
                        self.give_up()
                case journal.Deleting() | journal.Deleted():
                    self._count_deleted(answer)
                case journal.Verified():
                    self.writers.verified = answer
        return useful

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
            self.writers.announced = deleted
            return
        self.writers.announced = None
        self.counts.deleted += deleted.exchanges
        self.counts.own_deleted += deleted.own_exchanges
        self.counts.own_failed_deleted += deleted.own_failed
        self.counts.own_non_generations_deleted += deleted.own_non_generations
        self.counts.stored_exchanges -= deleted.own_exchanges
        self.counts.stored_bytes -= deleted.own_bytes

    def _count_lost(self, lost: list[journal.Lost]) -> None:
        """Count acknowledged frames that found no place on the tape; report the exchanges that are lost as a whole."""
        lost_ids = [loss.id for loss in lost if loss.is_whole and loss.id in self.writers.unfinished]
        size = sum(loss.bytes for loss in lost)
        self.writers.unfinished.difference_update(lost_ids)
        self.counts.stored_bytes -= size
        self.counts.dropped_bytes += size
        self.counts.stored_exchanges -= len(lost_ids)
        self.counts.unrecorded += len(lost_ids)
        if lost_ids:
            self._on_trouble(
                f"the tape does not hold {counted(len(lost_ids), 'running exchange')} ({lost_ids[0][:8]}…): the rest of"
                " them is relayed, but not stored"
            )

    @property
    def unfinished(self) -> int:
        """The number of exchanges whose end the writer has not reported, and will."""
        return 0 if self.gave_up else len(self.writers.unfinished)

    @property
    def gave_up(self) -> bool:
        """True if nothing more is stored."""
        return self.frames.limit < 0

    def give_up(self) -> None:
        """Stop storing: streams go on, and their unstored bytes are counted."""
        self.frames.encode()
        self.frames.limit = -1
        self._count_pending_as_lost()
        self._all_stored.set()

    def _count_pending_as_lost(self) -> None:
        for frame in self.frames.clear():
            self._lost += frame.entries
            self.counts.dropped_bytes += frame.body
            self.counts.unrecorded += frame.begins

    def _count_finished(self, finished: journal.Finished) -> None:
        """Count an exchange once: a restarted writer may repeat the report of an earlier one."""
        if finished.id not in self.writers.unfinished:
            return
        self.writers.unfinished.discard(finished.id)
        self.counts.recorded += 1
        self.counts.failed += is_covered(finished.operation) and finished.outcome in FAILURES
        self.counts.non_generations += not is_covered(finished.operation)
        self._on_finished(finished)

    def _report(self, message: str) -> None:
        self.counts.trouble = message
        self._on_trouble(message)

    async def _watch_losses(self) -> None:
        """Report losses, and list them in the file beside the tape."""
        while True:
            await asyncio.sleep(0.25)
            self._watch()

    def _watch(self) -> None:
        self.on_run()
        if self.writers.place.is_worker:
            self.writers.place.on_share(self.share())
            return
        share = sharing.total([self.share(), *self.writers.place.worker_shares()])
        now = self._clock.now()
        late = share.waiting_ns, share.silent_ns
        if line := self._reporter.report(now, share.counts, *late, lacking=share.lacking):
            self._on_trouble(line)
        self.unstored.keep(share.unstored)

    def share(self) -> RelayShare:
        """Return the counts of this relay, its losses, and how long it has waited for its writer."""
        now = self._clock.now()
        waiting_ns = self._waiting_ns(now)
        unstored = self.unstored.snapshot(is_late=self.gave_up or self._is_closing or waiting_ns > LATE_NS)
        silent_ns = min(waiting_ns, now - self.writers.heard_ns)
        return RelayShare(
            self.counts, unstored, waiting_ns, self.gave_up or self.unstored.has_gaps, silent_ns=silent_ns
        )

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            # While streams run there is always a frame without an acknowledgement yet.
            if self._waiting_ns(self._clock.now()) <= LATE_NS:
                self.put(journal.Heartbeat(self._clock.wall()))

    def put(self, entry: journal.Entry) -> None:
        """Queue an entry that is small or must not be lost."""
        if self.gave_up:
            self._lost += 1
            return
        if isinstance(entry, journal.Begin):
            self.writers.unfinished.add(entry.id)
        self.frames.put(entry)
        if self._flush_timer.wait > PROMPT_SECONDS:
            may_wait = isinstance(entry, (journal.SocketReads, journal.Upload, journal.Heartbeat))
            self._flush_timer.set(GATHER_SECONDS if may_wait else PROMPT_SECONDS)

    def _flush_reads(self) -> None:
        if self._flush_timer.wait > GATHER_SECONDS:
            self._flush_timer.set(GATHER_SECONDS)

    def lag_ns(self) -> int:
        """Return the time from a frame's queueing to its commit: the last one's, or the oldest waiting one's age."""
        return max(self.counts.lag_ns, self._waiting_ns(self._clock.now()))

    def _waiting_ns(self, now: int) -> int:
        oldest_at = self.frames.oldest_at
        return 0 if oldest_at is None else now - oldest_at

    def totals(self) -> Totals:
        """Return the totals of the recording, after `close`."""
        return reconcile(
            sharing.total([self.share(), *self.writers.place.worker_shares()]).counts, self.writers.verified
        )

    def cut(self) -> None:
        """Make `close` wait for at most one second more."""
        self._deadline_ns = self._clock.now() + int(_CUT_SECONDS * 1e9)

    def _flush(self) -> None:
        """Send the writer what it has not got yet, as far as the pipe has room."""
        due, late_ns = self._flush_timer.stop()
        if late_ns > _TIMER_NS:
            self.on_late(due, late_ns)
        self.frames.encode()
        process = self.writers.process
        if process is None or process.is_over or process.sink.is_closing():
            return  # the next writer gets all kept frames
        pipe = process.sink
        while not self.frames.is_sent and pipe.get_write_buffer_size() <= 4 << 20:
            pipe.write(self.frames.take_piece())
        if not self.frames.is_sent:
            self._flush_timer.set(0.05)

    async def close(self, grace: float = 10.0) -> int:
        """Make the writer commit and measure everything and end; return the number of frames that are not stored.

        That takes as long as it needs, unless it is cut: only a standstill of `grace` seconds ends it.
        """
        self._is_closing = True
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()  # no heartbeat may follow the end
        self.put(journal.Left() if self.writers.place.is_worker else journal.Close(self._clock.wall()))
        self._flush()
        is_loading = self._launching is not None and not self._launching.done()
        if is_loading and self.frames.seq == self.frames.entries == 1 and not self.counts.unrecorded:
            # Only the session's end was put: the writer has it in its socket, and nobody needs its answers.
            await self._cancel_tasks()
            if self.writers.process is not None:
                await self.writers.process.wait_or_kill()
            return 0
        self.writers.heard_ns = now = self._clock.now()
        if self._deadline_ns < now + int(_CUT_SECONDS * 1e9):
            self.cut()  # it was cut before, and the end of the workers has used up that time
        progress_task = asyncio.create_task(self._report_remaining())
        while self.frames and self._goes_on(grace):
            self._all_stored.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._all_stored.wait()
        if self.frames:
            is_cut = self._clock.now() >= self._deadline_ns
            reason = "recording was cut" if is_cut else f"for {grace:.2g} s the writer acknowledged nothing"
            self._report(f"{counted(self.frames.entries, 'frame')} could not be stored: {reason}")
            self._watch()
        await self._end_writer(grace)
        progress_task.cancel()
        self.unstored.close()
        self._count_pending_as_lost()
        return self._lost

    async def _cancel_tasks(self) -> None:
        tasks = self._writer_task, self._loss_task, self._heartbeat_task, self._launching
        running_tasks = [task for task in tasks if task is not None]
        for task in running_tasks:
            task.cancel()
        await asyncio.gather(*running_tasks, return_exceptions=True)

    def _goes_on(self, grace: float) -> bool:
        """Return True if there is no standstill of `grace` seconds, or of a writer that loads, and no cut."""
        is_loading = self._launching is not None and not self._launching.done()
        return self._clock.now() < self._deadline_ns and self.writers.goes_on(grace, is_loading)

    async def _report_remaining(self) -> None:
        """Print the number of exchanges still to be stored and measured, at intervals if it changes."""
        reported = 0
        await asyncio.sleep(1.0)
        while not self.writers.place.is_worker:
            if (remaining := len(self.writers.unfinished)) not in (0, reported):
                reported = remaining
                self._on_notice(f"storing and measuring {counted(remaining, 'exchange')} (ctrl-c again to cut) …")
            await asyncio.sleep(5.0)

    def hurry(self) -> None:
        """Make `close` leave the measuring of stored exchanges to the next writer after `MEASURING_SECONDS`."""
        self._is_hurried = True

    async def _end_writer(self, grace: float) -> None:
        """Send the writer the end of file, and handle its last answers until it ends."""
        if self.writers.process is not None:
            self.writers.process.end()
        began = self._clock.now()
        earliest_end, measuring_end = began + 500_000_000, began + int(MEASURING_SECONDS * 1e9)
        task = self._writer_task
        while task is not None and not task.done() and (self._goes_on(grace) or self._clock.now() < earliest_end):
            if self._is_hurried and not self.frames and self._clock.now() >= measuring_end:
                break
            await asyncio.wait((task,), timeout=_LOOK_SECONDS)
        async with self.writers.starting:  # a start cancelled half-way would leave a process without an owner
            await self._cancel_tasks()
        if self.writers.process is not None:
            if self.frames or not self._is_hurried:  # else it ends by itself, and well
                self.writers.process.kill()
            await self.writers.process.wait()
