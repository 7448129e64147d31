"""Pure: the fields of rows by their names, which `ls`, `show` and `export` share: a contract.

Times since T0 and durations are milliseconds (`_ms`). Fields stand in an order of meaning everywhere: when, who, what,
how long, how much, why; a new one that has no place there stands at the end.
"""

from typing import Final, Literal

from wiretape.recorder.decode.metrics import SHOWN
from wiretape.recorder.decode.turns import TURN_FIELDS


def field_name(tape_name: str) -> str:
    """Return the name of a field of the tape: milliseconds for nanoseconds."""
    return f"{tape_name.removesuffix('_ns')}_ms" if tape_name.endswith("_ns") else tape_name


_FIRST: Final = (
    "id", "started_at",
    "model", "request_model", "response_model", "upstream", "labels", "conversation",
    "method", "path", "operation", "api", "protocol", "rpc_method", "tool_name", "status", "outcome", "outcome_detail",
    "connect_ms", "ttfb_ms", "ttfc_ms", "ttft_ms", "ttfo_ms", "ttst_ms", "max_gap_ms", "max_silence_ms",
    "max_output_silence_ms", "first_output_silence_ms", "icl_p50_ms", "icl_p99_ms", "icl_max_ms", "tpot_ms",
    "latency_ms", "duration_ms",
    "input_tokens", "input_uncached_tokens", "cache_read_input_tokens", "cache_write_input_tokens",
    "cache_write_1h_input_tokens", "output_tokens", "reasoning_tokens", "total_tokens", "tps_user",
    "context_system_bytes", "context_tools_bytes", "context_user_bytes", "context_assistant_bytes",
    "context_tool_results_bytes", "context_images_bytes", "context_documents_bytes", "context_other_bytes",
    "output_chunks", "events", "reads", "coalesced_fraction", "bytes",
    "finish_reason", "error_code", "error_message", "flags", "connection_reused", "clock",
    "max_event_silence_ms", "ttf_event_ms", "first_silence_ms", "first_event_silence_ms",
    "server_queue_ms", "server_prefill_ms", "server_decode_ms", "server_total_ms", "network_ms", "server_times_from",
    "quota_requests_left", "quota_tokens_left", "quota_5h_percent", "quota_7d_percent", "trace_id",
    "upstream_name", "resent_from", "resent_no",
)  # fmt: skip

TEXT_FIELDS: Final = ("content", "reasoning", "refusal", "tool_calls")

CACHE: Final = (
    "cache_verdict", "cache_broken_at", "cache_expected_tokens", "cache_idle_ms", "cache_common_tokens", "cache_remedy",
)  # fmt: skip

CacheVerdict = Literal[
    "unknown", "unreported", "first", "hit", "partial", "prefix_changed", "too_short", "unmarked", "expired",
    "provider",
]  # fmt: skip

CACHE_VERDICTS: Final[dict[CacheVerdict, str]] = {
    "unknown": "the prompt of the request, or of its predecessor, is not on the tape, or not readable",
    "unreported": "usage does not say how many tokens a cache had",
    "first": "it has no predecessor whose prompt could have been read",
    "hit": "at least 80 % of the predecessor's input tokens were read from the cache",
    "partial": "fewer were read",
    "prefix_changed": "no read: the prompt does not begin with the predecessor's, but differs at cache_broken_at",
    "too_short": "the predecessor's prompt is below the least that the provider caches",
    "unmarked": "Anthropic: neither request marks anything with cache_control",
    "expired": "the last request with the same tools and system prompt is longer ago than the provider keeps a prefix",
    "provider": "the same prefix, in time, and still no read: the reason is the provider's own",
}
"""Every value of `cache_verdict`, and its meaning; the first that is true counts."""

