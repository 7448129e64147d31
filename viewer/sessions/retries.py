"""Pure: the attempts at one request, before and after an exchange.

An attempt repeats another if its request is the same, byte for byte, the other failed or was given up by the client,
and it began after the other's end, at most `WITHIN_NS` later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from wiretape.recorder.decode.exchange import FAILURES, Outcome

WITHIN_NS: Final = 600 * 1_000_000_000
"""Most time between the end of an attempt and the start of the next, in ns."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One of several exchanges with the same request; `started_ns` is wall time, `end_ns` None while it runs.

    It holds no `Exchange`, as hundreds of neighbours may be attempts, and few are.
    """

    no: int
    id: str
    started_ns: int
    end_ns: int | None
    outcome: Outcome
    status: int | None = None

    @property
    def is_given_up(self) -> bool:
        """True if the client has a reason to send the request again."""
        return self.outcome in FAILURES or self.outcome == "client_closed"


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts before and after an exchange at its request, in their order."""

    earlier: tuple[Attempt, ...]
    exchange: Attempt
    later: tuple[Attempt, ...]

    @property
    def pauses_before(self) -> list[int]:
        """The time between each attempt before it and the next one, in ns."""
        return _pauses((*self.earlier, self.exchange))

    @property
    def pauses_after(self) -> list[int]:
        """The time between each attempt after it and the one before that, in ns."""
        return _pauses((self.exchange, *self.later))


class RequestAttempts(NamedTuple):
    """The recording version of wiretape, the attempts (None: unknown), and the count of them by the client."""

    version: str | None
    attempts: Attempts | None
    retry_count: int | None


def _pauses(ordered: Sequence[Attempt]) -> list[int]:
    ends = (attempt.started_ns if attempt.end_ns is None else attempt.end_ns for attempt in ordered)
    return [max(following.started_ns - end_ns, 0) for end_ns, following in zip(ends, ordered[1:], strict=False)]


def attempts_around(no: int, attempts: Sequence[Attempt]) -> Attempts:
    """Return the attempts around an exchange, from all exchanges with its request, itself among them."""
    ordered = sorted(attempts, key=lambda attempt: (attempt.started_ns, attempt.no))
    first_index = last_index = index = [attempt.no for attempt in ordered].index(no)
    while first_index and _repeats(ordered[first_index - 1], ordered[first_index]):
        first_index -= 1
    while last_index + 1 < len(ordered) and _repeats(ordered[last_index], ordered[last_index + 1]):
        last_index += 1
    return Attempts(tuple(ordered[first_index:index]), ordered[index], tuple(ordered[index + 1 : last_index + 1]))


def _repeats(attempt: Attempt, following: Attempt) -> bool:
    if not attempt.is_given_up or attempt.end_ns is None:
        return False
    # Starts are of the wall clock, to a microsecond: an attempt may seem to begin a moment before the end of another.
    clock_error_ns = 1_000_000
    return -clock_error_ns <= following.started_ns - attempt.end_ns <= WITHIN_NS
