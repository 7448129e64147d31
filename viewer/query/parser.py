"""Pure: the parser of the filter language; one grammar for every command.

    expr   := and ("or" and)*            and   := unary ("and"? unary)*
    unary  := ("-" | "not") unary | "(" expr ")" | term
    term   := field op value ("," value)* | word | "a phrase"
    op     := ":" | "=" | "!=" | ">" | ">=" | "<" | "<=" | "~" (regular expression) | "!~"
    value  := number[unit] | lo..hi | word with * | "a phrase" | time

A phrase has no wildcards; in it `\\"` is `"` and `\\\\` is `\\`. Fields are those of `fields`, values those of
`values`: the syntax of a value depends on its field's kind. The limits keep a filter below SQLite's maximum depth of an
expression, 1,000. A filter that cannot be parsed raises a `FilterError` with the position and the expected syntax.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar, cast

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.sanitize import safe
from wiretape.viewer.query import guesses
from wiretape.viewer.query.fields import CHOICES, FIELDS, HAS, KNOWABLE, NAMES, OUTCOME_WORDS, Field
from wiretape.viewer.query.operators import KINDS, OPERATORS, SIGNS, Number, Span, alternatives
from wiretape.viewer.query.syntax import (
    KEYWORDS,
    Among,
    And,
    Compare,
    Filter,
    Labelled,
    Match,
    Not,
    Order,
    Pattern,
    Regex,
    Word,
    either,
    every,
)
from wiretape.viewer.query.values import compiled_regex, is_relative, number, pattern, period

T = TypeVar("T")

WORD: Final = re.compile(r"[^\s()\"]+")
"""A word that stands alone."""

VALUE: Final = re.compile(r"[^\s(),\"]+")
"""A value of a field: it ends at a comma, too."""

_SHOWN = r"(?:(?:\d{4}-)?\d\d-\d\d[T ])?\d\d?:\d\d(?::\d\d(?:\.\d{1,6})?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
TIME: Final = re.compile(rf"{_SHOWN}(?:\.\.{_SHOWN})?(?![^\s(),])|{VALUE.pattern}")
"""A time, or two with dots between them; it may have blanks, as screens show it."""

_MOST_VALUES = 100
"""Maximum number of values in a filter: each may deepen the SQL expression by one."""

_PHRASE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\])')
_UNSAFE = re.compile("[\0\ud800-\udfff]")
_SPACE = re.compile(r"\s*")


class FilterError(ValueError):
    """A filter that cannot be read; `position` is the index of the first wrong character."""

    def __init__(self, token: str, position: int, message: str) -> None:
        place = f"{safe(token)!r} (character {position + 1})" if token else "at the end"
        super().__init__(f"{place}: {message}")
        self.token = token
        self.position = position


def checked(text: str) -> str:
    """Return the text unchanged. Raise `FilterError` if it has a NUL or cannot be encoded as UTF-8."""
    if unsafe := _UNSAFE.search(text):
        raise FilterError(unsafe[0], unsafe.start(), "expected text")
    return text


@dataclass(frozen=True, slots=True)
class FilterItem:
    """A value in a filter: its text, True for a phrase in quotes, and its position."""

    text: str
    is_phrase: bool
    position: int

    @property
    def pattern(self) -> Pattern:
        return (self.text,) if self.is_phrase else pattern(self.text)

    def error(self, message: str) -> FilterError:
        """Return the error that something else was expected than this value."""
        return FilterError(self.text, self.position, message)

    def read(self, reader: Callable[[str], T], text: str | None = None) -> T:
        """Read the value, or a part of it; the reader's `ValueError` becomes a `FilterError` at this place."""
        try:
            return reader(self.text if text is None else text)
        except ValueError as error:
            raise self.error(str(error)) from None


