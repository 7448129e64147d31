"""Drawing what has changed: the terminal shows the same as if all had been drawn."""

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style

from viewer.tui.sparing import _cells, _changed

STYLES = [None, Style(bold=True), Style(color="red")]
SIGNS = st.text(alphabet="ab ü█語", min_size=1, max_size=6)
LINES = st.lists(st.builds(Segment, SIGNS, st.sampled_from(STYLES)), min_size=1, max_size=5)


@given(LINES, LINES)
def test_what_differs_put_over_what_stands_there_is_the_new_line(old: list[Segment], new: list[Segment]) -> None:
    before, after = _cells(old), _cells(new)
    size = max(len(before), len(after))
    blank = Segment(" ", None)
    before, after = before + [blank] * (size - len(before)), after + [blank] * (size - len(after))
    shown = list(before)
    for start, changed in _changed(before, after):
        cells = _cells(changed)
        shown[start : start + len(cells)] = cells
    assert shown == after


def test_of_a_line_only_what_is_near_a_change_is_drawn() -> None:
    before, after = _cells([Segment("x" * 60)]), _cells([Segment("x" * 20 + "y" + "x" * 2 + "z" + "x" * 36)])
    assert list(_changed(before, after)) == [(20, [Segment("yxxz")])]
