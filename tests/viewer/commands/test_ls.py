"""The command `ls`, from the outside: order, formats, following, the width of a terminal."""

import csv
import io
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.commands import on_terminal, run
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, FAILED, LIMITED, LIVE, ODD, TOOLS, TRUNCATED
from wiretape.viewer.record.fields import CONVERSATION_FIELDS, DETAIL_FIELDS, FIELDS, GAP_PERCENTILES, TEXT_FIELDS
from wiretape.viewer.report import tables

BODY = b"".join(data for _, data in COMPLETE_READS)


def test_ls_is_a_table_of_the_newest_first(tape: Path) -> None:
    lines = run(tape, "ls", "-n", "2", "--format", "table").stdout.splitlines()
    assert [line[:10] for line in lines] == ["  id      ", f"● {LIVE[:8]}", f"! {ODD[:8]}"]


def test_ls_says_whose_a_stall_was(tape: Path) -> None:
    (line,) = run(tape, "ls", "-f", "flag:stall", "--format", "table").stdout.splitlines()[1:]
    assert line.endswith("  stall 3.0 s by upstream")
    assert (
        run(tape, "ls", "-f", "flag:stall", "--columns", "what happened,id", "--format", "table")
        .stdout.splitlines()[1]
        .startswith("stall 3.0 s by upstream  ")
    )


def test_a_pipe_has_the_tables_columns_in_full(tape: Path) -> None:
    (row,) = json.loads(run(tape, "ls", "-f", "flag:stall", "--format", "json").stdout)
    displayed = set(tables.LISTED) - {"mark"} | {"id", "upstream_name", "outcome_detail"}
    assert set(row) == displayed
    assert (row["id"], row["started_at"][-1], row["happened"]) == (TOOLS, "Z", "stall 3.0 s by upstream")
    assert "there is no column 'mark'" in run(tape, "ls", "--columns", "mark", "--format", "csv", code=2).stderr


def test_columns_are_in_an_order_of_meaning_everywhere(tape: Path) -> None:
    everything = [*FIELDS, "sparkline", *TEXT_FIELDS, *DETAIL_FIELDS, *GAP_PERCENTILES, "happened"]
    assert run(tape, "ls", "--columns", "all").stdout.splitlines()[0].split("\t") == everything
    order = ["id", "started_at", "model", "upstream", "outcome", "ttft_ms", "duration_ms", "output_tokens", "flags"]
    headers = [run(tape, *command).stdout.splitlines()[0] for command in (("ls",), ("export", "--format", "tsv"))]
    for columns in (*(header.split("\t") for header in headers), everything):
        assert [name for name in columns if name in order] == order


def test_ls_formats_have_the_same_fields(tape: Path) -> None:
    rows = json.loads(run(tape, "ls", "--format", "json").stdout)
    assert [row["id"] for row in rows][-2:] == [TOOLS, COMPLETE]
    assert tuple(rows[0]) == tables.PIPED
    header, *_ = csv.reader(io.StringIO(run(tape, "ls", "--format", "csv").stdout))
    assert tuple(header) == tables.PIPED
    assert len(run(tape, "ls", "--format", "jsonl", "-n", "3").stdout.splitlines()) == 3


def ids(tape: Path, *arguments: str) -> list[str]:
    return [row["id"] for row in json.loads(run(tape, *arguments, "--format", "json").stdout)]


def test_ls_and_export_take_filters(tape: Path) -> None:
    assert ids(tape, "ls", "-f", "ttft>=100ms", "-f", "model:gpt-*") == [TRUNCATED, COMPLETE]
    assert ids(tape, "ls", "--errors", "-n", "2") == [ODD, FAILED]
    assert ids(tape, "export", "--errors", "-n", "2") == [TRUNCATED, LIMITED]
    assert ids(tape, "export", "--label", "run=a7", "--table", "texts") == [COMPLETE]
    assert ids(tape, "export", "-f", "is:cut", "--table", "reads") == [TRUNCATED] * 4
    assert ids(tape, "export", "--model", "gpt-x-mini", "--table", "chunks", "-n", "3") == [COMPLETE] * 3


def test_ls_sorts(tape: Path) -> None:
    assert ids(tape, "ls", "-s", "-stall", "-n", "2") == [TOOLS, COMPLETE]
    assert ids(tape, "ls", "-s", "ttft", "-n", "2", "-f", "-is:err") == [TOOLS, COMPLETE]


def test_an_unreadable_filter_is_a_usage_error(tape: Path) -> None:
    assert "there is no such field" in run(tape, "ls", "-f", "ttfx>1s", code=2).stderr


def interrupted(tape: Path, *arguments: str, lines: int) -> list[str]:
    """Follow a tape until the given count of lines has arrived, then interrupt."""
    command = [*forked.CLI, "ls", "-F", "--db", str(tape), *arguments]
    with forked.Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines_read = [process.stdout.readline().decode() for _ in range(lines)]
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stdout.read(), process.stderr.read()) == (130, b"", b"")
    return lines_read


