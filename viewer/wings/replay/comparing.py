"""Pure: the comparable form of a request's body.

A body of JSON is compared by its value: neither the order of keys nor white space matters. `LEFT_OUT` lists the fields
and texts that differ in each run of a program and change no answer; a user may ignore more. An object that is empty
then counts as absent, and so does the boundary of multipart forms.
"""

import hashlib
import json
import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, NamedTuple

import msgspec

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.prompt import Message, Text, ToolResult, is_element
from wiretape.recorder.decode.request import CALLS, RESULT_IDS, prompt_of


class LeftOut(NamedTuple):
    """A row of the table: a part of requests, their owner, and the reason to leave the part out.

    `paths` are fields, from the top through lists, of the requests to `apis`: prefixes of their names, where an unknown
    one is "openai", as most servers take that API's requests. Rows without paths have code of their own below.
    """

    name: str
    owner: str
    reason: str
    paths: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()


LEFT_OUT: Final = (
    LeftOut("`prompt_cache_key`, `prompt_cache_retention`, `safety_identifier`, `user` (top)", "OpenAI and compatible",
            "routing of the cache, and abuse: openai-agents, opencode and qwen-code send a new one each run",
            ("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user"), ("openai",)),
    LeftOut("`client_metadata` (top)", "Responses (Codex)", "installation, thread, turn and window",
            ("client_metadata",), ("openai.responses",)),
    LeftOut("`input[].id`, but not of an `item_reference`; `input[].metadata.turn_id`", "Responses",
            "ids of repeated items; a reference does choose", ("input.metadata.turn_id",), ("openai.responses",)),
    LeftOut("`input[].internal_chat_message_metadata_passthrough`", "Responses (Codex)", "turn and time of an item",
            ("input.internal_chat_message_metadata_passthrough",), ("openai.responses",)),
    LeftOut("`metadata.sessionId`, `metadata.promptId` (top)", "DashScope (qwen-code)", "a new one each run",
            ("metadata.sessionId", "metadata.promptId"), ("openai.chat",)),
    LeftOut("`stream_options` (top)", "chat", "adds one event of usage; LiteLLM leaves it out with a base URL",
            ("stream_options",), ("openai.chat", "openai.completions")),
    LeftOut("`metadata.user_id` (top)", "Anthropic", "device, account and session of Claude Code",
            ("metadata.user_id",), ("anthropic",)),
    LeftOut("`diagnostics` (top)", "Anthropic", "names the answer before, for a report on the cache",
            ("diagnostics",), ("anthropic",)),
    LeftOut("`cache_control`; Bedrock's blocks with only `cachePoint`", "Anthropic, Bedrock, OpenRouter",
            "where a prefix is cached"),
    LeftOut("lines of a text that begin `x-anthropic-billing-header:`; a text block of nothing else", "`system`",
            "Claude Code: a hash of each request"),
    LeftOut("`<current_datetime>…</current_datetime>` in a text", "Copilot", "a clock"),
    LeftOut("lines of a text `Process Group PGID: NUMBER`", "Gemini CLI, qwen-code",
            "the number of a tool's process"),
    LeftOut("lines of a text `Chunk ID: HEX`, `Wall time: NUMBER seconds`", "Codex", "a tool's id and duration"),
    LeftOut("`user_prompt_id`, `request.session_id`", "Code Assist (Gemini CLI)", "a new one each run",
            ("user_prompt_id", "request.session_id"), ("gemini",)),
    LeftOut("`session_id`, `trace` (top)", "OpenRouter", "grouping",
            ("session_id", "trace"), ("openai.", "anthropic.")),
    LeftOut("`labels` (top)", "Vertex", "billing", ("labels",), ("gemini",)),
    LeftOut("`requestMetadata` (top)", "Bedrock", "logs", ("requestMetadata",), ("bedrock.converse",)),
    LeftOut("`keep_alive` (top)", "Ollama", "memory", ("keep_alive",), ("ollama",)),
    LeftOut("ids of tool calls and their results: compared by order of appearance", "all",
            "many clients make their own"),
)  # fmt: skip
"""The parts that do not count, on both sides alike. Everything else does: a test may choose by other `metadata`."""

