"""Pure: the fields in which each API's usage counts tokens, as one table, and usage that comes in several parts.

Counts are cumulative: of two of the same field the larger holds, also if it came first. Servers repeat usage with zeros
behind the real one (SGLang's and gateways' `message_delta`, closing chunks of chat), or leave counts out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final

from wiretape.recorder.decode.declared import paths
from wiretape.recorder.decode.dialect import Tokens
from wiretape.recorder.decode.values import JsonObject, count


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFields:
    """Places of the counts in one API's usage: of each count's paths, the first with a value that is not 0 counts.

    `tools` is what tools add to the input. `cache_write_5m` and `cache_write_1h` are the parts of `cache_write` by the
    time for which the cache keeps them. `is_without_cache`: `input` is without what a cache read and wrote.
    `is_without_reasoning`: `output` is without the reasoning, unless `input` and `output` alone make the total.
    """

    input: Sequence[str] = ()
    tools: Sequence[str] = ()
    output: Sequence[str] = ()
    total: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    cache_read: Sequence[str] = ()
    cache_write: Sequence[str] = ()
    cache_write_5m: Sequence[str] = ()
    cache_write_1h: Sequence[str] = ()
    is_without_cache: bool = False
    is_without_reasoning: bool = False


_OPENAI: Final = UsageFields(
    # Chat and completions, or Responses; servers of each send the names of the other, too.
    input=("prompt_tokens", "input_tokens"),
    output=("completion_tokens", "output_tokens"),
    total=("total_tokens",),
    reasoning=(
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "reasoning_tokens",  # SGLang, Perplexity
    ),
    cache_read=(
        # OpenAI and most others; Mistral: docs.mistral.ai (prompt-caching), xAI: docs.x.ai (prompt-caching)
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",  # DeepSeek: api-docs.deepseek.com, kv_cache
        "cached_tokens",  # Moonshot: platform.kimi.ai; Together, StepFun
        "cache_read_input_tokens",  # LiteLLM: litellm/types/utils.py, Usage; Databricks
        "num_cached_tokens",  # Mistral before prompt_tokens_details
        "prompt_token_details.cached_tokens",  # Mistral, for a while
        "precached_prompt_tokens",  # GigaChat: developers.sber.ru
    ),
    cache_write=(
        "prompt_tokens_details.cache_write_tokens",  # OpenAI, OpenRouter
        "input_tokens_details.cache_write_tokens",
        "prompt_tokens_details.cache_creation_tokens",  # LiteLLM
        "prompt_tokens_details.cache_creation_input_tokens",  # Alibaba Cloud Model Studio, context-cache
        "input_tokens_details.cache_creation_tokens",
        "input_tokens_details.cache_creation_input_tokens",
        "cache_creation_input_tokens",  # LiteLLM, Databricks
    ),
    cache_write_5m=(
        "prompt_tokens_details.cache_creation_token_details.ephemeral_5m_input_tokens",  # LiteLLM
        "prompt_tokens_details.cache_creation.ephemeral_5m_input_tokens",  # Model Studio
        "cache_creation.ephemeral_5m_input_tokens",
    ),
    cache_write_1h=(
        "prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens",
        "prompt_tokens_details.cache_creation.ephemeral_1h_input_tokens",
        "cache_creation.ephemeral_1h_input_tokens",
    ),
)

TIMINGS: Final = "timings"
"""The field in which llama.cpp (tools/server/README.md) has its counters, also where it sends no usage."""

FIELDS: Final = {
    "openai.chat": _OPENAI,
    "openai.completions": _OPENAI,
    "openai.responses": _OPENAI,
    "snowflake.cortex": _OPENAI,
    # Some servers count only the total.
    "openai.embeddings": UsageFields(input=("prompt_tokens",), total=("total_tokens",)),
    "openai.images": UsageFields(input=("input_tokens",), output=("output_tokens",), total=("total_tokens",)),
    # Realtime's details have names in the singular; Responses over a WebSocket has them in the plural.
    "openai.realtime": UsageFields(
        input=("input_tokens",),
        output=("output_tokens",),
        total=("total_tokens",),
        cache_read=("input_token_details.cached_tokens", "input_tokens_details.cached_tokens"),
    ),
    "openai.agents": _OPENAI,
    # platform.claude.com/docs/en/managed-agents: usage of a request to the model
    "anthropic.sessions": UsageFields(
        input=("input_tokens",),
        output=("output_tokens",),
        cache_read=("cache_read_input_tokens",),
        cache_write=("cache_creation_input_tokens",),
        is_without_cache=True,
    ),
    # docs.claude.com: prompt caching, token counting, extended thinking
    "anthropic.messages": UsageFields(
        input=("input_tokens",),
        output=("output_tokens",),
        reasoning=("output_tokens_details.thinking_tokens",),
        cache_read=("cache_read_input_tokens",),
        cache_write=("cache_creation_input_tokens",),
        cache_write_5m=("cache_creation.ephemeral_5m_input_tokens",),
        cache_write_1h=("cache_creation.ephemeral_1h_input_tokens",),
        is_without_cache=True,
    ),
    # ai.google.dev/api/generate-content, UsageMetadata; a count of 0 is left out. `totalTokens`: countTokens
    "gemini": UsageFields(
        input=("promptTokenCount",),
        tools=("toolUsePromptTokenCount",),
        output=("candidatesTokenCount",),
        total=("totalTokenCount", "totalTokens"),
        reasoning=("thoughtsTokenCount",),
        cache_read=("cachedContentTokenCount",),
        is_without_reasoning=True,
    ),
    # ai.google.dev/api/live, UsageMetadata; some SDKs write the names with underscores
    "gemini.live": UsageFields(
        input=("promptTokenCount", "prompt_token_count"),
        tools=("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
        output=("responseTokenCount", "response_token_count"),
        total=("totalTokenCount", "total_token_count"),
        reasoning=("thoughtsTokenCount", "thoughts_token_count"),
        cache_read=("cachedContentTokenCount", "cached_content_token_count"),
        is_without_reasoning=True,
    ),
    # ai.google.dev/gemini-api/docs/interactions
    "gemini.interactions": UsageFields(
        input=("total_input_tokens",),
        tools=("total_tool_use_tokens",),
        output=("total_output_tokens",),
        total=("total_tokens",),
        reasoning=("total_thought_tokens",),
        cache_read=("total_cached_tokens",),
        is_without_reasoning=True,
    ),
    # docs.ollama.com/api/usage
    "ollama": UsageFields(input=("prompt_eval_count",), output=("eval_count",)),
    # docs.cohere.com/reference/chat: the tokens of the model, and only where it has none those that are billed
    "cohere.chat": UsageFields(
        input=("tokens.input_tokens", "billed_units.input_tokens"),
        output=("tokens.output_tokens", "billed_units.output_tokens"),
        cache_read=("cached_tokens",),
    ),
    # docs.aws.amazon.com/bedrock: API_runtime_TokenUsage, CacheDetail
    "bedrock.converse": UsageFields(
        input=("inputTokens",),
        output=("outputTokens",),
        total=("totalTokens",),
        cache_read=("cacheReadInputTokens", "cacheReadInputTokenCount"),
        cache_write=("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        cache_write_5m=("cacheDetails[?ttl=5m].inputTokens",),
        cache_write_1h=("cacheDetails[?ttl=1h].inputTokens",),
        is_without_cache=True,
    ),
    # Models of Llama and Titan, then Bedrock's own metrics; the usage of other models is in the names of their APIs.
    "bedrock.invoke": UsageFields(
        input=("prompt_token_count", "inputTextTokenCount", "inputTokenCount"),
        output=("generation_token_count", "totalOutputTextTokenCount", "tokenCount", "outputTokenCount"),
        cache_read=("cacheReadInputTokenCount",),
        cache_write=("cacheWriteInputTokenCount",),
        is_without_cache=True,
    ),
    # help.aliyun.com: Model Studio's own API, qwen-api-reference
    "dashscope": UsageFields(
        input=("input_tokens",),
        output=("output_tokens",),
        total=("total_tokens",),
        reasoning=("output_tokens_details.reasoning_tokens",),
        cache_read=("prompt_tokens_details.cached_tokens", "cached_tokens"),
        cache_write=("prompt_tokens_details.cache_creation_input_tokens",),
        cache_write_5m=("prompt_tokens_details.cache_creation.ephemeral_5m_input_tokens",),
    ),
    # `prompt_n` are the tokens that were evaluated, `cache_n` those before them that were not.
    TIMINGS: UsageFields(
        input=("timings.prompt_n",),
        output=("timings.predicted_n",),
        cache_read=("timings.cache_n",),
        is_without_cache=True,
    ),
}
"""The fields of each API's usage, with the documents that define them."""


