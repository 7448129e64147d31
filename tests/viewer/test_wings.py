"""The core without its wings."""

import inspect
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.terminal import Terminal
from wiretape.recorder.destinations import Destination
from wiretape.viewer import contracts
from wiretape.viewer.commands.doctor import EXTRAS
from wiretape.viewer.ship.sink import Sink
from wiretape.viewer.source.base import Browsed, Place, Source

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an installation whose wings were removed."""
    place = tmp_path_factory.mktemp("core") / "wiretape"
    shutil.copytree(ROOT / ".package" / "wiretape", place, ignore=shutil.ignore_patterns("__pycache__", "wings"))
    return place.parent


@pytest.mark.parametrize(
    "command",
    ["ls", "show @stall", "stats", "compare @-14 @stall", "check --min n=10", "export -o -", "--help", "view --help"],
)
def test_the_core_runs_without_any_wing(core: Path, demo: tuple[Path, str], command: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(core), "WIRETAPE_DB": str(demo[0])}
    words = [sys.executable, "-P", "-m", "wiretape.viewer.cli", *command.split()]
    done = subprocess.run(words, env=environment, cwd=core, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_core_shows_a_tape_without_any_wing(core: Path, demo: tuple[Path, str]) -> None:
    environment = {"PYTHONPATH": str(core), "WIRETAPE_DB": str(demo[0])}
    command = ["-P", "-m", "wiretape.viewer.cli", "view"]
    with Terminal(command, environment=environment, directory=core, is_fresh=True) as terminal:
        terminal.wait_for("demo-stall")
        terminal.press("x")
        terminal.wait_for("screenshot")
        assert not any("page of" in line for line in terminal.screen.lines)
        terminal.press("\x1b")
        terminal.wait_for(lambda screen: not any("screenshot" in line for line in screen.lines))
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.parametrize(
    "contract",
    [
        contracts.Command,
        contracts.Export,
        contracts.Import,
        contracts.Address,
        Place,
        Source,
        Browsed,
        Destination,
        Sink,
    ],
    ids=lambda contract: contract.__name__,
)
def test_a_contract_is_read_at_a_glance(contract: type) -> None:
    assert len(inspect.getsource(contract).splitlines()) <= 60


def test_the_packages_extras_are_the_cores_and_wings() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {extra.name for extra in EXTRAS} == extras.keys() - {"dev"}


def test_each_folder_of_a_wing_is_listed_once() -> None:
    folders = {path.parent.name for path in (ROOT / "viewer" / "wings").glob("*/__init__.py")}
    assert sorted(contracts.BUILT_IN) == sorted(folders)
    assert contracts.built_in().keys() == folders


OUTLINE = '''
"""Exchanges as an outline for people."""

from wiretape.viewer.contracts import Export, Wing

WING = Wing(exports=(Export("outline", f"{__name__}:write", "line", "a line for each exchange", suffix=".txt"),))


def write(task, file):
    """Write a line for each exchange, and return their count."""
    rows = task.source.rows(("id", "outcome"), task.selection, limit=task.limit)
    return sum(bool(file.write(f"- {row['id']}: {row['outcome']}\\n".encode())) for row in task.over(rows))
'''


def test_a_wing_of_twenty_lines_adds_an_export_format(core: Path, demo: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copytree(core / "wiretape", tmp_path / "wiretape")
    table = tmp_path / "wiretape" / "viewer" / "contracts.py"
    table.write_text(
        table.read_text("utf-8").replace("BUILT_IN: Final = (", 'BUILT_IN: Final = ("outlines", '), "utf-8"
    )
    (wing := tmp_path / "wiretape" / "viewer" / "wings" / "outlines").mkdir(parents=True)
    (wing / "__init__.py").write_text(OUTLINE, "utf-8")
    assert OUTLINE.count("\n") <= 20
    words = [sys.executable, "-P", "-m", "wiretape.viewer.cli", "export", "@stall", "-o", str(tmp_path / "a.txt")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "WIRETAPE_DB": str(demo[0])}
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("a.txt (1 line)\n")
    assert (tmp_path / "a.txt").read_text("utf-8").endswith(": complete\n")
