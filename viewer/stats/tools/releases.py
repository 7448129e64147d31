"""The releases of a tool that one rule matches, and which of them a user means.

A rule was read from some releases and matches all between the first and the last of them. A release is given as
precisely as one likes: `0.32` is any 0.32.x. Tools without releases have commits instead.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBERS = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)(?:\.?(?:post|rc|dev)[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Releases:
    """From `first` to `last`; `read` names the releases (or commits) whose source was read."""

    first: str
    last: str
    read: Sequence[str]

    def __contains__(self, release: str) -> bool:
        wanted, first, last = map(_numbers, (release, self.first, self.last))
        if wanted is None or first is None or last is None:
            return release in (self.first, *self.read)
        return first <= wanted[: len(first)] and wanted[: len(last)] <= last and len(wanted) >= len(first)

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


def only(release: str, *read: str) -> Releases:
    """Return the releases of a rule that is known to match one of them."""
    return Releases(release, release, read or (release,))


def _numbers(release: str) -> tuple[int, ...] | None:
    found = _NUMBERS.fullmatch(release)
    return tuple(map(int, found[1].split("."))) if found else None
