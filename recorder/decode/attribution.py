"""Pure: attribution of slowness to upstream, the relay or the client, from the timestamps of an exchange's reads.

A read's way to the client is a *step*: from when the relay could take it (it had come, and the one before it was handed
on) to when it was handed to the system. Nothing waits for a client until the system's buffers are full. So a slow
client shows only in large answers: as a long step during which the relay still took other reads. A silence is
upstream's, or the network's before the relay, unless reading was paused for the client meanwhile, the relay is known to
have been as late, or what ended it came all at once. Ambiguous cases stay unknown: reads may be missing from the tape,
the relay may not have run. Verdicts are given in `verdicts`.
"""

import functools
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from operator import sub
from typing import Final, Literal, NamedTuple

from wiretape.recorder.decode.decoder import COMMENT, EVENT, Decoded
from wiretape.recorder.decode.exchange import Exchange, Read, Reads
from wiretape.recorder.decode.finish_reasons import is_failure
from wiretape.recorder.decode.metrics import percentile
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.stalls import Who
from wiretape.recorder.decode.values import JsonObject

Unclear = Literal["instants", "missing", "at_once", "handing_on"]

FREE_BYTES: Final = 32 << 10
"""Bytes handed on before a write can wait for the client: less fits into the server's own buffer."""

UNSENT_BYTES: Final = 256 << 10
"""Reads not handed on; with more of them the relay stops reading from upstream until half of this is left."""

