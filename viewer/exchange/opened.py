"""Pure: all of an exchange from what the tape holds of it: its body decoded, its texts in time, what is wrong."""

import functools
import gc
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.outcome import Exchange, Reads
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.process import Run
from wiretape.viewer.exchange import markers
from wiretape.viewer.exchange.markers import Marker
from wiretape.viewer.exchange.transcript import UNKNOWN, Transcript
from wiretape.viewer.rows import DetailRow, Headers, Request
from wiretape.viewer.timing import verdicts
from wiretape.viewer.timing.attribution import Attribution, Slowness
from wiretape.viewer.timing.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Known:
    """What is known without decoding: its row, the request, the gaps between outputs.

    The row of one that still runs is measured as far as it is, unless it is large. `gaps` are packed as on the tape;
    `end_ns` is when the exchange ended, 0 if it has not.
    """

    row: DetailRow
    request: Request
    response_headers: Headers
    recorder: Run
    end_ns: int
    gaps: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """What the tape holds of an exchange's answer, as it came, and what was made of how it ended."""

    id: str
    facts: Exchange
    reads: Reads = field(repr=False)
    body: bytes = field(repr=False)
    outcome: str
    decoded: Decoded | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What judging adds to what was decoded: the verdicts, and the markers with those of stalls."""

    verdicts: list[Verdict]
    markers: list[Marker]


Stage = Judgement | Slowness
"""What a stage after decoding brings: `Opened.with_stage` takes them in this order."""


@dataclass(frozen=True, slots=True)
class Opened:
    """All of an exchange: its facts, its texts in time, what is wrong with it, and its reads in columns.

    `borders` are where reads begin in the decoded body, `owners` which they are, UNKNOWN from where no read is known to
    have brought it: none if the body came compressed, or in frames. `verdicts` and stall markers are empty until
    `judged` is true. `slowness` is computed last and is None until then.
    """

    facts: Exchange
    transcript: Transcript
    limits: Thresholds
    markers: list[Marker]
    end_ns: int
    reads_at: "array[int]" = field(repr=False)
    sizes: "array[int]" = field(repr=False)
    borders: "array[int]" = field(repr=False)
    owners: "array[int]" = field(repr=False)
    missing: int = 0
    judged: bool = False
    verdicts: list[Verdict] = field(default_factory=list)
    slowness: Slowness | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all bytes that came are there."""
        return not self.missing and self.facts.has_bytes

    @property
    def longest(self) -> Marker | None:
        """The longest stall; None if there is none."""
        gaps = [verdict for verdict in self.verdicts if verdict.kind == "stall" and verdict.form == "gap"]
        worst = max(gaps, key=lambda verdict: verdict.lasted_ns, default=None)
        end_ns = None if worst is None else worst.from_ns + worst.lasted_ns
        return next((marker for marker in self.markers if marker.sign == "S" and marker.at_ns == end_ns), None)

    @property
    def live(self) -> bool:
        """Whether it still runs."""
        return self.facts.ended_by is None

    def with_stage(self, stage: Stage) -> "Opened":
        """Return it with what a further stage brings."""
        if isinstance(stage, Slowness):
            return replace(self, slowness=stage)
        return replace(self, judged=True, verdicts=stage.verdicts, markers=stage.markers)


def opened(answer: Stored, limits: Thresholds) -> Opened:
    """Decode an answer, or what there is of it so far, and judge it: slow for a long one, and it needs no tape."""
    opened, stages = begin(answer, limits)
    for stage in stages:
        opened = opened.with_stage(stage())
    return opened


def begin(answer: Stored, limits: Thresholds) -> tuple[Opened, tuple[Callable[[], Stage], Callable[[], Stage]]]:
    """Decode an answer; return what that brings, and two stages that take longer: judging it, and who was slow."""
    with _gc_paused():
        facts, reads = answer.facts, answer.reads
        decoded = answer.decoded or decode(facts, reads, answer.body)
        transcript = Transcript(decoded)
        end_ns = max(facts.end_ns or 0, reads[-1].at_ns if reads else 0)
        transcript.come_by(end_ns)
        first_ns = next((read.at_ns for read in reads if read.size), None)
        opened = Opened(
            facts,
            transcript,
            limits,
            markers.markers(transcript, first_ns),
            end_ns,
            array("q", reads.at_ns),
            array("q", reads.size),
            *_borders(facts, reads, len(transcript.data)),
            missing=facts.gap_bytes,
        )

    @functools.cache
    def attribution() -> Attribution:
        return Attribution(facts, reads, decoded)

    def judge() -> Stage:
        with _gc_paused():
            judged = verdicts.verdicts(attribution(), answer.outcome, limits)
            stalls = [one.from_ns + one.lasted_ns for one in judged if one.kind == "stall" and one.form == "gap"]
            return Judgement(judged, markers.markers(transcript, first_ns, stalls))

    def attribute() -> Stage:
        with _gc_paused():
            return attribution().slowness()

    return opened, (judge, attribute)


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Leave what is made here out of garbage collections: each would hold up the screen for as long as it takes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _borders(facts: Exchange, reads: Reads, size: int) -> "tuple[array[int], array[int]]":
    """Return where reads begin, and which: `UNKNOWN` from where the body goes on without any."""
    if not encoding.is_identity(facts.content_encoding) or facts.framing == "websocket":
        return array("q"), array("q")
    ends, places = encoding.spans(reads.start, reads.size, size)
    owners = [reads.seq[place] if place >= 0 else UNKNOWN for place in places]
    return array("q", [0, *ends][: len(owners)]), array("q", owners)
