"""The labels with a command's name, directory and commit."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from wiretape.recorder.commands import run

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}


def git(directory: Path, *arguments: str) -> str:
    return subprocess.check_output(("git", *arguments), cwd=directory, env=os.environ | GIT, text=True).strip()


def repository(directory: Path) -> Path:
    """Make a repository with one commit, whose only file has changed since."""
    directory.mkdir()
    git(directory, "init", "-q")
    (directory / "file").write_text("1")
    git(directory, "add", "file")
    git(directory, "commit", "-qm", "x")
    (directory / "file").write_text("2")
    return directory


def test_a_command_keeps_its_label_despite_later_changes(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    expected = {"argv0": "claude", "cwd": "work", "commit": git(work, "rev-parse", "--short", "HEAD")}
    assert run.provenance("/usr/bin/claude", work) == expected
    (work / "below").mkdir()
    assert run.provenance("claude", work / "below") == expected | {"cwd": "below"}


def test_the_commit_of_a_worktree_is_its_own(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    git(work, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "-qm", "y", "--allow-empty")
    commit = run.provenance("x", tmp_path / "other")["commit"]
    assert commit == git(tmp_path / "other", "rev-parse", "--short", "HEAD")
    assert commit != run.provenance("x", work)["commit"]


CONFIGURED = {
    "clean filter": {"filter.f.clean": "{}; cat", "filter.f.required": "true"},
    "process filter": {"filter.f.process": "{}"},
    "fsmonitor": {"core.fsmonitor": "{}"},
    "hooks": {"core.hooksPath": "hooks"},
    "pager": {"core.pager": "{}", "pager.rev-parse": "{}", "pager.describe": "{}", "pager.diff": "{}"},
    "external diff": {"diff.external": "{}", "diff.f.command": "{}", "diff.f.textconv": "{}"},
    "ssh": {"core.sshCommand": "{}", "core.alternateRefsCommand": "{}", "core.askPass": "{}"},
    "alias": {"alias.rev-parse": "!{}", "alias.describe": "!{}", "alias.status": "!{}"},
    "partial clone": {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ext::sh -c {}",
        "protocol.ext.allow": "always",
    },
}
"""Settings of a repository that name programs, in which {} stands for one that leaves a marker."""


def configure(directory: Path, settings: dict[str, str], marker: Path) -> None:
    """Name programs in a repository's settings, its hooks and its attributes."""
    program = marker.with_name("program")
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    (directory / ".gitattributes").write_text("* filter=f diff=f\n")
    (directory / "hooks").mkdir()
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (directory / "hooks" / hook).symlink_to(program)
    for name, value in settings.items():
        git(directory, "config", name, value.format(program))


@pytest.mark.parametrize("settings", CONFIGURED.values(), ids=CONFIGURED)
@pytest.mark.parametrize("place", ["config", "include"])
def test_no_program_runs_that_a_repository_names(tmp_path: Path, settings: dict[str, str], place: str) -> None:
    work, marker = repository(tmp_path / "work"), tmp_path / "marker"
    commit = git(work, "rev-parse", "--short", "HEAD")
    configure(work, settings, marker)
    if place == "include":
        bare = work / ".git" / "named"
        (work / ".git" / "config").rename(bare)
        (work / ".git" / "config").write_text(
            f'[core]\n\trepositoryformatversion = 0\n[includeIf "gitdir:{work}/"]\n\tpath = {bare}\n'
        )
    if "extensions.partialClone" in settings:  # the commit is not there either
        shutil.rmtree(work / ".git" / "objects")
        (work / ".git" / "objects").mkdir()
    labels = run.provenance("x", work)
    assert not marker.exists()
    assert labels["commit"] == commit


def test_no_program_runs_that_a_submodule_names(tmp_path: Path) -> None:
    inner, work, marker = repository(tmp_path / "inner"), repository(tmp_path / "work"), tmp_path / "marker"
    git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(work, "commit", "-qam", "y")
    configure(work / "sub", CONFIGURED["clean filter"], marker)
    (work / "sub" / "file").write_text("3")
    labels = run.provenance("x", work)
    assert not marker.exists()
    assert labels["commit"] == git(work, "rev-parse", "--short", "HEAD")


def test_plain_bare_repositories_may_not_run_programs(tmp_path: Path) -> None:
    inner, work, marker = repository(tmp_path / "inner"), repository(tmp_path / "work"), tmp_path / "marker"
    configure(inner, CONFIGURED["clean filter"], marker)
    git(inner, "config", "core.worktree", ".")
    git(inner, "config", "core.bare", "false")
    shutil.copytree(inner / ".git", work / "below")
    for file in ("file", ".gitattributes"):
        shutil.copy(inner / file, work / "below")
    labels = run.provenance("x", work / "below")
    assert not marker.exists()
    assert labels == {"argv0": "x", "cwd": "below"}


def test_labels_without_a_repository_or_name_are_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "a\x1b]2;b"
    odd.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run.provenance("x", odd) == {"argv0": "x"}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run.provenance("x", tmp_path) == {"argv0": "x", "cwd": tmp_path.name}
