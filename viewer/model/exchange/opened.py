"""Pure: all of an exchange from what the tape holds of it: its body decoded, its texts in time, what is wrong with it.

It takes as long as decoding does. Reading the tape, and where this is done, are left to `inspecting`.
"""

import dataclasses
import functools
import gc
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from recorder.decode import encoding
from recorder.decode.decoder import decode
from recorder.decode.outcome import Exchange, Reads
from recorder.decode.stalls import Thresholds
from recorder.process import Run
from viewer.model.exchange import markers
from viewer.model.exchange.markers import Marker
from viewer.model.exchange.transcript import UNKNOWN, Transcript
from viewer.rows import Row
from viewer.timing import verdicts
from viewer.timing.attribution import Attribution, Slowness
from viewer.timing.verdicts import Verdict

Judged = dict[str, Any]
"""The fields of an `Opened` that a stage of judging it gives."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known without decoding: the row of `queries.detail`, the request and its body, the gaps between outputs.

    The row of one that still runs is measured as far as it is, unless it is large. `gaps` are packed as on the tape;
    `end_ns` is when the exchange ended, 0 if it has not.
    """

    row: Row
    request: Row
    request_body: bytes | None
    response_headers: list[list[str]]
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


@dataclass(frozen=True, slots=True)
class Opened:
    """All of an exchange: its facts, its texts in time, what is wrong with it, and its reads in columns.

    `borders` are where reads begin in the decoded body, `owners` which they are, UNKNOWN from where no read is known to
    have brought it: none if the body came compressed.
    Until it is `judged`, there are no verdicts and no markers of stalls; `slowness` comes last, and is None until then.
    """

    facts: Exchange
    transcript: Transcript
    verdicts: list[Verdict]
    slowness: Slowness | None
    limits: Thresholds
    markers: list[Marker]
    end_ns: int
    reads_at: "array[int]" = field(repr=False)
    sizes: "array[int]" = field(repr=False)
    borders: "array[int]" = field(repr=False)
    owners: "array[int]" = field(repr=False)
    missing: int = 0
    judged: bool = True

    @property
    def longest(self) -> Marker | None:
        """The longest stall; None if there is none."""
        gaps = [one for one in self.verdicts if one.kind == "stall" and one.form == "gap"]
        worst = max(gaps, key=lambda one: one.lasted_ns, default=None)
        ended = None if worst is None else worst.from_ns + worst.lasted_ns
        return next((one for one in self.markers if one.sign == "S" and one.at_ns == ended), None)

    @property
    def live(self) -> bool:
        """Whether it still runs."""
        return self.facts.ended_by is None


def opened(answer: Stored, limits: Thresholds) -> Opened:
    """Decode an answer, or what there is of it so far, and judge it: slow for a long one, and it needs no tape."""
    found, further = stages(answer, limits)
    for stage in further:
        found = dataclasses.replace(found, **stage())
    return found


def stages(answer: Stored, limits: Thresholds) -> tuple[Opened, tuple[Callable[[], Judged], Callable[[], Judged]]]:
    """Decode an answer; give what that brings, and two that take longer: what judges it, and what tells who was slow.

    `replace` takes what these give.
    """
    with _unhurried():
        facts, its_reads = answer.facts, answer.reads
        decoded = decode(facts, its_reads, answer.body)
        transcript = Transcript(decoded)
        end = max(facts.end_ns or 0, its_reads[-1].at_ns if its_reads else 0)
        transcript.come_by(end)
        first = next((read.at_ns for read in its_reads if read.size), None)
        borders, owners = _borders(facts, its_reads, len(transcript.data))
        begun = Opened(
            facts,
            transcript,
            [],
            None,
            limits,
            markers.markers(transcript, first),
            end,
            array("q", its_reads.at_ns),
            array("q", its_reads.size),
            borders,
            owners,
            facts.gap_bytes,
            judged=False,
        )

    @functools.cache
    def timed() -> Attribution:
        return Attribution(facts, its_reads, decoded)

    def judged() -> Judged:
        with _unhurried():
            told = verdicts.verdicts(timed(), answer.outcome, limits)
            stalls = [one.from_ns + one.lasted_ns for one in told if one.kind == "stall" and one.form == "gap"]
            return {"verdicts": told, "markers": markers.markers(transcript, first, stalls), "judged": True}

    def summed_up() -> Judged:
        with _unhurried():
            return {"slowness": timed().slowness()}

    return begun, (judged, summed_up)


@contextmanager
def _unhurried() -> Iterator[None]:
    """Leave what is made here out of collections of garbage: each would hold up the screen for as long as it takes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _borders(facts: Exchange, reads: Reads, size: int) -> "tuple[array[int], array[int]]":
    """Return where reads begin, and which: `UNKNOWN` from where the body goes on without any."""
    if not encoding.is_identity(facts.content_encoding):
        return array("q"), array("q")
    ends, places = encoding.spans(reads.start, reads.size, size)
    owners = [reads.seq[place] if place >= 0 else UNKNOWN for place in places]
    return array("q", [0, *ends][: len(owners)]), array("q", owners)
