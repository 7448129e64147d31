"""One JSON payload of OpenAI's Responses API, as a `Chunk`: an event of a stream, or a whole response.

An answer is a list of output items, each with parts. Every text is taken once: from its deltas, or, without deltas,
from the `*.done` events or else from the response in the last event, as some servers send only those. Where deltas came
before, the finished text is compared with them (`finals`): some servers (GitHub Copilot) stream ciphertext. The texts
received are noted for each output item, by its place: ids change from event to event on some wires (Copilot), the
numbers of parts from delta to delta on others (vLLM). Only an item without a place is known by its id (llama.cpp).
Texts of several items or parts follow each other as they came.

Tool calls are the model's requests to run a tool, on either side: function, custom and MCP calls (and requests to
approve one) by the name and the arguments they have; calls of built-in tools by the type of the tool (`web_search`,
`shell`, `code_interpreter`, ...), their arguments being the code, or as JSON the action, operation or queries. Deltas
of shell commands and of patches are output without text: that is in the finished item. Their results, listings of
tools, compactions, annotations and the progress of tools are known and ignored. Images and audio are output without
text.

The finish reason is that of `incomplete_details`, else the status. Usage and errors are those of the response.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, FinalText, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.values import MAX_INDEX, JsonObject, compact, index, text, usage_in

API: Final = "openai.responses"
REQUEST: Final = "response.create"
"""The type of the message that asks for a response over a WebSocket."""
CREATED: Final = "response.created"

_CONTENT, _REFUSAL, _SUMMARY, _REASONING, _CALL, _ARGUMENTS = (
    "content", "refusal", "summary", "reasoning", "call", "arguments",
)  # fmt: skip
_IMAGE, _ENCRYPTED = "image", "encrypted"

_DELTAS: Final = {
    "response.output_text.delta": _CONTENT,
    "response.refusal.delta": _REFUSAL,
    "response.reasoning_summary_text.delta": _SUMMARY,
    "response.reasoning_text.delta": _REASONING,
    "response.reasoning_summary.delta": _SUMMARY,
    "response.reasoning.delta": _REASONING,
    "response.function_call_arguments.delta": _ARGUMENTS,
    "response.custom_tool_call_input.delta": _ARGUMENTS,
    "response.mcp_call_arguments.delta": _ARGUMENTS,
    "response.code_interpreter_call_code.delta": _ARGUMENTS,
    "response.audio.transcript.delta": _CONTENT,
}
_DONE: Final = {
    "response.output_text.done": (_CONTENT, "text"),
    "response.refusal.done": (_REFUSAL, "refusal"),
    "response.reasoning_summary_text.done": (_SUMMARY, "text"),
    "response.reasoning_text.done": (_REASONING, "text"),
    "response.reasoning_summary.done": (_SUMMARY, "text"),
    "response.reasoning.done": (_REASONING, "text"),
    "response.function_call_arguments.done": (_ARGUMENTS, "arguments"),
    "response.custom_tool_call_input.done": (_ARGUMENTS, "input"),
    "response.mcp_call_arguments.done": (_ARGUMENTS, "arguments"),
    "response.code_interpreter_call_code.done": (_ARGUMENTS, "code"),
}
_PARTS_DONE: Final = frozenset({"response.content_part.done", "response.reasoning_summary_part.done"})
_PARTS: Final = {
    "output_text": (_CONTENT, "text"),
    "text": (_CONTENT, "text"),
    "refusal": (_REFUSAL, "refusal"),
    "summary_text": (_SUMMARY, "text"),
    "reasoning_text": (_REASONING, "text"),
}
_MEDIA: Final = {
    "response.audio.delta": "delta",
    "response.image_generation_call.partial_image": "partial_image_b64",
}
_TEXTLESS_CALLS: Final = frozenset(
    {"response.shell_call_command.delta", "response.apply_patch_call_operation_diff.delta"}
)
_CALLS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "mcp_approval_request": "arguments",
}
_BUILT_IN: Final = {
    "code_interpreter_call": ("code_interpreter", "code"),
    "program": ("program", "code"),
    "tool_search_call": ("tool_search", "arguments"),
    "web_search_call": ("web_search", "action"),
    "file_search_call": ("file_search", "queries"),
    "computer_call": ("computer", "action"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""The items that call tools without a name of their own: their name here, and the field of their arguments."""
_PROVIDER_RUN: Final = frozenset({
    "code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call", "mcp_list_tools",
    "tool_search_call", "web_search_call",
})  # fmt: skip
"""The items that are finished when the provider has run their tool."""

