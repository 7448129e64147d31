"""The command line as a whole: messages and exit codes of errors."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.support.cases import each_case
from tests.support.commands import RUN, on_terminal
from tests.support.forked import CLI, ROOT, Forked, run
from tests.support.sample_tape import ODD, TOOLS
from wiretape.recorder import errors
from wiretape.viewer.cli import group, main


def wiretape(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run(arguments)


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("wiretape: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.parametrize("command", [["ls"], ["show", "@"], ["export"], ["db", "check"], ["db", "rebuild"]])
def test_a_missing_tape_is_one_line_and_4(command: list[str], tmp_path: Path) -> None:
    assert_one_line(wiretape(*command, "--db", tmp_path / "none.db"), 4, "no tape at")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["ls"], ["record", "--listen", ":0"], ["db", "upgrade"]])
def test_another_applications_database_is_one_line_and_8(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    content = path.read_bytes()
    assert_one_line(wiretape(*command, "--db", path), 8, "another application")
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["theirs.db"]


@each_case("option", ["--version", "-V", "version"])
def test_the_version_is_printed(option: str) -> None:
    assert wiretape(option).stdout == "wiretape 0.1.0\n"


def test_a_wrong_option_is_2() -> None:
    assert wiretape("ls", "--no-such-option").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("ls", "--db", "/none/tape.db"), errors.NotFound),
        (("show", "zzzz"), errors.NotFound),
        (("ls", "--db", __file__), errors.ForeignFile),
    ],
)
def test_an_unreadable_argument_is_one_line(tape: Path, arguments: tuple[str, ...], kind: type) -> None:
    result = CliRunner().invoke(group, arguments, env={"WIRETAPE_DB": str(tape)})
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
    output = on_terminal(tape, *arguments)
    assert "cmd()" in output
    text = re.sub(r"\x1b\[[0-9;]*m", "", output).replace("\r\n", "\n")
    assert not {sign for sign in text if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0} - {"\n"}
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029]", text)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(tape: Path, unbuffered: str) -> None:
    environment = os.environ | {"WIRETAPE_DB": str(tape), "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(
        [*RUN, "export", "--table", "chunks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    output = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), output) == (141, b"")


def test_a_followed_list_ends_with_its_reader(tape: Path) -> None:
    command = [*CLI, "ls", "-F", "--db", str(tape)]
    with Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.wait(timeout=60), process.stderr and process.stderr.read()) == (141, b"")


def test_whatever_is_read_no_more_ends_quietly(tape: Path) -> None:
    commands = ["ls", "ls --format table", "completion bash", "--help"]
    unread, closed = os.pipe()
    os.close(unread)
    started = {}
    for command in commands:
        environment = os.environ | {"WIRETAPE_DB": str(tape), "FORCE_COLOR": "1" if "table" in command else ""}
        started[command] = subprocess.Popen(
            [*RUN, *command.split()], stdout=closed, stderr=subprocess.PIPE, cwd=ROOT, env=environment
        )
    os.close(closed)
    results = {
        command: (process.communicate(timeout=60)[1], process.returncode) for command, process in started.items()
    }
    assert results == dict.fromkeys(commands, (b"", 141))


def test_an_interrupted_command_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    assert exit_code_of(interrupt, monkeypatch) == 130


@pytest.mark.parametrize("is_hidden", [False, True])
def test_an_interrupt_within_a_callback_of_sqlite_is_130(monkeypatch: pytest.MonkeyPatch, is_hidden: bool) -> None:
    def interrupt() -> None:
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.create_function("interrupted", 0, lambda: signal.raise_signal(signal.SIGINT))
            with contextlib.suppress(*[sqlite3.OperationalError] * is_hidden):
                connection.execute("SELECT interrupted()").fetchall()

    assert exit_code_of(interrupt, monkeypatch) == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_question_that_was_answered_with_no_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise click.Abort

    assert exit_code_of(refuse, monkeypatch) == 1


def exit_code_of(body: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setitem(group.commands, "tested", click.Command("tested", callback=body))
    monkeypatch.setattr(sys, "argv", ["wiretape", "tested"])
    with pytest.raises(SystemExit) as raised:
        main()
    return raised.value.code


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_output_that_does_not_fit_is_one_line(tape: Path, unbuffered: str) -> None:
    environment = os.environ | {"WIRETAPE_DB": str(tape), "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "wiretape.viewer.cli", "show", TOOLS, "--part", "raw"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=ROOT, env=environment, check=False)
    output = b"wiretape: the output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (1, output)


def test_importing_the_commands_loads_no_heavy_library() -> None:
    heavy = {"asyncio", "pandas", "textual", "sqlalchemy", "alembic", "httpx", "msgspec", "rich", "brotli"}
    code = "import sys; from wiretape.viewer.cli import group; list(group.commands.values())"
    code += f"; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", ["ls -n 20", "ls model:gpt* -n 5", "ls --by conversation", "show", "run -- true"])
def test_a_small_command_loads_little_and_collects_no_garbage(command: str, tape: Path, tmp_path: Path) -> None:
    unused = {"alembic", "h11", "html.entities", "httpx", "numpy", "pandas", "statistics", "textual", "wsproto"}
    db = tmp_path / "new.db" if command.startswith("run") else tape
    unused |= set() if command.startswith("run") else {"sqlalchemy"}
    code = "import sys; from wiretape.viewer.cli import gc, main; runs = []\n"
    code += "gc.callbacks.append(lambda phase, info: runs.append(info['generation']))\ntry: main()\n"
    code += f"except SystemExit: print(sorted({unused!r} & sys.modules.keys()), runs, file=sys.stderr)"
    environment = os.environ | {"WIRETAPE_DB": str(db)}
    process = [sys.executable, "-c", code, *command.split()]
    done = subprocess.run(process, capture_output=True, text=True, cwd=ROOT, env=environment, check=True)
    assert done.stderr.splitlines()[-1] == "[] []"


def test_a_command_imports_no_module_of_another() -> None:
    code = "import sys; from wiretape.viewer.cli import main; sys.argv[1:] = ['ls', '--help']\ntry: main()\n"
    code += "except SystemExit: print(*(name for name in sys.modules if '.commands.' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    other_modules = {f"wiretape.{wing}.commands.{name}" for wing in ("recorder", "viewer") for name in group.commands}
    loaded = other_modules.intersection(done.stdout.splitlines()[-1].split())
    assert loaded == {"wiretape.viewer.commands.ls", "wiretape.viewer.commands.completion"}


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = "import sys; from wiretape.viewer.cli import main; sys.argv[1:] = ['--help']\ntry: main()\n"
    code += "except SystemExit: print(*(name for name in sys.modules if '.commands.' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.splitlines()[-1].split()}
    assert loaded & group.commands.keys() == {"completion"}


@pytest.mark.parametrize("command", [(), ("db",), ("fleet",)], ids=" ".join)
def test_no_summary_is_cut_at_80_columns(command: tuple[str, ...], tape: Path) -> None:
    output = wiretape(*command, "--help").stdout
    names = output.partition("Commands:" if command else "Record:")[2].partition("  Examples:")[0]
    assert names
    assert "..." not in names
    assert "…" not in names
    lines = [line for line in names.splitlines() if line and not line.endswith(":")]
    assert all(len(line) <= 80 and re.match(r"  [a-z]", line) for line in lines)  # no summary takes two lines


def commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from commands(child)


@each_case("command", list(commands(group)), ids=lambda command: command.name)
def test_every_command_and_option_has_help(command: click.Command) -> None:
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_a_usage_error_is_one_line_with_advice() -> None:
    done = wiretape("ls", "-f", "ttfx>1s")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("wiretape ls: ")
    assert "there is no such field" in done.stderr
    assert done.stderr.endswith("(see wiretape ls --help)\n")


def test_without_a_null_device_there_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "devnull", str(tmp_path / "null"))
    monkeypatch.setattr(sys, "argv", ["wiretape", "run", "--db", str(tmp_path / "tape.db"), "--", "true"])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 1
    assert (
        capsys.readouterr().err
        == f"wiretape: {os.devnull} cannot be opened (No such file or directory): recording needs it\n"
    )


def test_a_closed_stdout_is_one_line() -> None:
    command = f"exec {sys.executable} -m wiretape.viewer.cli ls >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("wiretape: stdout is closed")


def test_a_command_runs_without_stdout(tmp_path: Path) -> None:
    program = "sh -c 'echo out; echo err >&2; exit 9'"
    command = f"exec {sys.executable} -m wiretape.viewer.cli run --db {tmp_path}/t.db -- {program} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr.splitlines()[0]) == (9, "err")


KEY = "sk-ant-api03-q9Zk3LmN8vXw2RtY7uKpQs1fG4hJ6dB0c"


@pytest.mark.parametrize(
    "arguments",
    [
        [KEY],
        ["help", KEY],
        ["show", KEY],
        ["ls", "--db", f"/none/{KEY}.db"],
        ["ls", "--db", f"https://user:{KEY}@host/db"],
        ["import", f"/none/{KEY}.har"],
        ["run", "--", f"/none/{KEY}"],
        ["serve", "--fault", KEY],
        ["record", "--upstream", f"https://user:{KEY}@host:port"],
    ],
)
def test_an_error_does_not_quote_a_key(arguments: list[str], tmp_path: Path) -> None:
    done = run(arguments, WIRETAPE_DB=str(tmp_path / "tape.db"))
    assert done.returncode
    assert KEY not in done.stdout + done.stderr


def test_our_faults_traceback_hides_quoted_keys() -> None:
    program = f"""
import sys
from wiretape.viewer import cli
@cli.group.command()
def broken():
    raise ValueError("Incorrect API key provided: " + "-".join({KEY.split("-")!r}))
sys.argv = ["wiretape", "broken"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: Incorrect API key provided: REDACTED"


def test_a_file_name_may_be_a_secret_request(tape: Path, tmp_path: Path) -> None:
    (source := tmp_path / f"generate?key={KEY}.txt").write_text('data: {"choices": []}\n\n', "utf-8")
    output = tmp_path / f"list?key={KEY}.csv"
    imported = tmp_path / "imported.db"  # the tape is of all tests, and is written by none
    for arguments in (["import", source, "--db", imported], ["export", "--output", output, "--db", tape]):
        done = wiretape(*arguments)
        assert done.returncode == 0, done.stderr
        assert KEY not in done.stdout + done.stderr
