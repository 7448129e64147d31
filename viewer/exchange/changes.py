"""Pure: changes between two requests: model, parameters, system prompt, tools, messages."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final, Literal, NamedTuple

from wiretape.recorder.decode.prompt import Message, Prompt, Tool
from wiretape.recorder.decode.request import SYSTEM_KEYS
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange.conversation import Folding, flattened, folded, parts_lines, tool_names
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.text import diff
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.formatting import line

FIELDS: Final = {
    "part": "model, parameter, system, tool or message",
    "name": "the name of a parameter or a tool, or the number and role of a message",
    "change": "changed, added, removed or moved; same: messages before, between or after others",
    "a": "its value in the first request",
    "b": "its value in the second request",
}
"""The fields of a comparison of two requests, and what each means."""

_Kind = Literal["same", "changed", "added", "removed", "moved"]
_SIGNS: Final[dict[_Kind, tuple[str, Tone]]] = {
    "same": ("=", "muted"), "changed": ("~", "warning"), "added": ("+", "success"), "removed": ("-", "error"),
    "moved": ("~", "warning"),
}  # fmt: skip
_CONTEXT: Final = 2
_NEAR: Final = 60


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One difference between two requests, or messages that are the same; the fields are those of `FIELDS`."""

    part: Literal["model", "parameter", "system", "tool", "message"]
    name: str
    change: _Kind
    a: str | None = None
    b: str | None = None


def changes(a: Prompt, b: Prompt) -> list[RequestDifference]:
    """Return the differences between two requests; ids of calls are ignored."""
    entries: list[RequestDifference] = []
    if a.model != b.model:
        entries.append(RequestDifference("model", "", "changed", a.model, b.model))
    entries += _field_changes("parameter", flattened(a.parameters), flattened(b.parameters))
    system = _message_text(Message("system", a.system)), _message_text(Message("system", b.system))
    if system[0] != system[1]:
        entries.append(
            RequestDifference(
                "system", "", _kind(*(text or None for text in system)), *(text or None for text in system)
            )
        )
    return [*entries, *_tools(a.tools, b.tools), *_messages(a, b)]


def differ(entries: Iterable[RequestDifference]) -> bool:
    return any(entry.change != "same" for entry in entries)


def first_at(entries: Iterable[RequestDifference], place: str) -> RequestDifference | None:
    """Return the first difference of the same kind as a place in a body, such as `tools[3]`."""
    key, _, name = place.partition("[")[0].partition(".")
    # The part of a request by the key of a place; any other key has messages.
    nouns = {
        "model": "model",
        "parameters": "parameter",
        "tools": "tool",
        "functions": "tool",
        **dict.fromkeys(SYSTEM_KEYS, "system"),
    }
    part = nouns.get(key, "message")
    changed = (entry for entry in entries if entry.part == part and entry.change != "same")
    return next((entry for entry in changed if part != "parameter" or entry.name.partition(".")[0] == name), None)


def lines(entries: Iterable[RequestDifference], folding: Folding) -> Iterator[Line]:
    """Yield the differences for people: of texts, the lines that differ with a little around them."""
    entries = list(entries)
    if not differ(entries):
        yield [("the requests are the same", "success")]
        return
    part = ""
    for entry in entries:
        if entry.part != part and entry.part in ("tool", "message"):
            yield []
            yield [(f"{entry.part}s", "strong")]
        part = entry.part
        sign, tone = _SIGNS[entry.change]
        yield from _headed(entry, [(f"{sign} ", tone)], folding)


