"""The filter of a list: what was typed, whether it is in force, and the filters of earlier runs.

A filter that cannot be read leaves the last one in force. The line that it is typed in is a widget; the file that keeps
what was typed is read and written beside the loop, and a list without it is no worse.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from recorder.clock import Clock
from recorder.errors import WiretapeError
from recorder.sanitize import safe
from viewer.filters import completion, parser
from viewer.filters.parser import FilterError
from viewer.filters.syntax import Filter
from viewer.model import settings
from viewer.model.listing import drilling
from viewer.tui.list.filter_line import FilterLine
from viewer.tui.list.questions import Known, Wanted

_EXPRESSION: Final = "~"


class ListFilter:
    """What a list is filtered by: `text` is the last that could be read, `is_wrong` says that the one typed cannot."""

    def __init__(self, text: str, known: Callable[[], Known], tell: Callable[[str], object]) -> None:
        self.line = FilterLine(
            text,
            lambda typed: [
                (one, known().meanings.get(one.field, "")) for one in completion.offers(typed, known().values)
            ],
            lambda typed: completion.is_unfinished(typed, known().values),
        )
        self.text = text
        self.is_on = True
        self.is_wrong = False
        self._found: Filter | None = None
        self._settled = ""
        self._tell: Callable[[str], object] | None = tell

    def applied(self, wanted: Wanted) -> Wanted:
        """Give what a list is to show with this filter in force; where there is none, everything."""
        found = self._found if self.is_on else None
        return replace(wanted, filter=found, text="" if found is None else self._settled)

    @property
    def text_in_force(self) -> str:
        """The filter in force, as it was typed; empty selects everything."""
        return self.text if self.is_on else ""

    def read(self, text: str, clock: Clock) -> bool:
        """Take a filter, with its times counted from now; False, and what is wrong is shown, if it cannot be read."""
        wall_ns = clock.wall_ns()
        still = Clock(clock.now, lambda: wall_ns)
        try:
            found = parser.parse(text, still) if text.strip() else None
            self._settled = drilling.settled(text, still)
        except FilterError as error:
            self._refuse(error)
            return False
        self._refuse(None)
        self.text, self._found = text, found
        self.line.show_on(self.is_on)
        return True

    def give_up(self, error: WiretapeError) -> None:
        """Take a filter away that can be read and yet not be evaluated: it was its regular expression."""
        at = self.text.find(_EXPRESSION)
        self._found = None
        self._refuse(FilterError(_EXPRESSION, max(at, 0), str(error)))

    async def recall(self) -> None:
        """Read the filters of earlier runs."""
        try:
            self.line.recall(await asyncio.to_thread(settings.read_history, settings.history_file()))
        except (OSError, ValueError) as error:
            self._tell_once(f"The filters of earlier runs cannot be read: {_reason(error)}")

    async def keep(self, text: str) -> None:
        """Keep a filter for later runs."""
        try:
            await asyncio.to_thread(settings.add_to_history, settings.history_file(), text)
        except OSError as error:
            self._tell_once(f"Filters cannot be kept for later runs: {_reason(error)}")

    def _tell_once(self, trouble: str) -> None:
        if self._tell is not None:
            self._tell(trouble)
        self._tell = None

    def _refuse(self, error: FilterError | None) -> None:
        self.is_wrong = error is not None
        self.line.show_error(error)


def _reason(error: Exception) -> str:
    where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
    return safe(f"{(isinstance(error, OSError) and error.strerror) or error}{where}")
