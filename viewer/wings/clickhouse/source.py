"""A ClickHouse server as a source: a connection on which the statements for tapes run in the engine.

Exchanges whose bytes are needed are pulled to a temporary tape; new ones are followed by polling. A number is an
exchange's start time and id. No more is read than a screen shows, however many exchanges there are.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NotFound
from wiretape.recorder.tape import cut, file, merge, packing
from wiretape.recorder.tape.cells import Damage, Type
from wiretape.recorder.tape.reader import Connection, Result
from wiretape.recorder.tape.selects import Expression, Select, and_, case, func, null, or_, select, template
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer import config
from wiretape.viewer.listing.catalog import PAGE
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.record.rows import ListRow, TableRow
from wiretape.viewer.source import base, querying
from wiretape.viewer.source.base import Page, Selection
from wiretape.viewer.source.querying import (
    COST_TYPE,
    CURRENCY_TYPE,
    JOINED,
    MOST_GAPS,
    Condition,
    Queried,
    column,
    condition,
    cost_of,
    filtered,
)
from wiretape.viewer.stats.prices import UNITS
from wiretape.viewer.wings.clickhouse import pulling
from wiretape.viewer.wings.clickhouse.address import Target
from wiretape.viewer.wings.clickhouse.client import Centre
from wiretape.viewer.wings.clickhouse.dialect import STORED, ServerWriter
from wiretape.viewer.wings.clickhouse.tables import EXCHANGES

if TYPE_CHECKING:
    from wiretape.viewer.stats.metrics import Bound
    from wiretape.viewer.stats.summary import Figures
    from wiretape.viewer.stats.tools.summary import Addend


LATEST_SECONDS: Final = 3600
"""Age of an exchange beyond which it is not searched for."""


_PURPOSE = "wiretape view"

Connect = Callable[[], AbstractContextManager[Centre]]


@contextlib.contextmanager
def connected(centre: Centre) -> Iterator["ServerConnection"]:
    """Connect to a server for reading. Its failures are `UnusableServer`, `Unavailable` and `NotAtCentre`."""
    yield ServerConnection(centre)


class ServerConnection(Connection):
    """A connection to a server, on which the statements for tapes run in the engine. It has no transactions."""

    batch = 20_000  # each batch is a request, and goes through the table again

    def __init__(self, centre: Centre) -> None:
        self._centre = centre
        self.damage, self.info = Damage(), {}

    @contextlib.contextmanager
    def begin(self) -> Iterator[None]:
        yield

    def rollback(self) -> None:
        """Ignore the call."""

    def fetch(self, statement: Select) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, whose columns are attributes, too."""
        return [*self.execute(statement)]

    def columns(self, statement: Select) -> list[tuple[Any, ...]]:
        return [*zip(*self._rows(statement), strict=True)]

    def exec_driver_sql(self, text: str, values: Sequence[object] = ()) -> Result:
        return Result(self._centre.query(text).result_rows)

    def _rows(self, statement: Select, values: Mapping[str, object] | None = None) -> list[Any]:
        answer = self._centre.query(ServerWriter({**statement.values, **(values or {})}).select(statement))
        if not answer.result_rows:
            return []
        columns = [*zip(*answer.result_rows, strict=True)]
        kinds = zip(answer.column_types, statement.types, strict=False)
        converters = [STORED.get(kind.name) or _priced(type) for kind, type in kinds]
        converted = (
            values if convert is None else map(convert, values)
            for convert, values in zip(converters, columns, strict=True)
        )
        return [*zip(*converted, strict=True)]


def _priced(type: Type) -> Callable[[Any], Any] | None:
    """Return the function that makes a cost, or its currency, of an exchange's facts; None for another type."""
    prices = config.read().prices
    if type == COST_TYPE:
        return lambda facts: None if (units := cost_of(prices, *facts)) is None else units / float(UNITS)
    if type == CURRENCY_TYPE:
        return lambda facts: None if cost_of(prices, *facts) is None else prices.currency
    return None