class Cursor:
    """A position in a text, which advances as parts are consumed; `at` is its index."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._values = 0

    def remainder(self) -> str:
        """Skip spaces, and return the remainder."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        return self.text[self.at :]

    def take(self, sign: str) -> bool:
        """Consume a sign if it comes next, and return whether it did."""
        if not self.remainder().startswith(sign):
            return False
        self.at += len(sign)
        return True

    def match(self, expression: "re.Pattern[str]") -> "re.Match[str] | None":
        """Consume an expression's match at the current position, if there is one."""
        match = expression.match(self.remainder())
        self.at += match.end() if match else 0
        return match

    def next_word(self) -> str:
        """Return the word that comes next, in lower case, without consuming it."""
        word = WORD.match(self.remainder())
        return word[0].lower() if word else ""

    def item(self, bare: "re.Pattern[str]", expected: str) -> FilterItem:
        """Consume a phrase, or a match of `bare`."""
        self._values += 1
        if self._values > _MOST_VALUES:
            raise self.error(f"expected at most {_MOST_VALUES} values in all")
        if self.remainder().startswith('"'):
            return self._phrase()
        start = self.at
        word = self.match(bare)
        if word is None:
            raise self.error(expected)
        return FilterItem(word[0], False, start)

    def items(self, bare: "re.Pattern[str]" = VALUE) -> list[FilterItem]:
        """Consume phrases or matches of `bare` with commas between them."""
        items = [self.item(bare, "expected a value")]
        while self.take(","):
            items.append(self.item(bare, "expected a value"))
        return items

    def expression(self) -> FilterItem:
        """Consume a phrase, or the text up to the next space or unopened closing parenthesis."""
        if self.remainder().startswith('"'):
            return self._phrase()
        start, depth = self.at, 0
        while self.at < len(self.text) and not self.text[self.at].isspace():
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            if depth < 0:
                break
            self.at += 1
        if start == self.at:
            raise self.error("expected a regular expression")
        return FilterItem(self.text[start : self.at], False, start)

    def separated(self) -> None:
        """Raise `FilterError` unless a term ends here: otherwise one intended term would be parsed as two."""
        neighbours = self.text[max(self.at - 1, 0) : self.at + 1]
        if self.at < len(self.text) and neighbours[-1] != ")" and not any(sign.isspace() for sign in neighbours):
            raise self.error("expected a space; to keep a text together, put it in quotes")

    def error(self, message: str) -> FilterError:
        """Return the error that something else was expected at this place."""
        remainder = self.remainder()
        word = WORD.match(remainder)
        return FilterError(word[0] if word else remainder[:1], self.at, message)

    def _phrase(self) -> FilterItem:
        start = self.at
        phrase = self.match(_PHRASE)
        if phrase is None:
            raise self.error('expected a closing "')
        return FilterItem(_ESCAPE.sub(r"\1", phrase[1]), True, start)


