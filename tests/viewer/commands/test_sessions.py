"""Sessions on the command line: the parts of their time in lists, statistics, exports and a page of their own."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.agents import body
from tests.support.commands import on_terminal, run
from tests.support.sample_tape import begin, end, recorded, response
from tests.support.session_tape import FIRST, KEY, OTHER, SECOND, session_tape
from wiretape.recorder.errors import NotFound
from wiretape.viewer.cli import group

PARTS = {
    "wall_ms": 8400, "streaming_ms": 1400, "stalled_ms": 3000, "waiting_ms": 900, "closing_ms": 50, "failed_ms": 50,
    "backoff_ms": 1000, "tools_ms": 2000, "idle_ms": 0, "parallel_ms": 0, "turns": 2, "exchanges_max": 1,
    "ttft_p50_ms": 450,
}  # fmt: skip


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return session_tape(tmp_path / "sessions.db")


def test_listed_sessions_have_their_parts_of_time(tape: Path) -> None:
    other_row, row = json.loads(run(tape, "ls", "--by", "conversation", "--format", "json").stdout)
    assert row["conversation"] == KEY
    assert {name: row[name] for name in PARTS} == PARTS
    assert (row["failed"], row["open"], row["exchanges"], row["clock_step"]) == (1, 0, 3, False)
    assert (other_row["conversation"], other_row["wall_ms"], other_row["turns"]) == (OTHER, 20, 1)
    (only,) = json.loads(run(tape, "ls", "--by", "conversation", "-n", "1", "--format", "json").stdout)
    assert only == other_row


def test_a_terminal_gets_the_largest_part_as_a_bar(tape: Path) -> None:
    lines = on_terminal(tape, "ls", "--by", "conversation", columns=160).splitlines()
    line = next(line for line in lines if "agent-one" in line)
    assert "  8.400  ███      stalled 36 %" in line


def test_the_threshold_of_a_stall_is_the_configured_one(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRETAPE_STALL_MS", "5000")
    _, row = json.loads(run(tape, "ls", "--by", "conversation", "--format", "json").stdout)
    assert (row["streaming_ms"], row["stalled_ms"]) == (4400, 0)


def test_an_export_has_the_table_with_units(tape: Path) -> None:
    row, other_row = csv.DictReader(io.StringIO(run(tape, "export", "--table", "conversations").stdout))
    assert {name: float(row[name]) for name in PARTS} == PARTS
    assert other_row["conversation"] == OTHER
    output = run(tape, "export", f"s:{KEY}", "--table", "conversations", "--columns", "conversation,tools_ms").stdout
    assert output.split() == ["conversation,tools_ms", f"{KEY},2000.0"]
    units = run(tape, "export", "--table", "conversations", "--schema", "--format", "tsv").stdout
    assert (
        "conversations\ttools_ms\tnumber\tms\ttime in which none is open; the next to start continues a tool" in units
    )


def test_filtered_sessions_count_only_matching_exchanges(tape: Path) -> None:
    (row,) = json.loads(run(tape, "ls", "--by", "conversation", "-f", f"id:{FIRST}", "--format", "json").stdout)
    assert (row["wall_ms"], row["tools_ms"], row["turns"], row["exchanges"]) == (1450, 0, 1, 1)


def test_statistics_by_conversation_have_the_parts_too(tape: Path) -> None:
    row, _ = json.loads(run(tape, "stats", "--by", "conversation", "--format", "json").stdout)
    assert {name: row[name] for name in PARTS} == PARTS
    columns = run(tape, "stats", "--by", "conversation", "--columns", "conversation,tools_ms", "--format", "csv").stdout
    assert columns.split() == ["conversation,tools_ms", f"{KEY},2000.0", f"{OTHER},0.0"]
    (all,) = json.loads(run(tape, "stats", "--format", "json").stdout)
    assert "tools_ms" not in all
    lines = run(tape, "stats", "--by", "conversation", "--format", "table").stdout.splitlines()
    assert "stalled 36 %" in next(line for line in lines if line.startswith(KEY))


def test_filtered_statistics_end_with_their_sessions_time(tape: Path) -> None:
    line = run(tape, "stats", "--format", "table").stdout.splitlines()[-1]
    assert line.startswith("time       2 sessions in 8,420 ms: stalled 36 % · tools 24 % · streaming 17 % · ")
    output = run(tape, "stats", "-f", f"id:{FIRST}", "--format", "table").stdout.splitlines()[-1]
    assert output == "time       1 session in 1,450 ms: streaming 69 % · waiting 28 % · closing 3 %"


def test_a_session_is_shown_by_what_took_its_time(tape: Path) -> None:
    lines = run(tape, "show", "s:agent-one", "--format", "table").stdout.splitlines()
    assert lines[0] == "8,400 ms in 2 turns: 36 % stalled, 24 % in tools"
    assert lines[1].split() == ["session", KEY, "·", "gpt-x", "·", "Fix", "it."]
    assert next(line for line in lines if line.startswith("tools")).split()[:5] == ["tools", "2,000", "ms", "24", "%"]
    assert "counts     3 exchanges · 2 turns · 1 failed" in lines
    assert json.loads(run(tape, "show", f"s:{KEY}", "--format", "json").stdout)["tools_ms"] == 2000
    assert run(tape, "show", "@s", "--format", "table").stdout.startswith(
        "20 ms in 1 turn: 50 % waiting for the model, "
    )


def test_the_turns_of_a_session_have_a_row_each(tape: Path) -> None:
    first, limited, second = json.loads(run(tape, "show", f"s:{KEY}", "--part", "time", "--format", "json").stdout)
    assert (first["id"], first["start_ms"], first["waiting_ms"], first["streaming_ms"]) == (FIRST, 0, 400, 1000)
    assert (limited["tools_ms"], limited["failed_ms"], limited["outcome"]) == (2000, 50, "http_error")
    assert (second["backoff_ms"], second["stalled_ms"], second["ttft_ms"]) == (1000, 3000, 500)
    assert (second["input_tokens"], second["cache_read_input_tokens"], second["cache_verdict"]) == (900, 600, "unknown")
    lines = run(tape, "show", f"s:{KEY}", "--part", "time", "--format", "table").stdout.splitlines()
    assert lines[0].split() == [
        "id", "start", "s", "wait", "s", "stream", "s", "stall", "s", "failed", "s", "backoff", "s", "tools", "s", "in",
        "cached", "cache", "tokens", "outcome", "model",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("@", "--part", "time"), "--part time is of a session, and @ is an exchange: name a session, such as @s"),
        (
            ("@s", "--part", "text"),
            "--part text is of an exchange, and @s is a session: its parts are",
        ),
    ],
)
def test_a_part_of_the_other_kind_is_refused(tape: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in run(tape, "show", *arguments, code=2).stderr


def test_an_unknown_session_error_names_their_list(tape: Path) -> None:
    with pytest.raises(NotFound, match="no session s:zzz: 'wiretape ls --by conversation' lists them"):
        CliRunner().invoke(group, ["show", "s:zzz", "--db", str(tape)], catch_exceptions=False)


def test_two_sessions_are_compared_by_their_time(tape: Path) -> None:
    rows = json.loads(run(tape, "compare", "s:agent-one", "@s", "--format", "json").stdout)
    metrics = {row["metric"]: (row["a"], row["b"], row["difference"]) for row in rows}
    assert (metrics["wall_ms"], metrics["turns"]) == ((8400, 20, -8380), (2, 1, -1))
    lines = run(tape, "compare", "s:agent-one", "@s", "--format", "table").stdout.splitlines()
    assert lines[1].split() == ["wall_ms", "8400.0", "20.0", "-8380.0"]
    assert "name both by s:KEY or @s" in run(tape, "compare", "s:agent-one", "@", code=2).stderr
    assert "name both by s:KEY or @s" in run(tape, "compare", "@s", "@s", "--part", "request", code=2).stderr


def test_a_session_lists_its_stalls_and_a_report_quotes_them(tape: Path) -> None:
    story = "3.0 s by upstream: nothing came, then it went on"
    key = f"s:{KEY}"
    assert f"stall      {SECOND[:8]} {story}" in run(tape, "show", key, "--format", "table").stdout.splitlines()
    row = json.loads(run(tape, "show", key, "--format", "json").stdout)
    assert row["stalls"] == [{"id": SECOND, "stall": story}]
    assert json.loads(run(tape, "show", f"s:{OTHER}", "--format", "json").stdout)["stalls"] == []
    markdown = run(tape, "report", key).stdout.splitlines()
    assert markdown[markdown.index("Stalls:") + 2] == f"- `{SECOND}` {story}"
    reported = json.loads(run(tape, "report", key, "--format", "json").stdout)["exchanges"]
    assert {exchange["id"]: exchange["stalls"] for exchange in reported if exchange["stalls"]} == {SECOND: [story]}


def test_pings_in_a_silence_are_told_from_other_events(tmp_path: Path) -> None:
    parts = [(50, _event("message_start", message={"id": "m", "role": "assistant", "content": []})),
             (60, _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "a"})),
             (1_060, _event("ping")), (2_060, _event("ping")),
             (3_060, _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "b"})),
             (3_070, _event("message_stop"))]  # fmt: skip
    frames = [begin(FIRST, 0, json.dumps(body(1)).encode(), "/v1/messages"), *response(FIRST, parts), end(FIRST, parts)]
    output = run(recorded(tmp_path / "pings.db", frames), "show", "@s", "--format", "table").stdout
    assert f"stall      {FIRST[:8]} 3.0 s by upstream: only 2 pings came, then it went on" in output.splitlines()


def _event(type: str, **data: object) -> bytes:
    return f"event: {type}\ndata: {json.dumps({'type': type, **data})}\n\n".encode()
