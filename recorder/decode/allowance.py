"""Pure but for its clock: the work that decoding one body may take.

A body of a few megabytes can hold millions of lines or frames, each of which costs as much as a meaningful event. They
are counted, and decoding stops at a limit: at the same byte on every machine, and again when a tape is derived anew.
CPU time is limited, too, but only as a last resort, at several times the time that the counts admit: a body stopped by
it may be decoded further on a faster machine.
"""

from typing import Final

from wiretape.recorder.clock import THREAD, Clock

MAX_LINES: Final = 2_000_000
"""Lines and records decoded of one body, those of events included; blank lines between events cost nothing."""
FRAME: Final = 4
"""The cost of a WebSocket's frame, in lines: `MAX_LINES` admits 500,000 of each direction."""
REPAIRED_BYTES: Final = 8
"""Bytes of a payload that cannot be read at once, and is parsed three times, for the cost of a line."""
MAX_VALUES: Final = 8_000_000
"""Values in one JSON text that is parsed: more than 64 MiB of embeddings hold, and some 500 MB of memory."""
MAX_SECONDS: Final = 20.0
"""CPU time that decoding one body may take."""

_LOOK: Final = 256
"""Lines between two looks at the clock, which takes as long as a line does."""


def may_be_parsed(text: str | bytes) -> bool:
    """Return True if a JSON text has no more than `MAX_VALUES` values, as its commas and brackets tell."""
    if len(text) <= MAX_VALUES:
        return True
    signs = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    return sum(map(text.count, signs)) <= MAX_VALUES  # type: ignore[arg-type]


class TooMuchError(Exception):
    """Decoding a body takes more than is allowed."""


class Allowance:
    """The remaining work allowed for one body; its time is that of `clock`."""

    __slots__ = ("_left", "_look_at", "_now", "_until")

    def __init__(self, clock: Clock = THREAD) -> None:
        self._now = clock.now
        self._until = self._now() + round(MAX_SECONDS * 1e9)
        self._left = MAX_LINES
        self._look_at = max(self._left - _LOOK, -1)

    def take(self, cost: int = 1) -> None:
        """Subtract the cost of a line, record or frame. Raises `TooMuchError` if less than that is left."""
        self._left -= cost
        if self._left <= self._look_at:
            if self._left < 0 or self._now() >= self._until:
                raise TooMuchError
            self._look_at = max(self._left - _LOOK, -1)
