"""The figures of exchanges that are compared: differences, and which is better, where that may be said."""

from typing import Any

import pytest
from sqlalchemy import Connection

from tests.viewer.conftest import COMPLETE, LIVE, ODD, TOOLS, TRUNCATED
from viewer.model.listing import scoreboard
from viewer.model.listing.scoreboard import LABELS, Score
from viewer.rows import Row
from viewer.stats import compare
from viewer.tape import queries, running


def detail(connection: Connection, id: str) -> Row:
    return queries.detail(connection, queries.find(connection, id))


def scored(a: Row, b: Row) -> dict[str, Score]:
    return {score.label.strip(): score for score in scoreboard.scores(compare.pair(a, b), (a, b))}


def scores(connection: Connection, a: str, b: str) -> dict[str, Score]:
    return scored(detail(connection, a), detail(connection, b))


def row(outcome: str = "complete", flags: tuple[str, ...] = (), **figures: Any) -> Row:
    """Make a row in which all durations are 10.0 ms, or as given."""
    told = dict.fromkeys(compare._PAIRED, 10.0) | {"tps_user": 10.0, "completion_tokens": 1, "finish_reason": "stop"}
    return told | {"outcome": outcome, "flags": list(flags)} | figures


def test_a_shorter_wait_is_better_and_is_marked(connection: Connection) -> None:
    assert scores(connection, COMPLETE, TOOLS)["TTFT ms"] == Score("TTFT ms ", "110.0 ", "50.0<", "−60.0 ", 1)
    assert scores(connection, TOOLS, COMPLETE)["TTFT ms"] == Score("TTFT ms ", "50.0<", "110.0 ", "+60.0 ", 0)


def test_what_is_unknown_on_a_side_is_not_judged(connection: Connection) -> None:
    assert scores(connection, COMPLETE, TOOLS)["TOK/s"] == Score("TOK/s ", "50.0 ", "– ", "– ", None)


def test_what_is_no_number_is_the_same_or_differs(connection: Connection) -> None:
    found = scores(connection, COMPLETE, TOOLS)
    assert found["OUTCOME"].difference == "same "
    assert found["FINISH"].difference == "differs "


def test_a_higher_speed_is_better_and_a_longer_answer_is_not() -> None:
    found = scored(row(), row(tps_user=30.0, completion_tokens=9))
    assert found["TOK/s"] == Score("TOK/s ", "10.0 ", "30.0<", "+20.0 ", 1)
    assert found["TOK"] == Score("TOK ", "1 ", "9 ", "+8 ", None)


def test_a_difference_that_is_not_seen_has_no_sign_and_nobody_is_better() -> None:
    found = scored(row(ttft_ms=20.01), row(ttft_ms=20.0))
    assert found["TTFT ms"] == Score("TTFT ms ", "20.0 ", "20.0 ", "0.0 ", None)


@pytest.mark.parametrize("outcome", ["truncated", "error_event", "client_closed", "timeout", "open"])
def test_only_the_wait_for_the_first_output_is_judged_of_what_broke_off_or_runs(outcome: str) -> None:
    short = {name: 0.7 for name in LABELS if name.endswith("_ms")}
    found = scored(row(), row(outcome, tps_user=99.0, **short))
    assert {label for label, score in found.items() if score.better is not None} == {"TTFT ms"}
    assert found["TTFT ms"].better == 1


def test_one_that_broke_off_is_not_quicker_than_one_that_is_complete(connection: Connection) -> None:
    assert scores(connection, TRUNCATED, COMPLETE)["DUR ms"].better is None


def test_an_empty_answer_is_not_a_quick_one() -> None:
    assert scored(row(), row(flags=("empty",), duration_ms=1.0))["DUR ms"].better is None


@pytest.mark.parametrize("flag", ["burst", "coalesced", "single_chunk"])
@pytest.mark.parametrize("metric", ["icl_p50_ms", "icl_p99_ms", "max_stall_ms", "tpot_ms", "tps_user"])
def test_gaps_are_not_judged_where_output_came_many_chunks_at_once(metric: str, flag: str) -> None:
    label = LABELS[metric]
    assert scored(row(**{metric: 0.0}), row())[label].better is not None
    assert scored(row(**{metric: 0.0}, flags=(flag,)), row())[label].better is None
    assert scored(row(ttft_ms=1.0, flags=(flag,)), row())["TTFT ms"].better == 0


def test_figures_of_one_that_runs_may_grow_but_its_first_output_has_come(connection: Connection) -> None:
    no = queries.find(connection, LIVE)
    live = running.filled(queries.detail(connection, no), running.figures(connection, no)) | {"duration_ms": 110.0}
    found = scored(live, detail(connection, TOOLS))
    assert (found["TTFT ms"].a, found["DUR ms"].a, found["OUTCOME"].a) == ("110.0 ", "110.0+", "open ")
    assert (found["TTFT ms"].better, found["ICL50"].a) == (1, "– ")


@pytest.mark.parametrize(("lasted", "told"), [(150.0, "+50.0 "), (100.0, "same "), (60.0, "−40.0 ")])
def test_a_difference_has_its_sign_while_one_of_them_runs(lasted: float, told: str) -> None:
    for sides in (
        (row(duration_ms=100.0), row("open", duration_ms=lasted)),
        (
            row("open", duration_ms=100.0),
            row("open", duration_ms=lasted),
        ),
    ):
        assert scored(*sides)["DUR ms"].difference == told


def test_an_orphan_is_called_one_and_grows_no_more() -> None:
    found = scored(row(), row("orphan", duration_ms=99.0))
    assert (found["OUTCOME"].b, found["DUR ms"].b, found["DUR ms"].better) == ("orphan ", "99.0 ", None)


def test_recorded_words_are_safe(connection: Connection) -> None:
    shown = "".join(score.a + score.b for score in scores(connection, ODD, COMPLETE).values())
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("divergence", "growing", "said"),
    [(None, False, "same"), (1233, False, "differ at 1,234"), (None, True, "same so far"), (0, True, "differ at 1")],
)
def test_texts_are_measured_and_told_apart(divergence: int | None, growing: bool, said: str) -> None:
    found = scoreboard.text_score((1204, 7), divergence, growing=growing)
    assert found == Score("TEXT", "1,204 ch", "7 ch", said, None)


@pytest.mark.parametrize(
    ("lengths", "divergence", "said"),
    [((3, 0), 0, "only A"), ((0, 3), 0, "only B"), ((0, 0), None, "–"), ((3, 0), None, "–")],
)
def test_what_has_no_text_is_not_compared(lengths: tuple[int, int], divergence: int | None, said: str) -> None:
    found = scoreboard.text_score(lengths, divergence, growing=divergence is None)
    assert (found.difference, [found.a, found.b].count("none")) == (said, lengths.count(0))


def test_the_most_telling_figures_stay_where_there_is_little_room() -> None:
    found = [Score("one", "1", "1", "0", None), Score("two", "2", "2", "0", None), Score("TEXT", "t", "t", "", None)]
    assert scoreboard.fitting(found, 13) == found
    assert scoreboard.fitting(found, 12) == [found[0], found[2]]
    assert scoreboard.fitting(found, 3) == [found[2]]
