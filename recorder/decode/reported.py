"""Pure: the values that a server, or a gateway before it, reports of itself, and the trace that a request names.

Times come from the body, else from a header, of one source only: the first in the tables below that has any. A header
precedes the body: its time ends at the response head. A value that is no number, negative or longer than a day is
unknown; one that is longer than the exchange is kept, as gateways repeat the times of answers in their cache.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from wiretape.recorder.decode.declared import paths
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.values import JsonObject, count

_MS: Final = 1_000_000
_S: Final = 1000 * _MS


@dataclass(frozen=True)
class TimesSource:
    """An object in the body, or a header, with times in a unit: of each the names of its fields, which are added up.

    `is_queue_apart`: the total is without the queue. `is_text`: numbers are texts, as in headers.
    """

    place: str
    unit_ns: int
    queue: str = ""
    prefill: str = ""
    decode: str = ""
    total: str = ""
    is_queue_apart: bool = False
    is_text: bool = False

    @cached_property
    def fields(self) -> list[tuple[str, list[str]]]:
        """The names of the times that it has, each with its fields."""
        return [
            (f"server_{name}_ns", fields.split())
            for name in ("queue", "prefill", "decode", "total")
            if (fields := getattr(self, name))
        ]

    def times(self, get: Callable[[str], Any]) -> JsonObject:
        """Return the known times, and their source; nothing if none is known. `get` has the values of fields."""
        values: JsonObject = {}
        for name, fields in self.fields:
            parts = [_number(get(field), is_text=self.is_text) for field in fields]
            if None not in parts and (time_ns := sum(parts) * self.unit_ns) <= 86_400 * _S:  # type: ignore[arg-type]
                values[name] = round(time_ns)
        return values and values | {"server_times_from": self.place}


BODY: Final = (
    # llama.cpp: tools/server/README.md; its log prints the sum as the total
    TimesSource("timings", _MS, "", "prompt_ms", "predicted_ms", "prompt_ms predicted_ms"),
    # vLLM: docs/features/per_request_metrics.md, each time from the end of the one before; Responses nests them
    *(TimesSource(place, _MS, "queue_time_ms", "time_to_first_token_ms", "generation_time_ms",
                  "queue_time_ms time_to_first_token_ms generation_time_ms")
      for place in ("metrics", "response.metrics")),
    # Cerebras: inference-docs.cerebras.ai, chat completions
    TimesSource("time_info", _S, "queue_time", "prompt_time", "completion_time", "total_time"),
    # Groq: console.groq.com, usage, in streams below x_groq; in its example the total is that of the two
    *(TimesSource(place, _S, "queue_time", "prompt_time", "completion_time", "total_time", is_queue_apart=True)
      for place in ("usage", "x_groq.usage")),
    # Ollama: docs.ollama.com/api/usage; the total includes loading the model
    TimesSource(".", 1, "", "prompt_eval_duration", "eval_duration", "total_duration"),
    # Fireworks: docs.fireworks.ai, perf_metrics_in_response
    TimesSource("perf_metrics", _S, "prefill-queue-duration", "prefill-duration", "", "server-processing-time",
                is_text=True),
    # SGLang with return_meta_info, and whole answers of /generate: managers/tokenizer_manager.py
    *(TimesSource(place, _S, "queue_time", "prefill_launch_latency", "", "e2e_latency")
      for place in ("choices[0].meta_info", "meta_info")),
    # Bedrock: API_runtime_ConverseMetrics, and the last event of InvokeModelWithResponseStream
    TimesSource("metrics", _MS, total="latencyMs"),
    TimesSource("amazon-bedrock-invocationMetrics", _MS, total="invocationLatency"),
)  # fmt: skip
"""The times in bodies, with the documents or the source that define them."""

HEADERS: Final = (
    TimesSource("openai-processing-ms", _MS, total="openai-processing-ms", is_text=True),  # platform.openai.com
    TimesSource("fireworks-server-processing-time", _S, "fireworks-prefill-queue-duration",
                "fireworks-prefill-duration", "", "fireworks-server-processing-time", is_text=True),
    TimesSource("x-total-time", _MS, "x-queue-time", total="x-total-time", is_text=True),  # TGI, router/src/server.rs
    # xAI, Bedrock and LiteLLM; then proxies: Envoy's router filter, and Kong
    *(TimesSource(header, _MS, total=header, is_text=True) for header in (
        "x-metrics-e2e-ms", "x-amzn-bedrock-invocation-latency", "x-litellm-response-duration-ms",
        "x-envoy-upstream-service-time", "x-kong-upstream-latency")),
)  # fmt: skip
"""The times in headers: those of the server before those of a proxy."""

QUOTAS: Final = {
    # OpenAI, Groq, xAI, Azure and others; Anthropic: docs.claude.com, rate limits; Cerebras, Mistral: by a window
    "quota_requests_left": ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining",
                            "x-ratelimit-remaining-requests-minute", "x-ratelimit-remaining-requests-day"),
    "quota_tokens_left": ("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining",
                          "x-ratelimit-remaining-tokens-minute"),
}  # fmt: skip
"""The headers of each count that is left; the first one counts."""

_WINDOWS: Final = {"quota_5h_percent": 300, "quota_7d_percent": 10_080}
"""The windows of subscriptions, in minutes."""
# Shares of 1, as Claude Code reads them
_UTILIZATIONS: Final = {f"anthropic-ratelimit-unified-{name[6:8]}-utilization": _WINDOWS[name] for name in _WINDOWS}
# codex-rs/codex-api/src/rate_limits.rs; without its minutes, a window is the one that Codex's screen names
_CODEX: Final = {"primary": 300, "secondary": 10_080}

_APART: Final = {source.place for source in BODY if source.is_queue_apart}
_PLACES: Final = [
    ((re.findall(r"^[\w-]+", source.place) or ["total_duration"])[0], source, paths.value(source.place))
    for source in BODY
]
# An answer with `meta_info` in its choices has usage, too: not every chunk with choices is looked through.
KEYS: Final = frozenset({"rate_limits", *(key for key, _, _ in _PLACES)}) - {"choices"}
"""Keys of the JSON objects that report anything: each has at least one."""
_WINDOW_NAMES: Final = frozenset(
    [
        *_UTILIZATIONS,
        *(f"x-codex-{window}-{value}" for window in _CODEX for value in ("used-percent", "window-minutes")),
    ]
)
_NAMES: Final = frozenset(
    [*(source.place for source in HEADERS), *_WINDOW_NAMES, *(name for names in QUOTAS.values() for name in names)]
)
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,12})?")
_PARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def in_payload(payload: JsonObject) -> JsonObject | None:
    """Return the times or quotas that one JSON object of an answer reports, by the names of measures."""
    limits = payload.get("rate_limits")
    if isinstance(limits, dict) and payload.get("type") == "codex.rate_limits":
        windows = [(limits[name], minutes) for name, minutes in _CODEX.items() if isinstance(limits.get(name), dict)]
        return _used((window.get("used_percent"), window.get("window_minutes", minutes)) for window, minutes in windows)
    for key, source, holder_in in _PLACES:
        if key in payload and type(holder := holder_in(payload)) is dict and (times := source.times(holder.get)):
            return times
    return None


def values(exchange: Exchange, in_body: JsonObject, ttfb_ns: int | None, duration_ns: int | None) -> JsonObject:
    """Return the reported values of an exchange by the names of its measures, `in_body` being those of its answer."""
    headers = dict(exchange.headers.response)
    is_silent = _NAMES.isdisjoint(headers)
    if is_silent and not in_body and "traceparent" not in dict(exchange.headers.request):  # as of most answers
        return in_body
    reported, end_ns = in_body.copy() if is_silent else _quotas(headers) | in_body, duration_ns
    if exchange.framing == "websocket":  # times of one turn among several, or of the handshake
        reported = {name: value for name, value in reported.items() if name.startswith("quota")}
    elif not is_silent and "server_times_from" not in reported:
        sources = (source.times(headers.get) for source in HEADERS if source.place in headers)
        reported |= next(filter(None, sources), {})
        end_ns = ttfb_ns
    if (total_ns := reported.get("server_total_ns")) is not None and end_ns is not None:
        is_queue_apart = reported["server_times_from"] in _APART
        rest_ns = end_ns - total_ns - (reported.get("server_queue_ns", 0) if is_queue_apart else 0)
        reported |= {"network_ns": rest_ns} if rest_ns >= 0 else {}
    if (parent := trace_parent(exchange.headers.request)) is not None:
        reported["trace_id"] = parent[2]
    return reported


def _quotas(headers: dict[str, str]) -> JsonObject:
    quotas: JsonObject = {}
    for name, names_of_count in QUOTAS.items():
        for header in names_of_count:
            if header in headers and (left := count(_number(headers[header], is_text=True))) is not None:
                quotas.setdefault(name, left)
    if _WINDOW_NAMES.isdisjoint(headers):
        return quotas
    numbers = {name: _number(headers[name], is_text=True) for name in _WINDOW_NAMES & headers.keys()}
    codex = [
        (numbers.get(f"x-codex-{name}-used-percent"), numbers.get(f"x-codex-{name}-window-minutes", minutes))
        for name, minutes in _CODEX.items()
    ]
    shares = ((share and 100 * share, _UTILIZATIONS.get(name)) for name, share in numbers.items())
    return quotas | _used((*codex, *shares))


def _used(windows: Iterable[tuple[Any, Any]]) -> JsonObject:
    """Return the used parts of the known windows, each given by its percentage and its minutes."""
    used: JsonObject = {}
    for percent, minutes in windows:
        for name, of_minutes in _WINDOWS.items():
            # Codex takes a window for one of these if it differs by 3 minutes at most.
            is_of_name = _number(minutes) is not None and abs(minutes - of_minutes) <= 3
            if is_of_name and _number(percent) is not None and percent <= 1000:
                used.setdefault(name, round(float(percent), 6))
    return used


def trace_parent(headers: Sequence[Sequence[str]]) -> re.Match[str] | None:
    """Match the one valid `traceparent` of a request (W3C Trace Context): version, trace, parent, flags."""
    parents = [value for name, value in headers if len(name) == 11 and name.lower() == "traceparent"]
    match = _PARENT.fullmatch(parents[0].strip(" \t")) if len(parents) == 1 else None
    # Version 00 has nothing behind the flags.
    return None if match is None or (match[1] == "00" and match[5] is not None) else match


def _number(value: Any, *, is_text: bool = False) -> float | None:
    """Return a number of at least 0, or None; a text is one only if it may be."""
    if is_text and type(value) is str:
        return float(value) if _NUMBER.fullmatch(value.strip()) else None
    return value if type(value) in (int, float) and 0 <= value < 1e300 else None