def test_ls_follows_until_it_is_interrupted(tape: Path) -> None:
    followed = interrupted(tape, "-n", "2", "--format", "jsonl", lines=2)
    assert [json.loads(line)["id"] for line in followed] == [FAILED, ODD]
    table = interrupted(tape, "-f", "is:ok", "--format", "table", lines=3)
    assert [line[:10] for line in table] == ["  id      ", f"✓ {COMPLETE[:8]}", f"✓ {TOOLS[:8]}"]
    lines = interrupted(tape, "-f", "is:ok", lines=3)
    assert [line.split("\t")[0] for line in lines] == ["id", COMPLETE, TOOLS]


def test_a_piped_line_is_a_tab_separated_row(tape: Path) -> None:
    header, *lines = run(tape, "ls").stdout_bytes.decode().split("\n")
    assert tuple(header.split("\t")) == tables.PIPED
    assert [line.split("\t")[0] for line in lines] == [LIVE, ODD, FAILED, LIMITED, TRUNCATED, TOOLS, COMPLETE, ""]
    assert {line.count("\t") for line in lines[:-1]} == {len(tables.PIPED) - 1}


@pytest.mark.parametrize("arguments", [("-s", "ttft"), ("--format", "csv"), ("--format", "json")])
def test_following_excludes_other_orders_and_ends(tape: Path, arguments: tuple[str, ...]) -> None:
    assert "--follow goes by the order of ending" in run(tape, "ls", "-F", *arguments, code=2).stderr


@pytest.mark.parametrize("terminal", ["xterm-256color", "dumb"])
def test_ls_fits_its_terminal(tape: Path, terminal: str) -> None:
    shown = on_terminal(tape, "ls", columns=60, terminal=terminal)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).split("\r\n")
    assert max(map(len, lines)) <= 60
    output = " ".join(" ".join(lines).partition("hidden: ")[2].split())
    assert output.startswith("started UTC, upstream, status, outcome, max gap ms, ")
    assert output.endswith("; widen the terminal or use --columns")


def test_ls_prints_requested_columns_in_order(tape: Path) -> None:
    found = run(tape, "ls", "-n", "1", "-f", "is:ok", "--columns", "ttft, id,stall")
    assert found.stdout == f"ttft_ms\tid\tmax_output_silence_ms\n50.0\t{TOOLS}\t3000.0\n"
    row = json.loads(run(tape, "ls", "-n", "1", "--columns", "status,id", "--format", "json").stdout)[0]
    assert list(row.items()) == [("status", 200), ("id", LIVE)]
    table = run(tape, "ls", "-n", "1", "--columns", "outcome,id", "--format", "table").stdout.splitlines()
    assert [line.split() for line in table] == [["outcome", "id"], ["open", LIVE[:8]]]


def test_an_unknown_column_gets_suggestions(tape: Path) -> None:
    output = run(tape, "ls", "--columns", "id,outcom", code=2).stderr
    assert "there is no column 'outcom': did you mean outcome" in output
    names = run(tape, "ls", "--columns", "help").stdout.splitlines()
    assert set(FIELDS) <= {line.split(" ")[0] for line in names}


@pytest.mark.parametrize("arguments", [("--spark",), ("--format", "ids")])
def test_what_has_columns_of_its_own_takes_no_others(tape: Path, arguments: tuple[str, ...]) -> None:
    assert "leave out --columns" in run(tape, "ls", "--columns", "id", *arguments, code=2).stderr


def test_the_columns_of_a_followed_list_stay(tape: Path) -> None:
    table = interrupted(tape, "-f", "is:ok", "--format", "table", "--columns", "id,model", lines=3)
    assert [line.split() for line in table] == [
        ["id", "model"],
        [COMPLETE[:8], "gpt-x-mini"],
        [TOOLS[:8], "gpt-x-mini"],
    ]


def test_ids_are_whole_and_alone_on_their_lines(tape: Path) -> None:
    assert run(tape, "ls", "-f", "flag:stall or is:cut", "--format", "ids").stdout == f"{TRUNCATED}\n{TOOLS}\n"


def test_a_header_can_be_left_out(tape: Path) -> None:
    for format in ("tsv", "csv"):
        assert run(tape, "ls", "-n", "1", "--no-header", "--format", format).stdout.startswith(LIVE)


def test_an_empty_result_is_3_only_on_request(tape: Path) -> None:
    for format in ("table", "tsv", "ids", "jsonl"):
        run(tape, "ls", "--model", "none", "--format", format)
        run(tape, "ls", "--model", "none", "--format", format, "--exit-code", code=3)
        run(tape, "ls", "--model", "gpt-*", "--format", format, "-e")


