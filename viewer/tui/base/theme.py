"""The viewer's two themes, their colours for the tones of `wiretape.viewer.text.cells`, and measures of colours.

Widgets name colours by their meaning (`$success`, `$warning`, `$error`, `$text-muted`). Every text colour of these two
themes has a contrast of at least 4.5 to 1, as WCAG asks. A widget that draws its own lines declares a component class
for each tone; a container that is a `ThemeStyles` declares them once for all widgets in it, since each declaration
costs time whenever its widget is styled.
"""

import functools
from collections.abc import Mapping
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.containers import Vertical
from textual.filter import LineFilter
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from wiretape.viewer.text.background import luminance
from wiretape.viewer.text.cells import Tone, cut
from wiretape.viewer.tui.base import paint


def _mixed(key: str, plain: str, muted: str, cursor: str, **grounds: str) -> dict[str, str]:
    """Return the colours whose contrast would be too low if Textual mixed them: muted texts, cursors, backgrounds."""
    colors = {"footer-key-foreground": key, "block-cursor-foreground": plain, "block-cursor-text-style": "none"}
    colors |= {f"{name}-muted": ground for name, ground in grounds.items()}
    texts = "text-muted", "text-disabled", "foreground-muted", "scrollbar"
    cursors = (
        "primary-muted",
        "block-cursor-background",
        "block-cursor-blurred-background",
        "input-selection-background",
        "screen-selection-background",
    )
    return {**colors, **dict.fromkeys(texts, muted), **dict.fromkeys(cursors, cursor)}


DARK: Final = Theme(
    "wiretape-dark", dark=True, foreground="#d9e1e8", background="#10151a", surface="#161d24", panel="#1f2933",
    primary="#7cc4ff", secondary="#b49cff", accent="#ffb454", success="#7bd88f", warning="#f2c14e", error="#ff7a85",
    variables=_mixed("#ffb454", "#d9e1e8", "#a8b0b8", "#274057", accent="#4b3a23", warning="#473d22", error="#4c2c33"),
)  # fmt: skip
LIGHT: Final = Theme(
    "wiretape-light", dark=False, foreground="#1b232b", background="#fbfaf7", surface="#f3f1ec", panel="#e6e3db",
    primary="#0a5ea8", secondary="#6a3fc0", accent="#8f4a00", success="#19692c", warning="#7a5200", error="#b3202f",
    variables=_mixed("#8f4a00", "#1b232b", "#4b5359", "#bdd4e7", accent="#e6d1b7", warning="#e0d3b0", error="#efc6ca"),
)  # fmt: skip
THEMES: Final = (DARK, LIGHT)
NAMES: Final = {"dark": DARK.name, "light": LIGHT.name}
AUTO: Final = "auto"
"""The choice of the theme for the terminal's background."""

CHOICES: Final = (*NAMES, AUTO)

COLORS: Final[dict[Tone, str]] = {
    "plain": "$foreground", "strong": "$foreground", "muted": "$text-muted", "accent": "$text-primary",
    "success": "$text-success", "warning": "$text-warning", "error": "$text-error",
    "reasoning": "$text-secondary",
}  # fmt: skip
"""The theme's colour of each tone, as CSS and `Content` write it."""

_BOLD: Final[frozenset[Tone]] = frozenset({"strong", "error"})

CLASSES: Final = {f"tone--{tone}" for tone in COLORS}
"""The component classes that a widget declares."""

_GROUNDS: Final = {
    "ground": "$background", "surface": "$surface", "selected": "$surface", "cursor": "$primary-muted",
    "lit": "$accent-muted", "warm": "$warning-muted", "hot": "$error-muted", "waited": "$panel",
    "slow": "$warning-muted", "stalled": "$error-muted", "playhead": "$primary-muted",
}  # fmt: skip
_TEXTS: Final = {"ghost": "$text-muted", "thought": "$foreground 85%"}


def following(current: str) -> str:
    names = [theme.name for theme in THEMES]
    return names[(names.index(current) + 1) % len(names)] if current in names else names[0]


def contrast(foreground: str, background: str) -> float:
    darker, lighter = sorted(luminance(*Color.parse(colour).normalized) for colour in (foreground, background))
    return (lighter + 0.05) / (darker + 0.05)


