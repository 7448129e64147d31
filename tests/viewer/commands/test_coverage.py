"""Rates and latencies cover generations, in every command that states them, unless the filter asks for more."""

import csv
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.operations import calls_by_mcp, frames
from tests.support.sample_tape import COMPLETE_READS, begin, end, recorded, response
from wiretape.viewer.commands.check import check
from wiretape.viewer.commands.compare import compare
from wiretape.viewer.commands.export import export
from wiretape.viewer.commands.ls import ls
from wiretape.viewer.commands.show import show
from wiretape.viewer.commands.stats import stats
from wiretape.viewer.query import coverage
from wiretape.viewer.source.base import ALL, Selection
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape import overview, queries

GROUP = click.Group("wiretape", commands=[stats, compare, check, export, ls, show])
FOREIGN_READS = [(40, b'data: {"kind": "part", "value": "Hi"}\n\n'), (90, b'data: {"kind": "last"}\n\n')]
NOTE = "2 exchanges are not generations (1 models, 1 other)"
BOTH = f"wiretape: {NOTE}: add operation:… to the filter, or --all-operations\n"


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("covered") / "tape.db", list(frames()))


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("failing") / "tape.db", list(frames(failed=True)))


def run(tape: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(GROUP, [*arguments], env={"WIRETAPE_DB": str(tape)})
    assert result.exit_code == code, result.output
    return result


def figures(tape: Path, *arguments: str) -> list[dict[str, Any]]:
    return json.loads(run(tape, *arguments, "--format", "json").stdout)


@pytest.fixture(scope="module")
def unread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of one chat, and of two streams at the same path that no dialect knows: one whole, one cut."""
    streams = [(COMPLETE_READS, "end"), (FOREIGN_READS, "end"), (FOREIGN_READS, "eof")]
    made = []
    for no, (parts, by) in enumerate(streams, 1):
        first_begin = begin(f"bbbb00000000000{no}", no, b'{"model": "m", "stream": true}')
        made += [first_begin, *response(first_begin.id, parts), end(first_begin.id, parts, by)]
    return recorded(tmp_path_factory.mktemp("unread") / "tape.db", made)


def test_streams_that_are_not_decoded_neither_succeed_nor_fail(unread: Path) -> None:
    (row,) = figures(unread, "stats")
    assert (row["n"], row["error_rate_pct"], row["duration_n"]) == (1, 0, 1)
    assert "2 exchanges are not generations (2 unknown)" in run(unread, "stats").stderr
    assert "wiretape: 2 streams not decoded: wiretape help dialects" in run(unread, "stats").stderr.splitlines()
    (row,) = figures(unread, "stats", "-f", "operation:unknown")
    assert (row["n"], row["error_rate_pct"]) == (2, 50)
    run(unread, "check", "--max", "error_rate=1%")


def test_an_undecoded_streams_text_is_called_that(unread: Path) -> None:
    output = run(unread, "show", "bbbb000000000002", "--part", "text")
    assert output.stdout == ""
    assert "not decoded" in output.stderr
    page = run(unread, "show", "bbbb000000000002", "--format", "table").output
    assert "no output" not in page
    assert page.startswith("? complete")


@pytest.mark.parametrize("command", [("stats",), ("export", "--table", "summary")])
def test_probes_for_models_do_not_change_the_error_rate(tape: Path, command: tuple[str, ...]) -> None:
    (row,) = figures(tape, *command)
    assert (row["n"], row["error_rate_pct"], row["duration_n"]) == (2, 0, 2)
    (row,) = figures(tape, *command, "--all-operations")
    assert (row["n"], row["error_rate_pct"]) == (4, 50)


@pytest.mark.parametrize("command", [("stats",), ("export", "--table", "summary")])
def test_a_filter_that_names_the_operation_decides(tape: Path, command: tuple[str, ...]) -> None:
    counts = {
        filter_text: figures(tape, *command, "-f", filter_text)[0]["n"]
        for filter_text in ("operation:models", "operation:*", "-operation:other", "is:err", "is:err or operation:chat")
    }
    assert counts == {
        "operation:models": 1, "operation:*": 4, "-operation:other": 3, "is:err": 0, "is:err or operation:chat": 4,
    }  # fmt: skip


def test_omissions_are_reported_once_below_the_table(tape: Path) -> None:
    for command in (
        ("stats",),
        ("stats", "--by", "model"),
        ("stats", "--as", "vllm"),
        ("export", "--table", "summary"),
    ):
        assert run(tape, *command).stderr.endswith(BOTH)
        assert "generation" not in run(tape, *command, "-f", "operation:*").stderr
    assert run(tape, "stats", "--format", "table").output.endswith(BOTH)
    assert "1 exchange is not a generation (1 models)" in run(tape, "stats", "-f", "path:/v1/models").stderr
    assert "match" not in run(tape, "stats", "-f", "path:/v1/models").stderr


def test_a_rule_judges_generations(tape: Path) -> None:
    assert run(tape, "check", "--max", "error_rate=1%").stderr == BOTH
    run(tape, "check", "--max", "error_rate=1%", "--all-operations", code=3)
    run(tape, "check", "--max", "error_rate=1%", "-f", "operation!=chat", code=3)


def test_groups_are_compared_by_their_generations(tape: Path) -> None:
    sides = ("--base", "status:200", "--new", "status>=200")
    rates = {row["metric"]: row for row in figures(tape, "compare", *sides)}
    assert (rates["error_rate_pct"]["base"], rates["error_rate_pct"]["new"]) == (0, 0)
    assert NOTE in run(tape, "compare", *sides).stderr
    everything = {row["metric"]: row for row in figures(tape, "compare", *sides, "--all-operations")}
    assert everything["error_rate_pct"]["new"] == 50
    empty = CliRunner().invoke(GROUP, ["compare", "--base", "is:ok", "--new", "is:err"], env={"WIRETAPE_DB": str(tape)})
    assert str(empty.exception) == "nothing to compare: --new: no generations"


def test_lists_pages_and_exports_of_exchanges_show_everything(tape: Path) -> None:
    rows = figures(tape, "ls", "--columns", "operation,api,status")
    assert [[*row.values()] for row in rows][::-1] == [
        ["other", None, 405], ["models", None, 404], ["chat", "openai.chat", 200], ["chat", "openai.chat", 200],
    ]  # fmt: skip
    assert [row["operation"] for row in figures(tape, "export")] == ["other", "models", "chat", "chat"]
    assert "chat, API openai.chat" in run(tape, "show", "@", "--part", "facts").stdout
    assert run(tape, "export", "--all-operations", code=2).stderr.endswith("have every operation\n")


def test_a_failed_request_counts_for_its_requested_model(failing: Path) -> None:
    (row,) = figures(failing, "stats", "--by", "model")
    assert (row["model"], row["n"], row["error_rate_pct"]) == ("gpt-x-mini", 2, 50)
    by_answer = {row["response_model"]: row["n"] for row in figures(failing, "stats", "--by", "response_model")}
    assert by_answer == {"gpt-x-2026": 1, None: 1}


def test_exchanges_can_be_grouped_by_operation_and_api(tape: Path) -> None:
    rows = figures(tape, "stats", "--by", "operation,api", "--all-operations")
    assert [(row["operation"], row["api"], row["n"]) for row in rows] == [
        ("chat", "openai.chat", 2), ("models", None, 1), ("other", None, 1),
    ]  # fmt: skip


def test_filters_and_statistics_cover_the_same(tape: Path) -> None:
    with TapePlace(tape).opened() as source:
        by_filter = source.numbers(Selection(coverage.COVERED))
        assert by_filter == source.numbers(ALL.of_generations()) == [4, 3]


def test_a_page_compares_operations_that_its_filter_names(tape: Path, tmp_path: Path) -> None:
    sides = ("--base", "status:404", "--new", "status:405")
    run(tape, "export", "--html", "-f", "operation:models,other", *sides, "-o", str(tmp_path / "page.html"))


def test_what_was_measured_before_operations_were_is_covered(tmp_path: Path) -> None:
    path = recorded(tmp_path / "tape.db", list(frames()))
    with queries.opened(path) as connection:
        assert overview.left_out(connection) == {"models": 1, "other": 1}
    forget(path)
    (row,) = figures(path, "stats")
    assert row["n"] == 4


def forget(path: Path) -> None:
    """Make the operations unknown, as they are on a tape that was upgraded and not derived again."""
    from wiretape.recorder.tape import file

    with file.writing(path, "a test") as connection, connection.begin():
        connection.exec_driver_sql("UPDATE measures SET operation = NULL")


def test_mcp_calls_are_filtered_and_grouped_by_method(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "calls.db", list(calls_by_mcp()))
    output = run(tape, "ls", "--columns", "id,rpc_method,tool_name", "-f", "tool_name:search").stdout
    assert [line.split("\t")[1:] for line in output.splitlines()] == [
        ["rpc_method", "tool_name"],
        ["tools/call", "search"],
        ["tools/call", "search"],
    ]
    failed = run(tape, "ls", "--columns", "id", "-f", "gen_ai.tool.name:sea* is:err rpc_method:tools/call").stdout
    assert failed.splitlines()[1:] == ["cccc000000000002"]
    groups = figures(tape, "stats", "--by", "rpc_method,tool_name", "--all-operations")
    assert {(row["rpc_method"], row["tool_name"]): row["error_rate_pct"] for row in groups} == {
        ("tools/call", "search"): 50,
        ("tools/list", None): 0,
    }
    first_row, *_ = csv.DictReader(run(tape, "export", "--format", "csv").stdout.splitlines())
    assert (first_row["rpc_method"], first_row["tool_name"]) == ("tools/call", "search")
