"""Pure: one value as text for people, safe for a terminal; unknown is `–`.

What a value means is left to `rows`, where its text goes to `report`, `pages` and `sheets`.
"""

from typing import Any, Final
from urllib.parse import urlsplit

from recorder.sanitize import safe
from viewer import rows
from viewer.rows import Row

UNKNOWN: Final = "–"
MINUS: Final = "−"
"""Stands before what is less than nothing, or earlier than what it counts from."""

_TAB: Final = 4


def cell(value: Any) -> str:
    """Give a value of any kind in one line."""
    flat = rows.flat(value)
    return UNKNOWN if flat is None else safe(str(flat))


def line(text: str | None) -> str:
    """Give a text in one line: what would end it is shown as a sign."""
    return UNKNOWN if text is None else safe(text)


def block(text: str) -> str:
    """Give a text in its lines."""
    return safe(text.expandtabs(_TAB), multiline=True)


def ms(value: float | None) -> str:
    """Give milliseconds, to a tenth."""
    return UNKNOWN if value is None else f"{value:,.1f}"


def count(value: int | None) -> str:
    """Give a number of things."""
    return UNKNOWN if value is None else f"{value:,}"


def moment(started_at: str) -> str:
    """Give an instant of UTC, to a millisecond."""
    return safe(started_at)[:23].replace("T", " ")


def outcome(row: Row) -> str:
    """Give the outcome of an exchange, and its detail in brackets."""
    return line(row["outcome"]) + (f" ({line(row['outcome_detail'])})" if row["outcome_detail"] else "")


def host(upstream: str) -> str:
    """Give the host and port of an upstream's URL; what is no URL as it is."""
    try:
        return urlsplit(upstream).netloc or upstream
    except ValueError:
        return upstream
