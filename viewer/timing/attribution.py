"""Pure: who was slow, as far as the instants of an exchange's reads can tell: upstream, the relay or the client.

A read's way to the client is a *step*: from when the relay could take it (it had come, and the one before it was
handed on) to when it was handed to the system. Nothing waits for a client until the system's buffers are full, so a
client that reads slowly shows only in large answers, and there as a long step during which the relay lived on: other
reads came. What cannot be told apart stays unknown. A silence is upstream's, or the network's before the relay, unless
reading was paused for the client meanwhile, or what ended it came all at once. Verdicts are given in `verdicts`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Final, Literal, NamedTuple

from recorder.decode.metrics import percentile
from recorder.decode.outcome import Read

Who = Literal["upstream", "relay", "client"]

FREE_BYTES: Final = 32 << 10
"""As long as no more was handed on, no write can wait for the client: it fits into the server's own buffer."""

UNSENT_BYTES: Final = 256 << 10
"""Reads not handed on; with more of them the relay stops reading from upstream until half of this is left."""

_SHORT_NS: Final = 10_000_000
_SEVERAL: Final = 3
_AROUND: Final = 8
_FEWEST_AROUND: Final = 3


class Step(NamedTuple):
    """One read's way to the client, in ns: when it could be taken and when it was handed on.

    `relayed_ns` is None if it never was. `who` held it, None if the tape cannot tell.
    """

    seq: int
    began_ns: int
    relayed_ns: int | None
    who: Literal["relay", "client"] | None

    @property
    def ns(self) -> int | None:
        """How long it took."""
        return None if self.relayed_ns is None else self.relayed_ns - self.began_ns


@dataclass(frozen=True, slots=True)
class Spread:
    """How durations in ns are distributed."""

    n: int
    p50_ns: float
    p99_ns: float
    max_ns: int


@dataclass(frozen=True, slots=True)
class Slowness:
    """Who was slow over a whole exchange; None where nothing is known.

    `upstream`: its gaps between reads with output. `relay`: the steps without a wait for the client. `client`: how long
    each step waited for it, mostly 0. `unclear`: the steps of either, and the gaps that may not be upstream's. `delay`:
    from each read to its handing on.
    """

    upstream: Spread | None
    relay: Spread | None
    client: Spread | None
    unclear: Spread | None
    delay: Spread | None


def steps(reads: Sequence[Read], paused: int, *, coarse: bool = False) -> list[Step]:
    """Give the steps of reads up to the first that was never handed on, which has no end.

    `paused` is how often reading had to wait for the client; `coarse`: the instants are not those of socket reads.
    """
    instants = [read.at_ns for read in reads]
    found: list[Step] = []
    before = 0
    for read in reads:
        seq, at_ns, relayed_ns, _, _ = read
        began = at_ns if at_ns > before else before
        found.append(Step(seq, began, relayed_ns, None if coarse else _holder(read, began, instants, paused)))
        if relayed_ns is None:
            break
        before = relayed_ns
    return found


def slowness(
    gaps: Sequence[int], reads: Sequence[Read], taken: Sequence[Step], doubted: Sequence[int] = ()
) -> Slowness:
    """Sum up the gaps of upstream's between reads with output, the reads and their steps.

    `doubted` are the gaps of which it is unclear whether they are upstream's.
    """
    known = [(step, step.ns) for step in taken if step.ns is not None]
    own = [ns for step, ns in known if step.who == "relay"]
    waits = [ns if step.who == "client" else 0 for step, ns in known if step.who is not None]
    unclear = [*(ns for step, ns in known if step.who is None), *doubted]
    delays = [read.relayed_ns - read.at_ns for read in reads if read.relayed_ns is not None]
    return Slowness(*(_spread(values) for values in (gaps, own, waits, unclear, delays)))


def pauses(reads: Sequence[Read]) -> list[int]:
    """Give for each read how long after it upstream had to wait for the client, before reading went on; mostly 0.

    It says what the relay does with so many bytes, and holds only where it did pause at all.
    """
    handed = [read.relayed_ns for read in takewhile(lambda read: read.relayed_ns is not None, reads)]
    instants = [at for at in handed if at is not None]
    sizes = list(accumulate((read.size for read in reads), initial=0))
    found = []
    for place, read in enumerate(reads):
        taken = min(bisect_right(instants, read.at_ns), place)
        resumed = 0
        if sizes[place + 1] - sizes[taken + 1] > UNSENT_BYTES:
            # Reading goes on when the first read is handed on behind which less than half of it waits.
            last = max(bisect_right(sizes, sizes[place + 1] - UNSENT_BYTES // 2) - 2, taken)
            resumed = instants[last] if last < len(instants) else 0
        found.append(max(resumed - read.at_ns, 0))
    return found


def came_at_once(brought: Sequence[int], place: int) -> bool:
    """Say whether a read brought together what had come one by one: it was held back on the way, or was not taken.

    `brought` is how many output chunks each read with output brought. So it is where this one brought three or more,
    and of up to eight before it and eight after it, of which there must be three, more than half brought just one.
    """
    if brought[place] < _SEVERAL:
        return False
    around = [*brought[max(place - _AROUND, 0) : place], *brought[place + 1 : place + 1 + _AROUND]]
    return len(around) >= _FEWEST_AROUND and sum(count == 1 for count in around) > len(around) / 2


def _holder(read: Read, began: int, instants: Sequence[int], paused: int) -> Literal["relay", "client"] | None:
    ended = read.relayed_ns
    if read.start <= FREE_BYTES or (ended is not None and ended - began < _SHORT_NS):
        return "relay"
    following = bisect_right(instants, began)
    lived = following < len(instants) and (ended is None or instants[following] < ended)
    return "client" if paused or lived else None


def _spread(values: Iterable[int]) -> Spread | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1])
