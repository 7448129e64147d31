"""Pure: dashboard metrics of finished exchanges: counts of outcomes, and the histograms that OpenTelemetry defines.

Times follow the rule of `stats --as otel`, for streams of every API, not of chat alone. An unknown value is no sample.
An exchange whose client left has an outcome, tokens and silences, but no other times. A WebSocket, which may carry
several answers, has no times of chunks.

Texts of requests and answers become labels, so the number of their combinations is limited; exchanges with further
combinations are counted under `other`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import fsum, inf
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.exchange import Exchange, Operation
from wiretape.recorder.facts import ClockName
from wiretape.recorder.sanitize import clipped, safe
from wiretape.viewer.stats.conventions import RELEASED, Conventions, Figure, Labels, MetricFamily, provider_of
from wiretape.viewer.stats.parameters import NO_PARAMETERS, RequestParameters
from wiretape.viewer.stats.tools import otel
from wiretape.viewer.stats.tools.request import ClientLeft, Judged, MeasuredRequest, Numbers, ToolError, is_whole

OWN_ATTRIBUTES: Final = {
    "wiretape.exchange.id": "the exchange on the tape; also the id of the span",
    "wiretape.api": "the API whose form the answer has",
    "wiretape.upstream": "the upstream's name in --upstream NAME=URL",
    "wiretape.outcome": "how the exchange ended",
    "wiretape.outcome.detail": "the kind of that outcome",
    "wiretape.time_to_first_token": "s from the request to the first chunk with content, reasoning or a tool call",
    "wiretape.longest_gap": "s of the longest gap between reads with output",
    "wiretape.stall.count": "number of stalls, with the one in which a stream ended",
    "wiretape.before.part": "what passed in the session before it, while no exchange was open: backoff, tools or idle",
    "wiretape.before.duration": "s of that",
    "wiretape.flags": "the flags of the exchange (wiretape help outcomes)",
    "wiretape.clock": "source of the timestamps of reads: kernel or loop",
    "wiretape.label.KEY": "a label of the exchange",
}
"""wiretape's own attributes of spans, with their meanings."""

EVENTS: Final = {
    "wiretape.first_chunk": "the first chunk of any kind came",
    "wiretape.stall": "a stall began; wiretape.stall.duration is its length, in s",
}
"""The events of spans."""
LABEL_SETS: Final = 500
"""Limit of combinations of labels and kinds of error that are counted separately."""

OTHER: Final = "other"
OTHER_ERROR: Final = "_OTHER"
"""The name that OpenTelemetry has for an error of any other kind."""

UNKNOWN: Final = "unknown"
"""OpenTelemetry's modality for tokens whose usage is not broken down by modality."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedExchange:
    """An exchange that has ended, as the tape has it; `body` is its decoded answer."""

    operation: Operation | None
    api: str | None
    upstream: str
    upstream_name: str | None = None
    request_model: str | None
    response_model: str | None
    exchange: Exchange
    judged: Judged
    body: Decoded
    flags: Sequence[str]
    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    first_silence_ns: int | None = None
    first_event_silence_ns: int | None = None
    first_output_silence_ns: int | None = None
    max_silence_ns: int | None = None
    max_event_silence_ns: int | None = None
    max_output_silence_ns: int | None = None
    own_time: Mapping[str, int] = field(default_factory=dict)
    """Its time by part, in ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The facts of an exchange besides those that are `counted`; None is unknown.

    `started_ns` is the wall time of T0, in ns since the epoch. `pause` is the part of its session's time before it, in
    which no exchange was open, and its length in ns. `stalls` are the beginnings and ends of its stalls, in ns since
    T0.
    """

    id: str
    counted: FinishedExchange
    started_ns: int | None
    request_headers: Sequence[Sequence[str]] = ()
    labels: Mapping[str, str]
    clock: ClockName | None = None
    protocol: str | None = None
    outcome_detail: str | None = None
    response_id: str | None = None
    finish_reasons: Sequence[str] = ()
    conversation: str | None = None
    ttft_ns: int | None = None
    max_gap_ns: int | None = None
    parameters: RequestParameters = NO_PARAMETERS
    pause: tuple[str, int] | None = None
    stalls: Sequence[tuple[int, int]] | None = None


class ValueCounter(Protocol):
    """A counter of values."""

    def add(self, values: Iterable[float]) -> None:
        """Count values."""


H = TypeVar("H", bound=ValueCounter)


@dataclass(slots=True)
class Histogram:
    """Counts of values by bucket; the last bucket is for values above all bounds."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0

    def add(self, values: Iterable[float]) -> None:
        values = list(values)
        self.counts = self.counts or [0] * (len(self.bounds) + 1)
        for place, count in Counter(bisect_left(self.bounds, value) for value in values).items():
            self.counts[place] += count
        self.sum += fsum(values)

    @property
    def cumulative(self) -> list[tuple[float, int]]:
        return list(zip([*self.bounds, inf], accumulate(self.counts), strict=True))


TIME: Final = "wiretape_exchange_time_seconds_total"
OWN: Final = {
    "wiretape_exchanges_total": "exchanges that have ended, by outcome",
    TIME: "durations of the exchanges that have ended, by part (waiting, streaming, stalled, closing, failed)",
    "wiretape_flagged_exchanges_total": "exchanges that carry a flag, such as stall or clock_suspect",
    "wiretape_folded_exchanges_total": f"exchanges counted as other, beyond {LABEL_SETS} combinations of labels",
    "wiretape_open_exchanges": "exchanges that are running",
    "wiretape_event_loop_lag_seconds": "delay of the event loop of the first process, measured once a second",
    "wiretape_write_lag_seconds": "time from a read to its commit, or the age of the oldest uncommitted read if longer",
    "wiretape_unstored_bytes_total": "bytes that were relayed and could not be stored",
    "wiretape_unstored_exchanges_total": "exchanges that were relayed and could not be stored",
    "wiretape_writer_restarts_total": "restarts of the process that writes the tape",
    "wiretape_info": "the recorder: its version, and its session on the tape",
}
"""wiretape's own metrics, with their meanings."""


