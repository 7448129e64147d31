"""Readers of one payload as AIPerf and guidellm have them, for each API that they measure.

Follows AIPerf's `endpoints/{openai_chat,openai_completions,openai_responses,anthropic_messages}.py` and guidellm's
`backends/openai/request_handlers.py`, of the releases that `rules` names.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from wiretape.recorder.decode.dialects import chat, completions, messages, responses
from wiretape.recorder.decode.values import JsonObject
from wiretape.viewer.stats.tools.request import ToolError, first_choice, part, text_of


class _AiperfRead(NamedTuple):
    """An answer or reasoning in a payload, and the object with its usage; `is_content`: it counts without a text."""

    answer: str = ""
    reasoning: str = ""
    is_content: bool = False
    reports: JsonObject = {}


def _aiperf_chat() -> Callable[[JsonObject], _AiperfRead]:
    """Return a reader of chat completions: the first choice's text, or a tool's name and arguments."""

    def read(payload: JsonObject) -> _AiperfRead:
        name = {"chat.completion": "message", "chat.completion.chunk": "delta"}.get(str(payload.get("object")))
        delta = part(first_choice(payload) or {}, name) if name else {}
        content, reasoning = delta.get("content"), delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning:
            return _AiperfRead(str(content or ""), str(reasoning), reports=payload)
        calls = delta.get("tool_calls")
        functions = (
            [part(call, "function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        )
        call_text = "".join(str(function.get(key) or "") for function in functions for key in ("name", "arguments"))
        return _AiperfRead(call_text or str(content or ""), reports=payload)

    return read


def _aiperf_completions() -> Callable[[JsonObject], _AiperfRead]:
    """Return a reader of completions: the first choice's text."""

    def read(payload: JsonObject) -> _AiperfRead:
        is_known = payload.get("object") in ("completion", "text_completion")
        return _AiperfRead(str((first_choice(payload) or {}).get("text") or "") if is_known else "", reports=payload)

    return read


def _aiperf_responses() -> Callable[[JsonObject], _AiperfRead]:
    """Return a reader of Responses: deltas, and the end of each text, which has that text if no delta had it."""
    streamed = set[tuple[str, str]]()

    def read(payload: JsonObject) -> _AiperfRead:
        delta = str(payload.get("delta") or "")
        place = str(payload.get("output_index")), str(payload.get("content_index"))
        match payload.get("type"):
            case "response.output_text.delta":
                streamed.update([place] if delta else [])
                return _AiperfRead(delta)
            case "response.output_text.done" if place in streamed:
                return _AiperfRead(is_content=True)
            case "response.output_text.done":
                return _AiperfRead(str(payload.get("text") or ""))
            case "response.function_call_arguments.delta":
                return _AiperfRead(delta)
            case "response.reasoning_text.delta":
                return _AiperfRead(reasoning=delta)
            case "response.completed":
                return _AiperfRead(reports=part(payload, "response"))
        return _AiperfRead()

    return read


def _aiperf_messages() -> Callable[[JsonObject], _AiperfRead]:
    """Return a reader of Messages: text, thinking, and the input of tools, not their names."""

    def read(payload: JsonObject) -> _AiperfRead:
        delta = part(payload, "delta")
        match payload.get("type"), delta.get("type"):
            case "message_start", _:
                return _AiperfRead(reports=part(payload, "message"))
            case "message_delta", _:
                return _AiperfRead(reports=payload)
            case "content_block_delta", "thinking_delta":
                return _AiperfRead(reasoning=str(delta.get("thinking") or ""))
            case "content_block_delta", "text_delta":
                return _AiperfRead(str(delta.get("text") or ""))
            case "content_block_delta", "input_json_delta":
                return _AiperfRead(str(delta.get("partial_json") or ""))
        return _AiperfRead()

    return read


