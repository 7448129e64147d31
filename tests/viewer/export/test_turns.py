"""Turns over a WebSocket are a table of every format, a frame, and a view of the tape."""

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.frames import opened, record, websocket
from tests.support.websockets import side
from wiretape.viewer.export.frames import open_tape

PATH = "/v1/realtime?model=gpt-realtime"
FORMULA = "=1+1"


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of a session with two turns; the second one is interrupted."""
    upstream, client = side(), side(client=True)
    messages = [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_audio_transcript.delta", "response_id": "r1", "delta": FORMULA},
        {"type": "response.output_audio.delta", "response_id": "r1", "delta": "AAAA"},
        {"type": "response.done", "response": {"id": "r1", "status": "completed", "usage": {"output_tokens": 5}}},
        {"type": "response.created", "response": {"id": "r2"}},
        {
            "type": "response.done",
            "response": {"id": "r2", "status": "cancelled", "status_details": {"reason": "turn_detected"}},
        },
    ]
    sent = [bytes(client.send_data('{"type":"response.create"}'))]
    tape = tmp_path_factory.mktemp("spoken") / "tape.db"
    with opened(tape) as store:
        pieces = [bytes(upstream.send_data(json.dumps(message))) for message in messages]
        record(store, websocket("0123456789abcdef", pieces, sent, PATH))
    return tape


def test_each_turn_is_a_row_of_every_format(spoken: Path) -> None:
    lines = [
        json.loads(line) for line in run(spoken, "export", "--table", "turns", "--format", "jsonl").stdout.splitlines()
    ]
    assert [(line["exchange_id"], line["turn"], line["outcome"]) for line in lines] == [
        ("0123456789abcdef", 1, "complete"), ("0123456789abcdef", 2, "interrupted"),
    ]  # fmt: skip
    assert (lines[0]["text"], lines[0]["output_tokens"], lines[0]["audio_bytes"]) == (FORMULA, 5, 3)
    assert lines[0]["ttfa_ms"] > lines[0]["ttft_ms"] > 0
    assert (lines[1]["ttfa_ms"], lines[1]["output_tokens"], lines[1]["begun_by"]) == (None, None, None)
    cells = list(csv.DictReader(io.StringIO(run(spoken, "export", "--table", "turns").stdout, newline="")))
    assert [list(cell) for cell in cells] == [list(line) for line in lines]
    assert (cells[0]["text"], cells[1]["ttfa_ms"]) == (f"'{FORMULA}", "")
    assert json.loads(run(spoken, "export", "--table", "turns", "--format", "json").stdout) == lines
    assert len(run(spoken, "export", "--table", "turns", "-n", "1", "--format", "jsonl").stdout.splitlines()) == 1


def test_the_view_has_the_values_of_the_export(spoken: Path) -> None:
    with closing(sqlite3.connect(spoken)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA trusted_schema = OFF")
        rows = [dict(row) for row in connection.execute("SELECT * FROM turns ORDER BY exchange_no, turn")]
    exported = json.loads(run(spoken, "export", "--table", "turns", "--format", "json").stdout)
    assert [{name: row[name] for name in row if name != "exchange_no"} for row in rows] == exported


def test_a_frame_has_the_turns(spoken: Path) -> None:
    frame = open_tape(spoken).turns("operation:realtime")
    assert frame["outcome"].tolist() == ["complete", "interrupted"]
    assert frame["ttfa_ms"].isna().tolist() == [False, True]


def test_turns_are_derived_again(spoken: Path) -> None:
    content = run(spoken, "export", "--table", "turns", "--format", "jsonl").stdout
    with closing(sqlite3.connect(spoken)) as connection, connection:
        connection.execute("UPDATE measures SET turns = NULL")
    assert run(spoken, "export", "--table", "turns", "--format", "jsonl").stdout == ""
    run(spoken, "db", "rebuild")
    assert run(spoken, "export", "--table", "turns", "--format", "jsonl").stdout == content


def test_statistics_count_turns_apart_from_other_generations(spoken: Path) -> None:
    (session_row,) = json.loads(run(spoken, "stats", "-f", "operation:realtime", "--format", "json").stdout)
    assert (
        session_row["n"],
        session_row["n_complete"],
        session_row["n_client_closed"],
        session_row["output_tokens"],
    ) == (2, 1, 1, 5)
    assert (session_row["ttft_n"], session_row["error_rate_pct"], session_row["icl_n"]) == (1, 0.0, 0)
    lines = [
        json.loads(line) for line in run(spoken, "export", "--table", "turns", "--format", "jsonl").stdout.splitlines()
    ]
    assert session_row["ttft_p50_ms"] == lines[0]["ttft_ms"]
    (other_row,) = json.loads(run(spoken, "stats", "--format", "json").stdout)
    assert other_row["n"] == 0


def test_a_key_repeated_in_an_error_is_removed(tmp_path: Path) -> None:
    upstream, client = side(), side(client=True)
    error = {"code": "Incorrect API key provided: sk-0123456789abcdef01234567", "message": "refused"}
    details = {"type": "failed", "error": error}
    messages = [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.done", "response": {"id": "r1", "status": "failed", "status_details": details}},
    ]
    sent = [bytes(client.send_data('{"type":"response.create"}'))]
    with opened(tmp_path / "tape.db") as store:
        pieces = [bytes(upstream.send_data(json.dumps(message))) for message in messages]
        record(store, websocket("0123456789abcdef", pieces, sent, PATH))
    (line,) = run(tmp_path / "tape.db", "export", "--table", "turns", "--format", "jsonl").stdout.splitlines()
    turn = json.loads(line)
    assert (turn["outcome"], turn["error_code"]) == ("error", "Incorrect API key provided: REDACTED")
