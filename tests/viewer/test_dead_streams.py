"""Streams that died silently, in every command: found as stalls, named, counted and accounted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run
from tests.support.growing_tape import recorder
from tests.support.sample_tape import DONE, event

PING = b": keepalive\n\n"
WORDS = [(100, event({"content": "Some "})), (200, event({"content": "words"}))]
HEALTHY, LATE, CUT, SILENT, PINGED, NEVER = (f"dddd00000000000{number}" for number in range(6))


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
    return path


def rows(tape: Path, *arguments: str) -> Any:
    return json.loads(run(tape, *arguments, "--format", "json").stdout)


def test_filters_find_dead_streams_by_their_silence(dead: Path) -> None:
    stalled = [row["id"] for row in rows(dead, "ls", "-f", "flag:stall")]
    assert stalled == [NEVER, PINGED, SILENT, CUT, LATE]
    assert [row["id"] for row in rows(dead, "ls", "-f", "flag:given_up")] == [NEVER, PINGED, SILENT]
    assert [row["id"] for row in rows(dead, "ls", "-f", "stall>2s")] == [PINGED, SILENT, CUT, LATE]
    (never,) = rows(dead, "ls", "-f", "first_output_silence>2s", "--columns", "all")
    assert (never["id"], never["max_output_silence_ms"]) == (NEVER, None)


def test_references_lead_to_them(dead: Path) -> None:
    assert json.loads(run(dead, "show", "@stall", "--format", "json").stdout)["id"] == NEVER
    assert json.loads(run(dead, "show", "@slow", "--format", "json").stdout)["id"] == NEVER


def test_words_name_the_silence_and_its_length(dead: Path) -> None:
    words = {id: run(dead, "show", id).stdout.splitlines()[0] for id in (LATE, CUT, SILENT, PINGED, NEVER)}
    assert words[LATE].startswith("✓ complete, stall 3.3 s by upstream")
    assert words[CUT].startswith("■ cut by upstream after 3.3 s ")
    assert words[SILENT].startswith("⊘ gave up after 3.3 s without output by upstream: ")
    assert words[PINGED].startswith("⊘ gave up after 3.3 s without output by upstream: ")
    assert words[NEVER].startswith("⊘ gave up after 3.5 s without output by upstream: ")
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
    assert (row["max_output_silence_n"], row["first_output_silence_n"], row["ttft_n"]) == (5, 6, 2)
    assert (row["stalled_pct"], row["stalled_n"]) == (pytest.approx(500 / 6, abs=1e-4), 6)
    assert (row["given_up_pct"], row["given_up_n"], row["silent_end_n"]) == (50, 6, 4)
    assert row["error_rate_n"] == 3
    digest = run(dead, "stats", "--format", "table").stdout
    assert "3 given up in a stall" in digest
    assert "3 streams given up in a stall: wiretape ls" in digest
    assert "cancelled by the client" not in digest
    run(dead, "check", "--max", "max_output_silence.max=2s", code=3)
    run(dead, "check", "--max", "stalled=80%", code=3)
    run(dead, "check", "--max", "given_up=50%", "--max", "stall.max=4s", code=0)


def test_silence_behind_the_first_output_counts_as_stalled(dead: Path) -> None:
    accounts = {row["last_at"]: row for row in rows(dead, "ls", "--by", "conversation")}
    parts = [(row["stalled_ms"], row["closing_ms"], row["failed_ms"]) for _, row in sorted(accounts.items())]
    assert len(parts) == 6
    assert [stalled > 3000 for stalled, _, _ in parts] == [False, True, True, True, True, False]
    assert max(closing + failed for _, closing, failed in parts) <= 200


def test_a_report_lists_the_longest_first_silence(dead: Path) -> None:
    report = json.loads(run(dead, "report", "-f", "path:*", "--format", "json").stdout)
    silences = {row["id"]: row["first_output_silence_ms"] for row in report["exchanges"]}
    assert silences[NEVER] == max(silences.values()) > 3500
