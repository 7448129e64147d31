"""The operation of a request, and whether that is a generation.

By default, rates and latencies cover generations only: a program that first lists the models, or probes the server,
must not halve its error rate. The names are those of OpenTelemetry's conventions for generative AI
(`gen_ai.operation.name`) where they define one.
"""

import functools
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from wiretape.recorder.decode.exchange import Exchange, Operation

if TYPE_CHECKING:
    from wiretape.recorder.decode.dialect import Dialect

GENERATIONS: Final = ("chat", "generate_content", "text_completion")
"""The operations that rates and latencies cover."""

UNKNOWN: Final[Operation] = "unknown"
"""The operation in place of a generation's where its stream is not decoded: nobody knows if it succeeded."""


def is_covered(operation: Operation | None) -> bool:
    """Return True if rates and latencies cover an operation; an unknown one is covered."""
    return operation is None or operation in GENERATIONS


GPT_LIVE: Final = "openai.live"
"""The API whose sessions have no turns, and end with a message before the WebSocket is closed."""

# The first match wins: a narrower path stands before those that it is part of.
_ON_PATHS: Final[tuple[tuple[str, Operation, str | None], ...]] = (
    (r"/chat/completions$", "chat", "openai.chat"),
    (r"/responses$", "chat", "openai.responses"),
    (r"^(?!.*/threads/).*/messages$", "chat", "anthropic.messages"),
    (r":(?:stream)?[gG]enerateContent$", "generate_content", "gemini"),
    (r"/interactions$", "generate_content", "gemini.interactions"),
    (r"/interactions/[^/]+/cancel$", "other", "gemini.interactions"),
    (r"/responses/[^/]+/cancel$", "other", "openai.responses"),
    (r"/chat/completions/[^/]+$", "other", "openai.chat"),
    (r"/cortex/inference:complete$", "chat", "snowflake.cortex"),
    (r"/api/chat$", "chat", "ollama"),  # also the default of the AI SDK, whose header decides
    (r"/api/generate$", "text_completion", "ollama"),
    (r"/api/(?:pull|push|create|copy)$", "other", "ollama"),
    (r"/api/show$", "models", "ollama"),
    (r"/v2/chat$", "chat", "cohere.chat"),
    (r"/v\d/chat$", "chat", None),  # Cohere before version 2, and many servers
    (r"/model/.+/converse(?:-stream)?$", "chat", "bedrock.converse"),
    (r"/model/[^/]*embed[^/]*/invoke$", "embeddings", "bedrock.invoke"),
    (r"/model/[^/]*rerank[^/]*/invoke$", "rerank", "bedrock.invoke"),
    (r"/model/[^/]*(?:image|canvas|stability\.)[^/]*/invoke$", "image", "bedrock.invoke"),
    (r"/model/.+/invoke(?:-with-response-stream)?$", "chat", "bedrock.invoke"),
    (r"/aigc/[\w-]*image[\w-]*/[\w-]+$", "image", "dashscope"),
    (r"/aigc/[\w-]*video[\w-]*/[\w-]+$", "other", "dashscope"),
    (r"/aigc/[\w-]+/generation$", "chat", "dashscope"),
    (r"/services/embeddings/[\w/-]+$", "embeddings", "dashscope"),
    (r"/services/rerank/[\w/-]+$", "rerank", "dashscope"),
    (r"/services/audio/[\w/-]+$", "audio", "dashscope"),
    (r"/completions$", "text_completion", "openai.completions"),
    # llama.cpp's own, Anthropic's before messages, and TGI's, SGLang's and vLLM's own.
    (r"/completion$|/v1/complete$|/infill$|/generate(?:_stream)?$", "text_completion", None),
    (r"/messages/count_tokens$", "count_tokens", "anthropic.messages"),
    (r":countTokens$", "count_tokens", "gemini"),
    (r"/count-tokens$|/count-tokens:rawPredict$", "count_tokens", None),
    (r"/input_tokens$|/(?:de)?tokenize$", "count_tokens", None),
    (r":(?:rawPredict|streamRawPredict)$", "chat", None),  # models of others on Vertex AI
    (r"/embeddings?$|/embed$|:(?:batch)?[eE]mbedContents?$|:asyncBatchEmbedContent$", "embeddings", None),
    (r"/[^/]*embedding[^/]*:predict$", "embeddings", None),
    (r"/rerank(?:ing)?$", "rerank", None),
    (r"/moderations$", "moderation", None),
    (r"/images/\w+$|:predict$", "image", None),
    (r"/audio/\w+$", "audio", None),
    (r"/realtime$", "realtime", "openai.realtime"),
    (r"\.BidiGenerateContent(?:Constrained)?$|/BidiGenerateContent$", "realtime", "gemini.live"),
    (r"/live/sessions(?:/[^/]+/attach)?$", "realtime", GPT_LIVE),
    (r":batchGenerateContent$|:predictLongRunning$|/cachedContents$", "other", None),
    (r"/(?:batches|jobs|assistants|videos|classify|score|pooling)$|/realtime/\w+$", "other", None),
    # Runs of LangGraph and of OpenAI's Assistants.
    (r"/threads(?:/[^/]+)?/runs(?:/stream|/wait|/[^/]+/submit_tool_outputs)?$", "other", None),
)
# Streams of sessions of agents that run at the provider: a GET opens them.
_ON_STREAM_PATHS: Final[tuple[tuple[str, Operation, str | None], ...]] = (
    (r"/agents/sessions/[^/]+/events$", "agent_session", "openai.agents"),
    (r"/sessions/[^/]+/(?:events|threads/[^/]+)/stream$", "agent_session", "anthropic.sessions"),
)
_PATHS: Final = [(re.compile(pattern), operation, api) for pattern, operation, api in _ON_PATHS]
_STREAM_PATHS: Final = [(re.compile(pattern), operation, api) for pattern, operation, api in _ON_STREAM_PATHS]
_MODELS = re.compile(r"/models(?:/[^/:]+){0,3}$|/api/(?:tags|ps)$|/foundation-models$")
_STORED = re.compile(r"/(?:interactions|completions)/[^/]+$")
_RESUMED = re.compile(r"/(?:interactions|responses)/([^/?]+)\?(?:[^#]*&)?stream=true(?:&|$)")
_MODEL_IN_QUERY = re.compile(r"/realtime\?(?:[^#]*&)?model=([^&#]+)")
_MODEL_IN_PATH = re.compile(
    r"/model/([^/]+|arn:[^/]+/[^/]+)/(?:converse|invoke|count-tokens)"
    r"|/(?:deployments|engines)/([^/]+)/"
    r"|/models/([^/]+):[a-zA-Z]+$"
    r"|/models/(?!chat/|completions$|embeddings$|images/)([^/]+(?:/[^/]+)?)(?:/v1/[\w/]+)?$"
)


