"""The last line: the keys that a screen names first, as many as there is room for, each of them whole.

However little room there is, the key for help and the one that leaves are among them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.events import Resize
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_ALWAYS: Final = frozenset({"help", "leave"})
_PADDING: Final = 3


class KeyLine(Footer):
    """A footer that leaves keys out rather than cut them."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._laid_out = 0

    def compose(self) -> ComposeResult:
        """Lay out the keys that there is room for."""
        self._laid_out = self.app.size.width
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        widths = [cell_len(key.key_display) + cell_len(key.description) + _PADDING for key in keys]
        always = [at for at, key in enumerate(keys) if key.action.rpartition(".")[2] in _ALWAYS]
        yield from (keys[at] for at in fitting(widths, self._laid_out + 1, always))  # the last blank may be cut

    def on_resize(self, event: Resize) -> None:
        """Lay them out for another width."""
        if self.app.size.width != self._laid_out and self._bindings_ready:
            self.call_after_refresh(self.recompose)


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
