"""Pure: a turn of a conversation as lines for people, and as a record for programs.

The lines are the system prompt, the tools, the messages by role with calls and results of tools, and the answer, in
order; a rule marks the messages that are new since the previous turn. The caller passes each line through `safe`.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain, islice
from typing import Any, Final

from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.prompt import (
    Media,
    Message,
    Other,
    Part,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    is_element,
)
from wiretape.recorder.decode.values import JsonObject, compact
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange import facts, pages
from wiretape.viewer.exchange.facts import Fact, Line
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.formatting import line

_FOLDED_LINES: Final = 12
_FOLDED_CHARACTERS: Final = 1500
_PLAIN_WIDTH: Final = 120
_LABELS: Final = 12
_INDENT: Final = "  "


@dataclass(frozen=True, slots=True)
class Folding:
    """The folding of long texts and messages of earlier turns: the `width` in cells, and the hint for unfolding."""

    width: int | None = None
    remedy: str = ""

    @property
    def folds(self) -> bool:
        return self.remedy != ""

    @property
    def room(self) -> int:
        """The width of a cut line, in cells."""
        return self.width or _PLAIN_WIDTH


def lines(turn: Turn, folding: Folding, hint: str) -> Iterator[Line]:
    """Yield a turn; `hint` names the place of its answer's body if that has no text."""
    content = turn.content
    if content.prompt is None:
        yield [("request  ", "strong"), (f"no messages are known: {content.problem}", "warning")]
    else:
        yield from _prompt(turn, content.prompt, folding)
    yield []
    row, parts = turn.content.row, turn.content.answer
    reason = f", finish reason {line(row.finish_reason)}" if row.finish_reason else ""
    if row.choices and row.framing != "websocket":
        reason += f", the first of {len(row.choices) + 1} choices"
    yield [("answer", "strong"), (f" · {line(row.ending)}{reason}", "muted")]
    if not parts:
        yield [(_INDENT, "plain"), (facts.no_text(row, hint), "muted")]
    yield from folded(parts_lines(parts), folding)


def record(turn: Turn) -> JsonObject:
    """Return a turn for programs: `new` is true for each message that the turn before did not have."""
    prompt, previous, row = turn.content.prompt, turn.previous, turn.content.row
    request = None if prompt is None else _plain(prompt) | {"parameters": Cleaner().value(prompt.parameters)}
    for number, message in enumerate(request["messages"] if request else ()):
        message["new"] = number >= turn.repeated
    return {
        "id": row.id,
        "continues": previous.row.id if previous else None,
        "problem": turn.content.problem or None,
        **(request or dict.fromkeys(("model", "system", "tools", "messages", "parameters"))),
        "answer": {"outcome": row.outcome, "finish_reason": row.finish_reason, "parts": _plain(turn.content.answer)},
    }


