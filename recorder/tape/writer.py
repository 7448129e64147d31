"""A program: journal frames of relays → group commits on the tape → answers.

Run by `wiretape.recorder.relay.link` as `python -m wiretape.recorder.tape.writer LOCK SOCKET TAPE [IDENTITY] PURPOSE`:
it gets the descriptors of the tape's lock and of a listening socket. All relays of a tape connect there: those of a
recorder with workers, and those of other recorders. One writer for all of them keeps the rule that a tape has one,
gives all of them the same promises, and needs no merge. It ends with the last of them. All expensive work is here:
fsync, JSON, compression, metrics.

It ignores SIGINT and SIGTERM and ends with its relays, so that ctrl-c drains; if a relay was killed, it commits what
the socket still holds and marks the open exchanges as interrupted. A full disk or a lock is waited out; on any other
failure it ends, one of its relays starts another, and each sends its unacknowledged frames again. Until they have, or
their processes have ended, their open exchanges stay open. Facts come first: finished exchanges are measured when no
frames come, or after a delay, and the whole process yields to the relay. It refuses a damaged tape, and at the end of
each recorder counts that recorder's exchanges in the file itself.
"""

import signal
import socket
import sys

from wiretape.recorder.tape import faults
from wiretape.recorder.tape.channels import Channel, Channels, Task

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

_TASKS = 16
"""Limit of tasks in the queue: relays that send faster than that wait, and keep their frames."""
RETRY_SECONDS = 0.5
_LAST_TRIES = 20
_IDLE_SECONDS = 1.0
_CHECK_SECONDS = 1.0
"""Time allowed for the checks of a tape before and after recording."""
_IDLE_NS = 10_000_000_000
"""Time without a commit after which some free pages are given back; until then, new recordings fill them."""
_PAGES_GIVEN_BACK = 256
_FIRST_WAITS = 5
"""Waits of `_IDLE_SECONDS` allowed for the first relay to connect."""
_FRAMES_SECONDS = 1.0
"""Time allowed for a relay to introduce itself to a writer that refuses the tape."""
_LAST_GIVING_NS = 1_000_000_000
_LAST_SETTLING_NS = 5_000_000_000
"""Time allowed for settling after the end of the last relay, unless one waits; the next writer settles the rest."""

