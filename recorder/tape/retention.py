"""Deletion of exchanges: chosen ones, those past an age, and the oldest until the tape fits a size.

Works on the tape's only writing connection. A tape's size here is that of its pages in use: deleting leaves free pages
in the file, which new recordings fill first. Deleted data can be read from free pages until they are filled;
`vacuum` rewrites the file without them. Selecting by a filter is left to `viewer`.
"""

import itertools
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from sqlalchemy import BigInteger, Connection, delete, exists, func, not_, select

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.exchange import FAILURES
from wiretape.recorder.errors import TapeBusy
from wiretape.recorder.tape import column_types
from wiretape.recorder.tape.journal import Deleted, Deleting
from wiretape.recorder.tape.schema import (
    COVERED,
    IS_PART_OF,
    STREAMS,
    exchanges,
    measures,
    request_parts,
    request_versions,
    settlements,
    uploads,
)

_BATCH = 100
"""Exchanges deleted in one transaction: short enough for a recorder to commit in between."""
_STORED_BYTES = (
    exchanges.c.bytes
    - exchanges.c.gap_bytes
    + func.coalesce(exchanges.c.client_bytes - exchanges.c.client_gap_bytes, 0, type_=BigInteger)
)
"""Bytes of an exchange's reads."""


@dataclass(frozen=True, slots=True)
class TapeLimits:
    """Limits of a tape: exchanges younger than `age`, and at most `size` bytes of pages in use."""

    age: timedelta | None = None
    size: int | None = None

    def __bool__(self) -> bool:
        return self.age is not None or self.size is not None


@dataclass(frozen=True, slots=True)
class DeletionSummary:
    """Summary of a deletion: the number of exchanges, the bytes of their bodies, the first and the last start."""

    exchanges: int
    body_bytes: int
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, slots=True)
class Removed:
    """Exchanges that a recorder deletes at once, and the reports of a session's own, by its number."""

    exchanges: int
    by_session: dict[int, Deleted]

    def of(self, session_no: int, *, all: bool) -> Deleted:
        """Return the report for a session: with `all` exchanges, or only its own."""
        of_session = self.by_session.get(session_no, Deleted(0, 0, 0, 0))
        return msgspec.structs.replace(of_session, exchanges=self.exchanges) if all else of_session


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a tape's file, and that of its free pages, in bytes."""

    file: int
    free: int

    @property
    def used(self) -> int:
        """Bytes of pages in use."""
        return self.file - self.free


