"""Finished texts of a stream, compared with the deltas before them: the final word wins, and no text counts twice.

Many wires say a text twice: in deltas, and whole in the event that finishes its part, its item, the response or the
message. A finished text that equals its deltas adds nothing; one that begins with them adds the remainder. One that
differs holds, and its deltas keep their times and lose their texts: GitHub Copilot streams ciphertext, and the plain
arguments in the end. Only arguments that came whole in the event that begins a call give way to deltas behind them, as
in Anthropic's SDKs. An empty finished text says nothing.

A wire may finish several parts of one item in turn, and then the item with all of them: each of these levels goes on
where its last text ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec

from wiretape.recorder.decode.assembly import Call, Calls
from wiretape.recorder.decode.dialect import Chunk, FinalText, Piece, ToolPiece
from wiretape.recorder.decode.runs import ItemRun

_TEXTS: Final = ("content", "reasoning", "refusal")
_ARGUMENTS: Final = "arguments"


class _Origin(NamedTuple):
    """The place of an addition: run, chunk of the run (None: all), piece, and tool call (None: a text)."""

    run: int
    chunk: int | None
    piece: int
    tool: int | None


@dataclass(slots=True, eq=False)
class _Text:
    """A text as it grows; `settled` has the number of its parts that each level has finished, `last` the last text."""

    parts: list[str] = field(default_factory=list)
    origins: list[_Origin] = field(default_factory=list)
    is_whole: bool = True
    settled: dict[int, int] = field(default_factory=dict)
    last: dict[int, str] = field(default_factory=dict)

    def add(self, part: str, origin: _Origin, *, is_whole: bool = False) -> None:
        self.parts.append(part)
        self.origins.append(origin)
        self.is_whole = self.is_whole and is_whole

    def cut(self, start: int) -> list[_Origin]:
        """Remove the parts from a number on, and return their origins."""
        origins = self.origins[start:]
        del self.parts[start:], self.origins[start:]
        return origins


@dataclass(slots=True, eq=False)
class _Choice:
    """The texts of one choice, and its calls, each with its index on the wire and its arguments."""

    texts: dict[tuple[str, int | None], _Text] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    arguments: dict[int, _Text] = field(default_factory=dict)
    indexes: dict[int, int] = field(default_factory=dict)

    def text(self, name: str, part: int | None) -> _Text:
        return self.texts.setdefault((name, part), _Text())

    def arguments_of(self, call: Call) -> _Text:
        return self.arguments.setdefault(id(call), _Text())  # `calls` keeps every call: no other gets its id


def settle(runs: list[ItemRun]) -> None:
    """Remove finished texts that repeat their deltas from the runs; those that differ replace their deltas."""
    _Settlement(runs).run()


class _Settlement:
    def __init__(self, runs: list[ItemRun]) -> None:
        self._runs = runs
        self._choices: dict[int, _Choice] = {}

    def run(self) -> None:
        for number, run in enumerate(self._runs):
            if len(run) > 1 and run.is_one_text:
                self._add(run.chunk_of(0), number, None, "".join(run.texts))
                continue
            if len(run) > 1:
                for position, chunk in enumerate(run.chunks()):
                    self._add(chunk, number, position)
                continue
            chunk = run.chunk_of(0)
            if chunk.whole and chunk.pieces:
                chunk = self._without_repeats(chunk)
            if chunk.finals:
                chunk = self._finished(chunk)
            if chunk is not run.chunk and (chunk.whole or chunk.finals):
                run.chunk, run.part = replace(chunk, whole=False, finals=()), None
            self._add(chunk, number)

    def _choice(self, index: int) -> _Choice:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = _Choice()
        return choice

    def _add(self, chunk: Chunk, number: int, place: int | None = None, text: str = "") -> None:
        """Note the texts of a chunk; those of all chunks of its run are `text`."""
        for at, piece in enumerate(chunk.pieces):
            choice = self._choice(piece.index)
            for name in _TEXTS:
                if part := getattr(piece, name):
                    choice.text(name, piece.part).add(
                        text or part, _Origin(number, place, at, None), is_whole=chunk.whole
                    )
            for slot, (call, tool) in enumerate(zip(choice.calls.add(piece.tools), piece.tools, strict=True)):
                if tool.index is not None:
                    choice.indexes[id(call)] = tool.index
                if tool.arguments:
                    arguments, is_whole = choice.arguments_of(call), chunk.whole or tool.whole
                    if arguments.is_whole and not is_whole:
                        self._clear(arguments.cut(0), _ARGUMENTS)
                    arguments.add(text or tool.arguments, _Origin(number, place, at, slot), is_whole=is_whole)

    def _finished(self, chunk: Chunk) -> Chunk:
        """Return a chunk with the additions of the texts that it finishes."""
        pieces = list(chunk.pieces)
        content, reasoning, has_tool = chunk.content, chunk.reasoning, chunk.tool
        for final in chunk.finals:
            choice = self._choice(final.choice)
            call = choice.calls.at(final.part, final.id) if final.name == _ARGUMENTS else None
            received = choice.text(final.name, final.part) if call is None else choice.arguments_of(call)
            addition, is_new = self._addition(received, final)
            if not addition:
                continue
            if final.name == _ARGUMENTS:
                tool = ToolPiece(final.part, final.id, "", addition)
                pieces.append(Piece(final.choice, tools=(tool,)))
                has_tool = has_tool or is_new
            else:
                text = dict.fromkeys(_TEXTS, "") | {final.name: addition}
                pieces.append(Piece(final.choice, **text, tools=(), finish_reason=None, part=final.part))
                content, reasoning = (
                    content or (is_new and final.name != "reasoning"),
                    reasoning or (is_new and final.name == "reasoning"),
                )
        return replace(chunk, pieces=tuple(pieces), content=content, reasoning=reasoning, tool=has_tool)

    def _addition(self, received: _Text, final: FinalText) -> tuple[str, bool]:
        """Return the addition of a finished text, "" if none, and whether it is new output.

        Of a text that differs, the addition is all of it, and the deltas are cleared.
        """
        level, text = final.level, final.text
        start = min(received.settled.get(level, 0), len(received.parts))
        pending = "".join(received.parts[start:])
        is_repeat = not pending and received.last.get(level) == text
        received.last[level] = text
        if is_repeat or _is_same(pending, text, final.name):
            addition = ""
        elif text.startswith(pending):
            addition = text[len(pending) :]
        else:
            self._clear(received.cut(start), final.name)
            received.settled[level] = start + 1
            return text, False
        received.settled[level] = len(received.parts) + bool(addition)
        return addition, True

    def _without_repeats(self, chunk: Chunk) -> Chunk:
        """Return a chunk of whole messages without the texts of their deltas."""
        pieces, has_new = [], dict.fromkeys((*_TEXTS, "tools"), False)
        for piece in chunk.pieces:
            choice, texts = self._choice(piece.index), dict[str, str]()
            for name in _TEXTS:
                texts[name] = text = getattr(piece, name)
                received = choice.texts.get((name, piece.part))
                if text and received is not None:
                    texts[name], is_new = self._new_text(received, text, name, is_last=piece.finish_reason is not None)
                    has_new[name] |= bool(texts[name]) and is_new
                else:
                    has_new[name] |= bool(text)
            tools = self._new_calls(choice, piece.tools)
            has_new["tools"] |= any([is_new for _, is_new in tools])
            calls = tuple([tool for tool, _ in tools])
            pieces.append(Piece(piece.index, **texts, tools=calls, finish_reason=piece.finish_reason, part=piece.part))
        had_text = any([piece.content or piece.refusal for piece in chunk.pieces])
        return replace(
            chunk,
            pieces=tuple(pieces),
            content=has_new["content"] or has_new["refusal"] or (chunk.content and not had_text),
            reasoning=has_new["reasoning"]
            or (chunk.reasoning and not any([piece.reasoning for piece in chunk.pieces])),
            tool=has_new["tools"],
        )

    def _new_text(self, received: _Text, text: str, name: str, *, is_last: bool) -> tuple[str, bool]:
        """Return the addition of a whole message to the text before it, and whether it is new output.

        Where all that came were messages, each is an addition, or repeats those before it and adds to them.
        """
        if not received.is_whole:
            return self._addition(received, FinalText(0, name, None, text))
        previous = "".join(received.parts)
        if text == previous:
            return ("", False) if is_last and len(received.parts) > 1 else (text, True)
        return text.removeprefix(previous), True

    def _new_calls(self, choice: _Choice, tools: Sequence[ToolPiece]) -> list[tuple[ToolPiece, bool]]:
        """Return the calls of a whole message that did not come before, and new arguments of those that did."""
        remaining: list[tuple[ToolPiece, bool]] = []
        for place, tool in enumerate(tools):
            call = choice.calls.calls[place] if place < len(choice.calls.calls) else None
            if call is None:
                remaining.append((tool, bool(tool.name or tool.arguments)))
                continue
            received, index = choice.arguments_of(call), choice.indexes.get(id(call))
            name = tool.name if not call.name else ""
            addition, is_new = "", False
            if tool.arguments:
                addition, is_new = self._addition(received, FinalText(0, _ARGUMENTS, None, tool.arguments))
            if addition or name:
                remaining.append((ToolPiece(index, call.id, name, addition), is_new and bool(addition)))
        return remaining

    def _clear(self, origins: Sequence[_Origin], name: str) -> None:
        """Remove the texts of replaced deltas from their runs."""
        for number, place, at, slot in origins:
            run = self._runs[number]
            if run.part is not None:
                run.texts = ["" if place in (None, position) else text for position, text in enumerate(run.texts)]
                continue
            pieces = list(run.chunk.pieces)
            if slot is None:
                cleared: dict[str, Any] = {name: ""}
                pieces[at] = replace(pieces[at], **cleared)
            else:
                tools = list(pieces[at].tools)
                tools[slot] = replace(tools[slot], arguments="")
                pieces[at] = replace(pieces[at], tools=tuple(tools))
            run.chunk = replace(run.chunk, pieces=tuple(pieces))


def _is_same(text: str, final: str, name: str) -> bool:
    """Return True if a finished text says the same as the deltas: of arguments, the same JSON."""
    if text == final or name != _ARGUMENTS or not text:
        return text == final
    try:
        return bool(msgspec.json.decode(text) == msgspec.json.decode(final))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
