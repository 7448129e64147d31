"""The themes: enough contrast, and a way from one to the other."""

from itertools import product

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from wiretape.viewer.tui.base import theme as themes

TEXTS = ("foreground", "primary", "secondary", "accent", "success", "warning", "error")
GROUNDS = ("background", "surface", "panel")
TONES = {colour.removeprefix("$") for colour in themes.COLORS.values()}
MARKED = ("primary-muted", "accent-muted", "warning-muted", "error-muted", "block-cursor-background")


@pytest.mark.parametrize(("first_color", "second_color", "ratio"), [
    ("#000000", "#ffffff", 21.0), ("#ffffff", "#ffffff", 1.0), ("#767676", "#ffffff", 4.54),
])  # fmt: skip
def test_contrast_is_that_of_wcag(first_color: str, second_color: str, ratio: float) -> None:
    assert (
        themes.contrast(first_color, second_color)
        == themes.contrast(second_color, first_color)
        == pytest.approx(ratio, abs=0.01)
    )


@pytest.mark.parametrize("theme", themes.THEMES, ids=lambda theme: theme.name)
def test_every_text_stands_out_from_every_ground(theme: Theme) -> None:
    colours = {**theme.to_color_system().generate(), **theme.variables}
    pairs = [*product(TEXTS, GROUNDS), *product(TONES, (*GROUNDS, *MARKED))]
    ratios = {(text, ground): themes.contrast(colours[text], colours[ground]) for text, ground in pairs}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", themes.THEMES, ids=lambda theme: theme.name)
def test_without_colours_cursors_are_reversed_and_panels_not(theme: Theme) -> None:
    grounds = {**theme.to_color_system().generate(), **theme.variables}
    for name in (*MARKED, "surface", "panel"):
        drawn_segments = themes.WITHOUT_COLORS.apply(
            [Segment("x", Style(bgcolor=grounds[name]))], Color.parse(theme.background)
        )
        assert (name, bool(drawn_segments[0].style.reverse)) == (name, name in MARKED)


def test_there_is_a_dark_one_and_a_light_one() -> None:
    assert [theme.dark for theme in themes.THEMES] == [True, False]


def test_the_key_changes_between_our_two_themes_only() -> None:
    assert themes.following("wiretape-dark") == "wiretape-light"
    assert themes.following("wiretape-light") == "wiretape-dark"
    assert themes.following("tokyo-night") == "wiretape-dark"
