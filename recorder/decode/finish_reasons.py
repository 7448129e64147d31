"""Pure: the finish reasons that are failures, by API, and the names of those that Google's APIs number.

A limit, a filter and a refusal are answers of the model; a failure is one of the service, which ends a stream in good
order all the same: with a finish reason, and `[DONE]`.
"""

from typing import Final

_ANY: Final = frozenset({"error"})
"""Reasons of gateways to any API: of OpenRouter, of vLLM for internal errors, of the AI SDK."""
_OVERLOAD: Final = "overload"
"""Part of the reasons of engines without room, such as Moonshot's engine_overloaded."""
_GEMINI: Final = frozenset({
    "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE", "UNEXPECTED_TOOL_CALL",
})  # fmt: skip
"""ai.google.dev/api/generate-content, FinishReason: no answer, or no call of a function, that could be read."""
_OPENAI: Final = frozenset({
    "abort",  # vLLM (v1/engine, FinishReason) and SGLang: the engine gave the request up; MiniMax, Novita
    "aborted",
    "insufficient_system_resource",  # DeepSeek: api-docs.deepseek.com/api/create-chat-completion
    "network_error",  # Z.ai: docs.z.ai/api-reference/llm/chat-completion
    *_GEMINI,
})  # fmt: skip
CANCELLED: Final = "cancelled"
"""The end of a response by another request (docs: responses/cancel): it breaks the stream that waits for the answer."""
_BEDROCK: Final = frozenset({"malformed_model_output", "malformed_tool_use"})
"""docs.aws.amazon.com/bedrock: API_runtime_Converse, stopReason."""
_COHERE: Final = frozenset({"ERROR", "ERROR_LIMIT", "ERROR_TOXIC", "TIMEOUT"})
"""docs.cohere.com/reference/chat, finish_reason; the two longer ones are those of version 1."""

FAILURES: Final = {
    "openai.chat": _OPENAI,
    "openai.completions": _OPENAI,
    "openai.responses": _OPENAI | {CANCELLED},
    "gemini": _GEMINI,
    "cohere.chat": _COHERE,
    "bedrock.converse": _BEDROCK,
    "bedrock.invoke": _BEDROCK | _COHERE | _OPENAI,
    "dashscope": _OPENAI,
    "ollama": _OPENAI,
}  # fmt: skip
"""The finish reasons of each API that are failures, with the documents that define them."""

GEMINI: Final = (
    "FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST",
    "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS", "IMAGE_PROHIBITED_CONTENT", "IMAGE_OTHER", "NO_IMAGE", "IMAGE_RECITATION",
)  # fmt: skip
"""Names by number: google/ai/generativelanguage/v1beta/generative_service.proto, Candidate.FinishReason."""
VERTEX: Final = (
    "FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "BLOCKLIST",
    "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION", "IMAGE_OTHER", "UNEXPECTED_TOOL_CALL", "NO_IMAGE",
)  # fmt: skip
"""Names by number: google/cloud/aiplatform/v1/content.proto, Candidate.FinishReason."""
GEMINI_BLOCKS: Final = (
    "BLOCK_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY",
)  # fmt: skip
"""Names by number: generative_service.proto, PromptFeedback.BlockReason."""
VERTEX_BLOCKS: Final = (
    "BLOCKED_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "MODEL_ARMOR", "JAILBREAK",
)  # fmt: skip
"""Names by number: google/cloud/aiplatform/v1/prediction_service.proto, PromptFeedback.BlockedReason."""


def is_failure(api: str, reason: str | None) -> bool:
    """Return True if a finish reason of an API says that the service failed."""
    if reason is None:
        return False
    # Gemini's compatible endpoint names its filter before the reason: "function_call_filter: MALFORMED_FUNCTION_CALL".
    failures = FAILURES.get(api, _ANY)
    return not _ANY.union(failures).isdisjoint((reason, reason.rpartition(": ")[2])) or _OVERLOAD in reason.lower()


def name_of(value: object, names: tuple[str, ...]) -> str | None:
    """Return the name of a value of an enum, which may be a number; None if it is unspecified, or no value at all.

    A number of a later version has no name: it is written in digits.
    """
    if type(value) is int:
        value = names[value] if 0 <= value < len(names) else str(value)
    return value if isinstance(value, str) and value not in ("", names[0]) else None
