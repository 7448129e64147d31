"""One JSON payload of Gemini's Interactions API, as a `Chunk`: an event of a stream, or a whole interaction.

An interaction is a list of steps: thoughts, outputs of the model, calls of tools and their results. A stream starts,
extends and stops each by its index, and ends with `interaction.completed`; neither `[DONE]` nor a status does. Servers
before June 2026, recordings and gateways have the same in `content.*` events, a call being whole in one delta.

Calls of the server's own tools (`google_search`, `code_execution`, …) are tool calls by the tool's type. Results,
annotations and signatures are known and ignored; images, audio, video and documents are output without text. The finish
reason is the native status; `failed` is an error. A resumed stream begins anywhere, and is read as it came. The model
of an agent's run is the agent.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Parse, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.values import JsonObject, compact, index, text, usage_in

API: Final = "gemini.interactions"
CONTINUES: Final = "requires_continuation"
"""The status of an answer that stopped at the decode limit of one request."""

_COMPLETED: Final = frozenset({"interaction.completed", "interaction.complete"})
_STATES: Final = frozenset({
    *_COMPLETED, "interaction.created", "interaction.start", "interaction.status_update", "interaction.in_progress",
    "interaction.requires_action",
})  # fmt: skip
_STATE_KEYS: Final = frozenset({"interaction", "interaction_id", "status", "event_id", "event_type"})
"""Keys that identify an event about the interaction: it has at least one."""
_STARTS: Final = {"step.start": "step", "content.start": "content"}
_DELTAS: Final = frozenset({"step.delta", "content.delta"})
_STOPS: Final = frozenset({"step.stop", "content.stop"})
_RUNNING: Final = frozenset({"", "in_progress", "queued", "idle"})
_ENDINGS: Final = frozenset({
    "completed", "requires_action", "incomplete", "failed", "cancelled", "budget_exceeded", CONTINUES,
})  # fmt: skip
_STATUSES: Final = _ENDINGS | _RUNNING - {""}
_MEDIA: Final = frozenset({"image", "audio", "video", "document"})
_FUNCTION: Final = "function_call"
_EMPTY_ERROR: Final = ReportedError(None, None)


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object as if it were all that came; None if it is not of this API."""
    return _InteractionStream().parse(payload, event, fault)


def parser(exchange: Exchange | None = None) -> Parse:
    """Return a parser for the events of one stream: deltas continue the step of their index."""
    return _InteractionStream().parse


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(
    api=API, operation="generate_content", parse=parse, tokens=tokens, parser=parser, forgives_empty_errors=True
)


class _Output:
    """The output that one payload adds to the one choice that there is."""

    __slots__ = ("content", "has_content", "has_reasoning", "reasoning", "tools")

    def __init__(self) -> None:
        self.content = self.reasoning = ""
        self.has_content = self.has_reasoning = False
        self.tools: list[ToolPiece] = []

    def add_text(self, text: str, *, is_thought: bool) -> None:
        if is_thought:
            self.reasoning += text
            self.has_reasoning = self.has_reasoning or text != ""
        else:
            self.content += text
            self.has_content = self.has_content or text != ""

    def add_media(self, *, is_thought: bool) -> None:
        """Add output without text."""
        self.has_reasoning, self.has_content = self.has_reasoning or is_thought, self.has_content or not is_thought

    def chunk(
        self,
        holder: JsonObject | None = None,
        status: str | None = None,
        usage: JsonObject | None = None,
        fault: ReportedError | None = None,
        *,
        ends: bool = False,
    ) -> Chunk:
        """Return the chunk; `holder` has the id and the model of the interaction."""
        has_tool = any([tool.name or tool.arguments for tool in self.tools])
        is_empty = not (self.has_content or self.has_reasoning or self.tools or status)
        holder = holder or {}
        return Chunk(
            API,
            text(holder.get("id")) or text(holder.get("interaction_id")),
            text(holder.get("model")) or text(holder.get("agent")),
            ()
            if is_empty
            else (
                Piece(0, content=self.content, reasoning=self.reasoning, tools=tuple(self.tools), finish_reason=status),
            ),
            self.has_content,
            self.has_reasoning,
            has_tool,
            usage,
            fault,
            ends=ends,
        )


