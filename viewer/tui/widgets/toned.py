"""What a tone of `viewer.streams` looks like in the theme: a component class for each, for widgets that draw lines.

So do the cursor, the line of titles and the rule above a part, for all tables to look alike.
"""

from typing import Final

from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from viewer.model.states import Tone, cut
from viewer.tui.base import paint

COLORS: Final[dict[Tone, str]] = {
    "plain": "$foreground",
    "strong": "$foreground",
    "muted": "$text-muted",
    "accent": "$text-primary",
    "success": "$text-success",
    "warning": "$text-warning",
    "error": "$text-error",
}
"""The theme's colour of each tone, as CSS and `Content` write it."""

_BOLD: Final[frozenset[Tone]] = frozenset({"strong", "error"})

CLASSES: Final = {f"tone--{tone}" for tone in COLORS}
"""The component classes that a widget declares."""

TABLE_CLASSES: Final = CLASSES | {"table--cursor", "table--titles"}
"""The component classes that a table declares."""

CURSOR: Final = "▌"
"""Stands before the line of the cursor."""


def css(widget: str) -> str:
    """Give the rules of a widget's component classes."""
    rules = (f".tone--{tone} {{ color: {color}; text-style: {_weight(tone)}; }}" for tone, color in COLORS.items())
    return f"{widget} {{ {' '.join(f'& > {rule}' for rule in rules)} }}"


def table_css(widget: str) -> str:
    """Return the rules of a table's component classes."""
    return css(widget) + (
        f"{widget} {{ & > .table--cursor {{ background: $surface; }} & > .table--titles {{ background: $surface; }}"
        f" &:focus > .table--cursor {{ background: $primary-muted; }} }}"
    )


def rule(widget: Widget, text: str, width: int) -> Strip:
    """Draw the rule above a part of a screen, with its title, which is brighter where the keys go."""
    tones = styles(widget, widget.rich_style)
    title = tones["accent" if widget.has_focus else "plain"]
    parts = [("─ ", tones["muted"]), (cut(text, width - 3), title), (" ", None), ("─" * width, tones["muted"])]
    return paint.strip(parts, width, widget.rich_style)


def styles(widget: Widget, ground: Style | None = None) -> dict[str, Style]:
    """Give the styles of a widget's tones, on the background of a style, or with nothing behind them."""
    background = None if ground is None else ground.bgcolor
    found = {tone: style(widget, f"tone--{tone}") for tone in COLORS}
    return {tone: Style(color=style.color, bgcolor=background, bold=style.bold) for tone, style in found.items()}


def style(widget: Widget, name: str) -> Style:
    """Give the style of a component class; a widget that is not shown yet, or not any more, has none."""
    return widget.get_component_rich_style(name, default=Style())


def behind(widget: Widget, name: str) -> Style:
    """Give what is behind the text of a component class."""
    return Style(bgcolor=style(widget, name).bgcolor)


def markup(tone: Tone) -> str:
    """Give a tone as a style of `Content`."""
    # The theme's muted colour is of the kind that goes by what is behind it, of which `Content` knows nothing.
    color = "$foreground 60%" if tone == "muted" else COLORS[tone]
    return f"{'bold ' if tone in _BOLD else ''}{color}"


def _weight(tone: Tone) -> str:
    return "bold" if tone in _BOLD else "none"
