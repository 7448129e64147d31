"""Pure: one exchange as a whole, and what those who write whole exchanges (`har`, `asciicast`) ask of it.

Instants are ns since T0, the moment before the request was sent. Where it comes from is left to `queries`.
"""

from dataclasses import dataclass
from datetime import datetime

from recorder.decode.decoder import Decoded
from recorder.decode.outcome import Reads
from recorder.errors import TapeDamaged
from viewer.rows import Row


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a tape holds of one exchange: its row with the outcome, its reads, its body and what that says."""

    facts: Row
    reads: Reads
    body: bytes
    decoded: Decoded

    @property
    def started(self) -> datetime:
        """The wall time at T0. Raises `TapeDamaged`."""
        return instant(self.facts["started_at"])

    @property
    def last_ns(self) -> int | None:
        """When it ended; while it is open, its last read."""
        end: int | None = self.facts["end_ns"]
        return end if end is not None else max(self.reads.at_ns, default=None)

    @property
    def ending(self) -> str:
        """How it ended: its outcome, and in whose words there are any, those of the error or the transport."""
        detail = f" ({self.facts['outcome_detail']})" if self.facts["outcome_detail"] else ""
        said = self.facts["error_message"] or self.facts["ended_detail"]
        return f"{self.facts['outcome']}{detail}{f': {said}' if said else ''}"


def instant(text: str) -> datetime:
    """Read a timestamp as the tape has it. Raises `TapeDamaged`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise TapeDamaged("the tape is damaged (a time that is none): run 'wiretape db check'")
    return found
