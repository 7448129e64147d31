"""A program: journal frames of relays → group commits on the tape → answers.

Run by `wiretape.recorder.relay.link` as `python -m wiretape.recorder.tape.writer LOCK SOCKET TAPE [IDENTITY] PURPOSE`:
it gets the descriptors of the tape's lock and of a listening socket. All expensive work is here: fsync, JSON,
compression, metrics; the whole process yields to the relay. The rules:

- One writer serves all relays of a tape: those of a recorder with workers, and those of other recorders. So a tape has
  one writer, all of them have the same promises, and nothing needs a merge. It ends with the last of them.
- It ignores SIGINT and SIGTERM and ends with its relays, so that ctrl-c drains. If a relay was killed, it commits what
  the socket still holds and marks the open exchanges as interrupted.
- A full disk or a lock is waited out. On any other failure it ends, one of its relays starts another, and each sends
  its unacknowledged frames again. Until they have, or their processes have ended, their open exchanges stay open.
- A batch is acknowledged after its commit, and after a look at the tape's files: what was written to a file without a
  name is not stored.
- Facts come first: finished exchanges are measured when no frames come, or after a delay.
- It refuses a damaged tape, and at the end of each recorder counts that recorder's exchanges in the file itself.
"""

import signal
import socket
import sys

from wiretape.recorder.tape import faults
from wiretape.recorder.tape.channels import Channel, Channels, Key, Task

if __name__ == "__main__":  # before libraries are loaded, which takes seconds on a busy machine
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    faults.report_all()
    relays = Channels(socket.socket(fileno=int(sys.argv[2])))

import contextlib
import gc
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from sqlalchemy.exc import OperationalError

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import (
    DAMAGED,
    LASTING,
    TapeBusy,
    TapeError,
    TapeGone,
    WiretapeError,
    sqlite_code,
)
from wiretape.recorder.plurals import counted
from wiretape.recorder.process import boot_id, is_gone
from wiretape.recorder.tape import backlog, checks, file, journal, losses, peek, recover
from wiretape.recorder.tape.append import Batch
from wiretape.recorder.tape.backlog import Backlog
from wiretape.recorder.tape.lock import Claim, FileWatch, LogGone, identity, remove_socket
from wiretape.recorder.tape.relations import Relations
from wiretape.recorder.tape.retention import Pruner, Removed, TapeLimits
from wiretape.recorder.tape.settle import Settled, Unsettled, settle
from wiretape.recorder.tape.store import Store
from wiretape.recorder.tape.window import SPACING_NS, Window, by_exchange

_IDLE_SECONDS = 1.0
_CHECK_SECONDS = 1.0
"""Time allowed for the checks of a tape before and after recording."""
_IDLE_NS = 10_000_000_000
"""Time without a commit after which some free pages are given back; until then, new recordings fill them."""

_ERRORS = (sqlite3.OperationalError, OperationalError)
"""Errors of SQLite, direct and through SQLAlchemy, that are not about a value."""

T = TypeVar("T")


