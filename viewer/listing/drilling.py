"""Pure: the filter that selects a figure's exchanges: a group of exchanges, a kind of failure.

It is the current filter and a few more terms, as text that people can read, type and change. Texts compare without
regard to case, so that groups which only differ in that are selected together.
"""

import re
from collections.abc import Iterable
from typing import Any

from wiretape.recorder.clock import Clock
from wiretape.viewer.query import parser
from wiretape.viewer.query.parser import FilterError
from wiretape.viewer.query.syntax import Among, Compare, Filter, Labelled, Match, Not, Or, Regex
from wiretape.viewer.query.values import REGEX_CHARACTERS
from wiretape.viewer.stats.metrics import PERIODS

_ANY = ("", "")
_LONGEST_SIGN = len(r"\U00000000")


def settled(text: str, clock: Clock) -> str:
    """Return a filter that goes on to mean the same: as typed, or with timestamps for times such as `-2h`.

    Raises `FilterError`.
    """
    if not text.strip():
        return ""
    later = Clock(clock.now, lambda: clock.wall_ns() + 10**12)
    now, then = str(parser.parse(text, clock)), str(parser.parse(text, later))
    return text.strip() if now == then else now


def check(text: str) -> None:
    """Raise `FilterError` if a text is no filter; an empty one selects everything."""
    if text.strip():
        parser.parse(text)


def joined(text: str, *terms: str) -> str:
    """Add terms to a filter, which may be empty."""
    base = text.strip()
    if base and any(terms) and isinstance(parser.parse(base), Or) and not _is_enclosed(base):
        base = f"({base})"
    return " ".join(part for part in (base, *terms) if part)


def _is_enclosed(text: str) -> bool:
    """Return True if a filter is one pair of parentheses with its content."""
    try:
        return text.startswith("(") and text.endswith(")") and parser.parse(text[1:-1]) is not None
    except FilterError:  # of two pairs, as in (a) or (b), the inner ends do not match
        return False


def without(text: str, *terms: str) -> str:
    """Return a filter without some of its terms, each as it stands between blanks."""
    return " ".join(part for part in text.split() if part not in terms) if set(terms) & set(text.split()) else text


def group(name: str, value: Any, others: Iterable[object] = ()) -> str:
    """Return the terms that select a group of `metrics.GROUPS` or a label; None is the group of unknown values.

    `others` are the values of the groups beside it, which it must not select.
    """
    if name in PERIODS:
        return _period(name, value)
    if name.startswith("label."):
        key = name.removeprefix("label.")
        return str(Not(Labelled(((key, None),))) if value is None else Labelled(((key, (value,)),)))
    if name == "status":
        return str(Not(Compare(name, ">=", 0)) if value is None else Among(name, ((value, value),)))
    if value is None:
        return str(Not(Match(name, (_ANY,))))
    if not value.isprintable():
        return str(Regex(name, _spelled(value)))
    match: Filter = Match(name, ((value,),))
    if name == "path" and any(str(other).startswith(f"{value}?") for other in others):
        return f"{match} {Not(Regex(name, '[?]'))}"  # a path without a query matches every query
    return str(match)


def failure(outcome: str, detail: str | None, code: str | None, status: int | None) -> str:
    """Return the terms that select one kind of failure."""
    named = {"outcome": outcome, "outcome_detail": detail, "error_code": code, "status": status}
    return " ".join(group(name, value) for name, value in named.items())


def _spelled(value: str) -> str:
    """Return an expression for a text that cannot be typed, cut to the longest that is allowed."""
    expression = "^"
    for sign in value:
        code = ord(sign)
        expression += re.escape(sign) if sign.isprintable() else f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"
        if len(expression) > REGEX_CHARACTERS - _LONGEST_SIGN:
            return expression
    return expression + r"\Z"


def _period(name: str, value: str) -> str:
    return f"at:{value}"
