"""Pure: the exchanges that are marked in a list, in the order in which they were, and which two of them to compare.

A number is an exchange's only as long as the tape is the same: its id says whether it still is.
"""

from collections.abc import Iterator, Mapping
from typing import Final

MOST: Final = 20
"""So many may be marked at once."""


class Marks:
    """Exchanges by their numbers, each with its id."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    @property
    def ids(self) -> list[str]:
        """Their ids."""
        return list(self._ids.values())

    @property
    def known(self) -> dict[int, str]:
        """Their ids by their numbers."""
        return dict(self._ids)

    def check(self, ids: Mapping[int, str]) -> int:
        """Take the marks away from exchanges that are not on the tape, given the ids there; say how many these were."""
        kept = {number: id for number, id in self._ids.items() if ids.get(number) == id}
        lost, self._ids = len(self._ids) - len(kept), kept
        return lost

    def toggle(self, number: int, id: str) -> None:
        """Mark an exchange, as far as there may be another one, or take its mark away."""
        if number in self._ids:
            del self._ids[number]
        elif len(self._ids) < MOST:
            self._ids[number] = id

    def clear(self) -> None:
        """Take all marks away."""
        self._ids.clear()

    def pair(self, selected: int | None) -> tuple[int, int] | None:
        """Give the two that are marked, or the one that is and the one selected; None if these are not two."""
        chosen = list(self._ids)
        if len(chosen) == 1 and selected is not None and selected != chosen[0]:
            chosen.append(selected)
        return (chosen[0], chosen[1]) if len(chosen) == 2 else None
