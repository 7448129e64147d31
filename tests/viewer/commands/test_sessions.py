"""Sessions on the command line: the parts of their time in lists, statistics, exports and a page of their own."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.commands import on_terminal, run
from tests.support.session_tape import FIRST, KEY, OTHER, session_tape

PARTS = {
    "wall_ms": 8400, "streaming_ms": 1400, "stalled_ms": 3000, "waiting_ms": 900, "closing_ms": 50, "failed_ms": 50,
    "backoff_ms": 1000, "tools_ms": 2000, "idle_ms": 0, "parallel_ms": 0, "turns": 2, "exchanges_max": 1,
    "ttft_p50_ms": 450,
}  # fmt: skip


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return session_tape(tmp_path / "sessions.db")


def test_a_list_of_sessions_has_the_parts_of_their_time(tape: Path) -> None:
    other, found = json.loads(run(tape, "ls", "--by", "conversation", "--format", "json").stdout)
    assert found["conversation"] == KEY
    assert {name: found[name] for name in PARTS} == PARTS
    assert (found["failed"], found["open"], found["exchanges"], found["clock_step"]) == (1, 0, 3, False)
    assert (other["conversation"], other["wall_ms"], other["turns"]) == (OTHER, 20, 1)
    (only,) = json.loads(run(tape, "ls", "--by", "conversation", "-n", "1", "--format", "json").stdout)
    assert only == other


def test_a_terminal_gets_the_largest_part_as_a_bar(tape: Path) -> None:
    lines = on_terminal(tape, "ls", "--by", "conversation", columns=120).splitlines()
    assert next(line for line in lines if "agent-one" in line).split()[3:8] == ["8,400", "ms", "███", "stalled", "36"]


def test_the_threshold_of_a_stall_is_the_configured_one(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRETAPE_STALL_MS", "5000")
    _, found = json.loads(run(tape, "ls", "--by", "conversation", "--format", "json").stdout)
    assert (found["streaming_ms"], found["stalled_ms"]) == (4400, 0)


def test_an_export_has_the_table_with_units(tape: Path) -> None:
    found, other = csv.DictReader(io.StringIO(run(tape, "export", "--table", "conversations").stdout))
    assert {name: float(found[name]) for name in PARTS} == PARTS
    assert other["conversation"] == OTHER
    one = run(tape, "export", f"s:{KEY}", "--table", "conversations", "--columns", "conversation,tools_ms").stdout
    assert one.split() == ["conversation,tools_ms", f"{KEY},2000.0"]
    units = run(tape, "export", "--table", "conversations", "--schema", "--format", "tsv").stdout
    assert (
        "conversations\ttools_ms\tnumber\tms\ttime in which none is open; the next to start continues a tool" in units
    )


def test_the_parts_of_exchanges_that_fit_are_those_of_these_alone(tape: Path) -> None:
    (found,) = json.loads(run(tape, "ls", "--by", "conversation", "-f", f"id:{FIRST}", "--format", "json").stdout)
    assert (found["wall_ms"], found["tools_ms"], found["turns"], found["exchanges"]) == (1450, 0, 1, 1)
