"""The promises of the analysis, through the real commands on one tape.

The worked examples are replayed with exact bytes and timestamps, and measured by each tool's definitions. Two groups
differ by a fifth, two others are alike: only the real difference is found. A rule stops a build.
"""

import hashlib
import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.random import Generator

from tests.support import forked
from tests.support.frames import read
from wiretape.recorder.tape import file, journal, tables
from wiretape.recorder.tape.store import Store
from wiretape.viewer.cli import group
from wiretape.viewer.source.tape import overview, queries
from wiretape.viewer.stats import compare, summary
from wiretape.viewer.stats.tools.tools import TOOLS

ORACLES = json.loads((Path(__file__).parent.parent / "data" / "oracles.json").read_text("utf-8"))
POPULATION = ORACLES["ex5_population"]
EXAMPLES = [name for name in ORACLES if name != "ex5_population"]
MS = 1_000_000
EACH, CHUNKS, SLOWER = 240, 10, 1.2

PRINTED = {
    "vllm": {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL"},
    "vllm-0.32": {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL"},
    "sglang": {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "E2E Latency"},
    "aiperf": {
        "ttft": "Time to First Token", "ttfo": "Time to First Output Token", "ttst": "Time to Second Token",
        "icl": "Inter Chunk Latency", "request_latency": "Request Latency", "itl": "Inter Token Latency",
        "itl_per_chunk_usage": "Inter Token Latency (--per-chunk-usage)",
        "tps_user": "Output Token Throughput Per User",
    },
    "guidellm": {
        "ttft": "time_to_first_token_ms", "ttfot": "time_to_first_output_token_ms", "itl": "inter_token_latency_ms",
        "tpot": "time_per_output_token_ms", "request_latency": "request_latency",
    },
    "otel": {
        "time_to_first_chunk_s": "gen_ai.client.operation.time_to_first_chunk",
        "time_per_output_chunk_s": "gen_ai.client.operation.time_per_output_chunk",
        "operation_duration_s": "gen_ai.client.operation.duration",
    },
    "langfuse": {
        "ttft": "timeToFirstToken", "latency": "latency", "streaming": "streamingLatency",
        "tps": "outputTokensPerSecond", "output_tokens": "outputTokens",
    },
    "litellm": {
        "ttft_ms": "litellm_llm_api_time_to_first_token_metric", "latency_ms": "litellm_llm_api_latency_metric",
        "per_token_s": "gen_ai.server.time_per_output_token",
    },
    "traceloop": {
        "ttft_s": "gen_ai.server.time_to_first_token", "duration_s": "gen_ai.client.operation.duration",
        "generate_ms": "llm.chat_completions.streaming_time_to_generate",
    },
}  # fmt: skip
"""The figures of the examples, and under which name each tool prints them."""

NOT_IN_THE_ORACLES = {
    ("langfuse", "ex2_reasoning_usage_with_choices"): {
        "ttft": 200, "latency": 541, "streaming": 341, "tps": 10 / 0.341, "output_tokens": 10,
    },
    ("litellm", "ex2_reasoning_usage_with_choices"): {"ttft_ms": 200, "latency_ms": 541, "per_token_s": 0.0341},
    ("traceloop", "ex2_reasoning_usage_with_choices"): {"ttft_s": 0.2, "duration_s": 0.541, "generate_ms": 341},
}  # fmt: skip
"""Tools for which the oracles have no figures: these are worked out by hand."""

EXPECTED = {
    (tool, name): figures for name in EXAMPLES for tool, figures in ORACLES[name]["expected"]["authorities"].items()
} | NOT_IN_THE_ORACLES


def exchange(recipe: dict[str, Any], **labels: str) -> Iterator[journal.Frame]:
    """Return the frames of an exchange as a relay would send them; the id is made of the labels."""
    id = hashlib.sha256(repr(labels).encode()).hexdigest()[:16]
    body, status, start = b'{"model":"m","stream":true}', recipe.get("status", 200), 0
    yield journal.Begin(
        id=id, started_at="2026-03-01T12:00:00.000000Z", method="POST", path="/v1/chat/completions",
        upstream="https://api.example.com", headers=[], body=body, body_size=len(body),
        body_sha256=hashlib.sha256(body).hexdigest(), labels=labels,
    )  # fmt: skip
    if status is not None:
        yield journal.Head(
            id=id,
            status=status,
            headers=[(b"content-type", b"text/event-stream")],
            framing="chunked",
            connected_ns=MS,
            sent_ns=MS,
            headers_ns=2 * MS,
        )
    for seq, piece in enumerate(recipe["reads"]):
        data, at = piece["text"].encode(), round(piece["t_ms"] * MS)
        yield read(id, seq, at, at, data)
        start += len(data)
    end = round((recipe.get("t_eof") or recipe.get("t_eof_ms") or recipe["reads"][-1]["t_ms"] + 1) * MS)
    ended_by = recipe.get("end") or ("end" if status else "refused")
    yield journal.End(id=id, ended_by=ended_by, end_ns=end, connected_ns=MS, sent_ns=MS, bytes=start)


def oracles() -> Iterator[journal.Frame]:
    for name in EXAMPLES:
        yield from exchange(ORACLES[name]["input"], example=name)
    for row in POPULATION["input"]:
        yield from exchange(row, example="ex5_population", row=row["id"])


def answer_of(**choice: Any) -> str:
    payload = {"object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, **choice}]}
    return f"data: {json.dumps(payload)}\n\n"


TEXTS = [answer_of(delta={"content": f"{at} "}) for at in range(CHUNKS)]
TEXTS.append(answer_of(delta={}, finish_reason="stop") + "data: [DONE]\n\n")


def answers(random: Generator, run: str, factor: float) -> Iterator[journal.Frame]:
    """Return a group of exchanges whose first tokens and gaps are drawn at random; `factor` makes them slower.

    As with a real service an exchange has a pace of its own, and a few break off.
    """
    for number in range(EACH):
        first_ms = random.lognormal(6, 0.25)
        gaps = random.lognormal(3, 0.3, CHUNKS) * random.lognormal(0, 0.15)
        instants = factor * np.cumsum([first_ms, *gaps])
        kept_chunks = CHUNKS // 2 if random.random() < 0.03 else None
        reads = [{"t_ms": at, "text": text} for at, text in zip(instants.tolist(), TEXTS, strict=True)]
        yield from exchange(
            {"reads": reads[:kept_chunks], "end": "eof" if kept_chunks else "end"}, run=run, number=str(number)
        )


def frames() -> Iterator[journal.Frame]:
    yield from oracles()
    for seed, run in enumerate(("base", "same", "new")):
        yield from answers(np.random.default_rng(seed), run, SLOWER if run == "new" else 1.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("analysis") / "tape.db"
    session = journal.Session("u", "0", 1, None, "http://127.0.0.1:1", [], "2026-03-01T12:00:00.000000Z")
    with file.writing(path, "a test") as connection:
        connection.connection.execute("PRAGMA synchronous=OFF")  # no power fails here
        store = Store(connection)
        store.begin_session(session)
        store.settle(store.append(list(frames())))
    return path


def run(tape: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(group, [*arguments, "--db", str(tape)])
    assert result.exit_code == code, result.output
    return result


def measured_as(tape: Path, tool: str, filter_text: str) -> tuple[dict[str, Any], str]:
    """Return the output of `stats --as` for machines, by metric, and its remarks."""
    result = run(tape, "stats", "--as", tool, "-f", filter_text, "--format", "json")
    return {row["metric"]: row for row in json.loads(result.stdout)}, result.stderr


def near(value: float) -> Any:
    """Expect a figure to as many digits as the oracles have."""
    return pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize(("tool", "name"), EXPECTED)
def test_an_example_measured_like_a_tool_agrees(recorded: Path, tool: str, name: str) -> None:
    expected = dict(EXPECTED[tool, name])
    rows, beside = measured_as(recorded, tool, f"label:example={name}")
    failed = expected.pop("failed", None)
    assert f"{tool}: {1 if failed else 0} of 1 failed" in beside
    assert (f"failed there: {failed} × 1" in beside) == bool(failed)
    expected_values = {PRINTED[tool][key]: value for key, value in expected.items() if key in PRINTED[tool]}
    assert expected_values or failed
    for metric, value in expected_values.items():
        if metric in rows:
            check_row(rows[metric], value)
        else:
            assert value is None
            assert f"omitted: {metric}" in beside
    if failed:
        assert {row["n"] for row in rows.values()} == {0}


def check_row(row: dict[str, Any], expected: float | list[float] | None) -> None:
    """Compare a row over one exchange with its value, or all its values."""
    values = expected if isinstance(expected, list) else [] if expected is None else [expected]
    in_unit = {"s": 1000.0}.get(row["unit"], 1.0) if not row["metric"].startswith("gen_ai.") else 1.0
    expected_values = [value / in_unit for value in values]
    if not expected_values:
        assert (row["n"], row["mean"]) == (0, None)
        return
    assert (row["mean"], row["min"], row["max"]) == (
        near(sum(expected_values) / len(expected_values)),
        near(min(expected_values)),
        near(max(expected_values)),
    )
    # guidellm weighs: there n counts tokens.
    assert row["n"] == len(expected_values) or row["metric"] in ("inter_token_latency_ms", "time_per_output_token_ms")


def test_all_tools_are_shown() -> None:
    assert {tool for tool, _ in EXPECTED} == {*TOOLS} == set(PRINTED)
    assert len(TOOLS) == 9


@pytest.mark.parametrize(
    ("tool", "failed"),
    [("vllm", 3), ("sglang", 3), ("guidellm", 4), ("aiperf", 2), ("otel", 6)],
)  # fmt: skip
def test_tools_report_the_populations_failure_rate(recorded: Path, tool: str, failed: int) -> None:
    _, beside = measured_as(recorded, tool, "label:example=ex5_population")
    assert f"{tool}: {failed} of 11 failed ({100 * failed / 11:.2f} %)" in beside
    assert "left out: the client left × 1" in beside


@pytest.mark.parametrize(
    ("tool", "suffix"),
    [("aiperf", ""), ("guidellm", "_inverse_cdf")],
)
def test_the_population_has_the_percentiles_of_each_way(recorded: Path, tool: str, suffix: str) -> None:
    expected = POPULATION["ttft_complete"]
    row = measured_as(recorded, tool, "label:example=ex5_population outcome:complete")[0][PRINTED[tool]["ttft"]]
    assert (row["n"], row["mean"]) == (5, near(expected["mean"]))
    assert row["std"] == near(expected["std_pop"])
    for percent in (50, 90, 95, 99):
        assert row[f"p{percent}"] == near(expected[f"p{percent}{suffix}"])


def test_our_own_figures_are_those_of_the_oracles_too(recorded: Path) -> None:
    (row,) = json.loads(run(recorded, "stats", "-f", "label:example=ex5_population", "--format", "json").stdout)
    for rate in ("error_rate_pct", "error_rate_all_pct", "stream_error_rate_pct", "cancel_rate_pct"):
        assert row[rate] == near(POPULATION[rate])
    expected = POPULATION["ttft_complete"]
    assert (row["ttft_mean_ms"], row["ttft_std_ms"]) == (near(expected["mean"]), near(expected["std_pop"]))
    for percent in (50, 90, 95, 99):
        assert row[f"ttft_p{percent}_ms"] == near(expected[f"p{percent}"])


def compared(tape: Path, base: str, new: str, code: int) -> dict[str, dict[str, Any]]:
    groups = ("--base", f"label:run={base}", "--new", f"label:run={new}")
    result = run(tape, "compare", *groups, "-e", "--format", "json", code=code)
    return {row["metric"]: row for row in json.loads(result.stdout)}


def test_a_regression_of_a_fifth_is_found_and_named(recorded: Path) -> None:
    rows = compared(recorded, "base", "new", code=3)
    worse = {name for name, row in rows.items() if row["verdict"] == compare.WORSE}
    assert {"ttft_p50_ms", "icl_p50_p50_ms", "latency_p50_ms"} <= worse
    assert not {name for name, row in rows.items() if row["verdict"] == compare.BETTER}
    assert rows["error_rate_pct"]["verdict"] == compare.UNCLEAR
    for name in ("ttft_p50_ms", "icl_p50_p50_ms"):
        assert 12 < rows[name]["change_pct"] < 28
        assert 0 < rows[name]["low"] < 0.2 * rows[name]["base"] < rows[name]["high"]


def test_the_other_way_round_it_is_an_improvement(recorded: Path) -> None:
    rows = compared(recorded, "new", "base", code=0)
    assert rows["ttft_p50_ms"]["verdict"] == compare.BETTER
    assert not {name for name, row in rows.items() if row["verdict"] == compare.WORSE}


def test_nothing_is_found_where_nothing_is(recorded: Path) -> None:
    rows = compared(recorded, "base", "same", code=0)
    assert {row["verdict"] for row in rows.values()} == {compare.UNCLEAR, compare.TOO_FEW}
    judged = [row for row in rows.values() if row["verdict"] == compare.UNCLEAR]
    assert len(judged) >= 14
    assert all(row["low"] <= 0 <= row["high"] for row in judged)


def test_many_halves_of_the_same_few_seem_different(recorded: Path) -> None:
    """All intervals of a comparison hold together with 95 %: of 20 comparisons of equals, 1 may find a difference."""
    with queries.opened(recorded) as connection:
        filter_ = tables.exchanges.c.labels["run"].in_(("base", "same"))
        (pooled,) = overview.samples(connection, where=filter_, gaps=False)
    alarms = 0
    for seed in range(20):
        half, other = np.array_split(np.random.default_rng(seed).permutation(pooled.size), 2)
        rows = compare.groups(part_of(pooled, half), part_of(pooled, other), seed)
        alarms += any(row["verdict"] in (compare.WORSE, compare.BETTER) for row in rows)
    assert alarms <= 3


def part_of(sample: summary.Sample, places: Any) -> summary.Sample:
    columns = {name: values[places] for name, values in sample.columns.items()}
    complete_values = sample.complete[places]
    counts = Counter({"complete": int(complete_values.sum()), "truncated": int((~complete_values).sum())})
    return summary.Sample((), counts, counts, complete_values, complete_values, complete_values, columns, sample.gaps)


def build(tape: Path, *rules: str) -> subprocess.CompletedProcess[str]:
    """Run a build of two steps: the check, and what only comes after it."""
    wiretape = shlex.join([sys.executable, "-m", "wiretape.viewer.cli", "check", "--db", str(tape), *rules])
    return subprocess.run(["sh", "-ec", f"{wiretape} && echo shipped"], capture_output=True, text=True, check=False)


def test_a_build_is_stopped_by_a_rule_that_fails(recorded: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    rules = ("--max", "ttft.p95=500ms", "--min", "n=100", "--junit", str(report), "-f", "label:run=new")
    result = build(recorded, *rules)
    assert result.returncode == 3
    assert "shipped" not in result.stdout
    assert "fails" in result.stdout
    suite = ElementTree.fromstring(report.read_bytes()).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failure,) = suite.iter("failure")
    assert (failure.get("message") or "").startswith("fails: ")


def test_a_build_goes_on_when_every_rule_holds(recorded: Path) -> None:
    rules = ("--max", "ttft.p95=5s", "--max", "error_rate=20%", "-f", "label:run=base")
    result = forked.run(["check", "--db", recorded, *rules])
    assert (result.returncode, result.stderr) == (0, "")


def test_a_build_with_nothing_to_judge_is_stopped_too(recorded: Path) -> None:
    result = forked.run(["check", "--db", recorded, "--max", "ttft.p95=5s", "-f", "label:run=none"])
    assert result.returncode == 4
    assert "nothing to judge" in result.stdout
