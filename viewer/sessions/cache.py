"""Pure: why a generation read its prompt from the provider's cache, or did not: a verdict that the sent bytes prove.

A provider keeps the prefix of a prompt for a time, and reads it again for a request that begins with it. The prompt of
a generation is compared with that of its predecessor, element by element (`wiretape.recorder.decode.elements`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from wiretape.viewer.sessions.predecessors import Generation, Tie, common, ties

if TYPE_CHECKING:
    from wiretape.recorder.decode.elements import Prefix
    from wiretape.viewer.record.fields import CacheVerdict

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

UNATTRIBUTED: Final = "CLAUDE_CODE_ATTRIBUTION_HEADER=0"
"""The setting of Claude Code that leaves its attribution out of the system prompt."""

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
    cache had. `generation` has the same number. `drops_attribution`: the upstream takes the client's attribution off
    before it builds the prompt.
    """

    generation: Generation
    prefix: "Prefix | None"
    start_ns: int
    succeeded: bool
    provider: Provider = "other"
    model: str | None = None
    input: int | None = None
    cached: int | None = None
    drops_attribution: bool = False


class CacheFigures(NamedTuple):
    """The verdict about the cache of a generation; without a predecessor there is nothing to compare.

    `expected_tokens` are those that a read could have had: the predecessor's input tokens. `common_tokens` estimates
    how many of them are in front of the first difference, by the bytes. `idle_ns` is the time since the last request of
    the session that began with the same model, tools and system prompt, from start to start. `remedy` is a setting of
    the client that keeps the difference at `broken_at` out of the prompt.
    """

    verdict: "CacheVerdict | None" = None
    broken_at: str | None = None
    expected_tokens: int | None = None
    idle_ns: int | None = None
    common_tokens: int | None = None
    remedy: str | None = None


NONE: Final = CacheFigures()


class Break(NamedTuple):
    """The first place where a prompt differs from its predecessor's, and that one's number of elements in front of it.

    `is_attribution`: what differs there identifies the client.
    """

    place: str
    equal: int
    is_attribution: bool = False


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


def figures(session: Iterable[Prompted], known_ties: Mapping[int, Tie] | None = None) -> dict[int, CacheFigures]:
    """Return the figures of each generation of one session that ended in success, by its number.

    `known_ties` are the ties of all its generations, if they are known already.
    """
    prompts = list(session)
    known_ties = known_ties or ties(prompt.generation for prompt in prompts)
    by_no: dict[int, Prompted] = {}
    heads: dict[bytes, int] = {}
    results: dict[int, CacheFigures] = {}
    for prompt in prompts:
        no, head = prompt.generation.no, prompt.prefix.head if prompt.prefix else b""
        if prompt.succeeded:
            tie = known_ties[no]
            # The wall clock may have been set back between two boots.
            idle_ns = max(prompt.start_ns - heads[head], 0) if head in heads else None
            previous = None if tie.predecessor is None else by_no.get(tie.predecessor)
            results[no] = _figures(prompt, tie, previous, idle_ns)
        by_no[no] = prompt
        # Any request with this beginning is read from the cache, and keeps it alive: also that of a sibling.
        if head and not prompt.generation.failed:
            heads[head] = prompt.start_ns
    return results


def _figures(prompt: Prompted, tie: Tie, previous: Prompted | None, idle_ns: int | None) -> CacheFigures:
    if prompt.prefix is None or not tie.is_known or (previous is not None and previous.prefix is None):
        return CacheFigures("unknown")
    # The providers whose usage always names the tokens that a cache had.
    reporting_providers = ("anthropic", "openai")
    is_reported = prompt.cached is not None or prompt.provider not in reporting_providers
    if previous is None or previous.prefix is None:
        return CacheFigures("first" if is_reported else "unreported", idle_ns=idle_ns)
    is_named = prompt.generation.named_response is not None
    broken = first_difference(
        previous.prefix, prompt.prefix, is_named=is_named, drops_attribution=prompt.drops_attribution
    )
    verdict = _judged(prompt, previous, idle_ns, is_broken=broken is not None) if is_reported else "unreported"
    return CacheFigures(
        verdict,
        broken.place if broken else None,
        previous.input,
        idle_ns,
        _common_tokens(previous, broken, is_named=is_named or previous.generation.named_response is not None),
        UNATTRIBUTED if broken and broken.is_attribution and verdict != "hit" else None,
    )


