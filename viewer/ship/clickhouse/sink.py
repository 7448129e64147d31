"""A ClickHouse server as a sink: rows in RowBinary. A retry has the same bytes: the server recognises the batch."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.viewer.ship.acknowledged import Progress
from wiretape.viewer.ship.clickhouse import setup
from wiretape.viewer.ship.clickhouse.batches import RowEncoder
from wiretape.viewer.ship.sink import Batch, Every, NotTaken, RowSink, ShippedLabels, ShippingReport
from wiretape.viewer.source.clickhouse import tables
from wiretape.viewer.source.clickhouse.client import Centre, Unavailable
from wiretape.viewer.source.tape import following

MOST_ROWS: Final = {tables.EXCHANGES.name: 2000, tables.STREAMS.name: 500}
_MOST_BYTES: Final = 2 << 20
"""Size at which a batch is sent, in bytes: it is held in memory."""
ROWS_AT_ONCE: Final = {tables.EXCHANGES.name: 50, tables.STREAMS.name: 5}
_RUNS_SECONDS: Final = 30.0
"""Interval between progress rows in `sessions`."""


class CentreSink(RowSink):
    """Ships to a server, whose nodes are tried one after the other."""

    def __init__(self, centre: Centre, origin: ShippedLabels, bodies: bool = False, clock: Clock = SYSTEM) -> None:
        super().__init__(origin, bodies, clock)
        self.centre, self.nodes = centre, len(centre.target.nodes)
        self._encoders = {name: RowEncoder(table, origin) for name, table in self.tables.items()}
        self._quorum = 0
        self._runs_due = Every(_RUNS_SECONDS, clock)
        self._told: set[tuple[Any, ...]] = set()

    def prepare(self) -> None:
        """Check the tables, and find the quorum of replicas. Raises `UnusableServer` and `NotTaken`."""
        with _asked():
            setup.check_tables(self.centre, self.tables.values(), self.warn)
            self._quorum = setup.write_quorum(self.centre)

    def take(self, lane: str, progress: Progress) -> Batch | None:
        """Encode the next rows of a table."""
        last, count, data = progress.until, 0, bytearray()
        for version, rows, encoded in self._read(self._encoders[lane], progress):
            last, count = version, count + rows
            data += encoded
            if count >= MOST_ROWS[lane] or (progress.sending is None and len(data) >= _MOST_BYTES):
                break
        return Batch(lane, progress.until, last, count, data) if count else None

    def send(self, batch: Batch) -> None:
        """Insert a batch at the current node."""
        self._insert(self._encoders[batch.lane], batch.content)

    def report(self, report: ShippingReport, *, is_last: bool) -> None:
        """Insert the runs of recorders that the server lacks, and the last, which has the progress of the tape."""
        if not (is_last or self._runs_due.is_due):
            return
        encoder = self._encoders[tables.SESSIONS.name]
        runs = following.runs(self.connection, encoder.sources)
        if rows := [run for run in runs if run not in self._told or run is runs[-1]]:
            self._insert(encoder, encoder.encode(rows, added=self.added(report)))
        self._told.update(rows)
        self._runs_due.done()

    def _read(self, encoder: RowEncoder, progress: Progress) -> Iterator[tuple[int, int, bytes]]:
        """Yield encoded rows, some at once: the version of the last, their number, and their bytes."""
        after, most = progress.until, self._at_once(encoder, progress.until)
        while rows := following.settled(self.connection, encoder.sources, after, progress.sending, most):
            after = rows[-1][0]
            yield after, len(rows), encoder.encode([row[2:] for row in rows], [row[1] for row in rows])
            del rows  # their memory is for the next
            most = self._at_once(encoder, after)

    def _at_once(self, encoder: RowEncoder, after: int) -> int:
        """Return the number of rows per read: for bodies only as many as are held in memory."""
        most, is_large = ROWS_AT_ONCE[encoder.table.name], encoder.table is tables.STREAMS
        return following.fitting(self.connection, after, most, _MOST_BYTES) if is_large else most

    def _insert(self, encoder: RowEncoder, data: bytes | bytearray) -> None:
        columns = [column.name for column in encoder.table.columns]
        with _asked():
            self.centre.insert(encoder.table.name, columns, data, quorum=self._quorum)


@contextlib.contextmanager
def _asked() -> Iterator[None]:
    """Raise `NotTaken` for a node's transient errors."""
    try:
        yield
    except Unavailable as error:
        raise NotTaken(str(error)) from error
