"""What the documentation says is what the code does."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from recorder import __version__
from recorder.commands.cli import main as group

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def commands(command: click.Command, name: str) -> list[tuple[str, click.Command]]:
    found = [(name, command)]
    if isinstance(command, click.Group):
        for child_name, child in command.commands.items():
            found += commands(child, f"{name} {child_name}")
    return found


def all_commands() -> list[tuple[str, click.Command]]:
    import viewer.cli  # adds the commands that read

    assert viewer.cli.group is group
    return commands(group, "wiretape")


@pytest.mark.parametrize(("name", "command"), all_commands())
def test_every_command_and_option_has_help_and_is_in_the_readme(name: str, command: click.Command) -> None:
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert name in README


def test_the_generated_parts_of_the_readme_are_true() -> None:
    # Apart from this process: click keeps what a command was first called with.
    command = [sys.executable, "-m", "cogapp", "-c", "--check", "--diff", "README.md"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout


def test_the_newest_heading_of_the_changelog_is_the_version() -> None:
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading is not None
    assert heading[1] == __version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_readme_is_short_enough_to_be_read_but_for_what_is_generated() -> None:
    written = re.sub(r"<!-- \[\[\[cog.*?\[\[\[end\]\]\].*?-->", "", README, flags=re.DOTALL)
    assert len(written.splitlines()) <= 260


@pytest.mark.parametrize("module", ["recorder.commands.cli", "viewer.cli"])
def test_importing_a_command_line_loads_no_heavy_library(module: str) -> None:
    heavy = "pandas textual sqlalchemy alembic uvicorn httpx"
    code = f"import sys, {module}; print([name for name in {heavy.split()!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == "[]\n"
