"""Pure: the pages of one exchange, as lines of pieces and their tones: heading, request, timing.

The words are those of `facts` and `wording`; `show` renders the same lines. The caller passes each line through `safe`,
since bodies are as recorded. Unknown is `–`.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.attribution import Spread
from wiretape.recorder.decode.exchange import FLAGS, NOT_SHIPPED, Exchange
from wiretape.recorder.facts import ENDED_BY
from wiretape.recorder.local_time import moment
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange import facts, states, turns
from wiretape.viewer.exchange.clocks import SINCE_REQUEST, Times
from wiretape.viewer.exchange.facts import Fact, Line, RelaySide
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.strips import cell as cell_at
from wiretape.viewer.exchange.transcript import KINDS, UNKNOWN, Transcript
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import DetailRow, RequestRow
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.text.formatting import cell, line
from wiretape.viewer.text.waterfall import SIGNS
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict

_BARS: Final[dict[str, tuple[str, Tone]]] = {
    "wait": (SIGNS["wait"], "muted"), "stall": (SIGNS["stall"], "error"), "end": ("▌", "muted"),
    "reasoning": (SIGNS["reasoning"], "reasoning"), "content": (SIGNS["content"], "success"),
    "tool": (SIGNS["content"], "accent"), "refusal": (SIGNS["content"], "warning"),
}  # fmt: skip
_FRAMED: Final = {
    "chunked": "the body's last chunk came",
    "length": "all of Content-Length came",
    "close": "upstream closed the connection, which ends such a body",
    "h2": "upstream ended the stream",
    "none": "an answer without a body",
    "websocket": "upstream closed the connection of the WebSocket",
}
_LARGEST_JSON: Final = 1 << 20
_NAMES: Final = 18
_COUNT: Final = 9
_FIGURE: Final = 11


def heading(record: Known, exchange: OpenedExchange | None = None, died: bool = False) -> Line:
    """Return the heading line of an exchange, with the verdict on its timing once it is judged."""
    row = record.row
    state = states.state(row, recording=not died)
    path = row.path.partition("?")[0]
    summary = wording.brief(exchange.verdicts) if exchange is not None else ""
    judged = {str(verdict.kind) for verdict in exchange.verdicts} if exchange is not None else set()
    judged |= {"given_up"} if "stall" in judged else set()
    flags = " ".join(flag for flag in states.ranked(row.flags) if flag not in judged)
    return [
        (f" {row.id[:8]}", "strong"),
        (f"  {state.sign} {states.ending(row, recording=not died)}", state.tone),
        (f"  {formatting.cell(row.status)}", "success" if (row.status or 999) < 300 else "error"),
        (f"  {clipped(row.model or formatting.UNKNOWN, 40)}", "plain"),
        (f"  {summary}" if summary else "", "error" if "stall" in judged else "warning"),
        (f"  {flags}" if flags else "", "warning"),
        (f"  {row.method} {formatting.host(row.upstream)}{path}", "muted"),
    ]


def is_dead(record: Known, wall_ns: int) -> bool:
    """Return True if an exchange has not ended but is no longer recorded."""
    if record.row.ended_by is not None or record.row.outcome != "open":
        return False
    return record.recorder.state(wall_ns) != "running"


def trouble(record: Known, exchange: OpenedExchange | None, died: bool) -> Line | None:
    """Return the faults of an exchange in one line, or None without any."""
    row = record.row
    if died:
        heard = moment(record.recorder.heartbeat_at)
        return [(f" recorder pid {record.recorder.pid} gone; last heard of {heard}: this is all there is", "error")]
    if exchange is not None and not exchange.facts.has_bytes:
        return [(" its bytes were not shipped: facts, measures and gaps only", "warning")]
    if exchange is not None and exchange.missing:
        return [(f" missing from the tape: {counted(exchange.missing, 'byte')}; the rest is shown", "error")]
    if exchange is not None and UNKNOWN in exchange.owners:
        borders = [*exchange.borders, len(exchange.transcript.data)]
        spans = zip(pairwise(borders), exchange.owners, strict=True)
        unread = sum(end - start for (start, end), owner in spans if owner == UNKNOWN)
        return [(f" of {counted(unread, 'byte')} no read is on the tape: when they came is not known", "error")]
    if row.outcome in ("complete", "open"):
        return None
    silence = facts.silent_end(row, exchange.verdicts) if exchange is not None and exchange.judged else None
    return [(f" {facts.reason(row, silence)}", "error" if facts.fault(row) else "warning")]


def silence(record: Known, exchange: OpenedExchange) -> str:
    """Return the reason that there is no text."""
    if exchange.live and not exchange.transcript.data:
        return "nothing has come yet"
    return facts.no_text(record.row, "3 shows it")


def request(record: Known) -> Iterator[Line]:
    """Yield a request as it is on the tape, and the head of its response; JSON is indented."""
    request = record.request
    yield [
        (f"{line(request.exchange.method)} ", "strong"),
        (line(f"{request.exchange.upstream}{request.exchange.path}"), "accent"),
    ]
    yield []
    yield from headers(request.headers)
    yield []
    more = " until now, or until its recorder died" if request.size is None else ""
    size = f"{counted(request.known_size, 'byte')}{more}"
    if NOT_SHIPPED in record.row.flags:
        size += f" · {FLAGS[NOT_SHIPPED]}"
    is_unknown = request.size is None and "imported" in record.row.flags
    yield [("body · unknown: it is not in the import" if is_unknown else f"body · {size}", "muted")]
    yield from _body(request)
    if record.exchange.headers.response:
        yield []
        yield [("response ", "strong"), (cell(record.row.status), "plain")]
        yield []
        yield from headers(record.exchange.headers.response)
    if record.exchange.headers.trailers:
        yield []
        yield [("trailers", "strong")]
        yield []
        yield from headers(record.exchange.headers.trailers)


def headers(headers: Sequence[Sequence[str]]) -> Iterator[Line]:
    return ([(f"{line(name)}: ", "muted"), (line(value), "plain")] for name, value in headers)


def timing(record: Known, exchange: OpenedExchange | None, width: int, times: Times = SINCE_REQUEST) -> Iterator[Line]:
    """Yield the spans of time and the slow party, in lines of `width` cells, timestamps as `times` display them."""
    judged = {verdict.kind for verdict in exchange.verdicts} if exchange is not None and exchange.judged else None
    burst = "burst" in (record.row.flags if judged is None else judged)
    fact_rows = (*facts.measured(record.row, burst=burst), *facts.transport(record.row), *facts.labels(record.row))
    figures = [row for fact in fact_rows for row in labelled(fact, width)]
    if exchange is None:
        yield from (*figures, [])
        yield [("decoding …", "muted")]
        return
    yield from _waterfall(record, exchange, width, times)
    yield []
    if turn_lines := [*turns.table(exchange.transcript.turns, width)]:
        yield from (*turn_lines, [])
    if exchange.slowness is None:
        yield [("who was slow: not known yet …", "muted")]
    else:
        yield from who_was_slow(facts.who_was_slow(exchange.slowness), width)
    if exchange.judged:
        yield []
        yield from _verdicts(exchange, times)
    yield from ([], *figures)


def _body(request: RequestRow) -> Iterator[Line]:
    body = request.plain
    if body is None or request.body is None:
        return
    if body != request.body:
        coding = line(encoding.coding_of(request.headers) or "")
        yield [(f"(it came as {coding}; decoded: {counted(len(body), 'byte')})", "muted")]
    try:
        text = body.decode()
    except UnicodeDecodeError:
        yield [(body[:_LARGEST_JSON].decode("utf-8", "replace"), "plain")]
        yield [("(not UTF-8)", "warning")]
        return
    if len(body) <= _LARGEST_JSON:
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    yield [(text, "plain")]
    if missing := request.known_size - len(request.body):
        yield [(f"({counted(missing, 'byte')} more than the tape keeps)", "warning")]


@dataclass(frozen=True, slots=True)
class TimeBar:
    """A span of time after T0, in ns, with its name; `kind` selects its drawing, `note` has other facts."""

    name: str
    start_ns: int
    end_ns: int
    kind: str
    note: str = ""

    def cells(self, axis_ns: int, cells: int) -> tuple[int, int]:
        """Return the first cell on an axis of `cells`, and the number of cells: at least one."""
        first_cell = cell_at(self.start_ns + 1, axis_ns, cells)
        return first_cell, max(cell_at(self.end_ns, axis_ns, cells) - first_cell + 1, 1)


def bars(
    exchange: Exchange,
    row: DetailRow,
    transcript: Transcript | None,
    verdicts: Sequence[Verdict] = (),
    last_ns: int | None = None,
) -> Iterator[TimeBar]:
    """Yield the bars of an exchange; `last_ns` is the timestamp of its last read."""
    connected_ns, headers_ns, first_ns = (
        exchange.connected_ns,
        exchange.headers_ns,
        units.ns(row.derived["ttf_byte_ms"]),
    )
    if connected_ns is not None:
        yield TimeBar("connect", 0, connected_ns, "wait")
    if headers_ns is not None:
        reused = ", connection kept" if exchange.connection_reused else ""
        yield TimeBar("wait for headers", connected_ns or 0, headers_ns, "wait", f"status {exchange.status}{reused}")
        if first_ns is not None and exchange.framing != "websocket":  # there it counts from a message
            yield TimeBar("wait for a byte", headers_ns, first_ns, "wait")
    if transcript is not None:
        for kind in ("reasoning", "content", "tool", "refusal"):
            code = KINDS.index(kind)
            first_event, last_event = transcript.kinds.find(code), transcript.kinds.rfind(code)
            if first_event >= 0 and transcript.timed[first_event] and transcript.timed[last_event]:
                count = transcript.kinds.count(code)
                note = f"{count:,} event{'s' * (count != 1)}"
                yield TimeBar(kind, transcript.at[first_event], transcript.at[last_event], kind, note)
    for verdict in sorted(verdicts, key=lambda verdict: -verdict.lasted_ns)[:3]:
        if verdict.kind == "stall":
            end_ns = verdict.from_ns + verdict.lasted_ns
            yield TimeBar("stall", verdict.from_ns, end_ns, "stall", verdict.who or "unclear")
    if last_ns is not None and exchange.end_ns is not None:
        yield TimeBar("end", min(last_ns, exchange.end_ns), exchange.end_ns, "end", _how_it_ended(exchange))


def _how_it_ended(exchange: Exchange) -> str:
    if exchange.ended_by == "end":
        return _FRAMED.get(exchange.framing or "", "the body ended")
    return next((meaning for by, meaning in ENDED_BY.items() if by == exchange.ended_by), "")


def _waterfall(record: Known, exchange: OpenedExchange, width: int, times: Times) -> Iterator[Line]:
    last_ns = exchange.reads_at[-1] if len(exchange.reads_at) else None
    drawable = bars(exchange.facts, record.row, exchange.transcript, exchange.verdicts, last_ns)
    room = max(width - _NAMES - 12, 10)
    yield [(f"{'':{_NAMES}}{'ms':>9}  ", "muted"), (times.axis(exchange.end_ns, room), "muted")]
    for bar in islice(drawable, 12):
        first_cell, size = bar.cells(exchange.end_ns, room)
        sign, tone = _BARS[bar.kind]
        lasted = f"{(bar.end_ns - bar.start_ns) / 1e6:>9,.1f}"
        name_parts: Line = [
            (f"{bar.name:<{_NAMES}}", tone if bar.kind == "stall" else "plain"),
            (f"{lasted}  ", "strong"),
        ]
        note = f" {bar.note}"
        if first_cell + size + len(note) <= room:
            yield [*name_parts, (" " * first_cell, "plain"), (sign * size, tone), (note, "muted")]
        elif len(note) < first_cell:
            yield [*name_parts, (f"{note:>{first_cell - 1}} ", "muted"), (sign * size, tone)]
        else:
            yield [*name_parts, (" " * first_cell, "plain"), (sign * size, tone)]


def who_was_slow(sides: Iterable[RelaySide], width: int) -> Iterator[Line]:
    """Yield the table of `facts.who_was_slow`; without room beside the figures, their meaning stands below them."""
    sides = list(sides)
    names = _NAMES if width >= _NAMES + _COUNT + 3 * _FIGURE else 14
    count = _COUNT if width >= names + _COUNT + 3 * _FIGURE else 0
    room = width - names - count - 3 * _FIGURE - 4
    beside = all(len(side.meaning) <= room for side in sides)
    titles = f"{'p50 ms':>{_FIGURE}}{'p99 ms':>{_FIGURE}}{'max ms':>{_FIGURE}}"
    yield [(f"{'who was slow?':<{names}}{'n' if count else '':>{count}}{titles}", "strong")]
    for side in sides:
        figures: Line = [(f"{side.name:<{names}}{_spread(side.delays, count)}", "plain")]
        explained: Line = [("  ", "plain"), (f"← {side.meaning}", "muted")]
        yield from ([figures + explained] if beside else [figures, explained])


def _spread(spread: Spread | None, count: int) -> str:
    if spread is None:
        return f"{formatting.UNKNOWN:>{count or _FIGURE}}".ljust(count + 3 * _FIGURE)
    figures = "".join(f"{formatting.ms(ns / 1e6):>{_FIGURE}}" for ns in (spread.p50_ns, spread.p99_ns, spread.max_ns))
    return (f"{spread.n:>{count},}" if count else "") + figures


def _verdicts(exchange: OpenedExchange, times: Times) -> Iterator[Line]:
    for verdict in exchange.verdicts[:100]:
        yield from judged(verdict, _NAMES, times.with_unit)
    if exchange.verdicts:
        return
    if not any(exchange.transcript.timed):
        no_verdict: Part = ("none: no part of the answer has a timestamp of its own", "muted")
    elif len(exchange.transcript) == 1 and not exchange.live:
        no_verdict = ("none: the answer is one piece, so it has no gaps", "muted")
    else:
        no_verdict = (wording.nothing(exchange.limits) + " so far" * exchange.live, "success")
    yield [(f"{'verdict':<{_NAMES}}", "strong"), no_verdict]


def judged(
    verdict: Verdict, names: int, timestamp: Callable[[int], str] = formatting.timestamp_with_unit
) -> Iterator[Line]:
    """Yield a verdict, and its evidence below it, beside a label of `names` cells."""
    sentence, evidence = wording.sentences(verdict, timestamp)
    yield [(f"{verdict.kind:<{names}}", "error" if verdict.kind == "stall" else "warning"), (sentence, "plain")]
    yield [(" " * names, "plain"), (evidence, "muted")]


def labelled(fact: Fact, width: int, names: int = _NAMES) -> Iterator[Line]:
    """Yield a fact beside its label of `names` cells, in as many lines of `width` cells as its parts need."""
    lines = [""]
    for part in fact.parts:
        if lines[-1] and len(lines[-1]) + 2 + len(part) > width - names:
            lines.append("")
        lines[-1] += f"  {part}" if lines[-1] else part
    for number, text in enumerate(lines):
        yield [(f"{'' if number else fact.label:<{names}}", "strong"), (text, "plain")]