_SHORT_NS: Final = 10_000_000
"""A step shorter than this did not wait for the client, in ns."""
_ORDINARY_NS: Final = 100_000_000
"""Longest silence, in ns, for which several chunks in one read are ordinary: the network may bring them together."""


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
        """The duration of the step, or None if it is unknown."""
        return None if self.relayed_ns is None else self.relayed_ns - self.began_ns


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of durations in ns."""

    n: int
    p50_ns: float
    p99_ns: float
    max_ns: int


@dataclass(frozen=True, slots=True)
class Slowness:
    """The slowness of each party over a whole exchange; None where nothing is known.

    `upstream`: its gaps between reads with output. `relay`: the steps without a wait for the client. `client`: how long
    each step waited for it, mostly 0. `unclear`: the steps of either, and the gaps that may not be upstream's. `delay`:
    from each read to its handing on.
    """

    upstream: Spread | None
    relay: Spread | None
    client: Spread | None
    unclear: Spread | None
    delay: Spread | None


@dataclass(frozen=True, slots=True)
class SilenceCause:
    """The cause of a silence between two reads, and the ns of it for which reading was paused for the client."""

    who: Who | None
    paused_ns: int = 0
    unclear: Unclear | None = None


UPSTREAM: Final = SilenceCause("upstream")


class ChunkTime(NamedTuple):
    """A chunk by its number in the stream: its item, the timestamp and seq of its read, and the offset of its end."""

    no: int
    item: int
    at_ns: int | None
    read: int | None
    end: int


class Attribution:
    """The attribution of one exchange, from its reads and the output chunks that have a timestamp (`outputs`).

    Chunks count as output only in a successful stream of a known API. A read is named by its *place* among those on the
    tape, from which reads may be missing; `places` are those that completed the outputs, and `brought` says how many
    each of these brought.
    """

    def __init__(self, exchange: Exchange, reads: Sequence[Read], decoded: Decoded) -> None:
        self.exchange, self.reads, self.decoded = exchange, Reads.of(reads), decoded
        succeeded = exchange.status is not None and exchange.status < 300
        self.stream = succeeded and decoded.stream and decoded.api != "unknown"
        self.is_clear = not (exchange.paused or exchange.coarse_clock or exchange.gap_bytes)
        """False if a wait may be the client's, or if reads or their times are missing."""

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        return {seq: place for place, seq in enumerate(self.reads.seq)}

    @functools.cached_property
    def outputs(self) -> "list[ChunkTime]":
        outputs = (chunk for run, chunk in _chunks(self.decoded) if run.chunk.output) if self.stream else ()
        return [chunk for chunk in outputs if chunk.at_ns is not None]

    @functools.cached_property
    def later(self) -> set[int]:
        """The outputs that begin another response over the same WebSocket: no silence lies before them."""
        if not self.decoded.turns:
            return set()
        turns = [self.decoded.turn_of(chunk.item) for chunk in self.outputs]
        return {nth for nth, (previous, turn) in enumerate(pairwise(turns), 1) if turn != previous}

    @functools.cached_property
    def places(self) -> list[int]:
        # From the columns: a writer asks for them, too, and an object for each chunk would take it far longer.
        runs = (run for run in self.decoded.runs if run.chunk.output) if self.stream else ()
        seqs = (seq for run in runs for seq in self.decoded.reads[run.items])
        return [self._places[seq] for seq in seqs if seq is not None]

    @functools.cached_property
    def _counts(self) -> Counter[int]:
        """The number of output chunks in each place with output."""
        return Counter(self.places)

    @functools.cached_property
    def brought(self) -> list[int]:
        return list(self._counts.values())

    @functools.cached_property
    def _nth(self) -> dict[int, int]:
        return {place: nth for nth, place in enumerate(self._counts)}

    @functools.cached_property
    def _paused(self) -> list[int]:
        """For each read, and then for the end, the ns up to it for which reading was paused for the client."""
        at_ns = self.reads.at_ns
        end_ns = max(self.exchange.end_ns or 0, at_ns[-1])
        return list(accumulate(map(min, pauses(self.reads, end_ns), map(sub, [*at_ns[1:], end_ns], at_ns)), initial=0))

    @functools.cached_property
    def steps(self) -> list[Step]:
        return steps(self.reads, self.exchange.paused, coarse=self.exchange.coarse_clock)

    @property
    def stuck(self) -> Step | None:
        """The step that never ended: the client took no more."""
        return self.steps[-1] if None in self.reads.relayed_ns else None

    @property
    def error(self) -> ChunkTime | None:
        """The first chunk by which upstream said that it failed."""
        for run, chunk in _chunks(self.decoded):
            reasons = (piece.finish_reason for piece in run.chunk.pieces)
            if run.chunk.fault is not None or any(is_failure(run.chunk.api, reason) for reason in reasons):
                return chunk
        return None

    @property
    def asked_ns(self) -> int | None:
        """Over a WebSocket, the time of the last answer's request; else that of the response head."""
        turn = self.decoded.turns[-1] if self.decoded.turns else None
        return self.exchange.headers_ns if turn is None or turn.request is None else self.decoded.at_ns[turn.request]

    def place(self, chunk: ChunkTime) -> int:
        """Return the place of the read that completed a chunk which has a timestamp."""
        assert chunk.read is not None
        return self._places[chunk.read]

    def brought_by(self, place: int) -> int:
        """Return the number of output chunks in a read with output."""
        return self.brought[self._nth[place]]

    def slowness(self) -> Slowness:
        """Return the slowness over the whole exchange."""
        is_clear = not (self.exchange.coarse_clock or self.exchange.paused or self.lacks_reads(-1, len(self.reads)))
        gaps = defaultdict[str | None, list[int]](list)
        for nth, (first, last) in enumerate(pairwise(self.places), 1):
            if nth in self.later:
                continue
            lasted_ns = self._lasted(first, last)
            if is_clear and lasted_ns <= _ORDINARY_NS and first != last:  # the result of `silent` for nearly all gaps
                gaps["upstream"].append(lasted_ns)
            elif first != last:
                silence = self.silent(first, last)
                gaps[silence.who or silence.unclear].append(lasted_ns)
        return slowness(gaps["upstream"], self.reads, self.steps, gaps["missing"] + gaps["at_once"])

    def silent(self, first: int, last: int) -> SilenceCause:
        """Return the cause of a silence between the places of two reads with output."""
        lasted_ns = self._lasted(first, last)
        cause = self.cause(first, last, lasted_ns)
        if cause.who != "upstream" or lasted_ns <= _ORDINARY_NS:
            return cause
        nth, late_ns = self._nth[last], self.exchange.clock_error_ns or 0
        # The kernel's timestamp of data that was not read in time is that of the last of it.
        if 2 * late_ns > lasted_ns and (self.brought[nth] > 1 or self.exchange.clock == "loop"):
            return SilenceCause("relay", cause.paused_ns)
        if came_at_once(self.brought, nth):
            return SilenceCause(None, cause.paused_ns, "at_once")
        return cause

    def cause_between(self, from_ns: int, to_ns: int) -> SilenceCause:
        """Return the cause of a silence of any layer between two timestamps."""
        if self.is_clear and to_ns - from_ns <= _ORDINARY_NS:
            return UPSTREAM  # nearly always: a writer asks for each silence that is longer than all before it
        first, last = self.places_around((from_ns, to_ns))
        if first >= 0 and last in self._nth:
            return self.silent(first, last)
        return self.cause(first, last, to_ns - from_ns)

    def cause(self, first: int, last: int, lasted_ns: int) -> SilenceCause:
        """Return the cause of a silence between the places of two reads: -1 before the first, or behind the last."""
        if self.exchange.coarse_clock:
            return SilenceCause(None, unclear="instants")
        if self.lacks_reads(first, last):
            return SilenceCause(None, unclear="missing")
        paused_ns = 0
        if self.exchange.paused and self.reads:
            paused_ns = self._paused[min(last, len(self._paused) - 1)] - self._paused[max(first, 0)]
        return SilenceCause("client" if paused_ns > lasted_ns / 2 else "upstream", paused_ns)

    def places_around(self, silence: tuple[int, int]) -> tuple[int, int]:
        """Return the places of the last read up to the beginning of a silence, and of the first one from its end on."""
        return bisect_right(self.reads.at_ns, silence[0]) - 1, bisect_left(self.reads.at_ns, silence[1])

    def lacks_reads(self, first: int, last: int) -> bool:
        """Return True if the tape lacks reads between two places; from -1 on, from the beginning."""
        if first < 0 and self.reads and self.reads[0].start:
            return True
        starts, sizes = self.reads.start, self.reads.size
        places = range(max(first, 0), min(last, len(starts) - 1))
        return any(starts[place] + sizes[place] != starts[place + 1] for place in places)

    def items_between(self, first: int, last: int, start: int, end: int) -> JsonObject:
        """Count the items in the reads between the places `first` and `last`, and in the data from `start` to `end`."""
        decoded = self.decoded
        between = slice(bisect_right(decoded.ends, start), bisect_left(decoded.ends, end))
        counts = Counter(
            kind
            for kind, read in zip(decoded.kinds[between], decoded.reads[between], strict=True)
            if read is not None and first < self._places[read] < last
        )
        runs = (range(*run.items.indices(between.stop)) for run in decoded.runs if run.chunk.ping)
        reads = (decoded.reads[item] for run in runs for item in run if item >= between.start)
        return {
            "reads_meanwhile": max(last - first - 1, 0),
            "comments_meanwhile": counts[COMMENT],
            "events_meanwhile": counts[EVENT],
            "pings_meanwhile": sum(read is not None and first < self._places[read] < last for read in reads),
        }

    def longest_steps(self, first: int, last: int) -> JsonObject:
        """Return the longest step of the relay, and the longest wait for the client, from place `first` to `last`."""
        durations = [(step.who, step.ns) for step in self.steps[first : last + 1] if step.ns is not None]
        is_clear = bool(durations) and all(who is not None for who, _ in durations)
        return {
            "relay_ns": max((ns for who, ns in durations if who == "relay"), default=None),
            "client_ns": max((ns for who, ns in durations if who == "client"), default=0) if is_clear else None,
        }

    def _lasted(self, first: int, last: int) -> int:
        return self.reads.at_ns[last] - self.reads.at_ns[first]


