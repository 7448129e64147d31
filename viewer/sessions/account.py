"""Pure: the time account of a session: each instant of its wall time belongs to one of eight parts.

Times are integer ns, so that the parts add up to the wall time exactly. An exchange, or a turn of a WebSocket, is a
`Span` on the session's axis of time (`axis`). At each instant the first part of `PARTS` that
fits an open span decides; while none is open, the next one to start and the one that it continues do.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from wiretape.recorder.decode.metrics import percentile
from wiretape.recorder.decode.stalls import DEFAULT, Thresholds
from wiretape.viewer.record import rows, units
from wiretape.viewer.record.fields import ACCOUNT_FIELDS, stored_name

PARTS: Final = {
    "streaming": "an exchange is between its first and last output, and not in a stall",
    "stalled": "an exchange is, behind its first output, in a silence that is a stall, whatever ended it",
    "waiting": "an exchange that does not fail is before its first output, or without any",
    "closing": "an exchange that does not fail is after its last output",
    "failed": "an exchange that fails is before its first or after its last output",
    "backoff": "none is open; the next to start continues one that failed, or repeats one that was given up in a stall",
    "tools": "none is open; the next to start continues a tool call, or begins a branch while one is unanswered; or, "
    "of a hosted turn, a tool runs",
    "idle": "none is open, all else: the user, or the program itself",
}
"""The parts of a session's time with their meanings: of several that fit an instant, the first one counts."""

OWN_PARTS: Final = ("streaming", "stalled", "waiting", "closing", "failed")
"""Those in which an exchange is open."""


class Span(NamedTuple):
    """An exchange, or a turn of a WebSocket, with the exchange's number `no`; of an open one, `end_ns` is now.

    `continues` is the number of its predecessor, or of the failed attempt at the same request before it; of a later
    turn, its own; `repeats`: with the same request. `begins`: it begins a branch. `answers_tool`: its request ends in
    results of tools. `stalls` are those behind its first output. `given_up`: the client left it in a stall. Without
    `is_timed` nothing is known of its time but its start and its end. A hosted turn has an `outcome` of its own; in its
    `tools`, a tool call is unanswered and no output comes. None is unknown.
    """

    no: int
    start_ns: int
    end_ns: int
    first_ns: int | None = None
    last_ns: int | None = None
    stalls: Sequence[tuple[int, int]] = ()
    is_generation: bool = True
    is_open: bool = False
    failed: bool = False
    client_closed: bool = False
    calls_tool: bool | None = False
    answers_tool: bool | None = None
    continues: int | None = None
    begins: bool = False
    repeats: bool = False
    given_up: bool = False
    is_timed: bool = True
    tools: Sequence[tuple[int, int]] = ()
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The parts of a session's wall time, and counts of its exchanges; see `MEANINGS`.

    Without `is_known` its parts are unknown: its source has no times within the bodies.
    """

    wall_ns: int = 0
    streaming_ns: int = 0
    stalled_ns: int = 0
    waiting_ns: int = 0
    closing_ns: int = 0
    failed_ns: int = 0
    backoff_ns: int = 0
    tools_ns: int = 0
    idle_ns: int = 0
    parallel_ns: int = 0
    exchanges: int = 0
    turns: int = 0
    failed: int = 0
    open: int = 0
    exchanges_max: int = 0
    ttft_p50_ns: float | None = None
    clock_step: bool = False
    is_known: bool = True

    @property
    def parts(self) -> dict[str, int]:
        """The parts in ns by name, in their order; none if they are unknown."""
        return {name: getattr(self, f"{name}_ns") for name in PARTS} if self.is_known else {}

    def row(self) -> rows.TableRow:
        row = {name: getattr(self, stored_name(name)) for name in ACCOUNT_FIELDS}
        row |= {name: units.ms(value) for name, value in row.items() if name.endswith("_ms")}
        return row if self.is_known else row | dict.fromkeys(f"{name}_ms" for name in PARTS)

    def __add__(self, other: "Account") -> "Account":
        """Return the account of both; the median of all is unknown, and the most open at once that of either."""
        summed: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        most = max(self.exchanges_max, other.exchanges_max)
        is_known = self.is_known and other.is_known
        return Account(**summed, exchanges_max=most, clock_step=self.clock_step or other.clock_step, is_known=is_known)


_NOT_SUMMED: Final = ("exchanges_max", "ttft_p50_ns", "clock_step", "is_known")
_SUMMED: Final = [field.name for field in fields(Account) if field.name not in _NOT_SUMMED]
MEANINGS: Final = {
    "wall_ns": "first T0 → last end",
    **{f"{name}_ns": f"time in which {meaning}" for name, meaning in PARTS.items()},
    "parallel_ns": "sum of the durations − time with at least one open exchange",
    "exchanges": "exchanges of all operations; a WebSocket is one",
    "turns": "generations that ended and did not fail; over a WebSocket, its responses",
    "failed": "exchanges that failed",
    "open": "exchanges that are still running",
    "exchanges_max": "most exchanges open at once",
    "ttft_p50_ns": "median time to first token of the turns",
    "clock_step": "the wall clock was set back between two exchanges: a gap of unknown length counts as 0",
}
"""The meanings of the figures of an `Account`."""


def account(
    spans: Iterable[Span], limits: Thresholds = DEFAULT, *, clock_step: bool = False, silent: int = 0
) -> Account:
    """Return the account of a session's exchanges, of which as many as `silent` have no time of their own."""
    ordered = _by_start(spans)
    totals, links = dict.fromkeys(PARTS, 0), _Links()
    parallel_ns, most_open, last_ns = 0, 0, ordered[0].start_ns if ordered else 0
    for cluster, end_ns in _clusters(ordered):
        first_span = cluster[0]
        totals[links.reason(first_span)] += first_span.start_ns - last_ns
        for part, took_ns in _spent(cluster, limits):
            totals[part] += took_ns
        if len(cluster) > 1:
            parallel_ns += sum(_end(span) - span.start_ns for span in cluster) - (end_ns - first_span.start_ns)
        most_open = max(most_open, _most_open(cluster))
        last_ns = end_ns
        links.add(cluster)
    turns = [span for span in ordered if span.is_generation and not (span.is_open or span.failed)]
    answered = (span for span in turns if not span.client_closed)
    waits = sorted(span.first_ns - span.start_ns for span in answered if span.first_ns is not None)
    return Account(
        wall_ns=last_ns - ordered[0].start_ns if ordered else 0,
        **{f"{name}_ns": took_ns for name, took_ns in totals.items()},
        parallel_ns=parallel_ns,
        exchanges=len({span.no for span in ordered}) + silent,
        turns=len(turns),
        failed=len({span.no for span in ordered if span.failed}),
        open=len({span.no for span in ordered if span.is_open}),
        exchanges_max=most_open,
        ttft_p50_ns=percentile(waits, 0.5) if waits else None,
        clock_step=clock_step,
        is_known=all(span.is_timed for span in ordered),
    )