def _judged(prompt: Prompted, previous: Prompted, idle_ns: int | None, *, is_broken: bool) -> "CacheVerdict":
    """Return the verdict for a prompt with a predecessor: the provider's report decides before the bytes."""
    # Gemini leaves out a count of 0.
    cached = 0 if prompt.cached is None and prompt.provider == "gemini" else prompt.cached
    if cached and previous.input is not None:
        least_share = 0.8
        return "hit" if cached >= least_share * previous.input else "partial"
    if not cached and is_broken:
        return "prefix_changed"
    if cached is None:
        return "unreported"
    if previous.input is None:
        return "unknown"
    # It begins with its predecessor's prompt, and was in no cache.
    if previous.input < least_tokens(prompt.model):
        return "too_short"
    marked = [sent.prefix.is_marked for sent in (previous, prompt) if sent.prefix]
    if prompt.provider == "anthropic" and not any(marked):
        return "unmarked"
    # The predecessor has written the prefix: the time that it asked for counts first.
    asked_s = [sent.prefix.ttl_s for sent in (previous, prompt) if sent.prefix and sent.prefix.ttl_s is not None]
    ttl_s = asked_s[0] if asked_s else TTL_S.get(prompt.provider)
    if ttl_s is not None and prompt.provider in TTL_S and idle_ns is not None and idle_ns > ttl_s * 1_000_000_000:
        return "expired"
    return "provider"


def _common_tokens(previous: Prompted, broken: Break | None, *, is_named: bool) -> int | None:
    if previous.input is None or previous.prefix is None or broken is None:
        return previous.input
    if is_named:  # the request has only a part of its prompt: the bytes of the others are unknown
        return None
    sizes = previous.prefix.lengths()
    total = sum(sizes)
    return round(previous.input * sum(sizes[: broken.equal]) / total) if total else None


def first_difference(
    earlier: "Prefix", later: "Prefix", *, is_named: bool = False, drops_attribution: bool = False
) -> Break | None:
    """Return the first place where a prompt differs from one that it should begin with; None if it begins so.

    `is_named`: the messages of the earlier one stand in front of the later one's on the server; compared is the
    remainder. `drops_attribution`: blocks of attribution in front of the messages are not compared.
    """
    heads = [_heads(prefix, drops_attribution=drops_attribution) for prefix in (earlier, later)]
    # Nearly every prompt begins with all of its predecessor's.
    if heads[0] == heads[1] and not is_named and later.digests.startswith(earlier.digests):
        return None
    equal = 0
    no_items = _Items()
    # The elements in front of the messages, key by key: a key that one of the prompts lacks differs, too.
    for key in _merged([*heads[0]], [*heads[1]]):
        sides = [side.get(key, no_items) for side in heads]
        count = common(*(side.digests for side in sides))
        if len(sides[0].digests) != len(sides[1].digests) or _WIDTH * count < len(sides[0].digests):
            differing = [side for side in sides if count < len(side.items)]
            is_list = any(side.is_list and side.items for side in sides)
            return Break(
                f"{key}[{differing[-1].items[count]}]" if is_list else key,
                equal + (sides[0].items[count] if count < len(sides[0].items) else sides[0].size),
                any(side.items[count] in side.attribution for side in differing),
            )
        equal += sides[0].size
    if is_named:
        return None
    messages = [prefix.digests[_WIDTH * prefix.first :] for prefix in (earlier, later)]
    count = common(*messages)
    if _WIDTH * count == len(messages[0]):
        return None
    place = _place(later, count) or _place(earlier, count) or "messages"
    return Break(place, equal + count, any(prefix.first + count in prefix.attribution for prefix in (earlier, later)))


class _Items(NamedTuple):
    """The compared elements of one key in front of the messages: their positions in it, and their digests.

    `size` counts all elements of the key; `attribution` are the positions of those that identify the client.
    """

    is_list: bool = False
    size: int = 0
    items: Sequence[int] = ()
    digests: bytes = b""
    attribution: Sequence[int] = ()


def _heads(prefix: "Prefix", *, drops_attribution: bool) -> dict[str, _Items]:
    """Return the elements in front of the messages by their key."""
    heads: dict[str, _Items] = {}
    start = 0
    for key, count in prefix.places:
        if start >= prefix.first:
            break
        size = 1 if count is None else count
        attribution = [at - start for at in prefix.attribution if start <= at < start + size]
        items: Sequence[int] = range(size)
        digests = prefix.digests[_WIDTH * start : _WIDTH * (start + size)]
        if drops_attribution and attribution:
            items = [item for item in items if item not in attribution]
            digests = b"".join(prefix.digest(start + item) for item in items)
        heads[key] = _Items(count is not None, size, items, digests, attribution)
        start += size
    return heads


def _merged(earlier: list[str], later: list[str]) -> list[str]:
    """Return the keys of two prompts in their order."""
    merged = list(later)
    for at, key in enumerate(earlier):
        if key not in merged:
            merged.insert(merged.index(earlier[at - 1]) + 1 if at else 0, key)
    return merged


def _place(prefix: "Prefix", message: int) -> str | None:
    """Return the place of a message by its number."""
    at, element = 0, prefix.first + message
    for key, count in prefix.places:
        until = at + (1 if count is None else count)
        if at <= element < until:
            return key if count is None else f"{key}[{element - at}]"
        at = until
    return None
