"""Completion in shells, by click's scripts."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.commands import run
from tests.support.sample_tape import COMPLETE, TOOLS

SHELLS = ("bash", "zsh", "fish")


def completions(tape: Path, shell: str, **words: str) -> list[str]:
    done = forked.run([], WIRETAPE_DB=str(tape), _WIRETAPE_COMPLETE=f"{shell}_complete", **words)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_that_its_shell_takes(tape: Path, shell: str) -> None:
    script = run(tape, "completion", shell).stdout
    assert "_WIRETAPE_COMPLETE" in script
    if program := shutil.which(shell):
        done = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_a_usage_error(tape: Path) -> None:
    assert "'bash', 'zsh', 'fish'" in run(tape, "completion", "csh", code=2).stderr


def test_zsh_gets_type_word_and_help_of_each_candidate(tape: Path) -> None:
    lines = completions(tape, "zsh", COMP_WORDS="wiretape show aaaa", COMP_CWORD="2")
    assert lines == [
        "plain",
        TOOLS,
        "12:00 gpt-x-mini 3.1 s no_usage stall",
        "plain",
        COMPLETE,
        "12:00 gpt-x-mini 0.2 s comments",
    ]
    assert completions(tape, "zsh", COMP_WORDS="wiretape ls -f has", COMP_CWORD="3") == ["plain", "has\\:", "has"]


def test_fish_gets_words_only(tape: Path) -> None:
    words = {"COMP_WORDS": "wiretape ls -f has", "COMP_CWORD": "has"}
    assert completions(tape, "fish", **words) == ["plain,has:\thas"]


def test_bash_gets_words_only(tape: Path) -> None:
    assert completions(tape, "bash", COMP_WORDS="wiretape show aaaa", COMP_CWORD="2") == [
        f"plain,{TOOLS}",
        f"plain,{COMPLETE}",
    ]
    assert completions(tape, "bash", COMP_WORDS="wiretape ls --label ", COMP_CWORD="3") == ["plain,k=", "plain,run="]
