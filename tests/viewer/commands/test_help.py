"""The command `help`: topics that say what the parser of filters does, and every command."""

from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from wiretape.viewer.cli import group
from wiretape.viewer.commands.help import EXAMPLES, TERMS
from wiretape.viewer.query import fields, operators

NONE = Path("none.db")


def test_without_a_topic_the_topics_and_the_commands_are_listed() -> None:
    words = {line.split()[0] for line in run(NONE, "help").stdout.splitlines() if line.startswith("  ")}
    assert {"filters", "fields", *group.commands} <= words


@each_case("path", [("ls",), ("db", "upgrade"), ("db",), ("help",)], ids=" ".join)
def test_help_on_a_command_is_what_its_help_option_prints(path: tuple[str, ...]) -> None:
    assert run(NONE, "help", *path).stdout == run(NONE, *path, "--help").stdout


@each_case(
    ("path", "said"),
    [
        (("filtrs",), "there is no help on 'filtrs': choose from filters, fields, "),
        (("sho",), "choose from show, "),
        (("db", "chek"), "choose from check, "),
        (("ls", "x"), "has no commands of its own"),
    ],
)
def test_an_unknown_topic_lists_those_that_there_are_the_closest_first(path: tuple[str, ...], said: str) -> None:
    assert said in " ".join(run(NONE, "help", *path, code=2).stderr.split())


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_of_the_filter_language_works(tape: Path, example: str) -> None:
    run(tape, "ls", "-f", example)
    assert example in run(NONE, "help", "filters").stdout


def test_the_language_is_explained_with_the_values_that_the_parser_takes() -> None:
    text = " ".join(run(NONE, "help", "filters").stdout.split())
    assert all(form in text for form in TERMS)
    assert all(expected in text for expected in (one.expected for one in operators.KINDS.values()))
    assert all(choice in text for choices in fields.CHOICES.values() for choice in choices)


def test_every_field_is_listed_with_its_other_names_and_its_unit() -> None:
    text = run(NONE, "help", "fields").stdout
    listed = {name for line in text.splitlines() if line.startswith("  ") for name in line.replace(",", "").split()}
    assert set(fields.NAMES) <= listed
    shown = " ".join(text.split())
    assert "ttft_ms, ttft T0 → first output chunk: content, reasoning or tool call (ms)" in shown
    assert "tps_user, tps tokens per second after the first token (tokens/s)" in shown
    assert "bytes bytes of the body as they came (bytes)" in shown


def test_what_only_filters_know_is_said_by_them() -> None:
    assert set(fields.MEANINGS) <= set(fields.FIELDS)
