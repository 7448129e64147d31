"""The command `export`: contents and destinations."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support import operations, shapes
from tests.support.commands import on_terminal, run
from tests.support.golden import assert_golden
from tests.support.sample_tape import (
    COMPLETE,
    COMPLETE_READS,
    HOSTILE,
    LIMITED,
    ODD,
    ODD_READS,
    TOOLS,
    begin,
    end,
    recorded,
    response,
)
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.record.fields import CHUNK_FIELDS
from wiretape.viewer.source.tape import queries
from wiretape.viewer.stats import summary


@pytest.mark.parametrize("id", [COMPLETE, ODD])
def test_sse_is_the_body_byte_for_byte(tape: Path, id: str) -> None:
    body = b"".join(data for _, data in (COMPLETE_READS if id == COMPLETE else ODD_READS))
    exported = run(tape, "export", id, "--format", "sse").stdout_bytes
    assert exported == body
    assert_golden(f"{id[:4]}.sse", exported)


def test_a_summary_is_the_golden_file_byte_for_byte(tape: Path) -> None:
    assert_golden("summary.csv", run(tape, "export", "--table", "summary").stdout_bytes)
    assert_golden("summary_by_model.csv", run(tape, "export", "--table", "summary", "--by", "model").stdout_bytes)


def test_a_summary_is_what_stats_gives(tape: Path) -> None:
    for by in ((), ("--by", "outcome,label.run")):
        arguments = ("--format", "jsonl", *by)
        assert run(tape, "export", "--table", "summary", *arguments).stdout == run(tape, "stats", *arguments).stdout
    (row,) = map(json.loads, run(tape, "export", TOOLS, "--table", "summary", "--format", "jsonl").stdout.splitlines())
    assert (tuple(row), row["n"]) == (summary.fields(()), 1)


def test_a_file_says_how_much_it_holds(tape: Path, tmp_path: Path) -> None:
    counts = {"x.csv": "7 rows", "x.har": "7 exchanges"}
    for name, holds in counts.items():
        assert run(tape, "export", "-o", str(tmp_path / name)).stderr == f"wrote {tmp_path / name} ({holds})\n"
    sse = tmp_path / "x.sse"
    assert run(tape, "export", LIMITED, "-o", str(sse)).stderr == f"wrote {sse} ({sse.stat().st_size} bytes)\n"


@pytest.mark.parametrize("table", ["exchanges", "texts", "chunks", "reads", "summary"])
def test_a_limit_is_one_of_rows(tape: Path, table: str) -> None:
    limited = ("export", "--table", table, "--format", "jsonl", "-n")
    assert len(run(tape, *limited, "1").stdout.splitlines()) == 1
    assert run(tape, *limited, "0").stdout == ""


@pytest.mark.parametrize("format", ["sse", "asciicast", "gif"])
def test_what_is_of_one_exchange_takes_no_more(tape: Path, format: str) -> None:
    assert "of one exchange: name its ID" in run(tape, "export", "--format", format, code=2).stderr


def test_parquet_of_many_rows_has_them_all(tape: Path, connection: Connection, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow.parquet")
    run(tape, "export", "--table", "chunks", "-o", str(tmp_path / "x.parquet"))
    table = arrow.read_table(tmp_path / "x.parquet")
    assert table.column_names == list(CHUNK_FIELDS)
    assert table.num_rows == len(list(queries.all_chunks(connection)))


def test_a_terminal_gets_a_readable_schema(tape: Path) -> None:
    output = on_terminal(tape, "export", "--schema", "--table", "reads", columns=140)
    assert "T0 → when the socket gave it" in output
    assert "\t" not in output


def trace(tape: Path, *arguments: str) -> list[JsonObject]:
    return [*map(json.loads, run(tape, "export", "--format", "trace", *arguments).stdout.splitlines())]


def test_a_trace_has_the_demos_generations_by_arrival(demo: tuple[Path, str]) -> None:
    names = ("started_at", "input_tokens", "output_tokens")
    listing = run(demo[0], "export", "--columns", ",".join(names), "-f", "tok.in>0 and tok.out>0", "--format", "jsonl")
    counted = sorted(tuple(json.loads(line)[name] for name in names) for line in listing.stdout.splitlines())
    start = datetime.fromisoformat(counted[0][0])
    offsets = [(datetime.fromisoformat(at) - start) / timedelta(milliseconds=1) for at, *_ in counted]
    trace_lines = trace(demo[0])
    assert [row["timestamp"] for row in trace_lines] == pytest.approx(offsets, abs=0.001)
    assert [(row["input_length"], row["output_length"]) for row in trace_lines] == [
        tuple(tokens) for _, *tokens in counted
    ]


def test_a_trace_has_no_text_and_names_omissions(tape: Path) -> None:
    result = run(tape, "export", "--format", "trace")
    assert result.stdout == '{"timestamp":0.0,"input_length":5,"output_length":4,"hash_ids":[0]}\n'
    assert result.stderr == "wiretape: 6 exchanges left out: 6 without token counts\n"


def test_a_trace_is_ordered_by_time_not_entry(tmp_path: Path) -> None:
    frames = [
        frame
        for id, at in ((TOOLS, 5), (COMPLETE, 2))
        for frame in (begin(id, at, b"{}"), *response(id, COMPLETE_READS), end(id, COMPLETE_READS))
    ]
    assert [row["timestamp"] for row in trace(recorded(tmp_path / "x.db", frames))] == [0, 3000]


def test_a_trace_covers_generations_unless_asked_otherwise(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x.db", [*operations.frames()])
    assert len(trace(path, "--with-messages")) == 2
    result = run(path, "export", "--format", "trace", "--with-messages", "--all-operations")
    assert result.stderr == "wiretape: 2 exchanges left out: 2 without a prompt on the tape\n"


def test_hostile_prompts_of_a_trace_cannot_control_a_terminal(tape: Path) -> None:
    output = on_terminal(tape, "export", ODD, "--format", "trace", "--with-messages")
    assert json.loads(output)["payload"] == {"model": HOSTILE}
    assert not {"\x1b", "\x9b", "\u202e"} & {*output}


def test_a_trace_of_imported_exchanges_has_their_prompts(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    run(path, "import", str(Path(__file__).parents[2] / "data" / "imports" / "mitmproxy-11.flows"))
    assert trace(path) == [{"timestamp": 0, "input_length": 3, "output_length": 3, "hash_ids": [0]}]
    (row,) = trace(path, "--with-messages")
    assert row == {"timestamp": 0, "messages": [{"role": "user", "content": "hi"}], "output_length": 3}


def test_a_traces_input_length_includes_cached_tokens(tmp_path: Path) -> None:
    path = shapes.tape(tmp_path / "x.db")
    lengths = dict(zip(shapes.IDS.values(), (row["input_length"] for row in _counted(path)), strict=True))
    assert lengths["messages, an hour"] == 1800
    assert lengths["chat cached"] == lengths["messages"] == 1000


def _counted(path: Path) -> list[JsonObject]:
    return [row for id in shapes.IDS for row in trace(path, id) or [{"input_length": None}]]
