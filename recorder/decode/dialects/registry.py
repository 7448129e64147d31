"""The API dialects that are decoded: a new one is a module beside this one, and an entry here."""

from typing import Final

from wiretape.recorder.decode.dialect import Chunk, Dialect, Tokens
from wiretape.recorder.decode.dialects import (
    bedrock,
    bedrock_invoke,
    chat,
    cohere,
    completions,
    dashscope,
    embeddings,
    gemini,
    images,
    messages,
    ollama,
    responses,
)

DIALECTS: Final[tuple[Dialect, ...]] = (
    chat.DIALECT,
    responses.DIALECT,
    messages.DIALECT,
    gemini.DIALECT,
    ollama.DIALECT,
    cohere.DIALECT,
    bedrock.DIALECT,
    bedrock_invoke.DIALECT,
    dashscope.DIALECT,
    completions.DIALECT,
    embeddings.DIALECT,
    images.DIALECT,
)
"""No object is of two dialects: their order does not matter."""

BY_API: Final = {dialect.api: dialect for dialect in DIALECTS}


def tokens(chunk: Chunk) -> Tokens:
    """Return the counts that one chunk's own usage reports."""
    return BY_API[chunk.api].tokens(chunk.usage) if chunk.usage and chunk.api in BY_API else Tokens()
