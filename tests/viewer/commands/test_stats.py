"""The commands of analysis, from the outside: output, formats and exit codes."""

import csv
import io
import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.support import turns
from tests.support.cases import each_case
from tests.support.commands import on_terminal
from tests.support.frames import begin, body, end, head, opened, record
from tests.support.sample_tape import COMPLETE, LIMITED, TOOLS, recorded
from tests.support.zones import local_time
from wiretape.recorder import clock
from wiretape.recorder.demo import synthetic
from wiretape.recorder.errors import NotFound, OutputRefused
from wiretape.recorder.tape import file, journal
from wiretape.viewer.cli import group
from wiretape.viewer.commands import options
from wiretape.viewer.commands import stats as commands
from wiretape.viewer.commands.check import check
from wiretape.viewer.commands.compare import compare as comparing
from wiretape.viewer.commands.ls import ls
from wiretape.viewer.commands.stats import stats
from wiretape.viewer.exchange import changes
from wiretape.viewer.listing import drilling
from wiretape.viewer.query.parser import parse
from wiretape.viewer.report import tools as reports
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape import conditions, queries
from wiretape.viewer.stats import compare, metrics, summary
from wiretape.viewer.stats.tools import tools

ROOT = Path(__file__).parents[3]
GROUP = click.Group("wiretape", commands=[stats, comparing, check])


