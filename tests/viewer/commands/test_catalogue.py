"""The catalogue: every command has a place, a summary and three examples, which work on the tape of the demo."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.support import forked
from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.forked import ROOT
from tests.support.terminal import Terminal
from wiretape.viewer.cli import group
from wiretape.viewer.commands.catalogue import EXAMPLES, SECTIONS, SUMMARIES, command_line


def paths(command: click.Command, path: str = "") -> list[str]:
    arguments = [path] if path else []
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            arguments += paths(child, f"{path} {name}".strip())
    return arguments


def test_every_command_has_a_summary_and_three_examples() -> None:
    assert set(paths(group)) == SUMMARIES.keys() == EXAMPLES.keys()
    assert {len(set(examples)) for examples in EXAMPLES.values()} == {3}
    for path, examples in EXAMPLES.items():
        own_examples = [example for example in examples if path in example or path == "version"]
        assert own_examples if path in ("db", "fleet") else len(own_examples) == 3, path


def test_every_command_is_in_one_section() -> None:
    section_names = [name for commands in SECTIONS.values() for name in commands]
    top = {name for name, command in group.commands.items() if not command.hidden}
    assert len(section_names) == len(set(section_names))
    assert set(section_names) == {*top, "db cut"}


@each_case("path", list(EXAMPLES))
def test_the_help_of_a_command_ends_with_its_examples(path: str) -> None:
    output = run(Path("none.db"), *path.split(), "--help").stdout
    assert output.rstrip().endswith(
        "Examples:\n" + "\n".join(f"    {command_line(arguments)}" for arguments in EXAMPLES[path])
    )
    assert max(map(len, output.splitlines())) <= 100


@pytest.fixture
def place(demo: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the demo's tape, which is the default tape, and with the files that examples name."""
    shutil.copy(demo[0], tmp_path / "demo.db")
    (tmp_path / "app.py").write_text("print('done')\n")
    (tmp_path / "own.toml").write_text('[[dialects]]\nname = "own"\nmatch = { request-header = "host" }\n')
    for folder in ("tapes", "bin", "home"):
        (tmp_path / folder).mkdir()
    program = tmp_path / "bin" / "wiretape"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}/.package exec {sys.executable} -m wiretape "$@"\n')
    program.chmod(0o700)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setenv("WIRETAPE_DB", str(tmp_path / "demo.db"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path


_FILES = {
    "chat.har": "export --format har -o chat.har",
    "stream.sse": "export @ --format sse -o stream.sse",
    "tapes/": "db cut @ -o tapes/a.jsonl",
}
"""The files that examples read, and the commands that make them."""
_SHELL = re.compile(r"[|&$]|^WIRETAPE_DB=|\*\.")


_IN_PROCESS = ("check", "compare", "config", "dialect", "doctor", "export", "help", "import", "ls", "prices", "report",
               "show", "stats", "timeouts", "version")  # fmt: skip
"""The commands that only read and write files: a process of their own would be most of their cost."""


def ran(arguments: list[str], place: Path) -> str:
    if arguments[0] in _IN_PROCESS:
        with contextlib.chdir(place):
            result = CliRunner().invoke(group, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout
    with forked.Forked([*forked.CLI, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        output = process.stdout.read().decode()
        assert process.wait(60) == 0, process.stderr.read()
        return output


def examples(is_chosen: Callable[[str], object]) -> list[str]:
    return sorted({example for many in EXAMPLES.values() for example in many if is_chosen(example)})


def kind(example: str) -> str:
    if ("db.example.com" in example and "--print" not in example) or "otlp+http" in example:
        return "remote"
    command = example.split()[0]
    return command if command in ("view", "record", "serve", "demo") else "local"


@pytest.mark.parametrize("example", examples(lambda command: kind(command) == "local"))
def test_an_example_works_on_the_tape_of_the_demo(example: str, place: Path) -> None:
    for file, command in _FILES.items():
        if file in example and "-o" not in example:
            ran(command.split(), place)
    if not _SHELL.search(example):
        ran(shlex.split(example), place)
        return
    command = ["bash", "-e", "-o", "pipefail", "-c", command_line(example)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", examples(lambda command: kind(command) == "demo" and "&&" in command))
def test_an_example_works_after_the_demo(example: str, place: Path) -> None:
    demo, _, remainder = example.partition(" && wiretape ")
    assert demo == "demo --db demo.db"  # the fixture's own command
    assert ran(shlex.split(remainder), place)


@pytest.mark.parametrize("example", examples(lambda command: kind(command) == "view"))
def test_a_viewer_example_shows_the_demos_tape(example: str, place: Path) -> None:
    with Terminal([*forked.CLI, *shlex.split(example)], directory=place) as terminal:
        terminal.wait_for("demo-")
        terminal.press("qq")
        assert terminal.ended() == 0


@pytest.mark.parametrize("example", examples(lambda command: kind(command) in ("record", "serve")))
def test_a_server_example_runs_until_stopped(example: str, place: Path) -> None:
    anywhere = [] if "--listen" in example else ["--listen", "127.0.0.1:0"]
    command = [*forked.CLI, *shlex.split(example), *anywhere]
    with forked.Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@each_case("example", examples(lambda command: kind(command) == "remote"))
def test_an_example_for_another_machine_is_accepted(example: str) -> None:
    command: click.Command = group
    words = shlex.split(example)
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    assert command.make_context("wiretape", words).params
