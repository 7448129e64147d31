"""OpenAI's Realtime API over a WebSocket, by its names of 2025 and of the beta; also the turns of Responses over one.

A turn is one response, known by its id: several may run at once. Its clock starts at the client's `response.create`
that it answers, of those without an answer the first; else at the end of speech that the server reported, or of a
commit or timeout; else at `response.created`. The text of an answer is the transcript of its audio, or its text; what
the user said is none of it. An error that names no request changes no turn: sessions survive most.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from wiretape.recorder.decode import audio, usage_fields
from wiretape.recorder.decode.allowance import may_be_parsed
from wiretape.recorder.decode.audio import AudioFormat, AudioPart
from wiretape.recorder.decode.dialect import Chunk, Dialect, FinalText, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.dialects import responses
from wiretape.recorder.decode.turns import TurnDraft, TurnOutcome, TurnTokens
from wiretape.recorder.decode.values import JsonObject, count, index, text

API: Final = "openai.realtime"


tokens: Final = usage_fields.reader(API)

DIALECT: Final = Dialect(
    api=API,
    operation="realtime",
    parse=lambda payload, event, fault: None,  # its messages have a reader of their own
    tokens=tokens,
    silent=frozenset({"no_finish", "no_usage", "hidden_tokens", "multi_choice"}),
)

# The second names are those of the beta, which Azure's preview still sends.
_TRANSCRIPT: Final = frozenset({"response.output_audio_transcript.delta", "response.audio_transcript.delta"})
_TEXT: Final = frozenset({"response.output_text.delta", "response.text.delta", "response.refusal.delta"})
_AUDIO: Final = frozenset({"response.output_audio.delta", "response.audio.delta"})
_APPEND: Final = "input_audio_buffer.append"
_ARGUMENTS: Final = "response.function_call_arguments.delta"
_WHOLE_ARGUMENTS: Final = "response.function_call_arguments.done"
_WHOLE: Final = {
    "response.output_audio_transcript.done": "transcript",
    "response.audio_transcript.done": "transcript",
    "response.output_text.done": "text",
    "response.text.done": "text",
}
"""The events with a whole text, which counts where no delta came, and its field."""
# Realtime ends every response by `response.done`, also a cancelled one; the others are those of Responses.
_ENDS: Final = frozenset(
    {"response.done", "response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_WAITS: Final = {
    "input_audio_buffer.speech_stopped": "end_of_speech",
    "input_audio_buffer.committed": "commit",
    "input_audio_buffer.timeout_triggered": "timeout",
}
"""The server's events before a response by itself, and the cause of its turn by each.

The last end of speech counts, or without one the first of the others.
"""
_DEFAULT_FORMAT: Final = audio.format_named("pcm16")


class _Message(msgspec.Struct):
    """The fields of a message that are read."""

    type: Any = None
    event_id: Any = None
    response_id: Any = None
    output_index: Any = None
    call_id: Any = None
    name: Any = None
    arguments: Any = None
    audio: Any = None
    delta: Any = None
    transcript: Any = None
    text: Any = None
    response: Any = None
    item: Any = None
    session: Any = None
    error: Any = None
    generate: Any = None


@dataclass(slots=True)
class _Ask:
    """A client's `response.create` without a response yet."""

    item: int
    generates: bool


