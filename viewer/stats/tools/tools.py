"""One tape, measured as other tools define their numbers: under their names, in their units, with their failures.

`TOOLS` names them, `AUTHORITIES` says for each how it measures one exchange, what it prints, how it summarises, and
what it counts differently; `EARLIER` has the rules of older releases. The definitions are read from the tools' sources
at the releases named. Each event has the timestamp of its read, where a tool would stamp it some µs later. What a tool
would not have measured is left out and counted: exchanges that are still open, answers that are not streamed, and
those whose client left although nothing that arrived was a failure by the tool's rule.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from recorder.decode.batch import Events
from recorder.decode.derive import Decoded
from recorder.decode.outcome import Exchange
from viewer.stats.tools import clients, engines, standards
from viewer.stats.tools.releases import Releases, only
from viewer.stats.tools.request import LEFT, ClientLeft, CountTokens, Judged, Numbers, Request, ToolError, request
from viewer.stats.tools.summary import Series, Summary, summarise

_MOST_REASONS = 20
_WITHOUT_USAGE = " without usage-only chunks"


class Observed(NamedTuple):
    """One exchange as the tape has it: its facts, its body and its measures.

    `started_ns` is when it started, in ns since any fixed time; without it there is no throughput. `requested_tokens`
    is the longest answer that its request asked for.
    """

    exchange: Exchange
    body: Decoded | Events
    judged: Judged
    started_ns: int | None = None
    requested_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that a tool prints: its key in `Numbers`, name and unit; values times `factor` are in that unit.

    With `weight`, a value counts once for each of the exchange's output tokens less `weight_less`. One that
    `needs_tokens` is omitted where the tool counts tokens that the tape does not tell.
    """

    key: str
    name: str
    unit: str = "ms"
    factor: float = 1.0
    weight: str | None = None
    weight_less: int = 0
    needs_tokens: bool = False
    way: str | None = None

    def weight_of(self, numbers: Numbers) -> float | None:
        """Return the weight of an exchange with these numbers; None where all weigh the same."""
        if self.weight is None:
            return None
        count = numbers.get(self.weight)
        return 0 if count is None or isinstance(count, list) else count - self.weight_less


@dataclass(frozen=True, slots=True)
class Total:
    """One number that a tool prints for all requests: how many succeeded, or the sum of a key in `Numbers` over them.

    `per_s` divides it by the seconds of the run, and times it, so that 60 makes it a rate per minute.
    """

    name: str
    unit: str
    key: str | None = None
    per_s: float | None = 1.0


