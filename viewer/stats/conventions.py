"""Pure: the metrics of OpenTelemetry's GenAI conventions, by the names of two versions of them.

`RELEASED` are those of the last release, semconv v1.41.1, which SDKs send. `LATEST` are those of the conventions' own
repository, which has no release yet: semantic-conventions-genai 06ec68e7. They are for users who opt in.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.relay.apis import at_host
from wiretape.viewer.stats.tools import otel

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
"""OpenTelemetry's variable for opting in: a list with commas, which other instrumentations read, too."""
OPT_IN_VALUE: Final = "gen_ai_latest_experimental"

EMBEDDINGS: Final = ("embeddings",)
MEASURED: Final = (*GENERATIONS, *EMBEDDINGS)
"""The operations that have histograms, and spans."""

Figure = Literal[
    "duration", "first_chunk", "per_chunk", "input", "output", "cache_read", "cache_write", "reasoning", "first_bytes",
    "first_events", "first_output", "later_bytes", "later_events", "later_output",
]  # fmt: skip
"""Figures of an exchange that metrics count."""


class Labels(NamedTuple):
    """The labels of every sample, under OpenTelemetry's names; empty is unknown."""

    gen_ai_operation_name: str
    gen_ai_provider_name: str
    gen_ai_request_model: str
    gen_ai_response_model: str
    server_address: str
    server_port: str
    wiretape_api: str
    wiretape_upstream: str


