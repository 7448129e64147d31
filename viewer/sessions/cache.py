"""Pure: why a generation read its prompt from the provider's cache, or did not: a verdict that the sent bytes prove.

A provider keeps the prefix of a prompt for a time, and reads it again for a request that begins with it. The prompt of
a generation is compared with that of its predecessor, element by element (`wiretape.recorder.decode.elements`).
"""

import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from wiretape.viewer.sessions.predecessors import Generation, Tie, ties

if TYPE_CHECKING:
    from wiretape.recorder.decode.elements import Prefix

Provider = Literal["anthropic", "openai", "gemini", "other"]

LEAST_TOKENS: Final = 1024
"""The least cacheable prompt of a model that `LEAST` does not list."""
LEAST: Final = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
        # platform.claude.com/docs/en/build-with-claude/prompt-caching, "Cache limitations"
        (r"(opus|fable|mythos)-5", 512),
        (r"opus-4-?\.?7", 2048),
        (r"opus-4-?\.?[56]|haiku-4-?\.?5", 4096),
        (r"claude-(3|3-5|3\.5)-haiku|haiku-3", 2048),
        # ai.google.dev/gemini-api/docs/caching, "Implicit caching"
        (r"gemini-2\.5", 2048),
        (r"gemini-[3-9]", 4096),
    )
)
"""The least cacheable prompt in tokens, by a part of the model's name; developers.openai.com/api/docs/guides/
prompt-caching has 1,024 for all of OpenAI's."""

TTL_S: Final[Mapping[Provider, int]] = {"anthropic": 300, "openai": 3600}
"""Seconds for which a provider keeps a prefix that is not read, if the request asks for no other time: the pages above;
of OpenAI's in-memory caches the longest. Others document none."""

_ENOUGH: Final = 0.8
_REPORTING: Final = ("anthropic", "openai")
"""The providers whose usage always names the tokens that a cache had."""
_WIDTH: Final = 8
_SERVICES: Final[Mapping[str, Provider]] = {
    "anthropic": "anthropic", "openai": "openai", "azure": "openai", "chatgpt": "openai", "gemini": "gemini",
    "codeassist": "gemini",
}  # fmt: skip
_CLOUDS: Final = ("bedrock", "vertex", "foundry")
"""Services with the models, or the APIs, of several providers."""
_DIALECTS: Final[Mapping[str, Provider]] = {
    "anthropic.messages": "anthropic", "openai.chat": "openai", "openai.responses": "openai", "gemini": "gemini",
    "gemini.interactions": "gemini",
}  # fmt: skip


class Prompted(NamedTuple):
    """A generation that has ended: its request's prompt, and the tokens of its usage.

    `start_ns` orders the requests of a session, `input` is the total of its input tokens, `cached` those of them that a
    cache had. `generation` has the same number.
    """

    generation: Generation
    prefix: "Prefix | None"
    start_ns: int
    succeeded: bool
    provider: Provider = "other"
    model: str | None = None
    input: int | None = None
    cached: int | None = None


class CacheFigures(NamedTuple):
    """The verdict about the cache of a generation; without a predecessor there is nothing to compare.

    `expected_tokens` are those that a read could have had: the predecessor's input tokens. `common_tokens` estimates
    how many of them are in front of the first difference, by the bytes. `idle_ns` is the time since the last request of
    the session that began with the same model, tools and system prompt, from start to start.
    """

    verdict: str | None = None
    broken_at: str | None = None
    expected_tokens: int | None = None
    idle_ns: int | None = None
    common_tokens: int | None = None


NONE: Final = CacheFigures()


class Break(NamedTuple):
    """The first place where a prompt differs from its predecessor's, and the number of elements in front of it."""

    place: str
    equal: int


def provider_of(service: str | None, api: str | None, model: str | None) -> Provider:
    """Return the provider: by the service that its host is known for, or else by the API of its answers."""
    if service is not None and service not in _CLOUDS:
        return _SERVICES.get(service, "other")
    if api is not None and api.startswith("bedrock."):
        return "anthropic" if "claude" in (model or "") else "other"
    return _DIALECTS.get(api or "", "other")


def least_tokens(model: str | None) -> int:
    """Return the least cacheable prompt of a model, in tokens."""
    return next((tokens for pattern, tokens in LEAST if pattern.search((model or "").lower())), LEAST_TOKENS)


def figures(session: Iterable[Prompted], followed: Mapping[int, Tie] | None = None) -> dict[int, CacheFigures]:
    """Return the figures of each generation of one session that ended in success, by its number.

    `followed` are the ties of all its generations, if they are known already.
    """
    each = list(session)
    followed = followed or ties(one.generation for one in each)
    before: dict[int, Prompted] = {}
    heads: dict[bytes, int] = {}
    found: dict[int, CacheFigures] = {}
    for one in each:
        no, head = one.generation.no, one.prefix.head if one.prefix else b""
        if one.succeeded:
            tie = followed[no]
            idle_ns = max(one.start_ns - heads[head], 0) if head in heads else None
            found[no] = _figures(one, tie, None if tie.predecessor is None else before.get(tie.predecessor), idle_ns)
        before[no] = one
        if head and not one.generation.failed:
            heads[head] = one.start_ns
    return found


