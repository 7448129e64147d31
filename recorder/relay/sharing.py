"""The state of a recording, summed over the relays of a recorder."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import msgspec

from wiretape.recorder.tape.losses import Counts, Unstored


class RelayShare(msgspec.Struct, frozen=True):
    """One relay's share of a recording's state.

    `waiting_ns` is the age of the oldest frame that is not stored, `silent_ns` the time since the last acknowledgement
    meanwhile; `lacking`: a running exchange lacks a part of its relayed bytes.
    """

    counts: Counts
    unstored: Unstored
    waiting_ns: int = 0
    lacking: bool = False
    live: int = 0
    silent_ns: int = 0


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """A relay's role among the relays of its recorder; the default is that of a single relay.

    A recorder has one relay that ends its session: its `worker_shares` returns the workers' shares, `workers` their
    processes.
    A worker's `on_share` gets its own share, again and again.
    """

    is_worker: bool = False
    worker_shares: Callable[[], Sequence[RelayShare]] = lambda: ()
    workers: Callable[[], list[int]] = list
    on_share: Callable[[RelayShare], None] = lambda _: None


def total(shares: Sequence[RelayShare]) -> RelayShare:
    """Return the sum of the shares; the first is that of the relay that ends the session."""
    first, *worker_shares = shares
    if not worker_shares:
        return first
    unstored = msgspec.structs.replace(
        first.unstored,
        exchanges=[exchange for share in shares for exchange in share.unstored.exchanges],
        unlisted=sum(share.unstored.unlisted for share in shares),
        unlisted_bytes=sum(share.unstored.unlisted_bytes for share in shares),
    )
    return RelayShare(
        _sum([share.counts for share in shares]),
        unstored,
        max(share.waiting_ns for share in shares),
        any(share.lacking for share in shares),
        sum(share.live for share in shares),
        max(share.silent_ns for share in shares),
    )


def _sum(parts: Iterable[Counts]) -> Counts:
    """Add up counts; the lag is the longest, `restarts` and `trouble` are the first's."""
    first, *worker_parts = parts
    added = {
        field.name: sum((getattr(part, field.name) for part in worker_parts), getattr(first, field.name))
        for field in fields(Counts)
        if field.name not in ("restarts", "trouble", "lag_ns")
    }
    lag_ns = max(first.lag_ns, *(part.lag_ns for part in worker_parts))
    return Counts(**added, restarts=first.restarts, trouble=first.trouble, lag_ns=lag_ns)
