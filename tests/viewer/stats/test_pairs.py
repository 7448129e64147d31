"""The same answers on both sides of a gateway: pairs, the gateway's shares, and what it changed."""

import json
from pathlib import Path

import msgspec
import pytest
from click.exceptions import UsageError

from tests.support.commands import run
from tests.support.sample_tape import DONE, MS, begin, end, event, recorded, response
from wiretape.viewer.stats import pairs

WORDS = [f"word{number} " for number in range(21)]
HANDED_ON_MS = 0.05
"""Time after which a scripted read is handed on."""
TRACE = "0af7651916cd43dd8448eb211c80319c"


def exchange(id, parts, *, at=1, t0_ms=0, model="m", trace=None, label=None, by="end", client_closed_ms=None):
    """Yield the frames of a stream; `t0_ms` is its T0 after second `at` by both clocks."""
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": id}]}).encode()
    first = begin(id, at, body, **({"side": label} if label else {}))
    headers = [*first.headers, (b"traceparent", f"00-{trace}-{id}-01".encode())] if trace else first.headers
    started_at = first.started_at.replace(".000000", f".{t0_ms:03}000")
    yield msgspec.structs.replace(first, boot_ns=(1000 * at + t0_ms) * MS, started_at=started_at, headers=headers)
    yield from response(id, parts)
    last = end(id, parts, by)
    yield (
        last
        if client_closed_ms is None
        else msgspec.structs.replace(last, client_closed_ns=client_closed_ms * MS, end_ns=client_closed_ms * MS)
    )


def words(times, texts=WORDS, *, id="r1", tokens=21, is_whole=True):
    """Return the reads of a stream with a word at each time, and its end 5 ms later."""
    parts = [(at, event({"content": text}, id=id)) for at, text in zip(times, texts, strict=True)]
    usage = event(
        {}, "stop", id=id, usage={"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": tokens + 3}
    )
    return [*parts, (times[-1] + 5, usage + DONE)] if is_whole else parts


UPSTREAM = [100 + 100 * number for number in range(21)]
DELAYED = [at + (200 if number == 0 else 50 if number % 10 == 0 else 0) for number, at in enumerate(UPSTREAM)]


def tapes(directory: Path, a, b):
    return [str(recorded(directory / f"{name}.db", [*frames])) for name, frames in (("a", a), ("b", b))]


def rows(*arguments, part="pairs"):
    return json.loads(run(None, "compare", "--pairs", *arguments, "--part", part, "--format", "json").stdout)


def sums(*arguments):
    return {row["metric"]: row for row in rows(*arguments, part="figures")}


def test_a_gateway_that_delays_is_named_chunk_by_chunk(tmp_path):
    at = [DELAYED[0], *(time + 150 for time in DELAYED[1:])]
    sides = tapes(
        tmp_path,
        exchange("aaaa000000000001", words([time + 20 for time in at])),
        exchange("bbbb000000000001", words(UPSTREAM), t0_ms=20),
    )
    (pair,) = rows(*sides)
    assert pair["by"] == "response_id"
    shares = [pair[name] for name in ("first_ms", "request_ms", "response_ms")]
    assert shares == pytest.approx([220 - HANDED_ON_MS, 20, 200 - HANDED_ON_MS])
    expected = [
        -50 if number == 1 else 50 if number % 10 == 0 else -50 if number % 10 == 1 else 0 for number in range(1, 21)
    ]
    assert pair["gaps_ms"] == pytest.approx(expected)
    assert (pair["gap_p50_ms"], pair["gap_max_ms"]) == (0, pytest.approx(50))
    assert pair["first_ms"] + sum(pair["gaps_ms"]) + pair["end_ms"] == pytest.approx(pair["total_ms"])
    assert (pair["merged_chunks"], pair["merged_reads"], pair["text"], pair["usage"]) == (0, 0, "equal", "equal")
    figures = sums(*sides)
    assert figures["gateway_first_ms"]["difference"] == pair["first_ms"]
    assert (figures["gateway_gap_ms"]["n"], figures["ttft_ms"]["difference"]) == (20, -220)


def test_merged_chunks_are_compared_where_their_text_ends(tmp_path):
    halves = ["".join(WORDS[:10]), "".join(WORDS[10:20]), WORDS[20]]
    (pair,) = rows(*tapes(
        tmp_path,
        exchange("aaaa000000000001", words([1000, 2000, 2100], halves)),
        exchange("bbbb000000000001", words(UPSTREAM)),
    ))  # fmt: skip
    assert (pair["merged_chunks"], pair["merged_reads"]) == (18, 18)
    assert pair["gaps_ms"] == pytest.approx([-900, 0])
    assert pair["first_ms"] == pytest.approx(900 - HANDED_ON_MS)