def run(tape: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(GROUP, [*arguments], env={"WIRETAPE_DB": str(tape)})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def taped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "tape.db"
    with file.writing(path, "a test") as connection:
        for _ in synthetic.fill(connection, 400, 20, 1):
            pass
    return path


def test_stats_say_in_one_line_how_many_ended_how(tape: Path) -> None:
    head, table, *_ = run(tape, "stats", "--format", "table").stdout.splitlines()
    assert head.startswith("7 generations · 2 complete · 4 failed: 1 × 429, 1 cut by upstream, 1 error ")
    assert head.endswith(" · 1 running")
    assert table.split() == ["n", "median", "p95", "p99", "max"]


def test_grouped_stats_have_one_row_a_group(tape: Path) -> None:
    header, *rows = run(tape, "stats", "--by", "status", "--format", "table").stdout.splitlines()
    assert header.split()[:5] == ["status", "n", "failed", "ttft", "ms"]
    assert [row.split()[:4] for row in rows[:-1]] == [["200", "6", "3", "80.0"], ["429", "1", "1", "–"]]


def test_columns_are_named_by_their_headings_too(tape: Path) -> None:
    output = run(tape, "stats", "--by", "status", "--columns", "status,latency ms,ttft p95").stdout
    assert output.splitlines()[0] == "status\tlatency_p50_ms\tttft_p95_ms"
    assert run(tape, "stats", "--columns", "median", "--format", "table").stdout.split("\n")[5].split() == ["p50"]


def test_stats_name_the_filter_that_lists_what_is_slow(taped: Path) -> None:
    lines = run(taped, "stats", "--format", "table").stdout.splitlines()
    (stalls,) = [line for line in lines if line.endswith(" -f flag:stall")]
    count = len(CliRunner().invoke(ls, ["-f", "flag:stall", "--db", str(taped), "--format", "ids"]).stdout.split())
    assert stalls.split()[:2] == ["slow", str(count)]


def test_another_tools_figures_are_given_of_each_group(tape: Path) -> None:
    rows = json.loads(run(tape, "stats", "--as", "vllm", "--by", "status", "--format", "json").stdout)
    (alone, *_) = json.loads(run(tape, "stats", "--as", "vllm", "-f", "status:200", "--format", "json").stdout)
    assert next(row for row in rows if row["status"] == 200) == {"status": 200, **alone}
    table = run(tape, "stats", "--as", "vllm", "--by", "status", "--format", "table").stdout
    assert table.split()[:3] == ["status", "metric", "unit"]


def test_two_groups_are_compared_by_another_tools_definitions(taped: Path) -> None:
    sides = ("--base", "model:gpt-x-mini*", "--new", "model:gpt-x")
    rows = json.loads(run(taped, "compare", "--as", "vllm", *sides, "--format", "json").stdout)
    (alone,) = [
        row for row in json.loads(run(taped, "stats", "--as", "vllm", "-f", "model:gpt-x", "--format", "json").stdout)
        if row["metric"] == "TTFT"
    ]  # fmt: skip
    (median,) = [row for row in rows if (row["metric"], row["statistic"]) == ("TTFT", "p50")]
    assert (median["new"], median["new_n"]) == (alone["p50"], alone["n"])
    assert median["difference"] == pytest.approx(median["new"] - median["base"])


def test_all_stats_are_one_block_for_each_group(tape: Path) -> None:
    assert run(tape, "stats", "--all", "--format", "table").stdout.startswith("all · 7 exchanges ·")
    blocks = run(tape, "stats", "--all", "--by", "status", "--format", "table").stdout.split("\n\n")
    assert [block.split(" ·")[0] for block in blocks] == ["status 200", "status 429"]


def test_stats_formats_have_the_contract_fields(tape: Path) -> None:
    (row,) = json.loads(run(tape, "stats", "--format", "json").stdout)
    assert tuple(row) == summary.fields(())
    assert (row["ttft_p50_ms"], row["n_complete"]) == (80, 2)
    header, *rows = csv.reader(io.StringIO(run(tape, "stats", "--by", "status", "--format", "csv").stdout))
    assert (tuple(header), [row[0] for row in rows]) == (summary.fields(("status",)), ["200", "429"])
    assert len(run(tape, "stats", "--by", "outcome", "--format", "jsonl").stdout.splitlines()) == 5


def test_stats_of_a_selection(tape: Path) -> None:
    (row,) = json.loads(run(tape, "stats", "-f", f"id:{COMPLETE}", "--format", "json").stdout)
    assert (row["n"], row["ttft_max_ms"]) == (1, 110)
    (nothing,) = json.loads(run(tape, "stats", "-f", "status:500", "--format", "json").stdout)
    assert (nothing["n"], nothing["ttft_max_ms"], nothing["error_rate_pct"]) == (0, None, None)
    assert run(tape, "stats", "-f", "status:500", "--format", "table").stdout == ""


def test_piped_stats_have_one_row_a_group(tape: Path) -> None:
    header, *rows = run(tape, "stats", "--by", "status").stdout.splitlines()
    assert tuple(header.split("\t")) == summary.fields(("status",))
    assert [row.split("\t")[0] for row in rows] == ["200", "429"]


def test_stats_options_reach_the_figures(tape: Path) -> None:
    arguments = ("--percentile-method", "mlperf", "--include-failed", "--slo", "ttft<100ms")
    (row,) = json.loads(run(tape, "stats", *arguments, "--format", "json").stdout)
    assert (row["measured_n"], row["ttft_p90_ms"], row["goodput_pct"]) == (7, 110, pytest.approx(100 / 6))


def test_stats_prints_the_fields_that_are_asked_for(tape: Path) -> None:
    output = run(tape, "stats", "--by", "status", "--columns", "n,status,ttft_p50").stdout
    assert output == "n\tstatus\tttft_p50_ms\n6\t200\t80.0\n1\t429\t\n"
    table = run(tape, "stats", "--by", "status", "--columns", "n,status,ttft_p50", "--format", "table").stdout
    assert [line.split() for line in table.splitlines()] == [["n", "status", "ttft_p50_ms"], ["6", "200", "80.0"],
                                                             ["1", "429", "–"]]  # fmt: skip


def test_a_statistic_is_a_column_and_quantity_field(tape: Path) -> None:
    lines = run(tape, "stats", "--columns", "max,p50", "--format", "table").stdout.splitlines()
    assert [line.split() for line in lines if line.startswith(("   ", "ttft "))] == [
        ["max", "p50"], ["ttft", "ms", "110.0", "80.0"],
    ]  # fmt: skip
    header, _ = run(tape, "stats", "--columns", "n,p50").stdout.splitlines()
    assert header.split("\t")[:3] == ["n", "ttft_p50_ms", "ttfc_p50_ms"]
    (row,) = json.loads(run(tape, "stats", "--as", "sglang", "--columns", "metric,n", "--format", "json").stdout)[:1]
    assert list(row) == ["metric", "n"]


def test_statistics_without_room_are_reported_once(tape: Path) -> None:
    output = " ".join(
        re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(tape, "stats", "--all", "--by", "status", columns=60)).split()
    )
    assert output.count("hidden: ") == 1
    assert output.endswith("hidden: mean, std, min, p90; widen the terminal or use --columns")


