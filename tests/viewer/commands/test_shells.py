"""Completion in shells; bash runs its script itself, if it is new enough."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.commands import run
from tests.support.forked import ROOT
from tests.support.sample_tape import COMPLETE, TOOLS

SHELLS = ("bash", "zsh", "fish")


def told(tape: Path, shell: str, **asked: str) -> list[str]:
    done = forked.run([], WIRETAPE_DB=str(tape), _WIRETAPE_COMPLETE=f"{shell}_complete", **asked)
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


def test_zsh_gets_three_lines_for_each_candidate(tape: Path) -> None:
    lines = told(tape, "zsh", COMP_WORDS="wiretape show aaaa", COMP_CWORD="2")
    assert lines == [
        "plain",
        TOOLS,
        "12:00 gpt-x-mini 3.1 s no_usage stall",
        "plain",
        COMPLETE,
        "12:00 gpt-x-mini 0.2 s comments",
    ]
    assert told(tape, "zsh", COMP_WORDS="wiretape ls -f has", COMP_CWORD="3") == ["open", "has:", "has"]


def test_fish_gets_words_only(tape: Path) -> None:
    asked = {"COMP_WORDS": "wiretape ls -f has", "COMP_CWORD": "has"}
    assert told(tape, "fish", **asked) == ["plain,has:\thas"]


BASH = """
source /dev/stdin <<< "$SCRIPT"
wiretape() { "$PYTHON" -m wiretape.viewer.cli "$@"; }
env() { command env "${@:1:$#-1}" "$PYTHON" -m wiretape.viewer.cli; }
compopt() { :; }
COMP_LINE=$LINE_TYPED COMP_POINT=${#LINE_TYPED}
_wiretape_completion wiretape "$WORD"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def in_bash(tape: Path, line: str, word: str) -> list[str]:
    asked = {
        "SCRIPT": run(tape, "completion", "bash").stdout, "PYTHON": sys.executable, "WIRETAPE_DB": str(tape),
        "LINE_TYPED": line, "WORD": word,
    }  # fmt: skip
    command, environment = ["bash", "--norc", "-c", BASH], os.environ | asked
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "word", "replies"),
    [
        ("wiretape ls -f model:gpt-x-", "gpt-x-", ["gpt-x-mini"]),
        ("wiretape ls -f model:", "", ["gpt-x", "gpt-x-mini"]),
        ("wiretape ls -f 'is:ok outcome:tr", "is:ok outcome:tr", ["is:ok outcome:truncated"]),
        ("wiretape ls --label=run=", "", ["a7"]),
        ("wiretape show aaaa", "aaaa", [TOOLS, COMPLETE]),
    ],
)
def test_bash_is_told_what_comes_after_its_own_idea_of_a_word(
    tape: Path, line: str, word: str, replies: list[str]
) -> None:
    assert in_bash(tape, line, word) == replies
