"""A program: journal frames on standard input → group commits on the tape → answers on standard output.

Run by `recorder.relay.tap` as `python -m recorder.tape.writer TAPE PURPOSE`. Further relays may connect to a socket
that it is given (`--listen FD`); it ends when all of them have. Everything that costs is here:
fsync, JSON, compression, metrics. It ignores SIGINT and SIGTERM and ends at end of file, so that ctrl-c drains; if its
relay was killed, it commits what the pipe still holds and marks the open exchanges as interrupted. A full disk or a
lock is waited out; on any other failure it ends, and the relay starts another and sends what was not acknowledged
again. Facts come first: what has ended is measured when the pipe is empty, or has not been for a while, and the whole
process yields to the relay.
It refuses a tape that is damaged, and at the end reads from the file what the tape really holds.
"""

import contextlib
import gc
import os
import queue
import signal
import socket
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import OperationalError

from recorder.clock import SYSTEM, Clock
from recorder.errors import DAMAGED, LASTING, TapeBusy, TapeDamaged, TapeError, TapeGone, WiretapeError, sqlite_code
from recorder.plurals import counted
from recorder.tape import channels, checks, file, journal, losses
from recorder.tape.channels import Channel, Channels
from recorder.tape.lock import LogGone, Watch, identity
from recorder.tape.retention import Limits, Pruner
from recorder.tape.store import Settled, Store, Unsettled, settle

WINDOW_NS = 200_000_000
"""A commit is due this long after the first frame that it holds …"""
PROMPT_NS = 20_000_000
"""… this long after a request's or an exchange's end, so that what is finished is soon to be seen …"""
SPACING_NS = 50_000_000
"""… but no sooner than this after the last. Measuring, too: where many exchanges end, they share transactions."""
WINDOW_BYTES = 1 << 20
WINDOW_FRAMES = 2000
"""… or when it holds this much."""
_PIPE_PIECES = 16
RETRY_SECONDS = 0.5
_LAST_TRIES = 20
_IDLE_SECONDS = 1.0
_CHECK_SECONDS = 1.0
"""A tape is checked about this long before and after it is recorded to."""
_IDLE_NS = 10_000_000_000
"""After so long without a commit, some free pages are given back: before, what is recorded next fills them."""
_PAGES_GIVEN_BACK = 256
_LAST_GIVING_NS = 1_000_000_000
_LAST_SETTLING_NS = 5_000_000_000
"""After the end of the pipe; what is not settled then is left to the next writer."""

_OF_EXCHANGE = journal.Begin | journal.Upload | journal.Uploaded | journal.Head | journal.End
_NOT_URGENT = (journal.Reads, journal.Upload, journal.Heartbeat)
_SETTLED_TOGETHER = 32
_SETTLED_BYTES = 1 << 20
"""So many exchanges, or bytes of their bodies, are settled in one transaction."""
_BUSY_NS = 200_000_000
"""While the pipe is never empty, this much later than otherwise."""
_NICENESS = 5
_COLLECTED_OBJECTS = 50_000

_ERRORS = (sqlite3.OperationalError, OperationalError)
"""What SQLite reports, by itself and through SQLAlchemy, when nothing is wrong with a value."""

T = TypeVar("T")


