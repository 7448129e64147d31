"""Ships a tape to an archive of Parquet files: what is settled, in that order, each batch acknowledged before the next.

A batch is the versions of settlements from one to another, which are fixed before it is written and are a part of the
names of its files: to write it again, after whatever broke, replaces them. How far it is, is kept beside the tape, as
when a tape is shipped to a centre. Rows are read, and written as row groups, some at once: a batch is never in memory.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from recorder.clock import SYSTEM, Clock
from recorder.errors import WiretapeError
from recorder.sanitize import clipped, safe
from viewer.ship.acknowledged import Acknowledged, Progress
from viewer.ship.clickhouse.batches import Origin
from viewer.ship.parquet import compaction, layout
from viewer.ship.parquet.files import SUFFIX, Files, cause
from viewer.ship.parquet.layout import Maker
from viewer.source.clickhouse import tables
from viewer.source.clickhouse.tables import EngineTable
from viewer.source.tape import shipping

MOST_ROWS: Final = {tables.EXCHANGES.name: 10_000, tables.STREAMS.name: 1000}
"""Of a batch."""
ROWS_AT_ONCE: Final = {tables.EXCHANGES.name: 200, tables.STREAMS.name: 5}
POLL_SECONDS: Final = 60.0
"""So often are files written: engines like few and large ones."""
_PLANNED: Final = ("started_at", "size")
"""Columns that say which day an exchange is of, and of streams, by asking for it, that there is a body."""
_VERSIONS_AT_ONCE: Final = 1000
_ALL: Final = 1 << 62
_COMPACT_NS: Final = 3_600_000_000_000
_UNFINISHED_SECONDS: Final = 86_400
_FIRST_WAIT: Final = 1.0
_SHOWN: Final = 300


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
    said: int = 0
    """Of so many exchanges what was said was shipped."""
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
        wait, said = 0.0, ""
        while not self.is_over():
            try:
                self._ship(connection)
            except (OSError, ValueError) as error:
                if said != (said := f"{_reason(error)}; trying again"):
                    self.warn(said)
                wait = min(2 * wait or _FIRST_WAIT, POLL_SECONDS)
            else:
                if said:
                    self.warn("")
                wait, said = 0.0, ""
                self._compact()
            self.wait(wait or POLL_SECONDS)

    def finish(self, connection: Connection) -> None:
        """Ship what is left. Raises `WiretapeError` if it cannot be written: what is not shipped stays on the tape."""
        try:
            self._ship(connection)
        except (OSError, ValueError) as error:
            raise WiretapeError(f"{_reason(error)}: what is not archived stays on the tape") from error
        self._compact()

    def _tables(self) -> list[EngineTable]:
        return [tables.SESSIONS, *self._shipped_tables()]

    def _shipped_tables(self) -> list[EngineTable]:
        return [tables.EXCHANGES, tables.STREAMS] if self.bodies else [tables.EXCHANGES]

    def _ship(self, connection: Connection) -> None:
        shipping.read_through(connection)
        self.acknowledged.identify(shipping.identity(connection), self.origin.tenant)
        self._ship_runs(connection)  # so that who reads finds the run of each exchange
        for table in self._shipped_tables():
            while self._ship_batch(connection, table):
                self._report(connection)
        self._ship_runs(connection)

    def _report(self, connection: Connection) -> shipping.Waiting:
        until = min(self.acknowledged.of(table.name).until for table in self._shipped_tables())
        waiting = shipping.waiting(connection, until)
        self.waiting = waiting.exchanges
        self.tell(self.shipped, waiting.exchanges)
        return waiting

    def _ship_batch(self, connection: Connection, table: EngineTable) -> bool:
        """Write the next batch, first that which was being written before; False: there is none."""
        progress = self.acknowledged.of(table.name)
        days = self._days(connection, table, progress)
        if not days and progress.sending is None:
            return False
        until = max(versions[-1] for versions in days.values()) if progress.sending is None else progress.sending
        self.acknowledged.put(table.name, Progress(progress.until, until))
        for date, versions in days.items():  # none, if all of it was deleted or derived again since
            name = f"part-{self._tape}-{progress.until:016}-{until:016}{SUFFIX}"
            write = partial(self._write, connection, table, versions)
            self.files.put(f"{layout.partition(table, date, self.origin.host)}/{name}", write)
        self.acknowledged.put(table.name, Progress(until))
        count = sum(map(len, days.values()))
        if table is tables.EXCHANGES:
            self.shipped += count
        else:
            self.said += count
        return True

    def _days(self, connection: Connection, table: EngineTable, progress: Progress) -> dict[str, list[int]]:
        """Return the versions of the next batch, in their order, by the day when the exchanges started."""
        days, last = dict[str, list[int]](), progress.until
        columns = [column.source for column in table.columns if column.source is not None and column.name in _PLANNED]
        left = _ALL if progress.sending is not None else MOST_ROWS[table.name]  # what is fixed has its own end
        while found := shipping.settled(connection, columns, last, progress.sending, min(left, _VERSIONS_AT_ONCE)):
            for version, _, started, *_ in found:
                days.setdefault(layout.day(started), []).append(version)
            last, left = found[-1][0], left - len(found)
        return days

    @property
    def _tape(self) -> str:
        return _hashed(self.acknowledged.tape or "")

    def _write(self, connection: Connection, table: EngineTable, versions: Sequence[int], out: Any) -> None:
        schema = self._makers[table.name].schema
        layout.write(self.files.arrow, schema, self._read(connection, table, versions), out)

    def _read(self, connection: Connection, table: EngineTable, versions: Sequence[int]) -> Iterator[Any]:
        """Yield exchanges as tables, some at once."""
        maker, most = self._makers[table.name], ROWS_AT_ONCE[table.name]
        for first in range(0, len(versions), most):
            if found := shipping.of_versions(connection, maker.sources, versions[first : first + most]):
                yield maker.table([row[2:] for row in found], [row[1] for row in found])

    def _ship_runs(self, connection: Connection) -> None:
        """Write the runs of recorders, a file a day, where they or how far the tape is shipped have changed."""
        table, waiting = tables.SESSIONS, self._report(connection)
        maker, days, date = self._makers[table.name], dict[str, list[Any]](), ""
        started = maker.sources.index(table.column("started_at").source)
        for run in shipping.runs(connection, maker.sources):
            date = layout.day(run[started])
            days.setdefault(date, []).append(run)
        last = date  # only there it is said how far the tape is
        for date, runs in days.items():
            digest = _hashed(repr((self.origin, runs, waiting if date == last else None)))
            if self.acknowledged.runs.get(date) != digest:
                self._write_runs(date, runs, waiting)
                self.acknowledged.put_runs(date, digest)

    def _write_runs(self, date: str, runs: Sequence[Any], waiting: shipping.Waiting) -> None:
        """Write the runs of a day as a file, which takes the place of that of before when it is there."""
        version = self.clock.wall_ns() // 1000
        lag_ns = waiting.lag_ns(self.clock.wall_ns())
        added = {
            layout.VERSION: version,
            "tape": self.acknowledged.tape or "",
            "shipped_at": self.clock.wall(),
            "waiting": waiting.exchanges,
            "lag_ms": None if lag_ns is None else lag_ns // 1_000_000,
        }
        made = self._makers[tables.SESSIONS.name].table(runs, added=added)
        directory = layout.partition(tables.SESSIONS, date, self.origin.host)
        prefix = f"{directory}/part-{_hashed(f'{self.acknowledged.tape} {self.acknowledged.path}')}-"
        path = f"{prefix}{version:016}{SUFFIX}"
        self.files.put(path, lambda out: layout.write(self.files.arrow, made.schema, [made], out))
        for before in self.files.below(directory):
            if before.path.startswith(prefix) and before.path != path:
                self.files.remove(before.path)

    def _compact(self) -> None:
        """Merge what past days left, not more often than worth it. What fails is tried again then: nothing is lost."""
        now, today = self.clock.now(), layout.day(self.clock.wall())
        if self._compacted_ns is not None and now - self._compacted_ns < _COMPACT_NS:
            return
        self._compacted_ns = now
        try:
            for table in self._tables():
                self.files.remove_unfinished(table.name, self.clock.wall_ns() / 1e9 - _UNFINISHED_SECONDS)
                for problem in compaction.compact(self.files, table, self.origin.host, today):
                    self.warn(f"small files of the archive are not merged ({_shown(problem)})")
        except OSError as error:
            self.warn(f"small files of the archive are not merged ({_shown(cause(error))})")


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _shown(text: str) -> str:
    return clipped(safe(text), _SHOWN)


def _reason(error: Exception) -> str:
    return f"the archive cannot be written ({_shown(cause(error))})"
