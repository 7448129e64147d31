"""The tape's tables as SELECTs read them: their columns, and expressions over them.

They are those of `wiretape.recorder.tape.schema`, without SQLAlchemy, and generated from it.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from wiretape.recorder.tape.cells import Cell, Type
from wiretape.recorder.tape.selects import Boolean, Column, Expression, FromClause, func, template, type_coerce

_TYPES: Final = {
    "N": "BigInteger", "I": "Integer", "F": "Float", "T": "Text", "B": "Boolean", "X": "LargeBinary", "J": "JSON",
}  # fmt: skip
"""The declared types of columns by the letters below; a key has none, and a small letter may be unknown."""

# fmt: off
# [[[cog
# from wiretape.recorder.tape import schema; cog.outl(schema.described())
# ]]]
_COLUMNS: Final = {
    "sessions": (
        "no: uuid:T version:T pid:I boot_id:t listen:T upstreams:J salt:X started_at:T heartbeat_at:T ended_at:t "
        "imported_from:t dialects:j "
    ),
    "exchanges": (
        "no: id:T session_no: started_at:T method:T path:T upstream:T upstream_name:t resent_from:t resent_no:i "
        "resent_in:t coarse_clock:B h2_offered:b rebuilt:b asks_identity:b boot_ns:n connected_ns:n sent_ns:n "
        "connection_reused:b clock:t protocol:t status:i framing:t headers_ns:n bytes:N client_bytes:n end_ns:n "
        "client_closed_ns:n ended_by:t ended_detail:t gap_bytes:N paused:I surplus:B clock_error_ns:n "
        "client_gap_bytes:n reset_code:t request_model:t request_headers:J request_body:x request_size:n "
        "request_sha256:t request_truncated:b labels:J response_headers:j response_trailers:j "
    ),
    "uploads": (
        "exchange_no: start:N data:X "
    ),
    "request_versions": (
        "exchange_no: family:N version:I "
    ),
    "request_parts": (
        "no: family:N position:N since:I until:I data:X "
    ),
    "segments": (
        "exchange_no: seq:I start:N at_ns:T relayed_ns:T sizes:T data:X "
    ),
    "bodies": (
        "exchange_no: size:N sha256:T at_ns:X relayed_ns:X sizes:X data:X "
    ),
    "client_segments": (
        "exchange_no: seq:I start:N at_ns:T relayed_ns:T sizes:T data:X "
    ),
    "client_bodies": (
        "exchange_no: size:N sha256:T at_ns:X relayed_ns:X sizes:X data:X "
    ),
    "measures": (
        "exchange_no: decoder_version:I outcome:T outcome_detail:t error_code:t error_message:t api:t operation:t "
        "response_model:t response_id:t finish_reason:t server_queue_ns:n server_prefill_ns:n server_decode_ns:n "
        "server_total_ns:n network_ns:n server_times_from:t quota_requests_left:n quota_tokens_left:n "
        "quota_5h_percent:f quota_7d_percent:f trace_id:t input_tokens:n output_tokens:n total_tokens:n "
        "reasoning_tokens:n cache_read_input_tokens:n cache_write_input_tokens:n cache_write_1h_input_tokens:n "
        "input_uncached_tokens:n usage:j events:I comments:I flags:T content:t reasoning:t refusal:t tool_calls:j "
        "choices:j attributes:j rpc_method:t tool_name:t dialect_version:t conversation_key:t conversation_key_from:t "
        "conversation_parent:t previous_response_id:t messages_hash:t continues_hash:t continued_answer_hash:t "
        "answer_hash:t retries:n answers_tools:b turn_spans:j answers:n stalled_answers:n given_up_answers:n "
        "last_silence_ns:n silences:X ping_gaps:X tool_spans:j event_runs:j silent_end_by:t silent_end_is_quiet:b "
        "turns:j asked:t context_system_bytes:n context_tools_bytes:n context_user_bytes:n context_assistant_bytes:n "
        "context_tool_results_bytes:n context_images_bytes:n context_documents_bytes:n context_other_bytes:n "
        "prompt_elements:x connect_ns:n ttfb_ns:n ttf_byte_ns:n ttfc_ns:n ttft_ns:n ttfo_ns:n ttf_content_ns:n "
        "thinking_ns:n ttst_ns:n latency_ns:n duration_ns:n tail_ns:n max_gap_ns:n max_silence_ns:n "
        "max_output_silence_ns:n first_output_silence_ns:n max_event_silence_ns:n ttf_event_ns:n first_silence_ns:n "
        "first_event_silence_ns:n tpot_ns:f tpot_est_ns:f tpot_adj_ns:f tps_user:f e2e_tps:f tokens_per_chunk:f "
        "coalesced_fraction:f icl_p50_ns:f icl_p90_ns:f icl_p99_ns:f icl_mean_ns:f icl_max_ns:n icl:X gap_hist:X "
        "sparkline:T reads:I bytes:N chunks:I output_chunks:I "
    ),
    "settlements": (
        "exchange_no: version:N "
    ),
}
_REQUEST_BODY: Final = (
    "coalesce(exchanges.request_body, CASE WHEN (exchanges.request_size < 268435456 AND exchanges.request_size = "
    "(SELECT sum(length(request_parts.data)) AS sum_1 FROM request_parts, request_versions WHERE "
    "request_versions.exchange_no = exchanges.no AND request_parts.family = request_versions.family AND "
    "request_versions.version BETWEEN request_parts.since AND request_parts.until)) THEN (SELECT "
    "CAST(group_concat(request_parts.data, '') OVER (ORDER BY request_parts.position ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND UNBOUNDED FOLLOWING) AS BLOB) AS anon_1 FROM request_parts, request_versions WHERE "
    "request_versions.exchange_no = exchanges.no AND request_parts.family = request_versions.family AND "
    "request_versions.version BETWEEN request_parts.since AND request_parts.until LIMIT 1 OFFSET 0) END) "
)
_IS_REQUEST_IN_PARTS: Final = (
    "EXISTS (SELECT * FROM request_versions WHERE request_versions.exchange_no = exchanges.no) "
)
_COVERED: Final = (
    "measures.operation IS NULL OR measures.operation IN ('chat', 'generate_content', 'text_completion') "
)
_UNSIZED: Final = (
    "exchanges.clock = 'none' AND measures.bytes = 0 AND exchanges.status IS NOT NULL AND "
    "coalesce(exchanges.framing, '') != 'none' "
)
# [[[end]]] (sum: I9GJgDVWQR)
# fmt: on


def _table(name: str) -> FromClause:
    """Return a table; its cells are checked, except for keys."""
    types: dict[str, Type] = {}
    for column in _COLUMNS[name].split():
        column, _, letter = column.partition(":")
        declared, is_joined = _TYPES.get(letter.upper()), name not in ("exchanges", "sessions")
        types[column] = (
            Cell(declared, f"{name}.{column}", letter.islower(), is_joined) if declared else Type("BigInteger")
        )
    return FromClause(name, types)


TABLES: Final = {name: _table(name) for name in _COLUMNS}
sessions, exchanges, measures, settlements = (
    TABLES[name] for name in ("sessions", "exchanges", "measures", "settlements")
)


class Stream(NamedTuple):
    """The tables of one direction's bytes: while they arrive, and when the exchange has ended."""

    segments: FromClause
    bodies: FromClause


