"""A tape, as other tools measure it: counted exchanges, lines, and their streams."""

import contextlib
import csv
import io
import json
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.sample_tape import COMPLETE, ODD
from tests.support.tools import COMPLETED, CREATED, DONE, chunk, measure_as, named, stream
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.report import tools
from wiretape.viewer.report.tools import FIELDS, render, schema
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.observed import observed
from wiretape.viewer.stats.tools.summary import measure_observed, report_of
from wiretape.viewer.stats.tools.tools import TOOLS, authority

ONE = exchanges.c.id == "aaaa000000000001"


def rows(connection: Connection, tool: str, filter_: Condition | None = None) -> list[TableRow]:
    observed_exchanges = observed(connection, filter_, requests=authority(tool).reads_request)
    return tools.rows(report_of(tool, (measure_observed(tool, exchange) for exchange in observed_exchanges)))


def printed(tape: Path, tool: str, *arguments: str) -> tuple[str, str]:
    result = run(tape, "stats", "--as", tool, *arguments)
    return result.stdout, result.stderr


def test_a_row_has_the_contracts_fields_for_each_tool(connection: Connection) -> None:
    for tool in TOOLS:
        table = rows(connection, tool)
        assert table
        assert {tuple(row) for row in table} == {FIELDS}
        assert {row["tool"] for row in table} == {tool}


def test_the_exchanges_that_a_condition_selects_are_measured(connection: Connection) -> None:
    table = {row["metric"]: row for row in rows(connection, "vllm", ONE)}
    assert (table["TTFT"]["n"], table["TTFT"]["mean"], table["E2EL"]["mean"]) == (1, 110, 170)
    assert (table["TPOT"]["mean"], table["ITL"]["n"]) == (pytest.approx(20), 3)
    assert table["Total generated tokens"]["value"] == 4
    assert table["Request throughput"]["value"] > 0
    assert rows(connection, "vllm", measures.c.outcome == "no such")[0]["n"] == 0


def test_tools_disagree_about_the_same_exchange(connection: Connection) -> None:
    first_means = {tool: rows(connection, tool, ONE)[0]["mean"] for tool in ("vllm-0.32", "aiperf", "otel")}
    assert first_means == {"vllm-0.32": 100, "aiperf": 110, "otel": pytest.approx(0.1)}
    assert rows(connection, "sglang", ONE)[0]["n"] == 0


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_batches_neither_lose_nor_repeat_exchanges(
    connection: Connection, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = rows(connection, "otel")
    monkeypatch.setattr(Connection, "batch", batch)
    assert rows(connection, "otel") == at_once


def test_people_get_the_figures_and_what_is_different(tape: Path) -> None:
    out, err = printed(tape, "sglang", "--format", "table")
    lines = out.splitlines()
    assert lines[0].split() == ["metric", "unit", "n", "mean", "std", "min", "p50", "p90", "p95", "p99", "max"]
    assert lines[1].split()[:3] == ["TTFT", "ms", "2"]
    assert lines[4].split() == ["metric", "unit", "n", "value"]
    assert lines[5].startswith("Request throughput")
    assert lines[6:12] == [
        "sglang: 4 of 6 failed (66.67 %)",
        "failed there: JSONDecodeError on SSE comment line × 2, HTTP 429 × 1, connection broke (reset) × 1",
        "fails here, succeeds there: error_event × 1",
        "complete here, fails there: 1",
        "left out: still open × 1",
        "omitted: TPOT, Output token throughput, Total generated tokens, Output token throughput (retokenized), Total"
        " generated tokens (retokenized) (tokens not known of 2 requests: see --tokenizer)",
    ]
    assert lines[12].startswith("counts differently: Tool calls are no output")
    assert lines[13] == "definitions of: sglang.benchmark.serving, read from 0.5.23"
    assert err == ""


@pytest.mark.parametrize("format", ["csv", "jsonl", "json"])
def test_machines_get_rows_and_people_beside_them_the_remarks(tape: Path, connection: Connection, format: str) -> None:
    text, err = printed(tape, "guidellm", "-f", f"id:{COMPLETE}", "--format", format)
    readers = {
        "csv": lambda: list(csv.DictReader(io.StringIO(text))),
        "json": lambda: json.loads(text),
        "jsonl": lambda: [json.loads(line) for line in text.splitlines()],
    }
    table = readers[format]()
    assert [row["metric"] for row in table] == [row["metric"] for row in rows(connection, "guidellm", ONE)]
    assert float(table[0]["mean"]) == 110
    assert tuple(table[0]) == FIELDS
    assert err.startswith("guidellm: 0 of 1 failed (0.00 %)\n")


def test_figures_for_people_have_the_decimals_of_their_unit(tape: Path) -> None:
    def output_of(tool: str) -> list[str]:
        return printed(tape, tool, "-f", f"id:{COMPLETE}", "--format", "table")[0].splitlines()[1].split()

    assert output_of("vllm")[-9:] == ["1", "110.00", "0.00", *["110.00"] * 6]
    assert output_of("otel")[-1] == "0.1000"


def test_nothing_measured_is_unknown_not_0() -> None:
    lines = [line.plain for line in render(report_of("guidellm", [])).lines]
    assert lines[1].split() == ["time_to_first_token_ms", "ms", "0", *["–"] * 8]
    assert lines[8].split() == ["requests_per_second", "req/s", "0", "–"]
    assert lines[10] == "guidellm: 0 of 0 failed (–)"


def test_recorded_words_reach_a_terminal_harmless(tape: Path) -> None:
    for format in ("table", "csv"):
        text = "".join(printed(tape, "otel", "-f", f"id:{ODD}", "--format", format))
        assert "error.type" in text
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)


