"""Interface of the sources of exchanges: the questions of commands and screens, and the records of the answers.

A tape (`wiretape.viewer.source.tape`) answers them, and so do wings (`wiretape.viewer.contracts`).
`Place.supports` lists the abilities of a source; `Unsupported` is the error for all others. Numbers of exchanges are
its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from wiretape.recorder.decode.exchange import Outcome
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.query import coverage
from wiretape.viewer.query.syntax import And, every

if TYPE_CHECKING:
    from wiretape.recorder.clock import Clock
    from wiretape.recorder.decode.causes import Ending
    from wiretape.recorder.decode.decoder import Decoded
    from wiretape.recorder.decode.exchange import Exchange, Reads
    from wiretape.recorder.decode.prompt import Prompt
    from wiretape.recorder.decode.stalls import Thresholds
    from wiretape.recorder.process import RecorderRun
    from wiretape.recorder.tape.masking import Masker
    from wiretape.viewer.exchange.changes import RequestDifference
    from wiretape.viewer.exchange.opened import FullExchange, Known
    from wiretape.viewer.exchange.turn import Turn
    from wiretape.viewer.query.syntax import Filter
    from wiretape.viewer.record.rows import (
        ConversationRow,
        DetailRow,
        HeadersRow,
        ListRow,
        PreviewRow,
        RequestRow,
        TableRow,
    )
    from wiretape.viewer.sessions.account import Account
    from wiretape.viewer.sessions.content import SentContext
    from wiretape.viewer.sessions.exchanges import SessionExchange
    from wiretape.viewer.sessions.retries import RequestAttempts
    from wiretape.viewer.stats.metrics import Bound, Quantity
    from wiretape.viewer.stats.summary import Figures, Method, Sample
    from wiretape.viewer.stats.timeouts import StoredSilences
    from wiretape.viewer.stats.tools.summary import Addend, Observed
    from wiretape.viewer.stats.trend import Trend
    from wiretape.viewer.timing.verdicts import Verdict

Capability = Literal["bodies", "changes", "conversations", "pages", "following", "stages"]
"""Something that not every source can do."""

_LACKING: Final[dict[Capability, str]] = {
    "bodies": "has no texts, chunks, reads or bodies at hand",
    "changes": "reports no changes",
    "conversations": "lists no conversations",
    "pages": "has no live pages",
    "following": "is not followed on a screen, but by 'wiretape ls --follow'",
    "stages": "works out all figures at once",
}

_ONLY_TAPES: Final = "only a tape can do this: copy to one with 'wiretape pull'"
_NO_SESSIONS: Final = "only a tape has sessions: copy to one with 'wiretape pull'"

BodyTable = Literal["chunks", "reads", "turns"]
"""A table whose rows are made of bodies."""

JUDGED: Final = 50
"""Most exchanges with a stall whose bodies a list or statistics decode to tell whose it was."""

Order = tuple[str, bool]
"""A field to sort by, and True for the largest first."""
CountTokens = Callable[[str], int]
Progress = Callable[[Iterable[str]], Iterable[str]]
"""Passes items on, and shows how many have passed."""


FollowerKind = Literal["page", "screen", "command", "run page", "shipping", "retry", "server", "server retry"]
POLL_SECONDS: Final[dict[FollowerKind, float]] = {
    "page": 0.1,  # the live page of an exchange
    "screen": 0.15,  # the terminal's list, inspector, conversations and comparisons
    "command": 0.2,  # `ls -F` of a tape, metrics: people do not notice a fifth of a second
    "run page": 1.0,  # the live page of all exchanges
    "shipping": 0.5,  # ClickHouse, OTLP: exchanges that settle meanwhile join the batch
    "retry": 0.5,  # a tape that cannot be read
    "server": 2.0,  # `ls -F` of a server
    "server retry": 5.0,  # a server that does not answer
}
"""Interval between two polls of a source, in seconds, by follower."""

REST: Final = 4
"""Rest after a reading, as a multiple of its duration."""


def pause_s(follower: FollowerKind, took_ns: int) -> float:
    """Return the delay after a reading, in seconds: slow readings take a fifth of the time at most."""
    return max(POLL_SECONDS[follower], REST * took_ns / 1e9)


SESSION: Final = "s:"
"""The prefix of a session's key in references."""