@each_case("columns", [60, 80, 100, 120])
def test_a_comparison_keeps_its_verdict_on_a_narrow_terminal(taped: Path, columns: int) -> None:
    arguments = ("--base", "model:gpt-x-mini*", "--new", "model:gpt-x")
    lines = [
        re.sub(r"\x1b\[[0-9;]*m", "", line)
        for line in on_terminal(taped, "compare", "--all", *arguments, columns=columns).split("\r\n")
    ]
    assert [lines[0].split()[0], lines[0].split()[-1]] == ["metric", "verdict"]
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("hidden: ") for line in lines) == (columns < 120)


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_two_exchanges_keep_their_difference_on_narrow_terminals(tape: Path, columns: int) -> None:
    output = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(tape, "compare", "--all", "@", "@-1", columns=columns)).split(
        "\r\n"
    )
    assert output[0].split()[:4] == ["metric", "a", "b", "difference"]
    assert max(map(len, output)) <= columns


@pytest.mark.parametrize("columns", [80, 100])
def test_a_comparison_begins_with_its_verdict_and_fits(taped: Path, columns: int) -> None:
    sides = ("--base", "model:gpt-x-mini*", "--new", "model:gpt-x")
    output = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(taped, "compare", *sides, columns=columns)).split("\r\n")
    assert re.fullmatch(r"new is slower: ttft \+\d+ % \[\+\d+ %, \+\d+ %\]", output[0])
    assert output[1].split() == ["base", "new", "change", "verdict"]
    assert max(map(len, output)) <= columns
    assert any("needs n ≥ 100" in line for line in output if line.startswith("first token p95"))


def test_two_exchanges_are_compared_by_what_matters_first(tape: Path) -> None:
    output = run(tape, "compare", COMPLETE, TOOLS, "--format", "table").stdout.splitlines()
    assert output[0] == "b is slower: latency +1,700 % (170.0 → 3,060.0 ms)"
    assert [line.split()[0] for line in output[2:5]] == ["model", "outcome", "ttft_ms"]


def test_equal_durations_are_named_instead_of_repeated(tape: Path) -> None:
    output = run(tape, "compare", "--all", COMPLETE, TOOLS, "--format", "table").stdout
    rows = json.loads(run(tape, "compare", COMPLETE, TOOLS, "--format", "json").stdout)
    assert [name in (line.split()[0] for line in output.splitlines()) for name in ("icl_max_ms", "max_gap_ms")] == [
        True,
        False,
    ]
    assert "equal to one above: " in output
    assert "max_gap_ms" in output.split("equal to one above: ")[1]
    assert {"icl_max_ms", "max_gap_ms"} <= {row["metric"] for row in rows}


def test_a_comparison_prints_the_columns_that_are_asked_for(tape: Path, taped: Path) -> None:
    arguments = ("--base", "model:gpt-x-mini*", "--new", "model:gpt-x", "--columns", "verdict,metric")
    assert run(taped, "compare", *arguments).stdout.splitlines()[0] == "verdict\tmetric"
    assert run(tape, "compare", "@", "@-1", "--columns", "metric,b").stdout.splitlines()[0] == "metric\tb"
    assert (
        "there is no column 'verdict'; --columns help lists all"
        in run(tape, "compare", "@", "@-1", "--columns", "verdict", code=2).stderr
    )


