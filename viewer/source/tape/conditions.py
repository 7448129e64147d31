"""A filter in SQL: a condition over exchanges left-joined to measures.

An unknown value fits no comparison, nor its negation by an operator (`!=`, `!~`). `-` is the logical negation, so
`-ttft>1s` holds for an exchange without a `ttft`. Case is ignored where it is ASCII's. A text is matched by shapes:
alternative patterns for the whole text. Durations compare to the nanosecond. The text of a tool call is
`name(arguments)`, as `show` prints it. A condition on gaps holds if any gap fits; the exchange's histogram is searched
first, and the gaps themselves only if it does not decide.

Each condition is true or false and never null, values are bound parameters, and a regular expression is SQLite's
REGEXP, whose function `register` adds to a connection.
"""

import functools
import json
import math
import re
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.metrics import percentile
from wiretape.recorder.facts import Style
from wiretape.recorder.tape import packing
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import (
    Boolean,
    Expression,
    LargeBinary,
    Text,
    and_,
    as_blob,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    type_coerce,
)
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.query.fields import FIELDS, having
from wiretape.viewer.query.operators import ORDERINGS, Number, Span
from wiretape.viewer.query.syntax import (
    Among,
    And,
    Compare,
    Filter,
    Labelled,
    Match,
    Not,
    Or,
    Pattern,
    Regex,
    Word,
)
from wiretape.viewer.query.values import Searches
from wiretape.viewer.source.tape.columns import IS_TOOL_CALL, column, each_label, label, tool_call

Condition = Expression
Check = Callable[[Expression], Condition]

SearchStyle = Style | Literal["in_host"]

WORD_IN: Final[dict[str, SearchStyle]] = {"model": "within", "upstream": "in_host", "path": "within", "id": "prefix"}
"""Fields that a bare word is searched in, besides `text` and the values of labels, each with its style of search."""

_LONGEST_GAP = 2**63 - 1


def register(connection: Connection, searches: Searches) -> None:
    """Register the functions behind REGEXP (the `searches`), `gap:` and `gap.p50:` and its like on a connection."""
    driver = connection.driver
    driver.create_function("regexp", 2, searches.search, deterministic=True)
    driver.create_function("uncoded", 2, _uncoded, deterministic=True)
    driver.create_function("has_gap", 3, _has_gap, deterministic=True)
    driver.create_function("gap_percentile", 2, _stored_percentile, deterministic=True)
    connection.on_begin, connection.failure = searches.begin, searches.failure


@functools.singledispatch
def condition(filter: Filter) -> Condition:
    """Return a filter as a condition on `columns.JOINED`."""
    raise TypeError(filter)


@condition.register
def _conjunction(filter: And) -> Condition:
    return and_(*map(condition, filter.parts))


@condition.register
def _disjunction(filter: Or) -> Condition:
    return or_(*map(condition, filter.parts))


@condition.register
def _negation(filter: Not) -> Condition:
    return not_(condition(filter.part))


@condition.register
def _word(filter: Word) -> Condition:
    labels = each_label()
    in_label = exists(labels, _like(labels.c.value, shapes("within", filter.pattern)))
    in_fields = [_is_true(_like(column(name), shapes(style, filter.pattern))) for name, style in WORD_IN.items()]
    in_texts = [_is_true(_like(text, shapes("within", filter.pattern))) for text in _texts("text")]
    return or_(*in_fields, in_label, *in_texts)


@condition.register
def _comparison(filter: Compare) -> Condition:
    if filter.field == "gap" and not isinstance(filter.limit, str):
        return _gapped([ORDERINGS[filter.order].span(filter.limit)], negated=False)
    compared: Condition = ORDERINGS[filter.order].holds(column(filter.field), filter.limit)
    # The start is never null; without a function around it, its index serves.
    return compared if filter.field == "started_at" else _is_true(compared)


@condition.register
def _ranges(filter: Among) -> Condition:
    if filter.field == "gap":
        return _gapped(filter.spans, filter.negated)
    return _holds(
        [column(filter.field)], lambda value: or_(*(_between(value, *span) for span in filter.spans)), filter.negated
    )