@dataclass(frozen=True, slots=True)
class Authority:
    """A tool: the releases read, how it measures, summarises and what it prints, and what it counts differently.

    `last` is the key in `Numbers` of the ms from a request's start to the end of what the tool takes for its run's
    duration; without it, that is from the first request's start to the last one's end, failures included.
    """

    source: str
    releases: Releases
    measure: Callable[[Request], Numbers]
    way: str
    metrics: tuple[Metric, ...]
    note: str
    totals: tuple[Total, ...] = ()
    last: str | None = None
    reads_request: bool = False


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
    what is complete here and fails there. `omitted` names the metrics that the tool prints and the tape cannot tell,
    with the number of requests that hinder it; `is_tokenized` is whether a tokenizer was given.
    """

    tool: str
    source: str
    releases: Releases
    note: str
    attempts: int
    failed: int
    error_rate: float | None
    failures: dict[str, int]
    forgiven: dict[str, int]
    refused: int
    left_out: dict[str, int]
    omitted: dict[str, int]
    rows: tuple[Summary, ...]
    is_tokenized: bool = False

    @property
    def excluded(self) -> int:
        """The number of exchanges that are not attempts of the tool."""
        return sum(self.left_out.values())


_VLLM_METRICS: Final = (
    Metric("ttft", "TTFT"),
    Metric("tpot", "TPOT", needs_tokens=True),
    Metric("itl", "ITL"),
    Metric("e2el", "E2EL"),
)
_ENGINE_TOTALS: Final = (
    Total("Request throughput", "req/s"),
    Total("Output token throughput", "tok/s", "output_tokens"),
    Total("Total generated tokens", "tokens", "output_tokens", per_s=None),
)

AUTHORITIES: Final[dict[str, Authority]] = {
    "vllm": Authority(
        "vllm bench serve",
        only("0.33", "0.33.0"),
        engines.vllm,
        "numpy",
        _VLLM_METRICS,
        "Content, `reasoning` and tool calls are token events, role and finish chunks and `reasoning_content` are not;"
        " ITL is pooled; tokens are those of the last usage outside them; error payloads and clean early ends are"
        " successes.",
        _ENGINE_TOTALS,
    ),
    "sglang": Authority(
        "sglang.benchmark.serving",
        only("0.5.23"),
        engines.sglang,
        "numpy",
        (
            Metric("ttft", "TTFT"),
            Metric("tpot", "TPOT", needs_tokens=True),
            Metric("itl", "ITL"),
            Metric("latency", "E2E Latency"),
        ),
        "Tool calls are no output, and a stream without text has a TTFT of 0 that enters the mean; latency and TPOT end"
        " at [DONE]; one comment line fails the request; error payloads and clean early ends are successes.",
        (
            *_ENGINE_TOTALS,
            Total("Output token throughput (retokenized)", "tok/s", "retokenized"),
            Total("Total generated tokens (retokenized)", "tokens", "retokenized", per_s=None),
        ),
        reads_request=True,
    ),
    "aiperf": Authority(
        "AIPerf",
        only("0.13", "0.13.0"),
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
            Metric("output_tokens", "Output Sequence Length", "tokens"),
        ),
        "Nearly wiretape's definitions, but first choice only, and nothing where object is neither chat.completion with"
        " message nor chat.completion.chunk; of errors in a stream only `event: error` fails, malformed events and"
        " clean early ends do not; tokens are those of usage unless --tokenizer is given.",
        (
            Total("Request Throughput", "requests/sec"),
            Total("Output Token Throughput", "tokens/sec", "output_tokens"),
        ),
        last="request_latency",
    ),
    "guidellm": Authority(
        "guidellm",
        only("0.8", "0.8.1"),
        clients.guidellm,
        "inverse_cdf",
        (
            Metric("ttft", "time_to_first_token_ms"),
            Metric("ttfot", "time_to_first_output_token_ms"),
            Metric("itl", "inter_token_latency_ms", weight="output_tokens", weight_less=1),
            Metric("tpot", "time_per_output_token_ms", weight="output_tokens"),
            Metric("request_latency", "request_latency", "s", 1e-3),
            Metric("output_tokens", "output_token_count", "tokens"),
        ),
        "TPOT is the whole latency per token, first token's time included; ITL and TPOT weigh exchanges by tokens;"
        " chunks stand in for missing usage; percentiles do not interpolate; clean early ends are successes.",
        (
            Total("requests_per_second", "req/s"),
            Total("output_tokens_per_second", "tok/s", "output_tokens"),
        ),
    ),
    "genai-perf": Authority(
        "genai-perf",
        only("0.0.16"),
        clients.genai_perf,
        "numpy",
        (
            Metric("ttft", "Time To First Token"),
            Metric("ttst", "Time To Second Token"),
            Metric("request_latency", "Request Latency"),
            Metric("itl", "Inter Token Latency", needs_tokens=True),
            Metric("tps_user", "Output Token Throughput Per User", "tokens/sec/user", needs_tokens=True),
            Metric("output_tokens", "Output Sequence Length", "tokens", needs_tokens=True),
        ),
        "Only text counts: reasoning and tool calls are invisible; events of one read are one response; what fails here"
        " would end its whole report; clean early ends are successes; tokens are those of usage, where the answer is"
        " only text, unless --tokenizer is given.",
        (
            Total("Request Throughput", "requests/sec"),
            Total("Output Token Throughput", "tokens/sec", "output_tokens"),
        ),
        last="request_latency",
    ),
    "llmperf": Authority(
        "llmperf",
        only("f1d6bed4", "f1d6bed4 (2024-12-08)"),
        clients.llmperf,
        "pandas",
        (
            Metric("itl", "inter_token_latency_s", "s", 1e-3),
            Metric("ttft", "ttft_s", "s", 1e-3),
            Metric("e2e_latency", "end_to_end_latency_s", "s", 1e-3),
            Metric("throughput", "request_output_throughput_token_per_s", "tokens/s", needs_tokens=True),
            Metric("output_tokens", "number_output_tokens", "tokens", needs_tokens=True),
        ),
        "Inter-token latency is the whole latency over the number of JSON chunks, first token's time included; only"
        " text counts, a stream without any has a TTFT of 0; a comment line or a usage-only chunk fails the request;"
        " the deviation is the sample's.",
        (
            Total("mean_output_throughput_token_per_s", "tokens/s", "output_tokens"),
            Total("num_completed_requests_per_min", "requests/min", per_s=60),
        ),
    ),
    "mlperf": Authority(
        "MLPerf inference loadgen",
        only("b66003e1", "b66003e1 (2026-08-20)"),
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
        "OpenTelemetry semantic-conventions-genai",
        only("1.41", "semconv v1.41.1", "9ba9b775"),
        standards.otel,
        "buckets",
        (
            Metric("time_to_first_chunk_s", "gen_ai.client.operation.time_to_first_chunk", "s"),
            Metric("time_per_output_chunk_s", "gen_ai.client.operation.time_per_output_chunk", "s"),
            Metric("operation_duration_s", "gen_ai.client.operation.duration", "s"),
            Metric("failed_operation_duration_s", "gen_ai.client.operation.duration{error.type}", "s"),
            Metric("output_tokens", "gen_ai.client.token.usage{output}", "tokens", way="token_buckets"),
        ),
        "Every chunk is a chunk, role and usage included, of failed streams too; percentiles are estimates within"
        " histogram buckets of which the first ends at 10 ms; only durations carry error.type.",
    ),
}
"""The tools, by the name that `--as` takes; the rule is that of the newest release."""

EARLIER: Final[dict[str, tuple[Authority, ...]]] = {
    "vllm": (
        replace(
            AUTHORITIES["vllm"],
            releases=Releases("0.30", "0.32", ("0.30.0", "0.31.0", "0.32.0")),
            measure=engines.vllm_0_30,
            note="Any chunk with choices is a token event: TTFT starts at the role chunk and E2EL ends at the finish"
            " chunk; ITL is pooled; tokens count only from a usage-only chunk; a comment swallows what follows it in"
            " later reads; error payloads and clean early ends are successes.",
        ),
        replace(
            AUTHORITIES["vllm"],
            releases=Releases("0.20", "0.29", ("0.20.0", "0.26.0", "0.27.1", "0.28.0", "0.29.0")),
            measure=engines.vllm_0_20,
            note="Any chunk with choices is a token event: TTFT starts at the role chunk; E2EL ends at the usage chunk;"
            " a comment swallows what follows it in later reads; an answer without a chunk has a TTFT of 0 that enters"
            " the mean; error payloads and clean early ends are successes.",
        ),
    ),
}
"""The rules of older releases, newest first, where a tool has changed what it counts."""

TOOLS: Final[tuple[str, ...]] = tuple(AUTHORITIES)


def authority(name: str) -> Authority:
    """Return the rule of a tool, `vllm`, or of one of its releases, `vllm@0.32`.

    Raises `ValueError`, which names what is known, if the tool or the release is not.
    """
    tool, at, release = name.partition("@")
    if tool not in AUTHORITIES:
        raise ValueError(f"{tool!r} is not a known tool: choose from {', '.join(TOOLS)}")
    rules = (AUTHORITIES[tool], *EARLIER.get(tool, ()))
    if not at:
        return rules[0]
    for rule in rules:
        if release in rule.releases:
            return rule
    known = ", ".join(f"{tool}@{rule.releases}" for rule in rules)
    raise ValueError(f"no rule is known for release {release!r} of {tool}: choose from {known}")


def measure(
    tool: str,
    exchange: Exchange,
    body: Decoded | Events,
    judged: Judged,
    *,
    requested_tokens: int | None = None,
    count_tokens: CountTokens | None = None,
) -> Seen:
    """Measure one exchange as a tool does; `judged` are its measures, or a row that has their outcome."""
    seen = request(exchange, body, judged)
    if isinstance(seen, str):
        return Seen(left_out=seen)
    seen = replace(seen, requested_tokens=requested_tokens, count_tokens=count_tokens)
    rule = authority(tool)
    try:
        return Seen(rule.measure(seen))
    except ClientLeft:
        return Seen(left_out=LEFT)
    except ToolError as error:
        spared = _spared(rule, seen) if error.usage_only else None
        return Seen(error.numbers or {}, str(error), without_usage_chunks=spared)


def measure_as(
    tool: str,
    exchanges: Iterable[Observed | tuple[Exchange, Decoded | Events, Judged]],
    count_tokens: CountTokens | None = None,
) -> Report:
    """Measure a population as a tool does. Of each exchange only its numbers are kept, 8 bytes for each."""
    population = _Population(authority(tool))
    for one in exchanges:
        observed = Observed(*one)
        exchange, body, judged, started_ns, requested = observed
        seen = measure(tool, exchange, body, judged, requested_tokens=requested, count_tokens=count_tokens)
        end_ns = None if started_ns is None or exchange.end_ns is None else started_ns + exchange.end_ns
        population.add(seen, judged.outcome or "open", started_ns, end_ns)
    return population.report(tool.partition("@")[0], is_tokenized=count_tokens is not None)


def _spared(rule: Authority, seen: Request) -> Numbers | None:
    try:
        return rule.measure(seen.without_usage_chunks())
    except (ToolError, ClientLeft):
        return None


class _Population:
    """Collects what a tool sees, and reports it."""

    def __init__(self, rule: Authority) -> None:
        self._rule = rule
        self._series: dict[tuple[str, str], Series] = {}
        self._counts = {name: Counter[str]() for name in ("failures", "forgiven", "left_out")}
        self._attempts = self._failed = self._refused = 0
        self._sums = {total.key: 0.0 for total in rule.totals if total.key is not None}
        self._unknown = Counter[str]()
        self._span: tuple[int, int] | None = None

    def add(self, seen: Seen, outcome: str, started_ns: int | None = None, end_ns: int | None = None) -> None:
        """Take one exchange; `outcome` is wiretape's; it ran from `started_ns` to `end_ns`, if that is known."""
        if seen.left_out is not None:
            self._counts["left_out"][seen.left_out] += 1
            return
        self._attempts += 1
        if seen.failed is not None:
            self._failed += 1
            self._refused += outcome == "complete"
            self._count_failure(seen.failed)
        else:
            if outcome != "complete":
                self._counts["forgiven"][outcome] += 1
            self._total(seen.numbers)
        self._run(seen, started_ns, end_ns)
        self._take(seen.numbers, "")
        self._take(seen.without_usage_chunks or {}, _WITHOUT_USAGE)

    def report(self, tool: str, *, is_tokenized: bool) -> Report:
        """Summarise what has been added."""
        counts = {name: dict(counter.most_common()) for name, counter in self._counts.items()}
        return Report(
            tool=tool,
            source=self._rule.source,
            releases=self._rule.releases,
            note=self._rule.note,
            attempts=self._attempts,
            failed=self._failed,
            error_rate=100 * self._failed / self._attempts if self._attempts else None,
            refused=self._refused,
            omitted=self._omitted(),
            is_tokenized=is_tokenized,
            rows=tuple([*self._rows(), *self._total_rows()]),
            **counts,
        )

    def _omitted(self) -> dict[str, int]:
        """Return what is omitted in the order in which the tool prints it."""
        names = [f"{metric.name}{suffix}" for suffix in ("", _WITHOUT_USAGE) for metric in self._rule.metrics]
        names += [total.name for total in self._rule.totals]
        return {name: self._unknown[name] for name in names if name in self._unknown}

    def _count_failure(self, reason: str) -> None:
        # The words of an upstream can be in it: there may be as many as there are exchanges.
        failures = self._counts["failures"]
        failures[reason if reason in failures or len(failures) < _MOST_REASONS else "other"] += 1

    def _total(self, numbers: Numbers) -> None:
        for key in self._sums:
            value = numbers.get(key)
            if isinstance(value, int | float):
                self._sums[key] += value
            elif not self._may_lack(key):
                self._unknown.update(total.name for total in self._rule.totals if total.key == key)

    def _may_lack(self, key: str) -> bool:
        """Return whether the tool itself omits a number that an exchange lacks, as AIPerf does without usage."""
        return any(metric.key == key and not metric.needs_tokens for metric in self._rule.metrics)

    def _run(self, seen: Seen, started_ns: int | None, end_ns: int | None) -> None:
        if self._rule.last is not None:
            last_ms = seen.numbers.get(self._rule.last) if seen.failed is None else None
            known = isinstance(last_ms, int | float) and started_ns is not None
            end_ns = started_ns + round(last_ms * 1e6) if known else None  # type: ignore[operator]
        if started_ns is not None and end_ns is not None:
            first, last = self._span or (started_ns, end_ns)
            self._span = min(first, started_ns), max(last, end_ns)

    def _take(self, numbers: Numbers, suffix: str) -> None:
        for metric in self._rule.metrics:
            value = numbers.get(metric.key)
            if value is None:
                if metric.needs_tokens and metric.key in numbers and numbers.get("output_tokens") is None:
                    self._unknown[f"{metric.name}{suffix}"] += 1
                continue
            series = self._series.setdefault((metric.key, suffix), Series())
            if isinstance(value, list):
                series.values.extend(value)
            else:
                series.add(value, metric.weight_of(numbers))

    def _rows(self) -> Iterator[Summary]:
        for suffix in ("", _WITHOUT_USAGE):
            for metric in self._rule.metrics:
                series = self._series.get((metric.key, suffix))
                name = f"{metric.name}{suffix}"
                if (series is not None or not suffix) and name not in self._unknown:
                    way = metric.way or self._rule.way
                    yield summarise(way, name, metric.unit, series or Series(), metric.factor)

    def _total_rows(self) -> Iterator[Summary]:
        succeeded = self._attempts - self._failed
        seconds = (self._span[1] - self._span[0]) / 1e9 if self._span else 0.0
        for total in self._rule.totals:
            if total.name in self._unknown:
                continue
            count = succeeded if total.key is None else self._sums[total.key]
            value: float | None = count
            if total.per_s is not None:
                value = total.per_s * count / seconds if seconds else None
            yield Summary(total.name, total.unit, succeeded, value=value if succeeded else None)
