"""A new field, of any type, is one entry and a migration: what a copy of the source shows that has both."""

import json

from tests.support.extended import runner

ENTRY = """\
    pace: str | None = value(
        "the pace of the answer", lambda t: "slow" if len(t.gaps) > 5 else None, aliases=("speed",)
    )
"""


def test_lists_filters_details_exports_and_servers_have_it(tmp_path_factory):
    run = runner(tmp_path_factory.mktemp("source"), ENTRY, "pace", "sa.Text()")
    _, everything, found, short, known, table, topic, exported, schema, shown, server = run(
        "db fixture --exchanges 30 --chunks 10",
        "ls --format json -n 100",
        "ls --format json -n 100 -f pace:sl*",
        "ls --format json -n 100 -f speed:slow",
        "ls --format json -n 100 -f has:pace",
        "ls --columns id,pace -n 100",
        "help fields",
        "export --format csv",
        "export --schema --format tsv",
        "show @ --format json",
        "fleet init --print --to clickhouse://host/name",
    )
    everything, found, short, known = (json.loads(text) for text in (everything, found, short, known))
    assert list(everything[0])[-1] == "pace"
    slow = [row["id"] for row in everything if row["pace"] == "slow"]
    assert 0 < len(slow) < len(everything)
    assert [[row["id"] for row in rows] for rows in (found, short, known)] == [slow] * 3
    assert table.count("slow") == len(slow)
    assert "pace, speed" in topic
    assert exported.splitlines()[0].endswith(",pace")
    assert "exchanges\tpace\ttext\t\tthe pace of the answer\n" in schema
    assert json.loads(shown)["pace"] in ("slow", None)
    assert "    pace Nullable(String) COMMENT 'the pace of the answer'" in server
