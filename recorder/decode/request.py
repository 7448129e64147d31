"""The JSON body of a request as a `Prompt`, for every API whose answers are decoded, and for those that resemble one.

The shape of a body decides, not its path: gateways and clouds serve any API under paths of their own, and no two APIs
mean different things by the same field. Every value may have the wrong type, and a body may be hostile: unknown parts
are kept as JSON, and the number of separate messages and parts is limited.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import takewhile
from math import isfinite
from typing import Any, Final, Literal, cast

import msgspec

from wiretape.recorder.decode.allowance import may_be_parsed
from wiretape.recorder.decode.prompt import (
    SYSTEM,
    Media,
    Message,
    Other,
    Part,
    Prompt,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from wiretape.recorder.decode.values import JsonObject, compact, text

MOST_MESSAGES: Final = 20_000
MOST_PARTS: Final = 10_000
"""Limits of the messages of a request and the parts of a message; the remainder is kept as one `Other`."""

_DEEPEST = 4
# Gemini's, Cohere's and LangChain's names, and OpenAI's before there were tools.
ROLES: Final = {"model": "assistant", "chatbot": "assistant", "ai": "assistant", "function": "tool", "human": "user"}
_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal"})
CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool-call", "function_call", "custom_tool_call"})
_THOUGHTS: Final = frozenset({"thinking", "reasoning", "redacted_thinking", "thought"})
_PLAIN_KEYS: Final = frozenset({"role", "content"})
_CALL_KEYS = frozenset({"id", "call_id", "type", "status", "name", "arguments"})
# Anthropic's, Responses', Bedrock's and chat's names, in this order.
RESULT_IDS = ("tool_use_id", "call_id", "toolUseId", "tool_call_id", "id")
_RESULT_KEYS = frozenset({
    *RESULT_IDS, "type", "content", "output", "response", "result", "name", "status", "is_error", "cache_control",
})  # fmt: skip
_MODEL_ITEMS = _THOUGHTS | {"compaction", "mcp_list_tools", "mcp_approval_request", "model_output"}
ENVELOPES = ("request", "input")  # Gemini Code Assist, DashScope
MediaKind = Literal["image", "audio", "video", "file"]
MEDIA: Final[dict[str, MediaKind]] = {
    "image": "image", "image_url": "image", "input_image": "image", "computer_screenshot": "image",
    "audio": "audio", "input_audio": "audio", "audio_url": "audio", "video": "video", "video_url": "video",
    "input_video": "video", "file": "file", "input_file": "file", "document": "file", "document_url": "file",
    "inlineData": "file", "inline_data": "file", "fileData": "file", "file_data": "file", "container_upload": "file",
}  # fmt: skip
_MESSAGE_STEPS = frozenset({"user_input", "model_output"})
"""Items that are a message without a role: steps of Gemini's Interactions."""
_DATA = frozenset({"data", "bytes", "file_data"})
_SOURCES = frozenset({
    "url", "uri", "image_url", "audio_url", "video_url", "document_url", "file_url", "fileUri", "file_uri", "file_id",
    "image", "audio", "video", "file", "id",
})  # fmt: skip
MEDIA_TYPES = ("media_type", "mimeType", "mime_type", "format")
_NAMES = ("filename", "title", "name", "displayName", "display_name")


def parse(body: bytes | None) -> Prompt | None:
    """Read the body of a request, without a content encoding; None if it is not one JSON object."""
    return prompt_of(decoded(body or b""))


def prompt_of(request: object) -> Prompt | None:
    """Read the value of a request's body; None if it is no JSON object."""
    if not isinstance(request, dict):
        return None
    fields = _unwrapped(request)
    # Some clients of the Responses API send tools as items of the input.
    items = _list(fields.get("input"))
    tool_items = [item for item in items if _adds_tools(item)]
    if tool_items:
        fields["input"] = [item for item in items if not _adds_tools(item)]
    added = [tool for item in tool_items for tool in _tools("tools", dict(item))]
    messages = [message for key, reader in MESSAGES.items() if key in fields for message in reader(key, fields)]
    leading = list(takewhile(lambda message: message.role in SYSTEM, messages))
    system = [part for key in SYSTEM_KEYS if key in fields for part in _parts(fields.pop(key))]
    system += [part for message in leading for part in message.parts]
    tools = [tool for key in _TOOL_KEYS if key in fields for tool in _tools(key, fields)] + added
    model = text(fields.pop("model", None)) if isinstance(fields.get("model"), str) else ""
    return Prompt(model, tuple(system), tuple(tools), tuple(messages[len(leading) :]), fields)


