"""Definitions of other tools: for each its metrics, its summaries, and its differences.

The definitions follow the tools' sources at the releases named; the rules for one exchange are in `engines`, `clients`
and `tracers`. Each event has the timestamp of its read; a tool would stamp it some µs later.
"""

from dataclasses import replace
from typing import Final

from wiretape.recorder.decode.dialects import chat, completions, gemini, messages, responses
from wiretape.viewer.stats.tools.otel import otel
from wiretape.viewer.stats.tools.rule import MeasuringTool, ToolMetric, Total
from wiretape.viewer.wings.tools import clients, engines, tracers

_VLLM_METRICS: Final = (
    ToolMetric("ttft", "TTFT"),
    ToolMetric("tpot", "TPOT", needs_tokens=True),
    ToolMetric("itl", "ITL"),
    ToolMetric("e2el", "E2EL"),
)
_ENGINE_TOTALS: Final = (
    Total("Request throughput", "req/s"),
    Total("Output token throughput", "tok/s", "output_tokens"),
    Total("Total generated tokens", "tokens", "output_tokens", per_s=None),
)

_VLLM: Final = MeasuringTool(
    "vllm bench serve",
    ("0.33.0",),
    engines.vllm,
    "numpy",
    _VLLM_METRICS,
    "Content, `reasoning` and tool calls are token events, role and finish chunks and `reasoning_content` are not;"
    " ITL is pooled; tokens are those of the last usage outside them; error payloads and clean early ends are"
    " successes, and of Responses neither.",
    _ENGINE_TOTALS,
    apis=(chat.API, completions.API, responses.API),
    is_older=engines.is_of_older_vllm,
    older_rule="vllm-0.32",
)

