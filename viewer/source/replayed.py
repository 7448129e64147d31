"""The recordings that are served: a tape, opened for reading only, which may be written meanwhile.

Each query is short, so that a reader never holds up the writer's checkpoints.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.exchange import NOT_SHIPPED, Operation, Outcome, RecordedExchange
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import NoResultFound, NotFound
from wiretape.recorder.facts import EndedBy, Framing
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.selects import Expression, and_, func, or_, select
from wiretape.recorder.tape.tables import REQUEST_BODY, exchanges, measures
from wiretape.viewer.query import coverage
from wiretape.viewer.source.base import ALL, Browsed, Selection
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.querying import condition
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import among, column, label

Select = Callable[[Browsed], Selection]
"""Chooses the exchanges of a tape that is open."""

_BY_RECORDER: Final = ("died", "shutdown", "local")


class ExchangeHead(NamedTuple):
    """An ended exchange by which a request finds its answer; `no` is its number in its source.

    It holds no `Exchange`: those of a whole tape are read before the first request is answered.
    """

    no: int
    id: str
    method: str
    path: str
    upstream: str
    model: str | None
    status: int | None
    outcome: Outcome
    framing: Framing | None
    started_at: str
    ended_by: EndedBy = "end"
    request_sha256: str | None = None
    request_size: int | None = None
    flags: str | None = None
    operation: Operation | None = None

    @property
    def has_bytes(self) -> bool:
        """True if the tape holds its bytes; False if it was pulled from a server that does not have them."""
        return not self._is_flagged(NOT_SHIPPED)

    @property
    def has_stall(self) -> bool:
        """True if its stream stalled."""
        return self._is_flagged("stall")

    def _is_flagged(self, flag: str) -> bool:
        return flag in (self.flags or "").split()

    @property
    def is_answered(self) -> bool:
        """True if upstream answered: False if no answer came, or if the recorder itself broke it off."""
        return self.status is not None and self.ended_by not in _BY_RECORDER and self.has_bytes


class LabelChoice(NamedTuple):
    """The exchanges with a value of a label, or without that label if those are included."""

    key: str
    value: str
    with_unlabelled: bool

    @property
    def condition(self) -> Expression:
        """The choice as a condition of a statement: unlike one in a filter, it heeds case."""
        labelled: Expression = label(self.key) == self.value
        return or_(labelled, label(self.key).is_(None)) if self.with_unlabelled else labelled


_HEAD: Final = select(*(column(name).label(name) for name in ExchangeHead._fields))
_BODIES: Final = select(exchanges.c.no, exchanges.c.request_headers, REQUEST_BODY, exchanges.c.request_size)
# The first request that nobody recorded is compared with all: 20,000 bodies took 6.2 s one by one, in groups 0.7 s.
_GROUP, _GROUP_BYTES = 200, 4 << 20


class ReplaySource:
    """A tape's ended exchanges. It is used by one thread, the one that opened it."""

    def __init__(self, path: Path, choose: Select = lambda _: ALL, choice: LabelChoice | None = None) -> None:
        self._path, self._last_no = path, 0
        self._unfinished: set[int] = set()
        with ExitStack() as cleanup:
            source = cleanup.enter_context(TapePlace(path).opened())
            self._connection = source.connection
            selection = choose(source)
            if selection.numbers is None:
                selection = replace(selection, filter=coverage.without_resent(selection.filter))
            conditions = (condition(selection), None if choice is None else choice.condition)
            self._conditions = [chosen for chosen in conditions if chosen is not None]
            self._cleanup = cleanup.pop_all()

    def newer(self) -> Sequence[ExchangeHead]:
        """Return the exchanges that were not returned before, oldest first; one that still runs is returned later.

        Raises `TapeError`.
        """
        running = select(exchanges.c.no).where(exchanges.c.no > self._last_no, exchanges.c.ended_by.is_(None))
        with queries.explained(self._path):
            # Running exchanges first: one that ends or begins between the queries is found once.
            with self._connection.begin():
                newest = self._connection.execute(select(func.max(exchanges.c.no))).scalar() or 0
                unfinished = self._unfinished.union(self._connection.execute(running).scalars())
            # Without a lower bound where there is no need for one: SQLite takes one of two lower bounds for its search,
            # and it is to be that of a batch.
            new = exchanges.c.no <= newest
            groups = [among(self._unfinished)] if self._unfinished else []
            groups.append(new & (exchanges.c.no > self._last_no) if self._last_no else new)
            heads = [
                ExchangeHead._make(row)
                for group in groups
                for batch in queries.in_batches(
                    self._connection, _HEAD, and_(exchanges.c.ended_by.is_not(None), group, *self._conditions)
                )
                for row in batch
            ]
            self._last_no, self._unfinished = newest, unfinished.difference(head.no for head in heads)
            return heads

    def labelled(self, key: str) -> dict[int, str]:
        """Return the value of a label, by the number of each exchange that has it."""
        statement = select(exchanges.c.no, label(key)).where(label(key).is_not(None))
        with self._connection.begin():
            return dict(self._connection.fetch(statement))

    def request_bodies(self, heads: Sequence[ExchangeHead]) -> Iterator[bytes | None]:
        """Yield the body of each request without its content coding; None if not all of it is there.

        Several are read at once, except large ones. Raises `TapeError`.
        """
        with queries.explained(self._path):
            group, group_bytes = list[int](), 0
            for head in heads:
                size = head.request_size or 0
                if group and (len(group) == _GROUP or group_bytes + size > _GROUP_BYTES):
                    yield from self._bodies(group)
                    group, group_bytes = [], 0
                group.append(head.no)
                group_bytes += size
            if group:
                yield from self._bodies(group)

    def _bodies(self, group: Sequence[int]) -> Iterator[bytes | None]:
        with self._connection.begin():
            rows = self._connection.fetch(_BODIES.where(exchanges.c.no.in_(group)))
        stored = {no: (headers, body or b"", size) for no, headers, body, size in rows}
        for no in group:
            headers, body, size = stored.get(no, (None, b"", None))  # deleted meanwhile
            yield encoding.uncoded(headers or [], body) if size == len(body) else None

    def answer(self, head: ExchangeHead) -> RecordedExchange:
        """Return the answer to a request. Raises `TapeError`, and `NotFound` if it was deleted meanwhile."""
        try:
            with queries.explained(self._path), self._connection.begin():
                exchange = reading.facts_of(self._connection, reading.row_of(self._connection, head.no))
                reads = reading.reads_of(self._connection, head.no)
                return RecordedExchange(exchange, reads, reading.stored_body(self._connection, head.no))
        except NoResultFound as error:
            raise NotFound(f"the recording {head.id}, which answers this, was deleted meanwhile") from error

    def turns(self, head: ExchangeHead) -> Sequence[JsonObject]:
        """Return the turns of a hosted session that began on a stream. Raises `TapeError`."""
        statement = select(measures.c.turns).where(measures.c.exchange_no == head.no)
        with queries.explained(self._path), self._connection.begin():
            return self._connection.execute(statement).scalar() or ()

    def close(self) -> None:
        """Close the tape; damage found in it is reported."""
        self._cleanup.close()
