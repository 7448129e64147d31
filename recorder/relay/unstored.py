"""The exchanges of a relay that the tape lacks, or may lack: followed until they are stored, and kept beside it."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from wiretape.recorder.tape.losses import Keeper, Relayed, Unstored

_MOST_LISTED = 1000
"""Limit of unstored exchanges listed beside the tape; of more, only the number and the bytes are kept."""


class Followed(Protocol):
    """An exchange whose end is not stored yet."""

    @property
    def id(self) -> str: ...

    @property
    def bytes(self) -> int:
        """The number of bytes received from upstream."""

    def relayed(self) -> Relayed:
        """Return the facts about it until now."""


class UnstoredExchanges:
    """The exchanges of a session whose end is not stored yet, those that lack a part for good, and the file of them."""

    def __init__(self, session: str) -> None:
        self._followed, self._lacking = dict[str, Followed](), dict[str, Followed]()
        self._forgotten = Unstored(session)
        self._file_content = Unstored(session)
        self._keeper: Keeper | None = None

    @property
    def has_gaps(self) -> bool:
        """True if the tape lacks a part of a running exchange."""
        return bool(self._lacking)

    def follow(self, exchange: Followed) -> None:
        """Track an exchange until its end is stored."""
        self._followed[exchange.id] = exchange

    def note_lack(self, exchange: Followed) -> None:
        """Note that the tape lacks a part of an exchange for good."""
        if exchange.id in self._followed:
            self._lacking[exchange.id] = exchange

    def drop(self, id: str) -> None:
        """Track an exchange no more: its end is stored."""
        self._followed.pop(id, None)
        self._lacking.pop(id, None)

    def forget(self, exchange: Followed) -> None:
        """Keep only the count of a finished exchange that was not stored."""
        self.drop(exchange.id)
        self._forgotten = _with_more(self._forgotten, 1, exchange.relayed().all_bytes)

    def snapshot(self, *, is_late: bool) -> Unstored:
        """Return the exchanges that lack a part; all that are not stored, if storing `is_late`."""
        followed = self._followed if is_late else self._lacking
        exchanges = [exchange.relayed() for exchange in islice(followed.values(), _MOST_LISTED)]
        unstored = msgspec.structs.replace(self._forgotten, exchanges=exchanges)
        if len(followed) > _MOST_LISTED:
            size = sum(exchange.bytes for exchange in islice(followed.values(), _MOST_LISTED, None))
            unstored = _with_more(unstored, len(followed) - _MOST_LISTED, size)
        return unstored

    def open(self, tape: Path, on_trouble: Callable[[str], None]) -> None:
        """Open the file that the writer has prepared; another one after the file was removed."""
        if self._keeper is not None:
            self._keeper.close(0)
        try:
            self._keeper = Keeper(tape, self._forgotten.session)
        except OSError as error:
            self._keeper = None
            on_trouble(f"data that cannot be stored cannot be kept beside the tape either ({error.strerror})")
        self._file_content = Unstored(self._forgotten.session)

    def keep(self, unstored: Unstored) -> None:
        """Write exchanges into the file, if they have changed."""
        if self._keeper is not None and unstored != self._file_content:
            self._keeper.keep(unstored)
            self._file_content = unstored

    def close(self) -> None:
        """Wait a moment until the file is written."""
        if self._keeper is not None:
            self._keeper.close(0.5)


def _with_more(unstored: Unstored, count: int, size: int) -> Unstored:
    """Count exchanges that are not listed, and their bytes."""
    return msgspec.structs.replace(
        unstored, unlisted=unstored.unlisted + count, unlisted_bytes=unstored.unlisted_bytes + size
    )
