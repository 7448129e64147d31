"""Sessions of hosted agents in the commands: turns as a table, in the time of a session, and in rates."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.hosted_sessions import (
    CLAUDE_STREAM,
    idle,
    message,
    model_end,
    posted,
    running,
    said,
    session_tape,
    stream,
    worked_example,
)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session_tape(tmp_path_factory.mktemp("hosted") / "t.db", *worked_example())


def test_the_table_has_the_worked_example(tape: Path) -> None:
    rows = [*csv.DictReader(io.StringIO(run(tape, "export", "--table", "turns").stdout))]
    names = (
        "started_at_ms",
        "ttft_ms",
        "last_ms",
        "outcome",
        "session",
        "begun_by",
        "begun_by_id",
        "continued_in",
        "missing",
    )
    assert [[row[name] for name in names] for row in rows] == [
        ["100.0", "190.0", "235.0", "complete", "sesn_1", "text", "bbbb00000000000b", "", "0"],
        ["998.0", "192.0", "602.0", "complete", "sesn_1", "text", "cccc00000000000c", "dddd00000000000d", "1"],
    ]
    assert {row["audio_bytes"] for row in rows} == {""}


def test_a_session_has_a_row_for_each_turn(tape: Path) -> None:
    rows = json.loads(run(tape, "show", "s:sesn_1", "--part", "time", "--format", "json").stdout)
    assert [[row[name] for name in ("turn", "start_ms", "ttft_ms", "idle_ms", "outcome")] for row in rows] == [
        [1, 0.0, 190.0, 0.0, "complete"],
        [2, 898.0, 192.0, 600.0, "complete"],
    ]


def test_each_turn_of_a_stream_has_its_own_tokens(tmp_path: Path) -> None:
    events = [
        (140, running("r1")), (300, message("m1", "Hello")), (320, model_end("e1", 900, 40, 600)), (330, idle("i1")),
        (1040, running("r2")), (1190, message("m2", "Yes.")), (1195, model_end("e2", 950, 3)), (1200, idle("i2")),
    ]  # fmt: skip
    requests = [posted("bbbb00000000000b", 100, said("Hi")), posted("cccc00000000000c", 998, said("Sure?"))]
    tape = session_tape(tmp_path / "t.db", stream("aaaa00000000000a", 0, events, CLAUDE_STREAM, end=1210), *requests)
    rows = json.loads(run(tape, "show", "s:sesn_1", "--part", "time", "--format", "json").stdout)
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens")
    assert [[row[name] for name in names] for row in rows] == [[1500, 40, 600], [950, 3, 0]]


def test_rates_count_turns_and_no_resumed_stream(tape: Path) -> None:
    output = run(tape, "stats", "-f", "operation:agent_session", "--columns", "n,ttft_n,n_complete").stdout
    assert output.splitlines()[1].split("\t") == ["2", "2", "2"]


def test_figures_of_the_exchange_are_those_of_its_turns(tape: Path) -> None:
    output = run(tape, "ls", "--columns", "id,ttft_ms,duration_ms", "-f", "operation:agent_session").stdout
    assert output.splitlines()[1:] == ["dddd00000000000d\t\t", "aaaa00000000000a\t190.0\t920.0"]


def test_turns_are_drawn_where_they_lie_in_time(tape: Path) -> None:
    lines = run(tape, "show", "aaaa").stdout.splitlines()
    axis, drawing = next((line, lines[place + 1]) for place, line in enumerate(lines) if "╷0" in line)
    assert "╷1 s" in axis
    assert [sign for sign in drawing if sign != " "] == ["·", "▄", "·"]
    assert drawing.rindex("·") > axis.index("╷1 s")