class ClickHouse(base.Place):
    """A server by its URL. `connect` makes a client for questions, `connect_to_pull` one that waits longer."""

    noun = "server"
    retry_s = base.POLL_SECONDS["server retry"]
    lacks = frozenset({"bodies", "changes", "conversations", "pages", "following", "stages"})

    def __init__(self, target: Target, connect: Connect, connect_to_pull: Connect | None = None) -> None:
        self.name = target.shown
        self._target, self._connect, self._connect_to_pull = target, connect, connect_to_pull or connect
        self._tape: Path | None = None
        self._numbers: dict[int, int] = {}
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
            centre.rows(f"SELECT 1 FROM {EXCHANGES.name} LIMIT 1")

    def copied(self, numbers: Sequence[int], directory: Path, progress: base.Progress) -> base.Copied:
        """Pull exchanges to a new tape, in the order of their numbers."""
        return self._pulled(progress(sorted(map(str, numbers))), directory, self._connect_to_pull)

    def _pulled(self, numbers: Iterable[object], directory: Path, connect: Connect) -> base.Copied:
        pulled, tape = pulling.Pulled(), directory / "pulled.db"
        with connect() as centre:
            cut.make_temporary_tape(pulling.lines(centre, map(str, numbers), pulled), tape, "what was pulled")
        return base.Copied(tape, None if pulled.count else set(), len(pulled.without_body))

    def holding(self, private: Callable[[], Path]) -> Path:
        """Return a private tape, to which exchanges are pulled."""
        self._tape = private()
        return self._tape

    def pull(self, numbers: Sequence[int]) -> list[int]:
        """Copy exchanges that are not on the private tape yet; return their numbers there."""
        assert self._tape is not None, "no tape holds copies"
        with self._copying:
            if missing := [number for number in numbers if number not in self._numbers]:
                ids = {str(number).rpartition(" ")[2]: number for number in missing}
                with tempfile.TemporaryDirectory(dir=self._tape.parent) as directory:
                    pulled = self._pulled(missing, Path(directory), self._connect).tape
                    with file.writing(self._tape, _PURPOSE) as connection:
                        for _ in merge.copy(connection, [pulled], merge.plan(connection, [pulled])):
                            pass
                        copies = select(exchanges.c.id, exchanges.c.no).where(exchanges.c.id.in_(ids))
                        with connection.begin():
                            stored = file.reader_of(connection)
                            self._numbers |= {ids[id]: no for id, no in stored.execute(copies)}
                if missing_ids := [id for id, number in ids.items() if number not in self._numbers]:
                    raise NotFound(f"{missing_ids[0]} is not on {self.name} any more")
            return [self._numbers[number] for number in numbers]


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

        yield from figures.groups(self.connection, keys, condition(selection), measuring, config.read().prices)

    def overview(self, by: str, selection: Selection, bounds: "Sequence[Bound]", *, gaps: bool) -> base.Overview:
        """Return all figures, those of gaps included."""
        from wiretape.viewer.stats.summary import row_of
        from wiretape.viewer.wings.clickhouse import figures

        where = condition(selection)
        groups, all = (
            figures.groups(self.connection, keys, where, base.Measuring(bounds=bounds)) for keys in ((by,), ())
        )
        return base.Overview([row_of(group, (by,)) for group in groups], row_of(all[0], ()) if groups else None)

    def measured(
        self, tool: str, selection: Selection, count_tokens: base.CountTokens | None = None
    ) -> "Iterator[Addend]":
        from wiretape.viewer.wings.clickhouse import observed

        return observed.measured(self.connection, tool, condition(selection))

    def label_keys(self, selection: Selection) -> list[str]:
        return label_keys(self.connection, condition(selection))

    def follow(
        self, fields: tuple[str, ...], selection: Selection, *, last: int, wait: Callable[[], None]
    ) -> Iterator[list[TableRow]]:
        def release_and_wait() -> None:
            self.release()
            wait()

        return followed(self.connection, fields, condition(selection), last=last, wait=release_and_wait)

    def listed(self, filter: Filter | None, order: base.Order | None, clock: Clock) -> base.Listed:
        began = clock.now()
        page = self._page(filter, order, None)
        took = clock.now() - began
        total = len(page.numbers) or (self.count() if filter is not None else 0)
        starts = sorted(map(start_of, page.numbers))
        started = (starts[0], starts[-1]) if starts else None
        first_rows = self.visible(page.numbers[:PAGE])
        return base.Listed(page.numbers, took, first_rows, base.Change(base.Seen(), total, 0, None), started, page)

    def further(self, filter: Filter | None, order: base.Order | None, page: base.Page) -> base.Page:
        return self._page(filter, order, page)

    def _page(self, filter: Filter | None, order: base.Order | None, previous: base.Page | None) -> base.Page:
        where, last_number = condition(Selection(filter)), None if previous is None else previous.numbers[-1]
        if order is None:
            return newest_page(self.connection, where, last_number)
        position = None if previous is None or last_number is None else (previous.last, last_number)
        return ordered_page(self.connection, where, order[0], descending=order[1], position=position)

    def visible(self, numbers: Sequence[int]) -> list[ListRow]:
        return list_rows(self.connection, numbers)

    def changes(self, filter: Filter | None, previous: base.Change, visible: Sequence[int]) -> None:
        """Return nothing: the list is read again on request."""

    def details(self, number: int, limits: Thresholds) -> base.Details:
        """Return an exchange for the preview; its texts and reads come when it is opened."""
        rows = self.visible([number])
        return base.Details(querying.without_texts(rows[0]) if rows else None)


