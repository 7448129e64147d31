"""The commands, from the outside: formats, parts, exit codes, pipes and terminals."""

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from recorder import errors
from viewer import rows
from viewer.commands import COMMANDS

from .conftest import COMPLETE, COMPLETE_READS, FAILED, LIMITED, LIVE, ODD, TOOLS, TRUNCATED

ROOT = Path(__file__).parent.parent.parent
GROUP = click.Group("wiretape", commands=COMMANDS)
RUN = (sys.executable, "-c", "from viewer.commands import COMMANDS as c; import click; click.Group(commands=c)()")
BODY = b"".join(data for _, data in COMPLETE_READS)


def run(tape: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(GROUP, [*arguments], env={"WIRETAPE_DB": str(tape)})
    assert result.exit_code == code, result.output
    return result


def on_terminal(tape: Path, *arguments: str, columns: int = 100) -> str:
    """Run a command with a pseudo-terminal for stdout, and give what came out of it."""
    outer, inner = pty.openpty()
    environment = os.environ | {"WIRETAPE_DB": str(tape), "COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen([*RUN, *arguments], stdout=inner, stderr=inner, cwd=ROOT, env=environment)
    os.close(inner)
    shown = b""
    while True:
        try:
            data = os.read(outer, 65536)
        except OSError:
            break
        shown += data
        if not data:
            break
    os.close(outer)
    process.wait(timeout=30)
    return shown.decode()


def test_ls_is_a_table_of_the_newest_first(tape: Path) -> None:
    lines = run(tape, "ls", "-n", "2").stdout.splitlines()
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


def test_show_finds_the_newest_that_failed(tape: Path) -> None:
    assert json.loads(run(tape, "show", "@err", "--format", "json").stdout)["id"] == ODD


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
    table = interrupted(tape, "-f", "is:ok", lines=3)
    assert [line[:8] for line in table] == ["id      ", COMPLETE[:8], TOOLS[:8]]


@pytest.mark.parametrize("arguments", [("-s", "ttft"), ("--format", "csv"), ("--format", "json")])
def test_what_is_followed_has_no_other_order_and_no_end(tape: Path, arguments: tuple[str, ...]) -> None:
    assert "--follow goes by the order of ending" in run(tape, "ls", "-F", *arguments, code=2).stderr


def test_show_as_json_is_one_object_that_begins_with_the_contract(tape: Path) -> None:
    found = json.loads(run(tape, "show", COMPLETE, "--format", "json").stdout)
    assert tuple(found) == rows.FIELDS + rows.TEXT_FIELDS + rows.DETAIL_FIELDS
    assert (found["content"], found["labels"], found["usage"]["total_tokens"]) == ("Hello, world", {"run": "a7"}, 9)


def test_show_as_csv_has_the_structures_as_json(tape: Path) -> None:
    (row,) = csv.DictReader(io.StringIO(run(tape, "show", TOOLS, "--format", "csv").stdout))
    assert json.loads(row["tool_calls"])[0]["arguments"] == '{"city":"Oslo"}'
    assert (row["flags"], row["completion_tokens"]) == ("no_usage stall", "")


@pytest.mark.parametrize("part", ["events", "reads"])
def test_events_and_reads_come_in_every_format(tape: Path, part: str) -> None:
    fields = {"events": rows.EVENT_FIELDS, "reads": rows.READ_FIELDS}[part]
    found = json.loads(run(tape, "show", COMPLETE, "--part", part, "--format", "json").stdout)
    assert {tuple(row) for row in found} == {fields}
    assert tuple(run(tape, "show", COMPLETE, "--part", part).stdout.splitlines()[0].split()) == fields
    assert len(run(tape, "show", COMPLETE, "--part", part, "--format", "jsonl").stdout.splitlines()) == len(found)


def test_events_say_where_in_the_body_they_are_and_when_they_came(tape: Path) -> None:
    found = json.loads(run(tape, "show", COMPLETE, "--part", "events", "--format", "json").stdout)
    assert [row["kind"] for row in found][1:3] == ["event", "comment"]
    assert [row["at_ms"] for row in found] == [100.0, 110.0, 120.0, 120.0, 120.0, 170.0, 180.0, 180.0, 180.0]
    assert [row["gap_ms"] for row in found] == [None, 10.0, 10.0, 0.0, 0.0, 50.0, 10.0, 0.0, 0.0]
    assert BODY[found[2]["start"] : found[2]["end"]].startswith(b": keep-alive")


def test_text_on_a_pipe_is_the_content_and_nothing_else(tape: Path) -> None:
    assert run(tape, "show", COMPLETE, "--part", "text").stdout_bytes == b"Hello, world"
    assert run(tape, "show", TOOLS, "--part", "text").stdout_bytes == b""
    found = json.loads(run(tape, "show", TOOLS, "--part", "text", "--format", "json").stdout)
    assert (found["reasoning"], found["tool_calls"][0]["name"]) == ("Think. ", "get_weather")


def test_the_request_on_a_pipe_is_its_body_byte_for_byte(tape: Path) -> None:
    assert run(tape, "show", "c000", "--part", "request").stdout_bytes == b"\xff\xfe not UTF-8"
    found = json.loads(run(tape, "show", "c000", "--part", "request", "--format", "json").stdout)
    assert tuple(found) == rows.REQUEST_FIELDS
    assert "authorization: REDACTED" in run(tape, "show", "c000", "--part", "request", "--format", "table").stdout


def test_raw_on_a_pipe_is_the_body_byte_for_byte_also_while_it_is_open(tape: Path) -> None:
    assert run(tape, "show", COMPLETE, "--part", "raw").stdout_bytes == BODY
    assert run(tape, "show", "@", "--part", "raw").stdout_bytes == COMPLETE_READS[0][1] + COMPLETE_READS[1][1]


def test_raw_has_no_format(tape: Path) -> None:
    assert "has no --format" in run(tape, "show", "@", "--part", "raw", "--format", "json", code=2).stderr


def test_export_is_csv_on_stdout_unless_told_otherwise(tape: Path) -> None:
    found = run(tape, "export").stdout_bytes
    assert found.startswith(",".join(rows.FIELDS).encode() + b"\r\n")
    assert run(tape, "export", "-o", "-").stdout_bytes == found
    assert "aaaa000000000001" in run(tape, "export", "--format", "table").stdout


@pytest.mark.parametrize(
    ("name", "begins"), [("x.jsonl", b'{"id":'), ("x.JSON", b"[\n{"), ("x.csv", b"id,"), ("x", b"id,")]
)
def test_a_files_suffix_gives_the_format(tape: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    result = run(tape, "export", "--table", "reads", "-o", str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert result.stdout == ""
    assert "rows)" in result.stderr


def test_formulas_are_guarded_unless_raw_csv_is_asked_for(tape: Path) -> None:
    assert "'=cmd()" in run(tape, "export").stdout
    assert "'=cmd()" not in run(tape, "export", "--raw-csv").stdout


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("ls", "--db", "/none/tape.db"), errors.NotFound),
        (("show", "zzzz"), errors.NotFound),
        (("ls", "--db", __file__), errors.ForeignFile),
    ],
)
def test_what_cannot_be_read_is_left_to_main_as_one_line(tape: Path, arguments: tuple[str, ...], kind: type) -> None:
    result = CliRunner().invoke(GROUP, arguments, env={"WIRETAPE_DB": str(tape)})
    assert isinstance(result.exception, kind)
    assert "\n" not in str(result.exception)
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls",),
        ("ls", "--format", "csv"),
        ("ls", "--format", "json"),
        ("show", ODD),
        ("show", ODD, "--format", "json"),
        ("show", ODD, "--part", "text"),
        ("show", ODD, "--part", "events"),
        ("show", ODD, "--part", "request"),
        ("export", "--table", "texts", "--format", "jsonl"),
    ],
    ids=" ".join,
)
def test_a_terminal_gets_no_control_from_the_tape(tape: Path, arguments: tuple[str, ...]) -> None:
    shown = on_terminal(tape, *arguments)
    assert "cmd()" in shown
    rest = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n")
    assert not {sign for sign in rest if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0} - {"\n"}
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029]", rest)