TOOLS: Final[dict[str, MeasuringTool]] = {
    "vllm": _VLLM,
    "vllm-0.32": replace(
        _VLLM,
        releases=("0.30.0", "0.31.0", "0.32.0"),
        apis=(chat.API, completions.API),
        measure=engines.vllm_0_32,
        older_rule=None,
        needs_reads=True,
        note="Any chunk with choices is a token event: TTFT starts at the role chunk and E2EL ends at the finish"
        " chunk; ITL is pooled; tokens count only from a usage-only chunk; a comment swallows what follows it in"
        " later reads; error payloads and clean early ends are successes.",
    ),
    "sglang": MeasuringTool(
        "sglang.benchmark.serving",
        ("0.5.23",),
        engines.sglang,
        "numpy",
        (
            ToolMetric("ttft", "TTFT"),
            ToolMetric("tpot", "TPOT", needs_tokens=True),
            ToolMetric("itl", "ITL"),
            ToolMetric("latency", "E2E Latency"),
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
    "aiperf": MeasuringTool(
        "AIPerf",
        ("0.13.0",),
        clients.aiperf,
        "numpy",
        (
            ToolMetric("ttft", "Time to First Token"),
            ToolMetric("ttfo", "Time to First Output Token"),
            ToolMetric("ttst", "Time to Second Token"),
            ToolMetric("icl", "Inter Chunk Latency"),
            ToolMetric("request_latency", "Request Latency"),
            ToolMetric("itl", "Inter Token Latency"),
            ToolMetric("itl_per_chunk_usage", "Inter Token Latency (--per-chunk-usage)"),
            ToolMetric("tps_user", "Output Token Throughput Per User", "tokens/sec/user"),
            ToolMetric("output_tokens", "Output Sequence Length", "tokens"),
        ),
        "Nearly wiretape's definitions, but of chats first choice and two values of object only, of Messages no names"
        " of tools, of Responses the end of a text as a chunk; of errors in a stream only `event: error` fails,"
        " malformed events and clean early ends do not; tokens are those of usage unless --tokenizer is given.",
        (
            Total("Request Throughput", "requests/sec"),
            Total("Output Token Throughput", "tokens/sec", "output_tokens"),
        ),
        end_key="request_latency",
        apis=(chat.API, completions.API, responses.API, messages.API),
    ),
    "guidellm": MeasuringTool(
        "guidellm",
        ("0.8.1",),
        clients.guidellm,
        "inverse_cdf",
        (
            ToolMetric("ttft", "time_to_first_token_ms"),
            ToolMetric("ttfot", "time_to_first_output_token_ms"),
            ToolMetric("itl", "inter_token_latency_ms", weight="output_tokens", weight_less=1),
            ToolMetric("tpot", "time_per_output_token_ms", weight="output_tokens"),
            ToolMetric("request_latency", "request_latency", "s", 1e-3),
            ToolMetric("output_tokens", "output_token_count", "tokens"),
        ),
        "TPOT is the whole latency per token, first token's time included; ITL and TPOT weigh exchanges by tokens;"
        " chunks stand in for missing usage; percentiles do not interpolate; clean early ends are successes.",
        (
            Total("requests_per_second", "req/s"),
            Total("output_tokens_per_second", "tok/s", "output_tokens"),
        ),
        apis=(chat.API, completions.API, responses.API),
    ),
    "otel": MeasuringTool(
        "OpenTelemetry semantic-conventions-genai",
        ("semconv v1.41.1", "9ba9b775"),
        otel,
        "buckets",
        (
            ToolMetric("time_to_first_chunk_s", "gen_ai.client.operation.time_to_first_chunk", "s"),
            ToolMetric("time_per_output_chunk_s", "gen_ai.client.operation.time_per_output_chunk", "s"),
            ToolMetric("operation_duration_s", "gen_ai.client.operation.duration", "s"),
            ToolMetric("failed_operation_duration_s", "gen_ai.client.operation.duration{error.type}", "s"),
            ToolMetric("output_tokens", "gen_ai.client.token.usage{output}", "tokens", summary="token_buckets"),
        ),
        "Every chunk is a chunk, role and usage included, of failed streams too; percentiles are estimates within"
        " histogram buckets, the first of which ends at 10 ms; only durations carry error.type.",
    ),
    "langfuse": MeasuringTool(
        "Langfuse, its Python SDK's OpenAI integration",
        ("5.0.4",),
        tracers.langfuse,
        "numpy",
        (
            ToolMetric("ttft", "timeToFirstToken"),
            ToolMetric("latency", "latency"),
            ToolMetric("streaming", "streamingLatency"),
            ToolMetric("tps", "outputTokensPerSecond", "tokens/s"),
            ToolMetric("output_tokens", "outputTokens", "tokens"),
        ),
        "Any chunk is the first token: TTFT ends at the role chunk; only HTTP errors fail, a stream that breaks is a"
        " generation up to there; its times are whole ms, and its rate divides by the whole seconds after the first"
        " chunk (0: no value), here by exact ones.",
        apis=(chat.API, completions.API, responses.API),
    ),
    "litellm": MeasuringTool(
        "LiteLLM, its Prometheus metrics",
        ("1.109.1",),
        tracers.litellm,
        "litellm_buckets",
        (
            ToolMetric("ttft_s", "litellm_llm_api_time_to_first_token_metric", "s"),
            ToolMetric("latency_s", "litellm_llm_api_latency_metric", "s"),
            ToolMetric("per_token_s", "gen_ai.server.time_per_output_token", "s", summary="numpy", needs_tokens=True),
        ),
        "The first token is the first chunk with a role or output, so the role chunk; any event of Responses, and of"
        " Messages that its proxy answers. Time per token has the first one in its divisor, not in its time; a stream"
        " without finish_reason fails, but of Gemini; percentiles are estimates within histogram buckets.",
        (Total("litellm_output_tokens_metric", "tokens", "output_tokens", per_s=None),),
        apis=(chat.API, responses.API, messages.API, gemini.API),
        has_whole=True,
    ),
    "traceloop": MeasuringTool(
        "OpenLLMetry, opentelemetry-instrumentation-openai",
        ("0.62.4",),
        tracers.traceloop,
        "numpy",
        (
            ToolMetric("ttft_s", "gen_ai.server.time_to_first_token", "s"),
            ToolMetric("generate_s", "llm.chat_completions.streaming_time_to_generate", "s"),
            ToolMetric("duration_s", "gen_ai.client.operation.duration", "s"),
            ToolMetric("output_tokens", "gen_ai.client.token.usage{output}", "tokens"),
        ),
        "Any chunk is the first token: TTFT ends at the role chunk, of failed streams too; time to generate is from"
        " there to the end of the stream; clean early ends are successes; percentiles here are of the values, there of"
        " histogram buckets.",
    ),
}
"""The tools, by the name that `--as` takes; the rule is that of the newest release.

vLLM counts otherwise since 0.33, and both counts are in use.
"""
