"""Losses of a recorder: counted, reported, and kept in a small file beside the tape.

The rules of the file:

- Its space is allocated when a recorder starts, so that a full disk cannot refuse it.
- The relay writes into it while storing is held up, and the next writer of the tape enters its contents. A recorder
  that ends in good order has nothing to tell, and the file is removed.
- It holds ids, sizes, times, status codes, and the request's method, URL and path, redacted: no query, header or body.
- Two slots are written in turn, each with a checksum: one of them is whole at any moment, as a write may be cut off.
- Recorders that share a tape have a file each: the first `<tape>.unstored`, others one with their session's uuid.
"""

import contextlib
import errno
import glob
import os
import queue
import struct
import threading
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from wiretape.recorder import paths
from wiretape.recorder.errors import TapeBusy
from wiretape.recorder.facts import Answered, Begun, Connected, Ended
from wiretape.recorder.plurals import counted
from wiretape.recorder.tape.journal import Verified, with_facts

REPORT_NS = 10_000_000_000
"""Interval between reports of continuing losses, in ns."""
LATE_NS = 500_000_000
"""Age of a waiting frame at which storing counts as delayed, in ns: a commit on a slow disk takes less."""


@dataclass(slots=True)
class Counts:
    """Counts of a recording until now.

    `recorded` are the exchanges that the writers reported as finished, `failed` the failed generations among them.
    `stored_*` are acknowledged and not deleted since by the tape's limits; `deleted` counts exchanges of all recorders,
    `own_…` those of this one. `dropped_bytes` and `unrecorded` (exchanges) are known to be missing. `lag_ns` is the
    time from a frame's birth to its acknowledgement.
    """

    recorded: int = 0
    failed: int = 0
    non_generations: int = 0
    deleted: int = 0
    own_deleted: int = 0
    own_failed_deleted: int = 0
    own_non_generations_deleted: int = 0
    stored_exchanges: int = 0
    stored_bytes: int = 0
    dropped_bytes: int = 0
    unrecorded: int = 0
    restarts: int = 0
    trouble: str = ""
    lag_ns: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of an ended recording, read from the tape if possible; `problems` are sentences.

    `failed` are generations; `unmeasured` exchanges have ended without measures, so that more may have failed.
    """

    recorded: int
    failed: int
    missing_bytes: int
    missing_exchanges: int
    problems: list[str] = field(default_factory=list)
    non_generations: int = 0
    unmeasured: int = 0

    @property
    def generations(self) -> int:
        """The exchanges that rates and latencies cover."""
        return self.recorded - self.non_generations

    @property
    def is_whole(self) -> bool:
        """True if all data is on the tape, and the checks found no damage."""
        return not (self.missing_bytes or self.missing_exchanges or self.problems)


def reconcile(counts: Counts, verified: Verified | None) -> Totals:
    """Compare the acknowledged counts with those on the tape; if the latter are unknown, trust the acknowledgements."""
    if verified is None or verified.exchanges is None or verified.failed is None:
        recorded = max(counts.recorded, counts.stored_exchanges + counts.own_deleted)  # measuring may take long
        return Totals(
            recorded,
            counts.failed,
            missing_bytes=counts.dropped_bytes,
            missing_exchanges=counts.unrecorded,
            problems=_damage(verified),
            non_generations=counts.non_generations,
            unmeasured=recorded - counts.recorded,
        )
    exchanges = counts.stored_exchanges - verified.exchanges
    size = 0 if verified.bytes is None else counts.stored_bytes - verified.bytes
    problems = _damage(verified)
    if lost := _amount(max(exchanges, 0), max(size, 0)):
        problem = f"{lost} had been stored and cannot be read from the tape any more: something else changed it"
        problems.insert(0, problem)
    return Totals(
        recorded=verified.exchanges + counts.own_deleted,
        failed=verified.failed + counts.own_failed_deleted,
        missing_bytes=max(counts.dropped_bytes + size, 0),
        missing_exchanges=max(counts.unrecorded + exchanges, 0),
        problems=problems,
        non_generations=verified.non_generations + counts.own_non_generations_deleted,
        unmeasured=verified.unmeasured,
    )


def _damage(verified: Verified | None) -> list[str]:
    return [f"the tape is damaged: {problem}" for problem in verified.problems] if verified else []


def _amount(exchanges: int, size: int) -> str:
    return " and ".join(counted(count, noun) for count, noun in ((exchanges, "exchange"), (size, "byte")) if count)


@dataclass(slots=True)
class LossReporter:
    """Decides when a recorder reports losses: at once, then every 10 s at most, and when they are over."""

    _reported: tuple[int, int] = (0, 0)
    _next_ns: int = 0
    _ongoing: bool = False
    _is_behind: bool = False

    def report(self, now: int, counts: Counts, lag_ns: int, silent_ns: int, *, lacking: bool) -> str | None:
        """Return the line that is due, if any. `lacking`: a running exchange lacks a part of its relayed bytes.

        `lag_ns` is the age of the oldest waiting frame, `silent_ns` the time since the last acknowledgement.
        """
        lost = (counts.dropped_bytes, counts.unrecorded)
        if self._ongoing and not lacking and lag_ns < LATE_NS:
            self._reported, self._ongoing, self._is_behind = lost, False, False
            return f"nothing is lost any more; in all, {_amount(lost[1], lost[0])} could not be stored"
        if lost != self._reported and now >= self._next_ns:
            self._reported, self._next_ns, self._ongoing = lost, now + REPORT_NS, True
            return f"{_amount(lost[1], lost[0])} could not be stored; streams go on"
        # One line when the writer does not answer, though nothing is lost yet, and one when it does again.
        if lag_ns > REPORT_NS and not (self._is_behind or self._ongoing):
            self._is_behind = True
            seconds = (silent_ns if silent_ns > REPORT_NS else lag_ns) // 1_000_000_000
            late = "nothing could be written for" if silent_ns > REPORT_NS else "writing is behind by"
            return f"{late} {seconds} s; new data is kept in memory"
        if self._is_behind and lag_ns < LATE_NS:
            self._is_behind = False
            return "works again, nothing was lost meanwhile"
        return None


SLOT_BYTES = 256 << 10
"""Size of a slot of the file beside the tape: 1,700 exchanges with their facts, or 6,000 with their sizes."""
_SLOTS = 2
_HEAD = struct.Struct("<8sQII")
_MAGIC = b"wtlost\x00\x01"


@with_facts
class Began(msgspec.Struct, Begun, array_like=True, gc=False):
    """The facts of a request."""


@with_facts
class Relayed(msgspec.Struct, Ended, Connected, Answered, array_like=True, gc=False):
    """The relay's facts about an exchange; `ended_by` is None while it runs.

    `began` has those of its request, redacted and without its query: enough to enter an exchange that the tape lacks.
    """

    id: str
    began: Began | None = None

    @property
    def all_bytes(self) -> int:
        """The bytes of both directions."""
        return self.bytes + (self.client_bytes or 0)


class Unstored(msgspec.Struct, array_like=True, frozen=True):
    """The relayed, but unstored exchanges of a session; `unlisted` ones are counted only, with their bytes."""

    session: str
    exchanges: list[Relayed] = []
    unlisted: int = 0
    unlisted_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.exchanges or self.unlisted)


def path_of(tape: Path, session: str = "") -> Path:
    """Return the path of the file of a session's losses beside a tape; without a session, that of the first."""
    tape = paths.real(tape)
    shared = tape.with_name(tape.name + ".unstored")
    of_session = shared.with_name(f"{shared.name}.{session}")
    return of_session if session and paths.exists(of_session) else shared