def test_ls_fits_its_terminal(tape: Path) -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(tape, "ls", columns=60)).split("\r\n")
    assert max(map(len, lines)) <= 60


def test_raw_is_not_thrown_at_a_terminal_without_force(tape: Path) -> None:
    assert "say --force" in on_terminal(tape, "show", COMPLETE, "--part", "raw")
    assert "keep-alive" in on_terminal(tape, "show", COMPLETE, "--part", "raw", "--force")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(tape: Path, unbuffered: str) -> None:
    environment = os.environ | {"WIRETAPE_DB": str(tape), "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(
        [*RUN, "export", "--table", "chunks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=30), said) == (141, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_output_that_does_not_fit_is_an_error_of_one_line(tape: Path, unbuffered: str) -> None:
    environment = os.environ | {"WIRETAPE_DB": str(tape), "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "viewer.cli", "show", TOOLS, "--part", "raw"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=ROOT, env=environment, check=False)
    said = b"wiretape: the output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_importing_the_commands_loads_no_heavy_library() -> None:
    heavy = {"pandas", "textual", "sqlalchemy", "alembic", "uvicorn", "httpx", "msgspec", "rich"}
    code = f"import sys, viewer.commands; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_every_command_and_option_has_help(tape: Path) -> None:
    for command in COMMANDS:
        assert command.help
        assert all(option.help for option in command.params if isinstance(option, click.Option))
        assert run(tape, str(command.name), "--help").stdout.startswith("Usage: ")
