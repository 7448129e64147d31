"""Pure: one exchange as its verdicts need it: its output chunks at their reads, and whose each silence was.

What the instants cannot tell stays unknown: reads may be missing from the tape, the relay may not have run. How long a
read was on its way to the client, and who held it, is `slowness`'s; what is worth a word is judged in `verdicts`.
"""

import functools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Literal, NamedTuple

from recorder.decode.decoder import COMMENT, EVENT, Decoded, Run
from recorder.decode.outcome import Exchange, Read
from viewer.rows import Row
from viewer.timing import attribution as slowness
from viewer.timing.attribution import Slowness, Step, Who

Unclear = Literal["instants", "missing", "at_once", "handing_on"]
_ORDINARY_NS: Final = 100_000_000
"""Up to so long a silence, that the network brings several chunks at once says nothing."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Whose a silence between two reads was, and for how many ns of it reading was paused for the client."""

    who: Who | None
    paused_ns: int = 0
    unclear: Unclear | None = None


_UPSTREAM: Final = Silence("upstream")


class ChunkTime(NamedTuple):
    """A chunk by its number in the stream: its item, the timestamp and seq of its read, and the offset of its end."""

    no: int
    item: int
    at_ns: int | None
    read: int | None
    end: int


class Timed:
    """One exchange as its verdicts need it: its reads and their steps, and its output chunks with an instant.

    Of an answer that is no chat stream, or failed, no chunk is known to be output. A read is named by its *place* among
    those on the tape, from which reads may be missing; `places` are those that completed the `outputs`.
    """

    def __init__(self, exchange: Exchange, reads: Sequence[Read], decoded: Decoded) -> None:
        self.exchange, self.reads, self.decoded = exchange, reads, decoded
        succeeded = exchange.status is not None and exchange.status < 300
        self.stream = succeeded and decoded.stream and decoded.dialect in ("chat", None)
        found = [one for run, one in _chunks(decoded) if run.chunk.output] if self.stream else []
        self.outputs = [one for one in found if one.at_ns is not None]
        self.ends_known = not exchange.gap_bytes and found[-1:] == self.outputs[-1:]
        self._places = {read.seq: place for place, read in enumerate(reads)}
        self.places = [self.place(one) for one in self.outputs]
        counts = Counter(self.places)
        self._nth = {place: nth for nth, place in enumerate(counts)}
        self.brought = list(counts.values())
        self._paused = _paused(reads) if exchange.paused else [0] * max(len(reads), 1)
        ends = [read.start + read.size for read in reads]
        self._breaks = list(
            accumulate((end != read.start for end, read in zip(ends, reads[1:], strict=False)), initial=0)
        )

    @functools.cached_property
    def steps(self) -> list[Step]:
        """The steps of the reads, as `slowness.steps` gives them."""
        return slowness.steps(self.reads, self.exchange.paused, coarse=self.exchange.coarse_clock)

    def place(self, chunk: ChunkTime) -> int:
        """Return the place of the read that completed a chunk which has a timestamp."""
        assert chunk.read is not None
        return self._places[chunk.read]

    @property
    def error(self) -> ChunkTime | None:
        """The first chunk by which upstream said that it failed."""
        failed = (
            one
            for run, one in _chunks(self.decoded)
            if run.chunk.fault is not None or any(piece.finish_reason == "error" for piece in run.chunk.pieces)
        )
        return next(failed, None)

    def slowness(self) -> Slowness:
        """Say who was slow, over the whole exchange."""
        at = [read.at_ns for read in self.reads]
        is_clear = not (self.exchange.coarse_clock or self._breaks[-1] or self._paused[-1])
        found: dict[str | None, list[int]] = {
            "upstream": [],
            "client": [],
            "instants": [],
            "missing": [],
            "at_once": [],
        }
        for first, last in pairwise(self.places):
            lasted = at[last] - at[first]
            if is_clear and lasted <= _ORDINARY_NS and first != last:  # what `silent` would say, of nearly all of them
                found["upstream"].append(lasted)
            elif first != last:
                silence = self.silent(first, last)
                found[silence.who or silence.unclear].append(lasted)
        return slowness.slowness(found["upstream"], self.reads, self.steps, found["missing"] + found["at_once"])

    def meanwhile(self, first: int, last: int, start: int, end: int) -> Row:
        """Count what came in the reads between the places `first` and `last`, and in the data from `start` to `end`."""
        decoded = self.decoded
        between = slice(bisect_right(decoded.ends, start), bisect_left(decoded.ends, end))
        came = Counter(
            kind
            for kind, read in zip(decoded.kinds[between], decoded.reads[between], strict=True)
            if read is not None and first < self._places[read] < last
        )
        return {
            "reads_meanwhile": max(last - first - 1, 0),
            "comments_meanwhile": came[COMMENT],
            "events_meanwhile": came[EVENT],
        }

    def held(self, first: int, last: int) -> Row:
        """Give the longest step of the relay, and the longest wait for the client, from place `first` to `last`."""
        found = [step for step in self.steps[first : last + 1] if step.ns is not None]
        clear = bool(found) and all(step.who is not None for step in found)
        return {
            "relay_ns": max((step.ns or 0 for step in found if step.who == "relay"), default=None),
            "client_ns": max((step.ns or 0 for step in found if step.who == "client"), default=0) if clear else None,
        }

    def silent(self, first: int, last: int) -> Silence:
        """Say whose a silence was between the places of two reads with output."""
        if self.exchange.coarse_clock:
            return Silence(None, unclear="instants")
        if self.misses(first, last):
            return Silence(None, unclear="missing")
        lasted, paused = self._lasted(first, last), self._paused[last] - self._paused[first]
        if paused > lasted / 2:
            return Silence("client", paused)
        if lasted > _ORDINARY_NS and slowness.came_at_once(self.brought, self._nth[last]):
            return Silence(None, paused, "at_once")
        return Silence("upstream", paused) if paused else _UPSTREAM

    def misses(self, first: int, last: int) -> bool:
        """Say whether the tape lacks reads between two places; from -1 on, from the beginning."""
        if first < 0 and self.reads and self.reads[0].start:
            return True
        last = min(last, len(self.reads) - 1)
        return last > first and self._breaks[last] > self._breaks[max(first, 0)]

    def brought_by(self, place: int) -> int:
        """Give how many output chunks a read with output brought."""
        return self.brought[self._nth[place]]

    def _lasted(self, first: int, last: int) -> int:
        return self.reads[last].at_ns - self.reads[first].at_ns


def _chunks(decoded: Decoded) -> Iterator[tuple[Run, ChunkTime]]:
    """Yield every chunk, with the run that it is in."""
    first = 0
    for run in decoded.runs:
        numbers, items = range(first, first + len(run)), range(run.items.start, run.items.stop)
        columns = (decoded.at_ns[run.items], decoded.reads[run.items], decoded.ends[run.items])
        yield from ((run, ChunkTime(*one)) for one in zip(numbers, items, *columns, strict=True))
        first += len(run)


def _paused(reads: Sequence[Read]) -> list[int]:
    """Give for how many ns reading had been paused for the client when each read came."""
    between = (
        min(wait, after.at_ns - before.at_ns)
        for wait, (before, after) in zip(slowness.pauses(reads), pairwise(reads), strict=False)
    )
    return list(accumulate(between, initial=0))