def test_gaps_are_drawn_on_one_axis(tape: Path) -> None:
    title, *lines, legend = run(tape, "ls", "--spark").stdout.splitlines()
    assert title.split() == ["id", "model", "outcome", "duration", "ms", "╷0", "╷1", "s", "╷2", "s"]
    assert [line[:8] for line in lines] == [id[:8] for id in (LIVE, ODD, FAILED, LIMITED, TRUNCATED, TOOLS, COMPLETE)]
    assert lines[5].split()[1:] == ["gpt-x-mini", "complete", "3,070.0", "·", "█"]
    assert lines[5].index("█") > title.index("2 s") + 10
    assert max(map(len, lines)) <= 100
    assert legend.startswith("gaps: ▁ <3")


def test_drawings_can_be_ascii(tape: Path) -> None:
    output = run(tape, "ls", "--spark", "--ascii", "-f", "flag:stall").stdout
    assert output.isascii()
    assert output.splitlines()[1].endswith("@")
    assert "@" in run(tape, "ls", "--ascii", "--format", "table", "-f", "flag:stall").stdout


def test_drawings_keep_their_axis_in_any_order_and_number(tape: Path) -> None:
    lines = run(tape, "ls", "--spark", "-n", "2", "-s", "-dur").stdout.splitlines()
    assert [line[:8] for line in lines[1:3]] == [TOOLS[:8], COMPLETE[:8]]
    assert run(tape, "ls", "--spark", "-f", "is:live").stdout.splitlines()[1].split()[-1] == "–"
    assert run(tape, "ls", "--spark", "-f", "model:none").stdout == ""


@pytest.mark.parametrize("arguments", [("--spark", "--format", "csv"), ("--spark", "-F"), ("-e", "-F")])
def test_impossible_drawings_and_ends_are_usage_errors(tape: Path, arguments: tuple[str, ...]) -> None:
    run(tape, "ls", *arguments, code=2)


@pytest.mark.parametrize("columns", [40, 80, 130])
def test_a_drawing_fills_its_terminal(tape: Path, columns: int) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(tape, "ls", "--spark", columns=columns)).split("\r\n")
    assert columns - 2 <= max(len(line.rstrip()) for line in lines if not line.startswith("gaps:")) <= columns
    output = " ".join(" ".join(lines).split())
    assert output.count("gaps: ▁ <3 ▂ 3 ▃ 10 ▄ 30 ▅ 100 ▆ 300 ms ▇ 1 █ 3 s · first output │ end") == 1
    assert "--columns" not in output


def test_people_are_told_why_nothing_matches(tape: Path) -> None:
    output = on_terminal(tape, "ls", "-f", "model:gpt-* ttft>800s", columns=200).splitlines()[-1]
    assert output == "wiretape: 0 of 7 exchanges match. `model:gpt-*` alone matches 5; `ttft>800s` alone matches 0"
    output = on_terminal(tape, "ls", "-f", 'error:"*slow down*"').splitlines()[-1]
    assert (
        output
        == 'wiretape: 0 of 7 exchanges match. * in quotes is no wildcard; search within a text by ~: error~"rate limit"'
    )
    assert run(tape, "ls", "--model", "none", "-f", "a").stderr.endswith(
        "wiretape: 0 of 7 exchanges match. A word is not looked for in prompts: `prompt:a` does that\n"
    )


def test_a_bare_word_searches_model_text_and_id(tape: Path) -> None:
    assert ids(tape, "ls", "-f", "mini") == [FAILED, TRUNCATED, TOOLS, COMPLETE]
    assert ids(tape, "ls", "-f", "wORLd") == [COMPLETE]
    assert ids(tape, "ls", "-f", "oslo") == [TOOLS]
    assert ids(tape, "ls", "-f", "overloaded") == [FAILED]
    assert ids(tape, "ls", "-f", "b0000") == [TRUNCATED]
    assert ids(tape, "ls", "-f", '"Half an"') == [FAILED]


def test_conversations_are_listed_with_totals_and_exchanges(tape: Path) -> None:
    result = run(tape, "ls", "--by", "conversation", "--format", "json", "-f", "status:200")
    rows = json.loads(result.stdout)
    assert tuple(rows[0]) == CONVERSATION_FIELDS
    listed = json.loads(run(tape, "ls", "--format", "json", "-f", "status:200").stdout)
    assert sum(row["exchanges"] for row in rows) == len(listed) == len(rows)
    for row in rows:
        (match,) = json.loads(run(tape, "ls", "--format", "json", "-f", f"conversation:{row['conversation']}").stdout)
        assert (match["id"], match["output_tokens"]) == (row["id"], row["output_tokens"])
    lines = run(tape, "ls", "--by", "conversation", "--columns", "conversation,exchanges", "--format", "table").stdout
    assert lines.splitlines()[0].split() == ["conversation", "exchanges"]


@pytest.mark.parametrize("arguments", [("--sort", "ttft"), ("--follow",), ("--spark",), ("--format", "ids")])
def test_conversations_have_an_order_and_columns_of_their_own(tape: Path, arguments: tuple[str, ...]) -> None:
    assert "--by goes by the newest exchange" in run(tape, "ls", "--by", "conversation", *arguments, code=2).stderr