class _PathKind(NamedTuple):
    """The operation of requests to a path, and their API; None if many servers have that path."""

    operation: Operation
    api: str | None


def operation(exchange: Exchange, dialect: "Dialect | None" = None) -> Operation:
    """Return the operation of an exchange: by its path, else by the dialect of its answer, or by its request.

    A declared dialect knows better than the path.
    """
    kind = _kind(exchange)
    if exchange.method == "GET" and _STORED.search(_without_query(exchange.path)) and not resumed(exchange):
        return "other"  # its answer is stored, or its state is polled
    if dialect is not None and (kind is None or dialect.is_declared):
        return dialect.operation
    if kind is not None:
        return kind.operation
    if exchange.method == "GET" and _MODELS.search(_without_query(exchange.path)):
        return "models"
    # A program that names a model wants an answer, wherever it sends that; one that was refused may want anything.
    is_answered = exchange.status is not None and exchange.status < 300
    # An agent that is to run in a new session is no model that is to answer now.
    asks = exchange.method == "POST" and not _without_query(exchange.path).endswith("/sessions")
    return "chat" if asks and exchange.request_model and is_answered else "other"


def api_asked(exchange: Exchange) -> str | None:
    """Return the API that the path of a request names; None if it names none, or that of many servers."""
    kind = _kind(exchange)
    return kind.api if kind else None


def api_at(path: str) -> str | None:
    """Return the API whose calls are posted to a path, with or without a query; None of a path that names none."""
    kind = _path_kind(path)
    return kind.api if kind else None


def is_api(path: str) -> bool:
    """Return True if calls of a known API, or such that make text or vectors of text, are posted to a path."""
    kind = _path_kind(path)
    return kind is not None and (kind.api is not None or kind.operation in (*GENERATIONS, "embeddings", "rerank"))


def generates(path: str, *, names_model: bool) -> bool:
    """Return True if a POST to a path asks for a generation; at a path of no known API, if it names a model."""
    kind = _path_kind(path)
    return names_model if kind is None else kind.operation in GENERATIONS


def resumed(exchange: Exchange) -> str | None:
    """Return the id of the response whose stream a request resumes; else None."""
    match = _RESUMED.search(exchange.path) if exchange.method == "GET" else None
    return unquote(match[1]) if match else None


def model_in_query(path: str) -> str | None:
    """Return the model that the query of a request names for a Realtime session; else None."""
    match = _MODEL_IN_QUERY.search(path)
    return unquote(match[1]) if match else None


def model_in_path(path: str) -> str | None:
    """Return the model that the path of a request to one names, as Gemini's, Bedrock's and Azure's do; else None."""
    match = _MODEL_IN_PATH.search(path.partition("?")[0].rstrip("/"))
    return unquote(match[match.lastindex or 0]) if match else None


def _kind(exchange: Exchange) -> _PathKind | None:
    if exchange.method == "POST" or exchange.framing == "websocket":
        return _path_kind(exchange.path)
    return _stream_kind(exchange.path) if exchange.method == "GET" else None


@functools.lru_cache(256)
def _path_kind(path: str) -> _PathKind | None:
    posted_to = _without_query(path)
    return next((_PathKind(operation, api) for pattern, operation, api in _PATHS if pattern.search(posted_to)), None)


@functools.lru_cache(256)
def _stream_kind(path: str) -> _PathKind | None:
    """Return the kind of a stream that a GET opens."""
    route = _without_query(path)
    return next((_PathKind(operation, api) for pattern, operation, api in _STREAM_PATHS if pattern.search(route)), None)


def _without_query(path: str) -> str:
    return path.partition("?")[0].rstrip("/")
