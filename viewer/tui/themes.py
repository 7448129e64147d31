"""The viewer's own themes, a dark and a light one, between which a key changes.

Widgets name colours by what they mean (`$success`, `$warning`, `$error`, `$text-muted`), never by what they are. Every
text colour of these two stands out from its background by 4.5 to 1 at least, as WCAG asks.
"""

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


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