class _WithoutColors(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Remove colours; text on a background that stands out from the screen's, as a cursor's, is reversed."""
        screen = background.hex6
        return [Segment(text, style and _uncolored(style, screen), control) for text, style, control in segments]


@functools.lru_cache(4096)
def _uncolored(style: Style, screen: str) -> Style:
    ground = style.bgcolor
    # A contrast of 1.4 has a meaning: surfaces and panels have 1.3 at most.
    is_set_off = ground is not None and ground.triplet is not None and contrast(ground.triplet.hex, screen) >= 1.4
    return style.without_color + Style(reverse=True) if is_set_off and not style.reverse else style.without_color


WITHOUT_COLORS: Final = _WithoutColors()
"""For `NO_COLOR`: attributes such as bold and reverse are all that reaches the terminal."""


def css(widget: str) -> str:
    weights = {tone: "bold" if tone in _BOLD else "none" for tone in COLORS}
    rules = (f".tone--{tone} {{ color: {color}; text-style: {weights[tone]}; }}" for tone, color in COLORS.items())
    return f"{widget} {{ {' '.join(f'& > {rule}' for rule in rules)} }}"


def rule(widget: Widget, text: str, width: int) -> Strip:
    """Draw the rule above a part of a screen, with its title, which is brighter where the keys go."""
    tones = styles(widget, widget.rich_style)
    title = tones["accent" if widget.has_focus else "plain"]
    parts = [("─ ", tones["muted"]), (cut(text, width - 3), title), (" ", None), ("─" * width, tones["muted"])]
    return paint.strip(parts, width, widget.rich_style)


def styles(widget: Widget, ground: Style | None = None) -> dict[str, Style]:
    background = None if ground is None else ground.bgcolor
    tones = {tone: style(widget, f"tone--{tone}") for tone in COLORS}
    return {tone: Style(color=style.color, bgcolor=background, bold=style.bold) for tone, style in tones.items()}


def style(widget: Widget, name: str) -> Style:
    return widget.get_component_rich_style(name, default=Style())


def background(widget: Widget, name: str) -> Style:
    return Style(bgcolor=style(widget, name).bgcolor)


def markup(tone: Tone) -> str:
    # `Content` does not know the background, on which $text-muted depends in other themes.
    color = "$foreground-muted" if tone == "muted" else COLORS[tone]
    return f"{'bold ' if tone in _BOLD else ''}{color}"


class ThemeStyles(Vertical):
    """A container with the styles of all widgets in it: each tone, `ghost` and `thought` for texts, and backgrounds."""

    DEFAULT_CSS = (
        "ThemeStyles { "
        + " ".join(f"& > .style--{name} {{ background: {color}; }}" for name, color in _GROUNDS.items())
        + " ".join(f"& > .style--{name} {{ color: {color}; }}" for name, color in _TEXTS.items())
        + " }"
        + css("ThemeStyles")
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {*(f"style--{name}" for name in (*_GROUNDS, *_TEXTS)), *CLASSES}

    def __init__(self) -> None:
        super().__init__()
        self._styles: dict[str, Style] = {}

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._renew))

    def on_unmount(self) -> None:
        """Unsubscribe: a signal keeps its subscribers alive."""
        self.app.theme_changed_signal.unsubscribe(self)

    @property
    def by_name(self) -> Mapping[str, Style]:
        """The styles by their names; all empty before the container is shown."""
        if self._styles:
            return self._styles
        looks = styles(self)
        looks |= {name: background(self, f"style--{name}") for name in _GROUNDS}
        looks |= {name: Style(color=style(self, f"style--{name}").color) for name in _TEXTS}
        # Told apart without colours, too.
        looks["thought"] += Style(italic=True)
        looks["hot"] += Style(underline=True)
        if looks["ground"]:  # else no style has been computed yet, and none may be kept
            self._styles = looks
        return looks

    def _renew(self) -> None:
        self._styles.clear()
        for widget in self.query("*"):
            widget.refresh()
            if isinstance(widget, CachedLines):
                widget.forget()


class CachedLines(Widget):
    """A widget that keeps its drawn lines until their look changes."""

    def forget(self) -> None:
        """Draw everything again."""


def theme_styles(widget: Widget) -> Mapping[str, Style]:
    """Return the styles of the container that a widget is in; empty ones outside any."""
    container = next((ancestor for ancestor in widget.ancestors if isinstance(ancestor, ThemeStyles)), None)
    return _EMPTY if container is None else container.by_name


_EMPTY: Final[Mapping[str, Style]] = dict.fromkeys((*_GROUNDS, *_TEXTS, *COLORS), Style())
