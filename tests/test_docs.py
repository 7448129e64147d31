"""What the documentation says is what the code does."""

import re
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import click
import pytest

from recorder import __version__
from recorder.commands.cli import main as group

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SELECT = re.compile(r"^(?:SELECT|WITH)\b[^;]*;", re.MULTILINE)


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


QUERIES = [query for block in re.findall(r"```sql\n(.*?)```", README, re.DOTALL) for query in SELECT.findall(block)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tape of the demo."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    command = [sys.executable, "-c", "from viewer.cli import main; main()", "demo", "--db", str(path)]
    subprocess.run(command, capture_output=True, cwd=ROOT, check=True)
    return path


@pytest.mark.parametrize("query", QUERIES)
def test_the_queries_of_the_readme_have_answers_on_the_tape_of_the_demo(query: str, demo: Path) -> None:
    with closing(sqlite3.connect(f"file:{demo}?mode=ro", uri=True)) as connection:
        assert connection.execute(query).fetchall()


@pytest.mark.parametrize("module", ["recorder.commands.cli", "viewer.cli"])
def test_importing_a_command_line_loads_no_heavy_library(module: str) -> None:
    heavy = "pandas textual sqlalchemy alembic uvicorn httpx"
    code = f"import sys, {module}; print([name for name in {heavy.split()!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == "[]\n"
