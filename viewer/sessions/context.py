"""Pure: the bytes of a request by source: the content of a model's context, and its new part.

Shares of the bytes estimate shares of the tokens: only the provider's tokenizer could tell those.
"""

from collections import Counter
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
class SentToolResult:
    """A message with a tool's result: its place, digest and bytes."""

    name: str | None
    place: str
    digest: bytes
    size: int


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The bytes of a request's body by source and name, the largest first; those of `new_size` are new."""

    size: int
    new_size: int | None
    parts: tuple[ContextPart, ...]
    results: tuple[SentToolResult, ...] = ()
    """The results of tools, the largest first."""


def context(sent: Elements, previous: Elements | None, *, is_known: bool = True) -> RequestContext:
    """Return the content of a request, compared with that of its predecessor, if it has one.

    Without `is_known` the predecessor is unknown, and so are the new bytes. Bytes of `other` are never new.
    """
    earlier_digests = Counter(element.digest for element in previous.elements) if previous else Counter[bytes]()
    new_elements = set[int]()
    for candidate in sent.elements:  # of two equal ones, the second is new if the predecessor had one
        earlier_digests[candidate.digest] -= 1
        if earlier_digests[candidate.digest] < 0:
            new_elements.add(id(candidate))
    sizes, new_sizes = Counter[tuple[str, str | None]](), Counter[tuple[str, str | None]]()
    for element, share in sent.parts():
        key = share.source, share.name
        sizes[key] += share.size
        if id(element) in new_elements and share.source != "other":
            new_sizes[key] += share.size
    ranked = sorted(sizes.items(), key=lambda item: -item[1])
    parts = tuple(ContextPart(*key, size, new_sizes[key] > 0 if is_known else None) for key, size in ranked if size)
    results = [
        SentToolResult(share.name, element.place, element.digest, share.size)
        for element in sent.elements
        for share in element.shares
        if share.source == "tool_results"
    ]
    results.sort(key=lambda result: -result.size)
    return RequestContext(sent.size, sum(new_sizes.values()) if is_known else None, parts, tuple(results))


def record(context: RequestContext) -> JsonObject:
    return {"bytes": context.size, "new_bytes": context.new_size, "parts": [*map(part, context.parts)]}


def part(item: ContextPart) -> JsonObject:
    return dict(zip(FIELDS, (item.source, item.name, item.size, item.is_new), strict=True))
