"""How a lane stands, in a line."""

from typing import Any

import pytest

from tests.viewer.conftest import MS
from tests.viewer.model.exchange.test_race import FAST, lane, whole_answer
from viewer.model.exchange import standing
from viewer.model.exchange.race import Lane
from viewer.model.silence import Silence
from viewer.rows import Row

WIDE = 200


def told(lane: Lane, position: int, row: Row, room: int, **more: Any) -> str:
    return "".join(text for text, _ in standing.told(lane, position, row, room, **more))


def row(outcome: str = "complete", **more: Any) -> Row:
    told = {"ttft_ms": 100.0, "tps_user": 12.5, "tokens_per_chunk": 2.0, "flags": [], "ended_by": "end"}
    return {"outcome": outcome} | told | more


def test_before_its_first_output_a_lane_waits() -> None:
    assert told(lane(FAST), 0, row(), WIDE) == "no output yet  #–/#2  0 ch"


def test_on_its_way_tokens_a_second_are_estimated_by_chunks() -> None:
    said = told(lane(FAST), 2, row(), WIDE)
    assert said == "T 100 ms  #1/#2  ~20.0 tok/s  gap 100.0 ms  0.200 s  8 ch"


def test_at_the_end_the_outcome_and_the_figure_of_usage_stand() -> None:
    said = told(lane(FAST), 3, row(), WIDE)
    assert said == "✓ complete  T 100 ms  #2/#2  12.5 tok/s  gap 100.0 ms  0.300 s  13 ch"


def test_without_usage_chunks_are_counted_and_of_a_burst_nothing() -> None:
    unused = row(tps_user=None, tokens_per_chunk=None)
    assert "  10.0 chunks/s  " in told(lane(FAST), 3, unused, WIDE)
    assert "/s" not in told(lane(FAST), 2, unused | {"flags": ["burst"]}, WIDE)


def test_chunks_of_one_read_have_no_gap() -> None:
    assert "  same read  " in told(lane([(100, "a"), (100, "b")]), 2, row(), WIDE)


def test_one_that_runs_is_open_and_its_instant_grows() -> None:
    one = Lane(lane(FAST).transcript, 300 * MS, None, is_live=True)
    open_row = row("open", tps_user=None, tokens_per_chunk=None, ended_by=None)
    assert told(one, 3, open_row, WIDE).startswith("● open  T 100 ms  #2/#2  10.0 chunks/s")
    assert told(one, 3, open_row, WIDE).endswith("  0.300+ s  13 ch")
    assert told(one, 3, open_row | {"outcome": "orphan"}, WIDE).startswith("? orphan  T 100 ms")


def test_the_silence_at_the_playhead_is_displayed_and_a_stall_is_an_error() -> None:
    one = Lane(lane(FAST).transcript, 300 * MS, None, is_live=True)
    for silence, tone in ((Silence(900 * MS), "warning"), (Silence(2_400 * MS, stalled=True), "error")):
        found = standing.told(one, 3, row("open"), WIDE, silence=silence)
        assert found[:2] == [("● open", "accent"), (f"  {silence}", tone)]
        assert told(one, 2, row("open"), WIDE, silence=silence).startswith(f"{silence}  T 100 ms")


def test_instants_count_from_what_is_aligned() -> None:
    assert "  −0.100 s  " in told(lane(FAST), 1, row(), WIDE, zero_ns=200 * MS)
    assert "  0.100+ s  " not in told(lane(FAST), 3, row(), WIDE, zero_ns=200 * MS)
    assert "  0.100 s  " in told(lane(FAST), 3, row(), WIDE, zero_ns=200 * MS)


def test_one_that_ended_without_output_says_so() -> None:
    found = told(lane([], 50), 0, row("http_error", ttft_ms=None, tps_user=None), WIDE)
    assert found == "✗ http_error  no output  #–/#–  0 ch"


def test_an_unknown_instant_is_not_that_of_the_request() -> None:
    found = told(whole_answer(500), 1, row(ttft_ms=None, tps_user=None), WIDE)
    assert found == "✓ complete  T –  #0/#0  instant unknown  2 ch"


@pytest.mark.parametrize(("room", "said"), [
    (40, "✓ complete  T 100 ms  #2/#2  12.5 tok/s"),
    (39, "✓ complete  T 100 ms  #2/#2  12.5 tok/s"),
    (38, "✓ complete  T 100 ms  #2/#2"),
    (3, "✓ complete"),
])  # fmt: skip
def test_the_most_telling_stays_where_there_is_little_room(room: int, said: str) -> None:
    assert told(lane(FAST), 3, row(), room) == said
