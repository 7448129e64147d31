"""A connection to a tape that reads, by `sqlite3` alone: transactions, checked rows, and damage.

It runs the statements of `wiretape.recorder.tape.selects`. Each value of a row is checked (`cells`), and bad ones are
noted in the connection's `damage`.
"""

import contextlib
import functools
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import NoResultFound, SchemaMismatch, sqlite_code
from wiretape.recorder.tape import cells, definitions, peek
from wiretape.recorder.tape.cells import Damage, Type
from wiretape.recorder.tape.selects import Parameter, Select
from wiretape.recorder.tape.tables import TABLES

_ROWS_LISTED: Final = 10
_BEHIND: Final = {"exchanges.request_model": "measures.response_model"}
"""A column that may be the source of an expression of the same type."""


class Result:
    """The rows of a statement."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> Sequence[Any]:
        """Return all rows."""
        return self._rows

    def first(self) -> Any:
        """Return the first; None if there is none."""
        return self._rows[0] if self._rows else None

    one_or_none = first

    def one(self) -> Any:
        """Return the first. Raises `NoResultFound`."""
        if not self._rows:
            raise NoResultFound("no row")
        return self._rows[0]

    def scalar(self) -> Any:
        """Return the first value of the first row; None if there is none."""
        return self._rows[0][0] if self._rows else None

    def scalar_one(self) -> Any:
        """Return the first value of the first row. Raises `NoResultFound`."""
        return self.one()[0]

    def scalars(self) -> "Result":
        """Return the first value of each row."""
        return Result([*map(itemgetter(0), self._rows)])


Prepare = Callable[["Connection", str, Mapping[str, Any]], object]
"""Called before a statement with its text and options, in its transaction."""


class Connection:
    """A connection for reading; `info` is its users' own.

    `on_begin` is called when a transaction begins. `failure` returns the error to raise where a function of a statement
    has failed: SQLite tells only that one of them has.
    """

    batch = 1000
    """Number of rows that a long list is read in."""

    def __init__(self, driver: sqlite3.Connection, damage: Damage | None = None, path: Path | None = None) -> None:
        self.driver, self.path = driver, path
        self.damage = Damage() if damage is None else damage
        self.info: dict[str, Any] = {}
        self.prepare: list[Prepare] = []
        self.on_begin: Callable[[], object] = lambda: None
        self.failure: Callable[[], Exception | None] = lambda: None

    @contextlib.contextmanager
    def begin(self) -> Iterator[None]:
        """Read in one transaction: of one state of the tape."""
        self.driver.execute("BEGIN")
        try:
            self.on_begin()
            yield
        finally:
            self.rollback()

    def rollback(self) -> None:
        """End a transaction."""
        if self.driver.in_transaction:
            self.driver.execute("ROLLBACK")

    def execute(self, statement: Select, values: Mapping[str, object] | None = None) -> Result:
        """Return the rows of a statement, whose columns are attributes, too."""
        rows = self._rows(statement, values)
        if not rows:
            return Result([])
        columns = [*zip(*rows, strict=True)]
        converters = [kind.converter(self.damage) for kind in statement.types]
        checked = (
            values if convert is None else map(convert, values)
            for convert, values in zip(converters, columns, strict=True)
        )
        return Result([*map(row_type(tuple(statement.names)), zip(*checked, strict=True))])

    def fetch(self, statement: Select) -> list[tuple[Any, ...]]:
        """Return the rows of a statement as tuples, checked column by column: a fraction of the time."""
        columns = self.columns(statement)
        return [*zip(*map(self.checked, statement.types, columns), strict=True)]

    def columns(self, statement: Select) -> list[tuple[Any, ...]]:
        """Return the columns of a statement, unchecked; none without rows."""
        tolerant, self.driver.text_factory = self.driver.text_factory, str  # saves a call for each text
        try:
            rows = self._rows(statement)
        except sqlite3.OperationalError as error:
            if sqlite_code(error) is not None:  # SQLite's own error, not a text that Python cannot decode
                raise
            self.driver.text_factory = tolerant
            rows = self._rows(statement)
        finally:
            self.driver.text_factory = tolerant
        return [*zip(*rows, strict=True)]

    def checked(self, type: Type, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of a column checked."""
        return type.column(values, self.damage)

    def _rows(self, statement: Select, values: Mapping[str, object] | None = None) -> list[Any]:
        text, bound = statement.compiled
        self._prepare(text, statement.options)
        by_name = {**statement.values, **(values or {})}
        parameters = [by_name[value] if type(value) is Parameter else value for value in bound]
        # SQLite binds no lists: a statement reads one by json_each.
        plain_parameters = [json.dumps(value) if type(value) is list else value for value in parameters]
        try:
            return self.driver.execute(text, plain_parameters).fetchall()
        except sqlite3.OperationalError as error:
            if "user-defined function" in str(error) and (failure := self.failure()) is not None:
                raise failure from error
            raise

    def _prepare(self, text: str, options: Mapping[str, Any]) -> None:
        for prepare in self.prepare:
            prepare(self, text, options)

    def exec_driver_sql(self, text: str, values: Sequence[object] = ()) -> Result:
        """Return the rows of a statement in SQL, unchecked."""
        self._prepare(text, {})
        return Result(self.driver.execute(text, values).fetchall())

    def damaged_rows(self) -> list[str]:
        """Return a line for each damaged row that was found."""
        self.rollback()
        return damaged_rows(self.driver, self.damage)


