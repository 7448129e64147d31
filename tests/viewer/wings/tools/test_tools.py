"""Every figure that the oracles hold for another tool, and the populations those tools would report."""

import json
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.tools import chunk, exchange, measure_as, words
from wiretape.viewer.stats.tools.rule import ToolMetric
from wiretape.viewer.stats.tools.summary import Observed, measure
from wiretape.viewer.stats.tools.tools import AUTHORITIES, TOOLS, authority

ORACLES = json.loads((Path(__file__).parents[3] / "data" / "oracles.json").read_text("utf-8"))
POPULATION = ORACLES["ex5_population"]
EXPECTED = [
    (example, tool)
    for example, oracle in ORACLES.items()
    if example != "ex5_population"
    for tool in oracle["expected"]["authorities"]
]


def example(name):
    return exchange(ORACLES[name]["input"]["reads"], ORACLES[name]["input"]["t_eof_ms"])


def population():
    for row in POPULATION["input"]:
        status = row.get("status", 200)
        ended_by = row.get("end") or ("end" if status else "refused")
        yield exchange(row["reads"], row.get("t_eof") or row["reads"][-1]["t_ms"] + 1, status, ended_by)


def near(figures):
    """Expect figures to as many digits as the oracles have."""
    return {key: value if value is None else pytest.approx(value, abs=5e-5) for key, value in figures.items()}


@each_case(("name", "tool"), EXPECTED)
def test_an_example_has_every_figure_of_a_tool(name, tool):
    expected = dict(ORACLES[name]["expected"]["authorities"][tool])
    seen = measure(tool, *example(name))
    assert seen.failed == expected.pop("failed", None)
    assert {key: seen.numbers.get(key, "missing") for key in expected} == near(expected)


def test_the_oracles_speak_of_every_tool_but_these():
    others = {"langfuse", "litellm", "traceloop"}
    assert {tool for _, tool in EXPECTED} == {*TOOLS} - others


@each_case(
    ("tool", "failed", "forgiven"),
    [
        ("vllm", 3, {"error_event": 2, "truncated": 1}),
        ("sglang", 3, {"error_event": 2, "truncated": 1}),
        ("guidellm", 4, {"error_event": 1, "truncated": 1}),
        ("aiperf", 2, {"error_event": 2, "truncated": 1, "malformed": 1}),
        ("otel", 6, {}),
        ("langfuse", 2, {"error_event": 2, "truncated": 1, "malformed": 1}),
        ("litellm", 5, {"error_event": 1}),
        ("traceloop", 4, {"error_event": 1, "truncated": 1}),
    ],
)
def test_the_population_fails_as_often_as_a_tool_says(tool, failed, forgiven):
    report = measure_as(tool, population())
    assert (report.attempts, report.failed, report.left_out) == (11, failed, {"the client left": 1})
    assert report.error_rate == pytest.approx(100 * failed / 11)
    assert (report.forgiven, report.refused, sum(report.failures.values())) == (forgiven, 0, failed)


def complete():
    return (recorded for recorded in population() if recorded[2].outcome == "complete")


@each_case(
    ("tool", "suffix"),
    [("aiperf", ""), ("guidellm", "_inverse_cdf")],
)
def test_complete_exchanges_have_the_statistics_of_a_tool(tool, suffix):
    expected = POPULATION["ttft_complete"]
    row = measure_as(tool, complete()).rows[0]
    assert (row.n, row.mean) == (5, pytest.approx(expected["mean"]))
    assert row.std == pytest.approx(expected["std_pop"], abs=5e-5)
    for percent in (50, 90, 95, 99):
        assert getattr(row, f"p{percent}") == pytest.approx(expected[f"p{percent}{suffix}"])


