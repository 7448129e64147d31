"""Input tokens are the total, those of a cache included, for every API and in every output."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import shapes
from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.decoding import derived
from tests.support.sample_tape import begin, end, recorded, response
from wiretape.recorder.commands.metrics import Setup
from wiretape.recorder.tape.journal import Frame
from wiretape.viewer import config
from wiretape.viewer.source.tape import queries, session
from wiretape.viewer.wings.otlp import attributes, spans
from wiretape.viewer.wings.prometheus.serve import Exposition

ID = "00000000000000a1"
REPORTED = {"input_tokens": 12, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 1000}
SPLIT = {"cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 0}}
TOTAL = {
    "input_tokens": 10_012,
    "input_uncached_tokens": 12,
    "cache_read_input_tokens": 9000,
    "cache_write_input_tokens": 1000,
}


def stream() -> bytes:
    """Return an answer of Anthropic's API with 12 new tokens, 9,000 read from the cache and 1,000 written to it."""
    start = {"id": "m", "model": "claude", "content": [], "usage": REPORTED | SPLIT | {"output_tokens": 1}}
    events = (
        {"type": "message_start", "message": start},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi there, all of you"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)


@pytest.fixture
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / config.LOCAL_FILE).write_text(shapes.PRICES)
    parts = [(100, stream())]
    body = json.dumps({"model": "claude", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()
    return recorded(tmp_path / "tape.db", [begin(ID, 1, body, "/v1/messages"), *response(ID, parts), end(ID, parts)])


def rows(tape: Path, *arguments: str) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = json.loads(run(tape, *arguments, "--format", "json").stdout)
    return found


def test_lists_statistics_conversations_and_exports_have_the_same_total(tape: Path) -> None:
    (listed,) = rows(tape, "ls", "--columns", "all")
    assert {name: listed[name] for name in TOTAL} == TOTAL
    assert listed["total_tokens"] == 10_017
    (counted,) = rows(tape, "stats")
    assert (counted["input_tokens"], counted["total_tokens"]) == (10_012, 10_017)
    assert counted["cache_hit_rate_pct"] == pytest.approx(100 * 9000 / 10_012)
    (conversation,) = rows(tape, "ls", "--by", "conversation")
    assert (conversation["input_tokens"], conversation["cache_read_input_tokens"]) == (10_012, 9000)
    (exported,) = rows(tape, "export")
    assert {name: exported[name] for name in TOTAL} == TOTAL


def test_usage_stays_verbatim_and_costs_use_its_counts(tape: Path) -> None:
    shown = json.loads(run(tape, "show", ID, "--format", "json").stdout)
    assert shown["usage"] == REPORTED | SPLIT | {"output_tokens": 5}
    assert shown["cost"] == pytest.approx((12 * 3 + 9000 * 0.3 + 1000 * 3.75 + 5 * 15) / 10**6)
    assert shown["cache_hit_rate"] == pytest.approx(9000 / 10_012)


def test_collectors_and_prometheus_get_the_same_total(tape: Path) -> None:
    with queries.opened(tape) as connection:
        (one,) = session.traced(connection, [1])
    origin = attributes.origin({}, {}, version="1", host="h", instance="s")
    sent = spans.span(one, origin.conventions)
    assert sent is not None
    assert {pair.key: pair.value.int_value for pair in sent.attributes if "usage" in pair.key} == {
        "gen_ai.usage.input_tokens": 10_012,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 9000,
        "gen_ai.usage.cache_creation.input_tokens": 1000,
    }
    exposition = Exposition(Setup(tape, "s", "1", frozenset()), origin.conventions)
    exposition.figures.add(one.counted)
    (summed,) = (
        line for line in exposition.text().decode().splitlines() if "token_usage_sum" in line and '"input"' in line
    )
    assert float(summed.rpartition(" ")[2]) == 10_012


def test_the_name_of_anthropics_api_selects_and_filters(tape: Path) -> None:
    name = "cache_creation_input_tokens"
    (found,) = rows(tape, "ls", "-f", f"{name}>999", "--columns", f"id,{name}")
    assert found == {"id": ID, "cache_write_input_tokens": 1000}
    assert rows(tape, "export", "-f", f"{name}>999", "--columns", f"id,{name}") == [found]


def chat(prompt: int, details: dict[str, int]) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": details}
    choices = [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]
    return json.dumps({"choices": choices, "usage": usage}).encode()


@each_case(
    ("details", "uncached"),
    [
        ({}, 1000),
        ({"cached_tokens": 600}, 400),
        ({"cached_tokens": 600, "cache_write_tokens": 300}, 100),
        ({"cached_tokens": 900, "cache_write_tokens": 200}, None),
    ],
)
def test_uncached_tokens_are_the_reported_totals_remainder(details: dict[str, int], uncached: int | None) -> None:
    found = derived(chat(1000, details), content_type="application/json")
    assert (found.input_tokens, found.input_uncached_tokens) == (1000, uncached)


@each_case("name", shapes.SHAPES)
def test_the_total_sums_the_parts_of_usual_usage(name: str) -> None:
    shape = shapes.SHAPES[name]
    found = derived(shape.body, content_type=shape.type, path=shape.path)
    cached = (found.cache_read_input_tokens or 0) + (found.cache_write_input_tokens or 0)
    assert found.input_tokens is not None
    assert found.input_uncached_tokens == found.input_tokens - cached


RATES = (
    (1000, {"cached_tokens": 600}, 0.6),
    (1000, {"cached_tokens": 0}, 0.0),
    (1000, {}, None),
    (0, {"cached_tokens": 0}, None),
    (5, {"cached_tokens": 6}, None),
)


def test_the_cache_hit_rate_covers_all_request_tokens(tmp_path: Path) -> None:
    frames: list[Frame] = []
    for number, (prompt, details, _) in enumerate(RATES):
        id, parts = f"{number:016x}", [(100, chat(prompt, details))]
        frames += [begin(id, number, b"{}"), *response(id, parts, type="application/json"), end(id, parts)]
    made = recorded(tmp_path / "tape.db", frames)
    listed = rows(made, "ls", "--columns", "id,cache_hit_rate")
    assert {int(row["id"], 16): row["cache_hit_rate"] for row in listed} == {
        number: rate for number, (_, _, rate) in enumerate(RATES)
    }
    (counted,) = rows(made, "stats")
    assert (counted["cache_hit_rate_n"], counted["cache_hit_rate_pct"]) == (2, 30.0)
