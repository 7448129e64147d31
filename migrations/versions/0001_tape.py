"""the tape of 0.1.0.

Until that release its form changes here. The numbers 0002 to 0024 are of forms before it (`UNRELEASED` in
`wiretape.recorder.tape.peek`): the next migration is 0025.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON(none_as_null=True)
_TIES = (
    "conversation_key", "conversation_parent", "response_id", "previous_response_id", "messages_hash", "continues_hash",
)  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("no", _KEY, primary_key=True),
        sa.Column("uuid", sa.String(36), unique=True, nullable=False),
        *_columns(sa.Text(), "version listen started_at heartbeat_at", nullable=False),
        *_columns(sa.Integer(), "pid", nullable=False),
        *_columns(_JSON, "upstreams", nullable=False),
        *_columns(sa.LargeBinary(), "salt", nullable=False),
        *_columns(sa.Text(), "boot_id ended_at imported_from"),
        *_columns(_JSON, "dialects"),
    )
    op.create_table(
        "exchanges",
        sa.Column("no", _KEY, primary_key=True),
        sa.Column("id", sa.String(16), unique=True, nullable=False),
        sa.Column("session_no", _KEY, sa.ForeignKey("sessions.no"), nullable=False),
        sa.Column("started_at", sa.Text(), index=True, nullable=False),
        *_columns(sa.Text(), "method path upstream", nullable=False),
        *_columns(_JSON, "request_headers labels", nullable=False),
        *_columns(sa.BigInteger(), "bytes gap_bytes", nullable=False, server_default="0"),
        *_columns(sa.Integer(), "paused", nullable=False, server_default="0"),
        *_columns(sa.Boolean(), "surplus coarse_clock", nullable=False, server_default="0"),
        sa.Column("ended_by", sa.Text(), index=True),
        sa.Column("request_sha256", sa.String(64)),
        *_columns(sa.Text(), "request_model ended_detail framing clock protocol reset_code"),
        *_columns(sa.Text(), "upstream_name resent_from resent_in"),
        *_columns(sa.Integer(), "status resent_no"),
        *_columns(sa.Boolean(), "request_truncated connection_reused h2_offered rebuilt asks_identity"),
        *_columns(sa.BigInteger(), "request_size client_bytes client_gap_bytes"),
        *_columns(sa.BigInteger(), "connected_ns sent_ns headers_ns end_ns client_closed_ns clock_error_ns boot_ns"),
        *_columns(_JSON, "response_headers response_trailers"),
        *_columns(sa.LargeBinary(), "request_body"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "uploads",
        _exchange_no(),
        sa.Column("start", sa.BigInteger(), primary_key=True, autoincrement=False),
        *_columns(sa.LargeBinary(), "data", nullable=False),
    )
    op.create_table(
        "request_versions",
        _exchange_no(),
        *_columns(sa.BigInteger(), "family", nullable=False),
        *_columns(sa.Integer(), "version", nullable=False),
        sa.Index(None, "family", "version"),
    )
    op.create_table(
        "request_parts",
        sa.Column("no", _KEY, primary_key=True),
        sa.Column("family", sa.BigInteger(), index=True, nullable=False),
        *_columns(sa.BigInteger(), "position", nullable=False),
        *_columns(sa.Integer(), "since until", nullable=False),
        *_columns(sa.LargeBinary(), "data", nullable=False),
    )
    for prefix in ("", "client_"):
        op.create_table(
            f"{prefix}segments",
            _exchange_no(),
            sa.Column("seq", sa.Integer(), primary_key=True, autoincrement=False),
            *_columns(sa.BigInteger(), "start", nullable=False),
            *_columns(sa.Text(), "at_ns relayed_ns sizes", nullable=False),
            *_columns(sa.LargeBinary(), "data", nullable=False),
        )
        op.create_table(
            f"{prefix}bodies",
            _exchange_no(),
            *_columns(sa.BigInteger(), "size", nullable=False),
            *_columns(sa.String(64), "sha256", nullable=False),
            *_columns(sa.LargeBinary(), "at_ns relayed_ns sizes data", nullable=False),
        )
    _create_measures()
    op.create_table(
        "settlements",
        _exchange_no(),
        sa.Column("version", sa.BigInteger(), unique=True, nullable=False),
    )


def _create_measures() -> None:
    counts = """
        input_tokens output_tokens total_tokens reasoning_tokens cache_read_input_tokens cache_write_input_tokens
        cache_write_1h_input_tokens input_uncached_tokens retries answers stalled_answers given_up_answers
        context_system_bytes context_tools_bytes context_user_bytes context_assistant_bytes context_tool_results_bytes
        context_images_bytes context_documents_bytes context_other_bytes quota_requests_left quota_tokens_left
    """
    times = """
        connect_ns ttfb_ns ttf_byte_ns ttfc_ns ttft_ns ttfo_ns ttf_content_ns thinking_ns ttst_ns latency_ns
        duration_ns tail_ns max_gap_ns max_silence_ns max_event_silence_ns max_output_silence_ns ttf_event_ns
        first_silence_ns first_event_silence_ns first_output_silence_ns last_silence_ns icl_max_ns
        server_queue_ns server_prefill_ns server_decode_ns server_total_ns network_ns
    """
    rates = """
        tpot_ns tpot_est_ns tpot_adj_ns tps_user e2e_tps tokens_per_chunk coalesced_fraction
        icl_p50_ns icl_p90_ns icl_p99_ns icl_mean_ns quota_5h_percent quota_7d_percent
    """
    texts = """
        outcome_detail error_code error_message api operation response_model response_id finish_reason content reasoning
        refusal rpc_method tool_name dialect_version conversation_key conversation_key_from conversation_parent
        previous_response_id messages_hash continues_hash continued_answer_hash answer_hash silent_end_by asked
        server_times_from trace_id
    """
    op.create_table(
        "measures",
        _exchange_no(),
        sa.Column("outcome", sa.Text(), index=True, nullable=False),
        *_columns(sa.Text(), "flags sparkline", nullable=False),
        *_columns(sa.Integer(), "decoder_version events comments reads chunks output_chunks", nullable=False),
        *_columns(sa.BigInteger(), "bytes", nullable=False),
        *_columns(sa.LargeBinary(), "silences ping_gaps icl gap_hist", nullable=False),
        *_columns(sa.BigInteger(), counts),
        *_columns(sa.BigInteger(), times),
        *_columns(sa.Float(), rates),
        *_columns(sa.Text(), texts),
        *_columns(sa.Boolean(), "answers_tools silent_end_is_quiet"),
        *_columns(_JSON, "usage tool_calls choices attributes turn_spans tool_spans event_runs turns"),
        *_columns(sa.LargeBinary(), "prompt_elements"),
    )
    for name in _TIES:
        op.create_index(f"ix_measures_{name}", "measures", [name], sqlite_where=sa.text(f"{name} IS NOT NULL"))


def _columns(kind: sa.types.TypeEngine[Any], names: str, **options: Any) -> Iterator[sa.Column[Any]]:
    return (sa.Column(name, kind, **options) for name in names.split())


def _exchange_no() -> sa.Column[Any]:
    return sa.Column("exchange_no", _KEY, sa.ForeignKey("exchanges.no"), primary_key=True)
