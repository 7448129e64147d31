"""Pure: where the time of an exchange went, as bars on one axis: the way to upstream, the wait, what came, the end.

A stretch whose timestamps are not on the tape has no bar.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from recorder.decode.outcome import ENDED_BY, Exchange
from viewer import rows
from viewer.model.exchange.strips import cell
from viewer.model.exchange.transcript import KINDS, Transcript
from viewer.rows import Row
from viewer.timing.verdicts import Verdict

_FRAMED: Final = {
    "chunked": "the body's last chunk came",
    "length": "all of Content-Length came",
    "close": "upstream closed the connection, which ends such a body",
    "none": "an answer without a body",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time from T0 on, in ns, under its name; `kind` says how it is drawn, `note` what else is known."""

    name: str
    start_ns: int
    end_ns: int
    kind: str
    note: str = ""

    def cells(self, axis_ns: int, cells: int) -> tuple[int, int]:
        """Return its first cell on an axis of so many, and how many it takes: at least one."""
        first = cell(self.start_ns + 1, axis_ns, cells)
        return first, max(cell(self.end_ns, axis_ns, cells) - first + 1, 1)


def bars(
    facts: Exchange,
    row: Row,
    transcript: Transcript | None,
    verdicts: Sequence[Verdict] = (),
    last_ns: int | None = None,
) -> Iterator[Bar]:
    """Yield the bars of an exchange; `row` is `queries.detail`'s, `last_ns` the timestamp of its last read."""
    connected_ns, headers_ns, first_ns = facts.connected_ns, facts.headers_ns, rows.ns(row["ttf_byte_ms"])
    if connected_ns is not None:
        yield Bar("connect", 0, connected_ns, "wait", "" if connected_ns else "connection reused")
    if headers_ns is not None:
        yield Bar("wait for headers", connected_ns or 0, headers_ns, "wait", f"status {facts.status}")
        if first_ns is not None:
            yield Bar("wait for a byte", headers_ns, first_ns, "wait")
    if transcript is not None:
        yield from _kinds(transcript)
    for verdict in sorted(verdicts, key=lambda verdict: -verdict.lasted_ns)[:3]:
        if verdict.kind == "stall":
            end_ns = verdict.from_ns + verdict.lasted_ns
            yield Bar("stall", verdict.from_ns, end_ns, "stall", verdict.who or "unclear")
    if last_ns is not None and facts.end_ns is not None:
        yield Bar("end", min(last_ns, facts.end_ns), facts.end_ns, "end", _end(facts))


def _kinds(transcript: Transcript) -> Iterator[Bar]:
    for kind in ("reasoning", "content", "tool", "refusal"):
        code = KINDS.index(kind)
        first, last = transcript.kinds.find(code), transcript.kinds.rfind(code)
        if first >= 0 and transcript.timed[first] and transcript.timed[last]:
            count = transcript.kinds.count(code)
            note = f"{count:,} event{'s' * (count != 1)}"
            yield Bar(kind, transcript.at[first], transcript.at[last], kind, note)


def _end(facts: Exchange) -> str:
    if facts.ended_by == "end":
        return _FRAMED.get(facts.framing or "", "the body ended")
    return next((meaning for by, meaning in ENDED_BY.items() if by == facts.ended_by), "")
