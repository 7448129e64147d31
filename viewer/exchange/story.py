"""Pure: one exchange in a dozen lines: what happened and whose doing it was, its times, its gaps drawn, its answer.

All facts are in `report.page`.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from rich.text import Text

from wiretape.recorder.decode.attribution import Attribution
from wiretape.recorder.local_time import moment
from wiretape.viewer.exchange import facts, report, states
from wiretape.viewer.exchange.facts import Fact
from wiretape.viewer.record.rows import DetailRow, Headers
from wiretape.viewer.record.units import ms, ns
from wiretape.viewer.text import formatting, sparkline
from wiretape.viewer.text.formatting import host, line
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict

_PLAIN_WIDTH: Final = 100
_PARTS: Final = (
    "--part facts: all figures, flags and headers;",
    "timing, text, conversation, context, events, reads, request, raw",
)


def lines(
    row: DetailRow, timed: Attribution, verdicts: Sequence[Verdict], headers: Headers, width: int | None = None
) -> Iterator[Text]:
    """Yield an exchange in a dozen lines; `headers` are those of its response, `width` the terminal's, in cells."""
    room = width or _PLAIN_WIDTH
    yield from _happened(row, timed, verdicts, room)
    yield from _drawing(row, timed, min(room - report.LABELS, 90))
    yield from _evidence(row, verdicts, headers, room)
    yield from report.laid_out(report.texts(row), room)
    yield from report.laid_out([Fact("more", _PARTS)], room)


def brief(row: DetailRow, timed: Attribution, verdicts: Sequence[Verdict], headers: Headers) -> Iterator[Text]:
    """Yield an exchange in fewer lines, without the words of its answer and without a drawing."""
    bare = [replace(verdict, before=None, after=None) for verdict in verdicts]
    yield from _happened(row, timed, bare, _PLAIN_WIDTH)
    yield from _evidence(row, bare, headers, _PLAIN_WIDTH)


def _happened(row: DetailRow, timed: Attribution, verdicts: Sequence[Verdict], room: int) -> Iterator[Text]:
    stands = states.state(row)
    for text in textwrap.wrap(f"{stands.sign} {sentence(row, verdicts)}", room, subsequent_indent="  "):
        yield Text(text, report.STYLES[stands.tone])
    request = f"{line(row.method)} {line(host(row.upstream) + row.path)}"
    labels = [line(f"{key}={label}") for key, label in row.labels.items()]
    facts_of_start = (
        Fact("exchange", (line(row.id), line(row.model), request)),
        Fact("started", (moment(row.started_at), *labels)),
    )
    yield from report.laid_out(facts_of_start, room)
    times = {"headers": ms(timed.exchange.headers_ns), "first token": row.ttft_ms, "done": row.duration_ms}
    reached = (f"{name} {formatting.ms(value)} ms" for name, value in times.items() if value is not None)
    yield from report.laid_out([Fact("times", (" → ".join(("sent", *reached)),))], room)


def _evidence(row: DetailRow, verdicts: Sequence[Verdict], headers: Headers, room: int) -> Iterator[Text]:
    yield from report.longest(verdicts)
    yield from report.laid_out(_figures(row, verdicts), room)
    yield from report.laid_out(report.identifying(headers), room)


def sentence(row: DetailRow, verdicts: Sequence[Verdict]) -> str:
    """Return the ending of an exchange and its party, with its longest stall or gap."""
    if row.outcome != "complete":
        silence = facts.silent_end(row, verdicts)
        other_verdicts = [verdict for verdict in verdicts if not silence or verdict.until != "cut"]
        slow = wording.brief(other_verdicts)
        return f"{facts.reason(row, silence)}{f'; {slow}' if slow else ''}"
    slow = wording.brief(verdicts)
    gap = "" if row.max_gap_ms is None else f", max gap {formatting.ms(row.max_gap_ms)} ms"
    return f"complete, {slow}" if slow else f"complete{gap}"


def _drawing(row: DetailRow, timed: Attribution, cells: int) -> Iterator[Text]:
    at = [output.at_ns for output in timed.outputs if output.at_ns is not None]
    end = ns(row.duration_ms)
    if end and timed.decoded.turns:  # the duration of several turns leaves out the time between these
        end = max(at_ns for at_ns in timed.decoded.at_ns if at_ns is not None)
    if not at or not end or cells <= 0:
        return
    edges = pairwise([0, *sorted(timed.later), len(at)])
    # One line of each turn, laid over each other: no gap lies between turns, and longer gaps have higher signs.
    ends = ((at[first:last], end if last == len(at) else None) for first, last in edges)
    turns = [sparkline.line(outputs, end_ns, end, cells).ljust(cells) for outputs, end_ns in ends]
    drawing = "".join(map(max, zip(*turns, strict=True))).rstrip()
    indent = " " * report.LABELS
    yield Text(f"{indent}{sparkline.axis(end, cells)}", "dim")
    yield Text(f"{indent}{drawing}")
    for text in textwrap.wrap(sparkline.LEGEND, cells + report.LABELS):
        yield Text(text, "dim")


def _figures(row: DetailRow, verdicts: Sequence[Verdict]) -> Iterator[Fact]:
    """Yield the tokens, the cost, a doubtful clock, and the names of the flags that verdicts do not replace."""
    burst = any(verdict.kind == "burst" for verdict in verdicts)
    for fact in facts.measured(row, burst=burst):
        parts = tuple(part for part in fact.parts if not part.endswith(formatting.UNKNOWN))
        if parts and fact.label in ("server ms", "tokens", "cost"):
            yield Fact(fact.label, parts)
    if (cached := facts.cache(row)) is not None:
        yield cached
    is_doubtful = row.clock in ("imported", "none") or "clock_suspect" in row.flags
    for fact in facts.transport(row):
        if fact.label == "request" or (fact.label == "clock" and is_doubtful):
            yield fact
    if flags := [flag for flag, _ in facts.flags(row, report.JUDGED)]:
        yield Fact("flags", tuple(map(line, flags)))
