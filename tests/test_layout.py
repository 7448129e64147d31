"""Every module says what it holds, only the tape's folders query it, and tests know no private names of ours."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.cases import each_case

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
PACKAGES = ("recorder", "viewer")
TOP = {"pyproject.toml", "recorder", "viewer", "migrations", "tests", "README.md", "LICENSE", "CHANGELOG.md"}
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
DOCUMENTED_ELSEWHERE = {
    "recorder/relay/server.py",
    "recorder/relay/upstream.py",
    "viewer/source/querying.py",
    "viewer/source/tape_source.py",
    "viewer/wings/clickhouse/source.py",
}
"""Modules whose methods answer to asyncio, httptools, or `viewer/source/base.py`, which explain them."""
MODULES.append(ROOT / ".package" / "wiretape" / "__init__.py")


def test_nothing_else_is_at_the_top() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split()
    top = {name.split("/")[0] for name in listed}
    assert {name for name in top if not name.startswith(".")} <= TOP


def public_functions(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods that other modules may call; overloads are explained by their function."""
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public_functions(child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            yield child


def test_long_public_functions_have_a_docstring() -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in MODULES
        if str(path.relative_to(ROOT)) not in DOCUMENTED_ELSEWHERE
        for function in public_functions(ast.parse(path.read_text("utf-8")))
        if function.body[-1].end_lineno - function.body[0].lineno >= 5 and not ast.get_docstring(function)  # type: ignore[operator]
    ]
    assert bare == []


def test_no_field_is_named_like_its_classs_type() -> None:
    """From Python 3.14 on, annotations are evaluated after the class: the name is the field's default then."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
                types = {name.id for line in fields for name in ast.walk(line.annotation) if isinstance(name, ast.Name)}
                named = {ast.unparse(line.target) for line in fields}
                named |= {line.name for line in node.body if isinstance(line, ast.FunctionDef)}
                assert types & named == set(), (path, node.name)


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the names that a class declares, and those that its methods set on `self`."""
    stored = (
        child for child in ast.walk(node) if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store)
    )
    declared = {
        line.target.id for line in node.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }
    return declared | {child.attr for child in stored if isinstance(child.value, ast.Name) and child.value.id == "self"}


def test_only_a_viewers_records_have_over_twenty_attributes() -> None:
    large = [
        f"{path.relative_to(ROOT)} {node.name}"
        for path in MODULES
        if path.is_relative_to(ROOT / "viewer")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and len(attributes(node)) > 20
        if not any("dataclass" in ast.unparse(line) for line in node.decorator_list)
        if "NamedTuple" not in map(ast.unparse, node.bases)
    ]
    assert large == []


@each_case("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_folders_of_the_tape_hold_queries(path: Path) -> None:
    if path.parent.name in ("source", "tape", "clickhouse"):
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlalchemy"):
            assert not {name.name for name in node.names} & {"select", "text"}
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert "SELECT " not in node.value


def test_tests_and_code_have_folders_of_equal_names() -> None:
    folders = {path.parent.relative_to(TESTS) for package in PACKAGES for path in (TESTS / package).rglob("test_*.py")}
    assert {str(folder) for folder in folders if not (ROOT / folder).is_dir()} == set()


def test_helpers_of_tests_are_in_one_folder() -> None:
    modules = [path for package in PACKAGES for path in (TESTS / package).rglob("*.py")] + list(TESTS.glob("*.py"))
    assert [path for path in modules if not path.name.startswith("test_") and path.name != "conftest.py"] == []


def test_every_import_names_the_package_as_it_is_installed() -> None:
    beside = re.compile(r"^ *(?:from|import) (?:recorder|viewer)\b", re.M)
    modules = [*MODULES, *(ROOT / "migrations").rglob("*.py"), *TESTS.rglob("*.py")]
    assert [path for path in modules if beside.search(path.read_text("utf-8"))] == []


def test_no_test_replaces_or_imports_a_private_name() -> None:
    """Ruff's SLF001 finds the attributes; this, what it does not see: names in strings and imports."""
    private = re.compile(r"""setattr\([^)\n]*"_[a-z]|"wiretape\.[\w.]*\._[a-z]|^ *from wiretape\b.* _[a-z]""", re.M)
    for path in TESTS.rglob("*.py"):
        assert private.findall(path.read_text("utf-8")) == [], path


def test_one_module_looks_at_paths() -> None:
    """Those of `pathlib` raise where the system refuses a look; the functions of `recorder/paths.py` do not."""
    raising = re.compile(r"(?<!\bpaths)\.(?:exists|is_file|is_dir|is_symlink|resolve|absolute|cwd|home)\(")
    found = {path.name for path in MODULES if raising.search(path.read_text("utf-8"))}
    assert found == {"paths.py"}
