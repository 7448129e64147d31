"""What the list knows of its tape, and how it finds out: loaded as a whole, then looked at again and again.

Whatever a tape can be (not there yet, locked, damaged, replaced) is kept as `trouble`, in words, until it is read
again. What is drawn of all this is `streams`'s.
"""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from recorder.errors import TapeBusy, WiretapeError
from recorder.process import Run
from viewer.model.listing import notices
from viewer.model.listing.catalog import Catalog
from viewer.tape.decoder import LARGE
from viewer.tui.base.host import Host, Superseded, in_thread
from viewer.tui.list import questions
from viewer.tui.list.questions import Known, Previewed, Wanted

if TYPE_CHECKING:
    from viewer.tape.live import Change

_BUSY_NS: Final = 2_000_000_000


class Listing:
    """The exchanges that are `wanted`, as a `catalog`; `change` is what was last seen of the tape, None if nothing.

    `started` is when the first and the last of them began; None if there are none.
    """

    def __init__(self, host: Host) -> None:
        self.wanted = Wanted()
        self.catalog = Catalog()
        self.change: Change | None = None
        self.started: tuple[str, str] | None = None
        self.took_ns = 0
        self.known = Known()
        self.trouble: WiretapeError | None = None
        self._host = host
        self._name = f"{id(self)}"  # another list's questions are none of this one's
        self._openings = 0
        self._loaded: Wanted | None = None
        self._asked_ns: int | None = None

    @property
    def is_loading(self) -> bool:
        """Whether the list is being read."""
        return self._asked_ns is not None

    @property
    def is_wanted(self) -> bool:
        """Whether what there is is what is wanted, rather than what was before."""
        return self._loaded == self.wanted

    @property
    def is_busy(self) -> bool:
        """Whether somebody else keeps the tape to himself, or it takes long to answer."""
        waiting = self._asked_ns is not None and self._host.clock.now() - self._asked_ns > _BUSY_NS
        return waiting or isinstance(self.trouble, TapeBusy)

    @property
    def is_unread(self) -> bool:
        """Whether there is nothing to show for the trouble with the tape."""
        return self.trouble is not None and self.change is None

    @property
    def recorder(self) -> Run | None:
        """The newest run of a recorder on this tape."""
        return self.change.recorder if self.change is not None else None

    @property
    def wall_ns(self) -> int:
        """The wall time, in ns."""
        return self._host.clock.wall_ns()

    @property
    def fitting(self) -> int:
        """How many exchanges fit, those included that are not in the list yet."""
        return len(self.catalog) + self.catalog.arrived

    async def load(self, known: Sequence[int] = ()) -> Mapping[int, str] | None:
        """Read the list that is wanted; give the ids of the exchanges `known` by number, None if there is trouble.

        Raises `Superseded`.
        """
        wanted = self.wanted
        self._asked_ns = self._host.clock.now()
        try:
            found = await self._host.tape.ask(questions.load(wanted, self._host.clock, known), f"list {self._name}")
        except WiretapeError as error:
            self._asked_ns = None
            self._fail(error)
            return None
        self._asked_ns, self.trouble, self._openings = None, None, self._host.tape.openings
        self.took_ns, self.change, self.started, self._loaded = found.took_ns, found.change, found.started, wanted
        self.catalog = Catalog(found.numbers, by_time=wanted.order is None)
        self.catalog.put(found.rows)
        return found.ids

    async def holds(self, known: Mapping[int, str]) -> bool:
        """Say whether exchanges are still those that their numbers stood for."""
        with contextlib.suppress(Superseded, WiretapeError):  # what cannot be told is not held
            return await self._host.tape.ask(questions.ids(list(known))) == known
        return False

    async def look(self, visible: Sequence[int]) -> "Change | None":
        """See what has changed since the tape was last looked at, and put that into the catalog.

        A tape that was replaced, or that lost exchanges, has to be loaded again: `change` is None then.
        """
        wanted, known = self.wanted, self.change
        if known is None:
            return None
        try:
            found = await self._host.tape.ask(questions.changed(wanted, known.seen, visible))
        except Superseded:
            return None
        except WiretapeError as error:
            self._fail(error)
            return None
        if self._host.tape.openings != self._openings or (found is not None and found.deleted):
            self.change = None
        if found is None or self.change is not known or self.wanted is not wanted:
            return None
        self.change = found
        return found

    def take(self, found: "Change") -> int:
        """Put into the catalog what has changed; give how many places the rest moved down at most."""
        self.catalog.drop(found.unfit)
        above = self.catalog.add(found.fits)
        self.catalog.end((one for one in found.fits if one not in found.seen.unsettled), moves=self.wanted.settles)
        self.catalog.put(found.rows) if above else self.catalog.refresh(found.rows)
        starts = [*(self.started or ()), *(row["started_at"] for row in found.rows)]
        self.started = (min(starts), max(starts)) if starts else None
        return above

    async def read(self, numbers: Sequence[int]) -> bool:
        """Read the rows of these exchanges; say whether some are gone. Raises `Superseded`."""
        catalog = self.catalog
        try:
            found = await self._host.tape.ask(questions.pages(numbers), f"pages {self._name}")
        except WiretapeError as error:
            self._fail(error)
            return False
        catalog.put(found)
        gone = set(numbers) - {row["no"] for row in found}
        catalog.drop(list(gone))
        return bool(gone)

    async def why_nothing(self) -> notices.Lines | None:
        """Say why nothing fits, term by term; None if something else is wanted by now."""
        wanted = self.wanted
        if wanted.filter is None or self.change is None:
            return None
        try:
            terms = await self._host.tape.ask(questions.terms(wanted.filter), f"terms {self._name}")
        except (Superseded, WiretapeError):
            return None
        if self.wanted is not wanted or self.change is None:
            return None
        return notices.none_match(self.change.total, terms, self.change.running)

    async def preview(self, number: int) -> Previewed | None:
        """Give what there is to say of an exchange; None if another one is asked for by now, or there is trouble.

        If it is a large one, what will decode it is made ready, and reads it: it is likely to be opened.
        """
        with contextlib.suppress(Superseded, WiretapeError):  # trouble is told by what looks for changes
            asked = questions.preview(number, self._host.limits)
            found = await self._host.tape.ask(asked, f"preview {self._name}")
            if found.row is not None and found.row["bytes"] > LARGE:
                ahead = number if found.row["outcome"] != "open" else None
                await in_thread(functools.partial(self._host.decoders.ready, ahead, found.row["bytes"]))
            return found
        return None

    async def read_known(self) -> None:
        """Read what a filter can be completed with, once."""
        if not self.known.values:
            with contextlib.suppress(Superseded, WiretapeError):  # then only names are completed
                self.known = await self._host.tape.ask(questions.known())

    def _fail(self, error: WiretapeError) -> None:
        self.trouble = error
        if not isinstance(error, TapeBusy):
            self.change, self.catalog = None, Catalog()