NEWEST_SESSION: Final = "@s"
"""The session whose newest exchange began last."""


def names_session(reference: str) -> bool:
    """Return True if a reference names a session, not an exchange."""
    return reference == NEWEST_SESSION or reference.startswith(SESSION)


class Unsupported(WiretapeError):
    """A question that a source cannot answer."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Selection:
    """The exchanges of a question: those that match a filter and have certain `numbers`, or all.

    `first` leaves out lower numbers, `generations` every other operation, `bytes` the exchanges without bytes.
    """

    filter: "Filter | None" = None
    numbers: tuple[int, ...] | None = None
    generations: bool = False
    bytes: bool = False
    first: int | None = None

    def of_generations(self) -> "Selection":
        """Return the generations among them."""
        return replace(self, generations=True)

    def covered(self, all_operations: bool = False) -> "Selection":
        """Return those that rates and latencies cover: generations, or all if so asked or the filter names some."""
        is_all = all_operations or coverage.names_operation(self.filter)
        return self if is_all else self.of_generations()

    def narrowed(self, filter: "Filter") -> "Selection":
        """Return those that match another filter, too."""
        return replace(self, filter=filter if self.filter is None else every([self.filter, filter]))

    def with_bytes(self) -> "Selection":
        """Return those whose bytes are there."""
        return replace(self, bytes=True)


ALL: Final = Selection()


@dataclass(frozen=True, slots=True)
class Measuring:
    """The definition of figures: percentiles, objective, histogram, and whether failed exchanges take part."""

    method: "Method" = "linear"
    bounds: "Sequence[Bound]" = ()
    include_failed: bool = False
    drawn: "Quantity | None" = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Failures:
    """The count of exchanges that failed in one way; None is unknown."""

    outcome: Outcome
    detail: str | None
    code: str | None
    status: int | None
    count: int


Version = tuple[int, int]
"""A value that changes with each write of others to a tape, and with each connection to it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a tape at a poll: the highest number of an exchange, the last settlement, and the running exchanges.

    Exchanges are `unsettled` until they are measured.
    """

    version: Version = (0, 0)
    newest: int = 0
    settled: int = 0
    unsettled: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of a list since the last poll; `total` counts all exchanges, `running` those that still run.

    `fits` are the exchanges that are new, still run or have settled since, and fit the filter; `unfit` those that do
    not. `rows` are those of the newest of `fits`. `deleted`: some are gone, or the tape was replaced.
    """

    seen: Seen
    total: int
    running: int
    recorder: "RecorderRun | None"
    fits: list[int] = field(default_factory=list)
    unfit: list[int] = field(default_factory=list)
    rows: "list[ListRow]" = field(default_factory=list)
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Numbers in their order, the sort value of the last one, and whether more may follow."""

    numbers: list[int]
    last: Any = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A list as it was read: its numbers in their order, its first rows, and the state of its source.

    `started` is when the first and the last exchange began. A source that is read in pages gives the first `page`.
    """

    numbers: list[int]
    took_ns: int
    rows: "list[ListRow]"
    change: Change
    started: tuple[str, str] | None
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class Details:
    """An exchange for the preview, with verdicts if it is short enough to be judged in passing."""

    preview: "PreviewRow | None"
    verdicts: "Sequence[Verdict]" = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """The figures of each group and of all together; `total` is None without exchanges."""

    rows: "list[TableRow]"
    total: "TableRow | None"


@dataclass(frozen=True, slots=True)
class Columns:
    """Exchanges in the order of their numbers: the values of each field, and the gaps of those that are kept.

    Values are as on the tape: durations in ns. `gaps` are between output chunks, packed int64 in ns; None where they
    were left out.
    """

    numbers: list[int]
    values: dict[str, list[Any]]
    gaps: list[bytes | None]

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class OutputText:
    """The text of an exchange's output chunks: all of it, and the number of characters in each chunk."""

    text: str
    sizes: list[int]


@dataclass(frozen=True, slots=True)
class Copied:
    """A tape with exchanges of a source, their numbers (None: all), and the count of those without body."""

    tape: Path
    numbers: set[int] | None = None
    without_body: int = 0


