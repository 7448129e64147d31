"""The demo, from scripted sockets to the table."""

import json
import re
import shlex
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.forked import CLI, run
from tests.support.terminal import Terminal
from wiretape.recorder.demo.agent import MODEL
from wiretape.recorder.demo.scenes import SCENES
from wiretape.recorder.tape import checks
from wiretape.recorder.tape.file import read_engine


def wiretape(*arguments: str | Path) -> str:
    done = run(arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def by_scene(demo: tuple[Path, str]) -> dict[str, dict[str, Any]]:
    rows = json.loads(wiretape("export", "--table", "texts", "--format", "json", "--db", demo[0]))
    scenes = {row["model"].removeprefix("demo-"): row for row in rows if row["model"] != MODEL}
    assert scenes.keys() == SCENES.keys()
    return scenes


@pytest.fixture(scope="module")
def session(demo: tuple[Path, str]) -> list[dict[str, Any]]:
    """The exchanges of the demo's agent, the oldest first."""
    columns = "id,started_at,duration_ms,conversation,continues,outcome_detail,flags,input_tokens"
    columns += ",cache_read_input_tokens,cache_verdict,cache_broken_at"
    arguments = ("--format", "json", "--columns", columns, "--model", MODEL, "--db", demo[0])
    rows: list[dict[str, Any]] = json.loads(wiretape("export", *arguments))
    return rows


def test_the_demo_shows_table_metrics_and_next_steps(demo: tuple[Path, str]) -> None:
    for expected in ("complete", "truncated", "http_error", "error_event", "ttft ms ", "try next", " ls --db "):
        assert expected in demo[1]


def test_the_next_steps_start_with_the_viewer_and_work(
    demo: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lines = demo[1].partition("try next:\n")[2].splitlines()
    *steps, view_command = [shlex.split(re.split(" {2,}", line.strip())[0])[1:] for line in lines]
    assert view_command[0] == "run"
    assert [step[0] for step in steps[:3]] == ["view", "view", "ls"]
    for step in steps:
        with Terminal([*CLI, *step], columns=120, directory=tmp_path) as terminal:
            if step[0] == "view":
                terminal.wait_for("demo-agent")
                terminal.press("qq")  # out of an exchange to the list, and out of that
            assert terminal.ended() == 0, terminal.screen.lines
    assert len((tmp_path / "demo.csv").read_text().splitlines()) == len(SCENES) + 5 + 1


GOOD = ["openai", "envelope", "pretty", "shifting", "routed", "reasoning", "tool", "messages", "responses", "stall"]


@each_case("scene", GOOD)
def test_the_good_streams_are_complete(by_scene: dict[str, dict[str, Any]], scene: str) -> None:
    assert by_scene[scene]["outcome"] == "complete"


@pytest.mark.parametrize(
    ("scene", "outcome", "detail"),
    [
        ("truncated", "truncated", "eof"),
        ("limited", "http_error", "rate_limited"),
        ("failing", "error_event", "mid_stream"),
    ],
)
def test_the_broken_streams_are_kept_and_told_apart(
    by_scene: dict[str, dict[str, Any]], scene: str, outcome: str, detail: str
) -> None:
    assert (by_scene[scene]["outcome"], by_scene[scene]["outcome_detail"]) == (outcome, detail)


def test_a_stall_and_a_burst_are_flagged(by_scene: dict[str, dict[str, Any]]) -> None:
    assert "stall" in by_scene["stall"]["flags"]
    assert by_scene["stall"]["max_gap_ms"] > 2000
    assert "burst" in by_scene["burst"]["flags"]
    assert by_scene["burst"]["tpot_ms"] is None


def test_what_is_not_at_the_usual_place_is_found(by_scene: dict[str, dict[str, Any]]) -> None:
    assert by_scene["envelope"]["tool_calls"][0]["arguments"] == '{"city":"Singapore"}'
    assert by_scene["tool"]["tool_calls"][0] == {
        "index": 0,
        "id": "call_a1",
        "name": "search",
        "arguments": '{"query":"stream replay"}',
    }
    assert by_scene["reasoning"]["reasoning"].startswith("The user asks")
    assert by_scene["reasoning"]["ttfo_ms"] > by_scene["reasoning"]["ttft_ms"]
    assert by_scene["pretty"]["content"].startswith("Once upon a time")


def test_demo_texts_read_as_prose(by_scene: dict[str, dict[str, Any]]) -> None:
    texts = [row[kind] for row in by_scene.values() for kind in ("content", "reasoning") if row[kind]]
    assert len(texts) == 15
    for text in texts:
        assert re.search(r"[ ][.,;:!?]|  |^ | $", text) is None, text
    assert by_scene["stall"]["content"] == "The model begins to speak, and goes on as if nothing had happened."
    assert by_scene["responses"]["reasoning"] == "**Pauses**\n\nEach is a gap."


def test_streams_of_other_apis_are_measured_like_chat(by_scene: dict[str, dict[str, Any]]) -> None:
    messages, responses = by_scene["messages"], by_scene["responses"]
    assert [row["api"] for row in (messages, responses)] == ["anthropic.messages", "openai.responses"]
    assert messages["reasoning"].startswith("Tokyo is in Japan")
    assert messages["tool_calls"][0]["arguments"] == '{"city":"Tokyo"}'
    assert (messages["input_tokens"], messages["output_tokens"]) == (21, 46)
    assert responses["content"] == "A pause is as long as nobody speaks."
    assert (responses["finish_reason"], responses["reasoning_tokens"]) == ("completed", 24)
    assert all(row["ttfo_ms"] > row["ttft_ms"] > 100 for row in (messages, responses))
    assert not {"hidden_tokens", "no_usage"} & {*messages["flags"], *responses["flags"]}


def test_the_agents_session_has_turns_continuing_each_other(session: list[dict[str, Any]]) -> None:
    assert len({row["conversation"] for row in session}) == 1
    assert [row["outcome_detail"] for row in session] == [None, "rate_limited", None, None, None]
    assert [row["continues"] for row in session] == [None, *(row["id"] for row in session[:-1])]


def test_the_agent_waits_for_tools_and_before_retries(session: list[dict[str, Any]]) -> None:
    starts = [datetime.fromisoformat(row["started_at"]).timestamp() for row in session]
    ends = [start + row["duration_ms"] / 1000 for start, row in zip(starts, session, strict=True)]
    pauses = [next_start - end for end, next_start in zip(ends, starts[1:], strict=False)]
    assert all(pause >= least for pause, least in zip(pauses, (0.79, 0.59, 0.49, 0.09), strict=True)), pauses


def test_the_agents_stall_costs_its_next_turns_cache(session: list[dict[str, Any]]) -> None:
    assert ["stall" in row["flags"] for row in session] == [False, False, False, True, False]
    assert [row["cache_read_input_tokens"] for row in session] == [0, None, 1268, 1455, 0]
    for previous, following in pairwise(row for row in session if row["input_tokens"]):
        assert following["cache_read_input_tokens"] in (0, previous["input_tokens"] - 3)
    assert [row["cache_verdict"] for row in session] == ["first", None, "hit", "hit", "prefix_changed"]
    assert session[-1]["cache_broken_at"] == "system[1]"


def test_the_last_stall_and_last_error_are_scenes(demo: tuple[Path, str]) -> None:
    outputs = [
        wiretape("show", reference, "--format", "json", "--db", demo[0]) for reference in ("@stall", "@err", "@")
    ]
    assert [json.loads(output)["model"] for output in outputs] == ["demo-stall", "demo-failing", "demo-agent"]


def test_the_demo_leaves_a_whole_tape_and_no_key(demo: tuple[Path, str]) -> None:
    with read_engine(demo[0]).connect() as connection:
        assert list(checks.problems(connection)) == []
    for file in demo[0].parent.iterdir():
        assert b"sk-demo-this-key" not in file.read_bytes()
