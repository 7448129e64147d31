"""What is installed: all that wiretape needs, `import wiretape`, and nothing at the top level that is not ours."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
HEAVY = "pandas numpy sqlalchemy alembic textual httpx click rich"


def built(directory: Path, version: str, source: Path = ROOT) -> Path:
    (wheel,) = WheelBuilder(str(source)).build(directory=str(directory), versions=[version])
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
    migrations = "wiretape/recorder/migrations"
    assert {f"{migrations}/env.py", f"{migrations}/versions/0001_tape.py"} <= names
    assert {"wiretape/py.typed", "wiretape/recorder/py.typed", "wiretape/viewer/py.typed"} <= names
    assert {"wiretape/__init__.py", "wiretape/recorder/tape/writer.py", "wiretape/viewer/cli.py"} <= names
    assert {"wiretape/viewer/wings/page/assets/frame.css", "wiretape/viewer/wings/page/assets/frame.js"} <= names
    assert {f"wiretape/viewer/help/{name}" for name in ("README.md", "filters.md", "glossary.md")} <= names
    assert {path.name for path in installed.iterdir()} == {"wiretape", "wiretape-0.1.0.dist-info"}


def test_a_wheel_from_the_source_archive_is_equal(installed: Path, tmp_path: Path) -> None:
    (source,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    with zipfile.ZipFile(built(tmp_path, "standard", tmp_path / "wiretape-0.1.0")) as wheel:
        names = set(wheel.namelist())
    assert names == {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}


def test_projects_with_their_own_viewer_and_recorder_work(installed: Path, tmp_path: Path) -> None:
    for name in ("viewer.py", "recorder/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("OWNER = 'the project'\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text(
        "import recorder, viewer\n"
        "def test_own(pytestconfig):\n"
        "    assert recorder.OWNER == viewer.OWNER == 'the project'\n"
        "    plugin = pytestconfig.pluginmanager.get_plugin('wiretape')\n"
        f"    assert plugin.__file__ == {str(installed / 'wiretape/viewer/wings/replay/plugin.py')!r}\n"
    )
    code = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))"  # as python -m pytest
    assert "1 passed" in run(str(installed), code, tmp_path)


def test_every_package_page_link_leads_to_a_file(installed: Path) -> None:
    metadata = (installed / "wiretape-0.1.0.dist-info/METADATA").read_text("utf-8")
    source = re.findall(r"^Project-URL: Source, https://github.com/(.*)", metadata, re.MULTILINE)
    page = metadata.partition("\n\n")[2]
    targets = re.findall(r"\]\(([^)#]*)", page)
    assert [target for target in targets if not target.startswith("https://")] == []
    files = f"https://(?:github.com/{source[0]}/blob|raw.githubusercontent.com/{source[0]})/v0.1.0/(.*)"
    paths = [match[1] for target in targets if (match := re.fullmatch(files, target))]
    assert len(paths) > 20
    assert len([path for path in paths if path.endswith((".png", ".gif"))]) == 3
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_every_text_names_the_repository_of_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    repository = project["urls"]["Source"].removeprefix("https://github.com/")
    assert all(url.startswith(project["urls"]["Source"]) for url in project["urls"].values())
    for name in (".github/actions/check/action.yml", "viewer/help/ci.md"):
        assert f"uses: {repository}/.github/actions/check@v{project['version']}" in (ROOT / name).read_text("utf-8")
    assert f"`{repository}`" in (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8")


def test_pytest_finds_the_plugin_and_no_command_needs_pytest(installed: Path) -> None:
    information = installed / "wiretape-0.1.0.dist-info"
    assert "[pytest11]\nwiretape = wiretape.viewer.wings.replay.plugin" in (information / "entry_points.txt").read_text(
        "utf-8"
    )
    needed = re.findall(r"^Requires-Dist: (.*)", (information / "METADATA").read_text("utf-8"), re.MULTILINE)
    assert [line for line in needed if line.startswith("pytest") and "extra ==" not in line] == []
    importing = [str(path) for path in installed.rglob("*.py") if "\nimport pytest" in path.read_text("utf-8")]
    assert importing == [str(installed / "wiretape/viewer/wings/replay/plugin.py")]


def test_an_installed_wiretape_can_be_imported(installed: Path, tmp_path: Path) -> None:
    code = "import wiretape; print(wiretape.__file__); print(wiretape.open_tape.__module__)"
    assert run(str(installed), code, tmp_path).splitlines() == [
        str(installed / "wiretape/__init__.py"),
        "wiretape.viewer.export.frames",
    ]


@pytest.mark.parametrize("words", [["--version"], ["help", "quickstart"], ["help", "ttft"]], ids=" ".join)
def test_an_installed_wiretape_runs_as_module_with_topics(installed: Path, tmp_path: Path, words: list[str]) -> None:
    command = [sys.executable, "-m", "wiretape", *words]
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"--version": "wiretape 0.1.0", "help": "# Quickstart" if words[-1] == "quickstart" else "`ttft`"}[
        words[0]
    ] in done.stdout


def test_an_editable_wiretape_is_the_checkouts_own(editable: str, tmp_path: Path) -> None:
    code = "import wiretape.viewer; print(wiretape.__file__); print(wiretape.viewer.__file__)"
    found = [Path(line).resolve() for line in run(editable, code, tmp_path).splitlines()]
    assert found == [ROOT / ".package/wiretape/__init__.py", ROOT / "viewer/__init__.py"]


@pytest.mark.parametrize("name", ["recorder", "viewer"])
def test_a_module_has_one_name_in_the_checkout_too(editable: str, name: str) -> None:
    code = f"""
