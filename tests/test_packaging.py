"""What is installed: all that wiretape needs, `import wiretape`, and nothing at the top level that is not ours."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
HEAVY = "pandas numpy sqlalchemy alembic textual httpx click rich"


def built(directory: Path, version: str) -> Path:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(directory), versions=[version])
    return Path(wheel)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the wheel holds."""
    directory = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(built(tmp_path_factory.mktemp("wheel"), "standard")) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What an editable install adds to the path of modules."""
    with zipfile.ZipFile(built(tmp_path_factory.mktemp("wheel"), "editable")) as archive:
        (pth,) = [name for name in archive.namelist() if name.endswith(".pth")]
        return os.pathsep.join(archive.read(pth).decode().splitlines())


def run(path: str, code: str, elsewhere: Path) -> str:
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_ships_the_packages_and_the_migrations(installed: Path) -> None:
    names = {str(path.relative_to(installed)) for path in installed.rglob("*")}
    assert {"recorder/migrations/env.py", "recorder/migrations/versions/0001_the_first_tape.py"} <= names
    assert {"recorder/py.typed", "viewer/py.typed", "wiretape/py.typed"} <= names
    assert {"recorder/tape/writer.py", "viewer/cli.py", "wiretape/__init__.py"} <= names
    assert {"viewer/page/assets/frame.css", "viewer/page/assets/frame.js"} <= names
    assert {path.name for path in installed.iterdir()} == {"recorder", "viewer", "wiretape", "wiretape-0.1.0.dist-info"}


def test_pytest_finds_the_plugin_and_no_command_needs_pytest(installed: Path) -> None:
    information = installed / "wiretape-0.1.0.dist-info"
    assert "[pytest11]\nwiretape = wiretape.viewer.replay.plugin" in (information / "entry_points.txt").read_text(
        "utf-8"
    )
    needed = re.findall(r"^Requires-Dist: (.*)", (information / "METADATA").read_text("utf-8"), re.MULTILINE)
    assert [line for line in needed if line.startswith("pytest") and "extra ==" not in line] == []
    importing = [str(path) for path in installed.rglob("*.py") if "\nimport pytest" in path.read_text("utf-8")]
    assert importing == [str(installed / "viewer/replay/plugin.py")]


def test_an_installed_wiretape_can_be_imported(installed: Path, tmp_path: Path) -> None:
    code = "import wiretape; print(wiretape.__file__); print(wiretape.open_tape.__module__)"
    assert run(str(installed), code, tmp_path).splitlines() == [
        str(installed / "wiretape/__init__.py"),
        "wiretape.viewer.export.frames",
    ]


def test_an_editable_wiretape_can_be_imported_and_is_the_checkouts_own(editable: str, tmp_path: Path) -> None:
    found = run(editable, "import wiretape, viewer; print(wiretape.__file__); print(viewer.__file__)", tmp_path)
    assert found.splitlines() == [str(ROOT / ".package/wiretape/__init__.py"), str(ROOT / "viewer/__init__.py")]


def test_importing_wiretape_loads_no_heavy_library(editable: str, tmp_path: Path) -> None:
    code = f"import sys, wiretape; dir(wiretape); print([name for name in {HEAVY.split()!r} if name in sys.modules])"
    assert run(editable, code, tmp_path) == "[]"


def test_all_public_names_are_there_and_no_others(editable: str, tmp_path: Path) -> None:
    code = "import wiretape; print(hasattr(wiretape, 'close_tape')); from wiretape import *; "
    code += "print([getattr(wiretape, name) is None for name in wiretape.__all__])"
    assert "True" not in run(editable, code, tmp_path)


def test_a_tape_that_is_not_there_is_a_wiretape_error(editable: str, tmp_path: Path) -> None:
    code = """
import wiretape
try:
    wiretape.open_tape("none.db")
except wiretape.WiretapeError as error:
    print(type(error) is wiretape.NotFound, error)
"""
    assert run(editable, code, tmp_path).startswith("True no tape at ")