class _InteractionStream:
    """The state of one stream: the types of its steps by index, and the arguments that their starts announced."""

    __slots__ = ("_announced", "_has_output", "_kinds")

    def __init__(self) -> None:
        self._kinds: dict[int | None, str] = {}
        self._announced: dict[int | None, JsonObject] = {}
        self._has_output = False

    def parse(self, payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
        """Read one JSON object; None if it is not of this API."""
        # The event's line says the same; some servers send the data alone.
        kind = payload.get("event_type") or event
        if not isinstance(kind, str):
            return None
        if kind in _DELTAS and isinstance(payload.get("delta"), dict):
            return _with_tool_run(self._step_delta(payload, payload["delta"], fault), payload["delta"])
        if kind in _STARTS and isinstance(payload.get(_STARTS[kind]), dict):
            step = payload[_STARTS[kind]]
            return _with_tool_run(self._step_start(payload, step, fault), step)
        if kind in _STOPS and "index" in payload:
            place, output = index(payload.get("index")), _Output()
            self._add_announced(place, output)
            return self._noted(output.chunk(usage=usage_in(payload), fault=fault))
        if kind in _STATES and not _STATE_KEYS.isdisjoint(payload):
            return self._state(payload, kind, fault)
        if payload.get("event_type") == "error":
            # The beta sent errors without content, and went on: such a one counts only if no output follows.
            return Chunk(API, fault=fault if payload.get("error") and fault is not None else _EMPTY_ERROR)
        if not _is_interaction(payload):
            return None
        output, status = _Output(), text(payload.get("status"))
        _add_steps(payload, output)
        if status == "failed" and fault is None:
            fault = _fault(payload)
        finish = status if status not in _RUNNING else None
        return output.chunk(payload, finish, usage_in(payload), fault, ends=status in _ENDINGS)

    def _step_start(self, payload: JsonObject, step: JsonObject, fault: ReportedError | None) -> Chunk:
        place, kind = index(payload.get("index")), text(step.get("type"))
        self._kinds[place] = kind
        output = _Output()
        if kind.endswith("_call"):
            arguments = step.get("arguments")
            if isinstance(arguments, dict):
                self._announced[place] = arguments
            if (id := text(step.get("id"))) or _tool_name(step):  # before June 2026, a start has only the type
                output.tools.append(ToolPiece(place, id, _tool_name(step), ""))
        else:
            _add_step(step, output)
        return self._noted(output.chunk(fault=fault))

    def _step_delta(self, payload: JsonObject, delta: JsonObject, fault: ReportedError | None) -> Chunk:
        place, kind, output = index(payload.get("index")), text(delta.get("type")), _Output()
        of_step = self._kinds.get(place, "")
        if kind == "thought_summary":
            _add_content(delta.get("content"), output, is_thought=True)
        elif kind == "arguments_delta" and (piece := text(delta.get("arguments"))):
            self._announced.pop(place, None)
            output.tools.append(ToolPiece(place, "", "", piece))
        elif (kind == "text" or kind in _MEDIA) and of_step != "user_input":
            _add_content(delta, output, is_thought=of_step == "thought")
        elif kind.endswith("_call"):
            self._announced.pop(place, None)
            output.tools.append(_whole_call(delta, place))
        metadata = payload.get("metadata")
        usage = usage_in(metadata, "total_usage") if isinstance(metadata, dict) else None
        return self._noted(output.chunk(usage=usage, fault=fault))

    def _add_announced(self, place: int | None, output: _Output) -> None:
        arguments = self._announced.pop(place, None)
        if arguments is not None:
            output.tools.append(ToolPiece(place, "", "", compact(arguments)))

    def _state(self, payload: JsonObject, kind: str, fault: ReportedError | None) -> Chunk:
        """Read an event about the interaction itself: its beginning, a change of its status, or its end."""
        holder = payload.get("interaction")
        if not isinstance(holder, dict):
            holder = payload
        output, ends = _Output(), kind in _COMPLETED
        if ends:
            for place in [*self._announced]:
                self._add_announced(place, output)
            if not self._has_output:  # servers that stream nothing, and answer in their last event
                _add_steps(holder, output)
        status = text(holder.get("status")) or text(payload.get("status"))
        failed = status == "failed"
        if failed and fault is None:
            fault = _fault(holder)
        finish = status if status not in _RUNNING and (ends or failed) else None
        return output.chunk(holder, finish, usage_in(holder) or usage_in(payload), fault, ends=ends)

    def _noted(self, chunk: Chunk) -> Chunk:
        self._has_output = self._has_output or chunk.output
        return chunk


def _is_interaction(payload: JsonObject) -> bool:
    if payload.get("object") == "interaction":
        return True
    has_steps = isinstance(payload.get("steps"), list) or isinstance(payload.get("outputs"), list)
    status = payload.get("status")
    is_named = isinstance(payload.get("model"), str) or isinstance(payload.get("agent"), str)
    return has_steps and is_named and isinstance(status, str) and status in _STATUSES and "object" not in payload


def _with_tool_run(chunk: Chunk, step: JsonObject) -> Chunk:
    """Return the chunk of a step, or of a delta, with the call or the result of a tool that the server runs."""
    kind = text(step.get("type"))
    if kind == _FUNCTION or not kind.endswith(("_call", "_result")):
        return chunk
    is_call = kind.endswith("_call")
    return replace(chunk, provider_calls=int(is_call), provider_results=int(not is_call))


def _add_steps(interaction: JsonObject, output: _Output) -> None:
    """Add the steps of a whole interaction, or its outputs, as it was called before."""
    for key in ("steps", "outputs"):
        steps = interaction.get(key)
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, dict):
                _add_step(step, output)