def _plain(value: object) -> Any:
    """Return a record as an object, and several of them as a list."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {item.name: _plain(getattr(value, item.name)) for item in fields(value)} if is_dataclass(value) else value


def flattened(parameters: Mapping[str, object]) -> dict[str, str]:
    """Return parameters as texts; a parameter that is an object has a text for each of its keys, as `name.key`."""
    texts: dict[str, str] = {}
    for name, value in parameters.items():
        inner = {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {}
        texts |= {
            key: item if isinstance(item, str) else compact(item) for key, item in (inner or {name: value}).items()
        }
    return texts


def parts_lines(
    parts: Iterable[Part], names: Mapping[str, str] | None = None, *, ids: bool = True, indent: str = _INDENT
) -> Iterator[Line]:
    for part in parts:
        yield from _part(part, names or {}, ids, indent)


def tool_names(prompt: Prompt) -> dict[str, str]:
    parts = chain.from_iterable(message.parts for message in prompt.messages)
    return {part.id: part.name for part in parts if isinstance(part, ToolCall) and part.id}


def pretty(text: str) -> str:
    """Indent a long JSON text; return other text unchanged."""
    try:
        value = json.loads(text)
        short = json.dumps(value, ensure_ascii=False)
        return short if len(short) <= 100 else json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):  # recorded text is nested as deep as its sender likes
        return text


def _prompt(turn: Turn, prompt: Prompt, folding: Folding) -> Iterator[Line]:
    previous = turn.previous
    yield from pages.labelled(Fact("model", (line(prompt.model),)), folding.room, _LABELS)
    parameters = ((line(name), line(value)) for name, value in flattened(prompt.parameters).items())
    most = folding.room - _LABELS if folding.folds else sys.maxsize
    parts = tuple(clipped(f"{name} {value}", most) for name, value in parameters)
    yield from pages.labelled(Fact("parameters", parts), folding.room, _LABELS) if parts else ()
    yield from _system(prompt, previous.prompt if previous is not None else None, folding)
    yield from _tools(prompt, previous.prompt if previous is not None else None, folding)
    yield []
    yield from _messages(turn, prompt, folding)


def _messages(turn: Turn, prompt: Prompt, folding: Folding) -> Iterator[Line]:
    previous, names, is_short = turn.previous, tool_names(prompt), folding.folds and turn.repeated > 0
    is_later = turn.since != ""
    earlier = f", those of earlier turns in short: {folding.remedy}" if is_short else ""
    if previous is not None and turn.content.is_rest:
        earlier = f" after those of {previous.row.id[:8]}, which the server keeps"
    yield [("messages", "strong"), (f" · {len(prompt.messages):,}{earlier}", "muted")]
    # Where texts are folded: 12 messages of earlier turns, a line each, and 200 messages in all.
    first_visible = max(turn.repeated - 12, len(prompt.messages) - 200) if folding.folds else 0
    if first_visible > 0:
        yield [(f"… {counted(first_visible, 'earlier message')}: {folding.remedy}", "muted")]
    for number, message in islice(enumerate(prompt.messages), max(first_visible, 0), None):
        if is_later and number == turn.repeated:
            yield from _rule(turn, folding.room)
        if is_short and number < turn.repeated:
            head = f"{number + 1} {line(message.role)}"
            text = " ".join(
                word for pieces in _first_lines(message, names) for text, _ in pieces for word in text.split()
            )
            yield [(f"{head}  ", "muted"), (clipped(line(text), max(folding.room - len(head) - 2, 20)), "muted")]
        else:
            name = f" {line(message.name)}" if message.name else ""
            yield [(f"{number + 1} {line(message.role)}", "accent"), (name, "plain")]
            yield from folded(parts_lines(message.parts, names), folding)
    if is_later and turn.repeated == len(prompt.messages):
        yield from _rule(turn, folding.room, is_empty=True)


def _rule(turn: Turn, width: int, *, is_empty: bool = False) -> Iterator[Line]:
    dropped = f", without {turn.dropped} of its messages" if turn.dropped else ""
    nothing = ": nothing" if is_empty else ""
    text = f"── new since {turn.since}{dropped}{nothing} "
    yield [(f"{text:─<{min(width, _PLAIN_WIDTH)}}", "success")]


def _system(prompt: Prompt, previous: Prompt | None, folding: Folding) -> Iterator[Line]:
    if not prompt.system and not (previous and previous.system):
        return
    text_lines = list(parts_lines(prompt.system))
    size = counted(max(sum(len(text) + 1 for pieces in text_lines for text, _ in pieces[1:]) - 1, 0), "character")
    yield []
    yield [("system", "strong"), (f" · {size}{_since(prompt, previous, 'system')}", "muted")]
    if not (folding.folds and previous is not None and previous.system == prompt.system):
        yield from folded(text_lines, folding)


def _since(prompt: Prompt, previous: Prompt | None, name: str) -> str:
    if previous is None:
        return ""
    return ", as before" if getattr(prompt, name) == getattr(previous, name) else ", changed since the turn before"


def _tools(prompt: Prompt, previous: Prompt | None, folding: Folding) -> Iterator[Line]:
    if not prompt.tools:
        return
    yield []
    yield [("tools", "strong"), (f" · {len(prompt.tools):,}{_since(prompt, previous, 'tools')}", "muted")]
    if folding.folds and previous is not None and previous.tools == prompt.tools:
        yield [(_INDENT, "plain"), (line(", ".join(tool.name for tool in prompt.tools)), "plain")]
        return
    names = min(max(len(tool.name) for tool in prompt.tools), 32)
    for tool in prompt.tools:
        description = (text.strip() for text in tool.description.splitlines())
        first_line = line(next(filter(None, description), "" if tool.type == "function" else tool.type))
        text = clipped(first_line, max(folding.room - names - 4, 20))
        yield [(f"{_INDENT}{line(tool.name):<{names}}  ", "plain"), (text, "muted")]


def _part(part: Part, names: Mapping[str, str], ids: bool, indent: str) -> Iterator[Line]:
    deeper = f"{indent}{_INDENT}"
    match part:
        case Text():
            yield from _text(part.text, "error" if part.kind == "refusal" else "plain", indent)
        case Reasoning():
            yield [(indent, "plain"), ("reasoning" + ", encrypted" * part.opaque, "muted")]
            yield from _text(part.text, "muted", deeper) if part.text else ()
        case ToolCall():
            yield [(indent, "plain"), (f"call {line(part.name)}", "strong"), (_id(part.id, ids), "muted")]
            yield from _text(pretty(part.arguments), "plain", deeper) if part.arguments else ()
        case ToolResult():
            name = part.name or names.get(part.id, "")
            heading = f"result{f' of {line(name)}' if name else ''}{', failed' * part.failed}"
            yield [(indent, "plain"), (heading, "error" if part.failed else "strong"), (_id(part.id, ids), "muted")]
            yield from parts_lines(part.content, names, ids=ids, indent=deeper)
        case Media():
            size = "" if part.size is None else counted(part.size, "byte")
            parts = (part.kind, line(part.media_type), size, line(part.name), line(part.source))
            yield [(indent, "plain"), (f"[{', '.join(filter(None, parts))}]", "accent")]
        case Other():
            yield [(indent, "plain"), (part.name or "JSON", "warning")]
            yield from _text(pretty(part.json) or "(nested too deeply)", "muted", deeper)


def _id(id: str, is_visible: bool) -> str:
    return f"  {line(id)}" if id and is_visible else ""


def _text(text: str, tone: Tone, indent: str) -> Iterator[Line]:
    return ([(indent, "plain"), (text_line, tone)] for text_line in text.removesuffix("\n").split("\n"))


def folded(lines: Iterable[Line], folding: Folding) -> Iterator[Line]:
    """Yield the first lines, and the number of the others."""
    if not folding.folds:
        yield from lines
        return
    remaining = list(lines)
    slack = 3  # lines that are shown rather than counted
    visible = remaining if len(remaining) <= _FOLDED_LINES + slack else remaining[:_FOLDED_LINES]
    for pieces in visible:
        text, tone = pieces[-1]
        yield [*pieces[:-1], (clipped(text, _FOLDED_CHARACTERS), tone)]
    if more := len(remaining) - len(visible):
        yield [(_INDENT, "plain"), (f"… {counted(more, 'more line')}: {folding.remedy}", "muted")]


def _first_lines(message: Message, names: Mapping[str, str]) -> Iterator[Line]:
    # Clients put their own notes into elements, such as <system-reminder>: what a person typed tells more.
    typed = [part for part in message.parts if not (isinstance(part, Text) and is_element(part.text))]
    for pieces in islice(parts_lines(typed or message.parts, names, ids=False), _FOLDED_LINES):
        yield [(text[:_FOLDED_CHARACTERS], tone) for text, tone in pieces]
