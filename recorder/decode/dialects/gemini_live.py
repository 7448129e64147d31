"""Gemini's Live API over a WebSocket (`BidiGenerateContent`), whose JSON comes in text or in binary messages.

A turn ends with `turnComplete`. Its clock starts with the last request before its first output: text of the client, or
an end of speech that the client or the server names. Where the server finds the end of speech by itself and does not
say so, the start is unknown; audio that the client goes on sending says nothing. A request during an answer is the
start of the next turn. The text is the transcript of the audio, or the text without thoughts. Errors are close frames.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wiretape.recorder.decode import audio, usage_fields
from wiretape.recorder.decode.allowance import may_be_parsed
from wiretape.recorder.decode.audio import AudioPart
from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ToolPiece
from wiretape.recorder.decode.turns import TurnDraft, TurnTokens
from wiretape.recorder.decode.values import JsonObject, compact, count, text

API: Final = "gemini.live"

_AUDIO: Final = "audio/"
_RATE: Final = 24_000
_INPUT_RATE: Final = 16_000
"""Samples per second of an answer, and of the client's audio, if a media type names none."""

tokens: Final = usage_fields.reader(API)

DIALECT: Final = Dialect(
    api=API,
    operation="realtime",
    parse=lambda payload, event, fault: None,  # its messages have a reader of their own
    tokens=tokens,
    silent=frozenset({"no_finish", "no_usage", "hidden_tokens", "multi_choice"}),
)


class LiveReader:
    """Reads the messages of a session, each into a chunk, and notes its turns."""

    api = API

    def __init__(self) -> None:
        self.turns: list[TurnDraft] = []
        self.fault = None
        """No message reports an error: a close frame does."""
        self._request: tuple[int, str] | None = None
        """The request that no turn has answered yet."""
        self._is_answer_due = False
        """The client requested an answer, and no sound decides whether one comes."""
        self._turn: TurnDraft | None = None
        self._is_stray = False
        """An interruption came without a running turn: the completion that follows is of none, too."""
        self._is_transcribed = False
        """The last turn's transcript has ended."""
        self._model = ""
        self.audio: dict[int, AudioPart] = {}
        """The messages of both sides with audio, by their items."""

    def take(self, item: int, data: bytes, *, is_client: bool) -> Chunk | None:
        """Read a message; None if it is no chunk: of the client, or no JSON object."""
        message = _object(data)
        if message is None:
            return None
        if (pieces := [*_sounds(message)]) and (size := sum(audio.size_of(encoded) for encoded, _ in pieces)):
            self.audio[item] = AudioPart(
                size, audio.format_named(pieces[0][1], default=_INPUT_RATE if is_client else _RATE)
            )
        if is_client:
            self._model = self._model or text(_field(_map(message, "setup"), "model")).removeprefix("models/")
            realtime = _map(message, "realtimeInput")
            if _field(_map(message, "clientContent"), "turnComplete") is True or text(_field(realtime, "text")):
                self._request, self._is_answer_due = (item, "text"), True
            elif _field(realtime, "activityEnd") is not None or _field(realtime, "audioStreamEnd") is True:
                self._request = item, "end_of_speech"
            return None
        if _field(message, "setupComplete") is not None:
            return Chunk(API, model=self._model)
        activity = _map(message, "voiceActivity")
        content = _map(message, "serverContent")
        if _field(activity, "voiceActivityType") == "ACTIVITY_END":
            self._request = item, "end_of_speech"
        if self._turn is None and text(_field(_map(content, "inputTranscription"), "text")):
            self._is_transcribed = True  # the user has spoken since: another turn follows
        chunks = [*self._calls(item, message), *self._content(item, content)]
        return self._with_usage(_merged(chunks), _map(message, "usageMetadata"))

    def finish(self, close_code: int | None) -> None:
        """Note the end of the session: a turn without an end is truncated, or an error if the close frame is one."""
        if self._turn is None and self._is_answer_due and self._request is not None:
            self._begin(self._request[0])
        # 1005 is the code of a close frame without one, None that of a WebSocket without a close frame.
        if self._turn is not None and close_code not in (None, 1000, 1001, 1005):
            self._turn.outcome, self._turn.error = "error", str(close_code)

    # A turn

    def _begin(self, item: int) -> TurnDraft:
        if self._turn is None:
            self._turn = TurnDraft(item)
            if self._request is not None:
                self._turn.start, self._turn.begun_by = self._request
            self._request, self._is_answer_due, self._is_transcribed, self._is_stray = None, False, False, False
            self.turns.append(self._turn)
        return self._turn

    def _piece(
        self, content: str = "", reasoning: str = "", tool: ToolPiece | None = None, finish_reason: str | None = None
    ) -> Piece:
        return Piece(
            len(self.turns) - 1,
            content=content,
            reasoning=reasoning,
            tools=() if tool is None else (tool,),
            finish_reason=finish_reason,
        )

    def _calls(self, item: int, message: JsonObject) -> Iterator[Chunk]:
        for place, call in enumerate(_list(_map(message, "toolCall"), "functionCalls")):
            self._begin(item).note_output(item)
            arguments = compact(_field(call, "args") or {})
            tool = ToolPiece(place, text(_field(call, "id")), text(_field(call, "name")), arguments, whole=True)
            yield Chunk(API, pieces=(self._piece(tool=tool),), tool=True)

    def _content(self, item: int, content: JsonObject) -> Iterator[Chunk]:
        for part in _list(_map(content, "modelTurn"), "parts"):
            yield from self._part(item, part)
        transcription = _map(content, "outputTranscription")
        transcript, is_end = text(_field(transcription, "text")), _field(transcription, "finished") is True
        # Behind the end of its turn, the transcript of audio still belongs to that.
        is_late = self._turn is None and self._request is None and bool(self.turns) and not self._is_transcribed
        if transcript:
            turn = self.turns[-1] if is_late else self._begin(item)
            turn.transcript.append(transcript)
            if not is_late:
                turn.note_output(item)
            yield Chunk(API, pieces=(self._piece(transcript),), content=True)
        self._is_transcribed = self._is_transcribed or is_end
        if _field(content, "interrupted") is True:
            # A stray one right behind the end of a turn was seen (googleapis/python-genai#2333).
            self._is_stray = self._turn is None
            if self._turn is not None:
                self._turn.outcome = "interrupted"
        if _field(content, "turnComplete") is True:
            yield from self._complete(item, text(_field(content, "turnCompleteReason")))

    def _part(self, item: int, part: JsonObject) -> Iterator[Chunk]:
        content, data = text(_field(part, "text")), _map(part, "inlineData")
        if content:
            turn = self._begin(item)
            turn.note_output(item)
            is_thought = _field(part, "thought") is True
            if is_thought:
                yield Chunk(API, pieces=(self._piece(reasoning=content),), reasoning=True)
            else:
                turn.texts.append(content)
                yield Chunk(API, pieces=(self._piece(content),), content=True)
        if encoded := text(_field(data, "data")):
            turn, kind = self._begin(item), text(_field(data, "mimeType"))
            is_audio = kind.startswith(_AUDIO)
            turn.format = (audio.format_named(kind) if is_audio else None) or turn.format
            turn.note_output(item, audio.size_of(encoded) if is_audio else 0)
            yield Chunk(API, content=True)

    def _complete(self, item: int, reason: str) -> Iterator[Chunk]:
        if self._turn is None and (self._is_stray or not self._is_answer_due):
            self._is_stray = False
            return
        turn = self._begin(item)
        turn.end = item
        turn.outcome = "interrupted" if turn.outcome == "interrupted" else "complete"
        turn.finish_reason = reason or turn.outcome
        self._turn = None
        yield Chunk(API, pieces=(self._piece(finish_reason=turn.finish_reason),), ends=True)

    def _with_usage(self, chunk: Chunk, usage: JsonObject) -> Chunk:
        if not usage or not self.turns:
            return chunk
        self.turns[-1].tokens = _turn_tokens(usage)
        return Chunk(
            API,
            pieces=chunk.pieces,
            content=chunk.content,
            reasoning=chunk.reasoning,
            tool=chunk.tool,
            usage=usage,
            ends=chunk.ends,
        )