import wiretape.{name}
try:
    import {name}
except ImportError as error:
    print(error)
"""
    message = f"{name} is a folder of wiretape's checkout: import wiretape.{name}"
    assert run(os.pathsep.join((editable, str(ROOT))), code, ROOT) == message


def test_importing_wiretape_loads_no_heavy_library(editable: str, tmp_path: Path) -> None:
    code = f"import sys, wiretape; dir(wiretape); print([name for name in {HEAVY.split()!r} if name in sys.modules])"
    assert run(editable, code, tmp_path) == "[]"


def test_all_public_names_are_there_and_no_others(editable: str, tmp_path: Path) -> None:
    code = "import wiretape; print(hasattr(wiretape, 'close_tape')); from wiretape import *; "
    code += "print([getattr(wiretape, name) is None for name in wiretape.__all__])"
    assert "True" not in run(editable, code, tmp_path)


def test_a_missing_tape_is_a_wiretape_error(editable: str, tmp_path: Path) -> None:
    code = """
import wiretape
try:
    wiretape.open_tape("none.db")
except wiretape.WiretapeError as error:
    print(type(error) is wiretape.NotFound, error)
"""
    assert run(editable, code, tmp_path).startswith("True no tape at ")


def test_without_its_extra_a_command_names_it(installed: Path, tmp_path: Path) -> None:
    absent = ("chdb", "clickhouse_connect", "urllib3", "opentelemetry")
    block = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); from wiretape.viewer.cli import main; "
    commands = {
        "ship --to chdb:x": "chdb",
        "ship --to clickhouse://127.0.0.1": "clickhouse",
        "ship --to otlp+http://127.0.0.1:1": "otlp",
        "fleet status --to chdb:x": "chdb",
        "fleet init --print --to clickhouse://127.0.0.1": "clickhouse",
        "ls --db clickhouse://127.0.0.1": "clickhouse",
    }
    each = f"for line in {[*commands]!r}:\n sys.argv[1:] = line.split()\n try: main()\n except SystemExit: print('END')"
    output = run(str(installed), f"{block}sys.stderr = sys.stdout\n{each}", tmp_path)
    for message, extra in zip(output.split("END")[:-1], commands.values(), strict=True):
        assert f"-m pip install 'wiretape[{extra}]'" in message
