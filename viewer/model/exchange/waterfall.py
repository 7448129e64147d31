"""Pure: where the time of an exchange went, as bars on one axis: the way to upstream, the wait, what came, the end.

Every instant is of the tape; what is not known has no bar. Who was slow is `slowness`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recorder.decode.outcome import ENDED_BY, Exchange
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


def bars(
    facts: Exchange,
    row: Row,
    transcript: Transcript | None,
    verdicts: Sequence[Verdict] = (),
    last_ns: int | None = None,
) -> list[Bar]:
    """Give the bars of an exchange; `row` is `queries.detail`'s, `last_ns` the instant of its last read."""
    found = []
    if facts.connected_ns is not None:
        found.append(Bar("connect", 0, facts.connected_ns, "wait", "" if facts.connected_ns else "connection reused"))
    if facts.headers_ns is not None:
        found.append(
            Bar("wait for headers", facts.connected_ns or 0, facts.headers_ns, "wait", f"status {facts.status}")
        )
    first = _ns(row["ttf_byte_ms"])
    if first is not None and facts.headers_ns is not None:
        found.append(Bar("wait for a byte", facts.headers_ns, first, "wait"))
    if transcript is not None:
        found += _kinds(transcript)
    found += [
        Bar(verdict.kind, verdict.from_ns, verdict.from_ns + verdict.lasted_ns, "stall", verdict.who or "unclear")
        for verdict in sorted(verdicts, key=lambda one: -one.lasted_ns)[:3]
        if verdict.kind == "stall"
    ]
    if last_ns is not None and facts.end_ns is not None:
        found.append(
            Bar(
                "end",
                min(last_ns, facts.end_ns),
                facts.end_ns,
                "end",
                _ended(facts),
            )
        )
    return found


def drawn(bar: Bar, axis_ns: int, cells: int) -> tuple[int, int]:
    """Give the first cell of a bar and how many it takes: at least one."""
    first = cell(bar.start_ns + 1, axis_ns, cells)
    return first, max(cell(bar.end_ns, axis_ns, cells) - first + 1, 1)


def _kinds(transcript: Transcript) -> list[Bar]:
    found = []
    for kind in ("reasoning", "content", "tool", "refusal"):
        code = KINDS.index(kind)
        first, last = transcript.kinds.find(code), transcript.kinds.rfind(code)
        if first >= 0 and transcript.timed[first] and transcript.timed[last]:
            count = transcript.kinds.count(code)
            note = f"{count:,} event{'s' * (count != 1)}"
            found.append(Bar(kind, transcript.at[first], transcript.at[last], kind, note))
    return found


def _ended(facts: Exchange) -> str:
    if facts.ended_by == "end":
        return _FRAMED.get(facts.framing or "", "the body ended")
    return next((meaning for by, meaning in ENDED_BY.items() if by == facts.ended_by), "")


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1e6)