def test_a_histogram_is_drawn_below_the_table(tape: Path) -> None:
    lines = run(tape, "stats", "--hist", "icl").stdout.splitlines()
    bars = lines[next(at for at, line in enumerate(lines) if line.startswith("icl (")) + 1 :]
    assert bars[0].split()[:3] == ["0", "ms", "1"]
    assert sum(int(line.split(" ms ")[1].split()[0]) for line in bars) == 5


def test_the_fields_explain_themselves() -> None:
    rows = json.loads(run(Path("none.db"), "stats", "--schema", "--format", "json").stdout)
    assert {row["field"]: row["meaning"] for row in rows} == summary.schema()


@pytest.mark.parametrize(
    "arguments",
    [("stats", "--by", "colour"), ("stats", "--slo", "fast"), ("stats", "--hist", "speed"), ("compare",),
     ("stats", "--hist", "icl", "--format", "csv"), ("stats", "-f", "model:("), ("compare", "@"), ("check",),
     ("compare", "@", "@-1", "--base", "status:200"), ("compare", "--base", "status:200"), ("check", "--max", "x=1"),
     ("compare", "--base", "status:200", "--new", "status:("), ("check", "--min", "goodput=95%"),
     ("stats", "--as", "vllm", "--by", "colour"), ("stats", "--as", "vllm", "--all"),
     ("stats", "--as", "otel", "--slo", "ttft<1s"),
     ("stats", "--as", "vllm", "--include-failed"), ("stats", "--as", "vllm", "--percentile-method", "mlperf"),
     ("stats", "--as", "vlm"), ("stats", "--tokenizer", __file__),
     ("compare", "--part", "request"), ("compare", "@", "@-1", "-e"),
     ("compare", "@", "@-1", "--include-failed"), ("compare", "@", "@-1", "--errors")],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_read_is_a_usage_error(tape: Path, arguments: tuple[str, ...]) -> None:
    result = run(tape, *arguments, code=2)
    assert result.stdout == ""
    assert "Error: " in result.stderr


def test_the_fields_of_another_tools_figures_explain_themselves() -> None:
    arguments = ("stats", "--as", "vllm-0.32", "--schema", "--format", "json")
    rows = json.loads(run(Path("none.db"), *arguments).stdout)
    assert {row["field"]: row["meaning"] for row in rows} == reports.schema("vllm-0.32")


def test_an_unknown_tool_lists_the_known_ones(tape: Path) -> None:
    result = run(tape, "stats", "--as", "vllm@0.33", code=2)
    assert "choose from vllm, vllm-0.32, sglang" in " ".join(result.stderr.split())


def test_an_invalid_tokenizer_is_an_error_of_one_line(tape: Path) -> None:
    result = run(tape, "stats", "--as", "vllm", "--tokenizer", __file__, code=1)
    assert "is not a tokenizer: give a tokenizer.json of Hugging Face" in str(result.exception)


def test_two_exchanges_are_compared_side_by_side(tape: Path) -> None:
    lines = run(tape, "compare", "--all", COMPLETE, TOOLS, "--format", "table").stdout.splitlines()
    (ttft,) = [line.split() for line in lines if line.startswith("ttft_ms")]
    assert ttft == ["ttft_ms", "110.0", "50.0", "-60.0", "-54.5"]
    rows = json.loads(run(tape, "compare", COMPLETE, TOOLS, "--format", "json").stdout)
    assert tuple(rows[0]) == tuple(compare.PAIR_FIELDS)


def test_two_requests_are_compared_part_by_part(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "t.db", list(turns.frames()))
    arguments = ("compare", turns.FIRST, turns.SECOND, "--part", "request")
    rows = json.loads(run(tape, *arguments, "--format", "json").stdout)
    assert tuple(rows[0]) == tuple(changes.FIELDS)
    assert [(row["part"], row["name"], row["change"]) for row in rows] == [
        ("parameter", "temperature", "added"), ("message", "1", "same"),
        ("message", "2 assistant", "added"), ("message", "3 tool", "added"),
    ]  # fmt: skip
    assert run(tape, *arguments, "--columns", "name", "--no-header").stdout.split("\n")[0] == "temperature"
    assert "+ 3 tool\n    + result of get_weather\n    +   snow\n" in run(tape, *arguments, "--format", "table").stdout
    assert "parameter temperature  0" in on_terminal(tape, *arguments)


def test_differing_requests_exit_3_and_messageless_ones_4(tmp_path: Path, tape: Path) -> None:
    agent = recorded(tmp_path / "t.db", list(turns.frames()))
    part = ("--part", "request", "-e")
    run(agent, "compare", turns.FIRST, turns.SECOND, *part, code=3)
    run(agent, "compare", turns.FIRST, turns.FIRST, *part)
    refused = run(tape, "compare", COMPLETE, LIMITED, *part, code=1).exception
    assert isinstance(refused, NotFound)  # which exits 4
    assert f"nothing to compare in the request of {LIMITED}: its body is no JSON object" in str(refused)


def test_groups_are_compared_with_intervals(taped: Path) -> None:
    arguments = ("--base", "model:gpt-x-mini*", "--new", "model:gpt-x")
    rows = {row["metric"]: row for row in json.loads(run(taped, "compare", *arguments, "--format", "json").stdout)}
    assert (rows["icl_p50_p50_ms"]["verdict"], rows["tps_user_p50"]["verdict"]) == (compare.WORSE, compare.WORSE)
    assert rows["tpot_p50_ms"]["low"] > 5
    assert run(taped, "compare", *arguments).stdout.splitlines()[0].split() == list(compare.FIELDS)
    run(taped, "compare", *arguments, "-e", code=3)
    run(taped, "compare", "-e", "--base", "model:gpt-x", "--new", "model:gpt-x-mini*")


def test_a_comparison_of_nothing_is_no_success(taped: Path) -> None:
    few = ("--base", "model:gpt* is:timeout", "--new", "label:team=search")
    assert compare.TOO_FEW in run(taped, "compare", *few).stdout
    run(taped, "compare", *few, "-e", code=4)


def test_labels_that_were_drawn_at_random_make_no_difference(taped: Path) -> None:
    arguments = ("--base", "label:team=search", "--new", "label:team=batch", "-f", "model:gpt*")
    rows = json.loads(run(taped, "compare", *arguments, "--format", "json").stdout)
    assert {row["verdict"] for row in rows} <= {compare.UNCLEAR, compare.TOO_FEW}
    assert sum(row["verdict"] == compare.UNCLEAR for row in rows) >= 10


def test_check_passes_when_all_rules_hold(tape: Path) -> None:
    result = run(tape, "check", "--max", "ttft.p50=1s", "--min", "n=7", "--format", "json")
    assert [row["verdict"] for row in json.loads(result.stdout)] == ["holds", "holds"]


def test_check_fails_with_the_rows_that_fail(tape: Path) -> None:
    lines = run(tape, "check", "--max", "ttft.p50=50ms", "--min", "n=7", code=3).stdout.splitlines()
    assert [line.split("\t")[4] for line in lines] == ["verdict", "fails", "holds"]
    assert lines[1].split() == ["max", "ttft.p50=50ms", "80.0", "ms", "2", "fails"]


def test_check_judges_a_percentile_of_few_values_on_request(tape: Path) -> None:
    rule = ("check", "--max", "ttft.p95=1s", "--format", "json")
    (row,) = json.loads(run(tape, *rule, code=4).stdout)
    assert (row["verdict"], row["value"], row["n"]) == ("n 2 < 20", 107.0, 2)
    assert json.loads(run(tape, *rule, "--few").stdout) == [row | {"verdict": "holds"}]


def test_check_says_when_there_is_nothing_to_judge(tape: Path) -> None:
    assert "nothing to judge" in run(tape, "check", "--max", "ttft.p95=1s", "-f", "status:500", code=4).stdout
    run(tape, "check", "--max", "ttft.p95=1s", "--min", "n=1", "-f", "status:500", code=3)


def test_check_reads_rules_from_files_and_writes_junit(tape: Path, tmp_path: Path) -> None:
    rules, report = tmp_path / "rules.toml", tmp_path / "report.xml"
    rules.write_text('slo = "ttft<1s"\n[max]\nttft.p50 = "1s"\n[min]\ngoodput = "90%"\n')
    run(tape, "check", "--rules", str(rules), "--junit", str(report), code=3)
    (suite,) = ElementTree.fromstring(report.read_bytes())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    run(tape, "check", "--rules", str(rules), "--slo", "ttft<1ms", code=3)


def test_importing_the_commands_loads_no_heavy_library() -> None:
    heavy = {"numpy", "pandas", "sqlalchemy", "alembic", "msgspec", "rich"}
    modules = ", ".join(f"wiretape.viewer.commands.{name}" for name in ("stats", "compare", "check"))
    code = f"import sys, {modules}; print(sorted({heavy!r} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout == "[]\n"


def test_statistics_need_neither_pandas_nor_sqlalchemy(tape: Path) -> None:
    code = "import sys; from wiretape.viewer.commands.stats import stats as s; s(standalone_mode=False)"
    code += "; sys.exit(not {'pandas', 'sqlalchemy'}.isdisjoint(sys.modules))"
    command = [sys.executable, "-c", code, "--db", str(tape)]
    assert subprocess.run(command, capture_output=True, check=False, cwd=ROOT).returncode == 0


def test_a_reader_that_leaves_is_no_error(taped: Path) -> None:
    command = (sys.executable, "-m", "wiretape.viewer.cli", "stats", "--by", "hour", "--db", str(taped))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)