def _add_step(step: JsonObject, output: _Output) -> None:
    kind = text(step.get("type"))
    if kind == "model_output":
        for part in _parts_in(step.get("content")):
            _add_content(part, output, is_thought=False)
    elif kind == "thought":
        for part in _parts_in(step.get("summary")):
            _add_content(part, output, is_thought=True)
    elif kind == "text" or kind in _MEDIA:
        _add_content(step, output, is_thought=False)
    elif kind.endswith("_call"):
        output.tools.append(_whole_call(step))


def _whole_call(call: JsonObject, place: int | None = None) -> ToolPiece:
    arguments = call.get("arguments")
    json_text = compact(arguments) if isinstance(arguments, dict) else text(arguments)
    return ToolPiece(place, text(call.get("id")), _tool_name(call), json_text, place is None)


def _add_content(part: object, output: _Output, *, is_thought: bool) -> None:
    if not isinstance(part, dict):
        return
    kind = part.get("type")
    if kind == "text":
        output.add_text(text(part.get("text")), is_thought=is_thought)
    elif isinstance(kind, str) and kind in _MEDIA and (text(part.get("data")) or text(part.get("uri"))):
        output.add_media(is_thought=is_thought)


def _parts_in(parts: object) -> Iterator[Any]:
    yield from parts if isinstance(parts, list) else (parts,)


def _tool_name(step: JsonObject) -> str:
    """Return the name of a called tool; the server's own have that of their type."""
    kind = text(step.get("type"))
    return text(step.get("name")) or ("" if kind == _FUNCTION else kind.removesuffix("_call"))


def _fault(interaction: JsonObject) -> ReportedError:
    errors = interaction.get("errors")
    for error in (interaction.get("error"), *(errors if isinstance(errors, list) else ())):
        if isinstance(error, dict) and error:
            code = error.get("code")
            code = str(code) if type(code) is int else text(code)
            return ReportedError(code or text(error.get("status")) or None, text(error.get("message")) or None)
    return _EMPTY_ERROR