@pytest.mark.parametrize(
    ("tool", "first_ms", "gaps", "gap_ms"),
    [("vllm", 169, 5, 20), ("vllm-0.32", 159, 15, 31 / 3)],
)
def test_vllm_before_033_counts_role_chunks_and_pools_gaps(tool, first_ms, gaps, gap_ms):
    report = measure_as(tool, complete())
    rows = {row.metric: row for row in report.rows}
    assert (rows["TTFT"].n, rows["TTFT"].mean) == (5, pytest.approx(first_ms))
    assert (rows["ITL"].n, rows["ITL"].mean) == (gaps, pytest.approx(gap_ms))
    assert "TPOT" not in rows
    assert report.omitted["TPOT"] == 5


def test_guidellm_weighs_exchanges_by_their_tokens():
    pair = [example("ex1_plain"), example("ex6_continuous_usage_multi_token")]
    rows = {row.metric: row for row in measure_as("guidellm", pair).rows}
    itl, tpot = rows["inter_token_latency_ms"], rows["time_per_output_token_ms"]
    assert (itl.n, itl.mean) == (15, pytest.approx((80 + 200) / 15))
    assert (tpot.n, tpot.mean) == (17, pytest.approx((180 + 300) / 17))


def test_a_weight_omits_tokens_and_unknown_counts_0():
    metric = ToolMetric("itl", "ITL", weight="output_tokens", weight_less=1)
    assert [metric.weight_of({"output_tokens": count}) for count in (12, 1, None)] == [11, 0, 0]
    assert ToolMetric("ttft", "TTFT").weight_of({"output_tokens": 12}) is None


def test_opentelemetry_has_durations_and_first_chunks_of_failed_operations():
    report = measure_as("otel", population())
    counts = {row.metric.removeprefix("gen_ai.client.operation."): row.n for row in report.rows}
    assert (counts["duration"], counts["duration{error.type}"], counts["time_to_first_chunk"]) == (5, 6, 9)
    assert {"error.type 429", "error.type 502", "error.type connect_error"} <= set(report.failures)


ANSWER = chunk({"content": "a"})
DONE = "data: [DONE]\n\n"


@each_case(
    ("text", "facts", "reason"),
    [
        (ANSWER, {"ended_by": None}, "still open"),
        (ANSWER, {"ended_by": "client"}, "the client left"),
        ('{"object":"list"}', {"content_type": "application/json"}, "not streamed"),
        (ANSWER + DONE, {"gap_bytes": 7}, "not wholly on the tape"),
        ('data: {"candidates":[]}\n\n', {}, "of an API that it does not measure"),
        (ANSWER.replace("data: ", ""), {"content_type": "application/x-ndjson"}, "of an API that it does not measure"),
    ],
)
def test_what_no_tool_would_have_measured_is_left_out(text, facts, reason):
    recorded = exchange([{"t_ms": 100, "text": text}], 200, **facts)
    for tool in TOOLS:
        report = measure_as(tool, [recorded])
        assert (report.left_out, report.attempts, report.error_rate) == ({reason: 1}, 0, None)
        assert {row.n for row in report.rows} == {0}
        assert {row.value for row in report.rows} == {None}


def test_a_client_that_leaves_after_the_end_has_measured():
    recorded = exchange([{"t_ms": 100, "text": ANSWER + chunk({}, usage=None) + DONE}], 200, ended_by="client")
    assert measure("vllm", *recorded).numbers["ttft"] == 100


MALFORMED = 'data: {"choices": [{\n\n'
LEFT = {"ended_by": "client"}


@each_case("tool", ["vllm", "vllm-0.32", "sglang", "guidellm"])
def test_a_tool_hanging_up_on_malformed_events_has_failed(tool):
    # Up to 0.32, vLLM needs more in the same read to notice.
    more = ANSWER if tool == "vllm-0.32" else ""
    report = measure_as(tool, [exchange([{"t_ms": 100, "text": ANSWER + MALFORMED + more}], 200, **LEFT)])
    assert (report.attempts, report.failed, report.left_out) == (1, 1, {})
    assert list(report.failures) == ["JSONDecodeError on data line"]


