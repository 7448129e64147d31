"""The panes of the inspector that are pages of text: the request, the timing, and the notes."""

from viewer.model.exchange import pages
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.notes import Notes
from viewer.model.exchange.opened import Opened
from viewer.tape.exchange import Known
from viewer.tui.inspector.inspector_tabs import PANES
from viewer.tui.inspector.page import PagePane


class Sheets:
    """Writes the pages anew as more is known; `panes` are they by their names."""

    def __init__(self) -> None:
        self.panes = {name: PagePane(name) for name in PANES[3:]}
        self._known: Known | None = None
        self._opened: Opened | None = None
        self._times = Times()

    def write(self, known: Known, opened: Opened | None, notes: Notes, times: Times) -> None:
        """Write what the exchange is, where its time went, and what is noted, its instants as `times` tell them."""
        if known is not self._known:  # a long request takes its time
            self.panes["request"].show(lambda _: pages.request(known))
        if known is not self._known or opened is not self._opened or times != self._times:
            self.panes["timing"].show(lambda width: pages.timing(known, opened, width, times))
        self._known, self._opened, self._times = known, opened, times
        self.panes["notes"].show(lambda _: pages.noted(known, notes, opened, times))
