"""The expressions of the tape in ClickHouse's SQL: filters and columns are written once, for both.

An exchange and its measures are one row of the server's table `exchanges`; `FINAL` selects its newest version. Values
are put into a statement as literals, and come back as the tape has them: labels as JSON, gaps packed. An expression
that needs a tape raises `NotAtCentre`.
"""

import json
import math
import re
from array import array
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from wiretape.recorder.clock import local_offsets
from wiretape.recorder.tape import packing
from wiretape.recorder.tape.selects import Column, Expression, FromClause, Function, Parameter, Select, SqlWriter, parts
from wiretape.recorder.tape.tables import TABLES
from wiretape.viewer.source import querying
from wiretape.viewer.wings.clickhouse import ddl
from wiretape.viewer.wings.clickhouse.client import NotAtCentre
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
    querying.COST: "costs, which depend on your prices",
    querying.CONVERSATION: "conversations",
    querying.CONTINUED: "the earlier turn of an exchange",
    querying.ABOVE: "the tree of a conversation",
    **dict.fromkeys(querying.OF_SESSION.values(), "verdicts about the provider's cache"),
    querying.OF_SESSION["turn"]: "the numbers of turns",
    querying.OF_SESSION["duplicate_of"]: "duplicates",
}
"""Functions that only tapes have, with their purposes."""


_CONSTANT: Final = {
    "json_valid": "1",  # labels are not stored as JSON
    "typeof": "'text'",  # which all values of a column have
    "currency_of": "NULL",  # the engine has no prices
}