def decoded(body: bytes) -> Any:
    """Return the JSON value of a body; None if it is none, or too large to be read."""
    if not may_be_parsed(body):
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    try:  # takes what msgspec refuses and programs send: lone surrogates, NaN, a byte order mark
        # A number too large for a float stays the text that it was written as.
        parse_float = lambda text: number if isfinite(number := float(text)) else text  # noqa: E731
        return json.loads(body.decode("utf-8-sig", "replace"), parse_constant=str, parse_float=parse_float)
    except (ValueError, RecursionError):
        return None


def _unwrapped(request: JsonObject) -> JsonObject:
    """Return the fields of a request without the envelope that some APIs put around its content."""
    fields = dict(request)
    for key in ENVELOPES:
        inner = fields.get(key)
        if isinstance(inner, dict) and not MESSAGES.keys().isdisjoint(inner):
            del fields[key]
            fields |= inner
            parameters = fields.get("parameters")
            if isinstance(parameters, dict) and "tools" in parameters:
                fields |= {"parameters": {**parameters}, "tools": parameters["tools"]}
                del fields["parameters"]["tools"]
    return fields


def _message_list(key: str, fields: JsonObject) -> Iterator[Message]:
    """Read a list of messages or items, or one text or object in its place."""
    value = fields[key]
    if is_reference(value):
        return
    del fields[key]
    items = value if isinstance(value, list) else [value]
    if items and all([type(item) is int for item in items]):
        items = [{"role": "user", "content": [Other("tokens", compact(items))]}]
    for item in items[:MOST_MESSAGES]:
        yield _item(item)
    if len(items) > MOST_MESSAGES:
        yield Message("other", (Other("more messages", compact(items[MOST_MESSAGES:])),))


def is_reference(value: object) -> bool:
    """Return True for an object in the place of messages that is none: a reference to a stored prompt, say."""
    if not isinstance(value, dict) or {"role", "parts", "content"} & value.keys():
        return False
    return text(value.get("type")) not in (*_TEXTS, *MEDIA)


def _single_turn(key: str, fields: JsonObject) -> Iterator[Message]:
    """Read the text of a single turn, with the images or the results of tools beside it."""
    images = [_media("image", image) for image in _list(fields.get("images"))]
    for message in _message_list(key, fields):
        yield Message(message.role, (*message.parts, *images), message.name)
        if images:
            del fields["images"]
            images = []
    if isinstance(fields.get("tool_results"), list):
        yield Message("tool", tuple(_cohere_result(result) for result in fields.pop("tool_results")))


MESSAGES: Final[dict[str, Callable[[str, JsonObject], Iterator[Message]]]] = {
    **dict.fromkeys(("chat_history", "messages", "contents", "history", "input", "content"), _message_list),
    **dict.fromkeys(("prompt", "message", "inputText", "inputs"), _single_turn),
}
"""The fields that hold messages, in the order of the conversation."""
_TOOL_KEYS = ("tools", "functions", "toolConfig")  # OpenAI's before there were tools; Bedrock's
# Anthropic's, Responses', Gemini's and Cohere's of version 1.
SYSTEM_KEYS = ("system", "instructions", "systemInstruction", "system_instruction", "preamble")


def _item(item: object) -> Message:
    """Read a message, or an item of the Responses API."""
    if not isinstance(item, dict):
        return Message("user", _parts(item))
    kind = text(item.get("type"))
    if "role" not in item and kind:
        parts = [*_parts(item.get("content"))] if kind in _MESSAGE_STEPS else _part(item, 0)
        return Message(role_of_item(kind), tuple(parts))
    return _message(item)


def role_of_item(kind: str) -> str:
    """Return the role of an item without one, by its type."""
    if kind.endswith("_call") or kind in _MODEL_ITEMS or kind in CALLS:
        return "assistant"
    if is_result(kind):
        return "tool"
    return "user" if kind in ("user_input", "text", "input_text") or kind in MEDIA else kind


def is_result(kind: str) -> bool:
    """Return True for the type of an item or part that is the result of a tool."""
    return kind.endswith(("_result", "_output")) and kind not in ("search_result", "model_output")


