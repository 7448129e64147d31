"""Ships a tape to a centre: what is settled, in that order, in batches of which each is acknowledged before the next.

It reads the tape through a read-only connection, in short transactions, and is slower than the centre if it has to be:
the tape is the buffer. What fails is said once, and tried again, at another node and after a wait that grows. A batch
is fixed before it is sent; a retry has the same bytes.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from recorder.clock import SYSTEM, Clock
from viewer.ship.acknowledged import Acknowledged, Progress
from viewer.ship.clickhouse import schema_check
from viewer.ship.clickhouse.batches import Encoder, Origin
from viewer.source.clickhouse import tables
from viewer.source.clickhouse.client import Centre, Unavailable
from viewer.source.clickhouse.tables import EngineTable
from viewer.source.tape import shipping

MOST_ROWS: Final = {tables.EXCHANGES.name: 2000, tables.STREAMS.name: 500}
_MOST_BYTES: Final = 2 << 20
"""A batch of this size is sent, however few rows it has: it is held in memory."""
ROWS_AT_ONCE: Final = {tables.EXCHANGES.name: 50, tables.STREAMS.name: 5}
POLL_SECONDS: Final = 0.5
"""What is settled is shipped so soon; what comes meanwhile is one insert, as the engine likes it."""
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 30.0
_SESSIONS_NS: Final = 30_000_000_000
"""So often it is told how far the tape is shipped."""
_TRIES_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a table as they are sent; `until` is the version of the last."""

    table: EngineTable
    rows: int
    until: int
    data: bytearray


@dataclass(frozen=True, slots=True)
class Report:
    """How far shipping is: exchanges shipped by this process and waiting, and how long the first of them has been."""

    shipped: int
    waiting: int
    lag_ns: int | None


