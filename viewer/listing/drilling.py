"""Pure: the filter that selects a figure's exchanges: a group of exchanges, a kind of failure.

It is the current filter and a few more terms, as text that people can read, type and change. Texts compare without
regard to case, so that groups which only differ in that are selected together.
"""

import re
from collections.abc import Collection, Iterable
from typing import Any

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.exchange import Outcome
from wiretape.viewer.query import parser
from wiretape.viewer.query.syntax import Among, Compare, Filter, Labelled, Match, Not, Or, Regex
from wiretape.viewer.query.values import REGEX_CHARACTERS
from wiretape.viewer.stats.metrics import PERIODS, token_buckets


def settled(text: str, clock: Clock) -> str:
    """Return a filter that goes on to mean the same: as typed, or with timestamps for times such as `-2h`.

    Raises `FilterError`.
    """
    if not text.strip():
        return ""
    # Read as of 1,000 s later, too: a filter that then says something else has relative times.
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
    if base and any(terms) and isinstance(parser.parse(base), Or):
        ((_, base),) = parser.conjuncts(base)
    return " ".join(part for part in (base, *terms) if part)


def toggled(text: str, term: str, alternatives: Collection[str]) -> str:
    """Return a filter without a term that it demands, or with it, then in place of its alternatives.

    Only a term that every match has to fit is replaced: neither one beside an "or" nor a negated one.
    """
    parts = parser.conjuncts(text) if text.strip() else []
    trees = {parser.parse(alternative) for alternative in (term, *alternatives)}
    remaining = [(part, typed) for part, typed in parts if part not in trees]
    is_demanded = any(part == parser.parse(term) for part, _ in parts)
    if is_demanded and len(remaining) == 1 and isinstance(remaining[0][0], Or):
        typed = remaining[0][1]  # a list of times is an "or", too, without parentheses
        return typed[1:-1] if typed.startswith("(") else typed
    base = text if len(remaining) == len(parts) else " ".join(typed for _, typed in remaining)
    return base if is_demanded else joined(base, term)


def group(name: str, value: Any, sibling_values: Iterable[object] = ()) -> str:
    """Return the terms that select a group of `metrics.GROUPS` or a label; None is the group of unknown values.

    `sibling_values` are those of the groups beside it, which it must not select.
    """
    if name in PERIODS:
        return f"at:{value}"
    if name.startswith("label."):
        key = name.removeprefix("label.")
        return str(Not(Labelled(((key, None),))) if value is None else Labelled(((key, (value,)),)))
    buckets = token_buckets(name)
    if name in ("status", "turn") or buckets is not None:
        # A number has no word for unknown: without one, no comparison holds.
        field, width = (name, 1) if buckets is None else buckets
        return str(Not(Compare(field, ">=", 0)) if value is None else Among(field, ((value, value + width - 1),)))
    if value is None:
        return str(Not(Match(name, (("", ""),))))
    if name == "upstream":  # a group of a name, or of a URL without one
        if "://" not in value:
            return str(Match("upstream_name", ((value,),)))
        if any("://" not in str(sibling) for sibling in sibling_values):
            return f"{Match(name, ((value,),))} {Not(Match('upstream_name', (('', ''),)))}"
    if not value.isprintable():
        return str(Regex(name, _spelled(value)))
    match: Filter = Match(name, ((value,),))
    if name == "path" and any(str(sibling).startswith(f"{value}?") for sibling in sibling_values):
        return f"{match} {Not(Regex(name, '[?]'))}"  # a path without a query matches every query
    return str(match)


def failure(outcome: Outcome, detail: str | None, code: str | None, status: int | None) -> str:
    """Return the terms that select one kind of failure."""
    values = {"outcome": outcome, "outcome_detail": detail, "error_code": code, "status": status}
    return " ".join(group(name, value) for name, value in values.items())


def _spelled(value: str) -> str:
    """Return an expression for a text that cannot be typed, cut to the longest that is allowed."""
    expression = "^"
    longest_sign = len(r"\U00000000")
    for sign in value:
        code = ord(sign)
        expression += re.escape(sign) if sign.isprintable() else f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"
        if len(expression) > REGEX_CHARACTERS - longest_sign:
            return expression
    return expression + r"\Z"