class Writer:
    """Collects frames into batches and commits them."""

    def __init__(
        self,
        store: Store,
        path: Path,
        relays: Channels,
        clock: Clock = SYSTEM,
        keep_lock: Callable[[], None] = lambda: None,
        name_holder: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._path, self._clock = store, path, clock
        self._keep_lock, self._name_holder = keep_lock, name_holder
        self._watch: FileWatch | None = None
        self._relays, self._relations = relays, Relations()
        self._window = Window(clock)
        self._backlog = Backlog(clock, SPACING_NS)
        self._to_settle: queue.Queue[list[Unsettled]] = queue.Queue()
        self._pruner: Pruner | None = None
        self._give_back_at = clock.now() + _IDLE_NS
        self._has_ended = self._is_over = False

    def run(self) -> None:
        """Serve until the last relay ends; raises SQLite's error if a batch cannot be stored."""
        threading.Thread(target=self._settle, daemon=True).start()
        self._relays.take = self._take_frames
        self._relays.has_loaded.set()
        # Relays that send faster than this process works wait, and keep their frames: else memory would grow here.
        self._relays.tasks.maxsize = 16
        try:
            self._serve()
        finally:
            self._is_over = True

    def _serve(self) -> None:
        waits = 0
        while not self._has_ended:
            has_arrived = self._work()
            if self._window.is_due():
                self._commit()
            self._hand_over()
            if not self._window:  # prune, give pages back and recover only while nothing waits to be committed
                now = self._clock.now()
                if now >= self._give_back_at:
                    self._give_back()
                if self._pruner is not None and now >= self._pruner.due:
                    self._prune()
                self._recover_absent()
            # Waits are counted, not time: while this process is stopped, no relay can be admitted.
            waits = 0 if has_arrived or self._relays.live else waits + 1
            if self._watch is None and waits >= 5:
                return  # the client that has started this writer was killed
        self._commit()
        self._relays.wait_for_dying()
        for relay in list(self._relays.live):
            self._part_from(relay)
        self._recover_absent(at_end=True)
        self._finish()

    def _finish(self) -> None:
        """Settle, prune and give pages back after the last relay, in limited time: the next writer does the rest.

        A relay that waits for its exchanges sets the limit itself: it waits while they are reported, and may cut.
        """
        until = self._clock.now() + 5_000_000_000
        self._hand_over()
        while self._backlog.is_settling and (
            (self._backlog.is_reported and not self._relays.is_deserted()) or self._clock.now() < until
        ):
            self._work()
        limiter = self._relations.limiter
        while limiter is not None and limiter.has_left and self._clock.now() < until and self._prune():
            pass  # the exchanges that ended last could not be deleted before they were measured
        until = self._clock.now() + 1_000_000_000
        while self._give_back() and self._clock.now() < until:
            pass

    def _part_from(self, relay: Channel) -> None:
        """End the open exchanges of a relay that has left, unless it will return; others may go on."""
        if relay.session is None:
            return
        if not relay.will_return():
            self._recover(relay.session_no, relay.open)
        else:
            relay.unmeasured.clear()  # its next connection names those that have not been reported to it
            if all(present.key != relay.key for present in self._relays.of(relay.session_no)):
                self._relations.expect(relay.key, self._clock.now(), relay.open)
        # A recorder that closed has reported its losses itself; a dead one's are kept for the next writer.
        has_closed = relay.has_left and not relay.introduction.is_worker
        if has_closed or (is_gone(relay.session.pid, boot_id()) and not losses.read(self._path, relay.session.uuid)):
            losses.remove(self._path, relay.session.uuid)
        relay.open.clear()

    def _recover_absent(self, *, at_end: bool = False) -> None:
        """End the open exchanges of relays that have ended, or have not returned in time."""
        for session_no, absence in self._relations.given_up(self._clock.now(), at_end=at_end):
            self._recover(session_no, absence.open)

    def _recover(self, session_no: int, abandoned: Collection[str] = ()) -> None:
        """End a session's open exchanges that no relay of it has: while some are absent, those `abandoned` by one."""
        open_ids = self._store.open_ids(session_no)
        ids = self._relations.orphans(session_no, abandoned, self._relays.of(session_no), open_ids)
        if ids is None or ids:
            unstored = losses.read_all(self._path)
            recovered = self._with_retries(
                lambda: recover.recover(self._store.appending, unstored, of=[session_no], ids=ids)
            )
            self._backlog.add_leftover(recovered)

    def _settle(self) -> None:
        """Decode in a thread of its own: a body that takes long may not delay others' facts."""
        while True:
            settled = [settle(facts) for facts in self._to_settle.get()]
            self._queue(partial(self._put, settled))

    def _queue(self, task: Task) -> None:
        """Leave a task from another thread to the main one, unless that has ended."""
        self._relays.tasks.put(lambda: None if self._is_over else task())

    def _hand_over(self) -> None:
        """Pass the next finished exchanges to the other thread; first those that this recorder waits to report."""
        numbers = self._backlog.begin(is_busy=not self._relays.tasks.empty(), at_end=self._has_ended)
        if numbers is not None:
            most = backlog.limit(len(numbers), is_full=self._relays.tasks.full())
            # 1 MiB of bodies in one transaction: what takes longer to write would hold up the next commit of facts.
            self._to_settle.put(self._with_retries(lambda: self._store.settling.take(numbers, most, 1 << 20)))

    def _put(self, settled: list[Settled]) -> None:
        """Store measures, and report them to the relays of their exchanges; leftovers of others are not reported."""
        finished = self._with_retries(lambda: self._store.settling.put(settled))
        if self._backlog.is_reported:
            by_relay: dict[Channel, list[journal.Finished]] = {}
            for exchange in finished:
                if (owner := self._relays.owner(exchange.id)) is not None:
                    by_relay.setdefault(owner, []).append(exchange)
            for relay, exchanges in by_relay.items():
                relay.answer(journal.Ack(relay.committed, exchanges))
                relay.unmeasured.difference_update(exchange.id for exchange in exchanges)
            self._dismiss()
        self._backlog.end()
        self._hand_over()

    def _dismiss(self) -> None:
        """Close the channels that wait for nothing more, while others go on; recorders get verified counts first."""
        for relay in list(self._relays.settled()):
            if self._has_ended or relay.is_verified:
                continue
            if relay.has_left and not relay.introduction.is_worker:
                relay.is_verified = True
                threading.Thread(target=self._verify, args=(relay,)).start()
            else:
                self._close(relay)

    def _verify(self, relay: Channel) -> None:
        """Count a recorder's exchanges in a thread of its own, as a file may be large; then close its channel."""
        verified = verify(self._path, relay)

        def close() -> None:
            relay.answer(verified)
            self._close(relay)

        self._queue(close)

    def _close(self, relay: Channel) -> None:
        """Close a channel; another recorder is named as the holder of the tape, if that was this one."""
        self._relays.close(relay)
        if relay is self._relations.holder:
            self._relations.holder = None
            if (successor := next((main for main in self._relays.mains() if not main.is_over), None)) is not None:
                self._hold_for(successor)

    def _hold_for(self, relay: Channel) -> None:
        self._relations.holder = relay
        self._name_holder(relay.introduction.purpose)

    def _work(self) -> bool:
        """Wait for a task until a commit is due, and do it; return True if one came."""
        commit_due = self._pruner.due if self._window.due is None and self._pruner else self._window.due
        due = min((at for at in (commit_due, self._backlog.due) if at is not None), default=None)
        wait = _IDLE_SECONDS if due is None else min(_IDLE_SECONDS, max(0.0, (due - self._clock.now()) / 1e9))
        try:
            task = self._relays.tasks.get(timeout=wait) if wait else self._relays.tasks.get_nowait()
        except queue.Empty:
            return False
        task()
        return True

    def _take_frames(self, relay: Channel, data: bytes) -> None:
        if self._has_ended:
            return
        relay.buffer += data
        frames: list[journal.Frame] = []
        for seq, frame in _frames(relay):
            relay.seq = seq
            relay.note(frame)
            if isinstance(frame, journal.Relay | journal.Keep | journal.Session):
                self._begin(frame, relay)
            else:
                frames.append(frame)
        self._window.add(relay.session_no, frames, len(data))
        if data:
            return
        relay.is_over = True
        self._has_ended = self._watch is not None and self._relays.is_over
        if not self._has_ended:  # others go on: its last frames are committed, and its open exchanges interrupted
            self._commit()
            self._part_from(relay)
            self._choose_limits()
            self._dismiss()

    def _begin(self, frame: journal.Relay | journal.Keep | journal.Session, relay: Channel) -> None:
        """Enter the session, after the relay's identity and the tape's limits."""
        if isinstance(frame, journal.Session):
            admit = self._admit_first if self._watch is None else self._admit
            admit(frame, relay)
        if relay.keep is not None and relay.session is not None:
            self._choose_limits()
            announced = relay.keep.announced
            # The writer before may have died between its deletion and the report of that.
            if announced and Pruner(self._store.connection, TapeLimits(), self._clock).is_done(announced):
                relay.answer(announced.deleted)

    def _admit_first(self, session: journal.Session, relay: Channel) -> None:
        """Enter the session of the first relay, and the exchanges that earlier recorders could not store."""
        unstored = losses.read_all(self._path)
        warnings = self._enter(session, relay)
        recording = {session.uuid}
        for returning in recover.returning(self._store.connection, [part.session for part in unstored]):
            if returning.no != relay.session_no:
                self._relations.expect(Key(returning.pid, returning.no, is_worker=False), self._clock.now())
                recording.add(returning.uuid)
        if relay.introduction.is_worker:  # its recorder has lost a writer, too
            self._relations.expect(Key(session.pid, relay.session_no, is_worker=False), self._clock.now())
        of_dead = [part for part in unstored if part.session not in recording]
        missing = recover.count_missing(self._store.connection, of_dead)
        spared = [relay.session_no, *(key.session_no for key in self._relations.absent)]
        recover.recover(self._store.appending, of_dead, spared=spared)
        if all(part.session != session.uuid for part in unstored):  # else another writer of this recorder has been here
            losses.prepare(self._path, session.uuid, recording)
        for part in of_dead:
            losses.remove(self._path, part.session)
        self._watch = FileWatch(self._path)
        self._backlog.add_leftover(self._store.settling.unsettled())
        self._welcome(relay)
        still_missing = recover.count_missing(self._store.connection, of_dead)
        self._answer_ready(relay, [*warnings, *_losses_of_dead(missing, still_missing)])

    def _admit(self, session: journal.Session, relay: Channel) -> None:
        """Enter the session of a relay that joins; if that cannot be, the others go on."""
        try:
            warnings = self._with_retries(lambda: self._enter(session, relay))
            if not relay.introduction.is_worker:
                sessions = {unstored.session for unstored in losses.read_all(self._path)}
                if session.uuid not in sessions:
                    losses.prepare(self._path, session.uuid, sessions)
        except WiretapeError as error:
            relay.session = None
            relay.answer(journal.Fatal(error.exit_code, str(error)))
            relay.break_off()
            return
        self._welcome(relay)
        if (limiter := self._relations.limiter) is not None and relay.keep is not None and _limits(relay.keep):
            warnings.append(f"until it ends, {limiter.introduction.purpose} sets the limits of the tape")
        self._answer_ready(relay, warnings)

    def _welcome(self, relay: Channel) -> None:
        """Wait for this relay no more, but for its recorder's workers; end the exchanges that none of them has."""
        self._relations.expect_workers(relay, self._relays.of(relay.session_no), self._clock.now())
        self._recover(relay.session_no)

    def _answer_ready(self, relay: Channel, warnings: list[str]) -> None:
        if self._relations.holder is None and not relay.introduction.is_worker:
            self._hold_for(relay)
        holder = self._relations.holder
        joined = None if holder is None or holder is relay else holder.session
        relay.answer(journal.Ready(paths.text(self._path), warnings, relay.newest_no, joined.pid if joined else None))

    def _enter(self, session: journal.Session, relay: Channel) -> list[str]:
        """Enter a session, or find it again; return warnings about the tape for the user."""
        is_new = self._store.number_of(session.uuid) is None
        relay.newest_no = self._store.newest() if is_new else relay.introduction.newest_no or 0
        relay.session_no = self._store.enter(session)
        relay.session = session
        if not file.too_open(self._path):
            return []
        path = paths.text(self._path)
        return [f"{path} may be read by others on this machine: chmod 600 {path}"]

    def _choose_limits(self) -> None:
        """Apply the limits of the recorder that has had some for the longest."""
        relations = self._relations
        if relations.limiter is not None and not relations.limiter.is_over:
            return
        for relay in self._relays.mains():
            if relay.keep is not None and not relay.is_over and (limits := _limits(relay.keep)):
                relations.limiter, self._pruner = relay, Pruner(self._store.connection, limits, self._clock)
                return
        relations.limiter = self._pruner = None

    def _commit(self) -> None:
        if not self._window:
            return
        assert self._watch is not None
        ended_numbers, lost = self._append(self._window.batch)
        self._backlog.add(ended_numbers)
        # Before the acknowledgement: a relay drops its frames with it, and a file without a name does not last.
        try:
            self._watch.check(self._store.size())
        except LogGone as error:
            saved = "its contents are in the tape" if self._store.checkpoint() else "a part of its contents is lost"
            raise TapeError(f"{error}: {saved}, and recording goes on") from error
        self._keep_lock()
        self._acknowledge(lost)
        self._window.start_next()
        self._give_back_at = self._clock.now() + _IDLE_NS

    def _give_back(self) -> bool:
        """Return some free pages to the file system; return True if there are more."""
        self._give_back_at = self._clock.now() + _IDLE_NS
        try:
            return self._store.give_back(256)  # 1 MiB of pages, so that a commit need not wait long
        except _ERRORS as error:
            if not _is_transient(error):
                raise
            return False

    def _acknowledge(self, lost: list[journal.Lost]) -> None:
        """Acknowledge to each relay its committed frames."""
        by_relay: dict[Channel, list[journal.Lost]] = {}
        for loss in lost:
            if (owner := self._relays.owner(loss.id)) is not None:
                by_relay.setdefault(owner, []).append(loss)
        for relay in list(self._relays.live):
            if relay.seq > relay.committed:
                relay.committed = relay.seq
                losses_of_relay = by_relay.get(relay, [])
                relay.answer(journal.Ack(relay.committed, [], losses_of_relay))
                relay.unmeasured.difference_update(loss.id for loss in losses_of_relay)

    def _prune(self) -> bool:
        """Delete some exchanges past the limits; return True if there were any."""
        # Exchanges that are being counted for a recorder's end may not be deleted meanwhile.
        if self._pruner is None or any(main.is_verified for main in self._relays.mains()):
            return False
        try:
            removed = self._pruner.step(lambda first_no, removed: self._report_deleted(removed, first_no))
        except _ERRORS as error:
            if not _is_transient(error):
                raise
            return False
        self._report_deleted(removed)
        return removed.exchanges > 0

    def _report_deleted(self, removed: Removed, first_no: int | None = None) -> None:
        """Report a deletion to the recorders of its exchanges; with `first_no`, announce it."""
        for relay in self._relays.mains():
            deleted = removed.of(relay.session_no, all=relay is self._relations.limiter)
            if deleted.exchanges:
                relay.answer(deleted if first_no is None else journal.Deleting(first_no, deleted))

    def _append(self, batch: Batch) -> tuple[list[int], list[journal.Lost]]:
        """Commit frames; if a value is refused, commit each exchange for itself, so that one of them cannot stop all.

        Return the numbers of the exchanges that ended, and the losses.
        """
        try:
            return self._with_retries(lambda: self._store.appending.append(batch)), self._store.appending.lost
        except Exception as error:
            parts = by_exchange(batch)
            # SQLite or its driver has refused a value, and nothing is wrong with the tape.
            is_refusal = not isinstance(error, (WiretapeError, *_ERRORS)) and sqlite_code(error) not in DAMAGED
            if not is_refusal or not any(parts):
                raise
            if len(parts) == 1:
                (id,) = parts
                frames = [frame for part in batch.values() for frame in part]
                trouble = journal.Trouble(f"a part of exchange {id} cannot be stored ({error})")
                if (owner := self._relays.owner(id)) is not None:
                    owner.answer(trouble)
                else:
                    self._relays.answer_recorders(trouble)
                size = sum(len(frame.data) for frame in frames if isinstance(frame, journal.SocketReads))
                return [], [journal.Lost(id, size, any(isinstance(frame, journal.Begin) for frame in frames))]
        results = [self._append(part) for part in parts.values()]
        return [no for numbers, _ in results for no in numbers], [loss for _, lost in results for loss in lost]

    def _with_retries(self, write: Callable[[], T]) -> T:
        """Write, waiting out a full disk or a lock; the data is kept until its commit has returned."""
        tries = 0
        retry_seconds = 0.5
        while True:
            try:
                result = write()
            except _ERRORS as error:
                # After 10 s without a relay, nobody would miss this process, which holds the tape's lock.
                is_orphaned = tries >= 20 and (self._has_ended or self._relays.is_deserted())
                if is_orphaned or not _is_transient(error):
                    raise
                if tries == 0:
                    self._relays.answer_recorders(journal.Trouble(str(getattr(error, "orig", error))))
                tries += 1
                threading.Event().wait(retry_seconds)
            else:
                if tries:
                    self._relays.answer_recorders(journal.Trouble(""))
                return result


def _frames(relay: Channel) -> Iterator[tuple[int, journal.Frame]]:
    """Yield the frames received from a relay; the connection of one that sends anything else is ended."""
    try:
        yield from journal.decode(relay.buffer)
    except msgspec.MsgspecError:
        relay.buffer.clear()
        relay.break_off()


def _losses_of_dead(missing: recover.Amount, still_missing: recover.Amount) -> list[str]:
    """Return warnings about the `missing` exchanges of recorders that died; some have been entered by now."""
    entered = recover.Amount(missing.exchanges - still_missing.exchanges, missing.bytes - still_missing.bytes)
    return [
        f"the recorder before could not store {counted(amount.exchanges, 'exchange')} "
        f"({counted(amount.bytes, 'byte')}): {remains}"
        for amount, remains in (
            (entered, "the tape has their times and sizes only"),
            (still_missing, "the tape lacks them"),
        )
        if amount.exchanges
    ]


def _limits(keep: journal.Keep) -> TapeLimits:
    return TapeLimits(None if keep.age_seconds is None else timedelta(seconds=keep.age_seconds), keep.size)


def _is_transient(error: Exception) -> bool:
    return sqlite_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def verify(path: Path, relay: Channel) -> journal.Verified:
    """Count a relay's session in the file, and check the tape."""
    assert relay.session is not None
    return checks.verify(path, relay.session.uuid, _CHECK_SECONDS, relay.newest_no)


def main(arguments: list[str], relays: Channels) -> int:
    """Write a tape until the last relay ends; return the exit code.

    `arguments` are the descriptors of its lock and of the relays' listening socket, its path, the `identity` of its
    file if an earlier writer has written it, and the purpose of the client in words.
    """
    niceness = 5  # below the relay's priority: a stream is never to wait for the tape
    os.nice(niceness)
    if os.getsid(0) == os.getpid():  # Linux may share the CPU among sessions first, and this is one of its own
        # A system without such groups needs no niceness of one.
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
            group.write(str(niceness))
    gc.freeze()  # the objects of the libraries are permanent
    gc.set_threshold(50_000)  # objects that are new: a batch makes many, which hold no cycles
    descriptor, _, path, *earlier_identity, purpose = arguments
    try:
        return _write(Claim(Path(path), int(descriptor), socket=relays.place), relays, earlier_identity, purpose)
    finally:
        remove_socket(relays.place)
        relays.part()


def _write(claimed: Claim, relays: Channels, earlier_identity: Sequence[str], purpose: str) -> int:
    path = claimed.tape
    try:
        with contextlib.closing(claimed):
            if earlier_identity and earlier_identity[0] != str(identity(path)):
                raise TapeGone(f"{path} was removed or replaced while no writer ran: nothing more is stored")
            with file.writing(path, purpose, create=not earlier_identity, claimed=claimed) as connection:
                with peek.explained(path), file.reader_beside_writer(path).connect() as reader:
                    problems = checks.damage(reader, _CHECK_SECONDS)
                if problems:
                    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
                    raise peek.damaged(path, f"{problems[0]}{more}")
                keep_lock, name_holder = partial(file.keep_lock, connection), partial(file.name_holder, connection)
                Writer(Store(connection), path, relays, SYSTEM, keep_lock, name_holder).run()
                for relay in relays.mains():
                    relay.answer(verify(path, relay))
    except WiretapeError as error:
        _refuse(relays, journal.Fatal(error.exit_code, str(error), isinstance(error, LASTING)), path)
        return error.exit_code
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"{paths.text(path)} cannot be used ({reason}): mend that, or use another tape"
        _refuse(relays, journal.Fatal(TapeBusy.exit_code, message), path)
        return TapeBusy.exit_code
    return 0


def _refuse(relays: Channels, fatal: journal.Fatal, path: Path) -> None:
    """Answer the error that ends this writer; if it is final, also the contents of the tape, to each recorder."""
    relays.wait_for_first()
    relays.answer(fatal)
    if fatal.final:
        relays.introduce(seconds=1.0)
        for relay in relays.mains():
            if relay.session_no or relay.introduction.newest_no is not None:  # it has recorded
                relay.answer(verify(path, relay))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], relays))