def _sounds(message: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the base64 texts of audio in a message of either side, each with its media type."""
    parts = _list(_map(_map(message, "serverContent"), "modelTurn"), "parts")
    realtime = _map(message, "realtimeInput")
    sent = [_map(realtime, "audio"), *_list(realtime, "mediaChunks")]
    for data in (*(_map(part, "inlineData") for part in parts), *sent):
        kind = text(_field(data, "mimeType"))
        if kind.startswith(_AUDIO):
            yield text(_field(data, "data")), kind


def is_microphone(message: bytes) -> bool:
    """Return True if a message of the client brings nothing but audio or pictures of a camera."""
    fields = _map(_object(message) or {}, "realtimeInput").keys()
    return bool(fields) and fields <= {"audio", "video", "mediaChunks", "media_chunks"}


def audio_in(message: bytes) -> bytes:
    return b"".join(audio.bytes_of(encoded) for encoded, _ in _sounds(_object(message) or {}))


def _merged(chunks: list[Chunk]) -> Chunk:
    """Return the parts of one message as one chunk."""
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        API,
        pieces=tuple(piece for chunk in chunks for piece in chunk.pieces),
        content=any(chunk.content for chunk in chunks),
        reasoning=any(chunk.reasoning for chunk in chunks),
        tool=any(chunk.tool for chunk in chunks),
        ends=any(chunk.ends for chunk in chunks),
    )


def _object(data: bytes) -> JsonObject | None:
    if not may_be_parsed(data):
        return None
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _field(holder: JsonObject, name: str) -> Any:
    """Return a field, which SDKs write in camel case or with underscores."""
    if name in holder:
        return holder[name]
    return holder.get("".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name))


def _map(holder: JsonObject, name: str) -> JsonObject:
    value = _field(holder, name)
    return value if isinstance(value, dict) else {}


def _list(holder: JsonObject, name: str) -> list[JsonObject]:
    value = _field(holder, name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _turn_tokens(usage: JsonObject) -> TurnTokens:
    counts = tokens(usage)
    input_counts, output_counts = (
        _by_modality(_list(usage, f"{side}TokensDetails")) for side in ("prompt", "response")
    )
    return TurnTokens(
        input=counts.input,
        input_text=input_counts.get("TEXT"),
        input_audio=input_counts.get("AUDIO"),
        input_cached=counts.cache_read,
        output=counts.output,
        output_text=output_counts.get("TEXT"),
        output_audio=output_counts.get("AUDIO"),
    )


def _by_modality(details: list[JsonObject]) -> dict[str, int]:
    counts = ((text(_field(detail, "modality")), count(_field(detail, "tokenCount"))) for detail in details)
    return {modality: number for modality, number in counts if number is not None}