def _by_start(spans: Iterable[Span]) -> list[Span]:
    """Return spans in the order of their starts; a hosted turn starts with the request that begins it, and first."""
    return sorted(spans, key=lambda span: (span.start_ns, span.outcome is None))


class _Links:
    """The links from an exchange to those before it, which explain a time without any."""

    def __init__(self) -> None:
        self._spans: dict[int, Span] = {}
        """The last span of each exchange."""
        self._unanswered: set[int] = set()

    def add(self, spans: Iterable[Span]) -> None:
        """Add spans in their order, and what their requests answer."""
        for span in spans:
            # An unknown request may hold the result: a call is unanswered only if that is sure.
            if not span.failed and span.answers_tool is not False:
                self._unanswered.discard(self._answered_exchange(span))
            self._spans[span.no] = span
            if span.calls_tool and not (span.failed or span.client_closed):
                self._unanswered.add(span.no)

    def _answered_exchange(self, span: Span) -> int:
        """Return the number of the exchange whose answer a request follows, behind all failed attempts."""
        # The predecessor of a failed turn, by its number, is the last turn of its own exchange.
        while (previous := self._predecessor(span)) is not None and previous.failed and previous is not span:
            span = previous
        return -1 if previous is None else previous.no

    def _predecessor(self, span: Span) -> Span | None:
        return None if span.continues is None else self._spans.get(span.continues)

    def reason(self, following: Span) -> str:
        """Return the part of the time in which none was open, before this span."""
        previous = self._predecessor(following)
        if previous is None:
            return "tools" if following.begins and self._unanswered else "idle"
        if previous.failed or (previous.given_up and following.repeats):
            return "backoff"
        calls_tool = following.answers_tool if previous.calls_tool is None else previous.calls_tool
        awaits_tool = calls_tool and not (previous.client_closed and following.answers_tool is False)
        return "tools" if awaits_tool else "idle"


def _end(span: Span) -> int:
    return span.end_ns if span.end_ns > span.start_ns else span.start_ns


def _clusters(ordered: Iterable[Span]) -> Iterator[tuple[list[Span], int]]:
    """Yield spans in groups between which none is open, with the end of each group."""
    cluster, end_ns = list[Span](), 0
    for span in ordered:
        if cluster and span.start_ns >= end_ns:
            yield cluster, end_ns
            cluster = []
        span_end_ns = _end(span)
        end_ns = span_end_ns if not cluster or span_end_ns > end_ns else end_ns
        cluster.append(span)
    if cluster:
        yield cluster, end_ns


