"""The curves of a race, with the finish of each lane, in cells."""

import math
from bisect import bisect_right
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample_tape import MS
from wiretape.viewer.exchange import race_drawing
from wiretape.viewer.exchange.race_drawing import FINISH, Course, Drawing, RaceCell
from wiretape.viewer.text import sparkline

STEPS = st.lists(st.tuples(st.integers(1, 900), st.integers(1, 40)), max_size=12)
BITS = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)


def course(
    steps: list[tuple[int, int]], start_ms: int = 0, more_ms: int = 0, *, unit_ms: int = 5, is_live: bool = False
) -> Course:
    """Make a lane of the times between its reads, in ms, and the characters of each."""
    at = [start_ms * MS + ms * MS for ms in accumulate(ms for ms, _ in steps)]
    sizes = [0, *accumulate(size for _, size in steps)]
    end = (at[-1] if at else start_ms * MS) + more_ms * MS
    return Course(start_ms * MS, at, end, lambda at_ns: sizes[bisect_right(at, at_ns)], unit_ms * MS, is_live=is_live)


def text(drawing: Drawing) -> list[str]:
    return ["".join(cell.sign for cell in row) for row in drawing.rows]


@given(STEPS, STEPS, st.integers(0, 500), st.integers(0, 500), st.integers(1, 60), st.integers(1, 6))
def test_each_cell_has_both_lanes_characters_so_far(
    a: list[tuple[int, int]], b: list[tuple[int, int]], start: int, more: int, cells: int, rows: int
) -> None:
    lanes = course(a, 0, more, is_live=True), course(b, start, 0, is_live=True)
    axis = max(lanes[0].end_ns, lanes[1].end_ns, 1)
    plot = race_drawing.draw(lanes, axis, 0, cells, rows).rows[:-2]
    most = max(lane.count(lane.end_ns) for lane in lanes)
    for column in range(2 * cells):
        dots = {row * 4 + dot + 1 for row, line in enumerate(reversed(plot)) for dot, bit in enumerate(BITS[column % 2])
                if line and _braille(line[column // 2]) & bit}  # fmt: skip
        levels = set()
        for lane in lanes:
            if column * axis < lane.end_ns * 2 * cells:
                levels.add(math.ceil(lane.count((column + 1) * axis // (2 * cells)) * 4 * rows / most) if most else 0)
        assert levels - {0} <= dots
        assert max(dots, default=0) == max(levels, default=0)


def _braille(cell: RaceCell) -> int:
    return ord(cell.sign) - 0x2800 if ord(cell.sign) >= 0x2800 else 0


def test_a_cell_of_both_curves_belongs_to_both_lanes() -> None:
    drawing = race_drawing.draw((course([(100, 10), (100, 10)]), course([(150, 10)], 0, 50)), 200 * MS, 0, 8, 1)
    assert [cell.look for cell in drawing.rows[0]][3:] == ["a", "a", "both", "both", "both"]


def test_a_finish_line_shows_a_lanes_end_and_time() -> None:
    lanes = course([(300, 10)], 0, 300), course([(100, 5), (100, 5)], 0, 400)
    drawing = text(race_drawing.draw(lanes, 1_000 * MS, 0, 40, 4))
    ends = [sparkline.cell(lane.end_ns, 1_000 * MS, 40) for lane in lanes]
    assert ends == [23, 23]
    drawing = text(race_drawing.draw((lanes[0], course([(1_000, 10)])), 1_000 * MS, 100 * MS, 40, 4))
    assert [row[23] for row in drawing[1:4]] == [FINISH] * 3
    assert drawing[3].endswith(f" A 0.500 s {FINISH}     B 0.900 s ⢸")


def test_a_running_lane_has_no_finish_line() -> None:
    lanes = course([(300, 10)], 0, 300, is_live=True), course([(200, 5)], 0, 300, is_live=True)
    assert FINISH not in "".join(text(race_drawing.draw(lanes, 600 * MS, 0, 40, 4)))


def test_a_label_without_room_left_stands_right() -> None:
    drawing = text(race_drawing.draw((course([], 0, 50), course([(1_000, 9)])), 1_000 * MS, 0, 40, 3))
    assert drawing[2].startswith(f" {FINISH} A 0.050 s ")


def test_both_lanes_have_the_unit_of_the_faster_one() -> None:
    lanes = course([(100, 1)] * 4, unit_ms=100), course([(10, 1)] * 4, unit_ms=10)
    for slow, fast in ((0, 1), (1, 0)):
        drawing = text(race_drawing.draw((lanes[slow], lanes[fast]), 400 * MS, 0, 4, 0))
        assert [drawing[slow].strip(" ·"), drawing[fast].strip("│ ")] == ["▄▄▄", "▁"]


def test_a_race_without_text_or_time_has_empty_rows() -> None:
    drawing = race_drawing.draw((course([]), course([])), 0, 0, 10, 3)
    assert ["".join(row).strip() for row in text(drawing)] == [""] * 5


def test_the_number_of_characters_tops_curves_with_room() -> None:
    lanes = course([(800, 1_234)]), course([])
    assert text(race_drawing.draw(lanes, 800 * MS, 0, 40, 3))[0].startswith("1,234 characters  ")
    assert "1,234" not in text(race_drawing.draw(lanes, 800 * MS, 0, 29, 3))[0]