class Recorded(Protocol):
    """One exchange of a source. All but `detail` raises `Unsupported` where bodies are not at hand."""

    def detail(self) -> "DetailRow":
        """Return its facts and measures."""

    def worked_out(self) -> "DetailRow":
        """Return its facts and measures with its cost and its place in a conversation. Raises `ConfigError`."""

    def headers(self) -> "HeadersRow":
        """Return the headers of the request and of the response, and the response's trailers."""

    def request(self) -> "RequestRow":
        """Return the request."""

    def reads(self) -> "list[TableRow]":
        """Return the reads; of a WebSocket, those of both directions in order."""

    def body(self) -> bytes:
        """Return the response body, byte for byte as upstream sent it."""

    def sent(self) -> bytes:
        """Return the bytes that the client sent over a WebSocket."""

    def observed(self) -> "tuple[Exchange, Reads, Decoded]":
        """Return the facts of the answer, its reads, and its body decoded."""

    def full(self, mask: "Masker | None" = None) -> "FullExchange":
        """Return all of it decoded; `body` is as it came, all else is masked."""

    def prompt(self) -> "Prompt":
        """Return its prompt. Raises `NotFound` if that is unknown."""

    def attempts(self) -> "RequestAttempts":
        """Return the attempts at its request."""

    def turn(self) -> "Turn":
        """Return the exchange as a turn of a conversation."""

    def changed(self) -> "list[RequestDifference]":
        """Return the differences between its request and that of its predecessor; none if one of them is unknown."""

    def context(self) -> "SentContext":
        """Return the content of its request by source. Raises `NotFound` if that is unknown."""

    def known(self, *, worked_out: bool = False) -> "Known":
        """Return all that is known without decoding the body, with its place in a conversation if `worked_out`."""

    def as_observed(self) -> "Observed":
        """Return it as any other tool would have observed it."""


class Place(ABC):
    """The address of a source: a tape's path, a server's URL. It loads no database library."""

    name: str
    noun: str = "source"
    """The kind of source in messages."""
    file: Path | None = None
    """The file of a tape."""
    retry_s: float = POLL_SECONDS["retry"]
    """Delay before a screen repeats a failed query, in seconds."""
    lacks: Collection[Capability] = ()

    def supports(self, capability: Capability) -> bool:
        """Return True if the source can do something."""
        return capability not in self.lacks

    def require(self, capability: Capability, asked: str = "") -> None:
        """Raise `Unsupported` if the source cannot do something; `asked` is the option that needs it."""
        if not self.supports(capability):
            needs = f"{asked}: " if asked else ""
            raise Unsupported(f"{needs}a {self.noun} {_LACKING[capability]}: copy to a tape with 'wiretape pull'")

    @abstractmethod
    def opened(self) -> "AbstractContextManager[Browsed]":
        """Open the source for questions. Its failures are raised as `WiretapeError`."""

    def option(self) -> list[str]:
        """Return the option of a command that reads this source."""
        return []

    def check(self) -> None:
        """Raise `WiretapeError` for a failure that a screen could not show."""
        return None

    def copied(self, numbers: Sequence[int], directory: Path, progress: Progress) -> Copied:
        """Return a tape with these exchanges, made in a directory if necessary. Raises `Unsupported`."""
        raise Unsupported(f"{self.name} cannot be copied")

    def holding(self, private: Callable[[], Path]) -> Path:
        """Return the path of the tape on which a screen opens exchanges: its own, or a `private` one."""
        return private()

    def pull(self, numbers: Sequence[int]) -> list[int]:
        """Copy exchanges to that tape, each once; return their numbers there. Slow."""
        raise Unsupported(f"{self.name} cannot be copied")


