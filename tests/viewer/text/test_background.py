"""A terminal's background: its answers to OSC 11 among keys, and the variable COLORFGBG."""

import pytest

from wiretape.viewer.text import background
from wiretape.viewer.text.background import AnswerSplitter

WHITE = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"
BLACK = "\x1b]11;rgb:0000/0000/0000\x07"


@pytest.mark.parametrize(("answer", "expected"), [
    ("rgb:0/0/0", "dark"), ("rgb:f/f/f", "light"), ("rgb:1d/1f/21", "dark"), ("rgb:fd/f6/e3", "light"),
    ("rgb:000/333/444", "dark"), ("rgb:FFF/FFF/DDD", "light"), ("rgb:0000/2b2b/3636", "dark"),
    ("rgb:fafa/fafa/fafa", "light"), ("rgba:ffff/ffff/ffff/8000", "light"), ("rgb:0000/ffff/0000", "light"),
    ("rgb:0000/0000/ffff", "dark"), ("?", None), ("", None), ("rgb:fffff/0/0", None), ("rgb:1/2", None),
    ("rgb:g/0/0", None), ("rgb:٣/0/0", None), ("#ffffff", None),
])  # fmt: skip
def test_luminance_decides_whether_a_background_is_dark(answer: str, expected: str | None) -> None:
    assert background.parse(answer) == expected


@pytest.mark.parametrize(("value", "expected"), [
    ("15;0", "dark"), ("0;15", "light"), ("0;7", "light"), ("15;8", "dark"), ("15;default;0", "dark"), ("12", "light"),
    ("0;default", None), ("", None), (None, None), ("0;16", None), ("0;-1", None), ("0;٣", None),
])  # fmt: skip
def test_colorfgbg_ends_in_the_number_of_the_background(value: str | None, expected: str | None) -> None:
    assert background.by_variable(value) == expected


@pytest.mark.parametrize("pieces", [1, 2, 3, 5, 100])
def test_answers_are_taken_out_wherever_the_input_is_cut(pieces: int) -> None:
    text, answers = f"j{WHITE}k\x1b[A{BLACK}q", AnswerSplitter()
    parts_found = [answers.split(text[at : at + pieces]) for at in range(0, len(text), pieces)]
    assert "".join(keys for keys, _ in parts_found) == "jk\x1b[Aq"
    assert [told for _, backgrounds in parts_found for told in backgrounds] == ["light", "dark"]


def test_a_pause_makes_a_key_of_an_escape() -> None:
    answers = AnswerSplitter()
    assert [answers.split(text) for text in ("\x1b", "", "\x1b]", "")] == [
        ("", []), ("\x1b", []), ("", []), ("\x1b]", []),
    ]  # fmt: skip
    assert [answers.split(text) for text in (WHITE[:9], "", "", WHITE[9:])] == [
        ("", []), ("", []), ("", []), ("", ["light"]),
    ]  # fmt: skip


def test_an_endless_answer_is_not_held_for_ever() -> None:
    answers = AnswerSplitter()
    assert answers.split("\x1b]11;" + "x" * 65) == ("\x1b]11;" + "x" * 65, [])
    assert answers.split("j") == ("j", [])


def test_an_answer_without_colour_is_not_keys_either() -> None:
    assert AnswerSplitter().split("\x1b]11;nothing\x07j") == ("j", [])
