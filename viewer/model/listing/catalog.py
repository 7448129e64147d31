"""Pure: a list of exchanges that may be as long as a tape: the numbers of all, and the rows of those lately looked at.

By time, the numbers ascend and are counted from the end, the newest first: what arrives is appended, and moves nothing.
In another order the numbers stand as they were sorted, and arrivals are only counted, until somebody sorts again. Rows
come in pages, of which the longest unused are forgotten. Reading numbers and rows from a tape is left to `watching`.
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from viewer.rows import Row

PAGE: Final = 128
"""So many rows are read at once."""

_PAGES_KEPT: Final = 64


class Catalog:
    """The exchanges of a list by their place in it; place 0 is at the top."""

    def __init__(self, numbers: Sequence[int] = (), *, by_time: bool = True) -> None:
        """Take the numbers: ascending, if it is `by_time`, else in their order from the top."""
        self.by_time = by_time
        self._waiting: set[int] = set()
        self._ended: set[int] = set()
        self._numbers = array("q", numbers)
        self._places: dict[int, int] | None = None
        self._pages: OrderedDict[int, dict[int, Row]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def arrived(self) -> int:
        """How many have arrived that are not in the list, as it is in another order."""
        return len(self._waiting)

    @property
    def ended(self) -> int:
        """How many have ended since they were sorted, and may stand elsewhere now."""
        return len(self._ended)

    def number(self, place: int) -> int:
        """Give the number of the exchange at a place."""
        return self._numbers[self._index(place)]

    def numbers(self) -> list[int]:
        """Give all numbers, from the top."""
        listed = self._numbers.tolist()
        return listed[::-1] if self.by_time else listed

    def place(self, number: int) -> int | None:
        """Give the place of an exchange; None if it is not in the list."""
        if self.by_time:
            index = bisect_left(self._numbers, number)
            found = index < len(self._numbers) and self._numbers[index] == number
            return len(self._numbers) - 1 - index if found else None
        if self._places is None:
            self._places = {one: place for place, one in enumerate(self._numbers)}
        return self._places.get(number)

    def nearest(self, number: int) -> int:
        """Give the place of an exchange, or else where it would stand by time; in another order, the top."""
        place = self.place(number)
        if place is not None:
            return place
        if not self.by_time or not self._numbers:
            return 0
        return min(max(len(self._numbers) - bisect_left(self._numbers, number), 0), len(self._numbers) - 1)

    def row(self, place: int) -> Row | None:
        """Give the row at a place; None if it has to be read first."""
        index = self._index(place)
        page = self._pages.get(index // PAGE)
        return None if page is None else page.get(self._numbers[index])

    def wanted(self, first: int, last: int) -> list[list[int]]:
        """Give the numbers of each page, between two places, of which rows are missing; and keep the others longer."""
        if not self._numbers:
            return []
        ends = (self._index(max(first, 0)), self._index(min(last, len(self) - 1)))
        missing = []
        for number in range(min(ends) // PAGE, max(ends) // PAGE + 1):
            listed = self._numbers[number * PAGE : (number + 1) * PAGE]
            page = self._pages.get(number)
            if page is not None:
                self._pages.move_to_end(number)
            if page is None or any(one not in page for one in listed):
                missing.append(listed.tolist())
        return missing

    def put(self, found: Iterable[Row]) -> None:
        """Take rows in, each with its `no`; those that are not in the list are left out."""
        for row in found:
            place = self.place(row["no"])
            if place is not None:
                self._pages.setdefault(self._index(place) // PAGE, {})[row["no"]] = row
        while len(self._pages) > _PAGES_KEPT:
            self._pages.popitem(last=False)

    def refresh(self, found: Iterable[Row]) -> None:
        """Take newer rows of exchanges that are looked at; of the others, nothing is kept."""
        self.put(row for row in found if self._is_kept(row["no"]))

    def end(self, numbers: Iterable[int], *, moves: bool) -> None:
        """Take note that exchanges have ended: their rows are read again; where that `moves` them, they are counted."""
        listed = [(one, place) for one in numbers if (place := self.place(one)) is not None]
        for one, place in listed:
            self._pages.get(self._index(place) // PAGE, {}).pop(one, None)
        if moves and not self.by_time:
            self._ended.update(one for one, _ in listed)

    def add(self, numbers: Iterable[int]) -> int:
        """Take in exchanges that are new, or fit only now; give how many places everything below moved down at most."""
        added = sorted(one for one in numbers if self.place(one) is None)
        if not self.by_time:
            self._waiting.update(added)
            return 0
        for one in added:
            index = (
                len(self._numbers) if not self._numbers or one > self._numbers[-1] else bisect_left(self._numbers, one)
            )
            self._insert(index, one)
        return len(added)

    def drop(self, numbers: Sequence[int]) -> None:
        """Take out exchanges that do not fit any more, or are gone."""
        self._waiting.difference_update(numbers)
        self._ended.difference_update(numbers)
        dropped = {one for one in numbers if self.place(one) is not None}
        if dropped:
            self._numbers = array("q", (one for one in self._numbers if one not in dropped))
            self._places = None
            self._pages.clear()

    def _insert(self, index: int, number: int) -> None:
        if index < len(self._numbers):  # it stands before others, whose pages move
            for page in [page for page in self._pages if page >= index // PAGE]:
                del self._pages[page]
        self._numbers.insert(index, number)

    def _is_kept(self, number: int) -> bool:
        place = self.place(number)
        return place is not None and self._index(place) // PAGE in self._pages

    def _index(self, place: int) -> int:
        return len(self._numbers) - 1 - place if self.by_time else place
