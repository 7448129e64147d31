"""The viewer's own themes, a dark and a light one, between which a key changes; colours, measured and mixed.

Widgets name colours by what they mean (`$success`, `$warning`, `$error`, `$text-muted`), never by what they are. Every
text colour of these two stands out from its background by 4.5 to 1 at least, as WCAG asks.
"""

import functools
import math
from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="wiretape-dark",
    primary="#7cc4ff",
    secondary="#b49cff",
    accent="#ffb454",
    success="#7bd88f",
    warning="#f2c14e",
    error="#ff7a85",
    foreground="#d9e1e8",
    background="#10151a",
    surface="#161d24",
    panel="#1f2933",
    dark=True,
    variables={"footer-key-foreground": "#ffb454", "block-cursor-text-style": "none"},
)
LIGHT: Final = Theme(
    name="wiretape-light",
    primary="#0a5ea8",
    secondary="#6a3fc0",
    accent="#8f4a00",
    success="#19692c",
    warning="#7a5200",
    error="#b3202f",
    foreground="#1b232b",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e6e3db",
    dark=False,
    variables={"footer-key-foreground": "#8f4a00", "block-cursor-text-style": "none"},
)
THEMES: Final = (DARK, LIGHT)
"""Ours, the first of which is the default; an app registers them."""


def after(current: str) -> str:
    """Return the name of the theme that follows; after a theme that is not ours, of our first."""
    names = [theme.name for theme in THEMES]
    return names[(names.index(current) + 1) % len(names)] if current in names else names[0]


def contrast(foreground: str, background: str) -> float:
    """Give the contrast of two colours as WCAG 2 defines it: 1 (none) to 21."""
    lighter, darker = sorted((_luminance(foreground), _luminance(background)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@functools.lru_cache(16)
def scale(first: str, last: str, count: int) -> tuple[str, ...]:
    """Return `count` colours from one to another that look evenly spaced: equal steps in OKLab.

    OKLab is Björn Ottosson's perceptual colour space: https://bottosson.github.io/posts/oklab/
    """
    ends = oklab(first), oklab(last)
    shares = [step / (count - 1) for step in range(count)]
    return tuple(
        _hexadecimal(*(low + (high - low) * share for low, high in zip(*ends, strict=True))) for share in shares
    )


def oklab(colour: str) -> tuple[float, float, float]:
    """Return a colour's lightness (0 to 1), and how green or red and how blue or yellow it is, in OKLab."""
    red, green, blue = _linear(colour)
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    middle = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _hexadecimal(lightness: float, green_red: float, blue_yellow: float) -> str:
    long = (lightness + 0.3963377774 * green_red + 0.2158037573 * blue_yellow) ** 3
    middle = (lightness - 0.1055613458 * green_red - 0.0638541728 * blue_yellow) ** 3
    short = (lightness - 0.0894841775 * green_red - 1.2914855480 * blue_yellow) ** 3
    parts = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    encoded = (12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055 for part in parts)
    return "#" + "".join(f"{round(255 * min(max(part, 0.0), 1.0)):02x}" for part in encoded)


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(colour: str) -> tuple[float, float, float]:
    """Return the red, green and blue of a colour in sRGB, as linear light."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue
