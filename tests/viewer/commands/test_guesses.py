"""Wrong commands, options and arguments, and the suggestions for them."""

import sys
from pathlib import Path

import click
import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from wiretape.viewer.cli import group, main
from wiretape.viewer.commands import guesses

GUESSES = {
    "list": "no command 'list'; did you mean ls?",
    "replay": "no command 'replay'; did you mean play or serve?",
    "start": "no command 'start'; did you mean record or run?",
    "proxy": "no command 'proxy'; did you mean record or run?",
    "mock": "no command 'mock'; did you mean serve?",
    "diff": "no command 'diff'; did you mean compare?",
    "delete": "no command 'delete'; did you mean rm?",
    "prune": "no command 'prune'; did you mean db prune?",
    "tail": "no command 'tail'; did you mean ls --follow or view --follow?",
    "tui": "no command 'tui'; did you mean view?",
    "cat": "no command 'cat'; did you mean show?",
    "upload": "no command 'upload'; did you mean ship?",
    "metrics": "no command 'metrics'; did you mean stats or record --metrics?",
    "config": "no command 'config'; did you mean help or doctor?",
    "bugreport": "no command 'bugreport'; did you mean report?",
    "issue": "no command 'issue'; did you mean report?",
    "recrod": "no command 'recrod'; did you mean record?",
    "stat": "no command 'stat'; did you mean stats?",
    "db chek": "wiretape db: no command 'chek'; did you mean check?",
    "db ls": "wiretape db: no command 'ls'; did you mean wiretape ls?",
    "tape.db": "tape.db is a file: name a tape with --db tape.db: wiretape view --db tape.db",
    "sh -c true": "to record a program: wiretape run -- sh -c true",
    "record --port 9000": "no option --port; did you mean --listen?",
    "serve --port 9000": "no option --port; did you mean --listen?",
    "ls --port 9000": "no option --port; --listen is an option of",
    "ls --json": "no option --json; did you mean --format json?",
    "stats --csv": "no option --csv; did you mean --format csv?",
    "stats --group-by model": "no option --group-by; did you mean --by?",
    "ls --where model:x": "no option --where; did you mean --filter?",
    "ls --order-by ttft": "no option --order-by; did you mean --sort?",
    "ls --top 5": "no option --top; did you mean --limit?",
    "ls --watch": "no option --watch; did you mean --follow?",
    "ls --tape x.db": "no option --tape; did you mean --db?",
    "ls --status 429": "no option --status; did you mean --filter status:…?",
    "record --url http://x": "no option --url; did you mean --upstream?",
    "record --prometheus :9": "no option --prometheus; did you mean --metrics?",
    "rm --force": "no option --force; did you mean --yes?",
    "compare --baseline x": "no option --baseline; did you mean --base?",
    "ls --part text": "no option --part; --part is an option of",
    "ls --fromat json": "no option --fromat; did you mean --format?",
    "ls tape.db": "tape.db is a file: name a tape with --db tape.db",
    "show tape.db": "tape.db is a file: name a tape with --db tape.db",
    "ls gpt-4o": "to select exchanges: wiretape ls --filter gpt-4o, or one: wiretape show ID",
    "stats @stall": "to show one exchange: wiretape show @stall",
    "record -- python app.py": "to record a program: wiretape run -- python app.py",
}
"""Typed words, and a part of the answer to them."""


def answer(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["wiretape", *words])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("typed", GUESSES)
def test_a_wrong_guess_gets_what_was_meant(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = answer(typed.split(), monkeypatch, capsys)
    assert GUESSES[typed] in output
    assert output.count("\n") == 1
    assert output.endswith("--help)\n")  # where the full list is


def test_what_resembles_nothing_gets_no_suggestion(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = answer(["ls", "--xyzzy"], monkeypatch, capsys)
    assert output == "wiretape ls: no option --xyzzy (see wiretape ls --help)\n"


@pytest.mark.parametrize("command", ["show", "compare @", "export", "rm", "play", "report", "db cut -o x.jsonl"])
def test_an_id_without_utf8_is_a_usage_error(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is no id of an exchange" in answer([*command.split(), "caf\udce9"], monkeypatch, capsys)


def test_forty_guesses_get_at_most_three_suggestions_each() -> None:
    assert len(GUESSES) >= 40
    assert all(output.count(",") + output.count(" or ") < 3 for output in GUESSES.values())


def exists(words: str) -> bool:
    command: click.Command = group
    for word in words.split():
        if word.startswith("-"):
            return any(word in option.opts for option in command.params)
        if not isinstance(command, click.Group):
            return command.name == "help"
        if word not in command.commands:
            return False
        command = command.commands[word]
    return True


@each_case("suggested", sorted({command for many in guesses.COMMANDS.values() for command in many.split("|")}))
def test_every_command_that_may_be_suggested_exists(suggested: str) -> None:
    assert exists(suggested)


@each_case("suggested", sorted({option.split()[0] for many in guesses.OPTIONS.values() for option in many.split("|")}))
def test_every_option_that_may_be_suggested_exists(suggested: str) -> None:
    assert any(suggested in option.opts for command in group.commands.values() for option in command.params)


def test_no_guess_is_a_command_itself() -> None:
    assert not guesses.COMMANDS.keys() & group.commands.keys()


@pytest.mark.parametrize(
    ("typed", "output"),
    [("model:gpt", "`model:gpt*` matches 5"), ("model:mini", "`model:*mini*` matches"), ("is:ok model:none", "0 of")],
)
def test_an_unmatched_text_suggests_the_matching_wildcard(tape: Path, typed: str, output: str) -> None:
    assert output in run(tape, "ls", "-f", typed).stderr


@pytest.mark.parametrize("arguments", [("show", "--format", "json"), ("play", "--as", "sse", "--speed", "0")])
def test_show_and_play_take_the_newest_by_default(tape: Path, arguments: tuple[str, ...]) -> None:
    command, *remainder = arguments
    assert run(tape, *arguments).stdout == run(tape, command, "last", *remainder).stdout == run(
        tape, command, "@", *remainder
    ).stdout  # fmt: skip
