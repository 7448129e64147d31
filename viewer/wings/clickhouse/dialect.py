"""The expressions of the tape in ClickHouse's SQL: filters and columns are written once, for both.

An exchange and its measures are one row of the server's table `exchanges`; `FINAL` selects its newest version. An
expression that needs a tape raises `NotAtCentre`.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from clickhouse_connect import dbapi
from sqlalchemy import Column, TableValuedAlias, null, types
from sqlalchemy import func as functions
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.compiler import GenericTypeCompiler, IdentifierPreparer, SQLCompiler
from sqlalchemy.sql.elements import Case, False_
from sqlalchemy.sql.functions import Function

from wiretape.recorder.clock import local_offsets
from wiretape.recorder.tape import schema
from wiretape.viewer import config
from wiretape.viewer.source.tape import columns
from wiretape.viewer.source.tape.functions import cost_of
from wiretape.viewer.stats.prices import UNITS
from wiretape.viewer.wings.clickhouse.client import NotAtCentre
from wiretape.viewer.wings.clickhouse.ddl import literal
from wiretape.viewer.wings.clickhouse.tables import EXCHANGES

_PLACES: Final = {
    (one.source.table.name, one.source.name): one.name for one in EXCHANGES.columns if one.source is not None
}
"""The names of the server's columns by those of the tape."""

