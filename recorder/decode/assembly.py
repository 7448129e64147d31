"""Chunks put together: the text, reasoning, tool calls and usage of one answer, each choice by itself.

The answer is that of choice 0, or of the lowest choice that was seen; the others are kept beside it. Servers differ:
some send tool calls without an index, or all on index 0, or spread usage over chunks. The function that handles a
difference documents it. Text is made storable at the end, in one place, by `encoding.Cleaner`. No clock here: `metrics`
measures the same chunks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Piece, ToolPiece
from wiretape.recorder.decode.dialects.registry import tokens_of
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.finish_reasons import is_failure
from wiretape.recorder.decode.values import JsonObject, count

if TYPE_CHECKING:
    from wiretape.recorder.decode.runs import (
        ItemRun,  # it loads the parser of JSON: a shell that completes a line waits for it
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of an answer, ready to be stored: `values` are fields of a row of measures.

    `finished` means that every seen choice has a finish reason; `failure` is one that says that the service failed.
    `reported` are the times and quotas in it.
    """

    values: JsonObject
    reported: JsonObject
    finished: bool
    failure: str | None
    flags: frozenset[str]


def assemble(runs: "Iterable[ItemRun]", cleaner: Cleaner) -> Answer:
    """Put the chunks of one answer together."""
    builder = _Builder()
    for run in runs:
        builder.add(run.chunk_of(0))
        if len(run) > 1:
            builder.extend(run)
    return builder.answer(cleaner)


@dataclass(slots=True)
class Call:
    """One tool call as it grows; its arguments in the pieces in which they came."""

    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Calls:
    """The tool calls of one choice, in the order in which they began."""

    __slots__ = ("_by_id", "_by_index", "calls")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}

    def add(self, pieces: tuple[ToolPiece, ...]) -> list[Call]:
        """Add the pieces of one delta, and return the call of each piece."""
        touched: set[int] = set()
        calls_of_pieces = []
        for piece in pieces:
            latest = self.calls[-1] if self.calls else None
            if piece.index is not None:
                call = self._by_index.get(piece.index)
            elif piece.id:
                call = self._by_id.get(piece.id, latest if _is_addition(piece) else None)
            else:
                call = latest
            if call is None or _starts_another(piece, call, id(call) in touched):
                call = Call(piece.id)
                self.calls.append(call)
            touched.add(id(call))
            if piece.index is not None:
                self._by_index[piece.index] = call
            call.id = call.id or piece.id
            self._by_id.setdefault(piece.id or call.id, call)
            if piece.name != call.name:
                call.name += piece.name
            call.arguments.append(piece.arguments)
            calls_of_pieces.append(call)
        return calls_of_pieces

    def at(self, index: int | None, id: str) -> Call | None:
        """Return the latest call with an index, or without one that with an id; None if there is none."""
        return self._by_id.get(id) if index is None else self._by_index.get(index)


def _starts_another(piece: ToolPiece, call: Call, touched: bool) -> bool:
    # A new id on a used index is another call (Gemini's compatible endpoint puts every call on index 0), unless it only
    # adds arguments: some servers (Poolside, gateways) have another id for each chunk. So is, without any id, another
    # name after arguments have come, or a second name in the same delta.
    if piece.whole:
        return True
    if piece.id and call.id:
        return piece.id != call.id and not _is_addition(piece)
    if piece.id or not piece.name:
        return False
    return touched or (piece.name != call.name and any(call.arguments))


def _is_addition(piece: ToolPiece) -> bool:
    return piece.arguments != "" and not piece.name


class _Choice:
    __slots__ = ("api", "calls", "content", "finish_reason", "index", "reasoning", "refusal")

    def __init__(self, index: int) -> None:
        self.index = index
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.calls = Calls()
        self.api = ""
        self.finish_reason: str | None = None

    def add(self, piece: Piece) -> None:
        """Add what one chunk brings; the last finish reason holds, as in the SDKs."""
        if piece.content:
            self.content.append(piece.content)
        if piece.reasoning:
            self.reasoning.append(piece.reasoning)
        if piece.refusal:
            self.refusal.append(piece.refusal)
        if piece.tools:
            self.calls.add(piece.tools)
        self.finish_reason = piece.finish_reason or self.finish_reason

    def record(self, cleaner: Cleaner) -> JsonObject:
        """Return the choice as a JSON object of clean values."""
        return {
            "index": self.index,
            "content": cleaner.optional("".join(self.content)),
            "reasoning": cleaner.optional("".join(self.reasoning)),
            "refusal": cleaner.optional("".join(self.refusal)),
            "tool_calls": [
                {
                    "index": slot,
                    "id": cleaner.optional(call.id),
                    "name": cleaner.optional(call.name),
                    "arguments": cleaner.text("".join(call.arguments)),
                }
                for slot, call in enumerate(self.calls.calls)
            ]
            or None,
            "finish_reason": cleaner.optional(self.finish_reason),
        }


