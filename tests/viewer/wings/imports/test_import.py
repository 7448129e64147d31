"""`import`: the tape has the facts that other programs recorded, and no others."""

import gzip
import itertools
import json
import os
import sqlite3
import stat
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.frames import opened
from tests.support.wires import CHAT
from wiretape.recorder.tape import cut, file
from wiretape.recorder.tape import reading as tape_reading
from wiretape.viewer.imported import ImportedExchange, ImportedFile, NotImportable
from wiretape.viewer.wings.imports import formats

DATA = Path(__file__).parents[3] / "data" / "imports"
KEY = "sk-0123456789abcdefghij"
ANSWER = b"".join(CHAT)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """The path for a tape that does not exist yet."""
    return tmp_path / "tape.db"


def imported(tape: Path, *arguments: object, code: int = 0) -> str:
    """Import, check that the tape is intact and derived alike again, and return the output."""
    result = run(tape, "import", *map(str, arguments), code=code)
    if tape.exists():
        assert "is whole" in run(tape, "db", "check").output
        assert " 0 changed" in run(tape, "db", "rebuild").output
    return result.output


def facts_of(tape: Path, id: str = "@") -> dict[str, Any]:
    return json.loads(run(tape, "show", id, "--format", "json").stdout)


def test_bytes_alone_are_measured_without_a_single_time(tape: Path, tmp_path: Path) -> None:
    (source := tmp_path / "answer.sse").write_bytes(ANSWER)
    printed = imported(tape, source, "--url", f"https://api.test/v1/chat/completions?key={KEY}", "--label", "a=b")
    assert "1 exchange of sse imported" in printed
    assert "1 without timing" in printed
    assert stat.S_IMODE(tape.stat().st_mode) == 0o600
    assert KEY.encode() not in tape.read_bytes()
    row = facts_of(tape)
    assert (row["outcome"], row["flags"]) == ("complete", ["imported", "no_timing"])
    assert (row["clock"], row["bytes"], row["reads"], row["labels"]) == ("none", len(ANSWER), 0, {"a": "b"})
    assert row["content"]
    assert [name for name, value in row.items() if name.endswith("_ms") and value is not None] == []
    assert run(tape, "play", "@").stdout_bytes == ANSWER
    assert "in that section; its time is unknown" in run(tape, "play", "@", "--from", "1s").stderr
    assert run(tape, "show", "@", "--part", "reads", "--format", "tsv").stdout.count("\n") == 1
    assert "no_timing" in run(tape, "stats", "--format", "json").stdout
    assert "nobody knows" in run(tape, "show", "@").stdout
    assert "no verdict" in run(tape, "show", "@", "--part", "timing", "--format", "table").stdout
    assert "1 of 1" in run(tape, "check", "--min", "n=1").output
    assert run(tape, "ls", "-f", "clock:none flag:no_timing flag:imported", "--format", "tsv").stdout.count("\n") == 2


def test_what_is_on_the_tape_already_is_left_out(tape: Path, tmp_path: Path) -> None:
    (first := tmp_path / "1.sse").write_bytes(ANSWER)
    (second := tmp_path / "2.sse").write_bytes(ANSWER + b": another\n\n")
    imported(tape, first)
    os.utime(first, (1, 1))
    assert "0 exchanges of sse imported" in (printed := imported(tape, first))
    assert "1 on it already" in printed
    imported(tape, first, second)
    assert run(tape, "ls", "--format", "jsonl").stdout.count("\n") == 2