@dataclass(slots=True)
class DashboardCounts(Generic[H]):
    """The current counts; `folded` exchanges are counted under `OTHER`. `new` makes the histograms of a family."""

    new: Callable[[MetricFamily], H]
    conventions: Conventions = RELEASED
    outcomes: Counter[tuple[str, ...]] = field(default_factory=Counter)
    times: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Time in ns, by labels and part."""
    flags: Counter[str] = field(default_factory=Counter)
    histograms: dict[MetricFamily, dict[tuple[str, ...], H]] = field(default_factory=dict)
    counters: dict[MetricFamily, Counter[tuple[str, ...]]] = field(default_factory=dict)
    folded: int = 0
    label_sets: set[tuple[Labels, str]] = field(default_factory=set)
    """The labels, and kinds of error, that are kept apart."""

    def __post_init__(self) -> None:
        self.histograms |= {family: {} for family in self.conventions.families if family.bounds}
        self.counters |= {family: Counter() for family in self.conventions.families if not family.bounds}

    def add(self, finished: FinishedExchange) -> None:
        """Count an exchange."""
        numbers, error = measured(finished)
        labels = labels_of(finished)
        if (labels, error) not in self.label_sets and len(self.label_sets) >= LABEL_SETS:
            self.folded += 1
            labels = labels._replace(
                gen_ai_request_model=OTHER,
                gen_ai_response_model=OTHER,
                server_address=OTHER,
                server_port="",
                wiretape_upstream=OTHER,
            )
            error = OTHER_ERROR if error else ""
        else:
            self.label_sets.add((labels, error))
        self.outcomes[*labels, finished.judged.outcome] += 1
        self.times.update({(*labels, part): took_ns for part, took_ns in finished.own_time.items()})
        self.flags.update(finished.flags)
        values = _figures(finished, numbers, error)
        for family in self.conventions.families:
            for figure in family.figures:
                layer = figure.rpartition("_")[2]
                label_values = {
                    "error_type": error, "gen_ai_token_type": figure, "gen_ai_token_modality": UNKNOWN,
                    "wiretape_layer": layer,
                }  # fmt: skip
                if finished.operation in family.operations and values[figure]:
                    self._count(
                        family, (*labels, label_values[family.label]) if family.label else labels, values[figure]
                    )

    def _count(self, family: MetricFamily, labels: tuple[str, ...], values: Sequence[float]) -> None:
        if not family.bounds:
            self.counters[family][labels] += int(sum(values))
            return
        histograms = self.histograms[family]
        if labels not in histograms:
            histograms[labels] = self.new(family)
        histograms[labels].add(values)


def _figures(finished: FinishedExchange, numbers: Numbers | None, error: str) -> dict[Figure, list[float]]:
    numbers = numbers or {}
    gaps = numbers.get("time_per_output_chunk_s")
    values: dict[Figure, Sequence[object]] = {
        "duration": [numbers.get("failed_operation_duration_s" if error else "operation_duration_s")],
        "first_chunk": [numbers.get("time_to_first_chunk_s")],
        "per_chunk": gaps if isinstance(gaps, list) else [],
        "input": [finished.input_tokens],
        "output": [finished.output_tokens],
        "cache_read": [finished.cache_read_input_tokens],
        "cache_write": [finished.cache_write_input_tokens],
        "reasoning": [finished.reasoning_tokens],
        "first_bytes": [_seconds(finished.first_silence_ns)],
        "first_events": [_seconds(finished.first_event_silence_ns)],
        "first_output": [_seconds(finished.first_output_silence_ns)],
        "later_bytes": [_seconds(finished.max_silence_ns)],
        "later_events": [_seconds(finished.max_event_silence_ns)],
        "later_output": [_seconds(finished.max_output_silence_ns)],
    }
    return {figure: [value for value in all_ if isinstance(value, int | float)] for figure, all_ in values.items()}


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def measured(finished: FinishedExchange) -> tuple[Numbers | None, str]:
    """Return the numbers of OpenTelemetry's rule, None if the client left; and the kind of error, if it failed."""
    exchange = finished.exchange
    is_answer = exchange.status is not None and exchange.status < 300 and exchange.framing != "websocket"
    has_chunks = is_answer and finished.body.stream and is_whole(exchange, finished.body)
    request = MeasuredRequest(exchange, finished.judged, finished.body if has_chunks else None)
    try:
        return otel.otel(request), ""
    except ClientLeft:
        return None, ""
    except ToolError as failed:
        return failed.numbers, label(otel.error_type(request)) or OTHER_ERROR


def labels_of(finished: FinishedExchange) -> Labels:
    """Return the labels of an exchange, without a limit on their combinations."""
    address, port = _server(finished.upstream)
    return Labels(
        finished.operation or "",
        provider_of(finished.api, address),
        label(finished.request_model),
        label(finished.response_model),
        label(address),
        port,
        finished.api or "",
        label(finished.upstream_name),
    )


def label(text: str | None) -> str:
    """Return a text of a request or an answer as a label: without control characters, and of a bounded length."""
    return clipped(safe(text or ""), 120)


def _server(url: str) -> tuple[str, str]:
    """Return the host and the port of an upstream; empty if its URL has none, as on a damaged tape."""
    try:
        parts = urlsplit(url)
        default_ports = {"http": "80", "https": "443"}
        return parts.hostname or "", str(parts.port or default_ports.get(parts.scheme, ""))
    except ValueError:
        return "", ""