@pytest.mark.parametrize("tool", ["vllm", "vllm-0.32"])
def test_each_row_has_counts_and_the_releases_read(connection: Connection, tool: str) -> None:
    for row in rows(connection, tool):
        assert row["tool"] == tool
        assert row["releases"] == {"vllm": "0.33.0", "vllm-0.32": "0.30.0, 0.31.0, 0.32.0"}[tool]
        assert (row["attempts"], row["failed"], row["error_rate_pct"], row["excluded"]) == (6, 3, 50, 1)
        assert "HTTP 429 × 1" in row["failures"]
        assert row["exclusions"] == "still open × 1"
        assert row["omitted"].startswith("TPOT × ")


@each_case("tool", TOOLS)
def test_the_schema_has_each_field_and_the_releases_read(connection: Connection, tool: str) -> None:
    schema_ = schema(tool)
    assert tuple(schema_) == FIELDS
    assert schema_["releases"].endswith(": " + rows(connection, tool)[0]["releases"])
    assert "open are not attempts" in schema_["attempts"]


def test_a_requested_length_replaces_usage_for_sglang(tape: Path, tmp_path: Path) -> None:
    copied = shutil.copy(tape, tmp_path / "copied.db")

    def tokens(body: bytes | None) -> float | None:
        with contextlib.closing(sqlite3.connect(copied)) as writing, writing:
            writing.execute("UPDATE exchanges SET request_body = ?", (body,))
        with queries.opened(Path(copied)) as connection:
            table = rows(connection, "sglang", exchanges.c.id == "aaaa000000000002")
        return next((row["value"] for row in table if row["metric"] == "Total generated tokens"), None)

    assert tokens(b'{"max_completion_tokens": 9}') == 9
    assert [tokens(body) for body in (b"{", b"[1]", b'{"max_tokens": true}', None)] == [None] * 4


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    lines = render(report_of("aiperf", []), 60).lines
    assert all(len(line.plain) <= 60 for line in lines[:9])


def test_a_count_shares_its_reasons_line() -> None:
    report = replace(report_of("guidellm", []), failures=Counter({f"HTTP {status}": 12 for status in range(500, 510)}))
    for width in range(60, 80):
        lines = [line.plain.split() for line in render(report, width).lines]
        assert not {"×", "12,"} & {line[0] for line in lines}
        assert "×" not in {line[-1] for line in lines}


def test_each_omitted_metrics_obstacles_are_counted() -> None:
    report = replace(report_of("sglang", []), unknown={"TPOT": 8, "Output token throughput (retokenized)": 29})
    message = "omitted: TPOT × 8, Output token throughput (retokenized) × 29 (requests of which tokens are not known"
    assert f"{message}: see --tokenizer)" in [line.plain for line in render(report).lines]
    assert f"{message})" in [line.plain for line in render(replace(report, is_tokenized=True)).lines]


OLD = chunk({"role": "assistant", "content": ""}), chunk({"reasoning_content": "t"}), chunk({"content": "a"}), DONE
OLD_RESPONSE = CREATED, named("response.reasoning.delta", delta="t"), COMPLETED
LABEL = "older than this rule: "


def older(tool: str, *events: str) -> list[str]:
    lines = [line.plain for line in render(measure_as(tool, [stream(*events)])).lines]
    return [line.removeprefix(LABEL) for line in lines if line.startswith(LABEL)]


def test_a_server_older_than_vllms_rules_is_reported() -> None:
    servers = "the servers of 1 request, as their names of reasoning show"
    assert older("vllm", *OLD) == [f"{servers}; see --as vllm-0.32"]
    assert older("vllm-0.32", *OLD) == [servers]
    assert older("vllm", *OLD_RESPONSE) == [f"{servers}; see --as vllm-0.32"]
    assert older("vllm", *(event.replace("reasoning_content", "reasoning") for event in OLD)) == []
    assert older("vllm", chunk({"content": '"reasoning_content":'}), DONE) == []
    assert older("sglang", *OLD) == []
