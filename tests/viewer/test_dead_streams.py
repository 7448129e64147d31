"""Streams that died silently, in every command: found as stalls, named, counted and accounted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run
from tests.support.growing_tape import recorder
from tests.support.sample_tape import DONE, event

COMMENT = b": keepalive\n\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
WORDS = [(100, event({"content": "Some "})), (200, event({"content": "words"}))]
HEALTHY, LATE, CUT, SILENT, PINGED, NEVER, MUTE = (f"dddd00000000000{number}" for number in range(7))


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dead") / "tape.db"
    chat = "/v1/chat/completions"
    with recorder(path) as tape:
        tape.record(HEALTHY, [*WORDS, (300, event({}, "stop") + DONE)], 0, chat)
        tape.record(LATE, [*WORDS, (1000, PING), (3500, event({"content": "!"}, "stop") + DONE)], 10, chat)
        tape.record(CUT, [*WORDS, (3500, b"da")], 20, chat, "eof")
        tape.record(SILENT, [*WORDS, (3500, b"da")], 30, chat, "client")
        tape.record(PINGED, [*WORDS, (1000, PING), (2000, PING), (3500, PING)], 40, chat, "client")
        tape.record(NEVER, [(1000, PING), (3500, PING)], 50, chat, "client")
        tape.record(MUTE, [(1000, COMMENT), (3600, COMMENT)], 55, chat, "client")
    return path


def rows(tape: Path, *arguments: str) -> Any:
    return json.loads(run(tape, *arguments, "--format", "json").stdout)


def test_filters_find_dead_streams_by_their_silence(dead: Path) -> None:
    stalled = [row["id"] for row in rows(dead, "ls", "-f", "flag:stall")]
    assert stalled == [MUTE, NEVER, PINGED, SILENT, CUT, LATE]
    assert [row["id"] for row in rows(dead, "ls", "-f", "flag:given_up")] == [MUTE, NEVER, PINGED, SILENT]
    assert [row["id"] for row in rows(dead, "ls", "-f", "stall>2s")] == [PINGED, SILENT, CUT, LATE]
    unanswered = rows(dead, "ls", "-f", "first_output_silence>2s", "--columns", "all")
    assert [(row["id"], row["max_output_silence_ms"]) for row in unanswered] == [(MUTE, None), (NEVER, None)]


def test_each_layer_falls_silent_by_itself(dead: Path) -> None:
    fields = (
        "max_silence_ms",
        "max_event_silence_ms",
        "max_output_silence_ms",
        "first_event_silence_ms",
        "ttf_event_ms",
    )
    by_id = {row["id"]: [row[field] for field in fields] for row in rows(dead, "ls", "--columns", "all")}
    assert by_id[HEALTHY] == [100, 100, 100, 100, 100]
    assert by_id[LATE] == [2500, 2500, 3300, 100, 100]
    assert by_id[SILENT] == [3300, 3301.5, 3301.5, 100, 100]
    assert by_id[PINGED] == [1500, 1500, 3301.5, 100, 100]
    assert by_id[NEVER] == [2500, 2500, None, 1000, 1000]
    assert by_id[MUTE] == [2600, None, None, 3601.5, None]
    assert {row["id"] for row in rows(dead, "ls", "-f", "event_silence>3s")} == {CUT, SILENT}


def test_references_lead_to_them(dead: Path) -> None:
    assert json.loads(run(dead, "show", "@stall", "--format", "json").stdout)["id"] == MUTE
    assert json.loads(run(dead, "show", "@slow", "--format", "json").stdout)["id"] == MUTE


def test_words_name_the_silence_and_its_length(dead: Path) -> None:
    words = {id: run(dead, "show", id).stdout.splitlines()[0] for id in (LATE, CUT, SILENT, PINGED, NEVER, MUTE)}
    assert words[LATE].startswith("✓ complete, stall 3.3 s by upstream")
    assert words[CUT].startswith("■ cut by upstream after 3.3 s ")
    assert words[SILENT].startswith("⊘ gave up after 3.3 s without output by upstream: ")
    assert words[PINGED].startswith("⊘ gave up after 3.3 s without output by upstream: ")
    assert words[NEVER].startswith("⊘ gave up after 3.5 s without output by upstream: ")
    assert words[MUTE].startswith("⊘ gave up after 3.6 s without output by upstream: ")
    table = run(dead, "ls", "--format", "table", "--columns", "mark,happened").stdout
    assert table.count("gave up after 3.3 s without output") == 2
    assert "cut by upstream after 3.3 s " in table
    assert "cancelled" not in table


def test_the_threshold_of_the_user_decides_words_and_verdicts(dead: Path) -> None:
    output = run(dead, "show", SILENT, "--stall-ms", "5000").stdout
    assert output.startswith("⊘ the client closed the connection ")
    assert (
        json.loads(run(dead, "show", SILENT, "--part", "timing", "--stall-ms", "5000", "--format", "json").stdout) == []
    )


def test_statistics_and_gates_judge_silences_of_every_outcome(dead: Path) -> None:
    (row,) = rows(dead, "stats")
    assert (row["max_output_silence_n"], row["first_output_silence_n"], row["ttft_n"]) == (5, 7, 2)
    assert (row["stalled_pct"], row["stalled_n"]) == (pytest.approx(600 / 7, abs=1e-4), 7)
    assert (row["given_up_pct"], row["given_up_n"], row["silent_end_n"]) == (pytest.approx(400 / 7, abs=1e-4), 7, 5)
    layers = ("max_silence", "max_event_silence", "first_silence", "first_event_silence", "ttf_event")
    assert [row[f"{name}_n"] for name in layers] == [7, 6, 7, 7, 6]
    assert row["error_rate_n"] == 3
    digest = run(dead, "stats", "--format", "table").stdout
    assert "4 given up in a stall" in digest
    assert "4 streams given up in a stall: wiretape ls" in digest
    assert "cancelled by the client" not in digest
    run(dead, "check", "--max", "max_output_silence.max=2s", code=3)
    run(dead, "check", "--max", "first_event_silence.max=2s", code=3)
    run(dead, "check", "--max", "stalled=85%", code=3)
    run(dead, "check", "--max", "given_up=58%", "--max", "stall.max=4s", code=0)


def test_silence_behind_the_first_output_counts_as_stalled(dead: Path) -> None:
    accounts = {row["last_at"]: row for row in rows(dead, "ls", "--by", "conversation")}
    parts = [(row["stalled_ms"], row["closing_ms"], row["failed_ms"]) for _, row in sorted(accounts.items())]
    assert len(parts) == 7
    assert [stalled > 3000 for stalled, _, _ in parts] == [False, True, True, True, True, False, False]
    assert max(closing + failed for _, closing, failed in parts) <= 200


def test_a_report_lists_the_longest_first_silence(dead: Path) -> None:
    report = json.loads(run(dead, "report", "-f", "path:*", "--format", "json").stdout)
    silences = {row["id"]: row["first_output_silence_ms"] for row in report["exchanges"]}
    assert silences[MUTE] == max(silences.values()) > 3500


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_empty_objects_as_pings_end_no_silence(tmp_path: Path, path: str) -> None:
    with recorder(tmp_path / "tape.db") as tape:
        tape.record(NEVER, [(1000, b"data: {}\n\n"), (3500, b"data: {}\n\n")], 0, path, "client")
    (row,) = rows(tmp_path / "tape.db", "ls", "--columns", "all")
    assert {"stall", "given_up"} <= set(row["flags"])
    assert row["first_output_silence_ms"] == 3501.5