def _spent(cluster: Sequence[Span], limits: Thresholds) -> Iterator[tuple[str, int]]:
    """Yield the parts of the time of overlapping spans, with their durations."""
    if len(cluster) == 1:
        for part, start_ns, end_ns in phases(cluster[0], limits):
            yield part, end_ns - start_ns
        return
    times = [phase for span in cluster for phase in phases(span, limits)]
    changes = [(start_ns, part, 1) for part, start_ns, _ in times] + [(end_ns, part, -1) for part, _, end_ns in times]
    open_counts, last_ns = dict.fromkeys(PARTS, 0), 0
    for at_ns, part, change in sorted(changes):
        if at_ns > last_ns and (open_part := next((name for name in _FIRST_MATCH if open_counts[name]), None)):
            yield open_part, at_ns - last_ns  # of several parts at once the first of `PARTS`: the sum is the wall time
        last_ns = at_ns
        open_counts[part] += change


def phases(span: Span, limits: Thresholds) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a span's own time, with their starts and ends, in order even if its times are not."""
    for part, from_ns, to_ns in _phases(span, limits):
        at_ns = from_ns
        for tool_ns, until_ns in span.tools:
            start_ns, end_ns = max(tool_ns, at_ns), min(until_ns, to_ns)
            if start_ns < end_ns:
                yield part, at_ns, start_ns
                yield "tools", start_ns, end_ns
                at_ns = end_ns
        yield part, at_ns, to_ns


def _phases(span: Span, limits: Thresholds) -> Iterator[tuple[str, int, int]]:
    start_ns, end_ns, first_ns, last_ns = span.start_ns, _end(span), span.first_ns, span.last_ns
    earlier_part, later_part = ("failed", "failed") if span.failed else ("waiting", "closing")
    if first_ns is None:
        yield earlier_part, start_ns, end_ns
        return
    # Times may contradict each other, as those of damaged or imported exchanges: the parts still add up.
    first_ns = start_ns if first_ns < start_ns else end_ns if first_ns > end_ns else first_ns
    last_ns = first_ns if last_ns is None or last_ns < first_ns else end_ns if last_ns > end_ns else last_ns
    yield earlier_part, start_ns, first_ns
    stalls, at_ns = span.stalls, first_ns
    if span.is_open:
        stalls = [*stalls, (last_ns, end_ns)] if limits.is_stall(end_ns - last_ns) else stalls
        last_ns = end_ns
    for stall in stalls:
        from_ns, to_ns = (min(max(at_ns, place), end_ns) for place in stall)
        yield from _pauses_around(last_ns, later_part, at_ns, from_ns)
        yield "stalled", from_ns, to_ns
        at_ns = to_ns
    yield from _pauses_around(last_ns, later_part, at_ns, end_ns)


def _pauses_around(last_ns: int, later_part: str, from_ns: int, to_ns: int) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a time without a stall: up to the last output, and behind it."""
    border_ns = min(max(last_ns, from_ns), to_ns)
    yield "streaming", from_ns, border_ns
    yield later_part, border_ns, to_ns


_FIRST_MATCH: Final = ("tools", *OWN_PARTS)


def _most_open(ordered: Sequence[Span]) -> int:
    if len(ordered) == 1:
        return 1
    most, ends = 0, list[int]()
    for span in ordered:
        while ends and ends[0] <= span.start_ns:
            heappop(ends)
        most = max(most, len(ends) + 1)
        heappush(ends, _end(span))
    return most


def stretches(spans: Iterable[Span], limits: Thresholds = DEFAULT) -> Iterator[tuple[str, int]]:
    """Yield the parts of a session's time as they follow each other, with durations: together its wall time."""
    links, last_ns = _Links(), None
    for cluster, end_ns in _clusters(_by_start(spans)):
        if last_ns is not None:
            yield links.reason(cluster[0]), cluster[0].start_ns - last_ns
        yield from _spent(cluster, limits)
        last_ns = end_ns
        links.add(cluster)


class TurnTime(NamedTuple):
    """A span's own time by part, and the part and length of the `pause` before it, in which none was open."""

    span: Span
    parts: dict[str, int]
    pause: str
    pause_ns: int


def by_turn(spans: Iterable[Span], limits: Thresholds = DEFAULT) -> Iterator[TurnTime]:
    """Yield the time of each exchange or turn, in the order of their starts."""
    links, last_ns = _Links(), None
    for cluster, end_ns in _clusters(_by_start(spans)):
        pause_part, pause_ns = links.reason(cluster[0]), 0 if last_ns is None else cluster[0].start_ns - last_ns
        for span in cluster:
            parts = dict.fromkeys(PARTS, 0)
            for part, from_ns, to_ns in phases(span, limits):
                parts[part] += to_ns - from_ns
            yield TurnTime(span, parts, pause_part, pause_ns)
            pause_ns = 0  # the others of a cluster began while one was open
        last_ns = end_ns
        links.add(cluster)
