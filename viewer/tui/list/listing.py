"""The data of a list, and their reading: a tape's list is loaded as a whole, then polled for changes.

A server may hold millions: only the part in sight is read, and counted in parallel, and it is read again only on
request.

Any trouble with a tape (not there yet, locked, damaged, replaced) is kept as `trouble` until it is read again.
Questions are answered in the tape's thread, where the database library is imported, beside the first frame.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import TapeBusy, WiretapeError
from wiretape.recorder.process import RecorderRun
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import notices
from wiretape.viewer.listing.catalog import PAGE, Catalog
from wiretape.viewer.listing.notices import TapeSummary, Term
from wiretape.viewer.listing.query import Query
from wiretape.viewer.query.completion import FROM_TAPE, Vocabulary
from wiretape.viewer.query.syntax import Filter, Word
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.decoder import LARGE
from wiretape.viewer.tui.base.host import Host, Superseded, in_thread

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Browsed, Change, Details, Listed, Page


class _ServerCounts(NamedTuple):
    """The exchanges of a server: all, and those that a query selects."""

    total: int
    matches: int


class Listing:
    """The exchanges that a `query` selects, as a `catalog`; `change` is the last look at the tape, or None.

    `started` is when the first and the last of them began; None if there are none. `held` is what a tape that is gone
    held.
    """

    def __init__(self, host: Host) -> None:
        self.query = Query()
        self.catalog = Catalog()
        self.change: Change | None = None
        self.started: tuple[str, str] | None = None
        self.took_ns = 0
        self.vocabulary = Vocabulary()
        self.labels: dict[str, Mapping[str, str]] = {}
        self.trouble: WiretapeError | None = None
        self.tape_summary: TapeSummary | None = None
        self._host = host
        self._name = f"{id(self)}"  # another list's questions are none of this one's
        self._loaded: Query | None = None
        self._asked_ns: int | None = None
        self._page: Page | None = None
        self._counts: _ServerCounts | None = None

    @property
    def total(self) -> int | None:
        """The number of exchanges; None if it is not known yet."""
        if self._page is not None:
            return None if self._counts is None else self._counts.total
        return None if self.change is None else self.change.total

    @property
    def is_loading(self) -> bool:
        return self._asked_ns is not None

    @property
    def is_current(self) -> bool:
        """True if the catalog is that of the query, rather than of the one before."""
        return self._loaded == self.query

    @property
    def is_busy(self) -> bool:
        is_late = self._asked_ns is not None and self._host.clock.now() - self._asked_ns > 2_000_000_000
        return is_late or isinstance(self.trouble, TapeBusy)

    @property
    def is_unread(self) -> bool:
        """True if trouble with the tape has left nothing to show."""
        return self.trouble is not None and self.change is None

    @property
    def stays(self) -> bool:
        """True if the page read is that of the query, so that trouble takes nothing away."""
        return self._page is not None and self.change is not None and self.is_current

    @property
    def recorder(self) -> RecorderRun | None:
        """The newest run of a recorder on this tape."""
        return self.change.recorder if self.change is not None else None

    def at_present(self, look: Look) -> Look:
        """Return a look with the time, and whether a recorder runs."""
        wall_ns, run = self._host.clock.wall_ns(), self.recorder
        return replace(look, wall_ns=wall_ns, recording=run is not None and run.state(wall_ns) == "running")

    @property
    def match_count(self) -> int:
        """The number of matching exchanges, with new arrivals; for a server, those that were read."""
        if self._counts is not None:
            return self._counts.matches
        return len(self.catalog) + self.catalog.arrived

    async def load(self, numbers: Sequence[int] = ()) -> Mapping[int, str] | None:
        """Read the list; return the ids of the exchanges `numbers` by number, None if there is trouble.

        Raises `Superseded`.
        """
        query = self.query
        self._asked_ns = self._host.clock.now()  # a list that takes over two seconds is called busy
        try:
            loaded, ids = await self._host.list_reader.read(
                partial(_load, query=query, clock=self._host.clock, numbers=numbers), f"list {self._name}"
            )
        except WiretapeError as error:
            self._asked_ns = None
            self._fail(error)
            return None
        self._asked_ns, self.trouble = None, None
        self.took_ns, self.change, self.started, self._loaded = loaded.took_ns, loaded.change, loaded.started, query
        self._page, self._counts = loaded.page, None
        self.catalog = Catalog(loaded.numbers, by_time=query.order is None and loaded.page is None)
        self.catalog.put(loaded.rows)
        return ids

    async def count(self) -> None:
        """Count a server's exchanges, and the matches; that may take longer than the list itself."""
        query, page = self.query, self._page
        if page is None:
            return
        with contextlib.suppress(Superseded, WiretapeError):  # then it stays unknown
            matches = len(self.catalog)
            if page.goes_on:
                matches = await self._host.list_reader.read(partial(_count, query=query), f"count {self._name}")
            total = matches  # without a filter, the count is the same: one question less
            if query.filter is not None:
                total = await self._host.list_reader.read(partial(_count, query=Query()), f"count {self._name}")
            if self._page is page:
                self._counts = _ServerCounts(total, matches)

    def goes_on(self, numbers: Sequence[int]) -> bool:
        """Return True if there is more to list, and one of these exchanges is near the end of the part read."""
        if self._page is None or not self._page.goes_on:
            return False
        return any((self.catalog.place(number) or 0) >= len(self.catalog) - 2 * PAGE for number in numbers)

    async def extend(self) -> bool:
        """Read the next numbers of a server; return True if there are any. Raises `Superseded`."""
        query, page = self.query, self._page
        if page is None:
            return False
        try:
            next_page = await self._host.list_reader.read(
                lambda source: source.further(query.filter, query.order, page), f"extend {self._name}"
            )
        except WiretapeError as error:
            self._fail(error)
            return False
        if self._page is not page:  # the list was loaded again meanwhile
            return False
        self._page = next_page
        self.catalog.extend(next_page.numbers)
        return bool(next_page.numbers)

    async def holds(self, ids: Mapping[int, str]) -> bool:
        """Return True if numbers still belong to the same exchanges; False if the tape cannot be read."""
        with contextlib.suppress(Superseded, WiretapeError):
            return await self._host.list_reader.read(lambda source: source.ids(list(ids))) == ids
        return False

    async def look(self, visible: Sequence[int]) -> "Change | None":
        """Return the changes since the last check, None if there are none.

        A tape that was replaced, or that lost exchanges, has to be loaded again: `change` is None then.
        """
        query, previous = self.query, self.change
        if previous is None or not self._host.list_reader.place.supports("changes"):
            return None
        try:
            change = await self._host.list_reader.read(lambda source: source.changes(query.filter, previous, visible))
        except Superseded:
            return None
        except WiretapeError as error:
            self._fail(error)
            return None
        if change is not None and change.deleted:
            self.change = None
        if change is None or self.change is not previous or self.query is not query:  # of a list that is gone
            return None
        self.change = change
        return change

    def take(self, change: "Change") -> int:
        """Put changes into the catalog; return the maximum number of places that other rows moved down."""
        self.catalog.drop(change.unfit)
        above = self.catalog.add(change.fits)
        settled = (number for number in change.fits if number not in change.seen.unsettled)
        self.catalog.end(settled, moves=self.query.settles)
        self.catalog.put(change.rows) if above else self.catalog.refresh(change.rows)
        starts = [*(self.started or ()), *(row.started_at for row in change.rows)]
        self.started = (min(starts), max(starts)) if starts else None
        return above

    async def read(self, numbers: Sequence[int]) -> bool:
        """Read the rows of these exchanges; return True if some are gone. Raises `Superseded`."""
        catalog = self.catalog
        try:
            rows = await self._host.list_reader.read(lambda source: source.visible(numbers), f"pages {self._name}")
        except WiretapeError as error:
            self._fail(error)
            return False
        if self.stays:
            self.trouble = None
        catalog.put(rows)
        missing = set(numbers) - {row.no for row in rows}
        catalog.drop(list(missing))
        return bool(missing)

    async def read_around(self, number: int | None, most: int) -> list[ListRow]:
        """Return `most` rows around an exchange, or from the top: running ones are measured. Raises `Superseded`."""
        places, previous_count = self.catalog.places_around(number, most), most + 1
        for page in self.catalog.missing(places.start, places.stop - 1):
            await self.read(page)
        while True:
            rows = [row for place in places if (row := self.catalog.row(place)) is not None]
            unmeasured = [row.no for row in rows if row.outcome == "open" and row.bytes and row.events is None]
            if not unmeasured or len(unmeasured) >= previous_count:  # those that are too large stay so
                return rows
            previous_count = len(unmeasured)
            await self.read(unmeasured)

    async def read_labels(self, rows: Sequence[ListRow]) -> None:
        # Others are dropped: a viewer may show a live tape for days.
        self.labels = {row.id: self.labels[row.id] for row in rows if row.id in self.labels}
        new = tuple(row.no for row in rows if row.id not in self.labels)
        with contextlib.suppress(WiretapeError):  # `look` reports the trouble
            self.labels |= await self._host.list_reader.read(partial(_labels, numbers=new)) if new else {}

    @property
    def label_keys(self) -> list[str]:
        return sorted({key for labels in self.labels.values() for key in labels})

    async def why_nothing(self) -> notices.Lines | None:
        """Return the matches of each term if no exchange matches; None if the query has changed."""
        query, change = self.query, self.change
        if query.filter is None or change is None:
            return None
        with contextlib.suppress(Superseded, WiretapeError):
            terms = await self._host.list_reader.read(partial(_terms, filter=query.filter), f"terms {self._name}")
            if self.query is query and self.change is not None:
                return notices.none_match(self.change.total, terms, self.change.running)
        return None

    async def details(self, number: int) -> "Details | None":
        """Return the preview's data on an exchange; None if it shows another one by now, or there is trouble.

        A decoder is made ready for a large one: it is likely to be opened.
        """
        with contextlib.suppress(Superseded, WiretapeError):  # `look` reports the trouble
            details = await self._host.list_reader.read(
                lambda source: source.details(number, self._host.limits), f"preview {self._name}"
            )
            row = None if details.preview is None else details.preview.row
            is_here = self._host.list_reader.place.supports("bodies")
            if row is not None and row.bytes is not None and row.bytes > LARGE and is_here:
                ahead = number if row.outcome != "open" else None
                await in_thread(partial(self._host.decoders.ready, ahead, row.bytes))
            return details
        return None

    async def advice(self) -> str | None:
        """Return advice about measures of an older decoder, if there are any."""
        with contextlib.suppress(Superseded, WiretapeError):  # then the list reports the trouble with the tape
            return await self._host.list_reader.read(lambda source: source.advice())
        return None

    async def read_vocabulary(self) -> None:
        if not self.vocabulary.values:
            with contextlib.suppress(Superseded, WiretapeError):  # then only names are completed
                self.vocabulary = await self._host.list_reader.read(_vocabulary)

    def _fail(self, error: WiretapeError) -> None:
        self.trouble = error
        if self.change is not None:
            self.tape_summary = TapeSummary(self.change.total, self.started if self.query.filter is None else None)
        # A locked tape is the same tape, and a part that a server has sent stays true: both go on showing their rows.
        if not isinstance(error, TapeBusy) and (self.change is None or self._page is None):
            self.change, self.catalog = None, Catalog()