class ServerWriter(SqlWriter):
    """Writes a statement over `querying.JOINED` as one over the server's table; `values` are those of parameters."""

    forms = {
        **SqlWriter.forms,
        "/": "({} / {})", "ilike": "(lower({}) LIKE lower({}))", "exists": "NULL", "scalar": "NULL",
        "as_blob": "{}",
    }  # fmt: skip

    def __init__(self, values: Mapping[str, object]) -> None:
        super().__init__()
        self._parameters = values

    def source(self, source: FromClause) -> str:
        """Write exchanges with their measures, the only join there is, as the table with each row's newest version."""
        if source is querying.JOINED or (source.rows is None and source.name in ("exchanges", "measures")):
            return f"{EXCHANGES.name} FINAL"
        raise NotAtCentre(f"the table {source.name}")

    def name(self, column: Column) -> str:
        if column.table.rows is not None:  # the labels
            return f"label_{column.name}"
        if (name := _name(column.table.name, column.name)) is None:
            raise NotAtCentre(column.name)
        return name

    def value(self, value: object) -> str:
        return literal(self._parameters[value] if isinstance(value, Parameter) else value)

    def column(self, column: Expression) -> str:
        """Write a column with its name; NULL for one that the server lacks: of it nothing is known there."""
        element, name = column.arguments if column.name == "label" else (column, None)
        if element.type in (querying.COST_TYPE, querying.CURRENCY_TYPE):
            cost = next(part for part in parts(element) if isinstance(part, Function) and part.name == querying.COST)
            text = self.text(Function("tuple", *cost.arguments))
        else:
            text = "NULL" if _is_absent(element) else self.text(element)
        # ClickHouse would take the name of a column for that column within the expression, too.
        return f'{text} AS "_{name}"' if name else text

    def text(self, value: Any) -> str:
        """Write an expression; a subquery is NULL: it counts the reads of a running exchange, which no server has."""
        return "NULL" if isinstance(value, Select) else super().text(value)

    def expression(self, expression: Expression, name: str, *arguments: Any) -> str:
        """Write an operator or a function in the engine's words."""
        match name, arguments:
            case _ if isinstance(expression, Function):
                return self._function(expression)
            case "template", (text,):  # generated for SQLite
                return re.sub(
                    r"\b(exchanges|measures)\.(\w+)", lambda match: self.name(TABLES[match[1]].c[match[2]]), text
                )
            case "exists", (Select() as labels,):
                condition = " AND ".join(map(self.text, labels.conditions))
                return f"arrayExists((label_key, label_value) -> {condition}, label_names, label_values)"
            case "cast", (value, type):
                return f"to{'Float64' if type.name == 'Float' else 'String'}({self.text(value)})"  # NULL for NULL
            case "IS", (value, Expression(name="template", arguments=("0",))):
                return f"coalesce({self.text(value)} = 0, 0)"
            case ">", (Function(name="substr", arguments=(Column(name="gap_hist") as counts, first, size)), _):
                # Here a histogram is an array of counts, of which the tape's has four bytes each.
                slice = f"arraySlice({self.text(counts)}, {first // 4 + 1}, {size // 4})"
                return f"arrayExists(count -> count > 0, {slice})"
            case "=" | "!=" | "<" | "<=" | ">" | ">=" | "IN", (Column(name="started_at" | "no"), limits):
                return self._compared(expression, limits)
            case "REGEXP", (value, pattern):  # ignores case
                return f"match({self.text(value)}, {ddl.literal('(?i-s)' + re2(pattern))})"
            case "getitem", (_, _, key):  # of labels
                position = f"indexOf(label_names, {self.text(key)})"
                return f"if({position} = 0, NULL, label_values[{position}])"
        return super().expression(expression, name, *arguments)

    def _function(self, function: Function) -> str:
        """Write a function; one that only a tape has raises `NotAtCentre`."""
        name, arguments = function.name, function.arguments
        if name in _CONSTANT:
            return _CONSTANT[name]
        if name in _ELSEWHERE:
            raise NotAtCentre(_ELSEWHERE[name])
        match name, arguments:
            case "strftime", (format, *_):  # of the local start; the engine need not know the zone
                offsets = local_offsets()
                spans = [f"toUInt32(started) < {since}, {before}" for (_, before), (since, _) in pairwise(offsets)]
                offset = f"multiIf({', '.join(spans)}, {offsets[-1][1]})" if spans else str(offsets[0][1])
                return f"formatDateTime(started + ({offset}), {ddl.literal(format)}, 'UTC')"
            case "has_gap", _:
                gaps, least, most = map(self.text, arguments)
                return f"arrayExists(gap -> gap >= {least} AND gap <= {most}, {gaps})"
            case "gap_percentile", (gaps, share):
                return self._gap_percentile(self.text(gaps), self.text(share))
        return super().expression(function, "position" if name == "instr" else name, *arguments)

    def _compared(self, comparison: Expression, limits: Any) -> str:
        """Write a comparison of the start that also compares the sort key `started`, if the years allow it."""
        sign = comparison.name
        text = super().expression(comparison, sign, *comparison.arguments)
        texts = limits if isinstance(limits, list) else [limits]
        if not texts or not all(isinstance(limit, str) and _EARLIEST <= limit < _LATEST for limit in texts):
            return text
        seconds = [f"toDateTime({ddl.literal(at[:19].replace('T', ' '))}, 'UTC')" for at in sorted(texts)]
        bounds = [f"started IN ({', '.join(dict.fromkeys(seconds))})"] if sign == "IN" else []
        if sign in (">", ">=", "="):
            bounds.append(f"started >= {seconds[0]}")
        if sign in ("<", "<=", "="):
            bounds.append(f"started <= {seconds[-1]}")
        return f"({' AND '.join([text, *bounds])})" if bounds else text

    def _gap_percentile(self, gaps: str, share: str) -> str:
        """Write a percentile of the gaps above 0, as `conditions.gap_percentile` computes it."""
        place = f"((length(sorted) - 1) * {share})"
        low = f"toInt64(floor({place}))"
        high = f"least({low} + 2, toInt64(length(sorted)))"
        between = f"sorted[{low} + 1] + (sorted[{high}] - sorted[{low} + 1]) * ({place} - {low})"
        rounded = f"arrayMap(x -> {_HALF_TO_EVEN}, [{between}])[1]"
        ordered = f"arraySort(arrayFilter(gap -> gap > 0, {gaps}))"
        return f"arrayMap(sorted -> if(empty(sorted), NULL, {rounded}), [{ordered}])[1]"


_HALF_TO_EVEN: Final = "toInt64(floor(x)) + (x - floor(x) > 0.5 OR (x - floor(x) = 0.5 AND toInt64(floor(x)) % 2 = 1))"
"""Rounds half to even, as Python does; the engine's own function rounds a half differently from release to release."""


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
    """Return True for a column that the server lacks, its beginning or value on a condition, and a tape's function."""
    match element:
        case Expression(name="case", arguments=(((_, value),), None)):
            return _is_absent(value)
        case Function(name="substr", arguments=(value, *_)):
            return _is_absent(value)
        case Column():
            return _name(element.table.name, element.name) is None
    return isinstance(element, Function) and element.name in _ELSEWHERE


def _name(table: str, column: str) -> str | None:
    """Return the server's name of a tape's column, or None if the server lacks the column."""
    return _EXPRESSIONS.get((table, column)) or _ENGINE_NAMES.get((table, column))


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


STORED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Array(Array(String))": lambda labels: json.dumps(
        dict(zip(*labels, strict=True)), ensure_ascii=False, separators=(",", ":")
    ),
    "Array(Int64)": lambda gaps: packing.pack_gaps(array("q", gaps).tobytes()),
}
"""Converters from an engine's value, whose type is never null, to the tape's type."""
