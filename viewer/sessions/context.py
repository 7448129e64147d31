"""Pure: the bytes of a request by source: the content of a model's context, and its new part.

Shares of the bytes estimate shares of the tokens: only the provider's tokenizer could tell those.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wiretape.recorder.decode.elements import Elements
from wiretape.recorder.decode.values import JsonObject

FIELDS: Final = ("source", "name", "bytes", "new")
"""The fields of a part."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """The bytes of one source and name; `is_new` if the predecessor lacked some of them, None if that is unknown."""

    source: str
    name: str | None
    size: int
    is_new: bool | None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A message with a tool's result: its place, digest and bytes."""

    name: str | None
    place: str
    digest: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Context:
    """The bytes of a request's body by source and name, the largest first; those of `new_size` are new."""

    size: int
    new_size: int | None
    parts: tuple[ContextPart, ...]
    results: tuple[ToolResult, ...] = ()
    """The results of tools, the largest first."""


def context(own: Elements, before: Elements | None, *, is_known: bool = True) -> Context:
    """Return the content of a request, compared with that of its predecessor, if it has one.

    Without `is_known` the predecessor is unknown, and so are the new bytes. Bytes of `other` are never new.
    """
    had = Counter(one.digest for one in before.elements) if before else Counter[bytes]()
    fresh = {id(one) for one in own.elements if not _taken(had, one.digest)}
    sizes, new = Counter[tuple[str, str | None]](), Counter[tuple[str, str | None]]()
    for element, share in own.parts():
        key = share.source, share.name
        sizes[key] += share.size
        if id(element) in fresh and share.source != "other":
            new[key] += share.size
    ranked = sorted(sizes.items(), key=lambda item: -item[1])
    parts = tuple(ContextPart(*key, size, new[key] > 0 if is_known else None) for key, size in ranked if size)
    return Context(own.size, sum(new.values()) if is_known else None, parts, (*_results(own),))


def record(found: Context) -> JsonObject:
    return {"bytes": found.size, "new_bytes": found.new_size, "parts": [*map(part, found.parts)]}


def part(one: ContextPart) -> JsonObject:
    return dict(zip(FIELDS, (one.source, one.name, one.size, one.is_new), strict=True))


def _taken(had: Counter[bytes], digest: bytes) -> bool:
    had[digest] -= 1
    return had[digest] >= 0


def _results(own: Elements) -> Iterator[ToolResult]:
    found = [
        ToolResult(share.name, one.place, one.digest, share.size)
        for one in own.elements
        for share in one.shares
        if share.source == "tool_results"
    ]
    return iter(sorted(found, key=lambda result: -result.size))