AT_ONCE: Final = 1024
"""Numbers per query."""

_WINDOWS: Final = (timedelta(hours=1), timedelta(days=1), timedelta(weeks=1), None)
"""Ranges to search for the newest, until there are enough of them; None: without a limit."""

_NO: Final = exchanges.c.no
_STARTED_AT: Final = exchanges.c.started_at


def start_of(number: object) -> str:
    """Return the start of an exchange of a server, by its number."""
    return str(number).partition(" ")[0]


def newest_page(connection: Connection, where: Condition | None = None, after: int | None = None) -> Page:
    """Return the numbers of the newest exchanges that fit, or of those that follow a number."""
    beyond, end = () if after is None else (after > _NO,), None
    if after is not None:
        end = datetime.fromisoformat(start_of(after))
    else:
        with connection.begin():  # in any version: the start of an exchange never changes
            text = connection.exec_driver_sql(f"SELECT toString(max(started)) FROM {EXCHANGES.name}").scalar_one()
        if text >= "1970-01-02":  # there is one
            end = datetime.fromisoformat(text) + timedelta(seconds=1)
    numbers: list[int] = []
    for window in _WINDOWS if end is not None else (None,):
        since = () if window is None or end is None else (f"{(end - window):%Y-%m-%dT%H:%M:%S}" <= _STARTED_AT,)
        statement = filtered(select(_NO).select_from(JOINED), where).where(*beyond, *since)
        with connection.begin():
            numbers = list(connection.execute(statement.order_by(_NO.desc()).limit(AT_ONCE)).scalars())
        if len(numbers) == AT_ONCE:
            return Page(numbers, goes_on=True)
    return Page(numbers)


def ordered_page(
    connection: Connection,
    where: Condition | None,
    by: str,
    *,
    descending: bool,
    position: tuple[Any, int] | None = None,
) -> Page:
    """Return the numbers in the order of a field, unknown last, or of those that follow a value and a number."""
    key = column(by)
    statement = filtered(select(_NO, key.label("key")).select_from(JOINED), where)
    if position is not None:
        value, number = position
        beyond: Expression = and_(key.is_(None), number > _NO)
        if value is not None:
            beyond_value = key < value if descending else key > value
            beyond = or_(beyond_value, and_(key == value, number > _NO), key.is_(None))
        statement = statement.where(beyond)
    order = (key.desc() if descending else key).nulls_last(), _NO.desc()
    with connection.begin():
        rows = connection.execute(statement.order_by(*order).limit(AT_ONCE)).all()
    return Page([no for no, _ in rows], rows[-1][1] if rows else None, len(rows) == AT_ONCE)


def list_rows(connection: Connection, numbers: Sequence[int]) -> list[ListRow]:
    """Return the rows of these exchanges, except those that the server does not have."""
    few_gaps = func.arraySlice(measures.c.icl, 1, case((querying.HAS_STALL, MOST_GAPS + 1), else_=0))
    statement = select(_NO, null(), few_gaps, *querying.short_columns()).select_from(JOINED).where(_NO.in_(numbers))
    with connection.begin():
        rows = connection.execute(statement).all()
    unpacked = [(no, packing.unpack_gaps(gaps), values) for no, _, gaps, *values in rows]
    return [querying.row_of(no, None, gaps if len(gaps) <= 8 * MOST_GAPS else None, v) for no, gaps, v in unpacked]


def label_keys(connection: Connection, where: Condition | None = None, most: int = 20) -> list[str]:
    """Return the keys of labels, the most frequent first, as a tape does."""
    key = func.arrayJoin(template("label_names"))
    statement = filtered(select(key).select_from(JOINED), where).group_by(key)
    with connection.begin():
        return list(connection.execute(statement.order_by(func.count().desc(), key).limit(most)).scalars())


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

    def rows(numbers: list[str]) -> list[TableRow]:
        if not numbers:
            return []
        began = exchanges.c.started_at >= start_of(min(numbers))
        return [*querying.numbered(connection, fields, numbers, began)]  # type: ignore[arg-type]

    def selected(where: Condition | None, **order: Any) -> list[str]:
        batches = querying.in_batches(connection, select(exchanges.c.no), where, **order)
        return [no for batch in batches for (no,) in batch]

    def earliest() -> str:
        return clock.wall(clock.wall_ns() - LATEST_SECONDS * 10**9)

    def recent() -> list[str]:
        began = exchanges.c.started_at >= earliest()
        return selected(began if where is None else and_(where, began))

    seen = set(recent())
    newest = selected(where, newest_first=True, limit=last)[::-1]
    seen.update(newest)
    yield rows(newest)
    while True:
        wait()
        if new := [no for no in recent() if no not in seen]:
            seen = {no for no in seen if no >= earliest()} | set(new)
            yield rows(new)
