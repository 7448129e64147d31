"""Pure: the regular expressions of filters: their limits, and searches of recorded texts.

Their syntax is that of Python's `re`, and they ignore case. They run in the `regex` library: some searches would never
end, and in `re` would block all other threads; `regex` has timeouts and releases the interpreter's lock. Recorded text
is hostile and may be made to slow a search down, in many exchanges of a tape: all searches of a query share a deadline.
"""

import functools
import warnings
from typing import TYPE_CHECKING, Final

from wiretape.recorder.clock import THREAD, Clock
from wiretape.recorder.errors import WiretapeError

if TYPE_CHECKING:
    from regex import Pattern

REGEX_CAP: Final = 200
"""The longest regular expression, in characters."""

TEXT_CAP: Final = 64 << 10
"""Length of the beginning of a text that a regular expression searches, in characters."""

LONGEST_SECONDS: Final = 0.25
"""Timeout of a search in one text, in seconds of the processor: a thousand times the usual duration."""

WHOLE_SECONDS: Final = 5.0
"""Time allowed for all searches of a query, in seconds, in addition to `CHARACTER_NS` for each character."""

CHARACTER_NS: Final = 50
"""Time allowed for each character of a text, in ns: more than a single pass takes; an expression that starts again at
many positions, such as `error.*timeout` in a long line, may take ten times as much.
"""


class TooSlow(WiretapeError):
    """A regular expression exceeds its time limit on a recorded text; SQLite does not name the expression."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "a regular expression of the filter takes too long on what is recorded: write it without repeats of "
            "repeats, or put a term before it that fewer exchanges fit, such as since:-1h"
        )


@functools.lru_cache(maxsize=64)
def compiled(text: str) -> "Pattern[str]":
    """Compile a regular expression; it ignores case. Raises a `ValueError` that names the expected syntax."""
    import regex  # so that a command without a filter does not load it

    if len(text) > REGEX_CAP:
        raise ValueError(f"expected a regular expression of at most {REGEX_CAP} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about later versions do not help the user
            return regex.compile(text, regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None


class Searches:
    """The searches of a query, one after the other; their time is that of a clock."""

    def __init__(self, clock: Clock = THREAD) -> None:
        self._now = clock.now
        self.begin()

    def begin(self) -> None:
        """Reset the time limit for another query."""
        self._left_ns = round(WHOLE_SECONDS * 1e9)

    def search(self, expression: str, text: str | bytes | None) -> bool | None:
        """Return True if an expression is found in the first `TEXT_CAP` characters of a text, or None without a text.

        Raises `TooSlow` if one text takes longer than `LONGEST_SECONDS`, or the query longer than its limit.
        """
        if text is None:
            return None
        self._left_ns += min(len(text), TEXT_CAP) * CHARACTER_NS
        if self._left_ns <= 0:
            raise TooSlow
        if isinstance(text, bytes):
            text = text[: 4 * TEXT_CAP].decode("utf-8", "replace")
        limit, began = min(self._left_ns / 1e9, LONGEST_SECONDS), self._now()
        try:
            return compiled(expression).search(text[:TEXT_CAP], timeout=limit, concurrent=True) is not None
        except TimeoutError:
            raise TooSlow from None
        finally:
            self._left_ns -= self._now() - began