@condition.register
def _search(filter: Regex) -> Condition:
    texts = _texts(filter.field)
    if filter.field == "flags":
        texts = [func.trim(_flags(with_duplicate="dup" in filter.pattern.lower()))]
    elif filter.field == "prompt":  # as it is: a body that is not UTF-8 reaches the function as bytes
        texts = [type_coerce(_request(), Text)]
    return _holds(texts, lambda text: text.regexp_match(filter.pattern), filter.negated)


@condition.register
def _labels(filter: Labelled) -> Condition:
    judged = [_holds([label(key)], _fits_label(pattern), filter.negated) for key, pattern in filter.labels]
    return and_(*judged) if filter.negated else or_(*judged)


@condition.register
def _match(filter: Match) -> Condition:
    if filter.field == "has":
        present = or_(*(column(name).is_not(null()) for (word,) in filter.patterns for name in having(word)))
        return not_(present) if filter.negated else present
    matched = field_shapes(filter)
    if filter.field == "flags":
        with_duplicate = any("dup" in part.lower() for pattern in filter.patterns for part in pattern)
        return _holds([_flags(with_duplicate=with_duplicate)], lambda text: _like(text, matched), filter.negated)
    return _holds(_texts(filter.field), lambda text: _like(text, matched), filter.negated)


def _holds(values: Sequence[Expression], check: Check, negated: bool) -> Condition:
    """Require that one of a field's values passes the check; negated, that none does although one is known."""
    passes = or_(*(_is_true(check(value)) for value in values))
    is_known = or_(*(value.is_not(null()) for value in values))
    return and_(is_known, not_(passes)) if negated else passes


def _is_true(check: Condition) -> Condition:
    return func.coalesce(check, false(), type_=Boolean)


def _between(value: Expression, low: Number | None, high: Number | None) -> Condition:
    return and_(true() if low is None else value >= low, true() if high is None else value <= high)


def _gapped(spans: Sequence[Span], negated: bool) -> Condition:
    """Require a gap within one of the spans, ends included; negated, that there are gaps and none is within."""
    within = or_(*(_gap_within(low, high) for low, high in spans))
    return and_(_gap_within(None, None), not_(within)) if negated else within


def _gap_within(low: Number | None, high: Number | None) -> Condition:
    """Require a gap from `low` to `high`, by the histogram where that decides: it counts gaps by their bit lengths.

    The gaps themselves are searched only if a bound is within a bucket and no other bucket decides. Chunks of one read,
    which are 0 apart, have no gap.
    """
    least, most = max(math.ceil(low or 0), 1), min(_LONGEST_GAP if high is None else math.floor(high), _LONGEST_GAP)
    if least > most:
        return false()
    first, last = least.bit_length(), most.bit_length()
    sure_from = first + (least > (1 << first) >> 1)
    sure_to = last - (most < (1 << last) - 1)
    with_gap: Condition = func.has_gap(measures.c.icl, least, most, type_=Boolean)
    looked_at = [] if (sure_from, sure_to) == (first, last) else [(_counted(first, last), with_gap)]
    # Only what CASE comes to is worked out: of AND and OR both sides would be.
    return case((_counted(sure_from, sure_to), true()), *looked_at, else_=false())


def _counted(first: int, last: int) -> Condition:
    """Require that the histogram has counted a gap with a bit length in this range."""
    if first > last:
        return false()
    nothing = bytes(4 * (last - first + 1))
    # Compared as bytes, where not all are zeros, the slice is greater.
    counts = func.substr(measures.c.gap_hist, 4 * first + 1, len(nothing), type_=LargeBinary)
    return counts > nothing


def _has_gap(gaps: bytes | None, least: int, most: int) -> bool:
    return any(least <= gap <= most for gap in unpacked(_stored(gaps)))


def _stored_percentile(gaps: bytes | None, fraction: float) -> int | None:
    return gap_percentile(_stored(gaps), fraction)


def _stored(gaps: object) -> bytes:
    """Return the gaps in a cell, unchecked."""
    return packing.unpack_gaps(gaps) if isinstance(gaps, bytes) and packing.are_gaps(gaps) else b""


