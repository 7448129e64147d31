"""The notes and bookmarks of one exchange for a screen: read from beside the tape, and written there as they change."""

import functools
from collections.abc import Callable
from pathlib import Path

from recorder.errors import WiretapeError
from viewer.model.exchange import notes
from viewer.model.exchange.notes import Notes
from viewer.tui.base.host import in_thread


class Notebook:
    """Holds `notes`; what goes wrong with them is told to `fails` in words."""

    def __init__(self, fails: Callable[[str], None]) -> None:
        self.notes = Notes()
        self._fails = fails
        self._place: tuple[Path, str] | None = None

    async def read(self, tape: Path, id: str) -> None:
        """Read what is noted of an exchange."""
        self._place = tape, id
        try:
            self.notes = await in_thread(functools.partial(notes.read, tape, id))
        except WiretapeError as error:
            self._fails(str(error))

    async def write(self) -> None:
        """Write down what is noted now, if it is known where."""
        if self._place is None:
            return
        try:
            await in_thread(functools.partial(notes.write, *self._place, self.notes))
        except WiretapeError as error:
            self._fails(str(error))

    def after(self, position: int) -> int | None:
        """Give the next bookmark after a position; past the last one the first, None without any."""
        places = self.notes.bookmarks
        return next((one for one in places if one > position), places[0] if places else None)
