"""One tape, measured as other tools define their numbers: under their names, in their units, with their failures.

`TOOLS` names them, `AUTHORITIES` says for each how it measures one exchange, what it prints, how it summarises, and
what it counts differently. The definitions are read from the tools' sources at the versions named, not got by running
the tools. Each event has the instant of its read, where a tool would stamp it some µs later. Exchanges that no tool
would have measured are left out and counted: those still open, those whose client left, answers that are not streamed.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from recorder.derive import Decoded
from recorder.exchange import Exchange
from recorder.runs import Events
from viewer.authorities import clients, engines, standards
from viewer.authorities.seen import Judged, Numbers, Request, ToolError, request
from viewer.authorities.summary import Series, Summary, summarise

_MOST_REASONS = 20
_WITHOUT_USAGE = " without usage-only chunks"


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that a tool prints: its key in `Numbers`, name and unit; values times `factor` are in that unit.

    With `weight`, a value counts once for each of the exchange's output tokens less `weight_less`.
    """

    key: str
    name: str
    unit: str = "ms"
    factor: float = 1.0
    weight: str | None = None
    weight_less: int = 0

    def weight_of(self, numbers: Numbers) -> float | None:
        """Give the weight of an exchange with these numbers; None where all weigh the same."""
        if self.weight is None:
            return None
        count = numbers.get(self.weight)
        return 0 if count is None or isinstance(count, list) else count - self.weight_less


