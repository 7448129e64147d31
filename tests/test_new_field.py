"""A new field of any type is one entry and a migration: a copy of the source with both shows it everywhere."""

import json

from tests.support.extended import runner

ENTRIES = """\
    pace: str | None = value(
        "the pace of the answer", lambda t: "slow" if len(t.gaps) > 5 else None, aliases=("speed",)
    )
    is_long: bool | None = value("whether it has many chunks", lambda t: t.chunks > 5 if t.chunks else None)
    rest_ns: int | None = value("the last gap", lambda t: t.gaps[-1] if t.gaps else None)
"""
COLUMNS = {"pace": "Text", "is_long": "Boolean", "rest_ns": "BigInteger"}


def test_lists_filters_details_exports_and_servers_have_it(tmp_path_factory):
    run = runner(tmp_path_factory.mktemp("source"), ENTRIES, COLUMNS)
    _, listed, table, topic, exported, schema, shown, server, *found = run(
        "db fixture --exchanges 30 --chunks 10",
        "ls --columns all --format json -n 100",
        "ls --columns id,pace -n 100",
        "help fields",
        "export --format csv",
        "export --schema --format tsv",
        "show @ --format json",
        "fleet init --print --to clickhouse://host/name",
        *(
            f"ls --columns all --format json -n 100 -f {one}"
            for one in ("pace:sl*", "speed:slow", "has:pace", "is_long:yes")
        ),
        "ls --columns all --format json -n 100 -f rest>0ms",
    )
    rows = json.loads(listed)
    names = list(rows[0])
    assert names[names.index("resent_no") + 1 :][:3] == ["pace", "is_long", "rest_ms"]
    slow = [row["id"] for row in rows if row["pace"] == "slow"]
    long = [row["id"] for row in rows if row["is_long"]]
    rested = [row["id"] for row in rows if row["rest_ms"]]
    assert all(0 < len(some) < len(rows) for some in (slow, long, rested))
    assert [[row["id"] for row in json.loads(one)] for one in found] == [slow, slow, slow, long, rested]
    assert table.count("slow") == len(slow)
    assert "| `pace` |  | `speed` |  |  | the pace of the answer |" in topic
    assert exported.splitlines()[0].endswith(",pace,is_long,rest_ms")
    assert "exchanges\tpace\ttext\t\tthe pace of the answer\n" in schema
    assert "exchanges\tis_long\tboolean\t\twhether it has many chunks\n" in schema
    assert "exchanges\trest_ms\tnumber\tms\tthe last gap\n" in schema
    assert json.loads(shown).keys() >= {"pace", "is_long", "rest_ms"}
    assert "    pace Nullable(String) COMMENT 'the pace of the answer'" in server
    assert "    rest_ns Nullable(Int64) COMMENT 'the last gap; ns'" in server
