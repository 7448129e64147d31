"""Pure: completion of filters: names of fields, and their values.

Values from a tape are hostile: only those that need no quotes in a filter are offered. `wiretape.viewer.source.tape`
reads the values, `wiretape.viewer.commands.completion` answers the shell.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from wiretape.viewer.query.fields import CHOICES, FIELDS, NAMES
from wiretape.viewer.query.operators import KINDS, SIGNS, alternatives

OFFERED: Final = (
    "model:", "is:", "flag:", "has:", "ttft>", "max_gap>", "icl_p50>", "gap:", "dur>", "status>=", "host:", "path:",
    "since:", "until:", "tps<", "tok.out>", "tok.in>", "finish:", "error:", "text:", "prompt:", "label:", "events<",
)  # fmt: skip
"""The fields that are offered first, each with its most frequent operator."""

FROM_TAPE: Final = ("model", "upstream", "finish_reason", "path")
"""The fields whose values are those of the tape."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Completions for a filter: the values of fields on the tape, and the meanings of fields."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)


_TERM = re.compile(r"(?P<before>(?:.*[\s(])?-?)(?P<term>[^\s(]*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_VALUE = re.compile(
    rf"(?P<head>(?P<name>{_NAME.pattern})(?:{alternatives('equal')})(?:[^\s\",]*,)*)(?P<value>[^\s\",]*)"
)
_HARMLESS = re.compile(r"[^\W_][\w.:/@+%-]{0,127}")


@dataclass(frozen=True, slots=True)
class Offer:
    """A completion: the added text, the whole filter with it, and the field that it names, if any."""

    text: str
    filter_text: str
    field: str = ""


def place(text: str) -> tuple[str, str, str] | None:
    """Return the text before the unfinished end of a filter, the field whose value is being typed, and that value.

    While a name is typed, the field is empty, and the name stands for the value. None is for the middle of a phrase.
    """
    match = _TERM.fullmatch(text)
    if match is None or text.count('"') % 2:
        return None
    value = _VALUE.fullmatch(match["term"])
    return (
        (match["before"], "", match["term"])
        if value is None
        else (match["before"] + value["head"], value["name"], value["value"])
    )


def offers(text: str, values: Mapping[str, Sequence[str]]) -> list[Offer]:
    """Return the completions of a filter, the likeliest first. `values` are those of the fields of a tape."""
    prefix, field, typed = place(text) or ("", "", None)
    if typed is None:
        return []
    if not field:
        return [Offer(name, prefix + name, field_name) for name, field_name in _names(typed)]
    return [
        Offer(value, prefix + value)
        for value in _values(field, values)
        if value.lower().startswith(typed.lower()) and len(value) > len(typed)
    ]


def is_unfinished(text: str, values: Mapping[str, Sequence[str]]) -> bool:
    """Return True if a valid filter ends with the beginning of a field's name or of a known value.

    Such a filter selects next to nothing until it is finished.
    """
    _, field, typed = place(text.lower()) or ("", "", "")
    if not field:
        return _NAME.fullmatch(typed) is not None and any(name.startswith(typed) for name in NAMES)
    lower_values = [value.lower() for value in _values(field, values)]
    return typed != "" and typed not in lower_values and any(value.startswith(typed) for value in lower_values)


def _names(typed: str) -> Iterator[tuple[str, str]]:
    candidates = [
        *OFFERED,
        *(f"{name}{'>' if KINDS[FIELDS[NAMES[name]].kind].units else ':'}" for name in sorted(NAMES)),
    ]
    seen = set[str]()
    for name in candidates:
        field = NAMES[name.rstrip(SIGNS)]
        if name.startswith(typed.lower()) and field not in seen:
            seen.add(field)
            yield name, field


def _values(name: str, values: Mapping[str, Sequence[str]]) -> Sequence[str]:
    field = NAMES.get(name.lower(), "")
    if field in CHOICES:
        return sorted(CHOICES[field])
    return [value for value in values.get(field, ()) if _HARMLESS.fullmatch(value)]
