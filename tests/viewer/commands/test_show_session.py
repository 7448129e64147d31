"""`show` of an agent's turns: the verdict about the cache, and the content of the request."""

import csv
import json
from pathlib import Path

import msgspec
import pytest

from tests.support.agents import IDS, body, session, turn
from tests.support.commands import run
from tests.support.sample_tape import recorded
from wiretape.recorder.tape import journal


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("agent") / "agent.db", list(session()))


def test_a_changed_prefix_is_named_and_shown(tape: Path) -> None:
    output = run(tape, "show", IDS[2], "--format", "table").stdout
    (line,) = (line for line in output.splitlines() if line.startswith("cache "))
    tokens = json.loads(run(tape, "show", IDS[2], "--format", "json").stdout)["cache_common_tokens"]
    assert line == f"cache      prefix changed at tools[1]: {tokens} of 2,100 tokens expected, 0 read"
    assert '-   "description": "dddd' in output
    assert '+   "description": "other"' in output


def test_a_hit_has_a_line_unlike_first_turns(tape: Path) -> None:
    lines = run(tape, "show", IDS[1], "--format", "table").stdout.splitlines()
    assert "cache      hit: 2,000 tokens expected, 2,000 read" in lines
    assert not any(
        line.startswith("cache") for line in run(tape, "show", IDS[0], "--format", "table").stdout.splitlines()
    )


def test_reads_beside_differences_and_remedies_are_named(tmp_path: Path) -> None:
    def attributed(id: str, at: int, count: int, cached: int) -> list[journal.Frame]:
        block = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.332; cch={at:05x};"}
        return [*turn(id, at, body(count, system=[block]), 2_000, cached)]

    tape = recorded(tmp_path / "code.db", [*attributed(IDS[0], 0, 1, 0), *attributed(IDS[1], 5, 3, 100)])
    output = run(tape, "show", IDS[1], "--format", "table").stdout
    (line,) = (line for line in output.splitlines() if line.startswith("cache "))
    assert line.startswith("cache      partial: ")
    assert line.endswith(" 100 read, prompts differ at system[0], try CLAUDE_CODE_ATTRIBUTION_HEADER=0")


def test_the_content_of_a_request_as_json_adds_up(tape: Path) -> None:
    context = json.loads(run(tape, "show", IDS[1], "--part", "context", "--format", "json").stdout)
    assert list(context) == ["bytes", "new_bytes", "parts"]
    assert context["bytes"] == len(json.dumps(body(3))) == sum(part["bytes"] for part in context["parts"])
    assert list(context["parts"][0]) == ["source", "name", "bytes", "new"]
    assert [part["name"] for part in context["parts"] if part["source"] == "tools"] == ["read_file", "bash"]
    row = json.loads(run(tape, "show", IDS[1], "--format", "json").stdout)
    columns = {name: size for name, size in row.items() if name.startswith("context_")}
    assert sum(columns.values()) == context["bytes"]
    assert columns["context_tool_results_bytes"] == context["parts"][0]["bytes"]


def test_a_pipe_gets_a_row_for_each_part(tape: Path) -> None:
    parts = list(csv.DictReader(run(tape, "show", IDS[2], "--part", "context").stdout.splitlines(), delimiter="\t"))
    assert [*parts[0]] == ["source", "name", "bytes", "new"]
    output = run(tape, "show", IDS[2], "--part", "context", "--format", "table").stdout
    assert "estimates of shares of the 2,200 input tokens" in output
    assert f"read_file  messages[2], from turn 2, {IDS[1]}" in output


def test_a_request_that_is_not_whole_has_no_content(tmp_path: Path) -> None:
    opening, *remainder = turn(IDS[0], 0, body(1), 2_000)
    broken = msgspec.structs.replace(opening, body=json.dumps(body(1)).encode()[:-5])
    tape = recorded(tmp_path / "cut.db", [broken, *remainder])
    refused = run(tape, "show", IDS[0], "--part", "context", code=1)
    assert f"the request of {IDS[0]} is not on the tape as a whole JSON object" in str(refused.exception)


def test_a_session_has_one_line_of_its_last_quotas(tmp_path: Path) -> None:
    left = iter(({"x-ratelimit-remaining-requests": "9", "anthropic-ratelimit-unified-5h-utilization": "0.29"},
                 {"x-ratelimit-remaining-requests": "8"}))  # fmt: skip
    frames = [
        msgspec.structs.replace(
            frame,
            headers=[*frame.headers, *((name.encode(), value.encode()) for name, value in next(left, {}).items())],
        )
        if isinstance(frame, journal.Head)
        else frame
        for frame in session()
    ]
    lines = run(recorded(tmp_path / "quotas.db", frames), "show", "@s", "--format", "table").stdout.splitlines()
    assert [line for line in lines if line.startswith("quota")] == ["quota      8 requests left · 5 h used to 29 %"]


def test_a_session_without_quotas_has_no_line_of_them(tape: Path) -> None:
    assert "quota" not in run(tape, "show", "@s", "--format", "table").stdout


def test_requests_that_were_paid_twice_are_summed(tape: Path) -> None:
    assert "paid twice 1 request, 2,201 tokens" in run(tape, "stats", "--format", "table").stdout
    assert "paid twice 1 request, 2,201 tokens: ls -f flag:duplicate" in run(tape, "show", "@s").stdout
    session_row = json.loads(run(tape, "show", "@s", "--format", "json").stdout)
    (row,) = json.loads(run(tape, "stats", "--format", "json").stdout)
    for name, expected in {"duplicate_n": 1, "duplicate_tokens": 2_201, "duplicate_cost": None}.items():
        assert (row[name], session_row[name]) == (expected, expected)
    flags = {id: json.loads(run(tape, "show", id, "--format", "json").stdout)["flags"] for id in (IDS[2], IDS[4])}
    assert ("duplicate" in flags[IDS[2]], "duplicate" in flags[IDS[4]]) == (False, True)
