"""How commands write: the formats, and stdout when it is full."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.text import Text

from recorder.errors import WiretapeError
from viewer import output

ROWS = [{"name": "=x", "n": 1}, {"name": "b", "n": None}]


@click.command()
@output.formatted
def written(format: str | None, raw_csv: bool) -> None:
    format = output.chosen(format)
    if format == "table":
        output.show([Text("a line"), Text(f"width {output.width()}")])
    else:
        output.put(format, ("name", "n"), ROWS, raw_csv)


def run(*arguments: str) -> bytes:
    result = CliRunner().invoke(written, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_a_table_on_a_pipe_is_plain() -> None:
    assert run("--format", "table") == b"a line\nwidth None\n"


def test_programs_get_tsv_unless_told_otherwise() -> None:
    assert run() == b"name\tn\n=x\t1\nb\t\n"


def test_rows_come_in_the_format_asked_for() -> None:
    assert run("--format", "csv") == b"name,n\r\n'=x,1\r\nb,\r\n"
    assert run("--format", "csv", "--raw-csv") == b"name,n\r\n=x,1\r\nb,\r\n"
    assert json.loads(run("--format", "json")) == ROWS
    assert [json.loads(line) for line in run("--format", "jsonl").splitlines()] == ROWS


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_output_that_does_not_fit_is_an_error_in_our_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        with pytest.raises(WiretapeError, match="the output cannot be written"):
            output.put("csv", ("name", "n"), ROWS)
