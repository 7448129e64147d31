"""The command `view`: its arguments and its imports."""

import subprocess
import sys
from pathlib import Path

from tests.support.commands import run
from tests.support.forked import ROOT


def test_help_names_every_option(tape: Path) -> None:
    output = run(tape, "view", "--help").output
    for option in (
        "--at",
        "--filter",
        "--follow",
        "--compare",
        "--no-mouse",
        "--theme",
        "--ascii",
        "--stall-ms",
        "--web",
    ):
        assert option in output


def test_no_terminal_is_a_usage_error(tape: Path) -> None:
    assert "view needs a terminal" in run(tape, "view", code=2).output


def test_options_of_terminals_and_pages_do_not_mix(tape: Path) -> None:
    for options in (("--web", "--follow"), ("--web", "@", "--at", "1s"), ("--with-bodies",), ("--listen", ":0")):
        assert "--web" in run(tape, "view", *options, code=2).output
    assert "can be reached from other machines" in run(tape, "view", "--web", "--listen", "0.0.0.0:0", code=2).output


def test_the_command_loads_nothing_heavy_before_it_runs() -> None:
    program = (
        "import sys, wiretape.viewer.commands.view; "
        "sys.exit([name for name in ('textual', 'sqlalchemy', 'pandas', 'rich', 'numpy') if name in sys.modules] != [])"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
