"""Pure: the regular expressions of filters: what may be typed, and whether one is found in a recorded text.

They are those of Python's `re`, and ignore case. They run in the `regex` library, as some of them would go on for ever
on some texts, in `re` with all else at a standstill: here a search has an end, and others run beside it. What is
recorded was written by others, so that a text may be made for just that.
"""

import functools
import warnings
from typing import TYPE_CHECKING, Final

from recorder.errors import WiretapeError

if TYPE_CHECKING:
    from regex import Pattern

REGEX_CAP: Final = 200
"""The longest regular expression, in characters."""

TEXT_CAP: Final = 64 << 10
"""How much of a text a regular expression sees, in characters."""

LONGEST_SECONDS: Final = 0.25
"""So long an expression may look through one text, in seconds of the processor: a thousand times what most need."""


class TooSlow(WiretapeError):
    """A regular expression takes longer on a recorded text than anybody would wait; SQLite does not tell which."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "a regular expression of the filter takes too long on what is recorded: write it without repeats of repeats"
        )


@functools.lru_cache(maxsize=64)
def compiled(text: str) -> "Pattern[str]":
    """Compile a regular expression; it ignores case. Raises a `ValueError` that says what was expected."""
    import regex  # so that a command without a filter does not load it

    if len(text) > REGEX_CAP:
        raise ValueError(f"expected a regular expression of at most {REGEX_CAP} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what may change in a later version is no concern of the one who types
            return regex.compile(text, regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None


def found(expression: str, text: str | bytes | None) -> bool | None:
    """Say whether a regular expression is found in the first `TEXT_CAP` characters of a text; None if there is none.

    Raises `TooSlow` where that is not known after `LONGEST_SECONDS`.
    """
    if text is None:
        return None
    if isinstance(text, bytes):
        text = text[: 4 * TEXT_CAP].decode("utf-8", "replace")
    try:
        return compiled(expression).search(text[:TEXT_CAP], timeout=LONGEST_SECONDS, concurrent=True) is not None
    except TimeoutError:
        raise TooSlow from None
