"""The API dialects that are decoded: a new one is a module beside this one, and an entry here."""

from typing import Final

from recorder.decode.dialect import Dialect
from recorder.decode.dialects import bedrock, bedrock_invoke, chat, dashscope, gemini, ollama

DIALECTS: Final[tuple[Dialect, ...]] = (
    chat.DIALECT,
    gemini.DIALECT,
    ollama.DIALECT,
    bedrock.DIALECT,
    bedrock_invoke.DIALECT,
    dashscope.DIALECT,
)
"""In the order in which they are asked whether an object is theirs: the first that claims it wins."""
