"""What a limit on silences would have cut: counted of records, and replayed by watchdogs on a driven clock."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.support.cases import each_case
from tests.support.sample_tape import event
from tests.support.timed_exchanges import COMMENT, EMPTY, MS, Part, facts, word
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.decode.stalls import ENDINGS, LATER, LAYERS, OWNERS, Layer
from wiretape.viewer.stats import timeouts
from wiretape.viewer.stats.timeouts import CutStreams, Phase, SilentPhase, StoredSilences, what_if

S = 10**9
DONE = b"data: [DONE]\n\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
STREAMED = RecordedRequest([], b'{"model": "m", "stream": true}')


def packed(ending: str, *silences: tuple[float, float], who: str | None = "upstream", waited: float = 0) -> bytes:
    """Return a stream whose output is silent from the first second on for each length, in s; of the first, from 0."""
    first, *later = silences
    end = waited or max(at + lasted for at, lasted in silences)
    records = [(ENDINGS.index(ending) << 4, 0, round(end * S))]  # type: ignore[arg-type]
    for at, lasted in (first, *later):
        phase = LATER if (at, lasted) != first else 0
        records.append((OWNERS.index(who) << 4 | phase | 7, round(at * S), round(lasted * S)))  # type: ignore[arg-type]
    return b"".join(struct.pack("<3q", *record) for record in records)


def stored(*streams: bytes, tokens: Sequence[int | None] = (), gaps: Sequence[bytes] = ()) -> StoredSilences:
    ids = [f"id{place}" for place in range(len(streams))]
    return StoredSilences(ids, [*tokens] or [None] * len(ids), [*streams], [*gaps] or [b""] * len(ids))


def later(streams: StoredSilences, *limits: float) -> SilentPhase:
    limits_ns = [round(limit * S) for limit in limits]
    (group,) = what_if({"": streams}, ["output"], limits_ns, limits_ns)
    return group.phases[1]


def cuts(phase: SilentPhase) -> list[tuple[int, int, int]]:
    return [(limit.cut, limit.good, limit.dead) for limit in phase.limits]


def test_a_silence_as_long_as_the_limit_is_not_cut() -> None:
    streams = stored(packed("good", (0, 1), (1, 4), (5, 5)), packed("dead", (0, 1), (1, 5.000000001)))
    assert cuts(later(streams, 4, 5, 6)) == [(2, 1, 1), (1, 0, 1), (0, 0, 0)]


def test_a_limit_saves_from_its_firing_to_the_end_of_waiting() -> None:
    streams = stored(packed("dead", (0, 1), (1, 4), (5, 60), waited=100))
    assert [limit.saved_ns for limit in later(streams, 3, 10, 70).limits] == [96 * S, 85 * S, 0]


@each_case("who", ["client", "relay"])
def test_silences_of_others_than_upstream_cut_nothing(who: str) -> None:
    phase = later(stored(packed("good", (0, 1), (1, 50), who=who)), 5)
    assert (phase.n, phase.good_n, cuts(phase), phase.longest_good_ns) == (1, 1, [(0, 0, 0)], None)


def test_lost_tokens_are_those_of_whole_answers_and_unknown_if_one_is() -> None:
    streams = [packed("good", (0, 1), (1, lasted)) for lasted in (10, 20, 30)]
    phase = later(stored(*streams, tokens=(None, 7, 5)), 5, 10, 25, 30)
    assert [limit.lost_tokens for limit in phase.limits] == [None, 12, 5, 0]


def test_the_least_limit_that_cuts_no_good_stream_fits() -> None:
    phase = later(stored(packed("good", (0, 1), (1, 12)), packed("dead", (0, 1), (1, 99))), 5, 15, 20)
    assert [limit.fits for limit in phase.limits] == [False, True, False]
    assert (phase.longest_good_ns, phase.longest_id) == (12 * S, "id0")


def test_without_a_good_stream_no_limit_is_known_to_fit() -> None:
    assert [limit.fits for limit in later(stored(packed("dead", (0, 1), (1, 99))), 5, 200).limits] == [None, None]


def test_from_the_recorders_own_limit_on_none_is_known_to_fit() -> None:
    good, own = packed("good", (0, 1), (1, 100)), packed("limit", (0, 1), (1, 300.012))
    phase = later(stored(good, own), 60, 120, 300, 600)
    assert cuts(phase) == [(2, 1, 0), (1, 0, 0), (0, 0, 0), (0, 0, 0)]
    assert (phase.own_limit_ns, [limit.fits for limit in phase.limits]) == (300 * S, [False, True, False, False])
    longer = stored(packed("good", (0, 1), (1, 200)), own)
    assert [limit.fits for limit in later(longer, 60, 120, 300, 600).limits] == [False] * 4


def test_streams_left_alive_count_in_all_only() -> None:
    phase = later(stored(packed("left", (0, 1), (1, 40))), 5)
    assert (phase.n, phase.good_n, phase.dead_n, cuts(phase)) == (1, 0, 0, [(1, 0, 0)])


def test_each_stream_of_an_exchange_counts_and_its_tokens_are_unknown() -> None:
    phase = later(stored(packed("good", (0, 1), (1, 40)) + packed("good", (0, 1), (1, 4)), tokens=[9]), 5, 50)
    assert (phase.n, cuts(phase)) == (2, [(1, 1, 0), (0, 0, 0)])
    assert [limit.lost_tokens for limit in phase.limits] == [None, 0]


def test_arrays_that_are_damaged_are_left_out() -> None:
    whole = packed("good", (0, 1), (1, 4))
    assert later(stored(whole[:-8], whole[24:], b"", whole), 5).n == 1


def test_the_keep_alive_is_the_median_of_the_group() -> None:
    gaps = [struct.pack("<2q", 10 * S, 20 * S), b"", struct.pack("<q", 15 * S)]
    (group,) = what_if({"": stored(*[packed("good", (0, 1))] * 3, gaps=gaps)})
    assert group.keepalive_ns == 15 * S
    (unknown,) = what_if({"": stored()})
    assert unknown.keepalive_ns is None


def test_groups_are_in_order_and_the_unknown_one_is_last() -> None:
    assert [group.name for group in what_if({None: stored(), "b": stored(), "a": stored()})] == ["a", "b", None]


def test_limits_are_durations_in_order() -> None:
    assert timeouts.limits("1m, 30s,500ms,30s") == (S // 2, 30 * S, 60 * S)
    for text in ("", "0s", "30", "-1s", "30s,"):
        with pytest.raises(ValueError, match="expected"):
            timeouts.limits(text)


class Mark(NamedTuple):
    """A read of a random stream, and the layers on which it is a mark."""

    at_ms: int
    data: bytes
    layers: tuple[str, ...]


KINDS = (
    (COMMENT, ("bytes",)),
    (PING, ("bytes", "events")),
    (EMPTY, ("bytes", "events")),
    (word(), LAYERS),
    (event({"reasoning_content": "x"}), LAYERS),
)
LIMITS_MS = (500, 1900, 4000, 7000, 12_000, 20_000, 30_000)
OWN_MS = 15_000


@dataclass
class Watchdog:
    """A client's limit on one layer: armed by the request, or by a mark, on a clock that the stream drives."""

    layer: Layer
    phase: Phase
    armed_ms: int | None
    limit_ms: int
    fired_ms: int | None = None

    def tick(self, now_ms: int) -> None:
        if self.fired_ms is None and self.armed_ms is not None and now_ms - self.armed_ms > self.limit_ms:
            self.fired_ms = self.armed_ms + self.limit_ms

    def hear(self, now_ms: int) -> None:
        self.armed_ms = now_ms if self.phase == "later" else None


