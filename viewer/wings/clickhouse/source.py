"""A ClickHouse server as a source: a connection on which the statements for tapes run in the engine.

Exchanges whose bytes are needed are pulled to a temporary tape; new ones are followed by polling.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, and_, create_engine, pool, select
from sqlalchemy.dialects import registry

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NotFound
from wiretape.recorder.tape import cut, file, merge
from wiretape.recorder.tape.schema import exchanges
from wiretape.viewer import config
from wiretape.viewer.listing.catalog import PAGE
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.record.rows import ListRow, TableRow
from wiretape.viewer.source import base
from wiretape.viewer.source.base import Selection
from wiretape.viewer.source.tape import live, queries
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.source import Queried, condition
from wiretape.viewer.wings.clickhouse import driver, listing, pulling
from wiretape.viewer.wings.clickhouse.address import Target
from wiretape.viewer.wings.clickhouse.client import Centre

if TYPE_CHECKING:
    from wiretape.viewer.stats.metrics import Bound
    from wiretape.viewer.stats.summary import Figures
    from wiretape.viewer.stats.tools.summary import Addend


LATEST_SECONDS: Final = 3600
"""Age of an exchange beyond which it is not searched for."""


registry.register("clickhouse", "wiretape.viewer.wings.clickhouse.dialect", "ClickHouseDialect")

_PURPOSE = "wiretape view"
_BATCH = 20_000  # each batch is a request, and goes through the table again

Connect = Callable[[], AbstractContextManager[Centre]]


@contextlib.contextmanager
def connected(centre: Centre) -> Iterator[Connection]:
    """Connect to a server for reading. Its failures are `UnusableServer`, `Unavailable` and `NotAtCentre`."""
    engine = create_engine(
        "clickhouse://", creator=lambda: driver.DriverConnection(centre), poolclass=pool.NullPool, query_cache_size=0,
        hide_parameters=True, execution_options={"batch": _BATCH},
    )  # fmt: skip
    with engine.connect() as connection:
        yield connection


class Copies:
    """The exchanges that were pulled to a tape, which is made by the first."""

    def __init__(self, tape: Path) -> None:
        self._tape = tape
        self._numbers: dict[int, int] = {}

    def numbers(self, centre: Centre, numbers: Sequence[int]) -> list[int]:
        """Return the numbers of exchanges on the tape by those on the server; pull missing ones.

        Raises `UnusableServer`, `Unavailable`, `NotFound` for exchanges that are gone there, and `TapeDamaged`.
        """
        if missing := [number for number in numbers if number not in self._numbers]:
            self._pull(centre, missing)
        return [self._numbers[number] for number in numbers]

    def _pull(self, centre: Centre, numbers: Sequence[int]) -> None:
        ids = {str(number).rpartition(" ")[2]: number for number in numbers}
        with tempfile.TemporaryDirectory(dir=self._tape.parent) as directory:
            pulled = Path(directory, "pulled.db")
            lines = pulling.lines(centre, map(str, numbers), pulling.Pulled())
            cut.make_passing_tape(lines, pulled, "what was pulled")
            with file.writing(self._tape, _PURPOSE) as connection:
                for _ in merge.copy(connection, [pulled], merge.plan(connection, [pulled])):
                    pass
                with connection.begin():
                    found = select(exchanges.c.id, exchanges.c.no).where(exchanges.c.id.in_(ids))
                    there = {id: no for id, no in connection.execute(found)}
        self._numbers |= {number: there[id] for id, number in ids.items() if id in there}
        if gone := [id for id in ids if id not in there]:
            raise NotFound(f"{gone[0]} is not on {centre.target.shown} any more")


class ClickHouse(base.Place):
    """A server by its URL. `connect` makes a client for questions, `connect_to_pull` one that waits longer."""

    noun = "server"
    retry_s = base.POLL_SECONDS["server retry"]
    lacks = frozenset({"bodies", "changes", "conversations", "pages", "following", "stages"})

    def __init__(self, target: Target, connect: Connect, connect_to_pull: Connect | None = None) -> None:
        self.name = target.shown
        self._target, self._connect, self._connect_to_pull = target, connect, connect_to_pull or connect
        self._copies: Copies | None = None
        self._copying = threading.Lock()

    @contextlib.contextmanager
    def opened(self) -> Iterator["ServerSource"]:
        with self._connect() as centre, connected(centre) as connection:
            yield ServerSource(self, connection, centre)

    def option(self) -> list[str]:
        return ["--db", self._target.url]

    def check(self) -> None:
        """Raise `UnusableServer` or `Unavailable` for a server that cannot be listed."""
        with self._connect_to_pull() as centre:
            listing.check(centre)

    def copied(self, numbers: Sequence[int], directory: Path, progress: base.Progress) -> base.Copied:
        """Pull exchanges to a new tape, in the order of their numbers."""
        pulled, tape = pulling.Pulled(), directory / "pulled.db"
        with self._connect_to_pull() as centre:
            lines = pulling.lines(centre, progress(sorted(map(str, numbers))), pulled)
            cut.make_passing_tape(lines, tape, "what was pulled")
        return base.Copied(tape, None if pulled.count else set(), len(pulled.without_body))

    def holding(self, private: Callable[[], Path]) -> Path:
        """Return a private tape, to which exchanges are pulled."""
        path = private()
        self._copies = Copies(path)
        return path

    def pull(self, numbers: Sequence[int]) -> list[int]:
        """Copy exchanges that are not on the private tape yet; return their numbers there."""
        assert self._copies is not None, "no tape holds copies"
        with self._copying, self._connect() as centre:
            return self._copies.numbers(centre, numbers)


class ServerSource(Queried):
    """A server that is connected."""

    empty = "the server holds no exchanges yet: ship a tape with 'wiretape ship --to …'"
    poll_s = base.POLL_SECONDS["server"]

    def __init__(self, place: base.Place, connection: Connection, centre: Centre) -> None:
        super().__init__(place, connection)
        self._centre = centre

    def release(self) -> None:
        self._centre.release()

    def absent(self, tool: str) -> list[str]:
        """Return the metrics of a tool that need bytes."""
        from wiretape.viewer.wings.clickhouse import observed

        return observed.absent(tool)

    def figures(self, keys: Sequence[str], selection: Selection, measuring: base.Measuring) -> "Iterator[Figures]":
        """Compute each group on the server."""
        from wiretape.viewer.wings.clickhouse import figures

        yield from figures.groups(
            self.connection,
            keys,
            condition(selection),
            include_failed=measuring.include_failed,
            method=measuring.method,
            bounds=measuring.bounds,
            drawn=measuring.drawn,
            most=None if measuring.exact else figures.MOST_EXACT,
            prices=config.read().prices,
        )

    def overview(self, by: str, selection: Selection, bounds: "Sequence[Bound]", *, gaps: bool) -> base.Overview:
        """Return all figures, those of gaps included."""
        from wiretape.viewer.stats.summary import row_of
        from wiretape.viewer.wings.clickhouse import figures

        where = condition(selection)
        found, all = (figures.groups(self.connection, keys, where, bounds=bounds) for keys in ((by,), ()))
        return base.Overview([row_of(one, (by,)) for one in found], row_of(all[0], ()) if found else None)

    def measured(
        self, tool: str, selection: Selection, count_tokens: base.CountTokens | None = None
    ) -> "Iterator[Addend]":
        from wiretape.viewer.wings.clickhouse import observed

        return observed.measured(self.connection, tool, condition(selection))

    def labels(self, selection: Selection) -> list[str]:
        return listing.label_keys(self.connection, condition(selection))

    def follow(
        self, fields: tuple[str, ...], selection: Selection, *, last: int, wait: Callable[[], None]
    ) -> Iterator[list[TableRow]]:
        def rest() -> None:
            self.release()
            wait()

        return followed(self.connection, fields, condition(selection), last=last, wait=rest)

    def listed(self, filter: Filter | None, order: base.Order | None, clock: Clock) -> base.Listed:
        began = clock.now()
        page = self._page(filter, order, None)
        took = clock.now() - began
        total = len(page.numbers) or (self.count() if filter is not None else 0)
        starts = sorted(map(listing.start_of, page.numbers))
        started = (starts[0], starts[-1]) if starts else None
        first = self.visible(page.numbers[:PAGE])
        return base.Listed(page.numbers, took, first, base.Change(base.Seen(), total, 0, None), started, page)

    def further(self, filter: Filter | None, order: base.Order | None, page: base.Page) -> base.Page:
        return self._page(filter, order, page)

    def _page(self, filter: Filter | None, order: base.Order | None, before: base.Page | None) -> base.Page:
        where, last = condition(Selection(filter)), None if before is None else before.numbers[-1]
        if order is None:
            return listing.newest(self.connection, where, last)
        after = None if before is None or last is None else (before.last, last)
        return listing.ordered(self.connection, where, order[0], descending=order[1], after=after)

    def visible(self, numbers: Sequence[int]) -> list[ListRow]:
        return listing.rows(self.connection, numbers)

    def changes(self, filter: Filter | None, known: base.Change, visible: Sequence[int]) -> None:
        """Return nothing: the list is read again on request."""

    def details(self, number: int, limits: Thresholds) -> base.Details:
        """Return an exchange for the preview; its texts and reads come when it is opened."""
        found = self.visible([number])
        return base.Details(live.without_texts(found[0]) if found else None)


def followed(
    connection: Connection,
    fields: tuple[str, ...],
    where: Condition | None = None,
    *,
    last: int = 10,
    wait: Callable[[], None],
    clock: Clock = SYSTEM,
) -> Iterator[list[TableRow]]:
    """Yield the newest `last`, then, for ever, those that arrive; each once, those of a batch as they began.

    What began within the last hour, by the clock of this machine, is looked for. `wait` is called before each time.
    """
    seen = set(_numbers(connection, _since(clock, where)))
    newest = list(_numbers(connection, where, newest_first=True, limit=last))[::-1]
    seen |= set(newest)
    yield list(_rows(connection, fields, newest))
    while True:
        wait()
        recent = _since(clock, where)
        if new := [no for no in _numbers(connection, recent) if no not in seen]:
            seen = {no for no in seen if no >= _first(clock)} | set(new)
            yield list(_rows(connection, fields, new))


def _first(clock: Clock) -> str:
    return clock.wall(clock.wall_ns() - LATEST_SECONDS * 10**9)


def _since(clock: Clock, where: Condition | None) -> Condition:
    recent = exchanges.c.started_at >= _first(clock)
    return recent if where is None else and_(where, recent)


def _numbers(connection: Connection, where: Condition | None, **order: Any) -> Iterator[str]:
    """Yield the server's numbers of exchanges: start time and id."""
    for batch in queries.in_batches(
        connection, select(exchanges.c.no), where, fetch=lambda centre, numbers: centre.execute(numbers).all(), **order
    ):
        yield from (no for (no,) in batch)


def _rows(connection: Connection, fields: tuple[str, ...], numbers: list[str]) -> Iterator[TableRow]:
    if numbers:
        began = exchanges.c.started_at >= min(numbers).partition(" ")[0]
        yield from queries.numbered(connection, fields, numbers, began)  # type: ignore[arg-type]
