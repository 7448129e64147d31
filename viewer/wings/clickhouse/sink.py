"""A ClickHouse server as a sink. A retry has the same token: the engine recognises the batch, and drops it.

An engine in this process is closed after each request: another process can then read the shipped rows.
"""

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.plurals import counted
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.ship.sink import Batch, Every, NotTaken, ShippingReport, Sink
from wiretape.viewer.source.tape import following
from wiretape.viewer.wings.clickhouse import batches, setup, tables
from wiretape.viewer.wings.clickhouse.batches import RowEncoder, ShippedLabels
from wiretape.viewer.wings.clickhouse.client import Centre, Unavailable

MOST_ROWS: Final = {tables.EXCHANGES.name: 2000, tables.STREAMS.name: 500}
_MOST_BYTES: Final = 2 << 20
"""Size at which a batch is sent, in bytes: it is held in memory."""
ROWS_AT_ONCE: Final = {tables.EXCHANGES.name: 50, tables.STREAMS.name: 5}
_RUNS_SECONDS: Final = 30.0
"""Interval between progress rows in `sessions`."""


class CentreSink(Sink):
    """Ships runs of recorders, exchanges, and with `bodies` their bodies, to a server whose nodes take turns."""

    def __init__(self, centre: Centre, origin: ShippedLabels, bodies: bool = False, clock: Clock = SYSTEM) -> None:
        shipped = [tables.EXCHANGES, tables.STREAMS] if bodies else [tables.EXCHANGES]
        self.lanes = [table.name for table in shipped]
        self.tenant, self.clock = origin.tenant, clock
        self.centre, self.nodes = centre, len(centre.target.nodes)
        self._encoders = {table.name: RowEncoder(table, origin) for table in (tables.SESSIONS, *shipped)}
        self._quorum = 0
        self._runs_due = Every(_RUNS_SECONDS, clock)
        self._told: set[tuple[Any, ...]] = set()

    def begin(self, connection: Connection, known: Acknowledged, warn: Callable[[str], object]) -> None:
        """Continue with a tape. A random name of its progress is the beginning of each token.

        Without its progress a tape is shipped again: by the earlier tokens, the engine would drop the batches.
        """
        super().begin(connection, known, warn)
        if known.state == b"null":
            known.state = json.dumps(secrets.token_hex(8)).encode()

    def prepare(self) -> None:
        """Check the tables, and find the quorum of replicas. Raises `UnusableServer` and `NotTaken`.

        The tables of a directory are made: nobody else is there to do it.
        """
        with self._asked():
            if self.centre.target.directory is not None:
                if setup.make_directory(self.centre.target.directory):
                    self.known.tables.clear()  # earlier rows were removed with their directory
                setup.prepare(self.centre, tables.TABLES, None, lambda _: None)
            setup.check_tables(self.centre, [encoder.table for encoder in self._encoders.values()], self.warn)
            self._quorum = setup.write_quorum(self.centre)

    def take(self, lane: str, progress: Progress) -> Batch | None:
        """Read the next rows of a table."""
        last, length, taken = progress.until, 0, list[tuple[Any, ...]]()
        for rows in self._read(self._encoders[lane], progress):
            last, length = rows[-1][0], length + batches.size(rows)
            taken += rows
            if len(taken) >= MOST_ROWS[lane] or (progress.sending is None and length >= _MOST_BYTES):
                break
        return Batch(lane, progress.until, last, len(taken), taken) if taken else None

    def send(self, batch: Batch) -> None:
        """Insert a batch at the current node."""
        encoder = self._encoders[batch.lane]
        columns = encoder.columns([row[2:] for row in batch.content], [row[1] for row in batch.content])
        token = f"{json.loads(self.known.state)}-{batch.lane}-{batch.after}-{batch.until}"
        self._insert(encoder, columns, token)

    def report(self, report: ShippingReport, *, is_last: bool) -> None:
        """Insert the runs of recorders that the server lacks, and the last, which has the progress of the tape."""
        if not (is_last or self._runs_due.is_due):
            return
        encoder = self._encoders[tables.SESSIONS.name]
        runs = following.runs(self.connection, encoder.sources)
        added = {
            tables.ROW_VERSION: self.clock.wall_ns() // 1000,
            "tape": self.known.tape or "",
            "shipped_at": self.clock.wall(),
            "waiting": report.waiting,
            "lag_ms": None if report.lag_ns is None else report.lag_ns // 1_000_000,
        }
        if rows := [run for run in runs if run not in self._told or run is runs[-1]]:
            self._insert(encoder, encoder.columns(rows, added=added))
        self._told.update(rows)
        self._runs_due.done()

    def remark(self, counts: Mapping[str, int]) -> str:
        """Return the number of exchanges that were shipped with their texts."""
        return "".join(f", the bodies of {counted(counts.get(lane, 0), 'exchange')}" for lane in self.lanes[1:])

    def _read(self, encoder: RowEncoder, progress: Progress) -> Iterator[list[tuple[Any, ...]]]:
        """Yield rows of settled exchanges, some at once: the version, the labels, then the columns."""
        after, most = progress.until, self._at_once(encoder, progress.until)
        while rows := following.settled(self.connection, encoder.sources, after, progress.sending, most):
            yield rows
            after = rows[-1][0]
            most = self._at_once(encoder, after)

    def _at_once(self, encoder: RowEncoder, after: int) -> int:
        """Return the number of rows per read: for bodies only as many as are held in memory."""
        most, is_large = ROWS_AT_ONCE[encoder.table.name], encoder.table is tables.STREAMS
        return following.fitting(self.connection, after, most, _MOST_BYTES) if is_large else most

    def _insert(self, encoder: RowEncoder, columns: Sequence[Sequence[Any]], token: str = "") -> None:
        with self._asked():
            self.centre.insert(encoder.table.name, encoder.types, columns, token=token, quorum=self._quorum)

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Raise `NotTaken` for a node's transient errors; release a directory."""
        try:
            yield
        except Unavailable as error:
            raise NotTaken(str(error)) from error
        finally:
            self.centre.release()
