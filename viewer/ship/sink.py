"""A shipper's interface to a destination: a sink, which takes batches of settled exchanges and reports the progress."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlalchemy import Connection

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.destinations import TENANT
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.source.base import POLL_SECONDS
from wiretape.viewer.source.clickhouse import tables
from wiretape.viewer.source.clickhouse.tables import EngineTable


class NotTaken(WiretapeError):
    """A destination did not take a batch, and may take it later: after `wait_s` seconds, if it says so."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class ShippedLabels:
    """Additions of shipping to each exchange: the host, and labels; an exchange's own stand, but for the tenant."""

    host: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        """The tenant of the exchanges, "" without one."""
        return self.labels.get(TENANT, "")


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of `count` exchanges: those settled after one version and up to another."""

    lane: str
    after: int
    until: int
    count: int
    content: Any


@dataclass(frozen=True, slots=True)
class ShippingReport:
    """The progress of shipping: exchanges shipped by this process and waiting, and the first one's time of waiting."""

    shipped: int
    waiting: int
    lag_ns: int | None

    def line(self, name: str) -> str:
        """Return it as a status line; `name` is that of the destination."""
        lag = "" if self.lag_ns is None else f" · lag {self.lag_ns / 1e9:,.1f} s"
        return f"{self.shipped:,} shipped to {name} · {self.waiting:,} waiting{lag}"


class Every:
    """The interval of regular work."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds, self._clock = seconds, clock
        self._done_ns: int | None = None

    @property
    def is_due(self) -> bool:
        """True if the interval since `done` has passed, or if it was never called."""
        return self._done_ns is None or self._clock.now() - self._done_ns >= self._seconds * 1e9

    def done(self) -> None:
        """Start the interval again."""
        self._done_ns = self._clock.now()


class Sink(ABC):
    """A destination of a tape. Its `lanes` are shipped one after the other, each with a progress of its own."""

    lanes: Sequence[str]
    poll_seconds: ClassVar[float] = POLL_SECONDS["shipping"]
    """Delay before a settled exchange is shipped; those that follow meanwhile join its batch."""
    rounds: ClassVar[int] = 8
    """Maximum number of rounds of tries where only the present exchanges are shipped."""
    decodes: ClassVar[bool] = False
    """True if it reads decoded bodies, for which a connection to a tape needs more."""
    nodes: int = 1
    """Number of tries in a round: each reaches another node."""
    tenant: str = ""
    connection: Connection
    known: Acknowledged
    warn: Callable[[str], object]

    def begin(self, connection: Connection, known: Acknowledged, warn: Callable[[str], object]) -> None:
        """Go on with a tape where it was acknowledged. Called again for another connection to the same tape."""
        self.connection, self.known, self.warn = connection, known, warn

    def prepare(self) -> None:
        """Check the destination against the needs of this version. Raises `NotTaken`, and permanent errors."""
        return

    def remark(self, counts: Mapping[str, int]) -> str:
        """Return an addition to the last line; `counts` has the number of shipped exchanges by lane."""
        return ""

    @abstractmethod
    def take(self, lane: str, progress: Progress) -> Batch | None:
        """Read the next batch of the tape: settled after `until` and not after `sending`, if that is known."""

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Send a batch, the same in each call. Raises `NotTaken`, and permanent errors."""

    @abstractmethod
    def report(self, report: ShippingReport, *, is_last: bool) -> None:
        """Send the data beside batches, at intervals and if it `is_last`. Raises as `send` does."""


class RowSink(Sink):
    """A destination of rows: runs of recorders, exchanges, and with `bodies`, their bodies."""

    def __init__(self, origin: ShippedLabels, bodies: bool, clock: Clock = SYSTEM) -> None:
        shipped = [tables.EXCHANGES, tables.STREAMS] if bodies else [tables.EXCHANGES]
        self.tables: dict[str, EngineTable] = {table.name: table for table in (tables.SESSIONS, *shipped)}
        self.lanes = [table.name for table in shipped]
        self.origin, self.tenant, self.clock = origin, origin.tenant, clock

    def remark(self, counts: Mapping[str, int]) -> str:
        """Return the number of exchanges that were shipped with their texts."""
        return "".join(f", the bodies of {counted(counts.get(lane, 0), 'exchange')}" for lane in self.lanes[1:])

    def added(self, report: ShippingReport) -> dict[str, Any]:
        """Return the columns that a report adds to each run of a recorder."""
        return {
            tables.ROW_VERSION: self.clock.wall_ns() // 1000,
            "tape": self.known.tape or "",
            "shipped_at": self.clock.wall(),
            "waiting": report.waiting,
            "lag_ms": None if report.lag_ns is None else report.lag_ns // 1_000_000,
        }
