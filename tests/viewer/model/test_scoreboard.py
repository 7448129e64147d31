"""The figures of two exchanges in columns: differences, and which is better."""

from pathlib import Path

import pytest
from sqlalchemy import Connection

from tests.viewer.conftest import COMPLETE, ODD, TOOLS
from viewer import compare, queries
from viewer.model import scoreboard
from viewer.model.scoreboard import Score
from viewer.rows import Row


def scores(connection: Connection, a: str, b: str) -> dict[str, Score]:
    pair = compare.pair(*(queries.detail(connection, queries.find(connection, id)) for id in (a, b)))
    return {score.label.strip(): score for score in scoreboard.scores(pair)}


def test_a_shorter_wait_is_better_and_is_marked(connection: Connection) -> None:
    assert scores(connection, COMPLETE, TOOLS)["TTFT ms"] == Score("TTFT ms ", "110.0 ", "50.0<", "−60.0 ", 1)
    assert scores(connection, TOOLS, COMPLETE)["TTFT ms"] == Score("TTFT ms ", "50.0<", "110.0 ", "+60.0 ", 0)


def test_what_is_unknown_on_a_side_is_not_judged(connection: Connection) -> None:
    assert scores(connection, COMPLETE, TOOLS)["tok/s"] == Score("tok/s ", "50.0 ", "– ", "– ", None)


def test_what_is_no_number_is_the_same_or_differs(connection: Connection) -> None:
    found = scores(connection, COMPLETE, TOOLS)
    assert found["outcome"].difference == "same "
    assert found["finish"].difference == "differs "


def test_a_higher_speed_is_better() -> None:
    row = {"metric": "tps_user", "a": 20.0, "b": 30.0, "difference": 10.0, "change_pct": 50.0}
    found = {score.label: score for score in scoreboard.scores(filled(row))}
    assert found["tok/s "].better == 1
    assert found["out tok "] == Score("out tok ", "1 ", "1 ", "same ", None)


def test_a_difference_that_is_not_seen_has_no_sign_and_nobody_is_better() -> None:
    row = {"metric": "ttft_ms", "a": 20.01, "b": 20.0, "difference": -0.01, "change_pct": -0.05}
    found = {score.label: score for score in scoreboard.scores(filled(row))}
    assert found["TTFT ms "] == Score("TTFT ms ", "20.0 ", "20.0 ", "0.0 ", None)


@pytest.mark.parametrize("metric", ["icl_p50_ms", "icl_p99_ms", "max_stall_ms", "tpot_ms", "tps_user"])
def test_gaps_are_not_judged_where_output_came_many_chunks_at_once(metric: str) -> None:
    pair = filled({"metric": metric, "a": 0.0, "b": 12.0, "difference": 12.0, "change_pct": None})
    assert [score.better for score in scoreboard.scores(pair, gaps_say_little=True)] == [None] * 10
    assert [score.better for score in scoreboard.scores(pair)].count(None) == 9
    waited = filled({"metric": "ttft_ms", "a": 1.0, "b": 12.0, "difference": 11.0, "change_pct": None})
    assert scoreboard.scores(waited, gaps_say_little=True)[0].better == 0


def filled(row: Row) -> list[Row]:
    others = [{"metric": name, "a": 1, "b": 1, "difference": 0, "change_pct": 0} for _, name in scoreboard._COLUMNS]
    return [row, *(other for other in others if other["metric"] != row["metric"])]


def test_recorded_words_are_safe(connection: Connection, tape: Path) -> None:
    shown = "".join(score.a + score.b for score in scores(connection, ODD, COMPLETE).values())
    assert shown.isprintable()


@pytest.mark.parametrize(("divergence", "said"), [(None, "same"), (1234, "differ at 1,234")])
def test_texts_are_measured_and_told_apart(divergence: int | None, said: str) -> None:
    assert scoreboard.text_score((1204, 0), divergence) == Score("text", "1,204 ch", "0 ch", said, None)


def test_the_most_telling_figures_stay_where_there_is_little_room() -> None:
    found = [Score("one", "1", "1", "0", None), Score("two", "2", "2", "0", None), Score("text", "t", "t", "", None)]
    assert scoreboard.fitting(found, 13) == found
    assert scoreboard.fitting(found, 12) == [found[0], found[2]]
    assert scoreboard.fitting(found, 3) == [found[2]]