def test_reads_that_come_together_are_no_merged_chunks(tmp_path):
    at = [1000] * 10 + UPSTREAM[10:]
    parts = words(at)
    together = [(1000, b"".join(data for _, data in parts[:10])), *parts[10:]]
    (pair,) = rows(*tapes(
        tmp_path, exchange("aaaa000000000001", together), exchange("bbbb000000000001", words(UPSTREAM))
    ))  # fmt: skip
    assert (pair["merged_chunks"], pair["merged_reads"]) == (0, 9)


def test_changed_usage_and_text_are_named(tmp_path):
    (pair,) = rows(*tapes(
        tmp_path,
        exchange("aaaa000000000001", words(UPSTREAM, ["Word0 ", *WORDS[1:]], tokens=20)),
        exchange("bbbb000000000001", words(UPSTREAM)),
    ))  # fmt: skip
    assert pair["usage"] == "output_tokens 20 → 21, total_tokens 23 → 24"
    assert (pair["text"], pair["gaps_ms"]) == ("differs at character 0", None)
    assert pair["first_ms"] == pytest.approx(-HANDED_ON_MS)


def test_whole_answers_have_no_first_token_and_no_gaps(tmp_path):
    answer = {"id": "r1", "object": "chat.completion", "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}  # fmt: skip
    sides = []
    for id, at in (("aaaa000000000001", 300), ("bbbb000000000001", 100)):
        parts = [(at, json.dumps(answer).encode())]
        frames = [begin(id, 1, b'{"model":"m"}'), *response(id, parts, type="application/json"), end(id, parts)]
        sides.append(str(recorded(tmp_path / f"{id}.db", frames)))
    (pair,) = rows(*sides)
    assert (pair["first_ms"], pair["gaps_ms"], pair["merged_chunks"], pair["total_ms"]) == (None, None, None, 200)
    assert pair["text"] == "equal"


@pytest.mark.parametrize("travels", [True, False])
def test_an_abort_travelled_if_upstreams_client_left_too(tmp_path, travels):
    left = exchange(
        "aaaa000000000001", words(UPSTREAM[:5], WORDS[:5], is_whole=False), by="client", client_closed_ms=550
    )
    if travels:
        more = exchange("bbbb000000000001", words(UPSTREAM[:6], WORDS[:6], is_whole=False), t0_ms=20, by="client",
                        client_closed_ms=610)  # fmt: skip
    else:
        more = exchange("bbbb000000000001", words(UPSTREAM), t0_ms=20)
    sides = tapes(tmp_path, left, more)
    (pair,) = rows(*sides)
    assert pair["abort"] == ("travelled" if travels else "did not travel")
    assert pair["abort_ms"] == pytest.approx(80 if travels else 20 + 2106.5 - 550)
    assert (pair["end_ms"], pair["total_ms"], pair["text"]) == (None, None, f"equal to character {5 * len(WORDS[0])}")
    figures = sums(*sides)
    assert (figures["aborts"]["n"], figures["aborts_travelled"]["n"]) == (1, int(travels))
    assert figures["text_differs"]["n"] == 0


def row(id, **values):
    return dict.fromkeys(pairs.FACTS) | {"id": id, "started_at": f"2026-03-01T12:00:{id[1:]:>02}Z"} | values


def partners(a, b):
    return [(pair.a["id"], pair.b["id"], pair.by) for pair in pairs.paired(a, b)]


def test_ids_of_responses_come_before_traces_and_texts():
    a = [row("a1", response_id="x", trace_id=TRACE, content="t"), row("a2", trace_id=TRACE, model="m")]
    b = [row("b1", trace_id=TRACE, model="n", content="t"), row("b2", response_id="x", trace_id=TRACE)]
    assert partners(a, b) == [("a1", "b2", "response_id"), ("a2", "b1", "trace_id")]


def test_exchanges_of_a_trace_are_paired_by_model_in_their_order():
    a = [
        row("a1", trace_id=TRACE, model="m"),
        row("a2", trace_id=TRACE, model="n"),
        row("a3", trace_id=TRACE, model="m"),
    ]
    b = [
        row("b3", trace_id=TRACE, model="m"),
        row("b2", trace_id=TRACE, model="m"),
        row("b1", trace_id=TRACE, model="n"),
    ]
    assert partners(a, b) == [("a1", "b2", "trace_id"), ("a2", "b1", "trace_id"), ("a3", "b3", "trace_id")]


def test_a_text_pairs_only_where_each_side_has_it_once():
    a = [row("a1", content="one"), row("a2", content="two"), row("a3", content="two")]
    b = [row("b1", content="two"), row("b2", content="one")]
    assert partners(a, b) == [("a1", "b2", "text")]


def test_a_server_with_one_id_for_all_is_paired_in_order():
    a, b = ([row(f"{side}{number}", response_id="x", content="t") for number in (1, 2)] for side in "ab")
    assert partners(a, b) == [("a1", "b1", "order"), ("a2", "b2", "order")]
    assert partners(a, b[:1]) == []


def test_filters_name_the_sides_on_one_tape(tmp_path):
    frames = [
        *exchange("aaaa000000000001", words(UPSTREAM), label="a"),
        *exchange("bbbb000000000001", words(UPSTREAM), label="b"),
        *exchange("aaaa000000000002", words(UPSTREAM, id="r2"), label="a", at=9),
    ]  # fmt: skip
    tape = recorded(tmp_path / "both.db", frames)
    shown = run(
        tape, "compare", "--pairs", "--base", "label:side=a", "--new", "label:side=b", "--format", "table"
    ).stdout
    assert shown.startswith("1 pair; without a partner: 1 of A, 0 of B\n")
    none = run(tape, "compare", "--pairs", "--base", "label:side=a", "--new", "label:side=b and ttft>9s", code=1)
    assert str(none.exception) == "no pairs among 2 exchanges of A and 0 of B"


def test_a_table_of_pairs_has_a_line_for_each_pair(tmp_path):
    a = [*exchange("aaaa000000000001", words(UPSTREAM)), *exchange("aaaa000000000002", words(UPSTREAM, id="r2"), at=9)]
    b = [*exchange("bbbb000000000001", words(UPSTREAM)), *exchange("bbbb000000000002", words(UPSTREAM, id="r2"), at=9)]
    shown = run(None, "compare", "--pairs", *tapes(tmp_path, a, b), "--part", "pairs", "--format", "table").stdout
    assert [line.split()[:2] for line in shown.splitlines()[-2:]] == [
        ["aaaa000000000001", "bbbb000000000001"],
        ["aaaa000000000002", "bbbb000000000002"],
    ]
    assert "ttft_ms" not in shown


def test_times_between_sides_are_unknown_without_a_common_clock(tmp_path):
    other_boot = [
        msgspec.structs.replace(frame, boot_ns=10**15) if hasattr(frame, "boot_ns") else frame
        for frame in exchange("bbbb000000000001", words(UPSTREAM))
    ]
    (pair,) = rows(*tapes(tmp_path, exchange("aaaa000000000001", words(UPSTREAM)), other_boot))
    assert pair["request_ms"] is None
    assert pair["first_ms"] == pytest.approx(-HANDED_ON_MS)


@pytest.mark.parametrize(
    "arguments",
    [["one.db"], ["--new", "model:m"], ["a.db", "b.db", "--base", "model:m"], ["--part", "pairs", "@", "@-1"]],
)
def test_pairs_ask_for_two_sides(tmp_path, arguments):
    pairs_option = [] if "@" in arguments else ["--pairs"]
    refused = run(None, "compare", *pairs_option, *arguments, code=2)
    assert isinstance(refused.exception, UsageError | SystemExit)


def test_the_exit_code_tells_worse_sides(tmp_path):
    a, b = [], []
    for number in range(20):
        a += exchange(f"aaaa0000000000{number:02}", words(UPSTREAM, id=f"r{number}"), at=number)
        slower = [time + 100 + number for time in UPSTREAM]
        b += exchange(f"bbbb0000000000{number:02}", words(slower, id=f"r{number}"), at=number)
    sides = tapes(tmp_path, a, b)
    run(None, "compare", "--pairs", *sides, "-e", code=3)
    run(None, "compare", "--pairs", *reversed(sides), "-e", code=0)
    ttft = sums(*sides)["ttft_ms"]
    assert (ttft["n"], ttft["difference"], ttft["verdict"]) == (20, 109.5, "new is worse")
    assert 100 <= ttft["low"] < ttft["difference"] < ttft["high"] <= 119
