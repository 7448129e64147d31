"""Pure: the turns of a session: what each began with, its times, its end, its tokens and its audio.

Readers of the wires (`dialects.openai_realtime`, `dialects.gemini_live`; `agent_turns` for hosted agents) note the
turns as their messages come, by the numbers of the items; `measured` turns these into timestamps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal

from wiretape.recorder.decode import audio
from wiretape.recorder.decode.audio import AudioFormat
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.values import JsonObject

TurnOutcome = Literal["complete", "interrupted", "cancelled", "error", "truncated"]

TURN_OUTCOMES: Final[dict[TurnOutcome, str]] = {
    "complete": "the wire's own end of the turn came, also at a limit of tokens",
    "interrupted": "the user spoke, and the server ended the turn",
    "cancelled": "the client ended the turn",
    "error": "the server reported that the turn failed, or closed the WebSocket with an error",
    "truncated": "the WebSocket ended before the turn",
}

BEGINNINGS: Final = {
    "response.create": "the client requested a response",
    "text": "the client sent text",
    "end_of_speech": "the user stopped speaking, as the server or the client says",
    "commit": "audio was committed",
    "timeout": "the server waited for speech in vain",
    "create": "the client created the session with its first message",
    "tool_result": "the client sent the result of a tool",
    "confirmation": "the client allowed or denied a tool",
    "outcome": "the client defined an outcome",
    "agent": "another agent sent a message",
}
"""Causes of a turn; None: the wire names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTokens:
    """The tokens that usage reports for a turn, in all and by modality; None where it reports none."""

    input: int | None = None
    input_text: int | None = None
    input_audio: int | None = None
    input_cached: int | None = None
    output: int | None = None
    output_text: int | None = None
    output_audio: int | None = None


_TOKENS: Final = tuple(value.name for value in fields(TurnTokens))


@dataclass(slots=True, eq=False)
class TurnDraft:
    """A turn while its messages are read; messages are given by the numbers of their items.

    `start` is the message that starts its clock, None if the wire has none, and `start_ns` a time in its place, if
    something else starts it. `first` is its first message, `end` the one that ended it. Without `is_begin_known`,
    something may have come before the first message. `audio` are the messages with audio, and their bytes.
    """

    first: int
    begun_by: str | None = None
    start: int | None = None
    end: int | None = None
    outcome: TurnOutcome = "truncated"
    finish_reason: str | None = None
    error: str | None = None
    id: str = ""
    first_output: int | None = None
    last_output: int | None = None
    audio: list[tuple[int, int]] = field(default_factory=list)
    format: AudioFormat | None = None
    transcript: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tokens: TurnTokens = TurnTokens()
    start_ns: int | None = None
    is_begin_known: bool = True
    thread: str = ""

    def note_output(self, item: int, audio_bytes: int = 0) -> None:
        """Note output in a message, and the bytes of audio in it."""
        if self.first_output is None:
            self.first_output = item
        self.last_output = item
        if audio_bytes:
            self.audio.append((item, audio_bytes))

    @property
    def text(self) -> str:
        """The transcript of its audio, or else its text."""
        return "".join(self.transcript or self.texts)

    @property
    def tool_calls(self) -> list[tuple[str, str, str]]:
        """The id, name and arguments of each call; none of a session of voice."""
        return []


@dataclass(slots=True)
class ResponseTurn:
    """A response in a stream of several: its first item, and the item that ended it.

    `request` is the item with the client's request for it, or that starts its clock; None if the tape has none.
    `start_ns` is the time of its request since T0, where no item is that. `generates`: it generates an answer; Codex
    first requests one that does not (`"generate": false`), to warm up. `tools` are the items between which a tool ran.
    Without `is_begin_known`, something may have come before its first item. `measures` are its values where other
    exchanges tell a part of it.
    """

    request: int | None
    first: int
    last: int | None = None
    generates: bool = True
    start_ns: int | None = None
    measures: "TurnMeasures | None" = None
    tools: Sequence[tuple[int, int | None]] | None = None
    is_begin_known: bool = True


def optional(meaning: str) -> Any:
    """Define a value of a turn with its meaning; it may be unknown."""
    return field(default=None, metadata={"doc": meaning})


