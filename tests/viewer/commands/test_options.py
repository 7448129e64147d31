"""The options that select exchanges: one filter from all of them, and errors that name the option."""

import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.support import forked
from tests.support.cases import each_case
from tests.support.commands import run as commanded
from wiretape.recorder.tape import file
from wiretape.viewer.commands import options
from wiretape.viewer.query.fields import FAILURES
from wiretape.viewer.query.parser import parse
from wiretape.viewer.query.syntax import And, Compare, Filter, Labelled, Match
from wiretape.viewer.source.base import Selection
from wiretape.viewer.source.querying import condition


@click.command()
@options.filtered
@options.limited
@options.sorted_by
def command(filter: Filter | None, limit: int | None, sort: tuple[str, bool] | None) -> None:
    click.echo(f"{filter}|{limit}|{sort}")


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == code, result.output
    return result


def test_nothing_asked_for_is_everything() -> None:
    assert run().output == "None|None|None\n"
    assert condition(Selection()) is None
    assert condition(Selection(parse("ttft>1s"))) is not None


def test_all_that_is_asked_for_must_fit() -> None:
    output = run("-f", "a or b", "--filter", "is:ok", "--label", "run=a*", "--label", "x", "-n", "0", "-s", "-gap.max")
    assert output.output == "(a or b) outcome:complete label:run=a* label:x|0|('max_gap_ms', True)\n"


def test_the_short_options_are_terms() -> None:
    assert options.read(models=["gpt-*", "a, b"]) == Match("model", (("gpt-", ""), ("a, b",)))
    assert options.read(errors=True) == Match("outcome", tuple((name,) for name in FAILURES))
    assert options.read(labels=["run=a 7"]) == Labelled((("run", ("a 7",)),))
    since, until = "2026-03-01T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z"
    span = And((Compare("started_at", ">=", since), Compare("started_at", "<", until)))
    assert options.read(since="2026-03-01T00:00Z", until="2026-03-02T00:00Z") == span


def test_a_filter_that_stands_alone_stays_as_typed() -> None:
    typed = "TTFT > 0.8s  is:failed or (slow)"
    assert options.text([typed]) == typed
    assert options.text(["since:-2h"]) == "since:-2h"
    assert options.read([options.text([typed])]) == options.read([typed])


def test_a_combined_or_unprintable_filter_is_normalised() -> None:
    assert options.text() == ""
    assert options.text(["ttft>0.8s", "a or b"]) == "ttft>800ms (a or b)"
    assert options.text(["ttft>0.8s"], models=["gpt-*"]) == "ttft>800ms model:gpt-*"
    assert options.text(["a\nb"]) == "a b"
    with pytest.raises(click.BadParameter):
        options.text(["ttfx>1s"])


@each_case(
    ("arguments", "message"),
    [
        (
            ("-f", "ttfx>1s"),
            "Invalid value for --filter: 'ttfx' (character 1): there is no such field: did you mean ttf",
        ),
        (("--since", "soon"), "Invalid value for --since: expected a time, such as 2h (ago)"),
        (("--until", "-2y"), "Invalid value for --until: expected a time"),
        (("--label", "=x"), "Invalid value for --label: expected a label"),
        (("--model", "\udcff"), "Invalid value for --model: '�' (character 1): expected text"),
        (("-s", "ttfx"), "Invalid value for --sort: there is no such field: did you mean ttf"),
        (("-s", "gap"), "exchanges cannot be sorted by gap"),
        (("-n", "-1"), "Invalid value for '-n'"),
    ],
)
def test_an_unreadable_option_is_a_usage_error_naming_it(arguments: tuple[str, ...], message: str) -> None:
    assert message in " ".join(run(*arguments, code=2).stderr.split())