class _Builder:
    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._usage: JsonObject = {}
        self._api = ""
        self._flags: set[str] = set()
        self._id = ""
        self._model = ""
        self._textless = False
        self._attributes: JsonObject = {}
        self._reported: JsonObject = {}

    def add(self, chunk: Chunk) -> None:
        """Add one chunk; the first non-empty id and model hold."""
        for piece in chunk.pieces:
            choice = self._choices.get(piece.index)
            if choice is None:
                choice = self._choices[piece.index] = _Choice(piece.index)
            choice.add(piece)
            if piece.finish_reason:
                choice.api = chunk.api
        if chunk.id != self._id and chunk.id:
            if self._id:
                self._flags.add("id_changed")
            else:
                self._id = chunk.id
        self._model = self._model or chunk.model
        if chunk.usage:
            self._api = chunk.api
            usage_fields.merge(chunk.api, self._usage, chunk.usage)
        if chunk.flags:
            self._flags.update(chunk.flags)
        if chunk.attributes:
            self._attributes.update(chunk.attributes)
        if chunk.reported:
            self._reported.update(chunk.reported)
        begins_with_text = bool(chunk.pieces and chunk.pieces[0].content)  # nearly always: the checks below cost more
        if chunk.content and not begins_with_text and not any(piece.content or piece.refusal for piece in chunk.pieces):
            self._textless = True  # audio or an image: its size does not bound its tokens

    def extend(self, run: "ItemRun") -> None:
        """Add the chunks of a run behind the first, which has been added: they differ from it in one text only."""
        (piece,) = run.chunk.pieces
        choice = self._choices[piece.index]
        match run.part:
            case "arguments" if run.is_one_text:
                (call,) = choice.calls.add(run.chunk_of(1).pieces[0].tools)
                call.arguments += run.texts[2:]
            case "content" | "reasoning" | "refusal" as part if run.is_one_text:
                getattr(choice, part).extend(run.texts[1:])
            case _:
                for chunk in run.chunks()[1:]:
                    choice.add(chunk.pieces[0])

    def answer(self, cleaner: Cleaner) -> Answer:
        """Return the assembled answer."""
        choices = [self._choices[index] for index in sorted(self._choices)]
        records = [choice.record(cleaner) for choice in choices] or [_Choice(0).record(cleaner)]
        values = {name: value for name, value in records[0].items() if name != "index"} | {
            "response_model": cleaner.optional(self._model),
            "response_id": cleaner.optional(self._id),
            "choices": records[1:] or None,
            "usage": cleaner.value(self._usage) or None,
            "attributes": cleaner.value(self._attributes) or None,
            **token_counts(self._api, self._usage),
        }
        additive = is_additive(values)
        raised = {
            "multi_choice": len(choices) > 1,
            "no_usage": values["output_tokens"] is None,
            "usage_from_timings": usage_fields.is_from_timings(self._usage),
            "total_unexplained": is_unexplained(values, is_additive=additive),
            "reasoning_additive": additive,
            "hidden_tokens": _hides_tokens(records, values, textless=self._textless, is_additive=additive),
        }
        return Answer(
            values,
            self._reported,
            finished=bool(choices) and all(choice.finish_reason for choice in choices),
            failure=next(
                (choice.finish_reason for choice in choices if is_failure(choice.api, choice.finish_reason)), None
            ),
            flags=frozenset(self._flags.union(flag for flag, is_raised in raised.items() if is_raised)),
        )


def _hides_tokens(
    choices: Sequence[Mapping[str, Any]], tokens: Mapping[str, Any], *, textless: bool, is_additive: bool
) -> bool:
    """Return True if usage counts more tokens than the received text can hold, as with reasoning that stays hidden.

    A token is at least one byte of UTF-8, except for markers around each text or tool call. Reasoning tokens are
    compared with the reasoning that came, unless they are additive: not part of the output tokens. Only reasoning
    tokens are compared in a `textless` answer (audio).
    """
    # Tokens without text in an answer or a tool call, at most: marks of its beginning, its end and its parts.
    markers = 16
    if tokens["output_tokens"] is None or max(tokens["output_tokens"], tokens["reasoning_tokens"] or 0) <= markers:
        return False
    calls = [call for choice in choices for call in choice["tool_calls"] or ()]
    reasoning = _size(choice["reasoning"] for choice in choices)
    answers = _size(choice[name] for choice in choices for name in ("content", "refusal"))
    tools = _size(call[name] for call in calls for name in ("name", "arguments"))
    allowed = markers * (len(choices) + len(calls))
    if not is_additive and (tokens["reasoning_tokens"] or 0) > reasoning + allowed:
        return True
    return not textless and tokens["output_tokens"] > reasoning + answers + tools + allowed


def is_additive(tokens: Mapping[str, Any]) -> bool:
    """Return True if reasoning is counted beside the output tokens, as by xAI and Gemini, and not within them."""
    reasoning: int = tokens["reasoning_tokens"] or 0
    known_sum = (tokens["input_tokens"] or 0) + (tokens["output_tokens"] or 0) + reasoning
    return reasoning > 0 and tokens["total_tokens"] == known_sum


def is_unexplained(tokens: Mapping[str, Any], *, is_additive: bool) -> bool:
    """Return True if the total that usage reports is more than its parts."""
    input_tokens, total = tokens["input_tokens"], tokens["total_tokens"]
    output = (tokens["output_tokens"] or 0) + (tokens["reasoning_tokens"] if is_additive else 0)
    return input_tokens is not None and total is not None and total > input_tokens + output


def _size(texts: Iterable[str | None]) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in texts if text)


def token_counts(api: str, usage: JsonObject) -> dict[str, int | None]:
    """Return the counts of an API's usage by their names on the tape; the total is computed where the wire has none."""
    reported = tokens_of(api, usage)
    total = reported.total
    if total is None and reported.input is not None and reported.output is not None:
        total = count(reported.input + reported.output)
    return {
        "input_tokens": reported.input,
        "output_tokens": reported.output,
        "total_tokens": total,
        "reasoning_tokens": reported.reasoning,
        "cache_read_input_tokens": reported.cache_read,
        "cache_write_input_tokens": reported.cache_write,
        "cache_write_1h_input_tokens": reported.cache_write_1h,
        "input_uncached_tokens": reported.uncached,
    }
