"""Pure: all of an exchange from its data on the tape: its decoded body, its texts in time, its faults."""

import functools
import gc
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.attribution import Attribution, Slowness
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.exchange import Exchange, Reads, RecordedExchange, Standing
from wiretape.recorder.decode.stalls import Span, Thresholds
from wiretape.recorder.process import RecorderRun
from wiretape.viewer.exchange import markers
from wiretape.viewer.exchange.markers import Marker
from wiretape.viewer.exchange.transcript import UNKNOWN, Transcript
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import DetailRow, RequestRow
from wiretape.viewer.timing import verdicts
from wiretape.viewer.timing.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Known:
    """The facts that need no decoding: its row, the request, the gaps between outputs.

    The row of a running exchange is measured until now, unless it is large. `gaps` are packed as on the tape.
    """

    row: DetailRow
    request: RequestRow
    recorder: RecorderRun
    gaps: bytes = field(repr=False)

    @property
    def exchange(self) -> Exchange:
        """The facts, those of a WebSocket without the client's data."""
        return self.request.exchange


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An exchange as stored on the tape, raw, and its outcome."""

    id: str
    recording: RecordedExchange = field(repr=False)
    outcome: Standing
    decoded: Decoded | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FullExchange:
    """All of one exchange on the tape, with its decoded body."""

    row: DetailRow
    request: RequestRow
    exchange: Exchange
    reads: Reads
    body: bytes
    decoded: Decoded

    @property
    def started(self) -> datetime:
        """The wall time at T0. Raises `TapeDamaged`."""
        return units.timestamp(self.row.started_at)

    @property
    def last_ns(self) -> int | None:
        """The time of its end; while it is open, of its last read."""
        return self.exchange.end_ns if self.exchange.end_ns is not None else max(self.reads.at_ns, default=None)

    @property
    def ending(self) -> str:
        """The ending: the outcome, and the message of the error or the transport, if there is one."""
        message = self.row.error_message or self.row.ended_detail
        return f"{self.row.ending}{f': {message}' if message else ''}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of judging: the verdicts, and the markers with those of stalls."""

    verdicts: list[Verdict]
    markers: list[Marker]


Stage = Judgement | Slowness
"""The result of a stage after decoding: `OpenedExchange.with_stage` takes them in this order."""


@dataclass(frozen=True, slots=True)
class OpenedExchange:
    """All of an exchange: its facts, its texts in time, its faults, and its reads in columns.

    `borders` are the offsets of reads in the decoded body, `owners` their indexes, UNKNOWN for bytes without a known
    read: none if the body came compressed, or in frames. `verdicts` and stall markers are empty until `judged` is true.
    `slowness` is computed last and is None until then.
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
        """True if all bytes that came are there."""
        return not self.missing and self.facts.has_bytes

    @property
    def stalls(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.kind == "stall"]

    @property
    def stall_spans(self) -> list[Span] | None:
        """The begin and end of each stall; None until all of it is judged."""
        if not self.judged or self.live:
            return None
        return [(stall.from_ns, stall.from_ns + stall.lasted_ns) for stall in self.stalls]

    @property
    def live(self) -> bool:
        return self.facts.ended_by is None

    def with_stage(self, stage: Stage) -> "OpenedExchange":
        """Return a copy with the result of a further stage."""
        if isinstance(stage, Slowness):
            return replace(self, slowness=stage)
        return replace(self, judged=True, verdicts=stage.verdicts, markers=stage.markers)


def open_exchange(answer: StoredAnswer, limits: Thresholds) -> OpenedExchange:
    """Decode an answer, or its data until now, and judge it: slow for a long one, and it needs no tape."""
    exchange, stages = begin(answer, limits)
    for stage in stages:
        exchange = exchange.with_stage(stage())
    return exchange


def begin(
    answer: StoredAnswer, limits: Thresholds
) -> tuple[OpenedExchange, tuple[Callable[[], Stage], Callable[[], Stage]]]:
    """Decode an answer; return it opened, and two stages that take longer: judging it, and finding who was slow."""
    with _gc_paused():
        facts, reads, body = answer.recording
        decoded = answer.decoded or decode(facts, reads, body)
        transcript = Transcript(decoded)
        end_ns = max(facts.end_ns or 0, reads[-1].at_ns if reads else 0)
        # An answer that is no stream came as a whole, with its last read.
        transcript.come_by(end_ns)
        first_ns = next((socket_read.at_ns for socket_read in reads if socket_read.size), None)
        exchange = OpenedExchange(
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
            stalls = [
                verdict.from_ns + verdict.lasted_ns
                for verdict in judged
                if verdict.kind == "stall" and verdict.form == "gap"
            ]
            return Judgement(judged, markers.markers(transcript, first_ns, stalls))

    def attribute() -> Stage:
        with _gc_paused():
            return attribution().slowness()

    return exchange, (judge, attribute)


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Exempt the objects created here from garbage collections: each would hold up the screen for the time it takes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _borders(facts: Exchange, reads: Reads, size: int) -> "tuple[array[int], array[int]]":
    """Return the offsets of reads, and their indexes: `UNKNOWN` where the body goes on without any."""
    if not encoding.is_identity(facts.coding) or facts.framing == "websocket":
        return array("q"), array("q")
    ends, places = encoding.spans(reads.start, reads.size, size)
    owners = [reads.seq[place] if place >= 0 else UNKNOWN for place in places]
    return array("q", [0, *ends][: len(owners)]), array("q", owners)


def preliminary(row: DetailRow) -> Transcript:
    """Return the texts that the tape has already, as if one event had brought them all, until the body is decoded."""
    calls = [(call["name"] or "", call["arguments"] or "") for call in row.tool_calls or ()]
    return Transcript.of_texts({kind: text for kind, text in row.texts.items() if text}, calls)
