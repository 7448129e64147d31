"""Pure: which recorded streams a limit on silences would have cut, by layer, phase and limit.

A limit cuts a stream at its first silence of a phase that is longer; an equal one is not cut. Silences of a slow client
or of the recorder's own cut nothing. *Good* streams are complete, *dead* ones ended in a silence or failed. A stream
that its client left alive is neither, nor is one that a limit of the recorder's own ended: what would have become of it
is unknown, so that no limit is known to fit from that one on.

The streams come in the records of `wiretape.recorder.decode.layers.packed`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiretape.recorder.decode.stalls import ENDINGS, LATER, LAYERS, OWNERS, Layer
from wiretape.viewer.query.values import number
from wiretape.viewer.record.rows import TableRow

Phase = Literal["first", "later"]
PHASES: Final[tuple[Phase, ...]] = ("first", "later")

USUAL_NS: Final = tuple(seconds * 10**9 for seconds in (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600))
"""The limits that are tried unless others are given."""

FEW: Final = 20
"""Fewer streams than this allow no limit to be chosen: of 20, a share of 15 % may yet be cut."""

MEANINGS: Final = {
    "group": "the group's name; empty without --by",
    "layer": "what is silent: bytes, events of any type, or output",
    "phase": "first: from the request to the first mark of the layer; later: behind it",
    "limit_ms": "the limit that is tried",
    "n": "streams waited for; of later silences, with a mark on that layer",
    "cut": "streams that the limit would have cut",
    "cut_good": "of these, complete",
    "cut_dead": "of these, ended in a silence, or failed",
    "lost_tokens": "output tokens of the whole answers of cut_good; unknown if those of one are",
    "saved_ms": "of cut_dead: from the instant at which the limit fires to the end of waiting",
    "longest_good_ms": "the longest silence of a good stream",
    "keepalive_ms": "median time between successive pings or comments within one silence by output, of the group",
    "fits": "true for the least of the limits that cuts no good stream; unknown without a good stream",
}
"""The columns of `rows`."""

_GOOD, _DEAD, _LIMIT = map(ENDINGS.index, ("good", "dead", "limit"))
_NOT_UPSTREAM: Final = [OWNERS.index("client"), OWNERS.index("relay")]
_ENDLESS: Final = np.iinfo(np.int64).max
Integers = NDArray[np.int64]


@dataclass(slots=True)
class StoredSilences:
    """Exchanges with streams, as columns: ids, output tokens, `measures.silences` and `measures.ping_gaps`.

    An array is None if it is damaged.
    """

    ids: list[str] = field(default_factory=list)
    output_tokens: list[int | None] = field(default_factory=list)
    silences: list[bytes | None] = field(default_factory=list)
    ping_gaps: list[bytes | None] = field(default_factory=list)

    def add(self, *columns: Sequence[Any]) -> None:
        """Add exchanges, a sequence for each column."""
        own: list[list[Any]] = [self.ids, self.output_tokens, self.silences, self.ping_gaps]
        for column, values in zip(own, columns, strict=True):
            column += values


class CutStreams(NamedTuple):
    """The streams that a limit would have cut, and whether it fits."""

    limit_ns: int
    cut: int
    good: int
    dead: int
    lost_tokens: int | None
    saved_ns: int | None
    fits: bool | None


@dataclass(frozen=True, slots=True)
class SilentPhase:
    """The silences of streams on a layer, first or later ones, and what limits would have cut.

    `good_ns` and `dead_ns` are the longest silences of the streams that have one, in order; `good_n` and `dead_n` count
    all. `longest_id` is the exchange with the longest silence of a good stream. `own_limit_ns` is the shortest limit of
    the recorder's own at which a stream ended.
    """

    layer: Layer
    phase: Phase
    n: int
    good_n: int
    dead_n: int
    good_ns: Integers
    dead_ns: Integers
    longest_id: str | None
    own_limit_ns: int | None
    limits: Sequence[CutStreams]

    @property
    def longest_good_ns(self) -> int | None:
        return int(self.good_ns[-1]) if self.good_ns.size else None

    @property
    def fitting(self) -> CutStreams | None:
        """The least limit that cuts no good stream, if there is one."""
        return next((limit for limit in self.limits if limit.fits), None)


@dataclass(frozen=True, slots=True)
class SilentGroup:
    """The silences of a group of exchanges, and the median time between its pings."""

    name: Any
    phases: Sequence[SilentPhase]
    keepalive_ns: float | None


def limits(text: str) -> tuple[int, ...]:
    """Return the limits of a text such as `30s,1m`, in ns, in order. Raises `ValueError`."""
    found = sorted({int(number(part.strip(), "duration")) for part in text.split(",")})
    if found[0] <= 0:
        raise ValueError("expected limits above 0")
    return tuple(found)


def what_if(
    groups: Mapping[Any, StoredSilences],
    layers: Collection[Layer] = LAYERS,
    first_ns: Sequence[int] = USUAL_NS,
    later_ns: Sequence[int] = USUAL_NS,
) -> Iterator[SilentGroup]:
    """Yield what limits in ascending order would have cut of each group, unknown names last."""
    tried: dict[Phase, Sequence[int]] = {"first": first_ns, "later": later_ns}
    for name in sorted(groups, key=lambda name: (name is None, f"{name:>9}" if isinstance(name, int) else str(name))):
        streams = _Streams(groups[name])
        pings = b"".join([gaps[: len(gaps) // 8 * 8] for gaps in groups[name].ping_gaps if gaps])
        phases = [streams.of(layer, phase, tried[phase]) for layer in layers for phase in PHASES]
        yield SilentGroup(name, phases, float(np.median(np.frombuffer(pings, "<i8"))) if pings else None)


def rows(groups: Iterable[SilentGroup]) -> Iterator[TableRow]:
    """Yield a row for each group, layer, phase and limit."""
    for group in groups:
        for phase in group.phases:
            for limit in phase.limits:
                yield {
                    "group": None if group.name is None else str(group.name),
                    "layer": phase.layer,
                    "phase": phase.phase,
                    "limit_ms": limit.limit_ns / 1e6,
                    "n": phase.n,
                    "cut": limit.cut,
                    "cut_good": limit.good,
                    "cut_dead": limit.dead,
                    "lost_tokens": limit.lost_tokens,
                    "saved_ms": _ms(limit.saved_ns),
                    "longest_good_ms": _ms(phase.longest_good_ns),
                    "keepalive_ms": _ms(group.keepalive_ns),
                    "fits": limit.fits,
                }


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6


class _Streams:
    """The streams of exchanges as arrays, and their silences: stream, tag, beginning and length of each."""

    def __init__(self, stored: StoredSilences) -> None:
        # A damaged tape may hold any numbers: each array begins with the header of a stream.
        sound = [
            (place, packed)
            for place, packed in enumerate(stored.silences)
            if packed and not len(packed) % 24 and not packed[0] & 15
        ]
        places, arrays = [place for place, _ in sound], [packed for _, packed in sound]
        records = np.frombuffer(b"".join(arrays), "<i8").reshape(-1, 3)
        is_header = records[:, 0] & 15 == 0
        headers, silences = records[is_header], records[~is_header]
        self.ids = stored.ids
        self.exchange = np.repeat(np.array(places, np.int64), [len(array) // 24 for array in arrays])[is_header]
        self.ending, self.waited_ns = headers[:, 0] >> 4, headers[:, 2]
        # Of several streams of one exchange the tokens are not told apart.
        is_only = np.bincount(self.exchange, minlength=len(stored.ids)) == 1
        tokens = np.array(stored.output_tokens, np.float64)
        self.tokens = np.where(is_only, tokens, np.nan)[self.exchange]
        self.stream = (np.cumsum(is_header) - 1)[~is_header]
        self.tag, self.from_ns, lasted_ns = silences.T
        # The recorder wakes a little late from its own limit, which was set in whole units of time: an equal limit
        # would have cut nothing.
        is_last = self.from_ns + lasted_ns == self.waited_ns[self.stream]
        self.is_limited = is_last & (self.ending == _LIMIT)[self.stream]
        by_bytes = self.is_limited & (self.tag & 1 << LAYERS.index("bytes") != 0)
        limit_ns = lasted_ns[by_bytes]
        late_ns = limit_ns % np.where(limit_ns < 10 * 10**9, 10**8, 10**9)
        self.own_limit_ns, late_by_stream_ns = np.full(len(headers), _ENDLESS), np.zeros(len(headers), np.int64)
        self.own_limit_ns[self.stream[by_bytes]] = limit_ns - late_ns
        late_by_stream_ns[self.stream[by_bytes]] = late_ns
        self.lasted_ns = lasted_ns - np.where(self.is_limited, late_by_stream_ns[self.stream], 0)

    def of(self, layer: Layer, phase: Phase, limits_ns: Sequence[int]) -> SilentPhase:
        """Return the silences of a layer and a phase, and what limits would have cut."""
        is_of_layer = self.tag & 1 << LAYERS.index(layer) != 0
        is_chosen = is_of_layer & ((self.tag & LATER != 0) == (phase == "later"))
        endings = self.ending[self.stream[is_chosen][_starts(self.stream[is_chosen])]]
        # A stream that was ended later had waited for its first mark in full.
        is_ended = is_chosen if phase == "later" else is_chosen & self.is_limited
        own_limit_ns = int(self.own_limit_ns[self.stream[is_ended]].min(initial=_ENDLESS))
        is_chosen &= ~np.isin(self.tag >> 4, _NOT_UPSTREAM)
        stream, from_ns, lasted_ns = (column[is_chosen] for column in (self.stream, self.from_ns, self.lasted_ns))
        starts = _starts(stream)
        streams = stream[starts]
        longest_ns = np.maximum.reduceat(lasted_ns, starts) if starts.size else lasted_ns
        is_good, is_dead = (self.ending[streams] == ending for ending in (_GOOD, _DEAD))
        longest = streams[is_good][np.argmax(longest_ns[is_good])] if is_good.any() else None
        good_n = int(np.count_nonzero(endings == _GOOD))
        cuts = list[CutStreams]()
        for limit_ns in limits_ns:
            over = np.flatnonzero(lasted_ns > limit_ns)
            first = over[_starts(stream[over])]
            cut = stream[first]
            good, dead = (self.ending[cut] == ending for ending in (_GOOD, _DEAD))
            tokens = self.tokens[cut[good]]
            waited_ns, fires_ns = self.waited_ns[cut[dead]], from_ns[first][dead] + limit_ns
            fits: bool | None = not good.any() and limit_ns < own_limit_ns and not any(one.fits for one in cuts)
            cuts.append(
                CutStreams(
                    limit_ns,
                    len(cut),
                    int(good.sum()),
                    int(dead.sum()),
                    None if np.isnan(tokens).any() else int(tokens.sum()),
                    None if (waited_ns < 0).any() else int((waited_ns - fires_ns).sum()),
                    fits if good_n else None,
                )
            )
        return SilentPhase(
            layer,
            phase,
            len(endings),
            good_n,
            int(np.count_nonzero(endings == _DEAD)),
            np.sort(longest_ns[is_good]),
            np.sort(longest_ns[is_dead]),
            None if longest is None else self.ids[self.exchange[longest]],
            None if own_limit_ns == _ENDLESS else own_limit_ns,
            cuts,
        )


def _starts(streams: Integers) -> NDArray[np.intp]:
    """Return where each stream begins among numbers of streams in order."""
    return np.flatnonzero(np.diff(streams, prepend=-1))