class RealtimeReader:
    """Reads the messages of a session, each into a chunk, and notes its turns.

    With `errors_end_turns`, an error ends the current response, as it does in the Responses API.
    """

    api = API

    def __init__(self, *, errors_end_turns: bool = False) -> None:
        self._errors_end_turns = errors_end_turns
        self.turns: list[TurnDraft] = []
        self.fault: tuple[int, ReportedError] | None = None
        """The last error before any turn began, and its item."""
        self._asks: OrderedDict[int, _Ask] = OrderedDict()
        """The requests without an answer, by their items."""
        self._items_by_event: dict[str, int] = {}
        self._wait: tuple[int, str] | None = None
        self._by_id: dict[str, TurnDraft | None] = {}
        self._places: dict[TurnDraft, int] = {}
        """The indexes of the turns in `turns`."""
        self._argued: set[tuple[TurnDraft, int | None]] = set()
        """The calls with deltas of arguments, by their turns and places."""
        self._current: TurnDraft | None = None
        self._format = self._input_format = _DEFAULT_FORMAT
        self.audio: dict[int, AudioPart] = {}
        """The messages of both sides with audio, by their items."""

    def take(self, item: int, data: bytes, *, is_client: bool) -> Chunk | None:
        """Read a message; None if it is no chunk: of the client, or no JSON object with a type."""
        message = _message(data)
        kind = text(message.type)
        if is_client:
            if kind == responses.REQUEST:
                self._asks[item] = _Ask(item, message.generate is not False)
                self._items_by_event.setdefault(text(message.event_id), item)
            elif kind == _APPEND and text(message.audio):
                self.audio[item] = AudioPart(audio.size_of(text(message.audio)), self._input_format)
            return None
        if not kind:
            return None
        if kind.startswith("response."):
            return self._response_event(item, kind, message)
        if kind in _WAITS:
            is_speech = _WAITS[kind] == "end_of_speech"
            self._wait = (item, _WAITS[kind]) if is_speech or self._wait is None else self._wait
        elif kind == "error":
            self._error(item, message.error)
        session = message.session
        if not kind.startswith("session.") or not isinstance(session, dict):
            return Chunk(API)
        self._format = _format(session, "output") or self._format
        self._input_format = _format(session, "input") or self._input_format
        return Chunk(API, model=text(session.get("model")))

    def note_output(self, item: int, text: str) -> None:
        """Note output of the current response whose message another reader has parsed."""
        if self._current is not None and self._current.end is None:
            self._current.note_output(item)
            self._current.texts.append(text)

    def finish(self, close_code: int | None) -> None:
        """Note the end of the session: turns without an end are truncated, also those that never began.

        Of a session in which none began, the last error is theirs.
        """
        item, fault = self.fault if self.fault is not None and not self.turns else (None, None)
        for ask in self._asks.values():
            if ask.generates and fault is not None and item is not None and item > ask.item:
                self.turns.append(TurnDraft(item, responses.REQUEST, ask.item, item, "error", error=fault.code))
            elif ask.generates:
                self.turns.append(TurnDraft(ask.item, responses.REQUEST, ask.item))
        self._asks.clear()

    # A response

    def _response_event(self, item: int, kind: str, message: _Message) -> Chunk:
        response = message.response if isinstance(message.response, dict) else {}
        if kind == responses.CREATED:
            return self._created(item, response)
        id = text(message.response_id) or text(response.get("id"))
        turn = self._by_id.get(id, self._current) if id else self._current
        if turn is None:
            return Chunk(API)
        if kind in _ENDS:
            usage = response.get("usage")
            turn.end, turn.tokens = item, _turn_tokens(usage if isinstance(usage, dict) else {})
            status = text(response.get("status")) or kind.removeprefix("response.")
            turn.outcome, turn.finish_reason, fault = _end(status, response)
            turn.error = fault.code if fault is not None else None
            piece = Piece(self._places[turn], finish_reason=turn.finish_reason)
            reported_usage = usage if isinstance(usage, dict) and usage else None
            return Chunk(API, pieces=(piece,), usage=reported_usage, fault=fault, ends=True)
        if kind == "response.output_item.added":
            added = message.item if isinstance(message.item, dict) else {}
            name = text(added.get("name"))
            if added.get("type") != "function_call" or not name:
                return Chunk(API)
            turn.note_output(item)
            tool = ToolPiece(index(message.output_index), text(added.get("call_id")), name, "")
            return Chunk(API, pieces=self._piece(turn, tool=tool), tool=True)
        if kind in _WHOLE:
            field = _WHOLE[kind]
            texts, whole_text = (turn.texts, message.text) if field == "text" else (turn.transcript, message.transcript)
            if texts or not text(whole_text):
                return Chunk(API)
            texts.append(text(whole_text))
            turn.note_output(item)
            return Chunk(API, pieces=self._piece(turn, text(whole_text)), content=True)
        if kind == _WHOLE_ARGUMENTS:  # some servers send no deltas of them
            arguments, place = text(message.arguments), index(message.output_index)
            if not arguments:
                return Chunk(API)
            if (turn, place) not in self._argued:
                turn.note_output(item)
            final = FinalText(self._places[turn], "arguments", place, arguments, 0, text(message.call_id))
            return Chunk(API, finals=(final,))
        return self._delta(item, turn, kind, message) if kind.endswith(".delta") else Chunk(API)

    def _created(self, item: int, response: JsonObject) -> Chunk:
        format = _format(response, "output") or self._format
        turn = TurnDraft(item, start=item, id=text(response.get("id")), format=format)
        ask = self._asks.popitem(last=False)[1] if self._asks else None
        if ask is not None:
            turn.begun_by, turn.start = responses.REQUEST, ask.item
        elif self._wait is not None:
            turn.start, turn.begun_by = self._wait
        self._wait = None
        self._current = None if ask is not None and not ask.generates else turn
        self._by_id[turn.id] = self._current
        if self._current is None:
            return Chunk(API)
        self._places[turn] = len(self.turns)
        self.turns.append(turn)
        return Chunk(API, id=turn.id if len(self.turns) == 1 else "")

    def _piece(self, turn: TurnDraft, content: str = "", tool: ToolPiece | None = None) -> tuple[Piece, ...]:
        return (Piece(self._places[turn], content=content, tools=() if tool is None else (tool,)),)

    def _delta(self, item: int, turn: TurnDraft, kind: str, message: _Message) -> Chunk:
        delta = text(message.delta)
        if not delta:
            return Chunk(API)
        turn.note_output(item, audio.size_of(delta) if kind in _AUDIO else 0)
        if kind in _AUDIO:
            self.audio[item] = AudioPart(audio.size_of(delta), turn.format)
            return Chunk(API, content=True)
        if kind in _TRANSCRIPT or kind in _TEXT:
            (turn.transcript if kind in _TRANSCRIPT else turn.texts).append(delta)
            return Chunk(API, pieces=self._piece(turn, delta), content=True)
        if kind == _ARGUMENTS:
            place = index(message.output_index)
            self._argued.add((turn, place))
            tool = ToolPiece(place, text(message.call_id), "", delta)
            return Chunk(API, pieces=self._piece(turn, tool=tool), tool=True)
        return Chunk(API, reasoning=True)

    # Errors

    def _error(self, item: int, error: object) -> None:
        """Note an error: of the request that it names, or of the session if no turn has begun."""
        fields = error if isinstance(error, dict) else {}
        code = text(fields.get("code")) or text(fields.get("type")) or None
        is_running = self._current is not None and self._current.end is None
        if self._errors_end_turns and self._current is not None and is_running:
            self._current.end, self._current.outcome, self._current.error = item, "error", code
        elif (ask := self._refused(text(fields.get("event_id")), code)) is not None:
            del self._asks[ask.item]
            self.turns.append(TurnDraft(item, responses.REQUEST, ask.item, item, "error", error=code))
        elif not self.turns:
            self.fault = item, ReportedError(code, text(fields.get("message")) or None)

    def _refused(self, id: str, code: str | None) -> _Ask | None:
        """Return the request for a response that an error refuses."""
        if self._errors_end_turns:
            return next(iter(self._asks.values()), None)
        if id:
            return self._asks.get(self._items_by_event.get(id, -1))
        # An error that names no event refuses the last request only if another response is running.
        is_busy = code == "conversation_already_has_active_response"
        return next(reversed(self._asks.values()), None) if is_busy else None


