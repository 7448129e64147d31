"""The options that select exchanges: one filter from all of them, and errors that name the option."""

import click
import pytest
from click.testing import CliRunner, Result

from viewer import selecting
from viewer.filtering.fields import FAILURES
from viewer.filtering.parser import parse
from viewer.filtering.syntax import And, Compare, Filter, Labelled, Match


@click.command()
@selecting.filtered
@selecting.limited
@selecting.sorted_by
def command(where: Filter | None, limit: int | None, sort: tuple[str, bool] | None) -> None:
    click.echo(f"{where}|{limit}|{sort}")


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == code, result.output
    return result


def test_nothing_asked_for_is_everything() -> None:
    assert run().output == "None|None|None\n"
    assert selecting.condition(None) is None
    assert selecting.condition(parse("ttft>1s")) is not None


def test_all_that_is_asked_for_must_fit() -> None:
    said = run("-f", "a or b", "--filter", "is:ok", "--label", "run=a*", "--label", "x", "-n", "0", "-s", "-gap.max")
    assert said.output == "(a or b) outcome:complete label:run=a* label:x|0|('max_stall_ms', True)\n"


def test_the_short_options_are_terms() -> None:
    assert selecting.read(models=["gpt-*", "a, b"]) == Match("model", (("gpt-", ""), ("a, b",)))
    assert selecting.read(errors=True) == Match("outcome", tuple((name,) for name in FAILURES))
    assert selecting.read(labels=["run=a 7"]) == Labelled((("run", ("a 7",)),))
    since, until = "2026-03-01T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z"
    both = And((Compare("started_at", ">=", since), Compare("started_at", "<", until)))
    assert selecting.read(since="2026-03-01T00:00Z", until="2026-03-02T00:00Z") == both


def test_a_filter_that_is_all_that_is_asked_for_stays_as_it_was_typed() -> None:
    typed = "TTFT > 0.8s  is:failed or (slow)"
    assert selecting.text([typed]) == typed
    assert selecting.text(["since:-2h"]) == "since:-2h"
    assert selecting.read([selecting.text([typed])]) == selecting.read([typed])


def test_what_is_put_together_or_cannot_be_shown_is_in_its_normal_form() -> None:
    assert selecting.text() == ""
    assert selecting.text(["ttft>0.8s", "a or b"]) == "ttft>800ms (a or b)"
    assert selecting.text(["ttft>0.8s"], models=["gpt-*"]) == "ttft>800ms model:gpt-*"
    assert selecting.text(["a\nb"]) == "a b"
    with pytest.raises(click.BadParameter):
        selecting.text(["ttfx>1s"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("-f", "ttfx>1s"),
            "Invalid value for --filter: 'ttfx' (character 1): there is no such field (a text",
        ),
        (("--since", "soon"), "Invalid value for --since: expected a time, such as -2h"),
        (("--until", "-2y"), "Invalid value for --until: expected a time"),
        (("--label", "=x"), "Invalid value for --label: expected a label"),
        (("--model", "\udcff"), "Invalid value for --model: '�' (character 1): expected text"),
        (("-s", "ttfx"), "Invalid value for --sort: there is no such field: choose from ttf"),
        (("-n", "-1"), "Invalid value for '-n'"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error_that_names_the_option(arguments: tuple[str, ...], said: str) -> None:
    assert said in " ".join(run(*arguments, code=2).stderr.split())
