"""The tiers of tests: what is marked slow, what runs by itself, and that the table of slow tests is true."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import tiers

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "tests" / "slow.txt"
QUICK_S = 150
"""Most CPU of the quick tier: two cores have 240 s in 120 s, and finding the tests takes a part of them."""
ALL_S = 1000
"""Most CPU of both tiers; beside other work on the machine, a test takes up to half as much again."""
TESTS = """\
import os, subprocess, sys, time

import pytest


def burn(until=time.process_time):
    begun = until()
    while until() - begun < {much}:
        pass


@pytest.fixture(scope="session")
def shared():
    burn()


def test_quick(shared):
    pass


@pytest.mark.parametrize("number", [1, 2])
def test_slow(number):
    burn()


def test_slow_by_its_program():
    code = "import time\\nwhile time.process_time() < {much}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the same tiers, but with lower limits."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "pytest.ini").write_text(
        f'[pytest]\naddopts = -m "{tiers.QUICK}" -p no:cacheprovider\ntestpaths = checks\n'
    )
    (tmp_path / "checks" / "conftest.py").write_text(
        "from tests.support import tiers\ntiers.LIMIT_S, tiers.UNLISTED_S = 0.1, 0.15\n"
        "pytest_addoption, pytest_configure = tiers.add_options, tiers.configure\n"
    )
    (tmp_path / "checks" / "test_some.py").write_text(TESTS.format(much=0.2))
    return tmp_path


def ran(project: Path, *arguments: str) -> tuple[list[str], str]:
    """Return the tests that pytest ran, and its output."""
    command = [sys.executable, "-m", "pytest", "-v", "--import-mode=importlib", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, env=environment, check=False)
    return sorted(set(re.findall(r"::(\S+) PASSED", done.stdout))), done.stdout


def test_an_expensive_test_fails_until_it_is_listed(project: Path) -> None:
    everything = ["test_quick", "test_slow[1]", "test_slow[2]", "test_slow_by_its_program"]
    tests, shown = ran(project)
    assert tests == everything
    assert (shown.count("ERROR at teardown of"), "4 passed, 3 errors" in shown) == (3, True), shown
    tests, shown = ran(project, "-m", tiers.ALL, "--renew-tiers")
    assert (tests, "4 passed in" in shown) == (everything, True), shown
    _, slow = tiers.read(project / "checks" / "slow.txt")
    assert [*slow] == [f"test_some.py::{test}" for test in ("test_slow", "test_slow_by_its_program")]
    assert ran(project)[0] == ["test_quick"]
    assert ran(project, "checks/test_some.py")[0] == everything


def test_only_a_remeasured_quick_test_leaves_the_table(project: Path) -> None:
    table = project / "checks" / "slow.txt"
    table.write_text("# The quick tier took 9 s.\n1.00 a.py::test\n1.00 test_some.py::test_quick\n")
    ran(project, "--renew-tiers", "checks/test_some.py::test_quick")
    assert tiers.read(table) == (9.0, {"a.py::test": 1.0})


def functions(module: ast.AST, prefix: str = "") -> set[str]:
    """Return the names of the functions of a module and of its classes."""
    found = set[str]()
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.ClassDef):
            found |= functions(node, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(prefix + node.name)
    return found


def test_each_slow_test_exists_and_exceeds_the_limit() -> None:
    _, slow = tiers.read(TABLE)
    names = {module for module, _, _ in (test.partition("::") for test in slow)}
    modules = [path for path in TABLE.parent.rglob("test_*.py") if path.name in names]
    tests = {f"{path.name}::{test}" for path in modules for test in functions(ast.parse(path.read_text("utf-8")))}
    assert slow
    assert slow.keys() - tests == set(), "to be removed from tests/slow.txt"
    assert [test for test, took_s in slow.items() if took_s < tiers.LIMIT_S] == []


def test_the_tiers_fit_two_cores_in_their_time() -> None:
    quick_s, slow = tiers.read(TABLE)
    assert 0 < quick_s <= QUICK_S
    assert quick_s + sum(slow.values()) <= ALL_S