class Writer:
    """Collects frames into batches and commits them."""

    def __init__(
        self,
        store: Store,
        path: Path,
        clock: Clock = SYSTEM,
        keep_lock: Callable[[], None] = lambda: None,
        relays: Channels | None = None,
    ) -> None:
        self._store = store
        self._path = path
        self._watch: Watch | None = None
        self._clock = clock
        self._keep_lock = keep_lock
        self._relays = relays or Channels()
        self._batch: list[journal.Frame] = []
        self._size = 0
        self._due: int | None = None
        self._pieces: queue.Queue[tuple[Channel, bytes] | list[Settled]] = queue.Queue(_PIPE_PIECES)
        self._to_settle: queue.Queue[list[Unsettled]] = queue.Queue()
        self._settling = False
        self._settle_at = 0
        self._committed_at = 0
        self._reported = False
        self._parent = os.getppid()
        self._ended = False
        self._is_closed = False
        self._unsettled: deque[int] = deque()
        self._leftover: deque[int] = deque()
        self._pruner: Pruner | None = None
        self._give_back_at = clock.now() + _IDLE_NS

    def run(self) -> None:
        """Serve until end of file; raises what SQLite raises when a batch cannot be stored."""
        threading.Thread(target=self._settle, daemon=True).start()
        threading.Thread(target=self._relays.first.read, args=(self._pieces.put,), daemon=True).start()
        while not self._ended:
            self._take()
            if self._is_due():
                self._commit()
            self._hand_over()
            if not self._batch:
                self._tidy()
        self._commit()
        if not self._is_closed or self._relays.had_others:
            self._recover(None)
        if self._is_closed:
            losses.remove(self._path)
        until = self._clock.now() + _LAST_SETTLING_NS
        self._hand_over()
        while self._settling and self._clock.now() < until:
            self._take()
        while self._is_closed and self._clock.now() < until and self._prune():
            pass  # measuring came after the facts: until now, what ended last could not be deleted
        self._give_back_until(self._clock.now() + _LAST_GIVING_NS)

    def _tidy(self) -> None:
        """Do what is due while there is nothing to commit."""
        now = self._clock.now()
        if now >= self._give_back_at:
            self._give_back()
        if self._pruner is not None and now >= self._pruner.due:
            self._prune()

    def _recover(self, open: set[str] | None) -> None:
        """End the exchanges that a relay that is gone has left open; those of all relays, if `open` is None."""
        if self._tried(lambda: self._store.recover(losses.read(self._path), ids=open)) or open is None:
            waiting = {*self._unsettled, *self._leftover}
            self._leftover.extend(no for no in self._store.unsettled() if no not in waiting)

    def _settle(self) -> None:
        """Decode beside the thread that commits: a body that takes long may not hold up the facts of others."""
        while True:
            self._pieces.put([settle(facts) for facts in self._to_settle.get()])

    def _hand_over(self) -> None:
        """Hand the other thread the next of what has ended; first what this recorder is waiting to report."""
        waiting = self._unsettled or self._leftover
        if waiting and not self._settling and self._may_settle():
            self._reported = waiting is self._unsettled
            self._settling = True
            limits = _SETTLED_TOGETHER, _SETTLED_BYTES
            self._to_settle.put(self._tried(lambda: self._store.take_unsettled(waiting, *limits)))

    def _may_settle(self) -> bool:
        late_ns = self._clock.now() - self._settle_at
        return self._ended or (late_ns >= 0 and (self._pieces.empty() or late_ns >= _BUSY_NS))

    def _put(self, settled: list[Settled]) -> None:
        finished = self._tried(lambda: self._store.put(settled))
        if self._reported:  # what another recorder left behind is not this one's to report
            self._report(finished)
        self._settling = False
        self._settle_at = self._clock.now() + SPACING_NS
        self._hand_over()

    def _report(self, finished: list[journal.Finished]) -> None:
        """Report exchanges to the relays that they are of."""
        by_relay: dict[Channel, list[journal.Finished]] = {}
        for one in finished:
            by_relay.setdefault(self._relays.owner(one.id), []).append(one)
        for relay, its in by_relay.items():
            relay.answer(journal.Ack(relay.committed, its))
            relay.ended.difference_update(one.id for one in its)
        self._relays.close_settled()

    def _take(self) -> None:
        """Wait for a piece of the pipe or something settled, or until a commit is due."""
        wait = self._seconds_until_due()
        try:
            piece = self._pieces.get(timeout=wait) if wait else self._pieces.get_nowait()
        except queue.Empty:
            return
        if isinstance(piece, list):
            self._put(piece)
            return
        relay, data = piece
        relay.buffer += data
        self._size += len(data)
        window = None
        for seq, frame in journal.decode(relay.buffer):
            relay.seq = seq
            if isinstance(frame, journal.Session | journal.Keep):
                self._begin(frame, relay)
                continue
            relay.note(frame)
            self._batch.append(frame)
            is_urgent = not isinstance(frame, _NOT_URGENT)
            window = PROMPT_NS if is_urgent else window or WINDOW_NS
        if not data:
            self._end_relay(relay)
        if window is not None:
            due = max(self._clock.now() + window, self._committed_at + SPACING_NS)
            self._due = due if self._due is None else min(self._due, due)

    def _end_relay(self, relay: Channel) -> None:
        """Commit the last of a relay; what it has left open is interrupted, while those of others go on."""
        relay.is_over = True
        self._ended = self._relays.is_over
        if not self._ended:
            self._commit()
            self._recover(relay.open)
            relay.open.clear()
            self._relays.close_settled()

    def _seconds_until_due(self) -> float:
        due = self._pruner.due if self._due is None and self._pruner else self._due
        if not self._settling and (self._unsettled or self._leftover):
            due = self._settle_at if due is None else min(due, self._settle_at)
        return _IDLE_SECONDS if due is None else min(_IDLE_SECONDS, max(0.0, (due - self._clock.now()) / 1e9))

    def _begin(self, frame: journal.Session | journal.Keep, relay: Channel) -> None:
        """Enter what comes before all exchanges: the session, or what the tape keeps."""
        if isinstance(frame, journal.Keep):
            age = None if frame.age_seconds is None else timedelta(seconds=frame.age_seconds)
            self._pruner = self._store.pruner(Limits(age, frame.size), self._clock)
            if frame.announced and self._pruner.is_done(frame.announced):
                answer(frame.announced.what)
            return
        if relay is not self._relays.first:
            self._admit(frame, relay)
            return
        warnings = self._begin_session(frame)
        self._watch = Watch(self._path)
        self._leftover.extend(self._store.unsettled())
        answer(journal.Ready(str(self._path), warnings))
        self._relays.listen(self._pieces.put)

    def _admit(self, session: journal.Session, relay: Channel) -> None:
        """Answer a relay that connects: it is to be a part of the recorder whose session is written."""
        if session.uuid == self._store.session:
            relay.answer(journal.Ready(str(self._path), []))
        else:
            relay.answer(journal.Fatal(TapeBusy.exit_code, f"{self._path} is being written for another recorder"))

    def _begin_session(self, session: journal.Session) -> list[str]:
        """Enter the session and what an earlier recorder could not store; return what the user should know."""
        warnings = []
        if file.too_open(self._path):
            warnings.append(f"{self._path} may be read by others on this machine: chmod 600 {self._path}")
        unstored = losses.read(self._path)
        if unstored is not None and unstored.session == session.uuid:  # another writer of this recorder has been here
            self._store.begin_session(session)
            return warnings
        self._store.begin_session(session, unstored)
        missing, size = self._store.missing(unstored) if unstored else (0, 0)
        losses.prepare(self._path, session.uuid)
        if missing:
            lost = f"{counted(missing, 'exchange')} ({counted(size, 'byte')})"
            warnings.append(f"the recorder before could not store {lost}: the tape lacks them")
        return warnings

    def _is_due(self) -> bool:
        is_full = self._size >= WINDOW_BYTES or len(self._batch) >= WINDOW_FRAMES
        return bool(self._batch) and (is_full or (self._due is not None and self._clock.now() >= self._due))

    def _commit(self) -> None:
        if not self._batch:
            return
        ended, lost = self._append(self._batch)
        self._is_closed = self._is_closed or any(isinstance(frame, journal.Close) for frame in self._batch)
        self._unsettled.extend(ended)
        self._look_after_files()
        self._keep_lock()
        self._acknowledge(lost)
        self._batch, self._size, self._due = [], 0, None
        self._give_back_at = self._clock.now() + _IDLE_NS
        self._committed_at = self._clock.now()

    def _give_back_until(self, until: int) -> None:
        while self._give_back() and self._clock.now() < until:
            pass

    def _give_back(self) -> bool:
        """Give some free pages back to the file system; return whether there are more."""
        self._give_back_at = self._clock.now() + _IDLE_NS
        try:
            return self._store.give_back(_PAGES_GIVEN_BACK)
        except _ERRORS as error:
            if not _passing(error):
                raise
            return False

    def _acknowledge(self, lost: list[journal.Lost]) -> None:
        """Acknowledge to each relay what is committed of it."""
        by_relay: dict[Channel, list[journal.Lost]] = {}
        for one in lost:
            by_relay.setdefault(self._relays.owner(one.id), []).append(one)
        for relay in list(self._relays.live):
            if relay.seq > relay.committed:
                relay.committed = relay.seq
                its = by_relay.get(relay, [])
                relay.answer(journal.Ack(relay.committed, [], its))
                relay.ended.difference_update(one.id for one in its)

    def _prune(self) -> bool:
        """Delete some of what is past the limits; return whether there was anything."""
        if self._pruner is None:
            return False
        try:
            deleted = self._pruner.step(answer)
        except _ERRORS as error:
            if not _passing(error):
                raise
            return False
        if deleted.exchanges:
            answer(deleted)
        return deleted.exchanges > 0

    def _append(self, frames: list[journal.Frame]) -> tuple[list[int], list[journal.Lost]]:
        """Commit frames; if a value is refused, commit each exchange for itself, so that one of them cannot stop all.

        Return the numbers of the exchanges that ended, and what is not stored.
        """
        try:
            return self._tried(lambda: self._store.append(frames)), self._store.lost
        except Exception as error:
            parts = _by_exchange(frames)
            if not _is_refusal(error) or not any(parts):
                raise
            if len(parts) == 1:
                (id,) = parts
                answer(journal.Trouble(f"a part of exchange {id} cannot be stored ({error})"))
                size = sum(len(frame.data) for frame in frames if isinstance(frame, journal.Reads))
                return [], [journal.Lost(id, size, any(isinstance(frame, journal.Begin) for frame in frames))]
        results = [self._append(part) for part in parts.values()]
        return [no for ended, _ in results for no in ended], [one for _, lost in results for one in lost]

    def _look_after_files(self) -> None:
        """Raise if what was committed has no name: the tape is gone, or its log, which is saved into the tape first."""
        assert self._watch is not None
        try:
            self._watch.check(self._store.size())
        except LogGone as error:
            saved = "what it held is in the tape" if self._store.checkpoint() else "a part of what it held is lost"
            raise TapeError(f"{error}: {saved}, and recording goes on") from error

    def _tried(self, write: Callable[[], T]) -> T:
        """Write, waiting out a full disk or a lock; what is to be written is kept until its commit returned."""
        tries = 0
        while True:
            try:
                result = write()
            except _ERRORS as error:
                orphaned = (self._ended or os.getppid() != self._parent) and tries >= _LAST_TRIES
                if orphaned or not _passing(error):
                    raise
                if tries == 0:
                    answer(journal.Trouble(str(getattr(error, "orig", error))))
                tries += 1
                threading.Event().wait(RETRY_SECONDS)
            else:
                if tries:
                    answer(journal.Trouble(""))
                return result


