"""Commands know no kinds of sources: they print the same of a list in memory as of a tape."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.memory_source import Memory, Remembered
from tests.support.sample_tape import COMPLETE, TOOLS
from wiretape.viewer.cli import group
from wiretape.viewer.source.base import Place, Selection, Unsupported
from wiretape.viewer.source.place import TapePlace


@pytest.fixture(scope="module")
def memory(tape: Path) -> Memory:
    with TapePlace(tape).opened() as source:
        return Memory([Remembered.of(source, number) for number in reversed(source.numbers(Selection()))])


def output_of(place: Place, *arguments: str) -> Result:
    """Run a command over a source, which it gets as its default."""
    return CliRunner().invoke(group, arguments, default_map={arguments[0]: {"db": place}})


COMMANDS = [
    ("ls", "-n", "3"), ("ls", "-n", "3", "--format", "table"),
    ("ls", "-s", "-stall", "--columns", "id,stall", "--format", "json"),
    ("ls", "--spark"), ("ls", "--format", "ids"),
    ("stats",), ("stats", "--by", "model", "--format", "json"),
    ("stats", "--all", "--hist", "icl", "--format", "table"),
    ("stats", "--slo", "ttft<800ms", "--include-failed", "--schema"),
    ("check", "--max", "ttft.max=1500ms"), ("compare", COMPLETE, TOOLS),
    ("show", "@"), ("show", COMPLETE, "--format", "json"),
    *(("show", TOOLS, "--part", part) for part in
      ("text", "conversation", "timing", "events", "reads", "request", "raw")),
    ("export",), ("export", "--table", "summary"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_prints_memory_and_tape_lists_alike(tape: Path, memory: Memory, arguments: tuple[str, ...]) -> None:
    expected = output_of(TapePlace(tape), *arguments)
    output = output_of(memory, *arguments)
    assert expected.exception is None
    assert output.exception is None
    assert (output.exit_code, output.stdout, output.stderr) == (expected.exit_code, expected.stdout, expected.stderr)


@pytest.mark.parametrize(
    "arguments",
    [("ls", "--by", "conversation"), ("view", "--web")],
    ids=" ".join,
)
def test_an_unsupported_request_is_refused_in_one_sentence(memory: Memory, arguments: tuple[str, ...]) -> None:
    error = output_of(memory, *arguments).exception
    assert isinstance(error, Unsupported)
    assert str(error).startswith(f"{arguments[1]}{' conversation' if 'ls' in arguments else ''}: a list in memory ")
    assert str(error).endswith(": copy to a tape with 'wiretape pull'")


def test_a_source_without_exchanges_says_so() -> None:
    assert output_of(Memory([]), "ls").stderr == "wiretape: the source holds no exchanges yet\n"


def test_a_selection_can_begin_at_a_number(tape: Path) -> None:
    with TapePlace(tape).opened() as source:
        newest_first = source.numbers()
        assert source.numbers(Selection(first=3)) == [number for number in newest_first if number >= 3]
        assert source.count(Selection(first=newest_first[0] + 1)) == 0