@dataclass
class RandomStream:
    """A stream, its end and ending, and what each watchdog did while it was replayed."""

    marks: list[Mark]
    by: str
    end_ms: int
    tokens: int | None
    watchdogs: list[Watchdog] = field(default_factory=list)

    @property
    def ending(self) -> str:
        outputs = [mark.at_ms for mark in self.marks if "output" in mark.layers]
        if self.by == "client":  # the threshold of a stall
            return "dead" if self.end_ms - (outputs[-1] if outputs else 0) > 2000 else "left"
        return {"end": "good", "eof": "dead", "idle_timeout": "limit"}[self.by]

    def measured(self) -> Measures:
        parts: list[Part] = [(mark.at_ms, mark.data) for mark in self.marks] or [(0, b"")]
        late_ms = 0.4 if self.by == "idle_timeout" else 0
        if self.by == "end":
            usage = event(usage={"completion_tokens": self.tokens}) if self.tokens is not None else b""
            parts[-1] = (self.end_ms, usage + DONE)
        return derive(*facts(*parts, by=self.by, end=self.end_ms + late_ms), request=STREAMED)

    def replay(self) -> None:
        armed: tuple[tuple[Phase, int | None], ...] = (("first", 0), ("later", None))
        self.watchdogs = [Watchdog(layer, *at, limit) for layer in LAYERS for at in armed for limit in LIMITS_MS]
        for mark in [*self.marks, Mark(self.end_ms, b"", ())]:
            for dog in self.watchdogs:
                dog.tick(mark.at_ms)
                if dog.layer in mark.layers:
                    dog.hear(mark.at_ms)

    def is_in(self, layer: Layer, phase: Phase) -> bool:
        return phase == "first" or any(layer in mark.layers for mark in self.marks)

    def is_limited_in(self, layer: Layer, phase: Phase) -> bool:
        return self.by == "idle_timeout" and (self.is_in(layer, "later") == (phase == "later"))

    @property
    def own_limit_ms(self) -> int:
        """The time since the last byte, or since the request, when the recorder waited no longer."""
        return self.end_ms - (self.marks[-1].at_ms if self.marks else 0)


