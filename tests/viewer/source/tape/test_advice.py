"""A tape that an older decoder measured is shown, with one line of advice."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.frames import damage
from tests.support.sample_tape import COMPLETE, TOOLS
from tests.support.screens import Watch, seen, wait_for
from wiretape.viewer.source.tape import queries
from wiretape.viewer.tui.app import ViewerApp

COMMANDS = [
    ["ls"], ["show", COMPLETE], ["show", COMPLETE, "--part", "text"], ["stats"], ["stats", "--as", "vllm"],
    ["compare", COMPLETE, TOOLS], ["check", "--max", "ttft.p50=60s"], ["export"], ["export", "--table", "chunks"],
]  # fmt: skip


@pytest.fixture
def outdated(tape: Path, tmp_path: Path) -> Path:
    """The small tape, with a first exchange that an older decoder measured."""
    copy = tmp_path / "tape.db"
    shutil.copy(tape, copy)
    damage(copy, "UPDATE measures SET decoder_version = 1 WHERE exchange_no = 1")
    return copy


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_advise_to_rebuild_on_stderr_only(tape: Path, outdated: Path, arguments: list[str]) -> None:
    now, older = run(tape, *arguments), run(outdated, *arguments)
    assert older.stdout == now.stdout
    assert older.stderr.count(queries.OUTDATED) == 1
    assert queries.OUTDATED not in now.stderr


def test_a_rebuilt_tape_needs_no_advice(outdated: Path) -> None:
    assert run(outdated, "db", "rebuild").stdout.endswith("6 exchanges derived again, 1 changed\n")
    assert run(outdated, "ls").stderr == ""


def test_the_last_measures_are_looked_at_too(tape: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tape.db"
    shutil.copy(tape, copy)
    damage(copy, "UPDATE measures SET decoder_version = 1 WHERE exchange_no = (SELECT max(exchange_no) FROM measures)")
    with queries.opened(copy) as connection:
        assert queries.advice(connection) == queries.OUTDATED


def test_the_viewer_advises_once_in_a_toast(outdated: Path) -> None:
    async def look() -> None:
        async with ViewerApp(outdated, Watch().clock).run_test(size=(120, 40), notifications=True) as pilot:
            match = await wait_for(pilot, lambda: re.search(r"an older decoder", seen(pilot.app)))
            assert match

    asyncio.run(look())
