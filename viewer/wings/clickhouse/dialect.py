"""The expressions of the tape in ClickHouse's SQL: filters and columns are written once, for both.

An exchange and its measures are one row of the server's table `exchanges`; `FINAL` selects its newest version. An
expression that needs a tape raises `NotAtCentre`.

A server is a database driver (PEP 249), too: a statement is a request, its rows the answer. Values are put into a
statement as literals, and come back as the tape has them: labels as JSON, gaps packed. There are no transactions.
"""

import json
import math
import re
from array import array
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from clickhouse_connect import dbapi
from clickhouse_connect.dbapi.cursor import Cursor
from sqlalchemy import Column, TableValuedAlias, null, types
from sqlalchemy import func as functions
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.compiler import GenericTypeCompiler, IdentifierPreparer, SQLCompiler
from sqlalchemy.sql.elements import Case, False_
from sqlalchemy.sql.functions import Function

from wiretape.recorder.clock import local_offsets
from wiretape.recorder.tape import packing, schema
from wiretape.viewer import config
from wiretape.viewer.source.tape import columns
from wiretape.viewer.source.tape.functions import cost_of
from wiretape.viewer.stats.prices import UNITS
from wiretape.viewer.wings.clickhouse import ddl
from wiretape.viewer.wings.clickhouse.client import Centre, NotAtCentre
from wiretape.viewer.wings.clickhouse.tables import EXCHANGES

_ENGINE_NAMES: Final = {
    (column.source.table.name, column.source.name): column.name
    for column in EXCHANGES.columns
    if column.source is not None
}
"""The names of the server's columns by those of the tape."""

_EXPRESSIONS: Final = {
    ("exchanges", "no"): "concat(started_at, ' ', id)",
    ("exchanges", "labels"): "[label_names, label_values]",
    ("measures", "exchange_no"): "decoder_version",
}
"""Columns of a tape that a server has in another form; the order by this `no` is the order in time."""

_EARLIEST, _LATEST = "1971", "2105"
"""Between these years a time is a `DateTime`."""

_ELSEWHERE: Final = {
    columns.COST: "costs, which depend on your prices",
    columns.CONVERSATION: "conversations",
    columns.CONTINUED: "the earlier turn of an exchange",
    columns.ABOVE: "the tree of a conversation",
    **dict.fromkeys(columns.CACHE.values(), "verdicts about the provider's cache"),
}
"""Functions that only tapes have, with their purposes."""


_CONSTANT: Final = {
    "json_valid": "1",  # labels are not stored as JSON
    "typeof": "'text'",  # which all values of a column have
    "currency_of": "NULL",  # the engine has no prices
    "upstream_name_of": "CAST(NULL, 'Nullable(String)')",  # nor recorders' upstreams
}


