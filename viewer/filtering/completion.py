"""Pure: what a filter that is being typed may go on with: the names of fields, and the values that they take.

Values that come from a tape are hostile: only those that a filter can hold as they are, without quotes, are offered.
Where these come from is left to `watching`, what a shell is offered to `completion`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from viewer.filtering.fields import CHOICES, NAMES

OFFERED: Final = (
    "model:", "is:", "flag:", "has:", "ttft>", "gap.max>", "icl.p50>", "gap:", "dur>", "status>=", "host:", "path:",
    "since:", "until:", "tps<", "tok.out>", "tok.in>", "finish:", "error:", "text:", "prompt:", "label:", "events<",
    "stall>",
)  # fmt: skip
"""The fields that are offered first, each with the operator that goes with it most often."""

FROM_TAPE: Final = ("model", "upstream", "finish_reason", "path")
"""The fields whose values are those of the tape."""

_TERM = re.compile(r"(?P<before>(?:.*[\s(])?-?)(?P<term>[^\s(]*)", re.DOTALL)
_VALUE = re.compile(r"(?P<head>(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?:!=|[:=])(?:[^\s\",]*,)*)(?P<value>[^\s\",]*)")
_HARMLESS = re.compile(r"[^\W_][\w.:/@+%-]{0,127}")


def complete(text: str, values: Mapping[str, Sequence[str]]) -> str | None:
    """Give the whole text as it may go on; None if nothing is offered. `values` are those of the fields of a tape."""
    match = _TERM.fullmatch(text)
    if match is None or not match["term"] or text.count('"') % 2:
        return None
    before, term = match["before"], match["term"]
    value = _VALUE.fullmatch(term)
    if value is None:
        found = _first(term, (*OFFERED, *sorted(NAMES)))
        return None if found is None else before + found
    offered = _first(value["value"], _values(value["name"], values))
    return None if offered is None else f"{before}{value['head']}{offered}"


def _values(name: str, values: Mapping[str, Sequence[str]]) -> Sequence[str]:
    field = NAMES.get(name.lower(), "")
    if field in CHOICES:
        return sorted(CHOICES[field])
    return [value for value in values.get(field, ()) if _HARMLESS.fullmatch(value)]


def _first(typed: str, offered: Sequence[str]) -> str | None:
    fitting = (one for one in offered if one.lower().startswith(typed.lower()) and len(one) > len(typed))
    return next(fitting, None)