@functools.lru_cache(256)
def row_type(names: tuple[str, ...]) -> type:
    """Return a type of tuples whose items are attributes, too."""
    items = {name: property(itemgetter(place)) for place, name in enumerate(names) if name}
    return type("Row", (tuple,), {"__slots__": (), **items})


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Connection]:
    """Connect to a tape for reading only, with errors `explained`; raises as `check` does."""
    check(path)
    with peek.explained(path), contextlib.closing(connect(path, peek.query_seconds())) as driver:
        yield Connection(driver, path=paths.real(path))


def check(path: Path) -> None:
    """Raise `NotFound`, `ForeignFile`, `SchemaMismatch` or `TapeError` unless a file is a tape of our revision."""
    peek.identify(path)
    with peek.peeked(paths.real(path)) as driver:
        peek.check_revision(peek.revision(driver), path)


def connect(path: Path, seconds: float) -> sqlite3.Connection:
    """Connect to a tape for reading only; a statement may take some seconds (0: any time)."""
    path = paths.real(path)
    driver = peek.connect(peek.read_uri(path), _LimitedConnection if seconds else sqlite3.Connection)
    try:
        peek.set_up_reader(driver, path)
        check_columns(driver, path)
    except BaseException:
        driver.close()
        raise
    if isinstance(driver, _LimitedConnection):
        driver.limit(seconds)
    return driver


class _LimitedConnection(sqlite3.Connection):
    """SQLite's connection, which ends a statement that takes too long: SQLite raises "interrupted" then."""

    _allowed_ns = _deadline_ns = 0

    def limit(self, seconds: float) -> None:
        """Set the time allowed for a statement."""
        self._allowed_ns = round(seconds * 1e9)
        steps = 100_000  # of SQLite's, between checks of the clock: a few ms
        self.set_progress_handler(lambda: SYSTEM.now() > self._deadline_ns, steps)

    def cursor(self, *factory: Any) -> Any:
        """Return a cursor: SQLAlchemy takes one per statement, so its time begins here."""
        self._deadline_ns = SYSTEM.now() + self._allowed_ns
        return super().cursor(*factory)

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        self._deadline_ns = SYSTEM.now() + self._allowed_ns
        return super().execute(*statement)


def check_columns(driver: sqlite3.Connection, path: Path) -> None:
    """Raise `SchemaMismatch` if a tape of our revision lacks a column of ours."""
    columns = [(name, column) for name, table in TABLES.items() for column in [*table.c.keys()]]
    if missing := definitions.lacking(driver, columns):
        raise SchemaMismatch(
            f"{path} has schema {peek.REVISION} and lacks {missing}: it is damaged, or of a version before 0.1.0, "
            "which is not supported. Read it with the program that made it, or name another tape with --db"
        )


def damaged_rows(driver: sqlite3.Connection, damage: Damage) -> list[str]:
    """Find the rows of some damage, and return a line for each."""
    problems: dict[tuple[str, int], list[str]] = {}
    for name in sorted(damage.columns | {_BEHIND[name] for name in damage.columns if name in _BEHIND}):
        table, _, column = name.partition(".")
        cell: Any = TABLES[table].c[column].type
        for key, problem in islice(cells.faults(driver, table, [cell]), _ROWS_LISTED + 1):
            problems.setdefault((table, key), []).append(problem)
    for no, problem in damage.exchanges.items():
        problems.setdefault(("exchanges", no), []).append(problem)
    lines = list[str]()
    for table, key in list(problems)[:_ROWS_LISTED]:
        cure = "run 'wiretape db rebuild'" if table == "measures" else "see 'wiretape db check'"
        lines.append(f"{cells.row_of(driver, table, key)} is damaged: {'; '.join(problems[table, key])}: {cure}")
    if len(problems) > _ROWS_LISTED:
        lines.append("more rows are damaged: see 'wiretape db check'")
    return lines