@dataclass(frozen=True, slots=True)
class Authority:
    """A tool: the version read, how it measures, summarises and what it prints, and what it counts differently."""

    source: str
    measure: Callable[[Request], Numbers]
    way: str
    metrics: tuple[Metric, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Seen:
    """One exchange as a tool sees it: its numbers, or why it failed, or why no tool would have measured it.

    `without_usage_chunks` are the numbers of a tool that failed only on a chunk without choices. What a failed
    operation still records (OpenTelemetry's durations) is in `numbers`.
    """

    numbers: Numbers = field(default_factory=dict)
    failed: str | None = None
    left_out: str | None = None
    without_usage_chunks: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A population as a tool sees it. `error_rate` is in percent of `attempts`, which leave out what is `left_out`.

    `failures` counts the tool's reasons; `forgiven` counts by outcome what fails here and succeeds there, `refused`
    what is complete here and fails there.
    """

    tool: str
    source: str
    note: str
    attempts: int
    failed: int
    error_rate: float | None
    failures: dict[str, int]
    forgiven: dict[str, int]
    refused: int
    left_out: dict[str, int]
    rows: tuple[Summary, ...]


AUTHORITIES: Final[dict[str, Authority]] = {
    "vllm": Authority(
        "vllm bench serve, 02cfb534 and 009e6d4a",
        engines.vllm,
        "numpy",
        (Metric("ttft", "TTFT"), Metric("tpot", "TPOT"), Metric("itl", "ITL"), Metric("e2el", "E2EL")),
        "Any chunk with choices is a token event: TTFT starts at the role chunk and E2EL ends at the finish chunk; ITL"
        " is pooled; tokens count only from a usage-only chunk; error payloads and clean early ends are successes.",
    ),
    "sglang": Authority(
        "sglang.benchmark.serving, 00f9ec47",
        engines.sglang,
        "numpy",
        (Metric("ttft", "TTFT"), Metric("tpot", "TPOT"), Metric("itl", "ITL"), Metric("latency", "E2E Latency")),
        "Tool calls are no output, and a stream without text has a TTFT of 0 that enters the mean; latency and TPOT end"
        " at [DONE]; one comment line fails the request; error payloads and clean early ends are successes.",
    ),
    "aiperf": Authority(
        "AIPerf, 2026",
        clients.aiperf,
        "numpy",
        (
            Metric("ttft", "Time to First Token"),
            Metric("ttfo", "Time to First Output Token"),
            Metric("ttst", "Time to Second Token"),
            Metric("icl", "Inter Chunk Latency"),
            Metric("request_latency", "Request Latency"),
            Metric("itl", "Inter Token Latency"),
            Metric("itl_per_chunk_usage", "Inter Token Latency (--per-chunk-usage)"),
            Metric("tps_user", "Output Token Throughput Per User", "tokens/sec/user"),
        ),
        "Nearly wiretape's definitions, but first choice only, and nothing where object is neither chat.completion with"
        " message nor chat.completion.chunk; malformed events and clean early ends are successes.",
    ),
    "guidellm": Authority(
        "guidellm, ee7a7745 (2026-08-07)",
        clients.guidellm,
        "inverse_cdf",
        (
            Metric("ttft", "time_to_first_token_ms"),
            Metric("ttfot", "time_to_first_output_token_ms"),
            Metric("itl", "inter_token_latency_ms", weight="output_tokens", weight_less=1),
            Metric("tpot", "time_per_output_token_ms", weight="output_tokens"),
            Metric("request_latency", "request_latency", "s", 1e-3),
        ),
        "TPOT is the whole latency per token, first token's time included; ITL and TPOT weigh exchanges by tokens;"
        " chunks stand in for missing usage; percentiles do not interpolate; clean early ends are successes.",
    ),
    "genai-perf": Authority(
        "genai-perf, 263c5f6e (2025-12-15)",
        clients.genai_perf,
        "numpy",
        (
            Metric("ttft", "Time To First Token"),
            Metric("ttst", "Time To Second Token"),
            Metric("request_latency", "Request Latency"),
            Metric("itl", "Inter Token Latency"),
            Metric("tps_user", "Output Token Throughput Per User", "tokens/sec/user"),
        ),
        "Only text counts: reasoning and tool calls are invisible; events of one read are one response; what fails here"
        " would end its whole report; clean early ends are successes.",
    ),
    "llmperf": Authority(
        "llmperf, f1d6bed4 (2024-12-08)",
        clients.llmperf,
        "pandas",
        (
            Metric("itl", "inter_token_latency_s", "s", 1e-3),
            Metric("ttft", "ttft_s", "s", 1e-3),
            Metric("e2e_latency", "end_to_end_latency_s", "s", 1e-3),
        ),
        "Inter-token latency is the whole latency over the number of JSON chunks, first token's time included; only"
        " text counts, a stream without any has a TTFT of 0; a comment line or a usage-only chunk fails the request;"
        " the deviation is the sample's.",
    ),
    "mlperf": Authority(
        "MLPerf inference loadgen, b66003e1 (2026-08-20)",
        standards.mlperf,
        "loadgen",
        (
            Metric("ttft_ns", "First Token latency", "ns"),
            Metric("tpot_ns", "Time to Output Token", "ns"),
            Metric("latency_ns", "latency", "ns"),
        ),
        "Its clock starts when a query was scheduled, which a tape does not know: here, when it was issued; times are"
        " whole ns, percentiles sorted[int(n·p)]; only complete exchanges are samples.",
    ),
    "otel": Authority(
        "OpenTelemetry semantic-conventions-genai, 9ba9b775 (semconv v1.41.1)",
        standards.otel,
        "buckets",
        (
            Metric("time_to_first_chunk_s", "gen_ai.client.operation.time_to_first_chunk", "s"),
            Metric("time_per_output_chunk_s", "gen_ai.client.operation.time_per_output_chunk", "s"),
            Metric("operation_duration_s", "gen_ai.client.operation.duration", "s"),
            Metric("failed_operation_duration_s", "gen_ai.client.operation.duration{error.type}", "s"),
        ),
        "Every chunk is a chunk, role and usage included, of failed streams too; percentiles are estimates within"
        " histogram buckets of which the first ends at 10 ms; only durations carry error.type.",
    ),
}
"""The tools, by the name that `--as` takes."""

TOOLS: Final[tuple[str, ...]] = tuple(AUTHORITIES)


def measure(tool: str, exchange: Exchange, body: Decoded | Events, judged: Judged) -> Seen:
    """Measure one exchange as a tool does; `judged` are its measures, or a row that has their outcome."""
    seen = request(exchange, body, judged)
    if isinstance(seen, str):
        return Seen(left_out=seen)
    authority = AUTHORITIES[tool]
    try:
        return Seen(authority.measure(seen))
    except ToolError as error:
        spared = _spared(authority, seen) if error.usage_only else None
        return Seen(error.numbers or {}, str(error), without_usage_chunks=spared)


def measure_as(tool: str, exchanges: Iterable[tuple[Exchange, Decoded | Events, Judged]]) -> Report:
    """Measure a population as a tool does. Of each exchange only its numbers are kept, 8 bytes for each."""
    population = _Population(AUTHORITIES[tool])
    for exchange, body, judged in exchanges:
        population.add(measure(tool, exchange, body, judged), judged.outcome or "open")
    return population.report(tool)


def _spared(authority: Authority, seen: Request) -> Numbers | None:
    try:
        return authority.measure(seen.without_usage_chunks())
    except ToolError:
        return None


class _Population:
    """Collects what a tool sees, and reports it."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._series: dict[tuple[str, str], Series] = {}
        self._counts = {name: Counter[str]() for name in ("failures", "forgiven", "left_out")}
        self._attempts = self._failed = self._refused = 0

    def add(self, seen: Seen, outcome: str) -> None:
        """Take one exchange; `outcome` is wiretape's."""
        if seen.left_out is not None:
            self._counts["left_out"][seen.left_out] += 1
            return
        self._attempts += 1
        if seen.failed is not None:
            self._failed += 1
            self._refused += outcome == "complete"
            self._count_failure(seen.failed)
        elif outcome != "complete":
            self._counts["forgiven"][outcome] += 1
        self._take(seen.numbers, "")
        self._take(seen.without_usage_chunks or {}, _WITHOUT_USAGE)

    def report(self, tool: str) -> Report:
        """Summarise what has been added."""
        counts = {name: dict(counter.most_common()) for name, counter in self._counts.items()}
        return Report(
            tool=tool,
            source=self._authority.source,
            note=self._authority.note,
            attempts=self._attempts,
            failed=self._failed,
            error_rate=100 * self._failed / self._attempts if self._attempts else None,
            refused=self._refused,
            rows=tuple(self._rows()),
            **counts,
        )

    def _count_failure(self, reason: str) -> None:
        # The words of an upstream can be in it: there may be as many as there are exchanges.
        failures = self._counts["failures"]
        failures[reason if reason in failures or len(failures) < _MOST_REASONS else "other"] += 1

    def _take(self, numbers: Numbers, suffix: str) -> None:
        for metric in self._authority.metrics:
            value = numbers.get(metric.key)
            if value is None:
                continue
            series = self._series.setdefault((metric.key, suffix), Series())
            if isinstance(value, list):
                series.values.extend(value)
            else:
                series.add(value, metric.weight_of(numbers))

    def _rows(self) -> Iterable[Summary]:
        for suffix in ("", _WITHOUT_USAGE):
            for metric in self._authority.metrics:
                series = self._series.get((metric.key, suffix))
                if series is not None or not suffix:
                    name = f"{metric.name}{suffix}"
                    yield summarise(self._authority.way, name, metric.unit, series or Series(), metric.factor)