FROM_UPSTREAM: Final = Stream(TABLES["segments"], TABLES["bodies"])
FROM_CLIENT: Final = Stream(TABLES["client_segments"], TABLES["client_bodies"])
STREAMS: Final = (FROM_UPSTREAM, FROM_CLIENT)
segments, bodies = FROM_UPSTREAM

REQUEST_BODY: Final = template(f"({_REQUEST_BODY})", type=exchanges.c.request_body.type).label("request_body")
"""The expression for the stored body of a request; NULL, too, if one of its parts is missing."""
IS_REQUEST_IN_PARTS: Final = template(f"({_IS_REQUEST_IN_PARTS})", type=Boolean)
"""The condition for requests whose body is in parts."""
COVERED: Final = template(f"({_COVERED})", type=Boolean)
"""The condition for exchanges that rates and latencies cover: `wiretape.recorder.decode.operation.is_covered`."""
UNSIZED: Final = template(f"({_UNSIZED})", type=Boolean)
"""The condition for bodies of unknown size: of imports without times and bytes, unless they have no body at all."""


def as_stored(column: Column) -> Expression:
    """Return a column as the tape has it, but checked: JSON as text, a boolean as 0 or 1."""
    return type_coerce(column, replace(column.type, decoded=False)) if isinstance(column.type, Cell) else column


def joined(column: Column, function: str) -> Expression:
    """Return a column's least or greatest value; None if there are no rows, even if the column is never unknown."""
    assert isinstance(column.type, Cell)
    value: Expression = getattr(func, function)(column, type_=replace(column.type, joined=True))
    return value
