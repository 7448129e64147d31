"""Lines of a text of any length: at words, in cells, and only as far as they are asked for."""

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from viewer.model.text.wrap import Folding


def lines(text: str, width: int) -> list[str]:
    folding = Folding(text, width)
    folding.more(10_000)
    return [text[slice(*folding.span(line))] for line in range(len(folding))]


def test_lines_end_at_line_feeds_and_at_the_last_space_that_fits() -> None:
    assert lines("the quick brown fox", 10) == ["the quick ", "brown fox"]
    assert lines("one\n\ntwo\n", 10) == ["one", "", "two", ""]
    assert lines("", 10) == [""]


def test_what_has_no_space_is_cut() -> None:
    assert lines("abcdefghij", 4) == ["abcd", "efgh", "ij"]


def test_widths_are_in_cells() -> None:
    assert lines("日本語テキスト", 6) == ["日本語", "テキス", "ト"]


@given(st.text(alphabet="ab \n日é", max_size=60), st.integers(2, 9))
def test_nothing_is_lost_and_nothing_is_too_wide(text: str, width: int) -> None:
    folding = Folding(text, width)
    folding.more(1000)
    spans = [folding.span(line) for line in range(len(folding))]
    assert folding.done
    assert all(cell_len(text[start:end].rstrip(" ")) <= width for start, end in spans)
    between = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    assert set(between) <= {"", "\n"}
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text) - text.endswith("\n") * (spans[-1][0] != len(text))
    assert all(folding.line_of(start) == line for line, (start, _) in enumerate(spans))


def test_a_line_of_ten_megabytes_costs_what_is_asked_of_it() -> None:
    folding = Folding("x" * 10_000_000, 80)
    began = time.perf_counter()
    folding.more(200)
    assert (len(folding), folding.done) == (201, False)
    assert time.perf_counter() - began < 0.5
