"""Pure: a list of exchanges that may be as long as a tape: their numbers, the rows seen lately, and the marks.

By time, the numbers ascend and are counted from the end, the newest first: new ones are appended, and move nothing. In
another order the numbers stand as they were sorted, and arrivals are only counted, until somebody sorts again; a list
that is read by and by is extended below. Rows come in pages; the least recently used are dropped.
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import Final

from wiretape.viewer.record.rows import ListRow

PAGE: Final = 128
"""Number of rows per query."""

MOST_MARKS: Final = 20
"""Maximum number of marked exchanges."""


class Catalog:
    """The exchanges of a list by their place in it; place 0 is at the top."""

    def __init__(self, numbers: Sequence[int] = (), *, by_time: bool = True) -> None:
        """Create a list of numbers: ascending, if it is `by_time`, else in their order from the top."""
        self.by_time = by_time
        self._arrived: set[int] = set()
        self._finished: set[int] = set()
        self._numbers: MutableSequence[int] = _compact(numbers)
        self._places: dict[int, int] | None = None
        self._pages: OrderedDict[int, dict[int, ListRow]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def arrived(self) -> int:
        """The number of arrivals that are not in the list, as it is in another order."""
        return len(self._arrived)

    @property
    def finished_count(self) -> int:
        """The number of exchanges that have ended since they were sorted, and may have another place now."""
        return len(self._finished)

    def number(self, place: int) -> int:
        return self._numbers[self._index(place)]

    def numbers(self) -> list[int]:
        numbers = list(self._numbers)
        return numbers[::-1] if self.by_time else numbers

    def place(self, number: int) -> int | None:
        """Return the place of an exchange; None if it is not in the list."""
        if self.by_time:
            index = bisect_left(self._numbers, number)
            is_listed = index < len(self._numbers) and self._numbers[index] == number
            return len(self._numbers) - 1 - index if is_listed else None
        if self._places is None:
            self._places = {number_at: place for place, number_at in enumerate(self._numbers)}
        return self._places.get(number)

    def nearest(self, number: int) -> int:
        """Return the place of an exchange, or else where it would stand by time; in another order, the top."""
        place = self.place(number)
        if place is not None:
            return place
        if not self.by_time or not self._numbers:
            return 0
        return min(max(len(self._numbers) - bisect_left(self._numbers, number), 0), len(self._numbers) - 1)

    def places_around(self, number: int | None, most: int) -> range:
        """Return the places around an exchange, `most` at most; those from the top if it is near that, or None."""
        middle = 0 if number is None else self.nearest(number)
        first_place = max(min(middle - most // 2, len(self) - most), 0)
        return range(first_place, min(first_place + most, len(self)))

    def row(self, place: int) -> ListRow | None:
        index = self._index(place)
        return self._pages.get(index // PAGE, {}).get(self._numbers[index])

    def missing(self, first_place: int, last_place: int) -> list[list[int]]:
        """Return the numbers of each page in a range that lacks rows; mark the pages held there as recently used."""
        if not self._numbers:
            return []
        ends = (self._index(max(first_place, 0)), self._index(min(last_place, len(self) - 1)))
        pages = []
        for number in range(min(ends) // PAGE, max(ends) // PAGE + 1):
            page_numbers = self._numbers[number * PAGE : (number + 1) * PAGE]
            page = self._pages.get(number, {})
            if page:
                self._pages.move_to_end(number)
            if any(number_in_page not in page for number_in_page in page_numbers):
                pages.append(list(page_numbers))
        return pages

    def put(self, rows: Iterable[ListRow]) -> None:
        """Keep rows, each with its `no`; those that are not in the list are left out."""
        for row in rows:
            place = self.place(row.no)
            if place is not None:
                self._pages.setdefault(self._index(place) // PAGE, {})[row.no] = row
        while len(self._pages) > 64:
            self._pages.popitem(last=False)

    def refresh(self, rows: Iterable[ListRow]) -> None:
        places = ((row, self.place(row.no)) for row in rows)
        self.put(row for row, place in places if place is not None and self._index(place) // PAGE in self._pages)

    def end(self, numbers: Iterable[int], *, moves: bool) -> None:
        """Forget the rows of exchanges that have ended; where that `moves` them in the order, they are counted."""
        for number in numbers:
            place = self.place(number)
            if place is not None:
                self._pages.get(self._index(place) // PAGE, {}).pop(number, None)
                if moves and not self.by_time:
                    self._finished.add(number)

    def add(self, numbers: Iterable[int]) -> int:
        """Add exchanges that are new, or fit only now; return how many places everything below moved down at most."""
        added = sorted(number for number in numbers if self.place(number) is None)
        if not self.by_time:
            self._arrived.update(added)
            return 0
        for number in added:
            index = bisect_left(self._numbers, number)
            if index < len(self._numbers):  # it stands before others, whose pages move
                for page in [page for page in self._pages if page >= index // PAGE]:
                    del self._pages[page]
            self._numbers.insert(index, number)
        return len(added)

    def extend(self, numbers: Sequence[int]) -> None:
        start = len(self._numbers)
        self._numbers.extend(numbers)
        if self._places is not None:
            self._places.update((number, place) for place, number in enumerate(numbers, start))

    def drop(self, numbers: Sequence[int]) -> None:
        """Remove exchanges that do not fit any more, or are gone."""
        self._arrived.difference_update(numbers)
        self._finished.difference_update(numbers)
        dropped = {number for number in numbers if self.place(number) is not None}
        if dropped:
            self._numbers = _compact([number for number in self._numbers if number not in dropped])
            self._places = None
            self._pages.clear()

    def _index(self, place: int) -> int:
        """Return the index in `_numbers` of a place; by time, these ascend, and the newest exchange is at the top."""
        return len(self._numbers) - 1 - place if self.by_time else place


def _compact(numbers: Sequence[int]) -> MutableSequence[int]:
    """Return numbers in little memory; those of a server are texts."""
    sample: object = numbers[0] if numbers else 0
    return list(numbers) if isinstance(sample, str) else array("q", numbers)


class Marks:
    """The exchanges that are marked: their numbers in the order in which they were, each with its id.

    A number is an exchange's only as long as the tape is the same: its id tells whether it still is.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    @property
    def ids(self) -> dict[int, str]:
        return dict(self._ids)

    def check(self, ids: Mapping[int, str]) -> int:
        """Unmark exchanges that are not on the tape, given the ids there; return how many these were."""
        previous_count = len(self._ids)
        self._ids = {number: id for number, id in self._ids.items() if ids.get(number) == id}
        return previous_count - len(self._ids)

    def toggle(self, number: int, id: str) -> None:
        if number in self._ids:
            del self._ids[number]
        elif len(self._ids) < MOST_MARKS:
            self._ids[number] = id

    def clear(self) -> None:
        self._ids.clear()

    def compared(self, selected: int | None) -> list[int]:
        """Return those that are marked; of one alone, that and the one selected, if that is another."""
        chosen = list(self._ids)
        if len(chosen) == 1 and selected is not None and selected != chosen[0]:
            chosen.append(selected)
        return chosen
