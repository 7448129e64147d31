"""A new metric is one entry and a migration: what a copy of the source shows that has both."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENTRY = """\
    last_gap_ns: int | None = duration(
        "the very last gap", lambda t: t.gaps[-1] if t.gaps else None, aliases=("gap.last",), statistic="last_gap"
    )
    reads: int ="""
MIGRATION = '''"""the last gap is measured."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade():
    op.add_column("measures", sa.Column("last_gap_ns", sa.BigInteger(), nullable=True))
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


def runner(copy: Path):
    """Return a function that runs commands of a copy of the source on its tape."""
    shutil.copytree(ROOT / ".package", copy / ".package", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("recorder", "viewer", "migrations"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    head = max((copy / "migrations" / "versions").glob("*.py")).name.partition("_")[0]
    replace(copy / "recorder" / "decode" / "metrics.py", "    reads: int =", ENTRY)
    replace(copy / "recorder" / "tape" / "schema.py", f'REVISION = "{head}"', 'REVISION = "9999"')
    (copy / "migrations" / "versions" / "9999_last_gap.py").write_text(MIGRATION.format(head=head))

    def run(*commands):
        environment = os.environ | {"PYTHONPATH": str(copy / ".package"), "WIRETAPE_DB": str(copy / "tape.db")}
        command = [sys.executable, "-c", RUN, json.dumps([command.split() for command in commands])]
        return json.loads(subprocess.run(command, env=environment, cwd=copy, capture_output=True, check=True).stdout)

    return run


def test_lists_filters_exports_and_statistics_have_it(tmp_path_factory):
    _, everything, found, fields, exported, schema, statistics, meanings, histogram = runner(
        tmp_path_factory.mktemp("source")
    )(
        "db fixture --exchanges 30 --chunks 10",
        "ls --format json -n 100",
        "ls --format json -n 100 -f gap.last>0ms",
        "help fields",
        "export --format csv",
        "export --schema --format tsv",
        "stats --format json",
        "stats --schema --format tsv",
        "stats --hist last_gap",
    )
    everything, found, (row,) = (json.loads(text) for text in (everything, found, statistics))
    assert list(everything[0])[-1] == "last_gap_ms"
    assert {row["id"] for row in found} == {row["id"] for row in everything if row["last_gap_ms"]}
    assert 0 < len(found) < len(everything)
    assert "last_gap_ms, last_gap, gap.last" in fields
    assert exported.splitlines()[0].endswith(",last_gap_ms")
    assert "exchanges\tlast_gap_ms\tnumber\tms\tthe very last gap\n" in schema
    assert row["last_gap_n"] > 0
    assert row["last_gap_min_ms"] <= row["last_gap_p50_ms"] <= row["last_gap_max_ms"]
    assert "p50 of last_gap: the very last gap" in meanings
    assert "last_gap" in histogram
