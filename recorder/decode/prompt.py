"""The content of a request: the system prompt, tools and messages, in the same records for every API.

`request` reads them from a body. Roles are `system`, `developer`, `user`, `assistant` and `tool`, under any name in the
API; any other is kept verbatim. A part of an unknown kind is an `Other` with its JSON.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from wiretape.recorder.decode.values import JsonObject, compact

SYSTEM: Final = ("system", "developer")
"""The roles whose first messages are the system prompt."""
CACHE_POINTS: Final = ("cachePoint", "cache_point")
"""Types of parts that only mark the end of the cached prompt; other APIs mark it by a field."""

_texts_json = msgspec.json.Encoder().encode
"""Writes lists of texts with the same bytes as `compact`, in a tenth of the time, but rejects lone surrogates."""
_SHORT: Final = 2000
"""Length of a text, in characters, up to which its form takes less time than a search for it among the known ones."""
_MOST_KNOWN: Final = 8 << 20
"""Most bytes of canonical forms in memory; their messages take about as many again."""
_ELEMENT: Final = re.compile(r"\s*<([\w-]+)>.*</\1>\s*", re.DOTALL)
_LEADING: Final = re.compile(r"\s*<([\w-]+)(?:\s[^<>]*)?>.*?</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a message; `refusal` is a model's text instead of an answer."""

    text: str
    kind: Literal["text", "refusal"] = "text"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The reasoning of a model; `opaque` if the text, or a part of it, is encrypted."""

    text: str
    opaque: bool = False
    kind: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; `arguments` are as written: JSON, or free text for custom tools."""

    id: str
    name: str
    arguments: str
    kind: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class Media:
    """An image, audio, video or file: `size` is that of its bytes, if they are in the request, with their `digest`.

    `source` is the URL or the id of external data.
    """

    kind: Literal["image", "audio", "video", "file"]
    media_type: str = ""
    size: int | None = None
    name: str = ""
    source: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else: `name` is its type as written, `json` all of it, "" if it is nested too deeply to be written."""

    name: str
    json: str
    kind: Literal["other"] = "other"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool for the call of this id; `failed` if the request says so."""

    id: str
    name: str
    content: tuple["Part", ...]
    failed: bool = False
    kind: Literal["tool_result"] = "tool_result"


Part = Text | Reasoning | ToolCall | ToolResult | Media | Other


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or one item of the Responses API."""

    role: str
    parts: tuple[Part, ...]
    name: str = ""

    @property
    def by_model(self) -> bool:
        """True if a model wrote it."""
        return self.role == "assistant"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool offered to the model: `definition` is all of it as JSON, `type` as written ("function" if it is none)."""

    name: str
    description: str
    definition: str
    type: str = "function"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request: the first messages for the system are in `system`; `parameters` are all other fields, as written."""

    model: str = ""
    system: tuple[Part, ...] = ()
    tools: tuple[Tool, ...] = ()
    messages: tuple[Message, ...] = ()
    parameters: JsonObject = field(default_factory=dict)


def is_element(text: str) -> bool:
    """Return True if a text is one element of markup: such texts of a user were put there by a program."""
    return _ELEMENT.fullmatch(text) is not None


def without_elements(text: str) -> str:
    """Return a text without the elements of markup that it begins with; "" if there is nothing else."""
    at = 0
    while leading := _LEADING.match(text, at):
        at = leading.end()
    return text[at:].strip()


def canonical(message: Message) -> bytes:
    """Return a form of a message that is equal in later requests; b"" if nothing remains to compare.

    It omits parts that clients change or drop between two turns: ids, names, reasoning, cache points, white space
    around texts, and the division of a text into parts. The form of a message with reasoning only is b"": skip it.
    """
    if len(message.parts) == 1 and type(part := message.parts[0]) is Text and len(part.text) <= _SHORT:
        words = part.text.split()
        return _joined((message.role, f"text {' '.join(words)}")) if words else b""
    return _FORMS.of(message)


class _Forms:
    """Canonical forms of earlier messages, within a limit of bytes: each request of a session repeats nearly all."""

    def __init__(self) -> None:
        self._forms: dict[Message, bytes] = {}
        self._size = 0

    def of(self, message: Message) -> bytes:
        form = self._forms.get(message)
        if form is None:
            texts = list(_comparable_texts(message.parts))
            form = _joined((message.role, *texts)) if texts else b""
            self._size += len(form)
            if self._size > _MOST_KNOWN:
                self._forms, self._size = {}, len(form)
            if len(form) <= _MOST_KNOWN:
                self._forms[message] = form
        return form


_FORMS: Final = _Forms()


def _comparable_texts(parts: Iterable[Part]) -> Iterator[str]:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif said := _comparable(part):
            yield from _text(texts)
            texts = []
            yield said
    yield from _text(texts)


def _text(texts: list[str]) -> Iterator[str]:
    # A boundary of parts may be white space, or nothing: it is no difference.
    if text := " ".join("\n".join(texts).split()):
        yield f"text {text}"


def _comparable(part: Part) -> str:
    match part:
        case ToolCall():
            return f"call {part.name} {_canonical_json(part.arguments)}"
        case ToolResult():
            return "result " + _joined(_comparable_texts(part.content)).decode("utf-8", "surrogatepass")
        case Media():
            return f"{part.kind} {part.digest or part.source or part.name}"
        case Other() if part.name not in CACHE_POINTS:
            return f"{part.name} {part.json}"
    return ""


def _canonical_json(text: str) -> str:
    """Return arguments in a form that does not depend on the writer of the JSON."""
    try:
        value = json.loads(text)
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text.strip()


def _joined(texts: Iterable[str]) -> bytes:
    text_list = list(texts)
    try:
        return _texts_json(text_list)
    except UnicodeEncodeError:
        return compact(text_list).encode("utf-8", "surrogatepass")
