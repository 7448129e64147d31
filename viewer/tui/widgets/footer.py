"""The last line: the keys that a screen names first, as many as there is room for, each of them whole.

However little room there is, the key for help and the one that leaves are among them. Which keys there are, and which
of them are of use just now, is the screen's; Textual's own footer has a widget for each key, and whenever one changes,
it takes all of them away and lays out the screen anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.style import Style
from textual.events import Leave, MouseDown, MouseMove
from textual.strip import Strip
from textual.widget import Widget

from viewer.tui.base import paint, theme

_ALWAYS: Final = frozenset({"help", "leave"})
_DIM: Final = Style(dim=True)


@dataclass(frozen=True, slots=True)
class Named:
    """A key, how it is written, and what it does, in a word and in full."""

    key: str
    written: str
    word: str
    action: str
    told: str
    enabled: bool

    @property
    def width(self) -> int:
        """The cells that it takes."""
        return cell_len(f" {self.written} {self.word} ")


class KeyLine(Widget):
    """Names keys; a click on one presses it."""

    DEFAULT_CSS = """
    KeyLine {
        dock: bottom; height: 1; background: $footer-background;
        & > .key-line--key { color: $footer-key-foreground; text-style: bold; }
        & > .key-line--word { color: $footer-description-foreground; }
        & > .key-line--hover { background: $block-hover-background; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key", "key-line--word", "key-line--hover"}

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[Named] = []
        self._hovered: Named | None = None

    def on_mount(self) -> None:
        """Name the keys as soon as they are known, and others whenever they change."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._read())

    def on_unmount(self) -> None:
        """Be forgotten: what listens is kept."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    @property
    def shown(self) -> list[Named]:
        """The keys that there is room for."""
        always = [at for at, key in enumerate(self._keys) if key.action.rpartition(".")[2] in _ALWAYS]
        room = self.size.width + 1  # the last blank may be cut
        return [self._keys[at] for at in fitting([key.width for key in self._keys], room, always)]

    def render_line(self, y: int) -> Strip:
        """Draw the keys."""
        ground = theme.behind(self, "key-line--key")
        parts = [part for key in self.shown for part in self._drawn(key)]
        return paint.strip(parts, self.size.width, ground)

    def on_mouse_down(self, event: MouseDown) -> None:
        """Press the key that was clicked."""
        key = self._at(event.x)
        if key is not None and key.enabled:
            self.app.simulate_key(key.key)
        elif key is not None:
            self.app.bell()

    def on_mouse_move(self, event: MouseMove) -> None:
        """Show which key a click would press, and what it does."""
        self._hover(self._at(event.x))

    def on_leave(self, event: Leave) -> None:
        """A click would press none."""
        self._hover(None)

    def _hover(self, key: Named | None) -> None:
        if key != self._hovered:
            self._hovered, self.tooltip = key, key.told if key is not None else None
            self.refresh()

    def _at(self, x: int) -> Named | None:
        shown = self.shown
        ends = accumulate(key.width for key in shown)
        return next((key for key, end in zip(shown, ends, strict=True) if x < end), None)

    def _drawn(self, key: Named) -> list[paint.Part]:
        look, word = theme.style(self, "key-line--key"), theme.style(self, "key-line--word")
        if key == self._hovered:
            behind = theme.behind(self, "key-line--hover")
            look, word = look + behind, word + behind
        if not key.enabled:
            look, word = look + _DIM, word + _DIM
        return [(f" {key.written} ", look), (f"{key.word} ", word)]

    def _read(self) -> None:
        named: dict[str, Named] = {}
        for _, binding, enabled, tooltip in self.screen.active_bindings.values():
            if binding.show and binding.action not in named:
                written, word = self.app.get_key_display(binding), binding.description
                named[binding.action] = Named(binding.key, written, word, binding.action, tooltip or word, enabled)
        if [*named.values()] != self._keys:
            self._keys = [*named.values()]
            self.refresh()


def fitting(widths: Sequence[int], room: int, always: Iterable[int]) -> list[int]:
    """Give the places of those that fit `room` together: first those that `always` come, then the others in order."""
    kept = set(always)
    room -= sum(widths[at] for at in kept)
    for at, width in enumerate(widths):
        if at in kept:
            continue
        room -= width
        if room < 0:
            break
        kept.add(at)
    return sorted(kept)
