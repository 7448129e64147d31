"""The command `ls`, from the outside: order, formats, following, the width of a terminal."""

import csv
import io
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from viewer import rows

from .commanding import ROOT, RUN, on_terminal, run
from .conftest import COMPLETE, COMPLETE_READS, FAILED, LIMITED, LIVE, ODD, TOOLS, TRUNCATED

BODY = b"".join(data for _, data in COMPLETE_READS)


def test_ls_is_a_table_of_the_newest_first(tape: Path) -> None:
    lines = run(tape, "ls", "-n", "2", "--format", "table").stdout.splitlines()
    assert [line[:8] for line in lines] == ["id      ", LIVE[:8], ODD[:8]]


def test_ls_formats_have_the_contract_fields(tape: Path) -> None:
    found = json.loads(run(tape, "ls", "--format", "json").stdout)
    assert [row["id"] for row in found][-2:] == [TOOLS, COMPLETE]
    assert tuple(found[0]) == rows.FIELDS
    header, *_ = csv.reader(io.StringIO(run(tape, "ls", "--format", "csv").stdout))
    assert tuple(header) == rows.FIELDS
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


def test_a_filter_that_cannot_be_read_is_a_usage_error(tape: Path) -> None:
    assert "there is no such field" in run(tape, "ls", "-f", "ttfx>1s", code=2).stderr


def interrupted(tape: Path, *arguments: str, lines: int) -> list[str]:
    """Follow a tape until so many lines have come, then interrupt."""
    environment = os.environ | {"WIRETAPE_DB": str(tape)}
    process = subprocess.Popen(
        [*RUN, "ls", "-F", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    found = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=30)
    assert (process.returncode, rest, said) == (130, "", "")
    return found


def test_ls_follows_until_it_is_interrupted(tape: Path) -> None:
    followed = interrupted(tape, "-n", "2", "--format", "jsonl", lines=2)
    assert [json.loads(line)["id"] for line in followed] == [FAILED, ODD]
    table = interrupted(tape, "-f", "is:ok", "--format", "table", lines=3)
    assert [line[:8] for line in table] == ["id      ", COMPLETE[:8], TOOLS[:8]]
    lines = interrupted(tape, "-f", "is:ok", lines=3)
    assert [line.split("\t")[0] for line in lines] == ["id", COMPLETE, TOOLS]


def test_on_a_pipe_each_line_is_a_row_of_tab_separated_values(tape: Path) -> None:
    header, *lines = run(tape, "ls").stdout_bytes.decode().split("\n")
    assert tuple(header.split("\t")) == rows.FIELDS
    assert [line.split("\t")[0] for line in lines] == [LIVE, ODD, FAILED, LIMITED, TRUNCATED, TOOLS, COMPLETE, ""]
    assert {line.count("\t") for line in lines[:-1]} == {len(rows.FIELDS) - 1}


@pytest.mark.parametrize("arguments", [("-s", "ttft"), ("--format", "csv"), ("--format", "json")])
def test_what_is_followed_has_no_other_order_and_no_end(tape: Path, arguments: tuple[str, ...]) -> None:
    assert "--follow goes by the order of ending" in run(tape, "ls", "-F", *arguments, code=2).stderr


def test_ls_fits_its_terminal(tape: Path) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(tape, "ls", columns=60)).split("\r\n")
    assert max(map(len, lines)) <= 60
