"""Ships a tape to an archive of Parquet files: what is settled, in that order, each batch acknowledged before the next.

A batch is the versions of settlements from one to another, which are fixed before it is written and are a part of the
names of its files: to write it again, after whatever broke, replaces them. How far it is, is kept beside the tape, as
when a tape is shipped to a centre.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from recorder.clock import SYSTEM, Clock
from recorder.errors import WiretapeError
from recorder.sanitize import clipped, safe
from viewer.fleet import archived, compaction, tables
from viewer.fleet.acknowledged import Acknowledged, Progress
from viewer.fleet.archived import Maker
from viewer.fleet.batches import Origin
from viewer.fleet.files import SUFFIX, Files
from viewer.fleet.tables import EngineTable
from viewer.tape import shipping

MOST_ROWS: Final = 10_000
_MOST_BYTES: Final = 16 << 20
"""A batch of this size is written, however few rows it has: it is held in memory."""
ROWS_AT_ONCE: Final = {tables.EXCHANGES.name: 500, tables.STREAMS.name: 20}
POLL_SECONDS: Final = 60.0
"""So often are files written: engines like few and large ones."""
_COMPACT_NS: Final = 3_600_000_000_000
_FIRST_WAIT: Final = 1.0
_SHOWN: Final = 300


@dataclass(slots=True)
class _Batch:
    """What was settled up to a version: how many rows, and tables of them by day."""

    until: int
    rows: int = 0
    days: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(slots=True)
class Archiver:
    """Ships one tape to one archive. `tell` is given how many exchanges were shipped, and how many wait.

    `warn` is given what is wrong, "" when it works again.
    """

    files: Files
    acknowledged: Acknowledged
    origin: Origin
    bodies: bool = False
    clock: Clock = SYSTEM
    wait: Callable[[float], object] = lambda _: None
    is_over: Callable[[], bool] = lambda: False
    tell: Callable[[int, int], object] = lambda *_: None
    warn: Callable[[str], object] = lambda _: None
    shipped: int = 0
    waiting: int | None = None
    """How many exchanges wait, as far as has been looked."""
    _makers: dict[str, Maker] = field(init=False)
    _compacted_ns: int | None = None

    def __post_init__(self) -> None:
        """Make what makes rows of each table."""
        self._makers = {table.name: Maker(self.files.arrow, table, self.origin) for table in self._tables()}

    def run(self, connection: Connection, *, once: bool = False) -> None:
        """Ship what a tape has, and unless `once`, what comes, until it `is_over`. Raises as `finish` does."""
        if not once:
            self.follow(connection)
        self.finish(connection)

    def follow(self, connection: Connection) -> None:
        """Ship what a tape has, and what comes, until it `is_over`."""
        wait = 0.0
        while not self.is_over():
            try:
                self._ship(connection)
                self._compact()
            except (OSError, ValueError) as error:
                self.warn(f"{_reason(error)}; trying again")
                wait = min(2 * wait or _FIRST_WAIT, POLL_SECONDS)
            else:
                if wait:
                    self.warn("")
                wait = 0.0
            self.wait(wait or POLL_SECONDS)

    def finish(self, connection: Connection) -> None:
        """Ship what is left. Raises `WiretapeError` if it cannot be written: what is not shipped stays on the tape."""
        try:
            self._ship(connection)
            self._compact()
        except (OSError, ValueError) as error:
            raise WiretapeError(f"{_reason(error)}: what is not archived stays on the tape") from error

    def _tables(self) -> list[EngineTable]:
        return [tables.EXCHANGES, tables.STREAMS] if self.bodies else [tables.EXCHANGES]

    def _ship(self, connection: Connection) -> None:
        self.acknowledged.identify(shipping.identity(connection))
        for table in self._tables():
            while self._ship_batch(connection, table):
                self._report(connection)
        self._report(connection)

    def _report(self, connection: Connection) -> None:
        until = self.acknowledged.of(tables.EXCHANGES.name).until
        waiting = self.waiting = shipping.waiting(connection, until).exchanges
        self.tell(self.shipped, waiting)

    def _ship_batch(self, connection: Connection, table: EngineTable) -> bool:
        """Write the next batch, first that which was being written before; False: there is none."""
        progress = self.acknowledged.of(table.name)
        batch = self._read(connection, table, progress)
        if not batch.rows and progress.sending is None:
            return False
        until = batch.until if progress.sending is None else progress.sending
        self.acknowledged.put(table.name, Progress(progress.until, until))
        self._write(table, progress.until, until, batch)  # nothing, if all of it was deleted or derived again since
        self.acknowledged.put(table.name, Progress(until))
        self.shipped += batch.rows if table is tables.EXCHANGES else 0
        return True

    def _read(self, connection: Connection, table: EngineTable, progress: Progress) -> _Batch:
        maker, most, batch = self._makers[table.name], ROWS_AT_ONCE[table.name], _Batch(progress.until)
        size = 0
        while found := shipping.settled(connection, maker.sources, batch.until, progress.sending, most):
            batch.until, batch.rows = found[-1][0], batch.rows + len(found)
            for date, made in maker.by_day(found):
                batch.days.setdefault(date, []).append(made)
                size += made.nbytes
            if progress.sending is None and (batch.rows >= MOST_ROWS or size >= _MOST_BYTES):
                break
        return batch

    def _write(self, table: EngineTable, after: int, until: int, batch: _Batch) -> None:
        tape = hashlib.sha256((self.acknowledged.tape or "").encode("utf-8", "replace")).hexdigest()[:12]
        for date, parts in batch.days.items():
            path = f"{table.name}/{archived.day(date, self.origin.host)}/part-{tape}-{after:016}-{until:016}{SUFFIX}"
            self.files.put(path, partial(self._put, self.files.arrow.concat_tables(parts).combine_chunks()))

    def _put(self, made: Any, out: Any) -> None:
        self.files.arrow.parquet.write_table(made, out, compression="zstd")

    def _compact(self) -> None:
        """Merge what past days left, not more often than worth it."""
        now = self.clock.now()
        if self._compacted_ns is not None and now - self._compacted_ns < _COMPACT_NS:
            return
        for table in self._tables():
            compaction.compact(self.files, table.name, self.origin.host, self.clock.wall()[: len("2026-01-01")])
        self._compacted_ns = now


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    name = getattr(error, "filename", None)
    return f"the archive cannot be written ({reason or clipped(safe(str(error)), _SHOWN)}{f': {name}' if name else ''})"
