"""Ids of exchanges: 16 hexadecimal digits that nothing takes for a number.

Spreadsheets, pandas and DuckDB read digits around one `e` as a number, R one with a `d`, too, and Java digits before a
`d` or an `f`. The letters a, b and c are in no number.
"""

from typing import Final

_LETTERS: Final = "abc"
_LETTERS_OF_NO_NUMBER: Final = frozenset(_LETTERS)


def exchange_id(digits: str) -> str:
    """Return hexadecimal digits as an id; without a letter that no number has, their last one becomes such a letter."""
    if not _LETTERS_OF_NO_NUMBER.isdisjoint(digits):
        return digits
    return digits[:-1] + _LETTERS[int(digits[-1], 16) % len(_LETTERS)]