_ENDS: Final = frozenset({
    "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done",
})  # fmt: skip
"""The events that end a stream; the last one is that of servers in the manner of Realtime."""
_OF_ANY_ENDING: Final = {"response.completed": "completed", "response.done": "completed"}
"""The events that end a stream in any way, and the status of a response that has none."""
_WHOLE: Final = _ENDS | {""}
"""The events with a whole response; "" is the response by itself."""
_LEVELS: Final = dict.fromkeys(_DONE, 0) | dict.fromkeys(_PARTS_DONE, 1) | {"response.output_item.done": 2}
"""The levels of the events that finish texts, below that of a whole response."""
_NAMES: Final = {
    _CONTENT: "content", _REFUSAL: "refusal", _SUMMARY: "reasoning", _REASONING: "reasoning", _ARGUMENTS: "arguments",
}  # fmt: skip
"""The fields with a text, and the names of these in a chunk."""
_FINISHED: Final = frozenset({"completed", "incomplete", "cancelled"})
_KEYS: Final = frozenset({
    "sequence_number", "output_index", "item_id", "item", "part", "delta", "response", "response_id",
})  # fmt: skip
"""Keys of the events: one without any of them is of another wire."""
_PARTS_OF_OBJECT: Final = frozenset({"output", "status", "usage", "error"})
_OBJECTS: Final = frozenset({"response", "response.compaction"})


class _Part(NamedTuple):
    """A text of the output item at `place`; for a call, its name, and the `id` to which its result refers."""

    field: str
    place: int | None
    text: str
    id: str = ""