class Compiler(SQLCompiler):
    """Writes a statement over `columns.JOINED` as one over the server's table."""

    def visit_join(self, join: Any, *args: object, **kwargs: object) -> str:
        """Write exchanges with their measures, the only join there is, as one table."""
        if join is not columns.JOINED:
            raise NotAtCentre(f"the table {join.right.description}")
        return self.process(join.left, *args, **kwargs)

    def visit_table(self, table: Any, *args: object, **kwargs: object) -> str:
        """Write the table, with the newest version of each row only."""
        if table not in (schema.exchanges, schema.measures):
            raise NotAtCentre(f"the table {table.name}")
        return f"{EXCHANGES.name} FINAL"

    def visit_column(self, column: Any, *args: Any, **kwargs: Any) -> str:
        """Write the server's name of a column."""
        table = column.table
        if isinstance(table, TableValuedAlias):
            return f"label_{column.name}"
        if table is None:
            return super().visit_column(column, *args, **kwargs)
        if (engine_name := _name(column)) is None:
            raise NotAtCentre(f"{column.name}")
        return engine_name

    def visit_label(self, label: Any, *args: object, **kwargs: object) -> str:
        """Write an expression with its name; NULL for a column that the server lacks: of it nothing is known there."""
        element = label.element
        is_elsewhere = isinstance(element, Function) and element.name in _ELSEWHERE
        compiled = null().label(label.name) if is_elsewhere or _is_absent(element) else label
        if isinstance(label.type, columns.Cost | columns.Currency):
            cost = next(
                part for part in visitors.iterate(element) if isinstance(part, Function) and part.name == columns.COST
            )
            compiled = functions.tuple(*cost.clauses, type_=label.type).label(label.name)
        return str(super().visit_label(compiled, *args, **kwargs))  # type: ignore[no-untyped-call]

    def visit_select(self, select_stmt: object, *args: object, **kwargs: object) -> str:
        """Compile a query; a subquery is NULL: it counts the reads of a running exchange, which no server has."""
        if self.stack:
            return "NULL"
        return str(super().visit_select(select_stmt, *args, **kwargs))  # type: ignore[no-untyped-call]

    def visit_unary(self, unary: Any, *args: object, **kwargs: object) -> str:
        """Compile `EXISTS`, which is used for labels only."""
        if unary.operator is operators.exists:
            fits = self.process(unary.element.element.whereclause)
            return f"arrayExists((label_key, label_value) -> {fits}, label_names, label_values)"
        return str(super().visit_unary(unary, *args, **kwargs))  # type: ignore[no-untyped-call]

    def visit_cast(self, cast: Any, **kw: Any) -> str:
        """Compile a cast to a function that returns NULL for NULL."""
        to = "toFloat64" if isinstance(cast.type, types.Float) else "toString"
        return f"{to}({self.process(cast.clause, **kw)})"

    def visit_binary(self, binary: Any, *args: object, **kw: Any) -> str:
        """Compile an expression; a comparison of the start also compares the sort key `started`."""
        if binary.operator is operators.is_ and isinstance(binary.right, False_):
            return f"coalesce({self.process(binary.left, **kw)} = 0, 0)"
        text: str = super().visit_binary(binary, *args, **kw)  # type: ignore[no-untyped-call]
        if binary.left is not schema.exchanges.c.started_at and binary.left is not schema.exchanges.c.no:
            return text
        value = getattr(binary.right, "value", None)
        limits = value if isinstance(value, list | tuple) else [value]
        if not limits or not all(isinstance(limit, str) and _EARLIEST <= limit < _LATEST for limit in limits):
            return text
        seconds = [f"toDateTime({_fixed(at[:19].replace('T', ' '))}, 'UTC')" for at in sorted(limits)]
        bounds = []
        if binary.operator is operators.in_op:
            bounds = [f"started IN ({', '.join(dict.fromkeys(seconds))})"]
        if binary.operator in (operators.gt, operators.ge, operators.eq):
            bounds.append(f"started >= {seconds[0]}")
        if binary.operator in (operators.lt, operators.le, operators.eq):
            bounds.append(f"started <= {seconds[-1]}")
        return f"({' AND '.join([text, *bounds])})" if bounds else text

    def visit_ilike_op_binary(self, binary: Any, operator: object, **kw: Any) -> str:
        r"""Compile a comparison that ignores the case of ASCII's letters; its `\` escapes already."""
        return f"lower({self.process(binary.left, **kw)}) LIKE lower({self.process(binary.right, **kw)})"

    def visit_regexp_match_op_binary(self, binary: Any, operator: object, **kw: Any) -> str:
        """Compile a search for a regular expression, which ignores case, to `match()`."""
        return f"match({self.process(binary.left, **kw)}, {_fixed('(?i-s)' + re2(binary.right.value))})"

    def visit_json_getitem_op_binary(self, binary: Any, operator: object, **kw: Any) -> str:
        """Compile the value of a label, NULL if there is none."""
        place = f"indexOf(label_names, {self.process(binary.right, **kw)})"
        return f"if({place} = 0, NULL, label_values[{place}])"

    def visit_instr_func(self, function: Any, **kw: Any) -> str:
        return f"position{self.function_argspec(function, **kw)}"

    def visit_strftime_func(self, function: Any, **kw: Any) -> str:
        """Compile a part of the local start; the engine need not know the zone."""
        format, offsets = next(iter(function.clauses)).value, local_offsets()
        parts = [
            f"toUInt32(started) < {since}, {offset_before}" for (_, offset_before), (since, _) in pairwise(offsets)
        ]
        offset = f"multiIf({', '.join(parts)}, {offsets[-1][1]})" if parts else str(offsets[0][1])
        return f"formatDateTime(started + ({offset}), {_fixed(format)}, 'UTC')"

    def visit_has_gap_func(self, function: Any, **kw: Any) -> str:
        """Compile the test for a gap between two bounds, both included."""
        gaps, least, most = (self.process(clause, **kw) for clause in function.clauses)
        return f"arrayExists(gap -> gap >= {least} AND gap <= {most}, {gaps})"

    def visit_gap_percentile_func(self, function: Any, **kw: Any) -> str:
        """Compile a percentile of the gaps above 0, as `conditions.gap_percentile` computes it."""
        gaps, share = (self.process(clause, **kw) for clause in function.clauses)
        place = f"((length(sorted) - 1) * {share})"
        low = f"toInt64(floor({place}))"
        high = f"least({low} + 2, toInt64(length(sorted)))"
        between = f"sorted[{low} + 1] + (sorted[{high}] - sorted[{low} + 1]) * ({place} - {low})"
        rounded = f"arrayMap(x -> {_HALF_TO_EVEN}, [{between}])[1]"
        ordered = f"arraySort(arrayFilter(gap -> gap > 0, {gaps}))"
        return f"arrayMap(sorted -> if(empty(sorted), NULL, {rounded}), [{ordered}])[1]"

    def visit_function(self, func: Any, *args: Any, **kwargs: Any) -> str:
        """Compile a function; one that only a tape has raises `NotAtCentre`."""
        if func.name in _CONSTANT:
            return _CONSTANT[func.name]
        if func.name in _ELSEWHERE:
            raise NotAtCentre(_ELSEWHERE[func.name])
        return super().visit_function(func, *args, **kwargs)


