"""A new metric is one entry and a migration: what a copy of the source shows that has both."""

import json

from tests.support.extended import runner

ENTRY = """\
    last_gap_ns: int | None = duration(
        "the very last gap", lambda t: t.gaps[-1] if t.gaps else None, aliases=("gap.last",), has_statistics=True
    )
"""


def test_lists_filters_exports_and_statistics_have_it(tmp_path_factory):
    _, everything, found, fields, exported, schema, statistics, meanings, histogram = runner(
        tmp_path_factory.mktemp("source"), ENTRY, {"last_gap_ns": "BigInteger"}
    )(
        "db fixture --exchanges 30 --chunks 10",
        "ls --columns all --format json -n 100",
        "ls --columns all --format json -n 100 -f gap.last>0ms",
        "help fields",
        "export --format csv",
        "export --schema --format tsv",
        "stats --format json",
        "stats --schema --format tsv",
        "stats --hist last_gap",
    )
    everything, found, (row,) = (json.loads(text) for text in (everything, found, statistics))
    names = list(everything[0])
    assert names[names.index("resent_no") + 1] == "last_gap_ms"
    assert {row["id"] for row in found} == {row["id"] for row in everything if row["last_gap_ms"]}
    assert 0 < len(found) < len(everything)
    assert "| `last_gap_ms` |  | `last_gap`, `gap.last` | `last_gap` | ms | the very last gap |" in fields
    assert exported.splitlines()[0].endswith(",last_gap_ms")
    assert "exchanges\tlast_gap_ms\tnumber\tms\tthe very last gap\n" in schema
    assert row["last_gap_n"] > 0
    assert row["last_gap_min_ms"] <= row["last_gap_p50_ms"] <= row["last_gap_max_ms"]
    assert "p50 of last_gap: the very last gap" in meanings
    assert "last_gap" in histogram
