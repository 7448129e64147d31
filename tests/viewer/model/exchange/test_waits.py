"""Waits on an axis of cells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.viewer.conftest import MS
from viewer import sparkline
from viewer.model.exchange import waits
from viewer.model.exchange.waits import Wait


def found(at: list[int], end: int, cells: int = 30) -> list[Wait]:
    """Return the waits of outputs at these times, on an axis up to `end`, all in ms."""
    return waits.found([ms * MS for ms in at], 0, end * MS, end * MS, cells)


def test_the_wait_for_the_first_output_those_between_and_the_one_before_the_end_are_found() -> None:
    assert found([1000, 1100, 2000, 2900], 3000) == [
        Wait(0, 8, 1000 * MS, "first"),
        Wait(11, 18, 900 * MS, "slow"),
        Wait(20, 27, 900 * MS, "slow"),
    ]
    assert found([100], 3000) == [Wait(1, 29, 2900 * MS, "stalled")]
    assert found([], 3000) == [Wait(0, 29, 3000 * MS, "stalled")]


def test_short_waits_are_none() -> None:
    assert found([300, 600, 900], 1200) == []
    assert found([300, 601, 900], 1200) == [Wait(8, 14, 301 * MS, "slow")]


def test_a_wait_within_one_cell_takes_none() -> None:
    assert found([1000, 1500], 60_000, 10)[0] == Wait(1, 9, 58_500 * MS, "stalled")


def test_a_wait_is_shaded_with_its_length_where_there_is_room() -> None:
    row = "▃         ▇    ▆  ▃"
    shaded = waits.shaded(row, [Wait(1, 9, 2_400 * MS, "stalled"), Wait(11, 14, 850 * MS, "slow")], 20)
    assert shaded == "▃··2.4 s··▇····▆  ▃ "


def test_a_wait_that_is_not_played_in_full_is_marked() -> None:
    long, short = Wait(0, 10, 2_400 * MS, "stalled"), Wait(12, 14, 2_400 * MS, "stalled")
    assert waits.shaded(" " * 15, [long, short], 15, 2_000 * MS) == "··┆2.4 s┆·· ·┆·"
    assert waits.shaded(" " * 15, [long], 15, 2_500 * MS) == "···2.4 s···    "


@pytest.mark.parametrize(
    ("ms", "text"), [(301, "301 ms"), (999, "999 ms"), (999.6, "1.0 s"), (2_440, "2.4 s"), (3_600_000, "3,600.0 s")]
)
def test_a_length_is_written_in_few_characters(ms: float, text: str) -> None:
    assert waits.written(round(ms * MS)) == text


@given(st.lists(st.integers(0, 10**11), max_size=20).map(sorted), st.integers(0, 10**11), st.integers(1, 200))
def test_no_wait_takes_a_cell_in_which_an_output_came_after_another_one(at: list[int], more: int, cells: int) -> None:
    end = (at[-1] if at else 0) + more
    taken = [cell for wait in waits.found(at, 0, end, end, cells) for cell in range(wait.first, wait.last + 1)]
    assert len(taken) == len(set(taken))
    assert all(0 <= cell < cells for cell in taken)
    ended = {sparkline.cell(one, end, cells) for one in at} if end else set()
    assert not ended & set(taken)
