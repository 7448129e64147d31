"""A shipper's interface to a destination: a sink, which takes batches of settled exchanges and reports the progress."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.source.base import POLL_SECONDS

if TYPE_CHECKING:
    from wiretape.viewer.source.settled import SettledTape


class NotTaken(WiretapeError):
    """A destination did not take a batch, and may take it later: after `wait_s` seconds, if it says so."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Shipping:
    """The options of shipping: trusted certificates, labels, and the parts of an exchange."""

    ca_file: Path | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    bodies: bool = False
    headers_file: Path | None = None
    """Headers to send to the destination."""
    since_version: int = 0
    """The version after which the first exchange was settled, where nothing is acknowledged yet."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of `count` exchanges: those settled after one version and up to another."""

    lane: str
    since: int
    until: int
    count: int
    content: Any


@dataclass(frozen=True, slots=True)
class ShippingReport:
    """The progress of shipping: exchanges shipped by this process, those that wait, and the first one's wait."""

    shipped: int
    unshipped: int
    lag_ns: int | None

    def line(self, name: str) -> str:
        """Return it as a status line; `name` is that of the destination."""
        lag = "" if self.lag_ns is None else f" · lag {self.lag_ns / 1e9:,.1f} s"
        return f"{self.shipped:,} shipped to {name} · {self.unshipped:,} waiting{lag}"


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
    """True if it reads decoded bodies, for which a tape is opened with more."""
    nodes: int = 1
    """Number of tries in a round: each reaches another node."""
    tenant: str = ""
    tape: "SettledTape"
    acknowledged: Acknowledged
    warn: Callable[[str], object]

    def begin(self, tape: "SettledTape", acknowledged: Acknowledged, warn: Callable[[str], object]) -> None:
        """Go on with a tape where it was acknowledged. Called again when the same tape is opened again."""
        self.tape, self.acknowledged, self.warn = tape, acknowledged, warn

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
