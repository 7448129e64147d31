"""A new fact is one entry, a migration and the line that observes it: a copy of the source shows it everywhere."""

import json

from tests.support.extended import runner

ENTRIES = """\
    pace: str | None = value("the pace of the answer", aliases=("speed",))
    is_long: bool | None = value("whether it has many bytes")
    rest_ns: int | None = value("the time after the answer")
    secret_ns: int | None = internal("a fact that is not shown")
"""
COLUMNS = {"pace": "Text", "is_long": "Boolean", "rest_ns": "BigInteger", "secret_ns": "BigInteger"}
OBSERVING = (
    "            reset_code=reset_code,\n",
    """            reset_code=reset_code,
            pace="slow" if self.bytes > 200 else None,
            is_long=self.bytes > 200,
            rest_ns=self.bytes or None,
            secret_ns=1,
""",
)
RECORD = """
import os
from pathlib import Path
from tests.support.frames import STREAM, begin
from tests.support.taps import play, started
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.relay.recording import ExchangeFrames

async def main():
    async with started(Path(os.environ["WIRETAPE_DB"])) as tap:
        for id, pieces in {"00000000000000a1": STREAM, "00000000000000a2": STREAM[:1], "00000000000000a3": []}.items():
            recording = ExchangeFrames(tap, SYSTEM, id)
            recording.begin(begin(id))
            recording.headers_ns = 0
            recording.put_head(200, [(b"content-type", b"text/event-stream")], "chunked")
            for data in pieces:
                recording.put_read(SYSTEM.now(), None, data)
            assert (recording.relayed().rest_ns, recording.relayed().ended_by) == (None, None)
            recording.end("end", None, SYSTEM.now())
            assert recording.relayed().rest_ns == (sum(map(len, pieces)) or None)

play(main())
"""


def test_lists_filters_details_exports_and_servers_have_it(tmp_path_factory):
    run = runner(tmp_path_factory.mktemp("source"), ENTRIES, COLUMNS, OBSERVING, RECORD)
    listed, topic, exported, schema, slow, empty, server, *matches = run(
        "ls --columns all --format json",
        "help fields",
        "export --format csv",
        "export --schema --format tsv",
        "show 00000000000000a1 --format json",
        "show 00000000000000a3 --format json",
        "fleet init --print --to clickhouse://host/name",
        *(f"ls --columns id --format json -f {text}" for text in ("pace:sl*", "speed:slow", "has:pace", "is_long:yes")),
        "ls --columns id --format json -f rest>0ms",
    )
    rows = {row["id"][-2:]: row for row in json.loads(listed)}
    names = list(rows["a1"])
    assert names[names.index("resent_no") + 1 :][:3] == ["pace", "is_long", "rest_ms"]
    size = rows["a1"]["bytes"]
    assert [rows["a1"][name] for name in ("pace", "is_long", "rest_ms")] == ["slow", True, size / 1e6]
    assert [rows["a3"][name] for name in ("pace", "is_long", "rest_ms")] == [None, False, None]
    ids = [[row["id"][-2:] for row in json.loads(match)] for match in matches]
    assert ids == [["a1"], ["a1"], ["a1"], ["a1"], ["a2", "a1"]]
    assert "| `pace` |  | `speed` |  |  | the pace of the answer |" in topic
    assert exported.splitlines()[0].endswith(",pace,is_long,rest_ms")
    assert "exchanges\tpace\ttext\t\tthe pace of the answer\n" in schema
    assert "exchanges\tis_long\tboolean\t\twhether it has many bytes\n" in schema
    assert "exchanges\trest_ms\tnumber\tms\tthe time after the answer\n" in schema
    assert json.loads(slow)["pace"] == "slow"
    assert json.loads(empty)["pace"] is None
    assert "    pace Nullable(String) COMMENT 'the pace of the answer'" in server
    assert "secret_ms" not in topic + schema + exported
