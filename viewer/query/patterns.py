"""Pure: the regular expressions of filters: what may be typed, and whether one is found in a recorded text.

They are those of Python's `re`, and ignore case. They run in the `regex` library, as some of them would go on for ever
on some texts, in `re` with all else at a standstill: here a search has an end, and others run beside it. What is
recorded was written by others, so that a text may be made for just that, and a tape may hold many of them: so all the
searches of a query have an end together, too.
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
"""How much of a text a regular expression sees, in characters."""

LONGEST_SECONDS: Final = 0.25
"""So long an expression may look through one text, in seconds of the processor: a thousand times what most need."""

WHOLE_SECONDS: Final = 5.0
"""So long an expression may work on all texts of a query, beyond what these are worth: nobody waits for longer."""

CHARACTER_NS: Final = 50
"""So much is a character of a text worth: an expression that goes through a text once takes less; one that begins
anew at many places, such as `error.*timeout` in a long line, may take ten times as much.
"""


class TooSlow(WiretapeError):
    """A regular expression takes longer on a recorded text than anybody would wait; SQLite does not tell which."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "a regular expression of the filter takes too long on what is recorded: write it without repeats of "
            "repeats, or put a term before it that fewer exchanges fit, such as since:-1h"
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


class Searches:
    """The searches of a query, one after the other; their time is that of a clock."""

    def __init__(self, clock: Clock = THREAD) -> None:
        self._now = clock.now
        self.begin()

    def begin(self) -> None:
        """Start the time of another query."""
        self._left_ns = round(WHOLE_SECONDS * 1e9)

    def search(self, expression: str, text: str | bytes | None) -> bool | None:
        """Return whether an expression is found in the first `TEXT_CAP` characters of a text; None if there is none.

        Raises `TooSlow` where one text takes longer than `LONGEST_SECONDS`, or all of them more than they are worth.
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