_HALF_TO_EVEN: Final = "toInt64(floor(x)) + (x - floor(x) > 0.5 OR (x - floor(x) = 0.5 AND toInt64(floor(x)) %% 2 = 1))"
"""Rounds half to even, as Python does; the engine's own function rounds a half differently from release to release."""


def _fixed(text: str) -> str:
    """Return a text as a literal within a statement that parameters are put into."""
    return ddl.literal(text).replace("%", "%%")


_PARTS: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)|\{(,\d+\})|(\[\^?\]?)|(.)", re.DOTALL)
_INSIDE: Final = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "w": r"\p{L}\p{M}\p{N}\p{Pc}",
    "W": r"\p{Z}\p{S}\p{C}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}",
    "s": r"\t-\r\x{85}\p{Z}",
    "S": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\x00-\x08\x0e-\x1f\x7f-\x{84}\x{86}-\x{9f}",
}
"""Classes of characters as parts of one in brackets."""
_OUTSIDE: Final = {
    **{name: f"[{members}]" for name, members in _INSIDE.items()},
    "W": f"[^{_INSIDE['w']}]",
    "S": f"[^{_INSIDE['s']}]",
    "Z": r"\z",
}
_LAST: Final = r"(?:\n?\z)"
"""The end, or the end but for one line break, as `$` has it."""


def re2(expression: str) -> str:
    r"""Translate a regular expression from Python's syntax to that of the engine's RE2.

    RE2 takes `\d`, `\s` and `\w` for ASCII's only. Unsupported syntax, such as look-around and back-references, stays
    as it is: the engine refuses it. `\b` stays ASCII's.
    """
    parts, is_inside = list[str](), False
    of_lines = re.search(r"\(\?[a-z]*m", expression) is not None  # where `$` is the end of each
    for match in _PARTS.finditer(expression):
        short, long, escaped, most, bracket, _ = match.groups()
        part = match[0]
        if code := short or long:
            part = rf"\x{{{code}}}"
        elif escaped is not None:
            literally = escaped if ord(escaped) >= 0x80 else f"\\{escaped}"
            part = (_INSIDE if is_inside else _OUTSIDE).get(escaped, literally)
        elif most is not None and not is_inside:
            part = f"{{0{most}"
        elif bracket is not None:
            is_inside = not (is_inside and part[-1] == "]")
        elif part == "]":
            is_inside = False
        elif part == "$" and not (is_inside or of_lines):
            part = _LAST
        parts.append(part)
    return "".join(parts)


def _is_absent(element: Any) -> bool:
    """Return True if an expression is a column that the server lacks, its beginning, or its value on a condition."""
    if isinstance(element, Case) and element.else_ is None and len(element.whens) == 1:
        element = element.whens[0][1]
    if isinstance(element, Function) and element.name == "substr":
        element = next(iter(element.clauses))
    return isinstance(element, Column) and _name(element) is None


