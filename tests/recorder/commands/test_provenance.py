"""The labels of what a command was run as."""

import os
import subprocess
from pathlib import Path

import pytest

from recorder.commands import provenance

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}


def git(directory: Path, *arguments: str) -> str:
    return subprocess.check_output(("git", *arguments), cwd=directory, env=os.environ | GIT, text=True).strip()


def test_a_command_is_labelled_with_names_and_the_commit_and_whether_that_is_what_is_there(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    (work / "file").write_text("1")
    git(work, "add", "file")
    git(work, "commit", "-qm", "x")
    expected = {"argv0": "claude", "cwd": "work", "commit": git(work, "rev-parse", "--short", "HEAD")}
    assert provenance.labels("/usr/bin/claude", work) == expected
    (work / "file").write_text("2")
    assert provenance.labels("claude", work) == expected | {"commit": expected["commit"] + "-dirty"}


def test_without_a_repository_or_git_and_with_a_name_that_cannot_be_shown_a_label_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a\x1b]2;b"
    odd.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.labels("x", odd) == {"argv0": "x"}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.labels("x", tmp_path) == {"argv0": "x", "cwd": tmp_path.name}
