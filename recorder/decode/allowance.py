"""Pure but for its clock: limits of the work for decoding one body.

A body of a few megabytes can hold millions of lines or frames, and each costs as much as a meaningful event. They are
counted, and decoding stops at a limit. A count stops it at the same byte on every machine, also when a tape is derived
again. CPU time is limited, too, but only as a last resort: its limit is several times the time that the counts allow.
A faster machine may decode more of a body that this limit stopped.
"""

from typing import Final

from wiretape.recorder.clock import THREAD, Clock

MAX_LINES: Final = 2_000_000
"""Limit of lines and records decoded of one body, those of events included; blank lines between events are free."""
FRAME: Final = 4
"""Cost of a WebSocket frame, in lines: `MAX_LINES` allows 500,000 frames in each direction."""
REPAIRED_BYTES: Final = 8
"""Bytes for the cost of a line, in a payload that is not valid by itself and is parsed up to three times."""
MAX_VALUES: Final = 8_000_000
"""Limit of values in a JSON text to parse: more than 64 MiB of embeddings hold; they take some 500 MB of memory."""
MAX_SECONDS: Final = 20.0
"""Limit of the CPU time for decoding one body, in seconds."""

LEAST_TEXT: Final = 1 << 20
TEXTS_OF_BODY: Final = 2
"""Limit of the texts that declared rules make of one body: this multiple of its size, plus `LEAST_TEXT` characters."""

_LOOK_INTERVAL: Final = 256
"""Interval between readings of the clock, in lines; a reading takes as long as a line."""


def may_be_parsed(text: str | bytes) -> bool:
    """Return True if a JSON text has at most `MAX_VALUES` values, counted by its commas and brackets."""
    if len(text) <= MAX_VALUES:
        return True
    signs = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    return sum(map(text.count, signs)) <= MAX_VALUES  # type: ignore[arg-type]


class TooMuchError(Exception):
    """Decoding a body exceeds its allowance."""


class Allowance:
    """The remaining work allowed for one body of a size in bytes; `clock` measures its time."""

    __slots__ = ("_lines_left", "_next_look", "_now", "_text_left", "_until")

    def __init__(self, clock: Clock = THREAD, size: int = 0) -> None:
        self._text_left = LEAST_TEXT + TEXTS_OF_BODY * size
        self._now = clock.now
        self._until = self._now() + round(MAX_SECONDS * 1e9)
        self._lines_left = MAX_LINES
        self._next_look = max(self._lines_left - _LOOK_INTERVAL, -1)

    def take(self, cost: int = 1) -> None:
        """Subtract the cost of a line, record or frame. Raises `TooMuchError` if less than that is left."""
        self._lines_left -= cost
        if self._lines_left <= self._next_look:
            if self._lines_left < 0 or self._now() >= self._until:
                raise TooMuchError
            self._next_look = max(self._lines_left - _LOOK_INTERVAL, -1)

    def take_text(self, size: int) -> None:
        """Subtract the length of texts that rules made. Raises `TooMuchError` if less than that is left."""
        self._text_left -= size
        if self._text_left < 0:
            raise TooMuchError
