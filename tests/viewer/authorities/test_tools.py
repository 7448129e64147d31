"""Every figure that the oracles hold for another tool, and the populations those tools would report."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.derive import decode, derive
from recorder.exchange import Exchange, Read
from viewer.authorities.tools import AUTHORITIES, TOOLS, Metric, measure, measure_as

ORACLES = json.loads((Path(__file__).parents[2] / "data" / "oracles.json").read_text("utf-8"))
POPULATION = ORACLES["ex5_population"]
EXPECTED = [
    (example, tool)
    for example, oracle in ORACLES.items()
    if example != "ex5_population"
    for tool in oracle["expected"]["authorities"]
]
MS = 1_000_000


def exchange(given, end_ms, status=200, ended_by="end", **facts):
    """Give an exchange, what its body says, and its measures."""
    reads, body = [], b""
    for seq, read in enumerate(given):
        data = read["text"].encode()
        reads.append(Read(seq, read["t_ms"] * MS, None, len(body), len(data)))
        body += data
    kind = facts.pop("content_type", "text/event-stream")
    found = Exchange(status, kind, None, ended_by, None, None, end_ms * MS, **facts)
    return found, decode(found, reads, body), derive(found, reads, body)


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


@pytest.mark.parametrize(("name", "tool"), EXPECTED)
def test_an_example_has_every_figure_of_a_tool(name, tool):
    expected = dict(ORACLES[name]["expected"]["authorities"][tool])
    spared = expected.pop("without_usage_chunk", None)
    seen = measure(tool, *example(name))
    assert seen.failed == expected.pop("failed", None)
    assert {key: seen.numbers.get(key, "missing") for key in expected} == near(expected)
    found = seen.without_usage_chunks
    assert (found and {key: found[key] for key in spared or {}}) == (spared and near(spared))


def test_the_oracles_speak_of_every_tool_but_two():
    assert {tool for _, tool in EXPECTED} == set(TOOLS) - {"genai-perf", "mlperf"}


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("ex2_reasoning_usage_with_choices", {"ttft": 500, "ttst": 30, "request_latency": 530, "itl": 3.3333}),
        ("ex6_continuous_usage_multi_token", {"ttft": 100, "ttst": 50, "request_latency": 300, "itl": 18.1818}),
    ],
)
def test_genai_perf_sees_text_only_and_needs_choices(name, figures):
    seen = measure("genai-perf", *example(name))
    found = seen.numbers or seen.without_usage_chunks
    assert {key: found[key] for key in figures} == near(figures)
    assert seen.failed == (None if seen.numbers else "IndexError on usage-only chunk (choices=[])")


def test_mlperf_counts_whole_nanoseconds():
    numbers = measure("mlperf", *example("ex2_reasoning_usage_with_choices")).numbers
    assert numbers == {"ttft_ns": 300 * MS, "latency_ns": 530 * MS, "tpot_ns": 230 * MS // 9, "output_tokens": 10}


@pytest.mark.parametrize(
    ("tool", "failed", "forgiven"),
    [
        ("vllm", 3, {"error_event": 2, "truncated": 1}),
        ("sglang", 3, {"error_event": 2, "truncated": 1}),
        ("guidellm", 4, {"error_event": 1, "truncated": 1}),
        ("llmperf", 4, {"error_event": 1, "truncated": 1}),
        ("genai-perf", 4, {"error_event": 1, "truncated": 1}),
        ("aiperf", 3, {"error_event": 1, "truncated": 1, "malformed": 1}),
        ("mlperf", 6, {}),
        ("otel", 6, {}),
    ],
)
def test_the_population_fails_as_often_as_a_tool_says(tool, failed, forgiven):
    found = measure_as(tool, population())
    assert (found.attempts, found.failed, found.left_out) == (11, failed, {"the client left": 1})
    assert found.error_rate == pytest.approx(100 * failed / 11)
    assert (found.forgiven, found.refused, sum(found.failures.values())) == (forgiven, 0, failed)


def complete():
    return (one for one in population() if one[2].outcome == "complete")


@pytest.mark.parametrize(
    ("tool", "suffix", "std"),
    [
        ("aiperf", "", "std_pop"),
        ("llmperf", "", "std_sample"),
        ("guidellm", "_inverse_cdf", "std_pop"),
        ("mlperf", "_mlperf", None),
    ],
)
def test_complete_exchanges_have_the_statistics_of_a_tool(tool, suffix, std):
    expected = POPULATION["ttft_complete"]
    metric = next(metric for metric in AUTHORITIES[tool].metrics if metric.key.startswith("ttft"))
    row = next(row for row in measure_as(tool, complete()).rows if row.metric == metric.name)
    in_ms = {"ms": 1, "s": 1000, "ns": 1 / MS}[row.unit]
    assert (row.n, row.mean * in_ms) == (5, pytest.approx(expected["mean"]))
    assert (row.std and row.std * in_ms) == (std and pytest.approx(expected[std], abs=5e-5))
    for percent in (50, 90, 95, 99):
        assert getattr(row, f"p{percent}") * in_ms == pytest.approx(expected[f"p{percent}{suffix}"])


def test_vllm_counts_the_role_chunk_as_the_first_token_and_pools_gaps():
    found = {row.metric: row for row in measure_as("vllm", complete()).rows}
    assert (found["TTFT"].n, found["TTFT"].mean) == (5, pytest.approx(159))
    assert (found["ITL"].n, found["ITL"].mean) == (15, pytest.approx(31 / 3))
    assert (found["TPOT"].n, found["TPOT"].mean) == (0, None)


def test_guidellm_weighs_exchanges_by_their_tokens():
    both = [example("ex1_plain"), example("ex6_continuous_usage_multi_token")]
    found = {row.metric: row for row in measure_as("guidellm", both).rows}
    itl, tpot = found["inter_token_latency_ms"], found["time_per_output_token_ms"]
    assert (itl.n, itl.mean) == (15, pytest.approx((80 + 200) / 15))
    assert (tpot.n, tpot.mean) == (17, pytest.approx((180 + 300) / 17))


def test_a_weight_leaves_tokens_out_and_is_0_where_the_count_is_unknown():
    metric = Metric("itl", "ITL", weight="output_tokens", weight_less=1)
    assert [metric.weight_of({"output_tokens": count}) for count in (12, 1, None)] == [11, 0, 0]
    assert Metric("ttft", "TTFT").weight_of({"output_tokens": 12}) is None


def test_what_would_work_without_usage_chunks_is_shown_beside_the_failure():
    found = measure_as("llmperf", [example("ex1_plain"), example("ex2_reasoning_usage_with_choices")])
    rows = {row.metric: (row.n, row.mean) for row in found.rows}
    assert (found.failed, found.refused) == (1, 1)
    assert rows["ttft_s"] == (1, pytest.approx(0.5))
    assert rows["ttft_s without usage-only chunks"] == (1, pytest.approx(0.1))


def test_opentelemetry_has_durations_and_first_chunks_of_failed_operations():
    found = measure_as("otel", population())
    counts = {row.metric.removeprefix("gen_ai.client.operation."): row.n for row in found.rows}
    assert (counts["duration"], counts["duration{error.type}"], counts["time_to_first_chunk"]) == (5, 6, 9)
    assert {"error.type 429", "error.type 502", "error.type connect_error"} <= set(found.failures)


def chunk(delta, **more):
    payload = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}], **more}
    return f"data: {json.dumps(payload)}\n\n"


ANSWER = chunk({"content": "a"})
DONE = "data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("text", "facts", "reason"),
    [
        (ANSWER, {"ended_by": None}, "still open"),
        (ANSWER, {"ended_by": "client"}, "the client left"),
        ('{"object":"list"}', {"content_type": "application/json"}, "not streamed"),
        (ANSWER + DONE, {"gap_bytes": 7}, "not wholly on the tape"),
        ('data: {"type":"message_start"}\n\n', {}, "not a stream of chat completions"),
        (ANSWER.replace("data: ", ""), {"content_type": "application/x-ndjson"}, "not a stream of chat completions"),
    ],
)
def test_what_no_tool_would_have_measured_is_left_out(text, facts, reason):
    given = exchange([{"t_ms": 100, "text": text}], 200, **facts)
    for tool in TOOLS:
        found = measure_as(tool, [given])
        assert (found.left_out, found.attempts, found.error_rate) == ({reason: 1}, 0, None)
        assert {row.n for row in found.rows} == {0}


def test_a_client_that_leaves_after_the_end_has_measured():
    given = exchange([{"t_ms": 100, "text": ANSWER + chunk({}, usage=None) + DONE}], 200, ended_by="client")
    assert measure("vllm", *given).numbers["ttft"] == 100


def test_the_reasons_of_failures_are_not_without_end():
    def failing():
        for number in range(30):
            error = json.dumps({"error": {"code": f"code {number}", "message": "m"}})
            yield exchange([{"t_ms": 10, "text": f"data: {error}\n\n"}], 20)

    failures = measure_as("otel", failing()).failures
    assert (len(failures), failures["other"], sum(failures.values())) == (21, 10, 30)


def test_each_tool_says_in_one_line_what_it_counts_differently():
    for tool, authority in AUTHORITIES.items():
        assert 60 < len(authority.note) < 260, tool
        assert authority.note.endswith(".")
        assert "\n" not in authority.note
        assert authority.source


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


@settings(derandomize=True, deadline=None)
@given(EVENTS, st.sampled_from(["end", "eof", "client", "idle_timeout"]), st.sampled_from([200, 204, 500]))
def test_no_body_is_an_error_of_ours(events, ended_by, status):
    reads = [{"t_ms": 10 * seq, "text": text} for seq, text in enumerate(events)]
    given = exchange(reads, 100, status, ended_by)
    for tool in TOOLS:
        found = measure_as(tool, [given])
        assert found.attempts + sum(found.left_out.values()) == 1
        assert found.failed == sum(found.failures.values())
        assert all(row.n >= 0 for row in found.rows)
