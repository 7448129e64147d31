"""A stream as a bar of cells on an axis, and the axis."""

from tests.support.cases import each_case
from wiretape.viewer.text import waterfall
from wiretape.viewer.text.waterfall import Axis, PhaseBar

S = 1_000_000_000
MS = 1_000_000


def text(bar: PhaseBar, axis: Axis | None, cells: int, ending: str = "✓") -> str:
    return "".join(part for part, _ in waterfall.draw(bar, axis, cells, ending))


def test_a_bar_has_wait_reasoning_content_and_end() -> None:
    bar = PhaseBar(10 * S, first_ns=2 * S, answer_ns=5 * S, thought_ns=3 * S, last_ns=9 * S)
    assert waterfall.draw(bar, Axis(20 * S), 21, "✓") == [
        ("░░", "wait"), ("▓▓▓", "reasoning"), ("████", "content"), ("░", "wait"), ("✓", "end"),
    ]  # fmt: skip


def test_a_stall_has_its_length_where_there_is_room() -> None:
    bar = PhaseBar(10 * S, first_ns=S, answer_ns=S, last_ns=10 * S, stalls=[(2 * S, 8 * S)])
    assert text(bar, Axis(10 * S), 31) == "░░░███╱╱╱╱╱ 6.0 s ╱╱╱╱╱╱██████✓"
    assert text(bar, Axis(10 * S), 11) == "░█╱╱╱╱╱╱██✓"


def test_stalls_that_follow_each_other_have_each_their_length() -> None:
    bar = PhaseBar(20 * S, first_ns=0, answer_ns=0, last_ns=20 * S, stalls=[(0, 10 * S), (10 * S, 20 * S)])
    text_shown = text(bar, Axis(20 * S), 41)
    assert text_shown.count(" 10.0 s ") == 2


def test_output_without_an_answer_is_reasoning() -> None:
    assert text(PhaseBar(4 * S, first_ns=S, last_ns=3 * S), Axis(4 * S), 5) == "░▓▓░✓"


def test_an_exchange_without_output_is_a_wait() -> None:
    assert text(PhaseBar(4 * S), Axis(8 * S), 9, "✗") == "░░░░✗"


@each_case("cells", [2, 3, 8, 48])
def test_what_is_shorter_than_a_cell_still_has_one(cells: int) -> None:
    text_shown = text(PhaseBar(MS, first_ns=MS // 2, answer_ns=MS // 2, last_ns=MS), Axis(60 * S), cells)
    assert text_shown == "█✓"


@each_case("cells", range(1, 60))
def test_a_bar_is_never_wider_than_its_cells(cells: int) -> None:
    bar = PhaseBar(10 * S, first_ns=S, answer_ns=4 * S, thought_ns=3 * S, last_ns=9 * S, stalls=[(5 * S, 8 * S)])
    assert len(text(bar, Axis(9 * S), cells)) <= cells
    assert len(text(bar, None, cells)) in (0, cells)


def test_on_its_own_axis_a_bar_takes_all_cells() -> None:
    assert text(PhaseBar(MS, first_ns=0, answer_ns=0, last_ns=MS), None, 8) == "███████✓"


@each_case(
    ("longest", "length"),
    [(3_032 * MS, 3_500 * MS), (3_500 * MS, 3_500 * MS), (60 * S, 60 * S), (61 * S, 70 * S), (101 * MS, 120 * MS),
     (999 * MS, S), (1, 1)],
)  # fmt: skip
def test_an_axis_is_rounded_up_finely(longest: int, length: int) -> None:
    assert waterfall.axis([longest, longest // 2]).length_ns == length


def test_an_axis_is_logarithmic_above_a_ratio_of_twenty() -> None:
    assert waterfall.axis([S, 20 * S]).bend_ns is None
    assert waterfall.axis([S, 21 * S]).bend_ns == S


def test_a_logarithmic_axis_tells_short_streams_apart() -> None:
    axis = waterfall.axis([60 * S, 500 * MS, S, 3 * S])
    places = [axis.cell(at, 48) for at in (0, 500 * MS, S, 3 * S, 60 * S)]
    assert places == sorted(set(places))
    assert (places[0], places[-1]) == (0, 48)
    assert places[1] >= 4
    assert places[3] - places[2] >= 5


def test_no_length_has_no_axis() -> None:
    assert waterfall.axis([]) == waterfall.axis([0]) == Axis()
    assert text(PhaseBar(S), Axis(), 20) == ""


@each_case("cells", range(6, 130))
@each_case("axis", [Axis(3_500 * MS), Axis(60 * S, 500 * MS), Axis(120 * MS), None])
def test_a_head_fills_its_cells_and_says_the_scale(axis: Axis | None, cells: int) -> None:
    head = waterfall.head("TIMELINE", axis, cells)
    assert len(head) <= cells
    if axis is not None and cells >= 10:
        assert head.endswith(("3.5 s╷", "60 s╷", "120 ms╷"))
        assert ("log" in head) == (axis.bend_ns is not None)
    if axis is None and cells >= 10:
        assert "own scale" in head


def test_ticks_stand_where_bars_of_their_time_end() -> None:
    axis = Axis(60 * S, 500 * MS)
    head = waterfall.head("TIMELINE", axis, 80)
    bar = text(PhaseBar(10 * S), axis, 80)
    assert head.index("╷10 s") == bar.index("✓")
    assert waterfall.head("TIMELINE", Axis(3_500 * MS), 48) == "TIMELINE     ╷1 s          ╷2 s           3.5 s╷"


def test_every_phase_has_a_sign_of_its_own() -> None:
    assert len(set(waterfall.SIGNS.values())) == 4
