"""The workflows and the check action of `.github`: their settings, and their scripts as GitHub runs them, by bash."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cases import each_case
from tests.support.relay import DONE, chunk, on_loop
from wiretape.recorder import __version__
from wiretape.recorder.demo.upstream import ScriptedUpstream, answer

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github").rglob("*.yml"))
TASKS = (ROOT / ".justfile").read_text("utf-8")
WORKFLOWS = [path for path in FILES if path.parent.name == "workflows"]
ACTION = yaml.safe_load((ROOT / ".github/actions/check/action.yml").read_text("utf-8"))
HEAD = "| rule | value | unit | n | verdict | unknown |\n| --- | --- | --- | --- | --- | --- |\n"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def steps(document: dict[str, Any]) -> list[dict[str, Any]]:
    jobs = [document["runs"]] if "runs" in document else document["jobs"].values()
    return [step for job in jobs for step in job.get("steps", ())]


class Runner:
    """A runner of GitHub's: a directory for the steps of a job, and the files that they write."""

    def __init__(self, directory: Path, **inputs: str) -> None:
        self.directory, self.printed = directory, ""
        program = directory / "wiretape"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wiretape.viewer.cli "$@"\n')
        program.chmod(0o700)
        self.known = {f"inputs.{name}": inputs.get(name, "") for name in ACTION["inputs"]}
        self.known |= {"github.action_path": str(ROOT / ".github/actions/check")}
        tape = inputs.get("tape") or str(directory / "wiretape.db")
        self.known |= {"steps.install.outputs.wiretape": str(program), "steps.install.outputs.tape": tape}

    @property
    def summary(self) -> str:
        path = self.directory / "summary"
        return path.read_text("utf-8") if path.exists() else ""

    def run(self, step: dict[str, Any], **environment: str) -> int:
        given = {name: EXPRESSION.sub(lambda found: self.known[found[1]], text) for name, text in step["env"].items()}
        files = {"RUNNER_TEMP": ".", "GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
        given |= {name: str(self.directory / file) for name, file in files.items()}
        (self.directory / "script").write_text(step["run"], "utf-8")
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(self.directory / "script")]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.directory,
            env=os.environ | given | environment,
            check=False,
        )
        self.printed += done.stdout + done.stderr
        return done.returncode


def step(name: str) -> dict[str, Any]:
    return next(one for one in steps(ACTION) if one["name"] == name)


def checked(directory: Path, tape: Path, rules: str) -> tuple[int, Runner]:
    runner = Runner(directory, tape=str(tape), rules=rules)
    return runner.run(step("Check the tape")), runner


@each_case("path", FILES, ids=lambda path: path.name)
def test_no_expression_stands_in_a_script(path: Path) -> None:
    scripts = [step["run"] for step in steps(yaml.safe_load(path.read_text("utf-8"))) if "run" in step]
    assert scripts
    assert [script for script in scripts if "${{" in script] == []


