"""The body of a request as the elements of its prompt, in the order in which the provider builds its prefix.

An element has its place in the body (`tools[3]`), a digest, and its bytes by source; all other bytes of the body
(brackets, separators, other parameters) are `other`, so that the sources add up to the body's length. Two elements with
one digest were sent as the same content: marks of caches, spaces between values, the two ways of writing a single text
(as a string, or as a list with one text), and of a message of the Responses API (a string alone, with its type or
without) make no difference. A body that is no JSON object has no elements.
"""

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from wiretape.recorder.decode import request
from wiretape.recorder.decode.allowance import may_be_parsed
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.decode.prompt import CACHE_POINTS, SYSTEM
from wiretape.recorder.decode.values import JsonObject, text

SOURCES: Final = ("system", "tools", "user", "assistant", "tool_results", "images", "documents", "other")
"""Sources of a request's bytes; images and documents do not count as part of their messages."""

PROMPTED: Final = (*GENERATIONS, "count_tokens")
"""The operations whose requests hold a prompt."""

_ANTHROPIC: Final = ("model", "tools", "system", "tool_choice", "thinking")
_CHAT: Final = ("model", "response_format", "tools", "system", "reasoning_effort")
_RESPONSES: Final = ("model", "text", "tools", "system", "reasoning")
_GEMINI: Final = ("model", "system", "tools")
_PLAIN: Final = ("model", "tools", "system")
ORDERS: Final[Mapping[str, tuple[str, ...]]] = {
    # platform.claude.com/docs/en/build-with-claude/prompt-caching, "What invalidates the cache": the order is tools,
    # system, messages; a change of tool_choice or of thinking invalidates the messages alone.
    "anthropic.messages": _ANTHROPIC,
    "bedrock.invoke": _ANTHROPIC,
    # developers.openai.com/api/docs/guides/prompt-caching: the schema of structured outputs is a prefix of the
    # system message, and tools stand before the messages. The effort of reasoning is part of the system
    # message (developers.openai.com/cookbook/articles/openai-harmony). tool_choice is no part of the prompt.
    "openai.chat": _CHAT,
    "openai.responses": _RESPONSES,
    # ai.google.dev/gemini-api/docs/caching: implicit caching matches a common prefix; no parameter is documented.
    "gemini": _GEMINI,
    "gemini.interactions": _GEMINI,
}
"""Order of the elements before the messages by API: model, tools, system prompt, and the parameters whose change
invalidates the cached prefix behind them."""

_LISTS: Final = {"tools": ("tools", ("tools", "functions")), "system": ("system", request.SYSTEM_KEYS)}
"""The source and the keys of the two kinds of lists before the messages."""
_NO_KEYS: Final[frozenset[str]] = frozenset()
_OTHER_KEYS: Final = {kind: frozenset(keys) for kind, (_, keys) in _LISTS.items()}
_ROLE_SOURCES: Final = {
    "user": "user", "assistant": "assistant", "tool": "tool_results", **dict.fromkeys(SYSTEM, "system"),
}  # fmt: skip
_RESULT_KEYS: Final = frozenset({"toolResult", "functionResponse", "function_response"})
_CALL_KEYS: Final = ("function", "custom", "toolUse", "functionCall", "function_call")
_CALL_IDS: Final = ("id", "call_id", "toolUseId")
_HOLDERS: Final = ("content", "parts", "toolResult", "output", "images")
"""The keys of a message or a part whose values hold parts."""
_OF_AUTHOR: Final = ("text", "tool_use", "thinking", "input_text", "output_text", "refusal")
"""Types of parts that are their author's, and hold no others."""
_PLAIN_TEXTS: Final = ("text", "input_text", "output_text")
_MARK: Final = "cache_control"
_MARKS: Final = b'"cache'
"""Common beginning of all marks of caches: a body without it has none."""
_TTL: Final = re.compile("([0-9]{1,6})([smh])")
_DIGEST_BYTES: Final = 8
_ATTRIBUTION: Final = re.compile(r"x-anthropic-billing-header:[^\n]*\n?")
"""The text in front of Claude Code's system prompt: its version, and a checksum of each request. Anthropic's own hosts
take it off before they build a prompt; any other server reads it as the beginning of one."""
_DEEPEST: Final = 3
_BOM: Final = b"\xef\xbb\xbf"
_ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