_BEFORE_ALL = journal.Relay | journal.Keep | journal.Session
_SETTLED_BYTES = 1 << 20
"""Limit of the bodies settled in one transaction, in bytes."""
_NICENESS = 5
_COLLECTED_OBJECTS = 50_000

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
        self._ended = self._is_over = False

    def run(self) -> None:
        """Serve until the last relay ends; raises SQLite's error if a batch cannot be stored."""
        threading.Thread(target=self._settle, daemon=True).start()
        self._relays.take = self._take_frames
        self._relays.has_loaded.set()
        self._relays.tasks.maxsize = _TASKS
        try:
            self._serve()
        finally:
            self._is_over = True

    def _serve(self) -> None:
        waits = 0
        while not self._ended:
            has_arrived = self._work()
            if self._window.is_due():
                self._commit()
            self._hand_over()
            if not self._window:
                self._tidy()
            # Waits are counted, not time: while this process is stopped, no relay can be admitted.
            waits = 0 if has_arrived or self._relays.live else waits + 1
            if self._watch is None and waits >= _FIRST_WAITS:
                return  # the client that has started this writer was killed
        self._commit()
        self._relays.wait_for_dying()
        for relay in list(self._relays.live):
            self._part_from(relay)
        self._recover_absent(at_end=True)
        until = self._clock.now() + _LAST_SETTLING_NS
        self._hand_over()
        while self._backlog.is_settling and (self._is_awaited() or self._clock.now() < until):
            self._work()
        limiter = self._relations.limiter
        while limiter is not None and limiter.has_left and self._clock.now() < until and self._prune():
            pass  # the exchanges that ended last could not be deleted before they were measured
        self._give_back_until(self._clock.now() + _LAST_GIVING_NS)

    def _is_awaited(self) -> bool:
        """Return True if a relay waits for the exchanges settled now: it waits while they are reported, and may cut."""
        return self._backlog.is_reported and not self._relays.is_deserted()

    def _tidy(self) -> None:
        """Prune, give pages back and recover, where that is due and nothing waits to be committed."""
        now = self._clock.now()
        if now >= self._give_back_at:
            self._give_back()
        if self._pruner is not None and now >= self._pruner.due:
            self._prune()
        self._recover_absent()

    def _part_from(self, relay: Channel) -> None:
        """End the open exchanges of a relay that has left, unless it will return; others may go on."""
        if relay.session is None:
            return
        if not relay.will_return():
            self._recover(relay.session_no, relay.open)
        else:
            relay.ended.clear()  # its next connection says which of them it has not been told of
            if all(one.key != relay.key for one in self._relays.of(relay.session_no)):
                self._relations.expect(relay.key, self._clock.now(), relay.open)
        has_told = relay.has_left and not relay.relay.is_worker
        if has_told or (is_gone(relay.session.pid, boot_id()) and not losses.read(self._path, relay.session.uuid)):
            losses.remove(self._path, relay.session.uuid)
        relay.open.clear()

    def _recover_absent(self, *, at_end: bool = False) -> None:
        """End the open exchanges of relays that have ended, or have not returned in time."""
        for session_no, absence in self._relations.given_up(self._clock.now(), at_end=at_end):
            self._recover(session_no, absence.open)

    def _recover(self, session_no: int, left: Collection[str] = ()) -> None:
        """End the open exchanges of a session that none of its relays has: those `left`, while some are absent."""
        running = self._store.running(session_no)
        ids = self._relations.ended(session_no, left, self._relays.of(session_no), running)
        if ids is None or ids:
            known = losses.read_all(self._path)
            left_open = self._tried(lambda: recover.recover(self._store.appending, known, of=[session_no], ids=ids))
            self._backlog.add_leftover(left_open)

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
        waiting = self._backlog.begin(is_busy=not self._relays.tasks.empty(), at_end=self._ended)
        if waiting is not None:
            most = backlog.limit(len(waiting), is_full=self._relays.tasks.full())
            self._to_settle.put(self._tried(lambda: self._store.settling.take(waiting, most, _SETTLED_BYTES)))

    def _put(self, settled: list[Settled]) -> None:
        finished = self._tried(lambda: self._store.settling.put(settled))
        if self._backlog.is_reported:  # exchanges of another recorder are not reported to this one
            self._report(finished)
        self._backlog.end()
        self._hand_over()

    def _report(self, finished: list[journal.Finished]) -> None:
        """Report exchanges to the relays that they are of."""
        by_relay: dict[Channel, list[journal.Finished]] = {}
        for one in finished:
            if (owner := self._relays.owner(one.id)) is not None:
                by_relay.setdefault(owner, []).append(one)
        for relay, its in by_relay.items():
            relay.answer(journal.Ack(relay.committed, its))
            relay.ended.difference_update(one.id for one in its)
        self._dismiss()

    def _dismiss(self) -> None:
        """Close the channels that wait for nothing more, while others go on; recorders get verified counts first."""
        for relay in list(self._relays.settled()):
            if self._ended or relay.is_verified:
                continue
            if relay.has_left and not relay.relay.is_worker:
                relay.is_verified = True
                threading.Thread(target=self._verify, args=(relay,)).start()
            else:
                self._close(relay)

    def _verify(self, relay: Channel) -> None:
        """Count a recorder's exchanges in a thread of its own, and close its channel."""
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
            if (other := next((one for one in self._relays.mains() if not one.is_over), None)) is not None:
                self._hold_for(other)

    def _hold_for(self, relay: Channel) -> None:
        self._relations.holder = relay
        self._name_holder(relay.relay.purpose)

    def _work(self) -> bool:
        """Wait for a task until a commit is due, and do it; return True if one came."""
        wait = self._seconds_until_due()
        try:
            task = self._relays.tasks.get(timeout=wait) if wait else self._relays.tasks.get_nowait()
        except queue.Empty:
            return False
        task()
        return True

    def _take_frames(self, relay: Channel, data: bytes) -> None:
        if self._ended:
            return
        relay.buffer += data
        frames: list[journal.Frame] = []
        for seq, frame in _frames(relay):
            relay.seq = seq
            relay.note(frame)
            if isinstance(frame, _BEFORE_ALL):
                self._begin(frame, relay)
            else:
                frames.append(frame)
        self._window.add(relay.session_no, frames, len(data))
        if not data:
            self._end_relay(relay)

    def _end_relay(self, relay: Channel) -> None:
        """Commit the last frames of a relay and interrupt its open exchanges, while those of others go on."""
        relay.is_over = True
        self._ended = self._watch is not None and self._relays.is_over
        if not self._ended:
            self._commit()
            self._part_from(relay)
            self._choose_limits()
            self._dismiss()

    def _seconds_until_due(self) -> float:
        commit_due = self._pruner.due if self._window.due is None and self._pruner else self._window.due
        due = min((at for at in (commit_due, self._backlog.due) if at is not None), default=None)
        return _IDLE_SECONDS if due is None else min(_IDLE_SECONDS, max(0.0, (due - self._clock.now()) / 1e9))

    def _begin(self, frame: journal.Relay | journal.Keep | journal.Session, relay: Channel) -> None:
        """Enter the session, after the relay's identity and the tape's limits."""
        if isinstance(frame, journal.Session):
            admit = self._admit_first if self._watch is None else self._admit
            admit(frame, relay)
        if relay.keep is not None and relay.session is not None:
            self._choose_limits()
            self._report_announced(relay, relay.keep)

    def _admit_first(self, session: journal.Session, relay: Channel) -> None:
        """Enter the session of the first relay, and the exchanges that earlier recorders could not store."""
        unstored = losses.read_all(self._path)
        warnings = self._enter(session, relay)
        recording = {session.uuid}
        for other in recover.returning(self._store.connection, [one.session for one in unstored]):
            if other.no != relay.session_no:
                self._relations.expect((other.pid, other.no, False), self._clock.now())
                recording.add(other.uuid)
        if relay.relay.is_worker:  # its recorder has lost a writer, too
            self._relations.expect((session.pid, relay.session_no, False), self._clock.now())
        dead = [one for one in unstored if one.session not in recording]
        lacking = self._count_missing(dead)
        recover.recover(
            self._store.appending, dead, besides=[relay.session_no, *(no for _, no, _ in self._relations.absent)]
        )
        if all(one.session != session.uuid for one in unstored):  # else another writer of this recorder has been here
            losses.prepare(self._path, session.uuid, recording)
        for one in dead:
            losses.remove(self._path, one.session)
        self._watch = FileWatch(self._path)
        self._backlog.add_leftover(self._store.settling.unsettled())
        self._welcome(relay)
        self._answer_ready(relay, [*warnings, *_losses_of_dead(lacking, self._count_missing(dead))])

    def _count_missing(self, unstored: Sequence[losses.Unstored]) -> tuple[int, int]:
        """Count the exchanges that the tape lacks of recorders that died, and their bytes."""
        missing = [recover.missing(self._store.connection, one) for one in unstored]
        return sum(exchanges for exchanges, _ in missing), sum(size for _, size in missing)

    def _admit(self, session: journal.Session, relay: Channel) -> None:
        """Enter the session of a relay that joins; if that cannot be, the others go on."""
        try:
            warnings = self._tried(lambda: self._enter(session, relay))
            if not relay.relay.is_worker:
                unstored = {one.session for one in losses.read_all(self._path)}
                if session.uuid not in unstored:
                    losses.prepare(self._path, session.uuid, unstored)
        except WiretapeError as error:
            relay.session = None
            relay.answer(journal.Fatal(error.exit_code, str(error)))
            relay.break_off()
            return
        self._welcome(relay)
        if (limiter := self._relations.limiter) is not None and relay.keep is not None and _limits(relay.keep):
            warnings.append(f"until it ends, {limiter.relay.purpose} sets the limits of the tape")
        self._answer_ready(relay, warnings)

    def _welcome(self, relay: Channel) -> None:
        """Wait for this relay no more, but for its recorder's workers; end the exchanges that none of them has."""
        self._relations.expect_workers(relay, self._relays.of(relay.session_no), self._clock.now())
        self._recover(relay.session_no)

    def _answer_ready(self, relay: Channel, warnings: list[str]) -> None:
        if self._relations.holder is None and not relay.relay.is_worker:
            self._hold_for(relay)
        holder = self._relations.holder
        joined = None if holder is None or holder is relay else holder.session
        relay.answer(journal.Ready(paths.text(self._path), warnings, relay.newest_no, joined.pid if joined else None))

    def _enter(self, session: journal.Session, relay: Channel) -> list[str]:
        """Enter a session, or find it again; return warnings about the tape for the user."""
        is_new = self._store.number_of(session.uuid) is None
        relay.newest_no = self._store.newest() if is_new else relay.relay.newest_no or 0
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

    def _report_announced(self, relay: Channel, keep: journal.Keep) -> None:
        """Report the deletion that the previous writer announced, if it was done."""
        if keep.announced and Pruner(self._store.connection, TapeLimits(), self._clock).is_done(keep.announced):
            relay.answer(keep.announced.deleted)

    def _commit(self) -> None:
        if not self._window:
            return
        ended, lost = self._append(self._window.batch)
        self._backlog.add(ended)
        self._look_after_files()
        self._keep_lock()
        self._acknowledge(lost)
        self._window.committed()
        self._give_back_at = self._clock.now() + _IDLE_NS

    def _give_back_until(self, until: int) -> None:
        while self._give_back() and self._clock.now() < until:
            pass

    def _give_back(self) -> bool:
        """Return some free pages to the file system; return True if there are more."""
        self._give_back_at = self._clock.now() + _IDLE_NS
        try:
            return self._store.give_back(_PAGES_GIVEN_BACK)
        except _ERRORS as error:
            if not _passing(error):
                raise
            return False

    def _acknowledge(self, lost: list[journal.Lost]) -> None:
        """Acknowledge to each relay its committed frames."""
        by_relay: dict[Channel, list[journal.Lost]] = {}
        for one in lost:
            if (owner := self._relays.owner(one.id)) is not None:
                by_relay.setdefault(owner, []).append(one)
        for relay in list(self._relays.live):
            if relay.seq > relay.committed:
                relay.committed = relay.seq
                its = by_relay.get(relay, [])
                relay.answer(journal.Ack(relay.committed, [], its))
                relay.ended.difference_update(one.id for one in its)

    def _prune(self) -> bool:
        """Delete some exchanges past the limits; return True if there were any."""
        # Exchanges that are being counted may not be deleted meanwhile.
        if self._pruner is None or any(one.is_verified for one in self._relays.mains()):
            return False
        try:
            removed = self._pruner.step(lambda first, removed: self._tell_deleted(removed, first))
        except _ERRORS as error:
            if not _passing(error):
                raise
            return False
        self._tell_deleted(removed)
        return removed.exchanges > 0

    def _tell_deleted(self, removed: Removed, first: int | None = None) -> None:
        """Report a deletion to the recorders of its exchanges; announce it if `first`, its first exchange, is given."""
        for relay in self._relays.mains():
            deleted = removed.told(relay.session_no, all=relay is self._relations.limiter)
            if deleted.exchanges:
                relay.answer(deleted if first is None else journal.Deleting(first, deleted))

    def _append(self, batch: Batch) -> tuple[list[int], list[journal.Lost]]:
        """Commit frames; if a value is refused, commit each exchange for itself, so that one of them cannot stop all.

        Return the numbers of the exchanges that ended, and the losses.
        """
        try:
            return self._tried(lambda: self._store.appending.append(batch)), self._store.appending.lost
        except Exception as error:
            parts = by_exchange(batch)
            if not _is_refusal(error) or not any(parts):
                raise
            if len(parts) == 1:
                (id,) = parts
                frames = [frame for part in batch.values() for frame in part]
                trouble = journal.Trouble(f"a part of exchange {id} cannot be stored ({error})")
                if (owner := self._relays.owner(id)) is not None:
                    owner.answer(trouble)
                else:
                    self._relays.tell(trouble)
                size = sum(len(frame.data) for frame in frames if isinstance(frame, journal.SocketReads))
                return [], [journal.Lost(id, size, any(isinstance(frame, journal.Begin) for frame in frames))]
        results = [self._append(part) for part in parts.values()]
        return [no for ended, _ in results for no in ended], [one for _, lost in results for one in lost]

    def _look_after_files(self) -> None:
        """Raise if the tape's file is gone, or its log, whose contents are first saved into the tape."""
        assert self._watch is not None
        try:
            self._watch.check(self._store.size())
        except LogGone as error:
            saved = "its contents are in the tape" if self._store.checkpoint() else "a part of its contents is lost"
            raise TapeError(f"{error}: {saved}, and recording goes on") from error

    def _tried(self, write: Callable[[], T]) -> T:
        """Write, waiting out a full disk or a lock; the data is kept until its commit has returned."""
        tries = 0
        while True:
            try:
                result = write()
            except _ERRORS as error:
                orphaned = tries >= _LAST_TRIES and (self._ended or self._relays.is_deserted())
                if orphaned or not _passing(error):
                    raise
                if tries == 0:
                    self._relays.tell(journal.Trouble(str(getattr(error, "orig", error))))
                tries += 1
                threading.Event().wait(RETRY_SECONDS)
            else:
                if tries:
                    self._relays.tell(journal.Trouble(""))
                return result


