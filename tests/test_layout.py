"""The layout holds: a test file for each module, and nothing unexpected at the top."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOP = {"pyproject.toml", "recorder", "viewer", "migrations", "tests", "README.md", "LICENSE", "CHANGELOG.md"}


def modules(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).glob("*.py") if path.stem != "__init__")


PACKAGES = ["recorder", "viewer", "viewer/authorities", "viewer/filtering", "viewer/model"]


@pytest.mark.parametrize("package", PACKAGES)
def test_each_module_has_a_test_file_and_each_test_file_a_module(package: str) -> None:
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / package).glob("test_*.py")}
    named = {path.stem for path in modules(package)}
    assert named - tested == set()
    assert tested - named - {"oracles"} == set()


def test_nothing_else_is_at_the_top() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split()
    top = {name.split("/")[0] for name in listed}
    assert {name for name in top if not name.startswith(".")} <= TOP


@pytest.mark.parametrize(
    "path", [path for package in PACKAGES for path in modules(package)], ids=lambda path: str(path.relative_to(ROOT))
)
def test_each_module_says_what_it_is_and_is_short(path: Path) -> None:
    source = path.read_text("utf-8")
    assert ast.get_docstring(ast.parse(source))
    assert len(source.splitlines()) <= 400
