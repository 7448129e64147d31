"""The rules of filters in Python: a reference for the SQL of `wiretape.viewer.source.tape.conditions`.

An unknown value fits no comparison, nor its negation by an operator (`!=`, `!~`). `-` is the logical negation, so
`-ttft>1s` holds for an exchange without a `ttft`. The case of ASCII letters is ignored. A text is matched by shapes:
one of several patterns must fit all of it. Durations compare to the nanosecond.
"""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wiretape.viewer.query.fields import FIELDS, having
from wiretape.viewer.query.operators import ORDERINGS
from wiretape.viewer.query.syntax import (
    Among,
    And,
    Compare,
    Filter,
    Labelled,
    Match,
    Not,
    Number,
    Or,
    Pattern,
    Regex,
    Word,
)
from wiretape.viewer.query.values import Searches
from wiretape.viewer.record import units
from wiretape.viewer.record.fields import GAP_PERCENTILES
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.source.tape.conditions import WORD_IN, field_shapes, gap_percentile, shapes, unpacked


def needed(filter: Filter) -> tuple[str, ...]:
    """Name the fields that a row must have for `matches` to judge it."""
    match filter:
        case And(parts) | Or(parts):
            return tuple(dict.fromkeys(name for part in parts for name in needed(part)))
        case Not(part):
            return needed(part)
        case Word():
            return (*WORD_IN, "labels", *FIELDS["text"].rows)
        case Labelled():
            return ("labels",)
        case Match("has"):
            return tuple(dict.fromkeys(_had(filter)))
    return FIELDS[filter.field].rows


@functools.singledispatch
def matches(filter: Filter, row: TableRow) -> bool:
    """Return True if a row of `queries` fits; it must have the fields that are `needed`."""
    raise TypeError(filter)


@matches.register
def _(filter: And, row: TableRow) -> bool:
    return all(matches(part, row) for part in filter.parts)


@matches.register
def _(filter: Or, row: TableRow) -> bool:
    return any(matches(part, row) for part in filter.parts)


@matches.register
def _(filter: Not, row: TableRow) -> bool:
    return not matches(filter.part, row)


@matches.register
def _(filter: Word, row: TableRow) -> bool:
    texts = [*row["labels"].values(), *(text for text in _values("text", row) if text is not None)]
    within = any(_fits(text, shapes("within", filter.pattern)) for text in texts)
    return within or any(_fits(row[name], shapes(style, filter.pattern)) for name, style in WORD_IN.items())


@matches.register
def _(filter: Compare, row: TableRow) -> bool:
    limit, compared = _in_row(filter.field, filter.limit), ORDERINGS[filter.order].holds
    return _holds(_values(filter.field, row), lambda value: bool(compared(value, limit)))


@matches.register
def _(filter: Among, row: TableRow) -> bool:
    spans = [(_in_row(filter.field, low), _in_row(filter.field, high)) for low, high in filter.spans]
    return _holds(_values(filter.field, row), lambda value: any(_between(value, *s) for s in spans), filter.negated)


@matches.register
def _(filter: Regex, row: TableRow) -> bool:
    return _holds(
        _values(filter.field, row), lambda value: bool(Searches().search(filter.pattern, value)), filter.negated
    )


@matches.register
def _(filter: Labelled, row: TableRow) -> bool:
    judged = (_label_fits(row["labels"].get(key), pattern, filter.negated) for key, pattern in filter.labels)
    return all(judged) if filter.negated else any(judged)


def _label_fits(value: str | None, pattern: Pattern | None, negated: bool) -> bool:
    return _holds([value], lambda known: pattern is None or _fits(known, [pattern]), negated)


@matches.register
def _(filter: Match, row: TableRow) -> bool:
    if filter.field == "has":
        return any(row[name] is not None for name in _had(filter)) != filter.negated
    wanted = field_shapes(filter)
    return _holds(
        _values(filter.field, row), lambda value: _fits(_readable(filter.field, value), wanted), filter.negated
    )


def _holds(values: Iterable[Any], check: Callable[[Any], bool], negated: bool = False) -> bool:
    """Return True if a known value passes the check; negated: if a value is known and none passes."""
    passed = [check(value) for value in values if value is not None]
    return bool(passed) and not any(passed) if negated else any(passed)


def _had(filter: Match) -> list[str]:
    return [name for (word,) in filter.patterns for name in having(word)]


def _values(field: str, row: TableRow) -> list[Any]:
    if field == "flags":
        return [" ".join(row["flags"])]
    if field == "gap":
        return [gap for gap in unpacked(row["icl"]) if gap > 0]
    if field == "connection_reused":
        return [None if row[field] is None else "yes" if row[field] else "no"]
    if field in GAP_PERCENTILES:
        return [units.ms(gap_percentile(row["icl"], GAP_PERCENTILES[field]))]
    return [_called(row[name]) if name == "tool_calls" else row[name] for name in FIELDS[field].rows]


def _called(calls: Sequence[TableRow] | None) -> str | None:
    """Return tool calls in their displayed form, each on its line."""
    return "\n".join(f"{call['name'] or ''}({call['arguments']})" for call in calls) if calls else None


def _in_row(field: str, limit: Number | str | None) -> Any:
    """Return a limit in the unit of rows."""
    return units.ms(limit) if FIELDS[field].kind == "duration" and not isinstance(limit, str) else limit


def _between(value: Any, low: Any, high: Any) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _readable(field: str, value: Any) -> str:
    """Return a value as SQLite's LIKE sees it: flags with a space around each, bytes up to a NUL."""
    if field == "flags":
        return f" {value} " if value else " "
    return value.decode("utf-8", "replace").partition("\0")[0] if isinstance(value, bytes) else str(value)


def _fits(text: str | None, wanted: Sequence[Pattern]) -> bool:
    return text is not None and any(_expression(shape).fullmatch(text) for shape in wanted)


@functools.lru_cache(maxsize=1024)
def _expression(shape: Pattern) -> "re.Pattern[str]":
    return re.compile(".*".join(map(re.escape, shape)), re.IGNORECASE | re.ASCII | re.DOTALL)
