"""Pure: the filter language, text in, tree out; one grammar for every command.

    expr   := and ("or" and)*            and   := unary ("and"? unary)*
    unary  := ("-" | "not") unary | "(" expr ")" | term
    term   := field op value ("," value)* | word | "a phrase"
    op     := ":" | "=" | "!=" | ">" | ">=" | "<" | "<=" | "~" (regular expression) | "!~"
    value  := number[unit] | lo..hi | word with * | "a phrase" | time

A phrase has no wildcards; in it `\\"` is `"` and `\\\\` is `\\`. Fields are those of `fields`, values those of
`values`. The limits keep a filter within what SQLite evaluates: an expression that is 1,000 deep at most.
"""

import re
from datetime import UTC, datetime
from typing import Final

from recorder.clock import SYSTEM, Clock
from viewer.filters import terms
from viewer.filters.fields import FIELDS, NAMES, Field
from viewer.filters.lexer import WORD, Cursor, FilterError, checked
from viewer.filters.syntax import KEYWORDS, Filter, Not, Word, either, every

__all__ = ["LONGEST", "FilterError", "now", "parse", "sort_order"]

LONGEST: Final = 4000
"""The longest filter, in characters."""

_DEEPEST = 40
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\s*(!=|!~|>=|<=|[:=><~])\s*")
_SORTABLE = frozenset({"duration", "count", "rate", "share", "time"})


def parse(text: str, clock: Clock = SYSTEM) -> Filter:
    """Read a filter; relative times are counted from the clock's wall time. Raises `FilterError`."""
    if len(text) > LONGEST:
        raise FilterError(text[:20], 0, f"expected a filter of at most {LONGEST:,} characters")
    return _Parser(checked(text), now(clock)).whole()


def now(clock: Clock = SYSTEM) -> datetime:
    """Give the clock's wall time, in UTC."""
    return datetime.fromtimestamp(clock.wall_ns() / 1e9, UTC)


def sort_order(text: str) -> tuple[str, bool]:
    """Read what to sort by, such as `ttft` or `-gap.max`: a field of a row, and whether the largest come first.

    Raises a `ValueError` that says what was expected.
    """
    name = text.removeprefix("-")
    field = terms.named(name, known=[one for one, meant in NAMES.items() if _is_sortable(FIELDS[meant])])
    if not _is_sortable(field):
        raise ValueError(f"exchanges cannot be sorted by {name}; sort by a number, a time or a name")
    return field.rows[0], text.startswith("-")


def _is_sortable(field: Field) -> bool:
    return field.kind in _SORTABLE or field.rows == (field.name,)


class _Parser:
    """Recursive descent over one filter."""

    def __init__(self, text: str, at: datetime) -> None:
        self._cursor = Cursor(text)
        self._now = at
        self._depth = 0

    def whole(self) -> Filter:
        found = self._or()
        if self._cursor.rest():
            raise self._cursor.error("expected another term, or the end")
        return found

    def _or(self) -> Filter:
        parts = [self._and()]
        while self._keyword("or"):
            parts.append(self._and())
        return either(parts)

    def _and(self) -> Filter:
        parts = [self._unary()]
        while self._keyword("and") or self._more():
            parts.append(self._unary())
        return every(parts)

    def _more(self) -> bool:
        return self._cursor.rest()[:1] not in ("", ")") and self._cursor.next_word() != "or"

    def _unary(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._cursor.error(f"expected at most {_DEEPEST} levels of parentheses and negation")
        if self._cursor.take("-") or self._keyword("not"):
            found: Filter = Not(self._unary())
        else:
            found = self._group() if self._cursor.take("(") else self._term()
            self._cursor.separated()
        self._depth -= 1
        return found

    def _group(self) -> Filter:
        found = self._or()
        if not self._cursor.take(")"):
            raise self._cursor.error("expected )")
        return found

    def _term(self) -> Filter:
        self._cursor.rest()
        start = self._cursor.at
        match = self._cursor.match(_FIELD)
        if match is None:
            return self._word()
        name, operator = match[1], match[2]
        try:
            field = terms.named(name, f"; a text with {operator} in it needs quotes")
        except ValueError as error:
            raise FilterError(name, start, str(error)) from None
        if operator not in (allowed := terms.operators(field)):
            raise FilterError(f"{name}{operator}", start, f"expected one of {' '.join(allowed)} after {name}")
        return terms.term(field, name, operator, self._cursor, self._now)

    def _word(self) -> Filter:
        rest = self._cursor.rest()
        if rest.startswith(tuple("<>=~:!")):
            raise self._cursor.error(f"expected a field before {rest[0]}")
        if self._cursor.next_word() in KEYWORDS:
            raise self._cursor.error("expected a term; to search for this word, put it in quotes")
        return Word(self._cursor.item(WORD, "expected a term, such as ttft>800ms, or a word").pattern)

    def _keyword(self, name: str) -> bool:
        return self._cursor.next_word() == name and self._cursor.match(WORD) is not None