def _by_exchange(frames: Iterable[journal.Frame]) -> dict[str, list[journal.Frame]]:
    """Return the frames of each exchange by its id, in their order; those of none by the empty one."""
    parts: dict[str, list[journal.Frame]] = {}
    for frame in frames:
        if isinstance(frame, journal.Reads):
            for run, data in frame.parts():
                parts.setdefault(run.id, []).append(journal.Reads([run], data))
        else:
            parts.setdefault(frame.id if isinstance(frame, _OF_EXCHANGE) else "", []).append(frame)
    return parts


def _is_refusal(error: Exception) -> bool:
    """Return whether SQLite or its driver refused a value, and nothing is wrong with the tape."""
    return not isinstance(error, (WiretapeError, *_ERRORS)) and sqlite_code(error) not in DAMAGED


def _passing(error: Exception) -> bool:
    return sqlite_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def answer(what: journal.Answer) -> None:
    """Write an answer to the relay that started this writer; that it is gone is no reason to stop storing."""
    try:
        os.write(1, journal.encode_answer(what))
    except BrokenPipeError:
        return


def _refuse_damaged(path: Path) -> None:
    """Raise `TapeDamaged` if a check of the tape finds anything within its time."""
    with file.explained(path), file.reader_beside_writer(path).connect() as connection:
        problems = checks.damage(connection, _CHECK_SECONDS)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise TapeDamaged(
            f"{path} is damaged ({problems[0]}{more}): see 'wiretape db check', restore it from a backup, or record to"
            " another tape with --db"
        )