_BILLING: Final = re.compile(r"^x-anthropic-billing-header:.*\n?", re.MULTILINE)
_OF_RUN: Final = re.compile(
    r"<current_datetime>(?s:.*?)</current_datetime>"
    r"|^(?:Process Group PGID: \d+|Chunk ID: [0-9a-f]+|Wall time: [\d.]+ seconds)$\n?",
    re.MULTILINE,
)
_OF_RUN_MARKS: Final = (b"current_datetime", b"Process Group PGID", b"Chunk ID: ", b"Wall time: ")
"""Words without which no text of a body matches."""
_CALL_IDS: Final = frozenset(RESULT_IDS) - {"id"} | {"toolCallId"}
_CALLING: Final = frozenset({"tool_calls", "functionCall", "functionResponse"})
"""Fields whose objects are calls, or results, with an `id`."""
_OPAQUE: Final = frozenset({
    "input", "args", "arguments", "parameters", "response", "json", "schema", "json_schema", "input_schema",
    "inputSchema", "parametersJsonSchema",
})  # fmt: skip
"""Objects below the top that are a user's own: arguments and results of tools, and schemas."""


class Conversation(NamedTuple):
    """The messages of a request: a hash of each with all before it, and a hash of the question.

    The question is the last message (all trailing results of tools, or the user's message, without texts that are one
    element of markup) with model and parameters.
    """

    hashes: "array[int]"
    question: int


class ComparedBody(NamedTuple):
    """A body as it is compared: its JSON value, or its bytes where it is not JSON, and the digest of either."""

    value: Any
    digest: bytes

    @property
    def model(self) -> str | None:
        model = self.value.get("model") if isinstance(self.value, dict) else None
        return model if isinstance(model, str) else None

    @property
    def conversation(self) -> Conversation | None:
        """Its messages; None if it has none."""
        if not isinstance(self.value, dict):
            return None
        # Tools may differ, and to read them takes a third of the time.
        prompt = prompt_of({name: field for name, field in self.value.items() if name not in ("tools", "functions")})
        if prompt is None or not prompt.messages:
            return None
        hashes, last = array("q"), 0
        for message in prompt.messages:
            last = hash((last, message))
            hashes.append(last)
        results = [*takewhile(_has_result, reversed(prompt.messages))] or [prompt.messages[-1]]
        # The number of a call depends on the messages before it.
        parts = [
            replace(part, id="") if isinstance(part, ToolResult) else part
            for message in results
            for part in message.parts
        ]
        # Programs put such texts before a user's: the directory, the date.
        written = [part for part in parts if not (isinstance(part, Text) and is_element(part.text))]
        question = prompt.model, _digest(prompt.parameters), results[0].role, *(written or parts)
        return Conversation(hashes, hash(question))


def _has_result(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)


def read_body(
    data: bytes,
    ignored: Sequence[str] = (),
    api: str | None = None,
    *,
    strict: bool = False,
    mask: Callable[[bytes], bytes] | None = None,
) -> ComparedBody:
    """Return a body as it is compared, without the fields that are `ignored`: `user`, `metadata.session`.

    `api` is the API whose path it was sent to. A `strict` comparison leaves out nothing else. `mask` replaces secrets
    in JSON: it gets each message or tool by itself, as the requests of a session repeat them, and returns the same
    object if there is none.
    """
    if not data:
        return ComparedBody(None, b"")
    try:
        value, encoded = _value_of(data.removeprefix(b"\xef\xbb\xbf"))
        if mask is not None:
            value = _masked(value, mask)
        if not strict:
            value = _leave_out(value, api, has_texts=any(mark in data for mark in _OF_RUN_MARKS))
        for name in ignored:
            _remove(value, name.split("."))
        canonical = encoded(value)
    except (ValueError, RecursionError, OverflowError):
        # Programs draw the boundary of a multipart body by lot for each request.
        data = mask(data) if mask is not None else data
        boundary = data.partition(b"\r\n")[0] if data.startswith(b"--") else b""
        is_multipart = len(boundary) > len(b"--") and data.rstrip(b"\r\n").endswith(boundary + b"--")
        return ComparedBody(data, hashlib.sha256(data.replace(boundary, b"--") if is_multipart else data).digest())
    return ComparedBody(value, hashlib.sha256(canonical).digest())


def _value_of(data: bytes) -> tuple[Any, Callable[[Any], bytes]]:
    """Return the value of JSON, and its encoder to one canonical form. Raise ValueError or RecursionError.

    The fast decoder comes first: parsing holds up the streams being served.
    """
    try:
        return _JSON.decode(data), _SORTED.encode
    except (msgspec.DecodeError, ValueError, RecursionError):
        # Python's parser takes what msgspec refuses and programs send: lone surrogates, NaN.
        return json.loads(data, parse_float=_number), _encoded


