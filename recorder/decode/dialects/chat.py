"""One JSON payload of the chat-completions family, as a `Chunk`.

Reads what OpenAI's schema defines and what servers that call themselves compatible send instead: deltas or whole
messages; content as a list of parts; reasoning under many names; tool calls without an index; usage in four places.
The shape decides, never `object` alone. Every value may have the wrong type: what cannot be read is absent. The content
of audio is its transcript.

Finding errors, `[DONE]` and broken framing is left to `payloads`, putting deltas together to `assembly`.
"""

from collections.abc import Iterable
from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.dialects import embeddings
from wiretape.recorder.decode.values import MAX_INDEX, JsonObject, compact, text, usage_in

API: Final = "openai.chat"

# KoboldCpp and DashScope send the string "null", SGLang the empty string.
_NO_REASON = frozenset({"", "null"})
_CHUNK_OBJECTS = frozenset({"", "chat.completion.chunk"})
_OTHER_OBJECTS = ("response", "response.compaction", "thread.")
"""Beginnings of `object` in OpenAI's other APIs: Responses and Assistants."""
_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_text")
"""Names of reasoning in a delta: of DeepSeek and vLLM, OpenRouter and Groq, GitHub Copilot; the first one counts."""
_THOUGHTS: Final = ("thinking", "reasoning")
"""Types of the parts of a content with reasoning: Mistral's, Databricks'."""
_COMMON_KEYS = frozenset({"choices", "id", "created"})
"""Keys that a payload may have alone."""
_ENVELOPE_KEYS = frozenset(
    {"object", "model", "usage", "error", "prompt_filter_results", "moderation", "x_groq", "timings"}
)
"""Keys that identify a payload whose choices do not: it has at least one."""
_CHOICE_KEYS = frozenset({
    "delta", "message", "finish_reason", "stop_reason", "logprobs", "content_filter_results", "content_filter_offsets",
    "error",
})  # fmt: skip
"""Keys that identify a choice: it has at least one."""
_USAGE_FIELDS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_OTHER_USAGE_FIELDS = frozenset({"input_tokens", "output_tokens"})
_OTHER_FIELDS = frozenset({"type", "event_type", "event", "kind", "status", "jsonrpc", "output"})
"""Fields for the kind of an object, in other APIs with a total of the same name."""
_COMPOUND_FIELDS = frozenset({"usage", "x_groq", "timings", "time_info", "prompt_filter_results", "data", "results"})
"""Fields whose values are no scalars, of a chunk without choices and of whole answers that report the same usage."""


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object; None if it is not of this family."""
    choices = payload.get("choices")
    # vLLM was seen to send null here.
    if not isinstance(choices, list):
        if not _is_chat(payload):
            return None
        choices = []
    elif not are_choices(payload, choices) or is_legacy(payload, choices):
        return None
    answers = _Choices(choices)
    kind = payload.get("object")
    # Some servers name their chunks `chat.completion`, as whole answers are named: clients that check it drop them.
    if isinstance(kind, str) and kind not in _CHUNK_OBJECTS and not answers.whole:
        answers.flags.append("object_mismatch")
    return Chunk(
        API,
        text(payload.get("id")),
        text(payload.get("model")),
        tuple(answers.pieces),
        answers.content,
        answers.reasoning,
        answers.tool,
        usage_of(payload, choices),
        fault,
        tuple(answers.flags),
        whole=answers.whole,
    )


def are_choices(payload: JsonObject, choices: list[object]) -> bool:
    """Return True if the choices of a payload are answers: other objects have choices, too, as polls do."""
    if not _ENVELOPE_KEYS.isdisjoint(payload):
        return True
    if payload.keys() <= _COMMON_KEYS:
        return not choices or any([isinstance(choice, dict) for choice in choices])
    return any([isinstance(choice, dict) and not _CHOICE_KEYS.isdisjoint(choice) for choice in choices])


def is_legacy(payload: JsonObject, choices: list[object]) -> bool:
    """Return True if a payload is of the legacy completions: choices of bare text, or none if it says so itself.

    A choice with a delta or a message is of chat, also where text repeats them (Together).
    """
    has_text = False
    for choice in choices:
        if isinstance(choice, dict):
            if isinstance(choice.get("delta"), dict) or isinstance(choice.get("message"), dict):
                return False
            has_text = has_text or isinstance(choice.get("text"), str)
    return has_text or text(payload.get("object")).startswith("text_completion")


def usage_of(payload: JsonObject, choices: list[object]) -> JsonObject | None:
    """Return the usage of a payload, wherever the server put it; without one, llama.cpp's timings under their name."""
    usage = usage_in(payload)
    # Groq's extension, and Moonshot's choices: one of two usages may have counts that the other lacks.
    for holder in (payload["x_groq"], *choices) if "x_groq" in payload else choices:
        if isinstance(holder, dict) and "usage" in holder and (more := usage_in(holder)) is not None:
            merged: JsonObject = {}
            for usage_part in (usage or {}, more):
                usage_fields.merge(API, merged, usage_part)
            usage = merged
    if usage is None and (timings := usage_in(payload, usage_fields.TIMINGS)) is not None:
        return {usage_fields.TIMINGS: timings}
    return usage


def finish_reason(choice: JsonObject) -> str | None:
    """Return why a choice ended; None if it has not."""
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) and reason not in _NO_REASON else None


tokens: Final = usage_fields.reader(API)

DIALECT: Final = Dialect(api=API, operation="chat", parse=parse, tokens=tokens, finish_ends=True, has_done=True)


