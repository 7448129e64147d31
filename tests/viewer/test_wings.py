"""The core without its wings."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wiretape.viewer import contracts

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


def test_each_folder_of_a_wing_is_listed_once() -> None:
    folders = {path.parent.name for path in (ROOT / "viewer" / "wings").glob("*/__init__.py")}
    assert sorted(contracts.BUILT_IN) == sorted(folders)
    assert contracts.built_in().keys() == folders
