"""The relations among the relays of one writer: whose name the lock shows, whose limits apply, and who is absent.

The rules:

- The first recorder holds the tape: the lock file has its purpose in words. When its channel closes, another recorder
  that still records is named.
- The limits of the tape are those of the recorder that has had some for the longest, until it ends.
- A relay that has lost its connection while its process lives is absent: it returns, and knows more of its exchanges
  than the tape does. They stay open until it has returned, its process has ended, or a time is over.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from wiretape.recorder.process import boot_id, is_gone
from wiretape.recorder.tape.channels import Channel, Key

_RETURN_NS = 30_000_000_000
"""Time allowed for a relay that has lost its writer to return, unless its process has ended."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A relay that may return: its deadline, and its exchanges that are known to be open."""

    open: frozenset[str]
    until: int


@dataclass(slots=True)
class Relations:
    """The `holder` of the tape, the `limiter` whose limits apply, and the absent relays by their keys."""

    holder: Channel | None = None
    limiter: Channel | None = None
    absent: dict[Key, Absence] = field(default_factory=dict)

    def expect(self, key: Key, now: int, open: Collection[str] = ()) -> None:
        """Wait for a relay to return."""
        self.absent[key] = Absence(frozenset(open), now + _RETURN_NS)

    def expect_workers(self, relay: Channel, present: Iterable[Channel], now: int) -> None:
        """Wait for this relay no more, but for its recorder's workers."""
        self.absent.pop(relay.key, None)
        known = {*self.absent, *(other.key for other in present)}
        for pid in relay.relay.workers:
            if (key := (pid, relay.session_no, True)) not in known:
                self.expect(key, now)

    def given_up(self, now: int, *, at_end: bool) -> Iterator[tuple[int, Absence]]:
        """Remove each relay that has ended, or has not returned in time; yield its session, and its exchanges.

        At the end of a writer nobody's time is over: the next writer waits for those whose processes live.
        """
        for key, absence in list(self.absent.items()):
            if is_gone(key[0], boot_id()) or (now >= absence.until and not at_end):
                del self.absent[key]
                yield key[1], absence

    def ended(
        self, session_no: int, left: Collection[str], present: Iterable[Channel], running: Iterable[str]
    ) -> set[str] | None:
        """Return those of a session's exchanges that none of its relays has; None if it has no relay: all of them.

        While some relays are absent, only those that were `left` by one are known to have ended; else all of `running`.
        """
        absent = [absence.open for key, absence in self.absent.items() if key[1] == session_no]
        here = [relay.open | relay.ended for relay in present]  # an end may wait to be committed
        if not (absent or here):
            return None
        return {*left, *(() if absent else running)}.difference(*here, *absent)