def _masked(value: Any, mask: Callable[[bytes], bytes], depth: int = 2) -> Any:
    """Return a value with its secrets replaced: those of each item in lists near the top, and of all else together."""
    if isinstance(value, list):
        return [_masked(item, mask, 0) for item in value]
    if isinstance(value, dict) and depth:
        inner = {name: child for name, child in value.items() if isinstance(child, list | dict)}
        fields = {name: child for name, child in value.items() if name not in inner}
        return _masked(fields, mask, 0) | {name: _masked(child, mask, depth - 1) for name, child in inner.items()}
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError):
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    plain = mask(data)
    return value if plain is data else _value_of(plain)[0]


def _number(text: str) -> float | int:
    """Return a number as it is compared: 1.0 and 1e0 are 1."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    # Up to 2⁵³, each integer is a float of its own.
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


_JSON: Final = msgspec.json.Decoder(float_hook=_number)
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _encoded(value: Any) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def _digest(value: Any) -> bytes:
    return hashlib.sha256(_encoded(value)).digest()


def _leave_out(value: Any, api: str | None, *, has_texts: bool) -> Any:
    """Return a value without the parts that the table names."""
    if isinstance(value, dict):
        # Anthropic's models at the paths of others: Vertex AI, Bedrock.
        api = "anthropic.messages" if "anthropic_version" in value else api or "openai"
        for row in LEFT_OUT:
            if api.startswith(row.apis):
                for path in row.paths:
                    _remove(value, path.split("."))
        if api == "openai.responses":
            items = value["input"] if isinstance(value.get("input"), list) else []
            for item in items:
                if isinstance(item, dict) and item.get("type") != "item_reference" and len(item) > 1:
                    item.pop("id", None)
        _remove_billing(value)
    _remove_caching(value, {}, is_top=True)
    return _without_run(value) if has_texts else value


def _without_run(value: Any) -> Any:
    """Return a value whose texts are without clocks and numbers of processes."""
    if isinstance(value, str):
        return _OF_RUN.sub("", value)
    if isinstance(value, list):
        return [_without_run(item) for item in value]
    return {name: _without_run(item) for name, item in value.items()} if isinstance(value, dict) else value


def _remove(value: object, path: Sequence[str]) -> None:
    if isinstance(value, list):
        for element in value:
            _remove(element, path)
    elif isinstance(value, dict):
        if len(path) == 1:
            value.pop(path[0], None)
        elif path[0] in value:
            _remove(value[path[0]], path[1:])
            if value[path[0]] == {}:
                del value[path[0]]


def _remove_billing(request: dict[str, Any]) -> None:
    """Remove the header that Claude Code writes into its system prompt."""
    system = request.get("system")
    if isinstance(system, str):
        request["system"] = _BILLING.sub("", system)
    elif isinstance(system, list):
        request["system"] = blocks = list[Any]()
        for block in system:
            text = block.get("text") if isinstance(block, dict) else None
            if not isinstance(text, str) or (plain := _BILLING.sub("", text)) == text:
                blocks.append(block)
            elif plain.strip():
                blocks.append({**block, "text": plain})
    if request.get("system") in ("", []):
        del request["system"]


def _remove_caching(value: Any, numbers: dict[str, str], *, is_top: bool = False, is_call: bool = False) -> None:
    """Remove the marks of caches at any depth, and number the ids of calls by their appearance."""
    if isinstance(value, list):
        only = ({"cachePoint"}, {"cache_control"})
        value[:] = [item for item in value if not (isinstance(item, dict) and item.keys() in only)]
        for item in value:
            _remove_caching(item, numbers, is_call=is_call)
    elif isinstance(value, dict):
        value.pop("cache_control", None)
        for name in sorted(value):
            child = value[name]
            if isinstance(child, str):
                if name in _CALL_IDS or (name == "id" and (is_call or value.get("type") in CALLS)):
                    value[name] = numbers.setdefault(child, f"{len(numbers) + 1}")
            elif is_top or not (isinstance(child, Mapping) and name in _OPAQUE):
                was_empty = not child
                _remove_caching(child, numbers, is_call=name in _CALLING)
                if child == {} and not was_empty:
                    del value[name]


def uncoded(headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return a request's body without its content coding, where that is understood."""
    return encoding.uncoded([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers], body)