def _yield_to_relay() -> None:
    """Take the CPU only where the relay does not need it, and do not look for garbage in what stays."""
    os.nice(_NICENESS)
    if os.getsid(0) == os.getpid():  # Linux may share the CPU among sessions first, and this is one of its own
        # A system without such groups needs no niceness of one.
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
            group.write(str(_NICENESS))
    gc.freeze()
    gc.set_threshold(_COLLECTED_OBJECTS)


def main(arguments: list[str]) -> int:
    """Hold the tape named in `arguments` and write it until end of file; return the exit code.

    Before them may come `--listen FD`: a socket that other relays connect to. Where an earlier writer of this recorder
    wrote the tape, two more say which file that was (its `identity`) and name the session (its uuid).
    """
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    _yield_to_relay()
    listener = None
    if arguments[0] == "--listen":
        listener, arguments = socket.socket(fileno=int(arguments[1])), arguments[2:]
    parent = os.getppid()
    try:
        return _write(arguments, Channels(listener))
    finally:
        if listener is not None and os.getppid() != parent:  # the relay whose socket it is was killed
            channels.remove(listener)


def _write(arguments: list[str], relays: Channels) -> int:
    path, purpose = Path(arguments[0]), arguments[1]
    store: Store | None = None
    try:
        if arguments[2:] and arguments[2] != str(identity(path)):
            raise TapeGone(f"{path} was removed or replaced while no writer ran: nothing more is stored")
        with file.writing(path, purpose, create=not arguments[2:]) as connection:
            _refuse_damaged(path)
            store = Store(connection)
            Writer(store, path, keep_lock=lambda: file.keep_lock(connection), relays=relays).run()
            answer(checks.verify(path, store.session, _CHECK_SECONDS))
    except WiretapeError as error:
        final = isinstance(error, LASTING)
        relays.answer(journal.Fatal(error.exit_code, str(error), final))
        if final and (store is not None or arguments[3:]):
            answer(checks.verify(path, store.session if store else arguments[3], _CHECK_SECONDS))
        return error.exit_code
    except OSError as error:
        reason = error.strerror or str(error)
        answer(journal.Fatal(TapeBusy.exit_code, f"{path} cannot be used ({reason}): mend that, or use another tape"))
        return TapeBusy.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
