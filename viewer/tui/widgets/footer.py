"""The last line: the keys that a screen names first, as many as there is room for, each of them whole.

However little room there is, the key for help and the one that leaves are among them. Textual's own footer has a widget
for each key, and whenever one changes, it removes all of them and lays out the screen anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.events import MouseDown, MouseMove
from textual.strip import Strip
from textual.widget import Widget

from wiretape.viewer.tui.base import paint, theme


@dataclass(frozen=True, slots=True)
class FooterKey:
    """A key, its display text, and its action, in a word and in full."""

    key: str
    key_text: str
    word: str
    action: str
    tooltip: str
    enabled: bool

    @property
    def width(self) -> int:
        return cell_len(f" {self.key_text} {self.word} ")


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
        self._keys: list[FooterKey] = []
        self._words: dict[str, str] = {}
        self._hovered: FooterKey | None = None

    def on_mount(self) -> None:
        """Name the keys as soon as they are known, and others whenever they change."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._read())

    def on_unmount(self) -> None:
        """Unsubscribe: a signal keeps its subscribers alive."""
        self.screen.bindings_updated_signal.unsubscribe(self)

    @property
    def visible_keys(self) -> list[FooterKey]:
        always = [at for at, key in enumerate(self._keys) if key.action.rpartition(".")[2] in ("help", "leave")]
        room = self.size.width + 1  # the last blank may be cut
        return [self._keys[at] for at in places_that_fit([key.width for key in self._keys], room, always)]

    def reword(self, action: str, word: str) -> None:
        """Name an action by another word than its binding does; one without a word is left out."""
        if self._words.get(action) != word:
            self._words[action] = word
            if self.is_attached:  # the screen may have been left meanwhile
                self._read()

    def render_line(self, y: int) -> Strip:
        """Draw the keys that fit, and dim those that do nothing at present."""
        parts: list[paint.Part] = []
        for key in self.visible_keys:
            more = theme.background(self, "key-line--hover") if key == self._hovered else Style()
            more += Style(dim=not key.enabled or None)
            parts.append((f" {key.key_text} ", theme.style(self, "key-line--key") + more))
            parts.append((f"{key.word} ", theme.style(self, "key-line--word") + more))
        return paint.strip(parts, self.size.width, theme.background(self, "key-line--key"))

    def on_mouse_down(self, event: MouseDown) -> None:
        key = self._at(event.x)
        if key is not None and key.enabled:
            self.app.simulate_key(key.key)
        elif key is not None:
            self.app.bell()

    def on_mouse_move(self, event: MouseMove) -> None:
        self._hover(self._at(event.x))

    def on_leave(self) -> None:
        self._hover(None)

    def _hover(self, key: FooterKey | None) -> None:
        if key != self._hovered:
            self._hovered, self.tooltip = key, key.tooltip if key is not None else None
            self.refresh()

    def _at(self, x: int) -> FooterKey | None:
        ends = accumulate(key.width for key in self.visible_keys)
        return next((key for key, end in zip(self.visible_keys, ends, strict=True) if x < end), None)

    def _read(self) -> None:
        keys: dict[str, FooterKey] = {}
        for _, binding, enabled, tooltip in self.screen.active_bindings.values():
            if binding.show and binding.action not in keys:
                key_text = self.app.get_key_display(binding)
                word = self._words.get(binding.action, binding.description)
                keys[binding.action] = FooterKey(
                    binding.key, key_text, word, binding.action, tooltip or binding.description, enabled
                )
        keys = {action: key for action, key in keys.items() if key.word}
        if [*keys.values()] != self._keys:
            self._keys = [*keys.values()]
            self.refresh()


def places_that_fit(widths: Sequence[int], room: int, always: Iterable[int]) -> list[int]:
    """Return the places of the keys that fit `room` together: those `always` shown, then the others in order."""
    places = set(always)
    room -= sum(widths[at] for at in places)
    for at, width in enumerate(widths):
        if at not in places:
            room -= width
            if room < 0:
                break
            places.add(at)
    return sorted(places)