def _chunks(decoded: Decoded) -> Iterator[tuple[ItemRun, ChunkTime]]:
    """Yield every chunk, with the run that it is in."""
    number = 0
    for run in decoded.runs:
        numbers, items = range(number, number + len(run)), range(run.items.start, run.items.stop)
        columns = (decoded.at_ns[run.items], decoded.reads[run.items], decoded.ends[run.items])
        yield from ((run, ChunkTime(*values)) for values in zip(numbers, items, *columns, strict=True))
        number += len(run)


def steps(reads: Sequence[Read], pause_count: int, *, coarse: bool = False) -> list[Step]:
    """Return the steps of reads up to the first that was never handed on, which has no end.

    `pause_count`: how often reading waited for the client; `coarse`: the timestamps are not those of socket reads.
    """
    at_ns = Reads.of(reads).at_ns
    read_steps = list[Step]()
    previous_ns = 0
    for read in reads:
        began = max(read.at_ns, previous_ns)
        relayed_ns = read.relayed_ns
        who: Literal["relay", "client"] | None = None
        if not coarse and (read.start <= FREE_BYTES or (relayed_ns is not None and relayed_ns - began < _SHORT_NS)):
            who = "relay"
        elif not coarse:
            # A relay that took another read meanwhile was running: so the step waited for the client.
            next_read = bisect_right(at_ns, began)
            was_running = next_read < len(at_ns) and (relayed_ns is None or at_ns[next_read] < relayed_ns)
            who = "client" if pause_count or was_running else None
        read_steps.append(Step(read.seq, began, relayed_ns, who))
        if relayed_ns is None:
            break
        previous_ns = relayed_ns
    return read_steps


