"""An archive of Parquet files as a sink: a batch is a range of versions of settlements.

The range is fixed before it is written and is a part of the names of its files: a repeated batch, after any failure,
replaces them. Rows are read, and written as row groups, some at once: a batch is never in memory.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.sanitize import clipped, safe
from wiretape.viewer.ship.acknowledged import Progress
from wiretape.viewer.ship.parquet import compaction, layout
from wiretape.viewer.ship.parquet.files import SUFFIX, Files, cause
from wiretape.viewer.ship.parquet.layout import TableMaker
from wiretape.viewer.ship.sink import Batch, Every, NotTaken, RowSink, ShippedLabels, ShippingReport
from wiretape.viewer.source.base import POLL_SECONDS
from wiretape.viewer.source.clickhouse import tables
from wiretape.viewer.source.clickhouse.tables import EngineTable
from wiretape.viewer.source.tape import following

MOST_ROWS: Final = {tables.EXCHANGES.name: 10_000, tables.STREAMS.name: 1000}
"""Maximum number of rows of a batch."""
ROWS_AT_ONCE: Final = {tables.EXCHANGES.name: 200, tables.STREAMS.name: 5}
_PLANNED: Final = ("started_at", "size")
"""Columns for the day of an exchange and, for streams, the presence of a body."""
_VERSIONS_AT_ONCE: Final = 1000
_ALL: Final = 1 << 62
_COMPACT_SECONDS: Final = 3600.0
_UNFINISHED_SECONDS: Final = 86_400
_SHOWN: Final = 300


class ArchiveSink(RowSink):
    """Ships to an archive. A failure there is not retried with `once`: a disk does not mend by itself."""

    poll_seconds = POLL_SECONDS["archive"]
    """Interval between files, in seconds: engines like few and large ones."""
    rounds = 1

    def __init__(self, files: Files, origin: ShippedLabels, bodies: bool = False, clock: Clock = SYSTEM) -> None:
        super().__init__(origin, bodies, clock)
        self.files = files
        self._makers = {name: TableMaker(files.arrow, table, origin) for name, table in self.tables.items()}
        self._runs_due, self._compaction_due = Every(self.poll_seconds, clock), Every(_COMPACT_SECONDS, clock)

    def take(self, lane: str, progress: Progress) -> Batch | None:
        """Find the versions of the next batch; its rows are read while it is written."""
        days = self._days(self.tables[lane], progress)
        if not days:
            return None
        until = max(versions[-1] for versions in days.values()) if progress.sending is None else progress.sending
        return Batch(lane, progress.until, until, sum(map(len, days.values())), days)

    def send(self, batch: Batch) -> None:
        """Write the files of a batch, one a day."""
        table = self.tables[batch.lane]
        name = f"part-{_hashed(self.known.tape or '')}-{batch.after:016}-{batch.until:016}{SUFFIX}"
        with _written():
            for date, versions in batch.content.items():
                write = partial(self._write, table, versions)
                self.files.put(f"{layout.partition(table, date, self.origin.host)}/{name}", write)

    def report(self, report: ShippingReport, *, is_last: bool) -> None:
        """Write the runs of recorders where they have changed, and merge small files when all is there."""
        if not (is_last or report.waiting == 0 or self._runs_due.is_due):
            return
        with _written():
            self._ship_runs(report)
        self._runs_due.done()
        if (is_last or report.waiting == 0) and self._compaction_due.is_due:
            self._compaction_due.done()
            self._compact()

    def _days(self, table: EngineTable, progress: Progress) -> dict[str, list[int]]:
        """Return the versions of the next batch, in their order, by the day when the exchanges started."""
        days, last = dict[str, list[int]](), progress.until
        columns = [column.source for column in table.columns if column.source is not None and column.name in _PLANNED]
        left = _ALL if progress.sending is not None else MOST_ROWS[table.name]  # a fixed batch has its own end
        while found := following.settled(
            self.connection, columns, last, progress.sending, min(left, _VERSIONS_AT_ONCE)
        ):
            for version, _, started, *_ in found:
                days.setdefault(layout.day(started), []).append(version)
            last, left = found[-1][0], left - len(found)
        return days

    def _write(self, table: EngineTable, versions: Sequence[int], out: object) -> None:
        layout.write_tables(self.files.arrow, self._makers[table.name].schema, self._read(table, versions), out)

    def _read(self, table: EngineTable, versions: Sequence[int]) -> Iterator[Any]:
        """Yield exchanges as tables, some at once."""
        maker, most = self._makers[table.name], ROWS_AT_ONCE[table.name]
        for first in range(0, len(versions), most):
            if found := following.of_versions(self.connection, maker.sources, versions[first : first + most]):
                yield maker.table([row[2:] for row in found], [row[1] for row in found])

    def _ship_runs(self, report: ShippingReport) -> None:
        """Write the runs of recorders, a file a day, where they or the progress of shipping have changed."""
        maker, days, date = self._makers[tables.SESSIONS.name], dict[str, list[Any]](), ""
        started = maker.sources.index(tables.SESSIONS.column("started_at").source)
        for run in following.runs(self.connection, maker.sources):
            date = layout.day(run[started])
            days.setdefault(date, []).append(run)
        last, waiting = date, (report.waiting, report.first)  # only that day's file has the tape's progress
        for date, runs in days.items():
            digest = _hashed(repr((self.origin, runs, waiting if date == last else None)))
            if self.known.runs.get(date) != digest:
                self._write_runs(date, runs, self.added(report))
                self.known.put_runs(date, digest)

    def _write_runs(self, date: str, runs: Sequence[Any], added: dict[str, Any]) -> None:
        """Write the runs of a day as a file, which takes the place of that of before when it is there."""
        made = self._makers[tables.SESSIONS.name].table(runs, added=added)
        directory = layout.partition(tables.SESSIONS, date, self.origin.host)
        prefix = f"{directory}/part-{_hashed(f'{self.known.tape} {self.known.path}')}-"
        path = f"{prefix}{added[layout.VERSION]:016}{SUFFIX}"
        self.files.put(path, lambda out: layout.write_tables(self.files.arrow, made.schema, [made], out))
        for before in self.files.below(directory):
            if before.path.startswith(prefix) and before.path != path:
                self.files.remove(before.path)

    def _compact(self) -> None:
        """Merge files of past days. A failure is retried later: nothing is lost."""
        today = layout.day(self.clock.wall())
        try:
            for table in self.tables.values():
                self.files.remove_unfinished(table.name, self.clock.wall_ns() / 1e9 - _UNFINISHED_SECONDS)
                for problem in compaction.compact(self.files, table, self.origin.host, today):
                    self.warn(f"small files of the archive are not merged ({_shown(problem)})")
        except OSError as error:
            self.warn(f"small files of the archive are not merged ({_shown(cause(error))})")


@contextlib.contextmanager
def _written() -> Iterator[None]:
    """Raise `NotTaken` for an error with a file."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise NotTaken(f"the archive cannot be written ({_shown(cause(error))})") from error


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _shown(text: str) -> str:
    return clipped(safe(text), _SHOWN)
