"""A ClickHouse server as a sink. A retry has the same token: the engine recognises the batch, and drops it.

An engine in this process is closed after each request: another process can then read the shipped rows. Texts are sent
as bytes: a lone surrogate becomes a question mark, all else stays as it is.
"""

import calendar
import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.destinations import TENANT
from wiretape.recorder.plurals import counted
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.ship.sink import Batch, Every, NotTaken, ShippingReport, Sink
from wiretape.viewer.source.settled import SettledTape
from wiretape.viewer.wings.clickhouse import setup, tables
from wiretape.viewer.wings.clickhouse.client import Centre, Unavailable
from wiretape.viewer.wings.clickhouse.tables import EngineColumn, EngineTable

MOST_ROWS: Final = {tables.EXCHANGES.name: 2000, tables.STREAMS.name: 500}
_MOST_BYTES: Final = 2 << 20
"""Size at which a batch is sent, in bytes: it is held in memory."""
ROWS_AT_ONCE: Final = {tables.EXCHANGES.name: 50, tables.STREAMS.name: 5}
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class ShippedLabels:
    """Additions of shipping to each exchange: the host, and labels; an exchange's own stand, but for the tenant."""

    host: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        """The tenant of the exchanges, "" without one."""
        return self.labels.get(TENANT, "")


class RowEncoder:
    """Encodes data of the tape as columns of one table: the values of `sources`, in their order."""

    def __init__(self, table: EngineTable, origin: ShippedLabels) -> None:
        self.table = table
        self.origin = origin
        self.types = {column.name: column.type for column in table.columns}
        named = {column.name: column.source for column in table.columns if column.source is not None}
        self.sources = tuple(named.values())
        self._positions = {name: position for position, name in enumerate(named)}

    def columns(
        self,
        rows: Sequence[Values],
        labels: Sequence[Mapping[str, str]] = (),
        added: Mapping[str, object] = MappingProxyType({}),
    ) -> list[Values]:
        """Return rows by column; `labels` are those of each row, `added` are columns that all share."""
        values = [*zip(*rows, strict=True)]
        tenant = {TENANT: self.origin.tenant} if self.origin.tenant else {}  # a label of a client does not change it
        merged = [{**self.origin.labels, **client_labels, **tenant} for client_labels in labels]
        shared = {"tenant": self.origin.tenant, "host": self.origin.host, **added}
        computed: dict[str, Values] = {name: [value] * len(rows) for name, value in shared.items()}
        computed["label_names"] = [[*pairs] for pairs in merged]
        computed["label_values"] = [[*pairs.values()] for pairs in merged]
        if "started_at" in self._positions:
            computed["started"] = [*map(second, values[self._positions["started_at"]])]
        return [
            [*map(_converter(column), computed[name] if name in computed else values[self._positions[name]])]
            for name, column in zip(self.types, self.table.columns, strict=True)
        ]


def second(moment: str) -> int:
    """Return a timestamp of the tape in whole seconds since 1970, within the limits of the engine's clock."""
    return min(max(calendar.timegm(datetime.fromisoformat(moment).utctimetuple()), 0), (1 << 32) - 1)


def _converter(column: EngineColumn) -> Callable[[Any], Any]:
    """Return the converter of a column's values to those that the client takes."""
    match column.type:
        case tables.GAPS:
            return lambda packed: memoryview(packed or b"").cast("q").tolist()
        case tables.COUNTS:
            return lambda packed: memoryview(packed or b"").cast("I").tolist()
        case tables.PLACES:
            return lambda places: places or []  # null, where nobody knows the times, has none
        case tables.TEXTS:
            return lambda texts: [*map(_text, texts)]
        case "String" | "Nullable(String)":
            return _text
    return lambda value: value


def _text(value: str | bytes | None) -> bytes | None:
    return value.encode("utf-8", "replace") if isinstance(value, str) else value


