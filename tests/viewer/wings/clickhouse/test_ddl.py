"""The statements that make tables, golden; and literals, which quote any text."""

from hypothesis import given
from hypothesis import strategies as st

from wiretape.recorder.tape import schema
from wiretape.viewer.wings.clickhouse import ddl, tables
from wiretape.viewer.wings.clickhouse.tables import EngineColumn, EngineTable

TABLE = EngineTable(
    "things",
    "for a test",
    (EngineColumn("id", "String", "whose it is"), EngineColumn("n", "Nullable(Int64)", "it's a number")),
    ("id",),
    "cityHash64(id)",
    "toYYYYMM(started)",
    "14 DAY",
    256,
)
COLUMNS = """(
    id String COMMENT 'whose it is',
    n Nullable(Int64) COMMENT 'it\\'s a number'
) """
SORTED = """PARTITION BY toYYYYMM(started)
ORDER BY (id)
TTL started + INTERVAL 14 DAY
SETTINGS index_granularity = 256"""


def test_one_server_has_one_table() -> None:
    assert [*ddl.create(TABLE, "db")] == [
        f"CREATE TABLE IF NOT EXISTS db.things {COLUMNS}ENGINE = ReplacingMergeTree(row_version)\n{SORTED}, "
        "non_replicated_deduplication_window = 10000"
    ]
    (statement,) = ddl.create(TABLE, "db", expires=False)
    assert "TTL" not in statement


def test_a_cluster_has_replicated_tables_below_distributed_ones() -> None:
    replicated = "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/db/things', '{replica}', row_version)"
    assert [*ddl.create(TABLE, "db", "c")] == [
        f"CREATE TABLE IF NOT EXISTS db.things_local ON CLUSTER c {COLUMNS}ENGINE = {replicated}\n{SORTED}",
        f"CREATE TABLE IF NOT EXISTS db.things ON CLUSTER c {COLUMNS}"
        "ENGINE = Distributed(c, db, things_local, cityHash64(id))",
    ]


def test_a_migration_only_adds_what_is_missing() -> None:
    assert [*ddl.migrate(TABLE, "things", {"id", "n", "newer"}, "db")] == []
    assert ddl.names(TABLE, "c") == ["things_local", "things"]
    assert [*ddl.migrate(TABLE, "things_local", {"id"}, "db", "c")] == [
        "ALTER TABLE db.things_local ON CLUSTER c ADD COLUMN n Nullable(Int64) COMMENT 'it\\'s a number'"
    ]


def test_the_shipping_account_reads_nothing_and_readers_no_bodies() -> None:
    statements = [*ddl.accounts("db", {ddl.SHIPPER: "ab", ddl.ANALYST: "cd"}, tables.TABLES, None)]
    grants = [grant for grant in statements if grant.startswith("GRANT") and "system." not in grant]
    assert [grant for grant in grants if grant.endswith(ddl.SHIPPER)] == [
        f"GRANT SHOW COLUMNS, INSERT ON db.{name} TO wiretape_ship" for name in ("sessions", "exchanges", "streams")
    ]
    assert [grant for grant in grants if grant.endswith(ddl.ANALYST)] == [
        f"GRANT SELECT ON db.{name} TO wiretape_read" for name in ("sessions", "exchanges", "hours")
    ]


@given(st.text(alphabet="a'\\\0\n\"`-;\u2028") | st.text())
def test_a_literal_holds_its_text_and_nothing_after_it(text: str) -> None:
    literal = ddl.literal(text)
    assert (literal[0], literal[-1]) == ("'", "'")
    found, remainder = "", iter(literal[1:-1])
    for sign in remainder:
        assert sign != "'"
        found += {"0": "\0"}.get(escaped := next(remainder), escaped) if sign == "\\" else sign
    assert found == text


def test_every_column_but_secret_ones_is_shipped() -> None:
    shipped = {column.source for table in tables.TABLES for column in table.columns}
    left_out = {
        f"{table.name}.{column.name}"
        for table in (schema.sessions, schema.exchanges, schema.measures, *(stream.bodies for stream in schema.STREAMS))
        for column in table.c
        if column not in shipped and column.name not in ("no", "exchange_no", "session_no")
    }
    assert left_out == {"sessions.salt", "exchanges.labels", "measures.prompt_elements"}
    assert {column.name for column in tables.EXCHANGES.columns} >= {"label_names", "label_values"}
    assert not {column.name for column in tables.STREAMS.columns} & {"icl", "ttft_ns"}