def test_equal_answers_in_different_files_are_separate_exchanges(tape: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.sse", tmp_path / "2.sse"
    for source in (first, second):
        source.write_bytes(ANSWER)
    printed = imported(tape, first, second)
    assert printed.count("1 exchange of sse imported") == 2
    assert printed.count("already") == 0


@each_case(
    "lines",
    [
        b'{"request":{"path":"/v1/messages"},"response":{"status":200}}\n' * 2,
        b'{"level":"info","message":"started"}\n{"level":"info","message":"stopped"}\n',
        b'[{"name":"a"},{"name":"b"}]',
        b"id: 5\nretry: 3\nname: a file of settings\n",
        b'{"error": {"message": "no", "type": "overloaded_error"}}',
    ],
)
def test_lines_that_answer_no_api_are_refused(lines: bytes) -> None:
    with pytest.raises(NotImportable, match="no answer of an API"):
        list(formats.read("sse", lines, ImportedFile("t", datetime(2026, 3, 1, tzinfo=UTC))))


def test_an_export_as_rows_is_no_stream(tape: Path, tmp_path: Path) -> None:
    (source := tmp_path / "answer.sse").write_bytes(ANSWER)
    imported(tape, source)
    for table, format in itertools.product(("exchanges", "texts", "chunks", "conversations"), ("jsonl", "json")):
        rows = tmp_path / f"{table}.{format}"
        run(tape, "export", "--table", table, "-o", str(rows))
        assert "no answer of an API" in imported(tape, rows, code=1)


@each_case(
    "body",
    [
        b'{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"a"},"done":false}\n',
        b'{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},'
        b'"finish_reason":"stop"}]}',
        b'[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}]',
        b": keep-alive\n\n",
        b"\xef\xbb\xbfevent: ping\ndata\n\n",
    ],
)
def test_known_json_and_event_stream_fields_are_answers(body: bytes) -> None:
    (exchange,) = formats.read("sse", body, ImportedFile("t", datetime(2026, 3, 1, tzinfo=UTC)))
    assert isinstance(exchange, ImportedExchange)
    assert exchange.body == body


def test_a_lone_error_answers_the_urls_api() -> None:
    source = ImportedFile("t", datetime(2026, 3, 1, tzinfo=UTC), "https://api.test/v1/messages")
    (exchange,) = formats.read("sse", b'{"type":"error","error":{"type":"overloaded_error","message":"no"}}', source)
    assert isinstance(exchange, ImportedExchange)


def test_a_pipe_and_stdin_are_read_like_files(tape: Path, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    writer = threading.Thread(target=pipe.write_bytes, args=(ANSWER,))
    writer.start()
    assert "pipe: 1 exchange of sse imported" in imported(tape, pipe)
    writer.join()
    assert "-: 1 exchange of sse imported" in run(tape, "import", "-", input=ANSWER).output
    assert run(tape, "play", "@").stdout_bytes == ANSWER
    assert "it is empty" in run(tape, "import", "-", input=b"", code=1).output


def test_directories_and_impossible_times_are_named(tape: Path, tmp_path: Path) -> None:
    assert "is a directory: name the files in it" in str(run(tape, "import", str(tmp_path), code=1).exception)
    (source := tmp_path / "answer.sse").write_bytes(ANSWER)
    os.utime(source, (-86_400, -86_400))
    assert "of the year 1969: such a date stands for an unknown one" in imported(tape, source, code=1)
    os.utime(source, (0, 0))
    assert "of the year 1970: such a date stands for an unknown one" in imported(tape, source, code=1)
    assert not tape.exists()


def test_an_unknown_body_has_no_size_anywhere(tape: Path, tmp_path: Path) -> None:
    request = {"method": "POST", "uri": "https://api.test/v1/messages"}
    failed = {"request": request, "response": {"status": {"code": 500}}}
    none = {"request": request, "response": {"status": {"code": 204}}}
    (source := tmp_path / "cassette.json").write_text(json.dumps({"version": 1, "interactions": [failed, none]}))
    imported(tape, source)
    with closing(sqlite3.connect(tape)) as connection:
        assert connection.execute("SELECT bytes FROM exchange_metrics ORDER BY status").fetchall() == [(0,), (None,)]
    lines = run(tape, "export", "--format", "jsonl").stdout.splitlines()
    assert {row["status"]: row["bytes"] for row in map(json.loads, lines)} == {204: 0, 500: None}


def test_an_untimed_import_survives_cuts_and_merges(tape: Path, tmp_path: Path) -> None:
    (source := tmp_path / "answer.sse").write_bytes(ANSWER)
    imported(tape, source)
    run(tape, "db", "cut", "-o", str(tmp_path / "cut.jsonl"))
    run(merged := tmp_path / "merged.db", "db", "merge", str(tmp_path / "cut.jsonl"))
    assert facts_of(merged) == facts_of(tape)
    assert run(merged, "export", "@", "--format", "sse").stdout_bytes == ANSWER


def test_a_source_is_a_session_without_running_recorder(tape: Path, tmp_path: Path) -> None:
    (source := tmp_path / f"{KEY}.sse").write_bytes(ANSWER)
    imported(tape, source)
    with opened(tape) as store, store.connection.begin():
        sources = store.connection.exec_driver_sql("SELECT imported_from FROM sessions ORDER BY no").scalars().first()
        store.connection.exec_driver_sql("UPDATE sessions SET ended_at = NULL")
        runs = tape_reading.running_recorders(file.reader_of(store.connection))
    assert sources is not None
    assert sources.startswith("sse REDACTED:sha256:")
    assert [run for run in runs if not run.listen] == []


def test_files_without_a_recording_are_named_without_a_tape(tape: Path, tmp_path: Path) -> None:
    for name, data, reason in (
        ("empty", b"", "it is empty"),
        ("blank.sse", b" \n", "its format is not known"),
        ("passwd", b"root:x:0:0:root:/root:/bin/sh\n", "its format is not known"),
        ("noise", b"\x89PNG\r\n\x1a\n" * 9, "its format is not known"),
        ("cut.jsonl", cut.encoded(cut.FIRST), "it is a tape as text: 'wiretape db merge' copies it"),
        ("other.db", b"SQLite format 3\x00" + bytes(84), "it is a tape, or another database"),
        ("page.har.gz", gzip.compress(b"{}"), "it is compressed: unpack it"),
        ("list.har", b"[]", "it is no HTTP archive"),
        ("bad.har", b'{"log": {"entries": [{"startedDateTime": 1}]}}', "entry 0: "),
    ):
        (source := tmp_path / name).write_bytes(data)
        printed = imported(tape, source, code=1)
        assert f"{name}: {reason}" in printed
        assert not tape.exists()
    imported(tape, tmp_path / "nowhere", code=1)


def test_unimportable_exchanges_are_named_beside_the_imported(tape: Path, tmp_path: Path) -> None:
    bad = {"startedDateTime": "\u001b[31mnever"}
    good = {"startedDateTime": "2026-03-01T12:00:00Z", "time": 30, "timings": {"send": 0, "wait": 10, "receive": 20},
            "request": {"method": "GET", "url": f"https://api.test/v1/models?key={KEY}"},
            "response": {"status": 200, "content": {"text": "{}"}}}  # fmt: skip
    (source := tmp_path / "a.har").write_text(json.dumps({"log": {"entries": [bad, good, good]}}))
    printed = imported(tape, source, code=1)
    assert "entry 0: " in printed
    assert "\x1b" not in printed
    assert "2 exchanges of har imported" in printed
    assert "2 without timing, 1 left out" in printed
    row = facts_of(tape)
    assert (row["ttfb_ms"], row["duration_ms"], row["ttf_byte_ms"], row["max_silence_ms"]) == (10, 30, None, None)
    assert KEY.encode() not in tape.read_bytes()


def test_an_archive_of_imports_brings_back_what_was_unknown(tape: Path, tmp_path: Path) -> None:
    (source := tmp_path / "answer.sse").write_bytes(ANSWER)
    imported(tape, source, DATA / "mitmproxy-11.flows")
    event = {"time": 1772366400.5, "eventName": "message", "data": "x"}
    chrome = {"startedDateTime": "2026-03-01T12:00:00Z", "request": {"method": "GET", "url": "http://api.test/"},
              "response": {"status": 200}, "_eventSourceMessages": [event]}  # fmt: skip
    (chrome_archive := tmp_path / "chrome.har").write_text(json.dumps({"log": {"entries": [chrome]}}))
    imported(tape, chrome_archive)
    assert {"coarse_clock", "rebuilt"} < set(facts_of(tape)["flags"])
    archive, second_tape = tmp_path / "a.har", tmp_path / "again.db"
    run(tape, "export", "-o", str(archive))
    assert "5 exchanges of har imported" in imported(second_tape, archive)
    first, second = (
        run(recording, "export", "--table", "texts", "--format", "jsonl").stdout for recording in (tape, second_tape)
    )
    assert sorted(map(stable, first.splitlines())) == sorted(map(stable, second.splitlines()))


def stable(line: str) -> str:
    """Return a row without the field that an archive lacks: whether the connection was kept."""
    return json.dumps(json.loads(line) | {"connection_reused": None})


def test_a_file_name_of_any_bytes_is_no_obstacle(tape: Path, tmp_path: Path) -> None:
    source = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\x1b.sse"))
    source.write_bytes(ANSWER)
    assert "\x1b" not in imported(tape, source)
    source.unlink()


def test_mitmproxys_flows_have_only_start_and_end(tape: Path) -> None:
    assert "3 exchanges of mitmproxy imported" in imported(tape, DATA / "mitmproxy-11.flows")
    row = facts_of(tape, "@-2")
    assert (row["outcome"], row["flags"], row["output_tokens"]) == ("complete", ["imported", "no_timing"], 3)
    assert (row["ttfb_ms"], row["duration_ms"]) == (0.867, 454.327)
    unknown = ("ttft_ms", "ttf_byte_ms", "latency_ms", "max_gap_ms", "max_silence_ms", "tps_user", "icl_p50_ms")
    assert [row[name] for name in unknown] == [None] * len(unknown)
    broken = facts_of(tape)
    assert (broken["outcome"], broken["outcome_detail"], broken["max_silence_ms"]) == ("truncated", "eof", None)
    assert "kept nothing of the body" in broken["ended_detail"]
    assert broken["bytes"] is None
    assert "closed the connection after an unknown part of the answer" in run(tape, "show", "@").stdout
    assert "nobody knows what came of the body" in run(tape, "show", "@", "--part", "events").stderr
    assert "burst" not in run(tape, "show", "@-2").stdout
    assert b"sk-secretsecret" not in tape.read_bytes()


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_vcrpys_cassettes_have_texts_and_usage_without_times(tape: Path, suffix: str) -> None:
    output = imported(tape, DATA / f"vcrpy-9.{suffix}")
    assert "3 exchanges of vcrpy imported" in output
    assert "3 without timing" in output
    rows = [facts_of(tape, id) for id in ("@", "@-1", "@-2")]
    assert {row["content"] for row in rows} == {"Héllo, world\n", "Four.", None}
    assert {row["total_tokens"] for row in rows} == {7, None}
    assert {row["outcome"] for row in rows} == {"complete", "http_error"}
    assert {row["clock"] for row in rows} == {"none"}
    assert "0 exchanges of vcrpy imported" in imported(tape, DATA / f"vcrpy-9.{suffix}")