class CentreSink(Sink):
    """Ships runs of recorders, exchanges, and with `bodies` their bodies, to a server whose nodes take turns."""

    def __init__(self, centre: Centre, origin: ShippedLabels, bodies: bool = False, clock: Clock = SYSTEM) -> None:
        shipped = [tables.EXCHANGES, tables.STREAMS] if bodies else [tables.EXCHANGES]
        self.lanes = [table.name for table in shipped]
        self.tenant, self.clock = origin.tenant, clock
        self.centre, self.nodes = centre, len(centre.target.nodes)
        self._encoders = {table.name: RowEncoder(table, origin) for table in (tables.SESSIONS, *shipped)}
        self._quorum = 0
        self._runs_due = Every(30.0, clock)
        self._reported_runs: set[tuple[Any, ...]] = set()

    def begin(self, tape: SettledTape, acknowledged: Acknowledged, warn: Callable[[str], object]) -> None:
        """Continue with a tape. A random name of its progress is the beginning of each token.

        Without its progress a tape is shipped again: by the earlier tokens, the engine would drop the batches.
        """
        super().begin(tape, acknowledged, warn)
        if acknowledged.state == b"null":
            acknowledged.state = json.dumps(secrets.token_hex(8)).encode()

    def prepare(self) -> None:
        """Check the tables, and find the quorum of replicas. Raises `UnusableServer` and `NotTaken`.

        The tables of a directory are made: nobody else is there to do it.
        """
        with self._retryable():
            if self.centre.target.directory is not None:
                if setup.make_directory(self.centre.target.directory):
                    self.acknowledged.tables.clear()  # earlier rows were removed with their directory
                setup.prepare(self.centre, tables.TABLES, None, lambda _: None)
            setup.check_tables(self.centre, [encoder.table for encoder in self._encoders.values()], self.warn)
            self._quorum = setup.write_quorum(self.centre)

    def take(self, lane: str, progress: Progress) -> Batch | None:
        """Read the next rows of a table, some at once: of those with bodies only as many as are held in memory."""
        encoder, version, length, taken_rows = self._encoders[lane], progress.until, 0, list[tuple[Any, ...]]()
        while len(taken_rows) < MOST_ROWS[lane] and (progress.sending is not None or length < _MOST_BYTES):
            most = ROWS_AT_ONCE[lane]
            if encoder.table is tables.STREAMS:
                most = self.tape.count_within(_MOST_BYTES, version, most)
            rows = self.tape.rows(encoder.sources, version, progress.sending, most)
            if not rows:
                break
            version, length = (
                rows[-1][0],
                length + sum(len(v) for row in rows for v in row if isinstance(v, str | bytes | list)),
            )
            taken_rows += rows
        return Batch(lane, progress.until, version, len(taken_rows), taken_rows) if taken_rows else None

    def send(self, batch: Batch) -> None:
        """Insert a batch at the current node."""
        encoder = self._encoders[batch.lane]
        columns = encoder.columns([row[2:] for row in batch.content], [row[1] for row in batch.content])
        token = f"{json.loads(self.acknowledged.state)}-{batch.lane}-{batch.since}-{batch.until}"
        self._insert(encoder, columns, token)

    def report(self, report: ShippingReport, *, is_last: bool) -> None:
        """Insert the runs of recorders that the server lacks, and the last, which has the progress of the tape."""
        if not (is_last or self._runs_due.is_due):
            return
        encoder = self._encoders[tables.SESSIONS.name]
        runs = self.tape.runs(encoder.sources)
        added = {
            tables.ROW_VERSION: self.clock.wall_ns() // 1000,
            "tape": self.acknowledged.tape or "",
            "shipped_at": self.clock.wall(),
            "waiting": report.unshipped,
            "lag_ms": None if report.lag_ns is None else report.lag_ns // 1_000_000,
        }
        if rows := [run for run in runs if run not in self._reported_runs or run is runs[-1]]:
            self._insert(encoder, encoder.columns(rows, added=added))
        self._reported_runs.update(rows)
        self._runs_due.done()

    def remark(self, counts: Mapping[str, int]) -> str:
        """Return the number of exchanges that were shipped with their texts."""
        return "".join(f", the bodies of {counted(counts.get(lane, 0), 'exchange')}" for lane in self.lanes[1:])

    def _insert(self, encoder: RowEncoder, columns: Sequence[Sequence[Any]], token: str = "") -> None:
        with self._retryable():
            self.centre.insert(encoder.table.name, encoder.types, columns, token=token, quorum=self._quorum)

    @contextlib.contextmanager
    def _retryable(self) -> Iterator[None]:
        """Raise `NotTaken` for a node's transient errors; release a directory."""
        try:
            yield
        except Unavailable as error:
            raise NotTaken(str(error)) from error
        finally:
            self.centre.release()