def prepare(tape: Path, session: str, recording: Collection[str] = ()) -> None:
    """Make the file, private and with all of its room, and note the session. Raises `TapeBusy`.

    Files of sessions that are still `recording` stay.
    """
    path = path_of(tape)
    if (present := _newest_slot(path)) is not None and present.session in recording:
        path = path.with_name(f"{path.name}.{session}")
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            size = _SLOTS * SLOT_BYTES
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(descriptor, 0, size)
            position = 0
            while position < size:  # not every file system honours a mere reservation
                position += os.pwrite(descriptor, bytes(size - position), position)
            os.pwrite(descriptor, _encode(0, Unstored(session)), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        full = "free some space" if error.errno == errno.ENOSPC else ""
        cure = paths.shortage(path, _SLOTS * SLOT_BYTES) or full or "mend or remove it"
        raise TapeBusy(f"{path} cannot be written ({error.strerror}): {cure}, or use another tape") from error


def read(tape: Path, session: str = "") -> Unstored | None:
    """Return the losses in the file of a session, or the first; None without a file or a whole slot in it."""
    unstored = _newest_slot(path_of(tape, session))
    return unstored if unstored is None or session in ("", unstored.session) else None


def read_all(tape: Path) -> list[Unstored]:
    """Return the losses in the files of all sessions."""
    shared = path_of(tape)
    paths = [shared, *shared.parent.glob(f"{glob.escape(shared.name)}.*")]
    return [unstored for path in paths if (unstored := _newest_slot(path)) is not None]


def _newest_slot(path: Path) -> Unstored | None:
    """Return the contents of a file: those of the whole slot with the highest number."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        slots = [file.read(SLOT_BYTES) for _ in range(_SLOTS)]
    newest, newest_number = None, -1
    for slot in slots:
        with contextlib.suppress(struct.error, msgspec.MsgspecError):
            magic, number, size, checksum = _HEAD.unpack_from(slot)
            payload = slot[_HEAD.size : _HEAD.size + size]
            if magic == _MAGIC and len(payload) == size and zlib.crc32(payload) == checksum and number > newest_number:
                newest, newest_number = msgspec.msgpack.decode(payload, type=Unstored), number
    return newest


def remove(tape: Path, session: str) -> None:
    """Remove the file of a session: the tape lacks nothing of it, or holds the losses itself."""
    if read(tape, session) is not None:
        with contextlib.suppress(OSError):  # already removed, or not removable
            path_of(tape, session).unlink()


class Keeper:
    """Writes into the file that `prepare` made, in a thread of its own: a disk may be slow."""

    def __init__(self, tape: Path, session: str = "") -> None:
        if session and read(tape, session) is None:
            raise FileNotFoundError(errno.ENOENT, "it was removed")
        self._descriptor = os.open(path_of(tape, session), os.O_RDWR | os.O_NOFOLLOW)
        self._queue: queue.SimpleQueue[Unstored | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def keep(self, unstored: Unstored) -> None:
        """Replace the file's contents in the background; return at once."""
        self._queue.put(unstored)

    def close(self, seconds: float) -> None:
        """Wait at most `seconds` until all of it is written."""
        self._queue.put(None)
        self._thread.join(seconds)

    def _write(self) -> None:
        number = 0
        with contextlib.suppress(OSError), open(self._descriptor, "r+b", buffering=0):
            while (unstored := self._queue.get()) is not None:
                number += 1
                os.pwrite(self._descriptor, _encode(number, unstored), number % _SLOTS * SLOT_BYTES)
            os.fsync(self._descriptor)


def _encode(number: int, unstored: Unstored) -> bytes:
    """Encode a slot; where exchanges are too many, only their sizes, and of the last ones only the count."""
    payload = msgspec.msgpack.encode(unstored)
    while len(payload) > SLOT_BYTES - _HEAD.size:
        exchanges = unstored.exchanges
        sizes = [
            Relayed(id=exchange.id, bytes=exchange.bytes, client_bytes=exchange.client_bytes) for exchange in exchanges
        ]
        count = len(sizes) * 9 // 10 if sizes == exchanges else len(sizes)
        unstored = msgspec.structs.replace(
            unstored,
            exchanges=sizes[:count],
            unlisted=unstored.unlisted + len(sizes) - count,
            unlisted_bytes=unstored.unlisted_bytes + sum(exchange.all_bytes for exchange in sizes[count:]),
        )
        payload = msgspec.msgpack.encode(unstored)
    return _HEAD.pack(_MAGIC, number, len(payload), zlib.crc32(payload)) + payload