_OWN: Final = {
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
        if (named := _name(column)) is None:
            raise NotAtCentre(f"{column.name}")
        return named

    def visit_label(self, label: Any, *args: object, **kwargs: object) -> str:
        """Write an expression with its name; NULL for a column that the server lacks: of it nothing is known there."""
        element = label.element
        is_absent = _is_absent(element)
        is_absent |= isinstance(element, Function) and element.name in _ELSEWHERE
        known = null().label(label.name) if is_absent else label
        if isinstance(label.type, columns.Cost | columns.Currency):
            cost = next(
                one for one in visitors.iterate(element) if isinstance(one, Function) and one.name == columns.COST
            )
            known = functions.tuple(*cost.clauses, type_=label.type).label(label.name)
        written: str = super().visit_label(known, *args, **kwargs)  # type: ignore[no-untyped-call]
        return written

    def visit_select(self, select_stmt: object, *args: object, **kwargs: object) -> str:
        """Compile a query; a subquery is NULL: it counts the reads of a running exchange, which no server has."""
        if self.stack:
            return "NULL"
        written: str = super().visit_select(select_stmt, *args, **kwargs)  # type: ignore[no-untyped-call]
        return written

    def visit_unary(self, unary: Any, *args: object, **kwargs: object) -> str:
        """Compile `EXISTS`, which is used for labels only."""
        if unary.operator is operators.exists:
            fits = self.process(unary.element.element.whereclause)
            return f"arrayExists((label_key, label_value) -> {fits}, label_names, label_values)"
        written: str = super().visit_unary(unary, *args, **kwargs)  # type: ignore[no-untyped-call]
        return written

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
        limits = getattr(binary.right, "value", None)
        bounds = _bounds(binary.operator, limits if isinstance(limits, list | tuple) else [limits])
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

    def visit_json_valid_func(self, function: object, **kw: object) -> str:
        """Compile `json_valid()` to true: labels are not stored as JSON."""
        return "1"

    def visit_typeof_func(self, function: object, **kw: object) -> str:
        """Compile `typeof()` to the type of texts, which all values of a column have."""
        return "'text'"

    def visit_instr_func(self, function: Any, **kw: Any) -> str:
        return f"position{self.function_argspec(function, **kw)}"

    def visit_strftime_func(self, function: Any, **kw: Any) -> str:
        """Compile a part of the local start; the engine need not know the zone."""
        format, offsets = next(iter(function.clauses)).value, local_offsets()
        parts = [f"toUInt32(started) < {since}, {before}" for (_, before), (since, _) in pairwise(offsets)]
        offset = f"multiIf({', '.join(parts)}, {offsets[-1][1]})" if parts else str(offsets[0][1])
        return f"formatDateTime(started + ({offset}), {_fixed(format)}, 'UTC')"

    def visit_has_gap_func(self, function: Any, **kw: Any) -> str:
        """Compile the test for a gap between two bounds, both included."""
        gaps, least, most = (self.process(one, **kw) for one in function.clauses)
        return f"arrayExists(gap -> gap >= {least} AND gap <= {most}, {gaps})"

    def visit_gap_percentile_func(self, function: Any, **kw: Any) -> str:
        """Compile a percentile of the gaps above 0, as `conditions.gap_percentile` computes it."""
        gaps, share = (self.process(one, **kw) for one in function.clauses)
        place = f"((length(sorted) - 1) * {share})"
        low = f"toInt64(floor({place}))"
        high = f"least({low} + 2, toInt64(length(sorted)))"
        between = f"sorted[{low} + 1] + (sorted[{high}] - sorted[{low} + 1]) * ({place} - {low})"
        rounded = f"arrayMap(x -> {_HALF_TO_EVEN}, [{between}])[1]"
        ordered = f"arraySort(arrayFilter(gap -> gap > 0, {gaps}))"
        return f"arrayMap(sorted -> if(empty(sorted), NULL, {rounded}), [{ordered}])[1]"

    def visit_currency_of_func(self, function: object, **kw: object) -> str:
        """Compile the currency to NULL: the engine has no prices."""
        return "NULL"

    def visit_upstream_name_of_func(self, function: object, **kw: object) -> str:
        """Compile the name of an upstream to NULL: the engine has no recorders' upstreams."""
        return "CAST(NULL, 'Nullable(String)')"

    def visit_function(self, func: Any, *args: Any, **kwargs: Any) -> str:
        """Raise `NotAtCentre` for a function that only a tape has."""
        if func.name in _ELSEWHERE:
            raise NotAtCentre(_ELSEWHERE[func.name])
        return super().visit_function(func, *args, **kwargs)


_HALF_TO_EVEN: Final = "toInt64(floor(x)) + (x - floor(x) > 0.5 OR (x - floor(x) = 0.5 AND toInt64(floor(x)) %% 2 = 1))"
"""Rounds half to even, as Python does; the engine's own function rounds a half differently from release to release."""

_LEAST: Final = (operators.gt, operators.ge, operators.eq)
_MOST: Final = (operators.lt, operators.le, operators.eq)


def _bounds(operator: Any, limits: Sequence[Any]) -> list[str]:
    """Return the conditions on the start's second that follow from a comparison of the start, or of a `no`."""
    if not limits or not all(isinstance(one, str) and _EARLIEST <= one < _LATEST for one in limits):
        return []
    if operator is operators.in_op:
        return [f"started IN ({', '.join(map(_second, sorted({one[:19] for one in limits})))})"]
    bounds = [(">=", min(limits))] * (operator in _LEAST) + [("<=", max(limits))] * (operator in _MOST)
    return [f"started {sign} {_second(one)}" for sign, one in bounds]


def _second(moment: str) -> str:
    """Return the second of a time, as the column `started` has it."""
    return f"toDateTime({_fixed(moment[:19].replace('T', ' '))}, 'UTC')"


def _fixed(text: str) -> str:
    """Return a text as a literal within a statement that parameters are put into."""
    return literal(text).replace("%", "%%")


_PARTS: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)|\{(,\d+\})|(\[\^?\]?)|(.)", re.DOTALL)
_ASCII_END: Final = 0x80
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
            part = _escaped(escaped, _INSIDE if is_inside else _OUTSIDE)
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


def _escaped(sign: str, known: dict[str, str]) -> str:
    return known.get(sign, sign if ord(sign) >= _ASCII_END else f"\\{sign}")


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
    return _OWN.get(key) or _PLACES.get(key)


class _Cost(columns.Cost):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        known = config.read().prices

        def cost(facts: Any) -> float | None:
            units = cost_of(known, *facts)
            return None if units is None else units / float(UNITS)

        return cost


class _Currency(columns.Currency):
    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        known = config.read().prices
        return lambda facts: None if cost_of(known, *facts) is None else known.currency


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