def _message(item: JsonObject) -> Message:
    role = text(item.get("role")).lower() or "user"
    role = ROLES.get(role, role)
    parts = [*_parts(item.get("content"))] if item.keys() <= _PLAIN_KEYS else _all_parts(item)
    name = text(item.get("name"))
    if not parts and not item.keys() <= {"role", "content", "parts", "name"}:
        parts = [_unknown_part(item)]
    if role == "tool" and not any(isinstance(part, ToolResult) for part in parts):
        name = name or text(item.get("tool_name"))
        parts = [ToolResult(text(item.get("tool_call_id")), name, tuple(parts))]
    elif parts and all(isinstance(part, ToolResult) for part in parts):
        role = "tool"
    return Message(role, tuple(parts), name)


def _all_parts(item: JsonObject) -> list[Part]:
    parts = [*_thoughts(item)]
    for key in ("content", "parts", "message"):
        parts += _parts(item.get(key))
    if refusal := text(item.get("refusal")):
        parts.append(Text(refusal, "refusal"))
    parts += [_media("image", image) for image in _list(item.get("images"))]
    if isinstance(item.get("audio"), dict):
        parts.append(_media("audio", item["audio"]))
    parts += [_call(call) for call in _list(item.get("tool_calls"))]
    if isinstance(item.get("function_call"), dict):
        parts.append(_call(item["function_call"]))
    return parts + [_cohere_result(result) for result in _list(item.get("tool_results"))]


def _thoughts(item: JsonObject) -> Iterator[Part]:
    """Yield the reasoning of a message, under the name that its server gave it; only one of them, as for answers."""
    for key in ("reasoning_content", "reasoning", "thinking", "tool_plan"):  # DeepSeek, OpenRouter, Ollama, Cohere
        if thought := text(item.get(key)):
            yield Reasoning(thought)
            return
    for detail in _list(item.get("reasoning_details")):
        if isinstance(detail, dict):
            yield Reasoning(text(detail.get("text")) or text(detail.get("summary")), "data" in detail)


def _parts(content: object, depth: int = 0) -> tuple[Part, ...]:
    """Read the content of a message: a text, a part, or a list of them."""
    if content is None or content == "":
        return ()
    items = content if isinstance(content, list) else [content]
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        items = content["parts"]
    parts = [part for item in items[:MOST_PARTS] for part in _part(item, depth)]
    if len(items) > MOST_PARTS:
        parts.append(Other("more parts", compact(items[MOST_PARTS:])))
    return tuple(parts)


def _part(item: object, depth: int) -> list[Part]:
    if isinstance(item, str):
        return [Text(item)]
    if isinstance(item, Other):
        return [item]
    if not isinstance(item, dict) or depth >= _DEEPEST:
        return [_unknown_part(item)]
    kind = text(item.get("type"))
    return _typed(kind, item, depth) if kind else _keyed(item, depth)


def _typed(kind: str, item: JsonObject, depth: int) -> list[Part]:
    """Read a part that names its type: those of OpenAI, Anthropic, Cohere and Mistral, and the items of Responses."""
    key: Literal["text", "refusal"] = "refusal" if kind == "refusal" else "text"
    if kind in _TEXTS and isinstance(item.get(key), str):
        return [Text(item[key], key)]
    if kind in _THOUGHTS:
        return [_reasoning(item)]
    if kind in CALLS:
        return [_call(item)]
    if is_result(kind):
        return [_result(item, depth)]
    if kind == "document" and isinstance(item.get("document"), dict):  # Cohere's: the result of a tool
        return [Text(_as_text(item["document"].get("data", item["document"])))]
    if kind in MEDIA:
        return [_media(MEDIA[kind], item), *_text_of(item, depth)]
    if kind.endswith("_call"):
        return _served_call(kind.removesuffix("_call"), item)
    return [_unknown_part(item)]


def _text_of(item: JsonObject, depth: int) -> tuple[Part, ...]:
    """Return the content of a document that is text."""
    source = item.get("source")
    if not isinstance(source, dict):
        return ()
    key = {"text": "data", "content": "content"}.get(text(source.get("type")))
    return _parts(source.get(key), depth + 1) if key else ()