MATCHING_NOTHING = [
    ("ls",), ("ls", "--format", "table"), ("ls", "--format", "ids"), ("ls", "--spark"), ("stats",),
    ("stats", "--by", "model"), ("stats", "--format", "table"), ("stats", "--as", "vllm"), ("stats", "--hist", "ttft"),
    ("check", "--max", "n=0"), ("export",), ("export", "--table", "reads"), ("export", "--table", "summary"),
    ("export", "--format", "har"), ("export", "--format", "trace"), ("rm",),
]  # fmt: skip
NAMING_NOTHING = [("export", "--format", "sse"), ("export", "--format", "asciicast")]
NONE_MATCH = "wiretape: 0 of 7 exchanges match\n"
NONE_THERE = "wiretape: the tape holds no exchanges yet: record some with 'wiretape record'\n"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    with file.writing(tmp_path / "empty.db", "a test"):
        return tmp_path / "empty.db"


def wiretape(tape: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(arguments, WIRETAPE_DB=str(tape))


@pytest.mark.parametrize("command", MATCHING_NOTHING, ids=" ".join)
def test_a_filter_without_matches_is_always_reported_alike(tape: Path, command: tuple[str, ...]) -> None:
    output = commanded(tape, *command, "-f", "model:none")
    assert NONE_MATCH in output.stderr
    assert "wiretape: the tape" not in output.stderr


@pytest.mark.parametrize("command", MATCHING_NOTHING, ids=" ".join)
def test_an_empty_tape_is_reported_in_the_same_words(empty: Path, command: tuple[str, ...]) -> None:
    assert NONE_THERE in commanded(empty, *command, "-f", "model:none").stderr


@pytest.mark.parametrize("command", NAMING_NOTHING, ids=" ".join)
def test_what_is_of_one_exchange_fails_without_one(tape: Path, empty: Path, command: tuple[str, ...]) -> None:
    for path, output in ((tape, NONE_MATCH), (empty, NONE_THERE)):
        done = wiretape(path, *command, "-f", "model:none")
        assert (done.returncode, done.stdout, done.stderr) == (4, "", output)


@pytest.mark.parametrize(
    "command", [("show", "@"), ("show", "zzzz"), ("compare", "@", "@-1"), ("rm", "@err"), ("export", "@")]
)
def test_an_exchange_on_an_empty_tape_is_not_found(empty: Path, command: tuple[str, ...]) -> None:
    done = wiretape(empty, *command)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"wiretape: no exchange {command[1]}: {NONE_THERE.removeprefix('wiretape: ')}"


def test_a_comparison_says_which_side_is_empty(tape: Path, empty: Path) -> None:
    done = wiretape(tape, "compare", "--base", "model:none", "--new", "status:200")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "wiretape: nothing to compare: --base: 0 of 7 exchanges match\n"
    message = wiretape(tape, "compare", "--base", "model:none", "--new", "model:no").stderr
    assert message.endswith(": --base: 0 of 7 exchanges match; --new: 0 of 7 exchanges match\n")
    assert wiretape(empty, "compare", "--base", "a", "--new", "b").stderr.endswith(
        NONE_THERE.removeprefix("wiretape: ")
    )


def test_a_time_that_is_still_to_come_is_named(tape: Path) -> None:
    output = commanded(tape, "ls", "--since", "2999-01-01").stderr
    assert output.startswith("wiretape: 0 of 7 exchanges match. `started_at>=2")
    assert output.endswith("Z` is still to come\n")
    assert "to come" not in commanded(tape, "ls", "--until", "2000-01-01").stderr


def test_hours_without_a_sign_are_ago(tape: Path) -> None:
    for arguments in (("--since", "2h"), ("-f", "since:2h"), ("-f", "started_at>=2h")):
        assert commanded(tape, "ls", *arguments).stderr == NONE_MATCH
    assert len(commanded(tape, "ls", "--until", "2h", "--format", "ids").stdout.splitlines()) == 7


def test_an_intentionally_empty_selection_is_not_mentioned(tape: Path) -> None:
    assert commanded(tape, "ls", "-n", "0").stderr == ""
    assert commanded(tape, "export", "-n", "0").stderr == ""
    assert commanded(tape, "export", "-").stderr == "wiretape: no exchange was named\n"
