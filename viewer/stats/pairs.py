"""Pure: pairs of the same answer on both sides of a gateway, with its share; or of an exchange and its repetition.

A is the side of the client, B that of the provider; or A was recorded, and B is what `resend` sent. The rules:

- A repetition is paired with what it repeats, each of several with the same. Others are paired by the id of the
  response where each side has it once; else by the trace, with the model before without, in the order of T0; else by a
  text that each side has once; last by an id that both sides have as often, in that order, as a server that gives one
  id to all does.
- Times from T0 need no common clock: the gateway's share of the first token, of each gap and of the end are differences
  of times of one side each, and add up to the difference of the durations.
- An output of A is set beside the one of B that completes the same text: so merged and split chunks are compared at
  the same character. Where the texts differ, the shares of gaps are unknown.
- An output of B counts from its handing on to the gateway, if that is known: the recorder's time is not the gateway's.
- Times between the sides (the request's way, an abort's way) need a common clock: that of the machine's boot, if it
  agrees with the wall clock; else they are unknown.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from statistics import NormalDist, median
from typing import Any, Final, NamedTuple

import numpy as np

from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.record.units import ms
from wiretape.viewer.stats import compare
from wiretape.viewer.stats.summary import Values

_TOKENS: Final = ("input_tokens", "output_tokens", "reasoning_tokens", "total_tokens", "cache_read_input_tokens")
METRICS: Final = (
    "ttfb_ms", "ttft_ms", "ttfo_ms", "latency_ms", "duration_ms", "max_gap_ms", "icl_p50_ms", "icl_p99_ms", "tpot_ms",
    "tps_user", "output_chunks", "bytes", *_TOKENS, "cost",
)  # fmt: skip
"""The values whose differences within pairs are summed up."""
FACTS: Final = (
    "id", "started_at", "resent_from", "resent_no", "model", "response_id", "trace_id", "outcome", "finish_reason",
    "content", "tool_calls", *METRICS,
)  # fmt: skip
"""The fields of an exchange that pairing and comparing take."""

PAIR_FIELDS: Final = {
    "a": "id of the exchange on the client's side, or of the recorded one",
    "b": "id of the exchange on the provider's side, or of the resent one",
    "by": "how they were paired: resent_from, response_id, trace_id, text, order",
    "model": "the model asked for on the client's side",
    "first_ms": "the gateway's share of the first token: its time on side A less that on side B",
    "request_ms": "of it, T0 of A → T0 of B: the request's way through; unknown without a common clock",
    "response_ms": "of it, the rest: the first output's way back",
    "gap_p50_ms": "median of the gateway's shares of the gaps between outputs",
    "gap_max_ms": "largest of these shares",
    "gaps_ms": "the shares of all gaps of side A in their order",
    "end_ms": "the gateway's share of the time from the last output to the end; unknown if the client left",
    "total_ms": "the difference of the durations: the sum of all shares; unknown if the client left",
    "merged_chunks": "outputs of side B that are part of a larger one on side A",
    "merged_reads": "outputs of separate reads on side B that came in one read on side A",
    "text": "equal, or where the texts differ; of a client that left, how far they are equal",
    "tools": "equal, or differs: the tool calls",
    "usage": "equal, or the counts that differ, as A → B",
    "cost": "equal, or A → B",
    "outcome": "equal, or A → B",
    "finish_reason": "equal, or A → B",
    "abort": "of a client that left: travelled, or did not travel, to side B",
    "abort_ms": "time from the client's leaving to the end of side B",
}
"""The fields of a pair with their meanings."""

IMPORTANT: Final = (
    "a", "b", "first_ms", "gap_p50_ms", "gap_max_ms", "end_ms", "total_ms", "merged_chunks", "merged_reads", "text",
    "usage", "outcome", "abort", "abort_ms", "by",
)  # fmt: skip
"""The fields of a pair that are shown where there is room, the most important first."""

SUM_FIELDS: Final = {
    "metric": "name of the value; shares of the gateway begin with gateway_",
    "n": "pairs, gaps or exchanges that have it",
    "a": "median of side A",
    "b": "median of side B",
    "difference": "median of the differences within pairs, B − A; of a share of the gateway, its median",
    "low": "lower end of the interval of that median at 95 %; those of the metrics hold together",
    "high": "upper end of the interval",
    "verdict": "better, worse, or not clearly different: side B compared with side A",
}
"""The fields of the sum over pairs with their meanings."""

SUM_IMPORTANT: Final = ("metric", "difference", "low", "high", "n", "b", "a", "verdict")

SHARES: Final = {
    "first_ms": "gateway_first_ms", "request_ms": "gateway_request_ms",
    "response_ms": "gateway_response_ms", "gaps_ms": "gateway_gap_ms",
    "gap_max_ms": "gateway_gap_max_ms", "end_ms": "gateway_end_ms", "total_ms": "gateway_total_ms",
    "abort_ms": "gateway_abort_ms",
}  # fmt: skip
"""The fields of pairs that are summed up, and their names in the sum."""


Observed = tuple[Exchange, Reads, Decoded]


class Pair(NamedTuple):
    """Two rows of `FACTS`, and the reason that they are a pair."""

    a: TableRow
    b: TableRow
    by: str


class Outputs(NamedTuple):
    """The outputs of an answer: where in its text each ends, in characters, its time in ns since T0, and its read."""

    ends: Sequence[int]
    at: Sequence[int]
    reads: Sequence[int]
    text: str


def paired(a: Sequence[TableRow], b: Sequence[TableRow]) -> Iterator[Pair]:
    """Yield the pairs of two sides, in the order of A; only a repeated exchange is in several."""
    keys: tuple[tuple[str, bool, Callable[[TableRow], Any]], ...] = (
        ("response_id", True, lambda row: row["response_id"]),
        ("trace_id", False, lambda row: row["trace_id"] and (row["trace_id"], row["model"])),
        ("trace_id", False, lambda row: row["trace_id"]),
        ("text", True, lambda row: row["content"]),
        ("order", False, lambda row: row["response_id"]),
    )
    recorded = {row["id"]: row for row in a}
    repeated = [Pair(recorded[row["resent_from"]], row, "resent_from") for row in b if row["resent_from"] in recorded]
    repeated.sort(key=lambda pair: (pair.b["resent_no"] or 0, pair.b["started_at"]))
    repetitions, pairs, partners = defaultdict[str, list[Pair]](list), dict[str, Pair](), set[str]()
    for pair in repeated:
        repetitions[pair.a["id"]].append(pair)
        partners.add(pair.b["id"])
    for by, is_unique, key in keys:
        groups: defaultdict[Hashable, tuple[list[TableRow], list[TableRow]]] = defaultdict(lambda: ([], []))
        for side, rows in enumerate((a, b)):
            for row in sorted(rows, key=lambda row: row["started_at"]):
                taken_ids = partners if side else {*pairs, *repetitions}
                if row["id"] not in taken_ids and (value := key(row)):
                    groups[value][side].append(row)
        for of_a, of_b in groups.values():
            if len(of_a) == len(of_b) and (len(of_a) == 1 or not is_unique):
                pairs |= {row["id"]: Pair(row, partner, by) for row, partner in zip(of_a, of_b, strict=True)}
                partners |= {row["id"] for row in of_b}
    pairs_by_a = {**{id: [pair] for id, pair in pairs.items()}, **repetitions}
    return (pair for row in a for pair in pairs_by_a.get(row["id"], ()))


def outputs(observed: Observed, *, relayed: bool = False) -> Outputs | None:
    """Return the outputs of an answer, with the times of their arrival, or of their handing on to the client.

    None if it is no stream, if times are unknown, or of several turns.
    """
    exchange, read_columns, decoded = observed
    handed_on = dict(zip(read_columns.seq, read_columns.relayed_ns, strict=True)) if relayed else {}
    if not decoded.stream or not exchange.is_timed or decoded.turns:
        return None
    ends, at, reads, texts, size = list[int](), list[int](), list[int](), list[str](), 0
    for run in decoded.runs:
        if not (run.chunk.counts and run.chunk.output):
            continue
        for item, chunk in enumerate(run.chunks(), run.item):
            tools = [tool.name + tool.arguments for piece in chunk.pieces for tool in piece.tools]
            parts = [piece.reasoning + piece.content + piece.refusal for piece in chunk.pieces]
            texts.append("".join([*parts, *tools]))
            size += len(texts[-1])
            at_ns, read = decoded.at_ns[item], decoded.reads[item]
            if at_ns is None or read is None:
                return None
            ends.append(size)
            at.append(handed_on.get(read) or at_ns)
            reads.append(read)
    return Outputs(ends, at, reads, "".join(texts))


def row(pair: Pair, a: Observed, b: Observed) -> TableRow:
    """Return the `PAIR_FIELDS` of a pair, of which each side is observed."""
    a_exchange, b_exchange = a[0], b[0]
    values: TableRow = dict.fromkeys(PAIR_FIELDS) | {"a": pair.a["id"], "b": pair.b["id"], "by": pair.by}
    is_left = pair.a["outcome"] == "client_closed"
    values |= {"model": pair.a["model"]} | _differences(pair.a, pair.b, is_left=is_left)
    if pair.by == "resent_from":  # two answers, and no gateway between them
        return values
    a_outputs, b_outputs = outputs(a), outputs(b, relayed=True)
    offset = _offset(pair, a_exchange, b_exchange)
    values["request_ms"] = ms(offset)
    if not is_left:
        total_ms = compare.change(pair.b["duration_ms"], pair.a["duration_ms"])["difference"]
        values["total_ms"] = None if total_ms is None else round(total_ms, 6)
    if a_outputs and b_outputs and a_outputs.at and b_outputs.at:
        first_ns = a_outputs.at[0] - b_outputs.at[0]
        values |= {"first_ms": ms(first_ns), "response_ms": None if offset is None else ms(first_ns - offset)}
        if values["total_ms"] is not None:
            spans = [outputs.at[-1] for outputs in (a_outputs, b_outputs)]
            values["end_ms"] = round(values["total_ms"] - (spans[0] - spans[1]) / 1e6, 6)
        if a_outputs.text == b_outputs.text or (is_left and b_outputs.text.startswith(a_outputs.text)):
            values |= _aligned(a_outputs, b_outputs)
    if is_left:
        left_ns, end_ns = a_exchange.client_closed_ns, b_exchange.client_closed_ns
        values["abort"] = "travelled" if pair.b["outcome"] == "client_closed" else "did not travel"
        end_ns = b_exchange.end_ns if end_ns is None else end_ns
        if offset is not None and left_ns is not None and end_ns is not None:
            values["abort_ms"] = ms(offset + end_ns - left_ns)
    return values


def _offset(pair: Pair, a: Exchange, b: Exchange) -> int | None:
    """Return the time from T0 of A to T0 of B, in ns, or None without a common clock."""
    walls = [wall_ns(side["started_at"]) for side in (pair.a, pair.b)]
    if a.boot_ns is None or b.boot_ns is None or walls[0] is None or walls[1] is None:
        return None
    offset = b.boot_ns - a.boot_ns
    # Boots of two machines differ by days, and one machine's clocks by what its wall clock was set.
    return offset if abs(offset - (walls[1] - walls[0])) < 100_000_000 else None


def _aligned(a: Outputs, b: Outputs) -> TableRow:
    # An end beyond those of B can't be: the text of A is at most that of B.
    matches = [bisect_left(b.ends, end) for end in a.ends]
    matches[0] = 0
    shares = [
        (a.at[place] - a.at[place - 1]) - (b.at[matches[place]] - b.at[matches[place - 1]])
        for place in range(1, len(matches))
    ]
    places = [bisect_left(a.ends, end) for end in b.ends if end <= a.ends[-1]]
    neighbours = [*zip(places, places[1:], b.reads, b.reads[1:], strict=False)]
    merged = {
        "merged_chunks": sum(place == following for place, following, *_ in neighbours),
        "merged_reads": sum(
            read != next_read and a.reads[place] == a.reads[following]
            for place, following, read, next_read in neighbours
        ),
    }
    gaps = [round(share / 1e6, 6) for share in shares]
    middle = {"gap_p50_ms": round(median(gaps), 6), "gap_max_ms": max(gaps)} if gaps else {}
    return {"gaps_ms": gaps} | merged | middle


def _differences(a: TableRow, b: TableRow, *, is_left: bool) -> TableRow:
    texts = a["content"] or "", b["content"] or ""
    size = min(map(len, texts))
    place = next((at for at in range(size) if texts[0][at] != texts[1][at]), size)
    is_part = is_left and place == size
    changes = {name: f"{_cell(a[name])} → {_cell(b[name])}" for name in a if a[name] != b[name]}
    usage = [f"{name} {changes[name]}" for name in _TOKENS if name in changes]
    calls = [[(call["name"], call["arguments"]) for call in side["tool_calls"] or ()] for side in (a, b)]
    return {name: changes.get(name, "equal") for name in ("cost", "outcome", "finish_reason")} | {
        "text": "equal" if texts[0] == texts[1] else f"{'equal to' if is_part else 'differs at'} character {place}",
        "tools": "equal" if calls[0] == calls[1] else "differs",
        "usage": ", ".join(usage) or "equal",
    }


def _cell(value: Any) -> str:
    return "–" if value is None else str(value)


def sums(pairs: Sequence[Pair], rows: Sequence[TableRow], unpaired: tuple[int, int], seed: int = 0) -> list[TableRow]:
    """Return the `SUM_FIELDS` over pairs: their metrics, the gateway's shares, and counts of pairs.

    `rows` are the `PAIR_FIELDS` of the pairs, `unpaired` the counts of exchanges without a partner on sides A and B.
    """
    known = {name: np.array([[pair.a[name], pair.b[name]] for pair in pairs], float).reshape(-1, 2) for name in METRICS}
    differences = [sides[:, 1] - sides[:, 0] for sides in known.values()]
    judged = [column for column in differences if (~np.isnan(column)).sum() >= compare.LEAST]
    covariance = compare.percentile_covariance(judged, [50] * len(judged))
    level = compare.joint_level([compare.correlation_of(covariance)], seed=seed)
    summed = []
    for (name, sides), column in zip(known.items(), differences, strict=True):
        both = sides[~np.isnan(column)]
        medians = dict(zip("ab", np.median(both, axis=0).tolist() if len(both) else (None, None), strict=True))
        summed.append(
            _summed(name, column[~np.isnan(column)], level, is_judged=name.endswith(("_ms", "tps_user"))) | medians
        )
    for share, name in SHARES.items():
        shares = [row[share] for row in rows if row[share] is not None]
        summed.append(_summed(name, np.hstack([[], *shares]), 0.95))
    counts = {"pairs": len(pairs), "unpaired_a": unpaired[0], "unpaired_b": unpaired[1]}
    counts |= {name: sum(bool(row[name]) for row in rows) for name in ("merged_chunks", "merged_reads")}
    counts["text_differs"] = sum(row["text"].startswith("differs") for row in rows)
    counts["usage_differs"] = sum(row["usage"] != "equal" and row["abort"] is None for row in rows)
    aborts = [row["abort"] for row in rows if row["abort"] is not None]
    counts |= {"aborts": len(aborts), "aborts_travelled": aborts.count("travelled")}
    return [*summed, *(dict.fromkeys(SUM_FIELDS) | {"metric": name, "n": count} for name, count in counts.items())]


def _summed(name: str, values: Values, level: float, *, is_judged: bool = False) -> TableRow:
    summed: TableRow = dict.fromkeys(SUM_FIELDS) | {"metric": name, "n": len(values)}
    if len(values):
        summed["difference"] = round(float(np.median(values)), 6)
    interval = compare.percentile_interval(values, 50)
    if is_judged:
        summed["verdict"] = compare.TOO_FEW if interval is None else compare.UNCLEAR
    if interval is not None:
        reach = NormalDist().inv_cdf((1 + level) / 2) / NormalDist().inv_cdf(0.975)
        low, high = (round(summed["difference"] + reach * (end - summed["difference"]), 6) for end in interval)
        summed |= {"low": low, "high": high}
        if is_judged and not low <= 0 <= high:
            summed["verdict"] = compare.BETTER if (high < 0) == name.endswith("_ms") else compare.WORSE
    return summed