def _load(source: "Browsed", query: Query, clock: Clock, numbers: Sequence[int]) -> tuple["Listed", dict[int, str]]:
    return source.listed(query.filter, query.order, clock), source.ids(numbers)


def _count(source: "Browsed", query: Query) -> int:
    from wiretape.viewer.source.base import Selection

    return source.count(Selection(query.filter))


def _labels(source: "Browsed", numbers: tuple[int, ...]) -> dict[str, Mapping[str, str]]:
    from wiretape.viewer.source.base import Selection

    return {row["id"]: row["labels"] or {} for row in source.rows(("id", "labels"), Selection(numbers=numbers))}


def _terms(source: "Browsed", filter: Filter) -> list[Term]:
    """Count the matches of each term of a filter alone; of a term without any, also those of the suggested one."""
    from wiretape.viewer.source.base import Selection

    terms = []
    # Each term is counted by a query of its own: a filter may have hundreds.
    for term, count in source.alone(filter, 8):
        other = notices.meant(term) if not count else None
        # A search of all prompts takes too long, so a word is suggested without its count.
        is_meant = other is not None and (isinstance(term, Word) or source.count(Selection(other)) > 0)
        terms.append(Term(str(term), count, str(other) if is_meant else None))
    return terms


def _vocabulary(source: "Browsed") -> Vocabulary:
    from wiretape.viewer.export import fields
    from wiretape.viewer.query.fields import FIELDS, MEANINGS
    from wiretape.viewer.text.formatting import host

    values = {name: source.values(name) for name in FROM_TAPE}
    values |= {"upstream": list(dict.fromkeys(map(host, values["upstream"])))}
    return Vocabulary(values, fields.meanings(name for name in FIELDS if name not in MEANINGS) | MEANINGS)
