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
        # Between two starts of a writer it waits 5 s at most, and loading takes seconds on a busy machine.
        self.absent[key] = Absence(frozenset(open), now + 30_000_000_000)

    def expect_workers(self, relay: Channel, present: Iterable[Channel], now: int) -> None:
        """Wait for this relay no more, but for its recorder's workers."""
        self.absent.pop(relay.key, None)
        keys = {*self.absent, *(channel.key for channel in present)}
        for pid in relay.introduction.workers:
            if (key := Key(pid, relay.session_no, is_worker=True)) not in keys:
                self.expect(key, now)

    def given_up(self, now: int, *, at_end: bool) -> Iterator[tuple[int, Absence]]:
        """Remove each relay that has ended, or has not returned in time; yield its session, and its exchanges.

        At the end of a writer nobody's time is over: the next writer waits for those whose processes live.
        """
        for key, absence in list(self.absent.items()):
            if is_gone(key.pid, boot_id()) or (now >= absence.until and not at_end):
                del self.absent[key]
                yield key.session_no, absence

    def orphans(
        self, session_no: int, abandoned: Collection[str], present: Iterable[Channel], open_ids: Iterable[str]
    ) -> set[str] | None:
        """Return those of a session's exchanges that none of its relays has; None if it has no relay: all of them.

        While some relays are absent, only those that one has `abandoned` are known to have ended; else all `open_ids`.
        """
        of_absent = [absence.open for key, absence in self.absent.items() if key.session_no == session_no]
        of_present = [relay.open | relay.unmeasured for relay in present]  # an end may wait to be committed
        if not (of_absent or of_present):
            return None
        return {*abandoned, *(() if of_absent else open_ids)}.difference(*of_present, *of_absent)
