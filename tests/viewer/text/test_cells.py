"""Parts of a line: items in as many lines as they need."""

from wiretape.viewer.text import cells
from wiretape.viewer.text.cells import Part


def lines(width: int, *texts: str) -> list[str]:
    items: list[list[Part]] = [[(text[:1], "strong"), (text[1:], "plain")] for text in texts]
    return ["".join(text for text, _ in line) for line in cells.in_lines(items, width)]


def test_items_are_never_cut_between_two_lines() -> None:
    assert lines(9, "one", "four", "seven") == ["one  four", "seven"]
    assert lines(8, "one", "four", "seven") == ["one", "four", "seven"]
    assert lines(2, "one", "four") == ["one", "four"]
    assert lines(9, "界一", "four") == ["界一", "four"]
    assert lines(9) == []