def _is_chat(payload: JsonObject) -> bool:
    kind = text(payload.get("object"))
    if "choices" in payload:
        return payload["choices"] is None and are_choices(payload, [])
    if kind.startswith("chat.completion"):
        return True
    usage = payload.get("usage")
    if not isinstance(usage, dict) or kind.startswith(_OTHER_OBJECTS) or embeddings.is_list(payload):
        return False
    if _USAGE_FIELDS.isdisjoint(usage) or not _OTHER_USAGE_FIELDS.isdisjoint(usage):
        return False
    is_bare = all(key in _COMPOUND_FIELDS or not isinstance(value, dict | list) for key, value in payload.items())
    return is_bare and _OTHER_FIELDS.isdisjoint(payload)


class _Choices:
    """The choices of one payload, read one after the other; `whole` if none is a delta."""

    __slots__ = ("content", "flags", "pieces", "reasoning", "tool", "whole")

    def __init__(self, choices: list[object]) -> None:
        self.pieces: list[Piece] = []
        self.flags: list[str] = []
        self.content = self.reasoning = self.tool = False
        self.whole = False
        for position, choice in enumerate(choices):
            if isinstance(choice, dict):
                self._add(choice, position)

    def _add(self, choice: JsonObject, position: int) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            message = choice.get("message")
            if isinstance(message, dict):
                self.whole = True
                delta = message
            else:
                delta = None
        reason = finish_reason(choice)
        # Azure's annotations name a choice without adding to it: that is not seeing it.
        if reason is None and delta is None:
            return
        # Choices that only report an error have no index (Sansa, OpenRouter).
        index = choice.get("index")
        if type(index) is not int or not 0 <= index < MAX_INDEX:
            index = position
        self.pieces.append(self._piece(index, delta or {}, reason))

    def _piece(self, index: int, delta: JsonObject, reason: str | None) -> Piece:
        content = delta.get("content")
        thoughts = ""
        if isinstance(content, str):
            self.content = self.content or content != ""
        elif isinstance(content, list) and content:  # a list of parts, as of Mistral's reasoning models
            content, thoughts = self._parts(content)
        else:
            content = ""
        if len(delta) == 1 and content and not thoughts:
            # Only text, as in nearly every chunk.
            return Piece(index, content=content, finish_reason=reason)
        return self._full_piece(index, delta, content, thoughts, reason)

    def _full_piece(self, index: int, delta: JsonObject, content: str, thoughts: str, reason: str | None) -> Piece:
        reasoning = next(filter(None, (text(delta.get(name)) for name in _REASONING)), "")
        details = delta.get("reasoning_details")
        if isinstance(details, list) and details:  # OpenRouter's, beside the same text in `reasoning`
            blocks = [detail for detail in details if isinstance(detail, dict)]
            if any(isinstance(block.get("data"), str) and block["data"] for block in blocks):
                self.reasoning = True
                self.flags.append("opaque_reasoning")
            reasoning = reasoning or "".join(text(block.get("text")) or text(block.get("summary")) for block in blocks)
        reasoning = reasoning or thoughts
        refusal = text(delta.get("refusal"))
        audio = delta.get("audio")
        if isinstance(audio, dict):
            content = content or text(audio.get("transcript"))
            self.content = self.content or bool(content or audio.get("data"))
        # OpenRouter and LiteLLM stream images beside the content.
        images = delta.get("images")
        if refusal or (isinstance(images, list) and any(images)):
            self.content = True
        if reasoning:
            self.reasoning = True
        tools = _tools(delta) if "tool_calls" in delta or "function_call" in delta else ()
        if any(tool.name or tool.arguments for tool in tools):
            self.tool = True
        return Piece(index, content, reasoning, refusal, tools, reason)

    def _parts(self, parts: list[object]) -> tuple[str, str]:
        thoughts = [part for part in parts if isinstance(part, dict) and part.get("type") in _THOUGHTS]
        answers = [part for part in parts if not isinstance(part, dict) or part.get("type") not in _THOUGHTS]
        answer = _join_texts(answers, "text")
        # A part that is not text (an image, say) is output too, though it adds nothing to the text.
        if answer or any(isinstance(part, dict) and part.get("type") != "text" for part in answers):
            self.content = True
        return answer, "".join(_thinking(part) for part in thoughts)


def _join_texts(parts: Iterable[object], key: str) -> str:
    return "".join(
        part if isinstance(part, str) else text(part.get(key)) for part in parts if isinstance(part, str | dict)
    )


def _thinking(part: JsonObject) -> str:
    for name in ("thinking", "summary", "reasoning", "text"):
        if thought := part.get(name):
            return _join_texts(thought, "text") if isinstance(thought, list) else text(thought)
    return ""


def _tools(delta: JsonObject) -> tuple[ToolPiece, ...]:
    calls = delta.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    if not isinstance(calls, list):
        calls = []
    pieces = [_tool(call) for call in calls if isinstance(call, dict)]
    # OpenAI's form of 2023, before there were tools.
    legacy = delta.get("function_call")
    if isinstance(legacy, dict):
        pieces.append(_tool({"function": legacy}))
    return tuple(pieces)


def _tool(call: JsonObject) -> ToolPiece:
    function, custom = call.get("function"), call.get("custom")
    if not isinstance(function, dict):
        function = {}
    if not function and isinstance(custom, dict):
        function = {"name": custom.get("name"), "arguments": custom.get("input")}
    # Mistral and Gemini's compatible endpoint send calls without an index.
    index = call.get("index")
    if type(index) is not int or not 0 <= index < MAX_INDEX:
        index = None
    arguments = function.get("arguments")
    if isinstance(arguments, dict | list):
        arguments = compact(arguments)
    return ToolPiece(index, text(call.get("id")), text(function.get("name")), text(arguments))
