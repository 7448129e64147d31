"""the first tape."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, comment="row number"),
        sa.Column("uuid", sa.String(length=36), nullable=False, comment="identity of one run of a recorder"),
        sa.Column("version", sa.Text(), nullable=False, comment="wiretape's version"),
        sa.Column("pid", sa.Integer(), nullable=False, comment="process id of the relay"),
        sa.Column(
            "boot_id", sa.Text(), nullable=True, comment="identity of the machine's boot, where the system has one"
        ),
        sa.Column("listen", sa.Text(), nullable=False, comment="base URL that clients were given"),
        sa.Column(
            "upstreams",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="[[name, URL]], user info redacted; the name is empty at the root",
        ),
        sa.Column(
            "salt", sa.LargeBinary(), nullable=False, comment="key of the redaction hashes; the same in all of a tape"
        ),
        sa.Column("started_at", sa.Text(), nullable=False, comment="wall time, UTC, ISO 8601"),
        sa.Column("heartbeat_at", sa.Text(), nullable=False, comment="when the relay was last heard of"),
        sa.Column("ended_at", sa.Text(), nullable=True, comment="NULL: still running, or died"),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_sessions")),
        sa.UniqueConstraint("uuid", name=op.f("uq_sessions_uuid")),
        comment="one run of a recorder",
    )
    op.create_table(
        "exchanges",
        sa.Column(
            "no",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
            comment="row number; what the other tables refer to",
        ),
        sa.Column(
            "id", sa.String(length=16), nullable=False, comment="the exchange's id, 16 hex digits (X-Wiretape-Id)"
        ),
        sa.Column("session_no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False, comment="wall time at T0, UTC, ISO 8601; only for show"),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column(
            "path",
            sa.Text(),
            nullable=False,
            comment="below the upstream's URL, with the query; secret values redacted",
        ),
        sa.Column("upstream", sa.Text(), nullable=False, comment="base URL of the API server, user info redacted"),
        sa.Column("request_model", sa.Text(), nullable=True, comment="the model asked for"),
        sa.Column(
            "request_headers",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="[[name, value]] as the client sent them, redacted",
        ),
        sa.Column("request_body", sa.LargeBinary(), nullable=True, comment="as it came, up to a cap"),
        sa.Column("request_size", sa.BigInteger(), nullable=False, comment="bytes of the whole request body"),
        sa.Column("request_sha256", sa.String(length=64), nullable=False, comment="of the whole request body"),
        sa.Column("labels", sa.JSON(none_as_null=True), nullable=False, comment="{key: value}"),
        sa.Column("status", sa.Integer(), nullable=True, comment="HTTP status; NULL: no answer came"),
        sa.Column(
            "response_headers",
            sa.JSON(none_as_null=True),
            nullable=True,
            comment="[[name, value]] as upstream sent them, redacted",
        ),
        sa.Column("connected_ns", sa.BigInteger(), nullable=True, comment="connected, TLS included"),
        sa.Column("sent_ns", sa.BigInteger(), nullable=True, comment="request written"),
        sa.Column("headers_ns", sa.BigInteger(), nullable=True, comment="the read that completed the response head"),
        sa.Column("end_ns", sa.BigInteger(), nullable=True, comment="the body ended, or the exchange was cut"),
        sa.Column("client_closed_ns", sa.BigInteger(), nullable=True, comment="the client was seen to have left"),
        sa.Column(
            "ended_by",
            sa.Text(),
            nullable=True,
            comment="how the transport ended: a fact, no judgement; NULL: still open",
        ),
        sa.Column("ended_detail", sa.Text(), nullable=True, comment="the transport's own words"),
        sa.Column(
            "framing", sa.Text(), nullable=True, comment="how the body was delimited: chunked, length, close, none"
        ),
        sa.Column(
            "bytes", sa.BigInteger(), server_default="0", nullable=False, comment="body bytes that upstream sent"
        ),
        sa.Column(
            "gap_bytes",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="of these, bytes that could not be stored",
        ),
        sa.Column(
            "paused",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="times upstream had to wait for a slow client",
        ),
        sa.Column(
            "surplus",
            sa.Boolean(),
            server_default="0",
            nullable=False,
            comment="upstream sent bytes after the response's end",
        ),
        sa.Column(
            "coarse_clock",
            sa.Boolean(),
            server_default="0",
            nullable=False,
            comment="instants are not those of socket reads",
        ),
        sa.ForeignKeyConstraint(["session_no"], ["sessions.no"], name=op.f("fk_exchanges_session_no")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_exchanges")),
        sa.UniqueConstraint("id", name=op.f("uq_exchanges_id")),
        comment="one request and its response: the facts",
    )
    with op.batch_alter_table("exchanges", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_exchanges_ended_by"), ["ended_by"], unique=False)
        batch_op.create_index(batch_op.f("ix_exchanges_started_at"), ["started_at"], unique=False)

    op.create_table(
        "bodies",
        sa.Column("exchange_no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False, comment="bytes before compression"),
        sa.Column("sha256", sa.String(length=64), nullable=False, comment="of the bytes before compression"),
        sa.Column("data", sa.LargeBinary(), nullable=False, comment="zlib"),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name=op.f("fk_bodies_exchange_no")),
        sa.PrimaryKeyConstraint("exchange_no", name=op.f("pk_bodies")),
        comment="the body of an ended exchange, byte for byte as upstream sent it",
    )
    op.create_table(
        "measures",
        sa.Column("exchange_no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("decoder_version", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False, comment="how the exchange ended, judged by what came"),
        sa.Column("outcome_detail", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column(
            "dialect",
            sa.Text(),
            nullable=True,
            comment="chat; unknown: the payload is not understood; NULL: nothing to understand",
        ),
        sa.Column("model", sa.Text(), nullable=True, comment="the model that answered"),
        sa.Column("response_id", sa.Text(), nullable=True),
        sa.Column("finish_reason", sa.Text(), nullable=True, comment="of choice 0, as the wire has it"),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True, comment="tokens are only what usage reports"),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=True),
        sa.Column("total_tokens", sa.BigInteger(), nullable=True),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True),
        sa.Column("usage", sa.JSON(none_as_null=True), nullable=True, comment="the last value of each field that came"),
        sa.Column("connect_ns", sa.BigInteger(), nullable=True, comment="T0 → connected"),
        sa.Column("ttfb_ns", sa.BigInteger(), nullable=True, comment="T0 → response head"),
        sa.Column("ttf_byte_ns", sa.BigInteger(), nullable=True, comment="T0 → first body byte, comments too"),
        sa.Column("ttfc_ns", sa.BigInteger(), nullable=True, comment="T0 → first chunk of any kind"),
        sa.Column(
            "ttft_ns",
            sa.BigInteger(),
            nullable=True,
            comment="T0 → first output chunk: reasoning, content or tool call",
        ),
        sa.Column("ttfo_ns", sa.BigInteger(), nullable=True, comment="T0 → first answer: content or tool call"),
        sa.Column("ttf_content_ns", sa.BigInteger(), nullable=True, comment="T0 → first text"),
        sa.Column("thinking_ns", sa.BigInteger(), nullable=True, comment="first reasoning → first answer"),
        sa.Column("ttst_ns", sa.BigInteger(), nullable=True, comment="first → second output chunk"),
        sa.Column("latency_ns", sa.BigInteger(), nullable=True, comment="T0 → last output chunk"),
        sa.Column("duration_ns", sa.BigInteger(), nullable=True, comment="T0 → [DONE], else the end of the exchange"),
        sa.Column("tail_ns", sa.BigInteger(), nullable=True, comment="duration − latency"),
        sa.Column(
            "max_stall_ns",
            sa.BigInteger(),
            nullable=True,
            comment="longest gap between reads that completed an output chunk",
        ),
        sa.Column("tpot_ns", sa.Float(), nullable=True, comment="(last − first output) / (completion tokens − 1)"),
        sa.Column("tpot_est_ns", sa.Float(), nullable=True, comment="the same per output chunk: an estimate"),
        sa.Column(
            "tpot_adj_ns",
            sa.Float(),
            nullable=True,
            comment="the same without the first chunk's tokens; needs usage on every chunk",
        ),
        sa.Column("tps_user", sa.Float(), nullable=True, comment="tokens a second: 1 s / tpot"),
        sa.Column("e2e_tps", sa.Float(), nullable=True, comment="completion tokens / latency"),
        sa.Column("tokens_per_chunk", sa.Float(), nullable=True, comment="completion tokens / output chunks"),
        sa.Column(
            "coalesced_fraction",
            sa.Float(),
            nullable=True,
            comment="output chunks that share a read with an earlier one",
        ),
        sa.Column("icl_mean_ns", sa.Float(), nullable=True, comment="inter-chunk latency: gaps between output chunks"),
        sa.Column("icl_p50_ns", sa.Float(), nullable=True),
        sa.Column("icl_p90_ns", sa.Float(), nullable=True),
        sa.Column("icl_p99_ns", sa.Float(), nullable=True),
        sa.Column("icl_max_ns", sa.BigInteger(), nullable=True),
        sa.Column("reads", sa.Integer(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False, comment="as the standard dispatches them, [DONE] included"),
        sa.Column("comments", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("output_chunks", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False, comment="names, separated by spaces, sorted"),
        sa.Column("content", sa.Text(), nullable=True, comment="of choice 0, assembled"),
        sa.Column("reasoning", sa.Text(), nullable=True),
        sa.Column("refusal", sa.Text(), nullable=True),
        sa.Column("tool_calls", sa.JSON(none_as_null=True), nullable=True, comment="[{index, id, name, arguments}]"),
        sa.Column(
            "choices",
            sa.JSON(none_as_null=True),
            nullable=True,
            comment="the other choices of an answer that has several",
        ),
        sa.Column(
            "icl", sa.LargeBinary(), nullable=False, comment="all gaps between output chunks: little-endian int64, ns"
        ),
        sa.Column(
            "gap_hist",
            sa.LargeBinary(),
            nullable=False,
            comment="64 little-endian uint32: gaps by bit length of their ns",
        ),
        sa.Column("sparkline", sa.Text(), nullable=False, comment="the gaps, drawn on an absolute scale"),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name=op.f("fk_measures_exchange_no")),
        sa.PrimaryKeyConstraint("exchange_no", name=op.f("pk_measures")),
        comment="derived from the facts by the decoder named; rebuilding gives the same",
    )
    with op.batch_alter_table("measures", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_measures_outcome"), ["outcome"], unique=False)

    op.create_table(
        "reads",
        sa.Column("exchange_no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False, comment="0, 1, 2, …"),
        sa.Column("at_ns", sa.BigInteger(), nullable=False, comment="when the socket gave it"),
        sa.Column(
            "relayed_ns", sa.BigInteger(), nullable=True, comment="when it had been handed to the client; NULL: never"
        ),
        sa.Column("start", sa.BigInteger(), nullable=False, comment="offset of its first byte in the body"),
        sa.Column("size", sa.Integer(), nullable=False, comment="body bytes"),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name=op.f("fk_reads_exchange_no")),
        sa.PrimaryKeyConstraint("exchange_no", "seq", name=op.f("pk_reads")),
        comment="what one socket read returned of a body, and when",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "segments",
        sa.Column("exchange_no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False, comment="offset in the body"),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name=op.f("fk_segments_exchange_no")),
        sa.PrimaryKeyConstraint("exchange_no", "start", name=op.f("pk_segments")),
        comment="body bytes as they came, while the exchange is open",
    )


def downgrade() -> None:
    op.drop_table("segments")
    op.drop_table("reads")
    with op.batch_alter_table("measures", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_measures_outcome"))

    op.drop_table("measures")
    op.drop_table("bodies")
    with op.batch_alter_table("exchanges", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_exchanges_started_at"))
        batch_op.drop_index(batch_op.f("ix_exchanges_ended_by"))

    op.drop_table("exchanges")
    op.drop_table("sessions")