_STATUS_CLASS = re.compile(r"[1-5]xx", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def field_named(name: str, hint: str = "", names: Collection[str] = NAMES) -> Field:
    """Return the field that a name means; raise a `ValueError` that suggests others."""
    if name.lower() not in NAMES:
        choices = (candidate for candidate in names if not candidate.endswith("_ms"))
        raise ValueError(f"there is no such field{guesses.advice(name, choices)}{hint}")
    return FIELDS[NAMES[name.lower()]]


def operators(field: Field) -> tuple[str, ...]:
    if field.name in ("since", "until"):
        return (":", "=")
    return tuple(sign for sign, operator in OPERATORS.items() if operator.form in KINDS[field.kind].forms)


def term(field: Field, name: str, operator: str, cursor: Cursor, now: datetime) -> Filter:
    """Parse the values of a term, where the cursor is; `name` is the field's name as it was written."""
    form, negated = OPERATORS[operator].form, OPERATORS[operator].is_negated
    if form == "regex":
        item = cursor.expression()
        item.read(compiled_regex)
        return Regex(field.name, item.text, negated)
    if field.kind == "label":
        labels = [_label(cursor, negated)]
        while cursor.take(","):
            labels.append(_label(cursor, negated))
        return Labelled(tuple(labels), negated)
    items = cursor.items(TIME if field.kind == "time" else VALUE)
    if form == "equal":
        if field.kind == "time":
            times = either([_time(field, item, now) for item in items])
            return Not(times) if negated else times
        if field.kind in ("text", "has"):
            return Match(
                field.name, tuple(value_pattern for item in items for value_pattern in _patterns(field, item)), negated
            )
        return Among(field.name, tuple(_span(field, name, item) for item in items), negated)
    if len(items) > 1:
        raise items[1].error(f"expected a single value after {operator}")
    return _compared(field, name, cast(Order, operator), items[0], now)


def label(text: str) -> tuple[str, Pattern | None]:
    """Parse `key=value`, or `key` alone; the value may have wildcards. Raises `ValueError`."""
    key, equals, value = text.partition("=")
    if not _KEY.fullmatch(key):
        raise ValueError("expected a label, such as run=a7")
    return key, pattern(value) if equals else None


def started(order: Order, text: str, now: datetime) -> Filter:
    """Return the filter that compares the start with a time; after a day is after all of it. Raises `ValueError`."""
    start, end = period(text, now)
    if end is not None and order in (">", "<="):
        return Compare("started_at", ">=" if order == ">" else "<", end)
    return Compare("started_at", order, start)


def _compared(field: Field, name: str, order: Order, item: FilterItem, now: datetime) -> Filter:
    if field.kind == "time":
        return item.read(lambda text: started(order, text, now))
    return Compare(field.name, order, _number(field, name, item, item.text))


def _number(field: Field, name: str, item: FilterItem, text: str) -> Number:
    in_ms = name.lower().endswith("_ms")
    return item.read(lambda part: number(part, field.kind, in_ms=in_ms), text)


def _span(field: Field, name: str, item: FilterItem) -> Span:
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


def _time(field: Field, item: FilterItem, now: datetime) -> Filter:
    """Parse a value of a time: `since` and `until` are its beginning, `at` is all of it."""
    if field.name != "started_at":
        order: Order = ">=" if field.name == "since" else "<"
        return item.read(lambda text: started(order, text, now))
    low, dots, high = item.text.partition("..")
    if dots and not (low and high):
        raise item.error("expected a time on both sides; or write since: or until:")
    if not dots and is_relative(low):
        raise item.error("expected a day or a time of day; or write since:")
    begins = item.read(lambda text: started(">=", text, now), low)
    ends = item.read(lambda text: started("<=", text, now), high or low)
    return And((begins, ends))


def _patterns(field: Field, item: FilterItem) -> list[Pattern]:
    """Parse a value of a text; where a field has certain values only, one of these, unless there are wildcards."""
    choices = CHOICES.get(field.name, ())
    if not choices or (len(item.pattern) > 1 and field.kind == "text"):
        return [item.pattern]
    word = item.text.lower()
    if field.name == "has":
        return [(_having(word, item),)]
    if word not in choices:
        source = "'wiretape help filters' lists all, 'wiretape help fields' other fields"
        raise item.error(f"no such {field.name.removesuffix('s')}{guesses.advice(word, choices, source, terms=True)}")
    return [(name,) for name in (OUTCOME_WORDS[word] if field.name == "outcome" else (word,))]


def _having(word: str, item: FilterItem) -> str:
    """Parse a value of `has`: one of its words, or a field by any of its names."""
    name = word if word in HAS else NAMES.get(word, "")
    if name in HAS or name in KNOWABLE:
        return name
    offered = dict.fromkeys((*HAS, *(candidate.removesuffix("_ms") for candidate in sorted(KNOWABLE))))
    raise item.error(f"no such word or field{guesses.advice(word, offered)}")


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


LONGEST: Final = 4000
"""The longest filter, in characters."""

_DEEPEST = 40
_FIELD = re.compile(rf"([A-Za-z_][A-Za-z0-9_.]*)\s*({alternatives('equal', 'order', 'regex')})\s*")
_SORTABLE = frozenset({"duration", "count", "rate", "share", "time"})


def parse(text: str, clock: Clock = SYSTEM) -> Filter:
    """Parse a filter; relative times are counted from the clock's wall time. Raises `FilterError`."""
    if len(text) > LONGEST:
        raise FilterError(text[:20], 0, f"expected a filter of at most {LONGEST:,} characters")
    return _Parser(checked(text), now(clock)).tree()


def conjuncts(text: str, clock: Clock = SYSTEM) -> list[tuple[Filter, str]]:
    """Return the parts that a filter joins with "and", also in parentheses, each with its text as it was typed.

    A filter that is an "or" is one part, in parentheses. Raises `FilterError`.
    """
    tree = parse(text, clock)
    parts = _Parser(text, now(clock)).conjuncts()
    if not parts:
        return [(tree, f"({text.strip()})")]
    return [
        nested
        for part, typed in parts
        for nested in (
            conjuncts(typed[1:-1], clock) if isinstance(part, And) and typed.startswith("(") else [(part, typed)]
        )
    ]


def now(clock: Clock = SYSTEM) -> datetime:
    return datetime.fromtimestamp(clock.wall_ns() / 1e9, UTC)


def sort_order(text: str) -> tuple[str, bool]:
    """Parse a sort key, such as `ttft` or `-max_gap`: a field of a row, and True for descending order.

    Raises a `ValueError` that names the expected syntax.
    """
    name = text.removeprefix("-")
    field = field_named(
        name, names=[candidate for candidate, field_name in NAMES.items() if _is_sortable(FIELDS[field_name])]
    )
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

    def tree(self) -> Filter:
        tree = self._or()
        if self._cursor.remainder():
            raise self._cursor.error("expected another term, or the end")
        return tree

    def conjuncts(self) -> list[tuple[Filter, str]]:
        """Return the parts of the outermost "and" with their texts; none if there is an "or" beside it."""
        parts = list[tuple[Filter, str]]()
        while not parts or self._keyword("and") or self._more():
            self._cursor.remainder()
            start = self._cursor.at
            part = self._unary()
            parts.append((part, self._cursor.text[start : self._cursor.at].rstrip()))
        return [] if self._cursor.remainder() else parts

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
        return self._cursor.remainder()[:1] not in ("", ")") and self._cursor.next_word() != "or"

    def _unary(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._cursor.error(f"expected at most {_DEEPEST} levels of parentheses and negation")
        if self._cursor.take("-") or self._keyword("not"):
            tree: Filter = Not(self._unary())
        else:
            tree = self._group() if self._cursor.take("(") else self._term()
            self._cursor.separated()
        self._depth -= 1
        return tree

    def _group(self) -> Filter:
        tree = self._or()
        if not self._cursor.take(")"):
            raise self._cursor.error("expected )")
        return tree

    def _term(self) -> Filter:
        self._cursor.remainder()
        start = self._cursor.at
        match = self._cursor.match(_FIELD)
        if match is None:
            remainder = self._cursor.remainder()
            if remainder.startswith(tuple(SIGNS)):
                raise self._cursor.error(f"expected a field before {remainder[0]}")
            if self._cursor.next_word() in KEYWORDS:
                raise self._cursor.error("expected a term; to search for this word, put it in quotes")
            return Word(self._cursor.item(WORD, "expected a term, such as ttft>800ms, or a word").pattern)
        name, operator = match[1], match[2]
        try:
            field = field_named(name, f"; a text with {operator} in it needs quotes")
        except ValueError as error:
            raise FilterError(name, start, str(error)) from None
        if operator not in (allowed := operators(field)):
            raise FilterError(f"{name}{operator}", start, f"expected one of {' '.join(allowed)} after {name}")
        return term(field, name, operator, self._cursor, self._now)

    def _keyword(self, name: str) -> bool:
        return self._cursor.next_word() == name and self._cursor.match(WORD) is not None
