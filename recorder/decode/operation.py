"""What a request asks for: its operation, and whether that is a generation.

Rates and latencies are those of generations, unless asked otherwise: a program that lists the models first, or looks
whether a server is there, must not halve its error rate. The names are those of OpenTelemetry's conventions for
generative AI (`gen_ai.operation.name`) where they define one.
"""

import re
from typing import Final
from urllib.parse import unquote

from recorder.decode.outcome import Exchange

OPERATIONS: Final = {
    "chat": "an answer to messages: chat completions, Responses, Messages, Converse, …",
    "generate_content": "an answer of Gemini",
    "text_completion": "a text that continues a prompt",
    "embeddings": "vectors of texts",
    "rerank": "an order of documents",
    "moderation": "a judgement of texts",
    "image": "images made or changed",
    "audio": "speech made or read",
    "count_tokens": "the number of tokens that a request would take",
    "models": "what models there are",
    "other": "anything else",
}
"""Every operation, and what it asks for."""

GENERATIONS: Final = ("chat", "generate_content", "text_completion")
"""The operations that rates and latencies cover."""

_PATHS: Final = tuple(
    (re.compile(pattern), operation, api)
    for pattern, operation, api in (
        (r"/chat/completions$", "chat", "openai.chat"),
        (r"/responses$", "chat", "openai.responses"),
        (r"/messages$", "chat", "anthropic.messages"),
        (r":(?:stream)?[gG]enerateContent$", "generate_content", "gemini"),
        (r"/api/chat$", "chat", "ollama"),
        (r"/api/generate$", "text_completion", "ollama"),
        (r"/v\d/chat$", "chat", "cohere.chat"),
        (r"/converse(?:-stream)?$", "chat", "bedrock.converse"),
        (r"/invoke(?:-with-response-stream)?$", "chat", "bedrock.invoke"),
        (r"/aigc/[\w-]+/generation$", "chat", "dashscope"),
        (r"/completions$", "text_completion", "openai.completions"),
        (r"/completion$|/generate(?:_stream)?$", "text_completion", None),
        (r"/messages/count_tokens$", "count_tokens", "anthropic.messages"),
        (r":countTokens$", "count_tokens", "gemini"),
        (r"/input_tokens$|/(?:de)?tokenize$", "count_tokens", None),
        (r"/embeddings$|/embed$|:(?:batch)?[eE]mbedContents?$|:asyncBatchEmbedContent$", "embeddings", None),
        (r"/rerank$", "rerank", None),
        (r"/moderations$", "moderation", None),
        (r"/images/\w+$|:predict$", "image", None),
        (r"/audio/\w+$", "audio", None),
    )
)
_MODELS = re.compile(r"/models(?:/[^/:]+)*$|/api/(?:tags|ps|show)$|/foundation-models$")
_MODEL_IN_PATH = re.compile(r"/(?:models?|deployments)/([^/]+?)(?::[a-zA-Z]+)?(?=/|$)")


def operation(exchange: Exchange, api: str | None) -> str:
    """Return what an exchange asked for: by its path, else by its answer, of this API, or by its request."""
    from recorder.decode.dialects.registry import BY_API  # a shell that completes a line waits for it

    named = _asked(exchange)
    if named is not None:
        return named[0]
    if exchange.method in ("GET", "POST") and _MODELS.search(_path(exchange)):
        return "models"
    if api in BY_API:
        return BY_API[api].operation
    # A program that names a model and gets no answer wanted one, wherever it sent that.
    return "chat" if exchange.method == "POST" and exchange.request_model else "other"


def api_asked(exchange: Exchange) -> str | None:
    """Return the API that the path of a request names; None if it names none, or that of many servers."""
    named = _asked(exchange)
    return named[1] if named else None


def model_in_path(path: str) -> str | None:
    """Return the model that a path names, as those of Gemini, Bedrock and Azure do; None if it names none."""
    named = _MODEL_IN_PATH.search(path.partition("?")[0])
    return unquote(named[1]) if named else None


def _asked(exchange: Exchange) -> tuple[str, str | None] | None:
    if exchange.method != "POST":
        return None
    path = _path(exchange)
    return next(((operation, api) for pattern, operation, api in _PATHS if pattern.search(path)), None)


def _path(exchange: Exchange) -> str:
    return exchange.path.partition("?")[0].rstrip("/")
