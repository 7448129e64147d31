"""Pure: where a text may be cut: between what people take for characters, the grapheme clusters of Unicode (UAX 29).

A cluster is at most `LONGEST` code points long here: what is longer is hostile, and is cut.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from regex import Pattern

LONGEST: Final = 256

_JOINING: Final = ("Extend", "ZWJ", "SpacingMark", "Prepend", "Regional_Indicator", "L", "V", "T")


def ends(text: str) -> Iterator[int]:
    """Yield the end of each cluster of a text."""
    for match in _patterns()[0].finditer(text):
        yield from range(match.start() + LONGEST, match.end(), LONGEST)
        yield match.end()


def are_single(text: str) -> bool:
    """Return whether each code point of a text is a cluster of its own, whatever follows it that is single too."""
    return text.isascii() or _patterns()[1].search(text) is None


def boundary(text: str, at: int) -> int:
    """Return the first place at or after `at` at which a text may be cut."""
    if at <= 0 or at >= len(text) or text[at - 1 : at + 1].isascii():
        return at
    base = at - 1
    while base > max(at - LONGEST, 0) and not text[base].isascii():
        base -= 1
    return next((base + end for end in ends(text[base : at + LONGEST]) if base + end >= at), at)


@functools.cache
def _patterns() -> "tuple[Pattern[str], Pattern[str]]":
    """Return what matches a cluster, and what matches a code point that can be a part of a longer one."""
    import regex  # only a text that is not ASCII needs it

    joining = "".join(rf"\p{{Grapheme_Cluster_Break={name}}}" for name in _JOINING)
    return regex.compile(r"\X"), regex.compile(f"[{joining}]")
