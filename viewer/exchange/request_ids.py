"""Pure: the headers by which a provider names a request, and which its support asks for."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from wiretape.viewer.record.rows import Headers

HEADERS: Final[dict[str, str]] = {
    "x-request-id": "OpenAI, and most others",
    "request-id": "Anthropic",
    "cf-ray": "Cloudflare, which is in front of several",
    "x-amzn-requestid": "Amazon Bedrock",
    "x-amzn-request-id": "Amazon",
    "x-amz-request-id": "Amazon S3",
    "x-amz-cf-id": "Amazon CloudFront",
    "apim-request-id": "Azure",
    "x-ms-request-id": "Azure",
    "x-goog-request-id": "Google",
    "x-cloud-trace-context": "Google Cloud",
    "x-groq-request-id": "Groq",
    "mistral-correlation-id": "Mistral",
    "x-kong-request-id": "Kong, which is in front of Mistral",
    "x-ds-trace-id": "DeepSeek",
    "x-together-traceid": "Together",
    "nvcf-reqid": "NVIDIA",
    "x-debug-trace-id": "Cohere",
    "x-fireworks-request-id": "Fireworks",
    "msh-request-id": "Moonshot",
    "x-dashscope-request-id": "DashScope",
    "x-generation-id": "OpenRouter",
    "x-github-request-id": "GitHub Models, Copilot",
    "x-vercel-id": "Vercel",
    "x-litellm-call-id": "LiteLLM",
}
"""Response headers with an id of the request, and who sends them."""

# By their shape, for providers that the table does not name.
_SHAPED: Final = re.compile(r"(?:^|-)request-?id$")
_LIMITS: Final = re.compile(r"^retry-after|rate-?limit")


def identifying(headers: Headers) -> Iterator[Sequence[str]]:
    """Yield those of a response's headers that name the request, by the table or by their shape, or its limits."""
    for header in headers:
        name = header[0].lower()
        if name in HEADERS or _SHAPED.search(name) or _LIMITS.search(name):
            yield header