def _fits_label(pattern: Pattern | None) -> Check:
    return lambda value: value.is_not(null()) if pattern is None else _like(value, [pattern])


def _flags(*, with_duplicate: bool) -> Expression:
    """Return the flags with a space around each; the one of duplicates, which needs whole sessions, on request."""
    flags: Expression = literal(" ") + func.coalesce(func.nullif(column("flags"), "") + " ", "")
    return flags + case((column("duplicate_of").is_not(null()), "duplicate "), else_="") if with_duplicate else flags


def _texts(field: str) -> list[Expression]:
    if field == "upstream":
        return [_text(column(field)), column("upstream_name")]
    texts: dict[str, Callable[[], Expression]] = {
        "request_body": lambda: cast(_request(), Text),
        "tool_calls": _called,
    }
    return [texts[name]() if name in texts else _text(column(name)) for name in FIELDS[field].rows]


def _text(expression: Expression) -> Expression:
    is_boolean = expression.type.python_type is bool
    return case((expression, "yes"), (expression.is_(false()), "no")) if is_boolean else expression


def _request() -> Expression:
    """Return the body of a request without its content encoding."""
    body, headers = column("request_body"), exchanges.c.request_headers
    is_coded = type_coerce(headers, Text).like('%"content-encoding"%')  # cheap: a body may have to be joined
    return case((is_coded, func.uncoded(as_blob(headers), body)), else_=body)


def _uncoded(headers: bytes, body: object) -> Any:
    try:
        return encoding.uncoded(json.loads(headers), body) if isinstance(body, bytes) else body
    except (ValueError, TypeError):  # the cell is damaged
        return body


def _called() -> Expression:
    """Return the tool calls as `show` prints them, `name(arguments)`, each on its line; null if there are none."""
    name, arguments = (func.coalesce(tool_call(key), "") for key in ("name", "arguments"))
    return select(func.group_concat(name + "(" + arguments + ")", "\n")).where(IS_TOOL_CALL).scalar_subquery()


def _like(text: Expression, shapes: Sequence[Pattern]) -> Condition:
    """Require that a text has one of some shapes, without regard to case."""
    escaped = [[re.sub(r"([\\%_])", r"\\\1", part) for part in shape] for shape in shapes]
    return or_(*(text.ilike("%".join(parts)) for parts in escaped))


def shapes(style: SearchStyle, pattern: Pattern) -> list[Pattern]:
    """Return the shapes of whole texts in which a search of a style finds a pattern."""
    first, *rest = pattern
    match style:
        case "prefix":
            return [(*pattern, "")]
        case "within":
            return [("", *pattern, "")]
        case "word":
            spaced = (f" {first}", *rest[:-1], f"{rest[-1]} ") if rest else (f" {first} ",)
            return [("", *spaced, "")]
        case "path":
            return [pattern, _going_on_by(pattern, "?")]
        case "in_host":
            return [("", "://", *pattern, "")]
        case "host":
            host = ("", f"://{first}", *rest)
            return [pattern, host, _going_on_by(host, "/"), _going_on_by(host, ":")]
    return [pattern]


def _going_on_by(pattern: Pattern, sign: str) -> Pattern:
    """Return a pattern that is followed by a sign and any text."""
    return (*pattern[:-1], pattern[-1] + sign, "")


def field_shapes(match: Match) -> list[Pattern]:
    """Return the shapes of the texts of a field that match."""
    return [shape for pattern in match.patterns for shape in shapes(FIELDS[match.field].style, pattern)]


def unpacked(gaps: bytes | None) -> Sequence[int]:
    """Return packed gaps, int64, in ns; a number that is cut off at the end is left out."""
    numbers = array("q", (gaps or b"")[: len(gaps or b"") // 8 * 8])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def gap_percentile(gaps: bytes | None, fraction: float) -> int | None:
    """Return a percentile of packed gaps, in ns: of those between reads, since chunks of one read are 0 apart."""
    between = sorted(gap for gap in unpacked(gaps) if gap > 0)
    return round(percentile(between, fraction)) if between else None