class PartialSource(ABC):
    """The answers of a source without the abilities of a tape: a `Source` has better ones where it can."""

    empty: str = "the source holds no exchanges yet"
    """The message for a source without exchanges."""
    poll_s: float = POLL_SECONDS["command"]
    """Interval between two polls of a command that follows it, in seconds."""
    judges: bool = False
    """True if `stalls` can tell anything."""

    def columns(self, fields: Sequence[str], selection: Selection, most: int, most_gaps: int) -> Columns:
        """Return fields of the newest exchanges, at most `most`, and the gaps of those that waited longest.

        There are `most_gaps` gaps at most. Raises `Unsupported`.
        """
        raise Unsupported(_ONLY_TAPES)

    def outputs(self, numbers: Sequence[int], most: int) -> dict[int, OutputText]:
        """Return the output of exchanges, in their order, until it has `most` characters. Raises `Unsupported`."""
        raise Unsupported(_ONLY_TAPES)

    def trend(self, selection: Selection, room: int) -> "Trend | None":
        """Return the trend of exchanges in at most `room` intervals. Raises `Unsupported`."""
        raise Unsupported(_ONLY_TAPES)

    def silences(self, by: str | None, selection: Selection) -> "dict[Any, StoredSilences]":
        """Return the silences of streams by the name of a group; without `by`, of all as the group of an empty name.

        Raises `Unsupported`.
        """
        raise Unsupported(_ONLY_TAPES)

    def conversations(self, selection: Selection) -> "list[ConversationRow]":
        """Return the conversations of exchanges, with totals of these: the one with the newest first.

        Raises `Unsupported`.
        """
        raise Unsupported(_NO_SESSIONS)

    def cache_verdicts(self, keys: Collection[str], selection: Selection) -> dict[str, dict[str, int]]:
        """Count the verdicts about the provider's cache in each of these sessions, the most frequent first.

        Raises `Unsupported`.
        """
        raise Unsupported(_NO_SESSIONS)

    def lines(self, numbers: Iterable[int], mask: "Masker | None") -> Iterator[bytes]:
        """Yield the lines of a tape in text form with these exchanges. Raises `Unsupported`."""
        raise Unsupported(_ONLY_TAPES)

    def release(self) -> None:
        """Release the source until the next question: end the transaction, or close an exclusive engine."""
        return

    def advice(self) -> str | None:
        """Return advice for measures of an older decoder."""
        return None

    def unmeasured(self) -> str | None:
        """Return advice for exchanges without measures, unless a recorder soon measures them."""
        return None

    def without_bytes(self, selection: Selection) -> int:
        """Count the exchanges without bytes, or return 0 if the source keeps no bytes."""
        return 0

    def alone(self, filter: "Filter", most: int | None = None) -> "list[tuple[Filter, int]]":
        """Count the exchanges that match each term of a filter alone, of `most` terms."""
        terms = filter.parts[:most] if isinstance(filter, And) else (filter,)
        return [(term, self.count(Selection(term))) for term in terms]

    def measurable(self, selection: Selection) -> int:
        """Count the exchanges that `measured` yields."""
        return self.count(selection) - self.without_bytes(selection)

    def absent(self, tool: str) -> list[str]:
        """Return the names of a tool's metrics that need bytes the source lacks."""
        return []

    def referred(self, reference: str) -> list[int]:
        """Return the number of the exchange, or of those of the session, that a reference names, the oldest first.

        Raises `NotFound`, `Unsupported`.
        """
        return [self.find(reference)]

    def session(self, reference: str) -> str:
        """Return the key of a session by its beginning behind `s:`, or by `@s`. Raises `NotFound`, `Unsupported`."""
        raise Unsupported(f"{reference} is a session, and only a tape has those: copy to one with 'wiretape pull'")

    def sessions(
        self, selection: Selection, limits: "Thresholds", clock: "Clock", limit: int | None = None
    ) -> "list[TableRow]":
        """Return the `CONVERSATION_FIELDS` of the sessions of exchanges: the one with the newest first.

        Raises `Unsupported`, and `ConfigError`.
        """
        raise Unsupported(_NO_SESSIONS)

    def members(
        self, keys: Collection[str], limits: "Thresholds", clock: "Clock", selection: Selection = ALL
    ) -> "Iterator[tuple[str, list[SessionExchange]]]":
        """Yield the key of each of these sessions, and its exchanges, the oldest first. Raises `Unsupported`."""
        raise Unsupported(_NO_SESSIONS)

    def without_session(self, selection: Selection) -> int:
        """Count the exchanges that are part of no session. Raises `Unsupported`."""
        raise Unsupported(_NO_SESSIONS)

    def accounts(self, selection: Selection, limits: "Thresholds", clock: "Clock") -> "Iterator[tuple[str, Account]]":
        """Yield the key of each session with exchanges of a selection, and the account of these.

        Raises `Unsupported`.
        """
        raise Unsupported(_NO_SESSIONS)

    def table(self, name: BodyTable, selection: Selection) -> "Iterator[TableRow]":
        """Yield every chunk, read or turn of exchanges, the oldest exchange first. Raises `Unsupported`."""
        raise Unsupported(f"only a tape has {name}: copy to one with 'wiretape pull'")

    def stalls(self, numbers: Sequence[int]) -> "dict[int, Verdict]":
        """Return the longest stall of each of some exchanges whose bodies are at hand and not large."""
        return {}

    @abstractmethod
    def count(self, selection: Selection = ALL) -> int:
        """Count exchanges."""

    @abstractmethod
    def label_keys(self, selection: Selection) -> list[str]:
        """Return the keys of labels, the most frequent first."""

    @abstractmethod
    def find(self, reference: str) -> int:
        """Return the number of an exchange by a prefix of its id, `@`, `@-1` or `@err`. Raises `NotFound`.

        A session stands for its first exchange.
        """


