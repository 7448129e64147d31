"""packed reads: the reads of an exchange are arrays in one row, and gaps take as few bytes as hold them.

`steps` does nearly all of the work in transactions of their own, and goes on where it was cut short: an exchange is
either as it was, or packed.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from wiretape.recorder.decode.exchange import Read, Reads
from wiretape.recorder.tape import packing

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TOGETHER, _TOGETHER_BYTES = 100, 4 << 20
"""So many exchanges, or bytes of theirs, are packed in one transaction."""
_ARRAYS = """
    at_ns TEXT NOT NULL,
    relayed_ns TEXT NOT NULL,
    sizes TEXT NOT NULL,
    data BLOB NOT NULL"""
_OF_EXCHANGE = "exchange_no INTEGER NOT NULL"
_SIZE = "size BIGINT NOT NULL, sha256 VARCHAR(64) NOT NULL"
_TABLES = (
    f"""CREATE TABLE IF NOT EXISTS packed_bodies ({_OF_EXCHANGE}, {_SIZE}, {_ARRAYS},
    CONSTRAINT pk_bodies PRIMARY KEY (exchange_no),
    CONSTRAINT fk_bodies_exchange_no FOREIGN KEY(exchange_no) REFERENCES exchanges (no))""",
    f"""CREATE TABLE IF NOT EXISTS packed_segments (
    {_OF_EXCHANGE}, seq INTEGER NOT NULL, start BIGINT NOT NULL, {_ARRAYS},
    CONSTRAINT pk_segments PRIMARY KEY (exchange_no, seq),
    CONSTRAINT fk_segments_exchange_no FOREIGN KEY(exchange_no) REFERENCES exchanges (no))""",
)
_FORMER = (
    f"""CREATE TABLE reads ({_OF_EXCHANGE}, seq INTEGER NOT NULL, at_ns BIGINT NOT NULL, relayed_ns BIGINT,
    start BIGINT NOT NULL, size INTEGER NOT NULL, CONSTRAINT pk_reads PRIMARY KEY (exchange_no, seq),
    CONSTRAINT fk_reads_exchange_no FOREIGN KEY(exchange_no) REFERENCES exchanges (no)) WITHOUT ROWID""",
    f"""CREATE TABLE former_segments ({_OF_EXCHANGE}, start BIGINT NOT NULL, data BLOB NOT NULL,
    CONSTRAINT pk_segments PRIMARY KEY (exchange_no, start),
    CONSTRAINT fk_segments_exchange_no FOREIGN KEY(exchange_no) REFERENCES exchanges (no))""",
    f"""CREATE TABLE former_bodies ({_OF_EXCHANGE}, {_SIZE}, data BLOB NOT NULL,
    CONSTRAINT pk_bodies PRIMARY KEY (exchange_no),
    CONSTRAINT fk_bodies_exchange_no FOREIGN KEY(exchange_no) REFERENCES exchanges (no))""",
)
_NEXT = "SELECT min(no) FROM (" + " UNION ALL ".join(
    f"SELECT min(exchange_no) AS no FROM {table}" for table in ("reads", "segments", "bodies")
) + ")"  # fmt: skip
_READS = "SELECT " + ", ".join(
    f"CASE WHEN typeof({name}) = 'integer' THEN {name} END" for name in ("seq", "at_ns", "relayed_ns", "start", "size")
) + " FROM reads WHERE exchange_no = ? ORDER BY seq"  # fmt: skip
_WIDE_GAPS = "length(icl) > 0 AND length(icl) % 8 = 0"
"""Packed gaps are never of such a length."""


def steps(connection: sa.Connection) -> Iterator[tuple[int, int]]:
    """Pack what is not packed yet, some exchanges at a time; yield how many are done, of how many."""
    with connection.begin():
        _prepare(connection)
        total = connection.exec_driver_sql("SELECT count(*) FROM exchanges").scalar_one()
        done = connection.exec_driver_sql("SELECT count(*) FROM packed_bodies").scalar_one()
    while True:
        packed = size = 0
        with connection.begin():
            for size_of_one in _pack(connection):
                packed, size = packed + 1, size + size_of_one
                if packed == _TOGETHER or size > _TOGETHER_BYTES:
                    break
        if not packed:
            return
        done += packed
        yield min(done, total), total


def upgrade() -> None:
    connection = op.get_bind()
    _prepare(connection)
    for _ in _pack(connection):
        pass
    for no, gaps in connection.exec_driver_sql(f"SELECT exchange_no, icl FROM measures WHERE {_WIDE_GAPS}").all():
        _set_gaps(connection, no, packing.pack_gaps(gaps))
    for table in ("reads", "segments", "bodies"):
        op.drop_table(table)
    for table in ("segments", "bodies"):
        op.rename_table(f"packed_{table}", table)


def _prepare(connection: sa.Connection) -> None:
    for statement in _TABLES:
        connection.exec_driver_sql(statement)


def _pack(connection: sa.Connection) -> Iterator[int]:
    """Pack one exchange after the other; yield how many bytes each has."""
    while (no := connection.exec_driver_sql(_NEXT).scalar()) is not None:
        yield _pack_exchange(connection, no)


def _pack_exchange(connection: sa.Connection, no: int) -> int:
    def rows(statement: str, *values: Any) -> sa.CursorResult[Any]:
        return connection.exec_driver_sql(statement, (*values, no))

    arrays = [
        packing.as_json(array) for array in packing.pack(_reads(rows(_READS).all()))[2:] if isinstance(array, bytes)
    ]
    columns = "exchange_no, size, sha256, at_ns, relayed_ns, sizes, data"
    body = f"INSERT INTO packed_bodies ({columns}) SELECT exchange_no, size, sha256, ?, ?, ?, data FROM bodies"
    has_body = rows(f"{body} WHERE exchange_no = ?", *arrays).rowcount
    pieces = rows("SELECT data FROM segments WHERE exchange_no = ? ORDER BY start").scalars().all()
    if pieces or (not has_body and arrays[0] != "[]"):
        arrays = ["[]"] * 3 if has_body else arrays
        segment: tuple[Any, ...] = (no, 0, 0, *arrays, b"".join(piece for piece in pieces if isinstance(piece, bytes)))
        connection.exec_driver_sql("INSERT INTO packed_segments VALUES (?, ?, ?, ?, ?, ?, ?)", segment)
    for gaps in rows(f"SELECT icl FROM measures WHERE {_WIDE_GAPS} AND exchange_no = ?").scalars().all():
        _set_gaps(connection, no, packing.pack_gaps(gaps))
    for table in ("reads", "segments", "bodies"):
        rows(f"DELETE FROM {table} WHERE exchange_no = ?")
    size = rows("SELECT length(data) FROM packed_bodies WHERE exchange_no = ?").scalar() or 0
    return sum(map(len, (*arrays, *pieces))) + int(size)


def _reads(rows: Any) -> Reads:
    """Return the reads that are not damaged."""
    return Reads.of([
        Read(seq, at_ns, relayed_ns if relayed_ns is None or abs(relayed_ns) < packing.MOST else None, start, size)
        for seq, at_ns, relayed_ns, start, size in rows
        if None not in (seq, at_ns, start, size)
        and min(seq, start, size) >= 0 and max(seq, start, size, abs(at_ns)) < packing.MOST
    ])  # fmt: skip


def _set_gaps(connection: sa.Connection, no: int, gaps: bytes) -> None:
    connection.exec_driver_sql("UPDATE measures SET icl = ? WHERE exchange_no = ?", (gaps, no))


def downgrade() -> None:
    connection = op.get_bind()
    for view in ("read_gaps", "reads", "exchange_metrics"):
        op.execute(f"DROP VIEW IF EXISTS {view}")
    for statement in _FORMER:
        connection.exec_driver_sql(statement)
    for table, first in (("bodies", "0, 0"), ("segments", "seq, start")):
        for no, *packed in connection.exec_driver_sql(
            f"SELECT exchange_no, {first}, at_ns, relayed_ns, sizes FROM {table} ORDER BY 1, 2"
        ):
            for read in packing.intact(packing.Packed(*packed)):
                connection.exec_driver_sql("INSERT INTO reads VALUES (?, ?, ?, ?, ?, ?)", (no, *read))
    op.execute("INSERT INTO former_bodies SELECT exchange_no, size, sha256, data FROM bodies")
    op.execute("INSERT INTO former_segments SELECT exchange_no, start, data FROM segments")
    for no, gaps in connection.exec_driver_sql("SELECT exchange_no, icl FROM measures WHERE length(icl) > 0").all():
        _set_gaps(connection, no, packing.unpack_gaps(gaps))
    for table in ("segments", "bodies"):
        op.drop_table(table)
        op.rename_table(f"former_{table}", table)