def _headed(entry: RequestDifference, head: Line, folding: Folding) -> Iterator[Line]:
    title = line(f"{entry.part} {entry.name}".strip() if entry.part in ("model", "parameter", "system") else entry.name)
    tone: Tone = "muted" if entry.change == "same" else "plain"
    texts = [text for text in (entry.a, entry.b) if text is not None]
    if entry.change in ("same", "moved"):
        yield [*head, (f"{title}{': the same' if entry.change == 'same' else ': in another order'}", tone)]
    elif all(len(text) <= 200 and "\n" not in text for text in texts) and entry.part in ("model", "parameter"):
        sides = (
            clipped(line(text), max(folding.room // 2 - len(title), 20))
            for text in (entry.a, entry.b)
            if text is not None
        )
        yield [*head, (f"{title}  ", tone), (" → ".join(sides), tone)]
    else:
        yield [*head, (title, tone)]
        yield from folded(_difference(entry.a, entry.b, folding.folds), folding)


def _difference(a: str | None, b: str | None, is_short: bool) -> Iterator[Line]:
    """Yield the lines of a text that came or went, or those that differ between two with a little around them."""
    if a is None or b is None:
        sign, tone = _SIGNS["added" if a is None else "removed"]
        yield from ([(f"    {sign} ", tone), (text, "plain")] for text in (a or b or "").split("\n"))
        return
    edits = list(diff.edits(a, b))
    near = {at + by for at, edit in enumerate(edits) if edit.kind != "same" for by in range(-_CONTEXT, _CONTEXT + 1)}
    left_out = 0
    for at, edit in enumerate(edits):
        if at not in near:
            left_out += 1
            continue
        yield from _left_out(left_out)
        left_out = 0
        yield _edit_line(edit, is_short)
    yield from _left_out(left_out)


def _left_out(count: int) -> Iterator[Line]:
    if count:
        yield [("      ", "plain"), (f"… {counted(count, 'line')} the same", "muted")]


def _edit_line(edit: diff.Edit, is_short: bool) -> Line:
    if edit.kind == "same":
        return [("      ", "plain"), (edit.pieces[0][0], "muted")]
    sign, tone = _SIGNS[edit.kind]
    pieces: Line = [(f"    {sign} ", tone)]
    for text, differs in edit.pieces:
        # Of a long text between two differences, the ends tell where it is.
        is_cut = is_short and not differs and len(text) > 2 * _NEAR
        pieces.append((f"{text[:_NEAR]} … {text[-_NEAR:]}" if is_cut else text, tone if differs else "plain"))
    return pieces


def _field_changes(
    part: Literal["parameter", "tool"], a: Mapping[str, str], b: Mapping[str, str]
) -> Iterator[RequestDifference]:
    for name in dict.fromkeys(chain(a, b)):
        if a.get(name) != b.get(name):
            yield RequestDifference(part, name, _kind(a.get(name), b.get(name)), a.get(name), b.get(name))


def _kind(a: str | None, b: str | None) -> _Kind:
    return "added" if a is None else "removed" if b is None else "changed"


def _tools(a: Iterable[Tool], b: Iterable[Tool]) -> Iterator[RequestDifference]:
    earlier, later = ({tool.name: _definition(tool) for tool in tools} for tools in (a, b))
    yield from _field_changes("tool", earlier, later)
    if list(earlier) != list(later) and earlier.keys() == later.keys():
        yield RequestDifference("tool", "all tools", "moved", ", ".join(earlier), ", ".join(later))


def _definition(tool: Tool) -> str:
    try:
        # By sorted keys: another order of the same keys is no change of a tool.
        return json.dumps(json.loads(tool.definition), ensure_ascii=False, indent=2, sort_keys=True)
    except (ValueError, RecursionError):
        return tool.definition


class _ComparedMessage(NamedTuple):
    role: str
    text: str


def _messages(a: Prompt, b: Prompt) -> Iterator[RequestDifference]:
    sides = [
        [_ComparedMessage(message.role, _message_text(message, tool_names(prompt))) for message in prompt.messages]
        for prompt in (a, b)
    ]
    for kind, a_start, a_end, b_start, b_end in diff.opcodes(*sides):
        if kind == "equal":
            numbers = f"{a_start + 1}" if a_end == a_start + 1 else f"{a_start + 1}–{a_end}"
            b_place = "" if a_start == b_start else f" ({b_start + 1} on in B)"
            yield RequestDifference("message", f"{numbers}{b_place}", "same")
            continue
        pairs = zip_longest(range(a_start, a_end), range(b_start, b_end))
        for at, to in pairs:
            earlier, later = None if at is None else sides[0][at], None if to is None else sides[1][to]
            if earlier and later and earlier.role == later.role:
                number = str(at + 1) if at == to else f"{at + 1} → {to + 1}"
                yield RequestDifference("message", f"{number} {earlier.role}", "changed", earlier.text, later.text)
                continue
            if earlier:
                yield RequestDifference("message", f"{at + 1} {earlier.role}", "removed", earlier.text)
            if later:
                yield RequestDifference("message", f"{to + 1} {later.role}", "added", None, later.text)


def _message_text(message: Message, names: Mapping[str, str] | None = None) -> str:
    """Return a message as it is shown, but for the ids of calls."""
    # A server gives each call another id, also for the same request.
    return "\n".join("".join(text for text, _ in pieces)[2:] for pieces in parts_lines(message.parts, names, ids=False))