def test_the_names_for_as_are_the_measurable_tools() -> None:
    (option,) = [parameter for parameter in commands.stats.params if parameter.name == "tool"]
    names = ", ".join(tools.TOOLS[:-1]) + f" or {tools.TOOLS[-1]}"
    assert names in str(option.help)  # type: ignore[attr-defined]


def test_a_junit_report_is_not_written_over_a_tape(tape: Path) -> None:
    content = tape.read_bytes()
    result = run(tape, "check", "--max", "n=99", "--junit", str(tape), code=1)
    assert isinstance(result.exception, OutputRefused)
    assert tape.read_bytes() == content


@each_case("text", ["colour", "", "model,", "label.", 'label."x"', "label.a b"])
def test_what_is_no_group_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"label\.KEY groups by a label") as raised:
        options.groups(text, TapePlace(Path("tape.db")))
    assert raised.value.param_hint == "--by"


def test_groups_are_names_separated_by_commas_each_once() -> None:
    assert metrics.groups("model, label.run-1,model") == ("model", "label.run-1")
    assert options.groups(None, TapePlace(Path("tape.db"))) == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stats", "--by", "modl"), "--by: 'modl' is no group: did you mean model"),
        (("stats", "--hist", "tft"), "--hist: 'tft' is no quantity: did you mean ttft"),
        (("stats", "--slo", "fast"), "--slo: 'fast' is not a bound"),
        (("check", "--min", "x=1"), "--min: "),
        (("compare", "--base", "is:ok", "--new", "model:("), "--new: "),
    ],
)
def test_what_cannot_be_read_names_its_option(tape: Path, arguments: tuple[str, ...], message: str) -> None:
    assert f"Invalid value for {message}" in " ".join(run(tape, *arguments, code=2).stderr.split())