@each_case(
    ("tool", "body", "reason"),
    [
        ("aiperf", ANSWER + 'event: error\ndata: {"message":"m"}\n\n', "SSEResponseError: error event in the stream"),
        ("aiperf", ANSWER + "event: error\n\n", "SSEResponseError: error event in the stream"),
        ("guidellm", ANSWER + 'data: {"error":"m"}\n', "ValueError: error payload in the stream"),
        ("sglang", ANSWER + ": keep-alive\n\n", "JSONDecodeError on SSE comment line"),
    ],
)
def test_data_before_the_client_left_can_explain_it(tool, body, reason):
    ended_by = "client" if tool != "aiperf" else "end"
    for outcome in (ended_by, "client"):
        report = measure_as(tool, [exchange([{"t_ms": 100, "text": body}], 200, ended_by=outcome)])
        assert (report.failures, report.left_out) == ({reason: 1}, {})


@each_case("tool", TOOLS)
@each_case("body", ["", ANSWER, ANSWER + ANSWER[:30], chunk({"role": "assistant"}), 'data: {"cho'])
def test_clients_leaving_without_the_tools_reason_are_omitted(tool, body):
    report = measure_as(tool, [exchange([{"t_ms": 100, "text": body}] if body else [], 200, **LEFT)])
    assert (report.attempts, report.left_out) == (0, {"the client left": 1})


def test_clients_leaving_before_an_answer_are_omitted():
    report = measure_as("vllm", [exchange([], 200, status=None, ended_by="client")])
    assert report.left_out == {"the client left": 1}


def test_an_unknown_tool_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'vlm' is not a known tool: choose from vllm, vllm-0.32, sglang, "):
        authority("vlm")


def usage(count, **more):
    return f"data: {json.dumps({'choices': [], 'usage': {'completion_tokens': count, **more}})}\n\n"


def answered(*texts, tokens=None, started_s=0.0):
    reads = [{"t_ms": 100 * (at + 1), "text": chunk({"content": text})} for at, text in enumerate(texts)]
    final = ("" if tokens is None else usage(tokens)) + DONE
    recorded = exchange([*reads, {"t_ms": 100 * len(reads) + 50, "text": final}], 1000)
    return Observed(*recorded, round(started_s * 1e9))


def totals(report):
    return {row.metric: row.value for row in report.rows if row.value is not None}


def test_vllm_prints_throughput_over_all_of_the_run():
    report = measure_as("vllm", [answered("a", "b", tokens=4), answered("a", "b", tokens=6, started_s=4)])
    assert totals(report) == {
        "Request throughput": pytest.approx(2 / 5),
        "Output token throughput": pytest.approx(10 / 5),
        "Total generated tokens": 10,
    }


def test_a_failed_request_takes_time_and_brings_nothing():
    failed = Observed(*exchange([{"t_ms": 10, "text": "{}"}], 1000, 500), 9_000_000_000)
    assert totals(measure_as("sglang", [answered("a", tokens=4), failed]))["Request throughput"] == pytest.approx(0.1)
    assert totals(measure_as("sglang", [failed])) == {}


def test_aiperfs_run_ends_with_the_last_content():
    report = measure_as("aiperf", [answered("a", "b", tokens=4), answered("a", "b", tokens=6, started_s=4)])
    assert totals(report)["Request Throughput"] == pytest.approx(2 / 4.2)
    assert totals(report)["Output Token Throughput"] == pytest.approx(10 / 4.2)
    assert next(row for row in report.rows if row.metric == "Output Sequence Length").mean == 5


def test_a_sum_without_requests_is_not_printed_as_0():
    silent = [answered("a", "b"), answered("c", started_s=4)]
    assert [row.metric for row in measure_as("aiperf", silent).rows if "Throughput" in row.metric] == [
        "Output Token Throughput Per User",
        "Request Throughput",
    ]
    assert totals(measure_as("aiperf", [*silent, answered("d", tokens=0, started_s=4)]))["Output Token Throughput"] == 0