DETAIL_FIELDS: Final = (
    "conversation_key_from", "continues", "asked", "response_id", "framing", "attributes",
    "dialect_version", "choices",
    "ttf_byte_ms", "ttf_content_ms", "thinking_ms", "tail_ms", "icl_mean_ms", "icl_p90_ms", "tpot_est_ms",
    "tpot_adj_ms", "usage", "cost", "currency", "e2e_tps", "tokens_per_chunk", "chunks", "comments", "gap_bytes",
    "cache_hit_rate", *CACHE, "ended_by", "ended_detail", "reset_code", "request_truncated", "clock_error_ms",
    "turn", "duplicate_of",
)  # fmt: skip

PAID: Final = ("cost", "currency", "cache_hit_rate")

WORKED_OUT: Final = ("conversation", "continues", *PAID, *CACHE, "turn", "duplicate_of")
"""Fields that are computed on request only: neither the tape nor a list has them by default."""

FIELDS: Final = _FIRST + tuple(
    name for name in map(field_name, SHOWN) if name not in {*_FIRST, *TEXT_FIELDS, *DETAIL_FIELDS}
)
"""The fields of an exchange: the contract. A derived value that is new stands at its end."""

SHIPPED: Final = tuple(name for name in FIELDS if name != "conversation")
"""The fields that a server has, too."""

HEADER_FIELDS: Final = ("request_headers", "response_headers", "response_trailers")
"""The fields of a `HeadersRow` as `show` prints them."""

GAP_PERCENTILES: Final = {"gap_p50_ms": 0.5, "gap_p90_ms": 0.9, "gap_p99_ms": 0.99}
"""Percentiles of the gaps between reads with output, for filters and sorting: computed on request."""

ACCOUNT_FIELDS: Final = (
    "wall_ms", "streaming_ms", "stalled_ms", "waiting_ms", "closing_ms", "failed_ms", "backoff_ms", "tools_ms",
    "idle_ms", "parallel_ms", "turns", "exchanges_max", "ttft_p50_ms", "clock_step",
)  # fmt: skip
"""The fields of a session's time account (`wiretape.viewer.sessions.account`) beside its counts of exchanges."""

CONVERSATION_FIELDS: Final = (
    "conversation", "id", "started_at", "last_at", "models", "argv0", "asked", *ACCOUNT_FIELDS, "duration_ms",
    "exchanges", "failed", "open", "input_tokens", "output_tokens", "cache_read_input_tokens", "cost", "currency",
)  # fmt: skip
"""The fields of a conversation with the account of its time."""

EVENT_FIELDS: Final = (
    "seq", "kind", "at_ms", "gap_ms", "read", "type", "id", "data", "start", "end", "delta", "sender",
)  # fmt: skip

READ_FIELDS: Final = ("seq", "at_ms", "relayed_ms", "start", "size")

SENT_READ_FIELDS: Final = (*READ_FIELDS, "sender")
"""Fields of the reads of both directions."""

TURN_ROW_FIELDS: Final = ("exchange_id", *map(field_name, TURN_FIELDS))
"""Fields of a turn over a WebSocket."""

CHUNK_FIELDS: Final = (
    "id", "seq", "at_ms", "gap_ms", "read", "event", "kinds", "output", "choice", "content", "reasoning", "refusal",
    "tool_name", "tool_arguments", "finish_reason", "output_tokens",
)  # fmt: skip
PART_FIELDS: Final = {
    "content": "content", "reasoning": "reasoning", "refusal": "refusal", "arguments": "tool_arguments",
}  # fmt: skip
"""Fields of a chunk's row by the parts of `wiretape.recorder.decode.templates`."""


def is_rounded(field: str) -> bool:
    """Return True if numbers of a field are to be rounded: milliseconds are already, and a cost is exact."""
    return not field.endswith("_ms") and not field.startswith("cost") and field not in {*READ_FIELDS, *CHUNK_FIELDS}


def stored_name(field: str) -> str:
    """Return the name under which the tape has a field: nanoseconds where the field has milliseconds."""
    return f"{field.removesuffix('_ms')}_ns" if field.endswith("_ms") else field