@each_case("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_only_read_run_once_and_pin_their_actions(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    majors = r"actions/[a-z-]+@v\d+|pypa/gh-action-pypi-publish@release/v\d+|\./\.github/.*"
    assert [name for name in used if not re.fullmatch(majors, name)] == []
    assert all((ROOT / name / "action.yml").exists() for name in used if name.startswith("."))


def test_no_workflow_waits_for_its_callers_group() -> None:
    groups = [yaml.safe_load(path.read_text("utf-8"))["concurrency"]["group"].lower() for path in WORKFLOWS]
    assert len(set(groups)) == len(groups)
    assert not any("github.workflow" in group for group in groups)


def test_ci_runs_on_every_supported_version_of_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == supported
    assert workflow["jobs"]["test"]["steps"][-1]["run"] == ".ci/run"


def test_checks_run_isolated_and_end_with_all_tests(
    tmp_path: Path,
) -> None:
    (tmp_path / ".ci").mkdir()
    for name in (".ci/run", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/contributor").touch()
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "echo-itself").write_text('#!/bin/sh\necho "$0 $*"\n')
    names = "pip ruff mypy lint-imports mkdocs python pytest"
    copies = f'for name in {names}; do cp {programs}/echo-itself "$3/bin/$name"; done'
    (programs / "python3").write_text(f'#!/bin/sh\n[ "$2" = venv ] && mkdir -p "$3/bin" && {copies}\n')
    for program in programs.iterdir():
        program.chmod(0o700)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "CI": ""}
    command = ["bash", str(tmp_path / ".ci/run")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ".ci/.venv/bin/python -m pytest -q -m not nightly"
    assert list((tmp_path / ".venv").iterdir()) == [tmp_path / ".venv/contributor"]


def test_each_command_for_contributors_is_a_task() -> None:
    shown = (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8").split("```")[1]
    commands = [line.split("  #")[0].strip() for line in shown.splitlines()[1:]]
    tasks = [line.strip().removesuffix(" {{names}}") for line in TASKS.splitlines() if line.startswith("    ")]
    assert len(commands) == 6
    assert tasks == ["@just --list --unsorted", *commands]


def test_macos_has_no_verdict_before_it_was_green() -> None:
    macos = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]["macos"]
    assert macos["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert macos["continue-on-error"] is ("macOS: CI is written, not run" in (ROOT / "README.md").read_text("utf-8"))


def test_ci_also_tests_each_dependencys_oldest_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert [name for name in project["dependencies"] if not re.match(r"[\w.-]+>=\d", name)] == []
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    install, test = (step["run"] for step in workflow["jobs"]["oldest"]["steps"][-2:])
    assert "--resolution lowest-direct pyproject.toml" in install
    assert all((ROOT / directory).is_dir() for directory in test.split()[1:])


def test_rules_that_hold_give_a_table_in_the_summary(demo: tuple[Path, str], tmp_path: Path) -> None:
    rules = "--max ttft.p50=60s\n--min n=1 --filter 'model:demo-* -is:truncated'\n"
    code, runner = checked(tmp_path, demo[0], rules)
    assert code == 0, runner.printed
    assert runner.summary.startswith(f"### wiretape check\n\n{HEAD}| max ttft.p50=60s | ")
    assert runner.summary.count("| holds |") == 2
    assert "| min n=1 | 18 |" in runner.summary
    assert "| min n=1 | 18 |" in runner.printed


@pytest.mark.parametrize(
    ("rules", "code", "verdict"),
    [
        ("--max error_rate=1%", 3, "| fails |"),
        ("--max ttft.p50=1s --filter model:none", 4, "| nothing to judge |"),
        ("--max ttft.p50=", 2, "No verdicts: exit status 2, see the log."),
        ("", 2, "No verdicts: exit status 2, see the log."),
        ("--db none.db --format json --max n=99", 0, HEAD),
    ],
)
def test_the_action_fails_with_the_status_of_the_check(
    demo: tuple[Path, str], tmp_path: Path, rules: str, code: int, verdict: str
) -> None:
    found, runner = checked(tmp_path, demo[0], rules)
    assert found == code, runner.printed
    assert verdict in runner.summary


@pytest.mark.parametrize(
    "rules",
    ["--max n=99; touch owned", "--max n=99 $(touch owned)", "`touch owned`", "'\n\"touch owned", "&& touch owned"],
)
def test_rules_are_arguments_and_no_script(demo: tuple[Path, str], tmp_path: Path, rules: str) -> None:
    code, _ = checked(tmp_path, demo[0], rules)
    assert code != 0
    assert not (tmp_path / "owned").exists()


@on_loop
async def test_a_command_is_recorded_to_a_judged_tape(tmp_path: Path) -> None:
    import asyncio

    script = (
        "import os, urllib.request as r; r.urlopen(os.environ['OPENAI_BASE_URL'] + '/chat/completions', b'{}').read()"
    )
    runner = Runner(
        tmp_path, command=f'"{sys.executable}" -c "{script}"\necho "a $HOME" >said', rules="--min n=1 --max n=1"
    )
    async with ScriptedUpstream(lambda _: answer([(0.0, chunk("a", finish="stop")), (0.0, DONE)])) as upstream:
        url = {"OPENAI_BASE_URL": f"{upstream.url}/v1"}
        code = await asyncio.to_thread(runner.run, step("Record the command"), **url)
    assert code == 0, runner.printed
    assert (tmp_path / "said").read_text() == f"a {os.environ['HOME']}\n"
    assert runner.run(step("Check the tape")) == 0, runner.printed
    assert runner.summary.count("| holds |") == 2


def test_a_command_that_fails_fails_the_action(tmp_path: Path) -> None:
    runner = Runner(tmp_path, command="false\ntouch later", rules="--min n=1")
    assert runner.run(step("Record the command")) == 1, runner.printed
    assert not (tmp_path / "later").exists()


def test_an_action_without_work_is_refused_before_installing(tmp_path: Path) -> None:
    runner = Runner(tmp_path, rules="--max n=1")
    assert runner.run(step("Install wiretape")) == 2
    assert "::error title=wiretape check::Nothing to judge" in runner.printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script", "wiretape"]


def test_tested_builds_are_published_without_a_password() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]
    assert [
        name for name, job in jobs.items() for step in job.get("steps", ()) if "-m build" in step.get("run", "")
    ] == ["build"]
    assert jobs["publish"]["needs"] == ["test", "build"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text("utf-8")


def test_a_tested_image_is_pushed_with_its_provenance() -> None:
    image = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]["image"]
    assert image["needs"] == ["test", "build"]
    scopes = {"contents": "read", "packages": "write", "id-token": "write", "attestations": "write"}
    assert image["permissions"] == scopes
    _, build, attest = image["steps"]
    assert "--file .package/Dockerfile" in build["run"]
    assert attest["uses"].startswith("actions/attest-build-provenance@")
    assert {*attest["with"].values()} == {
        "${{ steps.image.outputs.name }}",
        "${{ steps.image.outputs.digest }}",
        True,
    }


@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), ("v99.0", 1), (__version__, 1)])
def test_only_a_tag_of_the_version_is_released(tmp_path: Path, tag: str, code: int) -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    script = next(step for step in release["jobs"]["build"]["steps"] if step.get("id") == "version")
    (tmp_path / "dist").mkdir()
    for name in ("pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in (f"wiretape-{__version__}-py3-none-any.whl", f"wiretape-{__version__}.tar.gz"):
        (tmp_path / "dist" / name).touch()
    runner = Runner(tmp_path)
    assert runner.run({"env": {}, **script}, GITHUB_REF_NAME=tag) == code, runner.printed
    if code == 0:
        notes = (tmp_path / "dist/notes.md").read_text("utf-8")
        assert notes.lstrip().startswith("### ")
        assert "\n## " not in notes