def _top_key(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


_COUNTS: Final = tuple(place.name for place in fields(UsageFields) if not place.name.startswith("is_"))
_READERS: Final[dict[str, dict[str, list[tuple[str, paths.Getter]]]]] = {
    api: {name: [(_top_key(path), paths.number(path)) for path in getattr(places, name)] for name in _COUNTS}
    for api, places in FIELDS.items()
}
"""The readers of each count, with the field that each begins at: a usage has few of them."""


def reader(api: str) -> Callable[[JsonObject], Tokens]:
    """Return the function from an API's usage to its counts."""
    places = FIELDS[api]
    getters = [(name, key, get) for name, readers in _READERS[api].items() for key, get in readers]

    def tokens(usage: JsonObject) -> Tokens:
        counts: dict[str, int | None] = dict.fromkeys(_COUNTS)
        for name, key, get in getters:  # the first count that is not 0 holds; without one 0 if there is any
            if key in usage and not counts[name] and (number := get(usage)) is not None:
                counts[name] = number
        if places is _OPENAI and counts["input"] is None and counts["output"] is None and TIMINGS in usage:
            return _from_timings(usage)
        return _tokens(counts, places)

    return tokens


_from_timings: Final = reader(TIMINGS)


def is_from_timings(usage: JsonObject) -> bool:
    """Return True if a usage has no counts but those of llama.cpp's timings."""
    if TIMINGS not in usage:
        return False
    readers = _READERS["openai.chat"]
    return all(get(usage) is None for name in ("input", "output") for _, get in readers[name])


def _tokens(counts: dict[str, int | None], places: UsageFields) -> Tokens:
    input_count, output_count, total = _sum(counts["input"], counts["tools"]), counts["output"], counts["total"]
    cache_read, cache_write, reasoning = counts["cache_read"], counts["cache_write"], counts["reasoning"]
    cached = (cache_read or 0) + (cache_write or 0)
    # Gateways to Anthropic's API pass its count on at times, which is without cached tokens: then the total shows it.
    is_beside = total is not None and total == _sum(input_count, cached, output_count) and cached != reasoning
    if input_count is not None and cached and (places.is_without_cache or is_beside):
        input_count = count(input_count + cached)
    if places.is_without_reasoning and (not reasoning or total is None or _sum(input_count, output_count) != total):
        # Vertex AI and gateways count thoughts within the answer at times: then both counts alone make the total.
        output_count = _sum(output_count, reasoning)
    # The parts by time are unknown unless they add up to all that were written.
    hour, minutes = counts["cache_write_1h"], counts["cache_write_5m"]
    is_split = (hour, minutes) != (None, None) and _sum(hour, minutes) == cache_write
    return Tokens(
        input=input_count,
        output=output_count,
        total=total,
        reasoning=reasoning,
        cache_read=cache_read,
        cache_write=cache_write,
        cache_write_1h=(hour or 0) if is_split else None,
    )


def _sum(*counts: int | None) -> int | None:
    """Add up the known counts; None if none is."""
    numbers = [number for number in counts if number is not None]
    return count(sum(numbers)) if numbers else None


def merge(api: str, total: JsonObject, usage: JsonObject) -> None:
    """Merge another report of a stream's usage into `total`: of two counts the larger holds, of other values the last.

    Where a count of input is without cached tokens, its parts change together: the report with more input has them all.
    """
    keys = _INPUT_KEYS.get(api)
    if keys is not None:
        # The order is the report's: a set has another order in each process.
        previous = {key: value for key, value in total.items() if key in keys}
        latest = previous | {key: value for key, value in usage.items() if key in keys and value is not None}
        count_tokens = reader(api)
        is_less = (count_tokens(latest).input or 0) < (count_tokens(previous).input or 0)
        total.update(previous if is_less else latest)
        usage = {key: value for key, value in usage.items() if key not in keys}
    _enlarge(total, usage, _DEEPEST)


_DEEPEST: Final = 8
"""Levels of objects in a usage that are merged; below them the last holds."""
_INPUT_KEYS: Final = {
    api: frozenset(
        _top_key(path)
        for name in ("input", "cache_read", "cache_write", "cache_write_5m", "cache_write_1h")
        for path in getattr(places, name)
    )
    for api, places in FIELDS.items()
    if places.is_without_cache
}


def _enlarge(total: JsonObject, usage: JsonObject, depth: int) -> None:
    """Merge counts in place: the work is linear in the report, however large the total is."""
    for name, value in usage.items():
        earlier, kind = total.get(name), type(value)
        if kind is int and type(earlier) is int:  # nearly all, and on each chunk of some servers
            total[name] = value if value > earlier else earlier
        elif kind is dict and depth:
            if not isinstance(earlier, dict):
                earlier = total[name] = {}  # not the report's own: it is read again
            _enlarge(earlier, value, depth - 1)
        elif kind is type(earlier) and count(value) is not None:
            if value > earlier:
                total[name] = value
        elif value is not None and (earlier is None or value or value is False):
            total[name] = value


def summed(*usages: JsonObject) -> JsonObject:
    """Add up the counts of usages; of other values the last holds."""
    total: JsonObject = {}
    for usage in usages:
        _add(total, usage, _DEEPEST)
    return total


def _add(total: JsonObject, usage: JsonObject, depth: int) -> None:
    for name, value in usage.items():
        earlier = total.get(name)
        if isinstance(value, dict) and depth:
            if not isinstance(earlier, dict):
                earlier = total[name] = {}
            _add(earlier, value, depth - 1)
        elif type(value) is int and type(earlier) is int:
            total[name] = earlier + value
        elif value is not None:
            total[name] = value