_AT_HOST: Final = {
    "azure": "azure.ai.inference", "bedrock": "aws.bedrock", "chatgpt": "openai", "codeassist": "gcp.gen_ai",
    "gemini": "gcp.gemini", "mistral": "mistral_ai", "moonshot": "moonshot_ai", "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}  # fmt: skip
"""OpenTelemetry's names of the providers at known hosts, where they differ from wiretape's."""
_OF_API: Final = {"gemini": "gcp.gen_ai", "bedrock": "aws.bedrock"}
"""The names by the first part of an API's name, where they differ from it and no known host says more."""


def provider_of(api: str | None, host: str) -> str:
    """Return OpenTelemetry's name of the provider at a host; of an unknown host, that of the API's form."""
    if host.endswith((".openai.azure.com", ".cognitiveservices.azure.com")):
        return "azure.ai.openai"
    if (provider := at_host(host)) is not None:
        return _AT_HOST.get(provider.name, provider.name)
    family = (api or "").partition(".")[0]
    return _OF_API.get(family, family)


LABELS: Final = {
    "gen_ai_operation_name": "kind of request",
    "gen_ai_provider_name": "the provider, by the upstream's host; of an unknown host, whose API it has",
    "gen_ai_request_model": "the model asked for",
    "gen_ai_response_model": "the first model that the answer names",
    "server_address": "the upstream's host",
    "server_port": "its port",
    "wiretape_api": "the API whose form the answer has",
    "wiretape_upstream": "the upstream's name in --upstream NAME=URL: two may have one URL",
}
"""The meanings of the labels."""


class MetricFamily(NamedTuple):
    """A metric of OpenTelemetry: its name, its unit in Prometheus' words, and a label that only it has.

    It counts figures of exchanges with these operations. One without bounds is a counter, any other a histogram.
    """

    name: str
    meaning: str
    unit: str
    bounds: Sequence[float]
    figures: tuple[Figure, ...]
    label: str = ""
    operations: tuple[str, ...] = MEASURED

    @property
    def prometheus(self) -> str:
        """The name as OpenTelemetry's rules translate it for Prometheus."""
        ends = [self.unit, "" if self.bounds else "total"]
        return "_".join([*self.name.split("."), *(end for end in ends if end)])

    @property
    def prometheus_meaning(self) -> str:
        """The meaning, with the highest quantile that Prometheus can compute of durations."""
        if self.unit != "seconds":
            return self.meaning
        return f"{self.meaning}; quantiles above {self.bounds[-1]:g} s, the top bucket, read {self.bounds[-1]:g} s"

    @property
    def labels(self) -> tuple[str, ...]:
        return Labels._fields + ((self.label,) if self.label else ())


class Conventions(NamedTuple):
    """A version of the conventions: its schema, its metrics, and the name of a span's attribute.

    `core_url` is the schema of all other conventions, such as those for resources.
    """

    version: str
    url: str
    core_url: str
    cache_write: str
    families: tuple[MetricFamily, ...]


DURATION: Final = MetricFamily(
    "gen_ai.client.operation.duration",
    "from the request to the end of the answer, of operations that failed too, which have an error_type",
    "seconds", otel.OTEL_SECONDS, ("duration",), "error_type",
)  # fmt: skip
FIRST_CHUNK: Final = MetricFamily(
    "gen_ai.client.operation.time_to_first_chunk",
    "from the request to the first chunk of any kind; of streams",
    "seconds", otel.OTEL_SECONDS, ("first_chunk",),
)  # fmt: skip
PER_CHUNK: Final = MetricFamily(
    "gen_ai.client.operation.time_per_output_chunk",
    "from each chunk to the next, of any kind; of streams",
    "seconds", otel.OTEL_SECONDS, ("per_chunk",),
)  # fmt: skip
TOKENS: Final = MetricFamily(
    "gen_ai.client.token.usage",
    "tokens of an operation, as usage reports them",
    "", otel.OTEL_TOKENS, ("input", "output"), "gen_ai_token_type",
)  # fmt: skip

_LIMITS: Final = (0.5, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600)
"""Usual limits of clients for silences, in s."""
SILENCES: Final = (
    MetricFamily(
        "wiretape.stream.first_silence",
        "from the request to the first byte, event or output, or to the end of a stream without any, whatever ended it",
        "seconds", _LIMITS, ("first_bytes", "first_events", "first_output"), "wiretape_layer",
    ),
    MetricFamily(
        "wiretape.stream.longest_silence",
        "longest later time of a stream without a byte, an event or output, whatever ended it",
        "seconds", _LIMITS, ("later_bytes", "later_events", "later_output"), "wiretape_layer",
    ),
)  # fmt: skip
"""wiretape's own histograms: OpenTelemetry has none for silences."""

RELEASED: Final = Conventions(
    "1.41.1",
    "https://opentelemetry.io/schemas/1.41.1",
    "https://opentelemetry.io/schemas/1.41.1",
    "gen_ai.usage.cache_creation.input_tokens",
    (DURATION, FIRST_CHUNK, PER_CHUNK, TOKENS, *SILENCES),
)


def _inference(former: MetricFamily, name: str) -> MetricFamily:
    return former._replace(name=f"gen_ai.client.inference.{name}", operations=GENERATIONS)


def _tokens(figure: Figure, meaning: str) -> MetricFamily:
    name = f"gen_ai.client.inference.operation.{figure}_tokens"
    return MetricFamily(name, meaning, "", otel.OTEL_TOKENS, (figure,), operations=GENERATIONS)


def _usage(figure: Figure, name: str, meaning: str) -> MetricFamily:
    name = f"gen_ai.client.inference.usage.{name}"
    return MetricFamily(name, meaning, "", (), (figure,), "gen_ai_token_modality", GENERATIONS)


LATEST: Final = Conventions(
    "gen-ai-dev/1.42.0-dev",
    "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev",
    "https://opentelemetry.io/schemas/1.44.0",
    "gen_ai.usage.cache_write.input_tokens",
    (
        _inference(DURATION, "duration"),
        _inference(FIRST_CHUNK, "time_to_first_chunk"),
        _inference(PER_CHUNK, "time_per_output_chunk"),
        _tokens("input", "input tokens of an operation, as usage reports them, those from a cache included"),
        _tokens("output", "output tokens of an operation, as usage reports them, those of reasoning included"),
        _usage("input", "input_tokens", "input tokens, those from a cache included"),
        _usage("cache_read", "cache_read.input_tokens", "of these, those read from the provider's cache"),
        _usage("cache_write", "cache_write.input_tokens", "of these, those written to the provider's cache"),
        _usage("output", "output_tokens", "output tokens, those of reasoning included"),
        _usage("reasoning", "reasoning.output_tokens", "of these, those of reasoning"),
        DURATION._replace(
            meaning="from the request to the end of the answer, of embeddings; of those that failed too",
            operations=EMBEDDINGS,
        ),
        *SILENCES,
    ),
)

VERSIONS: Final = (RELEASED, LATEST)


def chosen(environment: Mapping[str, str]) -> Conventions:
    """Return the conventions that a user opts in to, else those of the last release."""
    values = environment.get(OPT_IN, "").split(",")
    return LATEST if OPT_IN_VALUE in (value.strip() for value in values) else RELEASED
