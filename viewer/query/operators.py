"""Pure: the operators of filters, a row each, and the kinds of values, a row each.

Parser, printer, completion, help and SQL use these rows.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, Final, Literal

Form = Literal["equal", "order", "regex"]
Kind = Literal["text", "duration", "gaps", "count", "rate", "share", "time", "label", "has"]
Number = int | float
Span = tuple[Number | None, Number | None]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: the form of its terms, whether these are negated, and their meaning in the help."""

    form: Form
    is_negated: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Ordering(Operator):
    """An operator that compares a number or a time with a limit.

    `holds` is its predicate; of a column it makes the condition, which each engine's dialect writes as SQL. `span`
    returns the whole numbers on that side of a limit.
    """

    holds: Callable[[Any, Any], Any]
    span: Callable[[Number], Span]


ORDERINGS: Final[Mapping[str, Ordering]] = {
    ">": Ordering("order", False, "the field is greater; also >= < <=; FIELD:LOW..HIGH is a range, ends included",
                  gt, lambda limit: (math.floor(limit) + 1, None)),
    ">=": Ordering("order", False, "", ge, lambda limit: (limit, None)),
    "<": Ordering("order", False, "", lt, lambda limit: (None, math.ceil(limit) - 1)),
    "<=": Ordering("order", False, "", le, lambda limit: (None, limit)),
}  # fmt: skip
"""The operators that compare."""

OPERATORS: Final[Mapping[str, Operator]] = {
    ":": Operator("equal", False, "the field equals or matches VALUE; = is the same; VALUE,VALUE matches any of them"),
    "=": Operator("equal", False, ""),
    "!=": Operator("equal", True, "the field is known and matches none of them"),
    **ORDERINGS,
    "~": Operator("regex", False, "the regular expression matches in the field; FIELD!~REGEX: it is known, and "
                  "nothing matches"),
    "!~": Operator("regex", True, ""),
}  # fmt: skip
"""Every operator by its symbol."""

SIGNS: Final = "".join(sorted(set("".join(OPERATORS))))
"""The characters of all operators."""


def symbol(form: Form, *, is_negated: bool = False) -> str:
    """Return the symbol that a filter prints."""
    return next(
        sign for sign, operator in OPERATORS.items() if (operator.form, operator.is_negated) == (form, is_negated)
    )


def alternatives(*forms: Form) -> str:
    """Return the regular expression for the operators of some forms."""
    # The longest first: an expression takes the first alternative that matches, and `>` would hide `>=`.
    signs = (sign for sign, operator in OPERATORS.items() if operator.form in forms)
    return "|".join(map(re.escape, sorted(signs, key=len, reverse=True)))


@dataclass(frozen=True, slots=True)
class Values:
    """A kind of values: its heading in the help, the forms of its terms, a description of a value, and its units."""

    title: str
    forms: tuple[Form, ...] = ("equal",)
    expected: str = ""
    units: Mapping[str, Decimal | int] | None = None


_ORDERED: Final[tuple[Form, ...]] = ("equal", "order")
_TIME: Final = {"ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION: Final = "a duration with its unit (us, ms, s, m, h), such as 800ms"

KINDS: Final[Mapping[Kind, Values]] = {
    "text": Values("Texts", ("equal", "regex")),
    "label": Values("Labels"),
    "has": Values("What is known"),
    "time": Values("Times", _ORDERED, "a time, such as 2h (ago), now, today, yesterday, 14:00, 2026-11-21 or "
                   "2026-11-21T14:00Z"),
    "duration": Values("Durations", _ORDERED, _DURATION, _TIME),
    "gaps": Values("Gaps", _ORDERED, _DURATION, _TIME),
    "count": Values("Numbers", _ORDERED, "a number, such as 400 or 10k (b, k, M)",
                    {"": 1, "b": 1, "B": 1, "k": 10**3, "K": 10**3, "M": 10**6}),
    "rate": Values("Rates", _ORDERED, "a plain number, such as 20.5", {"": 1}),
    "share": Values("Shares", _ORDERED, "a share, such as 10% or 0.1", {"": Decimal(1), "%": Decimal("0.01")}),
}  # fmt: skip
"""Every kind of values, in the order of the help."""

DURATIONS: Final = frozenset(kind for kind, values in KINDS.items() if values.units is _TIME)
"""The kinds whose values are durations, in ns."""