def random_stream(random: Random) -> RandomStream:
    at_ms, marks = 0, list[Mark]()
    for _ in range(random.randrange(12)):
        at_ms += random.choice((0, 10, 500, random.randrange(1500), random.randrange(14_000)))
        marks.append(Mark(at_ms, *random.choice(KINDS)))
    by = random.choice(("end", "end", "eof", "client", "idle_timeout"))
    end_ms = at_ms + (OWN_MS if by == "idle_timeout" else random.choice((10, 1900, random.randrange(10, 30_000))))
    if by == "end":  # its last event is a mark, too, and its usage one event of it
        marks.append(Mark(end_ms, b"", ("bytes", "events")))
    return RandomStream(marks, by, end_ms, None if random.random() < 0.02 else random.randrange(500))


def expected(streams: Sequence[RandomStream], layer: Layer, phase: Phase) -> tuple[Any, ...]:
    chosen = [stream for stream in streams if stream.is_in(layer, phase)]
    own_ms = min((one.own_limit_ms for one in streams if one.is_limited_in(layer, phase)), default=10**9)
    good_n = sum(one.ending == "good" for one in chosen)
    found, has_fit = list[CutStreams](), False
    for limit_ms in LIMITS_MS:
        fired = [
            (stream, dog.fired_ms)
            for stream in chosen
            for dog in stream.watchdogs
            if (dog.layer, dog.phase, dog.limit_ms) == (layer, phase, limit_ms) and dog.fired_ms is not None
        ]
        good = [stream for stream, _ in fired if stream.ending == "good"]
        tokens = [stream.tokens for stream in good]
        dead = [stream.end_ms - fired_ms for stream, fired_ms in fired if stream.ending == "dead"]
        fits = not good and limit_ms < own_ms and not has_fit
        has_fit |= fits
        found.append(
            CutStreams(
                limit_ms * MS, len(fired), len(good), len(dead),
                None if None in tokens else sum(one or 0 for one in tokens),
                sum(dead) * MS, fits if good_n else None,
            )
        )  # fmt: skip
    return len(chosen), good_n, found


def assert_limits_agree(count: int) -> None:
    random = Random(46)
    groups: dict[Any, StoredSilences] = {}
    streams: dict[Any, list[RandomStream]] = {}
    for place in range(count):
        one, key = random_stream(random), place // 40
        one.replay()
        measured = one.measured()
        group = groups.setdefault(key, StoredSilences())
        group.ids.append(str(place))
        group.output_tokens.append(measured.output_tokens)
        group.silences.append(measured.silences)
        group.ping_gaps.append(measured.ping_gaps)
        streams.setdefault(key, []).append(one)
    limits_ns = [limit_ms * MS for limit_ms in LIMITS_MS]
    for group in what_if(groups, LAYERS, limits_ns, limits_ns):
        for phase in group.phases:
            found = phase.n, phase.good_n, list(phase.limits)
            assert found == expected(streams[group.name], phase.layer, phase.phase), (group.name, phase)


def test_limits_cut_what_watchdogs_on_a_driven_clock_cut() -> None:
    assert_limits_agree(120)


def test_limits_cut_what_watchdogs_cut_of_ten_thousand_streams() -> None:
    assert_limits_agree(10_000)
