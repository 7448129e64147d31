"""Pure: where two texts part: how long their common beginning is, and what each says there.

Texts may have millions of characters: they are compared in halves, each by one comparison of memory, and only what
stands around the place is given out.
"""

from dataclasses import dataclass
from typing import Final

BEFORE: Final = 400
AFTER: Final = 400


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two texts part: `at` characters are the same; the end of those, and how each goes on.

    `cut` says whether the common beginning is longer than `before`, and `more_a` and `more_b` how many characters
    follow what is given.
    """

    at: int
    before: str
    a: str
    b: str
    cut: bool
    more_a: int
    more_b: int


def common(a: str, b: str) -> int:
    """Give how many characters two texts have in common at their beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def divergence(a: str, b: str, growing: tuple[bool, bool] = (False, False)) -> Divergence | None:
    """Say where two texts part; None if they are the same, as far as those are there that are still `growing`."""
    at = common(a, b)
    if at == len(a) == len(b) or (at == len(a) and growing[0]) or (at == len(b) and growing[1]):
        return None
    start = max(at - BEFORE, 0)
    ends = [min(at + AFTER, len(text)) for text in (a, b)]
    return Divergence(at, a[start:at], a[at : ends[0]], b[at : ends[1]], start > 0, len(a) - ends[0], len(b) - ends[1])


def same(a: str, b: str, growing: tuple[bool, bool] = (False, False)) -> str:
    """Say in which way two texts are the same."""
    if not a and not b:
        return "neither has any text" + (" yet" if any(growing) else "")
    if not (a and b):
        return f"{'B' if a else 'A'} has no text yet"
    return "both texts are the same" + (" so far" if any(growing) else "")


def told(found: Divergence, text: str) -> str:
    """Say how far two texts, of which one is given, are the same."""
    if not (found.at or (found.a and found.b)):
        return f"only {'A' if found.a else 'B'} has any text"
    if not found.at:
        return "they differ from the first character on"
    line, column = place(text, found.at)
    return f"the same up to character {found.at:,} (line {line:,}, column {column:,})"


def place(text: str, at: int) -> tuple[int, int]:
    """Give the line and the column of a character, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
