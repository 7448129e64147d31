"""Pure: where two texts diverge, and how each goes on. Texts may have millions of characters."""

from dataclasses import dataclass
from typing import Final

CONTEXT: Final = 400
"""How many characters are quoted before and after the place where texts diverge."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two texts diverge: the first `at` characters are the same.

    `before` is the end of those, `a` and `b` are how each text goes on. `is_cut` says whether the common beginning is
    longer than `before`; `more_a` and `more_b` are how many characters follow what is quoted.
    """

    at: int
    before: str
    a: str
    b: str
    is_cut: bool
    more_a: int
    more_b: int


def common_prefix_length(a: str, b: str) -> int:
    """Return how many characters two texts have in common at their beginning, by comparing halves."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def divergence(a: str, b: str, growing: tuple[bool, bool] = (False, False)) -> Divergence | None:
    """Return where two texts diverge; None if they are the same, or one that is still `growing` is not that far yet."""
    at = common_prefix_length(a, b)
    if at == len(a) == len(b) or (at == len(a) and growing[0]) or (at == len(b) and growing[1]):
        return None
    start, end = max(at - CONTEXT, 0), at + CONTEXT
    more_a, more_b = (max(len(text) - end, 0) for text in (a, b))
    return Divergence(at, a[start:at], a[at:end], b[at:end], start > 0, more_a, more_b)


def sameness(a: str, b: str, growing: tuple[bool, bool] = (False, False)) -> str:
    """Return in words in which way two texts are the same."""
    if not a and not b:
        return "neither has any text" + (" yet" if any(growing) else "")
    if not (a and b):
        return f"{'B' if a else 'A'} has no text yet"
    return "both texts are the same" + (" so far" if any(growing) else "")


def description(divergence: Divergence, text: str) -> str:
    """Return in words how far two texts are the same; `text` is one of them."""
    at = divergence.at
    if not at and not (divergence.a and divergence.b):
        return f"only {'A' if divergence.a else 'B'} has any text"
    if not at:
        return "they differ from the first character on"
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"the same up to character {at:,} (line {line:,}, column {column:,})"