def test_a_files_rules_precede_the_command_lines(tape: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('slo = "ttft<1s"\n[min]\nn = 3\n')
    judged = run(
        tape, "check", "--rules", str(file), "--max", "ttft.p50=1s", "--min", "tps_user.max=5", "--format", "jsonl"
    )
    assert [json.loads(line)["rule"] for line in judged.stdout.splitlines()] == [
        "min n=3", "max ttft.p50=1s", "min tps_user.max=5",
    ]  # fmt: skip


@pytest.mark.parametrize("document", [b"[max", b"\xff", b"[max]\nx = 1"])
def test_a_mistake_in_rules_is_named_with_its_place(tape: Path, tmp_path: Path, document: bytes) -> None:
    file = tmp_path / "rules.toml"
    file.write_bytes(document)
    assert "rules.toml, line " in str(run(tape, "check", "--rules", str(file), code=1).exception)


def test_a_group_is_a_filter_within_the_selection(tape: Path) -> None:
    groups = ("-f", "model:gpt-x-mini", "--base", "is:ok", "--new", "status:429")
    assert "nothing to compare: --new: 0 of" in str(run(tape, "compare", *groups, code=1).exception)


def test_unmeasured_exchanges_are_not_judged_as_good(tmp_path: Path) -> None:
    tape, pieces = tmp_path / "tape.db", [b"data: {}\n\n"]
    frames = {id: [begin(id), head(id), *body(id, pieces), end(id, pieces)] for id in ("e1", "e2")}
    with opened(tape) as store:
        record(store, frames["e1"])
        store.append([*frames["e2"], journal.Close("2026-03-01T12:01:00.000000Z")])
    checked = CliRunner().invoke(check, ["--db", str(tape), "--min", "n=0", "--all-operations"])
    assert (checked.exit_code, "1 of 2 exchanges are not measured yet: " in checked.stderr) == (4, True)
    advice = "not measured yet: the next recorder, or 'wiretape db rebuild --db "
    assert advice in CliRunner().invoke(stats, ["--db", str(tape)]).stderr


@pytest.mark.parametrize(
    "zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut"]
)
def test_a_group_in_time_has_its_filters_exchanges(zone: str, tmp_path: Path) -> None:
    starts = (
        "2026-11-28T20:17:10", "2026-11-28T10:00:00", "2026-03-29T00:30:00", "2026-03-29T01:30:00",
        "2026-10-24T23:30:00", "2026-10-25T00:30:00", "2026-10-25T01:30:00", "2026-07-01T23:59:59",
        "2026-03-28T21:30:00", "2026-03-28T22:30:00", "2026-10-03T15:15:00", "2026-10-03T15:45:00",
        "2026-04-04T14:45:00", "2026-04-04T15:15:00",
    )  # fmt: skip
    with opened(path := tmp_path / "tape.db") as store:
        for number, start in enumerate(starts):
            id = f"{number:016x}"
            began = msgspec.structs.replace(begin(id), started_at=f"{start}.000000Z")
            record(store, [began, head(id), end(id, [])])
    with local_time(zone):
        for period in ("day", "hour"):
            rows = run(
                path, "stats", "--by", period, "--all-operations", "--columns", f"{period},n", "--format", "json"
            )
            groups = {row[period]: row["n"] for row in json.loads(rows.stdout)}
            assert sum(groups.values()) == len(starts)
            assert all(datetime.fromisoformat(name) for name in groups)
            with queries.opened(path) as connection:
                for name, count in groups.items():
                    filter_text = drilling.group(period, name)
                    assert queries.count(connection, conditions.condition(parse(filter_text))) == count, (
                        name,
                        filter_text,
                    )
        output = run(path, "stats", "--by", "day", "--format", "table").stdout
        assert output.startswith(f"day ({clock.zone()})")


@each_case("command", [("stats", "--by", "turn"), ("export", "--table", "summary", "--by", "model,turn")])
def test_groups_of_sessions_are_refused_before_a_server_is_asked(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(group, [*command, "--db", "clickhouse://127.0.0.1:1/nowhere"])
    assert str(result.exception).startswith("--by turn: a server lists no conversations: copy to a tape")