def _message(data: bytes) -> _Message:
    if not may_be_parsed(data):
        return _Message()
    try:
        return msgspec.json.decode(data, type=_Message)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Message()


def _format(holder: JsonObject, side: str) -> AudioFormat | None:
    """Return the format of the audio of one side (`input`, `output`), as a session or a response names it."""
    format: Any = holder.get("audio")
    for name in (side, "format"):
        format = format.get(name) if isinstance(format, dict) else None
    if isinstance(format, dict):
        return audio.format_named(format.get("type"), format.get("rate"))
    return audio.format_named(holder.get(f"{side}_audio_format"))


def is_microphone(message: bytes) -> bool:
    """Return True if a message of the client brings nothing but audio."""
    return text(_message(message).type) == _APPEND


def audio_in(message: bytes) -> bytes:
    fields = _message(message)
    return audio.bytes_of(text(fields.audio if fields.type == _APPEND else fields.delta))


def _end(status: str, response: JsonObject) -> tuple[TurnOutcome, str | None, ReportedError | None]:
    """Return the outcome of a response, the reason of its end, and the error that it reports."""
    details = response.get("status_details") or response.get("incomplete_details")
    details = details if isinstance(details, dict) else {}
    reason = text(details.get("reason")) or status
    if status == "failed":
        error = details.get("error") or response.get("error")
        error = error if isinstance(error, dict) else {}
        code = text(error.get("code")) or text(error.get("type")) or None
        return "error", status, ReportedError(code, text(error.get("message")) or None)
    if status == "cancelled":
        return ("interrupted" if reason == "turn_detected" else "cancelled"), reason, None
    return "complete", reason, None


def _details(usage: JsonObject, side: str) -> JsonObject:
    """Return the counts by modality; Responses writes their name in the plural."""
    details = usage.get(f"{side}_token_details") or usage.get(f"{side}_tokens_details")
    return details if isinstance(details, dict) else {}


def _turn_tokens(usage: JsonObject) -> TurnTokens:
    counts, input_counts, output_counts = tokens(usage), _details(usage, "input"), _details(usage, "output")
    return TurnTokens(
        input=counts.input,
        input_text=count(input_counts.get("text_tokens")),
        input_audio=count(input_counts.get("audio_tokens")),
        input_cached=counts.cache_read,
        output=counts.output,
        output_text=count(output_counts.get("text_tokens")),
        output_audio=count(output_counts.get("audio_tokens")),
    )