def _keyed(item: JsonObject, depth: int) -> list[Part]:
    """Read a part that is named by its key: those of Gemini, Bedrock's Converse and DashScope."""
    key = next((key for key in _KEYS if key in item), None)
    if key is None:
        name = next((name for name in MEDIA if name in item), None)
        return [_media(MEDIA[name], item) if name else _unknown_part(item)]
    value = item[key]
    if key == "text" and isinstance(value, str):
        return [Reasoning(value) if item.get("thought") is True else Text(value)]
    if key == "json":
        return [Text(_as_text(value))]
    if not isinstance(value, dict):
        return [_unknown_part(item)]
    if key == "reasoningContent":
        inner = value.get("reasoningText")
        return [Reasoning(text(inner.get("text")) if isinstance(inner, dict) else "", "redactedContent" in value)]
    return [_call(value) if key in ("toolUse", "functionCall", "function_call") else _result(value, depth)]


_KEYS = (
    "text", "toolUse", "functionCall", "function_call", "toolResult", "functionResponse", "function_response",
    "reasoningContent", "json",
)  # fmt: skip


def _reasoning(item: JsonObject) -> Reasoning:
    pieces = [item.get("thinking"), *_list(item.get("summary")), *_list(item.get("content"))]
    texts = [_joined(piece) for piece in pieces]
    is_opaque = bool(item.get("encrypted_content") or item.get("data"))
    return Reasoning("\n\n".join(filter(None, texts)), is_opaque)


def _joined(value: object) -> str:
    """Return a text that is written as one, as a part, or as a list of parts."""
    if isinstance(value, list):
        return "".join(_joined(piece) for piece in value if not isinstance(piece, list))
    return text(value.get("text")) if isinstance(value, dict) else text(value)


def _call(item: object) -> Part:
    """Read a call of a tool."""
    if not isinstance(item, dict):
        return _unknown_part(item)
    inner = next((item[key] for key in ("function", "custom") if isinstance(item.get(key), dict)), item)
    id = next((text(item[key]) for key in ("call_id", "toolUseId", "id") if item.get(key)), "")
    arguments = next((inner[key] for key in ("arguments", "input", "args", "parameters") if key in inner), "")
    return ToolCall(id, text(inner.get("name")), _as_text(arguments))


def _served_call(name: str, item: JsonObject) -> list[Part]:
    """Read an item of a tool that the server ran: the call, and its result, if that is there."""
    id, tool_name = text(item.get("call_id")) or text(item.get("id")), text(item.get("name")) or name
    more = {key: value for key, value in item.items() if key not in _CALL_KEYS and value is not None}
    results = [more.pop(key) for key in ("output", "outputs", "result", "error") if key in more]
    arguments = _as_text(item["arguments"]) if "arguments" in item else _as_text(more) if more else ""
    call = ToolCall(id, tool_name, arguments)
    if name == "image_generation":
        return [call, *(_media("image", {"data": result}) for result in results)]
    return [call, *(ToolResult(id, tool_name, (Text(_as_text(result)),)) for result in results)]


def _result(item: JsonObject, depth: int) -> ToolResult:
    id = next((text(item[key]) for key in RESULT_IDS if item.get(key)), "")
    content = next((item[key] for key in ("content", "output", "response", "result") if key in item), None)
    if isinstance(content, dict) and "type" not in content:
        only = next(iter(content.values())) if len(content) == 1 else content  # Gemini's: "output", "result", …
        content = only if isinstance(only, str) else compact(content)
    parts = _parts(content, depth + 1)
    parts += _parts(item.get("parts"), depth + 1)  # Gemini's media beside a response
    if not parts and not item.keys() <= _RESULT_KEYS:
        parts = (_unknown_part(item),)
    failed = item.get("is_error") is True or item.get("status") == "error"
    return ToolResult(id, text(item.get("name")), parts, failed)


def _cohere_result(item: object) -> Part:
    """Read a result of Cohere's first API: the call, and its result."""
    if not isinstance(item, dict) or not isinstance(item.get("call"), dict):
        return _unknown_part(item)
    return ToolResult("", text(item["call"].get("name")), (Text(_as_text(item.get("outputs"))),))


