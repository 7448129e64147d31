"""Wrapping: lines of a pane from the end of a text that grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from recorder.sanitize import safe
from tests.viewer.conftest import HOSTILE
from viewer.model.text import wrapping


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one two ", "three"]),
        ("a\n\nb\n", ["a", "", "b", ""]),
        ("abcdefghijklmnop", ["abcdefgh", "ijklmnop"]),
        ("to abcdefghijk", ["to ", "abcdefgh", "ijk"]),
        ("日本語日本", ["日本語日", "本"]),
        ("x 日本語日", ["x ", "日本語日"]),
        ("a\tb", ["a   b"]),
        ("12345678 x", ["12345678 ", "x"]),
        ("\u0301a\n\u0301", ["◌\u0301a", "◌\u0301"]),
        ("1234567 \u0301x", ["1234567 ", "◌\u0301x"]),
        ("1234567e\u0301x", ["1234567e\u0301", "x"]),
        ("שלום\u05b8", ["שלום\u05b8"]),
    ],
)
def test_a_text_is_wrapped_at_words_and_measured_in_cells(text: str, lines: list[str]) -> None:
    assert wrapping.wrapped(text, 8) == lines


@given(st.text(st.characters(exclude_characters="\n\t"), max_size=60), st.integers(2, 20))
def test_nothing_is_lost_and_only_trailing_spaces_stick_out(text: str, width: int) -> None:
    lines = wrapping.wrapped(text, width)
    assert "".join(lines).replace("◌", "") == safe(text, multiline=True).replace("◌", "")
    assert all(cell_len(line.rstrip(" ")) <= width for line in lines)


@given(st.text(st.sampled_from("a \n\u0301\u20dd\u05b8א日"), max_size=40), st.integers(2, 12))
def test_no_line_begins_with_a_mark_that_would_go_to_the_cell_before(text: str, width: int) -> None:
    assert all(cell_len(line[0]) for line in wrapping.wrapped(text, width) if line)


def test_hostile_text_is_safe() -> None:
    assert not any(sign in "".join(wrapping.wrapped(HOSTILE, 20)) for sign in "\x1b\x07\x9b\u202e\t")


def test_the_tail_is_as_many_lines_as_there_is_room_for() -> None:
    parts = [("reasoning", "think", 5), ("content", "one two three four", 13)]
    assert wrapping.tail(parts, 8, 9) == [("reasoning", "think"), ("content", "one two "), ("content", "three")]
    assert wrapping.tail(parts, 8, 1) == [("content", "three")]
    assert wrapping.tail(parts, 8, 0) == []


def test_lines_stay_where_they_are_while_a_long_text_grows() -> None:
    text = "word and another\n" * 100_000
    before = wrapping.tail([("content", text, 850_016)], 30, 10)
    after = wrapping.tail([("content", text, 850_033)], 30, 10)
    assert after[:9] == before[1:]


def test_ten_million_characters_without_a_space_are_looked_at_only_at_their_end() -> None:
    text = "x" * 10_000_000
    lines = wrapping.tail([("content", text, len(text))], 60, 20)
    assert len(lines) == 20
    assert {line for _, line in lines[:-1]} == {"x" * 60}
