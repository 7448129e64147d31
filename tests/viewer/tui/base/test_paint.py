"""Drawn texts: safe, exactly as wide as required, and in ASCII on request."""

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tests.support.sample_tape import HOSTILE
from wiretape.viewer.exchange import states
from wiretape.viewer.text import sparkline
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.base.theme import DARK


def test_a_strip_has_the_requested_width_and_is_safe() -> None:
    line = paint.strip([(HOSTILE, Style(bold=True)), ("", None)], 40, Style(bgcolor="red"))
    assert line.cell_length == 40
    assert not [sign for sign in line.text if ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0]


def test_content_is_never_markup() -> None:
    text = paint.content("[bold]x[/] [/y] [@click=app.leave]z\n\x1b[2J")
    assert text.plain == "[bold]x[/] [/y] [@click=app.leave]z\n␛[2J"


@pytest.mark.parametrize(
    "text", ["日本 e\u0301", "▁▂▃▄▅▆▇█", "● ✓ ■ ! ✗ ⊘ ?", "plain", "│─╭╮╰╯", "–…→·", "Δ ms", "␍␊ ␛␡"]
)
def test_ascii_takes_as_many_cells(text: str) -> None:
    shown = paint.in_ascii(text)
    assert shown.isascii()
    assert cell_len(shown) == cell_len(text)


def test_titles_and_controls_have_only_known_ascii_signs() -> None:
    assert paint.in_ascii("Δ ms ␀␍␊␡ ○ ◆") == "d ms .... o *"


def test_the_signs_that_say_something_stay_apart_in_ascii() -> None:
    signs = [paint.in_ascii(state.sign) for state in (*states.STATES.values(), states.ORPHAN)]
    assert "?" not in "".join(sign for sign in signs if sign != "?")
    assert len(set(signs)) == len({state.sign for state in states.STATES.values()})
    assert paint.in_ascii("▁▂▃▄▅▆▇█") == "▁▂▃▄▅▆▇█".translate(sparkline.ASCII)


def test_without_colours_only_meaningful_grounds_are_reversed() -> None:
    screen = Color.parse(DARK.background)
    looks = {
        "cursor": Style(color="#d9e1e8", bgcolor="#30495e", bold=True),
        "panel": Style(color="#d9e1e8", bgcolor=DARK.panel),
        "chosen": Style(color="red", reverse=True),
    }
    drawn_segments = theme.WITHOUT_COLORS.apply([Segment(name, look) for name, look in looks.items()], screen)
    assert [segment.style for segment in drawn_segments] == [
        Style(bold=True, reverse=True),
        Style(),
        Style(reverse=True),
    ]
