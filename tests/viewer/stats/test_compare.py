"""Comparisons: differences are found, equal groups stay quiet, and too few exchanges are reported."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.support.exchanges import detailed
from tests.support.sample_tape import COMPLETE, TOOLS
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.tape import queries
from wiretape.viewer.stats import compare
from wiretape.viewer.stats.metrics import QUANTITIES
from wiretape.viewer.stats.summary import TOKENS, Sample


def sample(seed: int, n: int = 400, slower: float = 1.0, failed: int = 12) -> Sample:
    """A group with lognormal quantities that all go together, as those of real exchanges do."""
    random = np.random.default_rng(seed)
    pace = random.lognormal(0, 0.2, n)
    columns = {name: random.lognormal(5, 0.3, n) * pace * slower for name in QUANTITIES}
    columns["tps_user"] = 1e5 / columns["tpot"]
    every, counts = np.ones(n, bool), Counter({"complete": n, "truncated": failed})
    tokens = {name: np.full(n, 5.0) for name in TOKENS}
    return Sample((), counts, counts, every, every, every, columns | tokens, np.array([], np.int64))


def verdicts(base: Sample, new: Sample, seed: int = 0) -> dict[str, str]:
    return {row["metric"]: row["verdict"] for row in compare.groups(base, new, seed)}


def test_a_regression_of_a_fifth_is_found() -> None:
    judgements = verdicts(sample(1), sample(2, slower=1.2))
    assert {judgements[f"{name}_p50_ms"] for name in QUANTITIES if name not in ("tps_user", "icl", "gap")} == {
        compare.WORSE
    }
    assert judgements["tps_user_p50"] == compare.WORSE
    assert judgements["error_rate_pct"] == compare.UNCLEAR
    assert compare.exit_code(compare.groups(sample(1), sample(2, slower=1.2))) == 3


def test_an_improvement_of_a_fifth_is_one() -> None:
    judgements = verdicts(sample(1, slower=1.2), sample(2))
    assert (judgements["ttft_p50_ms"], judgements["tps_user_p50"]) == (compare.BETTER, compare.BETTER)
    assert compare.exit_code(compare.groups(sample(1, slower=1.2), sample(2))) == 0


def test_where_nothing_can_be_said_no_gate_is_passed() -> None:
    assert compare.exit_code(compare.groups(sample(1, 0, failed=0), sample(2))) == 4
    assert compare.exit_code(compare.groups(sample(1, 5, failed=30), sample(2))) in (0, 3)


@pytest.mark.parametrize(("count", "most"), [(20, 4), pytest.param(200, 16, marks=pytest.mark.nightly)])
def test_one_in_twenty_comparisons_of_equals_finds_something(count: int, most: int) -> None:
    verdict_sets = [set(verdicts(sample(2 * at), sample(2 * at + 1)).values()) for at in range(40, 40 + count)]
    assert 1 <= sum(verdict_set != {compare.UNCLEAR} for verdict_set in verdict_sets) <= most


def test_constant_and_mostly_unknown_metrics_are_compared_too() -> None:
    base, new = sample(1), sample(2, slower=1.2)
    for pooled in (base, new):
        pooled.columns["ttfc"][:] = 7.0
        pooled.columns["ttfo"][10:] = np.nan
    judgements = verdicts(base, new)
    assert (judgements["ttfc_p50_ms"], judgements["ttfo_p50_ms"], judgements["ttft_p50_ms"]) == (
        compare.UNCLEAR,
        compare.TOO_FEW,
        compare.WORSE,
    )


def test_more_failures_are_found() -> None:
    rows = {row["metric"]: row for row in compare.groups(sample(1), sample(2, failed=60))}
    row = rows["error_rate_pct"]
    assert (row["base_n"], row["new_n"], row["verdict"]) == (412, 460, compare.WORSE)
    assert row["difference"] == pytest.approx(100 * (60 / 460 - 12 / 412), abs=1e-6)
    assert 0 < row["low"] < row["difference"] < row["high"]


@pytest.mark.parametrize(
    ("n", "median", "tail"),
    [(19, compare.TOO_FEW, compare.TOO_FEW), (20, compare.WORSE, compare.TOO_FEW), (100, compare.WORSE, compare.WORSE)],
)
def test_too_few_values_are_not_judged(n: int, median: str, tail: str) -> None:
    judgements = verdicts(sample(1, n), sample(2, 400, slower=9))
    assert (judgements["ttft_p50_ms"], judgements["ttft_p95_ms"]) == (median, tail)


def test_what_is_not_judged_still_has_its_figures() -> None:
    row = compare.groups(sample(1, 5), sample(2, 5))[0]
    assert tuple(row) == tuple(compare.FIELDS)
    assert (row["base_n"], row["low"], row["high"], row["verdict"]) == (5, None, None, compare.TOO_FEW)
    assert row["difference"] == pytest.approx(row["new"] - row["base"])
    nothing = compare.groups(sample(1, 0, failed=0), sample(2))
    assert {row["base"] for row in nothing} == {None}
    assert {row["difference"] for row in nothing} == {None}


def test_a_seed_gives_the_same_intervals() -> None:
    once, repeated, different = (compare.groups(sample(1), sample(2), seed) for seed in (3, 3, 4))
    assert once == repeated
    assert once != different


def test_two_exchanges_are_compared_field_by_field(connection: Connection) -> None:
    a, b = (queries.detail(connection, queries.find(connection, id)) for id in (COMPLETE, TOOLS))
    rows: dict[str, Any] = {row["metric"]: row for row in compare.pair(a, b)}
    ttft = rows["ttft_ms"]
    assert (ttft["a"], ttft["b"], ttft["difference"], ttft["change_pct"]) == (110, 50, -60, pytest.approx(-600 / 11))
    assert (rows["tpot_ms"]["b"], rows["tpot_ms"]["difference"]) == (None, None)
    assert (rows["status"]["a"], rows["status"]["difference"]) == (200, None)
    assert (rows["flags"]["b"], rows["flags"]["change_pct"]) == (["no_usage", "stall"], None)
    assert all(tuple(row) == tuple(compare.PAIR_FIELDS) for row in rows.values())


def test_from_nothing_there_is_no_percentage() -> None:
    a, b = (detailed(bytes=size) for size in (0, 5))
    assert compare.pair(a, b)[-2] == {"metric": "bytes", "a": 0, "b": 5, "difference": 5, "change_pct": None}