def _figures(one: Prompted, tie: Tie, before: Prompted | None, idle_ns: int | None) -> CacheFigures:
    if one.prefix is None or not tie.is_known or (before is not None and before.prefix is None):
        return CacheFigures("unknown")
    is_reported = one.cached is not None or one.provider not in _REPORTING
    if before is None or before.prefix is None:
        return CacheFigures("first" if is_reported else "unreported", idle_ns=idle_ns)
    is_named = one.generation.named is not None
    broken = first_difference(before.prefix, one.prefix, is_named=is_named)
    verdict = "prefix_changed" if broken else _unbroken(one, before, idle_ns)
    return CacheFigures(
        verdict if is_reported else "unreported",
        broken.place if broken else None,
        before.input,
        idle_ns,
        _common_tokens(before, broken, is_named=is_named or before.generation.named is not None),
    )


def _unbroken(one: Prompted, before: Prompted, idle_ns: int | None) -> str:
    """Return the verdict for a prompt that begins with its predecessor's."""
    cached = 0 if one.cached is None and one.provider == "gemini" else one.cached  # Gemini leaves out a count of 0
    if cached is None:
        return "unreported"
    if before.input is None:
        return "unknown"
    if cached:
        return "hit" if cached >= _ENOUGH * before.input else "partial"
    if before.input < least_tokens(one.model):
        return "too_short"
    marked = [asked.prefix.is_marked for asked in (before, one) if asked.prefix]
    if one.provider == "anthropic" and not any(marked):
        return "unmarked"
    asked_s = [asked.prefix.ttl_s for asked in (before, one) if asked.prefix and asked.prefix.ttl_s is not None]
    ttl_s = asked_s[0] if asked_s else TTL_S.get(one.provider)
    if ttl_s is not None and one.provider in TTL_S and idle_ns is not None and idle_ns > ttl_s * 1_000_000_000:
        return "expired"
    return "provider"


def _common_tokens(before: Prompted, broken: Break | None, *, is_named: bool) -> int | None:
    if before.input is None or before.prefix is None or broken is None:
        return before.input
    if is_named:  # the request has only a part of its prompt: the bytes of the others are unknown
        return None
    sizes = before.prefix.lengths()
    total = sum(sizes)
    return round(before.input * sum(sizes[: broken.equal]) / total) if total else None


def first_difference(before: "Prefix", after: "Prefix", *, is_named: bool = False) -> Break | None:
    """Return the first place where a prompt differs from one that it should begin with; None if it begins so.

    `is_named`: the messages of the earlier one stand in front of the later one's on the server; compared is the
    remainder.
    """
    heads = [_heads(before), _heads(after)]
    if heads[0] == heads[1] and not is_named and after.digests.startswith(before.digests):
        return None
    equal = 0
    for key in _merged([*heads[0]], [*heads[1]]):
        count, digests = heads[0].get(key, (0, b""))
        new_count, new_digests = heads[1].get(key, (0, b""))
        same = _same(digests, new_digests)
        if len(digests) != len(new_digests) or same < len(digests) // _WIDTH:
            is_list = any(count is not None and one for count, one in ((count, digests), (new_count, new_digests)))
            return Break(f"{key}[{same}]" if is_list else key, equal + same)
        equal += same
    if is_named:
        return None
    messages = [one.digests[_WIDTH * one.first :] for one in (before, after)]
    same = _same(*messages)
    if same == len(messages[0]) // _WIDTH:
        return None
    return Break(_place(after, same) or _place(before, same) or "messages", equal + same)


def _heads(prefix: "Prefix") -> dict[str, tuple[int | None, bytes]]:
    """Return the digests in front of the messages by their key, with the number of items of a list."""
    found: dict[str, tuple[int | None, bytes]] = {}
    at = 0
    for key, count in prefix.places:
        if at >= prefix.first:
            break
        until = at + (1 if count is None else count)
        found[key] = count, prefix.digests[_WIDTH * at : _WIDTH * until]
        at = until
    return found


def _merged(before: list[str], after: list[str]) -> list[str]:
    """Return the keys of two prompts in their order."""
    merged = list(after)
    for at, key in enumerate(before):
        if key not in merged:
            merged.insert(merged.index(before[at - 1]) + 1 if at else 0, key)
    return merged


def _same(a: bytes, b: bytes) -> int:
    """Return the length of the common beginning, in digests."""
    pairs = ((a[at : at + _WIDTH], b[at : at + _WIDTH]) for at in range(0, min(len(a), len(b)), _WIDTH))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _place(prefix: "Prefix", message: int) -> str | None:
    """Return the place of a message by its number."""
    at, element = 0, prefix.first + message
    for key, count in prefix.places:
        until = at + (1 if count is None else count)
        if at <= element < until:
            return key if count is None else f"{key}[{element - at}]"
        at = until
    return None
