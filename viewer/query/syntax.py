"""Pure: a filter as a tree, and the tree as text again.

`str()` of a tree is a filter that parses to the same tree. Durations are whole nanoseconds, shares are fractions of 1,
timestamps are ISO 8601 in UTC, as on the tape. A pattern is the pieces of a text between its wildcards (`*`).
`wiretape.viewer.source.tape.conditions` translates the tree to SQL.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from wiretape.viewer.query.fields import FIELDS
from wiretape.viewer.query.operators import DURATIONS, SIGNS, Number, Span, symbol

Pattern = tuple[str, ...]
Order = Literal[">", ">=", "<", "<="]

KEYWORDS = frozenset({"and", "or", "not"})
_SECOND_NS = 10**9
_PLAIN = re.compile(rf'[^\s()",*\\{SIGNS}-][^\s()",*\\{SIGNS}]*')


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts."""

    parts: "tuple[Filter, ...]"

    def __str__(self) -> str:
        return " ".join(f"({part})" if isinstance(part, And | Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the parts."""

    parts: "tuple[Filter, ...]"

    def __str__(self) -> str:
        return " or ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """Everything but the part; exchanges for which the part is unknown are included."""

    part: "Filter"

    def __str__(self) -> str:
        return f"-({self.part})" if isinstance(self.part, And | Or) else f"-{self.part}"


@dataclass(frozen=True, slots=True)
class Word:
    """A word in the model, the text, the host or the path, in the value of a label, or at the beginning of the id."""

    pattern: Pattern

    def __str__(self) -> str:
        return _pattern_text(self.pattern)


@dataclass(frozen=True, slots=True)
class Match:
    """A text that fits one of the patterns, or, negated, a known text that fits none of them."""

    field: str
    patterns: tuple[Pattern, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.field}{symbol('equal', is_negated=self.negated)}{','.join(map(_pattern_text, self.patterns))}"


@dataclass(frozen=True, slots=True)
class Regex:
    """A text that the regular expression matches, or, negated, a known text that it does not match."""

    field: str
    pattern: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.field}{symbol('regex', is_negated=self.negated)}{_quoted(self.pattern)}"


@dataclass(frozen=True, slots=True)
class Among:
    """A number within one of the spans, ends included, or, negated, a known number within none of them."""

    field: str
    spans: tuple[Span, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{_short(self.field)}{symbol('equal', is_negated=self.negated)}{','.join(map(self._span, self.spans))}"

    def _span(self, span: Span) -> str:
        low, high = (None if end is None else amount(self.field, end) for end in span)
        return str(low) if low == high else f"{low or ''}..{high or ''}"


@dataclass(frozen=True, slots=True)
class Compare:
    """A number, or a timestamp, on one side of a limit."""

    field: str
    order: Order
    limit: Number | str

    def __str__(self) -> str:
        limit = self.limit if isinstance(self.limit, str) else amount(self.field, self.limit)
        return f"{_short(self.field)}{self.order}{limit}"


@dataclass(frozen=True, slots=True)
class Labelled:
    """One of the labels: (key, pattern of its value, or None for any). Negated: every key, with another value."""

    labels: tuple[tuple[str, Pattern | None], ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"label{symbol('equal', is_negated=self.negated)}{','.join(map(_label, self.labels))}"


Filter = And | Or | Not | Word | Match | Regex | Among | Compare | Labelled
"""A filter: a condition on an exchange."""


def every(parts: list[Filter]) -> Filter:
    """Join at least one filter with "and"."""
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def either(parts: list[Filter]) -> Filter:
    """Join at least one filter with "or"."""
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def amount(field: str, number: Number) -> str:
    """Write a number as a value of the field, with its unit."""
    exact = Decimal(repr(number))
    unit = ""
    if FIELDS[field].kind in DURATIONS:
        unit = "s" if exact and exact % _SECOND_NS == 0 else "ms"
        exact = exact.scaleb(-9 if unit == "s" else -6)
    digits = f"{exact:f}"
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}{unit}"


def terms(filter: Filter) -> Iterator[Filter]:
    """Yield the terms of a filter."""
    match filter:
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)
        case Not(part):
            yield from terms(part)
        case _:
            yield filter


def is_starred(filter: Filter) -> bool:
    """Return True if a text in quotes holds a `*`, which is no wildcard there."""
    return any(len(pattern) == 1 and "*" in pattern[0] for term in terms(filter) for pattern in _patterns(term))


def _patterns(term: Filter) -> Iterable[Pattern]:
    match term:
        case Word(pattern):
            return [pattern]
        case Match(_, patterns):
            return patterns
        case Labelled(labels):
            return [pattern for _, pattern in labels if pattern is not None]
    return ()


def _short(field: str) -> str:
    """Return the name to print before a number; a duration has none of its unit, since its values have one."""
    return field.removesuffix("_ms") if FIELDS[field].kind in DURATIONS else field


def _pattern_text(pattern: Pattern) -> str:
    if len(pattern) > 1:
        return "*".join(pattern)
    (text,) = pattern
    return text if _PLAIN.fullmatch(text) and text.lower() not in KEYWORDS else _quoted(text)


def _label(label: tuple[str, Pattern | None]) -> str:
    key, pattern = label
    return key if pattern is None else f"{key}={_pattern_text(pattern)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
