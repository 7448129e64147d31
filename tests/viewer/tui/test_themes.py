"""The themes: enough contrast, and a way through all of them."""

from itertools import product

import pytest
from textual.theme import BUILTIN_THEMES, Theme

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


def test_the_key_goes_through_all_of_them_and_begins_again() -> None:
    known = [*BUILTIN_THEMES, *(theme.name for theme in themes.THEMES)]
    seen = [themes.after("no such theme", known)]
    for _ in range(len(known)):
        seen.append(themes.after(seen[-1], known))
    assert seen[:2] == ["wiretape-dark", "wiretape-light"]
    assert seen[-1] == seen[0]
    assert set(seen) == set(known)
