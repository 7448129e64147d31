"""The figures of exchanges that are compared: of two side by side, and of several in a table."""

from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from tests.support.cases import each_case
from tests.support.exchanges import listed
from tests.support.sample_tape import COMPLETE, HOSTILE, LIVE, ODD, TOOLS, TRUNCATED
from wiretape.recorder.clock import Clock
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.listing import ranking
from wiretape.viewer.listing.ranking import LABELS, RankedExchange, Score
from wiretape.viewer.record.rows import DetailRow, ListRow
from wiretape.viewer.source.tape import live, queries

SECOND = 1_000_000_000
NOON = Clock(lambda: 0, lambda: 1_772_366_400 * SECOND)


def entry(no: int, outcome: str = "complete", flags: tuple[str, ...] = (), **figures: Any) -> RankedExchange:
    facts = {"id": f"{no:016x}", "model": "m", "upstream": "https://u", "outcome": outcome, "flags": list(flags)}
    return RankedExchange(no, listed(**(facts | figures)), RecorderRun(1, ""))


def text(parts: Any) -> str:
    return "".join(part for part, _ in parts)


def test_the_best_is_the_shortest_or_the_fastest() -> None:
    winners = ranking.best([
        entry(1, ttft_ms=20.0, tps_user=5.0), entry(2, ttft_ms=10.0, tps_user=9.0), entry(3, ttft_ms=10.01),
    ])  # fmt: skip
    assert winners == {"ttft_ms": {2, 3}, "tps_user": {2}}


def test_nothing_is_best_alone_or_among_equals() -> None:
    assert ranking.best([entry(1, ttft_ms=10.0), entry(2), entry(3)]) == {}
    assert ranking.best([entry(1, ttft_ms=10.0), entry(2, ttft_ms=10.0)]) == {}
    assert ranking.best([]) == {}


def test_incomplete_answers_have_no_best_total() -> None:
    winners = ranking.best([
        entry(1, duration_ms=90.0), entry(2, duration_ms=80.0), entry(3, "truncated", duration_ms=1.0),
        entry(4, "open", duration_ms=2.0),
    ])  # fmt: skip
    assert winners == {"duration_ms": {2}}


def test_order_is_best_first_and_unknown_last() -> None:
    winners = [entry(1, ttft_ms=20.0, tps_user=1.0), entry(2), entry(3, ttft_ms=10.0, tps_user=2.0)]
    assert [item.no for item in ranking.ordered(winners, None)] == [1, 2, 3]
    assert [item.no for item in ranking.ordered(winners, None, reverse=True)] == [3, 2, 1]
    assert [item.no for item in ranking.ordered(winners, "ttft_ms")] == [3, 1, 2]
    assert [item.no for item in ranking.ordered(winners, "ttft_ms", reverse=True)] == [1, 3, 2]
    assert [item.no for item in ranking.ordered(winners, "tps_user")] == [3, 1, 2]


def test_narrow_tables_drop_columns_before_the_drawing() -> None:
    entries = [entry(1, ttft_ms=1234.5, max_gap_ms=2.0, duration_ms=12345.0)]
    wide, narrow = ranking.layout(entries, 160), ranking.layout(entries, 60)
    assert list(wide.widths)[:3] == ["id", "model", "upstream"]
    assert {"id", "ttft_ms", "model"} <= set(narrow.widths) < set(wide.widths)
    assert wide.gap_cells >= 32
    assert narrow.gap_cells >= 12


@each_case("width", [20, 60, 80, 120, 200])
def test_lines_fill_no_more_than_their_width(width: int) -> None:
    entries = [
        entry(1, model=HOSTILE, finish_reason=HOSTILE, ttft_ms=50.0, duration_ms=1e7),
        entry(2, "open", duration_ms=500.0, ttft_ms=40.0, model="日本語" * 20),
    ]
    columns, axis = ranking.layout(entries, width), ranking.axis_ns(entries)
    lines = [text(ranking.line(item, columns, ranking.best(entries), axis)) for item in entries]
    assert max(map(cell_len, [*lines, text(ranking.head(columns, "ttft_ms", axis))])) <= width
    assert all(line.isprintable() for line in lines)


def test_line_marks_best_growing_and_unknown_figures() -> None:
    entries = [entry(1, ttft_ms=50.0, duration_ms=1000.0), entry(2, "open", ttft_ms=40.0, duration_ms=500.0)]
    columns = ranking.layout(entries, 100)
    winners = ranking.best(entries)
    entry_, second = (text(ranking.line(item, columns, winners, SECOND)) for item in entries)
    assert entry_.split()[:5] == ["✓", "00000000", "m", "u", "complete"]
    assert second.split()[:5] == ["●", "00000000", "m", "u", "open"]
    assert " 50.0 " in entry_
    assert " 40.0<" in second
    assert " 500.0+" in second
    assert "ICL" not in text(ranking.head(columns, None, SECOND))  # it is unknown of both
    assert "│" in entry_
    assert "│" not in second  # it has not ended