def _frames(relay: Channel) -> Iterator[tuple[int, journal.Frame]]:
    """Yield the frames received from a relay; the connection of one that sends anything else is ended."""
    try:
        yield from journal.decode(relay.buffer)
    except msgspec.MsgspecError:
        relay.buffer.clear()
        relay.break_off()


def _losses_of_dead(before: tuple[int, int], after: tuple[int, int]) -> list[str]:
    """Return warnings about exchanges that recorders that died could not store, `before` some were entered and after.

    Each is a count of exchanges and their bytes.
    """
    entered = before[0] - after[0], before[1] - after[1]
    kept = ((entered, "the tape has their times and sizes only"), (after, "the tape lacks them"))
    return [
        f"the recorder before could not store {counted(count, 'exchange')} ({counted(size, 'byte')}): {left}"
        for (count, size), left in kept
        if count
    ]


def _limits(keep: journal.Keep) -> TapeLimits:
    return TapeLimits(None if keep.age_seconds is None else timedelta(seconds=keep.age_seconds), keep.size)


def _is_refusal(error: Exception) -> bool:
    """Return True if SQLite or its driver refused a value, and nothing is wrong with the tape."""
    return not isinstance(error, (WiretapeError, *_ERRORS)) and sqlite_code(error) not in DAMAGED