def _media(kind: MediaKind, item: object) -> Part:
    """Read an image, audio, video or file, with its bytes or its place in one of many forms."""
    if isinstance(item, str):  # Ollama's images
        item = {"url" if "://" in item[:16] else "data": item}
    if not isinstance(item, dict):
        return _unknown_part(item)
    fields = dict(_fields(item, 3))
    media_type = next((text(fields[key]) for key in MEDIA_TYPES if fields.get(key)), "")
    name = next((text(fields[key]) for key in _NAMES if fields.get(key)), "")
    data = next((value for key, value in fields.items() if key in _DATA and isinstance(value, str)), "")
    source = next((value for key, value in fields.items() if key in _SOURCES and isinstance(value, str)), "")
    if (uri := data or source).startswith("data:"):
        header, _, data = uri.partition(",")
        media_type, source = header[5:].partition(";")[0] or media_type, ""
    if not data:
        return Media(_kind(kind, media_type), media_type, None, name, source)
    content = data.encode("utf-8", "surrogatepass")
    # In base64 four characters are three bytes, without those of padding and of line ends.
    size = len(content) if text(fields.get("type")) == "text" else len(content.rstrip(b"=\r\n")) * 3 // 4
    digest = blake2b(content, digest_size=16).hexdigest()
    return Media(_kind(kind, media_type), media_type, size, name, source, digest)


def media_of(part: JsonObject) -> MediaKind | None:
    """Return the kind of a part that is an image, audio, video or a file, or None."""
    name = text(part.get("type")) or next((key for key in part if key in MEDIA), "")
    if name not in MEDIA:
        return None
    kind = MEDIA[name]
    if kind != "file":
        return kind
    fields = dict(_fields(part, 3))
    return _kind(kind, next((text(fields[key]) for key in MEDIA_TYPES if fields.get(key)), ""))


def _fields(item: object, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object, then those of the objects in it, which replace them."""
    if isinstance(item, dict) and depth:
        yield from ((key, value) for key, value in item.items() if not isinstance(value, dict))
        for value in item.values():
            yield from _fields(value, depth - 1)


def _kind(kind: MediaKind, media_type: str) -> MediaKind:
    """Return the kind of a file by its media type; other types leave `kind` as it is."""
    main = media_type.partition("/")[0]
    return cast(MediaKind, main) if kind == "file" and main in ("image", "audio", "video") else kind


def _adds_tools(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == "additional_tools" and isinstance(item.get("tools"), list)


def _tools(key: str, fields: JsonObject) -> Iterator[Tool]:
    value: Any = fields.get(key)
    remainder = {}
    if key == "toolConfig" and isinstance(value, dict):
        value, remainder = value.get("tools"), {name: more for name, more in value.items() if name != "tools"}
    if not isinstance(value, list):
        return
    fields.pop(key)
    if remainder:
        fields[key] = remainder
    for item in value[:MOST_PARTS]:
        yield from _declared(item)
    if len(value) > MOST_PARTS:
        yield Tool("more tools", "", compact(value[MOST_PARTS:]), "other")


def _declared(item: object) -> Iterable[Tool]:
    """Read one entry of the tools: a tool, or a list of them under a name or, as Gemini's, under a key."""
    if not isinstance(item, dict):
        return [Tool("", "", compact(item), "other")]
    if item.get("type") == "namespace" and isinstance(item.get("tools"), list):
        inner = (tool for function in item["tools"] for tool in _function(function))
        return (replace(tool, name=f"{text(item.get('name'))}.{tool.name}") for tool in inner)
    if "name" not in item and "type" not in item:
        return _keyed_tools(item)
    return [_tool(next((item[key] for key in ("function", "custom") if isinstance(item.get(key), dict)), item), item)]


def _keyed_tools(item: JsonObject) -> Iterator[Tool]:
    for key, value in item.items():
        if key in ("functionDeclarations", "function_declarations") and isinstance(value, list):
            yield from (tool for function in value for tool in _function(function))
        elif key == "toolSpec" and isinstance(value, dict):
            yield _tool(value, value)
        elif key == "function" and isinstance(value, dict):
            yield _tool(value, item)
        elif key != "cachePoint":
            yield Tool(key, "", compact(item), key)


def _function(item: object) -> Iterable[Tool]:
    return [_tool(item, item)] if isinstance(item, dict) else _declared(item)


def _tool(inner: JsonObject, item: JsonObject) -> Tool:
    kind = text(item.get("type")) or "function"
    definition = {key: value for key, value in item.items() if key != "cache_control"}
    return Tool(text(inner.get("name")) or kind, text(inner.get("description")), compact(definition), kind)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else compact(value)


def _unknown_part(item: object) -> Other:
    name = ""
    if isinstance(item, dict):
        name = text(item.get("type")) or (next(iter(item)) if len(item) == 1 else "")
    return Other(name, compact(item))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