def test_all_drawings_are_on_the_axis_of_the_longest() -> None:
    entries = [entry(1, ttft_ms=500.0, duration_ms=1000.0), entry(2, ttft_ms=500.0, duration_ms=2000.0)]
    axis = ranking.axis_ns(entries)
    assert axis == 2 * SECOND
    columns = ranking.layout(entries, 120)
    ends = [text(ranking.line(item, columns, {}, axis)).index("│") for item in entries]
    assert ends[1] == 119
    assert ends[0] == pytest.approx(119 - columns.gap_cells / 2, abs=1)
    assert ranking.axis_ns([]) == 0


def test_sorted_column_has_a_sign() -> None:
    entries = [entry(1, ttft_ms=50.0, tps_user=3.0)]
    columns = ranking.layout(entries, 120)
    assert "TTFT ms▲" in text(ranking.head(columns, "ttft_ms", 0))
    assert "TTFT ms▼" in text(ranking.head(columns, "ttft_ms", 0, reverse=True))
    assert "TPS▼" in text(ranking.head(columns, "tps_user", 0))
    assert "▲" not in text(ranking.head(columns, None, 0))


def running_entry(heartbeat_at: str, **more: Any) -> RankedExchange:
    running = entry(1, "open", started_at="2026-03-01T11:59:50.000000Z", last_read_ms=120.0, ttft_ms=50.0, **more)
    return replace(running, run=RecorderRun(1, heartbeat_at))


def test_running_exchange_has_lasted_until_now() -> None:
    running = running_entry("2026-03-01T11:59:58.000000Z").by_now(NOON)
    assert (running.row.outcome, running.row.duration_ms) == ("open", 10_000.0)
    line = text(ranking.line(running, ranking.layout([running], 100), {}, ranking.axis_ns([running])))
    assert " 10,000.0+" in line


def test_an_orphaned_exchange_stops_growing() -> None:
    running = running_entry("2026-03-01T11:59:20.000000Z").by_now(NOON)
    assert (running.row.outcome, running.row.duration_ms) == ("orphan", 120.0)
    parts = list(ranking.line(running, ranking.layout([running], 100), {}, ranking.axis_ns([running])))
    assert parts[0] == ("? ", "warning")
    assert ("orphan", "warning") in parts
    assert " 120.0 " in text(parts)
    assert not {"+", "│"} & set(text(parts))


def test_ended_exchange_does_not_change() -> None:
    ended, unmeasured = entry(1, duration_ms=90.0), running_entry("", ended_by="end")
    assert (ended.by_now(NOON), unmeasured.by_now(NOON)) == (ended, unmeasured)


def test_sign_of_a_figure_precedes_a_blank() -> None:
    figures = dict.fromkeys(ranking.LABELS, 12.5) | {
        "outcome": "open",
        "finish_reason": "stop",
        "output_tokens": 3,
    }
    entries = [entry(1, **figures), entry(2, **(figures | {"outcome": "complete", "ttft_ms": 1.0}))]
    columns, winners = ranking.layout(entries, 200), ranking.best(entries)
    for item in entries:
        line = text(ranking.line(item, columns, winners, SECOND))
        assert all(line[at + 1] == " " for at, sign in enumerate(line) if sign in "+<")


def detail(connection: Connection, id: str) -> DetailRow:
    return queries.detail(connection, queries.find(connection, id))


def scored(a: ListRow, b: ListRow) -> dict[str, Score]:
    return {score.label.strip(): score for score in ranking.scores(a, b)}


def scores(connection: Connection, a: str, b: str) -> dict[str, Score]:
    return scored(detail(connection, a), detail(connection, b))


def row(outcome: str = "complete", flags: tuple[str, ...] = (), **figures: Any) -> ListRow:
    """Make a row in which all durations are 10.0 ms, or as given."""
    values_by_label = dict.fromkeys(LABELS, 10.0) | {"tps_user": 10.0, "output_tokens": 1, "finish_reason": "stop"}
    return listed(**(values_by_label | {"outcome": outcome, "flags": list(flags)} | figures))


def test_a_shorter_wait_is_better_and_is_marked(connection: Connection) -> None:
    assert scores(connection, COMPLETE, TOOLS)["TTFT ms"] == Score("TTFT ms ", "110.0 ", "50.0<", "−60.0 ", 1)
    assert scores(connection, TOOLS, COMPLETE)["TTFT ms"] == Score("TTFT ms ", "50.0<", "110.0 ", "+60.0 ", 0)


def test_unknown_figures_are_not_judged(connection: Connection) -> None:
    assert scores(connection, COMPLETE, TOOLS)["TPS"] == Score("TPS ", "50.0 ", "– ", "– ", None)


def test_words_are_the_same_or_differ(connection: Connection) -> None:
    results = scores(connection, COMPLETE, TOOLS)
    assert results["OUTCOME"].difference == "same "
    assert results["FINISH"].difference == "differs "


