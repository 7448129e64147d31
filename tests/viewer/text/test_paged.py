"""A page of lines: its rows of a width, and where words begin in them."""

from wiretape.viewer.text.cells import Part
from wiretape.viewer.text.paged import WrappedPage

LINES: list[list[Part]] = [
    [("user  ", "strong"), ("Why did the answer stall, and who made it stall?", "plain")],
    [],
    [("Stall", "muted")],
    [("{", "muted"), ('"model"', "accent"), (": 1", "plain")],
    [("\x1b]0;t\x07 st\tall", "plain")],
]


def text(page: WrappedPage) -> list[str]:
    return ["".join(piece for piece, _ in row) for row in page.rows]


def test_the_last_piece_of_a_line_wraps_below_itself() -> None:
    assert text(WrappedPage(LINES, 33)) == [
        "user  Why did the answer stall, ", "      and who made it stall?", "", "Stall", '{"model": 1',
        "␛]0;t␇ st   all",
    ]  # fmt: skip
    assert text(WrappedPage()) == []


def test_words_match_the_row_in_which_they_begin() -> None:
    page = WrappedPage(LINES, 33)
    assert page.matches("STALL") == [0, 1, 3]
    assert page.matches("stall, and") == [0]
    assert page.matches("and who") == [1]
    assert page.matches("r  Why") == [0]
    assert page.matches('"model": 1') == [4]
    assert page.matches("[0") == page.matches("") == []
    assert page.matches("]0;t") == [5]
