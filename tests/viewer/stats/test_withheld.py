"""A pace that usage and chunks cannot both support is withheld in every command, with the reason."""

import json
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE, DONE, event

HIDDEN = "bbbb000000000001"
WORDS = [(100 + 10 * at, event({"content": word})) for at, word in enumerate(("Routed ", ", ", "then ", "done "))]
USAGE = {"prompt_tokens": 12, "completion_tokens": 84, "total_tokens": 96}


@pytest.fixture
def hiding(tmp_path: Path) -> Path:
    path = tmp_path / "tape.db"
    with recorder(path) as tape:
        tape.record(HIDDEN, [*WORDS, (140, event({}, "stop", usage=USAGE) + DONE)])
        tape.record(COMPLETE, at=1)
    return path


def test_hidden_tokens_withhold_the_pace_in_every_row(hiding: Path) -> None:
    names = ("tps_user", "tpot_ms", "tpot_adj_ms", "tokens_per_chunk")
    for command in (["show", HIDDEN, "--format", "json"], ["export", HIDDEN, "--format", "json"]):
        rows = json.loads(run(hiding, *command).stdout)
        row = rows[0] if isinstance(rows, list) else rows
        assert {row[name] for name in names if name in row} == {None}
        assert "hidden_tokens" in row["flags"]
    assert run(hiding, "ls", "-f", "tps>1", "--format", "ids").stdout.split() == [COMPLETE]


def test_page_and_statistics_say_what_is_withheld(hiding: Path) -> None:
    assert "withheld (hidden_tokens)" in run(hiding, "show", HIDDEN).stdout
    (row,) = json.loads(run(hiding, "stats", "--format", "json").stdout)
    assert (row["tps_user_n"], row["tpot_n"], row["ttft_n"]) == (1, 1, 2)
    assert "hidden_tokens:1" in row["warnings"]


def test_the_longest_gap_and_the_longest_silence_are_distinguished(hiding: Path) -> None:
    output = run(hiding, "show", HIDDEN, "--part", "facts").stdout
    assert "max gap 10.0" in output
    assert "max silence 10.0" in output
    with recorder(hiding) as tape:
        error = b'data: {"error":{"message":"gone"}}\n\n'
        tape.record("cccc000000000001", [(100, WORDS[0][1]), (140, WORDS[1][1]), (340, error)], at=2)
    (row,) = json.loads(run(hiding, "ls", "-f", "silence>150ms", "--columns", "all", "--format", "json").stdout)
    assert (row["max_gap_ms"], row["max_silence_ms"]) == (40, 200)