@dataclass(slots=True)
class Shipper:
    """Ships one tape to one centre. `tell` is given how far it is, `warn` what is wrong, "" when it works again."""

    centre: Centre
    acknowledged: Acknowledged
    origin: Origin
    bodies: bool = False
    clock: Clock = SYSTEM
    wait: Callable[[float], object] = lambda _: None
    is_over: Callable[[], bool] = lambda: False
    tell: Callable[[Report], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    last_seconds: float = 0.0
    """How long it may go on when it is over."""
    shipped: int = 0
    said: int = 0
    """Of so many exchanges what was said was shipped."""
    last: Report | None = None
    _quorum: int | None = None
    _told_ns: int | None = None
    _told: set[tuple[Any, ...]] = field(default_factory=set)
    _until: int | None = None
    _encoders: Mapping[str, Encoder] = field(default_factory=dict)
    _connection: Connection = field(init=False)

    def run(self, connection: Connection, *, once: bool = False) -> None:
        """Ship what a tape has, and unless `once`, what comes, until it `is_over`.

        Raises `Refused`; if `once`, or when it is over, also `Unavailable`: what is not shipped stays on the tape.
        """
        self._connection, self._until = connection, None
        shipping.read_through(connection)
        self.acknowledged.identify(shipping.identity(connection), self.origin.tenant)
        self._encoders = {table.name: Encoder(table, self.origin) for table in self._tables()}
        if self._quorum is None:
            self._retry(self._prepare, once)
        while True:
            self._retry(self._ship_runs, once)
            for table in self._shipped_tables():
                self._ship_table(table, once)
            if once or self._is_late():
                self._told_ns = None
                self._retry(self._ship_runs, once)
                return
            self.report()
            self.wait(POLL_SECONDS)

    def _is_late(self) -> bool:
        """Return whether it has been over for so long that the rest has to wait for the next process."""
        if self._until is None and self.is_over():
            self._until = self.clock.now() + round(self.last_seconds * 1e9)
        return self._until is not None and self.clock.now() >= self._until

    def report(self) -> Report:
        """Find out how far the tape is shipped, and tell it."""
        until = min(self.acknowledged.of(table.name).until for table in self._shipped_tables())
        waiting = shipping.waiting(self._connection, until)
        self.last = Report(self.shipped, waiting.exchanges, waiting.lag_ns(self.clock.wall_ns()))
        self.tell(self.last)
        return self.last

    def _tables(self) -> list[EngineTable]:
        return [tables.SESSIONS, *self._shipped_tables()]

    def _shipped_tables(self) -> list[EngineTable]:
        return [tables.EXCHANGES, tables.STREAMS] if self.bodies else [tables.EXCHANGES]

    def _prepare(self) -> None:
        schema_check.check(self.centre, self._tables(), self.warn)
        self._quorum = schema_check.quorum(self.centre)

    def _ship_table(self, table: EngineTable, once: bool) -> None:
        while not self._is_late() and (batch := self._next(table)) is not None:
            self.acknowledged.put(table.name, Progress(self.acknowledged.of(table.name).until, batch.until))
            self._retry(partial(self._insert, batch), once)
            self.acknowledged.put(table.name, Progress(batch.until))
            if table is tables.EXCHANGES:
                self.shipped += batch.rows
            else:
                self.said += batch.rows
            self.report()
            del batch  # its memory is for the next
            self._retry(self._ship_runs, once)

    def _next(self, table: EngineTable) -> Batch | None:
        """Fix the next batch: that which was being sent when the last process ended, else what is settled since."""
        progress = self.acknowledged.of(table.name)
        if progress.sending is not None:
            if (again := self._fixed(table, progress)) is not None:
                return again
            progress = Progress(progress.sending)  # all of it was deleted, or derived again, since
        return self._fixed(table, progress)

    def _fixed(self, table: EngineTable, progress: Progress) -> Batch | None:
        last, count, data = progress.until, 0, bytearray()
        for version, rows, encoded in self._read(self._encoders[table.name], progress):
            last, count = version, count + rows
            data += encoded
            if count >= MOST_ROWS[table.name] or (progress.sending is None and len(data) >= _MOST_BYTES):
                break
        return Batch(table, count, last, data) if count else None

    def _read(self, encoder: Encoder, progress: Progress) -> Iterator[tuple[int, int, bytes]]:
        """Yield encoded rows, some at once: the version of the last, how many they are, and their bytes."""
        after, most = progress.until, self._at_once(encoder.table, progress.until)
        while rows := shipping.settled(self._connection, encoder.sources, after, progress.sending, most):
            after = rows[-1][0]
            yield after, len(rows), encoder.encode([row[2:] for row in rows], [row[1] for row in rows])
            del rows  # their memory is for the next
            most = self._at_once(encoder.table, after)

    def _at_once(self, table: EngineTable, after: int) -> int:
        """Return how many rows are read at once: of what was said only as much as is held in memory."""
        most = ROWS_AT_ONCE[table.name]
        return shipping.fitting(self._connection, after, most, _MOST_BYTES) if table is tables.STREAMS else most

    def _insert(self, batch: Batch) -> None:
        columns = [column.name for column in batch.table.columns]
        self.centre.insert(batch.table.name, columns, batch.data, quorum=self._quorum or 0)

    def _ship_runs(self) -> None:
        """Ship the runs of recorders, with how far the tape is shipped; not more often than worth it."""
        now = self.clock.now()
        if self._told_ns is not None and now - self._told_ns < _SESSIONS_NS:
            return
        encoder, report = self._encoders[tables.SESSIONS.name], self.report()
        added = {
            tables.ROW_VERSION: self.clock.wall_ns() // 1000,
            "tape": self.acknowledged.tape or "",
            "shipped_at": self.clock.wall(),
            "waiting": report.waiting,
            "lag_ms": None if report.lag_ns is None else report.lag_ns // 1_000_000,
        }
        runs = shipping.runs(self._connection, encoder.sources)
        if rows := [run for run in runs if run not in self._told or run is runs[-1]]:  # the last one says how far it is
            columns = [column.name for column in encoder.table.columns]
            data = encoder.encode(rows, added=added)
            self.centre.insert(encoder.table.name, columns, data, quorum=self._quorum or 0)
        self._told.update(rows)
        self._told_ns = now

    def _retry(self, work: Callable[[], None], once: bool) -> None:
        """Do what may fail until it is done; if `once`, or when it is over, give up after some tries.

        What a node fails with is said when no other could do it, and once: its own words differ each time.
        """
        wait, tries, nodes, said = _FIRST_WAIT, 0, len(self.centre.target.nodes), dict[str, str]()
        while True:
            try:
                work()
            except Unavailable as error:
                tries += 1
                if (once and tries >= _TRIES_AT_ONCE * nodes) or (self._is_late() and tries >= nodes):
                    raise
                said.setdefault(str(error).partition(" (")[0], f"{error}; trying again")
                if tries % nodes == 0:  # all of them have been asked
                    self._warn_of(said)
                    self.wait(wait * random.uniform(0.5, 1.0))
                    wait = min(2 * wait, _LONGEST_WAIT)
            else:
                if tries >= nodes:
                    self.warn("")
                return

    def _warn_of(self, said: dict[str, str]) -> None:
        """Print the lines that are not empty, and empty them."""
        for kind, line in said.items():
            if line:
                self.warn(line)
                said[kind] = ""