class Source(PartialSource):
    """A source of exchanges, open for queries: the contract of its kinds, with `Place` and, on screens, `Browsed`."""

    @abstractmethod
    def numbers(self, selection: Selection = ALL, limit: int | None = None) -> list[int]:
        """Return the numbers of the newest exchanges, the newest first."""

    @abstractmethod
    def rows(
        self,
        fields: tuple[str, ...],
        selection: Selection = ALL,
        *,
        order: Order | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> "Iterator[TableRow]":
        """Yield fields of exchanges, by number or in an order, unknown values last."""

    @abstractmethod
    def gaps(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Return the packed gaps of exchanges by id."""

    @abstractmethod
    def exchange(self, number: int) -> Recorded:
        """Return one exchange."""

    @abstractmethod
    def figures(self, keys: Sequence[str], selection: Selection, measuring: Measuring) -> "Iterator[Figures]":
        """Yield the figures of each group; without keys, those of all."""

    @abstractmethod
    def samples(
        self, selection: Selection, by: Sequence[str] = (), *, include_failed: bool = False, gaps: bool = False
    ) -> "list[Sample]":
        """Read the exchanges as a sample of each group, or without `by` as one, with their `gaps` if needed."""

    @abstractmethod
    def measured(self, tool: str, selection: Selection, count_tokens: CountTokens | None = None) -> "Iterator[Addend]":
        """Yield the exchanges as another tool measures them, oldest first."""

    @abstractmethod
    def left_out(self, selection: Selection) -> dict[str, int]:
        """Count the exchanges that are no generations, by operation."""

    @abstractmethod
    def failures(self, selection: Selection) -> list[Failures]:
        """Count the ways in which exchanges failed, the most frequent first."""

    @abstractmethod
    def endings(self, selection: Selection) -> "dict[Ending, int]":
        """Count how exchanges ended; equal endings together."""

    @abstractmethod
    def follow(
        self, fields: tuple[str, ...], selection: Selection, *, last: int, wait: Callable[[], None]
    ) -> "Iterator[list[TableRow]]":
        """Yield the `last` exchanges, then new ones as they end or arrive, for ever; call `wait` before each poll."""


class Browsed(Source):
    """A source that a screen lists, page by page or as a whole."""

    @abstractmethod
    def overview(self, by: str, selection: Selection, bounds: "Sequence[Bound]", *, gaps: bool) -> Overview | None:
        """Return the figures of groups and of all; None if there are too many gaps to pool.

        Without `gaps` those of pooled gaps may be left unknown.
        """

    @abstractmethod
    def listed(self, filter: "Filter | None", order: Order | None, clock: "Clock") -> Listed:
        """Return the list in an order, by default the newest first."""

    @abstractmethod
    def further(self, filter: "Filter | None", order: Order | None, page: Page) -> Page:
        """Return the numbers that follow a page."""

    @abstractmethod
    def visible(self, numbers: Sequence[int]) -> "list[ListRow]":
        """Return rows of the list."""

    @abstractmethod
    def changes(self, filter: "Filter | None", previous: Change, visible: Sequence[int]) -> Change | None:
        """Return the changes since a list was last looked at, with its rows in sight; None if there are none."""

    @abstractmethod
    def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the ids of the existing exchanges by number."""

    @abstractmethod
    def values(self, field: str) -> list[str]:
        """Return the values of a text field, the commonest first."""

    @abstractmethod
    def details(self, number: int, limits: "Thresholds") -> Details:
        """Return an exchange for the preview."""