def size(connection: Connection) -> Size:
    """Return the size of the tape; the pages in its log count, too."""
    pages, free, page_size = (
        connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return Size(pages * page_size, free * page_size)


def past(
    connection: Connection, limits: TapeLimits, clock: Clock, *, settled: bool = False, most: int | None = None
) -> list[str]:
    """Return the ids of the exchanges that are past the limits, the oldest first.

    Only `settled` ones if asked, and at most `most`: of a large tape it takes long to name all. For the pages in use to
    fit a size, all exchanges are taken to be of one size: look again after deleting.
    """
    oldest = select(exchanges.c.id).order_by(exchanges.c.started_at, exchanges.c.no)
    if settled:
        oldest = oldest.where(exists().where(settlements.c.exchange_no == exchanges.c.no))
    ids: Sequence[str] = ()
    if limits.age is not None:
        limit = datetime.fromisoformat(clock.wall()) - limits.age
        aged = oldest.where(exchanges.c.started_at < limit.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        ids = connection.execute(aged.limit(most)).scalars().all()
    if limits.size is not None and (used := size(connection).used) > limits.size:
        total = connection.execute(select(func.count()).select_from(exchanges)).scalar_one()
        count = math.ceil(total * (used - limits.size) / used)
        excess = connection.execute(oldest.limit(count if most is None else min(count, most))).scalars().all()
        ids = max(ids, excess, key=len)  # both lists begin with the oldest
    return list(ids)


def summary(connection: Connection, ids: Sequence[str]) -> DeletionSummary:
    """Return the summary of deleting these exchanges."""
    count = total = 0
    began: list[str] = []
    for start in range(0, len(ids), _BATCH):
        ends = column_types.least(exchanges.c.started_at), column_types.greatest(exchanges.c.started_at)
        statement = select(func.count(), func.sum(_STORED_BYTES), *ends).where(
            exchanges.c.id.in_(ids[start : start + _BATCH])
        )
        number, bytes_, *starts = connection.execute(statement).one()
        count, total = count + number, total + (bytes_ or 0)
        began += [at for at in starts if at is not None]
    return DeletionSummary(count, total, min(began, default=None), max(began, default=None))


def erase(connection: Connection, ids: Sequence[str]) -> Iterator[int]:
    """Delete exchanges with all that belongs to them, some at a time; yield the count of each transaction.

    Ids that are not on the tape are ignored. Sessions stay: they hold the key of the redaction hashes.
    """
    for start in range(0, len(ids), _BATCH):
        with connection.begin():
            statement = select(exchanges.c.no).where(exchanges.c.id.in_(ids[start : start + _BATCH]))
            numbers = connection.execute(statement).scalars().all()
            versions = request_versions.c
            is_erased = versions.exchange_no.in_(numbers)
            families = connection.execute(select(versions.family).where(is_erased).distinct()).scalars().all()
            connection.execute(delete(request_versions).where(is_erased))
            # Only the parts that no other request has.
            is_of_family = request_parts.c.family.in_(families)
            connection.execute(delete(request_parts).where(is_of_family, ~exists().where(IS_PART_OF)))
            for table in (uploads, *itertools.chain(*STREAMS), measures, settlements):
                connection.execute(delete(table).where(table.c.exchange_no.in_(numbers)))
            connection.execute(delete(exchanges).where(exchanges.c.no.in_(numbers)))
        yield len(numbers)


def enforce(connection: Connection, limits: TapeLimits, clock: Clock) -> Iterator[int]:
    """Delete exchanges past the limits, also those still open when their recorder died; yield as `erase` does."""
    if limits.age is not None:
        with connection.begin():
            ids = past(connection, TapeLimits(limits.age), clock)
        yield from erase(connection, ids)
    while limits.size is not None:
        with connection.begin():
            ids = past(connection, TapeLimits(size=limits.size), clock, most=_BATCH)
        if not ids:
            return
        yield from erase(connection, ids)


def vacuum(connection: Connection, path: Path) -> tuple[Size, Size]:
    """Rewrite the tape without free pages; return its size before and after.

    Raises `TapeBusy` if the disk has no room for it: SQLite writes the tape to a temporary file, and then to its log.
    It is raised, too, if the log cannot be moved into the file: deleted data is still there then.
    """
    connection.rollback()
    with connection.begin():
        old_size = size(connection)
    free = shutil.disk_usage(path.parent).free
    if free < 2 * old_size.used:
        need = 2 * old_size.used - free
        raise TapeBusy(f"{path} cannot be rewritten: the disk needs {need:,} more free bytes for it: free some space")
    connection.rollback()
    # SQLite would take the system's temporary folder, which may be smaller and is others' too.
    os.environ.setdefault("SQLITE_TMPDIR", str(path.parent))
    connection.connection.execute("VACUUM")
    (is_busy, *_) = connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise TapeBusy(
            f"{path} is being read by another program, so that deleted data is still in the file: end that program"
            " and run 'wiretape db vacuum' again"
        )
    with connection.begin():
        return old_size, size(connection)


class Pruner:
    """Deletes exchanges past the limits while a tape is recorded, a few at a time.

    Running and unmeasured exchanges are never deleted; so a tape may exceed its limit by their size.
    """

    def __init__(self, connection: Connection, limits: TapeLimits, clock: Clock) -> None:
        self._connection, self._limits, self._clock = connection, limits, clock
        self._is_shrinking = False
        self.due = clock.now()
        """Time of the next `step`, on the monotonic clock."""

    def step(self, announce: Callable[[int, Removed], None] = lambda first_no, removed: None) -> Removed:
        """Delete some exchanges past the limits, in one transaction. Raises SQLite's errors.

        `announce` is called before, with the number of the first exchange: if this process is killed before it
        reports the end, the next writer asks `is_done`.
        """
        self.due = self._clock.now() + 1_000_000_000
        limits = self._limits
        if limits.size is not None and self._is_shrinking:
            # A full tape is reduced to 95 % of its limit, so that not every commit deletes.
            limits = TapeLimits(limits.age, int(limits.size * 0.95))
        with self._connection.begin():
            # 20 at once: the next commit of the recorder waits for them.
            ids = past(self._connection, limits, self._clock, settled=True, most=20)
            removed = self._removed(ids)
            least_no = select(func.min(exchanges.c.no)).where(exchanges.c.id.in_(ids))
            first_no = self._connection.execute(least_no).scalar()
        if first_no is not None:
            announce(first_no, removed)
        self._is_shrinking = sum(erase(self._connection, ids)) > 0
        if self._is_shrinking:
            self.due = self._clock.now()
        return removed

    def is_done(self, announced: Deleting) -> bool:
        """Return True if the announced exchanges have been deleted."""
        statement = select(exchanges.c.no).where(exchanges.c.no == announced.first_no)
        with self._connection.begin():
            return self._connection.execute(statement).scalar() is None

    def _removed(self, ids: Sequence[str]) -> Removed:
        failed = func.count().filter(COVERED, measures.c.outcome.in_(FAILURES))
        size = func.coalesce(func.sum(_STORED_BYTES), 0)
        counts = func.count(), failed, size, func.count().filter(not_(COVERED))
        statement = select(exchanges.c.session_no, *counts).group_by(exchanges.c.session_no)
        statement = statement.select_from(exchanges).outerjoin(measures).where(exchanges.c.id.in_(ids))
        rows = self._connection.execute(statement).all()
        return Removed(len(ids), {session_no: Deleted(count, count, *counts) for session_no, count, *counts in rows})
