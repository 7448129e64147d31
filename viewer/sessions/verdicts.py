"""Pure: the names of the verdicts about the provider's cache (`wiretape.viewer.sessions.cache`)."""

from typing import Final

VERDICTS: Final = {
    "unknown": "the prompt of the request, or of its predecessor, is not on the tape, or not readable",
    "unreported": "usage does not say how many tokens a cache had",
    "first": "it has no predecessor whose prompt could have been read",
    "prefix_changed": "the prompt does not begin with the predecessor's: cache_broken_at is the first difference",
    "hit": "at least 80 % of the predecessor's input tokens were read from the cache",
    "partial": "fewer were read",
    "too_short": "the predecessor's prompt is below the least that the provider caches",
    "unmarked": "Anthropic: neither request marks anything with cache_control",
    "expired": "the last request with the same tools and system prompt is longer ago than the provider keeps a prefix",
    "provider": "the same prefix, in time, and still no read: the reason is the provider's own",
}
"""Every verdict about the cache, and its meaning; the first that is true counts."""
