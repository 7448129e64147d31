"""The preview beside a list: read a moment after the cursor has come to an exchange, so a held key reads nothing."""

import functools
from typing import Any, Final

from textual.screen import Screen
from textual.timer import Timer
from textual.worker import Worker

from viewer.model.states import Look
from viewer.tui.list.listing import Listing
from viewer.tui.list.preview import Preview

_AFTER_SECONDS: Final = 0.05


class Previewing:
    """Shows in a preview what `selected` is; it is read by workers of a screen."""

    def __init__(self, screen: Screen[Any]) -> None:
        self.widget = Preview()
        self.selected: int | None = None
        self._screen = screen
        self._timer: Timer | None = None

    def soon(self, listing: Listing, selected: int | None, look: Look) -> None:
        """Show an exchange, unless the cursor moves on before."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._screen.set_timer(_AFTER_SECONDS, functools.partial(self.now, listing, selected, look))

    def now(self, listing: Listing, selected: int | None, look: Look) -> None:
        """Show an exchange; None shows nothing."""
        self.selected = selected
        if selected is None:
            self.widget.show(None, (), look)
        elif self.widget.display:
            reading = functools.partial(self._read, listing, selected, look)
            _: Worker[None] = self._screen.run_worker(reading, group="preview", exclusive=True)

    async def _read(self, listing: Listing, number: int, look: Look) -> None:
        if (found := await listing.preview(number)) and number == self.selected:
            self.widget.show(found.row, found.verdicts, look)
