"""The themes: enough contrast, and a way from one to the other."""

from itertools import product

import pytest
from textual.theme import Theme

from viewer.tui import themes

TEXTS = ("foreground", "primary", "secondary", "accent", "success", "warning", "error")
GROUNDS = ("background", "surface", "panel")


@pytest.mark.parametrize(("one", "two", "ratio"), [
    ("#000000", "#ffffff", 21.0), ("#ffffff", "#ffffff", 1.0), ("#767676", "#ffffff", 4.54),
])  # fmt: skip
def test_contrast_is_that_of_wcag(one: str, two: str, ratio: float) -> None:
    assert themes.contrast(one, two) == themes.contrast(two, one) == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize("theme", themes.THEMES, ids=lambda theme: theme.name)
def test_every_text_stands_out_from_every_ground(theme: Theme) -> None:
    ratios = {
        (text, ground): themes.contrast(getattr(theme, text), getattr(theme, ground))
        for text, ground in product(TEXTS, GROUNDS)
    }
    assert min(ratios.values()) >= 4.5


def test_there_is_a_dark_one_and_a_light_one() -> None:
    assert [theme.dark for theme in themes.THEMES] == [True, False]


def test_the_key_changes_between_our_two_themes_only() -> None:
    assert themes.after("wiretape-dark") == "wiretape-light"
    assert themes.after("wiretape-light") == "wiretape-dark"
    assert themes.after("tokyo-night") == "wiretape-dark"