_decode_body = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_sha256 = hashlib.sha256


_Home = tuple[str, str | None]
"""A source, and the name of a tool."""


class Share(NamedTuple):
    """Bytes of one source; `name` is a tool's, None if it is unknown or the source has no names."""

    source: str
    name: str | None
    size: int


class Element(NamedTuple):
    """An element of a prompt: `at` is its position in a list of the body, None if it is no item of one.

    `key` is the body's, as `tools` or `parameters.thinking`; `role` is that of a message, "" of anything else.
    `is_attribution`: a block of the system prompt with nothing but attribution, or a system message beginning with it.
    """

    key: str
    at: int | None
    digest: bytes
    shares: tuple[Share, ...]
    role: str = ""
    is_attribution: bool = False

    @property
    def place(self) -> str:
        """The place in the body, as `tools[3]`."""
        return self.key if self.at is None else f"{self.key}[{self.at}]"

    @property
    def size(self) -> int:
        """The length of its JSON."""
        return self.shares[0].size if len(self.shares) == 1 else sum(share.size for share in self.shares)


class Prefix(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The elements of a prompt as the tape has them: places, digests of 8 bytes, lengths (little-endian uint32).

    `places` are the keys with their numbers of items, None for a key that is no list; messages begin at element
    `first`, those of the system among them are `system`. `head` is the digest of the model, the tools and the system
    prompt in front of all messages. `is_marked`: the request marks parts to cache; `ttl_s` is the shortest time for
    which it asks to keep them. `attribution` are the elements that identify the client, and change with each request:
    they are no part of `head`.
    """

    places: list[tuple[str, int | None]]
    digests: bytes
    sizes: bytes
    first: int
    system: list[int]
    head: bytes
    by_model: bool
    is_marked: bool
    ttl_s: int | None
    attribution: list[int] = []

    @property
    def messages(self) -> bytes:
        """The digests of the messages, without those of the system."""
        if not self.system:
            return self.digests[_DIGEST_BYTES * self.first :]
        count, left_out = len(self.digests) // _DIGEST_BYTES, {*self.system}
        return b"".join(self.digest(at) for at in range(self.first, count) if at not in left_out)

    @property
    def leading(self) -> bytes:
        """The digests of the model, the tools, the parameters and the system prompt, without attribution."""
        until = self.first
        while until in self.system:
            until += 1
        if not self.attribution:
            return self.digests[: _DIGEST_BYTES * until]
        return b"".join(self.digest(at) for at in range(until) if at not in self.attribution)

    def digest(self, element: int) -> bytes:
        return self.digests[_DIGEST_BYTES * element : _DIGEST_BYTES * (element + 1)]

    def digest_set(self) -> frozenset[bytes]:
        return frozenset(self.digest(at) for at in range(len(self.digests) // _DIGEST_BYTES))

    def lengths(self) -> "array[int]":
        return array("I", self.sizes)


packed = msgspec.msgpack.Encoder().encode
_unpacked = msgspec.msgpack.Decoder(Prefix).decode


def unpack(blob: bytes | None) -> Prefix | None:
    """Return the prefix that a tape has; None if there is none, or if it is damaged."""
    if not blob:
        return None
    try:
        prefix = _unpacked(blob)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    total = 0
    for _, count in prefix.places:
        total += 1 if count is None else max(count, 0)
    sizes = len(prefix.digests) == _DIGEST_BYTES * total and len(prefix.sizes) == 4 * total
    return prefix if sizes and 0 <= prefix.first <= total else None


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a request's body, and its length; `ttls_s` are the times for which it asks to keep a prefix."""

    elements: tuple[Element, ...]
    size: int
    is_marked: bool = False
    ttls_s: frozenset[int] = frozenset()

    def parts(self) -> Iterator[tuple[Element | None, Share]]:
        """Yield the bytes of each element by source, and then all other bytes of the body."""
        yield from ((element, share) for element in self.elements for share in element.shares)
        yield None, Share("other", None, self.size - sum(element.size for element in self.elements))

    def by_source(self) -> dict[str, int]:
        """Return the bytes of each source: they add up to the body's length."""
        sizes = dict.fromkeys(SOURCES, 0)
        for element in self.elements:
            for source, _, size in element.shares:
                sizes[source] += size
        sizes["other"] += self.size - sum(sizes.values())
        return sizes

    def pack(self) -> bytes | None:
        """Return the elements as the tape keeps them; None without a message."""
        first_message = next((at for at, element in enumerate(self.elements) if element.role), None)
        if first_message is None:
            return None
        places: list[tuple[str, int | None]] = []
        system, attribution, head = list[int](), list[int](), list[bytes]()
        is_leading, by_model = True, False
        for at, (key, index, digest, _, role, is_attribution) in enumerate(self.elements):
            if places and index is not None and places[-1][0] == key:
                places[-1] = (key, index + 1)
            else:
                places.append((key, None if index is None else 1))
            if at >= first_message:
                by_model = by_model or role == "assistant"
                if role in SYSTEM:
                    system.append(at)
                else:
                    is_leading = False
            if is_attribution:
                attribution.append(at)
            elif is_leading and not key.startswith("parameters."):
                head.append(digest)
        return packed(
            Prefix(
                places=places,
                digests=b"".join([element.digest for element in self.elements]),
                sizes=array("I", [element.size for element in self.elements]).tobytes(),
                first=first_message,
                system=system,
                head=joined(head),
                by_model=by_model,
                is_marked=self.is_marked,
                ttl_s=min(self.ttls_s, default=None),
                attribution=attribution,
            )
        )


def elements(body: bytes, api: str | None = None, model: str | None = None, parsed: object = None) -> Elements | None:
    """Read a body without its content encoding; None if it is not one JSON object, or too long to tell.

    `model` is that of the request where the body names none, as in a path; `parsed` is the value of the body, if known.
    """
    if not may_be_parsed(body):
        return None
    plain = body.removeprefix(_BOM)
    try:
        return _Reader(plain, parsed if isinstance(parsed, dict) else _parsed(plain), api, model).read(len(body))
    except _UNREADABLE:
        pass
    try:  # as long as before: lone surrogates, which programs that cut a text send, become private characters
        plain = _ESCAPES.sub(
            lambda match: match[0] if match[1] is None else b"\\u%04x" % (int(match[1], 16) + 0x800), plain
        )
        return _Reader(plain, _parsed(plain), api, model).read(len(body))
    except _UNREADABLE:
        return None


def measures_of(prompt: Elements | None) -> JsonObject:
    """Return the fields of `Measures` about the elements of a request."""
    if prompt is None:
        return {}
    sizes = {f"context_{source}_bytes": size for source, size in prompt.by_source().items()}
    return sizes | {"prompt_elements": prompt.pack()}


class _UnreadableError(Exception):
    """A body is no JSON object that can be taken apart."""


_UNREADABLE: Final = (_UnreadableError, msgspec.DecodeError, UnicodeError)


def _parsed(body: bytes) -> JsonObject:
    try:
        value = _decode_body(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _UnreadableError from error
    if not isinstance(value, dict):
        raise _UnreadableError
    return value


@dataclass(slots=True)
class _Reader:
    """Takes a body apart: `fields` are its values, `raw` the same values as they were written."""

    body: bytes
    fields: JsonObject
    api: str | None
    model: str | None
    raw: dict[str, msgspec.Raw] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The names of the called tools by the ids of the calls."""
    ttls_s: set[int] = field(default_factory=set)
    is_marked: bool = False

    def read(self, length: int) -> Elements | None:
        self.raw = _decode_object(self.body)
        self._unwrap()
        may_have_marks = _MARKS in self.body
        if may_have_marks and _MARK in self.fields:
            self._note_mark(self.fields[_MARK])
        elements: list[Element] = []
        for kind in self._order():
            if kind == "model" or kind in self.fields or not _OTHER_KEYS.get(kind, _NO_KEYS).isdisjoint(self.fields):
                elements += self._leading(kind, may_have_marks)
        for key in request.MESSAGES:
            if key in self.fields:
                elements += self._messages(key, may_have_marks)
                if len(elements) > request.MOST_MESSAGES:
                    return None
        if (retention_s := _seconds(self.fields.get("prompt_cache_retention"))) is not None:
            self.ttls_s.add(retention_s)
        return Elements(tuple(elements), length, self.is_marked, frozenset(self.ttls_s))

    def _unwrap(self) -> None:
        """Replace the envelope of some APIs by its fields."""
        for key in request.ENVELOPES:
            inner = self.fields.get(key)
            if isinstance(inner, dict) and not request.MESSAGES.keys().isdisjoint(inner):
                self.fields = {name: value for name, value in self.fields.items() if name != key} | inner
                self.raw |= _decode_object(self.raw[key])
                self._lift("parameters")
        self._lift("toolConfig")

    def _lift(self, key: str) -> None:
        """Move the tools of an object to the fields of the body."""
        holder = self.fields.get(key)
        if isinstance(holder, dict) and "tools" in holder and "tools" not in self.fields:
            self.fields = self.fields | {"tools": holder["tools"]}
            self.raw["tools"] = _decode_object(self.raw[key])["tools"]

    def _order(self) -> tuple[str, ...]:
        fields = self.fields
        if self.api is not None and self.api != "unknown":
            return ORDERS.get(self.api, _PLAIN)
        if "contents" in fields:
            return _GEMINI
        if "messages" in fields:
            return _ANTHROPIC if "system" in fields or "anthropic_version" in fields else _CHAT
        return _RESPONSES if "input" in fields else _PLAIN

    def _leading(self, kind: str, may_have_marks: bool) -> Iterator[Element]:
        """Yield the elements of one kind that stand before the messages."""
        fields = self.fields
        if kind == "model":
            if isinstance(name := fields.get("model") or self.model, str):
                size = len(self.raw["model"]) if fields.get("model") else 0
                yield Element("model", None, digest(name), (Share("other", None, size),))
        elif kind in _LISTS:
            source, keys = _LISTS[kind]
            for key in keys:
                if isinstance(fields.get(key), list):
                    yield from self._items(key, source, may_have_marks)
                elif fields.get(key):
                    yield self._single(key, key, source)
        elif fields.get(kind) is not None:
            yield self._single(kind, f"parameters.{kind}", "other")

    def _single(self, key: str, place: str, source: str) -> Element:
        return Element(place, None, digest(self.fields[key]), (Share(source, None, len(self.raw[key])),))

    def _items(self, key: str, source: str, may_have_marks: bool) -> Iterator[Element]:
        index = 0
        for value, raw in zip(self.fields[key], _decode_list(self.raw[key]), strict=True):
            if _is_cache_point(value):
                self._note_mark(value)
                continue
            shares = _tools(value, raw) if source == "tools" else (Share(source, None, len(raw)),)
            text_block = value.get("text") if isinstance(value, dict) else value
            is_attribution = (
                source == "system" and isinstance(text_block, str) and bool(_ATTRIBUTION.fullmatch(text_block))
            )
            yield Element(key, index, self._digest(value, raw, may_have_marks), shares, is_attribution=is_attribution)
            index += 1

    def _messages(self, key: str, may_have_marks: bool) -> Iterator[Element]:
        value = self.fields[key]
        if request.is_reference(value):
            return
        is_list = isinstance(value, list) and not (value and type(value[0]) is int)
        raws = _decode_list(self.raw[key]) if is_list else [self.raw[key]]
        if len(raws) > request.MOST_MESSAGES:
            raise _UnreadableError
        for index, (item, raw) in enumerate(zip(value if is_list else [value], raws, strict=True)):
            role = _role(item)
            if role == "assistant":
                self.names.update(_calls(item))
            shares = self._shares(item, raw, role)
            message = {"role": "user", "content": item} if key == "input" and isinstance(item, str) else item
            at = index if is_list else None
            is_attribution = False
            if role in SYSTEM and isinstance(item, dict):
                content = item.get("content")
                block = content[0] if isinstance(content, list) and content else content
                opening = block.get("text") if isinstance(block, dict) else block
                is_attribution = isinstance(opening, str) and _ATTRIBUTION.match(opening) is not None
            yield Element(key, at, self._digest(message, raw, may_have_marks), shares, role, is_attribution)

    def _digest(self, value: object, raw: msgspec.Raw, may_have_marks: bool) -> bytes:
        if may_have_marks and _MARKS in bytes(raw):
            value = self._unmarked(value, _DEEPEST)
        try:
            return digest(value)
        except UnicodeEncodeError as error:
            raise _UnreadableError from error
        except (msgspec.EncodeError, OverflowError, ValueError, RecursionError):  # a number of many digits
            return _sha256(raw).digest()[:_DIGEST_BYTES]

    def _unmarked(self, value: object, depth: int) -> object:
        """Return a value without marks of caches, and note these."""
        if isinstance(value, list):
            for item in value:
                if _is_cache_point(item):
                    self._note_mark(item)
            return [self._unmarked(item, depth) for item in value if not _is_cache_point(item)]
        if not isinstance(value, dict) or not depth:
            return value
        if _MARK in value:
            self._note_mark(value[_MARK])
            value = {key: item for key, item in value.items() if key != _MARK}
        inner = {
            key: self._unmarked(value[key], depth - 1) for key in ("content", "parts", "toolResult") if key in value
        }
        return {**value, **inner} if inner else value

    def _note_mark(self, mark: object) -> None:
        """Note a mark, and the time for which it asks to keep a prefix."""
        if not isinstance(mark, dict):
            return
        point = next((mark[key] for key in CACHE_POINTS if isinstance(mark.get(key), dict)), mark)
        self.is_marked = True
        ttl = _seconds(point.get("ttl")) if "ttl" in point else 300  # Anthropic's default: five minutes
        if ttl is not None:
            self.ttls_s.add(ttl)

    def _shares(self, item: object, raw: msgspec.Raw, role: str) -> tuple[Share, ...]:
        """Return the bytes of a message by source: those of its parts, and all other ones as those of its author."""
        source, size = _ROLE_SOURCES.get(role, "other"), len(raw)
        if not isinstance(item, dict):
            return (Share(source, None, size),)
        home: _Home = (source, self._result_name(item) if source == "tool_results" else None)
        if "role" not in item:
            home = ("tools", None) if item.get("type") == "additional_tools" else self._part(item) or home
        content = item.get("content")
        if isinstance(content, list):
            kinds = [self._part(part) if isinstance(part, dict) else None for part in content]
            if kinds and None not in kinds and len({kind and kind[0] for kind in kinds}) == 1:
                home = kinds[0] or home  # a message of tool results alone is theirs
        if self._is_all(item, home, _DEEPEST):
            return (Share(*home, size),)
        return tuple(Share(*key, count) for key, count in self._split(item, raw, home, _DEEPEST).items())

    def _is_all(self, item: JsonObject, home: _Home, depth: int) -> bool:
        """Return True if all bytes of a message or a part are of one source."""
        for key in _HOLDERS:
            if key in item and isinstance(value := item[key], list | dict):
                for part in value if isinstance(value, list) else (value,):
                    if key == "images":
                        return False
                    if isinstance(part, dict) and part.get("type") not in _OF_AUTHOR:
                        kind = self._part(part)
                        if kind not in (None, home) or (depth and not self._is_all(part, home, depth - 1)):
                            return False
        return True

    def _split(self, item: JsonObject, raw: msgspec.Raw, home: _Home, depth: int) -> dict[_Home, int]:
        """Return the bytes of a message or a part by source and name."""
        sizes: dict[_Home, int] = {}
        if not depth or self._is_all(item, home, depth):
            return {home: len(raw)}
        fields = _decode_object(raw)
        for key in _HOLDERS:
            if isinstance(value := item.get(key), list | dict):
                is_list = isinstance(value, list)
                raws = _decode_list(fields[key]) if is_list else [fields[key]]
                for part, part_raw in zip(value if is_list else [value], raws, strict=True):
                    part_home = ("images", None) if key == "images" else home
                    parts = {part_home: len(part_raw)}
                    if isinstance(part, dict):
                        parts = self._split(part, part_raw, self._part(part) or part_home, depth - 1)
                    for source, count in parts.items():
                        sizes[source] = sizes.get(source, 0) + count
        sizes[home] = sizes.get(home, 0) + len(raw) - sum(sizes.values())
        return sizes

    def _part(self, part: JsonObject) -> _Home | None:
        """Return the source of a part that has one of its own, and a tool's name."""
        kind = part.get("type")
        if kind in _OF_AUTHOR:
            return None
        if request.is_result(text(kind)) or not _RESULT_KEYS.isdisjoint(part):
            return "tool_results", self._result_name(part)
        media = request.media_of(part)
        return {"image": ("images", None), "file": ("documents", None)}.get(media or "")

    def _result_name(self, item: JsonObject) -> str | None:
        """Return the name of the tool that a result is of, by the id of its call; None if it cannot be found."""
        inner = item
        if not _RESULT_KEYS.isdisjoint(item):
            for key in _RESULT_KEYS.intersection(item):
                inner = item[key] if isinstance(item[key], dict) else item
        for key in request.RESULT_IDS:
            if key in inner and (name := self.names.get(text(inner[key]))):
                return name
        return text(inner.get("name")) or text(inner.get("tool_name")) or None


def _is_cache_point(value: object) -> bool:
    return isinstance(value, dict) and any(key in value for key in CACHE_POINTS)


def _seconds(ttl: object) -> int | None:
    if ttl == "in_memory":
        return 3600
    match = _TTL.fullmatch(ttl) if isinstance(ttl, str) else None
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else None


def joined(digests: Iterable[bytes]) -> bytes:
    """Return one digest of several."""
    return _sha256(b"".join(digests)).digest()[:_DIGEST_BYTES]


def digest(value: object) -> bytes:
    """Return the digest of a parameter, a message or a block."""
    return _sha256(_encode(_normalized(value))).digest()[:_DIGEST_BYTES]


def _normalized(value: object) -> object:
    """Return a message or block with a single text as that text, however it is written."""
    if not isinstance(value, dict):
        return value
    content = value.get("content")
    if value.get("type") == "message" and "role" in value:  # an item of the Responses API may leave its type out
        value = {key: item for key, item in value.items() if key != "type"}
    if isinstance(content, list) and len(content) == 1 and (only := _only_text(content[0])) is not None:
        return {**value, "content": only}
    only = _only_text(value)
    return value if only is None else only


def _only_text(block: object) -> str | None:
    is_text = isinstance(block, dict) and len(block) == 2 and block.get("type") in _PLAIN_TEXTS
    content = block.get("text") if is_text else None  # type: ignore[attr-defined]
    return content if isinstance(content, str) else None


def _role(item: object) -> str:
    if not isinstance(item, dict):
        return "user"
    if "role" not in item and (kind := text(item.get("type"))):
        return request.role_of_item(kind)
    role = text(item.get("role")).lower() or "user"
    return request.ROLES.get(role, role)


def _calls(item: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the id and the name of each call in a message, or in an item that is one."""
    for call in (item, *_some(item.get("content")), *_some(item.get("tool_calls"))):
        if isinstance(call, dict) and call.get("type") not in _PLAIN_TEXTS:
            inner = next((call[key] for key in _CALL_KEYS if key in call and isinstance(call[key], dict)), call)
            if name := text(inner.get("name")):
                yield from (
                    (id, name) for key in _CALL_IDS for holder in (call, inner) if (id := text(holder.get(key)))
                )


def _some(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tools(value: object, raw: msgspec.Raw) -> tuple[Share, ...]:
    """Return the bytes of an entry of the tools: of each function in it, if it is a list of them."""
    size = len(raw)
    if not isinstance(value, dict):
        return (Share("tools", None, size),)
    for key in ("functionDeclarations", "function_declarations"):
        if isinstance(value.get(key), list):
            sizes = map(len, _decode_list(_decode_object(raw)[key]))
            shares = [Share("tools", _tool_name(tool), count) for tool, count in zip(value[key], sizes, strict=True)]
            return (*shares, Share("tools", None, size - sum(share.size for share in shares)))
    return (Share("tools", _tool_name(value), size),)


def _tool_name(value: object) -> str | None:
    if not isinstance(value, dict):
        return None
    inner = next((value[key] for key in ("function", "custom", "toolSpec") if isinstance(value.get(key), dict)), value)
    return text(inner.get("name")) or text(value.get("type")) or None