def required(meaning: str) -> Any:
    """Define a value of a turn that is always known, with its meaning."""
    return field(metadata={"doc": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMeasures:
    """The values of one turn; the meaning of each field is its metadata."""

    turn: int = required("1, 2, …: by start")
    begun_by: str | None = optional(f"what began it: {', '.join(BEGINNINGS)}; NULL: the wire does not say")
    started_at_ns: int | None = optional(
        "T0 → its start: the request, or the end of speech; NULL: no message says when"
    )
    first_output_at_ns: int | None = optional("T0 → first text, reasoning, tool call or audio")
    ended_at_ns: int | None = optional("T0 → the message that ended it; NULL: none did")
    ttft_ns: int | None = optional("its start → first text, reasoning, tool call or audio")
    ttfa_ns: int | None = optional("its start → first audio")
    last_ns: int | None = optional("its start → last output; without any, the message that ended it")
    outcome: TurnOutcome = required(f"how it ended: {', '.join(TURN_OUTCOMES)}")
    finish_reason: str | None = optional("reason of its end, verbatim from upstream")
    error_code: str | None = optional("the code or type of the error that ended it")
    response_id: str | None = optional("the id of its response")
    input_tokens: int | None = optional("tokens of its input, cached ones included, from usage")
    input_text_tokens: int | None = optional("of these, text")
    input_audio_tokens: int | None = optional("of these, audio")
    input_cached_tokens: int | None = optional("of these, read from the provider's cache")
    output_tokens: int | None = optional("tokens of its output, from usage; Gemini's thoughts included")
    output_text_tokens: int | None = optional("of these, text")
    output_audio_tokens: int | None = optional("of these, audio")
    audio_format: str | None = optional("encoding and samples per second of its audio: pcm16/24000, g711_ulaw/8000, …")
    audio_bytes: int | None = optional("bytes of its audio, decoded from base64; NULL: of a hosted agent")
    audio_ns: int | None = optional("how long its audio plays; NULL: no audio, or of an unknown format")
    underrun_ns: int | None = optional("silence that a listener hears who plays its audio from the first piece on")
    text: str | None = optional("the transcript of its audio as received, or its text")
    session: str | None = optional("the provider's id of the session; NULL: a WebSocket")
    thread: str | None = optional("the thread or id of the sub-agent whose turn it is; NULL: none")
    begun_by_id: str | None = optional("the exchange of the request that began it; NULL: the tape has none")
    steered_by: str | None = optional("further requests whose messages it took, by the ids of their exchanges")
    continued_in: str | None = optional("further streams that told it, by the ids of their exchanges")
    missing: int | None = optional(
        "places where its events may be missing: no stream was open, and the next one was opened later"
    )
    tool_calls: list[JsonObject] | None = optional("tool calls, by the provider or the client: id, name, arguments")
    tools_ns: int | None = optional("time in which tools ran in it, or it waited for the client")


TURN_FIELDS: Final = {value.name: value for value in fields(TurnMeasures)}
"""The fields of a turn by their names."""


Times = Sequence[int | None] | Mapping[int, int]
"""The times of items by their numbers."""


def union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of time in their order, each with a start and an end, those that overlap or touch as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def by_start(drafts: Sequence[TurnDraft]) -> list[TurnDraft]:
    """Return the turns in the order of their starts, which gives them their numbers."""
    return sorted(drafts, key=lambda draft: draft.first if draft.start is None else draft.start)


def turn_measures(drafts: Sequence[TurnDraft], at_ns: Times) -> list[TurnMeasures]:
    """Return the values of the turns in the order of their starts."""
    return [_of(number, draft, at_ns) for number, draft in enumerate(by_start(drafts), 1)]


def stored(measures: Sequence[TurnMeasures], session: str | None, cleaner: Cleaner) -> list[JsonObject] | None:
    """Return the values of turns without unknown ones, each with its session; None if there are none."""
    rows = [asdict(turn) | {"session": session} for turn in measures]
    return [cleaner.value({name: value for name, value in row.items() if value is not None}) for row in rows] or None


def _of(number: int, draft: TurnDraft, at_ns: Times) -> TurnMeasures:
    def at(item: int | None) -> int | None:
        return None if item is None else at_ns[item]

    start_ns = at(draft.start) if draft.start_ns is None else draft.start_ns

    def since_start(item: int | None) -> int | None:
        end_ns = at(item)
        return None if start_ns is None or end_ns is None else end_ns - start_ns

    tokens, audio_ns, underrun_ns = draft.tokens, None, None
    if draft.format is not None and draft.audio:
        audio_ns = draft.format.duration_ns(sum(size for _, size in draft.audio))
        durations = [(at(item), draft.format.duration_ns(size)) for item, size in draft.audio]
        pieces = [(at_ns, duration_ns) for at_ns, duration_ns in durations if at_ns is not None]
        if len(pieces) == len(durations):
            underrun_ns = audio.underrun_ns(pieces)
    return TurnMeasures(
        turn=number,
        begun_by=draft.begun_by,
        started_at_ns=start_ns,
        first_output_at_ns=at(draft.first_output),
        ended_at_ns=at(draft.end),
        ttft_ns=since_start(draft.first_output) if draft.is_begin_known else None,
        ttfa_ns=since_start(draft.audio[0][0] if draft.audio else None),
        last_ns=since_start(draft.end if draft.last_output is None else draft.last_output),
        outcome=draft.outcome,
        finish_reason=draft.finish_reason,
        error_code=draft.error,
        response_id=draft.id or None,
        **{f"{name}_tokens": getattr(tokens, name) for name in _TOKENS},
        audio_format=str(draft.format) if draft.format is not None and draft.audio else None,
        audio_bytes=sum(size for _, size in draft.audio),
        audio_ns=audio_ns,
        underrun_ns=underrun_ns,
        text=draft.text or None,
        thread=draft.thread or None,
        tool_calls=[{"id": id, "name": name, "arguments": text} for id, name, text in draft.tool_calls] or None,
    )
