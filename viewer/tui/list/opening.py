"""Open exchanges of the list in other screens.

Those screens read the tape. An exchange of a server is copied to the tape first, where it has another number.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from textual.screen import Screen

from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.viewer.tui.base.host import host, in_thread, is_seen
from wiretape.viewer.tui.list.streams import ERROR_SECONDS, StreamList


class Opener:
    """Opens exchanges over a `screen`; `pulling` describes those being copied, and each change of it is a message."""

    def __init__(self, screen: Screen[Any], on_pulling: Callable[[], None]) -> None:
        self.pulling = ""
        self._screen, self._on_pulling = screen, on_pulling

    def inspect(self, number: int | None, plays: Literal["stream", "stall"] | None = None) -> None:
        """Open an exchange in the inspector."""
        from wiretape.viewer.tui.inspector.screen import InspectorScreen

        if number is not None:
            self._with_copies([number], lambda numbers: InspectorScreen(numbers[0], plays=plays))

    async def compare(self, streams: StreamList) -> None:
        """Compare the marked exchanges; of one alone, that and the one under the cursor."""
        from wiretape.viewer.tui.compare.table import comparison

        if not await streams.listing.holds(streams.remembered):
            streams.load()  # the tape was replaced: this reports the marks that are gone
        elif len(numbers := streams.marks.compared(streams.rows.selected)) < 2:
            self._screen.notify("Mark another exchange with m, then press c.", title="compare", markup=False)
        else:
            self._with_copies(numbers, comparison)

    def _with_copies(self, numbers: list[int], screen_of: Callable[[list[int]], Screen[Any]]) -> None:
        """Open exchanges with the numbers that they have on the tape: at once, or when they have been pulled to it."""
        services = host(self._screen)
        if services.list_reader is services.tape:
            self._screen.app.push_screen(screen_of(numbers))
        else:
            self._screen.run_worker(self._pull(numbers, screen_of), group="pull", exclusive=True)

    async def _pull(self, numbers: list[int], screen_of: Callable[[list[int]], Screen[Any]]) -> None:
        top = self._screen.app.screen  # a pull may take seconds, in which the user goes elsewhere
        self.pulling = counted(len(numbers), "exchange")
        self._on_pulling()
        try:
            tape_numbers = await in_thread(partial(host(self._screen).list_reader.place.pull, numbers))
        except WiretapeError as error:
            self._screen.notify(str(error), title="not pulled", severity="error", timeout=ERROR_SECONDS, markup=False)
        else:
            if is_seen(top):  # else something else has been opened meanwhile
                self._screen.app.push_screen(screen_of(tape_numbers))
        finally:
            self.pulling = ""
            self._on_pulling()