def test_higher_speed_is_better_but_longer_is_not() -> None:
    results = scored(row(), row(tps_user=30.0, output_tokens=9))
    assert results["TPS"] == Score("TPS ", "10.0 ", "30.0<", "+20.0 ", 1)
    assert results["TOKENS"] == Score("TOKENS ", "1 ", "9 ", "+8 ", None)


def test_invisible_difference_has_no_sign_and_no_winner() -> None:
    results = scored(row(ttft_ms=20.01), row(ttft_ms=20.0))
    assert results["TTFT ms"] == Score("TTFT ms ", "20.0 ", "20.0 ", "0.0 ", None)


@each_case("outcome", ["truncated", "error_event", "client_closed", "timeout", "open"])
def test_only_ttft_is_judged_of_incomplete_answers(outcome: str) -> None:
    short = {name: 0.7 for name in LABELS if name.endswith("_ms")}
    results = scored(row(), row(outcome, tps_user=99.0, **short))
    assert {label for label, score in results.items() if score.better is not None} == {"TTFT ms"}
    assert results["TTFT ms"].better == 1


def test_truncated_answer_is_not_quicker_than_a_complete_one(connection: Connection) -> None:
    assert scores(connection, TRUNCATED, COMPLETE)["DUR ms"].better is None


def test_an_empty_answer_is_not_a_quick_one() -> None:
    assert scored(row(), row(flags=("empty",), duration_ms=1.0))["DUR ms"].better is None


@each_case("flag", ["burst", "coalesced", "single_chunk"])
@each_case("metric", ["icl_p50_ms", "icl_p99_ms", "max_gap_ms", "tpot_ms", "tps_user"])
def test_gaps_of_bursts_are_not_judged(metric: str, flag: str) -> None:
    label = LABELS[metric]
    assert scored(row(**{metric: 0.0}), row())[label].better is not None
    assert scored(row(**{metric: 0.0}, flags=(flag,)), row())[label].better is None
    assert scored(row(ttft_ms=1.0, flags=(flag,)), row())["TTFT ms"].better == 0


def test_figures_of_a_running_exchange_may_grow_except_ttft(connection: Connection) -> None:
    no = queries.find(connection, LIVE)
    running_row = live.filled(queries.detail(connection, no), live.figures(connection, no))
    unended = replace(running_row, duration_ms=110.0)
    results = scored(unended, detail(connection, TOOLS))
    assert (results["TTFT ms"].a, results["DUR ms"].a, results["OUTCOME"].a) == ("110.0 ", "110.0+", "open ")
    assert (results["TTFT ms"].better, results["ICL p50"].a) == (1, "– ")


@pytest.mark.parametrize(("lasted", "expected"), [(150.0, "+50.0 "), (100.0, "same "), (60.0, "−40.0 ")])
def test_difference_has_its_sign_while_one_side_runs(lasted: float, expected: str) -> None:
    for sides in (
        (row(duration_ms=100.0), row("open", duration_ms=lasted)),
        (
            row("open", duration_ms=100.0),
            row("open", duration_ms=lasted),
        ),
    ):
        assert scored(*sides)["DUR ms"].difference == expected


def test_orphan_is_named_and_stops_growing() -> None:
    results = scored(row(), row("orphan", duration_ms=99.0))
    assert (results["OUTCOME"].b, results["DUR ms"].b, results["DUR ms"].better) == ("orphan ", "99.0 ", None)


def test_recorded_words_are_safe(connection: Connection) -> None:
    shown = "".join(score.a + score.b for score in scores(connection, ODD, COMPLETE).values())
    assert shown.isprintable()


@each_case(
    ("divergence", "growing", "difference"),
    [(None, False, "same"), (1233, False, "differ at 1,234"), (None, True, "same so far"), (0, True, "differ at 1")],
)
def test_texts_are_measured_and_compared(divergence: int | None, growing: bool, difference: str) -> None:
    score = ranking.text_score((1204, 7), divergence, growing=growing)
    assert score == Score("TEXT", "1,204 ch", "7 ch", difference, None)


@each_case(
    ("lengths", "divergence", "difference"),
    [((3, 0), 0, "only A"), ((0, 3), 0, "only B"), ((0, 0), None, "–"), ((3, 0), None, "–")],
)
def test_missing_texts_are_not_compared(lengths: tuple[int, int], divergence: int | None, difference: str) -> None:
    score = ranking.text_score(lengths, divergence, growing=divergence is None)
    assert (score.difference, [score.a, score.b].count("none")) == (difference, lengths.count(0))


def test_most_telling_figures_stay_where_room_is_short() -> None:
    score = [Score("one", "1", "1", "0", None), Score("two", "2", "2", "0", None), Score("TEXT", "t", "t", "", None)]
    assert ranking.fitting_scores(score, 13) == score
    assert ranking.fitting_scores(score, 12) == [score[0], score[2]]
    assert ranking.fitting_scores(score, 3) == [score[2]]
