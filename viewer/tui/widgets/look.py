"""What things look like in the theme, worked out once for all widgets within one container.

A component class costs each widget that declares it time whenever it is styled; here one container declares them all,
and what is drawn within it takes them from there.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from rich.style import Style
from textual.containers import Vertical
from textual.widget import Widget

from viewer.tui.widgets import toned

_GROUNDS: Final = {"ground": "$background", "surface": "$surface", "selected": "$surface", "cursor": "$primary-muted",
                   "lit": "$accent-muted", "warm": "$warning-muted", "hot": "$error-muted", "waited": "$panel",
                   "slow": "$warning-muted", "stalled": "$error-muted", "playhead": "$primary-muted"}  # fmt: skip
_SIGNS: Final = {"ghost": "$foreground 66%", "thought": "$foreground 85%"}


class Looks(Vertical):
    """Holds the looks: each tone by its name, `ghost` and `thought` for texts, and what may be behind a text."""

    DEFAULT_CSS = (
        "Looks { "
        + " ".join(f"& > .look--{name} {{ background: {color}; }}" for name, color in _GROUNDS.items())
        + " ".join(f"& > .look--{name} {{ color: {color}; }}" for name, color in _SIGNS.items())
        + " }"
        + toned.css("Looks")
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {*(f"look--{name}" for name in (*_GROUNDS, *_SIGNS)), *toned.CLASSES}

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Style] = {}

    def on_mount(self) -> None:
        """Work everything out anew in another theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._renew))

    def on_unmount(self) -> None:
        """Be forgotten: what listens is kept."""
        self.app.theme_changed_signal.unsubscribe(self)

    @property
    def looks(self) -> Mapping[str, Style]:
        """Everything by its name; before it is shown for the first time, nothing has a look."""
        if self._found:
            return self._found
        found = toned.styles(self)
        found |= {name: toned.behind(self, f"look--{name}") for name in _GROUNDS}
        found |= {name: Style(color=toned.style(self, f"look--{name}").color) for name in _SIGNS}
        found["thought"] += Style(italic=True)
        found["hot"] += Style(underline=True)
        if found["ground"]:
            self._found = found
        return found

    def _renew(self) -> None:
        self._found.clear()
        for widget in self.query("*"):
            widget.refresh()
            if isinstance(widget, Remembering):
                widget.forget()


class Remembering(Widget):
    """A widget that keeps what it has drawn, and must be told when that looks otherwise."""

    def forget(self) -> None:
        """Draw everything anew."""


def looks(widget: Widget) -> Mapping[str, Style]:
    """Give the looks for a widget; without any container of them, nothing has a look."""
    for ancestor in widget.ancestors:
        if isinstance(ancestor, Looks):
            return ancestor.looks
    return _NONE


_NONE: Final[Mapping[str, Style]] = dict.fromkeys((*_GROUNDS, *_SIGNS, *toned.COLORS), Style())