class _Stream:
    """The state of one stream: the event that was the first to give a field of the output item at a place.

    Items that are known by their ids only have places of their own, from the highest down.
    """

    __slots__ = ("_calls", "_givers", "_places", "_seen")

    def __init__(self) -> None:
        self._givers: dict[tuple[str, int | None], str] = {}
        self._seen: Counter[str] = Counter()
        self._calls: set[str] = set()
        self._places: dict[str, int] = {}

    def parse(self, payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
        """Read one JSON object; None if it is not of this API."""
        kind = payload.get("type") or event
        if not isinstance(kind, str) or "choices" in payload:
            return None
        field = _DELTAS.get(kind)
        if field is not None and "delta" in payload:
            return self._delta(payload, kind, field, fault)
        if kind.startswith("response."):
            is_ours = not _KEYS.isdisjoint(payload) or kind in _DONE or kind in _ENDS
            return self._event(payload, kind, fault) if is_ours else None
        if (
            text(payload.get("object")) in _OBJECTS
            and "type" not in payload
            and not _PARTS_OF_OBJECT.isdisjoint(payload)
        ):
            return self._response(payload, "", fault)
        if payload.get("object") == "response.input_tokens" and "type" not in payload:
            # Tokens are counted without a response: the answer itself is the usage.
            return Chunk(API, usage=payload, fault=fault)
        if kind == "keepalive" and "sequence_number" in payload:
            return Chunk(API, ping=True, fault=fault)
        return Chunk(API, fault=fault) if kind == "error" and "sequence_number" in payload else None

    def _delta(self, payload: JsonObject, kind: str, field: str, fault: ReportedError | None) -> Chunk:
        delta = payload.get("delta")
        if isinstance(delta, dict) and field in (_SUMMARY, _REASONING):
            delta = delta.get("text")  # an earlier form of reasoning
        if not isinstance(delta, str) or not delta:
            return Chunk(API, fault=fault)
        place = index(payload.get("output_index"))
        if place is None:
            place = self._place(payload, payload.get("item_id"))
        if (field, place) not in self._givers:
            self._give(field, place, kind)
        if field == _CONTENT:
            return Chunk(API, pieces=(Piece(0, content=delta, part=place),), content=True, fault=fault)
        if field == _ARGUMENTS:
            piece = Piece(0, tools=(ToolPiece(place, "", "", delta),))
            return Chunk(API, pieces=(piece,), tool=True, fault=fault)
        if field == _REFUSAL:
            return Chunk(API, pieces=(Piece(0, refusal=delta, part=place),), content=True, fault=fault)
        part = _part(field, place)
        return Chunk(API, pieces=(Piece(0, reasoning=delta, part=part),), reasoning=True, fault=fault)

    def _event(self, payload: JsonObject, kind: str, fault: ReportedError | None) -> Chunk:
        if kind == "response.steer.failed":
            return Chunk(API)  # its error belongs to another request, not to the response
        item = payload.get("item")
        place = self._place(payload, payload.get("item_id") or _id(item))
        if kind in _DONE:
            field, key = _DONE[kind]
            return self._new([_Part(field, place, text(payload.get(key)))], kind, fault)
        if kind in _PARTS_DONE:
            return self._new(_parts([payload.get("part")], place), kind, fault)
        if kind == "response.output_item.done":
            has_run = _is_run_by_provider(item) or _is_result(item)
            return replace(self._new(_item(item, place), kind, fault), provider_results=int(has_run))
        if kind == "response.output_item.added":
            # The other fields of an added item come again, as deltas or in the finished item.
            calls = (part for part in _item(item, place) if part.field == _CALL)
            return replace(
                self._new(calls, kind, fault),
                provider_calls=int(_is_run_by_provider(item)),
                provider_results=int(_is_result(item)),
            )
        if kind in _MEDIA or kind in _TEXTLESS_CALLS:
            has_output = text(payload.get(_MEDIA.get(kind, "delta"))) != ""
            return Chunk(
                API, content=has_output and kind in _MEDIA, tool=has_output and kind not in _MEDIA, fault=fault
            )
        response = payload.get("response")
        if kind in _ENDS or isinstance(response, dict):
            return self._response(response if isinstance(response, dict) else {}, kind, fault)
        return Chunk(API, fault=fault)

    def _response(self, response: JsonObject, kind: str, fault: ReportedError | None) -> Chunk:
        ends = kind in _ENDS
        status = text(response.get("status"))
        # Some servers (vLLM) send the same last event for all endings; the status names the ending.
        if ends and (kind not in _OF_ANY_ENDING or status not in (*_FINISHED, "failed")):
            status = _OF_ANY_ENDING.get(kind) or kind.removeprefix("response.")
        if fault is None and status == "failed":
            fault = _fault(response.get("error"))
        output = response.get("output") if kind in _WHOLE else None
        items = output if isinstance(output, list) else []
        parts = [part for place, item in enumerate(items) for part in _item(item, self._places.get(_id(item), place))]
        finals = self._finals(parts)
        details = response.get("incomplete_details")
        finish_reason = status if status in _FINISHED else None
        if status == "incomplete" and isinstance(details, dict):
            finish_reason = text(details.get("reason")) or status
        return _chunk(
            self._missing(parts, kind),
            finals=finals,
            id=text(response.get("id")),
            model=text(response.get("model")),
            finish_reason=finish_reason,
            usage=usage_in(response),
            fault=fault,
            ends=ends or (not kind and status in _FINISHED),
        )

    def _place(self, payload: JsonObject, id: object) -> int | None:
        place = index(payload.get("output_index"))
        if place is None and isinstance(id, str) and id:
            place = self._places.setdefault(id, MAX_INDEX - 1 - len(self._places))
        return place

    def _give(self, field: str, place: int | None, kind: str) -> str:
        """Note that an event of this kind gives a field; return the kind of the first that did."""
        giver = self._givers.get((field, place))
        if giver is None:
            giver = self._givers[field, place] = kind
            self._seen[field] += kind not in _WHOLE
        return giver

    def _missing(self, parts: list[_Part], kind: str) -> list[_Part]:
        """Return those of a response's parts that have not come yet.

        If at least as many items brought a field as there are in the response, all of it has come, at any place; so has
        a call whose id has come, where servers give several items one place.
        """
        item_counts = Counter(field for field, _ in {(part.field, part.place) for part in parts})
        called_places = {part.place for part in parts if part.field == _CALL and part.id in self._calls}
        missing = [
            part
            for part in parts
            if self._seen[part.field] < item_counts[part.field]
            and not (part.place in called_places and self._seen[part.field])
        ]
        return self._unseen(missing, kind)

    def _finals(self, parts: list[_Part]) -> tuple[FinalText, ...]:
        """Return the texts of a whole response that came before, where its items have the places of those that came."""
        finals: list[FinalText] = []
        for field in _NAMES:
            received = {place for name, place in self._givers if name == field}
            texts = [part for part in parts if part.field == field and part.text]
            if received and received == {part.place for part in texts}:
                finals += _joined(texts, 3)
        return tuple(finals)

    def _unseen(self, parts: Iterable[_Part], kind: str) -> list[_Part]:
        unseen = [part for part in parts if part.text and self._give(part.field, part.place, kind) == kind]
        if kind not in _WHOLE:
            self._calls.update(part.id for part in unseen if part.field == _CALL and part.id)
        return unseen

    def _new(self, parts: Iterable[_Part], kind: str, fault: ReportedError | None) -> Chunk:
        parts = list(parts)
        unseen = self._unseen(parts, kind)
        seen = [part for part in parts if part.field in _NAMES and part not in unseen]
        return _chunk(unseen, finals=tuple(_joined(seen, _LEVELS.get(kind, 0))), fault=fault)


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object as if it were all that came; None if it is not of this API."""
    return _Stream().parse(payload, event, fault)


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(api=API, operation="chat", parse=parse, tokens=tokens, parser=lambda exchange: _Stream().parse)


def _id(item: object) -> str:
    return (text(item.get("id")) or text(item.get("call_id"))) if isinstance(item, dict) else ""


def _is_run_by_provider(item: object) -> bool:
    if not isinstance(item, dict) or item.get("execution") == "client":
        return False
    kind = item.get("type")
    return isinstance(kind, str) and kind in _PROVIDER_RUN


def _is_result(item: object) -> bool:
    """Return True if an item is the result of a tool: one in an answer is of a tool that the provider ran."""
    return isinstance(item, dict) and text(item.get("type")).endswith("_call_output")  # `shell_call_output`, …


def _item(item: Any, place: int | None) -> Iterator[_Part]:
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str):
        return
    if kind in _CALLS or kind in _BUILT_IN:
        name, key = _BUILT_IN[kind] if kind in _BUILT_IN else (text(item.get("name")), _CALLS[kind])
        yield _Part(_CALL, place, name, text(item.get("call_id")) or text(item.get("id")))
        # A call of the computer has one action, or a list of them.
        yield _Part(_ARGUMENTS, place, _text_or_json(item.get(key)) or _text_or_json(item.get(f"{key}s")))
    elif kind == "message" and item.get("role") in (None, "assistant"):
        yield from _parts(item.get("content"), place)
    elif kind == "reasoning":
        yield from _parts(item.get("summary"), place)
        yield from _parts(item.get("content"), place)
        yield _Part(_ENCRYPTED, place, text(item.get("encrypted_content")))
    elif kind == "image_generation_call":
        yield _Part(_IMAGE, place, text(item.get("result")))


def _parts(parts: object, place: int | None) -> Iterator[_Part]:
    for part in parts if isinstance(parts, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in _PARTS:
            field, key = _PARTS[kind]
            yield _Part(field, place, text(part.get(key)))


def _text_or_json(value: object) -> str:
    return compact(value) if isinstance(value, dict | list) else text(value)


def _fault(error: object) -> ReportedError:
    if not isinstance(error, dict):
        return ReportedError(None, text(error) or None)
    code = error.get("code")
    code = str(code) if type(code) is int else text(code)
    return ReportedError(code or text(error.get("type")) or None, text(error.get("message")) or None)


def _chunk(
    parts: list[_Part],
    *,
    id: str = "",
    model: str = "",
    finish_reason: str | None = None,
    usage: JsonObject | None = None,
    fault: ReportedError | None = None,
    ends: bool = False,
    finals: tuple[FinalText, ...] = (),
) -> Chunk:
    """Put the parts that one payload gives into the one choice that there is."""
    fields, places = {part.field for part in parts}, {part.place for part in parts}
    content, summary, reasoning, refusal = (
        "".join([part.text for part in parts if part.field == field])
        for field in (_CONTENT, _SUMMARY, _REASONING, _REFUSAL)
    )
    place = places.pop() if len(places) == 1 else None
    pieces = [Piece(0, content, summary, refusal, tuple(_tools(parts)), finish_reason, place)]
    if reasoning and not summary:
        pieces = [replace(pieces[0], reasoning=reasoning, part=_part(_REASONING, place))]
    elif reasoning:
        pieces.append(Piece(0, reasoning=reasoning, part=_part(_REASONING, place)))
    is_empty = fields <= {_IMAGE, _ENCRYPTED} and finish_reason is None
    return Chunk(
        API,
        id,
        model,
        () if is_empty else tuple(pieces),
        content=not fields.isdisjoint((_CONTENT, _REFUSAL, _IMAGE)),
        reasoning=not fields.isdisjoint((_SUMMARY, _REASONING, _ENCRYPTED)),
        tool=not fields.isdisjoint((_CALL, _ARGUMENTS)),
        usage=usage,
        fault=fault,
        flags=("opaque_reasoning",) if _ENCRYPTED in fields else (),
        ends=ends,
        finals=finals,
    )


def _part(field: str, place: int | None) -> int | None:
    """Return the number of a text of the item at a place: an item of reasoning has its summary, and its text."""
    return place if field != _REASONING or place is None else ~place


def _joined(parts: Iterable[_Part], level: int) -> Iterator[FinalText]:
    """Yield the finished texts of parts, those of one field of one item as one."""
    texts: dict[tuple[str, int | None], str] = {}
    for part in parts:
        key = (part.field, part.place)
        texts[key] = texts.get(key, "") + part.text
    for (field, place), joined in texts.items():
        if joined:
            yield FinalText(0, _NAMES[field], _part(field, place), joined, level)


def _tools(parts: list[_Part]) -> Iterator[ToolPiece]:
    """Yield the calls, each with its arguments where they came with it; arguments alone continue a call."""
    calls: dict[int | None, dict[str, _Part]] = {}
    for part in parts:
        if part.field in (_CALL, _ARGUMENTS):
            calls.setdefault(part.place, {})[part.field] = part
    for place, of_place in calls.items():
        call, arguments = of_place.get(_CALL, _Part(_CALL, place, "")), of_place.get(_ARGUMENTS)
        yield ToolPiece(place, call.id, call.text, arguments.text if arguments else "")
