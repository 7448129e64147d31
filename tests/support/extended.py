"""A copy of the source with more facts or derived values, and the migration that adds their columns."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIGRATION = '''"""More columns."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade():
    for name, type in {columns}.items():
        op.add_column("{table}", sa.Column(name, getattr(sa, type)(), nullable=True))
'''
RUN = """
import json, sys
from click.testing import CliRunner
from wiretape.viewer.cli import group
results = [CliRunner().invoke(group, command, catch_exceptions=False) for command in json.loads(sys.argv[1])]
print(json.dumps([result.stdout for result in results]))
"""
"""Run commands in the copy, and print what each has printed."""


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def runner(
    copy: Path, entries: str, columns: dict[str, str], observing: tuple[str, str] | None = None, script: str = ""
) -> Callable[..., list[str]]:
    """Return a function that runs commands of a copy of the source on its tape; `entries` are of `Timing`.

    With `observing`, the old and new text of the relay's `recording`, `entries` are facts of the end of an exchange.
    The `script` is run in the copy first.
    """
    shutil.copytree(ROOT / ".package", copy / ".package", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("recorder", "viewer", "migrations", "tests/support"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    head = max((copy / "migrations" / "versions").glob("*.py")).name.partition("_")[0]
    if observing is None:
        place, first_line, table = "decode/metrics.py", "    reads: int =", "measures"
    else:
        place, first_line, table = "facts.py", "    paused: int =", "exchanges"
        replace(copy / "recorder" / "relay" / "recording.py", *observing)
    replace(copy / "recorder" / place, first_line, entries + first_line)
    replace(copy / "recorder" / "tape" / "peek.py", f'REVISION = "{head}"', 'REVISION = "9999"')
    migration = copy / "migrations" / "versions" / "9999_more.py"
    migration.write_text(MIGRATION.format(head=head, columns=columns, table=table))
    path = os.pathsep.join([str(copy / ".package"), str(copy)])
    environment = os.environ | {"PYTHONPATH": path, "WIRETAPE_DB": str(copy / "tape.db")}
    cog = [sys.executable, "-m", "cogapp", "-c", "-r", "recorder/tape/tables.py", "viewer/help/fields.md"]
    for program in (cog, [sys.executable, "-c", script]):
        subprocess.run(program, env=environment, cwd=copy, capture_output=True, check=True)

    def run(*commands: str) -> list[str]:
        command = [sys.executable, "-c", RUN, json.dumps([command.split() for command in commands])]
        done = subprocess.run(command, env=environment, cwd=copy, capture_output=True, check=True)
        printed: list[str] = json.loads(done.stdout)
        return printed

    return run