AIPERF: Final[dict[str, Callable[[], Callable[[JsonObject], _AiperfRead]]]] = {
    chat.API: _aiperf_chat,
    completions.API: _aiperf_completions,
    responses.API: _aiperf_responses,
    messages.API: _aiperf_messages,
}
"""Factories of AIPerf's readers, which are each for one stream, by API."""


class _GuidellmRead(NamedTuple):
    """Text, reasoning, a part of a tool call and usage in a payload; `ends`: it is the last one to be read."""

    text: str = ""
    reasoning: bool = False
    begins_call: bool = False
    is_call: bool = False
    usage: object = None
    ends: bool = False

    @property
    def is_answer(self) -> bool:
        """Return True for output other than reasoning."""
        return bool(self.text) or self.begins_call or self.is_call


def _guidellm_chat(payload: JsonObject) -> _GuidellmRead:
    choice = first_choice(payload) or {}
    if not isinstance(choice.get("delta", {}), dict):
        raise ToolError("AttributeError: the delta is no object")
    delta = part(choice, "delta")
    calls = delta.get("tool_calls") or []
    if not isinstance(calls, (list, dict, str)):
        raise ToolError("TypeError: the tool calls are no list")
    if any("index" not in call for call in calls if isinstance(call, dict)):
        raise ToolError("KeyError: 'index' of a tool call")
    reasoning = bool(delta.get("reasoning") or delta.get("reasoning_content"))
    text = text_of(delta.get("content") or "")
    return _GuidellmRead(text, reasoning, begins_call=bool(calls), usage=payload.get("usage"))


def _guidellm_completions(payload: JsonObject) -> _GuidellmRead:
    text = text_of((first_choice(payload) or {}).get("text") or "")
    return _GuidellmRead(text, usage=payload.get("usage"))


def _guidellm_responses(payload: JsonObject) -> _GuidellmRead:
    """Parse an event; reasoning counts in summaries only, and each event of a function call is output."""
    match payload.get("type"):
        case "response.output_text.delta":
            return _GuidellmRead(text_of(payload.get("delta") or ""))
        case "response.reasoning_summary_text.delta":
            return _GuidellmRead(reasoning=bool(payload.get("delta")))
        case "response.output_item.added":
            begins_call = part(payload, "item").get("type") == "function_call"
            if begins_call and "output_index" not in payload:
                raise ToolError("KeyError: 'output_index'")
            return _GuidellmRead(begins_call=begins_call)
        case "response.function_call_arguments.delta" | "response.function_call_arguments.done":
            return _GuidellmRead(is_call=True)
        case "response.completed" | "response.incomplete" | "response.failed" as kind:
            response = part(payload, "response")
            if kind == "response.failed" and response.get("error"):
                raise ToolError("ValueError: error payload in the stream")
            return _GuidellmRead(usage=response.get("usage"), ends=True)
    return _GuidellmRead()


GUIDELLM: Final[dict[str, Callable[[JsonObject], _GuidellmRead]]] = {
    chat.API: _guidellm_chat,
    completions.API: _guidellm_completions,
    responses.API: _guidellm_responses,
}
"""guidellm's readers of a payload, by API."""
_GUIDELLM_USAGE: Final = {
    chat.API: ("completion_tokens", "completion_tokens"),
    completions.API: ("completion_tokens", "completion_tokens"),
    responses.API: ("output_tokens", "text_tokens"),
}
"""The names of the count of a usage, and of that in its details."""


def guidellm_tokens(usage: object, api: str) -> int:
    """Return the tokens of a usage, 0 where it has none: the answer's own, and those of images, video and audio."""
    if not isinstance(usage, dict):
        raise ToolError("AttributeError: the usage is no object")
    name, detail = _GUIDELLM_USAGE[api]
    details = part(usage, f"{name}_details")
    text = details.get(detail) or usage.get(name) or 0
    media_counts = [details.get(f"{kind}_tokens") for kind in ("image", "video", "audio")]
    return sum(count for count in (text, *media_counts) if isinstance(count, int))