def test_throughput_is_unknown_without_starts():
    assert totals(measure_as("vllm", [answered("a", tokens=4)[:3]])) == {"Total generated tokens": 4}


@pytest.mark.parametrize(
    ("tool", "omitted"),
    [
        ("vllm", ["TPOT", "Output token throughput", "Total generated tokens"]),
        ("sglang", ["TPOT", "Output token throughput", "Total generated tokens (retokenized)"]),
    ],
)  # fmt: skip
def test_metrics_without_their_tokens_are_omitted_and_named(tool, omitted):
    thought = exchange([{"t_ms": 10, "text": chunk({"reasoning": "r"}) + ANSWER}, {"t_ms": 20, "text": ANSWER}], 30)
    report = measure_as(tool, [answered("a", "b")[:3], thought])
    assert set(omitted) <= set(report.omitted)
    assert not {row.metric for row in report.rows} & set(report.omitted)


def test_a_tokenizer_counts_what_the_tool_counts_itself():
    recorded = answered("a b ", "c", tokens=50)
    assert measure("vllm", *answered("a b ", "c")[:3], count_tokens=words).numbers["output_tokens"] == 3
    assert measure("vllm", *recorded[:3], count_tokens=words).numbers["output_tokens"] == 50
    assert measure("aiperf", *recorded[:3], count_tokens=words).numbers["output_tokens"] == 3
    sglang = measure("sglang", *answered("a b ", "c")[:3], requested_tokens=9, count_tokens=words).numbers
    assert (sglang["output_tokens"], sglang["retokenized"]) == (9, 3)


def test_the_reasons_of_failures_are_not_without_end():
    def failing():
        for number in range(30):
            error = json.dumps({"error": {"code": f"code {number}", "message": "m"}})
            yield exchange([{"t_ms": 10, "text": f"data: {error}\n\n"}], 20)

    failures = measure_as("otel", failing()).failures
    assert (len(failures), failures["other"], sum(failures.values())) == (21, 10, 30)


def test_each_tool_says_how_it_counts_differently():
    for rule in AUTHORITIES.values():
        assert 60 < len(rule.note) < 320, rule.source
        assert rule.note.endswith(".")
        assert "\n" not in rule.note
        assert rule.source
        assert rule.releases


WORDS = """choices delta message content reasoning tool_calls function name arguments usage completion_tokens error code
object text index"""
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "chat.completion.chunk", ""]),
    lambda value: st.lists(value, max_size=3) | st.dictionaries(KEYS, value, max_size=4),
    max_leaves=10,
)
EVENTS = st.lists(
    st.one_of(
        st.builds(lambda value: f"data: {json.dumps(value)}\n\n", JSON),
        st.builds(lambda delta, usage: chunk(delta, usage=usage), JSON, JSON),
        st.sampled_from(
            [ANSWER, DONE, ": c\n\n", "event: error\ndata: x\n\n", "data: {\n\n", "data:\n\n", "[1]\n", "data: "]
        ),
    ),
    max_size=6,
)


@given(EVENTS, st.sampled_from(["end", "eof", "client", "idle_timeout"]), st.sampled_from([200, 204, 500]))
@hypothesis.example([chunk({"tool_calls": True})], "end", 200)
def test_no_body_is_an_error_of_ours(events, ended_by, status):
    reads = [{"t_ms": 10 * seq, "text": text} for seq, text in enumerate(events)]
    recorded = exchange(reads, 100, status, ended_by)
    for tool in TOOLS:
        report = measure_as(tool, [recorded], words)
        assert report.attempts + sum(report.left_out.values()) == 1
        assert report.failed == sum(report.failures.values())
        assert all(row.n >= 0 for row in report.rows)