def _passing(error: Exception) -> bool:
    return sqlite_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def verify(path: Path, relay: Channel) -> journal.Verified:
    """Count a relay's session in the file, and check the tape."""
    assert relay.session is not None
    return checks.verify(path, relay.session.uuid, _CHECK_SECONDS, relay.newest_no)


def _refuse_damaged(path: Path) -> None:
    """Raise `TapeDamaged` if a check of the tape finds anything within its time."""
    with peek.explained(path), file.reader_beside_writer(path).connect() as connection:
        problems = checks.damage(connection, _CHECK_SECONDS)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise peek.damaged(path, f"{problems[0]}{more}")


def _yield_to_relay() -> None:
    """Lower this process's priority below the relay's, and keep permanent objects out of garbage collection."""
    os.nice(_NICENESS)
    if os.getsid(0) == os.getpid():  # Linux may share the CPU among sessions first, and this is one of its own
        # A system without such groups needs no niceness of one.
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
            group.write(str(_NICENESS))
    gc.freeze()
    gc.set_threshold(_COLLECTED_OBJECTS)


def main(arguments: list[str], relays: Channels) -> int:
    """Write a tape until the last relay ends; return the exit code.

    `arguments` are the descriptors of its lock and of the relays' listening socket, its path, the `identity` of its
    file if an earlier writer has written it, and the purpose of the client in words.
    """
    _yield_to_relay()
    claimed, _, path, *before, purpose = arguments
    try:
        return _write(Claim(Path(path), int(claimed), socket=relays.place), relays, before, purpose)
    finally:
        remove_socket(relays.place)
        relays.part()


def _write(claimed: Claim, relays: Channels, before: Sequence[str], purpose: str) -> int:
    path = claimed.tape
    try:
        with contextlib.closing(claimed):
            if before and before[0] != str(identity(path)):
                raise TapeGone(f"{path} was removed or replaced while no writer ran: nothing more is stored")
            with file.writing(path, purpose, create=not before, claimed=claimed) as connection:
                _refuse_damaged(path)
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
        relays.introduce(_FRAMES_SECONDS)
        for relay in relays.mains():
            if relay.session_no or relay.relay.newest_no is not None:  # it has recorded
                relay.answer(verify(path, relay))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], relays))
