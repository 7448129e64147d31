"""Output of commands: the formats, and a full stdout."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from rich.text import Text

from tests.support import forked
from tests.support.commands import on_terminal
from tests.support.sample_tape import ODD
from wiretape.recorder import terminals
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.cli import group
from wiretape.viewer.commands.output import Output, formatted, show, width

ROWS = [{"name": "=x", "n": 1}, {"name": "b", "n": None}]


@click.command()
@formatted()
def write(out: Output) -> None:
    if out.is_table:
        show([Text("a line"), Text(f"width {width()}")])
    else:
        out.put(("name", "n"), ROWS)


def run(*arguments: str) -> bytes:
    result = CliRunner().invoke(write, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_a_table_on_a_pipe_is_plain() -> None:
    assert run("--format", "table") == b"a line\nwidth None\n"


def test_what_fails_before_the_first_row_writes_no_header(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    def failing() -> Iterator[dict[str, Any]]:
        raise WiretapeError("a server is away")
        yield

    for format in ("tsv", "csv", "jsonl", "json"):
        with pytest.raises(WiretapeError, match="away"):
            Output(format).put(("name", "n"), failing())
    assert capfdbinary.readouterr().out == b""


def test_programs_get_tsv_unless_told_otherwise() -> None:
    assert run() == b"name\tn\n=x\t1\nb\t\n"


def test_rows_come_in_the_format_asked_for() -> None:
    assert run("--format", "csv") == b"name,n\r\n'=x,1\r\nb,\r\n"
    assert run("--format", "csv", "--raw-csv") == b"name,n\r\n=x,1\r\nb,\r\n"
    assert json.loads(run("--format", "json")) == ROWS
    assert [json.loads(line) for line in run("--format", "jsonl").splitlines()] == ROWS


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_output_that_does_not_fit_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        with pytest.raises(WiretapeError, match="the output cannot be written"):
            Output("csv").put(("name", "n"), ROWS)


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ({}, True),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_CTYPE": "nb_NO.utf8", "LANG": "C"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
    ],
)
def test_the_locale_says_whether_a_terminal_has_utf8(
    monkeypatch: pytest.MonkeyPatch, locale: dict[str, str], expected: bool
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.setenv(name, locale.get(name, ""))
    assert terminals.has_utf8() is expected


def test_a_header_can_be_left_out() -> None:
    assert run("--no-header") == b"=x\t1\nb\t\n"
    assert run("--no-header", "--format", "csv") == b"'=x,1\r\nb,\r\n"
    assert len(run("--no-header", "--format", "jsonl").splitlines()) == 2


def test_a_file_has_a_header_whoever_writes_it() -> None:
    out = io.BytesIO()
    assert Output("tsv").put(("name",), ROWS, out) == 2
    assert out.getvalue() == b"name\n=x\nb\n"
    out = io.BytesIO()
    assert Output("tsv").put(("name",), ROWS, out, header=False) == 2
    assert out.getvalue() == b"=x\nb\n"


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)])
def test_colours_on_a_pipe_must_be_forced(tape: Path, variable: str, coloured: bool) -> None:
    forced = {"FORCE_COLOR": "1", "NO_COLOR": variable, "TERM": "xterm-256color", "WIRETAPE_DB": str(tape)}
    done = forked.run(["ls", "--format", "table", "-f", "is:ok"], **forced)
    assert ("\x1b[32m" in done.stdout) == coloured
    assert ("\x1b[3" in done.stdout) == coloured


def test_a_terminal_without_utf8_gets_ascii(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert on_terminal(tape, "ls", "-f", "is:ok").isascii()


def test_a_dumb_terminal_gets_no_escapes(tape: Path) -> None:
    assert "\x1b" not in on_terminal(tape, "ls", terminal="dumb")


def test_columns_without_room_are_named_with_the_remedy(tape: Path) -> None:
    output = plain(on_terminal(tape, "export", "--format", "table", "-n", "1", columns=60))
    assert "hidden: request_model, response_model, upstream, labels, " in output
    assert re.search(r" and \d\d more; widen the terminal or use --columns$", output)
    checked = plain(on_terminal(tape, "check", "--max", "ttft.p95=1s", columns=30))
    assert checked.endswith("; widen the terminal or use --format json")


def plain(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


@pytest.mark.parametrize(
    "command",
    [
        *(f"{command} --format {format}"
          for command in ("ls --columns id,model,labels,error_message,content", "ls --by conversation", f"show {ODD}",
                          "stats --by model,label.k --all-operations", "stats --as vllm --by model", f"compare {ODD} @")
          for format in ("table", "tsv", "csv", "jsonl", "json", "markdown")),
        *(f"show {ODD} --part {part} --format tsv" for part in ("events", "timing")),
        f"play {ODD} --as events --speed 1000",
        "ls -f model:nobody", "db info", "db schema",
    ],
)  # fmt: skip
def test_piped_text_drives_no_terminal_behind_it(tape: Path, command: str) -> None:
    result = CliRunner().invoke(group, command.split(), env={"WIRETAPE_DB": str(tape)})
    assert result.exit_code == 0, result.output
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]|\r(?!\n)", result.stdout)


def test_an_export_keeps_every_byte_of_recorded_text(tape: Path) -> None:
    command = ("export", ODD, "--table", "texts", "--columns", "id,content", "--format", "tsv")
    result = CliRunner().invoke(group, command, env={"WIRETAPE_DB": str(tape)})
    assert "\x1b" in result.stdout
