"""Pure: values as the cells of a printed or exported table."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from wiretape.viewer.record.rows import TableRow

DECIMALS: Final = 6
"""Decimals of a printed number: milliseconds are exact to the nanosecond."""

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

# Characters that would end a word, or begin an escape, are escaped as in a URL; in a name = is one, too.
_NO_WORD: Final = re.compile(r"[\s\0-\x1f\x7f%]").sub

_NO_NAME: Final = re.compile(r"[\s\0-\x1f\x7f%=]").sub


def rounded(row: TableRow, names: Iterable[str]) -> TableRow:
    """Return a row with its numbers of these names rounded to `DECIMALS`, and seconds to the nanosecond."""
    numbers = {name: value for name in names if type(value := row[name]) is float}
    decimals = 9 if row.get("unit") == "s" else DECIMALS
    return {**row, **{name: round(value, decimals) for name, value in numbers.items()}} if numbers else row


def flat(value: Any) -> str | int | float | None:
    """Return a value as one cell: lists of words joined by a space, other structures as compact JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    if isinstance(value, list | dict):
        return _COMPACT.encode(value)
    cell: str | int | float | None = value
    return cell


def words(value: Any) -> str | int | float | None:
    """Return a value as one cell, as `flat` does, but a mapping of texts as words: `run=a7`, with a space as `%20`."""
    if type(value) is dict and all(type(text) is str for text in value.values()):
        return " ".join(f"{_NO_NAME(_percent, name)}={_NO_WORD(_percent, text)}" for name, text in value.items())
    return flat(value)


def _percent(match: re.Match[str]) -> str:
    return quote(match[0], safe="")


def encodable(value: object) -> str:
    """Return a value as a text that UTF-8 has bytes for: a lone surrogate is its escape."""
    text = value if isinstance(value, str) else str(flat(value))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
