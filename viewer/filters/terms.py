"""Pure: one term of a filter, a field with an operator and its values, as the node of the tree that it means.

What a value looks like depends on its field's kind. `filtering.parser` puts terms together.
"""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Final, cast

from viewer.filters.fields import CHOICES, FIELDS, HAS, KNOWABLE, NAMES, OUTCOME_WORDS, Field, closest_first
from viewer.filters.lexer import VALUE, Cursor, Item
from viewer.filters.patterns import compiled
from viewer.filters.syntax import (
    Among,
    And,
    Compare,
    Filter,
    Labelled,
    Match,
    Not,
    Number,
    Order,
    Pattern,
    Regex,
    Span,
    either,
)
from viewer.filters.values import is_relative, number, pattern, period

_NUMERIC = (":", "=", "!=", ">", ">=", "<", "<=")
OPERATORS: Final = {
    "text": (":", "=", "!=", "~", "!~"),
    "label": (":", "=", "!="),
    "has": (":", "=", "!="),
    **dict.fromkeys(("duration", "gaps", "count", "rate", "share", "time"), _NUMERIC),
}
"""The operators that each kind of field takes."""

_STATUS_CLASS = re.compile(r"[1-5]xx", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def named(name: str, hint: str = "", known: Collection[str] = NAMES) -> Field:
    """Return the field that a name means; raise a `ValueError` that lists the `known` ones, the closest first."""
    if name.lower() not in NAMES:
        raise ValueError(f"there is no such field: choose from {', '.join(_offered(name, known))}{hint}")
    return FIELDS[NAMES[name.lower()]]


def _offered(name: str, known: Collection[str]) -> list[str]:
    """Return the names to choose from, the closest first; of the other names of a field only what is very close."""
    ranked = closest_first(name, (one for one in known if not one.endswith("_ms")))
    return ranked[:3] + [one for one in ranked[3:] if one in FIELDS or f"{one}_ms" in FIELDS]


def operators(field: Field) -> tuple[str, ...]:
    """Give the operators that a field takes."""
    return (":", "=") if field.name in ("since", "until") else OPERATORS[field.kind]


def term(field: Field, name: str, operator: str, cursor: Cursor, now: datetime) -> Filter:
    """Read the values of a term, which the cursor has come to; `name` is the field's name as it was written."""
    if operator in ("~", "!~"):
        item = cursor.expression()
        item.read(compiled)
        return Regex(field.name, item.text, operator == "!~")
    if field.kind == "label":
        return _labels(cursor, operator == "!=")
    items = cursor.items()
    if operator in (":", "=", "!="):
        return _equal(field, name, operator == "!=", items, now)
    if len(items) > 1:
        raise items[1].error(f"expected a single value after {operator}")
    return _compared(field, name, cast(Order, operator), items[0], now)


def label(text: str) -> tuple[str, Pattern | None]:
    """Read `key=value`, or `key` alone; the value may have wildcards. Raises a `ValueError`."""
    key, equals, value = text.partition("=")
    if not _KEY.fullmatch(key):
        raise ValueError("expected a label, such as run=a7")
    return key, pattern(value) if equals else None


def started(order: Order, text: str, now: datetime) -> Filter:
    """Compare when an exchange started with a time; after a day is after all of it. Raises a `ValueError`."""
    start, end = period(text, now)
    if end is not None and order in (">", "<="):
        return Compare("started_at", ">=" if order == ">" else "<", end)
    return Compare("started_at", order, start)


def _equal(field: Field, name: str, negated: bool, items: list[Item], now: datetime) -> Filter:
    if field.kind == "time":
        found = either([_time(field, item, now) for item in items])
        return Not(found) if negated else found
    if field.kind in ("text", "has"):
        return Match(field.name, tuple(one for item in items for one in _patterns(field, item)), negated)
    return Among(field.name, tuple(_span(field, name, item) for item in items), negated)


def _compared(field: Field, name: str, order: Order, item: Item, now: datetime) -> Filter:
    if field.kind == "time":
        return item.read(lambda text: started(order, text, now))
    return Compare(field.name, order, _number(field, name, item, item.text))


def _number(field: Field, name: str, item: Item, text: str) -> Number:
    in_ms = name.lower().endswith("_ms")
    return item.read(lambda part: number(part, field.kind, in_ms=in_ms), text)


def _span(field: Field, name: str, item: Item) -> Span:
    if field.name == "status" and _STATUS_CLASS.fullmatch(item.text):
        return 100 * int(item.text[0]), 100 * int(item.text[0]) + 99
    low, dots, high = item.text.partition("..")
    if not dots:
        value = _number(field, name, item, item.text)
        return value, value
    if not low and not high:
        raise item.error("expected a number before or after the dots")
    ends = [_number(field, name, item, end) if end else None for end in (low, high)]
    return ends[0], ends[1]


def _time(field: Field, item: Item, now: datetime) -> Filter:
    """Read a value of a time: `since` and `until` are its beginning, `at` is all of it."""
    if field.name != "started_at":
        order: Order = ">=" if field.name == "since" else "<"
        return item.read(lambda text: started(order, text, now))
    low, dots, high = item.text.partition("..")
    if dots and not (low and high):
        raise item.error("expected a time on both sides; or write since: or until:")
    if not dots and is_relative(low):
        raise item.error("expected a day or a time of day; or write since:")
    first = item.read(lambda text: started(">=", text, now), low)
    last = item.read(lambda text: started("<=", text, now), high or low)
    return And((first, last))


def _patterns(field: Field, item: Item) -> list[Pattern]:
    """Read a value of a text; where a field has certain values only, one of these, unless there are wildcards."""
    choices = CHOICES.get(field.name, ())
    if not choices or (len(item.pattern) > 1 and field.kind == "text"):
        return [item.pattern]
    word = item.text.lower()
    if field.name == "has":
        return [(_having(word, item),)]
    if word not in choices:
        raise item.error(
            f"no such {field.name.removesuffix('s')}: choose from {', '.join(closest_first(word, choices))}"
        )
    return [(name,) for name in (OUTCOME_WORDS[word] if field.name == "outcome" else (word,))]


def _having(word: str, item: Item) -> str:
    """Read a value of `has`: one of its words, or a field by any of its names."""
    found = word if word in HAS else NAMES.get(word, "")
    if found in HAS or found in KNOWABLE:
        return found
    offered = dict.fromkeys((*HAS, *(name.removesuffix("_ms") for name in sorted(KNOWABLE))))
    raise item.error(f"no such word or field: choose from {', '.join(closest_first(word, offered))}")


def _labels(cursor: Cursor, negated: bool) -> Filter:
    found = [_label(cursor, negated)]
    while cursor.take(","):
        found.append(_label(cursor, negated))
    return Labelled(tuple(found), negated)


def _label(cursor: Cursor, negated: bool) -> tuple[str, Pattern | None]:
    key = cursor.match(_KEY)
    if key is None:
        raise cursor.error("expected a label, such as run=a7")
    if cursor.text.startswith("=", cursor.at):
        cursor.at += 1
        return key[0], cursor.item(VALUE, "expected the label's value").pattern
    if negated:
        raise cursor.error(f"expected = and a value; for exchanges without the label, write -label:{key[0]}")
    return key[0], None
