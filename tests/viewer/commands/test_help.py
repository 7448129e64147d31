"""The command `help`: topics, which are Markdown files, the definitions of names, and every command."""

import re
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.commands import on_terminal, run
from wiretape.recorder.decode.exchange import FLAGS, OUTCOMES
from wiretape.recorder.decode.metrics import METRICS
from wiretape.viewer.cli import group
from wiretape.viewer.commands import topics
from wiretape.viewer.query import fields, operators
from wiretape.viewer.record.fields import field_name
from wiretape.viewer.stats.metrics import QUANTITIES, RATES

NONE = Path("none.db")
EXAMPLES = re.findall(r"^- `(.+?)`:", topics.text("filters").partition("## Examples")[2], re.MULTILINE)


def test_without_a_topic_topics_and_commands_are_listed() -> None:
    text = run(NONE, "help").stdout
    assert set(topics.names()) == set(re.findall(r"^- `([a-z-]+)`: ", text, re.MULTILINE))
    names = {line.split()[0] for line in text.splitlines() if line.startswith("  ")}
    assert {name for name, command in group.commands.items() if not command.hidden} <= names


@each_case("path", [("ls",), ("db", "upgrade"), ("db",), ("help",)], ids=" ".join)
def test_help_about_a_command_is_its_help_option(path: tuple[str, ...]) -> None:
    assert run(NONE, "help", *path).stdout == run(NONE, *path, "--help").stdout


@each_case("topic", topics.names())
def test_a_piped_topic_is_markdown_without_links_or_comments(topic: str) -> None:
    text = run(NONE, "help", topic).stdout
    assert text.startswith("# ")
    assert not re.search(r"<!--|\]\((?!https?:)|\[\[\[cog", text)


@each_case("topic", topics.names())
def test_comments_stand_above_their_command(topic: str) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", topics.text(topic), re.DOTALL)
    assert not re.search(r"^[^#\n].*  # ", "".join(blocks), re.MULTILINE)


def test_the_topic_named_like_a_command_names_its_help() -> None:
    assert {*topics.names()} & group.commands.keys() == {"timeouts"}
    assert "`wiretape timeouts --help`" in topics.text("timeouts")


def test_a_topic_on_a_terminal_is_drawn() -> None:
    output = on_terminal(NONE, "help", "filters", columns=80)
    assert "\x1b[" in output
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert " • model:gpt-*: a text with a wildcard; case is ignored" in plain
    assert "##" not in plain
    assert max(len(line) for line in plain.splitlines()) <= 80


@each_case(
    ("path", "message"),
    [
        (("filtrs",), "there is no help on 'filtrs'; did you mean filters?"),
        (("sho",), "did you mean show"),
        (("replay-server",), "there is no help on"),
        (("db", "chek"), "did you mean check?"),
        (("diff",), "did you mean compare?"),
        (("tttft",), "did you mean ttft"),
        (("nothing-of-the-kind",), "wiretape help lists all topics"),
    ],
)
def test_an_unknown_topic_gets_the_closest_ones(path: tuple[str, ...], message: str) -> None:
    assert message in " ".join(run(NONE, "help", *path, code=2).stderr.split())


@each_case("name", [*OUTCOMES, *FLAGS, *QUANTITIES, *RATES, *(field_name(name) for name in METRICS), *fields.NAMES])
def test_every_outcome_flag_metric_and_field_is_defined(name: str) -> None:
    assert topics.definitions(name)


def test_a_metrics_definition_has_unit_and_other_names() -> None:
    text = run(NONE, "help", "ttft").stdout
    assert "T0 → first output chunk: content, reasoning or tool call (ms)" in text
    assert "vllm `TTFT`" in text
    assert "litellm `litellm_llm_api_time_to_first_token_metric`" in text
    assert run(NONE, "help", "TTFT_ms").stdout == text


def test_a_rate_that_is_a_field_too_keeps_the_fields_names() -> None:
    definitions = topics.definitions("cache_hit_rate")
    assert "`cache_hit_rate_pct`" in definitions["glossary"][0]
    assert "`cache.hit`" in definitions["fields"][0]
    assert "fields" not in topics.definitions("ttft")


@each_case(("name", "words"), [("itl", "`icl`"), ("E2EL", "`latency`"), ("OPENAI_BASE_URL", "`/openai/v1` in")])
def test_the_names_of_other_tools_and_variables_have_definitions(name: str, words: str) -> None:
    assert words in run(NONE, "help", name).stdout


@each_case(
    ("word", "beginning"),
    [
        ("cache", "From wiretape help sessions:\n\n## Cache"),
        ("backup", "From wiretape help operate:\n\n## Backup"),
        ("errors", "# Outcomes and flags"),
        ("why", "# Outcomes and flags"),
        ("closing", "- `closing_ms`: "),
        ("gap", "- `gap`: the time between two reads with output · "),
        ("ttft", "- `ttft`: T0 → first output chunk"),
    ],
)
def test_a_word_gets_one_answer(word: str, beginning: str) -> None:
    text = run(NONE, "help", word).stdout
    assert text.startswith(beginning)
    assert not beginning.startswith("- ") or "\n- " not in text


def test_other_names_stand_behind_a_definition() -> None:
    assert "\n  Also `ttft_ms`, `ttft_ns`.\n  From wiretape help glossary.\n" in run(NONE, "help", "ttft").stdout
    assert "\n  See also `max_output_silence`.\n" in run(NONE, "help", "stall").stdout


def test_every_synonym_has_an_answer_and_no_definition() -> None:
    for word in topics.SYNONYMS:
        assert topics.answer(word)
        assert topics.definition(word) is None
        assert word not in topics.names()


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_of_the_filter_language_works(tape: Path, example: str) -> None:
    run(tape, "ls", "-f", example)


def test_the_filter_language_is_explained_with_valid_values() -> None:
    assert len(EXAMPLES) > 10
    text = topics.text("filters")
    assert all(expected in text for expected in (operator_kind.expected for operator_kind in operators.KINDS.values()))
    assert all(choice in text for choices in fields.CHOICES.values() for choice in choices)


def test_what_only_filters_know_is_said_by_them() -> None:
    assert set(fields.MEANINGS) <= set(fields.FIELDS)