def slowness(
    gaps: Sequence[int], reads: Sequence[Read], read_steps: Sequence[Step], doubtful: Sequence[int] = ()
) -> Slowness:
    """Summarise upstream's gaps between reads with output, the reads and their steps.

    `doubtful` are the gaps that may not be upstream's.
    """
    durations = [(step, step.ns) for step in read_steps if step.ns is not None]
    relay_ns = [ns for step, ns in durations if step.who == "relay"]
    client_ns = [ns if step.who == "client" else 0 for step, ns in durations if step.who is not None]
    unclear_ns = [*(ns for step, ns in durations if step.who is None), *doubtful]
    columns = Reads.of(reads)
    delays = [
        relayed - at for relayed, at in zip(columns.relayed_ns, columns.at_ns, strict=True) if relayed is not None
    ]
    return Slowness(*(_spread(values) for values in (gaps, relay_ns, client_ns, unclear_ns, delays)))


def _spread(values: Iterable[int]) -> Spread | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1])


def pauses(reads: Sequence[Read], end_ns: int = 0) -> list[int]:
    """Return for each read the time until reading went on, if upstream had to wait for the client after it; mostly 0.

    It is computed from the relay's buffer limits, and holds only if the relay did pause. Behind the last read, reading
    that never went on was paused until `end_ns`.
    """
    until_stuck = takewhile(lambda relayed_ns: relayed_ns is not None, Reads.of(reads).relayed_ns)
    relayed_ns = [at_ns for at_ns in until_stuck if at_ns is not None]
    sizes = list(accumulate(Reads.of(reads).size, initial=0))
    pauses_ns = []
    for place, read in enumerate(reads):
        relayed_before = min(bisect_right(relayed_ns, read.at_ns), place)
        resumed = 0
        if sizes[place + 1] - sizes[relayed_before + 1] > UNSENT_BYTES:
            # Reading goes on when the first read is handed on behind which less than half of it waits.
            resuming = max(bisect_right(sizes, sizes[place + 1] - UNSENT_BYTES // 2) - 2, relayed_before)
            resumed = relayed_ns[resuming] if resuming < len(relayed_ns) else end_ns if place == len(reads) - 1 else 0
        pauses_ns.append(max(resumed - read.at_ns, 0))
    return pauses_ns


def came_at_once(brought: Sequence[int], index: int) -> bool:
    """Return True if a read brought together chunks sent one by one: held back on the way, or not read in time.

    `brought` is the number of output chunks in each read with output. The rule: this read brought three or more, and of
    the up to eight before it and eight after it, at least three in all, more than half brought just one.
    """
    if brought[index] < 3:
        return False
    neighbours = [*brought[max(index - 8, 0) : index], *brought[index + 1 : index + 9]]
    return len(neighbours) >= 3 and sum(count == 1 for count in neighbours) > len(neighbours) / 2