def _name(column: Any) -> str | None:
    """Return the server's name of a tape's column, or None if the server lacks the column."""
    key = column.table.name, column.name
    return _EXPRESSIONS.get(key) or _ENGINE_NAMES.get(key)


class _Cost(columns.Cost):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        prices = config.read().prices
        return lambda facts: None if (units := cost_of(prices, *facts)) is None else units / float(UNITS)


class _Currency(columns.Currency):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        prices = config.read().prices
        return lambda facts: None if cost_of(prices, *facts) is None else prices.currency


class _Names(IdentifierPreparer):
    def format_label(self, label: Any, name: str | None = None) -> str:
        """Return a name that no column has: ClickHouse would take it for the column within the expression, too."""
        return self.quote(f"_{name or label.name}")


class ClickHouseDialect(DefaultDialect):
    """ClickHouse's dialect, for reading only."""

    name = "clickhouse"
    driver = "wiretape"
    default_paramstyle = "pyformat"
    statement_compiler = Compiler
    type_compiler_cls = GenericTypeCompiler
    preparer = _Names
    colspecs = {columns.Cost: _Cost, columns.Currency: _Currency}
    supports_native_boolean = False
    div_is_floordiv = False
    supports_simple_order_by_label = False
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the driver's names: ours and clickhouse-connect's."""
        return dbapi


class DriverConnection:
    """A connection of DB-API, without a state of its own: it uses the client's."""

    text_factory: Callable[[bytes], Any] = str
    """An attribute of `sqlite3`'s connections; the client has always decoded a server's texts."""

    def __init__(self, centre: Centre) -> None:
        self.centre = centre

    def cursor(self) -> "DriverCursor":
        return DriverCursor(self.centre)

    def commit(self) -> None:
        """Ignore the call: there are no transactions, and the client's owner closes it."""

    rollback = close = commit


class DriverCursor(Cursor):
    """The rows of one statement, all of them in memory."""

    def __init__(self, centre: Centre) -> None:
        self.centre = centre
        self.data, self.arraysize = [], 1

    def execute(self, operation: str, parameters: Mapping[str, object] | None = None, *_: object, **__: object) -> None:
        """Query the server. Raises `UnusableServer` and `Unavailable`.

        The client's own binding takes braces within a literal for parameters.
        """
        statement = operation % {name: literal(value) for name, value in (parameters or {}).items()}
        answer = self.centre.query(statement)
        self.names, self.types = answer.column_names, [type.name for type in answer.column_types]
        if not self.names:  # the engine in this process names no columns where there are no rows
            described = self.centre.rows(f"DESCRIBE ({statement})")
            self.names, self.types = [row[0] for row in described], [row[1] for row in described]
        converters = [_STORED.get(type) for type in self.types]
        self.data = [
            tuple(value if convert is None else convert(value) for convert, value in zip(converters, row, strict=True))
            for row in answer.result_rows
        ]
        self._ix = 0

    @property
    def description(self) -> list[tuple[Any, ...]]:
        return [(name, type, *[None] * 5) for name, type in zip(self.names, self.types, strict=True)]

    def setinputsizes(self, sizes: object) -> None:
        """Ignore the sizes, as DB-API allows."""


def literal(value: object) -> str:
    """Return a value as a literal. A lone surrogate, which no text of the server has, becomes a question mark.

    Raises `TypeError` for a value that has no literal.
    """
    match value:
        case None:
            return "NULL"
        case str():
            return ddl.literal(value.encode("utf-8", "replace").decode())
        case float() if not math.isfinite(value):
            return f"({value})"  # nan, inf, -inf
        case bool() | int() | float():
            return f"{+value!r}" if value >= 0 else f"({value!r})"
    raise TypeError(f"{type(value).__name__} has no literal")


_STORED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Array(Array(String))": lambda labels: json.dumps(
        dict(zip(*labels, strict=True)), ensure_ascii=False, separators=(",", ":")
    ),
    "Array(Int64)": lambda gaps: packing.pack_gaps(array("q", gaps).tobytes()),
}
"""Converters from an engine's value, whose type is never null, to the tape's type."""
