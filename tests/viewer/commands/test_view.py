"""The command `view`: what it takes, and what it loads."""

import subprocess
import sys
from pathlib import Path

from tests.forked import ROOT
from tests.viewer.commanding import run


def test_help_names_every_option(tape: Path) -> None:
    said = run(tape, "view", "--help").output
    for option in ("--at", "--filter", "--follow", "--compare", "--no-mouse", "--theme", "--ascii", "--stall-ms"):
        assert option in said


def test_no_terminal_is_a_usage_error(tape: Path) -> None:
    assert "view needs a terminal" in run(tape, "view", code=2).output


def test_the_command_loads_nothing_heavy_before_it_runs() -> None:
    program = (
        "import sys, viewer.commands.view; "
        "sys.exit([name for name in ('textual', 'sqlalchemy', 'pandas', 'rich', 'numpy') if name in sys.modules] != [])"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
